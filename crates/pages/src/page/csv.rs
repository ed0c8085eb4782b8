//! A table as CSV (RFC 4180): base units, all digits.

use crate::document::Table;
use mpps_sys::text::no_formula;
use serde_json::Value;

/// Returns the table as CSV, with the keys of its columns in the first line. A cell is empty if there is no value.
pub fn csv(table: &Table) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => no_formula(text).into_owned(),
        other => other.to_string(),
    };
    let keys = table.columns.iter().map(|column| no_formula(&column.key).into_owned());
    let rows = table.rows.iter().map(|row| {
        let cells = (0..table.columns.len()).map(|i| row.get(i).map(cell).unwrap_or_default());
        cells.collect::<Vec<_>>()
    });
    for row in std::iter::once(keys.collect()).chain(rows) {
        // Writing to a Vec does not fail, and each row has as many cells as the first.
        let _ = writer.write_record(&row);
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}
