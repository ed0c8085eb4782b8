//! Tables of streams, of groups of streams, and of frames by their size.

use super::Run;
use super::tables::{column, table};
use crate::document::{Table, Unit};
use serde_json::Value;

/// Number of rows of a table up to which they stand in their own order. A page does not show all of thousands.
const IN_ORDER: usize = 100;

/// Columns behind the name: key, heading, unit, and place in a stream's object. Those without any value are left out.
const COLUMNS: [(&str, &str, Unit, &str); 16] = [
    ("group", "Group", Unit::Plain, "/group"),
    ("frame_size_bytes", "Frame", Unit::Bytes, "/frame_size_bytes"),
    ("tx_packets", "Sent", Unit::Count, "/tx_packets"),
    ("rx_packets", "Received", Unit::Count, "/rx_packets"),
    ("lost", "Lost", Unit::Count, "/lost"),
    ("loss_ratio", "Loss", Unit::Ratio, "/loss_ratio"),
    ("offered_pps", "Offered", Unit::Pps, "/offered_pps"),
    ("received_pps", "Received", Unit::Pps, "/received_pps"),
    ("late", "Late", Unit::Count, "/late"),
    ("duplicates", "Duplicate", Unit::Count, "/duplicates"),
    ("reordered", "Reordered", Unit::Count, "/reordered"),
    ("corrupt", "Corrupt", Unit::Count, "/corrupt"),
    ("missed", "Missed", Unit::Count, "/missed"),
    ("latency_p50_ns", "p50", Unit::Ns, "/latency_ns/p50"),
    ("latency_p99_ns", "p99", Unit::Ns, "/latency_ns/p99"),
    ("latency_max_ns", "max", Unit::Ns, "/latency_ns/max"),
];
/// Columns that are left out where nothing but 0 is in them.
const IF_ANY: [&str; 5] = ["late", "duplicates", "reordered", "corrupt", "missed"];

/// Returns the tables of runs with several streams or sizes.
pub(super) fn tables(runs: &[Run]) -> Vec<Table> {
    let several = |run: &&Run| list(run, "streams").len() > 1;
    let of_streams: Vec<_> = runs.iter().filter(several).collect();
    let all: Vec<_> = runs.iter().collect();
    let tables = [
        of_list(&of_streams, runs.len(), "streams", "Stream", "Streams"),
        of_list(&of_streams, runs.len(), "groups", "Group", "Groups of streams"),
        of_list(&all, runs.len(), "sizes", "Size", "Frames by their size"),
    ];
    tables.into_iter().flatten().collect()
}

fn list<'r>(run: &'r Run, key: &str) -> &'r [Value] {
    let all = run.summary.get(key).and_then(Value::as_array);
    all.map_or(&[], Vec::as_slice)
}

/// Returns the table of one kind, from `of` of so many `runs`.
fn of_list(of: &[&Run], runs: usize, key: &str, head: &str, caption: &str) -> Option<Table> {
    let mut all: Vec<_> = of
        .iter()
        .flat_map(|run| list(run, key).iter().map(|one| (run.name.as_str(), one)))
        .filter(|(_, one)| one.is_object())
        .collect();
    let by_loss = all.len() > IN_ORDER;
    if by_loss {
        let loss = |one: &Value| one.get("loss_ratio").and_then(Value::as_f64).unwrap_or(0.0);
        all.sort_by(|(_, a), (_, b)| loss(b).total_cmp(&loss(a)).then(is_valid(a).cmp(&is_valid(b))));
    }
    let text = |value: &Value, pointer: &str| {
        let value = value.pointer(pointer).filter(|v| v.is_number() || v.is_string());
        value.cloned().unwrap_or_default()
    };
    let shown = |(name, _, _, pointer): &&(&str, &str, Unit, &str)| {
        let own = head == "Size" && *name == "frame_size_bytes";
        let told = |value: &Value| match IF_ANY.contains(name) {
            true => value.as_f64().is_some_and(|n| n != 0.0),
            false => !value.is_null(),
        };
        !own && all.iter().any(|(_, one)| told(&text(one, pointer)))
    };
    let columns: Vec<_> = COLUMNS.iter().filter(shown).collect();
    let flawed = all.iter().any(|(_, one)| !is_valid(one));
    let rows = all.iter().map(|(run, one)| {
        let run = (runs > 1).then(|| Value::from(*run));
        let cells = columns.iter().map(|(.., pointer)| text(one, pointer));
        run.into_iter()
            .chain([text(one, "/name")])
            .chain(cells)
            .chain(flawed.then(|| verdict(one)))
            .collect()
    });
    let rows: Vec<Vec<Value>> = rows.collect();
    let columns = (runs > 1)
        .then(|| column("run", "Run", Unit::Plain))
        .into_iter()
        .chain([column("name", head, Unit::Plain)])
        .chain(columns.iter().map(|(key, title, unit, _)| column(key, title, *unit)))
        .chain(flawed.then(|| column("verdict", "Verdict", Unit::Plain)))
        .collect();
    let caption = match by_loss {
        true => format!("{caption}: those with most loss first"),
        false => caption.to_owned(),
    };
    (!rows.is_empty()).then(|| table(key, &caption, columns, rows))
}

/// Returns whether a stream is valid, or nothing says that it is not.
fn is_valid(of: &Value) -> bool {
    of.get("valid") != Some(&Value::Bool(false))
}

fn verdict(of: &Value) -> Value {
    if is_valid(of) {
        return "valid".into();
    }
    let reasons = of.get("invalid_reasons").and_then(Value::as_array);
    let reasons: Vec<_> = reasons.into_iter().flatten().filter_map(Value::as_str).collect();
    match reasons.is_empty() {
        true => "not valid".into(),
        false => format!("not valid: {}", reasons.join("; ")).into(),
    }
}
