//! Idle lanes: a lane with nothing to do spins for a little, then sleeps the way the path offers.
//!
//! Spinning is best while the lane has its core to itself. Otherwise spinning takes the core from the very thread (of
//! this program or another) that the lane waits for. The kernel does not report that others wait for the core. So a
//! lane that spins offers it every few µs (`sched_yield`, which returns at once if no thread waits). A late return,
//! with an involuntary context switch on it, means that another thread took the offer:
//!
//! - A visit of some µs is another lane's, or the collector's. From then on the lane offers its core in each idle loop,
//!   and after several such visits in close succession in busy ones, too: two lanes hand each other the core like that
//!   in less time than one that sleeps takes to wake.
//! - A visit of a slice's length is a thread's that wants the core for long. The lane then sleeps at once for a while:
//!   the scheduler lets a thread that wakes in before one that has worked all the time. After that it spins again, to
//!   see.

use crate::lane::away::Away;
use crate::lane::spin::{SPIN_NS, Spin};
use mpps_io::Result;
use mpps_stats::LaneCounters;
use mpps_sys::clock::Clock;
use mpps_sys::sched;
use std::time::Duration;

/// Time between two offers of the core by a lane that spins, ns: a thread that waits for the core waits no longer.
const OFFER_NS: u64 = 4_000;
/// Time between two offers by a busy lane beside a rival, ns. A switch takes one or two µs, and is to cost no more than
/// a few per cent at full load.
const BUSY_OFFER_NS: u64 = 50_000;
/// Time from an offer to the next look at the clock if no thread took the core, ns: less than this.
const RETURN_NS: u64 = 2_000;
/// Time after a visit in which the core is offered in each idle loop, ns.
const EAGER_NS: u64 = 1_000_000_000;
/// Time after a visit in which the lane spins no longer than a lane that knows nothing, ns. Another lane on the core
/// comes with each packet; the collector and the kernel's threads come less often.
const WANTED_NS: u64 = 2_000_000;
/// Limits for visits by a thread that works beside the lane: time between two visits, ns, and their number.
const CLOSE_NS: u64 = 500_000;
const CLOSE_VISITS: u32 = 3;
/// Time after the last close visit in which the core is offered in busy loops, too, ns.
const RIVAL_NS: u64 = 2_000_000;
/// A gap between two looks at the clock that is a time slice of another thread, not a short visit.
const SLICE_NS: u64 = 500_000;
/// Time for which the lane does not spin after it found a rival, ns: at first, and the longest if it finds the rival
/// again.
const HOLD_NS: u64 = 50_000_000;
const LONGEST_HOLD_NS: u64 = 400_000_000;
/// Time for which a lane that lost its core for a slice offers the core in busy loops, ns.
const PROBE_NS: u64 = 20_000_000;
/// Offers in that time that may cost a slice each. Two lanes that are both behind find each other so, and a thread that
/// is no lane gets no more slices than this.
const PROBES: u32 = 3;
/// Longest sleep, ns: a lane looks up for the end of the run.
const MAX_SLEEP_NS: u64 = 20_000_000;

/// Idle state of a lane.
#[derive(Debug)]
pub(crate) struct Idle<'r> {
    counters: &'r LaneCounters,
    clock: Clock,
    busy_poll: bool,
    always_share: bool,
    idle_since: u64,
    /// Whether only packets end the wait at hand.
    for_packets: bool,
    spin: Spin,
    /// Last look at the clock, ns; 0: the lane has slept since.
    looked_at: u64,
    /// Time in ns when the core was last offered.
    offered_at: u64,
    /// Involuntary context switches at the last visit.
    preempted: u64,
    /// Time in ns when the last visit to an offered core ended, and the number of visits in close succession.
    visited_at: u64,
    visits: u32,
    /// Time in ns up to which the core is offered in each idle loop.
    eager_until: u64,
    /// Time in ns up to which the core is offered in busy loops.
    rival_until: u64,
    /// Time in ns up to which the lane sleeps at once, without spinning.
    shared_until: u64,
    /// Length of the present ban on spinning, ns.
    hold_ns: u64,
    /// Offers left that may cost a slice, and the time in ns when the lane gets new ones.
    probes: u32,
    probe_at: u64,
    /// Start of the loop at hand, ns; 0: before the first.
    began: u64,
    /// The loop at hand has moved something.
    busy: bool,
    pub(crate) away: Away<'r>,
}

