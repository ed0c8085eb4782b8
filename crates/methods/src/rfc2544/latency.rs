//! Latency at the throughput (RFC 2544, 26.2), with the statistics of RFC 8219.

use super::choice::Choice;
use super::throughput::at_throughput;
use super::{OfSize, by_size};
use crate::bench::{Bench, pdv};
use crate::document::column;
use crate::measure::{Ask, Delay, Measured, Phase};
use crate::search::Input;
use crate::setup::Step;
use mpps_pages::document::{Axis, Chart, Kind, Scale, Series, Table, Unit};
use mpps_report::units;
use mpps_stats::count;
use serde_json::{Value, json};

/// Measures it; what is found is in `of`, however it ends.
pub(super) fn measure(choice: &Choice, bench: &mut Bench<'_, '_>, of: &mut OfSize) -> Step<()> {
    let Some(throughput) = of.throughput() else {
        of.skipped("latency", "no throughput is known");
        return Ok(());
    };
    let input = Input {
        load: ((throughput as f64 * choice.at) as u64).max(1),
        duration_ns: choice.latency_ns,
    };
    for run in 1..=choice.latency_runs {
        let told = bench.counted(&Ask::of(Phase::Latency, of.frame_size, input))?;
        let p50 = told.latency.as_ref().map_or(f64::NAN, |delay| delay.p50 as f64);
        let line = format!(
            "{} bytes: latency: run {run} of {} at {} pps: median {}",
            of.frame_size,
            choice.latency_runs,
            count(input.load),
            units::time(p50)
        );
        let each = choice.latency_ns + bench.between().as_nanos() as u64;
        bench.say_left(&line, u64::from(choice.latency_runs - run) * each);
        of.latency.push(told);
    }
    Ok(())
}

/// Statistics of the runs at one size.
struct Runs {
    rate: u64,
    runs: usize,
    min: u64,
    mean: f64,
    /// RFC 8219's typical latency: median of the runs' medians, and the 1st and 99th percentile of these.
    typical: [u64; 3],
    /// RFC 8219's worst case latency: median, 1st and 99th percentile of the runs' 99.9th percentiles.
    worst: [u64; 3],
    /// Packet delay variation: median, 1st and 99th percentile of the runs' values.
    pdv: [u64; 3],
    max: u64,
}

/// Median, 1st and 99th percentile by rank.
fn spread(mut values: Vec<u64>) -> Option<[u64; 3]> {
    values.sort_unstable();
    let at = |share: f64| {
        let rank = (share * values.len() as f64).ceil() as usize;
        values.get(rank.clamp(1, values.len().max(1)) - 1).copied()
    };
    Some([at(0.5)?, at(0.01)?, at(0.99)?])
}

fn delays(of: &OfSize) -> impl Iterator<Item = &Delay> {
    of.latency.iter().filter_map(|told| told.latency.as_ref())
}

fn runs(of: &OfSize) -> Option<Runs> {
    let all = |value: fn(&Delay) -> u64| delays(of).map(value).collect::<Vec<_>>();
    let number = delays(of).count();
    Some(Runs {
        rate: of.latency.first()?.trial.input.load,
        runs: number,
        min: delays(of).map(|delay| delay.min).min()?,
        mean: delays(of).map(|delay| delay.mean).sum::<f64>() / number as f64,
        typical: spread(all(|delay| delay.p50))?,
        worst: spread(all(|delay| delay.p999))?,
        pdv: spread(all(pdv))?,
        max: delays(of).map(|delay| delay.max).max()?,
    })
}

/// One sentence.
pub(super) fn verdict(of: &OfSize) -> Option<String> {
    let runs = runs(of)?;
    let time = |ns: u64| units::time(ns as f64);
    Some(format!(
        "{} bytes: latency at {} pps: median {}, 99.9 % within {}, PDV {} (medians of {} runs)",
        of.frame_size,
        count(runs.rate),
        time(runs.typical[0]),
        time(runs.worst[0]),
        time(runs.pdv[0]),
        runs.runs
    ))
}

/// For programs.
pub(super) fn json(of: &OfSize) -> Value {
    let Some(runs) = runs(of) else { return Value::Null };
    let spread = |[median, p1, p99]: [u64; 3]| json!({ "median": median, "p1": p1, "p99": p99 });
    json!({
        "load_pps": runs.rate,
        "runs": runs.runs,
        "min_ns": runs.min,
        "mean_ns": runs.mean,
        "max_ns": runs.max,
        "typical_ns": spread(runs.typical),
        "worst_case_ns": spread(runs.worst),
        "pdv_ns": spread(runs.pdv),
    })
}

