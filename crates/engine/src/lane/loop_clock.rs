//! The time of a lane's loop.
//!
//! A reading of the clock costs as much as two packets do on the fastest paths, where a loop takes some 300 ns. While
//! every loop moves something and loops are that short, the time is read in every fourth only: what is booked by it is
//! off by less than [`SHORT_NS`] times four. Where packets are stamped or latency is measured, the clock is read anew.

use mpps_sys::clock::Clock;

/// Loops to one reading of the clock.
const LOOPS: u32 = 4;
/// A loop that takes longer is worth a reading of its own, ns.
const SHORT_NS: u64 = 1_000;

/// The time of the loop, read when it may have moved on.
#[derive(Debug)]
pub(crate) struct LoopClock {
    now_ns: u64,
    /// Loops since the last reading, which all moved something; 0: the last one did not.
    loops: u32,
    /// Loops of late were short.
    short: bool,
    /// Loops to the next reading, where they are.
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
    /// At the start of a loop: the time, and whether it was read just now.
    #[inline]
    pub(crate) fn now(&mut self, clock: &Clock) -> (u64, bool) {
        if self.short && (1..self.to_next).contains(&self.loops) {
            return (self.now_ns, false);
        }
        let now = clock.now_ns();
        self.short = self.loops > 0 && now - self.now_ns < SHORT_NS * u64::from(self.loops);
        (self.now_ns, self.loops, self.to_next) = (now, 0, LOOPS);
        (now, true)
    }

    /// Whether the time is not read at the start of each loop now.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }

    /// After a reading: the next loop has one, too.
    #[inline]
    pub(crate) fn read_next(&mut self) {
        self.to_next = 1;
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
