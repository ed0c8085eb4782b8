//! Counters that a lane keeps of its ring, beside those of all sockets.

use mpps_sockets::counters::Counter;

/// Written by the lane, read by the collector. Cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct RingCounters {
    /// Calls of `io_uring_enter`.
    pub(crate) system_calls: Counter,
    /// Times that receiving ended because the kernel had no buffer left.
    pub(crate) no_buffers: Counter,
    /// Times that completions were found to have overflowed.
    pub(crate) cq_overflows: Counter,
    /// Completions that the kernel had no memory to keep: packets that were received may be among them.
    pub(crate) completions_lost: Counter,
    /// Datagrams sent while an earlier one waited for another try.
    pub(crate) overtaken: Counter,
    /// Datagrams sent by zero copy.
    pub(crate) zerocopied: Counter,
    /// Part of `zerocopied`: datagrams whose bytes the kernel copied after all.
    pub(crate) zerocopy_copied: Counter,
    /// Datagrams that had been received when the queue was closed, and not handed out.
    pub(crate) unread_at_close: Counter,
    /// Part of `tx_failed`: datagrams whose sends had not ended when the queue was closed.
    pub(crate) unsent_at_close: Counter,
}
