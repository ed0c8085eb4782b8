//! The time base: the host's `CLOCK_MONOTONIC` in nanoseconds, read through a calibrated counter of the processor where
//! that is sound: the TSC, on arm64 `cntvct_el0`. In a time namespace that is the namespace's clock less its offset
//! ([`namespace`]). Below, `tsc` is either counter.
//!
//! Two programs on one host compare times, so a private calibration must not drift away from the kernel's clock, which
//! NTP keeps slewing. [`ClockSource::discipline`] is therefore called as often as it asks for by one thread (the
//! collector): it takes a new (counter, `CLOCK_MONOTONIC`) pair and publishes a line that leads from where the old one
//! has come to the kernel's clock, without a jump. Each lane holds a [`Clock`] with a private copy of the line and
//! takes up a new one when the version has changed: a read is that of the counter, one load of a rarely written cache
//! line, a multiplication and a shift.
//!
//! How far may it be off? While the kernel's clock keeps its rate, by the error of a pair, some 50 ns. When the rate
//! changes by Δ, by Δ × the time to the next pair, which comes after 150 ms at the most: 75 µs for the 500 ppm that NTP
//! may slew by. From then on pairs come every 20 ms until the error is gone (test
//! `the_line_follows_a_clock_that_is_slewed`).

mod counter;
mod line;
pub mod namespace;
mod wall;

pub use counter::tick_ns;
pub use wall::WallClock;

use counter::ticks;
use line::{Line, Published, SHIFT};
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// The host's `CLOCK_MONOTONIC` in ns, by a system (vDSO) call; about 20 ns.
#[inline]
pub fn monotonic_ns() -> u64 {
    raw_ns(ClockId::Monotonic).wrapping_add_signed(-namespace::monotonic_ns())
}

/// The same in a signal handler, which may read no file: right once any thread has read the clock.
pub(crate) fn monotonic_in_handler_ns() -> u64 {
    raw_ns(ClockId::Monotonic).wrapping_add_signed(-namespace::known_monotonic_ns())
}

/// A clock as this process's time namespace has it, ns.
#[inline]
fn raw_ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Time of day now (`CLOCK_REALTIME`), ns since 1970.
pub fn realtime_ns() -> u64 {
    let t = clock_gettime(ClockId::Realtime);
    (t.tv_sec * 1_000_000_000 + t.tv_nsec).max(0).cast_unsigned()
}

/// Returns how far the time of day is ahead of [`monotonic_ns`], and how far apart the two were read, ns: the tightest
/// of a few pairs, as a thread that loses its core between two readings has a wrong one.
pub fn utc_offset_ns() -> (i64, u64) {
    let once = |_| {
        let before = monotonic_ns();
        let real = realtime_ns();
        let width = monotonic_ns() - before;
        (width, real as i64 - (before + width / 2) as i64)
    };
    let (width, offset) = (0..8).map(once).min().unwrap_or_default();
    (offset, width)
}

/// The time of day (`CLOCK_REALTIME`, ns since 1970) at a reading of [`monotonic_ns`], by the offset that lies between
/// the two now.
pub fn utc_ns(monotonic_ns: u64) -> u64 {
    monotonic_ns.saturating_add_signed(utc_offset_ns().0)
}

/// Instant by one of two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockTime {
    /// Reading of [`monotonic_ns`].
    Monotonic(u64),
    /// Time of day, ns since 1970 (UTC).
    Utc(u64),
}

impl ClockTime {
    /// Returns the instant as a reading of [`monotonic_ns`], by the offset that lies between the two clocks now, and
    /// how far apart these were read, ns. A later step of the time of day does not move it.
    pub fn monotonic(self) -> (u64, u64) {
        match self {
            Self::Monotonic(ns) => (ns, 0),
            Self::Utc(ns) => {
                let (offset, width) = utc_offset_ns();
                (ns.saturating_add_signed(offset.saturating_neg()), width)
            }
        }
    }
}

