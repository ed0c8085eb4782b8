//! Finds the tag of a test packet, whatever headers are around it.
//!
//! The tag ends the innermost payload, and so what the outermost IP header counts; bytes behind that are padding. A
//! frame without an IP header counts nothing of its own, and the tag ends it.
//!
//! `xdp/tagged.h` is the same for programs in the kernel; `crates/xdp/tests/programs_tagged.rs` compares the two.

mod payload;

use crate::bytes::{be16, chunk};
use crate::headers::PLAIN_HEADERS;
use crate::{IcmpError, Tag, eth, ipv4, ipv6, udp};

pub use payload::payload_start;
pub(crate) use payload::{PROTOCOL_SCTP, PROTOCOL_TCP, carries_sctp, is_tunnel};

/// Most VLAN tags and MPLS labels that are passed over.
const MOST_SHIMS: usize = 20;
const TYPE_MPLS: u16 = 0x8847;
const TYPE_MPLS_UPSTREAM: u16 = 0x8848;
const TYPE_PPPOE: u16 = 0x8864;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// Returns the offset of the outermost IP header, which VLAN tags, MPLS labels and PPPoE may precede; `None` if there
/// is none.
#[inline]
pub fn outer_ip(frame: &[u8]) -> Option<usize> {
    let ethertype = be16(frame, 12)?;
    if ethertype == eth::TYPE_IPV4 || ethertype == eth::TYPE_IPV6 {
        return Some(eth::HEADER_LEN);
    }
    behind_shims(frame, ethertype)
}

#[inline(never)]
fn behind_shims(frame: &[u8], mut ethertype: u16) -> Option<usize> {
    let mut at = eth::HEADER_LEN;
    for _ in 0..MOST_SHIMS {
        match ethertype {
            eth::TYPE_IPV4 | eth::TYPE_IPV6 => return Some(at),
            eth::TYPE_CTAG | eth::TYPE_STAG => {
                ethertype = be16(frame, at + 2)?;
                at += 4;
            }
            TYPE_MPLS | TYPE_MPLS_UPSTREAM => {
                let last = frame.get(at + 2)? & 1 == 1;
                at += 4;
                if last {
                    // What follows a label stack has no type: IP shows its version (RFC 4928).
                    return matches!(frame.get(at)? >> 4, 4 | 6).then_some(at);
                }
            }
            TYPE_PPPOE => return matches!(be16(frame, at + 6)?, PPP_IPV4 | PPP_IPV6).then_some(at + 8),
            _ => return None,
        }
    }
    None
}

/// Returns the end of the packet in a frame: where the outermost IP header says, or the end of the frame if there is
/// none, or one that says more than there is.
#[inline]
pub fn packet_end(frame: &[u8]) -> usize {
    let end = outer_ip(frame).and_then(|at| {
        let len = match frame.get(at)? >> 4 {
            4 => be16(frame, at + 2)?.into(),
            // A length of 0 is that of a jumbogram (RFC 2675).
            6 => match be16(frame, at + 4)? {
                0 => return None,
                len => usize::from(len) + 40,
            },
            _ => return None,
        };
        Some(at + len)
    });
    end.filter(|end| *end <= frame.len()).unwrap_or(frame.len())
}

/// Returns whether a checksum in a frame is none of the Internet's: that of SCTP.
pub fn has_crc(frame: &[u8]) -> bool {
    outer_ip(frame).is_some_and(|at| carries_sctp(frame, at))
}

/// Returns the error that a frame reports, if it is one of ICMP. Such a report may end with the tag of the packet that
/// it quotes, and is no test packet itself.
#[inline]
pub fn icmp_error(frame: &[u8]) -> Option<IcmpError> {
    let at = outer_ip(frame)?;
    let first = *frame.get(at)?;
    let (protocol, len) = match first >> 4 {
        4 => (*frame.get(at + 9)?, usize::from(first & 15) * 4),
        _ => (*frame.get(at + 6)?, 40),
    };
    let message = |at: usize| frame.get(at..)?.first_chunk::<2>().copied();
    match (protocol, message(at + len)?) {
        (1, [3, 3]) | (58, [1, 4]) => Some(IcmpError::PortUnreachable),
        (1, [3, 4]) | (58, [2, _]) => Some(IcmpError::TooLong),
        (1, [11, _]) | (58, [3, _]) => Some(IcmpError::TimeExceeded),
        (1, [3 | 4 | 5 | 12, _]) | (58, [1 | 4, _]) => Some(IcmpError::Unreachable),
        _ => None,
    }
}

