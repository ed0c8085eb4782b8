//! Exact tests by ranks.
//!
//! Equal values share the mean of their ranks. Ranks are doubled, so that they stay whole. The distribution is that of
//! these very ranks: all signs, or all ways to deal them to two sides, are counted.

/// Most pairs of a signed-rank test. Beyond this number the work grows with the cube.
pub const MOST_PAIRS: usize = 200;
/// Most values of both sides of [`mann_whitney`] that are counted exactly; more are taken to be normal.
const MOST_COUNTED: usize = 80;

/// Returns twice the rank of each value; ties get their mean.
pub(super) fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let same = order[first..]
            .iter()
            .take_while(|at| values[**at] == values[order[first]]);
        // `total_cmp` and `==` differ in zeros of different signs alone.
        let count = same.count().max(1);
        for at in &order[first..first + count] {
            ranks[*at] = 2 * first + count + 1;
        }
        first += count;
    }
    ranks
}

/// Returns the chance of each sum of these ranks if each rank is in the sum with a chance of a half.
fn sums(ranks: &[usize]) -> Vec<f64> {
    let most = ranks.iter().sum::<usize>();
    let mut chance = vec![0.0; most + 1];
    chance[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with = if sum >= *rank { chance[sum - rank] } else { 0.0 };
            chance[sum] = (chance[sum] + with) / 2.0;
        }
    }
    chance
}

/// Returns the exact p-value, two-sided, of Wilcoxon's signed-rank test that differences lie around 0. Differences of 0
/// are left out; 1 if nothing is left.
///
/// # Panics
/// With more than [`MOST_PAIRS`] differences.
pub fn signed_rank(differences: &[f64]) -> f64 {
    assert!(differences.len() <= MOST_PAIRS, "at most {MOST_PAIRS} pairs");
    let differences: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    let sizes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    let ranks = doubled_ranks(&sizes);
    let above = differences.iter().zip(&ranks).filter(|(d, _)| **d > 0.0);
    let above = above.map(|(_, rank)| rank).sum::<usize>();
    let below = ranks.iter().sum::<usize>() - above;
    let tail: f64 = sums(&ranks)[..=above.min(below)].iter().sum();
    (2.0 * tail).min(1.0)
}

/// Returns Wilcoxon's critical value T for `n` pairs: how many of the sorted means of pairs are dropped at each end of
/// a 95 % interval, and the confidence of the interval. `None` if `n` is too small for any.
///
/// # Panics
/// With more than [`MOST_PAIRS`].
pub fn signed_rank_drop(n: usize) -> Option<(usize, f64)> {
    assert!(n <= MOST_PAIRS, "at most {MOST_PAIRS} pairs");
    let ranks: Vec<usize> = (1..=n).collect();
    let (mut tail, mut found) = (0.0, None);
    for (sum, chance) in sums(&ranks).into_iter().enumerate() {
        tail += chance;
        if 2.0 * tail > super::ALPHA {
            break;
        }
        found = Some((sum, 1.0 - 2.0 * tail));
    }
    found
}

/// Returns the p-value, two-sided, of the Mann-Whitney test that neither side's values tend to be greater: exact up to
/// 80 values of both sides. 1 if a side is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let (least, total) = (a.len().min(b.len()), all.len());
    if least == 0 {
        return 1.0;
    }
    let ranks = doubled_ranks(&all);
    // Ranks of the smaller side; both sides give the same p-value.
    let small = if a.len() <= b.len() {
        &ranks[..a.len()]
    } else {
        &ranks[a.len()..]
    };
    let (sum, mean) = (small.iter().sum::<usize>(), least * (total + 1));
    let distance = sum.abs_diff(mean);
    if total > MOST_COUNTED {
        return by_normal(&ranks, least, distance);
    }
    // Ways to deal `count` of the ranks with each sum, as shares of all ways to be numerically small.
    let most = ranks.iter().sum::<usize>();
    let mut ways = vec![vec![0.0_f64; most + 1]; least + 1];
    ways[0][0] = 1.0;
    for rank in &ranks {
        for count in (1..=least).rev() {
            let (fewer, these) = ways.split_at_mut(count);
            for sum in *rank..=most {
                these[0][sum] += fewer[count - 1][sum - rank];
            }
        }
    }
    let of = &ways[least];
    let far: f64 = of
        .iter()
        .enumerate()
        .filter(|(s, _)| s.abs_diff(mean) >= distance)
        .map(|(_, n)| n)
        .sum();
    (far / of.iter().sum::<f64>()).min(1.0)
}

