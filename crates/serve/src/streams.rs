//! Packets of streams and groups over all trials, and the newest row of each.

use mpps_stats::{Latency, Row, StreamKind, StreamRows, Summary};
use std::sync::Arc;

/// Most streams, and most groups, that are counted. Each is a time series where metrics are stored.
const MOST: usize = 256;

/// Packets of one stream or group, of rows that have closed.
#[derive(Clone, Debug)]
pub(crate) struct StreamCounts {
    pub(crate) kind: StreamKind,
    pub(crate) name: Arc<str>,
    pub(crate) tx: u64,
    pub(crate) rx: u64,
    pub(crate) lost: i64,
    /// Rates of the newest row, packets/s; 0 once a trial is over.
    pub(crate) tx_pps: f64,
    pub(crate) rx_pps: f64,
    /// Loss in the newest row, as a share.
    pub(crate) recent_loss: f64,
    /// Latency of the newest row that had any.
    pub(crate) recent: Option<Latency>,
}

impl StreamCounts {
    fn add(&mut self, row: &Row) {
        (self.tx, self.rx, self.lost) = (self.tx + row.tx, self.rx + row.rx, self.lost + row.lost);
        let rate = |packets: u64| packets as f64 / row.length_ns.max(1) as f64 * 1e9;
        (self.tx_pps, self.rx_pps) = (rate(row.tx), rate(row.rx));
        self.recent_loss = match row.tx {
            0 => 0.0,
            sent => row.lost.max(0) as f64 / sent as f64,
        };
        if row.latency.count > 0 {
            self.recent = Some(row.latency);
        }
    }
}

/// Packets of all streams and groups; clones share the memory until one of them changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamSums(Arc<Vec<StreamCounts>>);

impl StreamSums {
    /// Returns the streams and the groups, in their order.
    pub(crate) fn all(&self) -> &[StreamCounts] {
        &self.0
    }

    /// Adds the rows of an interval.
    pub(crate) fn add(&mut self, rows: &StreamRows<'_>) {
        let wanted = wanted(rows.of.iter().map(|(kind, _)| *kind));
        let sums = Arc::make_mut(&mut self.0);
        let mut next = 0;
        for ((kind, name), row) in rows.of.iter().zip(rows.rows).filter(|((kind, _), _)| wanted(*kind)) {
            let at = place(sums, next, *kind, name);
            sums[at].add(row);
            next = at + 1;
        }
    }

    /// Takes the result of a trial in place of its rows; `base` is what was counted before the trial.
    pub(crate) fn end(&mut self, base: &Self, summary: &Summary) {
        let streams = summary.streams.iter().map(|of| (StreamKind::Stream, of));
        let all = streams.chain(summary.groups.iter().map(|of| (StreamKind::Group, of)));
        let wanted = wanted(all.clone().map(|(kind, _)| kind));
        let sums = Arc::make_mut(&mut self.0);
        let mut next = 0;
        for (kind, of) in all.filter(|(kind, _)| wanted(*kind)) {
            let at = place(sums, next, kind, &of.name);
            let (tx, rx, lost) = base.0.get(at).map_or((0, 0, 0), |base| (base.tx, base.rx, base.lost));
            let sum = &mut sums[at];
            (sum.tx, sum.rx, sum.lost) = (tx + of.tx, rx + of.rx, lost + of.lost.cast_signed());
            (sum.tx_pps, sum.rx_pps, sum.recent_loss) = (0.0, 0.0, 0.0);
            next = at + 1;
        }
    }
}

/// Returns which kinds are counted: those of which there are not too many.
fn wanted(kinds: impl Iterator<Item = StreamKind>) -> impl Fn(StreamKind) -> bool {
    let (mut streams, mut groups) = (0, 0);
    for kind in kinds {
        match kind {
            StreamKind::Stream => streams += 1,
            StreamKind::Group => groups += 1,
            StreamKind::Size => {}
        }
    }
    move |kind| match kind {
        StreamKind::Stream => streams <= MOST,
        StreamKind::Group => groups <= MOST,
        StreamKind::Size => false,
    }
}

