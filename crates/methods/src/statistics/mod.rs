//! Statistics to compare few noisy trials: pairs of one round, or two sets of earlier trials.
//!
//! Trials of packets are skewed, drift with the host and are few, so nothing here takes them to be normal. Intervals
//! and p-values are exact, from ranks. If so few trials give no interval, none is returned. Ratios are compared by
//! their logarithms, so that a comparison the other way round gives the inverse.

mod drift;
mod holm;
mod order;
mod paired;
mod rank;
mod turns;
mod unpaired;
mod verdict;

pub use drift::{DRIFT, spearman};
pub use holm::holm;
pub use order::{Spread, median, median_interval};
pub use paired::{paired, paired_of_logs};
pub use rank::{MOST_PAIRS, mann_whitney, signed_rank, signed_rank_drop};
pub use turns::{Outcome, Turn, Turns};
pub use unpaired::unpaired;
pub use verdict::{LEAST, MOST_ROUNDS, Sense, Verdict, judge};

/// Largest chance that an interval misses the truth.
pub const ALPHA: f64 = 0.05;

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Ratio of the other's values to the first's.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Chance that the interval contains the truth: above 1 - [`ALPHA`] if the interval is exact.
    pub confidence: f64,
    /// Chance of values that lie as far apart, or farther, if there is no difference; two-sided.
    pub p: f64,
    /// Number of values: pairs, or values of the smaller side.
    pub n: usize,
}
