//! Tables and charts of plain runs.

use super::Run;
use crate::document::{Axis, Chart, Column, Kind, Scale, Series, Table, Unit};
use serde_json::{Map, Value};

/// Keys of a distribution, their names, and the part of all values that is not above each.
pub(super) const PERCENTILES: [(&str, &str, f64); 7] = [
    ("min", "min", 0.0),
    ("mean", "mean", f64::NAN),
    ("p50", "p50", 0.5),
    ("p90", "p90", 0.9),
    ("p99", "p99", 0.99),
    ("p999", "p99.9", 0.999),
    ("max", "max", f64::NAN),
];
pub(super) fn column(key: &str, title: &str, unit: Unit) -> Column {
    Column {
        key: key.to_owned(),
        title: title.to_owned(),
        unit,
    }
}

pub(super) fn table(name: &str, caption: &str, columns: Vec<Column>, rows: Vec<Vec<Value>>) -> Table {
    Table {
        name: name.to_owned(),
        caption: caption.to_owned(),
        columns,
        rows,
    }
}

/// Returns the counts of one run, one per row.
pub(super) fn counts(run: &Run) -> Table {
    let names = [
        ("tx_packets", "sent"),
        ("rx_packets", "received"),
        ("lost", "lost"),
        ("late", "late"),
        ("duplicates", "duplicate"),
        ("reordered", "reordered"),
        ("corrupt", "corrupt"),
        ("foreign", "foreign"),
        ("missed", "missed departures"),
        ("host_dropped", "dropped by this host"),
    ];
    let sent = run.whole("tx_packets").filter(|sent| *sent > 0);
    let rows = names.iter().filter_map(|(key, name)| {
        let n = run.whole(key)?;
        let part = sent.map(|sent| n as f64 / sent as f64);
        Some(vec![Value::from(*name), n.into(), part.into()])
    });
    let columns = vec![
        column("what", "Packets", Unit::Plain),
        column("packets", "Count", Unit::Count),
        column("ratio", "Of those sent", Unit::Ratio),
    ];
    table("counts", "Packets counted", columns, rows.collect())
}

/// Returns a table with one row per run.
pub(super) fn comparison(runs: &[Run]) -> Table {
    let columns = [
        ("tx_packets", "Sent", Unit::Count, "/tx_packets"),
        ("rx_packets", "Received", Unit::Count, "/rx_packets"),
        ("lost", "Lost", Unit::Count, "/lost"),
        ("loss_ratio", "Loss", Unit::Ratio, "/loss_ratio"),
        ("offered_pps", "Offered", Unit::Pps, "/offered_pps"),
        ("received_pps", "Received", Unit::Pps, "/received_pps"),
        ("received_bps", "Received", Unit::Bps, "/received_bps"),
        ("latency_mean_ns", "Mean latency", Unit::Ns, "/latency_ns/mean"),
        ("latency_p99_ns", "p99", Unit::Ns, "/latency_ns/p99"),
        ("latency_max_ns", "max", Unit::Ns, "/latency_ns/max"),
    ];
    let rows = runs.iter().map(|run| {
        let valid = match run.summary.get("valid").and_then(Value::as_bool) {
            Some(true) => "valid",
            Some(false) => "not valid",
            None => "not known",
        };
        let head = [Value::from(run.name.as_str()), valid.into()];
        head.into_iter()
            .chain(columns.iter().map(|(.., pointer)| run.value(pointer)))
            .collect()
    });
    let rows = rows.collect();
    let head = [column("run", "Run", Unit::Plain), column("valid", "Trial", Unit::Plain)];
    let columns = head
        .into_iter()
        .chain(columns.iter().map(|(key, title, unit, _)| column(key, title, *unit)));
    table("comparison", "The runs beside each other", columns.collect(), rows)
}

