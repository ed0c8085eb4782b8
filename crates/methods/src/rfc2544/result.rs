//! Results of the tests, as one document.

use super::choice::{Choice, Test};
use super::{OfSize, burst, latency, loss, recovery, reset, throughput};
use crate::bench::Bench;
use crate::document::document as of_all;
use crate::expect::Reached;
use crate::outcome::{outcome_json, trace, verdict};
use crate::setup::{Setup, Stop};
use mpps_pages::document::Document;
use mpps_report::{Between, Found};
use serde_json::{Value, json};
use std::time::Duration;

/// Input of the result and of the printed lines.
pub(super) struct Told<'a, 'b, 's> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) choice: &'a Choice,
    pub(super) bench: &'a Bench<'b, 's>,
    pub(super) sizes: &'a [OfSize],
    pub(super) params: Value,
    pub(super) took: Duration,
    pub(super) stop: Option<&'a Stop>,
}

/// The result, whole.
pub(super) fn document(told: &Told<'_, '_, '_>) -> Document {
    let Told { choice, sizes, .. } = told;
    let what = match &choice.tests[..] {
        [one] | [Test::Throughput, one] => one.name().to_owned(),
        all => all.iter().map(|test| test.name()).collect::<Vec<_>>().join(", "),
    };
    let title = format!("RFC 2544: {what}");
    let mut document = of_all(told.setup, told.bench, ("rfc2544", title), told.took, told.stop);
    let notes = || sizes.iter().flat_map(|of| of.notes.iter().cloned());
    // Each test that was cut off says so itself; the last is not said twice.
    if let Some(stop) = told.stop {
        let cut = matches!(stop, Stop::Void(_) | Stop::OutOfTime);
        let why = (!cut).then(|| stop.why());
        document.incomplete = Some(why.into_iter().chain(notes()).collect::<Vec<_>>().join("; "));
    }
    document.params = told.params.clone();
    document.compliance = Some(choice.compliance());
    document.deviations.splice(0..0, choice.deviations());
    if sizes.iter().all(|of| of.theoretical.is_none()) {
        let most = throughput::ceiling(sizes).ceiling();
        document.deviations.push(format!(
            "the medium has no rate of its own: in its place stands the {most} (RFC 2544, 20)"
        ));
    }
    document.verdict = sentences(choice, sizes);
    // RFC 2544, 26.1: these belong to the reported rate.
    let of = |name: &str| told.params[name].as_str().unwrap_or("not known").to_owned();
    document
        .verdict
        .push(format!("{} on {}; {}", of("protocol"), of("medium"), of("data_format")));
    if told.stop.is_none() {
        document.verdict.extend(notes());
    }
    document.results = sizes.iter().map(|of| of_size(choice, of)).collect();
    let mut tables = Vec::new();
    let mut charts = Vec::new();
    for test in &choice.tests {
        let (table, of_table) = match test {
            Test::Recovery => (recovery::table(choice, sizes), vec![recovery::chart(choice, sizes)]),
            Test::Reset => (reset::table(choice, sizes), Vec::new()),
            Test::Throughput => (throughput::table(sizes), throughput::charts(sizes).to_vec()),
            Test::Latency => (latency::table(sizes), vec![latency::chart(sizes)]),
            Test::Loss => (loss::table(sizes), vec![loss::chart(sizes)]),
            Test::BackToBack => (burst::table(sizes), vec![burst::chart(sizes)]),
        };
        if !table.rows.is_empty() {
            tables.push(table);
            charts.extend(of_table);
        }
        if *test == Test::Throughput {
            charts.extend(latency::by_size_charts(choice, sizes));
            tables.extend(Some(throughput::trials_table(sizes)).filter(|table| !table.rows.is_empty()));
        }
    }
    let bursts = throughput::bursts_table(sizes);
    if !bursts.rows.is_empty() {
        tables.push(bursts);
    }
    for found in sizes.iter().filter_map(|of| of.found.as_ref()) {
        charts.push(trace(found, std::slice::from_ref(&choice.goal), &found.outcomes()));
    }
    charts.retain(|chart| {
        chart
            .series
            .iter()
            .flat_map(|series| &series.points)
            .any(|point| point.1.is_some())
    });
    document.tables.splice(0..0, tables);
    document.charts = charts;
    document
}

/// Results of the tests that a demand can name.
pub(super) fn finds(choice: &Choice) -> Vec<Found> {
    let of = |test: &Test| match test {
        Test::Throughput => Found::Throughput,
        Test::Latency => Found::Latency,
        Test::Loss => Found::Loss,
        Test::BackToBack => Found::BackToBack,
        Test::Recovery => Found::Recovery,
        Test::Reset => Found::Reset,
    };
    choice.tests.iter().map(of).collect()
}

