//! Turning a packet round in place.
//!
//! Source and destination change places: MAC addresses, IP addresses, UDP ports. A one's complement sum does not
//! depend on the order of its words, so the UDP checksum stays right without being touched. A packet whose checksum was
//! wrong stays wrong, and its sender will notice.
//!
//! Time to live (hop limit) is lowered by one, as a router does it: two reflectors can't pass a packet to and fro for
//! ever. Its place in the IPv4 header checksum costs one addition (RFC 1624).

mod tagged;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ops::RangeInclusive;

use crate::bytes::{chunk, chunk_mut, swap_macs, swap_neighbours};
use crate::packet::{parse_any, parse_plain};
use crate::{Finish, MacAddr, Reject, UdpPacket, complete_udp_checksum, eth, ipv4, udp_checksum_open};

pub(crate) use tagged::turn_tagged;

/// Which packets are turned round. The default takes any UDP packet sent to one station.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReflectFilter {
    /// Only packets to one of these addresses, first and last included.
    pub ip: Option<RangeInclusive<IpAddr>>,
    /// Only packets to these UDP ports.
    pub ports: Option<RangeInclusive<u16>>,
    /// Only frames to this MAC address: set it on a device that may be promiscuous.
    pub mac: Option<MacAddr>,
    /// Destination ports that are somebody else's (the host's own sockets), in ascending order.
    pub excluded_ports: Box<[u16]>,
    /// The reflector's own addresses: packets that come from them were made up, or have come back.
    pub own: Box<[IpAddr]>,
    /// Broadcast addresses of its subnets, and their lowest ones, which no host has either.
    pub broadcasts: Box<[Ipv4Addr]>,
    /// The device is a host's way to itself: own and loopback addresses are senders, but for the reflector's own port.
    pub loopback: bool,
    /// The time to live is not lowered: for a device that makes up the packets that it gives, as often as it is asked.
    pub keep_ttl: bool,
    /// Only test packets with a tag of this seed, of any headers. Such a packet is taken whatever addresses and ports
    /// it is sent to. Here `ip`, `own` and `mac` are addresses of the reflector itself, and no packet comes from one.
    /// `None`: UDP packets, tagged or not.
    pub tagged: Option<u64>,
    /// Packets without a tag that are taken beside tagged ones.
    pub untagged: Box<[Untagged]>,
}

/// Packets without a tag, by their outermost IP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untagged {
    /// Protocol of IP.
    pub protocol: u8,
    /// Source and destination addresses. Empty: any.
    pub ips: [Vec<RangeInclusive<IpAddr>>; 2],
    /// Source and destination ports of UDP and TCP; others have none.
    pub ports: [RangeInclusive<u16>; 2],
}

/// Declares [`Left`] with its list and its names from one table, so that they can't differ.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a frame was not reflected.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Left { $($(#[$doc])* $name,)* }

        impl Left {
            /// All reasons, each at its [`Left::index`].
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the reason in snake_case, as summaries show it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// The frame is shorter than its headers, or than its IP packet.
    TooShort = "too_short",
    /// Neither IPv4 nor IPv6.
    NotIp = "not_ip",
    /// Malformed IP header, or a wrong IPv4 header checksum.
    BadIpHeader = "bad_ip_header",
    /// A fragment.
    Fragment = "fragment",
    /// A source route or routing header that is not used up.
    SourceRouted = "source_routed",
    /// Another protocol than UDP.
    NotUdp = "not_udp",
    /// The UDP length is below 8 or beyond the IP packet.
    BadUdpLength = "bad_udp_length",
    /// Sent to a group: its address can't be a source.
    Multicast = "multicast",
    /// Nobody to answer to: the source is no one host's address, on a wire loopback, or port 0.
    BadSource = "bad_source",
    /// To another MAC address than the filter's.
    WrongMac = "wrong_mac",
    /// To another IP address than the filter's.
    WrongAddress = "wrong_address",
    /// To a UDP port outside of the filter's.
    WrongPort = "wrong_port",
    /// To a UDP port that the host itself uses.
    HostPort = "host_port",
    /// From an address of the reflector's own.
    OwnSource = "own_source",
    /// The time to live, or hop limit, is used up.
    TtlExpired = "ttl_expired",
    /// The source returns what it is sent: it is a reflector, too. Of tagged packets: marked as returned already.
    Returned = "returned",
    /// The answer was withheld, or a probe took its place, to see whether the source returns it.
    Probed = "probed",
    /// Without the tag of a test packet, if only tagged packets are taken.
    NotTagged = "not_tagged",
}

impl Left {
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// The reason's place in [`Left::ALL`], for an array of counters.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl From<Reject> for Left {
    #[inline]
    fn from(reject: Reject) -> Self {
        match reject {
            Reject::TooShort => Self::TooShort,
            Reject::NotIp => Self::NotIp,
            Reject::BadIpHeader => Self::BadIpHeader,
            Reject::Fragment => Self::Fragment,
            Reject::SourceRouted => Self::SourceRouted,
            Reject::NotUdp => Self::NotUdp,
            Reject::BadUdpLength => Self::BadUdpLength,
        }
    }
}