/// Returns the latencies of runs: one column per run, and one for latency from the time at which each packet was due.
pub(super) fn latency_table(runs: &[Run]) -> Option<Table> {
    let mut columns = vec![column("what", "Latency", Unit::Plain)];
    let mut from = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let name = if runs.len() == 1 {
            "From sending"
        } else {
            run.name.as_str()
        };
        if run.number("/latency_ns/min").is_some() {
            columns.push(column(&format!("latency_{}_ns", i + 1), name, Unit::Ns));
            from.push((run, "latency_ns"));
        }
    }
    if let [run] = runs {
        for (key, title) in [
            ("latency_scheduled_ns", "From when it was due"),
            ("latency_arrival_ns", "From sending to arrival"),
            ("wake_up_ns", "From arrival to reading"),
        ] {
            if run.number(&format!("/{key}/min")).is_some() {
                columns.push(column(key, title, Unit::Ns));
                from.push((run, key));
            }
        }
    }
    let rows = PERCENTILES.iter().map(|(key, name, _)| {
        let cells = from.iter().map(|(run, of)| run.value(&format!("/{of}/{key}")));
        std::iter::once(Value::from(*name)).chain(cells).collect()
    });
    (!from.is_empty()).then(|| table("latency", "Latency", columns, rows.collect()))
}

