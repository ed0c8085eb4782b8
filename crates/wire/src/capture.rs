//! Which frames a capture keeps: by address, port and protocol, each on either side.
//!
//! A capture is for looking at what is wrong, so nothing is refused for being wrong: lengths and checksums of the
//! packet are not verified, a header only has to be there. A condition that can't be decided, because the frame ends
//! too early or because a fragment has no ports, is not met.

use crate::bytes::{be16, chunk};
use crate::eth;
use crate::headers::{self, Headers};
use core::net::{IpAddr, Ipv4Addr};
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

/// Conditions that a frame must meet to be kept. The default matches every frame, whatever its bytes.
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

impl CaptureFilter {
    /// Whether every frame matches.
    pub fn is_empty(&self) -> bool {
        self.ip.is_none() && self.ports.is_none() && self.protocol.is_none()
    }

    /// Whether `frame` (Ethernet header first, up to two VLAN tags) meets all conditions. Never panics.
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
            _ => headers::find(frame, &ethernet).is_some_and(|found| self.matches_ip(frame, &found)),
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

    fn matches_ip(&self, frame: &[u8], found: &Headers) -> bool {
        let known = (!found.broken).then_some(found.protocol);
        let protocol = match self.protocol {
            None => true,
            Some(CaptureProtocol::Arp) => false,
            Some(CaptureProtocol::Icmp) => known == Some(if found.v6 { ICMPV6 } else { ICMP }),
            Some(CaptureProtocol::Ip(number)) => known == Some(number),
        };
        let address = |ip: IpAddr| match found.v6 {
            true => has::<16>(frame, found.l3 + 8, ip),
            false => has::<4>(frame, found.l3 + 12, ip),
        };
        protocol
            && self.ip.is_none_or(address)
            && self.ports.as_ref().is_none_or(|ports| {
                let port = |at: usize| be16(frame, at).is_some_and(|port| ports.contains(&port));
                matches!(known, Some(UDP | TCP)) && found.l4.is_some_and(|at| port(at) || port(at + 2))
            })
    }
}

/// Whether `ip` is one of the two addresses of `N` bytes each that lie at `at`.
fn has<const N: usize>(frame: &[u8], at: usize, ip: IpAddr) -> bool
where
    IpAddr: From<[u8; N]>,
{
    [at, at + N]
        .iter()
        .any(|&at| chunk::<N>(frame, at).is_some_and(|address| IpAddr::from(*address) == ip))
}
