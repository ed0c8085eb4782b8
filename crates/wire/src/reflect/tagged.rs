//! Turning test packets round by their tag, whatever headers they have.
//!
//! A packet with a right tag is taken whatever it is addressed to, unless to a group, and returned so:
//! - MAC addresses are exchanged, and the addresses of the outermost IP header, which VLAN tags, MPLS labels and PPPoE
//!   may precede. Tunnels are turned by this header alone: what they carry stays as it is.
//! - Ports are exchanged if the outermost IP header carries UDP or TCP, and no fragment. All other packets are turned
//!   by their addresses: a ping stays a request, and SCTP keeps its ports, since its CRC32c depends on their order.
//! - Time to live (hop limit) is lowered by one, as a router does it.
//! - The tag is marked as returned. A packet with that mark is never returned again, so none goes round between two
//!   reflectors, and no probe is needed. A frame without IP has no other limit.
//!
//! Packets of streams without a tag are turned likewise, by their headers ([`ReflectFilter::untagged`]), unmarked.
//!
//! The mark changes no Internet checksum. It changes a CRC32c always in the same bits, if the tag ends the bytes that
//! the CRC covers. So it is mended in SCTP behind the outermost IP header. A CRC32c deeper inside is covered by sums
//! around it. A packet with one is not marked, and goes round until its time to live is used up.
//!
//! A checksum that was wrong stays wrong, and the receiver will notice.

use super::{addresses, complete, lower_ttl};
use crate::bytes::{be16, chunk_mut, swap_macs, swap_neighbours};
use crate::extensions::FRAGMENT;
use crate::ipv4::PROTOCOL_UDP;
use crate::packet::parse_udp;
use crate::tag::mark_returned;
use crate::tagged::{PROTOCOL_SCTP, PROTOCOL_TCP, carries_sctp, icmp_error, is_tunnel, outer_ip, packet_end, tag_of};
use crate::{Finish, Left, Mark, ReflectFilter, TAG_LEN, eth, ipv4, ipv6, udp_checksum_open};
use core::net::IpAddr;
use core::ops::RangeInclusive;

/// Offset of the CRC32c in an SCTP header.
const CRC_OFFSET: usize = 8;

/// Bits of a CRC32c that the mark changes: the CRC, without its constant part, of the two bits that it exchanges.
const MARKED: u32 = {
    let mut tag = [0u8; TAG_LEN];
    (tag[4], tag[6]) = (0x80, 0x80);
    let (mut crc, mut bit) = (0u32, 0);
    while bit < TAG_LEN * 8 {
        if bit % 8 == 0 {
            crc ^= tag[bit / 8] as u32;
        }
        crc = crc >> 1 ^ (0x82f6_3b78 * (crc & 1));
        bit += 1;
    }
    crc
};

/// Outermost IP header of a frame.
#[derive(Clone, Copy, Debug)]
struct Outer {
    l3: usize,
    v6: bool,
    /// Offset and protocol of what follows the header.
    l4: usize,
    protocol: u8,
    fragment: bool,
}

impl Outer {
    /// Reads the header at `l3`. The header must be valid and end before the tag, which has `tag` bytes.
    #[inline]
    fn read(frame: &[u8], l3: usize, tag: usize) -> Result<Self, Left> {
        let packet = frame.get(l3..).ok_or(Left::TooShort)?;
        let v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let (header_len, total_len, protocol, fragment) = if v6 {
            let ip = ipv6::parse_also_fragment(packet)?;
            (ip.header_len, ip.total_len, ip.protocol, ip.protocol == FRAGMENT)
        } else {
            let ip = ipv4::parse_also_fragment(packet)?;
            (ip.header_len, ip.total_len, ip.protocol, ipv4::is_fragment(packet))
        };
        if header_len + tag > total_len {
            return Err(Left::TooShort);
        }
        let l4 = l3 + header_len;
        Ok(Self {
            l3,
            v6,
            l4,
            protocol,
            fragment,
        })
    }

