//! The page in Markdown, for trackers that show no HTML.

use super::parts::{TRIALS, facts};
use super::{Source, by_size, command_line, incomplete, no_device, reason_first, title, when};
use crate::document::show::{Shown, headed};
use crate::document::{Document, Table, Unit};
use crate::escape::is_hidden;
use serde_json::Value;
use std::fmt::Write;

/// Most rows of a table. Longer tables are complete in their CSV.
const ROWS: usize = 200;

/// Returns `report.md`: the contents of the page, with pictures as files beside it. Trials are in `trials.csv`.
pub fn markdown(document: &Document, sources: &[Source]) -> String {
    let mut text = format!("# {}\n\n{}\n\n", plain(title(document)), plain(&when(document)));
    let mut put = |more: &str| text.push_str(more);
    let why = incomplete(document);
    let bad = why.iter().flat_map(|why| by_size(why));
    let bad: String = bad.map(|line| format!("**{}**\n\n", plain(line))).collect();
    if reason_first(document) {
        put(&bad);
    }
    for (i, line) in document.verdict.iter().enumerate() {
        let strong = if i == 0 { "**" } else { "" };
        put(&format!("{strong}{}{strong}\n\n", plain(&headed(line))));
    }
    if !reason_first(document) {
        put(&bad);
    }
    if let Some(compliance) = &document.compliance {
        put(&format!("{}\n\n", plain(&headed(compliance))));
    }
    put(&list("Deviations", &document.deviations));
    if !document.tables.is_empty() || !document.charts.is_empty() {
        put("## Results\n\n");
    }
    let picture = |name: &str| {
        let charts = document.charts.iter().filter(|chart| chart.name == name).take(1);
        charts
            .map(|chart| format!("![{}]({}.svg)\n\n", plain(&chart.title), plain(name)))
            .collect::<String>()
    };
    for t in document.tables.iter().filter(|table| table.name != TRIALS) {
        put(&picture(&t.name));
        put(&table(t));
    }
    for chart in &document.charts {
        let tabled = |t: &Table| t.name == chart.name && t.name != TRIALS;
        if !document.tables.iter().any(tabled) {
            put(&picture(&chart.name));
        }
    }
    if let Some(trials) = document.tables.iter().find(|table| table.name == TRIALS) {
        put(&format!("All {} trials are in {TRIALS}.csv.\n\n", trials.rows.len()));
    }
    if !document.definitions.is_empty() {
        put("## Definitions\n\n");
        for definition in &document.definitions {
            put(&format!(
                "- **{}**: {}\n",
                plain(&definition.term),
                plain(&definition.text)
            ));
        }
        put("\n");
    }
    let device = document.device.as_deref().filter(|device| !device.trim().is_empty());
    put(&format!(
        "## Device under test\n\n{}\n\n",
        device.map_or(no_device(document).to_owned(), lines)
    ));
    put(&named("Tester", &document.tester));
    put(&named("Parameters", &document.params));
    if !document.command.is_empty() {
        put(&format!(
            "## Command line\n\n{}\n",
            block(&command_line(&document.command))
        ));
    }
    if !document.plan.is_null() {
        put(&format!(
            "## Plan that the trials vary\n\n{}\n",
            block(&format!("{:#}", document.plan))
        ));
    }
    if !sources.is_empty() {
        put("## Record\n\n");
        for source in sources {
            put(&format!("- SHA-256 of {}: `{}`\n", plain(&source.name), source.sha256));
        }
    }
    text
}

fn list(heading: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: String = lines
        .iter()
        .map(|line| format!("- {}\n", plain(&headed(line))))
        .collect();
    format!("## {heading}\n\n{lines}\n")
}

fn named(heading: &str, value: &Value) -> String {
    let facts = facts(value);
    if facts.is_empty() {
        return String::new();
    }
    let rows: String = facts
        .iter()
        .map(|(name, text)| format!("| {} | {} |\n", plain(name), plain(text)))
        .collect();
    format!("## {heading}\n\n| | |\n|---|---|\n{rows}\n")
}

fn table(table: &Table) -> String {
    let mut text = format!("{}\n\n|", plain(&headed(&table.caption)));
    let column = |i: usize| table.rows.iter().filter_map(move |row| row.get(i));
    let shown = Shown::of_table(table);
    for (unit, column) in shown.iter().zip(&table.columns) {
        // Writing to a String does not fail.
        let _ = write!(text, " {} |", plain(&unit.heading(&column.title)));
    }
    text.push_str("\n|");
    for (i, c) in table.columns.iter().enumerate() {
        let texts = c.unit == Unit::Plain && column(i).any(Value::is_string);
        text.push_str(if texts { "---|" } else { "---:|" });
    }
    for row in table.rows.iter().take(ROWS) {
        text.push_str("\n|");
        for (unit, value) in shown.iter().zip(row) {
            let _ = write!(text, " {} |", plain(&unit.cell(value)));
        }
    }
    text.push_str("\n\n");
    if table.rows.len() > ROWS {
        let (all, name) = (table.rows.len(), plain(&table.name));
        let _ = write!(text, "The first {ROWS} of {all} rows; {name}.csv has all.\n\n");
    }
    text
}

/// Returns a text on one line, with all markup escaped.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.trim().chars() {
        match c {
            '\n' | '\t' | '\r' => plain.push(' '),
            c if is_hidden(c) => plain.push('\u{fffd}'),
            '\\' | '`' | '*' | '[' | ']' | '<' | '|' | '~' => plain.extend(['\\', c]),
            // Entities, and characters from which trackers make links to people and issues.
            '&' => plain.push_str("&amp;"),
            '#' if plain.is_empty() => plain.push_str("\\#"),
            c => plain.push(c),
        }
    }
    plain
}

/// Returns a text with its own line breaks.
fn lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("  \n")
}

/// Returns a block of code. Its fence has more back quotes than any run of them in the text.
fn block(text: &str) -> String {
    let mut most = 0;
    let mut here = 0;
    for c in text.chars() {
        here = if c == '`' { here + 1 } else { 0 };
        most = most.max(here);
    }
    let fence = "`".repeat(most.max(2) + 1);
    let text: String = text
        .chars()
        .map(|c| if is_hidden(c) && c != '\n' { '\u{fffd}' } else { c })
        .collect();
    format!("{fence}\n{text}\n{fence}\n")
}