/// Returns how long the host was suspended since it started, ns: `CLOCK_BOOTTIME` is ahead by as much.
pub fn suspended_ns() -> u64 {
    let before = monotonic_ns();
    let offset = namespace::offsets().map_or(0, |offsets| offsets.boottime_ns);
    let ahead = raw_ns(ClockId::Boottime)
        .wrapping_add_signed(-offset)
        .saturating_sub(before);
    // Two readings take some time; a suspension takes longer.
    if ahead < 10_000_000 { 0 } else { ahead }
}

/// A pair of readings taken together.
#[derive(Clone, Copy, Debug)]
struct Pair {
    tsc: u64,
    ns: u64,
}

impl Pair {
    /// The tightest of a few readings, so that an interrupt between the two clocks does not count.
    fn take() -> Self {
        let mut best = (u64::MAX, Self { tsc: 0, ns: 0 });
        for _ in 0..8 {
            let before = ticks();
            let ns = monotonic_ns();
            let after = ticks();
            let width = after.wrapping_sub(before);
            if width < best.0 {
                best = (
                    width,
                    Self {
                        tsc: before + width / 2,
                        ns,
                    },
                );
            }
        }
        best.1
    }
}

/// Pairs are this far apart while the clocks agree, ns.
const STEADY_NS: u64 = 100_000_000;
/// And while they don't.
const CLOSE_NS: u64 = 20_000_000;
/// Shortest distance of two pairs from which a rate is computed: the pairs' own error is some 50 ns.
const LEAST_BASE_NS: u64 = 10_000_000;
/// The rate is measured over this long while it stays the same.
const BASE_NS: u64 = 1_000_000_000;
/// The line agrees with the kernel's clock: the error of a pair, and of the rate over [`STEADY_NS`], is within this.
const AGREE_NS: u64 = 300;
/// The line makes good for an error over this long: longer than the time between pairs, since the thread that takes
/// them may be kept from running, and the line must not lead far past its aim.
const MEND_NS: u64 = 200_000_000;
/// A larger error is none of slewing's (a suspended machine, another host): the line jumps.
const JUMP_NS: u64 = 1_000_000;

/// Follows the kernel's clock: from pairs to lines. Pure.
#[derive(Clone, Copy, Debug)]
struct Follower {
    /// The rate is measured from here.
    base: Pair,
    last: Pair,
    line: Line,
}

impl Follower {
    fn new(first: Pair, second: Pair) -> Self {
        Self {
            base: first,
            last: second,
            line: Line {
                tsc0: second.tsc,
                ns0: second.ns,
                scale: scale_between(first, second),
            },
        }
    }

    /// Records a new pair and returns the time until the next one is wanted.
    fn follow(&mut self, now: Pair) -> Duration {
        if now.ns.saturating_sub(self.last.ns) < LEAST_BASE_NS {
            return Duration::from_nanos(LEAST_BASE_NS);
        }
        let reached = self.line.at(now.tsc);
        let error = now.ns.wrapping_sub(reached) as i64;
        let agrees = error.unsigned_abs() <= AGREE_NS;
        let rate = if error.unsigned_abs() > JUMP_NS {
            // Nothing can be measured across a jump: the rate stays.
            self.base = now;
            self.line = Line {
                tsc0: now.tsc,
                ns0: now.ns,
                ..self.line
            };
            self.line.scale
        } else {
            if !agrees {
                // The rate has changed: earlier pairs say nothing about it.
                self.base = self.last;
            }
            let rate = scale_between(self.base, now);
            let mend = i128::from(rate) * i128::from(error) / i128::from(MEND_NS);
            self.line = Line {
                tsc0: now.tsc,
                ns0: reached,
                scale: (i128::from(rate) + mend) as u64,
            };
            rate
        };
        self.last = now;
        if now.ns - self.base.ns > 2 * BASE_NS {
            let ticks = (u128::from(BASE_NS) << SHIFT) / u128::from(rate.max(1));
            self.base = Pair {
                tsc: now.tsc - ticks as u64,
                ns: now.ns - BASE_NS,
            };
        }
        let settled = agrees && now.ns - self.base.ns >= STEADY_NS;
        Duration::from_nanos(if settled { STEADY_NS } else { CLOSE_NS })
    }
}

