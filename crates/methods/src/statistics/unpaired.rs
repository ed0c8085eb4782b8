//! Ratio of values that were not measured in pairs.

use super::order::{middle, sorted};
use super::{ALPHA, Estimate, mann_whitney};

/// Samples of the bootstrap.
const SAMPLES: usize = 10_000;

/// Returns the ratio of the medians, `b` by `a`, with the percentile interval of a bootstrap of each side by itself,
/// and the exact Mann-Whitney test. The same seed gives the same interval. `None` with fewer than six values on a side,
/// or a value that is not above 0.
pub fn unpaired(a: &[f64], b: &[f64], seed: u64) -> Option<Estimate> {
    let few = a.len().min(b.len()) < super::LEAST;
    if few || a.iter().chain(b).any(|value| !value.is_finite() || *value <= 0.0) {
        return None;
    }
    let (a, b) = (sorted(a), sorted(b));
    // A side has its own random numbers, whether it is first or second, so that the other way round is the inverse.
    let first = a.len() < b.len() || (a.len() == b.len() && a <= b);
    let (of_a, of_b) = if first { (0, 1) } else { (1, 0) };
    let (a_medians, b_medians) = (medians(&a, seed, of_a), medians(&b, seed, of_b));
    let mut logs: Vec<f64> = a_medians.iter().zip(&b_medians).map(|(a, b)| b.ln() - a.ln()).collect();
    logs.sort_by(f64::total_cmp);
    let outside = (SAMPLES as f64 * ALPHA / 2.0) as usize;
    Some(Estimate {
        ratio: middle(&b)? / middle(&a)?,
        low: logs[outside].exp(),
        high: logs[SAMPLES - 1 - outside].exp(),
        confidence: 1.0 - ALPHA,
        p: mann_whitney(&a, &b),
        n: a.len().min(b.len()),
    })
}

/// Returns medians of samples with replacement.
fn medians(sorted: &[f64], seed: u64, stream: u64) -> Vec<f64> {
    let mut random = Random::new(seed, stream);
    let mut places = vec![0_usize; sorted.len()];
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    (0..SAMPLES)
        .map(|_| {
            for place in &mut places {
                *place = random.below(sorted.len());
            }
            // The values are sorted, so their places show which is in the middle.
            places.sort_unstable();
            f64::midpoint(sorted[places[low]], sorted[places[high]])
        })
        .collect()
}

/// SplitMix64 (Steele, Lea and Flood 2014): enough for a bootstrap.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut begun = Self(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        begun.0 = begun.next();
        begun
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to below 1.
    #[cfg(test)]
    pub(super) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn too_few_values_have_no_interval() {
        assert_eq!(unpaired(&[1.0; 5], &[1.0; 9], 1), None);
        assert_eq!(unpaired(&[0.0; 6], &[1.0; 6], 1), None);
        let same = unpaired(&[2.0; 6], &[2.0; 6], 1).unwrap();
        assert_eq!((same.ratio, same.low, same.high, same.p), (1.0, 1.0, 1.0, 1.0));
    }

    #[test]
    fn most_intervals_hold_the_truth() {
        let mut random = Random::new(11, 0);
        let mut noise = move || ((1.0 - random.share()).ln() * -0.03).exp();
        let (mut held, all) = (0, 200);
        for seed in 0..all {
            let a: Vec<f64> = (0..10).map(|_| 1e6 * noise()).collect();
            let b: Vec<f64> = (0..10).map(|_| 1.2e6 * noise()).collect();
            let of = unpaired(&a, &b, seed).unwrap();
            held += i32::from(of.low <= 1.2 && 1.2 <= of.high);
        }
        // A percentile bootstrap of medians of so few is not exact.
        assert!((176..=199).contains(&held), "{held} of {all}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_other_way_round_is_the_inverse_and_a_scale_does_nothing(
            a in prop::collection::vec(1.0_f64..1e7, 6..12), b in prop::collection::vec(1.0_f64..1e7, 6..12),
            scale in 0.01_f64..100.0, seed: u64
        ) {
            let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
            let of = unpaired(&a, &b, seed).unwrap();
            prop_assert_eq!(Some(of), unpaired(&a, &b, seed));
            let back = unpaired(&b, &a, seed).unwrap();
            prop_assert!(near(of.ratio * back.ratio, 1.0));
            prop_assert!(near(of.low * back.high, 1.0) && near(of.high * back.low, 1.0));
            let scaled = |values: &[f64]| values.iter().map(|value| value * scale).collect::<Vec<_>>();
            let scaled = unpaired(&scaled(&a), &scaled(&b), seed).unwrap();
            prop_assert!(near(of.ratio, scaled.ratio) && near(of.low, scaled.low) && near(of.high, scaled.high));
            prop_assert!(of.low <= of.high);
        }
    }
}
