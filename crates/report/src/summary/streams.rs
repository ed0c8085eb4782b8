//! Tables of streams, groups and sizes of frames, and why streams are not valid.

use super::Colour;
use super::text::{COLUMNS, Heads, Page, sentence, table, width};
use crate::units::{count, percent, pps, time};
use mpps_stats::{Percentiles, StreamSummary, Summary, Workload};
use std::io::{self, Write};

/// Most rows of a table. A run may have thousands of streams.
const MOST_ROWS: usize = 16;
/// Most reasons that are printed.
const MOST_REASONS: usize = 8;
/// Most letters of a name in a table.
const LONGEST_NAME: usize = 40;
/// Mark of what is not valid, in the tables and before its reasons.
const MARK: &str = "!";

/// Prints the results of each stream, group and size, if there are several of one of them: else they are those of the
/// run.
pub(super) fn streams(s: &Summary, colour: Colour, out: &mut Page<'_>) -> io::Result<()> {
    if s.streams.len() < 2 && s.sizes.is_empty() {
        return Ok(());
    }
    if s.streams.len() > 1 {
        let group = |of: &StreamSummary| of.group.clone().unwrap_or_default();
        part(s, &s.streams, ["stream", "group"], &group, out)?;
        part(s, &s.groups, ["group", "streams"], &|of| count(of.streams as u64), out)?;
    }
    part(s, &s.sizes, ["size", ""], &|_| String::new(), out)?;
    reasons(&s.streams, colour, out)
}

/// Prints one table. `heads` are the names of its first two columns; `second` gives the cells of the latter.
fn part(
    s: &Summary,
    all: &[StreamSummary],
    heads: [&str; 2],
    second: &dyn Fn(&StreamSummary) -> String,
    out: &mut Page<'_>,
) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let shown = chosen(all);
    let (sends, receives) = (s.workload != Workload::Drop, s.workload != Workload::Send);
    let head = |name: &str, there: bool| if there { name.to_owned() } else { String::new() };
    let is_size = heads[0] == "size";
    let mut rows = vec![vec![
        String::new(),
        heads[0].to_owned(),
        head(heads[1], shown.iter().any(|of| !second(of).is_empty())),
        head("size", !is_size),
        head("offered", sends),
        head("received", receives),
        head("lost", receives),
        head("p50", receives),
        head("p99", receives),
    ]];
    let rate = |pps_of: f64| if s.tells_rate() { pps(pps_of) } else { "-".to_owned() };
    for of in &shown {
        let cell = |there: bool, cell: &dyn Fn() -> String| if there { cell() } else { String::new() };
        rows.push(vec![
            cell(!of.valid, &|| MARK.to_owned()),
            short(&of.name),
            second(of),
            cell(!is_size, &|| bytes(of.frame_size)),
            cell(sends, &|| rate(of.offered_pps)),
            cell(receives, &|| known(of, rate(of.received_pps))),
            cell(receives, &|| known(of, lost(of))),
            cell(receives, &|| percentile(of, |p| p.p50)),
            cell(receives, &|| percentile(of, |p| p.p99)),
        ]);
    }
    // A stream's group is in the JSON, too.
    if heads[1] == "group" && out.columns >= COLUMNS && width(&rows) > out.columns {
        rows.iter_mut().for_each(|row| row[2].clear());
    }
    writeln!(out)?;
    let align = if heads[1] == "streams" {
        "llrrrrrrr"
    } else {
        "lllrrrrrr"
    };
    table(&rows, align, Heads::Named, out)?;
    let (more, lossy) = (all.len() - shown.len(), all.iter().filter(|of| of.lost > 0).count());
    if more == 0 {
        return Ok(());
    }
    // Those with most loss are shown.
    let lossy = match lossy.saturating_sub(shown.len()) {
        0 => "none of which lost packets".to_owned(),
        n => format!("of which {} lost packets", count(n as u64)),
    };
    let name = heads[0];
    let more = format!(
        "{} more {name}s, {lossy}: {name}s in the JSON (--json FILE)",
        count(more as u64)
    );
    sentence("", &more, "  ", out)
}

/// Returns those that are shown: all in their order, or of many those with most loss, then those that are not valid.
fn chosen(all: &[StreamSummary]) -> Vec<&StreamSummary> {
    let mut shown: Vec<_> = all.iter().collect();
    if all.len() > MOST_ROWS {
        shown.sort_by(|a, b| b.loss_ratio.total_cmp(&a.loss_ratio).then(a.valid.cmp(&b.valid)));
        shown.truncate(MOST_ROWS);
    }
    shown
}

/// Prints why streams are not valid.
fn reasons(all: &[StreamSummary], colour: Colour, out: &mut Page<'_>) -> io::Result<()> {
    let mut reasons = all
        .iter()
        .filter(|of| !of.valid)
        .flat_map(|of| of.invalid_reasons.iter().map(|reason| (&of.name, &reason.sentence)));
    for (at, (name, reason)) in reasons.by_ref().take(MOST_REASONS).enumerate() {
        if at == 0 {
            writeln!(out)?;
        }
        let mark = colour.paint("31", MARK);
        sentence(&mark, &format!("{name}: {reason}"), "  ", out)?;
    }
    match reasons.count() {
        0 => Ok(()),
        more => writeln!(out, "and {} more", count(more as u64)),
    }
}

/// Returns a name that a table has room for.
fn short(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        None => name.to_owned(),
        Some(_) => name.chars().take(LONGEST_NAME - 1).chain(['…']).collect(),
    }
}

/// Returns a cell on packets that came, if that is known.
fn known(of: &StreamSummary, cell: String) -> String {
    if of.is_untagged() { "not known".to_owned() } else { cell }
}

/// Returns a mean length of frames, bytes.
fn bytes(of: f64) -> String {
    match of.fract() {
        0.0 => format!("{of:.0}"),
        _ => format!("{of:.1}"),
    }
}

fn lost(of: &StreamSummary) -> String {
    match of.lost {
        0 => "0".to_owned(),
        lost => format!("{} ({})", count(lost), percent(of.loss_ratio)),
    }
}

fn percentile(of: &StreamSummary, ns: fn(&Percentiles) -> u64) -> String {
    let percentiles = of.latency.percentiles.filter(|_| of.latency.count > 0);
    percentiles.map_or_else(|| "-".to_owned(), |p| time(ns(&p) as f64))
}
