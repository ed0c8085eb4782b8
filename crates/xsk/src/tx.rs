//! The sending half of a socket: TX ring and completion ring.

use crate::abi::{Desc, XDP_PKT_CONTD, XDP_TX_METADATA};
use crate::frame::Frame;
use crate::handle::{Handle, Ready};
use crate::pool::PoolRef;
use crate::ring::{Consumer, Producer};
use crate::rx::{check, outcome, poll};
use crate::{Result, Umem};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The sending half of a socket, before a pool is given to it. Can be sent to another thread, never shared.
#[derive(Debug)]
pub struct TxHalf {
    ring: Producer<Desc>,
    completion: Consumer<u64>,
    handle: Arc<Handle>,
}

impl TxHalf {
    /// # Safety
    /// The rings are those of the handle, or absent ones.
    pub(crate) unsafe fn new(handle: Arc<Handle>, ring: Producer<Desc>, completion: Consumer<u64>) -> Self {
        Self {
            ring,
            completion,
            handle,
        }
    }

    /// Puts the half over a pool: from now on it sends that pool's frames, and gives completed ones back to it.
    ///
    /// # Errors
    /// [`crate::Error::OtherUmem`] when the pool is not of the socket's UMEM, [`crate::Error::NoRing`] when the socket
    /// was made without a TX ring. The half is then dropped.
    pub fn over<'p>(self, pool: impl Into<PoolRef<'p>>) -> Result<Tx<'p>> {
        let pool = pool.into();
        check(&self.handle, pool, self.ring.size(), "TX")?;
        let (multi_buffer, metadata) = (self.handle.traits.multi_buffer, pool.inner.tx_metadata_len > 0);
        let known = if multi_buffer { XDP_PKT_CONTD } else { 0 } | if metadata { XDP_TX_METADATA } else { 0 };
        Ok(Tx {
            pool,
            unknown_flags: !(known as u16),
            refused: 0,
            half: self,
        })
    }

    /// The memory that the socket was bound over.
    pub fn umem(&self) -> &Arc<Umem> {
        &self.handle.umem
    }
}

impl Drop for TxHalf {
    fn drop(&mut self) {
        // A panic in a sender's iterator may have left descriptors written and not published, or completions read and
        // not released.
        self.ring.publish();
        self.completion.release();
    }
}

/// The sending half of a socket over a pool.
#[derive(Debug)]
pub struct Tx<'p> {
    pool: PoolRef<'p>,
    /// Flags of a frame that the socket can't send.
    unknown_flags: u16,
    refused: u64,
    half: TxHalf,
}

impl<'p> Tx<'p> {
    /// Slots of the TX ring that are free. Takes completed frames back to the pool.
    #[inline]
    pub fn room(&mut self) -> usize {
        self.reclaim();
        // A view that is old, but has half the ring free, is good enough.
        self.half.ring.room(self.half.ring.size() / 2) as usize
    }

    /// Puts frames into the TX ring, in order, as many as there is room for, and publishes them with one store. Returns
    /// how many. Frames that there is no room for are not taken from the iterator.
    ///
    /// A frame that the socket can't send is taken, dropped (which gives it back to its own pool) and counted in
    /// [`Tx::refused`]: one of another pool, of length 0, continued without multi-buffer.
    ///
    /// Takes completed frames back to the pool first. The kernel need not look at the ring by itself: see [`Tx::kick`].
    #[inline]
    pub fn send(&mut self, frames: impl IntoIterator<Item = Frame<'p>>) -> usize {
        self.reclaim();
        // One loop for the common kind of UMEM, one for those with more to do a frame.
        if self.pool.inner.is_plain() && self.unknown_flags == u16::MAX {
            self.send_as::<true>(frames.into_iter())
        } else {
            self.send_general(frames.into_iter())
        }
    }

    /// Out of line, so that the common loop stays small.
    #[inline(never)]
    fn send_general(&mut self, frames: impl Iterator<Item = Frame<'p>>) -> usize {
        self.send_as::<false>(frames)
    }

