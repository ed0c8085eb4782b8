//! Departures of a lane in the spacing of a capture.

use crate::plan::{Replay, StreamLoad};
use mpps_io::Rate;
use mpps_replay::{Frames, Place, Schedule, Sent};
use std::cell::Cell;
use std::sync::Arc;

/// A lane's departures still to come, each worked out by itself: nothing adds up.
#[derive(Clone, Debug)]
pub(crate) struct Replayed {
    frames: Arc<Frames>,
    schedule: Schedule,
    lane: usize,
    start_ns: u64,
    /// Number of the next departure, and of departures in all.
    next: u64,
    count: u64,
    /// Time of the next departure, ns; `u64::MAX`: there is none. And place of the frame behind it.
    next_ns: u64,
    place: Place,
    ease: Ease,
    /// Departures at this time and later are none.
    end_ns: u64,
}

impl Replayed {
    /// Makes the departures of a lane; `None` if the frames have no spacing. The run begins at `start_ns` and ends at
    /// `end_ns`; departures that are late by `catch_up_ns` or more are not eased.
    pub(crate) fn new(
        replay: &Replay,
        load: &StreamLoad,
        lane: u32,
        (start_ns, end_ns): (u64, u64),
        catch_up_ns: u64,
    ) -> Option<Self> {
        let schedule = spacing(replay, load)?;
        let lane = lane as usize;
        let mut replayed = Self {
            schedule,
            lane,
            start_ns: start_ns.saturating_add(load.start_ns),
            next: 0,
            count: load
                .packets
                .map_or(u64::MAX, |packets| replay.frames.of_lane(lane, packets)),
            next_ns: 0,
            place: Place::default(),
            ease: Ease::new(catch_up_ns),
            end_ns,
            frames: Arc::clone(&replay.frames),
        };
        replayed.go_to(0);
        Some(replayed)
    }

    /// Makes departure `n` the next.
    fn go_to(&mut self, n: u64) {
        (self.next, self.place) = (n, self.frames.place(self.lane, n));
        let sent = self.frames.step(self.lane, &mut self.place);
        self.next_ns = self.at_frame(n, sent);
        self.ease.reset();
    }

    /// Returns the time of departure `n`, ns; `u64::MAX`: there is none.
    fn at(&self, n: u64) -> u64 {
        self.at_frame(n, self.frames.sent(self.lane, n))
    }

    /// Returns the time of departure `n`, that of this frame.
    #[inline]
    fn at_frame(&self, n: u64, sent: Sent) -> u64 {
        if n >= self.count {
            return u64::MAX;
        }
        let (lap, offset_ns) = self.frames.due(sent);
        let at = self.start_ns.saturating_add(self.schedule.due_ns(lap, offset_ns));
        if at < self.end_ns { at } else { u64::MAX }
    }

    /// Returns the number of departures due by `now_ns`, `most` at the most.
    #[inline]
    pub(crate) fn due(&self, now_ns: u64, most: usize) -> usize {
        if self.next_ns.max(self.ease.not_before_ns()) > now_ns {
            return 0;
        }
        self.ease.look(self.next_ns, now_ns);
        let mut place = self.place;
        let is_due = |n: &u64| {
            let at = self.at_frame(self.next + n, self.frames.step(self.lane, &mut place));
            at <= now_ns && self.ease.is_together(self.next_ns, at)
        };
        (1 + (1..most as u64).take_while(is_due).count()).min(most)
    }

    /// Takes the next departure, and returns its time, ns.
    #[inline]
    pub(crate) fn pop(&mut self) -> u64 {
        let at = self.next_ns;
        self.next += 1;
        let sent = self.frames.step(self.lane, &mut self.place);
        self.next_ns = self.at_frame(self.next, sent);
        self.ease.left(at, self.next_ns, self.end_ns);
        at
    }

    /// Returns the time of the next departure, ns.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<u64> {
        (self.next_ns != u64::MAX).then_some(self.next_ns.max(self.ease.not_before_ns()))
    }

    /// Gives up departures before `before_ns`, and returns their number.
    #[cold]
    pub(crate) fn skip_before(&mut self, before_ns: u64) -> u64 {
        let first = self.next;
        // No departure is before the one before it.
        let (mut step, mut low) = (1u64, first);
        while self.at(low.saturating_add(step)) < before_ns {
            low += step;
            step = step.saturating_mul(2);
        }
        if self.next_ns < before_ns {
            let mut high = low.saturating_add(step);
            while low + 1 < high {
                let middle = low + (high - low) / 2;
                match self.at(middle) < before_ns {
                    true => low = middle,
                    false => high = middle,
                }
            }
            self.go_to(low + 1);
        }
        self.next - first
    }
}

