//! The UDP checksum (RFC 768; RFC 8200, section 8.1) of a parsed packet.

use crate::UdpPacket;
use crate::bytes::{chunk, chunk_mut};
use crate::checksum::Sum;
use crate::ipv4::PROTOCOL_UDP;

/// Bytes of a UDP header.
pub const HEADER_LEN: usize = 8;
/// Offset of the checksum in the UDP header.
pub const CHECKSUM_OFFSET: usize = 6;

/// The sum of the pseudo-header, from addresses as they lie in the IP header: source and destination in one piece,
/// 8 bytes for IPv4, 32 for IPv6.
#[inline(always)]
pub(crate) fn pseudo_header<const N: usize>(addresses: &[u8; N], protocol: u8, upper_len: u16) -> Sum {
    let (words, _) = addresses.as_chunks::<8>();
    let mut sum = Sum::ZERO.number(protocol.into()).number(upper_len);
    for word in words {
        sum = sum.word(u64::from_le_bytes(*word));
    }
    sum
}

/// The sum of the packet's pseudo-header; `None` if the frame ends before its addresses.
#[inline(always)]
fn pseudo(frame: &[u8], p: &UdpPacket) -> Option<Sum> {
    let l3 = usize::from(p.l3);
    let udp_len = p.payload_len.checked_add(HEADER_LEN as u16)?;
    Some(if p.v6 {
        pseudo_header::<32>(chunk(frame, l3 + 8)?, PROTOCOL_UDP, udp_len)
    } else {
        pseudo_header::<8>(chunk(frame, l3 + 12)?, PROTOCOL_UDP, udp_len)
    })
}

/// The sum over pseudo-header, UDP header and payload; `None` if the frame ends before the packet.
#[inline(always)]
fn sum(frame: &[u8], p: &UdpPacket) -> Option<Sum> {
    let len = HEADER_LEN + usize::from(p.payload_len);
    let datagram = frame.get(usize::from(p.l4)..)?.get(..len)?;
    Some(pseudo(frame, p)?.bytes(datagram))
}

/// The part of [`sum`] before the payload; `None` if there is no checksum, or the frame ends before.
#[inline(always)]
pub(crate) fn sum_before_payload(frame: &[u8], p: &UdpPacket) -> Option<Sum> {
    let header = u64::from_le_bytes(*chunk(frame, usize::from(p.l4))?);
    (header >> 48 != 0).then_some(pseudo(frame, p)?.word(header))
}

/// [`sum`] for the frame that rates are quoted for (64 bytes with FCS, IPv4, untagged): every offset is constant.
#[inline(always)]
fn sum_of_smallest(frame: &[u8], p: &UdpPacket) -> Option<Sum> {
    const ADDRESSES: usize = 26;
    const PAYLOAD_LEN: u16 = 18;
    if p.v6 || p.l3 != 14 || p.l4 != 34 || p.payload_len != PAYLOAD_LEN {
        return None;
    }
    let covered = chunk::<34>(frame, ADDRESSES)?;
    let (words, tail) = covered.as_chunks::<8>();
    let mut sum = Sum::ZERO.number(u16::from(PROTOCOL_UDP) + PAYLOAD_LEN + HEADER_LEN as u16);
    for word in words {
        sum = sum.word(u64::from_le_bytes(*word));
    }
    Some(sum.word(u64::from(u16::from_le_bytes(*tail.first_chunk()?))))
}

/// True when the packet's UDP checksum is right. Over IPv4 a checksum of zero means that there is none, which is right
/// too; over IPv6 it is wrong.
#[inline(always)]
pub fn udp_checksum_ok(frame: &[u8], p: &UdpPacket) -> bool {
    let Some(field) = chunk::<2>(frame, usize::from(p.l4) + CHECKSUM_OFFSET) else {
        return false;
    };
    if *field == [0, 0] {
        return !p.v6;
    }
    if let Some(sum) = sum_of_smallest(frame, p) {
        return sum.is_valid();
    }
    sum(frame, p).is_some_and(Sum::is_valid)
}

/// True when the checksum field holds the pseudo-header's sum and no more, as the kernel leaves it to the device
/// (`CHECKSUM_PARTIAL`). One in 65536 finished checksums looks the same; computing it again changes none that is right.
#[inline]
pub fn udp_checksum_open(frame: &[u8], p: &UdpPacket) -> bool {
    let field = chunk::<2>(frame, usize::from(p.l4) + CHECKSUM_OFFSET);
    pseudo(frame, p)
        .zip(field)
        .is_some_and(|(sum, field)| sum.fold().to_le_bytes() == *field)
}

/// Computes the packet's UDP checksum from scratch and writes it: for frames whose checksum was left to a device that
/// never saw them (`CHECKSUM_PARTIAL`). Does nothing if the frame ends before the packet.
#[inline]
pub fn complete_udp_checksum(frame: &mut [u8], p: &UdpPacket) {
    let at = usize::from(p.l4) + CHECKSUM_OFFSET;
    let Some(field) = chunk_mut::<2>(frame, at) else {
        return;
    };
    let old = core::mem::take(field);
    let new = sum(frame, p).map_or(old, Sum::finish_udp);
    if let Some(field) = chunk_mut::<2>(frame, at) {
        *field = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChecksumMode, MacAddr, Stamp, Template, TemplateSpec, parse_udp};

    #[test]
    fn a_checksum_left_to_the_device_is_told_from_a_finished_one_and_from_a_wrong_one() {
        for (src, dst) in [("10.99.0.1", "10.99.0.2"), ("fd99::1", "fd99::2")] {
            for checksum in [ChecksumMode::Software, ChecksumMode::Device] {
                let template = Template::new(&TemplateSpec {
                    src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
                    dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
                    vlan: None,
                    src: src.parse().expect("an address"),
                    dst: dst.parse().expect("an address"),
                    payload_len: 33,
                    ttl: 64,
                    dscp: 0,
                    seed: 1,
                    checksum,
                })
                .expect("one family");
                let mut frame = vec![0; template.frame_len()];
                template.write(&mut frame, 10_000, 9000, Stamp { seq: 7, time_ns: 9 });
                let p = parse_udp(&frame).expect("a packet");
                let left = checksum == ChecksumMode::Device;
                assert_eq!(
                    (udp_checksum_open(&frame, &p), udp_checksum_ok(&frame, &p)),
                    (left, !left)
                );
                frame[usize::from(p.l4) + CHECKSUM_OFFSET] ^= 1;
                assert!(!udp_checksum_open(&frame, &p) && !udp_checksum_ok(&frame, &p));
                complete_udp_checksum(&mut frame, &p);
                assert!(udp_checksum_ok(&frame, &p));
            }
        }
    }
}