    /// Returns source and destination port of UDP or TCP whose header begins before the tag.
    #[inline]
    fn ports(&self, frame: &[u8], tag_at: usize) -> Option<(u16, u16)> {
        let has = matches!(self.protocol, PROTOCOL_UDP | PROTOCOL_TCP) && !self.fragment && self.l4 + 4 <= tag_at;
        has.then(|| be16(frame, self.l4).zip(be16(frame, self.l4 + 2)))
            .flatten()
    }

    /// Returns how the mark is made.
    #[inline]
    fn marking(&self, frame: &[u8], tag_at: usize, ports: Option<(u16, u16)>) -> Marking {
        match self.protocol {
            PROTOCOL_TCP => Marking::Plain,
            PROTOCOL_UDP if ports.is_some_and(|(src, dst)| !is_tunnel(src) && !is_tunnel(dst)) => Marking::Plain,
            PROTOCOL_SCTP if !self.fragment && self.l4 + CRC_OFFSET + 4 <= tag_at => Marking::Crc(self.l4 + CRC_OFFSET),
            _ if carries_sctp(frame, self.l3) => Marking::None,
            _ => Marking::Plain,
        }
    }
}

/// Way to mark a packet.
#[derive(Clone, Copy, Debug)]
enum Marking {
    /// The tag is changed, and nothing else.
    Plain,
    /// The CRC32c at this offset is changed, too.
    Crc(usize),
    /// No mark.
    None,
}

impl ReflectFilter {
    /// Returns whether a frame is one of those without a tag that are taken.
    #[cold]
    fn has_untagged(&self, frame: &[u8]) -> bool {
        let Some(ip) = outer_ip(frame).and_then(|l3| Outer::read(frame, l3, 0).ok()) else {
            return false;
        };
        let octets = |at: usize, len: usize| frame.get(at..at + len);
        let address = |end: usize| match ip.v6 {
            true => octets(ip.l3 + 8 + 16 * end, 16)
                .and_then(|ip| <[u8; 16]>::try_from(ip).ok())
                .map(IpAddr::from),
            false => octets(ip.l3 + 12 + 4 * end, 4)
                .and_then(|ip| <[u8; 4]>::try_from(ip).ok())
                .map(IpAddr::from),
        };
        let came = [address(0), address(1)];
        let ports = ip.ports(frame, packet_end(frame));
        self.untagged.iter().any(|of| {
            let within = |(ips, came): (&Vec<RangeInclusive<IpAddr>>, Option<IpAddr>)| {
                ips.is_empty() || came.is_some_and(|came| ips.iter().any(|ips| ips.contains(&came)))
            };
            // Later fragments of UDP and TCP have no ports, by which they would be known.
            let by_ports = match ports {
                Some((from, to)) => of.ports[0].contains(&from) && of.ports[1].contains(&to),
                None => !matches!(ip.protocol, PROTOCOL_UDP | PROTOCOL_TCP),
            };
            of.protocol == ip.protocol && of.ips.iter().zip(came).all(within) && by_ports
        })
    }

    /// Checks the MAC addresses of a tagged frame.
    #[inline]
    fn check_macs(&self, frame: &[u8]) -> Result<(), Left> {
        let src = eth::source(frame);
        if eth::destination(frame).is_multicast() {
            return Err(Left::Multicast);
        }
        if src.is_multicast() {
            return Err(Left::BadSource);
        }
        if self.mac == Some(src) && !self.loopback {
            return Err(Left::OwnSource);
        }
        Ok(())
    }

    /// Checks the addresses of a tagged packet's outermost IP header, and the ports behind it.
    #[inline]
    fn check_ends(&self, frame: &[u8], ip: &Outer, ports: Option<(u16, u16)>) -> Result<(), Left> {
        let (dst_is_group, src_is_host) = addresses(frame, ip.l3, ip.v6);
        if dst_is_group {
            return Err(Left::Multicast);
        }
        if !src_is_host || ports.is_some_and(|(src, _)| src == 0) {
            return Err(Left::BadSource);
        }
        self.answerable(frame, ip.l3, ip.v6, ports.is_some_and(|(src, dst)| src == dst))
    }
}

