//! Rows of several runs over one time axis: one line per run.

use super::bins::{Band, Bin, MAX, MEAN, P50, P99, Run};
use crate::document::{Axis, Chart, Kind, Scale, Series, Unit};

/// A run and its name in the legend.
pub(crate) type Named = (String, Run);

type Value<'f> = &'f dyn Fn(&Bin) -> Option<f64>;
/// Name and column of a latency, and the value of a bin that is drawn (lowest, mean or highest).
type Latency = (&'static str, usize, fn(&Band) -> Option<f64>);

/// Returns charts of rates, loss and latency of these runs. A single run has its sent and received packets side by
/// side.
pub(crate) fn charts(runs: &[Named]) -> Vec<Chart> {
    let (title, rates) = rates(runs);
    let mut charts = vec![chart("rates", title, "Rate", Unit::Pps, Scale::Linear, some(rates))];
    if runs.iter().any(|(_, run)| !run.only_sends() && run.rx + run.lost > 0.0) {
        let mut series = each(runs, if runs.len() > 1 { "" } else { "lost" }, &|bin| {
            bin.loss_ratio.highest()
        });
        if runs.iter().any(|(_, run)| run.host_dropped > 0.0) {
            series.extend(each(runs, "dropped by this host", &|bin| bin.drop_ratio.highest()));
        }
        let title = "Loss by time of sending";
        charts.push(chart(
            "loss",
            title,
            "Loss, of packets sent",
            Unit::Ratio,
            Scale::Linear,
            some(series),
        ));
    }
    let percentiles = runs.iter().any(|(_, run)| run.percentiles);
    let columns: [Latency; 2] = match percentiles {
        true => [("p50", P50, Band::mean), ("p99", P99, Band::highest)],
        false => [("mean", MEAN, Band::mean), ("max", MAX, Band::highest)],
    };
    let of = |(name, column, value): Latency| {
        some(each(runs, name, &|bin| {
            value(&bin.latency[column]).filter(|ns| *ns > 0.0)
        }))
    };
    let latency = columns.map(of).concat();
    if !latency.is_empty() {
        charts.push(chart(
            "latency",
            "Latency over time",
            "Latency",
            Unit::Ns,
            Scale::Log,
            latency,
        ));
    }
    charts
}

/// Returns the rates of these runs, and the title of their chart.
fn rates(runs: &[Named]) -> (&'static str, Vec<Series>) {
    let sends = runs.iter().all(|(_, run)| run.rx == 0.0);
    let sent: Value = &|bin| bin.tx_rate.mean();
    match (runs.len() > 1, sends) {
        (true, true) => ("Packets sent over time", each(runs, "", sent)),
        (true, false) => {
            let title = match runs.iter().filter(|(_, run)| run.tells_arrivals()).count() {
                0 => "Packets received over time",
                all if all == runs.len() => "Packets received over time, by arrival",
                _ => "Packets received over time, by arrival where the rows have that",
            };
            let received = runs.iter().map(|(name, run)| match run.tells_arrivals() {
                true => line(name.clone(), run, &|bin| bin.arrival_rate.mean()),
                false => line(name.clone(), run, &|bin| bin.rx_rate.mean()),
            });
            (title, received.collect())
        }
        (false, _) => {
            let mut lines = [
                each(runs, "sent", sent),
                each(runs, "received", &|bin| bin.rx_rate.mean()),
            ]
            .concat();
            if runs.iter().any(|(_, run)| run.arrivals) {
                lines.extend(each(runs, "received, by arrival", &|bin| bin.arrival_rate.mean()));
            }
            ("Packets sent and received over time", lines)
        }
    }
}

/// Returns a line per run. `of` is its name, with several runs behind the name of the run.
fn each(runs: &[Named], of: &str, value: Value) -> Vec<Series> {
    let named = |name: &str| match (runs.len() > 1, of) {
        (true, "") => name.to_owned(),
        (true, of) => format!("{name}: {of}"),
        (false, of) => of.to_owned(),
    };
    runs.iter().map(|(name, run)| line(named(name), run, value)).collect()
}

/// Returns a chart over time.
fn chart(name: &str, title: &str, y: &str, unit: Unit, scale: Scale, series: Vec<Series>) -> Chart {
    Chart {
        name: format!("{name}-over-time"),
        title: title.to_owned(),
        x: Axis {
            label: "Time since the start of the run".to_owned(),
            unit: Unit::S,
            ..Axis::default()
        },
        y: Axis {
            label: y.to_owned(),
            unit,
            scale,
            min: (scale == Scale::Linear).then_some(0.0),
            ..Axis::default()
        },
        series,
    }
}

/// Returns the series that have a value.
fn some(mut series: Vec<Series>) -> Vec<Series> {
    series.retain(|series| series.points.iter().any(|point| point.1.is_some()));
    series
}

fn line(name: String, run: &Run, value: Value) -> Series {
    let point = |bin: &Bin| {
        let y = if bin.rows == 0 { None } else { value(bin) };
        ((bin.from + bin.to) / 2.0, y)
    };
    let mut points: Vec<_> = run.bins.iter().map(point).collect();
    // A row may lack a value: an interval without a packet has no latency. The line then goes on.
    points.retain({
        let gaps: Vec<bool> = run.bins.iter().map(|bin| bin.rows == 0).collect();
        let mut at = 0;
        move |point| {
            at += 1;
            point.1.is_some() || gaps[at - 1] && !run.folded
        }
    });
    Series {
        name,
        kind: Kind::Line,
        points,
    }
}
