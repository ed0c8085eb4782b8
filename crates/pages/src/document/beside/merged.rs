//! Tables of one name as one table, and sentences on it.

use super::column;
use crate::document::{Column, Table, Unit};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Columns by which rows are matched. Loss is a key only as a first column, which goals of a search have.
pub(super) const KEYS: [&str; 7] = [
    "frame_size_bytes",
    "burst_frames",
    LOAD,
    LANE,
    "kind",
    "trial",
    "stream",
];
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
pub(super) const RECEIVED: &str = "received";
const DURATION: &str = "duration_s";

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
pub(super) fn merged(tables: &[(&str, &Table)], first: &str) -> Option<Table> {
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
pub(super) const LESS_FIRST: &str = "_less_first";

/// Returns whether a column is divided by the first result's (true) or has it subtracted (false); `None`: neither.
fn compared(column: &Column) -> Option<bool> {
    let key = column.key.as_str();
    BY.contains(&key)
        .then_some(true)
        .or(LESS.contains(&key).then_some(false))
}

/// Returns the cell of a row by its column; null if the table has no such column.
pub(super) fn cell(table: &Table, row: &[Value], key: &str) -> Value {
    let at = table.columns.iter().position(|column| column.key == key);
    at.and_then(|at| row.get(at)).cloned().unwrap_or_default()
}

/// Returns sentences that compare each result with the first one in the divided columns; not lane by lane.
pub(super) fn sentences(table: &Table, names: &[&str]) -> Vec<String> {
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
