//! Reads `result.json` back. The file may come from anybody, so everything is checked before it is used.

use super::{Document, SCHEMA, is_plain};
use crate::no_json;
use serde_json::Value;
use std::collections::HashSet;

/// Kinds of result files.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// `result.json` of a test.
    Test(Box<Document>),
    /// The JSON summary of a run (`--json`).
    Run(Value),
}

/// Reads a file of either kind.
///
/// # Errors
/// One line with the reason.
pub fn find(bytes: &[u8]) -> Result<Found, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| no_json(bytes, &e))?;
    if value.get("schema").is_some() {
        return document(value).map(|document| Found::Test(Box::new(document)));
    }
    let run = value.get("workload").is_some_and(Value::is_string)
        && ["tx_packets", "rx_packets"]
            .iter()
            .all(|key| value.get(key).is_some_and(Value::is_u64));
    match run {
        true => Ok(Found::Run(value)),
        false => Err(format!(
            "no result: want result.json of a test (schema {SCHEMA}) or the JSON summary of a run (--json)"
        )),
    }
}

/// Reads the result of a test.
///
/// # Errors
/// One line with the reason.
pub fn read(bytes: &[u8]) -> Result<Document, String> {
    document(serde_json::from_slice(bytes).map_err(|e| no_json(bytes, &e))?)
}

fn document(value: Value) -> Result<Document, String> {
    let schema = value.get("schema").cloned().unwrap_or_default();
    if schema != SCHEMA {
        return Err(format!("schema: {schema}: want \"{SCHEMA}\""));
    }
    let document = Document::deserialize_from(value)?;
    let mut names = HashSet::new();
    for table in &document.tables {
        let name = table.name.escape_debug();
        if !is_plain(&table.name) || !names.insert(("table", &table.name)) {
            return Err(format!(
                "table '{name}': want letters, digits and hyphens, and each name once"
            ));
        }
        let columns = table.columns.len();
        if let Some(row) = table.rows.iter().position(|row| row.len() != columns) {
            let (row, cells) = (row + 1, table.rows[row].len());
            return Err(format!(
                "table '{name}': row {row} has {cells} cells, where there are {columns} columns"
            ));
        }
    }
    for chart in &document.charts {
        if !is_plain(&chart.name) || !names.insert(("chart", &chart.name)) {
            let name = chart.name.escape_debug();
            return Err(format!(
                "chart '{name}': want letters, digits and hyphens, and each name once"
            ));
        }
    }
    Ok(document)
}

impl Document {
    fn deserialize_from(value: Value) -> Result<Self, String> {
        serde_json::from_value(value).map_err(|e| mpps_sys::text::plain(&e.to_string(), ' '))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{files, redact, runs};
    use proptest::prelude::*;
    use serde_json::json;

    fn wrong(change: impl FnOnce(&mut Value)) -> String {
        let document = Document {
            schema: SCHEMA.to_owned(),
            tables: vec![Default::default()],
            ..Document::default()
        };
        let mut value = serde_json::to_value(document).unwrap();
        value["tables"][0]["name"] = json!("t");
        change(&mut value);
        find(value.to_string().as_bytes()).unwrap_err()
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (why, part) in [
            (find(b"{").unwrap_err(), "no JSON"),
            (find(b"[]").unwrap_err(), "no result: want"),
            (find(b"{\"workload\":\"send\"}").unwrap_err(), "no result: want"),
            (
                wrong(|v| v["schema"] = json!("mpps.test/2")),
                "schema: \"mpps.test/2\": want",
            ),
            (wrong(|v| v["title"] = json!(1)), "invalid type"),
            (wrong(|v| v["tables"][0]["name"] = json!("../x")), "table '../x'"),
            (wrong(|v| v["tables"][0]["name"] = json!("a\nb")), "table 'a\\nb'"),
            (wrong(|v| v["tables"][0]["rows"] = json!([[1]])), "row 1 has 1 cells"),
        ] {
            assert!(why.contains(part) && !why.contains('\n'), "{why}");
        }
    }

    /// A JSON value that may be anything.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "\\PC{0,10}".prop_map(Value::from),
            Just(json!("10.0.0.1")),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-z_]{1,6}", inner), 0..4)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    /// Everything that is made of a file, made.
    fn used(bytes: &[u8]) {
        let document = match find(bytes) {
            Ok(Found::Test(document)) => *document,
            Ok(Found::Run(run)) => runs::document(&[runs::Run::new("run.json", run)]),
            Err(why) => {
                assert!(!why.contains('\n'), "{why}");
                return;
            }
        };
        let hidden = redact::document(&document);
        assert!(files(&hidden).is_ok());
        for (name, contents) in files(&document).unwrap() {
            assert!(!name.contains('/') && !contents.is_empty(), "{name}");
        }
    }

    const RUN: &str = include_str!("../../tests/example/run.json");

    fn keys(value: &Value, under: &str, into: &mut Vec<String>) {
        let mut add = |key: String, value: &Value| {
            keys(value, &key, into);
            into.push(key);
        };
        match value {
            Value::Object(all) => all.iter().for_each(|(k, v)| add(format!("{under}/{k}"), v)),
            Value::Array(all) => all.iter().enumerate().for_each(|(k, v)| add(format!("{under}/{k}"), v)),
            _ => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            used(&bytes);
        }

        #[test]
        fn a_run_with_anything_anywhere_is_shown(junk in any_json(), at in any::<prop::sample::Index>()) {
            let mut run: Value = serde_json::from_str(RUN).unwrap();
            let mut all = Vec::new();
            keys(&run, "", &mut all);
            *run.pointer_mut(at.get(&all[..]).as_str()).unwrap() = junk;
            used(run.to_string().as_bytes());
        }

        #[test]
        fn a_test_with_anything_anywhere_is_shown_or_refused(
            junk in any_json(), at in any::<prop::sample::Index>(),
        ) {
            let run: Value = serde_json::from_str(RUN).unwrap();
            let document = runs::document(&[runs::Run::new("run.json", run)]);
            let mut value = serde_json::to_value(document).unwrap();
            let mut all = Vec::new();
            keys(&value, "", &mut all);
            *value.pointer_mut(at.get(&all[..]).as_str()).unwrap() = junk;
            used(value.to_string().as_bytes());
        }
    }
}
