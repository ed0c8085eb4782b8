//! Counters with a single writer: an addition is a load and a store, never a locked read-modify-write.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A 64-bit counter that one thread writes and any thread reads.
///
/// With two writers additions would be lost; the types that hold counters therefore hand out one writer each.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. For the single writer only.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Raises the value to `n` if `n` is larger. For the single writer only.
    #[inline]
    pub fn raise(&self, n: u64) {
        if n > self.0.load(Ordering::Relaxed) {
            self.0.store(n, Ordering::Relaxed);
        }
    }

    /// Replaces the value. For the single writer only.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Replaces the value. All that the writer wrote before is visible to a thread that reads the value by
    /// [`Counter::get_published`].
    #[inline]
    pub fn publish(&self, n: u64) {
        self.0.store(n, Ordering::Release);
    }

    /// Returns the value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the value; all that its writer wrote before publishing it is then visible.
    #[inline]
    pub fn get_published(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// A 32-bit counter for histograms; wraps at 2^32.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Counter32(AtomicU32);

impl Counter32 {
    #[inline]
    pub(crate) fn add(&self, n: u32) {
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn take(&self) -> u32 {
        let n = self.0.load(Ordering::Relaxed);
        if n != 0 {
            self.0.store(0, Ordering::Relaxed);
        }
        n
    }
}