/// Turns a frame with a tag of `seed`.
///
/// # Errors
/// Why the frame was left; it is then unchanged.
#[inline(never)]
pub(crate) fn turn_tagged(frame: &mut [u8], filter: &ReflectFilter, seed: u64, finish: Finish) -> Result<(), Left> {
    let (tag, tag_at) = match tag_of(frame, seed) {
        Some((tag, end)) => (Some(tag), end - TAG_LEN),
        None if filter.has_untagged(frame) => (None, packet_end(frame)),
        None => return Err(Left::NotTagged),
    };
    // A device that makes up its packets may give the same buffer again, and with it the mark.
    let marks = tag.is_some() && !filter.keep_ttl;
    if marks && tag.is_some_and(|tag| tag.mark == Mark::Returned) {
        return Err(Left::Returned);
    }
    if tag_at < eth::HEADER_LEN {
        return Err(Left::TooShort);
    }
    filter.check_macs(frame)?;
    if icmp_error(frame).is_some() {
        // It quotes a test packet, and nobody answers a report (RFC 1122, section 3.2.2).
        return Err(Left::NotTagged);
    }
    let mut marking = Marking::Plain;
    if let Some(l3) = outer_ip(frame) {
        let ip = Outer::read(frame, l3, if tag.is_some() { TAG_LEN } else { 0 })?;
        let ports = ip.ports(frame, tag_at);
        filter.check_ends(frame, &ip, ports)?;
        marking = ip.marking(frame, tag_at, ports);
        if !filter.keep_ttl && !lower_ttl(frame, l3, ip.v6) {
            return Err(Left::TtlExpired);
        }
        if ip.v6 {
            swap_neighbours::<16>(frame, l3 + 8);
        } else {
            swap_neighbours::<4>(frame, l3 + 12);
        }
        if ports.is_some() {
            swap_neighbours::<2>(frame, ip.l4);
        }
    }
    swap_macs(frame);
    if marks {
        mark(frame, tag_at, marking);
    }
    if finish != Finish::Keep {
        close(frame, finish);
    }
    Ok(())
}

/// Marks the tag at `tag_at` as returned.
#[inline]
fn mark(frame: &mut [u8], tag_at: usize, marking: Marking) {
    if let Marking::None = marking {
        return;
    }
    if let Some(tag) = chunk_mut::<TAG_LEN>(frame, tag_at) {
        mark_returned(tag);
    }
    if let Marking::Crc(at) = marking
        && let Some(crc) = chunk_mut::<4>(frame, at)
    {
        *crc = (u32::from_le_bytes(*crc) ^ MARKED).to_le_bytes();
    }
}

