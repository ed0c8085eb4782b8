//! System recovery (RFC 2544, 26.5): how long packets are still lost after an overload, at half of it.

use super::choice::Choice;
use super::{OfSize, by_size};
use crate::bench::Bench;
use crate::document::column;
use crate::measure::{Ask, Measured, Phase};
use crate::search::Input;
use crate::setup::Step;
use mpps_pages::document::{Axis, Chart, Kind, Series, Table, Unit};
use mpps_report::units;
use mpps_stats::count;
use serde_json::{Value, json};

/// Load of the overload, as a multiple of the throughput.
const OVERLOAD: f64 = 1.1;

/// Measures it; what is found is in `of`, however it ends.
pub(super) fn measure(choice: &Choice, bench: &mut Bench<'_, '_>, of: &mut OfSize) -> Step<()> {
    let Some((throughput, max)) = of.throughput().zip(of.found.as_ref().map(|found| found.limits().max)) else {
        of.skipped("recovery", "no throughput is known");
        return Ok(());
    };
    let load = ((throughput as f64 * OVERLOAD) as u64).min(max);
    if load <= throughput {
        of.skipped(
            "recovery",
            "there is no higher rate than the throughput to overload the device with",
        );
        return Ok(());
    }
    let input = Input {
        load,
        duration_ns: 2 * choice.recovery_ns,
    };
    let ask = Ask {
        then: Some(((load / 2).max(1), choice.recovery_ns)),
        ..Ask::of(Phase::Recovery, of.frame_size, input)
    };
    for run in 1..=choice.runs {
        let told = bench.counted(&ask)?;
        let line = format!(
            "{} bytes: recovery: run {run} of {}: {}",
            of.frame_size,
            choice.runs,
            words(after(choice, &told))
        );
        let each = 2 * choice.recovery_ns + bench.between().as_nanos() as u64;
        bench.say_left(&line, u64::from(choice.runs - run) * each);
        of.recovery.push(told);
    }
    Ok(())
}

/// Time until the device recovered in a run, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
enum After {
    /// The last packet was lost so long after the overload, ns.
    Lost(u64),
    /// Packets were lost to the end.
    Ever,
    /// The overload lost nothing.
    NoLoss,
    /// The times at which packets were lost are not known.
    Unknown,
}

fn after(choice: &Choice, told: &Measured) -> After {
    // Nobody knows when those were due that the path refused, nor when late ones came.
    if told.refused > 0 || told.late > 0 {
        return After::Unknown;
    }
    let Some([_, last]) = told.lost_between_ns else {
        return if told.loss().1 == 0 {
            After::NoLoss
        } else {
            After::Unknown
        };
    };
    // A hundredth of the time without loss is the least that shows an end.
    if last + choice.recovery_ns / 100 >= told.sending_ns {
        return After::Ever;
    }
    After::Lost(last.saturating_sub(choice.recovery_ns))
}

fn words(after: After) -> String {
    match after {
        After::Lost(ns) => units::time(ns as f64),
        After::Ever => "packets were lost to the end".to_owned(),
        After::NoLoss => "the overload lost nothing".to_owned(),
        After::Unknown => "not known: packets were refused or late, or their numbers do not tell".to_owned(),
    }
}

/// Times of the runs that have one, ns.
fn times(choice: &Choice, of: &OfSize) -> Vec<u64> {
    let time = |told: &Measured| match after(choice, told) {
        After::Lost(ns) => Some(ns),
        _ => None,
    };
    of.recovery.iter().filter_map(time).collect()
}

fn mean(times: &[u64]) -> Option<f64> {
    (!times.is_empty()).then(|| times.iter().sum::<u64>() as f64 / times.len() as f64)
}

/// Returns the runs without a time, in words; empty if all have one.
fn note(choice: &Choice, of: &OfSize) -> String {
    let all = of.recovery.iter().map(|told| after(choice, told));
    let mut others: Vec<_> = all
        .filter(|after| !matches!(after, After::Lost(_)))
        .map(words)
        .collect();
    others.dedup();
    others.join("; ")
}

/// One sentence.
pub(super) fn verdict(choice: &Choice, of: &OfSize) -> Option<String> {
    let first = of.recovery.first()?;
    let (times, note) = (times(choice, of), note(choice, of));
    let mut told: Vec<_> = mean(&times)
        .map(|mean| {
            format!(
                "{} (mean of {} of {} runs)",
                units::time(mean),
                times.len(),
                of.recovery.len()
            )
        })
        .into_iter()
        .collect();
    told.extend((!note.is_empty()).then_some(note));
    Some(format!(
        "{} bytes: recovery after {} pps: {}",
        of.frame_size,
        count(first.trial.input.load),
        told.join("; ")
    ))
}

/// For programs.
pub(super) fn json(choice: &Choice, of: &OfSize) -> Value {
    let Some(first) = of.recovery.first() else {
        return Value::Null;
    };
    let times = times(choice, of);
    json!({
        "throughput_pps": of.throughput(),
        "overload_pps": first.trial.input.load,
        "overload_ns": choice.recovery_ns,
        "then_pps": first.ask.then.map(|(load, _)| load),
        "recovery_ns": times,
        "mean_recovery_ns": mean(&times),
        "note": note(choice, of),
    })
}

/// Recovery times as a table.
pub(super) fn table(choice: &Choice, sizes: &[OfSize]) -> Table {
    let row = |of: &OfSize| -> Option<Vec<Value>> {
        let first = of.recovery.first()?;
        let times = times(choice, of);
        Some(vec![
            of.frame_size.into(),
            of.throughput().into(),
            first.trial.input.load.into(),
            first.ask.then.map(|(load, _)| load).into(),
            of.recovery.len().into(),
            mean(&times).into(),
            times.iter().min().copied().into(),
            times.iter().max().copied().into(),
            note(choice, of).into(),
        ])
    };
    Table {
        name: "recovery".to_owned(),
        caption: "Recovery: from the end of the overload to the departure of the last lost packet".to_owned(),
        columns: vec![
            column("frame_size_bytes", "frame", Unit::Bytes),
            column("throughput_pps", "throughput", Unit::Pps),
            column("overload_pps", "overload", Unit::Pps),
            column("then_pps", "then", Unit::Pps),
            column("runs", "runs", Unit::Count),
            column("mean_recovery_ns", "mean recovery", Unit::Ns),
            column("min_recovery_ns", "min", Unit::Ns),
            column("max_recovery_ns", "max", Unit::Ns),
            column("note", "remark", Unit::Plain),
        ],
        rows: sizes.iter().filter_map(row).collect(),
    }
}

/// Frame size to the right, mean recovery time upwards.
pub(super) fn chart(choice: &Choice, sizes: &[OfSize]) -> Chart {
    let point = |of: &OfSize| Some((of.frame_size as f64, Some(mean(&times(choice, of))?)));
    Chart {
        name: "recovery".to_owned(),
        title: "Mean recovery time by frame size".to_owned(),
        x: by_size(),
        y: Axis {
            label: "recovery time".to_owned(),
            unit: Unit::Ns,
            min: Some(0.0),
            ..Axis::default()
        },
        series: vec![Series {
            name: "mean recovery time".to_owned(),
            kind: Kind::Line,
            points: sizes.iter().filter_map(point).collect(),
        }],
    }
}
