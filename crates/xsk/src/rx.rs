//! The receiving half of a socket: RX ring and fill ring.

use crate::abi::{Desc, XDP_PKT_CONTD};
use crate::frame::Frame;
use crate::handle::{Handle, Ready};
use crate::pool::PoolRef;
use crate::ring::{Consumer, Producer};
use crate::{Error, Result, Umem};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The receiving half of a socket, before a pool is given to it. Can be sent to another thread, never shared.
#[derive(Debug)]
pub struct RxHalf {
    ring: Consumer<Desc>,
    fill: Producer<u64>,
    /// Entries that the fill ring is filled up to.
    fill_limit: u32,
    handle: Arc<Handle>,
}

impl RxHalf {
    /// # Safety
    /// The rings are those of the handle, or absent ones.
    pub(crate) unsafe fn new(handle: Arc<Handle>, ring: Consumer<Desc>, fill: Producer<u64>) -> Self {
        Self {
            fill_limit: fill.size(),
            ring,
            fill,
            handle,
        }
    }

    /// Sets how many entries the fill ring is filled up to, before it is filled for the first time: see
    /// [`Rx::set_fill_limit`].
    #[must_use]
    pub fn with_fill_limit(mut self, entries: usize) -> Self {
        self.set_fill_limit(entries);
        self
    }

    fn set_fill_limit(&mut self, entries: usize) {
        let size = self.fill.size();
        self.fill_limit = entries.clamp(1, size.max(1) as usize).min(size as usize) as u32;
    }

    /// Puts the half over a pool: from now on it receives into that pool's chunks, and fills the fill ring with them.
    ///
    /// # Errors
    /// [`Error::OtherUmem`] when the pool is not of the socket's UMEM, [`Error::NoRing`] when the socket was made
    /// without an RX ring. The half is then dropped.
    pub fn over<'p>(self, pool: impl Into<PoolRef<'p>>) -> Result<Rx<'p>> {
        let pool = pool.into();
        check(&self.handle, pool, self.ring.size(), "RX")?;
        let mut rx = Rx {
            hungry: true,
            pool,
            half: self,
        };
        rx.refill();
        Ok(rx)
    }

    /// The memory that the socket was bound over.
    pub fn umem(&self) -> &Arc<Umem> {
        &self.handle.umem
    }
}

/// Checks that a pool belongs to the socket's memory and that the half has its ring.
pub(crate) fn check(handle: &Handle, pool: PoolRef<'_>, size: u32, ring: &'static str) -> Result<()> {
    let object = handle.name.clone();
    if !Arc::ptr_eq(&handle.umem, &pool.inner.umem) {
        return Err(Error::OtherUmem { object });
    }
    if size == 0 {
        return Err(Error::NoRing { object, ring });
    }
    Ok(())
}

impl Drop for RxHalf {
    fn drop(&mut self) {
        // A panic in a receiver's closure may have left entries read and not released.
        self.ring.release();
    }
}

/// The receiving half of a socket over a pool.
#[derive(Debug)]
pub struct Rx<'p> {
    pool: PoolRef<'p>,
    /// The fill ring could have taken more than the free list had.
    hungry: bool,
    half: RxHalf,
}