/// Reads the tag of a test packet, and where the packet ends; `None` if the frame has no tag of `seed`.
#[inline]
pub fn tag_of(frame: &[u8], seed: u64) -> Option<(Tag, usize)> {
    let outline = Outline::of(frame);
    Some((outline.tag(frame, seed)?, outline.end))
}

/// Outline of a frame: one look at its headers, if they are plain, in place of one walk over them for each question.
///
/// Plain are Ethernet with one VLAN tag at the most, and IPv4 without options, no later fragment, or IPv6. All other
/// frames get the same answers from the functions of this module, which know all that there is.
#[derive(Clone, Copy, Debug)]
pub struct Outline {
    /// End of the packet, as [`packet_end`] returns it.
    pub end: usize,
    /// Start of the innermost payload; 0 if it takes a walk.
    start: usize,
    /// Source of a plain IPv4 header.
    source: Option<u32>,
    /// Whether it may be a report of ICMP.
    reports: bool,
}

impl Outline {
    /// Looks at a frame.
    #[inline(always)]
    pub fn of(frame: &[u8]) -> Self {
        match Self::plainest(frame) {
            Some(plainest) => plainest,
            None => Self::of_any(frame),
        }
    }

    /// Looks at a frame of Ethernet, IPv4 and UDP: all is in a constant place.
    #[inline(always)]
    fn plainest(frame: &[u8]) -> Option<Self> {
        const START: usize = PLAIN_HEADERS + udp::HEADER_LEN;
        let head: &[u8; START] = frame.first_chunk()?;
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (version, fragment, ports) = (word(12), word(20), word(34));
        let plain = version >> 8 == u32::from(eth::TYPE_IPV4) << 8 | 0x45
            && fragment & 0x1fff_00ff == u32::from(ipv4::PROTOCOL_UDP)
            && !is_tunnel((ports >> 16) as u16)
            && !is_tunnel(ports as u16);
        plain.then(|| Self {
            end: within(frame, eth::HEADER_LEN + (word(16) >> 16) as usize),
            start: START,
            source: Some(word(26)),
            reports: false,
        })
    }

    #[inline(never)]
    fn of_any(frame: &[u8]) -> Self {
        Self::plain(frame).unwrap_or_else(|| Self {
            end: packet_end(frame),
            start: 0,
            source: None,
            reports: true,
        })
    }

    fn plain(frame: &[u8]) -> Option<Self> {
        let (mut at, mut ethertype) = (eth::HEADER_LEN, be16(frame, 12)?);
        if matches!(ethertype, eth::TYPE_CTAG | eth::TYPE_STAG) {
            (at, ethertype) = (eth::HEADER_LEN + eth::TAG_LEN, be16(frame, 16)?);
        }
        let (behind, protocol, len, source) = match ethertype {
            eth::TYPE_IPV4 => {
                let ip: &[u8; ipv4::MIN_HEADER_LEN] = chunk(frame, at)?;
                let later = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff != 0;
                if ip[0] != 0x45 || later {
                    return None;
                }
                let source = u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]);
                let len = u16::from_be_bytes([ip[2], ip[3]]);
                (at + ipv4::MIN_HEADER_LEN, ip[9], usize::from(len), Some(source))
            }
            eth::TYPE_IPV6 => {
                let ip: &[u8; ipv6::HEADER_LEN] = chunk(frame, at)?;
                let len = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
                // A length of 0 is that of a jumbogram.
                if ip[0] >> 4 != 6 || len == 0 {
                    return None;
                }
                (at + ipv6::HEADER_LEN, ip[6], len + ipv6::HEADER_LEN, None)
            }
            _ => return None,
        };
        let udp = chunk(frame, behind).filter(|_| protocol == ipv4::PROTOCOL_UDP);
        let no_tunnel = udp.is_some_and(|udp: &[u8; udp::HEADER_LEN]| {
            let ports = [[udp[0], udp[1]], [udp[2], udp[3]]].map(u16::from_be_bytes);
            !is_tunnel(ports[0]) && !is_tunnel(ports[1])
        });
        Some(Self {
            end: within(frame, at + len),
            start: if no_tunnel { behind + udp::HEADER_LEN } else { 0 },
            source,
            reports: matches!(protocol, ipv4::PROTOCOL_ICMP | ipv6::NEXT_ICMPV6),
        })
    }

    /// Reads the tag of the frame; `None` if it has none of `seed`.
    #[inline(always)]
    pub fn tag(&self, frame: &[u8], seed: u64) -> Option<Tag> {
        Tag::read(frame.get(..self.end)?, seed)
    }

    /// Returns the error that the frame reports, as [`icmp_error`] does.
    #[inline(always)]
    pub fn icmp_error(&self, frame: &[u8]) -> Option<IcmpError> {
        if self.reports { error_of_any(frame) } else { None }
    }

    /// Returns the offset of the innermost payload, as [`payload_start`] does.
    #[inline(always)]
    pub fn payload_start(&self, frame: &[u8]) -> Option<usize> {
        match self.start {
            0 => payload_start(frame),
            start => Some(start),
        }
    }

    /// Returns the source address of the outermost IP header if the headers are plain, and of IPv4.
    #[inline(always)]
    pub const fn ipv4_source(&self) -> Option<u32> {
        self.source
    }
}

