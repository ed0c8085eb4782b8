//! Results of one test beside each other: in every table one row per result, in every chart one line per result.

mod charts;
mod merged;

use super::{Column, Definition, Document, SCHEMA, Table, Unit};
use merged::{merged, sentences};
use serde_json::{Map, Value, json};

/// The value of [`Document::test`].
const TEST: &str = "report";
/// Tests whose results can be put beside each other.
const TESTS: [&str; 3] = ["ndr", "rfc2544", "overload"];

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
    of_one_test(all)?;
    let first = &all[0].1;
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
    let mut charts = charts::overlaid(all);
    charts.extend(tables.iter().filter_map(|table| charts::difference(table, names[0])));
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
        results: results(all),
        tables: tables.into_iter().chain(answers(own)).chain(differences(all)).collect(),
        charts,
        definitions: definitions(all),
        device: (!devices.is_empty()).then(|| devices.join("\n")),
        tester: shared(all, |document| &document.tester),
        plan: common(all, |document| &document.plan).cloned().unwrap_or_default(),
        ..Document::default()
    })
}

/// Refuses results of several tests, of a test whose results can't be put beside each other, or with lists that are too
/// long.
fn of_one_test(all: &[Named]) -> Result<(), (usize, String)> {
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
    Ok(())
}

/// Returns the definitions of all results, each term once.
fn definitions(all: &[Named]) -> Vec<Definition> {
    let mut definitions: Vec<Definition> = Vec::new();
    for definition in all.iter().flat_map(|(_, document)| &document.definitions) {
        if !definitions.iter().any(|known| known.term == definition.term) {
            definitions.push(definition.clone());
        }
    }
    definitions
}

/// Returns the single results of all documents, each with the name of its document.
fn results(all: &[Named]) -> Vec<Value> {
    let results = all.iter().flat_map(|(name, document)| {
        document.results.iter().map(move |result| {
            let mut result = result.clone();
            if let Some(fields) = result.as_object_mut() {
                fields.insert("result".to_owned(), json!(name));
            }
            result
        })
    });
    results.collect()
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
