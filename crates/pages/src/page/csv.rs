//! A table as CSV (RFC 4180): base units, all digits.

use crate::document::Table;
use serde_json::Value;

/// First characters of formulas in common spreadsheets.
const FIRST: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// Returns a text that spreadsheets don't take for a formula: a name or a command may begin like one.
fn as_text(text: &str) -> String {
    let formula = text.starts_with(FIRST) && text.parse::<f64>().is_err();
    if formula { format!("'{text}") } else { text.to_owned() }
}

/// Returns the table as CSV, with the keys of its columns in the first line. A cell is empty if there is no value.
pub fn csv(table: &Table) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => as_text(text),
        other => other.to_string(),
    };
    let keys = table.columns.iter().map(|column| as_text(&column.key));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spreadsheet_would_take_for_a_formula_is_a_text() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+x", "'+x"),
            ("-x", "'-x"),
            ("\t=1", "'\t=1"),
            ("-1.5", "-1.5"),
            ("+3", "+3"),
            ("a=1", "a=1"),
            ("", ""),
        ] {
            assert_eq!(as_text(text), cell);
        }
    }
}
