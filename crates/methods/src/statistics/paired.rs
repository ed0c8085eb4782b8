//! The ratio of values that were measured in pairs.

use super::Estimate;
use super::order::middle;
use super::rank::{MOST_PAIRS, signed_rank, signed_rank_drop};

/// Returns the ratio `b` by `a` of pairs `(a, b)`, all above 0: the Hodges-Lehmann estimate of its logarithm, with the
/// exact interval of the signed-rank test. `None` with fewer than six pairs, more than [`MOST_PAIRS`], or a value that
/// has no logarithm.
pub fn paired(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let logs: Vec<f64> = pairs.iter().map(|(a, b)| b.ln() - a.ln()).collect();
    let above = pairs.iter().all(|(a, b)| *a > 0.0 && *b > 0.0);
    paired_of_logs(&logs).filter(|_| above)
}

/// As [`paired`], for the logarithms of ratios.
pub fn paired_of_logs(logs: &[f64]) -> Option<Estimate> {
    if logs.len() > MOST_PAIRS || logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    let (drop, confidence) = signed_rank_drop(logs.len())?;
    let mut means: Vec<f64> = (0..logs.len())
        .flat_map(|i| (i..logs.len()).map(move |j| f64::midpoint(logs[i], logs[j])))
        .collect();
    means.sort_by(f64::total_cmp);
    Some(Estimate {
        ratio: middle(&means)?.exp(),
        low: means[drop].exp(),
        high: means[means.len() - 1 - drop].exp(),
        confidence,
        p: signed_rank(logs),
        n: logs.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::unpaired::Random;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn darwins_maize() {
        // 15 differences in eighths of an inch. Of the 120 sorted means T = 25 are dropped at each end.
        let maize = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48].map(f64::from);
        let of = paired_of_logs(&maize.map(|eighths| eighths / 100.0)).unwrap();
        let back = [of.ratio, of.low, of.high].map(|ratio| ratio.ln() * 100.0);
        for (found, want) in back.into_iter().zip([25.0, 4.0, 41.5]) {
            assert!((found - want).abs() < 1e-9, "{back:?}");
        }
        assert_eq!(of.n, 15);
    }

    #[test]
    fn too_few_too_many_and_what_has_no_logarithm() {
        assert_eq!(paired(&[(1.0, 2.0); 5]), None);
        assert_eq!(paired(&[(1.0, 2.0); MOST_PAIRS + 1]), None);
        for bad in [
            (0.0, 1.0),
            (1.0, 0.0),
            (-1.0, -2.0),
            (f64::NAN, 1.0),
            (1.0, f64::INFINITY),
        ] {
            let mut pairs = vec![(1.0, 2.0); 7];
            pairs.push(bad);
            assert_eq!(paired(&pairs), None, "{bad:?}");
        }
        let same = paired(&[(3.0, 3.0); 8]).unwrap();
        assert_eq!((same.ratio, same.low, same.high, same.p), (1.0, 1.0, 1.0, 1.0));
    }

    /// Returns how many of 2000 intervals contain the truth, of 8 pairs with a common drift and skewed noise.
    #[test]
    fn nineteen_of_twenty_intervals_hold_the_truth() {
        let mut random = Random::new(7, 0);
        let mut noise = move || (1.0 - random.share()).ln() * -0.03;
        let (mut held, all) = (0, 2000);
        for _ in 0..all {
            let pairs: Vec<(f64, f64)> = (0..8)
                .map(|round| {
                    let drift = 1e6 * (1.0 + f64::from(round) * 0.05);
                    (drift * noise().exp(), drift * 1.1 * noise().exp())
                })
                .collect();
            let of = paired(&pairs).unwrap();
            held += i32::from(of.low <= 1.1 && 1.1 <= of.high);
        }
        let share = f64::from(held) / f64::from(all);
        assert!((0.945..=0.985).contains(&share), "{share}");
    }

    proptest! {
        #[test]
        fn the_other_way_round_is_the_inverse_and_a_scale_does_nothing(
            pairs in prop::collection::vec((1.0_f64..1e7, 1.0_f64..1e7), 6..20), scale in 0.01_f64..100.0
        ) {
            let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
            let of = paired(&pairs).unwrap();
            let swapped: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            let back = paired(&swapped).unwrap();
            prop_assert!(near(of.ratio * back.ratio, 1.0));
            prop_assert!(near(of.low * back.high, 1.0) && near(of.high * back.low, 1.0));
            prop_assert!(near(of.p, back.p));
            let scaled: Vec<_> = pairs.iter().map(|(a, b)| (a * scale, b * scale)).collect();
            let scaled = paired(&scaled).unwrap();
            prop_assert!(near(of.ratio, scaled.ratio) && near(of.low, scaled.low) && near(of.high, scaled.high));
            prop_assert!(of.low <= of.ratio && of.ratio <= of.high && of.confidence >= 0.95);
        }
    }
}