pub(super) fn latency_chart(runs: &[Run]) -> Option<Chart> {
    let points = |run: &Run, of: &str| -> Vec<(f64, Option<f64>)> {
        let mut points: Vec<_> = PERCENTILES
            .iter()
            .filter_map(|(key, _, part)| {
                let ns = run.number(&format!("/{of}/{key}")).filter(|ns| *ns > 0.0);
                let packets = run.number(&format!("/{of}/count")).filter(|n| *n >= 1.0);
                // The largest of n values is above all parts up to 1 - 1/n.
                let part = if *key == "max" { 1.0 - 1.0 / packets? } else { *part };
                (part.is_finite() && ns.is_some()).then_some((part, ns))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup_by(|b, a| a.0 == b.0);
        points
    };
    let mut series: Vec<Series> = Vec::new();
    let mut add = |name: &str, points: Vec<(f64, Option<f64>)>| {
        if points.len() > 3 {
            series.push(Series {
                name: name.to_owned(),
                kind: Kind::Line,
                points,
            });
        }
    };
    for run in runs {
        let name = if runs.len() == 1 {
            "from sending"
        } else {
            run.name.as_str()
        };
        add(name, points(run, "latency_ns"));
    }
    if let [run] = runs {
        add("from when it was due", points(run, "latency_scheduled_ns"));
        add("from sending to arrival", points(run, "latency_arrival_ns"));
        add("from arrival to reading", points(run, "wake_up_ns"));
    }
    (!series.is_empty()).then(|| Chart {
        name: "latency".to_owned(),
        title: "Latency by percentile".to_owned(),
        x: Axis {
            label: "Part of the packets that took no longer".to_owned(),
            unit: Unit::Ratio,
            scale: Scale::Nines,
            ..Axis::default()
        },
        y: Axis {
            label: "Latency".to_owned(),
            unit: Unit::Ns,
            scale: Scale::Log,
            ..Axis::default()
        },
        series,
    })
}

/// Returns the packets that each lane moved.
pub(super) fn lanes(runs: &[Run]) -> Option<Table> {
    let columns = [
        ("core", "Core", Unit::Plain),
        ("tx_packets", "Sent", Unit::Count),
        ("rx_packets", "Received", Unit::Count),
        ("tx_mean_burst", "Mean TX burst", Unit::Plain),
        ("rx_mean_burst", "Mean RX burst", Unit::Plain),
        ("busy_ratio", "Busy", Unit::Ratio),
        ("rx_dropped", "Dropped", Unit::Count),
    ];
    by_lane(runs, "lanes", ("lanes", "Lanes"), &columns, |_| true)
}

/// Returns the time of each lane by stage.
pub(super) fn stages(runs: &[Run]) -> Option<Table> {
    let columns = [
        ("stage", "Stage", Unit::Plain),
        ("calls", "Calls", Unit::Count),
        ("packets", "Packets", Unit::Count),
        ("packets_per_call", "Packets a call", Unit::Plain),
        ("ns_per_packet", "ns a packet", Unit::Plain),
        ("ns_per_call", "ns a call", Unit::Plain),
        ("p50_ns", "p50", Unit::Ns),
        ("p99_ns", "p99", Unit::Ns),
        ("max_ns", "max", Unit::Ns),
        ("share", "Share", Unit::Ratio),
    ];
    let caption = "What the lanes did with their time: shares of a lane add up to 100 %";
    by_lane(runs, "stages", ("stages", caption), &columns, |row| {
        row.get("share")
            .and_then(Value::as_f64)
            .is_some_and(|share| share > 0.0)
    })
}

/// Returns the causes of lost and late packets and of slow bursts.
pub(super) fn why(runs: &[Run]) -> Option<Table> {
    let columns = [
        ("subject", "What", Unit::Plain),
        ("took_ns", "For", Unit::Ns),
        ("packets", "Packets", Unit::Count),
        ("sentence", "Why", Unit::Plain),
    ];
    let mut table = by_lane(
        runs,
        "why",
        ("why", "Why packets were lost or late, bursts slow, departures missed"),
        &columns,
        |_| true,
    )?;
    // A trace has hundreds of causes; all of them are in its JSON.
    table.rows.truncate(SENTENCES);
    Some(table)
}

/// Most sentences on a page.
const SENTENCES: usize = 20;

/// Returns the rows of a list in which each entry belongs to a lane.
fn by_lane(
    runs: &[Run],
    list: &str,
    (name, caption): (&str, &str),
    columns: &[(&str, &str, Unit)],
    wanted: fn(&Value) -> bool,
) -> Option<Table> {
    let round = |value: &Value| match value.as_f64().filter(|_| value.is_f64()) {
        Some(number) => Value::from((number * 1e4).round() / 1e4),
        None => value.clone(),
    };
    let mut rows = Vec::new();
    for run in runs {
        let all = run.summary.get(list).and_then(Value::as_array);
        for row in all.into_iter().flatten().filter(|row| row.is_object() && wanted(row)) {
            let number = row.get("lane").filter(|lane| lane.is_number());
            let number = number.map(ToString::to_string).unwrap_or_default();
            let name = match runs {
                [_] => number,
                _ => format!("{}: {number}", run.name),
            };
            let cell = |(key, ..): &(&str, &str, Unit)| row.get(*key).map(round).unwrap_or_default();
            let cells = columns.iter().map(cell);
            rows.push(std::iter::once(Value::from(name)).chain(cells).collect());
        }
    }
    let head = std::iter::once(column("lane", "Lane", Unit::Plain));
    let columns = head
        .chain(columns.iter().map(|(key, title, unit)| column(key, title, *unit)))
        .collect();
    (!rows.is_empty()).then(|| table(name, caption, columns, rows))
}

/// Returns the demands on the runs, and whether each was met.
pub(super) fn expected(runs: &[Run]) -> Option<Table> {
    let mut rows = Vec::new();
    for run in runs {
        let all = run.summary.get("expectations").and_then(Value::as_array);
        for of in all.into_iter().flatten().filter(|of| of.is_object()) {
            let cell = |key: &str| of.get(key).filter(|cell| cell.is_string()).cloned().unwrap_or_default();
            let met = match of.get("met").and_then(Value::as_bool) {
                Some(true) if run.summary.get("valid") == Some(&Value::Bool(false)) => "not proven".into(),
                Some(true) => "yes".into(),
                Some(false) => "no".into(),
                None => Value::Null,
            };
            rows.push(vec![
                run.name.as_str().into(),
                cell("expected"),
                cell("told"),
                met,
                cell("note"),
            ]);
        }
    }
    let columns = vec![
        column("run", "Run", Unit::Plain),
        column("expected", "Expected", Unit::Plain),
        column("told", "Measured", Unit::Plain),
        column("met", "Met", Unit::Plain),
        column("note", "Note", Unit::Plain),
    ];
    (!rows.is_empty()).then(|| table("expected", "What the run was to reach (--expect)", columns, rows))
}

pub(super) fn stretches(runs: &[Run]) -> Option<Table> {
    let mut rows = Vec::new();
    for run in runs {
        let all = run.summary.get("loss_stretches").and_then(Value::as_array);
        for stretch in all.into_iter().flatten().filter(|stretch| stretch.is_object()) {
            let cell = |key: &str| stretch.get(key).cloned().unwrap_or_default();
            rows.push(vec![
                run.name.as_str().into(),
                cell("from_s"),
                cell("to_s"),
                cell("lost"),
            ]);
        }
    }
    let columns = vec![
        column("run", "Run", Unit::Plain),
        column("from_s", "From", Unit::S),
        column("to_s", "To", Unit::S),
        column("lost", "Lost", Unit::Count),
    ];
    let caption = "When packets were lost: the largest stretches, by time of sending";
    (!rows.is_empty()).then(|| table("loss-stretches", caption, columns, rows))
}

/// Returns the fields of headers that arrived other than they were sent, with their pairs of values.
pub(super) fn changes(runs: &[Run]) -> Option<Table> {
    let mut rows = Vec::new();
    for run in runs {
        let all = run.summary.get("changes").and_then(Value::as_array);
        for change in all.into_iter().flatten() {
            let field = change.get("field").cloned().unwrap_or_default();
            let pairs = change.get("pairs").and_then(Value::as_array);
            let mut listed = 0;
            for pair in pairs.into_iter().flatten().filter(|pair| pair.is_object()) {
                let cell = |key: &str| pair.get(key).cloned().unwrap_or_default();
                listed += cell("packets").as_u64().unwrap_or(0);
                rows.push(vec![
                    run.name.as_str().into(),
                    field.clone(),
                    cell("sent"),
                    cell("received"),
                    cell("packets"),
                ]);
            }
            let packets = change.get("packets").and_then(Value::as_u64).unwrap_or(0);
            if listed < packets {
                let others = (packets - listed).into();
                rows.push(vec![
                    run.name.as_str().into(),
                    field,
                    "others".into(),
                    Value::Null,
                    others,
                ]);
            }
        }
    }
    let columns = vec![
        column("run", "Run", Unit::Plain),
        column("field", "Field", Unit::Plain),
        column("sent", "Sent", Unit::Plain),
        column("received", "Received", Unit::Plain),
        column("packets", "Packets", Unit::Count),
    ];
    let caption = "Headers that arrived other than they were sent";
    (!rows.is_empty()).then(|| table("changes", caption, columns, rows))
}

/// Returns the outages that contain most of a run's loss.
pub(super) fn outages(runs: &[Run]) -> Option<Table> {
    let mut rows = Vec::new();
    for run in runs {
        let number = |pointer: &str| run.summary.pointer(pointer).and_then(Value::as_f64);
        let (from, to) = (number("/longest_outage/from_ns"), number("/longest_outage/to_ns"));
        let (lost, all) = (number("/longest_outage/lost"), number("/lost"));
        let (Some(from), Some(to), Some(lost), Some(all)) = (from, to, lost, all) else {
            continue;
        };
        if lost * 2.0 > all {
            let seconds = |ns: f64| Value::from(ns / 1e9);
            rows.push(vec![
                run.name.as_str().into(),
                seconds(from),
                seconds(to),
                seconds((to - from).max(0.0)),
                lost.into(),
            ]);
        }
    }
    let columns = vec![
        column("run", "Run", Unit::Plain),
        column("from_s", "From", Unit::S),
        column("to_s", "To", Unit::S),
        column("length_s", "Length", Unit::S),
        column("lost", "Lost", Unit::Count),
    ];
    let caption = "The longest time without a packet, where most of the lost packets were lost in it";
    (!rows.is_empty()).then(|| table("outages", caption, columns, rows))
}

/// Returns the host fields in which the runs differ.
pub(super) fn differences(runs: &[Run]) -> Option<Table> {
    let hosts: Vec<_> = runs.iter().map(Run::host).collect();
    let mut keys: Vec<&String> = Vec::new();
    for key in hosts.iter().flat_map(Map::keys) {
        let same = hosts.iter().all(|host| host.get(key) == hosts[0].get(key));
        if !same && !keys.contains(&key) {
            keys.push(key);
        }
    }
    let row = |key: &&String| {
        let cells = hosts.iter().map(|host| host.get(*key).cloned().unwrap_or_default());
        std::iter::once(Value::from(key.as_str())).chain(cells).collect()
    };
    let name = |(i, run): (usize, &Run)| column(&format!("run_{}", i + 1), &run.name, Unit::Plain);
    let head = std::iter::once(column("what", "What", Unit::Plain));
    let columns = head.chain(runs.iter().enumerate().map(name)).collect();
    let rows: Vec<Vec<Value>> = keys.iter().map(row).collect();
    (!rows.is_empty()).then(|| table("differences", "What differs between the runs", columns, rows))
}
