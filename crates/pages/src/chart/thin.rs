//! Reduces the points of a line without changing its look: each stretch keeps its least and its largest value.

/// A point of a series; a `y` of `None` ends a line.
pub(crate) type Point = (f64, Option<f64>);

/// Returns at most about `most` of these points, in their order: the least and the largest of each bin, and a gap if
/// there is one. Points that are not finite are left out.
pub(crate) fn thin(points: &[Point], most: usize) -> Vec<Point> {
    let finite = |point: &Point| point.0.is_finite() && point.1.is_none_or(f64::is_finite);
    let points: Vec<Point> = points.iter().copied().filter(finite).collect();
    if points.len() <= most {
        return points;
    }
    let gaps = points.iter().any(|(_, y)| y.is_none());
    // Keeps both ends of a line as they are.
    let bins = (most.saturating_sub(2) / if gaps { 3 } else { 2 }).max(1);
    let width = points.len().div_ceil(bins);
    let mut kept = Vec::with_capacity(most + 2);
    for (number, bin) in points.chunks(width).enumerate() {
        let value = |i: &usize| bin[*i].1;
        let with_value = || (0..bin.len()).filter(|i| bin[*i].1.is_some());
        let order = |a: &usize, b: &usize| value(a).partial_cmp(&value(b)).unwrap_or(std::cmp::Ordering::Equal);
        let mut chosen: Vec<usize> = [
            with_value().min_by(order),
            with_value().max_by(order),
            (0..bin.len()).find(|i| bin[*i].1.is_none()),
            (number == 0).then_some(0),
            ((number + 1) * width >= points.len()).then_some(bin.len() - 1),
        ]
        .into_iter()
        .flatten()
        .collect();
        chosen.sort_unstable();
        chosen.dedup();
        kept.extend(chosen.into_iter().map(|i| bin[i]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn least_largest_and_ends_stay(
            ys in prop::collection::vec(prop::option::weighted(0.9, -1e9..1e9f64), 1..3000), most in 10usize..500,
        ) {
            let points: Vec<Point> = ys.iter().enumerate().map(|(i, y)| (i as f64, *y)).collect();
            let kept = thin(&points, most);
            prop_assert!(kept.len() <= most, "{} of {most}", kept.len());
            prop_assert!(kept.windows(2).all(|w| w[0].0 < w[1].0));
            let most_of = |points: &[Point]| points.iter().filter_map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
            let least_of = |points: &[Point]| points.iter().filter_map(|p| p.1).fold(f64::INFINITY, f64::min);
            prop_assert_eq!(most_of(&points), most_of(&kept));
            prop_assert_eq!(least_of(&points), least_of(&kept));
            prop_assert_eq!((points[0], points.last()), (kept[0], kept.last()));
        }
    }
}
