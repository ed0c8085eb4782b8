//! A frame of the `af_packet` path: a receive-ring slot or a buffer of the transmit pool.

use crate::pool::AfPacketPool;
use mpps_io::{Frame, RxChecksum};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// One packet: in place in the receive ring, or in a pool buffer. Borrows the pool it belongs to.
pub struct AfPacketFrame<'p> {
    data: NonNull<u8>,
    len: u32,
    capacity: u32,
    wire_len: u32,
    /// Time of arrival as [`Frame::rx_time_ns`] gives it, 0: not known; the kernel's own until the ring hands it out.
    pub(crate) rx_time_ns: u64,
    home: Home<'p>,
}

/// Place that a frame goes back to when it is dropped.
enum Home<'p> {
    /// A ring slot: its status word, which gives the slot back to the kernel.
    Ring {
        status: NonNull<AtomicU32>,
        checksum: RxChecksum,
    },
    /// A buffer of the pool. `received`: what is known of its checksum, of a packet that came; `None`: allocated.
    Pool {
        pool: &'p AfPacketPool,
        index: u32,
        received: Option<RxChecksum>,
    },
}

impl<'p> AfPacketFrame<'p> {
    /// A frame over a slot of the receive ring.
    ///
    /// # Safety
    /// For `'p`, `data` must be valid for reads and writes of `capacity` bytes that nobody else touches before the
    /// status word says `TP_STATUS_KERNEL`, `len` must not exceed `capacity`, and `status` must point to that slot's
    /// status word.
    pub(crate) unsafe fn of_slot(
        data: NonNull<u8>,
        len: u32,
        capacity: u32,
        wire_len: u32,
        checksum: RxChecksum,
        status: NonNull<AtomicU32>,
    ) -> Self {
        debug_assert!(len <= capacity);
        Self {
            data,
            len,
            capacity,
            wire_len,
            rx_time_ns: 0,
            home: Home::Ring { status, checksum },
        }
    }

    /// A frame over buffer `index` of `pool`.
    ///
    /// # Safety
    /// For `'p`, `data` must be valid for reads and writes of `capacity` initialised bytes that nobody else touches
    /// before buffer `index` is given back to `pool`.
    pub(crate) unsafe fn of_pool(data: NonNull<u8>, capacity: u32, pool: &'p AfPacketPool, index: u32) -> Self {
        Self {
            data,
            len: capacity,
            capacity,
            wire_len: 0,
            rx_time_ns: 0,
            home: Home::Pool {
                pool,
                index,
                received: None,
            },
        }
    }

    /// Makes a frame of the pool one that was received: its packet begins `start` bytes into the buffer, has `len`
    /// bytes there, and had `wire_len` when it came.
    pub(crate) fn came(&mut self, start: usize, len: usize, wire_len: usize, checksum: RxChecksum) {
        let Home::Pool { received, .. } = &mut self.home else {
            return;
        };
        *received = Some(checksum);
        let start = start.min(self.capacity as usize);
        // SAFETY: `start` is at most the capacity, so the pointer stays within the buffer or one past its end, and what
        // is left of the capacity lies behind it.
        self.data = unsafe { self.data.add(start) };
        self.capacity -= start as u32;
        self.len = len.min(self.capacity as usize) as u32;
        self.wire_len = wire_len.min(u32::MAX as usize) as u32;
    }

    /// True for a frame that was allocated, not received.
    #[inline]
    pub(crate) fn is_allocated(&self) -> bool {
        matches!(self.home, Home::Pool { received: None, .. })
    }
}

impl Drop for AfPacketFrame<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.home {
            // SAFETY: `status` points into the ring mapping, which lives for 'p (of_slot's contract). Release: our
            // reads and writes of the slot come before the kernel may reuse it.
            Home::Ring { status, .. } => unsafe { status.as_ref() }.store(libc::TP_STATUS_KERNEL, Ordering::Release),
            Home::Pool { pool, index, .. } => pool.give_back(index),
        }
    }
}

impl Frame for AfPacketFrame<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: `len <= capacity` bytes at `data` are valid and ours alone while the frame lives (constructors).
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len as usize) }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len as usize) }
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.capacity as usize
    }

    #[inline]
    fn set_len(&mut self, len: usize) {
        self.len = len.min(self.capacity as usize) as u32;
        self.wire_len = 0;
    }

    #[inline]
    fn rx_time_ns(&self) -> Option<u64> {
        Some(self.rx_time_ns).filter(|ns| *ns > 0)
    }

    #[inline]
    fn rx_checksum(&self) -> RxChecksum {
        match self.home {
            Home::Ring { checksum, .. } => checksum,
            Home::Pool { received, .. } => received.unwrap_or(RxChecksum::Unverified),
        }
    }

    #[inline]
    fn wire_len(&self) -> usize {
        self.wire_len.max(self.len) as usize
    }
}
