//! Merged frames: UDP datagrams of equal length, the last perhaps shorter, that travel as one frame behind one set of
//! headers (the kernel's UDP_SEGMENT and UDP_GRO), and the frames that they stand for.

use crate::bytes::{be16, chunk, chunk_mut};
use crate::checksum::Sum;
use crate::ipv4::{self, PROTOCOL_UDP};
use crate::udp::{self, pseudo_header};
use crate::{eth, ipv6};

/// A merged frame whose headers were understood; belongs to the frame that it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Offsets of the IP header, of the UDP header and of the first datagram's payload.
    l3: usize,
    l4: usize,
    payload: usize,
    /// Bytes of payload: of all datagrams, and of each but the last.
    total: usize,
    segment: usize,
    v6: bool,
    /// The UDP checksum is left to a device; else the datagrams have none.
    open: bool,
}

impl Merged {
    /// Reads the headers of a frame that holds datagrams of `segment` bytes of payload each. The frame may be cut
    /// behind its headers. `csum_start`: offset of the header whose checksum is unfinished, if there is one.
    ///
    /// `None` for other protocols, for tunnels, fragments and IPv6 extension headers, and if lengths contradict.
    pub fn new(frame: &[u8], segment: usize, csum_start: Option<usize>) -> Option<Self> {
        let ethernet = eth::parse(frame)?;
        let l3 = ethernet.l3;
        let (l4, room, v6) = match ethernet.ethertype {
            eth::TYPE_IPV4 => {
                let ip: &[u8; ipv4::MIN_HEADER_LEN] = chunk(frame, l3)?;
                let header_len = usize::from(ip[0] & 15) * 4;
                let whole = u16::from_be_bytes([ip[6], ip[7]]) & ipv4::FRAGMENT_BITS == 0;
                let plain = ip[0] >> 4 == 4 && header_len >= ipv4::MIN_HEADER_LEN && ip[9] == PROTOCOL_UDP && whole;
                let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
                (l3 + header_len, plain.then(|| total.checked_sub(header_len))??, false)
            }
            eth::TYPE_IPV6 => {
                let ip: &[u8; ipv6::HEADER_LEN] = chunk(frame, l3)?;
                let plain = ip[0] >> 4 == 6 && ip[6] == PROTOCOL_UDP;
                (
                    l3 + ipv6::HEADER_LEN,
                    plain.then(|| usize::from(u16::from_be_bytes([ip[4], ip[5]])))?,
                    true,
                )
            }
            _ => return None,
        };
        let len = usize::from(be16(frame, l4 + 4)?);
        let open = csum_start.is_some() || be16(frame, l4 + udp::CHECKSUM_OFFSET)? != 0;
        let fits = len > udp::HEADER_LEN && len <= room && segment > 0 && csum_start.is_none_or(|at| at == l4);
        fits.then_some(Self {
            l3,
            l4,
            payload: l4 + udp::HEADER_LEN,
            total: len - udp::HEADER_LEN,
            segment,
            v6,
            open,
        })
    }

    /// Number of datagrams.
    pub fn count(&self) -> usize {
        self.total.div_ceil(self.segment)
    }

    /// Number of datagrams that lie wholly within the first `held` bytes of the frame.
    pub fn within(&self, held: usize) -> usize {
        let bytes = held.saturating_sub(self.payload);
        if bytes >= self.total {
            self.count()
        } else {
            bytes / self.segment
        }
    }

    /// Whether the frames' UDP checksums hold the pseudo-header's sum only; else they have none.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Length of the largest frame.
    pub fn largest(&self) -> usize {
        self.payload + self.segment.min(self.total)
    }