/// Returns the end that headers say, or the end of the frame if that comes before.
#[inline(always)]
const fn within(frame: &[u8], end: usize) -> usize {
    if end <= frame.len() { end } else { frame.len() }
}

/// Out of line: few packets are reports.
#[inline(never)]
fn error_of_any(frame: &[u8]) -> Option<IcmpError> {
    icmp_error(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mark;
    use proptest::prelude::*;

    const SEED: u64 = 7;

    fn tag() -> Tag {
        Tag {
            number: 1,
            run: 2,
            flow: 3,
            time_ns: 4,
            mark: Mark::Sent,
        }
    }

    /// Returns a frame of these shims and an IP header that counts `payload` bytes before the tag.
    fn frame(shims: &[u8], v6: bool, payload: usize, padding: usize) -> Vec<u8> {
        let behind = payload + crate::TAG_LEN;
        let ip: Vec<u8> = match v6 {
            false => {
                let mut ip = vec![0; 20];
                ip[0] = 0x45;
                ip[2..4].copy_from_slice(&(20 + behind as u16).to_be_bytes());
                ip
            }
            true => {
                let mut ip = vec![0; 40];
                ip[0] = 0x60;
                ip[4..6].copy_from_slice(&(behind as u16).to_be_bytes());
                ip
            }
        };
        [
            &[2; 12][..],
            shims,
            &ip,
            &vec![9; payload],
            &tag().bytes(SEED),
            &vec![0; padding],
        ]
        .concat()
    }

    #[test]
    fn a_tag_is_found_behind_all_that_may_precede_ip() {
        let cases: &[(&[u8], bool)] = &[
            (&[0x08, 0x00], false),
            (&[0x86, 0xdd], true),
            (&[0x81, 0x00, 0, 5, 0x08, 0x00], false),
            (&[0x88, 0xa8, 0, 5, 0x81, 0x00, 0, 6, 0x86, 0xdd], true),
            (&[0x88, 0x47, 0, 0, 0x10, 9, 0, 0, 0x21, 9], false),
            (&[0x88, 0x64, 0x11, 0, 0, 1, 0, 40, 0x00, 0x57], true),
        ];
        for &(shims, v6) in cases {
            for padding in [0, 1, 4, 300] {
                let bytes = frame(shims, v6, 30, padding);
                let end = bytes.len() - padding;
                assert_eq!(tag_of(&bytes, SEED), Some((tag(), end)), "{shims:x?} {padding}");
            }
        }
    }

    #[test]
    fn a_report_that_quotes_a_tag_is_no_test_packet() {
        let report = |shims: &[u8], v6: bool, kind: [u8; 2]| {
            let mut bytes = frame(shims, v6, 30, 0);
            let ip = 12 + shims.len();
            bytes[ip + if v6 { 6 } else { 9 }] = if v6 { 58 } else { 1 };
            let at = ip + if v6 { 40 } else { 20 };
            bytes[at..at + 2].copy_from_slice(&kind);
            icmp_error(&bytes)
        };
        assert_eq!(report(&[8, 0], false, [11, 0]), Some(IcmpError::TimeExceeded));
        assert_eq!(
            report(&[0x81, 0, 0, 5, 8, 0], false, [3, 3]),
            Some(IcmpError::PortUnreachable)
        );
        assert_eq!(report(&[0x86, 0xdd], true, [2, 0]), Some(IcmpError::TooLong));
        assert_eq!(report(&[0x86, 0xdd], true, [1, 0]), Some(IcmpError::Unreachable));
        assert_eq!(report(&[8, 0], false, [8, 0]), None, "a ping");
        assert_eq!(icmp_error(&frame(&[8, 0], false, 30, 0)), None);
    }

    #[test]
    fn without_ip_the_tag_ends_the_frame() {
        let bytes = [&[2; 12][..], &[0x88, 0xb5], &[0; 30], &tag().bytes(SEED)].concat();
        assert_eq!(tag_of(&bytes, SEED), Some((tag(), bytes.len())));
        assert_eq!(tag_of(&[&bytes[..], &[0]].concat(), SEED), None, "padded");
    }

    #[test]
    fn another_seed_has_no_tag() {
        assert_eq!(tag_of(&frame(&[0x08, 0x00], false, 30, 0), SEED + 1), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            at in 0usize..20,
            kind in 0usize..6,
        ) {
            let mut bytes = bytes;
            let kinds = [[0x08, 0], [0x86, 0xdd], [0x81, 0], [0x88, 0xa8], [0x88, 0x47], [0x88, 0x64]];
            for at in [12, 12 + 4 * (at % 3)] {
                if let Some(type_bytes) = bytes.get_mut(at..at + 2) {
                    type_bytes.copy_from_slice(&kinds[kind]);
                }
            }
            prop_assert!(packet_end(&bytes) <= bytes.len());
            prop_assert_eq!(tag_of(&bytes, SEED), None);
        }

        /// Frames of plain headers, some of whose bytes are others.
        #[test]
        fn an_outline_says_what_the_walks_say(
            shims in 0usize..5,
            protocol in prop::sample::select(vec![17u8, 6, 1, 58, 47, 4, 41, 0, 44]),
            ports in prop::sample::select(vec![[1u16, 2], [4789, 7], [7, 4789], [2152, 6081], [6635, 0]]),
            (payload, padding, cut) in (0usize..40, 0usize..30, 0usize..60),
            changes in prop::collection::vec((0usize..80, any::<u8>()), 0..3),
        ) {
            let types: [&[u8]; 5] = [
                &[8, 0], &[0x86, 0xdd], &[0x81, 0, 0, 5, 8, 0], &[0x88, 0xa8, 0, 5, 0x86, 0xdd],
                &[0x81, 0, 0, 5, 0x81, 0, 0, 6, 8, 0],
            ];
            let v6 = types[shims].ends_with(&[0x86, 0xdd]);
            let mut bytes = frame(types[shims], v6, 8 + payload, padding);
            let ip = 12 + types[shims].len();
            bytes[ip + if v6 { 6 } else { 9 }] = protocol;
            let behind = ip + if v6 { 40 } else { 20 };
            bytes[behind..behind + 2].copy_from_slice(&ports[0].to_be_bytes());
            bytes[behind + 2..behind + 4].copy_from_slice(&ports[1].to_be_bytes());
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            let len = if cut < 40 { bytes.len() } else { bytes.len().saturating_sub(cut) };
            let bytes = &bytes[..len];
            let outline = Outline::of(bytes);
            prop_assert_eq!(outline.end, packet_end(bytes));
            prop_assert_eq!(outline.icmp_error(bytes), icmp_error(bytes));
            prop_assert_eq!(outline.payload_start(bytes), payload_start(bytes));
            if let Some(source) = outline.ipv4_source() {
                let at = outer_ip(bytes).expect("an IP header");
                prop_assert_eq!(bytes[at] >> 4, 4);
                prop_assert_eq!(&source.to_be_bytes(), &bytes[at + 12..at + 16]);
            }
        }
    }
}
