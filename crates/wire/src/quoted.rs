//! ICMP and ICMPv6 errors, and the packet that each quotes (RFC 792, RFC 4443).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::chunk;
use crate::checksum::Sum;
use crate::ndp::icmpv6_sum;
use crate::{eth, ipv4, ipv6};

/// Bytes of an error before its quote.
const HEAD_LEN: usize = 8;

/// Statement of an error on the packet that it quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// Nobody listens on the packet's port.
    PortUnreachable,
    /// The packet's destination can't be reached for another reason.
    Unreachable,
    /// The packet went through too many routers.
    TimeExceeded,
    /// The packet is too long for the next link.
    TooLong,
}

/// An error, and the ends of the UDP packet that it quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Statement of the error.
    pub error: IcmpError,
    /// Source address of the quoted packet.
    pub src: IpAddr,
    /// Destination address of the quoted packet.
    pub dst: IpAddr,
    /// Source port of the quoted packet.
    pub src_port: u16,
    /// Destination port of the quoted packet.
    pub dst_port: u16,
}

/// Reads an ICMP error with right checksums that quotes a UDP packet; `None` for any other frame.
pub fn parse_quoted(frame: &[u8]) -> Option<Quoted> {
    let ethernet = eth::parse(frame)?;
    let packet = frame.get(ethernet.l3..)?;
    match ethernet.ethertype {
        eth::TYPE_IPV4 => {
            let ip = ipv4::parse(packet)
                .ok()
                .filter(|ip| ip.protocol == ipv4::PROTOCOL_ICMP)?;
            let message = packet.get(ip.header_len..ip.total_len)?;
            let valid = Sum::ZERO.bytes(message).is_valid();
            let error = error_of(*chunk(message, 0)?)?;
            ends_v4(message.get(HEAD_LEN..)?, error).filter(|_| valid)
        }
        eth::TYPE_IPV6 => {
            let ip = ipv6::parse(packet).ok().filter(|ip| ip.protocol == ipv6::NEXT_ICMPV6)?;
            let packet = packet.get(..ip.total_len)?;
            let valid = icmpv6_sum(packet, ip.header_len)?.is_valid();
            let message = packet.get(ip.header_len..)?;
            let error = error_of_v6(*chunk(message, 0)?)?;
            ends_v6(message.get(HEAD_LEN..)?, error).filter(|_| valid)
        }
        _ => None,
    }
}

fn error_of([kind, code]: [u8; 2]) -> Option<IcmpError> {
    match (kind, code) {
        (3, 3) => Some(IcmpError::PortUnreachable),
        (3, 4) => Some(IcmpError::TooLong),
        (3, _) => Some(IcmpError::Unreachable),
        (11, 0) => Some(IcmpError::TimeExceeded),
        _ => None,
    }
}

fn error_of_v6([kind, code]: [u8; 2]) -> Option<IcmpError> {
    match (kind, code) {
        (1, 4) => Some(IcmpError::PortUnreachable),
        (1, _) => Some(IcmpError::Unreachable),
        (2, _) => Some(IcmpError::TooLong),
        (3, 0) => Some(IcmpError::TimeExceeded),
        _ => None,
    }
}

/// Reads the ends of a quote. Only the IP header and eight bytes need be there, and its checksum may have changed on
/// the way.
fn ends_v4(quote: &[u8], error: IcmpError) -> Option<Quoted> {
    let head: &[u8; ipv4::MIN_HEADER_LEN] = chunk(quote, 0)?;
    let header_len = usize::from(head[0] & 0xf) * 4;
    let udp = head[0] >> 4 == 4 && header_len >= ipv4::MIN_HEADER_LEN && head[9] == ipv4::PROTOCOL_UDP;
    let [a, b, c, d] = *chunk::<4>(quote, header_len)?;
    udp.then(|| Quoted {
        error,
        src: IpAddr::V4(Ipv4Addr::new(head[12], head[13], head[14], head[15])),
        dst: IpAddr::V4(Ipv4Addr::new(head[16], head[17], head[18], head[19])),
        src_port: u16::from_be_bytes([a, b]),
        dst_port: u16::from_be_bytes([c, d]),
    })
}