impl<'p> Rx<'p> {
    /// Receives up to `max` packets, hands each to `each`, and fills the fill ring again. Returns how many there were;
    /// never blocks, never calls the kernel.
    #[inline]
    pub fn receive(&mut self, max: usize, each: impl FnMut(Frame<'p>)) -> usize {
        // One loop for each kind of chunks, so that neither asks in every round.
        if self.pool.inner.layout.is_unaligned() {
            self.receive_unaligned(max, each)
        } else {
            self.receive_in::<false>(max, each)
        }
    }

    /// Out of line, so that the common loop stays small.
    #[inline(never)]
    fn receive_unaligned(&mut self, max: usize, each: impl FnMut(Frame<'p>)) -> usize {
        self.receive_in::<true>(max, each)
    }

    #[inline(always)]
    fn receive_in<const UNALIGNED: bool>(&mut self, max: usize, mut each: impl FnMut(Frame<'p>)) -> usize {
        let (pool, handle) = (self.pool.inner, &self.half.handle);
        let layout = pool.layout;
        let mut wrong = 0;
        let taken = self.half.ring.consume(max.min(u32::MAX as usize) as u32, |desc| {
            match pool.received::<UNALIGNED>(&layout, desc, (desc.options & XDP_PKT_CONTD) as u16) {
                Some(frame) => each(frame),
                None => {
                    wrong += 1;
                    bad(handle);
                }
            }
        });
        if taken > 0 || self.hungry {
            self.fill(taken);
        }
        (taken - wrong) as usize
    }

    /// Fills the fill ring from the pool's free list; returns how many chunks that were. [`Rx::receive`] does it, too.
    pub fn refill(&mut self) -> usize {
        self.fill(self.half.fill.size())
    }

    /// Fills the fill ring; looks at the kernel's index only when there is no room for `want` by its last view.
    #[inline]
    fn fill(&mut self, want: u32) -> usize {
        let pool = self.pool.inner;
        let free = pool.free();
        if free == 0 {
            self.hungry = true;
            return 0;
        }
        let half = &mut self.half;
        let spare = half.fill.size() - half.fill_limit;
        let room = half.fill.room(want.saturating_add(spare)).saturating_sub(spare);
        self.hungry = room > free;
        pool.fill(&mut half.fill, room) as usize
    }

    /// Sets how many entries the fill ring is filled up to: 1 to its size (clamped), which is the default. With a pool
    /// that has few chunks, or one that several sockets receive into, a lower limit leaves some for sending. What
    /// is in the ring stays there: [`RxHalf::with_fill_limit`] sets it before there is anything.
    pub fn set_fill_limit(&mut self, entries: usize) {
        self.half.set_fill_limit(entries);
    }

    /// Chunks in the fill ring that the kernel has not taken yet.
    pub fn fill_level(&mut self) -> usize {
        self.half.fill.pending() as usize
    }

    /// True when the kernel waits for [`Rx::wake`] before it receives on.
    #[inline]
    pub fn wakeup_needed(&self) -> bool {
        self.half.handle.traits.need_wakeup && self.half.fill.wakeup_needed()
    }

    /// Makes the kernel look at the fill ring and, busy polling, at the device. True when it did; false when it wants
    /// to be asked again.
    ///
    /// # Errors
    /// [`Error::Down`] and [`Error::Gone`], else what the system call says.
    pub fn wake(&mut self) -> Result<bool> {
        let handle = &self.half.handle;
        outcome(handle, "receive on", handle.kernel.wake_rx())
    }

    /// Sleeps until there is something to receive, at most `timeout`. True when there is.
    ///
    /// # Errors
    /// As [`Rx::wake`].
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        if self.half.ring.available(1) > 0 {
            return Ok(true);
        }
        Ok(poll(&self.half.handle, Ready { rx: true, tx: false }, timeout)?.rx)
    }

    /// Packets that can be received now.
    pub fn available(&mut self) -> usize {
        self.half.ring.available(u32::MAX) as usize
    }

    /// Entries of the RX ring: packets that wait in it at most.
    pub fn size(&self) -> usize {
        self.half.ring.size() as usize
    }

    /// Descriptors that named no chunk of ours, since the socket was made: always 0, unless the kernel errs.
    pub fn bad_descriptors(&self) -> u64 {
        self.half.handle.bad_rx.load(Ordering::Relaxed)
    }

    /// The half without its pool, to be put over another one of the same UMEM. What is in the rings stays there.
    pub fn into_half(self) -> RxHalf {
        self.half
    }
}

/// Off the path, so that the loop stays small.
#[cold]
fn bad(handle: &Handle) {
    handle.bad_rx.fetch_add(1, Ordering::Relaxed);
}

/// Result of a wake-up: false if the kernel asks to try again later.
pub(crate) fn outcome(handle: &Handle, op: &'static str, result: std::io::Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(e) => Error::wakeup(op, &handle.name, e).map_or(Ok(false), Err),
    }
}

/// Sleeps until the socket is ready.
pub(crate) fn poll(handle: &Handle, want: Ready, timeout: Duration) -> Result<Ready> {
    match handle.kernel.poll(want, timeout) {
        Ok(ready) => Ok(ready),
        Err(e) => Error::wakeup("poll", &handle.name, e).map_or(Ok(Ready::default()), Err),
    }
}
