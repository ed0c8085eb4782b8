//! Output of a search: lines while it goes on, and the result.

use super::{Ndr, goals_json};
use crate::bench::Bench;
use crate::document::{column, document as of_all, params};
use crate::expect::Reached;
use crate::found::Found;
use crate::outcome::{bounds, in_short, mark, outcome_json, trace, verdict};
use crate::search::{Goal, Outcome, Ratio, Verdict};
use crate::setup::{Setup, Stop};
use mpps_pages::document::{Axis, Chart, Document, Kind, Scale, Series, Table, Unit};
use mpps_report::{Between, Found as What};
use mpps_stats::count;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// A goal in words.
fn words(goal: &Goal) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    format!(
        "{} at the most, more in {} of the time at the most; trials of {} s, {} s per rate; bounds {} apart",
        goal.name(),
        goal.exceed,
        seconds(goal.final_ns),
        seconds(goal.sum_ns),
        Ratio::of_share(goal.width).unwrap_or_default()
    )
}

/// Before the first trial.
pub(super) fn start(goals: &[Goal], bench: &Bench<'_, '_>, found: &Found) {
    for goal in goals {
        bench.say(&format!("goal: {}", words(goal)));
    }
    let left = left(bench, found);
    bench.say(&format!("about {left} of trials, if the device is steady"));
}

/// Returns the time that the search will take from here, in words, pauses and settling included.
fn left(bench: &Bench<'_, '_>, found: &Found) -> String {
    bench.left(found.left_ns(bench.between()))
}

/// After a trial.
pub(super) fn trial(goals: &[Goal], bench: &Bench<'_, '_>, found: &Found) {
    let Some(last) = found.trials.last() else {
        return;
    };
    let mut line = format!("trial {}: {} pps: ", bench.trials.len(), count(last.trial.input.load));
    match last.trial.verdict {
        Verdict::Void => {
            let _ = write!(line, "void: {}", last.void_in_short());
        }
        Verdict::Counted { due, missing } => {
            let _ = write!(line, "{} of {} lost", count(missing), count(due));
            if last.refused > 0 {
                let _ = write!(line, ", {} of these refused by the path", count(last.refused));
            }
            for of in &last.trial.streams {
                let _ = write!(line, "; of {} {} of {}", of.name, count(of.missing), count(of.due));
            }
        }
    }
    let outcomes = found.outcomes();
    let known: Vec<_> = goals
        .iter()
        .zip(&outcomes)
        .map(|(goal, o)| format!("{}: {}", goal.name(), bounds(&o.bounds)))
        .collect();
    bench.say(&format!(
        "{line}; known: {}; left: about {}",
        known.join(", "),
        left(bench, found)
    ));
}

/// Returns the deviations of this search from RFC 2544, beside those that all tests may have.
fn deviations(goals: &[Goal]) -> Vec<String> {
    let mut all = Vec::new();
    let shortest = goals.iter().map(|goal| goal.final_ns).min().unwrap_or_default();
    if shortest < 60_000_000_000 {
        all.push(format!(
            "trials of {} s, not 60 s (RFC 2544, 24)",
            shortest as f64 / 1e9
        ));
    }
    if goals.iter().any(|goal| goal.loss.share() > 0.0) {
        all.push("a goal that allows loss is no throughput (RFC 1242, 3.17)".to_owned());
    }
    if goals.iter().any(|goal| goal.exceed.share() > 0.0) {
        all.push("a rate may lose packets in some of its trials (RFC 2544, 26.1; RFC 9971 allows it)".to_owned());
    }
    all.push("one frame size (RFC 2544, 9)".to_owned());
    all
}

/// The result, whole.
pub(super) fn document(
    setup: &Setup<'_>,
    Ndr { goals, search_time }: &Ndr,
    bench: &Bench<'_, '_>,
    found: Option<&Found>,
    took: Duration,
    stop: Option<&Stop>,
) -> Document {
    let title = format!("Highest rates by loss: frames of {} bytes", setup.frame_size());
    let mut document = of_all(setup, bench, ("ndr", title), took, stop);
    let mut params = params(setup);
    params.insert("goals".to_owned(), goals_json(goals));
    params.insert("search_time_s".to_owned(), search_time.as_secs_f64().into());
    params.insert("frame_size_bytes".to_owned(), setup.frame_size().into());
    params.insert("search".to_owned(), "MLRsearch (RFC 9971)".into());
    document.params = params.into();
    document.compliance = Some("RFC 9971, with the goals that are told under the parameters".to_owned());
    document.deviations.splice(0..0, deviations(goals));
    let Some(found) = found else {
        document.verdict = vec!["no rate is known: the search had not begun".to_owned()];
        return document;
    };
    let outcomes = found.outcomes();
    document.verdict = lines(goals, found);
    document.results = outcomes
        .iter()
        .enumerate()
        .map(|(goal, outcome)| {
            let mut told = outcome_json(outcome, found);
            told["goal"] = goal.into();
            told
        })
        .collect();
    document.tables.insert(0, of_goals(goals, &outcomes, found));
    document.charts = vec![trace(found, goals, &outcomes)];
    if goals.len() > 1 {
        document.charts.insert(0, by_loss(goals, &outcomes));
    }
    document
}

