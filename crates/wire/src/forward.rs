//! Changes that a forwarder makes to a frame: which frames it takes, what it rewrites, and the checksum that the sender
//! left open.
//!
//! A forwarder is no judge: what is wrong stays wrong, so that the far end sees what the near end sent. Swapping
//! addresses or ports leaves a one's complement sum as it was (as in [`crate::reflect`]); no such sum covers a MAC
//! address.

use crate::bytes::{self, be16, chunk, chunk_mut, swap_neighbours};
use crate::checksum::Sum;
use crate::headers::{self, Headers};
use crate::ipv4::PROTOCOL_UDP;
use crate::udp::pseudo_header;
use crate::{MacAddr, eth, ipv4, ipv6};
use core::net::IpAddr;
use core::ops::RangeInclusive;

/// Protocol number of TCP.
const PROTOCOL_TCP: u8 = 6;

/// Change made to a frame before it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// Nothing.
    Io,
    /// Source and destination MAC address change places.
    MacSwap,
    /// MAC addresses, IP addresses, and UDP or TCP ports change places, each if there are any: a frame that is not
    /// IP gets its MAC addresses swapped, a fragment but the first its addresses.
    FiveTupleSwap,
    /// MAC addresses are set.
    L2Forward {
        /// MAC address of the port that sends.
        source: MacAddr,
        /// MAC address of the next hop.
        destination: MacAddr,
    },
}

/// The frame is shorter than an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the frame is shorter than an Ethernet header")]
pub struct ShortFrame;

impl Rewrite {
    /// Rewrites a frame in place. Never panics, whatever the bytes.
    ///
    /// # Errors
    /// [`ShortFrame`]; the frame is then unchanged.
    #[inline]
    pub fn apply(&self, frame: &mut [u8]) -> Result<(), ShortFrame> {
        let long_enough = match self {
            Self::Io => is_frame(frame),
            Self::MacSwap => swap_macs(frame),
            Self::FiveTupleSwap => swap_five_tuple(frame),
            Self::L2Forward { source, destination } => set_macs(frame, *source, *destination),
        };
        if long_enough { Ok(()) } else { Err(ShortFrame) }
    }
}

/// [`Rewrite::Io`]: false for what is shorter than an Ethernet header.
#[inline(always)]
pub fn is_frame(frame: &[u8]) -> bool {
    frame.len() >= eth::HEADER_LEN
}

/// [`Rewrite::MacSwap`]; false, with nothing changed, for what is shorter than an Ethernet header.
#[inline(always)]
pub fn swap_macs(frame: &mut [u8]) -> bool {
    let header = frame.first_chunk_mut::<{ eth::HEADER_LEN }>();
    header.map(|header| bytes::swap_macs(header)).is_some()
}

/// [`Rewrite::L2Forward`] likewise.
#[inline(always)]
pub fn set_macs(frame: &mut [u8], source: MacAddr, destination: MacAddr) -> bool {
    let Some(header) = frame.first_chunk_mut::<{ eth::HEADER_LEN }>() else {
        return false;
    };
    header[..6].copy_from_slice(&destination.0);
    header[6..12].copy_from_slice(&source.0);
    true
}

/// [`Rewrite::FiveTupleSwap`] likewise.
#[inline(always)]
pub fn swap_five_tuple(frame: &mut [u8]) -> bool {
    swap_plain(frame) || swap_any(frame)
}

/// Untagged IPv4 without options that is no fragment, and UDP or TCP: every offset is constant. False, with nothing
/// changed, for anything else.
#[inline(always)]
fn swap_plain(frame: &mut [u8]) -> bool {
    let Some(head) = frame.first_chunk_mut::<38>() else {
        return false;
    };
    let fragment = u16::from_be_bytes([head[20], head[21]]) & ipv4::FRAGMENT_BITS != 0;
    if [head[12], head[13], head[14]] != [0x08, 0x00, 0x45] || fragment || !has_ports(head[23]) {
        return false;
    }
    bytes::swap_macs(head);
    swap_neighbours::<4>(head, 26);
    swap_neighbours::<2>(head, 34);
    true
}

#[inline(never)]
fn swap_any(frame: &mut [u8]) -> bool {
    let long_enough = swap_macs(frame);
    if long_enough {
        swap_addresses_and_ports(frame);
    }
    long_enough
}

