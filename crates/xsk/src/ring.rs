//! The two sides of a ring: one producer, one consumer, in memory that they share.
//!
//! A ring is two free-running 32-bit indices, a word of flags and an array whose size is a power of two. Indices wrap
//! at 2³²; entry `i` lies in slot `i mod size`. The producer owns the slots from its index up to the consumer's index
//! plus the size, the consumer those from its index up to the producer's (`net/xdp/xsk_queue.h`, "The structure of the
//! shared state of the rings"):
//!
//! - the producer writes slots, then stores its index with *release*; the consumer loads it with *acquire* and so sees
//!   the slots;
//! - the consumer reads slots, then stores its index with *release*; the producer loads it with *acquire* before it
//!   writes these slots again.
//!
//! Each side keeps its own index, and its last view of the other's, in private memory: the shared words are read only
//! when that view is too old to serve, and written once a batch. Both sides are single: a store, never a locked
//! read-modify-write.
//!
//! The file knows nothing of AF_XDP or of the operating system, so that the concurrency test can include it as it is.

use crate::sync::{AtomicU32, Ordering, Slot, fence};
use core::ptr::NonNull;

/// The kernel (or driver) sleeps and wants a system call: `XDP_RING_NEED_WAKEUP`.
const NEED_WAKEUP: u32 = 1;

/// Addresses of a ring: three words and an array, in memory shared with the kernel (or with the fake).
#[derive(Debug)]
pub(crate) struct RingMap<T> {
    /// Index of the next entry to be written.
    pub(crate) producer: NonNull<AtomicU32>,
    /// Index of the next entry to be read.
    pub(crate) consumer: NonNull<AtomicU32>,
    /// `XDP_RING_NEED_WAKEUP`.
    pub(crate) flags: NonNull<AtomicU32>,
    /// The first slot.
    pub(crate) entries: NonNull<Slot<T>>,
    /// Slots: a power of two (or 0: a ring that isn't there, which never holds and never takes an entry).
    pub(crate) size: u32,
}

impl<T> Clone for RingMap<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RingMap<T> {}

// SAFETY: the map is four addresses; code that uses them to reach the ring makes a promise of its own
// ([`Producer::new`], [`Consumer::new`]: one producer and one consumer per ring; the indices themselves are atomics).
unsafe impl<T: Send> Send for RingMap<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for RingMap<T> {}

impl<T: Copy> RingMap<T> {
    /// The producer's shared index.
    ///
    /// # Safety
    /// The ring's memory is still there.
    #[inline(always)]
    pub(crate) unsafe fn producer(&self) -> &AtomicU32 {
        // SAFETY: the caller's promise; the word is only ever used as an atomic.
        unsafe { self.producer.as_ref() }
    }

    /// The consumer's shared index.
    ///
    /// # Safety
    /// The ring's memory is still there.
    #[inline(always)]
    pub(crate) unsafe fn consumer(&self) -> &AtomicU32 {
        // SAFETY: the caller's promise; the word is only ever used as an atomic.
        unsafe { self.consumer.as_ref() }
    }

    /// The shared flags.
    ///
    /// # Safety
    /// The ring's memory is still there.
    #[inline(always)]
    pub(crate) unsafe fn flags(&self) -> &AtomicU32 {
        // SAFETY: the caller's promise; the word is only ever used as an atomic.
        unsafe { self.flags.as_ref() }
    }

    /// The slots of `n` entries (at most `size`) from `index` on, as the two pieces in which they lie in the array:
    /// first slot and number.
    #[inline(always)]
    pub(crate) fn runs(&self, index: u32, n: u32) -> [(*const Slot<T>, u32); 2] {
        let offset = index & self.size.wrapping_sub(1);
        let front = n.min(self.size.wrapping_sub(offset));
        // wrapping_add: a ring that isn't there has no slot, and nobody follows the address.
        let first = self.entries.as_ptr().wrapping_add(offset as usize).cast_const();
        [(first, front), (self.entries.as_ptr().cast_const(), n - front)]
    }
}

