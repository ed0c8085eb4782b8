//! Statistics to compare few noisy trials: pairs of one round, or two heaps of earlier ones.
//!
//! Trials of packets are skewed, drift with the host and are few, so nothing here takes them to be normal: intervals
//! and p-values are exact, from ranks, and an interval that can't be had of so few trials is not given. Ratios are
//! compared by their logarithms, so that a comparison the other way round gives the inverse.

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

/// Chance that an interval misses the truth, at the most.
pub const ALPHA: f64 = 0.05;

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The other's values by the first's.
    pub ratio: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
    /// Chance that it holds the truth: above 1 - [`ALPHA`] where it is exact.
    pub confidence: f64,
    /// Chance of values that lie as far apart, or farther, if there is no difference; two-sided.
    pub p: f64,
    /// Values that it is of: pairs, or those of the smaller side.
    pub n: usize,
}
