//! The time of a lane's loop.
//!
//! A reading of the clock costs as much as two packets do on the fastest paths, where a loop takes some 300 ns. While
//! every loop moves something and loops are that short, the time is read in every fourth loop only. Times booked by it
//! are off by less than [`STILL_SHORT_NS`] times four. If packets are stamped or latency is measured, the clock is read
//! again.

use mpps_sys::clock::Clock;

/// Loops per reading of the clock.
const LOOPS: u32 = 4;
/// Longest loop without a reading of its own, ns: while each loop has one, and while not. The second is larger, so that
/// loops near the limit, which a reading makes longer, do not go to and fro.
const SHORT_NS: u64 = 1_000;
const STILL_SHORT_NS: u64 = 1_300;

/// The time of the loop, read when it may have moved on.
#[derive(Debug)]
pub(crate) struct LoopClock {
    now_ns: u64,
    /// Loops since the last reading, which all moved something; 0: the last one did not.
    loops: u32,
    /// Recent loops were short.
    short: bool,
    /// Loops to the next reading, while loops are short.
    to_next: u32,
}

impl Default for LoopClock {
    fn default() -> Self {
        Self {
            now_ns: 0,
            loops: 0,
            short: false,
            to_next: LOOPS,
        }
    }
}

impl LoopClock {
    /// Returns the time at the start of a loop, and whether it was read just now.
    #[inline]
    pub(crate) fn now(&mut self, clock: &Clock) -> (u64, bool) {
        if self.short && (1..self.to_next).contains(&self.loops) {
            return (self.now_ns, false);
        }
        let now = clock.now_ns();
        // A loop that was followed closely was longer by that, and says nothing of the others.
        if self.to_next == LOOPS || self.loops == 0 {
            let limit_ns = if self.short { STILL_SHORT_NS } else { SHORT_NS };
            self.short = self.loops > 0 && now - self.now_ns < limit_ns * u64::from(self.loops);
        }
        (self.now_ns, self.loops, self.to_next) = (now, 0, LOOPS);
        (now, true)
    }

    /// Returns whether the time is now not read at the start of each loop.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }

    /// Makes the next loop read the time, too.
    #[inline]
    pub(crate) fn read_next(&mut self) {
        self.to_next = 1;
    }

    /// Notes at the end of a loop whether it moved something. After a loop that did not, the time is read.
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

    /// Loops of a length near the limit, of which some are followed closely, each for as long again.
    #[test]
    fn loops_that_are_followed_closely_do_not_end_the_short_ones() {
        let clock = ClockSource::new().clock();
        let mut time = LoopClock::default();
        let (mut readings, mut loops, mut settled) = (0_u32, 0_u32, false);
        for turn in 0..40_000_u32 {
            let (_, fresh) = time.now(&clock);
            settled |= time.is_short();
            if settled {
                (readings, loops) = (readings + u32::from(fresh), loops + 1);
            }
            let close = fresh && turn % 16 == 0;
            if close {
                time.read_next();
            }
            let until = clock.now_ns() + if close { 3 * SHORT_NS } else { SHORT_NS / 2 };
            while clock.now_ns() < until {}
            time.moved(true);
        }
        // One in four and those that were asked for; somebody else may have had the core now and then.
        assert!(settled && readings < loops / 2, "{readings} readings in {loops} loops");
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