impl ReflectFilter {
    /// Checks a parsed packet.
    #[inline(always)]
    fn check(&self, frame: &[u8], p: &UdpPacket) -> Result<(), Left> {
        let (dst_mac, src_mac) = (eth::destination(frame), eth::source(frame));
        let (dst_is_group, src_is_host) = addresses(frame, usize::from(p.l3), p.v6);
        if dst_mac.is_multicast() || dst_is_group {
            return Err(Left::Multicast);
        }
        if src_mac.is_multicast() || !src_is_host || p.src_port == 0 {
            return Err(Left::BadSource);
        }
        if self.mac.is_some_and(|mac| mac != dst_mac) {
            return Err(Left::WrongMac);
        }
        if self.ip.as_ref().is_some_and(|ips| !p.is_for(frame, ips)) {
            return Err(Left::WrongAddress);
        }
        if self.ports.as_ref().is_some_and(|ports| !ports.contains(&p.dst_port)) {
            return Err(Left::WrongPort);
        }
        if !self.excluded_ports.is_empty() && self.excluded_ports.binary_search(&p.dst_port).is_ok() {
            return Err(Left::HostPort);
        }
        Ok(())
    }
}

impl ReflectFilter {
    /// Whether a packet that is taken can be answered, without an answer to ourselves or to many. `same_ports`: its
    /// source port is its destination port.
    #[inline(always)]
    fn answerable(&self, frame: &[u8], l3: usize, v6: bool, same_ports: bool) -> Result<(), Left> {
        if v6 {
            let Some(both) = chunk::<32>(frame, l3 + 8) else {
                return Err(Left::TooShort);
            };
            let (src, dst) = both.split_at(16);
            let mut octets = [0; 16];
            octets.copy_from_slice(src);
            let ip = IpAddr::V6(Ipv6Addr::from(octets));
            self.not_to_itself(self.is_taken(ip, || src == dst), same_ports)?;
            self.not_ours(ip)
        } else {
            let Some(both) = chunk::<8>(frame, l3 + 12) else {
                return Err(Left::TooShort);
            };
            let src = Ipv4Addr::new(both[0], both[1], both[2], both[3]);
            let dst = Ipv4Addr::new(both[4], both[5], both[6], both[7]);
            self.not_to_itself(self.is_taken(IpAddr::V4(src), || src == dst), same_ports)?;
            if self.broadcasts.contains(&dst) {
                return Err(Left::Multicast);
            }
            if self.broadcasts.contains(&src) {
                return Err(Left::BadSource);
            }
            self.not_ours(IpAddr::V4(src))
        }
    }

    /// Whether a source is one of the addresses that packets are taken for, and so the reflector's own: an answer to it
    /// would be a packet for the reflector again. The destination is one of these addresses; if the filter names none,
    /// it is the only one known.
    #[inline(always)]
    pub(crate) fn is_taken(&self, src: IpAddr, is_destination: impl FnOnce() -> bool) -> bool {
        match &self.ip {
            Some(ips) => ips.contains(&src),
            None => is_destination(),
        }
    }

    #[inline(always)]
    fn not_to_itself(&self, taken: bool, same_ports: bool) -> Result<(), Left> {
        if taken && (!self.loopback || same_ports) {
            return Err(Left::OwnSource);
        }
        Ok(())
    }

    #[inline(always)]
    fn not_ours(&self, src: IpAddr) -> Result<(), Left> {
        if self.loopback {
            return Ok(());
        }
        if src.is_loopback() {
            return Err(Left::BadSource);
        }
        if self.own.contains(&src) {
            return Err(Left::OwnSource);
        }
        Ok(())
    }

    /// Whether a datagram from `src` to the reflector's own `port` can be answered, if the host's stack has taken
    /// all else out of it.
    ///
    /// # Errors
    /// Why not.
    pub fn check_peer(&self, src: SocketAddr, port: u16) -> Result<(), Left> {
        let ip = src.ip().to_canonical();
        let many = match ip {
            IpAddr::V4(v4) => !ipv4::is_one_host(v4) || self.broadcasts.contains(&v4),
            IpAddr::V6(v6) => v6.is_multicast() || v6.is_unspecified(),
        };
        if many || src.port() == 0 {
            return Err(Left::BadSource);
        }
        if src.port() == port && (ip.is_loopback() && self.loopback || self.own.contains(&ip)) {
            return Err(Left::OwnSource);
        }
        Ok(())
    }
}

/// Whether the destination is a group, and whether the source is an address that one host can have.
#[inline(always)]
fn addresses(frame: &[u8], l3: usize, v6: bool) -> (bool, bool) {
    if v6 {
        let Some(both) = chunk::<32>(frame, l3 + 8) else {
            return (true, false);
        };
        let unspecified = both.first_chunk() == Some(&Ipv6Addr::UNSPECIFIED.octets());
        (both[16] == 0xff, both[0] != 0xff && !unspecified)
    } else {
        let Some(both) = chunk::<8>(frame, l3 + 12) else {
            return (true, false);
        };
        let src = Ipv4Addr::new(both[0], both[1], both[2], both[3]);
        let dst = Ipv4Addr::new(both[4], both[5], both[6], both[7]);
        let group = |ip: Ipv4Addr| ip.is_multicast() || ip.is_broadcast();
        (group(dst), ipv4::is_one_host(src))
    }
}

