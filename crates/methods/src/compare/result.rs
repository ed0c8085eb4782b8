//! `result.json`: the document of a comparison, of which pages are made.

use super::rows::{Found, Kind, Row};
use super::tell::sentences;
use super::trial::Trial;
use super::{Ended, Setup};
use super::{Metric, Quantity};
use crate::document::column;
use crate::folder::SCHEMA as TRIALS_SCHEMA;
use crate::statistics::{ALPHA, Sense, Verdict};
use mpps_pages::document::{Axis, Chart, Definition, Document, Kind as Drawn, SCHEMA, Scale, Series};
use mpps_pages::document::{Table, Unit};
use serde_json::{Value, json};
use std::time::Duration;

fn unit(metric: &Metric) -> Unit {
    match metric.quantity {
        Quantity::ReceivedPps | Quantity::OfferedPps => Unit::Pps,
        Quantity::Loss => Unit::Ratio,
        _ => Unit::Ns,
    }
}

/// Name of a metric for programs, with its unit.
fn key(metric: &Metric) -> String {
    let of = metric.of();
    match metric.quantity {
        Quantity::Loss => format!("loss_ratio{of}"),
        latency if latency.is_latency() => format!("latency_{}_ns{of}", latency.name()),
        rate => format!("{}{of}", rate.name()),
    }
}

fn title(metric: &Metric) -> String {
    let title = match metric.quantity {
        Quantity::ReceivedPps => "received".to_owned(),
        Quantity::OfferedPps => "offered".to_owned(),
        Quantity::Loss => "loss".to_owned(),
        Quantity::P999 => "latency, p99.9".to_owned(),
        latency => format!("latency, {}", latency.name()),
    };
    match &metric.stream {
        Some(stream) => format!("{stream}: {title}"),
        None => title,
    }
}

/// Returns the metric's name as a part of a file's name.
fn file_part(metric: &Metric) -> String {
    let name = metric.quantity.name().replace('_', "-");
    match &metric.stream {
        Some(stream) => format!("{name}-{stream}"),
        None => name,
    }
}

/// A comparison, for programs.
fn row_json(row: &Row) -> Value {
    let of = row.estimate;
    let rounds = match row.verdict {
        Some(Verdict::Undecided { rounds }) => rounds,
        _ => None,
    };
    json!({
        "compares": if row.kind == Kind::Setting { "setting" } else { "variant" },
        "subject": row.subject,
        "base": row.base,
        "metric": key(&row.metric),
        "better": if row.metric.quantity.sense() == Sense::More { "more" } else { "less" },
        "ratio": of.map(|of| of.ratio),
        "low": of.map(|of| of.low),
        "high": of.map(|of| of.high),
        "confidence": of.map(|of| of.confidence),
        "p": of.map(|of| of.p),
        "p_corrected": row.corrected,
        "n": of.map(|of| of.n),
        "verdict": row.verdict.map(Verdict::words),
        "rounds_that_might_decide": rounds,
        "why_no_verdict": row.why,
    })
}

fn verdicts(found: &Found) -> Table {
    let keys = [
        ("subject", "this"),
        ("base", "beside"),
        ("metric", "in"),
        ("ratio", "ratio"),
        ("low", "from"),
        ("high", "to"),
        ("p", "p"),
        ("p_corrected", "p of all"),
        ("n", "pairs"),
        ("verdict", "verdict"),
        ("why_no_verdict", "why none"),
    ];
    let cells = |row: &Row| {
        let json = row_json(row);
        keys.map(|(key, _)| json[key].clone()).to_vec()
    };
    Table {
        name: "verdicts".to_owned(),
        caption: "Ratios with their intervals, and verdicts".to_owned(),
        columns: keys.map(|(key, title)| column(key, title, Unit::Plain)).to_vec(),
        rows: found.rows.iter().map(cells).collect(),
    }
}

fn variants(setup: &Setup<'_>) -> Table {
    let rows = setup.names.iter().zip(&setup.texts);
    Table {
        name: "variants".to_owned(),
        caption: "What is compared".to_owned(),
        columns: vec![
            column("variant", "run", Unit::Plain),
            column("command", "command or files", Unit::Plain),
        ],
        rows: rows.map(|(name, text)| vec![json!(name), json!(text)]).collect(),
    }
}