/// Computes the checksum of UDP that was left to a device. No other sum is: tagged packets are written with all of
/// theirs.
#[cold]
fn close(frame: &mut [u8], finish: Finish) {
    if let Ok(p) = parse_udp(frame)
        && (finish == Finish::Compute || udp_checksum_open(frame, &p))
    {
        complete(frame, &p);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tag;
    use proptest::prelude::*;

    const SEED: u64 = 7;

    /// Returns bytes as a frame with a tag at its end.
    fn tagged(bytes: &[u8], mark: Mark) -> Vec<u8> {
        let tag = Tag {
            number: 1,
            run: 2,
            flow: 3,
            time_ns: 4,
            mark,
        };
        [bytes, &tag.bytes(SEED)].concat()
    }

    fn turn(frame: &mut [u8], finish: Finish) -> Result<(), Left> {
        let filter = ReflectFilter {
            tagged: Some(SEED),
            ..ReflectFilter::default()
        };
        turn_tagged(frame, &filter, SEED, finish)
    }

    #[test]
    fn a_frame_without_ip_is_returned_once() {
        let mut frame = tagged(&[&[2; 6][..], &[4; 6], &[0x88, 0xb5], &[0; 40]].concat(), Mark::Sent);
        let want = tagged(
            &[&[4; 6][..], &[2; 6], &[0x88, 0xb5], &[0; 40]].concat(),
            Mark::Returned,
        );
        assert_eq!(turn(&mut frame, Finish::Keep), Ok(()));
        assert_eq!(frame, want);
        assert_eq!(turn(&mut frame, Finish::Keep), Err(Left::Returned));
        assert_eq!(frame, want);
    }

    #[test]
    fn a_header_that_reaches_into_the_tag_is_left() {
        // A packet of 35 bytes, whose tag begins with the last byte of its header.
        let mut head = vec![0; 34];
        (head[6], head[12], head[14], head[17], head[22]) = (2, 8, 0x45, 35, 64);
        (head[26], head[30]) = (10, 11);
        let mut tag = tagged(&[], Mark::Sent);
        head[33] = tag.remove(0);
        let sum = crate::checksum::internet_checksum(&head[14..34]);
        head[24..26].copy_from_slice(&sum);
        let mut frame = [head, tag].concat();
        let sent = frame.clone();
        assert_eq!(turn(&mut frame, Finish::Keep), Err(Left::TooShort));
        assert_eq!(frame, sent);
    }

    proptest! {
        /// Bytes whose types and protocols are often those of headers that are known.
        #[test]
        fn a_frame_is_turned_whole_or_left_unchanged(
            mut bytes in prop::collection::vec(any::<u8>(), 0..120),
            places in prop::collection::vec((0usize..80, 0usize..12), 0..12),
            ethertype in 0usize..6,
            (right, finish) in (any::<bool>(), 0usize..3),
        ) {
            let kinds: [&[u8]; 12] = [
                &[0x08, 0], &[0x86, 0xdd], &[0x81, 0], &[0x88, 0x47], &[0x88, 0x64], &[0x88, 0xb5],
                &[0x45], &[0x60], &[17], &[6], &[132], &[0, 0],
            ];
            for (at, kind) in places.into_iter().chain([(12, ethertype)]) {
                let kind = kinds[kind];
                if let Some(place) = bytes.get_mut(at..at + kind.len()) {
                    place.copy_from_slice(kind);
                }
            }
            if right && bytes.len() > 54 {
                // The outermost IP header is right.
                (bytes[0], bytes[6]) = (2, 2);
                if ethertype == 0 {
                    let len = (bytes.len() - 14 + TAG_LEN) as u16;
                    bytes[14] = 0x45;
                    bytes[16..18].copy_from_slice(&len.to_be_bytes());
                    (bytes[26], bytes[30]) = (10, 11);
                    bytes[24..26].fill(0);
                    let sum = crate::checksum::internet_checksum(&bytes[14..34]);
                    bytes[24..26].copy_from_slice(&sum);
                } else if ethertype == 1 {
                    let len = (bytes.len() - 54 + TAG_LEN) as u16;
                    bytes[14] = 0x60;
                    bytes[18..20].copy_from_slice(&len.to_be_bytes());
                }
            }
            let sent = tagged(&bytes, Mark::Sent);
            let (mut frame, finish) = (sent.clone(), [Finish::Keep, Finish::Compute, Finish::Look][finish]);
            match turn(&mut frame, finish) {
                Err(_) => prop_assert_eq!(frame, sent),
                Ok(()) => {
                    prop_assert_eq!(frame.len(), sent.len());
                    prop_assert_eq!((&frame[..6], &frame[6..12]), (&sent[6..12], &sent[..6]));
                    let (before, after) = (tag_of(&sent, SEED).unwrap().0, tag_of(&frame, SEED).unwrap().0);
                    prop_assert_eq!(Tag { mark: before.mark, ..after }, before);
                    if after.mark == Mark::Returned {
                        prop_assert_eq!(turn(&mut frame, finish), Err(Left::Returned));
                    }
                }
            }
        }
    }
}
