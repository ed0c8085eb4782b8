//! The files of a document: `result.json` is the record, and all other files are made from it, then or later.

use super::Document;
use crate::chart;
use crate::page::{self, Source};
use mpps_report::ReportError;
use std::collections::HashSet;

/// Name of the record.
pub const RESULT: &str = "result.json";

/// Names that tables and charts can't have: with `.csv` or `.svg` behind them they would be another file of the folder.
const TAKEN: [&str; 2] = ["report", "result"];

/// Returns the files in the folder of `document`: name and contents. `result.json` comes first, then `report.html`,
/// `report.md`, `TABLE.csv` and `CHART.svg`, so that a disk that fills up still has the record.
///
/// # Errors
/// When a table's or a chart's name is not a plain file name (letters, digits and hyphens), or occurs twice.
pub fn files(document: &Document) -> Result<Vec<(String, Vec<u8>)>, ReportError> {
    files_from(document, &[])
}

/// Returns the files like [`files`], for a document that was made from the files `sources`.
pub(super) fn files_from(document: &Document, sources: &[Source]) -> Result<Vec<(String, Vec<u8>)>, ReportError> {
    let tables = document.tables.iter().map(|table| ("table", table.name.as_str()));
    let charts = document.charts.iter().map(|chart| ("chart", chart.name.as_str()));
    let mut seen = HashSet::new();
    for (what, name) in tables.chain(charts) {
        if !is_plain(name) || !seen.insert((what, name.to_ascii_lowercase())) {
            return Err(ReportError::Name {
                what,
                name: name.to_owned(),
            });
        }
    }
    let result = document.text().into_bytes();
    let sources = [&[Source::of(RESULT, &result)], sources].concat();
    let mut files = vec![(RESULT.to_owned(), result)];
    let mut add = |name: String, text: String| files.push((name, text.into_bytes()));
    add("report.html".to_owned(), page::html(document, &sources));
    add("report.md".to_owned(), page::markdown(document, &sources));
    for table in &document.tables {
        add(format!("{}.csv", table.name), page::csv(table));
    }
    for chart in &document.charts {
        add(format!("{}.svg", chart.name), chart::svg(chart));
    }
    Ok(files)
}

/// Returns whether `name` can be the name of a table's or a chart's file: letters, digits and hyphens. A first hyphen
/// is refused because programs take such a name for an option.
pub fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (1..=64).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with('-')
        && !TAKEN.contains(&name.to_ascii_lowercase().as_str())
}
