//! Division of time into rows.

/// Shortest row, ns, that carries sampled values such as host waits: sampling is too slow for shorter rows.
const LONG_ROW_NS: u64 = 100_000_000;

/// Division of time into rows, and the time for which a row stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Start of the run, ns on the clock of the lanes.
    pub start_ns: u64,
    /// Length of a row, ns; 100,000 or more.
    pub interval_ns: u64,
    /// Longest time after sending within which a packet may come back and count as received, ns.
    pub settle_ns: u64,
}

/// Extra time for which rows stay open beyond the settle time. Some paths take the time of reception themselves and
/// hand the frame over later. On others the kernel counts packets: a program there books by an older reading of the
/// clock, older by the time of the packets handled since, and by the time for which its core was taken from it.
const GRACE_NS: u64 = 50_000_000;

/// Room in the ring beyond the settle time, ns: the longest time for which the collector may be kept from running.
const SLACK_NS: u64 = 4_000_000_000;

/// Least length of a histogram period, ns.
pub const MIN_PERIOD_NS: u64 = 100_000_000;

impl Timing {
    /// Returns how many rows make up one histogram period.
    pub fn rows_per_period(&self) -> u64 {
        MIN_PERIOD_NS.div_ceil(self.interval_ns).max(1)
    }

    /// Whether rows show sampled values, such as what kept lanes from running. Short rows do not, as sampling is too
    /// slow for them.
    pub fn has_long_rows(&self) -> bool {
        self.interval_ns >= LONG_ROW_NS
    }

    /// Returns the row of the time `at_ns`; 0 before the start.
    #[inline]
    pub fn row_of(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.start_ns) / self.interval_ns
    }

    /// Returns the number below which rows can't change any more by `now_ns`: their settle time is over, and the grace
    /// beyond it.
    pub fn closable(&self, now_ns: u64) -> u64 {
        self.row_of(now_ns.saturating_sub(self.keep_ns()))
    }

    /// Returns the time for which a row stays open after its end, ns.
    pub(super) fn keep_ns(&self) -> u64 {
        self.settle_ns + GRACE_NS
    }

    /// Returns the number of rows that the ring needs: those that are open, and room for the collector to be late.
    pub(super) fn open_rows(&self) -> u64 {
        (self.settle_ns + GRACE_NS + SLACK_NS) / self.interval_ns + 2
    }
}
