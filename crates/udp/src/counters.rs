//! Counters of one lane, written by the lane and read by the collector.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number with a single writer: a load and a store, never a locked instruction.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the lane that owns the queue may call this.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one lane counts itself; the crate's documentation says what each means. A cache line or two of its own, so
/// that lanes do not share lines.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct LaneCounters {
    pub(crate) tx_failed: Counter,
    pub(crate) refused: Counter,
    pub(crate) icmp_errors: Counter,
    pub(crate) tx_again: Counter,
    pub(crate) blocked: Counter,
    pub(crate) unreachable: Counter,
    pub(crate) rx_truncated: Counter,
}
