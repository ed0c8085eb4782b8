//! Specification of a run for the programs: plain data, made by `mpps` from its plan.

use mpps_io::selection::Listed;
use mpps_io::{FlowSet, Request, Selection};
use mpps_wire::image::{Parts, Sizes};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

/// How the run is cut into rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// Length of a row, ns.
    pub interval_ns: u64,
    /// How long a packet may take to come back, ns; 0 if none does.
    pub settle_ns: u64,
}

/// Addresses that the programs answer for: ARP, neighbour solicitation, ping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// At most 8 of IPv4 and 8 of IPv6 one by one, and the range that packets are taken to. Empty if the host
    /// answers itself.
    pub addresses: Listed,
    /// Next hop whose MAC address is asked for before the run; its answers are recorded.
    pub next_hop: Option<IpAddr>,
}

/// Way of a `sendrecv` packet from its sender to its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// Back to the device that they left by, with addresses and ports exchanged.
    #[default]
    Back,
    /// To another device, as they were sent.
    Across,
    /// The same on the way back of two: each flow goes from its destination to its source.
    AcrossBack,
}

/// `sendrecv` and `send`.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficSpec {
    /// Rows.
    pub series: Series,
    /// Ethernet, VLAN and IP header of every packet; the destination's MAC address may be set later.
    pub headers: Vec<u8>,
    /// One's complement sum of the pseudo-header and of the length in the UDP header, words as they lie in memory
    /// (little-endian).
    pub sum: u16,
    /// First source and destination address of the packets that are sent; those of `headers`.
    pub src: IpAddr,
    /// See [`TrafficSpec::src`].
    pub dst: IpAddr,
    /// UDP payload, bytes: 16 or more.
    pub payload_len: usize,
    /// Seed of the data.
    pub seed: u64,
    /// Ports, and how many addresses; on the way back of two those of the way there.
    pub flows: FlowSet,
    /// The core of each lane that sends. All differ.
    pub cores: Vec<usize>,
    /// Packets are received.
    pub receive: bool,
    /// Way of the packets to the device that receives them.
    pub arrival: Arrival,
    /// Packets/s over all lanes; `None`: as fast as they go.
    pub rate_pps: Option<f64>,
    /// Without a rate: lanes send as many packets as their schedules say, and no more.
    pub counted: bool,
    /// Gaps are drawn at random.
    pub random: bool,
    /// Departures that are overdue by more than this are given up, ns.
    pub catch_up_ns: u64,
    /// Addresses answered for by the device that receives, and whose address is asked for there.
    pub answer: Answer,
    /// Packets of any headers with a tag, in place of UDP between two ends. [`TrafficSpec::headers`] are theirs.
    pub packet: Option<Parts>,
    /// Streams in place of one packet, each counted by itself, 8 at the most; [`TrafficSpec::headers`] are the first's.
    pub streams: Vec<StreamSpec>,
    /// Run of the tags.
    pub run: u8,
}

impl TrafficSpec {
    /// First source and destination address of packets where they are received, and how many there are of each.
    pub(crate) fn arriving(&self) -> [(IpAddr, u32); 2] {
        let (of_src, of_dst) = self.flows.address_counts();
        match self.arrival {
            Arrival::Back => [(self.dst, of_dst), (self.src, of_src)],
            Arrival::Across => [(self.src, of_src), (self.dst, of_dst)],
            Arrival::AcrossBack => [(self.src, of_dst), (self.dst, of_src)],
        }
    }
}

/// One of several streams. Their flows are numbered over all of them, without gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSpec {
    /// Packets of each size, smallest first: 8 sizes at the most.
    pub packets: Vec<Parts>,
    /// Order of the sizes.
    pub order: Sizes,
    /// Number of each size among the sizes that are counted by themselves, of which all streams have 16 at the most.
    /// Empty: none is.
    pub classes: Vec<usize>,
    /// They go to the next hop's MAC address, which may be set later.
    pub to_next_hop: bool,
    /// Lanes that send it, by their places in [`TrafficSpec::cores`], ascending; no more than it has flows.
    pub lanes: Vec<usize>,
    /// Packets/s over all lanes; `None`: it takes turns with the others.
    pub rate_pps: Option<f64>,
    /// Without a rate: it begins later than the run.
    pub joins: bool,
}

impl StreamSpec {
    /// Number of flows.
    pub(crate) fn flows(&self) -> u32 {
        self.packets.first().map_or(1, |packet| packet.flows)
    }

    /// Number of the first flow among those of all streams.
    pub(crate) fn first_flow(&self) -> u32 {
        self.packets.first().map_or(0, |packet| packet.first_flow)
    }
}