#[inline]
fn swap_addresses_and_ports(frame: &mut [u8]) {
    let Some(found) = eth::parse(frame).and_then(|ethernet| headers::find(frame, &ethernet)) else {
        return;
    };
    // The fixed part of the header is whole, so both addresses are there.
    if found.v6 {
        swap_neighbours::<16>(frame, found.l3 + 8);
    } else {
        swap_neighbours::<4>(frame, found.l3 + 12);
    }
    if let Some(l4) = found.l4.filter(|_| has_ports(found.protocol)) {
        swap_neighbours::<2>(frame, l4);
    }
}

#[inline]
const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, PROTOCOL_UDP | PROTOCOL_TCP)
}

/// Computes the UDP or TCP checksum of a frame whose sender left it to a device that never saw it
/// (`CHECKSUM_PARTIAL`): the frame may then go to another port. False, with nothing changed, if that can't be done:
/// another protocol, a fragment, or a frame that ends before its packet.
#[inline]
#[must_use]
pub fn complete_checksum(frame: &mut [u8]) -> bool {
    complete(frame, false).is_some()
}

/// Does the same if the checksum looks left open, for paths that don't report which frames' checksums are open: the
/// field then holds the pseudo-header's sum and nothing else. A finished checksum that happens to look so comes out as
/// it was. A wrong one stays wrong, except for one in 65,535 that looks so.
#[inline]
pub fn complete_open_checksum(frame: &mut [u8]) {
    let _ = complete(frame, true);
}

/// `only_open`: nothing is done unless the field holds the pseudo-header's sum.
fn complete(frame: &mut [u8], only_open: bool) -> Option<()> {
    const UDP_FIELD: usize = 6;
    const TCP_FIELD: usize = 16;
    let found = eth::parse(frame).and_then(|ethernet| headers::find(frame, &ethernet))?;
    let field = match found.protocol {
        PROTOCOL_UDP => UDP_FIELD,
        PROTOCOL_TCP => TCP_FIELD,
        _ => return None,
    };
    let l4 = found.l4.filter(|_| !found.fragment)?;
    let mut segment = frame.get(l4..found.end)?;
    if found.protocol == PROTOCOL_UDP {
        // RFC 768: the datagram ends by its own length, whatever the IP packet holds behind it.
        segment = segment.get(..usize::from(be16(segment, 4)?))?;
    }
    let old = *chunk::<2>(segment, field)?;
    let upper_len = u16::try_from(segment.len()).ok()?;
    let pseudo = if found.v6 {
        pseudo_header::<32>(chunk(frame, found.l3 + 8)?, found.protocol, upper_len)
    } else {
        pseudo_header::<8>(chunk(frame, found.l3 + 12)?, found.protocol, upper_len)
    };
    if only_open && pseudo.fold().to_le_bytes() != old {
        return None;
    }
    // The old field is taken out of the sum by leaving it out: both parts start at an even offset.
    let sum = pseudo
        .plus(Sum::ZERO.bytes(&segment[..field]))
        .plus(Sum::ZERO.bytes(&segment[field + 2..]));
    let new = match found.protocol {
        PROTOCOL_UDP => sum.finish_udp(),
        _ => sum.finish(),
    };
    *chunk_mut::<2>(frame, l4 + field)? = new;
    Some(())
}

/// Which frames a forwarder takes. The default takes every frame.
///
/// The filter means the same as the one in the XDP program, on paths that have such a program, so that a run takes the
/// same frames on every path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TakeFilter {
    /// Every frame.
    #[default]
    All,
    /// Every frame but those for one of these addresses, which are the host's own: IP packets to it, ARP requests and
    /// replies for it, and neighbour solicitations that ask for it.
    Foreign(Box<[IpAddr]>),
    /// UDP datagrams from or to an address and a port: a forwarder carries the answers, too. Not those in fragments or
    /// behind IPv6 extension headers.
    Udp {
        /// Address of the source or of the destination; `None`: any.
        ip: Option<IpAddr>,
        /// Ports of the source or of the destination; `None`: any.
        ports: Option<RangeInclusive<u16>>,
    },
}

impl TakeFilter {
    /// Whether every frame is taken, whatever it is.
    pub fn takes_all(&self) -> bool {
        match self {
            Self::All => true,
            Self::Foreign(own) => own.is_empty(),
            Self::Udp { .. } => false,
        }
    }

    /// Whether a frame is to be taken. Never panics, whatever the bytes.
    #[inline]
    pub fn takes(&self, frame: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Foreign(own) => own.is_empty() || !is_for(frame, own),
            Self::Udp { ip, ports } => is_udp(frame, ip.as_ref(), ports.as_ref()),
        }
    }
}

