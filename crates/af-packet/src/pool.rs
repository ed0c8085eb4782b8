//! The buffers that frames to be sent are written into, and those of received packets that no slot of a ring holds.

use crate::abi::VNET_LEN;
use crate::frame::AfPacketFrame;
use crate::ring::{Mapping, max_frame};
use mpps_io::{Burst, MAX_BURST};
use std::cell::UnsafeCell;
use std::io;

/// Buffers of a lane: enough for a burst being filled, one waiting to be sent, and the odd reply.
pub(crate) const BUFFERS: usize = 2 * MAX_BURST + 64;

/// Large buffers, each for one packet that is longer than a slot of the receive ring.
const LARGE: usize = 8;

/// Bytes of a large buffer: the longest IP packet of 16-bit lengths in its frame with a tag, behind a virtio header.
pub(crate) const LARGE_BYTES: usize = (VNET_LEN + max_frame(u16::MAX as usize)).next_multiple_of(64);

/// Packet memory of one lane's queue. Belongs to the lane's thread (`!Sync`).
///
/// Buffers are taken from a stack, last returned first, so a lane that holds few keeps using the same few, which
/// stay in the first-level cache.
pub struct AfPacketPool {
    memory: Mapping,
    stride: usize,
    capacity: u32,
    free: UnsafeCell<Vec<u32>>,
    /// Large buffers, numbered from [`BUFFERS`].
    free_large: UnsafeCell<Vec<u32>>,
}

impl AfPacketPool {
    /// A pool of buffers of `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> io::Result<Self> {
        let stride = (capacity.div_ceil(64) | 1) * 64;
        let memory = Mapping::anonymous(stride * BUFFERS + LARGE_BYTES * LARGE)?;
        let free = (0..BUFFERS as u32).rev().collect();
        let free_large = (BUFFERS as u32..(BUFFERS + LARGE) as u32).rev().collect();
        Ok(Self {
            memory,
            stride,
            capacity: capacity as u32,
            free: UnsafeCell::new(free),
            free_large: UnsafeCell::new(free_large),
        })
    }

    /// Bytes of a buffer that is not a large one.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Whether a large buffer is free.
    pub(crate) fn has_large(&self) -> bool {
        // SAFETY: the pool is !Sync and no reference into the cell outlives a call, so this one is alone.
        !unsafe { &*self.free_large.get() }.is_empty()
    }

    /// A large buffer, of [`LARGE_BYTES`].
    pub(crate) fn take_large(&self) -> Option<AfPacketFrame<'_>> {
        // SAFETY: as in `has_large`.
        let index = unsafe { &mut *self.free_large.get() }.pop()?;
        let offset = BUFFERS * self.stride + (index as usize - BUFFERS) * LARGE_BYTES;
        // SAFETY: index < BUFFERS + LARGE, so the buffer lies in the mapping, which lives as long as the pool; each
        // index is on the stack at most once, so nobody else holds the buffer. Fresh mappings are zeroed.
        Some(unsafe { AfPacketFrame::of_pool(self.memory.base().add(offset), LARGE_BYTES as u32, self, index) })
    }

    /// Appends up to `n` frames to `burst`; returns how many.
    #[inline]
    pub(crate) fn take<'p>(&'p self, burst: &mut Burst<AfPacketFrame<'p>>, n: usize) -> usize {
        let n = n.min(burst.room());
        for taken in 0..n {
            // SAFETY: the pool is !Sync and no reference into the cell outlives a call, so this one is alone.
            let Some(index) = (unsafe { &mut *self.free.get() }).pop() else {
                return taken;
            };
            // SAFETY: index < BUFFERS, so the buffer lies in the mapping, which lives as long as the pool; each index
            // is on the stack at most once, so nobody else holds the buffer. Fresh mappings are zeroed.
            let frame = unsafe {
                let data = self.memory.base().add(index as usize * self.stride);
                AfPacketFrame::of_pool(data, self.capacity, self, index)
            };
            // Not full: `n` was clamped to the room. If it were, dropping the frame gives the buffer back.
            if burst.push(frame).is_err() {
                return taken;
            }
        }
        n
    }

    /// Takes buffer `index` back. Only a frame's drop calls this, once for each `take`.
    #[inline]
    pub(crate) fn give_back(&self, index: u32) {
        let free = if index < BUFFERS as u32 {
            &self.free
        } else {
            &self.free_large
        };
        // SAFETY: as in `take`. Never allocates: each stack was made with room for all of its indices.
        unsafe { &mut *free.get() }.push(index);
    }
}
