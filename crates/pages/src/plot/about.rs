//! The words of a run's picture: workload and time. The rows contain the time. The rest comes from the JSON summary
//! beside the CSV (`run.json` of `run.csv`), if that is of the same run.

use mpps_report::{of_both, rfc3339};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Longest accepted line of the CSV, bytes. A line has a few hundred bytes.
pub(super) const LONGEST_LINE: u64 = 64 * 1024;
/// Digits that a row's time and the summary's share: rows have them to the µs.
pub(super) const SAME: usize = "2026-11-22T11:00:42.123456".len();

/// The words of a picture.
pub(super) struct About {
    pub(super) title: String,
    pub(super) command: Option<String>,
    /// Reason why the run is not valid, or why its validity is not known; `None` if it is valid.
    pub(super) warning: Option<String>,
}

impl About {
    /// Returns the words of the run in this file, called `name`.
    pub(super) fn of(csv: &Path, name: &str) -> Self {
        let started = started(csv).map(rfc3339);
        let found = started.as_deref().map_or(Ok(None), |started| beside(csv, started));
        let (summary, unread) = match found {
            Ok(summary) => (summary, None),
            Err(TooLong(name)) => (
                None,
                Some(format!(
                    "{name} is above {} MiB and was not read: whether the run is valid is not known",
                    LONGEST >> 20
                )),
            ),
        };
        let mut parts = vec![name.to_owned()];
        let word = |pointer: &str| summary.as_ref()?.pointer(pointer)?.as_str().map(str::to_owned);
        if let (Some(workload), Some(port)) = (word("/workload"), word("/host/port")) {
            let far = word("/host/arrives_at")
                .map(|far| format!(" {far}"))
                .unwrap_or_default();
            parts.push(format!("{workload} {port}{far}"));
        }
        if let Some(direction) = word("/name") {
            parts.push(direction);
        }
        if let Some(started) = &started {
            parts.push(format!("{} {} UTC", &started[..10], &started[11..19]));
        }
        let words = summary.as_ref().and_then(|summary| summary["command"].as_array());
        let command = words.map(|words| {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).map(quoted).collect();
            words.join(" ")
        });
        let invalid = summary
            .as_ref()
            .filter(|summary| summary["valid"] == false)
            .map(|summary| {
                let reasons = summary["invalid_reasons"].as_array();
                let reasons: Vec<_> = reasons.into_iter().flatten().filter_map(Value::as_str).collect();
                format!("NOT VALID: {}", reasons.join("; "))
            });
        Self {
            warning: invalid.or(unread),
            title: parts.join("   ·   "),
            command: command.filter(|command| !command.is_empty()),
        }
    }
}

/// Returns a reader of a CSV that another program may have changed: with quotes, spaces, other ends of lines, a byte
/// order mark.
pub(super) fn rows_of<R: Read>(from: R) -> csv::Reader<R> {
    csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(from)
}

/// Returns the time of day of the first row, ns since 1970.
pub(super) fn started(csv: &Path) -> Option<u64> {
    let mut rows = rows_of(File::open(csv).ok()?.take(2 * LONGEST_LINE));
    let column = rows.headers().ok()?.iter().position(|name| name == "start_utc_ns")?;
    rows.records().next()?.ok()?.get(column)?.parse().ok()
}

/// A summary that is too long to be read; its name.
struct TooLong(String);

/// Returns the summary beside the CSV, if its run began then; for the CSV of one direction, the summary of that
/// direction.
fn beside(csv: &Path, started: &str) -> Result<Option<Value>, TooLong> {
    let same_run = |text: String| {
        let summary: Value = serde_json::from_str(&text).ok()?;
        let same = summary["started_utc"].as_str()?.get(..SAME)? == started.get(..SAME)?;
        same.then_some(summary)
    };
    let of_run = |csv: &Path| read_summary(&csv.with_extension("json")).map(|text| text.and_then(same_run));
    if let Some(summary) = of_run(csv)? {
        return Ok(Some(summary));
    }
    let Some((way, both)) = of_both(csv) else {
        return Ok(None);
    };
    Ok(of_run(&both)?.and_then(|mut run| {
        let mut summary = run["directions"].get_mut(way)?.take();
        summary["command"] = run["command"].take();
        Some(summary)
    }))
}

/// Returns a word of a command line in a form that can be typed.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:,=@%+[]".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Longest summary that is read, bytes.
const LONGEST: u64 = 16 << 20;

/// Returns the text of a summary: only regular files are read, not anything else of that name.
fn read_summary(path: &Path) -> Result<Option<String>, TooLong> {
    let Ok(file) = std::fs::metadata(path) else {
        return Ok(None);
    };
    if !file.is_file() {
        return Ok(None);
    }
    if file.len() > LONGEST {
        let name = path.file_name().unwrap_or(path.as_os_str());
        return Err(TooLong(name.to_string_lossy().into_owned()));
    }
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    Ok(read.ok().map(|_| text))
}