/// Difference that the clocks of two threads may have, ns; generously.
pub const SPREAD_NS: u64 = 1_000_000;

/// Makes [`Clock`]s and keeps them true. One a process; the disciplining thread owns it.
#[derive(Debug)]
pub struct ClockSource {
    published: Option<Arc<Published>>,
    follower: Option<Follower>,
}

impl ClockSource {
    /// Calibrates for about 20 ms if the counter is the kernel's own clock source; else every read is a system call.
    pub fn new() -> Self {
        if !counter::is_sound() {
            return Self {
                published: None,
                follower: None,
            };
        }
        let first = Pair::take();
        std::thread::sleep(Duration::from_millis(20));
        let follower = Follower::new(first, Pair::take());
        let published = Published::new(follower.line);
        Self {
            published: Some(Arc::new(published)),
            follower: Some(follower),
        }
    }

    /// `"tsc"`, `"cntvct"` or `"clock_gettime"`.
    pub fn name(&self) -> &'static str {
        if self.published.is_some() {
            counter::NAME
        } else {
            "clock_gettime"
        }
    }

    /// A reader for one lane.
    pub fn clock(&self) -> Clock {
        let clock = Clock {
            published: self.published.clone(),
            version: Cell::new(0),
            line: Cell::new(Line::default()),
            last: Cell::new(0),
        };
        if clock.published.is_some() {
            clock.reload();
        }
        clock
    }

    /// Takes a new pair and publishes the line that follows from it. Returns the time until the next call. Only one
    /// thread may call it.
    pub fn discipline(&mut self) -> Duration {
        let (Some(p), Some(follower)) = (&self.published, &mut self.follower) else {
            return Duration::from_nanos(STEADY_NS);
        };
        let next = follower.follow(Pair::take());
        p.publish(follower.line);
        next
    }
}

impl Default for ClockSource {
    fn default() -> Self {
        Self::new()
    }
}

fn scale_between(a: Pair, b: Pair) -> u64 {
    let ticks = u128::from(b.tsc.wrapping_sub(a.tsc).max(1));
    ((u128::from(b.ns.saturating_sub(a.ns)) << SHIFT) / ticks) as u64
}

/// Reads the time; one per lane (not `Sync`). Never goes backwards.
#[derive(Clone, Debug)]
pub struct Clock {
    published: Option<Arc<Published>>,
    version: Cell<u64>,
    line: Cell<Line>,
    last: Cell<u64>,
}

