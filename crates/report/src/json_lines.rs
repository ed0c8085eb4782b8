//! JSON Lines: a run's events as they happen, one object per line, for programs that read along.

use crate::csv_sink::{OF_ROWS, text};
use crate::json::json_value;
use crate::spill::Record;
use crate::spool::{Format, Limits, Spool};
use crate::streams_csv::{STREAM, StreamRow, rows_of};
use crate::{Notes, ReportError};
use mpps_stats::fields::{Field, ROW, Unit};
use mpps_stats::{Event, Period, Row, Sink, Summary, Wants};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Value of `schema` in the first line.
pub const LINES_SCHEMA: &str = "mpps.lines/1";
/// Lines kept in memory before the rest goes to disk; as many as of the CSV.
const LINES: usize = 4096;
/// Longest wait at the end of a run for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file of JSON Lines: `start`, any number of `row`, `streams`, `latency` and `note`, and one `end`. If the run
/// fails, one `error` takes the place of the missing lines. Clones share the file.
#[derive(Clone)]
pub struct JsonLines(Arc<Mutex<Open>>);

struct Open {
    spool: Spool<Line>,
    /// Time of day of the start of the run, ns since 1970; 0 until it is known. Shared with the thread that writes.
    zero: Arc<AtomicU64>,
    /// Fields of the first line, besides the time.
    head: Map<String, Value>,
    /// Whether the last line has been written.
    ended: bool,
}

/// A line on its way to the file.
#[expect(clippy::large_enum_variant, reason = "nearly all of them are rows")]
#[derive(Serialize, Deserialize)]
enum Line {
    Row(Row),
    Streams(Vec<StreamRow>),
    Latency(Latencies),
    Text(String),
}

impl Record for Line {
    fn weight(&self) -> usize {
        match self {
            Self::Streams(rows) => rows.len().max(1),
            _ => 1,
        }
    }
}

/// Latencies of one period: see [`Period`].
#[derive(Serialize, Deserialize)]
struct Latencies {
    start_ns: u64,
    length_ns: u64,
    buckets: Vec<(u64, u64)>,
    scheduled: Vec<(u64, u64)>,
    arrival: Vec<(u64, u64)>,
    wake_up: Vec<(u64, u64)>,
}

impl From<&Period<'_>> for Latencies {
    fn from(period: &Period<'_>) -> Self {
        Self {
            start_ns: period.start_ns,
            length_ns: period.length_ns,
            buckets: period.buckets.to_vec(),
            scheduled: period.scheduled.to_vec(),
            arrival: period.arrival.to_vec(),
            wake_up: period.wake_up.to_vec(),
        }
    }
}

impl Latencies {
    /// Appends the line.
    fn write(&self, out: &mut Vec<u8>) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let line = json!({
            "event": "latency",
            "time_s": seconds(self.start_ns),
            "interval_s": seconds(self.length_ns),
            "buckets": self.buckets,
            "scheduled": self.scheduled,
            "arrival": self.arrival,
            "wake_up": self.wake_up,
        });
        out.extend_from_slice(line.to_string().as_bytes());
    }
}

impl JsonLines {
    /// Opens `path` at once, and empties it when the run begins; `-` is standard output. `head` contains the fields of
    /// the first line besides the time: the version, the command line, the plan.
    ///
    /// # Errors
    /// When it can't be opened for writing.
    pub fn create(path: &Path, head: Map<String, Value>) -> Result<Self, ReportError> {
        let zero = Arc::new(AtomicU64::new(0));
        let format = LinesFormat {
            zero: Arc::clone(&zero),
            first: None,
        };
        let limits = Limits {
            records: LINES,
            patience: PATIENCE,
            noun: "lines",
            to_the_end: true,
        };
        let spool = Spool::create("json-lines", path, format, limits)?;
        let open = Open {
            spool,
            zero,
            head,
            ended: false,
        };
        Ok(Self(Arc::new(Mutex::new(open))))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the board of notes about write errors. Each error appears there when it happens.
    pub fn notes(&self) -> Notes {
        self.open().spool.notes()
    }

    /// Returns the sink that writes the lines.
    pub fn sink(&self) -> impl Sink + use<> {
        LinesSink(self.clone())
    }

    /// Writes the last line of a run that has failed or never begun: the reason, and the exit code of the program.
    /// Returns errors of lines that could not be written.
    pub fn failed(&self, message: &str, exit_code: u8) -> Vec<String> {
        self.open()
            .last(&json!({ "event": "error", "message": message, "exit_code": exit_code }))
    }

    /// Writes the summary as the last line of the run. Returns errors of lines that could not be written.
    pub fn end(&self, summary: &Summary) -> Vec<String> {
        let mut open = self.open();
        let mut last = json_value(summary);
        if let Value::Object(last) = &mut last {
            last.shift_insert(0, "event".to_owned(), "end".into());
        }
        open.last(&last)
    }
}

impl Open {
    fn text(&mut self, line: &Value) {
        self.spool.push(Line::Text(mpps_sys::text::json(line.to_string())));
    }

