//! Plain lines: one for each second of the run, made from the rows of that second.
//!
//! The row in which a packet was sent also records its fate, so a line covers the same packets from end to end. A line
//! is printed when its rows have closed: after the settle time. Until then lines show the counts so far, and that the
//! loss is not known yet.

use super::latency;
use crate::units::{count, percent, pps};
use mpps_stats::{Histogram, Latency, MIN_PERIOD_NS, Row, Snapshot, Workload};
use std::collections::VecDeque;

const SECOND: u64 = 1_000_000_000;
/// Columns of the time: as wide as `99999-100000 s` and `0.012-0.013 s`.
const AT: usize = 14;
/// Most lines kept for a reader that takes none.
const KEPT: usize = 64;
/// Longest time without a line of rows before a line with the counts so far is printed, ns.
const PATIENCE: u64 = 1_500_000_000;

/// Makes lines from rows.
pub(super) struct Lines {
    span: Option<Span>,
    /// Latencies of the current span.
    histogram: Histogram,
    ready: VecDeque<String>,
    /// Time of the next line with the counts so far, unless rows close before.
    next_count_ns: u64,
    /// Time of the last line with the counts so far, and packets sent and received by then.
    counted: (u64, u64, u64),
    /// Columns of the lines.
    pub(super) of: Columns,
    /// Name of each direction, and packets sent and lost in the current span; empty if there is only one direction.
    tracks: Vec<(&'static str, u64, i64)>,
}

/// Names of a line's columns; `None`: the workload does not know this number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    sent: Option<&'static str>,
    received: Option<&'static str>,
    lost: Option<&'static str>,
}

impl Columns {
    pub(super) fn of(workload: Workload) -> Self {
        let (sent, received, lost) = match workload {
            Workload::Send => (Some("sent"), None, None),
            Workload::SendRecv => (Some("sent"), Some("received"), Some("lost")),
            Workload::Drop => (None, Some("received"), Some("lost")),
            // `lost` stands for packets that arrived and were not passed on.
            Workload::Reflect | Workload::Forward => (Some("sent"), Some("received"), Some("not sent")),
            // Packets that the filter took, and the part of them that the writer took.
            Workload::Capture => (Some("taken"), Some("kept"), Some("lost")),
        };
        Self { sent, received, lost }
    }
}

/// The rows of a line.
#[derive(Default)]
struct Span {
    from_ns: u64,
    to_ns: u64,
    tx: u64,
    rx: u64,
    lost: i64,
    dropped: u64,
    latency: Latency,
    /// Whether no row of the span is missing, and its histograms have arrived.
    whole: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            span: None,
            histogram: Histogram::default(),
            ready: VecDeque::new(),
            next_count_ns: PATIENCE,
            counted: (0, 0, 0),
            of: Columns::of(Workload::SendRecv),
            tracks: Vec::new(),
        }
    }
}

