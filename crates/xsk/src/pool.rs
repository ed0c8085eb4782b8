//! A pool: one thread's share of a UMEM's chunks, with its free list.
//!
//! The free list is a stack in one piece of memory, made once: the chunk freed last is the first to be used again,
//! while it is still in the cache. It has no atomics and no locks; the pool is one thread's, which `!Sync` enforces.

use crate::abi::Desc;
use crate::frame::Frame;
use crate::owner::Owner;
use crate::ring::{Consumer, Producer};
use crate::umem::Layout;
use crate::{Result, Umem};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// From here on a result of [`Layout::stray`] says that there is a chunk that isn't ours.
const STRAY: u64 = 1 << 63;

/// Makes a lifetime invariant: it can be neither shortened nor lengthened, so it names one pool's borrow (or one
/// [`Pool::scope`]) exactly.
pub(crate) type Brand<'p> = PhantomData<fn(&'p ()) -> &'p ()>;

/// One thread's share of a UMEM's chunks.
///
/// Frames borrow the pool, so they can't outlive it. The pool can move to another thread while nothing borrows it, and
/// is never shared by two.
pub struct Pool {
    inner: PoolInner,
}

/// A pool that rings are put over: made from `&'p Pool`, or by [`Pool::scope`] with a `'p` of its own.
#[derive(Clone, Copy)]
pub struct PoolRef<'p> {
    pub(crate) inner: &'p PoolInner,
    pub(crate) brand: Brand<'p>,
}

impl<'p> From<&'p Pool> for PoolRef<'p> {
    fn from(pool: &'p Pool) -> Self {
        Self {
            inner: &pool.inner,
            brand: PhantomData,
        }
    }
}

impl fmt::Debug for PoolRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Pool {
    /// Takes `frames` chunks that no pool has. A chunk comes back when the pool that has it in its free list is
    /// dropped, or the socket that has it in its rings is closed.
    ///
    /// How many it takes: those in the fill ring (see [`crate::Rx::set_fill_limit`]), in the TX and completion rings,
    /// in the RX ring and in hand; with fewer, nothing breaks, but a ring that is full of chunks leaves none for the
    /// others.
    ///
    /// # Errors
    /// [`crate::Error::TooSmall`] when the UMEM has no more as many.
    pub fn new(umem: &Arc<Umem>, frames: u32) -> Result<Self> {
        let chunks = umem.ledger().open_pool(frames)?;
        let frame_size = u64::from(umem.config().frame_size);
        // Room for every chunk of the UMEM: rings may be put over one pool after another, and bring chunks with them.
        let list: Box<[Cell<u64>]> = (0..umem.config().frames).map(|_| Cell::new(0)).collect();
        // The chunk with the lowest address is on top.
        for (cell, &chunk) in list.iter().zip(chunks.iter().rev()) {
            let base = u64::from(chunk) * frame_size;
            umem.owners.moved(base, Owner::Nobody, Owner::Free);
            cell.set(base);
        }
        let config = umem.config();
        Ok(Self {
            inner: PoolInner {
                area: umem.area().0,
                layout: *umem.layout(),
                len: Cell::new(frames),
                list,
                offset: config.headroom.max(config.tx_metadata_len),
                tx_metadata_len: config.tx_metadata_len,
                frames,
                umem: umem.clone(),
            },
        })
    }

    /// Runs `f` with a reference to the pool that no other pool's has the lifetime of: a frame of another pool then
    /// can't be sent through rings over this one; it does not compile. (Without, such a frame is refused when the
    /// program runs.)
    pub fn scope<R>(&self, f: impl for<'p> FnOnce(PoolRef<'p>) -> R) -> R {
        f(PoolRef::from(self))
    }

    /// Takes up to `n` frames and hands each to `each`; returns how many there were. Their length is 0 and their bytes
    /// are whatever was there: write, then set the length, or the other way round.
    #[inline]
    pub fn allocate<'p>(&'p self, n: usize, each: impl FnMut(Frame<'p>)) -> usize {
        PoolRef::from(self).allocate(n, each)
    }

    /// Takes one frame; `None` when the free list is empty.
    #[inline]
    pub fn allocate_one(&self) -> Option<Frame<'_>> {
        PoolRef::from(self).allocate_one()
    }

    /// Chunks in the free list.
    #[inline]
    pub fn free(&self) -> usize {
        self.inner.len.get() as usize
    }

    /// Chunks that the pool was made with.
    #[inline]
    pub fn frames(&self) -> usize {
        self.inner.frames as usize
    }

    /// The memory that the chunks are of.
    pub fn umem(&self) -> &Arc<Umem> {
        &self.inner.umem
    }
}

