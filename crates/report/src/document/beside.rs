//! Results of one test beside each other: in every table one row per result, in every chart one line per result.

use super::{Axis, Chart, Column, Definition, Document, Kind, SCHEMA, Scale, Series, Table, Unit};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

/// The value of [`Document::test`].
const TEST: &str = "report";
/// Tests whose results can be put beside each other.
const TESTS: [&str; 3] = ["ndr", "rfc2544", "overload"];

/// Columns by which rows are matched. Loss is a key only as a first column, which goals of a search have.
const KEYS: [&str; 6] = ["frame_size_bytes", "burst_frames", LOAD, LANE, "kind", "trial"];
const LOAD: &str = "load_ratio";
const LANE: &str = "lane";
const GOAL: &str = "loss_ratio";

/// Columns whose values are divided by those of the first result.
const BY: [&str; 13] = [
    "throughput_pps",
    "lower_pps",
    "latency_mean_ns",
    "mean_ns",
    "worst_case_ns",
    "pdv_ns",
    "mean_frames",
    "corrected_buffer_s",
    "mean_recovery_ns",
    "fr_pps",
    "latency_p99_ns",
    "device_rx_pps",
    "device_tx_pps",
];
/// Columns from whose values those of the first result are subtracted.
const LESS: [&str; 2] = [RECEIVED, GOAL];
const RECEIVED: &str = "received";
const DURATION: &str = "duration_s";

/// Most rows of a table, and (`PARTS`) most entries of any other list in a result. Tests have far fewer.
const ROWS: usize = 100_000;
const PARTS: usize = 1000;

/// A result, and its name in tables and legends.
pub(crate) type Named = (String, Document);

/// Returns one document made of several results of the same test; `all` must not be empty.
///
/// # Errors
/// Position of the result that does not fit, and one line with the reason.
pub(crate) fn document(all: &[Named]) -> Result<Document, (usize, String)> {
    let first = &all[0].1;
    for (at, (_, document)) in all.iter().enumerate() {
        if document.test == TEST {
            return Err((
                at,
                "it holds several results already: want those of single tests".to_owned(),
            ));
        }
        if !TESTS.contains(&document.test.as_str()) {
            let why = format!("it is of {}: want results of {}", document.test, TESTS.join(", "));
            return Err((at, why));
        }
        if document.test != first.test {
            let (a, b) = (&first.test, &document.test);
            return Err((
                at,
                format!("it is of {b}, the first one of {a}: want results of one test"),
            ));
        }
    }
    for (at, (_, document)) in all.iter().enumerate() {
        fits(document).map_err(|why| (at, why))?;
    }
    let each = |of: &dyn Fn(&Document) -> Vec<String>| -> Vec<String> {
        let lines = all
            .iter()
            .flat_map(|(name, document)| of(document).into_iter().map(move |line| format!("'{name}': {line}")));
        lines.collect()
    };
    let incomplete = each(&|document| match document.complete {
        true => Vec::new(),
        false => vec![
            document
                .incomplete
                .clone()
                .unwrap_or_else(|| "no reason is given".to_owned()),
        ],
    });
    let tables = of_each(all, |document| &document.tables, |table| &table.name);
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let tables: Vec<_> = tables
        .into_iter()
        .filter_map(|tables| merged(&tables, names[0]))
        .collect();
    let mut verdict: Vec<_> = tables.iter().flat_map(|table| sentences(table, &names)).collect();
    verdict.push(
        "The results were not measured in turns: what changed on the hosts meanwhile is in what differs.".to_owned(),
    );
    let (shared_lines, own): (Vec<_>, Vec<_>) =
        (lines(all, |document| &document.verdict).into_iter()).partition(|(_, names)| names.len() == all.len());
    verdict.extend(shared_lines.into_iter().map(|(line, _)| line.to_owned()));
    let charts = of_each(all, |document| &document.charts, |chart| &chart.name);
    // As in the picture of one test: charts of searches are used only if there is no other chart.
    let searches = charts.iter().all(|charts| charts[0].1.is_of_search());
    let mut charts: Vec<_> = charts
        .into_iter()
        .filter(|charts| searches || !charts[0].1.is_of_search())
        .map(|charts| overlaid(&charts))
        .collect();
    charts.extend(tables.iter().filter_map(|table| difference(table, names[0])));
    let mut definitions: Vec<Definition> = Vec::new();
    for definition in all.iter().flat_map(|(_, document)| &document.definitions) {
        if !definitions.iter().any(|known| known.term == definition.term) {
            definitions.push(definition.clone());
        }
    }
    let results = all.iter().flat_map(|(name, document)| {
        document.results.iter().map(move |result| {
            let mut result = result.clone();
            if let Some(fields) = result.as_object_mut() {
                fields.insert("result".to_owned(), json!(name));
            }
            result
        })
    });
    let devices = each(&|document| document.device.clone().into_iter().collect());
    Ok(Document {
        schema: SCHEMA.to_owned(),
        test: TEST.to_owned(),
        title: format!("{}: {}", first.test, names.join(", ")),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: first.started.clone(),
        took_s: all.iter().map(|(_, document)| document.took_s).sum(),
        complete: incomplete.is_empty(),
        incomplete: (!incomplete.is_empty()).then(|| incomplete.join("; ")),
        compliance: common(all, |document| &document.compliance).cloned().flatten(),
        verdict,
        deviations: deviations(all),
        params: shared(all, |document| &document.params),
        results: results.collect(),
        tables: tables.into_iter().chain(answers(own)).chain(differences(all)).collect(),
        charts,
        definitions,
        device: (!devices.is_empty()).then(|| devices.join("\n")),
        tester: shared(all, |document| &document.tester),
        plan: common(all, |document| &document.plan).cloned().unwrap_or_default(),
        ..Document::default()
    })
}

