//! The lanes: in brief their cost over all, in full a table of each.

use super::text::{Heads, Page, fold, table};
use crate::json::{ASSUMED, share};
use crate::units::{count, pps, time};
use mpps_stats::{LaneSummary, Summary};
use std::io::{self, Write};

/// Prints cost and losses of the lanes, in a line or two.
pub(super) fn in_brief(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    if s.lanes.is_empty() {
        return Ok(());
    }
    let sum = |of: fn(&LaneSummary) -> u64| s.lanes.iter().map(of).sum::<u64>();
    let mut parts = vec![format!("lanes {}", s.lanes.len())];
    let mut cores: Vec<_> = s.lanes.iter().filter_map(|l| l.core).collect();
    cores.sort_unstable();
    cores.dedup();
    match cores.as_slice() {
        [] => {}
        [one] => parts.push(format!("on core {one}")),
        all if all.len() <= 8 => {
            let all: Vec<_> = all.iter().map(usize::to_string).collect();
            parts.push(format!("on cores {}", all.join(",")));
        }
        all => parts.push(format!("on {} cores", all.len())),
    }
    let busy: Vec<_> = s.lanes.iter().filter_map(|l| l.busy_ratio).collect();
    if let (Some(least), Some(most)) = (
        busy.iter().copied().reduce(f64::min),
        busy.iter().copied().reduce(f64::max),
    ) {
        let (least, most) = (format!("{:.1}", least * 100.0), format!("{:.1}", most * 100.0));
        parts.push(match least == most {
            true => format!("busy {most} %"),
            false => format!("busy {least} to {most} %"),
        });
    }
    if let Some(waited) = s.lanes.iter().filter_map(|l| l.run_delay_ns).reduce(|a, b| a + b) {
        parts.push(format!("not running {}", time(waited as f64)));
    }
    parts.push(format!("kernel drops {}", count(sum(|l| l.rx_dropped))));
    parts.push(format!("refused {}", count(sum(|l| l.tx_failed))));
    writeln!(out)?;
    fold(parts, "   ", "", out)
}

/// Prints the packets of the lanes, and below them their cost: one table would be too wide.
pub(super) fn in_full(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    if s.lanes.is_empty() {
        return Ok(());
    }
    let total = |of: fn(&LaneSummary) -> u64| s.lanes.iter().map(of).sum::<u64>();
    let (rx, tx) = (total(|l| l.rx_packets), total(|l| l.tx_packets));
    let names = |names: &[&str]| vec![names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()];
    let mut moved = names(&["lane", "core", "sent", "share", "burst", "received", "share", "burst"]);
    let mut cost = names(&[
        "lane",
        "empty polls",
        "waits",
        "kernel drops",
        "refused",
        "not running",
        "preempted",
    ]);
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
        let mut row = vec![l.lane.to_string(), l.core.map_or_else(dash, |c| c.to_string())];
        row.extend(side(l.tx_role, l.tx_packets, tx, l.tx_bursts));
        row.extend(side(l.rx_role, l.rx_packets, rx, l.rx_bursts));
        moved.push(row);
        cost.push(vec![
            l.lane.to_string(),
            count(l.rx_empty_polls),
            count(l.waits),
            count(l.rx_dropped),
            count(l.tx_failed),
            l.run_delay_ns.map_or_else(dash, |ns| time(ns as f64)),
            l.preempted.map_or_else(dash, count),
        ]);
    }
    writeln!(out)?;
    table(&moved, "rrrrrrrr", Heads::Named, out)?;
    table(&cost, "rrrrrrr", Heads::Named, out)?;
    rings(s, out)?;
    loads(s, out)?;
    for l in &s.lanes {
        let counters = l.path_counters.iter().filter(|(_, n)| *n > 0);
        let counters: Vec<_> = counters.map(|(name, n)| format!("{name} {}", count(*n))).collect();
        headed(&format!("lane {}: ", l.lane), counters, out)?;
    }
    Ok(())
}

/// Prints how busy lanes were, what they would move if they were busy all the time, and the packets per poll.
fn loads(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    // Load of a lane that polls: its CPU time does not show that.
    let busy = s.lanes.iter().filter_map(|l| Some((l.lane, l.busy_ratio?)));
    let busy: Vec<_> = busy
        .map(|(lane, ratio)| format!("lane {lane} {:.1} %", ratio * 100.0))
        .collect();
    headed("busy: ", busy, out)?;
    let full = s.lanes.iter().filter_map(|l| Some((l, l.at_full_load().ok()?)));
    let full: Vec<_> = full
        .map(|(l, [rx, tx])| {
            let sides = [(l.tx_role, tx, "sent"), (l.rx_role, rx, "received")];
            let sides = sides.into_iter().filter(|(role, ..)| *role);
            let sides: Vec<_> = sides.map(|(_, rate, name)| format!("{} {name}", pps(rate))).collect();
            format!("lane {} {}", l.lane, sides.join(", "))
        })
        .collect();
    if !full.is_empty() {
        headed("100 % busy would be: ", full, out)?;
        fold(vec![format!("if {ASSUMED}")], "   ", "  ", out)?;
    }
    let polls = s.lanes.iter().filter(|l| l.rx_role && l.busy_ratio.is_some());
    let polls: Vec<_> = polls
        .map(|l| {
            let calls = l.rx_bursts + l.rx_empty_polls;
            format!("lane {} {:.2}", l.lane, share(l.rx_packets, calls))
        })
        .collect();
    headed("received by a call, empty ones counted: ", polls, out)
}

/// Prints parts with a head before the first; nothing if there is no part.
fn headed(head: &str, mut parts: Vec<String>, out: &mut Page<'_>) -> io::Result<()> {
    let Some(first) = parts.first_mut() else {
        return Ok(());
    };
    first.insert_str(0, head);
    fold(parts, "   ", "  ", out)
}

/// Prints how full receive rings were, and how long an empty one lasts.
fn rings(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    let head = [
        "lane",
        "port",
        "receive ring",
        "highest fill",
        "mean fill",
        "looks",
        "lasts",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (lane, ring) in s
        .lanes
        .iter()
        .flat_map(|l| l.rx_rings.iter().map(|ring| (l.lane, ring)))
    {
        let many = match ring.rings {
            0 | 1 => String::new(),
            n => format!("{n} x "),
        };
        let size = format!("{many}{} {}", count(ring.size), ring.unit.as_str());
        let [highest, mean] = [ring.highest_ratio(), ring.mean_ratio()].map(|ratio| format!("{:.2} %", ratio * 100.0));
        let lasts = ring.lasts_ns.map_or_else(|| "-".to_owned(), |ns| time(ns as f64));
        let port = ring.port.clone().unwrap_or_default();
        rows.push(vec![
            lane.to_string(),
            port,
            size,
            highest,
            mean,
            count(ring.looks),
            lasts,
        ]);
    }
    if rows.len() == 1 {
        return Ok(());
    }
    // A column that is empty in all rows is left out.
    if rows[1..].iter().all(|row| row[1].is_empty()) {
        rows[0][1].clear();
    }
    writeln!(out)?;
    table(&rows, "rlrrrrr", Heads::Named, out)?;
    writeln!(out, "lasts: for so long an empty one holds what comes, at this rate")
}

fn mean(packets: u64, bursts: u64) -> String {
    if bursts == 0 {
        "-".to_owned()
    } else {
        format!("{:.1}", packets as f64 / bursts as f64)
    }
}
