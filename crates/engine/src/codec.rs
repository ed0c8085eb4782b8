//! Format of a test packet on a path: whole Ethernet frames, or payloads whose headers are the kernel's.

pub(crate) mod captured;
pub(crate) mod mix;
pub(crate) mod tagged;

use crate::FlowSet;
use captured::Came;
use mpps_io::{Frame, Reason, RxChecksum, addresses};
use mpps_wire::changes::Changes;
use mpps_wire::{
    Blank, Checker, IcmpError, PayloadTemplate, Quoted, Reject, STAMP_LEN, Stamp, Template, UdpPacket, check_udp,
    parse_quoted, udp_checksum_open, verify_data,
};
use std::net::IpAddr;

/// Reason why a received packet is none of this test's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// No UDP packet: other traffic of the network.
    NotUdp,
    /// A fragment.
    Fragment,
    /// Another address or another port.
    WrongAddress,
    WrongPort,
    /// A port that another program of this host has open.
    HostPort,
    /// No stamp, or one that this run can't have written.
    NotStamped,
    OtherRun,
    /// A packet of this run as it was sent, by the port that it left by.
    Looped,
}

impl Foreign {
    pub(crate) const ALL: [Self; 8] = [
        Self::NotUdp,
        Self::Fragment,
        Self::WrongAddress,
        Self::WrongPort,
        Self::HostPort,
        Self::NotStamped,
        Self::OtherRun,
        Self::Looped,
    ];

    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::NotUdp => Reason::ForeignNotUdp,
            Self::Fragment => Reason::ForeignFragment,
            Self::WrongAddress => Reason::ForeignWrongAddress,
            Self::WrongPort => Reason::ForeignWrongPort,
            Self::HostPort => Reason::HostPort,
            Self::NotStamped => Reason::ForeignNotStamped,
            Self::OtherRun => Reason::ForeignOtherRun,
            Self::Looped => Reason::ForeignLooped,
        }
    }
}

/// Class of a received frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class {
    /// A test packet, intact; the windows decide whether this run sent it.
    Test { flow: u32, stamp: Stamp },
    /// A packet without a tag, by its stream and the number of its content.
    Content { stream: usize, content: u32 },
    /// A packet with the headers of a stream without a tag, of which nobody knows which it is.
    Untagged { stream: usize },
    /// A packet of the test by its addresses, but its checksum, length or data is wrong.
    Corrupt,
    /// A packet that is none of the test's.
    Foreign(Foreign),
    /// Not UDP: perhaps a question that mpps answers (ARP, neighbour discovery, ping).
    SlowPath,
}

/// Changes of headers that were found, by stream, and room for those of a packet as it was sent.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    changes: Vec<Changes>,
    sent: Vec<u8>,
}

impl Compared {
    /// Returns the changes of all streams.
    pub(crate) fn into_changes(self) -> Changes {
        let mut all = Changes::default();
        self.changes.iter().for_each(|changes| all.add(changes));
        all
    }
}

/// Writes the test packets of one path, all of one length. Generic parameter of the lane, so that it is inlined.
pub(crate) trait Writer {
    /// Returns the bytes of every frame.
    fn frame_len(&self) -> usize;
    /// Writes a whole test packet of a flow, whose ports are given; it is [`Writer::frame_len`] bytes long.
    fn write(&self, frame: Blank<'_>, time_ns: u64);
    /// Writes each of several frames as [`Writer::write`] does.
    #[inline(always)]
    fn write_all<'f>(&self, frames: impl Iterator<Item = Blank<'f>>, time_ns: u64) {
        frames.for_each(|frame| self.write(frame, time_ns));
    }
    /// Changes the send time of a packet written before.
    fn restamp(&self, bytes: &mut [u8], time_ns: u64);
}