    fn last(&mut self, line: &Value) -> Vec<String> {
        if std::mem::replace(&mut self.ended, true) {
            return Vec::new();
        }
        self.text(line);
        self.spool.finish()
    }
}

struct LinesSink(JsonLines);

impl Sink for LinesSink {
    fn wants(&self) -> Wants {
        Wants {
            histograms: true,
            streams: true,
            ..OF_ROWS
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        let mut open = self.0.open();
        match event {
            Event::Start(start) => {
                open.zero.store(start.started.utc_ns, Ordering::Relaxed);
                open.spool.begin();
                let mut line = Map::new();
                line.insert("event".to_owned(), "start".into());
                line.insert("schema".to_owned(), LINES_SCHEMA.into());
                line.insert("started_utc".to_owned(), crate::rfc3339(start.started.utc_ns).into());
                line.insert("start_utc_ns".to_owned(), start.started.utc_ns.into());
                line.insert("start_monotonic_ns".to_owned(), start.started.monotonic_ns.into());
                line.append(&mut open.head);
                open.text(&Value::Object(line));
            }
            Event::Row(row) => open.spool.push(Line::Row((*row).clone())),
            Event::Streams(rows) if !rows.rows.is_empty() => {
                open.spool.push(Line::Streams(rows_of(rows).collect()));
            }
            Event::Period(period) => open.spool.push(Line::Latency(period.into())),
            Event::Note(note) => open.text(&json!({ "event": "note", "text": note })),
            _ => {}
        }
    }
}

/// Format of rows as objects: names and units of the CSV's columns, and its numbers.
struct LinesFormat {
    /// Time of day of the start of the run, ns since 1970.
    zero: Arc<AtomicU64>,
    /// The first line of a file, also of a file that is opened later in the run.
    first: Option<String>,
}

impl Format<Line> for LinesFormat {
    fn header(&mut self, _: Option<&Line>, out: &mut Vec<u8>) {
        if let Some(first) = &self.first {
            out.extend_from_slice(first.as_bytes());
            out.push(b'\n');
        }
    }

    fn record(&mut self, line: &Line, out: &mut Vec<u8>) {
        match line {
            Line::Text(text) => {
                out.extend_from_slice(text.as_bytes());
                self.first.get_or_insert_with(|| text.clone());
            }
            Line::Latency(latencies) => latencies.write(out),
            Line::Row(row) => {
                out.extend_from_slice(br#"{"event":"row""#);
                // Rows are handed over after the start, by a lock that orders the two.
                members(&ROW, row, self.zero.load(Ordering::Relaxed), out);
                out.push(b'}');
            }
            Line::Streams(rows) => streams(rows, self.zero.load(Ordering::Relaxed), out),
        }
        out.push(b'\n');
    }
}

/// Appends the members of an object, each with a comma before it.
fn members<'f, T: 'static>(
    fields: impl IntoIterator<Item = &'f Field<T>>,
    record: &T,
    zero_ns: u64,
    out: &mut Vec<u8>,
) {
    for field in fields {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(field.name.as_bytes());
        let (before, after): (&[u8], &[u8]) = match field.unit {
            Unit::Utc => (b"\":\"", b"\""),
            _ => (b"\":", b""),
        };
        match (field.of)(record, zero_ns) {
            None => out.extend_from_slice(b"\":null"),
            Some(value) => {
                out.extend_from_slice(before);
                text(field, value, out);
                out.extend_from_slice(after);
            }
        }
    }
}

/// Fields that all rows of one interval have in common, and that a line of streams has once.
pub(crate) const OF_INTERVAL: [&str; 4] = ["time_s", "interval_s", "start_utc_ns", "start_utc"];

/// Appends the line of all streams, groups and sizes in one interval.
fn streams(rows: &[StreamRow], zero_ns: u64, out: &mut Vec<u8>) {
    let is_common = |name: &str| OF_INTERVAL.contains(&name);
    out.extend_from_slice(br#"{"event":"streams""#);
    if let Some(first) = rows.first() {
        members(
            ROW.iter().filter(|field| is_common(field.name)),
            &first.row,
            zero_ns,
            out,
        );
    }
    out.extend_from_slice(br#","rows":["#);
    for (at, of) in rows.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let name = mpps_sys::text::json(Value::from(of.name.as_str()).to_string());
        let head = format!(r#"{comma}{{"kind":"{}","name":{name}"#, of.kind.as_str());
        out.extend_from_slice(head.as_bytes());
        members(
            STREAM.iter().filter(|field| !is_common(field.name)),
            &of.row,
            zero_ns,
            out,
        );
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}