/// Walk along one piece of a ring. The side's index is stored once, when the walk is dropped, and not in each round: so
/// also if a closure panics on the way.
struct Step<'a, T> {
    at: *const Slot<T>,
    end: *const Slot<T>,
    start: *const Slot<T>,
    index: &'a mut u32,
}

impl<'a, T> Step<'a, T> {
    #[inline(always)]
    fn new((start, n): (*const Slot<T>, u32), index: &'a mut u32) -> Self {
        let end = start.wrapping_add(n as usize);
        let at = start;
        Self { at, end, start, index }
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.at = self.at.wrapping_add(1);
    }

    /// Entries passed so far.
    #[inline(always)]
    fn done(&self) -> u32 {
        // SAFETY: both are within one piece of the ring's array, or the same.
        unsafe { self.at.offset_from(self.start) as u32 }
    }
}

impl<T> Drop for Step<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.index = self.index.wrapping_add(self.done());
    }
}

/// The writing side of a ring: fill and TX for us, RX and completion for the fake kernel.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    map: RingMap<T>,
    /// The next entry to be written; ahead of the shared index until [`Producer::publish`].
    head: u32,
    /// The first entry that may not be written: the consumer's index as last seen, plus the size.
    limit: u32,
}

impl<T: Copy> Producer<T> {
    /// Takes over the producer's side, at the index that is there.
    ///
    /// # Safety
    /// The ring's memory outlives the value, and this is the ring's only producer.
    pub(crate) unsafe fn new(map: RingMap<T>) -> Self {
        // SAFETY: the ring's memory is there (caller).
        let (head, tail) = unsafe {
            (
                map.producer().load(Ordering::Relaxed),
                map.consumer().load(Ordering::Acquire),
            )
        };
        Self {
            map,
            head,
            limit: tail.wrapping_add(map.size),
        }
    }

    /// Slots that may be written now. Looks at the shared index only when its last view has less than `want`.
    #[inline]
    pub(crate) fn room(&mut self, want: u32) -> u32 {
        let room = self.limit.wrapping_sub(self.head);
        if room >= want { room } else { self.refresh() }
    }

    #[inline]
    fn refresh(&mut self) -> u32 {
        // SAFETY: the ring's memory is there for as long as `self` (new).
        let tail = unsafe { self.map.consumer() }.load(Ordering::Acquire);
        // An index that is not ours to believe: never more room than there are slots.
        let used = self.head.wrapping_sub(tail).min(self.map.size);
        self.limit = self.head.wrapping_add(self.map.size - used);
        self.map.size - used
    }

    /// Writes up to `max` entries, as many as there is room for and as `next` gives, and publishes them with one store.
    /// `next` is called only when there is room for what it gives. Returns how many were written.
    ///
    /// When `next` panics, what it gave before is kept, to be published by a later call or [`Producer::publish`].
    #[inline(always)]
    pub(crate) fn produce(&mut self, max: u32, mut next: impl FnMut() -> Option<T>) -> u32 {
        let n = self.room(max).min(max);
        let start = self.head;
        let [front, back] = self.map.runs(start, n);
        // A piece that is not filled is the last: the source is dry.
        if self.write(front, &mut next) == front.1 && back.1 > 0 {
            self.write(back, &mut next);
        }
        let done = self.head.wrapping_sub(start);
        if done > 0 {
            self.publish();
        }
        done
    }

    /// Writes one piece of a batch, as far as `next` gives; returns how many entries that were.
    #[inline(always)]
    fn write(&mut self, run: (*const Slot<T>, u32), next: &mut impl FnMut() -> Option<T>) -> u32 {
        let mut step = Step::new(run, &mut self.head);
        while step.at != step.end {
            let Some(entry) = next() else { break };
            // SAFETY: the piece lies between `head` and `limit` (produce), so its slots are the producer's until they
            // are published; the memory is there.
            unsafe { Slot::write(step.at, entry) };
            step.advance();
        }
        step.done()
    }

