//! Finding the UDP datagram in a frame: one pass over the headers, bounded by each length field in turn.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;

use crate::bytes::chunk;
use crate::ipv4::PROTOCOL_UDP;
use crate::{eth, ipv4, ipv6, udp};

/// Positions of the parts of a UDP packet in its frame; offsets and lengths in bytes.
///
/// A `UdpPacket` belongs to the frame that it was parsed from. Used with another frame it gives other bytes, or none,
/// but never panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPacket {
    /// Offset of the IP header.
    pub l3: u16,
    /// Offset of the UDP header.
    pub l4: u16,
    /// Offset of the UDP payload.
    pub payload: u16,
    /// Length of the UDP payload. Bytes behind it (Ethernet padding) belong to no one.
    pub payload_len: u16,
    /// Number of VLAN tags.
    pub vlans: u8,
    /// IPv6, else IPv4.
    pub v6: bool,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
}

/// Why a frame holds no UDP packet that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// The frame is shorter than its headers, or than its IP packet.
    TooShort,
    /// Neither IPv4 nor IPv6 (or more than two VLAN tags).
    NotIp,
    /// Wrong IP version or length, wrong IPv4 header checksum, malformed options or extension headers.
    BadIpHeader,
    /// A fragment.
    Fragment,
    /// A source route or routing header that is not used up: the destination is not the last one.
    SourceRouted,
    /// Another protocol than UDP.
    NotUdp,
    /// The UDP length is below 8 or beyond the IP packet.
    BadUdpLength,
}

impl Reject {
    /// Returns the reason in snake_case, as summaries show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::NotIp => "not_ip",
            Self::BadIpHeader => "bad_ip_header",
            Self::Fragment => "fragment",
            Self::SourceRouted => "source_routed",
            Self::NotUdp => "not_udp",
            Self::BadUdpLength => "bad_udp_length",
        }
    }
}

/// Finds the UDP packet in an Ethernet frame (no FCS) with up to two VLAN tags, IPv4 with options or IPv6 with
/// extension headers. The IPv4 header's checksum is verified; UDP's is left to [`crate::udp_checksum_ok`].
///
/// # Errors
/// Why the frame can't be used.
#[inline(always)]
pub fn parse_udp(frame: &[u8]) -> Result<UdpPacket, Reject> {
    match parse_plain(frame) {
        Some(packet) => Ok(packet),
        None => parse_any(frame),
    }
}

/// Untagged IPv4 without options, all offsets constant: what nearly every test packet is. `None` for anything else,
/// and for what is wrong: [`parse_any`] then says why.
#[inline(always)]
pub(crate) fn parse_plain(frame: &[u8]) -> Option<UdpPacket> {
    const L3: usize = eth::HEADER_LEN;
    const L4: usize = L3 + ipv4::MIN_HEADER_LEN;
    const PAYLOAD: usize = L4 + udp::HEADER_LEN;
    let head: &[u8; PAYLOAD] = frame.first_chunk()?;
    let [_, _, _, _, _, _, _, _, _, _, _, _, kind @ .., _] = head.first_chunk::<16>()?;
    let ip = chunk::<{ ipv4::MIN_HEADER_LEN }>(head, L3)?;
    let total_len = u16::from_be_bytes([ip[2], ip[3]]);
    let udp_len = u16::from_be_bytes([head[L4 + 4], head[L4 + 5]]);
    let plain = *kind == [0x08, 0x00, 0x45]
        && ip[9] == PROTOCOL_UDP
        && u16::from_be_bytes([ip[6], ip[7]]) & ipv4::FRAGMENT_BITS == 0
        && ipv4::sum_of_fixed_part(ip).is_valid();
    let lengths = usize::from(total_len) <= frame.len() - L3
        && usize::from(udp_len) >= udp::HEADER_LEN
        && usize::from(udp_len) + ipv4::MIN_HEADER_LEN <= usize::from(total_len);
    (plain && lengths).then(|| UdpPacket {
        l3: L3 as u16,
        l4: L4 as u16,
        payload: PAYLOAD as u16,
        payload_len: udp_len - udp::HEADER_LEN as u16,
        vlans: 0,
        v6: false,
        src_port: u16::from_be_bytes([head[L4], head[L4 + 1]]),
        dst_port: u16::from_be_bytes([head[L4 + 2], head[L4 + 3]]),
    })
}