/// Refuses a result with lists longer than any test makes: those would take hours.
fn fits(document: &Document) -> Result<(), String> {
    let tables = document.tables.iter();
    let columns = tables.clone().map(|table| table.columns.len()).max();
    let lines = document.charts.iter().map(|chart| chart.series.len()).max();
    for (what, number, most) in [
        ("rows in a table", tables.map(|table| table.rows.len()).max(), ROWS),
        ("columns in a table", columns, PARTS),
        ("tables", Some(document.tables.len()), PARTS),
        ("charts", Some(document.charts.len()), PARTS),
        ("lines in a chart", lines, PARTS),
        ("lines in its answer", Some(document.verdict.len()), PARTS),
        ("deviations", Some(document.deviations.len()), PARTS),
        ("definitions", Some(document.definitions.len()), PARTS),
    ] {
        let number = number.unwrap_or(0);
        if number > most {
            return Err(format!("it has {number} {what}: want {most} at the most"));
        }
    }
    Ok(())
}

/// Returns the value that all results have in common.
fn common<'d, T: PartialEq>(all: &'d [Named], of: impl Fn(&'d Document) -> &'d T) -> Option<&'d T> {
    let first = of(&all.first()?.1);
    all.iter().all(|(_, document)| of(document) == first).then_some(first)
}

/// Groups tables or charts by name, in the order of the first result that has the name. Tables with all trials stay in
/// the reports of their own.
fn of_each<'d, T>(
    all: &'d [Named],
    of: impl Fn(&'d Document) -> &'d [T],
    name: impl Fn(&'d T) -> &'d str,
) -> Vec<Vec<(&'d str, &'d T)>> {
    let mut groups: Vec<Vec<(&str, &T)>> = Vec::new();
    for (label, document) in all {
        for part in of(document).iter().filter(|part| name(part) != "trials") {
            match groups.iter_mut().find(|group| name(group[0].1) == name(part)) {
                Some(group) => group.push((label, part)),
                None => groups.push(vec![(label, part)]),
            }
        }
    }
    groups
}

/// A line of text from results, and the names of the results that have it.
type Line<'d> = (&'d str, Vec<&'d str>);

/// Returns the lines of the results, each once, in the order of the first result that has it.
fn lines<'d>(all: &'d [Named], of: impl Fn(&'d Document) -> &'d [String]) -> Vec<Line<'d>> {
    let mut lines: Vec<Line<'d>> = Vec::new();
    for (name, document) in all {
        for line in of(document) {
            match lines.iter_mut().find(|(known, _)| known == line) {
                Some((_, names)) if names.contains(&name.as_str()) => {}
                Some((_, names)) => names.push(name),
                None => lines.push((line, vec![name])),
            }
        }
    }
    lines
}

/// Returns deviations: one that all results share as it is, others with the names of the results that have them.
fn deviations(all: &[Named]) -> Vec<String> {
    let named = |(line, names): Line<'_>| match names.len() == all.len() {
        true => line.to_owned(),
        false => format!("'{}': {line}", names.join("', '")),
    };
    let all_lines = lines(all, |document| &document.deviations);
    all_lines.into_iter().map(named).collect()
}

/// Returns a table of the verdict lines that not all results have.
fn answers(own: Vec<Line<'_>>) -> Option<Table> {
    let row = |(line, names): Line<'_>| vec![Value::from(names.join(", ")), line.into()];
    let table = Table {
        name: "answers".to_owned(),
        caption: "What each result says".to_owned(),
        columns: vec![
            column("result", "result", Unit::Plain),
            column("answer", "answer", Unit::Plain),
        ],
        rows: own.into_iter().map(row).collect(),
    };
    (!table.rows.is_empty()).then_some(table)
}

