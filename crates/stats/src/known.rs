//! Evidence on a run's surroundings: the one list that notes, causes, verdict, pages and JSON read.

/// Subject of a piece of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownKind {
    /// A queueing discipline of this host dropped packets.
    QueueDropped,
    /// One that imitates a path (`netem`) did.
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
    /// This host had no way for packets.
    NoWay,
    /// The MTU of an interface was changed.
    MtuChanged,
    /// A router reported that packets are too long.
    TooLong,
    /// A router reported that packets had gone through too many.
    TimeExceeded,
    /// A host or router reported that the destination can't be reached.
    Unreachable,
    /// The destination reported that nobody listens.
    NobodyListens,
    /// The reverse path filter of this host dropped packets.
    ReversePathFilter,
}

impl KnownKind {
    /// Its name in the JSON.
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

    /// A time in which an interface of this host moved nothing, not from its address, or no packets of the test's
    /// length.
    pub fn is_outage(self) -> bool {
        matches!(
            self,
            Self::LinkOff | Self::NoCarrier | Self::AddressMissing | Self::NoNeighbor | Self::MtuChanged
        )
    }

    /// Packets that this host dropped, by a counter: they were not lost on the way.
    pub fn dropped_here(self) -> bool {
        matches!(self, Self::QueueDropped | Self::DeviceDropped | Self::ReversePathFilter)
    }
}

/// One piece of evidence, with its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Its subject.
    pub kind: KnownKind,
    /// A clause that says it: `eth1 had no carrier for 2.000 s`.
    pub sentence: String,
    /// Packets that it accounts for, at the most; `None`: it has no number of them.
    pub packets: Option<u64>,
    /// It may be about packets of others, and nothing tells them from those of the test.
    pub of_others: bool,
    /// When, each time, ns since the start of the run: from and to. Empty: over the whole run, or not known.
    pub when_ns: Vec<(u64, u64)>,
}

impl Known {
    /// It may be why packets are lost that were counted as sent. Without a way none is counted; an MTU matters while
    /// packets of the test are longer, and what was tried again is not lost.
    pub fn may_lose(&self) -> bool {
        match self.kind {
            KnownKind::NoWay => false,
            KnownKind::MtuChanged => !self.when_ns.is_empty(),
            _ => self.packets != Some(0),
        }
    }

    /// For how long it was within a stretch of the run, ns.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> u64 {
        let common = |&(from, to): &(u64, u64)| to.min(to_ns).saturating_sub(from.max(from_ns));
        self.when_ns.iter().map(common).sum()
    }
}
