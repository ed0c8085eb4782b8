//! Conversion from the lanes' clock to the time of day.

use mpps_sys::clock::{realtime_ns, utc_offset_ns};

/// Converts the lanes' clock to `CLOCK_REALTIME`.
///
/// The kernel slews both clocks alike; what lies between them changes only when the time of day is set. So the offset
/// is kept until a measurement differs by more than it can be wrong by: times stay in order, and follow a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wall {
    offset_ns: i64,
}

/// Assumed error of a measurement, ns, in addition to its own width.
const DOUBT_NS: u64 = 1_000;

impl Wall {
    pub(super) fn new() -> Self {
        Self {
            offset_ns: utc_offset_ns().0,
        }
    }

    /// Checks whether the time of day was set.
    pub(super) fn refresh(&mut self) {
        let (offset, width) = utc_offset_ns();
        if offset.abs_diff(self.offset_ns) > width + DOUBT_NS {
            self.offset_ns = offset;
        }
    }

    /// The time of day, ns since 1970, of a reading of the lanes' clock.
    pub(super) fn real_ns(self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add_signed(self.offset_ns)
    }

    /// The time of day now, ns since 1970.
    pub(super) fn now_ns() -> u64 {
        realtime_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_of_the_one_clock_becomes_the_other_and_stays_so_unless_the_time_is_set() {
        let mut wall = Wall::new();
        let (before, at, after) = (Wall::now_ns(), mpps_sys::clock::monotonic_ns(), Wall::now_ns());
        let real = wall.real_ns(at);
        let doubt = 1_000_000;
        assert!(
            (before - doubt..=after + doubt).contains(&real),
            "{before} {real} {after}"
        );
        wall.offset_ns += 100_000_000_000;
        wall.refresh();
        assert!(wall.real_ns(at).abs_diff(real) < doubt);
    }
}