#[inline(never)]
pub(crate) fn parse_any(frame: &[u8]) -> Result<UdpPacket, Reject> {
    let ethernet = eth::parse(frame).ok_or(Reject::TooShort)?;
    let packet = frame.get(ethernet.l3..).ok_or(Reject::TooShort)?;
    let (header_len, total_len, protocol, v6) = match ethernet.ethertype {
        eth::TYPE_IPV4 => {
            let ip = ipv4::parse(packet)?;
            (ip.header_len, ip.total_len, ip.protocol, false)
        }
        eth::TYPE_IPV6 => {
            let ip = ipv6::parse(packet)?;
            (ip.header_len, ip.total_len, ip.protocol, true)
        }
        _ => return Err(Reject::NotIp),
    };
    if protocol != PROTOCOL_UDP {
        return Err(Reject::NotUdp);
    }
    let room = total_len - header_len;
    let head: &[u8; udp::HEADER_LEN] = chunk(packet, header_len).ok_or(Reject::BadUdpLength)?;
    let udp_len = u16::from_be_bytes([head[4], head[5]]);
    if usize::from(udp_len) > room || usize::from(udp_len) < udp::HEADER_LEN {
        return Err(Reject::BadUdpLength);
    }
    // At most 22 + 40 + 8 * 2048: far below 2^16.
    let l4 = (ethernet.l3 + header_len) as u16;
    Ok(UdpPacket {
        l3: ethernet.l3 as u16,
        l4,
        payload: l4 + udp::HEADER_LEN as u16,
        payload_len: udp_len - udp::HEADER_LEN as u16,
        vlans: ethernet.vlans,
        v6,
        src_port: u16::from_be_bytes([head[0], head[1]]),
        dst_port: u16::from_be_bytes([head[2], head[3]]),
    })
}

impl UdpPacket {
    /// Source address; unspecified if `frame` is not the packet's own and too short.
    #[inline]
    pub fn src_ip(&self, frame: &[u8]) -> IpAddr {
        self.ip(frame, 12, 8)
    }

    /// Destination address; unspecified if `frame` is not the packet's own and too short.
    #[inline]
    pub fn dst_ip(&self, frame: &[u8]) -> IpAddr {
        self.ip(frame, 16, 24)
    }

    #[inline(always)]
    fn ip(&self, frame: &[u8], v4: usize, v6: usize) -> IpAddr {
        let l3 = usize::from(self.l3);
        if self.v6 {
            chunk::<16>(frame, l3 + v6)
                .map_or(Ipv6Addr::UNSPECIFIED, |a| Ipv6Addr::from(*a))
                .into()
        } else {
            chunk::<4>(frame, l3 + v4)
                .map_or(Ipv4Addr::UNSPECIFIED, |a| Ipv4Addr::from(*a))
                .into()
        }
    }

    /// True when the packet's destination is `ip`.
    #[inline]
    pub fn dst_ip_eq(&self, frame: &[u8], ip: &IpAddr) -> bool {
        let l3 = usize::from(self.l3);
        match ip {
            IpAddr::V4(ip) => !self.v6 && chunk::<4>(frame, l3 + 16).is_some_and(|a| *a == ip.octets()),
            IpAddr::V6(ip) => self.v6 && chunk::<16>(frame, l3 + 24).is_some_and(|a| *a == ip.octets()),
        }
    }

    /// Whether the destination address is one of these, first and last included.
    #[inline]
    pub fn is_for(&self, frame: &[u8], ips: &RangeInclusive<IpAddr>) -> bool {
        self.dst_ip_eq(frame, ips.start()) || ips.start() != ips.end() && ips.contains(&self.dst_ip(frame))
    }

    /// The UDP payload; empty if `frame` is not the packet's own and too short.
    #[inline]
    pub fn payload<'f>(&self, frame: &'f [u8]) -> &'f [u8] {
        let start = usize::from(self.payload);
        frame.get(start..start + usize::from(self.payload_len)).unwrap_or(&[])
    }
}
