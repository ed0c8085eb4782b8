//! The charts in the form that the page's script draws.

use super::Much;
use crate::chart::{Placed, rank, shapes, style};
use crate::document::show::headed;
use crate::document::{Axis, Chart, Document, Kind, Scale, Unit};
use serde_json::{Value, json};

/// Charts that a script can draw.
pub(super) struct Data {
    pub(super) value: Value,
    names: Vec<String>,
}

impl Data {
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|n| n == name)
    }
}

/// Returns the data for the script; `None` if no chart can be drawn by it.
pub(super) fn charts(document: &Document, much: Much) -> Option<Data> {
    let mut names = Vec::new();
    let mut charts = Vec::new();
    for chart in super::parts::trimmed(&document.charts, much) {
        if !names.contains(&chart.name)
            && let Some(value) = drawable(&chart)
        {
            names.push(chart.name.clone());
            charts.push(value);
        }
    }
    let value = json!({ "charts": charts, "shapes": shapes() });
    (!names.is_empty()).then_some(Data { value, names })
}

/// Returns a chart for the script, if all of its lines have one value per place, in order. Other charts stay static
/// pictures.
fn drawable(chart: &Chart) -> Option<Value> {
    let values = |y: bool| {
        let points = chart.series.iter().flat_map(|s| &s.points);
        points.filter_map(move |(x, value)| if y { *value } else { Some(*x) })
    };
    let positive = |axis: &Axis, y: bool| axis.scale != Scale::Log || values(y).all(|v| v > 0.0);
    let straight = |points: &[(f64, Option<f64>)]| {
        points.windows(2).all(|w| w[0].0 < w[1].0) || points.windows(2).all(|w| w[0].0 > w[1].0)
    };
    let forward = chart.series.iter().all(|s| straight(&s.points));
    let enough = chart.series.iter().any(|s| s.points.len() > 2);
    if !forward || !enough || !positive(&chart.x, false) || !positive(&chart.y, true) {
        return None;
    }
    let counted = [Unit::Plain, Unit::Count, Unit::Bytes];
    let whole = |axis: &Axis, y: bool| counted.contains(&axis.unit) && values(y).all(|v| v.fract() == 0.0);
    let x = Placed::new(&chart.x, values(false), 8);
    let y = Placed::new(&chart.y, values(true), 5);
    let series = chart.series.iter().enumerate().map(|(i, series)| {
        let mut points = series.points.clone();
        if points
            .first()
            .zip(points.last())
            .is_some_and(|(first, last)| first.0 > last.0)
        {
            points.reverse();
        }
        let (colour, dashes) = style(&chart.series, i);
        let dashes: Vec<f64> = dashes.split(' ').filter_map(|dash| dash.parse().ok()).collect();
        json!({
            "name": series.name,
            "kind": match series.kind {
                Kind::Line => "line",
                Kind::Points => "points",
                Kind::Reference => "reference",
            },
            "rank": rank(&chart.series, i),
            "colour": colour,
            "dashes": (!dashes.is_empty()).then_some(dashes),
            "x": points.iter().map(|p| rounded(x.coordinate(p.0))).collect::<Vec<_>>(),
            "y": points.iter().map(|p| p.1.map(|v| rounded(y.coordinate(v)))).collect::<Vec<_>>(),
        })
    });
    Some(json!({
        "id": chart.name,
        "x": axis(&chart.x, &x, whole(&chart.x, false)),
        "y": axis(&chart.y, &y, whole(&chart.y, true)),
        "series": series.collect::<Vec<_>>(),
    }))
}

/// Returns an axis for the script. `whole`: the axis counts things that have no halves.
fn axis(axis: &Axis, placed: &Placed, whole: bool) -> Value {
    let (from, to) = placed.range();
    // Points have seven digits: none of them must lie beyond the end of the axis.
    let more = (to - from) * 1e-6;
    let names = match axis.scale {
        Scale::Category => placed.ticks.iter().map(|tick| tick.label.clone()).collect(),
        _ => Vec::new(),
    };
    json!({
        "scale": match axis.scale {
            Scale::Linear => "linear",
            Scale::Log => "log",
            Scale::Category => "category",
            Scale::Nines => "nines",
        },
        "label": placed.shown.heading(&axis.label),
        "name": headed(&axis.label),
        "whole": whole,
        "divide": placed.shown.divide,
        "unit": placed.shown.name,
        "names": names,
        "from": from - more,
        "to": to + more,
    })
}

/// Rounds to seven digits: more can't be seen, and the page must stay small. A whole number is written as one.
fn rounded(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return (value as i64).into();
    }
    format!("{value:.6e}").parse::<f64>().map_or(Value::Null, Value::from)
}
