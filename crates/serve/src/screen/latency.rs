//! The second tab: percentiles of the run so far, and the number of packets per range of latency.

use super::look::{Look, Pane, bar, plain, styled};
use crate::spread::Spread;
use crate::state::State;
use mpps_report::units::{count, percent, time};
use mpps_stats::Latency;
use ratatui_core::text::{Line, Span};

const PERCENTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
];
/// Columns of a histogram's line before its bar.
const TEXT: usize = 32;

pub(crate) fn draw(pane: &mut Pane<'_>, state: &State, look: Look) {
    let spread = &state.latency_spread;
    if spread.count == 0 {
        pane.line(&plain("no latency yet: packets that come back tell it"));
        return;
    }
    // In a low terminal the histogram has at least a third of the rows.
    let rows = pane.rows();
    let table = table(state, look);
    pane.lines(&table[..table.len().min(rows.saturating_sub(rows / 3))], 0);
    if rows > table.len() + 6 {
        pane.line(&Line::default());
    }
    histogram(pane, spread, look);
}

fn table(state: &State, look: Look) -> Vec<Line<'static>> {
    let all = [
        ("from sending", &state.latency_spread),
        ("as scheduled", &state.scheduled_spread),
        ("to arrival", &state.arrival_spread),
        ("wake-up", &state.wake_up_spread),
    ];
    let spreads = || all.iter().filter(|(_, spread)| spread.count > 0);
    let row = |name: &str, cells: Vec<String>, newest: String| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>13}")).collect();
        plain(format!("{name:<8}{cells}{newest:>13}"))
    };
    let names = spreads().map(|(name, _)| (*name).to_owned()).collect();
    let mut lines = vec![row("", names, "newest row".to_owned()).style(look.head())];
    let told = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| time(ns as f64));
    for (name, part) in PERCENTILES {
        // With fewer packets this percentile would just be the largest value.
        let of = |spread: &Spread| {
            let enough = spread.count as f64 * (1.0 - part) >= 1.0;
            spread.at(part).filter(|_| enough)
        };
        let cells = spreads().map(|(_, spread)| told(of(spread))).collect();
        lines.push(row(name, cells, told(newest(state.recent, name))));
    }
    let max = |spread: &Spread| (spread.count > 0).then_some(spread.max);
    let newest = state.recent.map(|latency| latency.max);
    let cells = spreads().map(|(_, spread)| told(max(spread))).collect();
    lines.push(row("max", cells, told(newest)));
    let packets = state.recent.map_or(0, |latency| latency.count);
    let cells = spreads().map(|(_, spread)| count(spread.count)).collect();
    lines.push(row("packets", cells, count(packets)));
    lines
}

fn newest(latency: Option<Latency>, name: &str) -> Option<u64> {
    let p = latency?.percentiles?;
    match name {
        "p50" => Some(p.p50),
        "p90" => Some(p.p90),
        "p99" => Some(p.p99),
        "p99.9" => Some(p.p999),
        _ => None,
    }
}

fn histogram(pane: &mut Pane<'_>, spread: &Spread, look: Look) {
    let heads = usize::from(pane.rows() > 4);
    let parts = spread.parts(pane.rows() - heads.min(pane.rows()));
    if heads > 0 {
        pane.line(&styled("     up to      share      so far", look.head()));
    }
    let most = parts.iter().map(|(_, packets)| *packets).max().unwrap_or(0);
    let mut seen = 0;
    for (end, packets) in parts {
        seen += packets;
        let share = packets as f64 / spread.count as f64;
        let told = match packets {
            0 => String::new(),
            _ => percent(share),
        };
        let text = format!(
            "{:>10} {told:>10} {:>10} ",
            time(if end == u64::MAX { spread.max } else { end } as f64),
            percent(seen as f64 / spread.count as f64)
        );
        let room = pane.columns().saturating_sub(TEXT + 2);
        pane.line(&Line::from(vec![
            Span::raw(text),
            Span::styled(bar(packets as f64 / most.max(1) as f64, room), look.bar()),
        ]));
    }
}
