//! Frame loss rate (RFC 2544, 26.3): loss by load, from the highest downwards until nothing is lost twice in a row.

use super::OfSize;
use super::choice::Choice;
use super::throughput::ceiling;
use crate::bench::Bench;
use crate::document::column;
use crate::limits::LimitedBy;
use crate::measure::{Ask, Measured, Phase};
use crate::search::Input;
use crate::setup::Step;
use mpps_pages::document::{Axis, Chart, Kind, Series, Table, Unit};
use mpps_stats::count;
use serde_json::Value;

/// Measures it; what is found is in `of`, however it ends.
pub(super) fn measure(choice: &Choice, bench: &mut Bench<'_, '_>, of: &mut OfSize) -> Step<()> {
    let max = of.limits(bench)?.0.max;
    for step in 0.. {
        let share = 1.0 - f64::from(step) * choice.step;
        let load = (max as f64 * share).round() as u64;
        if share < choice.step / 2.0 || load == 0 {
            break;
        }
        let input = Input {
            load,
            duration_ns: choice.loss_ns,
        };
        let told = bench.counted(&Ask::of(Phase::Loss, of.frame_size, input))?;
        let (due, missing) = told.loss();
        let line = format!(
            "{} bytes: loss: {} pps: {} of {} lost",
            of.frame_size,
            count(load),
            count(missing),
            count(due)
        );
        // At the most: two loads without loss end it.
        let more = ((share - choice.step) / choice.step).max(0.0) as u64;
        bench.say_left(&line, more * (choice.loss_ns + bench.between().as_nanos() as u64));
        of.loss.push(told);
        bench.check_answers()?;
        let clean = of.loss.iter().rev().take_while(|told| told.loss().1 == 0).count();
        if clean >= 2 {
            break;
        }
    }
    Ok(())
}

/// Returns the rate that is 100 %: the link's rate or, if it has none, the tester's highest.
fn whole(of: &OfSize) -> f64 {
    of.theoretical
        .or_else(|| Some(of.limits?.0.max as f64))
        .unwrap_or(f64::NAN)
}

/// Loads and losses as a table.
pub(super) fn table(sizes: &[OfSize]) -> Table {
    let row = |of: &OfSize, told: &Measured| -> Vec<Value> {
        let (due, missing) = told.loss();
        vec![
            of.frame_size.into(),
            (told.trial.input.load as f64 / whole(of)).into(),
            told.trial.input.load.into(),
            told.offered_pps.into(),
            due.into(),
            missing.into(),
            told.refused.into(),
            told.loss_ratio().into(),
        ]
    };
    let rows = sizes
        .iter()
        .flat_map(|of| of.loss.iter().map(move |told| row(of, told)));
    Table {
        name: "loss".to_owned(),
        caption: "Frame loss rate by load".to_owned(),
        columns: vec![
            column("frame_size_bytes", "frame", Unit::Bytes),
            column("load_ratio", "of maximum", Unit::Ratio),
            column("load_pps", "load", Unit::Pps),
            column("offered_pps", "offered", Unit::Pps),
            column("due", "due", Unit::Count),
            column("missing", "lost", Unit::Count),
            column("refused", "refused", Unit::Count),
            column("loss_ratio", "loss", Unit::Ratio),
        ],
        rows: rows.collect(),
    }
}

/// Load to the right, loss upwards, both from 0 to 100 % (RFC 2544, 26.3).
pub(super) fn chart(sizes: &[OfSize]) -> Chart {
    let axis = |label: &str| Axis {
        label: label.to_owned(),
        unit: Unit::Ratio,
        min: Some(0.0),
        max: Some(1.0),
        ..Axis::default()
    };
    let linked = sizes.iter().any(|of| of.theoretical.is_some());
    let x = match linked {
        true => "load, of the theoretical maximum",
        false if ceiling(sizes) == LimitedBy::Generator => "load, of the tester's maximum",
        false => "load, of the highest rate tried",
    };
    let series = |of: &OfSize| Series {
        name: format!("{} bytes", of.frame_size),
        kind: Kind::Line,
        points: of
            .loss
            .iter()
            .map(|told| (told.trial.input.load as f64 / whole(of), told.loss_ratio()))
            .collect(),
    };
    Chart {
        name: "loss".to_owned(),
        title: "Frame loss rate by load".to_owned(),
        x: axis(x),
        y: axis("loss"),
        series: sizes.iter().filter(|of| !of.loss.is_empty()).map(series).collect(),
    }
}