    /// Makes everything written visible to the consumer.
    #[inline]
    pub(crate) fn publish(&mut self) {
        // SAFETY: the ring's memory is there for as long as `self` (new).
        unsafe { self.map.producer() }.store(self.head, Ordering::Release);
    }

    /// Entries written and not yet consumed. Always looks.
    #[inline]
    pub(crate) fn pending(&mut self) -> u32 {
        self.map.size - self.refresh()
    }

    /// True when the consumer sleeps and wants a system call.
    ///
    /// The flag is read after the index was published. A kernel that sets the flag and then looks at the index must not
    /// miss the entries while we miss the flag: hence the fence, paid only when the flag seems clear.
    #[inline]
    pub(crate) fn wakeup_needed(&self) -> bool {
        // SAFETY: the ring's memory is there for as long as `self` (new).
        let flags = unsafe { self.map.flags() };
        if flags.load(Ordering::Relaxed) & NEED_WAKEUP != 0 {
            return true;
        }
        fence(Ordering::SeqCst);
        flags.load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    /// Slots of the ring.
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.map.size
    }
}

/// The reading side of a ring: RX and completion for us, fill and TX for the fake kernel.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    map: RingMap<T>,
    /// The next entry to be read; ahead of the shared index until [`Consumer::release`].
    tail: u32,
    /// The first entry not yet written, as last seen.
    head: u32,
}

impl<T: Copy> Consumer<T> {
    /// Takes over the consumer's side, at the index that is there.
    ///
    /// # Safety
    /// The ring's memory outlives the value, and this is the ring's only consumer.
    pub(crate) unsafe fn new(map: RingMap<T>) -> Self {
        // SAFETY: the ring's memory is there (caller).
        let tail = unsafe { map.consumer() }.load(Ordering::Relaxed);
        Self { map, tail, head: tail }
    }

    /// Entries that can be read now. Looks at the shared index only when its last view has less than `want`.
    #[inline]
    pub(crate) fn available(&mut self, want: u32) -> u32 {
        let available = self.head.wrapping_sub(self.tail);
        if available >= want { available } else { self.refresh() }
    }

    #[inline]
    fn refresh(&mut self) -> u32 {
        // SAFETY: the ring's memory is there for as long as `self` (new).
        let head = unsafe { self.map.producer() }.load(Ordering::Acquire);
        // An index that is not ours to believe: never more entries than there are slots.
        let available = head.wrapping_sub(self.tail).min(self.map.size);
        self.head = self.tail.wrapping_add(available);
        available
    }

    /// Reads up to `max` entries and gives the slots back with one store. Returns how many were read.
    ///
    /// When `each` panics, the entry that it was given counts as read.
    #[inline(always)]
    pub(crate) fn consume(&mut self, max: u32, mut each: impl FnMut(T)) -> u32 {
        let n = self.available(max).min(max);
        if n == 0 {
            return 0;
        }
        for run in self.map.runs(self.tail, n) {
            let mut step = Step::new(run, &mut self.tail);
            while step.at != step.end {
                // SAFETY: the piece lies between `tail` and `head`, so its slots are the consumer's until they are
                // released; the memory is there.
                let entry = unsafe { Slot::read(step.at) };
                step.advance();
                each(entry);
            }
        }
        self.release();
        n
    }

    /// Gives everything read back to the producer.
    #[inline]
    pub(crate) fn release(&mut self) {
        // SAFETY: the ring's memory is there for as long as `self` (new).
        unsafe { self.map.consumer() }.store(self.tail, Ordering::Release);
    }

    /// Slots of the ring.
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.map.size
    }
}

// SAFETY: a side is the only one of its kind on its ring (new), so it may work on any one thread; all that both sides
// share goes through atomics, and the slots change hands through their release and acquire.
unsafe impl<T: Send> Send for Producer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Consumer<T> {}
