//! What a lane does when there is nothing to do: spin for a little, then sleep the way the path offers.
//!
//! Spinning is best while the lane has its core to itself. Where it has not, spinning takes the core from the very
//! thread (of this program or another) that it waits for: two busy-polling threads on one core alternate in slices of
//! milliseconds. So a lane watches for gaps in its own time. A gap of a slice's length with an involuntary
//! context switch means that another thread wants the core for long, and the lane sleeps at once for a while. A short
//! visit (the collector, an interrupt) does not: sleeping for that would cost more than it gives.

use crate::away::Away;
use mpps_io::{Queue, Result, Wait};
use mpps_stats::LaneCounters;
use std::time::Duration;

/// Idle for this long before sleeping; also the time before a departure that is waited for awake.
const SPIN_NS: u64 = 50_000;
/// A gap between two looks at the clock that is a time slice of another thread, not a short visit.
const SLICE_NS: u64 = 1_000_000;
/// How long a preemption is held against spinning.
const HOLD_NS: u64 = 1_000_000_000;
/// Longest sleep: a lane looks up for the end of the run.
const MAX_SLEEP_NS: u64 = 20_000_000;

/// A lane's way to be idle.
#[derive(Debug)]
pub(crate) struct Idle<'r> {
    counters: &'r LaneCounters,
    busy_poll: bool,
    always_share: bool,
    idle_since: u64,
    /// Last look at the clock; 0: asleep since.
    looked_at: u64,
    preempted: u64,
    shared_until: u64,
    /// Start of the loop at hand; 0: before the first.
    began: u64,
    /// The loop at hand has moved something.
    busy: bool,
    pub(crate) away: Away<'r>,
}

impl<'r> Idle<'r> {
    pub(crate) fn new(busy_poll: bool, share_cores: bool, counters: &'r LaneCounters) -> Self {
        Self {
            counters,
            busy_poll,
            always_share: share_cores && !busy_poll,
            idle_since: 0,
            looked_at: 0,
            preempted: mpps_sys::sched::preemptions(),
            shared_until: 0,
            began: 0,
            busy: false,
            away: Away::new(&counters.away),
        }
    }

    /// Once a loop, with the time read at its start.
    #[inline]
    pub(crate) fn look(&mut self, now_ns: u64) {
        self.away.look(now_ns);
        if self.looked_at != 0 && now_ns - self.looked_at > SLICE_NS {
            self.was_away(now_ns);
        }
        self.looked_at = now_ns;
        if self.began != 0 {
            let took = now_ns - self.began;
            self.counters.loop_ns.add(took);
            if self.busy {
                self.counters.busy_ns.add(took);
            }
        }
        (self.began, self.busy) = (now_ns, false);
    }

    /// The lane has worked.
    #[inline]
    pub(crate) fn worked(&mut self) {
        self.idle_since = 0;
        self.busy = true;
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
        self.rest_with(now_ns, next_ns, counters, |timeout| queue.wait(what, timeout))
    }

    /// As [`Idle::rest`], asleep in `sleep`: for lanes of several queues.
    #[inline]
    pub(crate) fn rest_with(
        &mut self,
        now_ns: u64,
        next_ns: u64,
        counters: &LaneCounters,
        sleep_for: impl FnOnce(Duration) -> Result<()>,
    ) -> Result<()> {
        if self.idle_since == 0 {
            self.idle_since = now_ns;
        }
        if self.busy_poll {
            std::hint::spin_loop();
            return Ok(());
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
        self.looked_at = 0;
        self.away.sleeps_until(now_ns + sleep);
        sleep_for(Duration::from_nanos(sleep))
    }

    /// The lane did not run for a slice: because another thread did, or because the whole host did not?
    #[cold]
    fn was_away(&mut self, now_ns: u64) {
        let preempted = mpps_sys::sched::preemptions();
        if preempted > self.preempted {
            self.shared_until = now_ns + HOLD_NS;
        }
        self.preempted = preempted;
    }
}