/// Returns the place of a stream or group, which is probably `likely`. A new one has the next place for good.
fn place(sums: &mut Vec<StreamCounts>, likely: usize, kind: StreamKind, name: &str) -> usize {
    let is = |sum: &StreamCounts| sum.kind == kind && *sum.name == *name;
    if sums.get(likely).is_some_and(is) {
        return likely;
    }
    sums.iter().position(is).unwrap_or_else(|| {
        sums.push(StreamCounts {
            kind,
            name: name.into(),
            tx: 0,
            rx: 0,
            lost: 0,
            tx_pps: 0.0,
            rx_pps: 0.0,
            recent_loss: 0.0,
            recent: None,
        });
        sums.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, Board, Watcher};
    use mpps_stats::{Event, Row, Sink, Snapshot, Start, StreamSummary};

    fn of(kinds: &[(StreamKind, &str)]) -> Vec<(StreamKind, String)> {
        kinds.iter().map(|(kind, name)| (*kind, (*name).to_owned())).collect()
    }

    fn row(tx: u64, lost: i64) -> Row {
        Row {
            tx,
            rx: tx - 1,
            lost,
            ..Row::default()
        }
    }

    fn told(sums: &StreamSums) -> Vec<(&str, u64, u64, i64)> {
        sums.all().iter().map(|of| (&*of.name, of.tx, of.rx, of.lost)).collect()
    }

    #[test]
    fn rows_add_up_over_trials_and_a_result_takes_the_place_of_its_rows() {
        let of = of(&[
            (StreamKind::Stream, "a"),
            (StreamKind::Stream, "b"),
            (StreamKind::Group, "a"),
            (StreamKind::Size, "64"),
        ]);
        let rows = [row(10, 1), row(20, 2), row(30, -3), row(99, 9)];
        let interval = StreamRows { of: &of, rows: &rows };
        let mut sums = StreamSums::default();
        sums.add(&interval);
        let before = sums.clone();
        sums.add(&interval);
        assert_eq!(told(&sums), [("a", 20, 18, 2), ("b", 40, 38, 4), ("a", 60, 58, -6)]);
        let summary = Summary {
            streams: vec![StreamSummary {
                name: "b".to_owned(),
                tx: 25,
                rx: 20,
                lost: 5,
                ..StreamSummary::default()
            }],
            ..Summary::default()
        };
        sums.end(&before, &summary);
        assert_eq!(told(&sums), [("a", 20, 18, 2), ("b", 45, 39, 7), ("a", 60, 58, -6)]);
        assert_eq!(told(&before)[1], ("b", 20, 19, 2));
    }

    #[test]
    fn of_too_many_streams_the_groups_alone_are_counted() {
        let names: Vec<_> = (0..=MOST).map(|n| format!("s{n}")).collect();
        let mut kinds: Vec<_> = names.iter().map(|name| (StreamKind::Stream, name.as_str())).collect();
        kinds.push((StreamKind::Group, "all"));
        let rows = vec![row(1, 0); kinds.len()];
        let mut sums = StreamSums::default();
        sums.add(&StreamRows {
            of: &of(&kinds),
            rows: &rows,
        });
        assert_eq!(told(&sums), [("all", 1, 0, 0)]);
        sums.add(&StreamRows {
            of: &of(&kinds[1..]),
            rows: &rows[1..],
        });
        assert_eq!(told(&sums).len(), 1 + MOST);
    }

    #[test]
    fn streams_are_counted_over_all_trials_and_their_rates_are_those_of_the_newest_row() {
        let board = Board::default();
        let watcher = Watcher::new(About::default(), board.clone());
        let mut sink = watcher.sink();
        sink.event(&Event::Start(Start::default()));
        assert!(sink.wants().streams && sink.wants().rows);
        let of = [(StreamKind::Stream, "gold".to_owned())];
        let rows = [Row {
            tx: 10,
            rx: 9,
            lost: 1,
            length_ns: 100_000_000,
            ..Row::default()
        }];
        let summary = Summary {
            streams: vec![StreamSummary {
                name: "gold".to_owned(),
                tx: 11,
                rx: 11,
                ..Default::default()
            }],
            ..Summary::default()
        };
        for trial in 1..=2 {
            sink.event(&Event::Streams(StreamRows { of: &of, rows: &rows }));
            sink.event(&Event::Live(&Snapshot::default()));
            let gold = board.newest().streams.all()[0].clone();
            assert_eq!(
                (gold.tx, gold.tx_pps, gold.rx_pps),
                (11 * (trial - 1) + 10, 100.0, 90.0)
            );
            assert_eq!((gold.recent_loss, gold.recent), (0.1, None));
            sink.event(&Event::End(&summary));
            let state = board.newest();
            let gold = &state.streams.all()[0];
            assert_eq!((gold.tx, gold.rx, gold.lost), (11 * trial, 11 * trial, 0));
            sink.event(&Event::Start(Start::default()));
        }
    }
}