/// Reads the test packets of one path. Generic parameter of the lane, so that it is inlined.
pub(crate) trait Reader {
    /// Whether there may be several streams, or several sizes.
    const MIXED: bool = false;
    /// Returns the statement of an ICMP error on a packet that this run has sent; `None` for any other frame.
    fn quoted(&self, _frame: &[u8]) -> Option<IcmpError> {
        None
    }
    /// Returns a stamp whose number and time are whole, if packets have parts of them only. `next`: number that is due
    /// next in the flow.
    #[inline(always)]
    fn whole(&self, stamp: Stamp, _next: impl FnOnce() -> u64, _now_ns: u64) -> Stamp {
        stamp
    }
    /// Returns the stream of a flow, and the flow's number in it.
    #[inline(always)]
    fn stream_of(&self, flow: u32) -> (usize, u32) {
        (0, flow)
    }
    /// Returns the number of a packet's image: of its size in its stream.
    #[inline(always)]
    fn image_of(&self, _stream: usize, _flow: u32, _seq: u64) -> usize {
        0
    }
    /// Returns the stream that a damaged packet belongs to, by its tag, its headers or its socket.
    fn damaged<F: Frame>(&self, _frame: &F) -> Option<usize> {
        None
    }
    /// Whether packets of a stream say when they were sent. Else the sender's log does.
    #[inline(always)]
    fn is_timed(&self, _stream: usize) -> bool {
        true
    }
    /// Counts a packet without a tag that came, by its stream and the number of its content.
    fn came(&self, _stream: usize, _content: u32) -> Option<Came> {
        None
    }
    /// Compares the headers of a packet that counts as received with those that were sent. The flow is its number in
    /// the stream.
    #[inline(always)]
    fn compare<F: Frame>(&self, _frame: &F, _at: (usize, u32), _stamp: Stamp, _compared: &mut Compared) {}
    /// Classifies a packet that came back. `known` remembers the headers of packets that came back before.
    fn classify<F: Frame>(&self, frame: &F, known: &mut Checker) -> Class;
}

/// Checks length, stamp and data of a UDP payload of a known flow.
#[inline]
fn classify_payload(payload: &[u8], expected_len: usize, seed: u64, flow: u32) -> Class {
    if payload.len() != expected_len {
        return Class::Corrupt;
    }
    match Stamp::read(payload) {
        Some(stamp) if verify_data(seed, stamp.seq, &payload[STAMP_LEN..]) => Class::Test { flow, stamp },
        _ => Class::Corrupt,
    }
}

/// Addresses and ports of the test's packets, and the flows that they belong to.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) flows: FlowSet,
    /// The first source and the first destination address.
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    /// Packets arrive as they were sent; else with their addresses and ports exchanged.
    pub(crate) as_sent: bool,
}

impl Ends {
    /// Returns the source and destination address of a flow.
    #[inline]
    fn addresses(&self, flow: u32) -> (IpAddr, IpAddr) {
        let (src, dst) = self.flows.addresses(flow);
        (addresses::at(self.src, src), addresses::at(self.dst, dst))
    }

    /// Returns the flow of a packet that has arrived with these ports. Its addresses must be known to be right, and
    /// flows must differ by their ports alone.
    #[inline(always)]
    fn flow_of(&self, src_port: u16, dst_port: u16) -> Option<u32> {
        match self.as_sent {
            false => self.flows.flow_of(dst_port, src_port),
            true => self.flows.flow_of(src_port, dst_port),
        }
    }

    /// Returns the flow of a packet, or the reason why it belongs to none.
    #[inline]
    pub(crate) fn flow(&self, bytes: &[u8], packet: &UdpPacket) -> Result<u32, Foreign> {
        if !self.flows.is_plain() {
            return self.flow_by_addresses(bytes, packet);
        }
        let flow = self
            .flow_of(packet.src_port, packet.dst_port)
            .ok_or(Foreign::WrongPort)?;
        let (from, to) = match self.as_sent {
            false => (self.dst, self.src),
            true => (self.src, self.dst),
        };
        match packet.dst_ip_eq(bytes, &to) && packet.src_ip(bytes) == from {
            true => Ok(flow),
            false => Err(Foreign::WrongAddress),
        }
    }