fn spreads(found: &Found, at: usize, metric: &Metric) -> Table {
    let unit = unit(metric);
    let of = |of: &super::rows::Of| {
        let (column, spread) = (&of.columns[at], of.columns[at].spread);
        vec![
            json!(of.name),
            json!(spread.map(|spread| spread.n)),
            json!(of.invalid),
            json!(spread.map(|spread| spread.median)),
            json!(spread.map(|spread| spread.min)),
            json!(spread.map(|spread| spread.max)),
            json!(spread.map(|spread| spread.mad)),
            json!(column.drift),
        ]
    };
    Table {
        name: format!("spread-{}", file_part(metric)),
        caption: format!("{}: how far values lie apart", title(metric)),
        columns: vec![
            column("variant", "run", Unit::Plain),
            column("runs", "runs", Unit::Count),
            column("not_valid", "not valid", Unit::Count),
            column("median", "median", unit),
            column("min", "min", unit),
            column("max", "max", unit),
            column("mad", "MAD", unit),
            column("drift", "drift", Unit::Plain),
        ],
        rows: found.of.iter().map(of).collect(),
    }
}

/// Values by round: a table and a chart of one name.
fn values(setup: &Setup<'_>, found: &Found, at: usize, metric: &Metric) -> (Table, Chart) {
    let name = format!("values-{}", file_part(metric));
    let (what, each) = match setup.is_of_results() {
        true => ("by result", "result"),
        false => ("by round", "round"),
    };
    let rounds = found.of.iter().map(|of| of.columns[at].values.len()).max().unwrap_or(0);
    let value = |of: &super::rows::Of, round: usize| of.columns[at].values.get(round).copied().flatten();
    let mut columns = vec![column(each, each, Unit::Count)];
    columns.extend(found.of.iter().map(|of| column(&of.name, &of.name, unit(metric))));
    let row = |round: usize| {
        let cells = found.of.iter().map(|of| json!(value(of, round)));
        std::iter::once(json!(round + 1)).chain(cells).collect()
    };
    let caption = format!("{} {what}", title(metric));
    let series = found.of.iter().map(|of| Series {
        name: of.name.clone(),
        kind: Drawn::Line,
        points: (0..rounds)
            .map(|round| ((round + 1) as f64, value(of, round)))
            .collect(),
    });
    let chart = Chart {
        name: name.clone(),
        title: caption.clone(),
        x: Axis {
            label: each.to_owned(),
            unit: Unit::Count,
            scale: Scale::Category,
            ..Axis::default()
        },
        y: Axis {
            label: title(metric),
            unit: unit(metric),
            ..Axis::default()
        },
        series: series.collect(),
    };
    let table = Table {
        name,
        caption,
        columns,
        rows: (0..rounds).map(row).collect(),
    };
    (table, chart)
}

/// The intervals, one beside the other.
fn ratios(found: &Found) -> Option<Chart> {
    let known: Vec<_> = found.rows.iter().filter_map(|row| Some((row, row.estimate?))).collect();
    let count = known.len();
    let mut series: Vec<Series> = known
        .iter()
        .enumerate()
        .map(|(at, (row, of))| {
            let x = (at + 1) as f64;
            Series {
                name: format!("{} by {}, {}", row.subject, row.base, title(&row.metric)),
                kind: Drawn::Line,
                points: vec![(x, Some(of.low)), (x, Some(of.ratio)), (x, Some(of.high))],
            }
        })
        .collect();
    series.push(Series {
        name: "no difference".to_owned(),
        kind: Drawn::Reference,
        points: vec![(1.0, Some(1.0)), (count as f64, Some(1.0))],
    });
    (count > 0).then(|| Chart {
        // Before the table of this name.
        name: "verdicts".to_owned(),
        title: "Ratios with their intervals".to_owned(),
        x: Axis {
            label: "comparison".to_owned(),
            unit: Unit::Count,
            scale: Scale::Category,
            ..Axis::default()
        },
        y: Axis {
            label: "ratio".to_owned(),
            ..Axis::default()
        },
        series,
    })
}

fn trials_table(setup: &Setup<'_>, trials: &[Trial]) -> Table {
    let row = |(at, trial): (usize, &Trial)| {
        let line = trial.json(at + 1, &setup.names);
        let reasons = trial.figures.reasons.iter().map(String::as_str);
        let reasons: Vec<_> = reasons.chain(trial.figures.kept_off.as_deref()).collect();
        let reasons = reasons.join("; ");
        let mut cells: Vec<Value> = [
            "trial",
            "round",
            "variant",
            "attempt",
            "outcome",
            "started_utc",
            "duration_s",
        ]
        .map(|key| line[key].clone())
        .to_vec();
        cells.extend(["sent", "received", "lost", "late", "offered_pps", "received_pps"].map(|key| line[key].clone()));
        cells.extend(["p50", "p99", "p999"].map(|key| line["latency_ns"][key].clone()));
        cells.push(json!(reasons));
        cells
    };
    Table {
        name: "trials".to_owned(),
        caption: "Every run".to_owned(),
        columns: vec![
            column("trial", "run", Unit::Count),
            column("round", "round", Unit::Count),
            column("variant", "of", Unit::Plain),
            column("attempt", "attempt", Unit::Count),
            column("outcome", "outcome", Unit::Plain),
            column("started_utc", "began", Unit::Plain),
            column("duration_s", "took", Unit::S),
            column("sent", "sent", Unit::Count),
            column("received", "received", Unit::Count),
            column("lost", "lost", Unit::Count),
            column("late", "late", Unit::Count),
            column("offered_pps", "offered", Unit::Pps),
            column("received_pps", "received", Unit::Pps),
            column("latency_p50_ns", "p50", Unit::Ns),
            column("latency_p99_ns", "p99", Unit::Ns),
            column("latency_p999_ns", "p99.9", Unit::Ns),
            column("reasons", "why void", Unit::Plain),
        ],
        rows: trials.iter().enumerate().map(row).collect(),
    }
}

