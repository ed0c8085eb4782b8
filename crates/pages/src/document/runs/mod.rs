//! The result of plain runs, from their JSON summaries and, if given, the rows of their CSV.
//!
//! Summaries may come from any version or any author. Missing fields and fields of another type are shown as not known.

mod join;
mod streams;
mod tables;

use super::{Chart, Definition, Document, SCHEMA};
use crate::page::{self, Source};
use crate::plot::Rows;
use mpps_report::units::{count, percent, pps, time};
use mpps_report::{ReportError, json_text, json_value};
use mpps_stats::Summary;
use rustix::fs::OFlags;
use serde_json::{Map, Value};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use tables::PERCENTILES;

/// A run.
#[derive(Debug, Default)]
pub struct Run {
    /// Name in legends.
    name: String,
    summary: Value,
    rows: Option<Rows>,
}

impl Run {
    /// Returns the run of this summary, without rows.
    pub fn new(name: &str, summary: Value) -> Self {
        Self {
            name: name.to_owned(),
            summary,
            rows: None,
        }
    }

    /// Adds the rows of the run.
    pub fn with_rows(self, rows: Rows) -> Self {
        Self {
            rows: Some(rows),
            ..self
        }
    }

    /// Returns the start of the run, RFC 3339.
    pub fn started(&self) -> &str {
        self.text("/started_utc").unwrap_or_default()
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.summary.pointer(pointer)?.as_str()
    }

    fn number(&self, pointer: &str) -> Option<f64> {
        self.summary.pointer(pointer)?.as_f64().filter(|n| n.is_finite())
    }

    fn whole(&self, key: &str) -> Option<u64> {
        self.summary.get(key)?.as_u64()
    }

    fn value(&self, pointer: &str) -> Value {
        let value = self
            .summary
            .pointer(pointer)
            .filter(|v| v.is_number() || v.is_string() || v.is_boolean());
        value.cloned().unwrap_or_default()
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let all = self.summary.get(key).and_then(Value::as_array);
        all.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    }

    fn host(&self) -> Map<String, Value> {
        self.summary
            .get("host")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the title: the workload, its port, and the port where packets arrive if that is another one.
    fn title(&self) -> String {
        let words = [
            self.text("/workload"),
            self.text("/host/port"),
            self.text("/host/arrives_at"),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn ways(&self) -> Vec<Run> {
        let ways = self.summary.get("directions").and_then(Value::as_array);
        let way = |way: &Value| {
            let name = way.get("name").and_then(Value::as_str).unwrap_or("?");
            Run::new(&format!("{} ({name})", self.name), way.clone())
        };
        ways.into_iter().flatten().map(way).collect()
    }

    /// Returns the reason why the run is not valid or not complete.
    fn flaw(&self) -> Option<String> {
        if self.summary.get("valid") == Some(&Value::Bool(false)) {
            let reasons = self.texts("invalid_reasons");
            let reasons = if reasons.is_empty() {
                "no reason is given".to_owned()
            } else {
                reasons.join("; ")
            };
            return Some(format!("not valid: {reasons}"));
        }
        (self.summary.get("interrupted") == Some(&Value::Bool(true))).then(|| "interrupted".to_owned())
    }

    /// Returns the numbers of the run in a sentence or two.
    fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        let (tx, rx) = (
            self.whole("tx_packets").unwrap_or(0),
            self.whole("rx_packets").unwrap_or(0),
        );
        let at = |key: &str| {
            self.number(key)
                .map(|rate| format!(" at {}", pps(rate)))
                .unwrap_or_default()
        };
        let mut parts = Vec::new();
        if tx > 0 {
            parts.push(format!("sent {} packets{}", count(tx), at("/offered_pps")));
        }
        let lost = self.whole("lost").unwrap_or(0);
        if rx > 0 || lost > 0 || tx == 0 {
            parts.push(format!("received {}{}", count(rx), at("/received_pps")));
            let ratio = self
                .number("/loss_ratio")
                .map(|r| format!(" ({})", percent(r)))
                .unwrap_or_default();
            parts.push(format!("lost {}{ratio}", count(lost)));
        }
        for key in ["late", "duplicates", "reordered", "corrupt", "host_dropped"] {
            if let Some(n) = self.whole(key).filter(|n| *n > 0) {
                parts.push(format!(
                    "{} {}",
                    key.replace("host_dropped", "dropped by this host"),
                    count(n)
                ));
            }
        }
        // The verdict comes first. If the run is not valid, the page says so above.
        let valid = self.summary.get("valid") == Some(&Value::Bool(true)) && self.flaw().is_none();
        let valid = if valid { "valid: " } else { "" };
        told.push(sentence(&format!("{valid}{}", parts.join(", "))));
        let latency = PERCENTILES
            .iter()
            .filter(|(key, ..)| SAID.contains(key))
            .filter_map(|(key, name, _)| {
                let ns = self.number(&format!("/latency_ns/{key}"))?;
                Some(format!("{name} {}", time(ns)))
            });
        let latency: Vec<_> = latency.collect();
        if !latency.is_empty() {
            told.push(format!("Latency: {}.", latency.join(", ")));
        }
        if lost > 0 || self.summary.get("valid") == Some(&Value::Bool(false)) {
            told.extend(self.text("/why/0/sentence").map(|why| format!("Why: {why}")));
        }
        told
    }
}

/// Returns words as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase()).into_iter();
    format!("{}.", first.chain(letters).collect::<String>())
}

/// Longest file of rows that is read, bytes; the same as in `mpps report`.
const LONGEST: u64 = 64 << 20;

/// Returns the page of a run that has just ended. The page names the file of its JSON, if there is one, and has charts
/// if its rows are in a file. It has no charts if the run ended before its first row, or if the rows do not fit in
/// memory.
///
/// # Errors
/// When the file can't be read.
pub fn html(summary: &Summary, json: Option<&Path>, rows: Option<&Path>) -> Result<String, ReportError> {
    let source = |file: &Path| Source::of(&file.to_string_lossy(), json_text(summary).as_bytes());
    let mut sources = Vec::from_iter(json.map(source));
    let mut run = Run::new("this one", json_value(summary));
    if let Some(file) = rows {
        let bytes = read_rows(file).map_err(|e| ReportError::io("read", file, e))?;
        if let Ok(rows) = crate::plot::rows_of(&bytes) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            sources.push(Source::of(&name, &bytes));
            run = run.with_rows(rows);
        }
    }
    Ok(page::html(&document(&[run]), &sources))
}

