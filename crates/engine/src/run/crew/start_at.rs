//! A start of a trial that was asked for (`--start-at`): waiting for it, and how well it was kept.

use super::LOOK;
use crate::error::RunError;
use crate::outcome::LaneOutcome;
use mpps_stats::{Remark, RemarkName};
use mpps_sys::clock::{ClockTime, monotonic_ns};
use std::thread;
use std::time::Duration;

/// Least time between the readiness of all lanes and a start that was asked for, ns.
const LEAST_AHEAD_NS: u64 = 100_000_000;
/// Time before such a start, beside the lanes' lead, in which queues are emptied and counters read, ns.
const READ_NS: u64 = 10_000_000;

/// Start of a trial that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartsAt {
    /// The instant, ns on the lanes' clock.
    pub(super) at_ns: u64,
    /// How far off that may be, as two clocks were read one after the other, ns.
    read_within_ns: u64,
}

impl StartsAt {
    /// Returns the start of lanes that are ready. `lead_ns`: time that they need before a start.
    ///
    /// # Errors
    /// If it is too near or past.
    pub(super) fn arm(start: ClockTime, lead_ns: u64) -> Result<Self, RunError> {
        let (at_ns, read_within_ns) = start.monotonic();
        let (ready_ns, least_ns) = (monotonic_ns(), LEAST_AHEAD_NS + lead_ns);
        if at_ns < ready_ns + least_ns {
            return Err(RunError::TooLate(too_late(at_ns, ready_ns, least_ns)));
        }
        Ok(Self { at_ns, read_within_ns })
    }

    /// Waits until it is time to read the counters, and to start the lanes.
    ///
    /// # Errors
    /// If the run is interrupted.
    pub(super) fn wait(&self, lead_ns: u64, interruptions: &dyn Fn() -> u32) -> Result<(), RunError> {
        loop {
            let left_ns = self.at_ns.saturating_sub(monotonic_ns() + READ_NS + lead_ns);
            if left_ns == 0 {
                return Ok(());
            }
            if interruptions() > 0 {
                return Err(RunError::Interrupted);
            }
            thread::sleep(LOOK.min(Duration::from_nanos(left_ns)));
        }
    }

    /// Returns how long after that instant the last lane may have begun, ns.
    pub(super) fn error_ns(&self, start_ns: u64, outcomes: &[LaneOutcome]) -> u64 {
        let began_after_ns = outcomes.iter().map(|lane| lane.began_after_ns).max();
        start_ns - self.at_ns + began_after_ns.unwrap_or(0) + self.read_within_ns
    }
}

/// Returns the error for a start that is too near or past.
fn too_late(at_ns: u64, ready_ns: u64, least_ns: u64) -> String {
    let ms = |ns: u64| ns.div_ceil(1_000_000);
    let when = match at_ns.checked_sub(ready_ns) {
        Some(left_ns) => format!("{} ms before it", ms(left_ns)),
        None => format!("{} ms after it", ms(ready_ns - at_ns)),
    };
    format!(
        "--start-at: ports and lanes were ready {when}, and nothing was sent: want a start {} ms after that at least",
        ms(least_ns)
    )
}

/// Returns the warning about a start that was not kept; `None`: it was, to a ms.
pub(super) fn began_late(error_ns: u64) -> Option<Remark> {
    (error_ns > 1_000_000).then(|| {
        let text = format!(
            "--start-at: the last lane began {:.1} ms after the instant that was asked for",
            error_ns as f64 / 1e6
        );
        Remark::new(RemarkName::BeganLate, text).with("late_ns", error_ns)
    })
}
