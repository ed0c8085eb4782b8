//! The time base: `CLOCK_MONOTONIC` nanoseconds, read through a calibrated TSC where that is sound.
//!
//! Two programs on one host compare times, so a private calibration must not drift away from the kernel's clock, which
//! NTP keeps slewing. [`ClockSource::discipline`] is therefore called every few milliseconds by one thread (the
//! collector): it takes a new (TSC, `CLOCK_MONOTONIC`) pair and publishes a line through it. Each lane holds a
//! [`Clock`] with a private copy of the line and takes up a new one when the version has changed: a read is `rdtsc`,
//! one load of a rarely written cache line, a multiplication and a shift.

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Fraction bits of the scale (ns a tick).
const SHIFT: u32 = 32;

/// `CLOCK_MONOTONIC` in ns, by a system (vDSO) call; about 20 ns.
#[inline]
pub fn monotonic_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The time of day (`CLOCK_REALTIME`, ns since 1970) at a reading of `CLOCK_MONOTONIC`, by the offset that lies between
/// the two now.
pub fn utc_ns(monotonic_ns: u64) -> u64 {
    // The tightest of a few pairs: a thread that loses its core between two readings has a wrong one.
    let once = |_| {
        let before = self::monotonic_ns();
        let t = clock_gettime(ClockId::Realtime);
        let width = self::monotonic_ns() - before;
        let real = t.tv_sec * 1_000_000_000 + t.tv_nsec;
        (width, real - (before + width / 2) as i64)
    };
    let (_, offset) = (0..8).map(once).min().unwrap_or_default();
    monotonic_ns.saturating_add_signed(offset)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: RDTSC reads a register; it is present on every x86-64 processor and Linux leaves it open to user space
    // (where it does not, `tsc_is_sound` has already said so and this is never called).
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    0
}

/// Whether the kernel itself trusts the TSC as its clock source; if it does, it is constant, non-stop and
/// synchronised over cores.
fn tsc_is_sound() -> bool {
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|s| s.trim() == "tsc")
}

/// The published line ns = ns0 + (tsc − tsc0) · scale / 2^32. A sequence lock with one writer.
#[derive(Debug)]
struct Published {
    version: AtomicU64,
    tsc0: AtomicU64,
    ns0: AtomicU64,
    scale: AtomicU64,
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

/// Makes [`Clock`]s and keeps them true. One a process; the disciplining thread owns it.
#[derive(Debug)]
pub struct ClockSource {
    published: Option<Arc<Published>>,
    oldest: Pair,
}

impl ClockSource {
    /// Calibrates for about 20 ms where the TSC is the kernel's own clock source; else every read is a system call.
    pub fn new() -> Self {
        if !tsc_is_sound() {
            return Self {
                published: None,
                oldest: Pair { tsc: 0, ns: 0 },
            };
        }
        let first = Pair::take();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = Pair::take();
        let scale = scale_between(first, second);
        let published = Published {
            version: AtomicU64::new(2),
            tsc0: AtomicU64::new(second.tsc),
            ns0: AtomicU64::new(second.ns),
            scale: AtomicU64::new(scale),
        };
        Self {
            published: Some(Arc::new(published)),
            oldest: first,
        }
    }

    /// `"tsc"` or `"clock_gettime"`.
    pub fn name(&self) -> &'static str {
        if self.published.is_some() {
            "tsc"
        } else {
            "clock_gettime"
        }
    }

    /// A reader for one lane.
    pub fn clock(&self) -> Clock {
        let clock = Clock {
            published: self.published.clone(),
            version: Cell::new(0),
            tsc0: Cell::new(0),
            ns0: Cell::new(0),
            scale: Cell::new(0),
            last: Cell::new(0),
        };
        if clock.published.is_some() {
            clock.reload();
        }
        clock
    }

    /// Takes a new pair and publishes the line through it. Call every few ms to 100 ms from one thread.
    pub fn discipline(&mut self) {
        let Some(p) = &self.published else { return };
        let now = Pair::take();
        let (tsc0, ns0) = (p.tsc0.load(Ordering::Relaxed), p.ns0.load(Ordering::Relaxed));
        // The slope over the last second or so: long enough to be precise, short enough to follow NTP.
        if now.ns - self.oldest.ns < 10_000_000 {
            return;
        }
        let scale = scale_between(self.oldest, now);
        if now.ns - self.oldest.ns > 2_000_000_000 {
            self.oldest = Pair { tsc: tsc0, ns: ns0 };
            if now.ns - ns0 < 500_000_000 {
                self.oldest = Pair {
                    tsc: now.tsc - (1u64 << SHIFT).wrapping_mul(1_000_000_000) / scale.max(1),
                    ns: now.ns - 1_000_000_000,
                };
            }
        }
        let version = p.version.load(Ordering::Relaxed);
        p.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        p.tsc0.store(now.tsc, Ordering::Relaxed);
        p.ns0.store(now.ns, Ordering::Relaxed);
        p.scale.store(scale, Ordering::Relaxed);
        p.version.store(version + 2, Ordering::Release);
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

#[inline]
fn line(tsc0: u64, ns0: u64, scale: u64, tsc: u64) -> u64 {
    // A reading can precede tsc0 by a little (taken on another core just before the line was published).
    let delta = tsc.wrapping_sub(tsc0) as i64;
    let ns = (i128::from(delta) * i128::from(scale)) >> SHIFT;
    ns0.wrapping_add(ns as u64)
}

/// Reads the time; one a lane (not `Sync`). Never goes backwards.
#[derive(Debug)]
pub struct Clock {
    published: Option<Arc<Published>>,
    version: Cell<u64>,
    tsc0: Cell<u64>,
    ns0: Cell<u64>,
    scale: Cell<u64>,
    last: Cell<u64>,
}

impl Clock {
    /// `CLOCK_MONOTONIC` now, ns; within some 100 ns of the system call's answer.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        let Some(p) = &self.published else {
            return monotonic_ns();
        };
        if p.version.load(Ordering::Relaxed) != self.version.get() {
            self.reload();
        }
        let ns = line(self.tsc0.get(), self.ns0.get(), self.scale.get(), ticks()).max(self.last.get());
        self.last.set(ns);
        ns
    }

    #[cold]
    fn reload(&self) {
        let Some(p) = &self.published else { return };
        loop {
            let version = p.version.load(Ordering::Acquire);
            let (tsc0, ns0, scale) = (
                p.tsc0.load(Ordering::Relaxed),
                p.ns0.load(Ordering::Relaxed),
                p.scale.load(Ordering::Relaxed),
            );
            fence(Ordering::Acquire);
            // An odd version: the writer is in the middle. Keep the old line if there is one rather than wait.
            if version % 2 == 0 && p.version.load(Ordering::Relaxed) == version {
                self.tsc0.set(tsc0);
                self.ns0.set(ns0);
                self.scale.set(scale);
                self.version.set(version);
                return;
            }
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

    #[test]
    fn a_reading_before_the_anchor_is_before_the_anchor() {
        let scale = 1u64 << (SHIFT - 1);
        assert_eq!(line(1000, 5000, scale, 900), 4950);
        assert_eq!(line(1000, 5000, scale, 1100), 5050);
    }
}
