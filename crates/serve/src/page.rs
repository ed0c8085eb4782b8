//! The live page: its files, and the stream of events that fills it.
//!
//! Events are `rows` (points of the history that the page does not have yet), `state`, and at last `end`, the result.
//! The `id` of `rows` is the number of the last row, so that a page that lost its connection continues there. The page
//! shows all of this as text, never as markup.

use crate::board::Board;
use crate::history::Point;
use crate::state::State;
use crate::streams::StreamCounts;
use mpps_pages::page::{UPLOT, UPLOT_LICENCE, UPLOT_STYLE};
use mpps_stats::fields::FAULTS;
use mpps_stats::{Latency, StreamKind};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::LazyLock;

/// Most streams and groups on the page.
const MOST_STREAMS: usize = 32;
/// Name of the stream of events.
pub(crate) const EVENTS: &str = "events";

/// uPlot with its licence.
static CHARTS: LazyLock<String> = LazyLock::new(|| format!("/*\n{UPLOT_LICENCE}*/\n{UPLOT}"));

/// Returns a file of the page, and its type.
pub(crate) fn file(name: &str) -> Option<(&'static str, &'static str)> {
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    const STYLE: &str = "text/css; charset=utf-8";
    Some(match name {
        "" => ("text/html; charset=utf-8", include_str!("page/live.html")),
        "live.css" => (STYLE, include_str!("page/live.css")),
        "live.js" => (SCRIPT, include_str!("page/live.js")),
        "charts.js" => (SCRIPT, include_str!("page/charts.js")),
        "uplot.css" => (STYLE, UPLOT_STYLE),
        "uplot.js" => (SCRIPT, CHARTS.as_str()),
        _ => return None,
    })
}

/// Events for one page, in order.
pub struct Feed {
    board: Board,
    /// Number of the last row that the page has.
    row: Option<u64>,
    version: Option<u64>,
}

impl Feed {
    pub(crate) fn new(board: Board, row: Option<u64>) -> Self {
        Self {
            board,
            row,
            version: None,
        }
    }

    /// Adds new events. Returns whether the last event was among them.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>) -> bool {
        let version = self.board.version();
        if self.version == Some(version) {
            return false;
        }
        // Writing to a Vec does not fail.
        if self.version.is_none() {
            let _ = write!(out, "retry: 1000\n\n");
        }
        self.version = Some(version);
        let state = self.board.newest();
        let points = self.board.points_after(self.row);
        if let Some(last) = points.last() {
            self.row = Some(last.last);
            let rows: Vec<Value> = points.iter().map(point).collect();
            let _ = write!(out, "id: {}\nevent: rows\ndata: {}\n\n", last.last, Value::Array(rows));
        }
        let _ = write!(out, "event: state\ndata: {}\n\n", of_state(&state));
        if let Some(end) = state.end.as_ref().filter(|_| state.ended()) {
            let _ = write!(out, "event: end\ndata: {end}\n\n");
        }
        state.ended()
    }
}

/// Returns the numbers of a point, in the order that `live.js` expects.
fn point(of: &Point) -> Value {
    let seconds = of.length_ns.max(1) as f64 / 1e9;
    json!([
        of.first,
        of.last,
        of.trial,
        of.start_ns as f64 / 1e9,
        seconds,
        of.tx,
        of.rx,
        of.lost,
        of.late,
        of.missed,
        of.dropped,
        of.wait_ns,
        of.intended_pps,
        of.tx_pps[0],
        of.tx_pps[1],
        of.latency[0],
        of.latency[1],
        of.latency[2],
        of.latency[3],
    ])
}

fn of_latency(of: Option<&Latency>) -> Value {
    of.map_or(Value::Null, |of| {
        let percentile = |pick: fn(&mpps_stats::Percentiles) -> u64| of.percentiles.as_ref().map(pick);
        json!({
            "p50": percentile(|p| p.p50),
            "p99": percentile(|p| p.p99),
            "p999": percentile(|p| p.p999),
            "mean": of.mean,
            "max": of.max,
        })
    })
}

/// Returns the streams and the groups, of each kind as many as the page has lines for; the rest is summed.
fn streams(all: &[StreamCounts]) -> Vec<Value> {
    let mut lines = Vec::new();
    for (kind, word) in [(StreamKind::Stream, ""), (StreamKind::Group, "group ")] {
        let of_kind: Vec<&StreamCounts> = all.iter().filter(|of| of.kind == kind).collect();
        let (shown, rest) = of_kind.split_at(of_kind.len().min(MOST_STREAMS));
        lines.extend(shown.iter().map(|of| {
            let name = format!("{word}{}", of.name);
            let (mean, max) = (of.recent.map(|of| of.mean), of.recent.map(|of| of.max));
            json!([name, of.tx_pps, of.rx_pps, of.recent_loss, of.lost, mean, max])
        }));
        if !rest.is_empty() {
            let sum = |of: fn(&StreamCounts) -> f64| rest.iter().map(|one| of(one)).sum::<f64>();
            let (sent, lost) = (sum(|of| of.tx_pps), rest.iter().map(|of| of.lost).sum::<i64>());
            let loss = (sent > 0.0).then(|| sum(|of| of.tx_pps * of.recent_loss) / sent);
            let name = format!("{word}and {} more", rest.len());
            lines.push(json!([name, sent, sum(|of| of.rx_pps), loss, lost, null, null]));
        }
    }
    lines
}

