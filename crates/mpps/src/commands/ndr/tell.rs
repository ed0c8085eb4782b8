//! What is told of a search: lines while it goes on, and the result as text, JSON and Markdown.

use super::record::{Record, goals, trial_json};
use super::{Found, Setup, Stopped};
use crate::fail::{Result, print};
use mpps_method::{Bounds, End, Goal, Outcome, Ratio, Verdict};
use mpps_stats::count;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// What the result calls itself.
const SCHEMA: &str = "mpps.test/1";

/// A goal in words.
fn words(goal: &Goal) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    format!(
        "loss {} at the most, more in {} of the time at the most; trials of {} s, {} s per rate; bounds {} apart",
        goal.loss,
        goal.exceed,
        seconds(goal.final_ns),
        seconds(goal.sum_ns),
        Ratio::of_share(goal.width).unwrap_or_default()
    )
}

/// Before the first trial.
pub(super) fn start(setup: &Setup<'_>, found: &Found) {
    if setup.quiet {
        return;
    }
    let limit = found.limited_by.words();
    eprintln!(
        "mpps: searching between {} and {} pps ({limit})",
        count(found.limits().min),
        count(found.limits().max)
    );
    for goal in &setup.goals {
        eprintln!("mpps: goal: {}", words(goal));
    }
    if !found.trials.is_empty() {
        eprintln!("mpps: going on after {} trials", found.trials.len());
    }
    eprintln!("mpps: about {} of trials, if the device is steady", left(setup, found));
}

/// How long it will take from here, pauses and settling included.
fn left(setup: &Setup<'_>, found: &Found) -> String {
    let (trials, ns) = found.search.estimate(&found.trials());
    let between = setup.args.pause + setup.args.traffic.settle;
    let all = Duration::from_nanos(ns) + between * trials;
    match all.as_secs() {
        s @ 0..120 => format!("{s} s"),
        s => format!("{} min", s.div_ceil(60)),
    }
}

/// After a trial.
pub(super) fn trial(setup: &Setup<'_>, found: &Found) {
    let Some(last) = found.trials.last().filter(|_| !setup.quiet) else {
        return;
    };
    let mut line = format!(
        "mpps: trial {}: {} pps: ",
        found.trials.len(),
        count(last.trial.input.load)
    );
    match last.trial.verdict {
        Verdict::Void => {
            // The whole reason is in the record.
            let first = last.reasons.first().map_or("", String::as_str);
            let _ = write!(line, "void: {}", first.split(" (").next().unwrap_or(first));
        }
        Verdict::Counted { due, missing } => {
            let _ = write!(line, "{} of {} lost", count(missing), count(due));
            if last.refused > 0 {
                let _ = write!(line, ", {} of these refused by the path", count(last.refused));
            }
        }
    }
    let outcomes = found.outcomes();
    let goals = setup.goals.iter().zip(&outcomes);
    let known: Vec<_> = goals
        .map(|(goal, o)| format!("loss {}: {}", goal.loss, bounds(&o.bounds)))
        .collect();
    eprintln!(
        "{line}; known: {}; left: about {}",
        known.join(", "),
        left(setup, found)
    );
}

fn bounds(bounds: &Bounds) -> String {
    let end = |load: Option<u64>| load.map_or_else(|| "?".to_owned(), count);
    format!("{} to {}", end(bounds.lower), end(bounds.upper))
}

/// The rate in words, and what is to be known of it.
fn verdict(outcome: &Outcome, found: &Found) -> String {
    let Outcome { bounds: known, .. } = outcome;
    let limit = found.limited_by.words();
    match (known.lower, known.upper) {
        _ if outcome.none_passes => format!(
            "none from {} pps up; a lower --min-rate may find one",
            count(found.limits().min)
        ),
        (Some(lower), _) if outcome.at_max => format!("{} pps or more: {limit} allows no higher rate", count(lower)),
        (Some(lower), Some(upper)) => {
            let through = outcome.conditional_throughput.map(|pps| count(pps as u64));
            let through = through.map_or_else(String::new, |pps| format!("; {pps} pps came through"));
            let irregular = if outcome.regular {
                ""
            } else {
                "; not as close as asked for"
            };
            format!("{} pps (not {} pps){through}{irregular}", count(lower), count(upper))
        }
        (Some(lower), None) => format!("{} pps or more; no upper bound was found", count(lower)),
        (None, Some(upper)) => format!("below {} pps; no lower bound was found", count(upper)),
        (None, None) => "not known: no rate has passed or failed".to_owned(),
    }
}

