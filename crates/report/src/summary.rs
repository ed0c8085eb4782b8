//! The summary for people: the verdict first, then what an engineer asks next.

use crate::json::{layer1_bps, share, workload};
use crate::units::{count, elapsed, percent, pps, si, time};
use mpps_stats::{LaneSummary, Latency, Summary, Workload};
use std::io::{self, IsTerminal, Write};

/// Whether text may be coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// No escape sequences.
    Never,
    /// ANSI colours.
    Always,
}

impl Colour {
    /// Colour for a terminal, unless `NO_COLOR` is set (no-color.org) or the terminal is dumb.
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if stream.is_terminal() && !set("NO_COLOR") && !dumb {
            Self::Always
        } else {
            Self::Never
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Never => text.to_owned(),
            Self::Always => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

/// Prints the summary of a run: a verdict, rates, counts, latency, lanes, the host, notes.
///
/// # Errors
/// When `out` can't be written.
pub fn print_summary(s: &Summary, colour: Colour, out: &mut dyn Write) -> io::Result<()> {
    verdict(s, colour, out)?;
    rates(s, out)?;
    packets(s, colour, out)?;
    latency(s, out)?;
    lanes(s, out)?;
    if !s.reasons.is_empty() {
        let reasons: Vec<_> = s
            .reasons
            .iter()
            .map(|(why, n)| format!("{why} {}", count(*n)))
            .collect();
        writeln!(out, "\nnot handled  {}", reasons.join(", "))?;
    }
    if !s.host.is_empty() {
        writeln!(out)?;
        let rows = s
            .host
            .iter()
            .map(|(name, value)| vec![name.clone(), value.clone()])
            .collect::<Vec<_>>();
        table(&rows, "ll", out)?;
    }
    if !s.warnings.is_empty() {
        writeln!(out)?;
        for warning in &s.warnings {
            writeln!(out, "{} {warning}", colour.paint("33", "note:"))?;
        }
    }
    Ok(())
}

fn verdict(s: &Summary, colour: Colour, out: &mut dyn Write) -> io::Result<()> {
    let ended = if s.interrupted { ", ended early" } else { "" };
    let what = format!("{}, {}{ended}", workload(s.workload), elapsed(s.duration_ns));
    if s.valid {
        return writeln!(out, "{}  {what}\n", colour.paint("1;32", "VALID"));
    }
    let reasons = if s.invalid_reasons.is_empty() {
        String::new()
    } else {
        s.invalid_reasons.join("; ")
    };
    writeln!(out, "{}: {reasons}  ({what})\n", colour.paint("1;31", "NOT VALID"))
}

fn rates(s: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let row = |name: &str, rate: f64, packets: u64| {
        let layer1 = layer1_bps(rate, s.frame_size).map_or_else(String::new, |bps| si(bps, "bps L1"));
        let share = match s.intended_pps {
            // Three decimals: a trial is judged by 0.1 %.
            Some(intended) if intended > 0.0 => format!("{:.3} %", rate / intended * 100.0),
            _ => String::new(),
        };
        vec![
            name.to_owned(),
            pps(rate),
            layer1,
            share,
            format!("{} packets", count(packets)),
        ]
    };
    let mut rows = Vec::new();
    if let Some(intended) = s.intended_pps {
        rows.push(row(
            "intended",
            intended,
            (intended * s.duration_ns as f64 / 1e9).round() as u64,
        ));
    }
    match s.workload {
        Workload::SendRecv => rows.extend([
            row("offered", s.offered_pps, s.tx),
            row("received", s.received_pps, s.rx),
        ]),
        Workload::Send => rows.push(row("offered", s.offered_pps, s.tx)),
        Workload::Drop => rows.push(row("received", s.received_pps, s.rx)),
        Workload::Reflect => rows.extend([
            row("received", s.received_pps, s.rx),
            row("reflected", s.offered_pps, s.tx),
        ]),
    }
    table(&rows, "lrrrr", out)
}

fn packets(s: &Summary, colour: Colour, out: &mut dyn Write) -> io::Result<()> {
    let mut parts = Vec::new();
    if matches!(s.workload, Workload::SendRecv | Workload::Drop) {
        let lost = format!("lost {} ({})", count(s.lost), percent(s.loss_ratio));
        parts.push(if s.lost > 0 { colour.paint("31", &lost) } else { lost });
        if s.workload == Workload::SendRecv {
            parts.push(format!("late {}", count(s.late)));
        }
        parts.push(format!("duplicate {}", count(s.duplicates)));
        let distance = s.reorder_distance;
        let how_far = match s.reordered {
            0 => String::new(),
            _ => format!(" (by {:.1} on average, {} at most)", distance.mean, count(distance.max)),
        };
        parts.push(format!("reordered {}{how_far}", count(s.reordered)));
        parts.push(format!("corrupt {}", count(s.corrupt)));
    }
    if s.workload != Workload::Send {
        parts.push(format!("foreign {}", count(s.foreign)));
    }
    if matches!(s.workload, Workload::SendRecv | Workload::Send) && s.intended_pps.is_some() {
        parts.push(format!("missed {}", count(s.missed)));
    }
    if parts.is_empty() {
        Ok(())
    } else {
        writeln!(out, "\n{}", parts.join("   "))
    }
}

fn latency(s: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = Vec::new();
    let mut push = |name: &str, l: &Latency| {
        if l.count > 0 {
            let percentile = |p: Option<u64>| p.map_or_else(|| "-".to_owned(), |ns| time(ns as f64));
            let p = l.percentiles;
            let (min, mean, max) = (time(l.min as f64), time(l.mean), time(l.max as f64));
            let [p50, p90, p99, p999] =
                [p.map(|p| p.p50), p.map(|p| p.p90), p.map(|p| p.p99), p.map(|p| p.p999)].map(percentile);
            rows.push(vec![name.to_owned(), min, mean, p50, p90, p99, p999, max]);
        }
    };
    push("latency from sending", &s.latency);
    if let Some(scheduled) = &s.latency_scheduled {
        push("latency from schedule", scheduled);
    }
    if let Some(gaps) = &s.gaps {
        push("gap between departures", &gaps.measured);
    }
    if !rows.is_empty() {
        let names = ["", "min", "mean", "p50", "p90", "p99", "p99.9", "max"];
        rows.insert(0, names.map(str::to_owned).to_vec());
        writeln!(out)?;
        table(&rows, "lrrrrrrr", out)?;
    }
    if let Some(gaps) = s.gaps.as_ref().filter(|gaps| gaps.intended_mean > 0.0) {
        writeln!(out, "intended gap {} on average", time(gaps.intended_mean))?;
    }
    if s.latency_note.is_empty() {
        Ok(())
    } else {
        writeln!(out, "{}", s.latency_note)
    }
}

fn lanes(s: &Summary, out: &mut dyn Write) -> io::Result<()> {
    if s.lanes.is_empty() {
        return Ok(());
    }
    let total = |of: fn(&LaneSummary) -> u64| s.lanes.iter().map(of).sum::<u64>();
    let (rx, tx) = (total(|l| l.rx_packets), total(|l| l.tx_packets));
    let names = [
        "lane",
        "queue",
        "core",
        "sent",
        "share",
        "burst",
        "received",
        "share",
        "burst",
        "empty polls",
        "waits",
        "kernel drops",
        "refused",
        "not running",
    ];
    let mut rows = vec![names.map(str::to_owned).to_vec()];
    let dash = || "-".to_owned();
    for l in &s.lanes {
        let side = |role, packets, whole, bursts| match role {
            false => [dash(), dash(), dash()],
            true => [
                count(packets),
                format!("{:.1} %", share(packets, whole) * 100.0),
                mean(packets, bursts),
            ],
        };
        let mut row = vec![
            l.lane.to_string(),
            l.queue.to_string(),
            l.core.map_or_else(dash, |c| c.to_string()),
        ];
        row.extend(side(l.tx_role, l.tx_packets, tx, l.tx_bursts));
        row.extend(side(l.rx_role, l.rx_packets, rx, l.rx_bursts));
        row.extend([
            count(l.rx_empty_polls),
            count(l.waits),
            count(l.rx_dropped),
            count(l.tx_failed),
        ]);
        row.push(l.run_delay_ns.map_or_else(dash, |ns| time(ns as f64)));
        rows.push(row);
    }
    writeln!(out)?;
    table(&rows, "rrrrrrrrrrrrrr", out)?;
    for l in s
        .lanes
        .iter()
        .filter(|l| !l.path_counters.is_empty() || l.preempted.is_some_and(|n| n > 0))
    {
        let mut parts: Vec<_> = l
            .path_counters
            .iter()
            .map(|(name, n)| format!("{name} {}", count(*n)))
            .collect();
        parts.extend(
            l.preempted
                .filter(|n| *n > 0)
                .map(|n| format!("preempted {} times", count(n))),
        );
        writeln!(out, "lane {}: {}", l.lane, parts.join(", "))?;
    }
    Ok(())
}

fn mean(packets: u64, bursts: u64) -> String {
    if bursts == 0 {
        "-".to_owned()
    } else {
        format!("{:.1}", packets as f64 / bursts as f64)
    }
}

/// Prints rows in columns, two blanks apart; `align` has `l` or `r` for each column. Columns that are empty in every
/// row are left out.
fn table(rows: &[Vec<String>], align: &str, out: &mut dyn Write) -> io::Result<()> {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|c| c.chars().count())
            .max()
    };
    let columns: Vec<_> = align
        .chars()
        .enumerate()
        .filter_map(|(i, a)| Some((i, a, width(i).filter(|w| *w > 0)?)))
        .collect();
    for row in rows {
        let mut line = String::new();
        for (position, &(i, align, width)) in columns.iter().enumerate() {
            let cell = row.get(i).map_or("", String::as_str);
            let gap = if position == 0 { "" } else { "  " };
            line += gap;
            line += &if align == 'l' {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
