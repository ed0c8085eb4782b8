//! What a lane hands over when it ends.

use mpps_stats::{Histogram, Moments};

/// The lane's private results.
#[derive(Debug, Default)]
pub(crate) struct LaneOutcome {
    /// Gaps between departures.
    pub(crate) gaps: Option<(Histogram, Moments)>,
    /// Counts by reason.
    pub(crate) reasons: Vec<(&'static str, u64)>,
    /// Involuntary context switches while it ran.
    pub(crate) preempted: u64,
    /// Time on the run queue but not running while it ran, ns.
    pub(crate) run_delay_ns: Option<u64>,
}