    /// Writes datagram `n` of `frame` with headers of its own to the start of `into`; returns the length of that frame,
    /// or `None` if there is no such datagram, `frame` is cut before its end, or `into` is too short.
    ///
    /// The IPv4 identification counts up, as it does when the kernel splits; the UDP checksum is left open.
    pub fn write(&self, frame: &[u8], n: usize, into: &mut [u8]) -> Option<usize> {
        let start = n.checked_mul(self.segment).filter(|&start| start < self.total)?;
        let len = self.segment.min(self.total - start);
        let data = frame.get(self.payload + start..)?.get(..len)?;
        let out = into.get_mut(..self.payload + len)?;
        let (head, body) = out.split_at_mut(self.payload);
        head.copy_from_slice(frame.get(..self.payload)?);
        body.copy_from_slice(data);
        let udp_len = (udp::HEADER_LEN + len) as u16;
        let ip_len = (self.payload - self.l3 + len) as u16;
        *chunk_mut(head, self.l4 + 4)? = udp_len.to_be_bytes();
        let pseudo = if self.v6 {
            *chunk_mut(head, self.l3 + 4)? = udp_len.to_be_bytes();
            pseudo_header::<32>(chunk(head, self.l3 + 8)?, PROTOCOL_UDP, udp_len)
        } else {
            let id = be16(head, self.l3 + 4)?.wrapping_add(n as u16);
            *chunk_mut(head, self.l3 + 2)? = ip_len.to_be_bytes();
            *chunk_mut(head, self.l3 + 4)? = id.to_be_bytes();
            *chunk_mut(head, self.l3 + 10)? = [0, 0];
            let sum = Sum::ZERO.bytes(head.get(self.l3..self.l4)?).finish();
            *chunk_mut(head, self.l3 + 10)? = sum;
            pseudo_header::<8>(chunk(head, self.l3 + 12)?, PROTOCOL_UDP, udp_len)
        };
        let field = if self.open { pseudo.fold().to_le_bytes() } else { [0, 0] };
        *chunk_mut(head, self.l4 + udp::CHECKSUM_OFFSET)? = field;
        Some(self.payload + len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{complete_udp_checksum, parse_udp, udp_checksum_ok, udp_checksum_open};
    use proptest::prelude::*;

    /// A merged frame with `tags` VLAN tags, and `options` words of IPv4 options.
    fn merged(v6: bool, tags: usize, options: usize, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for tag in 0..tags {
            frame.extend([0x81, 0, 0, tag as u8]);
        }
        let udp_len = (8 + payload.len()) as u16;
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(udp_len.to_be_bytes());
            frame.extend([17, 64]);
            frame.extend([0xfd; 32]);
        } else {
            let header_len = 20 + 4 * options;
            frame.extend([8, 0, 0x40 | (header_len / 4) as u8, 0]);
            frame.extend((udp_len + header_len as u16).to_be_bytes());
            frame.extend([0xff, 0xfe, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.extend(vec![1; 4 * options]);
        }
        frame.extend([0x27, 0x10, 0x23, 0x28]);
        frame.extend(udp_len.to_be_bytes());
        frame.extend([0x12, 0x34]);
        frame.extend(payload);
        frame
    }

    proptest! {
        #[test]
        fn each_datagram_is_a_frame_of_its_own_and_none_is_lost(
            v6: bool, tags in 0usize..3, options in 0usize..4, segment in 1usize..400, total in 1usize..3000,
        ) {
            let payload: Vec<u8> = (0..total).map(|i| (i * 7 + i / 251) as u8).collect();
            let frame = merged(v6, tags, options, &payload);
            let all = Merged::new(&frame, segment, None).expect("UDP");
            prop_assert_eq!(all.count(), total.div_ceil(segment));
            prop_assert_eq!(all.within(frame.len()), all.count());
            let mut came = Vec::new();
            for n in 0..all.count() {
                let mut into = vec![0xee; all.largest()];
                let len = all.write(&frame, n, &mut into).expect("room");
                into.truncate(len);
                let packet = parse_udp(&into).expect("a frame");
                prop_assert_eq!((packet.src_port, packet.dst_port), (10_000, 9000));
                prop_assert!(udp_checksum_open(&into, &packet));
                complete_udp_checksum(&mut into, &packet);
                prop_assert!(udp_checksum_ok(&into, &packet));
                let start = usize::from(packet.payload);
                prop_assert_eq!(into.len(), start + usize::from(packet.payload_len));
                came.extend_from_slice(&into[start..]);
            }
            prop_assert_eq!(came, payload);
            prop_assert_eq!(all.write(&frame, all.count(), &mut [0; 4096]), None);
        }

        #[test]
        fn of_a_frame_that_is_cut_the_datagrams_that_are_there_are_whole(
            segment in 1usize..200, total in 1usize..2000, held in 0usize..2100,
        ) {
            let payload = vec![7; total];
            let frame = merged(false, 0, 0, &payload);
            let cut = &frame[..held.min(frame.len())];
            let Some(all) = Merged::new(cut, segment, None) else { return Ok(()) };
            let whole = all.within(cut.len());
            for n in 0..all.count() {
                let written = all.write(cut, n, &mut [0; 4096]);
                prop_assert_eq!(written.is_some(), n < whole, "{} of {}", n, whole);
            }
        }

        #[test]
        fn any_bytes_are_survived(
            bytes in prop::collection::vec(any::<u8>(), 0..200), segment: u16, start in prop::option::of(0usize..100),
            n in 0usize..1000, room in 0usize..300,
        ) {
            if let Some(all) = Merged::new(&bytes, segment.into(), start) {
                let _ = all.write(&bytes, n, &mut vec![0; room]);
            }
        }
    }

    #[test]
    fn what_is_no_plain_udp_is_left_alone() {
        let frame = merged(false, 0, 0, &[1; 100]);
        assert!(Merged::new(&frame, 0, None).is_none(), "no length");
        assert!(Merged::new(&frame, 10, Some(34)).is_some());
        assert!(
            Merged::new(&frame, 10, Some(84)).is_none(),
            "a tunnel: the inner header's sum is open"
        );
        for (at, byte) in [(23, 6), (20, 0x20), (14, 0x44), (12, 9)] {
            let mut other = frame.clone();
            other[at] = byte;
            assert!(Merged::new(&other, 10, None).is_none(), "byte {at}");
        }
    }
}