/// Returns the fields that are the same in all results.
fn shared<'d>(all: &'d [Named], of: impl Fn(&'d Document) -> &'d Value) -> Value {
    let Some(first) = all.first().and_then(|(_, document)| of(document).as_object()) else {
        return Value::Null;
    };
    let same = |(key, value): &(&String, &Value)| all.iter().all(|(_, document)| of(document).get(key) == Some(*value));
    let fields: Map<String, Value> = first
        .iter()
        .filter(same)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    fields.into()
}

/// Returns a table of the parameters, testers and command lines that differ between the results.
fn differences(all: &[Named]) -> Option<Table> {
    let fields = |document: &Document| -> Map<String, Value> {
        let mut fields = Map::new();
        for object in [&document.params, &document.tester] {
            fields.extend(object.as_object().cloned().unwrap_or_default());
        }
        let words = document.command.iter().skip(1).map(String::as_str);
        let command: Vec<_> = std::iter::once("mpps").chain(words).collect();
        fields.insert("command".to_owned(), command.join(" ").into());
        fields.insert("started".to_owned(), document.started.clone().into());
        fields
    };
    let all_fields: Vec<_> = all.iter().map(|(_, document)| fields(document)).collect();
    let mut keys: Vec<&String> = all_fields.iter().flat_map(Map::keys).collect();
    keys.sort();
    keys.dedup();
    keys.retain(|key| {
        all_fields
            .iter()
            .any(|fields| fields.get(*key) != all_fields[0].get(*key))
    });
    let cell = |value: Option<&Value>| match value {
        Some(value @ (Value::Array(_) | Value::Object(_))) => value.to_string().into(),
        other => other.cloned().unwrap_or_default(),
    };
    let row = |key: &String| {
        let cells = all_fields.iter().map(|fields| cell(fields.get(key)));
        std::iter::once(Value::from(key.as_str())).chain(cells).collect()
    };
    let named = all
        .iter()
        .enumerate()
        .map(|(at, (name, _))| column(&format!("result_{}", at + 1), &format!("'{name}'"), Unit::Plain));
    let table = Table {
        name: "differences".to_owned(),
        caption: "What differs between the results".to_owned(),
        columns: std::iter::once(column("what", "what", Unit::Plain))
            .chain(named)
            .collect(),
        rows: keys.into_iter().map(row).collect(),
    };
    (!table.rows.is_empty()).then_some(table)
}

fn column(key: &str, title: &str, unit: Unit) -> Column {
    Column {
        key: key.to_owned(),
        title: title.to_owned(),
        unit,
    }
}

/// Returns a key in the form in which rows are matched: shares of rates are rounded, each by itself.
fn key(column: &str, value: &Value) -> String {
    match value.as_f64() {
        Some(number) if column == LOAD => format!("{number:.3}"),
        Some(number) => number.to_string(),
        None => value.to_string(),
    }
}

/// Keys of a row, and the number of earlier rows with the same keys.
type Match = (Vec<String>, usize);