impl<'r> Idle<'r> {
    /// `real_time`: the lane's thread is in a real-time class.
    pub(crate) fn new(
        busy_poll: bool,
        share_cores: bool,
        real_time: bool,
        clock: Clock,
        counters: &'r LaneCounters,
    ) -> Self {
        Self {
            counters,
            clock,
            busy_poll,
            always_share: share_cores && !busy_poll,
            idle_since: 0,
            for_packets: false,
            spin: Spin::new(real_time),
            looked_at: 0,
            offered_at: 0,
            preempted: sched::preemptions(),
            visited_at: 0,
            visits: 0,
            eager_until: 0,
            rival_until: 0,
            shared_until: 0,
            hold_ns: HOLD_NS,
            probes: 0,
            probe_at: 0,
            began: 0,
            busy: false,
            away: Away::new(&counters.away),
        }
    }

    /// Notes the time that was read at the start of a loop.
    #[inline]
    pub(crate) fn look(&mut self, now_ns: u64) {
        self.away.look(now_ns);
        // Offers read another reader of the clock, which may be a moment ahead.
        let gap_ns = now_ns.saturating_sub(self.looked_at);
        if self.looked_at != 0 && gap_ns > SLICE_NS {
            self.was_away(now_ns, gap_ns);
        }
        self.looked_at = now_ns;
        if self.began != 0 {
            let took = now_ns - self.began;
            self.counters.loop_ns.add(took);
            if self.busy {
                self.counters.busy_ns.add(took);
            }
        }
        if self.busy && now_ns < self.rival_until && now_ns.saturating_sub(self.offered_at) > BUSY_OFFER_NS {
            self.offer(now_ns);
        }
        (self.began, self.busy) = (now_ns, false);
    }

    /// Notes that the lane has worked.
    #[inline]
    pub(crate) fn worked(&mut self) {
        if self.for_packets {
            self.for_packets = false;
            self.spin.waited(self.began.saturating_sub(self.idle_since));
        }
        self.idle_since = 0;
        self.busy = true;
    }

    /// Spins or sleeps, as there is nothing to do at `now_ns`, until `next_ns` at the latest. `sleep_for` sleeps for
    /// the given time, or until something comes. Returns the time in ns when a sleep was to end at the latest, if there
    /// was one.
    #[inline]
    pub(crate) fn rest(
        &mut self,
        now_ns: u64,
        next_ns: u64,
        counters: &LaneCounters,
        sleep_for: impl FnOnce(Duration) -> Result<()>,
    ) -> Result<Option<u64>> {
        if self.idle_since == 0 {
            self.idle_since = now_ns;
        }
        if self.busy {
            self.work_is_done(now_ns);
        }
        if self.busy_poll {
            self.spin(now_ns);
            return Ok(None);
        }
        let rival = now_ns < self.rival_until;
        let shared = self.always_share || (now_ns < self.shared_until && !rival);
        let until = next_ns.saturating_sub(now_ns).min(MAX_SLEEP_NS);
        self.for_packets = until == MAX_SLEEP_NS;
        let spin_ns = match self.for_packets {
            true if self.is_wanted(now_ns) => self.spin.ns().min(SPIN_NS),
            true => self.spin.ns(),
            false => SPIN_NS,
        };
        if !shared && (now_ns - self.idle_since < spin_ns || until < SPIN_NS) {
            self.spin(now_ns);
            return Ok(None);
        }
        // Not shared: wake a little early and spin up to the departure.
        let sleep = if shared { until } else { until - SPIN_NS / 2 };
        if sleep == 0 {
            return Ok(None);
        }
        counters.waits.add(1);
        self.looked_at = 0;
        self.away.sleeps_until(now_ns + sleep);
        sleep_for(Duration::from_nanos(sleep)).map(|()| Some(now_ns + sleep))
    }

