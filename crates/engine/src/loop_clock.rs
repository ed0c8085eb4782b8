//! The time of a lane's loop.
//!
//! A reading of the clock costs as much as two packets do on the fastest paths, where a loop takes some 300 ns. While
//! every loop moves something and loops are that short, the time is read in every fourth only: what is booked by it is
//! off by less than [`SHORT_NS`] times four. Where packets are stamped or latency is measured, the clock is read anew, and
//! a loop that did so lends its reading to the next.

use mpps_sys::clock::Clock;

/// Loops to one reading of the clock.
const LOOPS: u32 = 4;
/// A loop that takes longer is worth a reading of its own, ns.
const SHORT_NS: u64 = 1_000;

/// From reading to reading, ns, as long as a loop may take for its own readings to do for the next.
const NOTED_NS: u64 = 5_000;

/// The time of the loop, read when it may have moved on.
#[derive(Debug, Default)]
pub(crate) struct LoopClock {
    now_ns: u64,
    /// Loops since the last reading, which all moved something; 0: the last one did not.
    loops: u32,
    /// Loops of late were short.
    short: bool,
    /// A reading that the last loop took for purposes of its own; 0: none.
    noted_ns: u64,
}

impl LoopClock {
    /// At the start of a loop: the time, and whether it was read just now.
    #[inline]
    pub(crate) fn now(&mut self, clock: &Clock) -> (u64, bool) {
        let noted = std::mem::take(&mut self.noted_ns);
        if self.loops > 0 && noted > self.now_ns && noted - self.now_ns < NOTED_NS {
            (self.now_ns, self.loops) = (noted, 0);
            return (noted, true);
        }
        if self.short && (1..LOOPS).contains(&self.loops) {
            return (self.now_ns, false);
        }
        let now = clock.now_ns();
        self.short = self.loops > 0 && now - self.now_ns < SHORT_NS * u64::from(self.loops);
        (self.now_ns, self.loops) = (now, 0);
        (now, true)
    }

    /// A loop has read the clock itself: the next, if it comes soon, takes that for its time.
    #[inline]
    pub(crate) fn note(&mut self, now_ns: u64) {
        self.noted_ns = now_ns;
    }

    /// At its end: whether it moved something. After one that did not, the time is read.
    #[inline]
    pub(crate) fn moved(&mut self, moved: bool) {
        self.loops = if moved { self.loops + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_sys::clock::ClockSource;

    #[test]
    fn the_time_is_read_after_a_loop_that_moved_nothing_and_in_every_fourth_at_least() {
        let clock = ClockSource::new().clock();
        let mut time = LoopClock::default();
        let (mut unread, mut spared) = (0, 0);
        for turn in 0..10_000 {
            let (_, fresh) = time.now(&clock);
            unread = if fresh { 0 } else { unread + 1 };
            spared += u32::from(!fresh);
            assert!(unread < LOOPS, "{unread} loops without a reading");
            // Every hundredth moves nothing: the next reads the time.
            let moved = turn % 100 != 0;
            time.moved(moved);
            if !moved {
                assert!(time.now(&clock).1, "not read after an idle loop");
                time.moved(true);
            }
        }
        // These loops take no time worth a reading.
        assert!(spared > 0, "every loop read the clock");
    }

    #[test]
    fn a_loop_takes_over_the_reading_of_the_one_before_if_that_moved_something_just_now() {
        let clock = ClockSource::new().clock();
        let mut time = LoopClock::default();
        let (start, _) = time.now(&clock);
        time.note(start + 700);
        time.moved(true);
        assert_eq!(time.now(&clock), (start + 700, true));
        // Long after, after an idle loop, and without one: the clock is read.
        for (noted, moved) in [(start + 700 + NOTED_NS, true), (start + 900, false), (0, false)] {
            time.note(noted);
            time.moved(moved);
            let (now, fresh) = time.now(&clock);
            assert!(fresh && now != noted && now >= start);
        }
    }

    #[test]
    fn a_reading_never_goes_back() {
        let clock = ClockSource::new().clock();
        let mut time = LoopClock::default();
        let mut last = 0;
        for _ in 0..10_000 {
            let (now, _) = time.now(&clock);
            assert!(now >= last);
            last = now;
            time.moved(true);
        }
    }
}
