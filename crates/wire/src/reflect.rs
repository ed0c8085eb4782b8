//! Turning a packet round in place.
//!
//! Source and destination change places: MAC addresses, IP addresses, UDP ports. A one's complement sum does not
//! depend on the order of its words, so the IPv4 header checksum and the UDP checksum stay right without being
//! touched. A packet whose checksum was wrong stays wrong, and its sender will notice.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;

use crate::bytes::{chunk, swap_macs, swap_neighbours};
use crate::packet::{parse_any, parse_plain};
use crate::{MacAddr, Reject, UdpPacket, complete_udp_checksum, eth, udp_checksum_open};

/// Which packets are turned round. The default takes any UDP packet sent to one station.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReflectFilter {
    /// Only packets to this address.
    pub ip: Option<IpAddr>,
    /// Only packets to these UDP ports.
    pub ports: Option<RangeInclusive<u16>>,
    /// Only frames to this MAC address: set it on a device that may be promiscuous.
    pub mac: Option<MacAddr>,
    /// Destination ports that are somebody else's (the host's own sockets), in ascending order.
    pub excluded_ports: Box<[u16]>,
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

            /// The reason in snake_case, as it stands in summaries.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// The frame ends before its headers, or before its IP packet, do.
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
    /// Nobody to answer to: the source is a group, broadcast, unspecified, or port 0.
    BadSource = "bad_source",
    /// To another MAC address than the filter's.
    WrongMac = "wrong_mac",
    /// To another IP address than the filter's.
    WrongAddress = "wrong_address",
    /// To a UDP port outside of the filter's.
    WrongPort = "wrong_port",
    /// To a UDP port that the host itself uses.
    HostPort = "host_port",
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
        let (dst_is_group, src_is_host) = addresses(frame, p);
        if dst_mac.is_multicast() || dst_is_group {
            return Err(Left::Multicast);
        }
        if src_mac.is_multicast() || !src_is_host || p.src_port == 0 {
            return Err(Left::BadSource);
        }
        if self.mac.is_some_and(|mac| mac != dst_mac) {
            return Err(Left::WrongMac);
        }
        if self.ip.as_ref().is_some_and(|ip| !p.dst_ip_eq(frame, ip)) {
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

/// Whether the destination is a group, and whether the source is an address that one host can have.
#[inline(always)]
fn addresses(frame: &[u8], p: &UdpPacket) -> (bool, bool) {
    let l3 = usize::from(p.l3);
    if p.v6 {
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
        (group(dst), !group(src) && !src.is_unspecified())
    }
}

/// Swaps MAC addresses, IP addresses and UDP ports of a frame that passes `filter`; everything else stays as it is
/// (VLAN tags, IPv4 options, IPv6 extension headers, time to live, payload, padding).
///
/// With `complete_checksum` the UDP checksum is computed from scratch: for frames that carry only the pseudo-header's
/// sum (`CHECKSUM_PARTIAL`).
///
/// # Errors
/// Why the frame was left; it is then unchanged.
#[inline]
pub fn reflect_in_place(frame: &mut [u8], filter: &ReflectFilter, complete_checksum: bool) -> Result<(), Left> {
    turn(frame, filter, |_, _| complete_checksum)
}

/// As [`reflect_in_place`], and computes the UDP checksum where it [looks left open](udp_checksum_open): for paths that
/// can't tell which frames have an unfinished one.
///
/// # Errors
/// Why the frame was left; it is then unchanged.
#[inline]
pub fn reflect_closing_in_place(frame: &mut [u8], filter: &ReflectFilter) -> Result<(), Left> {
    turn(frame, filter, udp_checksum_open)
}

#[inline(always)]
fn turn(
    frame: &mut [u8],
    filter: &ReflectFilter,
    complete_checksum: impl FnOnce(&[u8], &UdpPacket) -> bool,
) -> Result<(), Left> {
    // Twice the same, once with constant offsets: that one is inlined.
    match parse_plain(frame) {
        Some(p) => turn_parsed(frame, &p, filter, complete_checksum),
        None => turn_any(frame, filter, complete_checksum),
    }
}

#[inline(never)]
fn turn_any(
    frame: &mut [u8],
    filter: &ReflectFilter,
    complete_checksum: impl FnOnce(&[u8], &UdpPacket) -> bool,
) -> Result<(), Left> {
    let p = parse_any(frame)?;
    turn_parsed(frame, &p, filter, complete_checksum)
}

#[inline(always)]
fn turn_parsed(
    frame: &mut [u8],
    p: &UdpPacket,
    filter: &ReflectFilter,
    complete_checksum: impl FnOnce(&[u8], &UdpPacket) -> bool,
) -> Result<(), Left> {
    filter.check(frame, p)?;
    let l3 = usize::from(p.l3);
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

/// Apart, so that what is usual stays short.
#[cold]
fn complete(frame: &mut [u8], p: &UdpPacket) {
    complete_udp_checksum(frame, p);
}