/// Reads the rows that a run has written; returns none if there are too many. The folder may belong to another user,
/// who may have replaced the file meanwhile. So no link is followed, and opening a FIFO does not wait.
fn read_rows(file: &Path) -> io::Result<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(file) {
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => return Ok(Vec::new()),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        bytes.clear();
    }
    Ok(bytes)
}

/// Percentiles in the verdict.
const SAID: [&str; 4] = ["p50", "p99", "p999", "max"];

/// Returns the result of one run, or the comparison of several.
pub fn document(runs: &[Run]) -> Document {
    let Some(first) = runs.first() else {
        return Document {
            schema: SCHEMA.to_owned(),
            test: "run".to_owned(),
            ..Document::default()
        };
    };
    let one = runs.len() == 1;
    let all: Vec<Run> = runs
        .iter()
        .flat_map(|run| std::iter::once(Run::new(&run.name, run.summary.clone())).chain(run.ways()))
        .collect();
    let flaws = runs.iter().filter_map(|run| {
        let flaw = run.flaw()?;
        Some(if one { flaw } else { format!("{}: {flaw}", run.name) })
    });
    let flaws: Vec<String> = flaws.collect();
    let mut tables: Vec<_> = tables::expected(runs).into_iter().collect();
    if all.len() > 1 {
        tables.push(tables::comparison(&all));
    } else {
        tables.push(tables::counts(first));
    }
    if let Ok(Some(joined)) = join::join(runs) {
        tables.push(joined.table());
    }
    tables.extend(tables::latency_table(&all));
    tables.extend(streams::tables(runs));
    tables.extend(tables::changes(runs));
    tables.extend(tables::why(runs));
    tables.extend(tables::lanes(runs));
    tables.extend(tables::stages(runs));
    tables.extend(tables::stretches(runs));
    tables.extend(tables::outages(runs));
    tables.extend((!one).then(|| tables::differences(runs)).flatten());
    let rows: Vec<_> = runs
        .iter()
        .filter_map(|run| Some((run.name.clone(), run.rows.as_ref()?.0.clone())))
        .collect();
    let mut charts: Vec<Chart> = tables::latency_chart(&all).into_iter().collect();
    if !rows.is_empty() {
        charts.extend(crate::plot::overlay::charts(&rows));
    }
    Document {
        schema: SCHEMA.to_owned(),
        test: "run".to_owned(),
        title: if one {
            first.title()
        } else {
            format!("{} runs", runs.len())
        },
        version: first.text("/host/mpps_version").unwrap_or_default().to_owned(),
        command: if one { first.texts("command") } else { Vec::new() },
        started: first.started().to_owned(),
        took_s: runs.iter().filter_map(|run| run.number("/duration_s")).sum(),
        complete: flaws.is_empty(),
        incomplete: (!flaws.is_empty()).then(|| flaws.join("; ")),
        verdict: verdict(runs),
        params: if one { Value::Null } else { commands(runs) },
        tables,
        charts,
        definitions: definitions(first),
        tester: if one { Value::Object(first.host()) } else { common(runs) },
        plan: if one {
            first.summary.get("plan").cloned().unwrap_or_default()
        } else {
            Value::Null
        },
        ..Document::default()
    }
}

