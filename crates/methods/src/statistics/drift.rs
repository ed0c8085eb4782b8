//! Drift: whether values rise or fall with time.

use super::rank::doubled_ranks;

/// Absolute value of [`spearman`] from which values are said to drift.
pub const DRIFT: f64 = 0.7;

/// Returns Spearman's coefficient of rank correlation of values with their order, -1 to 1; `None` for fewer than three
/// values, and for values that are all the same.
pub fn spearman(values: &[f64]) -> Option<f64> {
    if values.len() < 3 {
        return None;
    }
    let ranks = doubled_ranks(values);
    let mean = (values.len() + 1) as f64;
    let (mut product, mut of_rank, mut of_place) = (0.0, 0.0, 0.0);
    for (place, rank) in ranks.iter().enumerate() {
        let (place, rank) = (2.0 * (place + 1) as f64 - mean, *rank as f64 - mean);
        product += place * rank;
        of_place += place * place;
        of_rank += rank * rank;
    }
    (of_rank > 0.0).then(|| product / (of_rank * of_place).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_is_1_and_the_textbooks_example_is_itself() {
        assert_eq!(spearman(&[1.0, 2.0, 5.0, 9.0]), Some(1.0));
        assert_eq!(spearman(&[9.0, 5.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(spearman(&[1.0, 1.0, 1.0]), None);
        assert_eq!(spearman(&[1.0, 2.0]), None);
        // Intelligence and hours of television, ten people in the order of the first: -29/165.
        let hours = [0.0, 20.0, 28.0, 27.0, 50.0, 29.0, 7.0, 17.0, 6.0, 12.0];
        let found = spearman(&hours).unwrap();
        assert!((found + 29.0 / 165.0).abs() < 1e-9, "{found}");
    }
}
