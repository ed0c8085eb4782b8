//! Small safe wrappers over the operating system: clock, threads and their scheduling, privileges, signals.
//!
//! The unsafe code that the engine and the statistics would otherwise need lives here, a few lines at a time.

pub mod cgroup;
pub mod child;
pub mod clock;
pub mod evidence;
pub mod journal;
pub mod map;
pub mod memory;
pub mod near;
pub mod perf;
pub mod private;
pub mod privilege;
pub mod probe;
pub mod proc_stat;
pub mod processor;
mod random;
pub mod ready;
pub mod sched;
pub mod signal;
pub mod stdio;
pub mod switches;
pub mod terminal;
pub mod text;
pub mod thread;
pub mod uring;
pub mod wake;

/// Kept apart so that `tests/orders.rs` can put loom's types in their place.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
}

pub use random::random_number;
