//! Throughput (RFC 2544, 26.1): the highest rate at which nothing is lost, by frame size.

use super::choice::Choice;
use super::{OfSize, by_size};
use crate::bench::{Bench, pdv};
use crate::document::column;
use crate::found::{Found, search_of};
use crate::limits::LimitedBy;
use crate::measure::Measured;
use crate::outcome::{bounds, mark, outcome_json, verdict};
use crate::search::Verdict;
use crate::setup::Step;
use mpps_pages::document::{Axis, Chart, Kind, Series, Table, Unit};
use mpps_report::units;
use mpps_stats::count;
use mpps_wire::FrameSize;
use serde_json::Value;

/// Searches for it; what is found is in `of`, however it ends.
pub(super) fn measure(choice: &Choice, bench: &mut Bench<'_, '_>, of: &mut OfSize) -> Step<()> {
    let (limits, limited_by) = of.limits(bench)?;
    let search = search_of(vec![choice.goal.clone()], limits, choice.search_ns, choice.binary)?;
    let found = of.found.insert(Found::new(of.frame_size, search, limited_by));
    let done = go(found, bench, "throughput");
    // The highest rate may have been given up for a lower one.
    of.limits = Some((found.limits(), found.limited_by));
    done?;
    for frames in &choice.bursts {
        let (limits, limited_by) = of.limits(bench)?;
        let search = search_of(vec![choice.goal.clone()], limits, choice.search_ns, choice.binary)?;
        let mut found = Found::new(of.frame_size, search, limited_by);
        found.burst = Some(*frames);
        let done = go(&mut found, bench, &format!("in bursts of {frames}"));
        of.in_bursts.push(found);
        done?;
    }
    Ok(())
}

/// Goes through a search.
fn go(found: &mut Found, bench: &mut Bench<'_, '_>, what: &str) -> Step<()> {
    found.go(bench, &mut |bench, found| {
        let Some(last) = found.trials.last() else { return };
        let told = match last.trial.verdict {
            Verdict::Void => format!("void: {}", last.void_in_short()),
            Verdict::Counted { due, missing } => format!("{} of {} lost", count(missing), count(due)),
        };
        let known = found.outcomes().first().map(|outcome| bounds(&outcome.bounds));
        let line = format!(
            "{} bytes: {what}: {} pps: {told}; known: {}",
            found.frame_size,
            count(last.trial.input.load),
            known.unwrap_or_default()
        );
        bench.say_left(&line, found.left_ns(bench.between()));
    })
}

/// Frames back to back, packets per second without loss, and the pause after each burst, ns: what is left of the time
/// of a burst at that rate once its frames have left at the highest one. `None` where no rate is known.
fn pause(of: &OfSize, found: &Found) -> Option<(u32, u64, f64)> {
    let (frames, lower) = (found.burst?, found.outcomes().first()?.bounds.lower?);
    let most = of.theoretical.unwrap_or(found.limits().max as f64);
    let seconds = f64::from(frames) / lower as f64 - f64::from(frames) / most;
    Some((frames, lower, seconds.max(0.0) * 1e9))
}

/// Bursts (RFC 2544, 21) for programs.
pub(super) fn bursts_json(of: &OfSize) -> Value {
    let one = |found: &Found| {
        let outcomes = found.outcomes();
        let mut told = outcome_json(outcomes.first()?, found);
        told["burst_frames"] = found.burst.into();
        told["pause_ns"] = pause(of, found).map(|(_, _, ns)| ns).into();
        Some(told)
    };
    of.in_bursts.iter().filter_map(one).collect()
}

/// A sentence for each size and burst.
pub(super) fn bursts_verdict(of: &OfSize) -> Vec<String> {
    let one = |found: &Found| {
        let outcome = *found.outcomes().first()?;
        let told = match (found.hindered(), pause(of, found)) {
            (Some(why), _) => format!("{}; {why}", verdict(&outcome, found)),
            (None, Some((_, lower, ns))) => format!("{} pps, {} between two", count(lower), units::time(ns)),
            (None, None) => verdict(&outcome, found),
        };
        Some(format!(
            "{} bytes: bursts of {} frames: {told}",
            of.frame_size, found.burst?
        ))
    };
    of.in_bursts.iter().filter_map(one).collect()
}

