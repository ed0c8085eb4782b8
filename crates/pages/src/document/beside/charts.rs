//! Charts of one name as one chart, and the chart of differences.

use super::merged::{KEYS, LESS_FIRST, RECEIVED, cell};
use super::{Named, of_each};
use crate::document::{Axis, Chart, Kind, Scale, Series, Table, Unit};

/// Returns the charts of all results, each with the lines of all. As in the picture of one test, charts of searches are
/// used only if there is no other chart.
pub(super) fn overlaid(all: &[Named]) -> Vec<Chart> {
    let charts = of_each(all, |document| &document.charts, |chart| &chart.name);
    let searches = charts.iter().all(|charts| charts[0].1.is_of_search());
    charts
        .into_iter()
        .filter(|charts| searches || !charts[0].1.is_of_search())
        .map(|charts| in_one(&charts))
        .collect()
}

/// Merges the charts of one name into one. A line that is the same in all results is drawn once.
fn in_one(charts: &[(&str, &Chart)]) -> Chart {
    let first = charts[0].1;
    let mut series: Vec<Series> = Vec::new();
    for (name, chart) in charts {
        let lines = chart.series.iter().filter(|one| one.kind != Kind::Reference).count();
        for one in &chart.series {
            let shared = |(_, other): &(&str, &Chart)| other.series.contains(one);
            let (reference, alike) = (one.kind == Kind::Reference, charts.iter().all(shared));
            if reference && alike {
                series.extend((!series.contains(one)).then(|| one.clone()));
                continue;
            }
            series.push(Series {
                name: match lines == 1 && !reference {
                    true => (*name).to_owned(),
                    false => format!("{name}: {}", one.name),
                },
                ..one.clone()
            });
        }
    }
    series.sort_by_key(|one| one.kind == Kind::Reference);
    let title = charts.iter().all(|(_, chart)| chart.title == first.title);
    let ends = |of: fn(&Chart) -> &Axis| {
        let end = |end: fn(&Axis) -> Option<f64>| {
            let same = charts.iter().all(|(_, chart)| end(of(chart)) == end(of(first)));
            end(of(first)).filter(|_| same)
        };
        Axis {
            min: end(|axis| axis.min),
            max: end(|axis| axis.max),
            ..of(first).clone()
        }
    };
    Chart {
        name: first.name.clone(),
        title: if title {
            first.title.clone()
        } else {
            first.title.split(',').next().unwrap_or_default().to_owned()
        },
        x: ends(|chart| &chart.x),
        y: ends(|chart| &chart.y),
        series,
    }
}

/// Returns a chart of packets received minus those of the first result, by frame size.
pub(super) fn difference(table: &Table, first: &str) -> Option<Chart> {
    let at = table
        .columns
        .iter()
        .position(|column| column.key == format!("{RECEIVED}{LESS_FIRST}"))?;
    let mut series: Vec<Series> = Vec::new();
    for row in &table.rows {
        let name = cell(table, row, "result");
        let name = name.as_str().unwrap_or_default();
        let value = if name == first { Some(0.0) } else { row[at].as_f64() };
        let (Some(size), Some(value)) = (cell(table, row, KEYS[0]).as_f64(), value) else {
            continue;
        };
        let place = series.iter().position(|one| one.name == name).unwrap_or(series.len());
        if place == series.len() {
            series.push(Series {
                name: name.to_owned(),
                ..Series::default()
            });
        }
        series[place].points.push((size, Some(value)));
    }
    (!series.is_empty()).then(|| Chart {
        name: "received-difference".to_owned(),
        title: format!("Packets received, less those of {first}, each at its own throughput"),
        x: Axis {
            label: "frame size".to_owned(),
            unit: Unit::Bytes,
            scale: Scale::Category,
            ..Axis::default()
        },
        y: Axis {
            label: "difference, packets".to_owned(),
            unit: Unit::Count,
            ..Axis::default()
        },
        series,
    })
}
