//! The result of plain runs, from their JSON summaries and, where they are given, the rows of their CSV.
//!
//! Summaries may come from any version and any hand: whatever is missing or of another kind is shown as not known.

use super::{Axis, Chart, Column, Definition, Document, Kind, SCHEMA, Scale, Series, Table, Unit};
use crate::plot::Rows;
use crate::units::{count, percent, pps, time};
use serde_json::{Map, Value};

/// A run.
#[derive(Debug, Default)]
pub struct Run {
    /// As legends name it.
    name: String,
    summary: Value,
    rows: Option<Rows>,
}

impl Run {
    /// The run of this summary, without rows.
    pub fn new(name: &str, summary: Value) -> Self {
        Self {
            name: name.to_owned(),
            summary,
            rows: None,
        }
    }

    /// With its rows.
    pub fn with_rows(self, rows: Rows) -> Self {
        Self {
            rows: Some(rows),
            ..self
        }
    }

    /// When it started, RFC 3339.
    pub fn started(&self) -> &str {
        self.text("/started_utc").unwrap_or_default()
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.summary.pointer(pointer)?.as_str()
    }

    fn number(&self, pointer: &str) -> Option<f64> {
        self.summary.pointer(pointer)?.as_f64().filter(|n| n.is_finite())
    }

    fn whole(&self, key: &str) -> Option<u64> {
        self.summary.get(key)?.as_u64()
    }

    fn value(&self, pointer: &str) -> Value {
        let value = self
            .summary
            .pointer(pointer)
            .filter(|v| v.is_number() || v.is_string() || v.is_boolean());
        value.cloned().unwrap_or_default()
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let all = self.summary.get(key).and_then(Value::as_array);
        all.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    }

    fn host(&self) -> Map<String, Value> {
        self.summary
            .get("host")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    }

    /// What was run on what.
    fn title(&self) -> String {
        let words = [
            self.text("/workload"),
            self.text("/host/port"),
            self.text("/host/arrives_at"),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn ways(&self) -> Vec<Run> {
        let ways = self.summary.get("directions").and_then(Value::as_array);
        let way = |way: &Value| {
            let name = way.get("name").and_then(Value::as_str).unwrap_or("?");
            Run::new(&format!("{} ({name})", self.name), way.clone())
        };
        ways.into_iter().flatten().map(way).collect()
    }

    /// Why it is not valid, or not whole.
    fn flaw(&self) -> Option<String> {
        if self.summary.get("valid") == Some(&Value::Bool(false)) {
            let reasons = self.texts("invalid_reasons");
            let reasons = if reasons.is_empty() {
                "no reason is given".to_owned()
            } else {
                reasons.join("; ")
            };
            return Some(format!("not valid: {reasons}"));
        }
        (self.summary.get("interrupted") == Some(&Value::Bool(true))).then(|| "interrupted".to_owned())
    }

    /// Its numbers in a sentence or two.
    fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        let (tx, rx) = (
            self.whole("tx_packets").unwrap_or(0),
            self.whole("rx_packets").unwrap_or(0),
        );
        let at = |key: &str| {
            self.number(key)
                .map(|rate| format!(" at {}", pps(rate)))
                .unwrap_or_default()
        };
        let mut parts = Vec::new();
        if tx > 0 {
            parts.push(format!("sent {} packets{}", count(tx), at("/offered_pps")));
        }
        let lost = self.whole("lost").unwrap_or(0);
        if rx > 0 || lost > 0 || tx == 0 {
            parts.push(format!("received {}{}", count(rx), at("/received_pps")));
            let ratio = self
                .number("/loss_ratio")
                .map(|r| format!(" ({})", percent(r)))
                .unwrap_or_default();
            parts.push(format!("lost {}{ratio}", count(lost)));
        }
        for key in ["late", "duplicates", "reordered", "corrupt", "host_dropped"] {
            if let Some(n) = self.whole(key).filter(|n| *n > 0) {
                parts.push(format!(
                    "{} {}",
                    key.replace("host_dropped", "dropped by this host"),
                    count(n)
                ));
            }
        }
        told.push(sentence(&parts.join(", ")));
        let latency = PERCENTILES
            .iter()
            .filter(|(key, ..)| SAID.contains(key))
            .filter_map(|(key, name, _)| {
                let ns = self.number(&format!("/latency_ns/{key}"))?;
                Some(format!("{name} {}", time(ns)))
            });
        let latency: Vec<_> = latency.collect();
        if !latency.is_empty() {
            told.push(format!("Latency: {}.", latency.join(", ")));
        }
        told
    }
}

/// Words as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase()).into_iter();
    format!("{}.", first.chain(letters).collect::<String>())
}