fn of_state(state: &State) -> Value {
    let (about, of) = (&state.about, &state.of_trial);
    json!({
        "version": about.version,
        "workload": about.workload,
        "device": about.device,
        "path": about.path,
        "command": about.command,
        "sends": state.start.workload.generates(),
        "receives": state.start.workload != mpps_stats::Workload::Send,
        "phase": state.phase.name(),
        "ended": state.ended(),
        "valid": state.valid,
        "against": state.against(),
        "trial": state.trial,
        "single": about.single,
        "trial_about": state.trial_about.as_ref().map(|about| json!({
            "phase": about.phase,
            "frame_size": about.frame_size,
            "load_pps": about.load_pps,
        })),
        "goals": state.goals.iter().map(|goal| json!([
            goal.name, goal.frame_size, goal.lower, goal.upper,
        ])).collect::<Vec<_>>(),
        "elapsed_ns": state.elapsed_ns,
        "planned_ns": state.planned_ns,
        "closed_ns": state.closed_ns,
        "intended_pps": state.start.intended_at(state.elapsed_ns),
        "tx": of.tx,
        "rx": of.rx,
        "tx_pps": state.tx_pps,
        "rx_pps": state.rx_pps,
        "settled_tx": of.settled_tx,
        "settled_lost": of.settled_lost,
        "recent_loss": state.recent_loss,
        "faults": FAULTS.iter().zip(of.faults).map(|(fault, packets)| (fault.word(), packets)).collect::<Vec<_>>(),
        "host_dropped": of.host_dropped,
        "host_wait_ns": of.host_wait_ns,
        "latency": of_latency(state.recent.as_ref()),
        "scheduled": of_latency(state.recent_scheduled.as_ref()),
        "lanes": state.lanes.iter().map(|lane| json!([
            lane.queue, lane.tx, lane.rx, lane.busy, lane.dropped, lane.refused, lane.not_running_ns, lane.down,
        ])).collect::<Vec<_>>(),
        "ways": state.tracks.iter().map(|way| json!([
            way.name, way.tx_pps, way.rx_pps, way.closed_tx, way.closed_lost,
        ])).collect::<Vec<_>>(),
        "streams": streams(state.streams.all()),
        "notes": state.notes.iter().map(|note| note.as_ref()).collect::<Vec<&str>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(feed: &mut Feed) -> (String, bool) {
        let mut out = Vec::new();
        let over = feed.put(&mut out);
        (String::from_utf8(out).expect("text"), over)
    }

    #[test]
    fn streams_that_have_no_line_are_summed() {
        let of: Vec<_> = (0..40).map(|n| (StreamKind::Stream, format!("s{n}"))).collect();
        let of = [of, vec![(StreamKind::Group, "all".to_owned())]].concat();
        let row = mpps_stats::Row {
            length_ns: 1_000_000_000,
            tx: 10,
            rx: 9,
            lost: 1,
            ..Default::default()
        };
        let rows = vec![row; of.len()];
        let mut sums = crate::streams::StreamSums::default();
        sums.add(&mpps_stats::StreamRows { of: &of, rows: &rows });
        let lines = streams(sums.all());
        assert_eq!(lines.len(), MOST_STREAMS + 2);
        assert_eq!(lines[0], json!(["s0", 10.0, 9.0, 0.1, 1, null, null]));
        assert_eq!(
            lines[MOST_STREAMS],
            json!(["and 8 more", 80.0, 72.0, 0.1, 8, null, null])
        );
        assert_eq!(lines[MOST_STREAMS + 1][0], "group all");
    }

    fn added(board: &Board, number: u64) {
        let row = mpps_stats::Row {
            length_ns: 100_000_000,
            tx: 1,
            ..Default::default()
        };
        board.add(&mut vec![Point::of(&row, number, (1, 0), None)]);
        board.publish(&State::default());
    }

    #[test]
    fn a_stream_gives_each_row_once_and_goes_on_where_it_was() {
        let board = Board::default();
        added(&board, 1);
        let mut feed = Feed::new(board.clone(), None);
        let (first, over) = text(&mut feed);
        assert!(
            first.starts_with("retry: 1000\n\nid: 1\nevent: rows\ndata: [[1,1,") && !over,
            "{first}"
        );
        assert!(
            first.contains("\n\nevent: state\ndata: {") && first.ends_with("}\n\n"),
            "{first}"
        );
        assert_eq!(text(&mut feed), (String::new(), false));
        added(&board, 2);
        assert!(text(&mut feed).0.starts_with("id: 2\nevent: rows\ndata: [[2,2,"));
        let (resumed, _) = text(&mut Feed::new(board.clone(), Some(1)));
        assert!(resumed.contains("[[2,2,") && !resumed.contains("[1,1,"), "{resumed}");
        let end = State {
            phase: crate::state::Phase::Ended,
            end: Some(json!({"valid": true, "note": "a\nb"}).into()),
            ..State::default()
        };
        board.publish(&end);
        let (last, over) = text(&mut feed);
        assert!(
            over && last.ends_with("event: end\ndata: {\"valid\":true,\"note\":\"a\\nb\"}\n\n"),
            "{last}"
        );
    }

    #[test]
    fn the_page_names_no_other_host_and_has_nothing_inline() {
        for name in ["", "live.css", "live.js", "charts.js"] {
            let (_, text) = file(name).expect("a file");
            for forbidden in ["http:", "https:", "innerHTML", "eval(", " style=", "onclick"] {
                assert!(!text.contains(forbidden), "{name}: {forbidden}");
            }
        }
        let (_, html) = file("").expect("the page");
        assert!(!html.contains("<style") && html.matches("<script").count() == html.matches("<script src=").count());
    }
}
