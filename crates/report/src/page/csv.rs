//! A table as CSV (RFC 4180): base units, all digits.

use crate::document::Table;
use serde_json::Value;

/// The table, under the keys of its columns. A cell is empty where there is no value.
pub fn csv(table: &Table) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let keys = table.columns.iter().map(|column| column.key.clone());
    let rows = table.rows.iter().map(|row| {
        let cells = (0..table.columns.len()).map(|i| row.get(i).map(cell).unwrap_or_default());
        cells.collect::<Vec<_>>()
    });
    for row in std::iter::once(keys.collect()).chain(rows) {
        // A Vec takes everything, and each row has as many cells as the first.
        let _ = writer.write_record(&row);
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}