/// Swaps MAC addresses, IP addresses and UDP ports of a frame that passes `filter`, and lowers its time to live;
/// everything else stays as it is (VLAN tags, IPv4 options, IPv6 extension headers, payload, padding).
///
/// With `complete_checksum` the UDP checksum is computed from scratch: for frames that carry only the pseudo-header's
/// sum (`CHECKSUM_PARTIAL`). With [`ReflectFilter::tagged`] packets of any headers are turned, as
/// the module `reflect::tagged` describes.
///
/// # Errors
/// Why the frame was left; it is then unchanged.
#[inline]
pub fn reflect_in_place(frame: &mut [u8], filter: &ReflectFilter, complete_checksum: bool) -> Result<(), Left> {
    if let Some(seed) = filter.tagged {
        return turn_tagged(frame, filter, seed, Finish::of(complete_checksum));
    }
    turn(frame, filter, |_, _| Ok(()), |_, _| complete_checksum)
}

/// Does the same as [`reflect_in_place`], and computes the UDP checksum if it [looks left open](udp_checksum_open): for
/// paths that can't detect which frames have an unfinished one.
///
/// # Errors
/// Why the frame was left; it is then unchanged.
#[inline]
pub fn reflect_closing_in_place(frame: &mut [u8], filter: &ReflectFilter) -> Result<(), Left> {
    if let Some(seed) = filter.tagged {
        return turn_tagged(frame, filter, seed, Finish::Look);
    }
    turn(frame, filter, |_, _| Ok(()), udp_checksum_open)
}

/// `admit` has the last word on a packet that the filter takes.
#[inline(always)]
pub(crate) fn turn(
    frame: &mut [u8],
    filter: &ReflectFilter,
    admit: impl FnOnce(&[u8], &UdpPacket) -> Result<(), Left>,
    complete_checksum: impl FnOnce(&[u8], &UdpPacket) -> bool,
) -> Result<(), Left> {
    // Twice the same, once with constant offsets: that one is inlined.
    match parse_plain(frame) {
        Some(p) => turn_parsed(frame, &p, filter, admit, complete_checksum),
        None => turn_any(frame, filter, admit, complete_checksum),
    }
}

#[inline(never)]
fn turn_any(
    frame: &mut [u8],
    filter: &ReflectFilter,
    admit: impl FnOnce(&[u8], &UdpPacket) -> Result<(), Left>,
    complete_checksum: impl FnOnce(&[u8], &UdpPacket) -> bool,
) -> Result<(), Left> {
    let p = parse_any(frame)?;
    turn_parsed(frame, &p, filter, admit, complete_checksum)
}

#[inline(always)]
fn turn_parsed(
    frame: &mut [u8],
    p: &UdpPacket,
    filter: &ReflectFilter,
    admit: impl FnOnce(&[u8], &UdpPacket) -> Result<(), Left>,
    complete_checksum: impl FnOnce(&[u8], &UdpPacket) -> bool,
) -> Result<(), Left> {
    filter.check(frame, p)?;
    let l3 = usize::from(p.l3);
    filter.answerable(frame, l3, p.v6, p.src_port == p.dst_port)?;
    admit(frame, p)?;
    if !filter.keep_ttl && !lower_ttl(frame, l3, p.v6) {
        return Err(Left::TtlExpired);
    }
    // The parser has seen all of these bytes, so each swap takes place.
    swap_macs(frame);
    if p.v6 {
        swap_neighbours::<16>(frame, l3 + 8);
    } else {
        swap_neighbours::<4>(frame, l3 + 12);
    }
    swap_neighbours::<2>(frame, usize::from(p.l4));
    // Turning changed the places of what is summed, not the sum.
    if complete_checksum(frame, p) {
        complete(frame, p);
    }
    Ok(())
}

/// Takes one from time to live or hop limit, and sees to the IPv4 header checksum; false, with nothing changed, if
/// none would be left.
#[inline(always)]
fn lower_ttl(frame: &mut [u8], l3: usize, v6: bool) -> bool {
    let at = if v6 { l3 + 7 } else { l3 + 8 };
    let Some(ttl) = frame.get_mut(at).filter(|ttl| **ttl > 1) else {
        return false;
    };
    *ttl -= 1;
    if !v6 && let Some(field) = chunk_mut::<2>(frame, l3 + 10) {
        // The sum of the header's words is less by 0x0100, so its complement is more by as much; with the carry around.
        let (sum, carry) = u16::from_be_bytes(*field).overflowing_add(0x0100);
        let sum = sum + u16::from(carry);
        // 0xffff would stand for a header of zeros (RFC 1624, section 3).
        *field = if sum == 0xffff { 0 } else { sum }.to_be_bytes();
    }
    true
}

/// A function of its own, so that the usual path stays short.
#[cold]
fn complete(frame: &mut [u8], p: &UdpPacket) {
    complete_udp_checksum(frame, p);
}
