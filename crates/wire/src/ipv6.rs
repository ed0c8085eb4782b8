//! IPv6 headers and the extension headers that may stand before UDP (RFC 8200).

use crate::Reject;
use crate::extensions::{self, Chain};

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// Next-header number of ICMPv6.
pub const NEXT_ICMPV6: u8 = 58;

const NEXT_UDP: u8 = 17;

/// Lengths and protocol of a packet, as its valid headers give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// Offset of the upper-layer header: 40, and more behind extension headers.
    pub header_len: usize,
    /// Bytes of the packet, headers included; never more than there are.
    pub total_len: usize,
    /// Protocol of the upper layer.
    pub protocol: u8,
}

/// Reads the header at the start of `packet` and walks the extension headers.
///
/// # Errors
/// [`Reject::TooShort`] if the frame ends before the packet does, [`Reject::BadIpHeader`],
/// [`Reject::Fragment`] for any fragment header, [`Reject::SourceRouted`] if segments of a routing header are left.
#[inline]
pub fn parse(packet: &[u8]) -> Result<Ipv6, Reject> {
    read::<false>(packet)
}

/// Reads the headers as [`parse`] does. The fragment header of a fragment ends the walk, and is the upper layer.
#[inline]
pub(crate) fn parse_also_fragment(packet: &[u8]) -> Result<Ipv6, Reject> {
    read::<true>(packet)
}

#[inline(always)]
fn read<const FRAGMENTS: bool>(packet: &[u8]) -> Result<Ipv6, Reject> {
    let head: &[u8; HEADER_LEN] = packet.first_chunk().ok_or(Reject::TooShort)?;
    if head[0] >> 4 != 6 {
        return Err(Reject::BadIpHeader);
    }
    let total_len = HEADER_LEN + usize::from(u16::from_be_bytes([head[4], head[5]]));
    let Some(packet) = packet.get(..total_len) else {
        return Err(Reject::TooShort);
    };
    let protocol = head[6];
    if protocol == NEXT_UDP || protocol == NEXT_ICMPV6 {
        return Ok(Ipv6 {
            header_len: HEADER_LEN,
            total_len,
            protocol,
        });
    }
    walk::<FRAGMENTS>(packet, protocol)
}

#[inline(never)]
fn walk<const FRAGMENTS: bool>(packet: &[u8], first: u8) -> Result<Ipv6, Reject> {
    let mut chain = Chain::new(HEADER_LEN, first);
    loop {
        let kind = chain.protocol;
        match kind {
            _ if chain.walked > extensions::MOST => return Err(Reject::BadIpHeader),
            extensions::FRAGMENT if FRAGMENTS => {
                return Ok(Ipv6 {
                    header_len: chain.at,
                    total_len: packet.len(),
                    protocol: kind,
                });
            }
            extensions::FRAGMENT => return Err(Reject::Fragment),
            extensions::HOP_BY_HOP if chain.walked != 0 => return Err(Reject::BadIpHeader),
            _ => {}
        }
        match chain.step(packet) {
            Ok(None) => {
                return Ok(Ipv6 {
                    header_len: chain.at,
                    total_len: packet.len(),
                    protocol: kind,
                });
            }
            Ok(Some(head)) if kind == extensions::ROUTING && head[3] != 0 => return Err(Reject::SourceRouted),
            Ok(Some(_)) if chain.at <= packet.len() => {}
            _ => return Err(Reject::BadIpHeader),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with the given extension headers (type, units of 8 beyond the first, fourth byte) before UDP.
    fn packet(extensions: &[(u8, u8, u8)]) -> Vec<u8> {
        let mut packet = vec![0; HEADER_LEN];
        packet[0] = 0x60;
        packet[6] = extensions.first().map_or(NEXT_UDP, |e| e.0);
        for (i, &(_, units, fourth)) in extensions.iter().enumerate() {
            let at = packet.len();
            packet.resize(at + (usize::from(units) + 1) * 8, 0);
            packet[at] = extensions.get(i + 1).map_or(NEXT_UDP, |e| e.0);
            packet[at + 1] = units;
            packet[at + 3] = fourth;
        }
        packet.resize(packet.len() + 8, 0);
        let len = (packet.len() - HEADER_LEN) as u16;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
        packet
    }

    #[test]
    fn extension_headers_are_walked_to_udp() {
        for extensions in [
            &[][..],
            &[(0, 0, 0)],
            &[(60, 2, 9)],
            &[(0, 1, 0), (60, 0, 0), (43, 2, 0), (60, 0, 0)],
        ] {
            let packet = packet(extensions);
            let want = Ipv6 {
                header_len: packet.len() - 8,
                total_len: packet.len(),
                protocol: NEXT_UDP,
            };
            assert_eq!(parse(&packet), Ok(want));
            assert_eq!(parse(&packet[..packet.len() - 1]), Err(Reject::TooShort));
        }
    }

    #[test]
    fn authentication_is_walked_over_in_units_of_its_own() {
        // RFC 4302: a length field of 4 means 24 bytes; in the units of the other headers it would mean 40.
        let mut packet = packet(&[(60, 0, 0), (51, 2, 0)]);
        packet[HEADER_LEN + 8 + 1] = 4;
        let want = Ipv6 {
            header_len: packet.len() - 8,
            total_len: packet.len(),
            protocol: NEXT_UDP,
        };
        assert_eq!(parse(&packet), Ok(want));
        packet[HEADER_LEN + 8 + 1] = 7;
        assert_eq!(parse(&packet), Err(Reject::BadIpHeader));
    }

    #[test]
    fn routing_header_with_segments_left_is_left_alone() {
        assert_eq!(parse(&packet(&[(43, 2, 1)])), Err(Reject::SourceRouted));
    }

    #[test]
    fn fragment_header_makes_a_fragment_wherever_it_stands() {
        assert_eq!(parse(&packet(&[(44, 0, 0)])), Err(Reject::Fragment));
        assert_eq!(parse(&packet(&[(0, 0, 0), (44, 0, 0)])), Err(Reject::Fragment));
    }

    #[test]
    fn hostile_chains_are_refused() {
        assert!(parse(&packet(&[(60, 0, 0); extensions::MOST])).is_ok());
        assert_eq!(
            parse(&packet(&[(60, 0, 0); extensions::MOST + 1])),
            Err(Reject::BadIpHeader)
        );
        assert_eq!(parse(&packet(&[(60, 0, 0), (0, 0, 0)])), Err(Reject::BadIpHeader));
        let mut beyond = packet(&[(60, 0, 0)]);
        beyond[HEADER_LEN + 1] = 255;
        assert_eq!(parse(&beyond), Err(Reject::BadIpHeader));
    }
}
