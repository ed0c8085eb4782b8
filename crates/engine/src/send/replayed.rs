//! Departures of a lane in the spacing of a capture.

use crate::plan::{Replay, StreamLoad};
use mpps_replay::{Frames, Schedule};
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
    /// Time of the next departure, ns; `u64::MAX`: there is none.
    next_ns: u64,
    /// Departures at this time and later are none.
    end_ns: u64,
}

impl Replayed {
    /// Makes the departures of a lane; `None` if the frames have no spacing. The run begins at `start_ns` and ends at
    /// `end_ns`.
    pub(crate) fn new(replay: &Replay, load: &StreamLoad, lane: u32, (start_ns, end_ns): (u64, u64)) -> Option<Self> {
        let schedule = replay.schedule?;
        let schedule = match load.rate {
            Some(rate) => {
                let (num, den) = rate.parts();
                schedule.at_rate(num, den)
            }
            None => schedule,
        };
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
            end_ns,
            frames: Arc::clone(&replay.frames),
        };
        replayed.next_ns = replayed.at(0);
        Some(replayed)
    }

    /// Returns the time of departure `n`, ns; `u64::MAX`: there is none.
    #[inline]
    fn at(&self, n: u64) -> u64 {
        if n >= self.count {
            return u64::MAX;
        }
        let (lap, offset_ns) = self.frames.due(self.frames.sent(self.lane, n));
        let at = self.start_ns.saturating_add(self.schedule.due_ns(lap, offset_ns));
        if at < self.end_ns { at } else { u64::MAX }
    }

    /// Returns the number of departures due by `now_ns`, `most` at the most.
    #[inline]
    pub(crate) fn due(&self, now_ns: u64, most: usize) -> usize {
        if self.next_ns > now_ns {
            return 0;
        }
        let more = (1..most as u64).take_while(|n| self.at(self.next + n) <= now_ns);
        (1 + more.count()).min(most)
    }

    /// Takes the next departure, and returns its time, ns.
    #[inline]
    pub(crate) fn pop(&mut self) -> u64 {
        let at = self.next_ns;
        self.next += 1;
        self.next_ns = self.at(self.next);
        at
    }

    /// Returns the time of the next departure, ns.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<u64> {
        (self.next_ns != u64::MAX).then_some(self.next_ns)
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
            self.next = low + 1;
            self.next_ns = self.at(self.next);
        }
        self.next - first
    }
}

#[cfg(test)]
#[path = "replayed_tests.rs"]
mod tests;
