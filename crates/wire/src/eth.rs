//! Ethernet II headers with up to two VLAN tags (IEEE 802.3, 802.1Q, 802.1ad).

use crate::MacAddr;
use crate::bytes::{be16, chunk, chunk_mut};

/// Bytes of an untagged header.
pub const HEADER_LEN: usize = 14;
/// Bytes of one VLAN tag.
pub const TAG_LEN: usize = 4;
/// Shortest frame without FCS; shorter ones are padded.
pub const MIN_FRAME_LEN: usize = 60;
/// Most VLAN tags that are parsed.
pub const MAX_TAGS: u8 = 2;

/// EtherType of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const TYPE_ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const TYPE_IPV6: u16 = 0x86dd;
/// Tag protocol identifier of a customer tag (802.1Q).
pub const TYPE_CTAG: u16 = 0x8100;
/// Tag protocol identifier of a service tag (802.1ad).
pub const TYPE_STAG: u16 = 0x88a8;

/// End of the Ethernet header, and the type of what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// EtherType after the tags.
    pub ethertype: u16,
    /// Offset of the first byte after the header: 14, 18 or 22.
    pub l3: usize,
    /// Number of VLAN tags: 0 to [`MAX_TAGS`].
    pub vlans: u8,
}

/// Reads the header; `None` if the frame ends within it. A third tag is left in `ethertype`.
#[inline]
pub fn parse(frame: &[u8]) -> Option<Ethernet> {
    let head: &[u8; HEADER_LEN] = frame.first_chunk()?;
    let ethertype = u16::from_be_bytes([head[12], head[13]]);
    if ethertype == TYPE_IPV4 || ethertype == TYPE_IPV6 {
        return Some(Ethernet {
            ethertype,
            l3: HEADER_LEN,
            vlans: 0,
        });
    }
    parse_tags(frame, ethertype)
}

#[inline(never)]
fn parse_tags(frame: &[u8], mut ethertype: u16) -> Option<Ethernet> {
    let (mut l3, mut vlans) = (HEADER_LEN, 0);
    while vlans < MAX_TAGS && (ethertype == TYPE_CTAG || ethertype == TYPE_STAG) {
        ethertype = be16(frame, l3 + 2)?;
        l3 += TAG_LEN;
        vlans += 1;
    }
    Some(Ethernet { ethertype, l3, vlans })
}

/// Destination address; all zero if the frame is too short.
#[inline]
pub fn destination(frame: &[u8]) -> MacAddr {
    chunk(frame, 0).map_or(MacAddr::ZERO, |mac| MacAddr(*mac))
}

/// Source address; all zero if the frame is too short.
#[inline]
pub fn source(frame: &[u8]) -> MacAddr {
    chunk(frame, 6).map_or(MacAddr::ZERO, |mac| MacAddr(*mac))
}

/// VLAN identifier (12 bits) of the outermost tag; `None` if there is no tag.
pub fn vlan_id(frame: &[u8]) -> Option<u16> {
    let tpid = be16(frame, 12)?;
    (tpid == TYPE_CTAG || tpid == TYPE_STAG)
        .then(|| be16(frame, 14))
        .flatten()
        .map(|tci| tci & 0xfff)
}

/// Writes a header, with an 802.1Q tag if `vlan` is given (identifier, priority 0), and returns its length: 14 or 18,
/// or 0 with nothing written if `out` is shorter.
pub fn write(out: &mut [u8], dst: MacAddr, src: MacAddr, vlan: Option<u16>, ethertype: u16) -> usize {
    let mut head = [0; HEADER_LEN + TAG_LEN];
    head[..6].copy_from_slice(&dst.0);
    head[6..12].copy_from_slice(&src.0);
    match vlan {
        None => {
            head[12..14].copy_from_slice(&ethertype.to_be_bytes());
            let Some(out) = chunk_mut::<HEADER_LEN>(out, 0) else {
                return 0;
            };
            out.copy_from_slice(&head[..HEADER_LEN]);
            HEADER_LEN
        }
        Some(vlan) => {
            head[12..14].copy_from_slice(&TYPE_CTAG.to_be_bytes());
            head[14..16].copy_from_slice(&(vlan & 0xfff).to_be_bytes());
            head[16..18].copy_from_slice(&ethertype.to_be_bytes());
            let Some(out) = chunk_mut::<{ HEADER_LEN + TAG_LEN }>(out, 0) else {
                return 0;
            };
            *out = head;
            HEADER_LEN + TAG_LEN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    #[test]
    fn written_header_is_read_back() {
        for (vlan, len) in [(None, 14), (Some(0xabc), 18)] {
            let mut frame = [0xee; 18];
            assert_eq!(write(&mut frame, DST, SRC, vlan, TYPE_ARP), len);
            assert_eq!(
                parse(&frame),
                Some(Ethernet {
                    ethertype: TYPE_ARP,
                    l3: len,
                    vlans: u8::from(vlan.is_some())
                })
            );
            assert_eq!((destination(&frame), source(&frame), vlan_id(&frame)), (DST, SRC, vlan));
            assert_eq!(write(&mut frame[..len - 1], DST, SRC, vlan, TYPE_ARP), 0);
            assert_eq!(parse(&frame[..len - 1]), None);
        }
    }

    #[test]
    fn two_tags_are_walked_and_a_third_is_not() {
        let mut frame = [0; 26];
        for (at, tpid) in [(12, TYPE_STAG), (16, TYPE_CTAG), (20, TYPE_CTAG)] {
            frame[at..at + 2].copy_from_slice(&tpid.to_be_bytes());
        }
        assert_eq!(
            parse(&frame),
            Some(Ethernet {
                ethertype: TYPE_CTAG,
                l3: 22,
                vlans: 2
            })
        );
    }
}