/// Why a search is not complete; `None`: it is.
fn incomplete(found: &Found) -> Option<String> {
    match &found.stopped {
        Stopped::Search(End::Found) => None,
        Stopped::Search(End::OutOfTime) => {
            Some("its time was up before the bounds were as close as asked for (--search-time)".to_owned())
        }
        Stopped::Search(End::Void) => {
            let why = found
                .trials
                .last()
                .map(|last| last.reasons.join("; "))
                .unwrap_or_default();
            Some(format!(
                "this host could not do what was asked of it, three times in a row: {why}"
            ))
        }
        Stopped::Interrupted => Some("it was interrupted".to_owned()),
        Stopped::Failed(failure) => Some(failure.line().to_owned()),
    }
}

/// What is done otherwise than the RFCs have it, each with its section.
fn deviations(setup: &Setup<'_>) -> Vec<String> {
    let args = setup.args;
    let mut all = Vec::new();
    let settle = args.traffic.settle;
    let shortest = setup.goals.iter().map(|goal| goal.final_ns).min().unwrap_or_default();
    if shortest < 60_000_000_000 {
        all.push(format!(
            "trials of {} s, not 60 s (RFC 2544, 24)",
            shortest as f64 / 1e9
        ));
    }
    if settle < Duration::from_secs(2) {
        all.push(format!(
            "{} s for packets under way, not 2 s (RFC 2544, 23)",
            settle.as_secs_f64()
        ));
    }
    if args.pause < Duration::from_secs(5) {
        all.push(format!(
            "a pause of {} s between trials, not 5 s (RFC 2544, 23)",
            args.pause.as_secs_f64()
        ));
    }
    if setup.goals.iter().any(|goal| goal.loss.share() > 0.0) {
        all.push("a goal that allows loss is no throughput (RFC 1242, 3.17)".to_owned());
    }
    if setup.goals.iter().any(|goal| goal.exceed.share() > 0.0) {
        all.push("a rate may lose packets in some of its trials (RFC 2544, 26.1; RFC 9971 allows it)".to_owned());
    }
    all.push("one frame size (RFC 2544, 9)".to_owned());
    all.push("the device's configuration is not in this report (RFC 2544, 7)".to_owned());
    all
}

/// The result as JSON; `why` it is not complete.
fn result_json(setup: &Setup<'_>, found: &Found, why: Option<&str>, took: Duration) -> Value {
    let outcomes = found.outcomes();
    let results: Vec<_> = outcomes
        .iter()
        .enumerate()
        .map(|(goal, outcome)| {
            let at_lower = |load: u64| {
                let there = found
                    .trials
                    .iter()
                    .filter(move |measured| measured.trial.input.load == load);
                there.map(|measured| measured.offered_pps).fold(f64::INFINITY, f64::min)
            };
            json!({
                "goal": goal,
                "lower_pps": outcome.bounds.lower,
                "upper_pps": outcome.bounds.upper,
                "lower_offered_pps": outcome.bounds.lower.map(at_lower),
                "conditional_throughput_pps": outcome.conditional_throughput,
                "regular": outcome.regular,
                "at_max": outcome.at_max,
                "none_passes": outcome.none_passes,
            })
        })
        .collect();
    let trials: Vec<_> = found
        .trials
        .iter()
        .enumerate()
        .map(|(at, measured)| trial_json(at + 1, measured))
        .collect();
    let plan: Value = serde_json::from_str(&setup.plan.to_json()).unwrap_or_default();
    let command: Vec<_> = std::env::args_os()
        .map(|word| mpps_io::hide_secrets(&word.to_string_lossy()))
        .collect();
    json!({
        "schema": SCHEMA,
        "test": "ndr",
        "version": env!("CARGO_PKG_VERSION"),
        "command": command,
        "complete": why.is_none(),
        "incomplete": why,
        "params": {
            "goals": goals(&setup.goals),
            "min_load_pps": found.limits().min,
            "max_load_pps": found.limits().max,
            "limited_by": found.limited_by.name(),
            "search_time_s": setup.args.search_time.as_secs_f64(),
            "pause_s": setup.args.pause.as_secs_f64(),
            "settle_s": setup.args.traffic.settle.as_secs_f64(),
            "frame_size_bytes": setup.frame_size,
            "load": if setup.args.traffic.both_ways { "of each way" } else { "of all lanes" },
            "effective_duration": "as intended",
        },
        "results": results,
        "deviations": deviations(setup),
        "took_s": took.as_secs_f64(),
        "plan": plan,
        "trials": trials,
    })
}

