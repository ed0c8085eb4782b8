//! The buffers that frames to be sent are written into.

use crate::frame::AfPacketFrame;
use crate::ring::Mapping;
use mpps_io::{Burst, MAX_BURST};
use std::cell::UnsafeCell;
use std::io;

/// Buffers of a lane: enough for a burst being filled, one waiting to be sent, and the odd reply.
pub(crate) const BUFFERS: usize = 2 * MAX_BURST + 64;

/// Packet memory of one lane's queue. Belongs to the lane's thread (`!Sync`).
///
/// Buffers are taken from a stack, last returned first, so a lane that holds few keeps using the same few, which
/// stay in the first-level cache.
pub struct AfPacketPool {
    memory: Mapping,
    stride: usize,
    capacity: u32,
    free: UnsafeCell<Vec<u32>>,
}

impl AfPacketPool {
    /// A pool of buffers of `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> io::Result<Self> {
        let stride = (capacity.div_ceil(64) | 1) * 64;
        let memory = Mapping::anonymous(stride * BUFFERS)?;
        let free = (0..BUFFERS as u32).rev().collect();
        Ok(Self {
            memory,
            stride,
            capacity: capacity as u32,
            free: UnsafeCell::new(free),
        })
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
        // SAFETY: as in `take`. Never allocates: the stack was made with room for every index.
        unsafe { &mut *self.free.get() }.push(index);
    }
}
