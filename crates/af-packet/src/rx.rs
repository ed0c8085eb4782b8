//! The receiving half of a queue: slots of a TPACKET_V2 ring handed out as frames.
//!
//! Protocol (Documentation/networking/packet_mmap.rst): the kernel fills slots in order and sets `TP_STATUS_USER`
//! last; we give a slot back by storing `TP_STATUS_KERNEL`, in any order.

use crate::abi::{ETH_HLEN, RX_DATA, TP_STATUS_TAKEN, TPACKET2_HDRLEN, VLAN_HLEN};
use crate::frame::AfPacketFrame;
use crate::ring::{Cursor, Geometry, Mapping};
use crate::socket::Socket;
use mpps_io::{Burst, RxChecksum};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A receiving socket and its ring.
pub(crate) struct RxSocket {
    // Dropped in this order: the mapping holds the ring alive even when the descriptor is closed.
    pub(crate) ring: Mapping,
    pub(crate) socket: Socket,
    pub(crate) geometry: Geometry,
    /// Receives ARP and ICMPv6 only, from the start.
    pub(crate) control_only: bool,
}

/// Bytes of a slot that holds frames up to `max_frame`.
pub(crate) fn slot_bytes(max_frame: usize) -> usize {
    RX_DATA + max_frame
}

/// The reader of one ring.
pub(crate) struct RxRing<'p> {
    pub(crate) from: &'p RxSocket,
    cursor: Cursor,
}

impl<'p> RxRing<'p> {
    /// The ring's only reader: the port hands out each queue once.
    pub(crate) fn new(from: &'p RxSocket) -> Self {
        Self {
            from,
            cursor: from.geometry.start(),
        }
    }

    /// Appends what has arrived to `burst`; returns the number of frames and how many of them were cut.
    #[inline]
    pub(crate) fn receive(&mut self, burst: &mut Burst<AfPacketFrame<'p>>) -> (usize, usize) {
        let (mut received, mut cut) = (0, 0);
        for _ in 0..burst.room() {
            // SAFETY: the cursor's offset is that of a slot within the mapping (Geometry), which lives for 'p.
            let slot = unsafe { self.from.ring.base().add(self.cursor.offset) };
            let status_word: NonNull<AtomicU32> = slot.cast();
            // SAFETY: the status is the slot's first word, aligned by the slot, and only touched as an atomic.
            let word = unsafe { status_word.as_ref() };
            // Acquire pairs with the kernel's write barrier before it sets the status.
            let status = word.load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                break;
            }
            word.store(TP_STATUS_TAKEN, Ordering::Relaxed);
            // SAFETY: with TP_STATUS_USER seen, and the status now TAKEN, header and data of the slot are ours alone.
            let frame = unsafe { frame_of(slot, status_word, status, self.from.geometry.slot) };
            cut += usize::from(is_cut(&frame));
            received += 1;
            self.cursor = self.from.geometry.next(self.cursor);
            if burst.push(frame).is_err() {
                break;
            }
        }
        (received, cut)
    }

    /// Slots that the kernel has filled and nobody has taken, from the next one on. The kernel fills them in order, so
    /// their end is found by steps that double and then by halving: some twenty looks, however full the ring is.
    pub(crate) fn filled(&self) -> usize {
        let geometry = &self.from.geometry;
        first_not(geometry.frames(), |ahead| {
            let slot = geometry.ahead(self.cursor, ahead);
            // SAFETY: the offset is that of a slot within the mapping (Geometry), which lives for 'p; the status is its
            // first word, aligned by the slot, and only touched as an atomic.
            let word: &AtomicU32 = unsafe { self.from.ring.base().add(slot.offset).cast().as_ref() };
            word.load(Ordering::Relaxed) & libc::TP_STATUS_USER != 0
        })
    }
}

/// How many of `0..all` are so, where those that are so come first: looks at few of them.
fn first_not(all: usize, is: impl Fn(usize) -> bool) -> usize {
    // All below `low` are so, none from `high` on.
    let (mut low, mut high) = (0, all);
    let mut step = 1;
    while low < high && step > 0 {
        let at = low + (step - 1).min(high - low - 1);
        match is(at) {
            true => (low, step) = (at + 1, step * 2),
            false => (high, step) = (at, 0),
        }
    }
    while low < high {
        let at = low + (high - low) / 2;
        match is(at) {
            true => low = at + 1,
            false => high = at,
        }
    }
    low
}

