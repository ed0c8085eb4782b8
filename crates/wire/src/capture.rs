//! Which frames a capture keeps: by address, port and protocol, each on either side.
//!
//! A capture is for looking at what is wrong, so nothing is refused for being wrong: lengths and checksums of the
//! packet are not verified, a header only has to be there. What can't be told because the frame ends too early, or
//! because a fragment has no ports, does not match.

use crate::bytes::{be16, chunk};
use crate::eth;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;

/// A protocol to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureProtocol {
    /// ARP.
    Arp,
    /// ICMP over IPv4 or ICMPv6 over IPv6.
    Icmp,
    /// An IP protocol by its number (UDP is 17, TCP 6), over IPv4 or IPv6, behind any extension headers.
    Ip(u8),
}

/// What a frame must match to be kept. The default matches every frame, whatever its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureFilter {
    /// This address is the source or the destination. ARP matches by its sender's and target's IPv4 addresses.
    pub ip: Option<IpAddr>,
    /// The source or the destination port of a UDP datagram or TCP segment is one of these.
    pub ports: Option<RangeInclusive<u16>>,
    /// The protocol.
    pub protocol: Option<CaptureProtocol>,
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// What the headers of an IP packet say.
struct Ip {
    source: IpAddr,
    destination: IpAddr,
    v6: bool,
    /// Protocol of the upper layer; `None` where the extension headers are cut or too many.
    protocol: Option<u8>,
    /// Offset of the upper layer's header in the frame; `None` where there is none (a later fragment, a cut frame).
    upper: Option<usize>,
}

impl CaptureFilter {
    /// Whether every frame matches.
    pub fn is_empty(&self) -> bool {
        self.ip.is_none() && self.ports.is_none() && self.protocol.is_none()
    }

    /// Whether `frame` (Ethernet header first, up to two VLAN tags) matches all that is asked for. Never panics.
    #[inline]
    pub fn takes(&self, frame: &[u8]) -> bool {
        self.is_empty() || self.matches(frame)
    }

    fn matches(&self, frame: &[u8]) -> bool {
        let Some(ethernet) = eth::parse(frame) else {
            return false;
        };
        match ethernet.ethertype {
            eth::TYPE_ARP => self.matches_arp(frame, ethernet.l3),
            eth::TYPE_IPV4 => ipv4(frame, ethernet.l3).is_some_and(|ip| self.matches_ip(frame, &ip)),
            eth::TYPE_IPV6 => ipv6(frame, ethernet.l3).is_some_and(|ip| self.matches_ip(frame, &ip)),
            _ => false,
        }
    }

    fn matches_arp(&self, frame: &[u8], l3: usize) -> bool {
        if self.ports.is_some() || !matches!(self.protocol, None | Some(CaptureProtocol::Arp)) {
            return false;
        }
        let Some(ip) = self.ip else {
            return true;
        };
        // RFC 826, for Ethernet and IPv4: hardware type and length 6, protocol type and length 4 stand before.
        let ethernet_ipv4 = chunk::<6>(frame, l3).is_some_and(|head| *head == [0, 1, 8, 0, 6, 4]);
        let address = |at: usize| chunk::<4>(frame, l3 + at).map(|a| IpAddr::V4(Ipv4Addr::from(*a)));
        ethernet_ipv4 && (address(14) == Some(ip) || address(24) == Some(ip))
    }

    fn matches_ip(&self, frame: &[u8], packet: &Ip) -> bool {
        let protocol = match self.protocol {
            None => true,
            Some(CaptureProtocol::Arp) => false,
            Some(CaptureProtocol::Icmp) => packet.protocol == Some(if packet.v6 { ICMPV6 } else { ICMP }),
            Some(CaptureProtocol::Ip(number)) => packet.protocol == Some(number),
        };
        let address = |ip: IpAddr| packet.source == ip || packet.destination == ip;
        protocol
            && self.ip.is_none_or(address)
            && self.ports.as_ref().is_none_or(|ports| {
                let port = |at: usize| be16(frame, at).is_some_and(|port| ports.contains(&port));
                matches!(packet.protocol, Some(UDP | TCP)) && packet.upper.is_some_and(|at| port(at) || port(at + 2))
            })
    }
}

/// RFC 791. `None` where the fixed header is not there.
fn ipv4(frame: &[u8], l3: usize) -> Option<Ip> {
    let head = chunk::<20>(frame, l3)?;
    let header_len = usize::from(head[0] & 0xf) * 4;
    if head[0] >> 4 != 4 || header_len < 20 {
        return None;
    }
    let offset = u16::from_be_bytes([head[6], head[7]]) & 0x1fff;
    Some(Ip {
        source: Ipv4Addr::from(*chunk::<4>(head, 12)?).into(),
        destination: Ipv4Addr::from(*chunk::<4>(head, 16)?).into(),
        v6: false,
        protocol: Some(head[9]),
        upper: (offset == 0).then_some(l3 + header_len),
    })
}

/// RFC 8200. `None` where the fixed header is not there.
fn ipv6(frame: &[u8], l3: usize) -> Option<Ip> {
    let head = chunk::<40>(frame, l3)?;
    if head[0] >> 4 != 6 {
        return None;
    }
    let (protocol, upper) = upper_layer(frame, l3 + 40, head[6]);
    Some(Ip {
        source: Ipv6Addr::from(*chunk::<16>(head, 8)?).into(),
        destination: Ipv6Addr::from(*chunk::<16>(head, 24)?).into(),
        v6: true,
        protocol,
        upper,
    })
}

/// Walks the extension headers from `at`, the first of which is of type `next`.
fn upper_layer(frame: &[u8], mut at: usize, mut next: u8) -> (Option<u8>, Option<usize>) {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION_OPTIONS: u8 = 60;
    for _ in 0..=crate::ipv6::MAX_EXTENSION_HEADERS {
        if !matches!(
            next,
            HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
        ) {
            return (Some(next), Some(at));
        }
        let Some(head) = chunk::<4>(frame, at) else {
            break;
        };
        let len = match next {
            FRAGMENT => 8,
            // RFC 4302: in words of four bytes, less two.
            AUTHENTICATION => (usize::from(head[1]) + 2) * 4,
            _ => (usize::from(head[1]) + 1) * 8,
        };
        if next == FRAGMENT && u16::from_be_bytes([head[2], head[3]]) & 0xfff8 != 0 {
            return (Some(head[0]), None);
        }
        next = head[0];
        at += len;
    }
    (None, None)
}
