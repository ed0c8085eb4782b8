//! IPv4 headers (RFC 791), options included.

use core::net::Ipv4Addr;

use crate::Reject;
use crate::bytes::{be16, chunk};
use crate::checksum::Sum;

/// Bytes of a header without options.
pub const MIN_HEADER_LEN: usize = 20;
/// Protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// "More fragments" and the offset; "don't fragment" and the reserved bit are no matter.
pub(crate) const FRAGMENT_BITS: u16 = 0x3fff;

/// Whether an address can be one host's: not of this network (0.0.0.0/8, RFC 1122, section 3.2.1.3), a group, reserved
/// (240.0.0.0/4, RFC 1112, section 4) or broadcast. Loopback is one host's, to itself.
#[inline(always)]
pub const fn is_one_host(ip: Ipv4Addr) -> bool {
    matches!(ip.octets()[0], 1..=223)
}

/// Lengths and protocol of a packet, as its valid header gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Bytes of the header with options: 20 to 60.
    pub header_len: usize,
    /// Bytes of the packet, header included; never more than there are.
    pub total_len: usize,
    /// Protocol of the payload.
    pub protocol: u8,
}

/// Reads the header at the start of `packet` and checks version, lengths, header checksum and options.
///
/// # Errors
/// [`Reject::TooShort`] if the frame ends before the packet does, [`Reject::BadIpHeader`],
/// [`Reject::Fragment`], [`Reject::SourceRouted`] if a source route is not yet used up.
#[inline]
pub fn parse(packet: &[u8]) -> Result<Ipv4, Reject> {
    read::<false>(packet)
}

/// Reads the header as [`parse`] does, of a fragment too.
#[inline]
pub(crate) fn parse_also_fragment(packet: &[u8]) -> Result<Ipv4, Reject> {
    read::<true>(packet)
}

/// Whether a packet with a valid header is a fragment.
#[inline]
pub(crate) fn is_fragment(packet: &[u8]) -> bool {
    be16(packet, 6).is_some_and(|bits| bits & FRAGMENT_BITS != 0)
}

#[inline(always)]
fn read<const FRAGMENTS: bool>(packet: &[u8]) -> Result<Ipv4, Reject> {
    let head: &[u8; MIN_HEADER_LEN] = packet.first_chunk().ok_or(Reject::TooShort)?;
    let total_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let sum = sum_of_fixed_part(head);
    let header_len = if head[0] == 0x45 {
        MIN_HEADER_LEN
    } else {
        let len = usize::from(head[0] & 0xf) * 4;
        if head[0] >> 4 != 4 || len < MIN_HEADER_LEN {
            return Err(Reject::BadIpHeader);
        }
        len
    };
    let sum = if header_len == MIN_HEADER_LEN {
        sum
    } else {
        sum.bytes(packet.get(MIN_HEADER_LEN..header_len).ok_or(Reject::TooShort)?)
    };
    if !sum.is_valid() || total_len < header_len {
        return Err(Reject::BadIpHeader);
    }
    if total_len > packet.len() {
        return Err(Reject::TooShort);
    }
    if !FRAGMENTS && u16::from_be_bytes([head[6], head[7]]) & FRAGMENT_BITS != 0 {
        return Err(Reject::Fragment);
    }
    if header_len != MIN_HEADER_LEN {
        check_options(&packet[MIN_HEADER_LEN..header_len])?;
    }
    Ok(Ipv4 {
        header_len,
        total_len,
        protocol: head[9],
    })
}

#[inline(always)]
pub(crate) fn sum_of_fixed_part(head: &[u8; MIN_HEADER_LEN]) -> Sum {
    let word = |at: usize| chunk::<8>(head, at).map_or(0, |w| u64::from_le_bytes(*w));
    let last = chunk::<4>(head, 16).map_or(0, |w| u64::from(u32::from_le_bytes(*w)));
    Sum::ZERO.word(word(0)).word(word(8)).word(last)
}

/// Walks the options (RFC 791, section 3.1).
#[inline(never)]
fn check_options(options: &[u8]) -> Result<(), Reject> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    let mut rest = options;
    while let [kind, after @ ..] = rest {
        match *kind {
            END => return Ok(()),
            NO_OPERATION => rest = after,
            kind => {
                let len = usize::from(*after.first().ok_or(Reject::BadIpHeader)?);
                if len < 2 || len > rest.len() {
                    return Err(Reject::BadIpHeader);
                }
                if kind == LOOSE_SOURCE_ROUTE || kind == STRICT_SOURCE_ROUTE {
                    // The route is used up once its pointer is beyond its length.
                    let pointer = *rest[..len].get(2).ok_or(Reject::BadIpHeader)?;
                    if usize::from(pointer) <= len {
                        return Err(Reject::SourceRouted);
                    }
                }
                rest = &rest[len..];
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, well known from textbooks, whose checksum is 0xb861.
    const KNOWN: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8,
        0x00, 0xc7,
    ];

    fn packet_with_options(options: &[u8]) -> Vec<u8> {
        let mut packet = KNOWN.to_vec();
        packet.extend_from_slice(options);
        packet[0] = 0x40 | (packet.len() / 4) as u8;
        packet[10..12].fill(0);
        let sum = crate::checksum::internet_checksum(&packet);
        packet[10..12].copy_from_slice(&sum);
        packet.resize(0x73, 0);
        packet
    }

    #[test]
    fn an_address_of_no_one_host_is_known() {
        for ip in [
            [0, 0, 0, 0],
            [0, 1, 2, 3],
            [224, 0, 0, 1],
            [240, 0, 0, 1],
            [255, 255, 255, 255],
        ] {
            assert!(!is_one_host(ip.into()), "{ip:?}");
        }
        for ip in [[1, 0, 0, 0], [10, 99, 0, 1], [127, 0, 0, 1], [223, 255, 255, 255]] {
            assert!(is_one_host(ip.into()), "{ip:?}");
        }
    }

    #[test]
    fn known_header_is_accepted() {
        let mut packet = KNOWN.to_vec();
        packet.resize(0x73, 0);
        assert_eq!(
            parse(&packet),
            Ok(Ipv4 {
                header_len: 20,
                total_len: 0x73,
                protocol: 17
            })
        );
        assert_eq!(parse(&packet[..0x72]), Err(Reject::TooShort));
        assert_eq!(parse(&packet[..19]), Err(Reject::TooShort));
    }

    #[test]
    fn any_flipped_header_bit_is_noticed() {
        for bit in 0..160 {
            let mut packet = KNOWN.to_vec();
            packet.resize(0x73, 0);
            packet[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&packet).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn options_are_walked() {
        let accepted: [&[u8]; 4] = [
            &[1, 1, 1, 0],
            &[7, 7, 4, 0, 0, 0, 0, 0],
            &[0, 131, 0, 0],
            &[131, 7, 8, 10, 0, 0, 1, 0],
        ];
        for options in accepted {
            let packet = packet_with_options(options);
            assert_eq!(
                parse(&packet).map(|p| p.header_len),
                Ok(20 + options.len()),
                "{options:?}"
            );
        }
        for options in [[7, 0, 0, 0], [7, 1, 0, 0], [7, 5, 0, 0], [1, 1, 1, 7], [131, 2, 0, 0]] {
            assert_eq!(
                parse(&packet_with_options(&options)),
                Err(Reject::BadIpHeader),
                "{options:?}"
            );
        }
        for kind in [131, 137] {
            let packet = packet_with_options(&[kind, 7, 4, 10, 0, 0, 1, 0]);
            assert_eq!(parse(&packet), Err(Reject::SourceRouted));
        }
    }
}
