//! Correction for many comparisons at once.

/// Returns the p-values of comparisons made together, corrected by Holm's method: at most [`super::ALPHA`] of all
/// tables have even one significant value by chance.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let (mut corrected, mut greatest) = (vec![1.0; p.len()], 0.0_f64);
    for (place, at) in order.into_iter().enumerate() {
        greatest = greatest.max(p[at] * (p.len() - place) as f64).min(1.0);
        corrected[at] = greatest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_r_corrects_them() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, want) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - want).abs() < 1e-12, "{corrected:?}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
