//! Arrival times of the frames that a way holds. The oldest decides when they must go. Each frame is booked to the row
//! in which it came, however long it was held.

use std::collections::VecDeque;

/// Times of arrival of the frames that wait in a way's outgoing burst, in their order.
pub(super) struct Held {
    /// Time and number of frames; a call of the path that gave none has no entry, so there are no more than frames.
    arrivals: VecDeque<(u64, u32)>,
    /// Longest time that a frame is held, ns.
    drain_ns: u64,
}

impl Held {
    /// Makes room for bursts of `burst` frames; with `drain_ns` 0 nothing is held and nothing allocated.
    pub(super) fn new(burst: usize, drain_ns: u64) -> Self {
        let entries = if drain_ns == 0 { 0 } else { burst };
        Self {
            arrivals: VecDeque::with_capacity(entries),
            drain_ns,
        }
    }

    /// Returns whether frames are held at all.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.drain_ns != 0
    }

    /// Returns when the oldest must go, ns; `u64::MAX` when none is held.
    #[inline]
    pub(super) fn due_ns(&self) -> u64 {
        self.arrivals
            .front()
            .map_or(u64::MAX, |&(at, _)| at.saturating_add(self.drain_ns))
    }

    /// Notes that `frames` that came in at `now_ns` wait behind the others.
    pub(super) fn add(&mut self, now_ns: u64, frames: usize) {
        if frames > 0 {
            self.arrivals.push_back((now_ns, frames as u32));
        }
    }

    /// Removes the first `frames`, which have gone: calls `went` with a time of arrival and how many of them came then,
    /// in order.
    pub(super) fn take(&mut self, frames: u64, mut went: impl FnMut(u64, u64)) {
        let mut left = frames;
        while left > 0
            && let Some((at, waiting)) = self.arrivals.front_mut()
        {
            let now = left.min(u64::from(*waiting));
            went(*at, now);
            left -= now;
            *waiting -= now as u32;
            if *waiting == 0 {
                self.arrivals.pop_front();
            }
        }
    }

    /// Removes all frames.
    pub(super) fn clear(&mut self) {
        self.arrivals.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Held;

    #[test]
    fn frames_go_by_their_time_of_arrival_and_the_oldest_says_when() {
        let mut held = Held::new(32, 100);
        assert_eq!(held.due_ns(), u64::MAX);
        for (at, frames) in [(1000, 3), (1040, 0), (1050, 2)] {
            held.add(at, frames);
        }
        assert_eq!(held.due_ns(), 1100);
        let mut went = Vec::new();
        held.take(2, |at, n| went.push((at, n)));
        assert_eq!((held.due_ns(), &went[..]), (1100, &[(1000, 2)][..]));
        held.take(2, |at, n| went.push((at, n)));
        assert_eq!((held.due_ns(), &went[1..]), (1150, &[(1000, 1), (1050, 1)][..]));
        held.clear();
        assert_eq!(held.due_ns(), u64::MAX);
        held.take(1, |_, _| panic!("nothing is held"));
    }
}
