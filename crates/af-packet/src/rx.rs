//! The receiving half of a queue: slots of a TPACKET_V2 ring handed out as frames.
//!
//! Protocol (Documentation/networking/packet_mmap.rst): the kernel fills slots in order and sets `TP_STATUS_USER`
//! last; we give a slot back by storing `TP_STATUS_KERNEL`, in any order. `TP_STATUS_COPY` says that the packet was cut
//! to the slot and waits whole in the socket's queue, in the order of the slots (`tpacket_rcv` adds to both under one
//! lock).

mod long;

use crate::abi::{ETH_HLEN, RX_DATA, TP_STATUS_TAKEN, TPACKET2_HDRLEN, VLAN_HLEN, VNET_LEN, VirtioNetHdr};
use crate::frame::AfPacketFrame;
use crate::pool::AfPacketPool;
use crate::port::Counters;
use crate::ring::{Cursor, Geometry, Mapping};
use crate::socket::Socket;
use mpps_io::{Burst, RxChecksum};
use mpps_sys::clock::WallClock;
use std::mem::offset_of;
use std::num::NonZeroU64;
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
    /// Merged frames are split: a virtio header is in front of each packet.
    pub(crate) split: bool,
    /// The kernel's times of arrival are used.
    pub(crate) timed: bool,
}

/// Bytes of a slot that holds frames up to `max_frame`.
pub(crate) fn slot_bytes(max_frame: usize, split: bool) -> usize {
    RX_DATA + max_frame + if split { VNET_LEN } else { 0 }
}

/// The reader of one ring.
pub(crate) struct RxRing<'p> {
    pub(crate) from: &'p RxSocket,
    cursor: Cursor,
    /// With [`RxSocket::timed`].
    wall: Option<WallClock>,
    /// A merged frame that is being handed out.
    merged: Option<long::Pending<'p>>,
}

/// A packet in a slot.
struct Slot<'p> {
    frame: AfPacketFrame<'p>,
    status: u32,
    /// Header with which the kernel describes a merged packet; all zero if merged frames are not split.
    vnet: VirtioNetHdr,
    /// VLAN tag of the packet, which the kernel has taken out.
    tag: Option<[u8; VLAN_HLEN]>,
}

impl<'p> RxRing<'p> {
    /// The ring's only reader: the port hands out each queue once.
    pub(crate) fn new(from: &'p RxSocket) -> Self {
        Self {
            from,
            cursor: from.geometry.start(),
            wall: from.timed.then(WallClock::new),
            merged: None,
        }
    }

    /// Whether packets wait here that the ring no longer shows.
    pub(crate) fn holds_back(&self) -> bool {
        self.merged.is_some()
    }