    #[inline(never)]
    fn flow_by_addresses(&self, bytes: &[u8], packet: &UdpPacket) -> Result<u32, Foreign> {
        let (from, to) = (packet.src_ip(bytes), packet.dst_ip(bytes));
        let (src, dst, src_port, dst_port) = match self.as_sent {
            false => (to, from, packet.dst_port, packet.src_port),
            true => (from, to, packet.src_port, packet.dst_port),
        };
        let places = addresses::place(self.src, src).zip(addresses::place(self.dst, dst));
        let counts = self.flows.address_counts();
        let places = places.filter(|places| places.0 < counts.0 && places.1 < counts.1);
        let flow = self
            .flows
            .flow_at(src_port, dst_port, places.ok_or(Foreign::WrongAddress)?);
        flow.ok_or(Foreign::WrongPort)
    }
}

/// Codec of whole Ethernet frames.
#[derive(Debug)]
pub(crate) struct EthernetCodec {
    pub(crate) template: Template,
    pub(crate) ends: Ends,
    /// Packets are sent from each flow's destination to its source.
    pub(crate) turned: bool,
    pub(crate) seed: u64,
}

/// Returns the class of a frame that the parser has rejected.
#[inline]
pub(crate) fn class_of_reject(reject: Reject) -> Class {
    match reject {
        Reject::NotIp | Reject::NotUdp => Class::SlowPath,
        Reject::Fragment | Reject::SourceRouted => Class::Foreign(Foreign::Fragment),
        Reject::BadIpHeader | Reject::TooShort | Reject::BadUdpLength => Class::Corrupt,
    }
}

/// Returns whether the UDP checksum of a received frame must be verified here.
#[inline]
pub(crate) fn verify_checksum<F: Frame>(frame: &F) -> bool {
    // Good: the device has verified it. Partial: the packet never crossed a wire, and only its data can be verified.
    matches!(frame.rx_checksum(), RxChecksum::Unverified | RxChecksum::Unmarked)
}

/// Returns whether a checksum that does not fit is only unfinished.
#[cold]
pub(crate) fn left_open<F: Frame>(frame: &F, packet: &UdpPacket) -> bool {
    frame.rx_checksum() == RxChecksum::Unmarked && udp_checksum_open(frame.bytes(), packet)
}

impl EthernetCodec {
    /// Returns whether packets from and to these ends are sent by the test.
    fn sends(&self, quoted: &Quoted) -> bool {
        let (src, dst, src_port, dst_port) = match self.turned {
            false => (quoted.src, quoted.dst, quoted.src_port, quoted.dst_port),
            true => (quoted.dst, quoted.src, quoted.dst_port, quoted.src_port),
        };
        let flows = &self.ends.flows;
        let places = addresses::place(self.ends.src, src).zip(addresses::place(self.ends.dst, dst));
        let counts = flows.address_counts();
        let places = places.filter(|places| places.0 < counts.0 && places.1 < counts.1);
        places.is_some_and(|places| flows.flow_at(src_port, dst_port, places).is_some())
    }
}

impl Writer for EthernetCodec {
    #[inline]
    fn frame_len(&self) -> usize {
        self.template.frame_len()
    }

    #[inline(always)]
    fn write(&self, frame: Blank<'_>, time_ns: u64) {
        match self.ends.flows.is_plain() {
            true => {
                let stamp = frame.stamp(time_ns);
                self.template.write(frame.bytes, frame.ports.0, frame.ports.1, stamp);
            }
            false => self.write_between(frame, time_ns),
        }
    }

    #[inline(always)]
    fn write_all<'f>(&self, frames: impl Iterator<Item = Blank<'f>>, time_ns: u64) {
        match self.ends.flows.is_plain() {
            true => self.template.write_all(frames, time_ns),
            false => frames.for_each(|frame| self.write_between(frame, time_ns)),
        }
    }

    #[inline]
    fn restamp(&self, bytes: &mut [u8], time_ns: u64) {
        self.template.restamp(bytes, time_ns);
    }
}

