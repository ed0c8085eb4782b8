//! Counters of one lane, written by the lane and read by the collector.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number with a single writer: a load and a store, never a locked instruction.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the lane that owns the queue may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The number; from any thread.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters that one lane keeps itself. They fill a cache line or two of their own, so that lanes do not share lines.
#[derive(Default)]
#[repr(align(128))]
pub struct LaneCounters {
    /// Datagrams that we passed to the kernel and it refused for good.
    pub tx_failed: Counter,
    /// Pending ICMP "port unreachable" that a call brought.
    pub refused: Counter,
    /// Other pending ICMP errors that a call brought.
    pub icmp_errors: Counter,
    /// Transmissions put off because the socket buffer or the device queue was full.
    pub tx_again: Counter,
    /// Part of `tx_failed`: refused by a firewall rule (`EPERM`).
    pub blocked: Counter,
    /// Part of `tx_failed`: no route back to the sender of a received datagram, or it can't be answered.
    pub unreachable: Counter,
    /// Datagrams longer than the largest frame, cut on receipt.
    pub rx_truncated: Counter,
    /// Datagrams that the kernel was to say the time of arrival of, and did not, or not rightly.
    pub rx_timed_by_lane: Counter,
}
