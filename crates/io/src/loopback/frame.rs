//! Packet memory of the loop path.

use crate::Frame;
use crate::null::{Buffers, NullConfig};
use std::cell::Cell;

/// Packet memory of one queue of the loop path.
pub struct LoopPool {
    pub(super) buffers: Buffers,
}

impl LoopPool {
    pub(super) fn new(config: &NullConfig) -> Self {
        Self {
            buffers: Buffers::new(config.frames, config.max_frame()),
        }
    }
}

/// Treatment of a frame in flight: what the loop has done, or is to do, with it. Frames outside the loop are plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Nothing.
    Plain,
    /// One bit was flipped.
    Corrupt,
    /// The frame's copy follows.
    Copied,
    /// The frame is the copy of the frame before it.
    Copy,
    /// To be held back when it arrives.
    HoldBack,
    /// A later frame of its flow has overtaken it, or will have: it was held back, or has more jitter.
    Overtaken,
    /// Overtaken, and the frame's copy follows.
    OvertakenCopied,
    /// The far end does not send it back.
    Refused,
}

/// One packet buffer of the loop path.
///
/// Fields with spare values are in cells: `Option<LoopFrame>` then says `None` by the pointer at the front, and not by
/// some few bytes that are moved apart from those beside them. Reading these together right after costs more than the
/// whole move.
pub struct LoopFrame<'p> {
    /// Empty once the buffer has gone back to the pool.
    data: Box<[u8]>,
    pool: &'p LoopPool,
    /// Time of arrival, ns.
    pub(super) due_ns: u64,
    pub(super) flow: Cell<Option<u32>>,
    len: u32,
    pub(super) mark: Cell<Mark>,
    /// True if `due_ns` is when the frame comes back, or has come back.
    pub(super) timed: Cell<bool>,
}

impl<'p> LoopFrame<'p> {
    #[inline]
    pub(super) fn new(data: Box<[u8]>, pool: &'p LoopPool) -> Self {
        let len = data.len() as u32;
        Self {
            data,
            pool,
            due_ns: 0,
            flow: Cell::new(None),
            len,
            mark: Cell::new(Mark::Plain),
            timed: Cell::new(false),
        }
    }

    /// A second frame with the same packet; `None` when no buffer is free.
    pub(super) fn copy(&self) -> Option<Self> {
        let mut data = self.pool.buffers.take()?;
        let len = self.len as usize;
        data[..len].copy_from_slice(&self.data[..len]);
        let mut copy = Self::new(data, self.pool);
        (copy.due_ns, copy.len) = (self.due_ns, self.len);
        copy.flow.set(self.flow.get());
        copy.timed.set(self.timed.get());
        copy.mark.set(Mark::Copy);
        Some(copy)
    }
}

impl Drop for LoopFrame<'_> {
    #[inline]
    fn drop(&mut self) {
        let data = std::mem::take(&mut self.data);
        if !data.is_empty() {
            self.pool.buffers.put(data);
        }
    }
}

impl Frame for LoopFrame<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.data[..self.len as usize]
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.data[..self.len as usize]
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.data.len()
    }

    #[inline]
    fn set_len(&mut self, len: usize) {
        self.len = len.min(self.data.len()) as u32;
    }

    /// The flow that the sender gave: the loop keeps it.
    #[inline]
    fn flow(&self) -> Option<u32> {
        self.flow.get()
    }

    #[inline]
    fn set_flow(&mut self, flow: u32) {
        self.flow.set(Some(flow));
    }

    /// When it arrived; `None` when nothing that takes time is set.
    #[inline]
    fn rx_time_ns(&self) -> Option<u64> {
        self.timed.get().then_some(self.due_ns)
    }
}
