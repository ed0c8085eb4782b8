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
#[derive(Debug, Default)]
pub(crate) struct LoopClock {
    now_ns: u64,
    /// Loops since the last reading, which all moved something; 0: the last one did not.
    loops: u32,
    /// Loops of late were short.
    short: bool,
}

impl LoopClock {
    /// At the start of a loop: the time, and whether it was read just now.
    #[inline]
    pub(crate) fn now(&mut self, clock: &Clock) -> (u64, bool) {
        if self.short && (1..LOOPS).contains(&self.loops) {
            return (self.now_ns, false);
        }
        let now = clock.now_ns();
        self.short = self.loops > 0 && now - self.now_ns < SHORT_NS * u64::from(self.loops);
        (self.now_ns, self.loops) = (now, 0);
        (now, true)
    }

    /// At its end: whether it moved something. After one that did not, the time is read.
    #[inline]
    pub(crate) fn moved(&mut self, moved: bool) {
        self.loops = if moved { self.loops + 1 } else { 0 };
    }
}