/// Bursts as a table.
pub(super) fn bursts_table(sizes: &[OfSize]) -> Table {
    let row = |of: &OfSize, found: &Found| -> Option<Vec<Value>> {
        let outcome = *found.outcomes().first()?;
        Some(vec![
            of.frame_size.into(),
            found.burst.into(),
            outcome.bounds.lower.into(),
            outcome.bounds.upper.into(),
            pause(of, found).map(|(_, _, ns)| ns).into(),
            found.trials.len().into(),
            mark(&outcome, found).into(),
        ])
    };
    let rows = sizes
        .iter()
        .flat_map(|of| of.in_bursts.iter().filter_map(move |found| row(of, found)));
    Table {
        name: "bursts".to_owned(),
        caption: "Bursts of frames back to back, with pauses between".to_owned(),
        columns: vec![
            column("frame_size_bytes", "frame", Unit::Bytes),
            column("burst_frames", "burst, frames", Unit::Count),
            column("throughput_pps", "throughput", Unit::Pps),
            column("upper_pps", "not", Unit::Pps),
            column("pause_ns", "pause between two", Unit::Ns),
            column("trials", "trials", Unit::Count),
            column("note", "remark", Unit::Plain),
        ],
        rows: rows.collect(),
    }
}

/// The throughputs as a table. A size that the port can't send has a throughput of 0 (RFC 2544, 9.4).
pub(super) fn table(sizes: &[OfSize]) -> Table {
    let row = |of: &OfSize| -> Option<Vec<Value>> {
        if let Some(unfit) = &of.unfit {
            let mut row = vec![Value::Null; 9];
            (row[0], row[1], row[8]) = (of.frame_size.into(), 0.into(), unfit.as_str().into());
            return Some(row);
        }
        let found = of.found.as_ref()?;
        let outcome = *found.outcomes().first()?;
        let bits = FrameSize::from_fcs(of.frame_size).l1_bits() as f64;
        let lower = outcome.bounds.lower;
        let most = of.theoretical.unwrap_or(found.limits().max as f64);
        Some(vec![
            of.frame_size.into(),
            lower.into(),
            outcome.bounds.upper.into(),
            lower.map(|load| found.offered_at(load)).into(),
            lower.map(|load| load as f64 * bits).into(),
            most.into(),
            lower.map(|load| load as f64 / most).into(),
            found.trials.len().into(),
            match mark(&outcome, found) {
                "" => Value::from(""),
                mark if outcome.at_max && found.limited_by != LimitedBy::Host => {
                    format!("{mark}: {}", found.limited_by.words()).into()
                }
                mark => mark.into(),
            },
        ])
    };
    let most = match sizes.iter().any(|of| of.theoretical.is_some()) {
        true => "theoretical maximum",
        false if ceiling(sizes) == LimitedBy::Generator => "tester's maximum",
        false => "highest rate tried",
    };
    Table {
        name: "throughput".to_owned(),
        caption: "Throughput by frame size".to_owned(),
        columns: vec![
            column("frame_size_bytes", "frame", Unit::Bytes),
            column("throughput_pps", "throughput", Unit::Pps),
            column("upper_pps", "not", Unit::Pps),
            column("offered_pps", "offered", Unit::Pps),
            column("throughput_bps", "throughput, layer 1", Unit::Bps),
            column("maximum_pps", most, Unit::Pps),
            column("of_maximum_ratio", "of that", Unit::Ratio),
            column("trials", "trials", Unit::Count),
            column("note", "remark", Unit::Plain),
        ],
        rows: sizes.iter().filter_map(row).collect(),
    }
}

/// The last of the longest trials at the throughput.
pub(super) fn at_throughput(of: &OfSize) -> Option<&Measured> {
    let lower = of.throughput()?;
    let trials = of.found.as_ref()?.trials.iter();
    let there = trials.filter(|told| told.counts() && told.trial.input.load == lower);
    there.max_by_key(|told| told.ask.duration_ns)
}