/// Latencies as a table.
pub(super) fn table(sizes: &[OfSize]) -> Table {
    let row = |of: &OfSize| -> Option<Vec<Value>> {
        let runs = runs(of)?;
        let mut row: Vec<Value> = vec![
            of.frame_size.into(),
            runs.rate.into(),
            runs.runs.into(),
            runs.min.into(),
            runs.mean.into(),
        ];
        for spread in [runs.typical, runs.worst, runs.pdv] {
            row.push(spread[0].into());
        }
        for end in [runs.worst[1], runs.worst[2], runs.max] {
            row.push(end.into());
        }
        Some(row)
    };
    Table {
        name: "latency".to_owned(),
        caption: "Latency by frame size: medians of the runs; p99.9 also by its 1st and 99th percentile over the runs"
            .to_owned(),
        columns: vec![
            column("frame_size_bytes", "frame", Unit::Bytes),
            column("load_pps", "load", Unit::Pps),
            column("runs", "runs", Unit::Count),
            column("min_ns", "min", Unit::Ns),
            column("mean_ns", "mean", Unit::Ns),
            column("typical_ns", "p50", Unit::Ns),
            column("worst_case_ns", "p99.9", Unit::Ns),
            column("pdv_ns", "PDV", Unit::Ns),
            column("worst_case_p1_ns", "p99.9, low", Unit::Ns),
            column("worst_case_p99_ns", "p99.9, high", Unit::Ns),
            column("max_ns", "max", Unit::Ns),
        ],
        rows: sizes.iter().filter_map(row).collect(),
    }
}

/// Frame size to the right, mean latency and packet delay variation upwards: of the runs of this test, or, if there are
/// none, of a trial of the search.
pub(super) fn by_size_charts(choice: &Choice, sizes: &[OfSize]) -> [Chart; 2] {
    let tested = sizes.iter().any(|of| !of.latency.is_empty());
    let at = match tested {
        true if choice.at < 1.0 => format!("at {} of the throughput", units::percent(choice.at)),
        _ => "at the throughput".to_owned(),
    };
    let value = |of: &OfSize, pick: fn(&Runs) -> f64, one: fn(&Delay) -> f64| match tested {
        true => runs(of).as_ref().map(pick),
        false => at_throughput(of)?.latency.as_ref().map(one),
    };
    let chart = |name: &str, what: &str, label: &str, pick: fn(&Runs) -> f64, one: fn(&Delay) -> f64| Chart {
        name: name.to_owned(),
        title: format!("{what} by frame size, {at}"),
        x: by_size(),
        y: Axis {
            label: label.to_owned(),
            unit: Unit::Ns,
            min: Some(0.0),
            ..Axis::default()
        },
        series: vec![Series {
            name: "measured".to_owned(),
            kind: Kind::Line,
            points: sizes
                .iter()
                .filter_map(|of| Some((of.frame_size as f64, Some(value(of, pick, one)?))))
                .collect(),
        }],
    };
    [
        chart(
            "latency-by-size",
            "Mean latency",
            "mean latency",
            |runs| runs.mean,
            |delay| delay.mean,
        ),
        chart(
            "jitter-by-size",
            "Jitter (packet delay variation, PDV)",
            "PDV",
            |runs| runs.pdv[0] as f64,
            |delay| pdv(delay) as f64,
        ),
    ]
}

/// Share of the packets to the right, by how many are left of one; latency upwards. Of each size the run whose 99.9th
/// percentile is the median one.
pub(super) fn chart(sizes: &[OfSize]) -> Chart {
    let series = |of: &OfSize| -> Option<Series> {
        let mut all: Vec<&Measured> = of.latency.iter().filter(|told| told.latency.is_some()).collect();
        all.sort_by_key(|told| told.latency.as_ref().map(|delay| delay.p999));
        let middle = all.get(all.len().checked_sub(1)? / 2)?;
        let delay = middle.latency.as_ref()?;
        Some(Series {
            name: format!("{} bytes", of.frame_size),
            kind: Kind::Line,
            points: delay
                .quantiles
                .iter()
                .map(|(share, ns)| (*share, Some(*ns as f64)))
                .collect(),
        })
    };
    Chart {
        name: "latency".to_owned(),
        title: "Latency by share of the packets (median run of each size)".to_owned(),
        x: Axis {
            label: "share of the packets".to_owned(),
            unit: Unit::Ratio,
            scale: Scale::Nines,
            ..Axis::default()
        },
        y: Axis {
            label: "latency, no more than".to_owned(),
            unit: Unit::Ns,
            scale: Scale::Log,
            ..Axis::default()
        },
        series: sizes.iter().filter_map(series).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_of_values_that_were_measured() {
        assert_eq!(spread(vec![]), None);
        assert_eq!(spread(vec![7]), Some([7, 7, 7]));
        assert_eq!(spread((1..=100).rev().collect()), Some([50, 1, 99]));
        assert_eq!(spread(vec![3, 1, 2]), Some([2, 1, 3]));
    }
}
