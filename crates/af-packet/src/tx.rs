//! The sending half of a queue: frames copied into a TPACKET_V2 transmit ring.
//!
//! Protocol (packet_mmap.rst, `tpacket_snd` in net/packet/af_packet.c): we fill slots in order, each with
//! `TP_STATUS_SEND_REQUEST` stored last, and call `sendto`. The kernel walks on from its own head while it finds
//! requests, sets `TP_STATUS_SENDING`, and the driver's completion sets `TP_STATUS_AVAILABLE`. When it stops at a
//! slot (no buffer memory, device queue full, device down) that slot keeps `TP_STATUS_SEND_REQUEST`. The kernel only
//! looks at the ring within our call, so afterwards we may take back what it left.

use crate::abi::{ETH_HLEN, TX_DATA, VIRTIO_NET_HDR_F_NEEDS_CSUM, VirtioNetHdr};
use crate::frame::AfPacketFrame;
use crate::ring::{Cursor, Geometry, Mapping};
use crate::socket::Socket;
use mpps_io::Frame;
use std::io;
use std::mem::{offset_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Frames above this size are left to the kernel's page fragments: one allocation for all of it would need
/// several pages in a row.
const LINEAR_MAX: usize = 2048;

/// A sending socket and its ring.
pub(crate) struct TxSocket {
    // Dropped in this order: the mapping holds the ring alive even when the descriptor is closed.
    pub(crate) ring: Mapping,
    pub(crate) socket: Socket,
    pub(crate) geometry: Geometry,
    /// Destination of packets: the interface, and the protocol that the kernel takes them for.
    pub(crate) to: libc::sockaddr_ll,
    /// The device completes UDP checksums of allocated frames.
    pub(crate) device_checksum: bool,
    /// Largest frame without and with a VLAN tag is `mtu + 14` and `mtu + 18`.
    pub(crate) mtu: usize,
}

/// Bytes of a slot that holds frames up to `max_frame`.
pub(crate) fn slot_bytes(max_frame: usize) -> usize {
    TX_DATA + size_of::<VirtioNetHdr>() + max_frame
}

/// Result of one pass over the ring.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Frames from the front that the kernel has taken (those that it refused included).
    pub(crate) taken: usize,
    /// Number of taken frames that the kernel refused as malformed.
    pub(crate) refused: usize,
    /// Why it stopped early.
    pub(crate) error: Option<io::Error>,
}

/// The writer of one ring.
pub(crate) struct TxRing<'p> {
    pub(crate) to: &'p TxSocket,
    /// The next slot to fill; between calls also the kernel's head.
    cursor: Cursor,
}

impl<'p> TxRing<'p> {
    /// The ring's only writer: the port hands out each queue once.
    pub(crate) fn new(to: &'p TxSocket) -> Self {
        Self {
            to,
            cursor: to.geometry.start(),
        }
    }

    /// True for a frame that the device can carry: an Ethernet header at least, and at most the MTU.
    #[inline]
    pub(crate) fn sendable(&self, frame: &[u8]) -> bool {
        frame.len() >= ETH_HLEN
            && (frame.len() <= self.to.mtu + ETH_HLEN
                || (frame.len() <= self.to.mtu + ETH_HLEN + 4 && matches!(frame[12..14], [0x81, 0] | [0x88, 0xa8])))
    }

    /// Sends frames from the front, up to the first that is not sendable or finds no slot free.
    #[inline]
    pub(crate) fn send(&mut self, frames: &[AfPacketFrame<'_>]) -> Sent {
        let start = self.cursor;
        let mut filled = 0;
        let mut last = start;
        for frame in frames {
            let status = self.status(self.cursor);
            // Acquire pairs with the kernel's barrier before it gives a slot back.
            if status.load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE || !self.sendable(frame.bytes()) {
                break;
            }
            self.fill(self.cursor, frame);
            // Release: the slot's contents come before its request.
            status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            last = self.cursor;
            self.cursor = self.to.geometry.next(self.cursor);
            filled += 1;
        }
        if filled == 0 {
            return Sent::default();
        }
        let result = self.to.socket.kick(&self.to.to);
        match self.status(last).load(Ordering::Acquire) {
            libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT => self.settle(start, filled, result.err()),
            _ => Sent {
                taken: filled,
                refused: 0,
                error: None,
            },
        }
    }

    /// Finds where the kernel stopped among the `filled` slots from `start` on, and takes back the rest.
    #[cold]
    fn settle(&mut self, start: Cursor, filled: usize, error: Option<io::Error>) -> Sent {
        let mut sent = Sent {
            error,
            ..Sent::default()
        };
        let mut at = start;
        while sent.taken < filled {
            match self.status(at).load(Ordering::Acquire) {
                libc::TP_STATUS_SEND_REQUEST => break,
                libc::TP_STATUS_WRONG_FORMAT => {
                    // The kernel's head stays at a slot that it refused: the next frame goes there.
                    sent.taken += 1;
                    sent.refused = 1;
                    sent.error = None;
                    break;
                }
                _ => {
                    at = self.to.geometry.next(at);
                    sent.taken += 1;
                }
            }
        }
        self.cursor = at;
        let mut left = at;
        for _ in 0..filled - (sent.taken - sent.refused) {
            self.status(left).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
            left = self.to.geometry.next(left);
        }
        sent
    }

    #[inline]
    fn slot(&self, at: Cursor) -> NonNull<u8> {
        // SAFETY: a cursor's offset is that of a slot within the mapping (Geometry), which lives for 'p.
        unsafe { self.to.ring.base().add(at.offset) }
    }

    #[inline]
    fn status(&self, at: Cursor) -> &'p AtomicU32 {
        // SAFETY: the status is the slot's first word, aligned by the slot, only touched as an atomic, and the
        // mapping lives for 'p.
        unsafe { self.slot(at).cast::<AtomicU32>().as_ref() }
    }