    /// Returns whether another thread had the core within the last `WANTED_NS`: then the core is not free for longer
    /// spinning.
    #[inline]
    fn is_wanted(&self, now_ns: u64) -> bool {
        self.eager_until.saturating_sub(now_ns) > EAGER_NS - WANTED_NS
    }

    /// Ends the time that counts as busy: the loops that moved something may have shared one reading of the clock with
    /// this one, which moved nothing and may sleep.
    #[inline]
    fn work_is_done(&mut self, now_ns: u64) {
        if self.began != 0 {
            let took = now_ns.saturating_sub(self.began);
            self.counters.loop_ns.add(took);
            self.counters.busy_ns.add(took);
            self.began += took;
        }
        self.busy = false;
    }

    /// Stays awake, and now and then lets another thread that is ready have the core.
    #[inline]
    fn spin(&mut self, now_ns: u64) {
        if now_ns < self.eager_until || now_ns.saturating_sub(self.offered_at) > OFFER_NS {
            self.offer(now_ns);
        } else {
            std::hint::spin_loop();
        }
    }

    /// Lets another thread that is ready have the core.
    fn offer(&mut self, now_ns: u64) {
        sched::yield_core();
        let back = self.clock.now_ns();
        (self.offered_at, self.looked_at) = (back, back);
        if back.saturating_sub(now_ns) > RETURN_NS {
            self.was_offered(back, back - now_ns);
        }
    }

    /// Notes a visit, if the way back from an offer was long.
    #[cold]
    fn was_offered(&mut self, now_ns: u64, gap_ns: u64) {
        if !self.was_away(now_ns, gap_ns) {
            return;
        }
        if gap_ns > SLICE_NS {
            self.probes = self.probes.saturating_sub(1);
            if self.probes == 0 {
                self.rival_until = 0;
            }
            return;
        }
        let close = now_ns.saturating_sub(self.visited_at) < CLOSE_NS;
        self.visits = if close { self.visits + 1 } else { 0 };
        self.visited_at = now_ns;
        if self.visits >= CLOSE_VISITS {
            // The visitor gives the core back as soon: no need to sleep for its sake.
            self.shared_until = self.shared_until.min(now_ns);
            self.rival_until = self.rival_until.max(now_ns + RIVAL_NS);
        }
    }