/// Values of these results after the tests, at each frame size.
pub(super) fn reached(choice: &Choice, sizes: &[OfSize]) -> Vec<Reached> {
    let at_size = |of: &OfSize| {
        let json = of_size(choice, of);
        let number = |pointer: &str| json.pointer(pointer).and_then(Value::as_f64);
        let between = |what: Found| match what {
            Found::Latency => Between::exactly(number("/latency/typical_ns/median")),
            Found::Loss => Between::exactly(number("/loss/0/loss_ratio")),
            Found::BackToBack => Between::exactly(number("/back_to_back/mean_frames")),
            Found::Recovery => Between::exactly(number("/recovery/mean_recovery_ns")),
            Found::Reset => Between::exactly(number("/reset/mean_by_loss_ns")),
            _ => Between {
                lower: number("/throughput/lower_pps"),
                upper: number("/throughput/upper_pps"),
            },
        };
        let reached = |what: Found| Reached {
            what,
            stream: None,
            frame_size: of.frame_size,
            between: between(what),
        };
        finds(choice).into_iter().map(reached).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = sizes.iter().flat_map(at_size).collect();
    // A reset is at one size alone.
    let resets = |reached: &Reached| reached.what == Found::Reset;
    if all
        .iter()
        .any(|reached| resets(reached) && reached.between.lower.is_some())
    {
        all.retain(|reached| !resets(reached) || reached.between.lower.is_some());
    }
    all
}

/// Returns the results, test by test, a sentence per size.
fn sentences(choice: &Choice, sizes: &[OfSize]) -> Vec<String> {
    let unfit = |of: &OfSize| Some(format!("{} bytes: 0 pps: {}", of.frame_size, of.unfit.as_ref()?));
    let hindered = |of: &OfSize| Some(format!("{} bytes: {}", of.frame_size, of.found.as_ref()?.hindered()?));
    let mut all: Vec<_> = sizes.iter().filter_map(hindered).collect();
    // The remedy is the same for all sizes.
    let remedy = sizes.iter().find_map(|of| of.found.as_ref()?.remedy());
    all.extend(remedy.map(str::to_owned));
    all.extend(sizes.iter().filter_map(|of| throughput_verdict(choice, of)));
    all.extend(sizes.iter().flat_map(throughput::bursts_verdict));
    all.extend(sizes.iter().filter_map(unfit));
    all.extend(sizes.iter().filter_map(latency::verdict));
    all.extend(sizes.iter().filter_map(loss_verdict));
    all.extend(sizes.iter().filter_map(burst::verdict));
    all.extend(sizes.iter().filter_map(|of| recovery::verdict(choice, of)));
    all.extend(sizes.iter().filter_map(|of| reset::verdict(choice, of)));
    all
}

fn throughput_verdict(choice: &Choice, of: &OfSize) -> Option<String> {
    let found = of.found.as_ref()?;
    let outcome = *found.outcomes().first()?;
    let rate = if choice.goal.loss.share() > 0.0 {
        format!("rate with loss up to {}", choice.goal.loss)
    } else {
        "throughput".to_owned()
    };
    Some(format!("{} bytes: {rate} {}", of.frame_size, verdict(&outcome, found)))
}

/// Returns a sentence on the loss, and on the first load without loss.
fn loss_verdict(of: &OfSize) -> Option<String> {
    let first = of.loss.first()?;
    let percent = |loss: Option<f64>| mpps_report::units::percent(loss.unwrap_or_default());
    let load = |told: &crate::measure::Measured| mpps_stats::count(told.trial.input.load);
    let clean = of.loss.iter().find(|told| told.loss().1 == 0);
    Some(format!(
        "{} bytes: loss {} at {} pps, {}",
        of.frame_size,
        percent(first.loss_ratio()),
        load(first),
        match clean {
            Some(clean) => format!("none first at {} pps", load(clean)),
            None => "and some at every load".to_owned(),
        }
    ))
}

/// Returns the results at one size, for programs.
fn of_size(choice: &Choice, of: &OfSize) -> Value {
    let throughput = of.found.as_ref().and_then(|found| {
        let outcome = found.outcomes();
        Some(outcome_json(outcome.first()?, found))
    });
    let loss: Vec<_> = of
        .loss
        .iter()
        .map(|told| {
            json!({
                "load_pps": told.trial.input.load,
                "offered_pps": told.offered_pps,
                "refused": told.refused,
                "loss_ratio": told.loss_ratio(),
            })
        })
        .collect();
    json!({
        "frame_size_bytes": of.frame_size,
        "theoretical_pps": of.theoretical,
        "unfit": of.unfit,
        "throughput": match &of.unfit {
            Some(_) => json!({ "lower_pps": 0 }),
            None => throughput.into(),
        },
        "bursts": throughput::bursts_json(of),
        "latency": latency::json(of),
        "loss": loss,
        "back_to_back": burst::json(of),
        "recovery": recovery::json(choice, of),
        "reset": reset::json(choice, of),
        "notes": of.notes,
    })
}
