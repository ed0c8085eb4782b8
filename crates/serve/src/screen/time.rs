//! Rows over time, in as many columns as fit.

use crate::history::Point;

/// Lengths of a column, ns.
const STEPS: [u64; 18] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_200_000,
    1_800_000, 3_600_000, 7_200_000, 14_400_000,
];
const MS: u64 = 1_000_000;

/// Counts of one column's time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Column {
    /// Part of its time for which rows have closed, ns.
    pub(crate) known_ns: f64,
    /// Packets sent, and (`rx`, `lost`) received and lost.
    pub(crate) tx: f64,
    pub(crate) rx: f64,
    pub(crate) lost: f64,
    /// Highest p99 of its rows, ns.
    pub(crate) p99: Option<u64>,
}

impl Column {
    fn known(&self) -> Option<f64> {
        (self.known_ns > 0.0).then_some(self.known_ns)
    }

    /// Returns the rate of sent packets, packets/s.
    pub(crate) fn tx_pps(&self) -> Option<f64> {
        Some(self.tx / self.known()? * 1e9)
    }

    pub(crate) fn rx_pps(&self) -> Option<f64> {
        Some(self.rx / self.known()? * 1e9)
    }

    /// Returns the share of sent packets that were lost. For a receiver that knows no sender, it is the share of
    /// packets that should have arrived.
    pub(crate) fn loss(&self) -> Option<f64> {
        let known = self.known()?;
        let base = match self.tx > 0.0 {
            true => self.tx,
            false => self.rx + self.lost,
        };
        Some(if base > 0.0 && known > 0.0 {
            self.lost / base
        } else {
            0.0
        })
    }
}

/// Returns the newest points as at most `most` columns, and the length of a column, ns. If a column may be long enough,
/// the whole run is included. `scale` makes columns shorter (above 0) or longer by that many steps.
pub(crate) fn columns(points: &[Point], most: usize, scale: isize) -> (Vec<Column>, u64) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return (Vec::new(), STEPS[0] * MS);
    };
    let (begin, end) = (first.start_ns, last.start_ns + last.length_ns);
    let enough = STEPS
        .iter()
        .position(|step| end.div_ceil(step * MS).saturating_sub(begin / (step * MS)) <= most as u64);
    let place = enough.unwrap_or(STEPS.len() - 1).saturating_add_signed(-scale);
    let step = STEPS[place.min(STEPS.len() - 1)] * MS;
    let newest = end.div_ceil(step);
    let oldest = (begin / step).max(newest.saturating_sub(most as u64));
    let mut columns = vec![Column::default(); newest.saturating_sub(oldest) as usize];
    for point in points {
        let point_end = point.start_ns + point.length_ns;
        let from = (point.start_ns / step).max(oldest);
        // A point that ends after the last column is cut off there.
        for at in from..point_end.div_ceil(step).min(newest) {
            let (start, stop) = (point.start_ns.max(at * step), point_end.min((at + 1) * step));
            let ns = stop.saturating_sub(start) as f64;
            let part = ns / point.length_ns.max(1) as f64;
            let Some(column) = columns.get_mut((at - oldest) as usize) else {
                break;
            };
            column.known_ns += ns;
            column.tx += point.tx as f64 * part;
            column.rx += point.rx as f64 * part;
            column.lost += point.lost.max(0) as f64 * part;
            column.p99 = column.p99.max(point.latency[1]);
        }
    }
    (columns, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(lengths_ms: &[u64]) -> Vec<Point> {
        let mut start_ns = 0;
        let point = |length: &u64| {
            let point = Point {
                start_ns,
                length_ns: length * MS,
                tx: length * 10,
                rx: length * 9,
                lost: *length as i64,
                ..Point::default()
            };
            start_ns += length * MS;
            point
        };
        lengths_ms.iter().map(point).collect()
    }

    #[test]
    fn points_that_do_not_follow_each_other_are_cut_off_at_the_last() {
        for lengths in [[5_000, 100], [100, 5_000]] {
            let mut points = points(&lengths);
            points.reverse();
            for most in [1, 4, 200] {
                assert!(columns(&points, most, 0).0.len() <= most);
            }
            // One that begins early and ends late.
            let long = Point {
                length_ns: 9_000 * MS,
                ..points[1]
            };
            assert!(!columns(&[long, points[0]], 200, 0).0.is_empty());
        }
    }

    proptest! {
        #[test]
        fn where_all_finds_room_no_packet_is_missing_and_rates_are_those_of_the_rows(
            lengths in proptest::collection::vec(100..3_000u64, 1..100),
            most in 4..200usize,
            scale in -3..4isize,
        ) {
            let points = points(&lengths);
            let (columns, step) = columns(&points, most, scale);
            prop_assert!(columns.len() <= most.max(1));
            if scale <= 0 {
                let sent: f64 = columns.iter().map(|column| column.tx).sum();
                prop_assert!((sent - lengths.iter().sum::<u64>() as f64 * 10.0).abs() < 1.0);
            }
            for column in &columns {
                prop_assert!(column.known_ns <= step as f64 + 1.0);
                let rate = column.tx_pps().expect("rows follow one another");
                prop_assert!((rate - 10_000.0).abs() < 1.0, "{rate}");
                prop_assert!((column.loss().expect("known") - 0.1).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn time_between_trials_is_not_known() {
        let mut two = points(&[100, 100]);
        two[1].start_ns += 300 * MS;
        let (columns, _) = columns(&two, 10, 0);
        let known: Vec<_> = columns.iter().map(|column| column.tx_pps().is_some()).collect();
        assert_eq!(known, [true, false, false, false, true]);
    }
}
