//! Time for which a lane that waits for packets spins before it sleeps.
//!
//! Sleep and wake-up cost several µs, and packets that arrive meanwhile wait or are lost. Spinning through a wait costs
//! the wait. So the lane spins for as long as recent waits suggest: longer if a wait outlasted it and was still short,
//! less if waits are long. A long wait takes back what two short ones gave. So long waits cost next to nothing: at
//! 1,000 packets per second, 5 µs per wait of 1 ms.

/// Spinning time of a lane that knows nothing yet, ns. A lane that waits for a departure also spins for so long.
pub(crate) const SPIN_NS: u64 = 50_000;
/// Spinning time between waits that are too long for it, ns.
const LEAST_NS: u64 = 5_000;
/// Longest wait that is worth spinning, ns. Timers of interrupt moderation and of NAPI are shorter.
const MOST_NS: u64 = 250_000;

/// Spinning time of one lane.
#[derive(Debug)]
pub(crate) struct Spin {
    ns: u64,
    fixed: bool,
}

impl Spin {
    /// `fixed`: the time never changes. For lanes in a real-time class: they would keep all others off their core, and
    /// could not see that others want it.
    pub(crate) fn new(fixed: bool) -> Self {
        Self { ns: SPIN_NS, fixed }
    }

    /// Returns the spinning time of a wait that only packets end, ns.
    #[inline]
    pub(crate) fn ns(&self) -> u64 {
        self.ns
    }

    /// Adapts the spinning time after a wait for packets.
    #[inline]
    pub(crate) fn waited(&mut self, took_ns: u64) {
        if took_ns <= self.ns || self.fixed {
            return;
        }
        self.ns = if took_ns <= MOST_NS {
            (2 * self.ns).min(MOST_NS)
        } else {
            (self.ns / 4).max(LEAST_NS)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(waits: impl IntoIterator<Item = u64>) -> u64 {
        let mut spin = Spin::new(false);
        waits.into_iter().for_each(|ns| spin.waited(ns));
        spin.ns()
    }

    #[test]
    fn waits_of_a_timer_are_spun_through() {
        for period in [60_000, 100_000, 130_000, 249_000] {
            let ns = after([period; 4]);
            assert!((period..=MOST_NS).contains(&ns), "{period}: {ns}");
        }
    }

    #[test]
    fn waits_too_long_for_it_are_hardly_spun() {
        for wait in [250_001, 1_000_000, 20_000_000] {
            assert_eq!(after([wait; 10]), LEAST_NS, "{wait}");
        }
    }

    #[test]
    fn a_single_long_wait_among_short_ones_changes_little() {
        let mut spin = Spin::new(false);
        let mut slept = 0;
        for n in 0..2000 {
            let wait = if n % 20 == 0 { 3_000_000 } else { 100_000 };
            slept += u32::from(wait > spin.ns());
            spin.waited(wait);
        }
        assert!(slept <= 4 * 100, "{slept} of 2000 waits");
    }

    #[test]
    fn a_short_wait_now_and_then_does_not_keep_a_lane_awake() {
        // One of ten packets comes 200 µs after the one before, the others after 1 ms.
        let waits = (0..1000).map(|n| if n % 10 == 0 { 200_000 } else { 1_000_000 });
        let mut spin = Spin::new(false);
        let (mut spun, mut all) = (0, 0);
        for wait in waits {
            spun += wait.min(spin.ns());
            all += wait;
            spin.waited(wait);
        }
        assert!(spun * 50 < all, "{spun} of {all} ns");
    }

    #[test]
    fn pairs_of_packets_do_not_keep_a_lane_awake() {
        let mut spin = Spin::new(false);
        let (mut spun, mut all) = (0, 0);
        for wait in [100_000, 1_900_000].repeat(100) {
            spun += wait.min(spin.ns());
            all += wait;
            spin.waited(wait);
        }
        assert!(spun * 50 < all, "{spun} of {all} ns");
    }

    #[test]
    fn a_fixed_time_stays() {
        let mut spin = Spin::new(true);
        for ns in [100_000, 1_000_000, 1] {
            spin.waited(ns);
        }
        assert_eq!(spin.ns(), SPIN_NS);
    }
}