    /// Writes `frame` into the slot.
    #[inline]
    fn fill(&mut self, at: Cursor, frame: &AfPacketFrame<'_>) {
        let bytes = frame.bytes();
        let header = self.vnet_header(bytes, frame.is_allocated());
        let total = (size_of::<VirtioNetHdr>() + bytes.len()) as u32;
        let slot = self.slot(at);
        // SAFETY: the slot is TP_STATUS_AVAILABLE, thus ours alone; `bytes` is sendable, so header and frame fit
        // (`slot_bytes`); frames lie in other memory than the transmit ring. The virtio header is unaligned.
        unsafe {
            slot.add(offset_of!(libc::tpacket2_hdr, tp_len))
                .cast::<u32>()
                .write(total);
            slot.add(offset_of!(libc::tpacket2_hdr, tp_snaplen))
                .cast::<u32>()
                .write(total);
            let data = slot.add(TX_DATA);
            data.cast::<VirtioNetHdr>().write_unaligned(header);
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                data.add(size_of::<VirtioNetHdr>()).as_ptr(),
                bytes.len(),
            );
        }
    }

    /// The virtio header: how much the kernel copies, and where the device puts the checksum.
    #[inline]
    fn vnet_header(&self, bytes: &[u8], allocated: bool) -> VirtioNetHdr {
        let hdr_len = if bytes.len() <= LINEAR_MAX {
            bytes.len() as u16
        } else {
            0
        };
        let mut header = VirtioNetHdr {
            hdr_len,
            ..VirtioNetHdr::default()
        };
        if self.to.device_checksum
            && allocated
            && let Some(csum_start) = udp_offset(bytes)
        {
            header.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
            header.csum_start = csum_start;
            header.csum_offset = 6;
        }
        header
    }
}

/// Returns the offset of the UDP header of an unfragmented IPv4 or IPv6 packet; skips tags and IPv4 options.
fn udp_offset(bytes: &[u8]) -> Option<u16> {
    let mut at = 12;
    let mut ethertype = bytes.get(at..at + 2)?;
    while matches!(ethertype, [0x81, 0] | [0x88, 0xa8]) {
        at += 4;
        ethertype = bytes.get(at..at + 2)?;
    }
    at += 2;
    let header = match ethertype {
        [0x08, 0] => {
            let ip = bytes.get(at..at + 20)?;
            let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff;
            (ip[9] == 17 && fragment == 0).then_some(usize::from(ip[0] & 15) * 4)?
        }
        [0x86, 0xdd] => (bytes.get(at + 6) == Some(&17)).then_some(40)?,
        _ => return None,
    };
    let udp = at + header;
    (bytes.len() >= udp + 8).then_some(u16::try_from(udp).ok()?)
}

#[cfg(test)]
mod tests {
    use super::udp_offset;
    use proptest::prelude::*;

    fn frame(tags: usize, ip: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        for _ in 0..tags {
            bytes.extend([0x81, 0, 0, 7]);
        }
        bytes.extend(if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] });
        bytes.extend(ip);
        bytes
    }

    #[test]
    fn the_udp_header_is_found_behind_tags_and_options() {
        let mut v4 = [0; 60];
        (v4[0], v4[9]) = (0x45, 17);
        assert_eq!(udp_offset(&frame(0, &v4)), Some(34));
        assert_eq!(udp_offset(&frame(2, &v4)), Some(42));
        v4[0] = 0x47;
        assert_eq!(udp_offset(&frame(1, &v4)), Some(46));
        v4[6] = 0x20;
        assert_eq!(udp_offset(&frame(0, &v4)), None, "a fragment");
        let mut v6 = [0; 60];
        (v6[0], v6[6]) = (0x60, 17);
        assert_eq!(udp_offset(&frame(0, &v6)), Some(54));
        v6[6] = 58;
        assert_eq!(udp_offset(&frame(0, &v6)), None, "ICMPv6");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived_and_an_offset_leaves_room_for_the_header(
            bytes in prop::collection::vec(any::<u8>(), 0..120),
        ) {
            if let Some(at) = udp_offset(&bytes) {
                prop_assert!(at as usize + 8 <= bytes.len());
            }
        }
    }
}