/// Which packets a listener takes.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Only packets to one of these addresses, one by one at most 8 of a family; empty: to any that is one host's.
    pub addresses: Listed,
    /// Only packets to these ports.
    pub ports: Option<RangeInclusive<u16>>,
    /// Ports that are the host's, ascending.
    pub excluded_ports: Vec<u16>,
    /// Addresses answered for.
    pub answer: Answer,
}

impl Taken {
    /// Returns the packets that a listener's request selects.
    pub fn of(request: &Request<'_>) -> Self {
        let (addresses, ports, excluded_ports) = match &request.selection {
            Selection::Udp {
                to, ports, excluded, ..
            } => (to.with_room(), ports.clone(), excluded.clone()),
            _ => Default::default(),
        };
        Self {
            addresses,
            ports,
            excluded_ports,
            answer: Answer {
                addresses: Listed::of(&request.answer),
                next_hop: None,
            },
        }
    }
}

/// `reflect`.
#[derive(Clone, Debug)]
pub struct ReflectSpec {
    /// Rows.
    pub series: Series,
    /// Which packets.
    pub taken: Taken,
    /// Senders that get no answer.
    pub unanswered: Unanswered,
    /// Seed of the tags by which packets are known, whatever they are addressed to; `taken` then has the reflector's
    /// own addresses. `None`: UDP packets.
    pub tagged: Option<u64>,
}

/// Sources of packets that a reflector takes and does not send back. Of each list the first 16 of a family count.
#[derive(Clone, Debug, Default)]
pub struct Unanswered {
    /// The reflector's own addresses.
    pub own: Vec<IpAddr>,
    /// Broadcast addresses of its subnets; packets sent to them are not answered, either.
    pub broadcasts: Vec<Ipv4Addr>,
    /// The device is a host's way to itself: own and loopback addresses are answered.
    pub loopback: bool,
}

/// `drop`.
#[derive(Clone, Debug)]
pub struct DropSpec {
    /// Rows.
    pub series: Series,
    /// Which packets.
    pub taken: Taken,
    /// Verify stamps and data; else every UDP packet that is taken counts as received.
    pub verify: bool,
    /// Seed of the data.
    pub seed: u64,
    /// Number of flows to follow by sequence number.
    pub max_flows: u32,
    /// Packets are known by tags of the seed, whatever they are addressed to, and followed also if they are not
    /// verified. Bytes of headers that they have at least. `None`: UDP packets.
    pub tagged: Option<usize>,
    /// Streams that are counted each by itself, 8 at the most: the number of the flow behind the last of each.
    pub streams: Vec<u32>,
}

impl DropSpec {
    /// Whether flows are followed by sequence number.
    pub(crate) fn followed(&self) -> bool {
        self.verify || self.tagged.is_some()
    }
}

/// Which frames a forwarder takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardTake {
    /// Every frame.
    All,
    /// Every frame but those for the host itself. Its addresses: at most 8 of IPv4 and 16 of IPv6.
    Foreign(Vec<IpAddr>),
    /// UDP from or to an address and ports.
    Udp {
        /// `None`: any.
        ip: Option<IpAddr>,
        /// `None`: any.
        ports: Option<RangeInclusive<u16>>,
    },
}

impl ForwardTake {
    /// Returns the frames that a forwarder's request selects; `left`: the addresses that [`Selection::Foreign`] leaves
    /// to the host.
    pub fn of(selection: &Selection, left: Vec<IpAddr>) -> Self {
        match selection {
            Selection::Foreign => Self::Foreign(left),
            Selection::Either { ip, ports, .. } => Self::Udp {
                ip: *ip,
                ports: ports.clone(),
            },
            _ => Self::All,
        }
    }
}

/// Change made to frames that leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardRewrite {
    /// Nothing.
    Io,
    /// MAC addresses change places.
    MacSwap,
    /// MAC addresses, IP addresses and UDP or TCP ports change places.
    FiveTupleSwap,
    /// To this MAC address, from the port's own.
    L2Forward {
        /// The next station.
        destination: [u8; 6],
    },
}

/// A port of `forward`.
#[derive(Clone, Debug)]
pub struct ForwardPortSpec {
    /// Name of the port, as the user wrote it.
    pub name: String,
    /// Frames taken of those that arrive by this port.
    pub take: ForwardTake,
    /// Change made to frames that leave by this port.
    pub rewrite: ForwardRewrite,
}

/// `forward`: one port that sends back, or two.
#[derive(Clone, Debug)]
pub struct ForwardSpec {
    /// Rows.
    pub series: Series,
    /// Ports, one for each device.
    pub ports: Vec<ForwardPortSpec>,
}
