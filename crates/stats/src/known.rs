//! Evidence on a run's surroundings: the one list that notes, causes, verdict, pages and JSON read.

/// Subject of a piece of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownKind {
    /// A queueing discipline of this host dropped packets.
    QueueDropped,
    /// A queueing discipline that imitates a path (`netem`) dropped packets.
    PathImitated,
    /// A device of this host dropped packets instead of sending them.
    DeviceDropped,
    /// An interface of this host was switched off.
    LinkOff,
    /// An interface of this host had no carrier.
    NoCarrier,
    /// This host lost an address.
    AddressMissing,
    /// The next host on the way did not answer requests for its MAC address.
    NoNeighbor,
    /// Packets could not leave this host although the device was up: there was no route, for example.
    NoWay,
    /// The MTU of an interface was changed.
    MtuChanged,
    /// A router reported that packets are too long.
    TooLong,
    /// A router reported that packets had passed too many routers.
    TimeExceeded,
    /// A host or router reported that the destination can't be reached.
    Unreachable,
    /// The destination reported that nothing listens on the port.
    NobodyListens,
    /// The reverse path filter of this host dropped packets.
    ReversePathFilter,
}

impl KnownKind {
    /// Returns the name in the JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueDropped => "queue_dropped",
            Self::PathImitated => "path_imitated",
            Self::DeviceDropped => "device_dropped",
            Self::LinkOff => "link_off",
            Self::NoCarrier => "no_carrier",
            Self::AddressMissing => "address_missing",
            Self::NoNeighbor => "no_neighbor",
            Self::NoWay => "no_way",
            Self::MtuChanged => "mtu_changed",
            Self::TooLong => "too_long",
            Self::TimeExceeded => "time_exceeded",
            Self::Unreachable => "unreachable",
            Self::NobodyListens => "nobody_listens",
            Self::ReversePathFilter => "reverse_path_filter",
        }
    }

    /// Whether this is a time in which an interface of this host moved nothing, had lost its address, or moved no
    /// packets of the test's length.
    pub fn is_outage(self) -> bool {
        matches!(
            self,
            Self::LinkOff | Self::NoCarrier | Self::AddressMissing | Self::NoNeighbor | Self::MtuChanged
        )
    }

    /// Whether a counter shows that this host dropped packets: such packets were not lost on the way.
    pub fn dropped_here(self) -> bool {
        matches!(self, Self::QueueDropped | Self::DeviceDropped | Self::ReversePathFilter)
    }
}

/// One piece of evidence, with its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Subject of the evidence.
    pub kind: KnownKind,
    /// Clause that states the evidence: `eth1 had no carrier for 2.000 s`.
    pub sentence: String,
    /// Most packets that this evidence accounts for; `None` if it has no number.
    pub packets: Option<u64>,
    /// Whether the evidence may be about packets of other programs, which nothing distinguishes from those of the test.
    pub of_others: bool,
    /// Times in ns since the start of the run: from and to. Empty if it is about the whole run, or if the times are not
    /// known.
    pub when_ns: Vec<(u64, u64)>,
}

impl Known {
    /// Whether this may be why packets that were counted as sent are lost. While packets can't leave the host, none is
    /// counted as sent. A changed MTU matters only while packets of the test are longer. Packets that were sent again
    /// are not lost.
    pub fn may_lose(&self) -> bool {
        match self.kind {
            KnownKind::NoWay => false,
            KnownKind::MtuChanged => !self.when_ns.is_empty(),
            _ => self.packets != Some(0),
        }
    }

    /// Returns how long the times in `when_ns` overlap a stretch of the run, ns.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> u64 {
        let common = |&(from, to): &(u64, u64)| to.min(to_ns).saturating_sub(from.max(from_ns));
        self.when_ns.iter().map(common).sum()
    }
}
