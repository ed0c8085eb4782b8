//! What a lane does when there is nothing to do: spin for a little, then sleep the way the path offers.
//!
//! Spinning is best while the lane has its core to itself. Where it has not, spinning takes the core from the very
//! thread (of this program or another) that it waits for: two busy-polling threads on one core alternate in slices of
//! milliseconds. So the lane watches its involuntary context switches, and sleeps at once while there are any.

use mpps_io::{Queue, Result, Wait};
use mpps_stats::LaneCounters;
use std::time::Duration;

/// Idle for this long before sleeping; also the time before a departure that is waited for awake.
const SPIN_NS: u64 = 50_000;
/// How often an idle lane asks whether it was preempted.
const ASK_EVERY_NS: u64 = 2_000_000;
/// How long a preemption is held against spinning.
const HOLD_NS: u64 = 100_000_000;
/// Longest sleep: a lane looks up for the end of the run.
const MAX_SLEEP_NS: u64 = 20_000_000;

/// A lane's way to be idle.
#[derive(Debug)]
pub(crate) struct Idle {
    busy_poll: bool,
    always_share: bool,
    idle_since: u64,
    ask_at: u64,
    preempted: u64,
    shared_until: u64,
}

impl Idle {
    pub(crate) fn new(busy_poll: bool, share_cores: bool) -> Self {
        Self {
            busy_poll,
            always_share: share_cores && !busy_poll,
            idle_since: 0,
            ask_at: 0,
            preempted: 0,
            shared_until: 0,
        }
    }

    /// The lane has worked.
    #[inline]
    pub(crate) fn worked(&mut self) {
        self.idle_since = 0;
    }

    /// Nothing to do at `now_ns`, until `next_ns` at the latest.
    #[inline]
    pub(crate) fn rest<Q: Queue>(
        &mut self,
        queue: &mut Q,
        now_ns: u64,
        next_ns: u64,
        what: Wait,
        counters: &LaneCounters,
    ) -> Result<()> {
        if self.idle_since == 0 {
            self.idle_since = now_ns;
        }
        if self.busy_poll {
            std::hint::spin_loop();
            return Ok(());
        }
        if now_ns >= self.ask_at {
            self.ask(now_ns);
        }
        let shared = self.always_share || now_ns < self.shared_until;
        let until = next_ns.saturating_sub(now_ns).min(MAX_SLEEP_NS);
        if !shared && (now_ns - self.idle_since < SPIN_NS || until < SPIN_NS) {
            std::hint::spin_loop();
            return Ok(());
        }
        // Not shared: wake a little early and spin up to the departure.
        let sleep = if shared { until } else { until - SPIN_NS / 2 };
        if sleep == 0 {
            return Ok(());
        }
        counters.waits.add(1);
        queue.wait(what, Duration::from_nanos(sleep))
    }

    #[cold]
    fn ask(&mut self, now_ns: u64) {
        let preempted = mpps_sys::sched::preemptions();
        if preempted > self.preempted && self.preempted != 0 {
            self.shared_until = now_ns + HOLD_NS;
        }
        self.preempted = preempted.max(1);
        self.ask_at = now_ns + ASK_EVERY_NS;
    }
}