    /// Notes that the lane did not run for a while. Returns true if another thread ran, false if the whole host did
    /// not.
    #[cold]
    fn was_away(&mut self, now_ns: u64, gap_ns: u64) -> bool {
        let preempted = sched::preemptions();
        let visited = preempted > self.preempted;
        self.preempted = preempted;
        if !visited {
            return false;
        }
        self.eager_until = now_ns + EAGER_NS;
        if gap_ns > SLICE_NS {
            // Found again soon after the last hold: it is there for long.
            let soon = now_ns < self.shared_until + 2 * self.hold_ns;
            self.hold_ns = if soon {
                (2 * self.hold_ns).min(LONGEST_HOLD_NS)
            } else {
                HOLD_NS
            };
            if now_ns >= self.probe_at {
                (self.probes, self.probe_at) = (PROBES, now_ns + self.hold_ns);
                self.rival_until = now_ns + PROBE_NS;
            }
            self.shared_until = now_ns + self.hold_ns;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_sys::clock::ClockSource;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Two lanes that poll busily on one core take turns `HANDOVERS` times: how often both found nothing to do.
    fn idle_loops() -> u64 {
        const HANDOVERS: u64 = 200;
        let core = sched::allowed_cores()[0];
        let (turn, idle_loops) = (AtomicU64::new(0), AtomicU64::new(0));
        let clocks = ClockSource::new();
        let lane = |place: u64, clock: Clock| {
            sched::pin(core).expect("an allowed core");
            let counters = LaneCounters::default();
            let mut idle = Idle::new(true, false, false, clock.clone(), &counters);
            while turn.load(Ordering::Acquire) < HANDOVERS {
                let now = clock.now_ns();
                idle.look(now);
                if turn.load(Ordering::Acquire) % 2 == place {
                    turn.fetch_add(1, Ordering::Release);
                    idle.worked();
                    continue;
                }
                idle_loops.fetch_add(1, Ordering::Relaxed);
                let slept = idle.rest(now, u64::MAX, &counters, |_| panic!("a lane that polls busily sleeps"));
                slept.expect("no error");
            }
        };
        std::thread::scope(|scope| {
            for place in 0..2 {
                let (lane, clock) = (&lane, clocks.clock());
                scope.spawn(move || lane(place, clock));
            }
        });
        idle_loops.into_inner() / HANDOVERS
    }

    /// Returns whether a lane sleeps when it has waited for so long; recent waits took 100 µs. `next_ns`: time from now
    /// to the event that it waits for beside packets; `visited`: another thread has just had its core.
    fn sleeps_after(waited_ns: u64, next_ns: u64, visited: bool) -> bool {
        let (counters, clocks) = (LaneCounters::default(), ClockSource::new());
        let clock = clocks.clock();
        let began = clock.now_ns();
        let mut idle = Idle::new(false, false, false, clock, &counters);
        (0..4).for_each(|_| idle.spin.waited(100_000));
        let mut slept = false;
        for now in [began, began + waited_ns] {
            if visited {
                idle.eager_until = now + EAGER_NS;
            }
            let result = idle.rest(now, now.saturating_add(next_ns), &counters, |_| {
                slept = true;
                Ok(())
            });
            result.expect("no error");
        }
        slept
    }

    #[test]
    fn a_lane_spins_through_waits_like_the_last_ones_while_its_core_is_free() {
        let (never, departure) = (u64::MAX, 1_000_000);
        // On a busy host another thread may really have taken the core.
        let spins_for = |ns, next_ns, visited| (0..100).any(|_| !sleeps_after(ns, next_ns, visited));
        assert!(spins_for(60_000, never, false));
        assert!(sleeps_after(201_000, never, false));
        // Another thread wants the core, or a departure is next: not longer than ever.
        assert!(sleeps_after(60_000, never, true));
        assert!(sleeps_after(60_000, departure, false));
        assert!(spins_for(40_000, never, true));
        assert!(spins_for(40_000, departure, false));
    }

    #[test]
    fn a_lane_that_sleeps_after_it_has_moved_something_was_busy_until_then() {
        let clock = ClockSource::new().clock();
        let counters = LaneCounters::default();
        let mut idle = Idle::new(false, true, false, clock.clone(), &counters);
        let start = clock.now_ns();
        // The time is not read between the loop that moves something and the one that sleeps.
        for turn in 0..20 {
            let at = start + turn * 1_000_000;
            idle.look(at);
            idle.worked();
            let slept = idle.rest(at + 10_000, at + 1_000_000, &counters, |_| Ok(()));
            assert_eq!(slept.expect("no error"), Some(at + 1_000_000));
        }
        idle.look(start + 20_000_000);
        assert_eq!((counters.busy_ns.get(), counters.loop_ns.get()), (200_000, 20_000_000));
    }

    #[test]
    fn two_lanes_on_one_core_hand_it_over_long_before_a_slice_is_over() {
        // Spinning through a slice is hundreds of thousands of loops; between two offers there are some hundred.
        let loops = idle_loops();
        assert!(loops < 10_000, "{loops} idle loops a handover");
    }
}
