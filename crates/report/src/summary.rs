//! The summary for people: the results, then the verdict with its reasons. The verdict comes last, because the last
//! lines stay visible on a terminal.
//!
//! In brief it fits a terminal of 24 lines, with the live view above it. The rest (each lane, places of the time
//! stamps, circumstances of the measurement) is shown on request, and is in the JSON.

use crate::json::{layer1_bps, workload_name};
use crate::live::dumb;
use crate::units::{count, elapsed, percent, pps, si, time};
use mpps_stats::{CaptureSummary, Latency, SampleSummary, Summary, Workload};
use mpps_trace::Subject;
use std::io::{self, IsTerminal, Write};
pub use text::columns_of;
use text::{Heads, Page, fold, sentence, table};
pub(crate) use text::{is_of_no_width, wrapped};

mod directions;
mod headline;
mod lanes;
mod stages;
mod streams;
mod text;
mod when;

/// Amount of a summary that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The results that every run is read for.
    Brief,
    /// Also each lane, the places of the time stamps, and the circumstances of the measurement.
    Full,
}

/// Whether text may be coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// No escape sequences.
    Never,
    /// ANSI colours.
    Always,
}

impl Colour {
    /// Returns colour for a terminal, unless `NO_COLOR` is set (no-color.org) or the terminal is dumb.
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        if stream.is_terminal() && Self::is_welcome() {
            Self::Always
        } else {
            Self::Never
        }
    }

    /// Returns whether the environment allows colours: `NO_COLOR` is unset or empty, and the terminal is not dumb.
    pub fn is_welcome() -> bool {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        !no_color && !dumb()
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Never => text.to_owned(),
            Self::Always => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

/// Prints the summary of a run, no wider than `columns` ([`columns_of`] a stream): rates, counts, latency, lanes, in
/// full the host, then notes and the verdict.
///
/// # Errors
/// When `out` can't be written.
pub fn print_summary(
    s: &Summary,
    detail: Detail,
    colour: Colour,
    columns: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let out = &mut Page { out, columns };
    if s.directions.is_empty() {
        rates(s, out)?;
        packets(s, detail, colour, out)?;
        latency(s, detail, out)?;
    } else {
        directions::side_by_side(s, detail, out)?;
    }
    streams::streams(s, colour, out)?;
    match detail {
        Detail::Brief => {
            lanes::in_brief(s, out)?;
            stages::in_brief(s, out)?;
        }
        Detail::Full => {
            lanes::in_full(s, out)?;
            stages::in_full(s, out)?;
        }
    }
    ports(s, out)?;
    if !s.reasons.is_empty() && s.ports.is_empty() {
        if detail == Detail::Full {
            writeln!(out)?;
        }
        headline::reasons(&s.reasons, out)?;
    }
    if detail == Detail::Full {
        host(s, out)?;
    }
    if !s.warnings.is_empty() {
        writeln!(out)?;
        for warning in &s.warnings {
            sentence(&colour.paint("33", "note:"), &warning.sentence, "  ", out)?;
        }
    }
    expectations(s, colour, out)?;
    // Before the verdict, which comes last.
    why(s, out)?;
    writeln!(out)?;
    verdict(s, colour, out)
}

/// Prints the facts about the host that a summary shows.
fn host(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    let facts: Vec<_> = s
        .host
        .iter()
        .filter(|fact| fact.shown)
        .map(|fact| vec![fact.name.clone(), fact.value.clone()])
        .collect();
    if facts.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    table(&facts, "ll", Heads::None, out)
}

/// Prints each demand on the run, and whether it is met.
fn expectations(s: &Summary, colour: Colour, out: &mut Page<'_>) -> io::Result<()> {
    if s.expectations.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for of in &s.expectations {
        let (code, verdict) = match (of.met, s.valid) {
            (true, true) => ("32", "met"),
            // The same as the exit code: a run that is not valid proves nothing.
            (true, false) => ("33", "not proven"),
            (false, _) => ("31", "NOT met"),
        };
        let note = of.note.as_ref().map_or_else(String::new, |note| format!("; {note}"));
        let told = format!("{}: {}{note}", of.expected, of.told);
        sentence(&format!("expected, {}:", colour.paint(code, verdict)), &told, "  ", out)?;
    }
    Ok(())
}

/// Prints the cause of what went wrong, if one was found.
fn why(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    let Some(cause) = mpps_trace::why::first(&s.causes).filter(|_| !s.valid || s.lost > 0) else {
        return Ok(());
    };
    writeln!(out)?;
    // The cause is that of the worst stretch, so the line also gives the total.
    let (all, what) = match cause.subject {
        Subject::Loss => (s.lost, "lost"),
        Subject::Missed => (s.missed, "missed"),
        Subject::Late | Subject::Slow => (0, ""),
    };
    let part = match all > cause.packets {
        true => format!(" ({} of {} {what} in all)", count(cause.packets), count(all)),
        false => String::new(),
    };
    sentence(
        "why:",
        &format!("{}{part}", cause.sentence.trim_end_matches('.')),
        "  ",
        out,
    )
}

fn verdict(s: &Summary, colour: Colour, out: &mut Page<'_>) -> io::Result<()> {
    let (verdict, ended) = (headline::headline(s, colour), headline::ended(s));
    // A receiver's time begins with the first packet, so it is not the length of the run.
    let span = match (s.workload.generates() || s.rx == 0, s.tells_rate()) {
        (true, _) => elapsed(s.duration_ns),
        _ if s.rx == 1 => "one packet".to_owned(),
        (false, true) => format!("{} from the first packet to the last", elapsed(s.duration_ns)),
        (false, false) => "all packets within 1 ms".to_owned(),
    };
    let rest = format!("{}, {span}{ended}", workload_name(s.workload));
    fold([verdict, rest], "  ", "  ", out)?;
    for reason in &s.invalid_reasons {
        sentence("-", &reason.sentence, "  ", out)?;
    }
    Ok(())
}

fn rates(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    let row = |name: &str, rate: f64, packets: u64| {
        // Three decimals, because a trial is judged by 0.1 %.
        let share = s
            .share_of_due(packets)
            .map_or_else(String::new, |share| format!("{:.3} %", share * 100.0));
        if !s.tells_rate() {
            let packets = format!("{} packets", count(packets));
            return vec![name.to_owned(), "-".to_owned(), String::new(), String::new(), packets];
        }
        let layer1 = layer1_bps(rate, s.frame_size).map_or_else(String::new, |bps| si(bps, "bps L1"));
        vec![
            name.to_owned(),
            pps(rate),
            layer1,
            share,
            format!("{} packets", count(packets)),
        ]
    };
    let mut rows = Vec::new();
    if let Some(intended) = s.intended_pps.filter(|_| s.tells_rate()) {
        rows.push(row("intended", intended, s.due.unwrap_or(0)));
    }
    match s.workload {
        Workload::SendRecv => rows.extend([
            row("offered", s.offered_pps, s.tx),
            row("received", s.received_pps, s.rx),
        ]),
        Workload::Send => rows.push(row("offered", s.offered_pps, s.tx)),
        Workload::Drop => rows.push(row("received", s.received_pps, s.rx)),
        Workload::Capture => rows.push(row("captured", s.received_pps, s.rx)),
        Workload::Reflect => rows.extend([
            row("received", s.received_pps, s.rx),
            row("reflected", s.offered_pps, s.tx),
        ]),
        Workload::Forward => rows.extend([
            row("received", s.received_pps, s.rx),
            row("forwarded", s.offered_pps, s.tx),
        ]),
    }
    table(&rows, "lrrrr", Heads::None, out)
}

fn packets(s: &Summary, detail: Detail, colour: Colour, out: &mut Page<'_>) -> io::Result<()> {
    let mut parts = Vec::new();
    if matches!(s.workload, Workload::SendRecv | Workload::Drop) {
        // It is not known which packets this host dropped: a share of 0 would hide them.
        let lost = match s.host_dropped {
            Some(dropped) if dropped > 0 && s.lost == 0 => {
                format!("lost 0, beside {} dropped by this host", count(dropped))
            }
            _ => format!("lost {} ({})", count(s.lost), percent(s.loss_ratio)),
        };
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
    if s.untagged > 0 {
        parts.push(format!("not known of {} without a tag", count(s.untagged)));
    }
    if s.untagged_came > 0 {
        parts.push(format!("came without a tag {}", count(s.untagged_came)));
    }
    if let Some(c) = &s.capture {
        parts.extend(captured(c, colour));
    } else if !matches!(s.workload, Workload::Send | Workload::Forward) {
        parts.push(format!("foreign {}", count(s.foreign)));
    }
    if let Some(sample) = &s.sample {
        parts.extend(sampled(sample, colour));
    }
    if s.workload.generates() && s.intended_pps.is_some() {
        parts.push(format!("missed {}", count(s.missed)));
    }
    let counts_loss = matches!(s.workload, Workload::SendRecv | Workload::Drop);
    let most = if detail == Detail::Full { usize::MAX } else { 3 };
    let lost = when::lost(s, most).filter(|_| counts_loss);
    let dropped = when::when(
        &s.host_drop_stretches,
        "dropped by this host before mpps took them",
        most,
    );
    if !parts.is_empty() || dropped.is_some() {
        writeln!(out)?;
    }
    if !parts.is_empty() {
        fold(parts, "   ", "", out)?;
    }
    for parts in lost.into_iter().chain(dropped) {
        fold(parts, ", ", "  ", out)?;
    }
    for change in s.changes.iter().flatten() {
        let pair = |(sent, received, packets): &(String, String, u64)| match *packets == change.packets {
            true => format!("{sent} -> {received}"),
            false => format!("{sent} -> {received} ({})", count(*packets)),
        };
        let mut parts: Vec<_> = change.pairs.iter().take(most).map(pair).collect();
        let listed: u64 = change.pairs.iter().take(most).map(|(.., packets)| packets).sum();
        if listed < change.packets {
            parts.push(format!("others ({})", count(change.packets - listed)));
        }
        let packets = if change.packets == 1 { "packet" } else { "packets" };
        parts[0] = format!(
            "{} changed in {} {packets}: {}",
            change.field,
            count(change.packets),
            parts[0]
        );
        fold(parts, ", ", "  ", out)?;
    }
    Ok(())
}

/// Returns a count of packets that are not in a file.
fn unkept(why: &str, n: u64, colour: Colour) -> String {
    let text = format!("dropped ({why}) {}", count(n));
    if n > 0 { colour.paint("31", &text) } else { text }
}

fn sampled(s: &SampleSummary, colour: Colour) -> Vec<String> {
    let file = if s.file == "-" { "standard output" } else { &s.file };
    let mut parts = vec![format!("sampled {} to {file}", count(s.written))];
    for (why, n) in [("ring full", s.dropped_ring), ("write error", s.dropped_write)] {
        parts.extend((n > 0).then(|| unkept(why, n, colour)));
    }
    parts
}

fn captured(c: &CaptureSummary, colour: Colour) -> Vec<String> {
    let files = match (c.files.as_slice(), c.files_removed) {
        ([one], 0) if one == "-" => "to standard output".to_owned(),
        ([one], 0) => format!("to {one}"),
        (all, 0) => format!("to {} files", all.len()),
        (all, removed) => format!(
            "to {} files, of which the newest {} are kept",
            all.len() as u64 + removed,
            all.len()
        ),
    };
    vec![
        format!("received {}", count(c.received)),
        format!("taken {}", count(c.taken)),
        format!("written {}", count(c.written)),
        unkept("ring full", c.dropped_ring, colour),
        unkept("write error", c.dropped_write, colour),
        format!("{} bytes {files}", count(c.bytes)),
    ]
}

fn latency(s: &Summary, detail: Detail, out: &mut Page<'_>) -> io::Result<()> {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let mut push = |name: &str, l: &Latency, note: String| {
        if l.count > 0 {
            let percentile = |p: Option<u64>| p.map_or_else(|| "-".to_owned(), |ns| time(ns as f64));
            let p = l.percentiles;
            let (min, mean, max) = (time(l.min as f64), time(l.mean), time(l.max as f64));
            let [p50, p90, p99, p999] =
                [p.map(|p| p.p50), p.map(|p| p.p90), p.map(|p| p.p99), p.map(|p| p.p999)].map(percentile);
            rows.push(vec![name.to_owned(), min, mean, p50, p90, p99, p999, max]);
            notes.push((format!("{name}:"), note));
        }
    };
    push("latency", &s.latency, s.latency_note.clone());
    if let Some(scheduled) = &s.latency_scheduled {
        let note = "latency from when the packet was due, not from when it went";
        push("scheduled", scheduled, note.to_owned());
    }
    if let Some(arrival) = &s.latency_arrival {
        let note = match s.wake_up {
            Some(_) => "from the same send time to the arrival that was noted before the lane read the packet",
            None => "the same: the program in the kernel notes the arrival, and no lane reads the packet",
        };
        push("arrival", arrival, note.to_owned());
    }
    if let Some(wake_up) = &s.wake_up {
        let note = "from the arrival to the lane's reading: waiting in ring or buffer, and for the lane to wake up";
        push("wake-up", wake_up, note.to_owned());
    }
    if let Some(gaps) = &s.gaps {
        let intended = match gaps.intended_mean {
            ns if ns > 0.0 => format!("; intended {} on average", time(ns)),
            _ => String::new(),
        };
        push("gap", &gaps.measured, format!("time between departures{intended}"));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let names = ["", "min", "mean", "p50", "p90", "p99", "p99.9", "max"];
    rows.insert(0, names.map(str::to_owned).to_vec());
    writeln!(out)?;
    table(&rows, "lrrrrrrr", Heads::Named, out)?;
    for (name, note) in notes
        .iter()
        .filter(|(_, note)| !note.is_empty() && detail == Detail::Full)
    {
        sentence(name, note, "  ", out)?;
    }
    Ok(())
}

/// Prints the packets that came in and went out at each port, and those that did not.
fn ports(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    if s.ports.is_empty() {
        return Ok(());
    }
    let mut rows = vec![
        ["port", "received", "sent", "kernel drops", "refused"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for p in &s.ports {
        let numbers = [p.rx_packets, p.tx_packets, p.rx_dropped, p.tx_failed].map(count);
        rows.push([p.port.clone()].into_iter().chain(numbers).collect());
    }
    writeln!(out)?;
    table(&rows, "lrrrr", Heads::Named, out)?;
    for p in s.ports.iter().filter(|p| !p.reasons.is_empty()) {
        let mut reasons: Vec<_> = p
            .reasons
            .iter()
            .map(|(why, n)| format!("{why} {}", count(*n)))
            .collect();
        reasons[0].insert_str(0, &format!("{}: ", p.port));
        fold(reasons, "   ", "  ", out)?;
    }
    Ok(())
}
