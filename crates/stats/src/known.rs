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
            Self::NoWay => "no_way",
            Self::MtuChanged => "mtu_changed",
            Self::TooLong => "too_long",
            Self::TimeExceeded => "time_exceeded",
            Self::Unreachable => "unreachable",
            Self::NobodyListens => "nobody_listens",
            Self::ReversePathFilter => "reverse_path_filter",
        }
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
    /// When, ns since the start of the run: from and to; `None`: over the whole run, or not known.
    pub when_ns: Option<(u64, u64)>,
}
