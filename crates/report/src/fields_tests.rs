//! Compares docs, schema and Python with the tables of fields. `MPPS_WRITE=1 cargo test -p mpps-report fields` writes
//! them.

use crate::lanes_csv::LANE;
use mpps_stats::fields::{FAULTS, Field, ROW, Unit};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// Compares a file with `made`, or writes `made` if `MPPS_WRITE` is set.
fn holds(name: &str, text: &str, made: &str) {
    if std::env::var_os("MPPS_WRITE").is_some() {
        return std::fs::write(file(name), made).expect(name);
    }
    let differs = text.lines().zip(made.lines()).find(|(is, made)| is != made);
    assert!(
        text == made,
        "{name} is not what crates/stats/src/fields.rs or lanes_csv.rs make of it: {differs:?}: \
         MPPS_WRITE=1 cargo test -p mpps-report fields"
    );
}

/// Compares the lines of a file from `first` up to an empty line with `made`.
fn holds_block(name: &str, first: &str, made: &str) {
    let text = std::fs::read_to_string(file(name)).expect(name);
    let start = text.find(first).unwrap_or_else(|| panic!("{name}: no line '{first}'"));
    let end = start + text[start..].find("\n\n").expect("an empty line");
    holds(name, &text, &format!("{}{made}{}", &text[..start], &text[end..]));
}

fn table<T>(head: &str, fields: &[Field<T>]) -> String {
    let row = |field: &Field<T>| format!("\n| `{}` | {} | {} |", field.name, field.unit.symbol(), field.about);
    let rows: String = fields.iter().map(row).collect();
    format!("{head}\n|---|---|---|{}", rows.replace("|  |", "| |"))
}

#[test]
fn fields_of_rows_and_of_lanes_are_documented() {
    // One test for both tables, since both are in one file.
    const ROWS: &str = "| column of a row | unit | meaning |";
    holds_block("docs/use/files.md", ROWS, &table(ROWS, &ROW));
    const LANES: &str = "| column of a lane | unit | meaning |";
    holds_block("docs/use/files.md", LANES, &table(LANES, &LANE));
}

#[test]
fn fields_of_rows_are_in_the_schema_of_lines() {
    const NAME: &str = "docs/lines.schema.json";
    let text = std::fs::read_to_string(file(NAME)).expect(NAME);
    let mut schema: Value = serde_json::from_str(&text).expect("JSON");
    let mut properties = Map::from_iter([("event".to_owned(), json!({ "const": "row" }))]);
    properties.extend(ROW.iter().map(|field| {
        let kind = match field.unit {
            Unit::Utc => "string",
            _ if field.decimals == 0 => "integer",
            _ => "number",
        };
        (field.name.to_owned(), json!({ "type": [kind, "null"] }))
    }));
    let row = &mut schema["$defs"]["row"];
    row["required"] = properties.keys().cloned().collect();
    row["properties"] = Value::Object(properties);
    holds(NAME, &text, &format!("{schema:#}\n"));
}

#[test]
fn fields_of_rows_are_attributes_in_python() {
    /// Fields that every row has. Python wants them before optional ones.
    const ALWAYS: [&str; 3] = ["time_s", "interval_s", "start_utc_ns"];
    let kind = |field: &Field<_>| match field.unit {
        Unit::Utc => "str",
        _ if field.decimals == 0 => "int",
        _ => "float",
    };
    let named = |name: &&str| ROW.iter().find(|field| field.name == *name).expect("a field");
    let mut lines: Vec<_> = ALWAYS
        .iter()
        .map(named)
        .map(|f| format!("    {}: {}", f.name, kind(f)))
        .collect();
    let others = ROW.iter().filter(|field| !ALWAYS.contains(&field.name));
    lines.extend(others.map(|f| format!("    {}: {} | None = None", f.name, kind(f))));
    holds_block("python/src/mpps/_row.py", &lines[0], &lines.join("\n"));
}

#[test]
fn faults_of_a_run_are_attributes_in_python() {
    let result = std::fs::read_to_string(file("python/src/mpps/_result.py")).expect("_result.py");
    for fault in &FAULTS {
        let property = format!("    def {}(self) -> int:\n", fault.key);
        assert!(result.contains(&property), "{}: no property of the result", fault.key);
    }
}
