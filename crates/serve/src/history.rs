//! The rows so far, in bounded memory: the newest as they came, older ones several to a point.

use mpps_stats::{Latency, Row};

/// Most points kept.
pub(crate) const MOST: usize = 1200;
/// Number of oldest points that are thinned when there are too many.
const THINNED: usize = 800;

/// One row, or several consecutive rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    /// Number of the trial, from 1.
    pub(crate) trial: u64,
    /// Number of its first row among all rows of all trials, from 1.
    pub(crate) first: u64,
    /// Number of its last row.
    pub(crate) last: u64,
    /// Start, ns since the first trial began.
    pub(crate) start_ns: u64,
    /// Total time of its rows, ns.
    pub(crate) length_ns: u64,
    /// Packets sent, and (`rx`) received.
    pub(crate) tx: u64,
    pub(crate) rx: u64,
    pub(crate) lost: i64,
    pub(crate) late: u64,
    pub(crate) missed: u64,
    pub(crate) dropped: u64,
    /// Time for which the host kept lanes from running, ns over all lanes.
    pub(crate) wait_ns: u64,
    /// Requested rate, packets/s.
    pub(crate) intended_pps: Option<f64>,
    /// Lowest and highest send rate of the points that were merged into this one, packets/s.
    pub(crate) tx_pps: [f64; 2],
    /// p50, p99, p99.9 and largest latency, ns; with several rows the highest of each.
    pub(crate) latency: [Option<u64>; 4],
}

impl Point {
    pub(crate) fn of(row: &Row, number: u64, (trial, began_ns): (u64, u64), intended_pps: Option<f64>) -> Self {
        let mut point = Self {
            trial,
            first: number,
            last: number,
            start_ns: began_ns + row.start_ns,
            length_ns: row.length_ns,
            tx: row.tx,
            rx: row.rx,
            lost: row.lost,
            late: row.late,
            missed: row.missed,
            dropped: row.host_dropped.unwrap_or(0),
            wait_ns: row.host_wait_ns.unwrap_or(0),
            intended_pps,
            ..Self::default()
        };
        point.tx_pps = [point.rate(); 2];
        point.latency_of(&row.latency);
        point
    }

    fn rate(&self) -> f64 {
        self.tx as f64 / self.length_ns.max(1) as f64 * 1e9
    }

    fn latency_of(&mut self, latency: &Latency) {
        if latency.count > 0 {
            let of = |pick: fn(&mpps_stats::Percentiles) -> u64| latency.percentiles.as_ref().map(pick);
            self.latency = [of(|p| p.p50), of(|p| p.p99), of(|p| p.p999), Some(latency.max)];
        }
    }

    /// Adds the next point to this one. `row`: the next point is a row too short to stand alone, so the rates of the
    /// result are those of the sum.
    pub(crate) fn take(&mut self, next: &Self, row: bool) {
        self.last = next.last;
        self.length_ns += next.length_ns;
        self.tx += next.tx;
        self.rx += next.rx;
        self.lost += next.lost;
        self.late += next.late;
        self.missed += next.missed;
        self.dropped += next.dropped;
        self.wait_ns += next.wait_ns;
        self.intended_pps = next.intended_pps.or(self.intended_pps);
        self.tx_pps = match row {
            true => [self.rate(); 2],
            false => [self.tx_pps[0].min(next.tx_pps[0]), self.tx_pps[1].max(next.tx_pps[1])],
        };
        for (mine, other) in self.latency.iter_mut().zip(next.latency) {
            *mine = (*mine).max(other);
        }
    }
}

/// All points so far.
#[derive(Debug, Default)]
pub(crate) struct History(Vec<Point>);

impl History {
    pub(crate) fn push(&mut self, point: Point) {
        if self.0.len() == MOST {
            self.thin();
        }
        self.0.push(point);
    }

    /// Merges pairs of neighbours of one trial, among the oldest points.
    fn thin(&mut self) {
        let newer = self.0.split_off(THINNED);
        let mut older: Vec<Point> = Vec::with_capacity(MOST);
        let mut single = false;
        for point in self.0.drain(..) {
            match older.last_mut() {
                Some(last) if single && last.trial == point.trial => {
                    last.take(&point, false);
                    single = false;
                }
                _ => {
                    older.push(point);
                    single = true;
                }
            }
        }
        // So many trials have only one or two points each: the oldest points are dropped.
        let over = (older.len() + newer.len() + MOST / 8).saturating_sub(MOST);
        older.drain(..over.min(older.len()));
        older.extend(newer);
        self.0 = older;
    }

    pub(crate) fn points(&self) -> &[Point] {
        &self.0
    }

    pub(crate) fn after(&self, row: Option<u64>) -> Vec<Point> {
        let from = self.0.partition_point(|point| row.is_some_and(|row| point.last <= row));
        self.0[from..].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64, trial: u64) -> Point {
        let row = Row {
            start_ns: number * 1_000,
            length_ns: 1_000,
            tx: 1 + number % 3,
            lost: i64::from(number.is_multiple_of(5)),
            ..Row::default()
        };
        Point::of(&row, number, (trial, 0), None)
    }

    #[test]
    fn the_history_is_bounded_and_loses_no_packet_of_a_long_run() {
        let mut history = History::default();
        let (mut sent, mut lost) = (0, 0);
        for number in 1..=50_000 {
            let point = row(number, 1);
            (sent, lost) = (sent + point.tx, lost + point.lost);
            history.push(point);
            assert!(history.0.len() <= MOST);
        }
        let all = history.after(None);
        assert_eq!((all[0].first, all[all.len() - 1].last), (1, 50_000));
        assert!(all.windows(2).all(|two| two[0].last + 1 == two[1].first));
        assert_eq!(all.iter().map(|p| p.tx).sum::<u64>(), sent);
        assert_eq!(all.iter().map(|p| p.lost).sum::<i64>(), lost);
        // The lowest and the highest rate are still there.
        let low = all.iter().map(|p| p.tx_pps[0]).fold(f64::INFINITY, f64::min);
        let high = all.iter().map(|p| p.tx_pps[1]).fold(0.0, f64::max);
        assert_eq!((low, high), (1e6, 3e6));
        // The newest are as they came.
        assert!(all[all.len() - 300..].iter().all(|p| p.first == p.last));
    }

    #[test]
    fn who_comes_back_gets_what_came_meanwhile() {
        let mut history = History::default();
        (1..=100).for_each(|number| history.push(row(number, 1)));
        assert_eq!(
            history.after(Some(97)).iter().map(|p| p.last).collect::<Vec<_>>(),
            [98, 99, 100]
        );
        assert!(history.after(Some(100)).is_empty() && history.after(Some(u64::MAX)).is_empty());
        assert_eq!(history.after(Some(0)).len(), 100);
    }

    #[test]
    fn trials_stay_apart_and_the_oldest_of_very_many_go() {
        let mut history = History::default();
        (1..=20_000).for_each(|number| history.push(row(number, number)));
        assert!(history.0.len() <= MOST && history.0.iter().all(|point| point.first == point.last));
        assert_eq!(history.0.last().map(|point| point.last), Some(20_000));
    }
}
