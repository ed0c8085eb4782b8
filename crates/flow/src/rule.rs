//! Flow rules as data.

/// One flow rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Direction, group and priority of the rule.
    pub attributes: Attributes,
    /// Headers that a packet must have, outermost first. May be empty: any packet.
    pub pattern: Vec<Item>,
    /// Actions on matching packets, in order; one at least.
    pub actions: Vec<Action>,
}

/// Direction, group and priority of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `ingress`: on packets that come in.
    pub ingress: bool,
    /// `egress`: on packets that go out.
    pub egress: bool,
    /// `transfer`: between ports of a switch.
    pub transfer: bool,
    /// `group N`.
    pub group: u32,
    /// `priority N`; 0 is the highest.
    pub priority: u32,
}

/// A value and which of its bits count: a mask of all ones is an exact match, of zeros none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masked<T> {
    /// Value that packets are compared with.
    pub spec: T,
    /// End of a range (`last`); equal to `spec` if none was given.
    pub last: T,
    /// The bits that count.
    pub mask: T,
}

/// A header of the pattern; fields that were not given match anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// `eth`: MAC addresses, EtherType.
    Eth(EthMatch),
    /// `vlan`: tag control information, inner EtherType.
    Vlan(VlanMatch),
    /// `ipv4`.
    Ipv4(Ipv4Match),
    /// `ipv6`.
    Ipv6(Ipv6Match),
    /// `udp`: ports.
    Udp(PortMatch),
    /// `tcp`: ports.
    Tcp(PortMatch),
}

/// Fields of an Ethernet header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthMatch {
    /// `dst`.
    pub dst: Option<Masked<[u8; 6]>>,
    /// `src`.
    pub src: Option<Masked<[u8; 6]>>,
    /// `type`.
    pub ethertype: Option<Masked<u16>>,
}

/// Fields of a VLAN tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlanMatch {
    /// `tci` (`vid`, `pcp` and `dei` are parts of it: 12, 3 and 1 bits).
    pub tci: Option<Masked<u16>>,
    /// `inner_type`.
    pub inner_type: Option<Masked<u16>>,
}

/// Fields of an IPv4 header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv4Match {
    /// `src`.
    pub src: Option<Masked<[u8; 4]>>,
    /// `dst`.
    pub dst: Option<Masked<[u8; 4]>>,
    /// `tos`.
    pub tos: Option<Masked<u8>>,
    /// `ttl`.
    pub ttl: Option<Masked<u8>>,
    /// `proto`.
    pub proto: Option<Masked<u8>>,
}

/// Fields of an IPv6 header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv6Match {
    /// `src`.
    pub src: Option<Masked<[u8; 16]>>,
    /// `dst`.
    pub dst: Option<Masked<[u8; 16]>>,
    /// `tc`.
    pub tc: Option<Masked<u8>>,
    /// `proto`.
    pub proto: Option<Masked<u8>>,
    /// `hop`.
    pub hop: Option<Masked<u8>>,
}

/// Fields of a UDP or TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortMatch {
    /// `src`.
    pub src: Option<Masked<u16>>,
    /// `dst`.
    pub dst: Option<Masked<u16>>,
}

/// Action on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `queue index N`.
    Queue(u16),
    /// `rss`, `rss queues 0 1 end`: spread over these queues (none given: all).
    Rss(Vec<u16>),
    /// `drop`.
    Drop,
    /// `mark id N`.
    Mark(u32),
    /// `count`.
    Count,
    /// `passthru`.
    Passthru,
}

impl Rule {
    /// The queues that its actions name, in order.
    pub fn queues(&self) -> impl Iterator<Item = u16> + '_ {
        self.actions
            .iter()
            .flat_map(|action| match action {
                Action::Queue(index) => std::slice::from_ref(index),
                Action::Rss(queues) => queues,
                _ => &[],
            })
            .copied()
    }
}
