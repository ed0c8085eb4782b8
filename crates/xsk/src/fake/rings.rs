//! The memory of a fake socket's rings.

use super::FakeConfig;
use crate::abi::Desc;
use crate::handle::Rings;
use crate::ring::{Consumer, Producer, RingMap};
use crate::sync::{AtomicU32, Ordering, Slot};
use std::ptr::NonNull;

/// One ring: each word in a cache line of its own, as the kernel lays them out.
#[derive(Debug)]
#[repr(align(64))]
struct Word(AtomicU32);

#[derive(Debug)]
struct Ring<T> {
    producer: Word,
    consumer: Word,
    flags: Word,
    entries: NonNull<Slot<T>>,
    size: u32,
}

impl<T: Copy + Default> Ring<T> {
    fn new(size: u32, start: u32) -> Self {
        assert!(size.is_power_of_two(), "ring of {size} entries: not a power of two");
        let entries: Box<[Slot<T>]> = (0..size).map(|_| Slot::new(T::default())).collect();
        Self {
            producer: Word(AtomicU32::new(start)),
            consumer: Word(AtomicU32::new(start)),
            flags: Word(AtomicU32::new(0)),
            // SAFETY: a box is never null.
            entries: unsafe { NonNull::new_unchecked(Box::into_raw(entries)) }.cast(),
            size,
        }
    }

    fn map(&self) -> RingMap<T> {
        RingMap {
            producer: NonNull::from(&self.producer.0),
            consumer: NonNull::from(&self.consumer.0),
            flags: NonNull::from(&self.flags.0),
            entries: self.entries,
            size: self.size,
        }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let entries = NonNull::slice_from_raw_parts(self.entries, self.size as usize);
        // SAFETY: made by Box::into_raw of a slice of this length. Nobody reaches through the maps any more: they are
        // used only by holders of the queue.
        drop(unsafe { Box::from_raw(entries.as_ptr()) });
    }
}

#[derive(Debug)]
struct All {
    rx: Ring<Desc>,
    tx: Ring<Desc>,
    fill: Ring<u64>,
    completion: Ring<u64>,
}

/// All four rings, at a place that stays. Held by pointer, so that no reference to the whole ever asserts to be the
/// only one.
#[derive(Debug)]
pub(super) struct Memory(NonNull<All>);

// SAFETY: what is reached through the pointer from several threads are atomics; the slots' users make their own promise
// (Producer::new, Consumer::new).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// The kernel's sides.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) rx: Producer<Desc>,
    pub(super) tx: Consumer<Desc>,
    pub(super) fill: Consumer<u64>,
    pub(super) completion: Producer<u64>,
}

impl Memory {
    pub(super) fn new(config: &FakeConfig) -> Self {
        let all = Box::new(All {
            rx: Ring::new(config.rx_ring, config.start),
            tx: Ring::new(config.tx_ring, config.start),
            fill: Ring::new(config.fill_ring, config.start),
            completion: Ring::new(config.completion_ring, config.start),
        });
        // SAFETY: a box is never null.
        Self(unsafe { NonNull::new_unchecked(Box::into_raw(all)) })
    }

    fn all(&self) -> &All {
        // SAFETY: made by Box::into_raw, freed by drop only, never borrowed mutably.
        unsafe { self.0.as_ref() }
    }

    /// Returns the addresses of the rings.
    pub(super) fn rings(&self) -> Rings {
        let all = self.all();
        Rings {
            fill: Some(all.fill.map()),
            completion: Some(all.completion.map()),
            rx: Some(all.rx.map()),
            tx: Some(all.tx.map()),
        }
    }

    /// The kernel's sides; called once.
    pub(super) fn kernel(&self) -> Kernels {
        let all = self.all();
        // SAFETY: called once (FakeQueue::open), so these are the kernel's only sides; the queue holds them beside the
        // memory.
        unsafe {
            Kernels {
                rx: Producer::new(all.rx.map()),
                tx: Consumer::new(all.tx.map()),
                fill: Consumer::new(all.fill.map()),
                completion: Producer::new(all.completion.map()),
            }
        }
    }

    /// Sets the flags of the fill and TX rings.
    pub(super) fn set_flags(&self, fill: u32, tx: u32) {
        self.all().fill.flags.0.store(fill, Ordering::SeqCst);
        self.all().tx.flags.0.store(tx, Ordering::SeqCst);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw; the queue that holds it is gone, and with it all who use the rings.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