/// Loss allowed to the right, rate upwards.
fn by_loss(goals: &[Goal], outcomes: &[Outcome]) -> Chart {
    let series = |stream: &Option<String>, name: &str, of: fn(&Outcome) -> Option<f64>| {
        let point = |(goal, outcome): (&Goal, &Outcome)| Some((goal.loss.share(), Some(of(outcome)?)));
        let own = goals.iter().zip(outcomes).filter(|(goal, _)| goal.stream == *stream);
        let mut points: Vec<_> = own.filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series {
            name: match stream {
                Some(stream) => format!("{stream}: {name}"),
                None => name.to_owned(),
            },
            kind: Kind::Line,
            points,
        }
    };
    let mut streams: Vec<&Option<String>> = Vec::new();
    for goal in goals {
        if !streams.contains(&&goal.stream) {
            streams.push(&goal.stream);
        }
    }
    let both = |stream| {
        [
            series(stream, "lower bound", |outcome| {
                outcome.bounds.lower.map(|load| load as f64)
            }),
            series(stream, "conditional throughput", |outcome| {
                outcome.conditional_throughput
            }),
        ]
    };
    let mut series: Vec<Series> = streams.into_iter().flat_map(both).collect();
    series.retain(|series| !series.points.is_empty());
    Chart {
        name: "goals".to_owned(),
        title: "Highest rates by the loss allowed".to_owned(),
        x: Axis {
            label: "loss allowed".to_owned(),
            unit: Unit::Ratio,
            scale: Scale::Category,
            ..Axis::default()
        },
        y: Axis {
            label: "rate".to_owned(),
            unit: Unit::Pps,
            min: Some(0.0),
            ..Axis::default()
        },
        series,
    }
}

/// The goals and what was found, as a table.
fn of_goals(goals: &[Goal], outcomes: &[Outcome], found: &Found) -> Table {
    let row = |(goal, outcome): (&Goal, &Outcome)| -> Vec<Value> {
        vec![
            goal.loss.share().into(),
            goal.stream.clone().unwrap_or_else(|| "all".to_owned()).into(),
            outcome.bounds.lower.into(),
            outcome.bounds.upper.into(),
            outcome.conditional_throughput.into(),
            mark(outcome, found).into(),
            words(goal).into(),
        ]
    };
    Table {
        name: "goals".to_owned(),
        caption: "Highest rates by goal".to_owned(),
        columns: vec![
            column("loss_ratio", "loss allowed", Unit::Ratio),
            column("stream", "packets", Unit::Plain),
            column("lower_pps", "lower bound", Unit::Pps),
            column("upper_pps", "upper bound", Unit::Pps),
            column("conditional_throughput_pps", "conditional throughput", Unit::Pps),
            column("mark", "remark", Unit::Plain),
            column("goal", "goal", Unit::Plain),
        ],
        rows: goals.iter().zip(outcomes).map(row).collect(),
    }
}

/// Returns the result in words: a headline, or how this host was disturbed; then a line per goal.
fn lines(goals: &[Goal], found: &Found) -> Vec<String> {
    let outcomes = found.outcomes();
    let of = |(goal, outcome): (&Goal, &Outcome)| {
        let of = goal
            .stream
            .as_ref()
            .map_or_else(String::new, |name| format!("({name})"));
        format!("loss{of} {:>5}  {}", goal.loss.to_string(), verdict(outcome, found))
    };
    let hindered = found.hindered();
    // A result that this host bounds is no answer of the device.
    let headline = hindered.is_none().then(|| headline(goals, found));
    let first = hindered.into_iter().chain(headline);
    let first = first.chain(found.remedy().map(str::to_owned));
    first.chain(goals.iter().zip(&outcomes).map(of)).collect()
}

/// All goals in one line.
fn headline(goals: &[Goal], found: &Found) -> String {
    let of = |(goal, outcome): (&Goal, Outcome)| {
        let of = goal
            .stream
            .as_ref()
            .map_or_else(String::new, |name| format!(" of {name}"));
        match goal.loss.share() > 0.0 {
            true => format!("with loss{of} up to {}: {}", goal.loss, in_short(&outcome, found)),
            false => format!("without loss{of}: {}", in_short(&outcome, found)),
        }
    };
    let all: Vec<_> = goals.iter().zip(found.outcomes()).map(of).collect();
    format!("highest rate {} ({} bytes)", all.join(", "), found.frame_size)
}

/// Results of the goals that a demand can name.
pub(super) fn finds(goals: &[Goal]) -> Vec<(What, Option<&str>)> {
    let mut all = Vec::new();
    // Each of several goals of a kind is judged.
    for goal in goals {
        let found = (kind(goal), goal.stream.as_deref());
        if !all.contains(&found) {
            all.push(found);
        }
    }
    all
}

/// Name that a demand has for the result of a goal.
fn kind(goal: &Goal) -> What {
    match goal.loss.share() > 0.0 {
        true => What::Pdr,
        false => What::Ndr,
    }
}

/// Values of these results after the search, for each goal.
pub(super) fn reached(goals: &[Goal], found: &Found) -> Vec<Reached> {
    let of = |(goal, outcome): (&Goal, Outcome)| Reached {
        what: kind(goal),
        stream: goal.stream.clone(),
        frame_size: found.frame_size,
        between: Between {
            lower: outcome.bounds.lower.map(|load| load as f64),
            upper: outcome.bounds.upper.map(|load| load as f64),
        },
    };
    goals.iter().zip(found.outcomes()).map(of).collect()
}
