//! The tab of streams: packets of each stream and group.

use super::look::{Look, plain, styled};
use super::table::{Field, none, rows};
use crate::state::State;
use crate::streams::StreamCounts;
use mpps_report::units::{count, percent, pps, time};
use mpps_stats::{Latency, StreamKind};
use ratatui_core::text::Line;

/// Columns after that of the name, the most important first.
const FIELDS: [Field<StreamCounts>; 7] = [
    ("sent", 11, |of| pps(of.tx_pps)),
    ("received", 11, |of| pps(of.rx_pps)),
    ("lost", 9, |of| percent(of.recent_loss)),
    ("lost so far", 12, |of| count(of.lost.max(0).cast_unsigned())),
    ("mean", 10, |of| latency(of, |latency| latency.mean)),
    ("max", 10, |of| latency(of, |latency| latency.max as f64)),
    ("sent so far", 15, |of| count(of.tx)),
];
/// Most columns of a name.
const NAME: usize = 24;

fn latency(of: &StreamCounts, pick: fn(&Latency) -> f64) -> String {
    of.recent.as_ref().map_or_else(none, |latency| time(pick(latency)))
}

pub(crate) fn lines(state: &State, columns: usize, look: Look) -> Vec<Line<'static>> {
    let all = state.streams.all();
    let mut lines = Vec::new();
    for (kind, heading) in [(StreamKind::Stream, "stream"), (StreamKind::Group, "group")] {
        let of_kind: Vec<&StreamCounts> = all.iter().filter(|of| of.kind == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        let longest = of_kind.iter().map(|of| of.name.chars().count()).max().unwrap_or(0);
        let wide = longest.max(heading.len()).min(NAME);
        let first = |name: &str| format!("{:<wide$}", name.chars().take(wide).collect::<String>());
        let (head, cells) = rows(&FIELDS, &of_kind, columns.saturating_sub(wide));
        lines.push(styled(format!("{} {head}", first(heading)), look.head()));
        for (of, cells) in of_kind.into_iter().zip(cells) {
            let line = plain(format!("{} {cells}", first(&of.name)));
            lines.push(match of.lost > 0 {
                true => line.style(look.lost()),
                false => line,
            });
        }
    }
    if !all.is_empty() && all.iter().all(|of| of.kind == StreamKind::Group) {
        lines.push(plain("of so many streams only groups are shown"));
    }
    lines
}