    /// Appends what has arrived to `burst`; returns the number of frames.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        burst: &mut Burst<AfPacketFrame<'p>>,
        pool: &'p AfPacketPool,
        counters: &Counters,
    ) -> usize {
        let before = burst.len();
        self.take(burst, pool, counters);
        let taken = burst.len() - before;
        if taken > 0
            && let Some(wall) = &mut self.wall
        {
            let untimed = settle(wall, &mut burst.as_mut_slice()[before..]);
            Counters::add(&counters.rx_timed_by_lane, untimed);
        }
        taken
    }

    #[inline]
    fn take(&mut self, burst: &mut Burst<AfPacketFrame<'p>>, pool: &'p AfPacketPool, counters: &Counters) {
        if self.merged.is_some() && !self.split(burst, pool) {
            return;
        }
        let timed = self.wall.is_some();
        while burst.room() > 0 {
            // SAFETY: the cursor's offset is that of a slot within the mapping (Geometry), which lives for 'p.
            let slot = unsafe { self.from.ring.base().add(self.cursor.offset) };
            let status_word: NonNull<AtomicU32> = slot.cast();
            // SAFETY: the status is the slot's first word, aligned by the slot, and only touched as an atomic.
            let word = unsafe { status_word.as_ref() };
            // Acquire pairs with the kernel's write barrier before it sets the status.
            let status = word.load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 || status & libc::TP_STATUS_COPY != 0 && !pool.has_large() {
                break;
            }
            word.store(TP_STATUS_TAKEN, Ordering::Relaxed);
            // SAFETY: with TP_STATUS_USER seen, and the status now TAKEN, header and data of the slot are ours alone.
            let slot = unsafe {
                let time = if timed { time_of(slot) } else { 0 };
                let mut slot = slot_of(slot, status_word, status, &self.from.geometry, self.from.split);
                slot.frame.rx_time_ns = time;
                slot
            };
            self.cursor = self.from.geometry.next(self.cursor);
            if slot.vnet.is_merged() || is_cut(&slot.frame) {
                if !self.long(slot, burst, pool, counters) {
                    break;
                }
            } else if burst.push(slot.frame).is_err() {
                break;
            }
        }
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

/// Makes the kernel's times of arrival readings of this host's clock; returns how many frames have none.
#[inline]
fn settle(wall: &mut WallClock, frames: &mut [AfPacketFrame<'_>]) -> u64 {
    wall.look();
    let mut untimed = 0;
    for frame in frames {
        let time = &mut frame.rx_time_ns;
        *time = wall.monotonic_ns(*time).map_or(0, NonZeroU64::get);
        untimed += u64::from(*time == 0);
    }
    untimed
}

/// Returns how many of `0..all` pass the test `is`, if those that pass come first. Tests few of them.
fn first_not(all: usize, is: impl Fn(usize) -> bool) -> usize {
    // All below `low` pass, none from `high` on.
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

/// Returns the kernel's time in the header of a filled slot, ns since 1970.
///
/// # Safety
/// `slot` must be a filled slot that the caller owns.
#[inline]
unsafe fn time_of(slot: NonNull<u8>) -> u64 {
    // SAFETY: both fields lie within the slot, aligned (slots start on cache lines), and are ours to read.
    let (seconds, ns) = unsafe {
        (
            slot.add(offset_of!(libc::tpacket2_hdr, tp_sec)).cast::<u32>().read(),
            slot.add(offset_of!(libc::tpacket2_hdr, tp_nsec)).cast::<u32>().read(),
        )
    };
    u64::from(seconds) * 1_000_000_000 + u64::from(ns)
}

/// Makes the frame of a filled slot, with the VLAN tag back in its place.
///
/// # Safety
/// `slot` must be a filled slot of this geometry that the caller owns, with its status word at the start.
#[inline]
unsafe fn slot_of<'p>(
    slot: NonNull<u8>,
    status_word: NonNull<AtomicU32>,
    status: u32,
    geometry: &Geometry,
    split: bool,
) -> Slot<'p> {
    let slot_bytes = geometry.slot;
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
    let mut vnet = VirtioNetHdr::default();
    if split && start >= TPACKET2_HDRLEN + VNET_LEN {
        // SAFETY: the kernel has written the header in front of the packet, which is within the slot and behind its
        // own header; it is read unaligned.
        vnet = unsafe { slot.add(start - VNET_LEN).cast::<VirtioNetHdr>().read_unaligned() };
    }
    let mut tag = None;
    if status & libc::TP_STATUS_VLAN_VALID != 0 && snap >= ETH_HLEN && start >= TPACKET2_HDRLEN + VLAN_HLEN {
        let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
            tpid
        } else {
            libc::ETH_P_8021Q as u16
        };
        start -= VLAN_HLEN;
        snap += VLAN_HLEN;
        wire += VLAN_HLEN as u32;
        let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
        tag = Some([a, b, c, d]);
        // SAFETY: [start, start + snap) lies within the slot, behind its header, and is ours to read and write.
        put_tag(
            unsafe { std::slice::from_raw_parts_mut(slot.add(start).as_ptr(), snap) },
            [a, b, c, d],
        );
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
    let frame = unsafe {
        AfPacketFrame::of_slot(
            slot.add(start),
            snap as u32,
            (slot_bytes - start) as u32,
            wire,
            checksum,
            status_word,
        )
    };
    Slot {
        frame,
        status,
        vnet,
        tag,
    }
}

/// Puts a VLAN tag into a frame that has room for it in front: both MAC addresses move up, and the tag goes between
/// them and the EtherType.
#[inline]
fn put_tag(frame: &mut [u8], tag: [u8; VLAN_HLEN]) {
    const MACS: usize = 12;
    if let Some(head) = frame.first_chunk_mut::<{ MACS + VLAN_HLEN }>() {
        head.copy_within(VLAN_HLEN.., 0);
        head[MACS..].copy_from_slice(&tag);
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