/// The result in words, a line a goal.
fn lines(setup: &Setup<'_>, found: &Found) -> Vec<String> {
    let outcomes = found.outcomes();
    let of =
        |(goal, outcome): (&Goal, &Outcome)| format!("loss {:>5}  {}", goal.loss.to_string(), verdict(outcome, found));
    setup.goals.iter().zip(&outcomes).map(of).collect()
}

/// The result as Markdown; `why` it is not complete.
fn result_md(setup: &Setup<'_>, found: &Found, why: Option<&str>) -> String {
    let mut text = format!("# Highest rates by loss: {} bytes\n\n", setup.frame_size);
    if let Some(why) = why {
        let _ = writeln!(text, "**Not complete**: {}\n", escaped(why));
    }
    text +=
        "| goal | lower bound, pps | upper bound, pps | conditional throughput, pps | |\n|---|---:|---:|---:|---|\n";
    let outcomes = found.outcomes();
    for (goal, outcome) in setup.goals.iter().zip(&outcomes) {
        let end = |load: Option<u64>| load.map_or_else(|| "none".to_owned(), count);
        let note = match outcome {
            Outcome { regular: true, .. } => "",
            Outcome { at_max: true, .. } => "irregular: the highest rate passes",
            Outcome { none_passes: true, .. } => "irregular: the lowest rate does not pass",
            _ => "irregular: not as close as asked for",
        };
        let through = outcome.conditional_throughput.map(|pps| pps as u64);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {note} |",
            words(goal),
            end(outcome.bounds.lower),
            end(outcome.bounds.upper),
            end(through)
        );
    }
    let limits = found.limits();
    let _ = writeln!(
        text,
        "\nSearched by MLRsearch (RFC 9971) between {} and {} pps (limited by {}); loads are of {}.\n\nDeviations:\n",
        count(limits.min),
        count(limits.max),
        found.limited_by.words(),
        if setup.args.traffic.both_ways {
            "each way"
        } else {
            "all lanes together"
        }
    );
    for line in deviations(setup) {
        let _ = writeln!(text, "- {line}");
    }
    text += "\n| trial | load, pps | s | due | lost | refused | late | p50, µs | p99, µs | |\n";
    text += "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n";
    for (at, measured) in found.trials.iter().enumerate() {
        let (due, missing) = match measured.trial.verdict {
            Verdict::Counted { due, missing } => (count(due), count(missing)),
            Verdict::Void => ("void".to_owned(), String::new()),
        };
        let micro = |place: usize| {
            let ns = measured.latency_ns.map(|all| all[place]);
            ns.map_or_else(String::new, |ns| format!("{:.1}", ns as f64 / 1e3))
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {due} | {missing} | {} | {} | {} | {} | {} |",
            at + 1,
            count(measured.trial.input.load),
            measured.trial.input.duration_ns as f64 / 1e9,
            count(measured.refused),
            count(measured.late),
            micro(0),
            micro(1),
            escaped(&measured.reasons.join("; "))
        );
    }
    let _ = writeln!(
        text,
        "\nThe plan that the trials vary:\n\n```json\n{}\n```",
        setup.plan.to_json()
    );
    text
}

/// A text in a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// Tells the result, writes its files, and gives the exit code.
pub(super) fn result(
    setup: &Setup<'_>,
    found: &Found,
    took: Duration,
    record: Option<&Record<'_>>,
) -> Result<ExitCode> {
    let why = incomplete(found);
    print(|out| {
        for line in lines(setup, found) {
            writeln!(out, "{line}")?;
        }
        match &why {
            Some(why) => writeln!(out, "not complete: {why}"),
            None => writeln!(out, "{} trials in {:.0} s", found.trials.len(), took.as_secs_f64()),
        }
    })?;
    let mut code = match &found.stopped {
        Stopped::Search(End::Found) => 0,
        Stopped::Failed(_) => 1,
        _ => 3,
    };
    if let Some(record) = record {
        if let Some(broken) = &record.broken {
            eprintln!("mpps: {broken}: the record ends before");
            code = 1;
        }
        let json = format!("{:#}\n", result_json(setup, found, why.as_deref(), took));
        for (name, text) in [
            ("result.json", json),
            ("report.md", result_md(setup, found, why.as_deref())),
        ] {
            if let Err(failure) = record.file(name, text) {
                eprintln!("mpps: {}", failure.line());
                code = 1;
            }
        }
    }
    Ok(ExitCode::from(code))
}