impl<'p> PoolRef<'p> {
    /// Takes up to `n` free chunks, like [`Pool::allocate`].
    #[inline]
    pub fn allocate(self, n: usize, mut each: impl FnMut(Frame<'p>)) -> usize {
        let mut done = 0;
        while done < n {
            let Some(frame) = self.allocate_one() else { break };
            each(frame);
            done += 1;
        }
        done
    }

    /// Takes one free chunk, like [`Pool::allocate_one`].
    #[inline]
    pub fn allocate_one(self) -> Option<Frame<'p>> {
        let base = self.inner.take(Owner::Held)?;
        // SAFETY: the chunk was in the free list, hence nobody else's, and now in no other place than this frame; the
        // offset is below the chunk's size (UmemConfig::check).
        Some(unsafe { Frame::new(self.inner, base, self.inner.offset.into(), 0, 0) })
    }

    /// Returns the number of free chunks, like [`Pool::free`].
    #[inline]
    pub fn free(self) -> usize {
        self.inner.len.get() as usize
    }

    /// Returns the number of chunks that the pool was made with, like [`Pool::frames`].
    #[inline]
    pub fn frames(self) -> usize {
        self.inner.frames as usize
    }
}

/// State of a pool that frames and rings refer to.
pub(crate) struct PoolInner {
    /// Start of the UMEM; valid as long as `umem`.
    pub(crate) area: NonNull<u8>,
    pub(crate) layout: Layout,
    /// Entries of `list` in use, from the front.
    len: Cell<u32>,
    /// Starts of free chunks. As long as the UMEM has chunks, so it never overflows.
    list: Box<[Cell<u64>]>,
    /// Offset of the data in the chunk of a newly allocated frame, bytes.
    offset: u32,
    pub(crate) tx_metadata_len: u32,
    frames: u32,
    pub(crate) umem: Arc<Umem>,
}

// SAFETY: the pointer leads to memory that the `Arc<Umem>` beside it keeps, at the same address on every thread; all
// else is owned. Not `Sync`: the free list is for one thread at a time.
unsafe impl Send for PoolInner {}

impl PoolInner {
    /// Takes a chunk off the free list.
    #[inline(always)]
    pub(crate) fn take(&self, to: Owner) -> Option<u64> {
        let len = self.len.get().checked_sub(1)?;
        // SAFETY: `len` never exceeds the list's length (give), so one less is an index of it.
        let base = unsafe { self.list.get_unchecked(len as usize) }.get();
        self.len.set(len);
        self.umem.owners.moved(base, Owner::Free, to);
        Some(base)
    }

    /// Puts a chunk onto the free list, of which it has been made sure that it is in no other place.
    #[inline(always)]
    pub(crate) fn give(&self, base: u64) {
        let len = self.len.get();
        // Always true, unless a kernel has returned one chunk twice. Then that chunk is lost, rather than our memory
        // damaged.
        if let Some(cell) = self.list.get(len as usize) {
            cell.set(base);
            self.len.set(len + 1);
        }
    }