/// Lateness up to which departures are eased, ns, if what may be caught up is not less: beyond it, those that are late
/// leave together.
const EASED_NS: u64 = 1_000_000;
/// A departure that is late makes up for this part of its lateness, or for [`LEAST_NS`] if that is more.
const EASED_PART: u64 = 64;
/// Lateness that a departure makes up for at once, ns.
const LEAST_NS: u64 = 500;
/// Time within which departures are due together, ns: at the highest rates, sending one takes longer than its gap.
const TOGETHER_NS: u64 = 1_000;

/// Spacing of departures that are late, as the lane did not run for some µs. They do not leave all at once, which
/// would change one gap after the other by its whole length. Each makes up for a small part of its lateness, until none
/// is late. Each makes up as well for the time by which the one before missed its own, if that is not more than a
/// quarter of its gap: a lane that is always late by some µs does not fall behind. No gap gets shorter by more than a
/// quarter. Departures within a microsecond stay together.
#[derive(Clone, Debug)]
pub(crate) struct Ease {
    /// Lateness up to which departures are eased, ns.
    eased_ns: u64,
    /// Time at which departures left last, and by how much they missed the time that they were put off to, ns.
    looked_ns: Cell<u64>,
    missed_ns: Cell<u64>,
    not_before_ns: u64,
}

impl Ease {
    /// `catch_up_ns`: how much departures may be late at all.
    pub(crate) fn new(catch_up_ns: u64) -> Self {
        Self {
            eased_ns: catch_up_ns.min(EASED_NS),
            looked_ns: Cell::new(0),
            missed_ns: Cell::new(0),
            not_before_ns: 0,
        }
    }

    /// Forgets that departures were late.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.eased_ns);
    }

    /// Notes the time at which departures leave, the first of which is due at `first_ns`.
    #[inline]
    pub(crate) fn look(&self, first_ns: u64, now_ns: u64) {
        self.looked_ns.set(now_ns);
        self.missed_ns
            .set(now_ns.saturating_sub(first_ns.max(self.not_before_ns)));
    }

    /// Returns whether a departure leaves together with the first of those that are due.
    #[inline]
    pub(crate) fn is_together(&self, first_ns: u64, at_ns: u64) -> bool {
        at_ns.saturating_sub(first_ns) < TOGETHER_NS || self.looked_ns.get().saturating_sub(first_ns) >= self.eased_ns
    }

    /// Notes that the departure of `at_ns` has left. The next is due at `next_ns`, and the run ends at `end_ns`.
    #[inline]
    pub(crate) fn left(&mut self, at_ns: u64, next_ns: u64, end_ns: u64) {
        let (looked_ns, gap_ns) = (self.looked_ns.get(), next_ns.saturating_sub(at_ns));
        let late_ns = looked_ns.saturating_sub(at_ns);
        // What is more was a stall: it happened once.
        let missed_ns = Some(self.missed_ns.get()).filter(|missed_ns| *missed_ns <= gap_ns / 4);
        let made_up_ns = (late_ns / EASED_PART).max(LEAST_NS) + missed_ns.unwrap_or(0);
        self.not_before_ns = match late_ns < self.eased_ns {
            true => looked_ns
                .saturating_add(gap_ns - made_up_ns.min(gap_ns / 4))
                .min(end_ns.saturating_sub(1)),
            false => 0,
        };
    }

    /// Returns the time before which the next departure does not leave, ns.
    #[inline]
    pub(crate) fn not_before_ns(&self) -> u64 {
        self.not_before_ns
    }
}

/// Returns the spacing of a capture at the rate of its stream; `None`: its frames have no spacing.
pub(crate) fn spacing(replay: &Replay, load: &StreamLoad) -> Option<Schedule> {
    let schedule = replay.schedule?;
    Some(match load.rate.as_ref().map(Rate::parts) {
        Some((num, den)) => schedule.at_rate(num, den),
        None => schedule,
    })
}

#[cfg(test)]
#[path = "replayed_tests.rs"]
mod tests;