#[inline]
fn is_cut(frame: &AfPacketFrame<'_>) -> bool {
    use mpps_io::Frame;
    frame.wire_len() > frame.bytes().len()
}

/// Makes the frame of a filled slot, with the VLAN tag back in its place.
///
/// # Safety
/// `slot` must be a filled slot of `slot_bytes` bytes that the caller owns, with its status word at the start.
#[inline]
unsafe fn frame_of<'p>(
    slot: NonNull<u8>,
    status_word: NonNull<AtomicU32>,
    status: u32,
    slot_bytes: usize,
) -> AfPacketFrame<'p> {
    // SAFETY: the header's fields lie within the slot, aligned (slots start on cache lines), and are ours to read.
    let (len, snap, mac, tci, tpid) = unsafe {
        (
            slot.add(offset_of!(libc::tpacket2_hdr, tp_len)).cast::<u32>().read(),
            slot.add(offset_of!(libc::tpacket2_hdr, tp_snaplen))
                .cast::<u32>()
                .read(),
            slot.add(offset_of!(libc::tpacket2_hdr, tp_mac)).cast::<u16>().read(),
            slot.add(offset_of!(libc::tpacket2_hdr, tp_vlan_tci))
                .cast::<u16>()
                .read(),
            slot.add(offset_of!(libc::tpacket2_hdr, tp_vlan_tpid))
                .cast::<u16>()
                .read(),
        )
    };
    // The kernel keeps both within the slot; the clamps keep that from being a matter of trust.
    let mut start = (mac as usize).clamp(TPACKET2_HDRLEN, slot_bytes);
    let mut snap = (snap as usize).min(slot_bytes - start);
    let mut wire = len;
    if status & libc::TP_STATUS_VLAN_VALID != 0 && snap >= ETH_HLEN && start >= TPACKET2_HDRLEN + VLAN_HLEN {
        let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
            tpid
        } else {
            libc::ETH_P_8021Q as u16
        };
        start -= VLAN_HLEN;
        snap += VLAN_HLEN;
        wire += VLAN_HLEN as u32;
        // SAFETY: [start, start + snap) lies within the slot, behind its header: both MAC addresses move up by four
        // bytes (overlapping, hence `copy`), and the tag goes between them and the EtherType.
        unsafe {
            let to = slot.add(start);
            std::ptr::copy(to.add(VLAN_HLEN).as_ptr(), to.as_ptr(), 12);
            to.add(12).cast::<[u8; 2]>().write(tpid.to_be_bytes());
            to.add(14).cast::<[u8; 2]>().write(tci.to_be_bytes());
        }
    }
    let checksum = if status & libc::TP_STATUS_CSUMNOTREADY != 0 {
        RxChecksum::Partial
    } else if status & libc::TP_STATUS_CSUM_VALID != 0 {
        RxChecksum::Good
    } else {
        RxChecksum::Unverified
    };
    // SAFETY: [start, slot_bytes) lies within the slot, which is ours until the frame's drop stores
    // TP_STATUS_KERNEL; the kernel has written the first `snap` bytes, and the mapping is zeroed when made.
    unsafe {
        AfPacketFrame::of_slot(
            slot.add(start),
            snap as u32,
            (slot_bytes - start) as u32,
            wire,
            checksum,
            status_word,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::first_not;
    use proptest::prelude::*;
    use std::cell::Cell;

    proptest! {
        #[test]
        fn the_end_of_the_filled_slots_is_found_by_few_looks(all in 0_usize..100_000, filled in 0_usize..100_000) {
            let filled = filled.min(all);
            let looks = Cell::new(0);
            let found = first_not(all, |at| {
                assert!(at < all);
                looks.set(looks.get() + 1);
                at < filled
            });
            prop_assert_eq!(found, filled);
            prop_assert!(looks.get() <= 2 * (filled + 2).ilog2() + 2, "{} looks at {filled}", looks.get());
        }
    }
}