fn verdict(runs: &[Run]) -> Vec<String> {
    let one = runs.len() == 1;
    let told = |run: &Run| match one {
        true => run.told(),
        false => vec![format!("{}: {}", run.name, run.told().join(" "))],
    };
    let mut lines: Vec<_> = runs.iter().flat_map(told).collect();
    let joined = join::join(runs);
    match &joined {
        Ok(None) => {}
        Ok(Some(joined)) => lines.insert(0, joined.told()),
        Err(why) => lines.push(format!("{}.", why)),
    }
    // The two ends of one run are not compared.
    if !one && joined == Ok(None) {
        lines.insert(0, beside(runs));
        lines.push("The runs did not alternate: drift of the host is in what differs between them.".to_owned());
    }
    let warnings = runs.iter().flat_map(|run| warnings(run, one));
    lines.extend(warnings.map(|text| format!("Note: {text}.")));
    lines
}

/// Returns a sentence that compares loss and latency of several runs.
fn beside(runs: &[Run]) -> String {
    let each = |name: &str, pointer: &str, shown: fn(f64) -> String| {
        let values = runs
            .iter()
            .filter_map(|run| Some(format!("{} {}", run.name, shown(run.number(pointer)?))));
        let values = values.collect::<Vec<_>>().join(", ");
        (!values.is_empty()).then(|| format!("{name}: {values}"))
    };
    let parts = [
        each("Loss", "/loss_ratio", percent),
        each("median latency", "/latency_ns/p50", time),
    ];
    format!("{}.", parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

fn warnings(run: &Run, one: bool) -> Vec<String> {
    let warnings = run.texts("warnings").into_iter();
    warnings
        .map(|text| if one { text } else { format!("{}: {text}", run.name) })
        .collect()
}

fn commands(runs: &[Run]) -> Value {
    let command = |run: &Run| (run.name.clone(), Value::from(run.texts("command").join(" ")));
    Value::Object(runs.iter().map(command).collect())
}

/// Returns the host fields that are the same in all runs.
fn common(runs: &[Run]) -> Value {
    let mut host = runs.first().map(Run::host).unwrap_or_default();
    host.retain(|key, value| runs.iter().all(|run| run.host().get(key) == Some(value)));
    Value::Object(host)
}

fn definitions(run: &Run) -> Vec<Definition> {
    let mut all = Vec::new();
    if run.text("/workload") == Some("sendrecv") {
        all = vec![
            ("Lost", "Sent, and neither received nor late."),
            (
                "Late",
                "Came back intact and for the first time, but after the settle time; not in the latency.",
            ),
            (
                "Offered rate",
                "Packets that left, divided by the time that was to be sent for.",
            ),
        ];
    }
    if let Some(note) = run.text("/latency_note") {
        all.push(("Latency", note));
    }
    let definition = |(term, text): (&str, &str)| Definition {
        term: term.to_owned(),
        text: sentence(text),
    };
    all.into_iter().map(definition).collect()
}

#[cfg(test)]
mod tests {
    use super::read_rows;
    use rustix::fs::{CWD, Mode, mkfifoat};

    #[test]
    fn rows_are_read_from_a_file_and_nothing_that_was_put_in_its_place() {
        let folder = std::env::temp_dir().join(format!("mpps-rows-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let [file, link, fifo] = ["rows.csv", "link", "fifo"].map(|name| folder.join(name));
        std::fs::write(&file, "rows").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        mkfifoat(CWD, &fifo, Mode::from_raw_mode(0o600)).expect("a FIFO");
        assert_eq!(read_rows(&file).expect("rows"), b"rows");
        assert_eq!(read_rows(&link).expect("none"), b"");
        // Nobody writes to it: an open that waits would never return.
        assert!(read_rows(&fifo).is_err());
        assert!(read_rows("/dev/zero".as_ref()).is_err());
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