fn ends_v6(quote: &[u8], error: IcmpError) -> Option<Quoted> {
    let head: &[u8; ipv6::HEADER_LEN] = chunk(quote, 0)?;
    let udp = head[0] >> 4 == 6 && head[6] == ipv4::PROTOCOL_UDP;
    let [a, b, c, d] = *chunk::<4>(quote, ipv6::HEADER_LEN)?;
    Some(Quoted {
        error,
        src: IpAddr::V6(Ipv6Addr::from(*chunk::<16>(quote, 8)?)),
        dst: IpAddr::V6(Ipv6Addr::from(*chunk::<16>(quote, 24)?)),
        src_port: u16::from_be_bytes([a, b]),
        dst_port: u16::from_be_bytes([c, d]),
    })
    .filter(|_| udp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::internet_checksum;
    use proptest::prelude::*;

    const SRC: [u8; 4] = [10, 99, 0, 1];
    const DST: [u8; 4] = [10, 99, 0, 2];
    const ROUTER: [u8; 4] = [10, 99, 0, 9];

    fn header_v4(protocol: u8, src: [u8; 4], dst: [u8; 4], body: usize) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        ip[2..4].copy_from_slice(&((20 + body) as u16).to_be_bytes());
        ip.extend(src.into_iter().chain(dst));
        let sum = internet_checksum(&ip);
        ip[10..12].copy_from_slice(&sum);
        ip
    }

    fn error_v4(kind: u8, code: u8, protocol: u8) -> Vec<u8> {
        let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
        message.extend(header_v4(protocol, SRC, DST, 500));
        message.extend([0x27, 0x10, 0x23, 0x28, 1, 0xf4, 0, 0]);
        let sum = internet_checksum(&message);
        message[2..4].copy_from_slice(&sum);
        let mut frame = vec![2; 12];
        frame.extend([8, 0]);
        frame.extend(header_v4(1, ROUTER, SRC, message.len()));
        frame.extend(message);
        frame
    }

    fn error_v6(kind: u8, code: u8) -> Vec<u8> {
        let header = |next: u8, body: usize| {
            let mut ip = vec![0x60, 0, 0, 0, 0, 0, next, 64];
            ip[4..6].copy_from_slice(&(body as u16).to_be_bytes());
            ip.extend([0xfd; 16].into_iter().chain([0xfe; 16]));
            ip
        };
        let mut message = vec![kind, code, 0, 0, 0, 0, 5, 0];
        message.extend(header(17, 500));
        message.extend([0x27, 0x10, 0x23, 0x28, 1, 0xf4, 0, 0]);
        let mut packet = header(58, message.len());
        packet.extend(message);
        // With zero in its place, what makes the sum right is the complement of what it is.
        let sum = icmpv6_sum(&packet, 40).expect("a message").finish();
        packet[42..44].copy_from_slice(&sum);
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xdd]);
        frame.extend(packet);
        frame
    }

    #[test]
    fn errors_of_both_families_are_told_apart_with_the_ends_that_they_quote() {
        let of = |kind, code| parse_quoted(&error_v4(kind, code, 17)).map(|quoted| quoted.error);
        assert_eq!(of(3, 3), Some(IcmpError::PortUnreachable));
        assert_eq!(of(3, 4), Some(IcmpError::TooLong));
        assert_eq!(of(3, 13), Some(IcmpError::Unreachable));
        assert_eq!(of(11, 0), Some(IcmpError::TimeExceeded));
        assert_eq!((of(8, 0), of(11, 1)), (None, None));
        assert_eq!(parse_quoted(&error_v4(3, 3, 6)), None, "a quote of TCP");
        let quoted = parse_quoted(&error_v4(11, 0, 17)).expect("an error");
        assert_eq!((quoted.src, quoted.dst), (IpAddr::from(SRC), IpAddr::from(DST)));
        assert_eq!((quoted.src_port, quoted.dst_port), (10_000, 9000));
        let of = |kind, code| parse_quoted(&error_v6(kind, code)).map(|quoted| (quoted.error, quoted.dst_port));
        assert_eq!(of(1, 4), Some((IcmpError::PortUnreachable, 9000)));
        assert_eq!(of(1, 0), Some((IcmpError::Unreachable, 9000)));
        assert_eq!(of(2, 0), Some((IcmpError::TooLong, 9000)));
        assert_eq!(of(3, 0), Some((IcmpError::TimeExceeded, 9000)));
        assert_eq!(of(128, 0), None);
    }

    #[test]
    fn a_message_with_a_wrong_checksum_says_nothing() {
        for mut frame in [error_v4(3, 3, 17), error_v6(3, 0)] {
            assert!(parse_quoted(&frame).is_some());
            let last = frame.len() - 1;
            frame[last] ^= 1;
            assert_eq!(parse_quoted(&frame), None);
        }
    }

    proptest! {
        #[test]
        fn any_frame_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..120) {
            let _ = parse_quoted(&bytes);
            let whole = error_v4(3, 3, 17);
            let _ = parse_quoted(&whole[..cut.min(whole.len())]);
            let whole = error_v6(2, 0);
            let _ = parse_quoted(&whole[..cut.min(whole.len())]);
        }
    }
}