impl Lines {
    pub(super) fn tracks(&mut self, names: &'static [&'static str]) {
        self.tracks = names.iter().map(|name| (*name, 0, 0)).collect();
    }

    /// Adds a row of one direction; it comes before the row of all directions.
    pub(super) fn row_of_track(&mut self, track: usize, row: &Row) {
        if self.span.as_ref().is_some_and(|span| span.whole) {
            self.end_span();
        }
        if let Some((_, tx, lost)) = self.tracks.get_mut(track) {
            *tx += row.tx;
            *lost += row.lost;
        }
    }

    pub(super) fn row(&mut self, row: &Row) {
        if self.span.as_ref().is_some_and(|span| span.whole) {
            self.end_span();
        }
        let span = self.span.get_or_insert_with(|| Span {
            from_ns: row.start_ns,
            ..Span::default()
        });
        span.to_ns = row.start_ns + row.length_ns;
        span.tx += row.tx;
        span.rx += row.rx;
        span.lost += row.lost;
        span.dropped += row.host_dropped.unwrap_or(0);
        if row.latency.count > 0 {
            let (all, new) = (&mut span.latency, &row.latency);
            all.mean = (all.mean * all.count as f64 + new.mean * new.count as f64) / (all.count + new.count) as f64;
            all.max = all.max.max(new.max);
            all.count += new.count;
        }
        // Histograms close with the last row of their period, so a line ends there too.
        let period = MIN_PERIOD_NS.div_ceil(row.length_ns.max(1));
        span.whole = span.to_ns / SECOND > span.from_ns / SECOND && (row.index + 1).is_multiple_of(period);
    }

    pub(super) fn histogram(&mut self, buckets: &[(u64, u64)]) {
        for &(ns, n) in buckets {
            self.histogram.record_n(ns, n);
        }
    }

    /// Returns the lines that are due, each with its end of line.
    pub(super) fn due(&mut self, s: &Snapshot) -> String {
        if self.span.as_ref().is_some_and(|span| span.whole) {
            self.end_span();
        }
        if !self.ready.is_empty() {
            self.next_count_ns = s.elapsed_ns + PATIENCE;
        } else if s.elapsed_ns >= self.next_count_ns && !s.settling {
            let (then, tx, rx) = std::mem::replace(&mut self.counted, (s.elapsed_ns, s.tx, s.rx));
            let rate = |now: u64, before: u64| {
                pps(now.saturating_sub(before) as f64 / (s.elapsed_ns - then).max(1) as f64 * 1e9)
            };
            let at = format!("by {:.1} s", s.elapsed_ns as f64 / 1e9);
            let (sent, received) = (rate(s.tx, tx), rate(s.rx, rx));
            let columns = [
                self.of.sent.map(|name| format!("  {name} {sent:>11}")),
                self.of.received.map(|name| format!("  {name} {received:>11}")),
                self.of.lost.map(|name| format!("  {name}: not known yet")),
            ];
            let columns: String = columns.into_iter().flatten().collect();
            self.ready.push_back(format!("{at:>AT$}{columns}\n"));
            self.next_count_ns = (s.elapsed_ns / SECOND + 1) * SECOND;
        }
        self.ready.drain(..).collect()
    }

    /// Returns the remaining lines. The last of them may cover less than a second.
    pub(super) fn rest(&mut self) -> String {
        self.end_span();
        self.ready.drain(..).collect()
    }

    fn end_span(&mut self) {
        let Some(mut span) = self.span.take() else { return };
        span.latency.percentiles = self.histogram.percentiles();
        self.histogram.clear();
        if self.ready.len() == KEPT {
            self.ready.pop_front();
        }
        let mut line = span.line(self.of);
        if !self.tracks.is_empty() {
            let track = |(name, tx, lost): &mut (&str, u64, i64)| {
                let ratio = (*lost).max(0) as f64 / (*tx).max(1) as f64;
                (*tx, *lost) = (0, 0);
                format!("{name} {}", percent(ratio))
            };
            let tracks: Vec<_> = self.tracks.iter_mut().map(track).collect();
            line.truncate(line.trim_end().len());
            line += &format!("  lost {}\n", tracks.join(", "));
        }
        self.ready.push_back(line);
    }
}

impl Span {
    fn line(&self, columns: Columns) -> String {
        let rate = |packets: u64| pps(packets as f64 / (self.to_ns - self.from_ns).max(1) as f64 * 1e9);
        // A receiver that knows no sender has no tx: its loss is a share of the packets that should have arrived.
        let lost = self.lost.max(0);
        let base = if self.tx > 0 {
            self.tx as f64
        } else {
            self.rx as f64 + lost as f64
        };
        let ratio = if base > 0.0 { lost as f64 / base } else { 0.0 };
        let cells = [
            columns.sent.map(|name| format!("  {name} {:>11}", rate(self.tx))),
            columns.received.map(|name| format!("  {name} {:>11}", rate(self.rx))),
            columns.lost.map(|name| format!("  {name} {:>9}", percent(ratio))),
        ];
        let mut line = format!("{:>AT$}", span(self.from_ns, self.to_ns));
        line.extend(cells.into_iter().flatten());
        if columns.received.is_none() {
            return line + "\n";
        }
        if let Some(latency) = latency(&self.latency) {
            line += &format!("  latency {latency}");
        }
        if self.dropped > 0 {
            line += &format!("  dropped by this host {}", count(self.dropped));
        }
        line + "\n"
    }
}

/// Returns a stretch of time: `2-3 s`, `9.0-9.5 s`, `0.012-0.013 s`.
pub(crate) fn span(from_ns: u64, to_ns: u64) -> String {
    let exact = |&decimals: &usize| {
        let step = 10u64.pow(9 - decimals as u32);
        [from_ns, to_ns].iter().all(|ns| ns.is_multiple_of(step))
    };
    let enough = if to_ns - from_ns < 10_000_000 { 6 } else { 3 };
    let decimals = (0..enough).find(exact).unwrap_or(enough);
    let seconds = |ns: u64| format!("{:.decimals$}", ns as f64 / 1e9);
    format!("{}-{} s", seconds(from_ns), seconds(to_ns))
}
