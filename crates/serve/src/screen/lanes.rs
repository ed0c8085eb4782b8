//! The third tab: each lane, and the lanes' time by stage.

use super::look::{Look, bar, plain, styled};
use super::table::{Field, none, rows};
use crate::state::{LaneState, State};
use mpps_report::units::{count, percent, pps, time};
use mpps_trace::Stage;
use ratatui_core::text::{Line, Span};

/// Columns of a stage's name and share.
const TEXT: usize = 20;

/// Most important columns first: a narrow terminal shows only these.
const FIELDS: [Field<(usize, LaneState)>; 9] = [
    ("lane", 4, |(number, _)| number.to_string()),
    ("sent", 11, |(_, lane)| pps(lane.tx_pps)),
    ("received", 11, |(_, lane)| pps(lane.rx_pps)),
    ("busy", 9, |(_, lane)| whole(lane.busy)),
    ("rx rings", 9, |(_, lane)| lane.fill.map_or_else(none, percent)),
    ("dropped", 11, |(_, lane)| lane.dropped.map_or_else(none, count)),
    ("not run", 10, |(_, lane)| {
        lane.not_running_ns.map_or_else(none, |ns| time(ns as f64))
    }),
    ("refused", 11, |(_, lane)| count(lane.refused)),
    ("queue", 6, |(_, lane)| lane.queue.to_string()),
];

fn whole(share: Option<f64>) -> String {
    share.map_or_else(none, |share| format!("{:.0} %", share * 100.0))
}

pub(crate) fn lines(state: &State, columns: usize, look: Look) -> Vec<Line<'static>> {
    let mut lines = table(state, columns, look);
    lines.push(Line::default());
    lines.push(styled("what lanes did in the last second", look.head()));
    let any = state.stages.iter().any(|share| *share > 0.0);
    if !any {
        lines.push(plain("not known: the kernel runs them, or none has run long enough"));
        return lines;
    }
    let mut stages: Vec<_> = Stage::ALL.into_iter().zip(state.stages).collect();
    stages.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (stage, share) in stages {
        if share > 0.0 {
            let text = format!("{:<12}{:>6.1} % ", stage.name(), share * 100.0);
            let room = columns.saturating_sub(TEXT + 1).min(60);
            lines.push(Line::from(vec![
                Span::raw(text),
                Span::styled(bar(share, room), look.bar()),
            ]));
        }
    }
    let highest = state.lanes.iter().map(|lane| lane.highest_fill).fold(0.0, f64::max);
    if highest > 0.0 {
        lines.push(Line::default());
        lines.push(plain(format!(
            "fullest receive ring of late: {} taken",
            percent(highest)
        )));
    }
    lines
}

fn table(state: &State, columns: usize, look: Look) -> Vec<Line<'static>> {
    if state.lanes.is_empty() {
        return vec![plain("no lane has been read yet")];
    }
    let lanes: Vec<(usize, LaneState)> = state.lanes.iter().copied().enumerate().collect();
    let (head, rows) = rows(&FIELDS, &lanes.iter().collect::<Vec<_>>(), columns);
    let mut lines = vec![styled(head, look.head())];
    for (lane, row) in state.lanes.iter().zip(rows) {
        let line = plain(row);
        lines.push(match lane.down || lane.dropped.is_some_and(|dropped| dropped > 0) {
            true => line.style(look.bad()),
            false => line,
        });
    }
    lines
}