/// Keys of a distribution, what they are called, and which part of all is not above them.
const PERCENTILES: [(&str, &str, f64); 7] = [
    ("min", "least", 0.0),
    ("mean", "mean", f64::NAN),
    ("p50", "median", 0.5),
    ("p90", "p90", 0.9),
    ("p99", "p99", 0.99),
    ("p999", "p99.9", 0.999),
    ("max", "largest", f64::NAN),
];
/// Those that the verdict tells.
const SAID: [&str; 4] = ["p50", "p99", "p999", "max"];

/// The result of one run, or the comparison of several.
pub fn document(runs: &[Run]) -> Document {
    let Some(first) = runs.first() else {
        return Document {
            schema: SCHEMA.to_owned(),
            test: "run".to_owned(),
            ..Document::default()
        };
    };
    let one = runs.len() == 1;
    let all: Vec<Run> = runs
        .iter()
        .flat_map(|run| std::iter::once(Run::new(&run.name, run.summary.clone())).chain(run.ways()))
        .collect();
    let flaws = runs.iter().filter_map(|run| {
        let flaw = run.flaw()?;
        Some(if one { flaw } else { format!("{}: {flaw}", run.name) })
    });
    let flaws: Vec<String> = flaws.collect();
    let mut tables = Vec::new();
    if all.len() > 1 {
        tables.push(comparison(&all));
    } else {
        tables.push(counts(first));
    }
    tables.extend(latency_table(&all));
    tables.extend(lanes(runs));
    tables.extend(stretches(runs));
    tables.extend((!one).then(|| differences(runs)).flatten());
    let rows: Vec<_> = runs
        .iter()
        .filter_map(|run| Some((run.name.clone(), run.rows.as_ref()?.0.clone())))
        .collect();
    let mut charts: Vec<Chart> = latency_chart(&all).into_iter().collect();
    if !rows.is_empty() {
        charts.extend(crate::plot::overlay::charts(&rows));
    }
    Document {
        schema: SCHEMA.to_owned(),
        test: "run".to_owned(),
        title: if one {
            first.title()
        } else {
            format!("{} runs", runs.len())
        },
        version: first.text("/host/mpps_version").unwrap_or_default().to_owned(),
        command: if one { first.texts("command") } else { Vec::new() },
        started: first.started().to_owned(),
        took_s: runs.iter().filter_map(|run| run.number("/duration_s")).sum(),
        complete: flaws.is_empty(),
        incomplete: (!flaws.is_empty()).then(|| flaws.join("; ")),
        verdict: verdict(runs),
        params: if one { Value::Null } else { commands(runs) },
        tables,
        charts,
        definitions: definitions(first),
        tester: if one { Value::Object(first.host()) } else { common(runs) },
        plan: if one {
            first.summary.get("plan").cloned().unwrap_or_default()
        } else {
            Value::Null
        },
        ..Document::default()
    }
}

fn verdict(runs: &[Run]) -> Vec<String> {
    let one = runs.len() == 1;
    let told = |run: &Run| match one {
        true => run.told(),
        false => vec![format!("{}: {}", run.name, run.told().join(" "))],
    };
    let mut lines: Vec<_> = runs.iter().flat_map(told).collect();
    if !one {
        lines.insert(0, beside(runs));
        lines.push("The runs did not alternate: drift of the host is in what differs between them.".to_owned());
    }
    let warnings = runs.iter().flat_map(|run| warnings(run, one));
    lines.extend(warnings.map(|text| format!("Warning: {text}.")));
    lines
}

