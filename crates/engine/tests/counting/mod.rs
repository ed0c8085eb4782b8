//! An allocator that counts its calls on each thread whose flag is up.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

/// Calls of the allocator by threads whose flag is up.
pub(crate) static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread is a lane on its packet path. Made without allocating and never dropped.
    pub(crate) static ON_PACKET_PATH: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if ON_PACKET_PATH.with(Cell::get) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator with the caller's own arguments, whose contract the caller
// keeps; counting touches an atomic and a thread-local without a destructor, neither of which allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
