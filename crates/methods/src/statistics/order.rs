//! Order statistics.

use super::ALPHA;

/// Returns the middle value, or the mean of the two in the middle; `None` if there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    middle(&sorted)
}

/// As [`median`], for sorted values.
pub(super) fn middle(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some(match low == high {
        true => sorted[low],
        false => f64::midpoint(sorted[low], sorted[high]),
    })
}

pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Spread of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Number of values.
    pub n: usize,
    /// Median.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Median of the distances from the median.
    pub mad: f64,
}

impl Spread {
    /// Returns the spread of some values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let middle = middle(&sorted)?;
        let distances: Vec<f64> = sorted.iter().map(|value| (value - middle).abs()).collect();
        Some(Self {
            n: sorted.len(),
            median: middle,
            min: sorted[0],
            max: sorted[sorted.len() - 1],
            mad: median(&distances)?,
        })
    }
}

/// Returns the ranks, counted from 1, between which the median of the measured quantity lies, and the confidence.
/// `None` if `n` values are too few for an interval of 95 %.
pub fn median_interval(n: usize) -> Option<(usize, usize, f64)> {
    // The number of values below the median is that of heads in n throws.
    let (mut below, mut term, mut found) = (0.0, 0.5_f64.powi(i32::try_from(n).ok()?), None);
    for rank in 1..=n.div_ceil(2) {
        below += term;
        if 2.0 * below > ALPHA {
            break;
        }
        found = Some((rank, n + 1 - rank, 1.0 - 2.0 * below));
        term *= (n + 1 - rank) as f64 / rank as f64;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_spread() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let spread = Spread::of(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]).unwrap();
        // The textbook example of the median absolute deviation.
        assert_eq!((spread.median, spread.mad), (2.0, 1.0));
        assert_eq!((spread.min, spread.max, spread.n), (1.0, 9.0, 7));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn ranks_of_a_medians_interval_are_those_of_the_tables() {
        for (n, low, high, percent) in [
            (6, 1, 6, 96.9),
            (7, 1, 7, 98.4),
            (9, 2, 8, 96.1),
            (10, 2, 9, 97.9),
            (12, 3, 10, 96.1),
            (15, 4, 12, 96.5),
            (20, 6, 15, 95.9),
        ] {
            let (from, to, sure) = median_interval(n).unwrap();
            assert_eq!((from, to), (low, high), "{n}");
            assert!((sure * 100.0 - percent).abs() < 0.06, "{n}: {sure}");
        }
        for n in 0..=5 {
            assert_eq!(median_interval(n), None, "{n}");
        }
    }
}
