//! Result of a search, in words, for programs, and as a picture.

use crate::found::Found;
use crate::limits::LimitedBy;
use crate::search::{Bounds, Goal, Outcome, Verdict};
use mpps_pages::chart::VOID;
use mpps_pages::document::{Axis, Chart, Kind, Series, Unit};
use mpps_stats::count;
use serde_json::{Value, json};

/// `1,000 to 2,000`, with a question mark for a bound that is not known.
pub(crate) fn bounds(bounds: &Bounds) -> String {
    let end = |load: Option<u64>| load.map_or_else(|| "?".to_owned(), count);
    format!("{} to {}", end(bounds.lower), end(bounds.upper))
}

/// Share of a load below which what was sent is given beside it: streams paused or ended within a trial, as the plan
/// has it. A trial that missed departures by that much is void.
const NEAR_LOAD: f64 = 0.99;

/// The load in words, with the mean of a trial where streams did not send all the time.
fn load_in_words(load: u64, found: &Found) -> String {
    match found.offered_at(load) {
        mean if mean < load as f64 * NEAR_LOAD => format!(
            "{} pps while all streams send, {} pps over a trial",
            count(load),
            count(mean as u64)
        ),
        _ => format!("{} pps", count(load)),
    }
}

/// The rate in words, and what is to be known of it. Where [`Found::hindered`] has something to say, it is said before.
pub(crate) fn verdict(outcome: &Outcome, found: &Found) -> String {
    let Outcome { bounds: known, .. } = outcome;
    let limit = found.limited_by.words();
    match (known.lower, known.upper) {
        _ if outcome.none_passes => format!(
            "none from {} pps up; a lower --min-rate may find one",
            count(found.limits().min)
        ),
        // No rate of the device's: it is not to be taken for one.
        (Some(lower), None) if found.limited_by == LimitedBy::Host && lower <= found.limits().max => {
            format!(
                "not known: {} passed, and no more could be offered",
                load_in_words(lower, found)
            )
        }
        (Some(lower), _) if outcome.at_max => {
            format!("{} or more: {limit} allows no higher rate", load_in_words(lower, found))
        }
        (Some(lower), Some(upper)) => {
            let through = outcome.conditional_throughput.map(|pps| count(pps as u64));
            let through = through.map_or_else(String::new, |pps| format!("; {pps} pps came through"));
            let irregular = if outcome.regular {
                ""
            } else {
                "; not as close as asked for"
            };
            format!(
                "{} (not {} pps){through}{irregular}",
                load_in_words(lower, found),
                count(upper)
            )
        }
        // Another goal's void trials have lowered the highest rate below what this one has reached.
        (Some(lower), None) if lower > found.limits().max => {
            format!("{} or more; no higher rate was tried", load_in_words(lower, found))
        }
        (Some(lower), None) => format!("{} or more; no upper bound was found", load_in_words(lower, found)),
        (None, Some(upper)) => format!("below {} pps; no lower bound was found", count(upper)),
        (None, None) => match found.best_so_far() {
            Some((load, seconds)) => format!(
                "not decided: {} pps lost nothing in {seconds} s, which is less than it takes",
                count(load)
            ),
            None => "not known: no rate has passed or failed".to_owned(),
        },
    }
}

/// The rate in a few words, for a headline.
pub(crate) fn in_short(outcome: &Outcome, found: &Found) -> String {
    match (outcome.bounds.lower, outcome.bounds.upper) {
        _ if outcome.none_passes => format!("none from {} pps up", count(found.limits().min)),
        (Some(lower), Some(_)) => load_in_words(lower, found),
        (Some(lower), None) if outcome.at_max && found.limited_by == LimitedBy::MaxRate => {
            format!("{} or more (--max-rate)", load_in_words(lower, found))
        }
        (Some(lower), None) => format!("{} or more", load_in_words(lower, found)),
        (None, Some(upper)) => format!("below {} pps", count(upper)),
        (None, None) => "not known".to_owned(),
    }
}

/// An irregular result's mark; empty for a regular one.
pub(crate) fn mark(outcome: &Outcome, found: &Found) -> &'static str {
    match outcome {
        Outcome { regular: true, .. } => "",
        Outcome { bounds, .. } if bounds.lower.or(bounds.upper).is_none() => "irregular: not decided",
        Outcome { at_max: true, .. } if found.limited_by == LimitedBy::Host => {
            "irregular: this host could offer no more undisturbed"
        }
        Outcome { at_max: true, .. } => "irregular: the highest rate passes",
        Outcome { none_passes: true, .. } => "irregular: the lowest rate does not pass",
        _ => "irregular: not as close as asked for",
    }
}

/// The result of a goal as programs read it.
pub(crate) fn outcome_json(outcome: &Outcome, found: &Found) -> Value {
    json!({
        "frame_size_bytes": found.frame_size,
        "lower_pps": outcome.bounds.lower,
        "upper_pps": outcome.bounds.upper,
        "lower_offered_pps": outcome.bounds.lower.map(|load| found.offered_at(load)),
        "conditional_throughput_pps": outcome.conditional_throughput,
        "regular": outcome.regular,
        "at_max": outcome.at_max,
        "none_passes": outcome.none_passes,
        "min_load_pps": found.limits().min,
        "max_load_pps": found.limits().max,
        "limited_by": found.limited_by.name(),
    })
}

/// Returns the chart of the search: the load of each trial, by its verdict.
pub(crate) fn trace(found: &Found, goals: &[Goal], outcomes: &[Outcome]) -> Chart {
    let lossy = |trial: &crate::search::Trial| {
        let counted = trial.verdict != Verdict::Void;
        counted.then(|| goals.iter().any(|goal| trial.is_high_loss(goal) == Some(true)))
    };
    let of = |name: &str, wanted: &dyn Fn(&crate::search::Trial) -> bool| Series {
        name: name.to_owned(),
        kind: Kind::Points,
        points: found
            .trials
            .iter()
            .enumerate()
            .filter(|(_, measured)| wanted(&measured.trial))
            .map(|(at, measured)| (found.numbers[at] as f64, Some(measured.trial.input.load as f64)))
            .collect(),
    };
    let mut series = vec![
        of("within the loss allowed", &|trial| lossy(trial) == Some(false)),
        of("more lost", &|trial| lossy(trial) == Some(true)),
        of(VOID, &|trial| trial.verdict == Verdict::Void),
    ];
    series.retain(|series| !series.points.is_empty());
    let first = found.numbers.first().copied().unwrap_or(1) as f64;
    let last = found.numbers.last().map_or(first, |last| *last as f64).max(first + 1.0);
    for (goal, outcome) in goals.iter().zip(outcomes) {
        if let Some(lower) = outcome.bounds.lower {
            series.push(Series {
                name: format!("{}: lower bound", goal.name()),
                kind: Kind::Reference,
                points: vec![(first, Some(lower as f64)), (last, Some(lower as f64))],
            });
        }
    }
    Chart {
        name: format!("search-{}", found.frame_size),
        title: format!("Trials of the search, frames of {} bytes", found.frame_size),
        x: Axis {
            label: "trial".to_owned(),
            unit: Unit::Count,
            ..Axis::default()
        },
        y: Axis {
            label: "load".to_owned(),
            unit: Unit::Pps,
            ..Axis::default()
        },
        series,
    }
}
