//! Packets that are not one frame in one slot: merged frames (GSO, TSO, GRO), which are split into the frames that they
//! stand for, and packets longer than a slot.

use super::{RxRing, Slot, put_tag};
use crate::abi::{VLAN_HLEN, VNET_LEN};
use crate::frame::AfPacketFrame;
use crate::pool::AfPacketPool;
use crate::port::Counters;
use mpps_io::{Burst, Frame, RxChecksum};
use mpps_wire::Merged;

/// A merged frame that is being handed out, datagram by datagram.
pub(super) struct Pending<'p> {
    frame: AfPacketFrame<'p>,
    merged: Merged,
    /// The next datagram, and the first that the frame does not hold.
    next: usize,
    end: usize,
}

impl<'p> RxRing<'p> {
    /// Takes a packet that is merged or longer than its slot. False: the burst, or the memory for frames, is full.
    #[cold]
    #[inline(never)]
    pub(super) fn long(
        &mut self,
        slot: Slot<'p>,
        burst: &mut Burst<AfPacketFrame<'p>>,
        pool: &'p AfPacketPool,
        counters: &Counters,
    ) -> bool {
        let (vnet, tag, time) = (slot.vnet, slot.tag, slot.frame.rx_time_ns);
        let udp = vnet.is_merged_udp();
        let wanted = udp || !vnet.is_merged();
        let mut frame = match slot.status & libc::TP_STATUS_COPY != 0 {
            true => self.whole(slot, wanted, pool),
            false => slot.frame,
        };
        frame.rx_time_ns = time;
        if !udp {
            if vnet.is_merged() {
                Counters::add(&counters.rx_unsplit, 1);
            } else if super::is_cut(&frame) {
                Counters::add(&counters.rx_cut, 1);
            }
            // There is room: the caller has looked.
            return burst.push(frame).is_ok();
        }
        let tag_len = if tag.is_some() { VLAN_HLEN } else { 0 };
        let csum_start = vnet.open_checksum().map(|start| start + tag_len);
        let Some(merged) = Merged::new(frame.bytes(), vnet.gso_size.into(), csum_start) else {
            // Not plain UDP, so none of the test's packets: handed out as it is.
            Counters::add(&counters.rx_unsplit, 1);
            return burst.push(frame).is_ok();
        };
        if merged.largest() > pool.capacity() {
            Counters::add(&counters.rx_unsplit, 1);
            Counters::add(&counters.rx_unread, merged.count() as u64);
            return true;
        }
        Counters::add(&counters.rx_merged, 1);
        let end = merged.within(frame.bytes().len());
        // The socket had no memory for the rest.
        Counters::add(&counters.rx_unread, (merged.count() - end) as u64);
        self.merged = Some(Pending {
            frame,
            merged,
            next: 0,
            end,
        });
        self.split(burst, pool)
    }

    /// Appends frames of the merged frame at hand. True: all of them; false: the burst, or the memory for frames, is
    /// full.
    #[inline(never)]
    pub(super) fn split(&mut self, burst: &mut Burst<AfPacketFrame<'p>>, pool: &'p AfPacketPool) -> bool {
        let Some(pending) = &mut self.merged else { return true };
        let checksum = match pending.merged.is_open() {
            true => RxChecksum::Partial,
            false => RxChecksum::Unverified,
        };
        let time = pending.frame.rx_time_ns;
        while pending.next < pending.end {
            if pool.take(burst, 1) == 0 {
                return false;
            }
            let Some(frame) = burst.as_mut_slice().last_mut() else {
                return false;
            };
            match pending
                .merged
                .write(pending.frame.bytes(), pending.next, frame.bytes_mut())
            {
                Some(len) => {
                    frame.came(0, len, len, checksum);
                    frame.rx_time_ns = time;
                }
                // It was checked that it fits and is there.
                None => drop(burst.pop()),
            }
            pending.next += 1;
        }
        self.merged = None;
        true
    }

    /// The packet of a slot that holds only its first part, from the socket's queue; the first part if that is not
    /// `wanted`, or fails.
    fn whole(&self, slot: Slot<'p>, wanted: bool, pool: &'p AfPacketPool) -> AfPacketFrame<'p> {
        let socket = &self.from.socket;
        let header = if self.from.split { VNET_LEN } else { 0 };
        // A large buffer is free: the caller has looked.
        let Some(mut large) = pool.take_large().filter(|_| wanted) else {
            let _ = socket.take(&mut [0; VNET_LEN]);
            return slot.frame;
        };
        let tag_len = if slot.tag.is_some() { VLAN_HLEN } else { 0 };
        let Ok(came) = socket.take(&mut large.bytes_mut()[tag_len..]) else {
            return slot.frame;
        };
        let wire = tag_len + came.saturating_sub(header);
        large.came(header, wire, wire, slot.frame.rx_checksum());
        if let Some(tag) = slot.tag {
            put_tag(large.bytes_mut(), tag);
        }
        large
    }
}