    /// Chunks are aligned, and there is no TX metadata: an address is a distance, and nothing else need be done.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        !self.layout.is_unaligned() && self.tx_metadata_len == 0
    }

    /// Chunks in the free list.
    #[inline(always)]
    pub(crate) fn free(&self) -> u32 {
        self.len.get()
    }

    /// Makes a frame of a descriptor of the RX ring; `None` when it names no chunk of the UMEM or too many bytes of it.
    /// `layout` is the pool's own, in registers.
    #[inline(always)]
    pub(crate) fn received<const UNALIGNED: bool>(&self, layout: &Layout, desc: Desc, flags: u16) -> Option<Frame<'_>> {
        let (base, offset) = layout.decode_in::<UNALIGNED>(desc.addr, desc.len)?;
        if !self.umem.owners.arrived(base, Owner::Receiving, Owner::Held) {
            return None;
        }
        // SAFETY: the kernel had the chunk from the fill ring and has given it back with this descriptor, once; data
        // and length lie within it (decode).
        let frame = unsafe { Frame::new(self, base, offset, desc.len, flags) };
        frame.prefetch();
        Some(frame)
    }

    /// Makes a frame of an address of the completion ring; `None` when it names no chunk of the UMEM.
    #[inline(always)]
    pub(crate) fn completed(&self, addr: u64) -> Option<Frame<'_>> {
        let (base, offset) = self.layout.decode(addr, 0)?;
        if !self.umem.owners.arrived(base, Owner::Sending, Owner::Held) {
            return None;
        }
        // SAFETY: the kernel had the chunk from the TX ring and has given it back with this address, once; the offset
        // lies within it (decode).
        Some(unsafe { Frame::new(self, base, offset, 0, 0) })
    }

    /// Moves up to `max` free chunks into a fill ring; returns how many.
    #[inline]
    pub(crate) fn fill(&self, ring: &mut Producer<u64>, max: u32) -> u32 {
        let (list, len) = (&*self.list, self.len.get());
        // The chunks on top of the list are moved in the order in which they lie: a copy of memory.
        let n = ring.room(max).min(max).min(len);
        let mut next = (len - n) as usize;
        let done = ring.produce(n, || {
            // SAFETY: called `n` times, for there is room, and `len` never exceeds the list's length (give).
            let base = unsafe { list.get_unchecked(next) }.get();
            next += 1;
            self.umem.owners.moved(base, Owner::Free, Owner::Receiving);
            Some(base)
        });
        debug_assert_eq!(done, n);
        self.len.set(len - done);
        done
    }

    /// Moves all that is in a completion ring to the free list; calls `bad` for addresses that name no chunk. Returns
    /// how many there were.
    #[inline]
    pub(crate) fn reclaim(&self, ring: &mut Consumer<u64>, bad: impl FnMut()) -> u32 {
        // One loop for each kind of chunks, so that neither asks in every round.
        if self.layout.is_unaligned() {
            self.reclaim_in::<true>(ring, bad)
        } else {
            self.reclaim_in::<false>(ring, bad)
        }
    }

    #[inline(always)]
    fn reclaim_in<const UNALIGNED: bool>(&self, ring: &mut Consumer<u64>, mut bad: impl FnMut()) -> u32 {
        let (layout, list, start) = (self.layout, &*self.list, self.len.get());
        // Always more than the ring holds, unless a kernel has returned one chunk twice: then the surplus entries stay
        // in the ring.
        let max = (list.len() as u32).saturating_sub(start);
        let (mut top, mut strays) = (start, 0);
        let taken = ring.consume(max, |addr| {
            let (base, _) = layout.split::<UNALIGNED>(addr);
            // Looked at when all are here: so there is no branch in the loop.
            strays |= layout.stray::<UNALIGNED>(base);
            // SAFETY: called at most `max` times, so `top` stays below the list's length.
            unsafe { list.get_unchecked(top as usize) }.set(base);
            top += 1;
        });
        if cfg!(debug_assertions) || strays >= STRAY {
            top = self.sift::<UNALIGNED>(start, top, &mut bad);
        }
        self.len.set(top);
        taken
    }

    /// Keeps those addresses of the list from `start` up to `end` that name chunks that were being sent; calls `bad`
    /// for the others. Returns the new end.
    #[cold]
    fn sift<const UNALIGNED: bool>(&self, start: u32, end: u32, bad: &mut dyn FnMut()) -> u32 {
        let mut top = start as usize;
        for cell in &self.list[start as usize..end as usize] {
            let base = cell.get();
            if self.layout.stray::<UNALIGNED>(base) < STRAY
                && self.umem.owners.arrived(base, Owner::Sending, Owner::Free)
            {
                self.list[top].set(base);
                top += 1;
            } else {
                bad();
            }
        }
        top as u32
    }
}

impl fmt::Debug for PoolInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} of {} frames free)", self.free(), self.frames)
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        let frame_size = u64::from(self.layout.frame_size);
        let free = &self.list[..self.len.get() as usize];
        for base in free {
            self.umem.owners.returned(base.get());
        }
        let chunks = free.iter().map(|base| (base.get() / frame_size) as u32);
        self.umem.ledger().close_pool(chunks);
    }
}
