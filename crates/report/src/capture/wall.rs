//! From the lanes' clock to the time of day.

use rustix::time::{ClockId, clock_gettime};

/// Converts `CLOCK_MONOTONIC` to `CLOCK_REALTIME`.
///
/// The kernel slews both clocks alike; what lies between them changes only when the time of day is set. So the offset
/// is kept until a measurement differs by more than it can be wrong by: times stay in order, and follow a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wall {
    offset_ns: i64,
}

/// How far a measurement is trusted to be right, ns, beside its own width.
const DOUBT_NS: i64 = 1_000;

fn ns(clock: ClockId) -> i64 {
    let t = clock_gettime(clock);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, and how wide the readings lay apart, ns: the tightest of a few.
fn measure() -> (i64, i64) {
    let once = |_| {
        let before = ns(ClockId::Monotonic);
        let real = ns(ClockId::Realtime);
        let width = ns(ClockId::Monotonic) - before;
        (real - (before + width / 2), width)
    };
    (0..8).map(once).min_by_key(|(_, width)| *width).unwrap_or((0, 0))
}

impl Wall {
    pub(super) fn new() -> Self {
        Self { offset_ns: measure().0 }
    }

    /// Looks whether the time of day was set.
    pub(super) fn refresh(&mut self) {
        let (offset, width) = measure();
        if (offset - self.offset_ns).abs() > width + DOUBT_NS {
            self.offset_ns = offset;
        }
    }

    /// The time of day, ns since 1970, of a reading of `CLOCK_MONOTONIC`.
    pub(super) fn real_ns(self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add_signed(self.offset_ns)
    }

    /// The time of day now, ns since 1970.
    pub(super) fn now_ns() -> u64 {
        ns(ClockId::Realtime).max(0).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_of_the_one_clock_becomes_the_other_and_stays_so_unless_the_time_is_set() {
        let mut wall = Wall::new();
        let (before, at, after) = (Wall::now_ns(), ns(ClockId::Monotonic), Wall::now_ns());
        let real = wall.real_ns(at.cast_unsigned());
        let doubt = 1_000_000;
        assert!(
            (before - doubt..=after + doubt).contains(&real),
            "{before} {real} {after}"
        );
        wall.offset_ns += 100_000_000_000;
        wall.refresh();
        assert!(wall.real_ns(at.cast_unsigned()).abs_diff(real) < doubt);
    }
}