impl Reader for EthernetCodec {
    #[cold]
    fn quoted(&self, frame: &[u8]) -> Option<IcmpError> {
        let quoted = parse_quoted(frame).filter(|quoted| self.sends(quoted))?;
        Some(quoted.error)
    }

    #[inline(always)]
    fn classify<F: Frame>(&self, frame: &F, known: &mut Checker) -> Class {
        if let Some(seen) = known.check(frame.bytes(), self.seed, verify_checksum(frame))
            && seen.checksum_ok
            && seen.data_ok
        {
            return match self.ends.flow_of(seen.src_port, seen.dst_port) {
                Some(flow) => Class::Test {
                    flow,
                    stamp: seen.stamp,
                },
                None => Class::Foreign(Foreign::WrongPort),
            };
        }
        self.classify_other(frame, known)
    }
}

impl EthernetCodec {
    /// Writes a packet of flows whose addresses vary.
    #[inline(never)]
    fn write_between(&self, frame: Blank<'_>, time_ns: u64) {
        let (src, dst) = self.ends.addresses(frame.flow);
        let addresses = if self.turned { (dst, src) } else { (src, dst) };
        let stamp = frame.stamp(time_ns);
        self.template.write_between(frame.bytes, addresses, frame.ports, stamp);
    }

    /// Classifies a frame the long way; remembers the headers of an intact one.
    #[inline(never)]
    fn classify_other<F: Frame>(&self, frame: &F, known: &mut Checker) -> Class {
        let bytes = frame.bytes();
        let checked = match check_udp(bytes, self.seed, verify_checksum(frame)) {
            Ok(checked) => checked,
            Err(reject) => return class_of_reject(reject),
        };
        let packet = &checked.packet;
        let flow = match self.ends.flow(bytes, packet) {
            Ok(flow) => flow,
            Err(why) => return Class::Foreign(why),
        };
        let whole = usize::from(packet.payload_len) == self.template.payload_len();
        let checksum_ok = checked.checksum_ok || left_open(frame, packet);
        match checked.stamp {
            Some(stamp) if checksum_ok && checked.data_ok && whole => {
                // Headers contain a flow's addresses, of which there may be many.
                if self.ends.flows.is_plain() {
                    known.remember(bytes, packet);
                }
                Class::Test { flow, stamp }
            }
            _ => Class::Corrupt,
        }
    }
}

/// Codec of payloads: the kernel has checked addresses, ports and checksum.
#[derive(Debug)]
pub(crate) struct PayloadCodec {
    pub(crate) template: PayloadTemplate,
    /// Number of the port's flows that are the test's: the first ones.
    pub(crate) flows: u32,
    pub(crate) seed: u64,
}

impl Writer for PayloadCodec {
    #[inline]
    fn frame_len(&self) -> usize {
        self.template.payload_len()
    }

    #[inline]
    fn write(&self, frame: Blank<'_>, time_ns: u64) {
        let stamp = frame.stamp(time_ns);
        self.template.write(frame.bytes, stamp);
    }

    #[inline]
    fn restamp(&self, bytes: &mut [u8], time_ns: u64) {
        self.template.restamp(bytes, time_ns);
    }
}

impl Reader for PayloadCodec {
    #[inline]
    fn classify<F: Frame>(&self, frame: &F, _known: &mut Checker) -> Class {
        match frame.flow() {
            // Longer than the buffer: cut, so its bytes alone would look right.
            Some(_) if frame.wire_len() != frame.bytes().len() => Class::Corrupt,
            Some(flow) if flow < self.flows => {
                classify_payload(frame.bytes(), self.template.payload_len(), self.seed, flow)
            }
            _ => Class::Foreign(Foreign::WrongPort),
        }
    }
}