/// Loss and latency of several runs in a sentence.
fn beside(runs: &[Run]) -> String {
    let each = |name: &str, pointer: &str, shown: fn(f64) -> String| {
        let values = runs
            .iter()
            .filter_map(|run| Some(format!("{} {}", run.name, shown(run.number(pointer)?))));
        let values = values.collect::<Vec<_>>().join(", ");
        (!values.is_empty()).then(|| format!("{name}: {values}"))
    };
    let parts = [
        each("Loss", "/loss_ratio", percent),
        each("median latency", "/latency_ns/p50", time),
    ];
    format!("{}.", parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

fn warnings(run: &Run, one: bool) -> Vec<String> {
    let warnings = run.texts("warnings").into_iter();
    warnings
        .map(|text| if one { text } else { format!("{}: {text}", run.name) })
        .collect()
}

fn commands(runs: &[Run]) -> Value {
    let command = |run: &Run| (run.name.clone(), Value::from(run.texts("command").join(" ")));
    Value::Object(runs.iter().map(command).collect())
}

/// What all runs say of their host.
fn common(runs: &[Run]) -> Value {
    let mut host = runs.first().map(Run::host).unwrap_or_default();
    host.retain(|key, value| runs.iter().all(|run| run.host().get(key) == Some(value)));
    Value::Object(host)
}

fn column(key: &str, title: &str, unit: Unit) -> Column {
    Column {
        key: key.to_owned(),
        title: title.to_owned(),
        unit,
    }
}

fn table(name: &str, caption: &str, columns: Vec<Column>, rows: Vec<Vec<Value>>) -> Table {
    Table {
        name: name.to_owned(),
        caption: caption.to_owned(),
        columns,
        rows,
    }
}

/// One run's counts, one below the other.
fn counts(run: &Run) -> Table {
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

/// A row a run.
fn comparison(runs: &[Run]) -> Table {
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
        ("latency_max_ns", "Largest", Unit::Ns, "/latency_ns/max"),
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

/// A column a run, and one for latency from the time at which each packet was due.
fn latency_table(runs: &[Run]) -> Option<Table> {
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
    if let [run] = runs
        && run.number("/latency_scheduled_ns/min").is_some()
    {
        columns.push(column("latency_scheduled_ns", "From when it was due", Unit::Ns));
        from.push((run, "latency_scheduled_ns"));
    }
    let rows = PERCENTILES.iter().map(|(key, name, _)| {
        let cells = from.iter().map(|(run, of)| run.value(&format!("/{of}/{key}")));
        std::iter::once(Value::from(*name)).chain(cells).collect()
    });
    (!from.is_empty()).then(|| table("latency", "Latency", columns, rows.collect()))
}

fn latency_chart(runs: &[Run]) -> Option<Chart> {
    let points = |run: &Run, of: &str| -> Vec<(f64, Option<f64>)> {
        let mut points: Vec<_> = PERCENTILES
            .iter()
            .filter_map(|(key, _, part)| {
                let ns = run.number(&format!("/{of}/{key}")).filter(|ns| *ns > 0.0);
                let packets = run.number(&format!("/{of}/count")).filter(|n| *n >= 1.0);
                // The largest of n values is beyond all parts but the last of n.
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

fn lanes(runs: &[Run]) -> Option<Table> {
    let columns = [
        ("core", "Core", Unit::Plain),
        ("tx_packets", "Sent", Unit::Count),
        ("rx_packets", "Received", Unit::Count),
        ("tx_mean_burst", "Mean TX burst", Unit::Plain),
        ("rx_mean_burst", "Mean RX burst", Unit::Plain),
        ("busy_ratio", "Busy", Unit::Ratio),
        ("rx_dropped", "Dropped", Unit::Count),
    ];
    let round = |value: &Value| match value.as_f64().filter(|_| value.is_f64()) {
        Some(number) => Value::from((number * 1e4).round() / 1e4),
        None => value.clone(),
    };
    let mut rows = Vec::new();
    for run in runs {
        let lanes = run.summary.get("lanes").and_then(Value::as_array);
        for lane in lanes.into_iter().flatten().filter(|lane| lane.is_object()) {
            let number = lane.get("lane").map(ToString::to_string).unwrap_or_default();
            let name = if runs.len() == 1 {
                number
            } else {
                format!("{}: {number}", run.name)
            };
            let cell = |(key, ..): &(&str, &str, Unit)| lane.get(*key).map(round).unwrap_or_default();
            rows.push(
                std::iter::once(Value::from(name))
                    .chain(columns.iter().map(cell))
                    .collect(),
            );
        }
    }
    let head = std::iter::once(column("lane", "Lane", Unit::Plain));
    let columns = head
        .chain(columns.iter().map(|(key, title, unit)| column(key, title, *unit)))
        .collect();
    (!rows.is_empty()).then(|| table("lanes", "Lanes", columns, rows))
}

fn stretches(runs: &[Run]) -> Option<Table> {
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

/// What the runs do not have in common.
fn differences(runs: &[Run]) -> Option<Table> {
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

fn definitions(run: &Run) -> Vec<Definition> {
    let mut all = Vec::new();
    if run.text("/workload") == Some("sendrecv") {
        all = vec![
            ("Lost", "Sent, and neither received nor late."),
            (
                "Late",
                "Came back intact and for the first time, but after the settle time; not in the latency.",
            ),
            (
                "Offered rate",
                "Packets that left, divided by the time that was to be sent for.",
            ),
        ];
    }
    if let Some(note) = run.text("/latency_note") {
        all.push(("Latency", note));
    }
    let definition = |(term, text): (&str, &str)| Definition {
        term: term.to_owned(),
        text: sentence(text),
    };
    all.into_iter().map(definition).collect()
}