/// Returns the p-value by the normal distribution, corrected for ties and for sums being whole.
fn by_normal(ranks: &[usize], least: usize, distance: usize) -> f64 {
    let (n, total) = (least as f64, ranks.len() as f64);
    // Ranks are doubled, so their variance is four times that of ranks, which tie-corrects itself.
    let mean = total + 1.0;
    let spread = ranks.iter().map(|rank| (*rank as f64 - mean).powi(2)).sum::<f64>() / (total - 1.0);
    let variance = n * (total - n) / total * spread;
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (distance as f64 - 1.0).max(0.0) / variance.sqrt();
    upper_normal(z) * 2.0
}

/// Returns the chance that a normal value exceeds `z`; Abramowitz and Stegun 26.2.17, to 7.5e-8.
fn upper_normal(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let poly =
        t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    ((-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * poly).clamp(0.0, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn critical_values_are_those_of_wilcoxons_table() {
        let table = [
            (6, 0),
            (7, 2),
            (8, 3),
            (9, 5),
            (10, 8),
            (11, 10),
            (12, 13),
            (13, 17),
            (14, 21),
            (15, 25),
        ];
        let more = [
            (16, 29),
            (17, 34),
            (18, 40),
            (19, 46),
            (20, 52),
            (25, 89),
            (30, 137),
            (40, 264),
            (50, 434),
        ];
        for (n, t) in table.into_iter().chain(more) {
            assert_eq!(signed_rank_drop(n).map(|(t, _)| t), Some(t), "{n}");
        }
        assert_eq!(signed_rank_drop(5), None);
        let (_, sure) = signed_rank_drop(6).unwrap();
        assert!(near(sure, 1.0 - 2.0 / 64.0), "{sure}");
        assert!(signed_rank_drop(MOST_PAIRS).is_some());
    }

    #[test]
    fn the_least_p_of_so_many_pairs() {
        for (n, p) in [(5, 0.0625), (6, 0.03125), (8, 0.0078125)] {
            let all: Vec<f64> = (1..=n).map(f64::from).collect();
            assert!(near(signed_rank(&all), p), "{n}");
        }
        assert!(near(signed_rank(&[]), 1.0) && near(signed_rank(&[0.0, 0.0]), 1.0));
        // Equal ones are counted as they are: all of one sign is one of 2^6.
        assert!(near(signed_rank(&[1.0; 6]), 0.03125));
        assert!(near(signed_rank(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]), 0.03125));
    }

    #[test]
    fn darwins_maize() {
        // 15 pairs of plants, crossed and self-fertilized, in eighths of an inch: V = 96 of 120.
        let maize = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48].map(f64::from);
        let p = signed_rank(&maize);
        assert!((p - 0.041_26).abs() < 1e-5 && near(p, enumerated(&maize)), "{p}");
    }

    #[test]
    fn the_least_p_of_two_sides() {
        for (n, p) in [(3, 0.1), (4, 0.028_571_4), (5, 0.007_936_5), (6, 0.002_164_5)] {
            let a: Vec<f64> = (0..n).map(f64::from).collect();
            let b: Vec<f64> = (0..n).map(|value| f64::from(value) + 100.0).collect();
            assert!((mann_whitney(&a, &b) - p).abs() < 1e-7, "{n}");
        }
        assert!(near(mann_whitney(&[], &[1.0]), 1.0));
        assert!(near(mann_whitney(&[1.0; 7], &[1.0; 6]), 1.0));
    }

    #[test]
    fn the_tables_critical_values_of_u() {
        // Two-sided, 5 %: the greatest U of which p is below it (Mann and Whitney's table).
        for (m, n, critical) in [
            (5, 5, 2),
            (6, 6, 5),
            (8, 8, 13),
            (10, 10, 23),
            (7, 9, 12),
            (4, 10, 5),
            (20, 20, 127),
        ] {
            let p_of = |u: usize| {
                // Side a is lowest but for `u` places that it gives up to b, a value at a time.
                let mut ranks: Vec<usize> = (1..=m).collect();
                let mut left = u;
                for rank in ranks.iter_mut().rev() {
                    let step = left.min(n);
                    *rank += step;
                    left -= step;
                }
                let a: Vec<f64> = ranks.iter().map(|rank| *rank as f64).collect();
                let rest = (1..=m + n).filter(|rank| !ranks.contains(rank));
                let b: Vec<f64> = rest.map(|rank| rank as f64).collect();
                mann_whitney(&a, &b)
            };
            assert!(p_of(critical) <= 0.05 && p_of(critical + 1) > 0.05, "{m} {n}");
        }
    }

    #[test]
    fn many_values_are_near_to_what_counting_gives() {
        let a: Vec<f64> = (0..40).map(f64::from).collect();
        let b: Vec<f64> = (0..40).map(|value| f64::from(value) + 8.5).collect();
        let counted = mann_whitney(&a, &b);
        let all: Vec<f64> = a.iter().chain(&b).copied().collect();
        let ranks = doubled_ranks(&all);
        let distance = ranks[..40].iter().sum::<usize>().abs_diff(40 * 81);
        let normal = by_normal(&ranks, 40, distance);
        assert!((counted - normal).abs() < 0.002, "{counted} {normal}");
        assert!(mann_whitney(&[1.0; 50], &[2.0; 50]) < 1e-9);
    }

    /// Returns the p-value by going through all signs.
    fn enumerated(differences: &[f64]) -> f64 {
        let left: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
        let sizes: Vec<f64> = left.iter().map(|d| d.abs()).collect();
        let ranks = doubled_ranks(&sizes);
        let total: usize = ranks.iter().sum();
        let far = |above: usize| above.min(total - above);
        let seen = far(left
            .iter()
            .zip(&ranks)
            .filter(|(d, _)| **d > 0.0)
            .map(|(_, rank)| rank)
            .sum());
        let as_far = (0..1_u32 << left.len()).filter(|signs| {
            let above = ranks.iter().enumerate().filter(|(at, _)| signs >> at & 1 == 1);
            far(above.map(|(_, rank)| rank).sum()) <= seen
        });
        as_far.count() as f64 / f64::from(1_u32 << left.len())
    }

    proptest! {
        #[test]
        fn the_signed_rank_test_is_the_count_of_all_signs(values in prop::collection::vec(-4_i8..5, 0..11)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            prop_assert!(near(signed_rank(&values), enumerated(&values)), "{values:?}");
            let mirrored: Vec<f64> = values.iter().map(|value| -value).collect();
            prop_assert!(near(signed_rank(&values), signed_rank(&mirrored)));
        }

        #[test]
        fn sides_may_be_exchanged(
            a in prop::collection::vec(0_u8..9, 0..9), b in prop::collection::vec(0_u8..9, 0..9)
        ) {
            let numbers = |side: Vec<u8>| side.into_iter().map(f64::from).collect::<Vec<_>>();
            let (a, b) = (numbers(a), numbers(b));
            let p = mann_whitney(&a, &b);
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert!(near(p, mann_whitney(&b, &a)));
        }
    }
}
