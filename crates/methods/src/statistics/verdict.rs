//! Verdict of an interval, given which difference matters.

use super::rank::MOST_PAIRS;
use super::{ALPHA, Estimate};

/// Fewest values that give an interval of 95 %.
pub const LEAST: usize = 6;
/// Most rounds of a comparison.
pub const MOST_ROUNDS: usize = MOST_PAIRS;

/// Values that are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// Greater values, such as rates.
    More,
    /// Smaller values, such as latency and loss.
    Less,
}

/// Verdict on the other variant, compared with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better by more than the margin.
    Better,
    /// Worse by more than the margin.
    Worse,
    /// Different by no more than the margin.
    Same,
    /// Better; whether by more than the margin is open.
    ALittleBetter,
    /// Worse; whether by more than the margin is open.
    ALittleWorse,
    /// The interval includes both a difference and none.
    Undecided {
        /// Rounds that might decide, if values go on as they were; `None` if more than [`MOST_ROUNDS`].
        rounds: Option<usize>,
    },
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::ALittleBetter => "a little better",
            Self::ALittleWorse => "a little worse",
            Self::Undecided { .. } => "undecided",
        }
    }
}

/// Returns the verdict of an estimate if a difference below `margin` (0.02: a ratio from 1/1.02 to 1.02) does not
/// matter. `corrected` is its p-value after [`super::holm`], of `rows` comparisons made together.
pub fn judge(of: &Estimate, corrected: f64, rows: usize, margin: f64, sense: Sense) -> Verdict {
    let margin = margin.ln_1p();
    let (middle, low, high) = (of.ratio.ln(), of.low.ln(), of.high.ln());
    if low >= -margin && high <= margin {
        return Verdict::Same;
    }
    if low <= 0.0 && high >= 0.0 {
        // Either end of the doubt is an answer: an interval without 1, or one within the margin.
        let wanted = middle.abs().max(margin - middle.abs());
        let width = (high - middle).max(middle - low);
        let factor = (width / wanted).powi(2);
        let rounds = (of.n as f64 * factor).ceil().max((of.n + 1) as f64);
        return undecided(rounds, rows);
    }
    if corrected > ALPHA {
        return undecided((of.n + 1) as f64, rows);
    }
    match ((low > 0.0) == (sense == Sense::More), low >= margin || high <= -margin) {
        (true, true) => Verdict::Better,
        (false, true) => Verdict::Worse,
        (true, false) => Verdict::ALittleBetter,
        (false, false) => Verdict::ALittleWorse,
    }
}

/// Returns undecided until at least `rounds`, and at least as many rounds as the smallest p-value needs among `rows`.
fn undecided(rounds: f64, rows: usize) -> Verdict {
    let least = (rows as f64 * 2.0 / ALPHA).log2().ceil();
    let rounds = rounds.max(least);
    Verdict::Undecided {
        rounds: (rounds <= MOST_ROUNDS as f64).then_some(rounds as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(low: f64, ratio: f64, high: f64) -> Estimate {
        Estimate {
            ratio,
            low,
            high,
            confidence: 0.95,
            p: 0.01,
            n: 8,
        }
    }

    fn said(low: f64, ratio: f64, high: f64) -> Verdict {
        judge(&of(low, ratio, high), 0.01, 1, 0.02, Sense::More)
    }

    #[test]
    fn the_interval_decides_and_never_the_p_value_alone() {
        assert_eq!(said(1.05, 1.08, 1.11), Verdict::Better);
        assert_eq!(said(0.90, 0.93, 0.95), Verdict::Worse);
        assert_eq!(said(0.99, 1.00, 1.01), Verdict::Same);
        assert_eq!(said(1.001, 1.01, 1.019), Verdict::Same);
        assert_eq!(said(1.01, 1.03, 1.05), Verdict::ALittleBetter);
        assert_eq!(said(0.95, 0.97, 0.99), Verdict::ALittleWorse);
        assert!(matches!(said(0.99, 1.03, 1.07), Verdict::Undecided { .. }));
        assert!(matches!(said(0.9, 1.0, 1.1), Verdict::Undecided { .. }));
        let less = |low, ratio, high| judge(&of(low, ratio, high), 0.01, 1, 0.02, Sense::Less);
        assert_eq!(
            (less(1.05, 1.08, 1.11), less(0.9, 0.93, 0.95)),
            (Verdict::Worse, Verdict::Better)
        );
    }

    #[test]
    fn more_rounds_are_named_where_they_might_decide() {
        // ±4 % around 1.03 after 8 rounds: 1.03 is off 1 once it is ±2.96 %, so about 8 × (4/2.96)².
        let Verdict::Undecided { rounds: Some(rounds) } = said(1.03 / 1.04, 1.03, 1.03 * 1.04) else {
            panic!("undecided")
        };
        assert!((14..=16).contains(&rounds), "{rounds}");
        assert_eq!(said(0.2, 1.01, 5.0), Verdict::Undecided { rounds: None });
        // Among many rows a p-value of 0.0625 shows nothing.
        let corrected = judge(&of(1.05, 1.08, 1.11), 0.0625, 8, 0.02, Sense::More);
        assert_eq!(corrected, Verdict::Undecided { rounds: Some(9) });
    }

    proptest! {
        #[test]
        fn the_other_way_round_is_the_opposite(ends in prop::array::uniform3(0.5_f64..2.0), p in 0.0_f64..0.1) {
            let mut sorted = ends;
            sorted.sort_by(f64::total_cmp);
            let [low, ratio, high] = sorted;
            let one = judge(&of(low, ratio, high), p, 2, 0.02, Sense::More);
            let other = judge(&of(1.0 / high, 1.0 / ratio, 1.0 / low), p, 2, 0.02, Sense::More);
            let opposite = match one {
                Verdict::Better => Verdict::Worse,
                Verdict::Worse => Verdict::Better,
                Verdict::ALittleBetter => Verdict::ALittleWorse,
                Verdict::ALittleWorse => Verdict::ALittleBetter,
                same => same,
            };
            match (opposite, other) {
                // Rounding may make it one more.
                (Verdict::Undecided { rounds: Some(x) }, Verdict::Undecided { rounds: Some(y) }) =>
                    prop_assert!(x.abs_diff(y) <= 1),
                (opposite, other) => prop_assert_eq!(opposite, other),
            }
            prop_assert_eq!(judge(&of(low, ratio, high), p, 2, 0.02, Sense::Less).words(), match one {
                Verdict::Undecided { .. } | Verdict::Same => one.words(),
                _ => opposite.words(),
            });
        }
    }
}