/// Whether a frame is for one of the addresses.
fn is_for(frame: &[u8], own: &[IpAddr]) -> bool {
    let Some(ethernet) = eth::parse(frame) else {
        return false;
    };
    let target = match headers::find(frame, &ethernet) {
        Some(found) => destination(frame, &found),
        None if ethernet.ethertype == eth::TYPE_ARP => arp_target(frame, ethernet.l3),
        None => None,
    };
    // A solicitation goes to a group of addresses (RFC 4291, section 2.7.1), and asks for one.
    target.is_some_and(|ip| own.contains(&ip)) || solicited(frame, &ethernet).is_some_and(|ip| own.contains(&ip))
}

fn destination(frame: &[u8], found: &Headers) -> Option<IpAddr> {
    if found.v6 {
        chunk::<16>(frame, found.l3 + 24).map(|a| IpAddr::from(*a))
    } else {
        chunk::<4>(frame, found.l3 + 16).map(|a| IpAddr::from(*a))
    }
}

fn source(frame: &[u8], found: &Headers) -> Option<IpAddr> {
    if found.v6 {
        chunk::<16>(frame, found.l3 + 8).map(|a| IpAddr::from(*a))
    } else {
        chunk::<4>(frame, found.l3 + 12).map(|a| IpAddr::from(*a))
    }
}

/// The target of an ARP message for IPv4 over Ethernet (RFC 826).
fn arp_target(frame: &[u8], l3: usize) -> Option<IpAddr> {
    let message = chunk::<28>(frame, l3)?;
    let usual = message.first_chunk() == Some(&[0, 1, 8, 0, 6, 4]);
    chunk::<4>(message, 24).filter(|_| usual).map(|a| IpAddr::from(*a))
}

/// The address that a neighbour solicitation (RFC 4861, section 4.3) asks for.
fn solicited(frame: &[u8], ethernet: &eth::Ethernet) -> Option<IpAddr> {
    const SOLICITATION: u8 = 135;
    let found = headers::find(frame, ethernet)?;
    if !found.v6 || found.protocol != ipv6::NEXT_ICMPV6 {
        return None;
    }
    let message = chunk::<24>(frame, found.l4.filter(|_| found.is_plain())?)?;
    (message[0] == SOLICITATION).then_some(())?;
    chunk::<16>(message, 8).map(|a| IpAddr::from(*a))
}

#[inline]
fn is_udp(frame: &[u8], ip: Option<&IpAddr>, ports: Option<&RangeInclusive<u16>>) -> bool {
    let Some(found) = eth::parse(frame).and_then(|ethernet| headers::find(frame, &ethernet)) else {
        return false;
    };
    let Some(l4) = found.l4.filter(|_| found.protocol == PROTOCOL_UDP && found.is_plain()) else {
        return false;
    };
    let port = |at: usize, ports: &RangeInclusive<u16>| be16(frame, at).is_some_and(|port| ports.contains(&port));
    ip.is_none_or(|ip| source(frame, &found).as_ref() == Some(ip) || destination(frame, &found).as_ref() == Some(ip))
        && ports.is_none_or(|ports| port(l4, ports) || port(l4 + 2, ports))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn plain_frames_are_swapped_as_any_are(
            mut frame in prop::collection::vec(any::<u8>(), 14..60), fragment in any::<u16>(), protocol in 0usize..3,
            ihl in 0x44u8..0x47, odd in any::<bool>(), total_len in 0u8..60,
        ) {
            // Mostly plain: arbitrary bytes hardly ever are.
            let head = [(12, 0x08), (13, 0x00), (14, if odd { ihl } else { 0x45 }), (23, [17, 6, 1][protocol])];
            let flags = if odd { fragment } else { fragment & 0x4000 }.to_be_bytes();
            let lengths = [(16, 0), (17, total_len)];
            for (at, byte) in head.into_iter().chain([(20, flags[0]), (21, flags[1])]).chain(lengths) {
                if let Some(place) = frame.get_mut(at) {
                    *place = byte;
                }
            }
            let (mut mine, mut any) = (frame.clone(), frame.clone());
            swap_any(&mut any);
            let plain = swap_plain(&mut mine);
            prop_assert_eq!(&mine, if plain { &any } else { &frame });
            prop_assert!(plain || odd || protocol == 2 || frame.len() < 38);
        }
    }
}
