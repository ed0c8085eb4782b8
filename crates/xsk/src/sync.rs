//! Shared memory as the rings use it: 32-bit indices and slots. Kept apart so that the concurrency test
//! (`tests/loom.rs`) can use loom's types instead and explore every interleaving of the very same ring code.

use core::cell::UnsafeCell;
pub(crate) use core::sync::atomic::{AtomicU32, Ordering, fence};

/// One entry of a ring: plain memory that one side writes and the other reads, never both at a time.
#[repr(transparent)]
pub(crate) struct Slot<T>(UnsafeCell<T>);

impl<T: Copy> Slot<T> {
    #[cfg(any(test, feature = "fake"))]
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Copies the entry out.
    ///
    /// # Safety
    /// `this` is valid for reads, and the other side does not write the slot meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn read(this: *const Self) -> T {
        // SAFETY: the caller's promise; the raw access makes no reference to the shared memory.
        unsafe { UnsafeCell::raw_get(this.cast::<UnsafeCell<T>>()).read() }
    }

    /// Overwrites the entry.
    ///
    /// # Safety
    /// `this` is valid for writes, and the other side neither reads nor writes the slot meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn write(this: *const Self, value: T) {
        // SAFETY: the caller's promise; the raw access makes no reference to the shared memory.
        unsafe { UnsafeCell::raw_get(this.cast::<UnsafeCell<T>>()).write(value) }
    }
}
