//! Load of a run: rates as exact fractions, so that the total over all lanes is exact, and the spread of departures.

use std::fmt;

/// A rate in packets per second, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    num: u64,
    den: u64,
}

impl Rate {
    /// Returns a rate of `num / den` packets per second; `None` unless both are above zero and the rate is between one
    /// packet in 1000 s and 10^10 per second.
    pub fn new(num: u64, den: u64) -> Option<Self> {
        if num == 0 || den == 0 || num > den.saturating_mul(10_000_000_000) || den > num.saturating_mul(1000) {
            return None;
        }
        let divisor = gcd(num, den);
        Some(Self {
            num: num / divisor,
            den: den / divisor,
        })
    }

    /// Returns numerator and denominator of the packets per second.
    pub fn parts(&self) -> (u64, u64) {
        (self.num, self.den)
    }

    /// Makes a rate of a fraction, of fewer digits if it has too many; `None` as [`Rate::new`].
    fn of(mut num: u128, mut den: u128) -> Option<Self> {
        let (mut a, mut b) = (num, den);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (num, den) = (num / a.max(1), den / a.max(1));
        while num.max(den) > u128::from(u64::MAX) {
            (num, den) = (num >> 1, den >> 1);
        }
        Self::new(num as u64, den as u64)
    }

    /// Returns the rate multiplied by `num / den`, to the last of 64 bits; `None` as [`Rate::new`].
    pub fn times(&self, num: u64, den: u64) -> Option<Self> {
        Self::of(
            u128::from(self.num) * u128::from(num),
            u128::from(self.den) * u128::from(den),
        )
    }

    /// Returns the sum of two rates; `None` as [`Rate::new`].
    pub fn plus(&self, other: &Self) -> Option<Self> {
        let (num, den) = (u128::from(self.num), u128::from(self.den));
        let (other_num, other_den) = (u128::from(other.num), u128::from(other.den));
        // Products of two numbers of 64 bits; their sum may have a bit more than there is room for.
        match (num * other_den).checked_add(other_num * den) {
            Some(sum) => Self::of(sum, den * other_den),
            None => Self::of(num * other_den / 2 + other_num * den / 2, den * other_den / 2),
        }
    }

    /// Returns packets per second.
    pub fn pps(&self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// Returns departures due in the first `duration_ns` of a schedule whose first is at 0.
    pub fn packets_in(&self, duration_ns: u64) -> u64 {
        let n = u128::from(duration_ns) * u128::from(self.num);
        u64::try_from(n.div_ceil(u128::from(self.den) * 1_000_000_000)).unwrap_or(u64::MAX)
    }

    /// Returns the time for `packets` packets, ns, with 64 bits of fraction.
    pub fn time_of(&self, packets: u64) -> u128 {
        let ns = u128::from(packets) * u128::from(self.den) * 1_000_000_000;
        let whole = ns / u128::from(self.num);
        let rest = ns % u128::from(self.num);
        (whole << 64) + (rest << 64) / u128::from(self.num)
    }
}

/// Another rate from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStep {
    /// Time since the start of the run, ns; the departure that is due then is the first at the new rate.
    pub after_ns: u64,
    /// Rate from then on.
    pub rate: Rate,
}

/// Rate of a plan over time: a rate, and if there is a step another one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Rate until the step, or to the end.
    pub first: Rate,
    /// Step to another rate.
    pub then: Option<RateStep>,
}

impl From<Rate> for Rates {
    fn from(first: Rate) -> Self {
        Self { first, then: None }
    }
}

impl Rates {
    /// Returns departures due in the first `duration_ns`: the exact sum over the parts.
    pub fn packets_in(&self, duration_ns: u64) -> u64 {
        match self.then {
            Some(step) if step.after_ns < duration_ns => {
                let later = step.rate.packets_in(duration_ns - step.after_ns);
                self.first.packets_in(step.after_ns).saturating_add(later)
            }
            _ => self.first.packets_in(duration_ns),
        }
    }

    /// Returns the longest time, ns, in which no more than `packets` departures are due: the gap after the last is
    /// included.
    pub fn time_for(&self, packets: u64) -> u64 {
        // The longest time that a run may take, several times over.
        let (mut fits, mut beyond) = (0u64, u64::MAX >> 2);
        while beyond - fits > 1 {
            let middle = fits + (beyond - fits) / 2;
            match self.packets_in(middle) <= packets {
                true => fits = middle,
                false => beyond = middle,
            }
        }
        fits
    }

    /// Returns the mean rate over the first `duration_ns`, packets per second.
    pub fn mean_pps(&self, duration_ns: u64) -> f64 {
        match self.then {
            Some(step) if step.after_ns < duration_ns => {
                let (before, after) = (step.after_ns as f64, (duration_ns - step.after_ns) as f64);
                (self.first.pps() * before + step.rate.pps() * after) / duration_ns as f64
            }
            _ => self.first.pps(),
        }
    }

    /// Returns the higher of the two rates, packets per second: memory is made for it.
    pub fn highest_pps(&self) -> f64 {
        self.then.map_or(0.0, |step| step.rate.pps()).max(self.first.pps())
    }
}

/// How departures are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// Equal gaps.
    #[default]
    Constant,
    /// Random gaps, exponentially distributed; over a run of fixed length exactly rate × duration departures, placed
    /// as a Poisson process of that many events would place them.
    Poisson,
    /// `n` packets back to back, then a gap.
    Bursts(u32),
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pps", self.pps())
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_and_time_agree(num in 1u64..20_000_000, den in 1u64..1000, k in 0u64..1_000_000) {
            let Some(rate) = Rate::new(num, den) else { return Ok(()) };
            // Departure k is within the first `t` ns exactly when its time is before t.
            let at = (rate.time_of(k) >> 64) as u64;
            prop_assert!(rate.packets_in(at + 1) > k);
            prop_assert!(rate.packets_in(at) <= k + 1);
        }

        #[test]
        fn a_multiple_of_a_rate_is_exact(
            (pps, own_den) in (1u64..1_000_000, 1u64..1000), (num, den) in (1u64..1000, 1u64..1_000_000),
        ) {
            let rate = Rate::new(pps, own_den).unwrap();
            prop_assert_eq!(rate.times(num, den), Rate::new(pps * num, own_den * den));
        }

        #[test]
        fn the_time_for_a_number_of_packets_has_exactly_so_many(
            pps in 1u64..100_000_000, then in 1u64..100_000_000, after_ns in 1u64..10_000_000_000,
            packets in 1u64..1_000_000,
        ) {
            let first = Rate::new(pps, 1).unwrap();
            let step = RateStep { after_ns, rate: Rate::new(then, 1).unwrap() };
            for then in [None, Some(step)] {
                let rates = Rates { first, then };
                let ns = rates.time_for(packets);
                prop_assert_eq!(rates.packets_in(ns), packets);
                prop_assert!(rates.packets_in(ns + 1) > packets);
            }
            prop_assert_eq!(Rates::from(Rate::new(1000, 1).unwrap()).time_for(packets), packets * 1_000_000);
        }
    }
}