    #[inline(always)]
    fn send_as<const PLAIN: bool>(&mut self, mut frames: impl Iterator<Item = Frame<'p>>) -> usize {
        let (pool, unknown) = (self.pool.inner, self.unknown_flags);
        let area = pool.area;
        let refused = &mut self.refused;
        let ring = &mut self.half.ring;
        let want = frames
            .size_hint()
            .1
            .map_or(ring.size(), |n| n.min(ring.size() as usize) as u32);
        let room = ring.room(want);
        let sent = ring.produce(room, || {
            loop {
                let next = frames.next();
                // Three tests, each with a place of its own to go to: otherwise the compiler joins their results, which
                // takes longer than to jump. The first finds the end of the frames, too.
                if !next.as_ref().is_some_and(|frame| frame.is_of(pool)) {
                    refuse::<0>(refused, next?);
                    continue;
                }
                let frame = next?;
                let flags = if PLAIN { frame.flags() } else { frame.flags() & unknown };
                if flags != 0 {
                    refuse::<1>(refused, frame);
                } else if frame.is_empty() {
                    refuse::<2>(refused, frame);
                } else {
                    return Some(frame.into_desc::<PLAIN>(area));
                }
            }
        });
        sent as usize
    }

    /// Makes the kernel send what is in the TX ring, if there is something and the kernel does not look by itself. True
    /// when nothing more need be done now; false when the kernel wants to be asked again (in copy mode it sends only so
    /// many packets a call, and none when the interface's queue is full).
    ///
    /// # Errors
    /// [`crate::Error::Down`] and [`crate::Error::Gone`], else what the system call says.
    #[inline]
    pub fn kick(&mut self) -> Result<bool> {
        let half = &mut self.half;
        if half.ring.pending() == 0 || half.handle.traits.need_wakeup && !half.ring.wakeup_needed() {
            return Ok(true);
        }
        outcome(&half.handle, "send on", half.handle.kernel.wake_tx())
    }

    /// Takes completed frames back to the pool's free list; returns how many.
    #[inline]
    pub fn reclaim(&mut self) -> usize {
        let handle = &self.half.handle;
        self.pool.inner.reclaim(&mut self.half.completion, || bad(handle)) as usize
    }

    /// Takes up to `max` completed frames and hands each to `each`, for those who want their TX timestamps; returns how
    /// many. Dropped, they go to the pool's free list. Their length is 0.
    pub fn reclaim_frames(&mut self, max: usize, mut each: impl FnMut(Frame<'p>)) -> usize {
        let (pool, handle) = (self.pool.inner, &self.half.handle);
        let max = max.min(u32::MAX as usize) as u32;
        self.half.completion.consume(max, |addr| match pool.completed(addr) {
            Some(frame) => each(frame),
            None => bad(handle),
        }) as usize
    }

    /// Frames in the TX ring that the kernel has not taken yet.
    pub fn pending(&mut self) -> usize {
        self.half.ring.pending() as usize
    }

    /// Sleeps until the TX ring has room, at most `timeout`. True when it has. In copy mode [`Tx::kick`] is what makes
    /// room.
    ///
    /// # Errors
    /// As [`Tx::kick`].
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        Ok(poll(&self.half.handle, Ready { rx: false, tx: true }, timeout)?.tx)
    }

    /// Frames given to [`Tx::send`] that the socket can't send.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Completions that named no chunk of ours, since the socket was made: always 0, unless the kernel errs.
    pub fn bad_descriptors(&self) -> u64 {
        self.half.handle.bad_completion.load(Ordering::Relaxed)
    }

    /// The half without its pool, to be put over another one of the same UMEM. What is in the rings stays there.
    pub fn into_half(self) -> TxHalf {
        self.half
    }
}

/// Off the path, so that the loop stays small.
#[cold]
fn bad(handle: &Handle) {
    handle.bad_completion.fetch_add(1, Ordering::Relaxed);
}

/// Off the path, so that the loop stays small.
#[cold]
#[inline(never)]
fn refuse<const WHY: u64>(refused: &mut u64, frame: Frame<'_>) {
    *refused += 1;
    drop(frame);
}