fn definitions(setup: &Setup<'_>) -> Vec<Definition> {
    let method = match setup.is_of_results() {
        true => (
            "ratio",
            "Ratio of the medians; interval by bootstrap (10,000 samples of each side by itself, percentiles), p by \
             the exact test of Mann and Whitney.",
        ),
        false => (
            "ratio",
            "Of each round's two runs; over the rounds the estimate of Hodges and Lehmann of its logarithm, with the \
             exact interval of the signed-rank test.",
        ),
    };
    let others = [
        (
            "p of all",
            "Chance of so great a difference, if there is none, among all comparisons of the table (Holm).",
        ),
        ("same", "The whole interval lies within the margin."),
        ("better, worse", "The whole interval lies beyond the margin."),
        (
            "a little",
            "The interval does not hold 1, but does not lie beyond the margin.",
        ),
        (
            "undecided",
            "The interval holds 1 and goes beyond the margin, or the difference does not stand among all comparisons.",
        ),
        ("MAD", "Median of the distances from the median."),
        ("drift", "Spearman's rank correlation of the values with their order."),
        (
            "void",
            "A run whose numbers can't be believed, for a reason of this host; it decides nothing and is repeated.",
        ),
        ("loss", "Packets lost or late, and half a packet, by packets sent."),
    ];
    let all = [method].into_iter().chain(others);
    all.map(|(term, text)| Definition {
        term: term.to_owned(),
        text: text.to_owned(),
    })
    .collect()
}

/// The document.
pub(super) fn document(setup: &Setup<'_>, found: &Found, trials: &[Trial], ended: &Ended, took: Duration) -> Document {
    let (mut tables, mut charts) = (vec![verdicts(found), variants(setup)], Vec::new());
    charts.extend(ratios(found));
    for (at, metric) in setup.metrics.iter().enumerate() {
        tables.push(spreads(found, at, metric));
        let (table, chart) = values(setup, found, at, metric);
        tables.push(table);
        charts.push(chart);
    }
    tables.push(trials_table(setup, trials));
    let why = ended.why(found, setup);
    let first = trials.first();
    let tester = trials.iter().rev().find(|trial| trial.figures.host.is_object());
    let mut verdict = sentences(setup, found);
    verdict.extend(found.notes.iter().cloned());
    let of_results = setup.is_of_results();
    Document {
        schema: SCHEMA.to_owned(),
        test: "compare".to_owned(),
        title: match of_results {
            true => format!(
                "Comparison of {}, not alternated: drift of the host is in it",
                setup.names.join(", ")
            ),
            false if !setup.settings.is_empty() => {
                format!(
                    "Comparison of {} combinations of settings in {} rounds",
                    setup.names.len(),
                    setup.rounds
                )
            }
            false => format!("Comparison of {} in {} rounds", setup.names.join(", "), setup.rounds),
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: setup.compare.command.clone(),
        started: first
            .and_then(|trial| trial.figures.started.clone())
            .unwrap_or_default(),
        took_s: took.as_secs_f64(),
        complete: why.is_none(),
        incomplete: why,
        compliance: None,
        verdict,
        deviations: Vec::new(),
        params: json!({
            "rounds": (!of_results).then_some(setup.rounds),
            "order": if of_results { Value::Null } else { json!("reversed each round") },
            "pause_s": (!of_results).then_some(setup.compare.pause.as_secs_f64()),
            "retries": (!of_results).then_some(setup.compare.retries),
            "margin_ratio": setup.compare.margin,
            "significance": ALPHA,
            "metrics": setup.metrics.iter().map(key).collect::<Vec<_>>(),
            "seed": setup.compare.seed,
            "alternated": !of_results,
            "differ_in": setup.differ.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "settings": setup.what_settings_are(),
            "forced": setup.compare.force,
            "record": TRIALS_SCHEMA,
        }),
        results: found.rows.iter().map(row_json).collect(),
        tables,
        charts,
        definitions: definitions(setup),
        device: None,
        tester: tester.map_or(json!({}), |trial| trial.figures.host.clone()),
        plan: setup.plan.clone(),
        trials: trials
            .iter()
            .enumerate()
            .map(|(at, trial)| trial.json(at + 1, &setup.names))
            .collect(),
    }
}
