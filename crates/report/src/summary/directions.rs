//! Two directions and their sum, side by side: the counts and the latencies.

use super::text::{Heads, Page, fold, sentence, table};
use super::when;
use super::{Colour, Detail, headline};
use crate::units::{count, percent, pps, time};
use mpps_stats::Summary;
use std::io;

/// Cells of a row of the table.
type Row = Vec<String>;

/// Prints one column each for the directions and for their sum `all`.
pub(super) fn side_by_side(all: &Summary, detail: Detail, out: &mut Page<'_>) -> io::Result<()> {
    let columns: Vec<&Summary> = all.directions.iter().map(|way| &way.summary).chain([all]).collect();
    let row = |name: &str, cell: &dyn Fn(&Summary) -> String| row(&columns, name, cell);
    let names = all.directions.iter().map(|way| way.name.to_owned());
    let heads = [String::new()]
        .into_iter()
        .chain(names)
        .chain(["sum".to_owned()])
        .collect();
    let mut rows: Vec<Row> = vec![heads];
    if all.tells_rate() {
        rows.extend(rates(&columns));
    }
    rows.push(row("packets sent", &|s| count(s.tx)));
    // If each packet either came back or was lost, the number received needs no row.
    if detail == Detail::Full || columns.iter().any(|s| s.tx != s.rx + s.lost) {
        rows.push(row("packets received", &|s| count(s.rx)));
    }
    rows.push(row("lost", &|s| {
        format!("{} ({})", count(s.lost), percent(s.loss_ratio))
    }));
    let mut nowhere: Vec<String> = Vec::new();
    let mut some = |name: &'static str, of: fn(&Summary) -> u64| match columns.iter().any(|s| of(s) > 0) {
        true => rows.push(row(name, &|s| count(of(s)))),
        false => nowhere.push(name.to_owned()),
    };
    some("late", |s| s.late);
    some("duplicate", |s| s.duplicates);
    some("reordered", |s| s.reordered);
    some("corrupt", |s| s.corrupt);
    some("foreign", |s| s.foreign);
    if all.intended_pps.is_some() {
        some("missed", |s| s.missed);
    }
    let dropped = |s: &Summary| s.lanes.iter().map(|lane| lane.rx_dropped).sum();
    if dropped(all) > 0 {
        rows.push(row("dropped by this host", &|s| count(dropped(s))));
    }
    if all.latency.count > 0 {
        rows.extend(latencies(&columns));
    }
    // The verdict of the whole run stands below. If all verdicts are the same, it is that of each direction too.
    let verdict = |s: &Summary| headline::headline(s, Colour::Never);
    if detail == Detail::Full || columns.iter().any(|s| verdict(s) != verdict(all)) {
        rows.push(row("verdict", &verdict));
    }
    let align = ["l"].into_iter().chain(columns.iter().map(|_| "r")).collect::<String>();
    table(&rows, &align, Heads::Named, out)?;
    if !nowhere.is_empty() {
        nowhere[0] = format!("none {}", nowhere[0]);
        fold(nowhere, ", ", "  ", out)?;
    }
    let most = if detail == Detail::Full { usize::MAX } else { 2 };
    for way in &all.directions {
        if let Some(mut parts) = when::lost(&way.summary, most) {
            parts[0] = format!("{}: {}", way.name, parts[0].trim_start());
            fold(parts, ", ", "  ", out)?;
        }
    }
    if detail == Detail::Full {
        sentence("latency:", &all.latency_note, "  ", out)?;
    }
    Ok(())
}

/// Returns a row: a name, and a cell of each column.
fn row(columns: &[&Summary], name: &str, cell: &dyn Fn(&Summary) -> String) -> Row {
    let cells = columns.iter().map(|summary| cell(summary));
    [name.to_owned()].into_iter().chain(cells).collect()
}

/// Returns the rows of the rates.
fn rates(columns: &[&Summary]) -> Vec<Row> {
    let mut rows = Vec::new();
    if columns.last().is_some_and(|sum| sum.intended_pps.is_some()) {
        rows.push(row(columns, "intended", &|s| {
            s.intended_pps.map_or_else(String::new, pps)
        }));
    }
    rows.push(row(columns, "offered", &|s| match s.share_of_due(s.tx) {
        // A rate that is as intended to three decimals, by which a trial is judged, has no share beside it.
        Some(share) => match format!("{:.3} %", share * 100.0) {
            share if share == "100.000 %" => pps(s.offered_pps),
            share => format!("{} ({share})", pps(s.offered_pps)),
        },
        _ => pps(s.offered_pps),
    }));
    rows.push(row(columns, "received", &|s| pps(s.received_pps)));
    rows
}

/// Returns the rows of the latencies.
fn latencies(columns: &[&Summary]) -> Vec<Row> {
    let of = |get: fn(&mpps_stats::Percentiles) -> u64| {
        move |s: &Summary| match s.latency.percentiles.as_ref().filter(|_| s.latency.count > 0) {
            Some(percentiles) => time(get(percentiles) as f64),
            None => "-".to_owned(),
        }
    };
    vec![
        row(columns, "latency p50", &of(|p| p.p50)),
        row(columns, "latency p99", &of(|p| p.p99)),
        row(columns, "latency p99.9", &of(|p| p.p999)),
        row(columns, "latency max", &|s| match s.latency.count {
            0 => "-".to_owned(),
            _ => time(s.latency.max as f64),
        }),
    ]
}