/// Merges the tables of one name into one: key columns, the result, and the other columns. A column that is compared
/// with the first result has one more column behind it, if the first result has the table. `None` if the tables have no
/// key.
fn merged(tables: &[(&str, &Table)], first: &str) -> Option<Table> {
    let mut known = HashSet::new();
    let columns: Vec<&Column> = tables
        .iter()
        .flat_map(|(_, table)| &table.columns)
        .filter(|column| known.insert(&column.key))
        .collect();
    let is_key = |at: usize, column: &Column| KEYS.contains(&column.key.as_str()) || at == 0 && column.key == GOAL;
    let keys: Vec<&Column> = (columns.iter().enumerate())
        .filter(|(at, column)| is_key(*at, column))
        .map(|(_, column)| *column)
        .collect();
    if keys.is_empty() {
        return None;
    }
    let values: Vec<&Column> = columns.into_iter().filter(|column| !keys.contains(column)).collect();
    let base = tables.iter().position(|(name, _)| *name == first);
    let compared = |column: &Column| base.and_then(|_| compared(column));
    // Rows with the same key are matched in their order.
    let mut groups: Vec<Vec<(usize, &Vec<Value>)>> = Vec::new();
    let mut place: HashMap<Match, usize> = HashMap::new();
    for (at, (_, table)) in tables.iter().enumerate() {
        let mut turns: HashMap<Vec<String>, usize> = HashMap::new();
        for row in &table.rows {
            let of = |column: &&Column| key(&column.key, &cell(table, row, &column.key));
            let of: Vec<_> = keys.iter().map(of).collect();
            let turn = turns.entry(of.clone()).or_default();
            let group = *place.entry((of, *turn)).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            *turn += 1;
            groups[group].push((at, row));
        }
    }
    let mut rows = Vec::new();
    for group in &groups {
        let of_first = group.iter().find(|(at, _)| Some(*at) == base);
        for (at, row) in group {
            let (name, table) = tables[*at];
            let mut cells: Vec<Value> = keys.iter().map(|column| cell(table, row, &column.key)).collect();
            cells.push(name.into());
            let first_has = |key: &str| {
                let (of, row) = of_first.filter(|_| Some(*at) != base)?;
                Some(cell(tables[*of].1, row, key))
            };
            // Packets are compared only between trials of the same length.
            let alike = first_has(DURATION).is_some_and(|of| of == cell(table, row, DURATION));
            for column in &values {
                let value = cell(table, row, &column.key);
                let other = first_has(&column.key).filter(|_| column.key != RECEIVED || alike);
                let numbers = value.as_f64().zip(other.as_ref().and_then(Value::as_f64));
                cells.push(value);
                match compared(column) {
                    Some(true) => cells.push(json!(numbers.filter(|(_, of)| *of != 0.0).map(|(a, b)| a / b))),
                    Some(false) => cells.push(numbers.map_or(Value::Null, |(a, b)| less(a, b))),
                    None => {}
                }
            }
            rows.push(cells);
        }
    }
    let mut columns: Vec<Column> = keys.into_iter().cloned().collect();
    columns.push(column("result", "result", Unit::Plain));
    for of in values {
        columns.push(of.clone());
        columns.extend(compared(of).map(|by| match by {
            true => column(&format!("{}{BY_FIRST}", of.key), &format!("÷ {first}"), Unit::Plain),
            false => column(&format!("{}{LESS_FIRST}", of.key), &format!("− {first}"), of.unit),
        }));
    }
    Some(Table {
        name: tables[0].1.name.clone(),
        caption: tables[0].1.caption.clone(),
        columns,
        rows,
    })
}

/// Returns the difference, as a whole number if both numbers are whole.
fn less(a: f64, b: f64) -> Value {
    let difference = a - b;
    match a.fract() == 0.0 && b.fract() == 0.0 && difference.abs() < 1e15 {
        true => json!(difference as i64),
        false => json!(difference),
    }
}

const BY_FIRST: &str = "_by_first";
const LESS_FIRST: &str = "_less_first";

/// Returns whether a column is divided by the first result's (true) or has it subtracted (false); `None`: neither.
fn compared(column: &Column) -> Option<bool> {
    let key = column.key.as_str();
    BY.contains(&key)
        .then_some(true)
        .or(LESS.contains(&key).then_some(false))
}

fn cell(table: &Table, row: &[Value], key: &str) -> Value {
    let at = table.columns.iter().position(|column| column.key == key);
    at.and_then(|at| row.get(at)).cloned().unwrap_or_default()
}

/// Returns sentences that compare each result with the first one in the divided columns; not lane by lane.
fn sentences(table: &Table, names: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    if table.columns.iter().any(|column| column.key == LANE) {
        return lines;
    }
    // Added if each result has its own load.
    let own = match table.name.as_str() {
        "at-throughput" => ", each at its own throughput",
        _ if table.columns.iter().any(|column| column.key == LOAD) => ", by shares of the reference rate of each",
        _ => "",
    };
    for (at, column) in table.columns.iter().enumerate() {
        let Some(of) = column
            .key
            .strip_suffix(BY_FIRST)
            .and_then(|_| table.columns.get(at - 1))
        else {
            continue;
        };
        for name in &names[1..] {
            let rows = table.rows.iter().filter(|row| cell(table, row, "result") == **name);
            let mut ratios: Vec<f64> = rows.filter_map(|row| row[at].as_f64()).collect();
            ratios.sort_by(f64::total_cmp);
            let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else {
                continue;
            };
            let middle = (ratios[(ratios.len() - 1) / 2] + ratios[ratios.len() / 2]) / 2.0;
            let over = match ratios.len() {
                1 => String::new(),
                n => format!(" in the median of {n} rows ({least:.3} to {most:.3})"),
            };
            lines.push(format!(
                "{}: {name} is {middle:.3} times {}{over}{own}",
                of.title, names[0]
            ));
        }
    }
    lines
}

/// Merges the charts of one name into one. A line that is the same in all results is drawn once.
fn overlaid(charts: &[(&str, &Chart)]) -> Chart {
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
fn difference(table: &Table, first: &str) -> Option<Chart> {
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