impl Clock {
    /// The host's `CLOCK_MONOTONIC` now, ns; within some 100 ns of the system call's answer.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        let Some(p) = &self.published else {
            return monotonic_ns();
        };
        if p.version() != self.version.get() {
            self.reload();
        }
        let ns = self.line.get().at(ticks()).max(self.last.get());
        self.last.set(ns);
        ns
    }

    #[cold]
    fn reload(&self) {
        let Some(p) = &self.published else { return };
        loop {
            if let Some((version, line)) = p.read() {
                self.line.set(line);
                self.version.set(version);
                return;
            }
            // The writer is in the middle. Keep the old line if there is one rather than wait.
            if self.version.get() != 0 {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_agrees_with_the_system_call_and_never_goes_back() {
        let mut source = ClockSource::new();
        let clock = source.clock();
        let mut last = 0;
        for round in 0..200 {
            let before = monotonic_ns();
            let now = clock.now_ns();
            let after = monotonic_ns();
            assert!(now >= last, "went back from {last} to {now}");
            // A microsecond on either side: calibration error, never a time limit.
            assert!(
                now + 20_000 >= before && now <= after + 20_000,
                "{before} {now} {after} in round {round}"
            );
            last = now;
            source.discipline();
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }

    /// A kernel clock over a TSC of 2.5 GHz whose rate is changed each second, by what NTP may do.
    struct Slewed {
        tsc: u64,
        ns: f64,
    }

    impl Slewed {
        fn pass(&mut self, ns: f64, ppm: f64) {
            self.tsc += (ns * 2.5) as u64;
            self.ns += ns * (1.0 + ppm / 1e6);
        }

        /// A pair as it is taken: off by up to `noise` ns.
        fn pair(&self, noise: f64) -> Pair {
            Pair {
                tsc: self.tsc,
                ns: (self.ns + noise) as u64,
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn the_line_follows_a_clock_that_is_slewed(
            seconds in proptest::collection::vec((-500.0..500.0f64, 0u64..8), 1..12),
            noises in proptest::collection::vec(-30.0..30.0f64, 16),
        ) {
            let mut clock = Slewed { tsc: 1 << 40, ns: 1e15 };
            let first = clock.pair(0.0);
            clock.pass(2e7, 0.0);
            let mut follower = Follower::new(first, clock.pair(0.0));
            let (mut was_ppm, mut turn, mut wait) = (0.0, 0, CLOSE_NS);
            for (ppm, late_ms) in seconds {
                let change: f64 = f64::abs(ppm - was_ppm);
                was_ppm = ppm;
                let began = clock.ns;
                while clock.ns < began + 1e9 {
                    let from = follower.line.at(clock.tsc);
                    // The thread that takes the pairs is woken late.
                    let pass = wait as f64 + late_ms as f64 * 1e6;
                    clock.pass(pass, ppm);
                    let (line, kernel) = (follower.line.at(clock.tsc), clock.ns as u64);
                    let off = line.abs_diff(kernel) as f64;
                    // Never off by more than the change of rate comes to until it is seen, and what was left of the
                    // last one.
                    let bound = (1000.0 / 1e6) * (STEADY_NS as f64 + late_ms as f64 * 1e6) * 1.5 + 1000.0;
                    proptest::prop_assert!(off <= bound, "{off} ns off, a change of {change} ppm");
                    let rate = (line - from) as f64 / pass;
                    proptest::prop_assert!((rate - 1.0).abs() < 0.003, "a rate of {rate}");
                    let before = follower.line.at(clock.tsc);
                    wait = follower.follow(clock.pair(noises[turn % noises.len()])).as_nanos() as u64;
                    proptest::prop_assert!(follower.line.at(clock.tsc).abs_diff(before) <= 1, "a jump");
                    turn += 1;
                }
                // A second at one rate is enough to agree.
                let off = follower.line.at(clock.tsc).abs_diff(clock.ns as u64);
                proptest::prop_assert!(off < 1_500, "{off} ns off after a second at {ppm} ppm");
            }
        }
    }

    #[test]
    fn after_a_jump_of_the_clock_the_line_jumps_too_and_while_it_runs_evenly_pairs_are_far_apart() {
        let mut clock = Slewed { tsc: 1 << 40, ns: 1e15 };
        let first = clock.pair(0.0);
        clock.pass(2e7, 0.0);
        let mut follower = Follower::new(first, clock.pair(0.0));
        let mut wait = Duration::from_nanos(CLOSE_NS);
        for _ in 0..10 {
            clock.pass(wait.as_nanos() as f64, 10.0);
            wait = follower.follow(clock.pair(20.0));
        }
        assert_eq!(wait, Duration::from_nanos(STEADY_NS));
        clock.pass(1e8, 10.0);
        clock.ns += 5e9;
        wait = follower.follow(clock.pair(0.0));
        assert_eq!(follower.line.at(clock.tsc), clock.ns as u64);
        assert_eq!(wait, Duration::from_nanos(CLOSE_NS));
        clock.pass(2e7, 10.0);
        let off = follower.line.at(clock.tsc).abs_diff(clock.ns as u64);
        assert!(off < 1_000, "{off} ns off after a jump");
    }

    #[test]
    fn a_reading_before_the_anchor_is_before_the_anchor() {
        let line = Line {
            tsc0: 1000,
            ns0: 5000,
            scale: 1 << (SHIFT - 1),
        };
        assert_eq!((line.at(900), line.at(1100)), (4950, 5050));
    }
}
