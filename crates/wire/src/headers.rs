//! Positions of the headers in a packet, without judging the packet: for forwarders, which pass on what is wrong, and
//! for captures, which look at it.
//!
//! Unlike [`crate::parse_udp`], nothing is refused for its lengths or checksums. What ends too early has no upper
//! layer; a fragment has one only if it is the first.

use crate::bytes::{be16, chunk};
use crate::extensions::{self, Chain};
use crate::{eth, ipv4, ipv6};

/// Bytes of an Ethernet header and an IPv4 header without options: what packets of one test share.
pub(crate) const PLAIN_HEADERS: usize = eth::HEADER_LEN + ipv4::MIN_HEADER_LEN;

/// The headers of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Offset of the IP header; its fixed part is whole.
    pub l3: usize,
    /// IPv6, else IPv4.
    pub v6: bool,
    /// A part of a packet.
    pub fragment: bool,
    /// Protocol of the upper layer; of the header that comes next if the walk is `broken`.
    pub protocol: u8,
    /// The extension headers are cut or too many.
    pub broken: bool,
    /// A routing header of IPv6 has segments left: checksums are for its last one, not for the destination (RFC 8200,
    /// section 8.1).
    pub routed: bool,
    /// Offset of the upper layer's header; `None` in a later fragment and if the extension headers are cut or too
    /// many.
    pub l4: Option<usize>,
    /// Offset of the packet's end as the IP header has it; may lie beyond the frame's.
    pub end: usize,
}

impl Headers {
    /// Neither a fragment nor behind IPv6 extension headers.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        !self.fragment && (!self.v6 || self.l4 == Some(self.l3 + ipv6::HEADER_LEN))
    }
}

/// Finds them in a frame with up to two VLAN tags; `None` if there is no whole IP header.
#[inline]
pub(crate) fn find(frame: &[u8], ethernet: &eth::Ethernet) -> Option<Headers> {
    match ethernet.ethertype {
        eth::TYPE_IPV4 => of_ipv4(frame, ethernet.l3),
        eth::TYPE_IPV6 => of_ipv6(frame, ethernet.l3),
        _ => None,
    }
}

/// Finds them in a frame whose IP header begins at `l3`; `None` if that is not whole.
pub fn at(frame: &[u8], l3: usize) -> Option<Headers> {
    match frame.get(l3)? >> 4 {
        4 => of_ipv4(frame, l3),
        _ => of_ipv6(frame, l3),
    }
}

/// RFC 791, section 3.1.
#[inline]
fn of_ipv4(frame: &[u8], l3: usize) -> Option<Headers> {
    let head = chunk::<{ ipv4::MIN_HEADER_LEN }>(frame, l3)?;
    let header_len = usize::from(head[0] & 0xf) * 4;
    if head[0] >> 4 != 4 || header_len < ipv4::MIN_HEADER_LEN {
        return None;
    }
    let fragment = u16::from_be_bytes([head[6], head[7]]) & ipv4::FRAGMENT_BITS;
    Some(Headers {
        l3,
        v6: false,
        fragment: fragment != 0,
        protocol: head[9],
        broken: false,
        routed: false,
        l4: (fragment & 0x1fff == 0).then_some(l3 + header_len),
        end: l3 + usize::from(u16::from_be_bytes([head[2], head[3]])),
    })
}

/// RFC 8200, section 3.
#[inline]
fn of_ipv6(frame: &[u8], l3: usize) -> Option<Headers> {
    let head = chunk::<{ ipv6::HEADER_LEN }>(frame, l3)?;
    if head[0] >> 4 != 6 {
        return None;
    }
    let mut headers = Headers {
        l3,
        v6: true,
        fragment: false,
        protocol: head[6],
        broken: false,
        routed: false,
        l4: Some(l3 + ipv6::HEADER_LEN),
        end: l3 + ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([head[4], head[5]])),
    };
    if extensions::is_extension(headers.protocol) {
        walk(frame, &mut headers);
    }
    Some(headers)
}

#[inline(never)]
fn walk(frame: &[u8], headers: &mut Headers) {
    let mut chain = Chain::new(headers.l3 + ipv6::HEADER_LEN, headers.protocol);
    headers.l4 = None;
    loop {
        let kind = chain.protocol;
        let head = match chain.step(frame) {
            Ok(Some(head)) => head,
            Ok(None) => {
                headers.l4 = Some(chain.at);
                break;
            }
            Err(_) => {
                headers.broken = true;
                break;
            }
        };
        if kind == extensions::ROUTING && head[3] > 0 {
            headers.routed = true;
        }
        if kind == extensions::FRAGMENT {
            headers.fragment = true;
            if be16(head, 2).is_some_and(|offset| offset >> 3 != 0) {
                break;
            }
        }
    }
    headers.protocol = chain.protocol;
}
