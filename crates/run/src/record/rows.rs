//! Counts of each row, as values over time.

use mpps_stats::{Event, LanesSoFar, Row, RowFill, Sink, WHOLE_PPM};
use mpps_trace::{Counter, LeftOut, Unit};
use std::sync::{Arc, Mutex, PoisonError};

/// Most rows that are kept.
const MOST: usize = 200_000;

/// Rows of a run, as a trace and its causes need them.
#[derive(Debug, Default)]
pub struct Rows {
    /// Time when the run began, ns.
    start_ns: u64,
    rows: Vec<Kept>,
    left_out: u64,
    /// Per lane: times (ns since the start of the run) and the highest fill of the receive rings from each time on.
    lanes: Vec<Vec<(u64, f64)>>,
    /// Per lane: number of looks at the rings so far.
    looks: Vec<u64>,
    /// Time when the lanes were last read, ns since the start of the run.
    read_ns: u64,
}

/// Values kept of a row. Times count from the start of the run.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    from_ns: u64,
    length_ns: u64,
    tx: u64,
    rx: u64,
    lost: i64,
    host_dropped: Option<u64>,
    p50: Option<u64>,
    p99: Option<u64>,
    fill: Option<RowFill>,
}

/// Names of the counters for the fill of receive rings.
const FILL: [&str; 2] = ["fill of the receive ring, highest", "fill of the receive ring, mean"];

fn share(ppm: u64) -> f64 {
    ppm as f64 / WHOLE_PPM as f64
}

impl Rows {
    /// Returns the packets that this host dropped, by its own counters, in a stretch of the run, ns since its start.
    pub(crate) fn host_dropped(&self, from_ns: u64, to_ns: u64) -> u64 {
        let within = self
            .rows
            .iter()
            .filter(|row| row.from_ns < to_ns && row.from_ns + row.length_ns > from_ns);
        within.filter_map(|row| row.host_dropped).sum()
    }

    /// Returns the highest fill of a receive ring in a stretch of the run, ns since its start, and up to a row after
    /// the stretch. If a ring overflowed while its lane was away, the lane sees that only when it is back.
    pub(crate) fn highest_fill(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        let near = |row: &&Kept| row.from_ns <= to_ns && row.from_ns + row.length_ns > from_ns;
        let fills = self.rows.iter().filter(near).filter_map(|row| row.fill);
        fills.map(|fill| share(fill.highest_ppm)).reduce(f64::max)
    }

    /// Returns whether any packet that was sent before a time came back, ns since the start of the run. A row that
    /// contains this time counts as before it.
    pub(crate) fn answered_before(&self, at_ns: u64) -> bool {
        self.rows.iter().any(|row| row.from_ns <= at_ns && row.rx > 0)
    }

    /// Returns the counters: values over time, one point per row.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        type Value = fn(&Kept) -> Option<f64>;
        fn rate(packets: f64, row: &Kept) -> Option<f64> {
            (row.length_ns > 0).then(|| packets * 1e9 / row.length_ns as f64)
        }
        let all: [(&str, Unit, Value); 8] = [
            ("sent", Unit::PacketsPerSecond, |row| rate(row.tx as f64, row)),
            ("received", Unit::PacketsPerSecond, |row| rate(row.rx as f64, row)),
            ("lost", Unit::Packets, |row| Some(row.lost as f64)),
            ("dropped by this host", Unit::Packets, |row| {
                row.host_dropped.map(|n| n as f64)
            }),
            ("latency, median", Unit::Nanoseconds, |row| row.p50.map(|ns| ns as f64)),
            ("latency, p99", Unit::Nanoseconds, |row| row.p99.map(|ns| ns as f64)),
            (FILL[0], Unit::Share, |row| row.fill.map(|fill| share(fill.highest_ppm))),
            (FILL[1], Unit::Share, |row| row.fill.map(|fill| share(fill.mean_ppm))),
        ];
        let counter = |(name, unit, value): &(&str, Unit, Value)| {
            let point = |row: &Kept| Some((self.start_ns + row.from_ns, value(row)?));
            let points: Vec<_> = self.rows.iter().filter_map(point).collect();
            (!points.is_empty()).then(|| Counter {
                name: (*name).to_owned(),
                lane: None,
                unit: *unit,
                points,
            })
        };
        let of_lanes = self.lanes.iter().enumerate().map(|(lane, points)| Counter {
            name: FILL[0].to_owned(),
            lane: Some(lane as u32),
            unit: Unit::Share,
            points: points
                .iter()
                .map(|&(at_ns, fill)| (self.start_ns + at_ns, fill))
                .collect(),
        });
        let of_lanes = of_lanes.filter(|counter| !counter.points.is_empty());
        all.iter().filter_map(counter).chain(of_lanes).collect()
    }

    /// Adds the fill that lanes found in their receive rings since they were last read. A counter's value holds from
    /// its time on, so the time of the earlier reading is used.
    fn add_lanes(&mut self, so_far: &LanesSoFar<'_>) {
        let from_ns = std::mem::replace(&mut self.read_ns, so_far.at_ns);
        self.lanes.resize(so_far.lanes.len(), Vec::new());
        self.looks.resize(so_far.lanes.len(), 0);
        let lanes = self.lanes.iter_mut().zip(&mut self.looks).zip(so_far.lanes);
        for ((points, looks), lane) in lanes {
            let looked = std::mem::replace(looks, lane.rx_fill_looks) < lane.rx_fill_looks;
            if looked && points.len() < MOST {
                points.push((from_ns, share(lane.rx_fill_highest_ppm)));
            }
        }
    }

    /// Returns the number of rows that were not kept, and why.
    pub(crate) fn left_out(&self) -> Option<LeftOut> {
        (self.left_out > 0).then(|| LeftOut {
            what: "rows".to_owned(),
            count: self.left_out,
            why: format!("only the first {MOST} are kept: the CSV has all"),
        })
    }

    fn add(&mut self, row: &Row) {
        if self.rows.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let known = row.latency.percentiles.filter(|_| row.latency.count > 0);
        self.rows.push(Kept {
            from_ns: row.start_ns,
            length_ns: row.length_ns,
            tx: row.tx,
            rx: row.rx,
            lost: row.lost,
            host_dropped: row.host_dropped,
            p50: known.map(|of| of.p50),
            p99: known.map(|of| of.p99),
            fill: row.rx_fill,
        });
    }
}

/// Keeps rows as they close.
pub struct RowsSink(pub Arc<Mutex<Rows>>);

impl Sink for RowsSink {
    fn event(&mut self, event: &Event<'_>) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Start(start) => rows.start_ns = start.started.monotonic_ns,
            Event::Row(row) => rows.add(row),
            Event::Lanes(so_far) => rows.add_lanes(so_far),
            _ => {}
        }
    }
}