/// Returns the table of the trial at the throughput of each size, packet by packet and byte by byte.
pub(super) fn trials_table(sizes: &[OfSize]) -> Table {
    let row = |of: &OfSize| -> Option<Vec<Value>> {
        let told = at_throughput(of)?;
        let seconds = told.ask.duration_ns as f64 / 1e9;
        let bits = FrameSize::from_fcs(of.frame_size).l1_bits();
        let rate = told.received as f64 / seconds;
        let delay = told.latency.as_ref();
        Some(vec![
            of.frame_size.into(),
            (bits / 8).into(),
            seconds.into(),
            told.loss().1.into(),
            told.sent.into(),
            told.received.into(),
            (told.sent * of.frame_size as u64).into(),
            delay.map(|delay| delay.mean).into(),
            delay.map(|delay| delay.max).into(),
            delay.map(pdv).into(),
            (rate * bits as f64).into(),
            rate.into(),
        ])
    };
    Table {
        name: "at-throughput".to_owned(),
        caption: "The last full trial at the throughput, by frame size".to_owned(),
        columns: vec![
            column("frame_size_bytes", "frame", Unit::Bytes),
            column("wire_size_bytes", "on the wire", Unit::Bytes),
            column("duration_s", "duration", Unit::S),
            column("missing", "lost", Unit::Count),
            column("sent", "sent", Unit::Count),
            column("received", "received", Unit::Count),
            column("sent_bytes", "sent", Unit::Bytes),
            column("latency_mean_ns", "mean latency", Unit::Ns),
            column("latency_max_ns", "max", Unit::Ns),
            column("pdv_ns", "jitter (PDV)", Unit::Ns),
            column("received_bps", "received, layer 1", Unit::Bps),
            column("received_pps", "received", Unit::Pps),
        ],
        rows: sizes.iter().filter_map(row).collect(),
    }
}

/// Returns the limit that set the highest rates of these sizes, as a chart has one line for all of them. The limit of
/// this host's generator is named only if nothing else set any of them.
pub(super) fn ceiling(sizes: &[OfSize]) -> LimitedBy {
    let set = |by: &LimitedBy| sizes.iter().filter_map(|of| of.limits).any(|(_, of)| of == *by);
    let others = [LimitedBy::MaxRate, LimitedBy::Host];
    others.into_iter().find(set).unwrap_or(LimitedBy::Generator)
}

/// Frame size to the right, rate upwards, and what could be at best (RFC 2544, 26.1): packets, and bits on layer 1.
pub(super) fn charts(sizes: &[OfSize]) -> [Chart; 2] {
    let linked = sizes.iter().any(|of| of.theoretical.is_some());
    let chart = |name: &str, title: &str, unit: Unit, each: fn(&OfSize) -> f64| {
        let points = |of: fn(&OfSize) -> Option<f64>| {
            let point = |size: &OfSize| Some((size.frame_size as f64, Some(of(size)? * each(size))));
            sizes.iter().filter_map(point).collect::<Vec<_>>()
        };
        Chart {
            name: name.to_owned(),
            title: title.to_owned(),
            x: by_size(),
            y: Axis {
                label: "rate".to_owned(),
                unit,
                min: Some(0.0),
                ..Axis::default()
            },
            series: vec![
                Series {
                    name: "measured".to_owned(),
                    kind: Kind::Line,
                    points: points(|of| match of.unfit {
                        Some(_) => Some(0.0),
                        None => of.throughput().map(|load| load as f64),
                    }),
                },
                Series {
                    name: match linked {
                        true => "theoretical".to_owned(),
                        false => ceiling(sizes).ceiling().to_owned(),
                    },
                    kind: Kind::Reference,
                    points: points(|of| of.theoretical.or_else(|| Some(of.limits?.0.max as f64))),
                },
            ],
        }
    };
    let bits = |of: &OfSize| FrameSize::from_fcs(of.frame_size).l1_bits() as f64;
    [
        chart("throughput", "Throughput by frame size", Unit::Pps, |_| 1.0),
        chart(
            "throughput-bits",
            "Throughput by frame size, bits on layer 1",
            Unit::Bps,
            bits,
        ),
    ]
}
