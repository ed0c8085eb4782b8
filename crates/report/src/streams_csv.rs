//! The CSV of streams: a row for each stream, group and size of frames, in each interval.

use crate::csv_sink::{line, names};
use crate::spill::Record;
use crate::spool::{Format, Limits, Spool};
use crate::{Notes, ReportError};
use mpps_stats::fields::{Field, ROW, whole};
use mpps_stats::{Event, Row, Sink, StreamKind, StreamRows, Wants};
use mpps_sys::text::no_formula;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::LazyLock;

/// Fields of a row of a stream behind its kind and name, in the order of the file: those of a row of the run that tell
/// streams apart. New fields are added at the end.
pub(crate) const STREAM: [Field<Row>; 24] = [
    of_run("time_s"),
    of_run("interval_s"),
    of_run("tx_packets"),
    of_run("rx_packets"),
    of_run("rx_by_arrival_packets"),
    of_run("lost_packets"),
    of_run("loss_ratio"),
    of_run("late_packets"),
    of_run("duplicate_packets"),
    of_run("reordered_packets"),
    of_run("corrupt_packets"),
    of_run("missed_packets"),
    Field::packets("latency_packets", "packets whose latency was taken", |row, _| {
        whole(row.latency.count)
    }),
    of_run("latency_min_us"),
    of_run("latency_avg_us"),
    of_run("latency_max_us"),
    of_run("latency_scheduled_avg_us"),
    of_run("untagged_packets"),
    of_run("latency_arrival_min_us"),
    of_run("latency_arrival_avg_us"),
    of_run("latency_arrival_max_us"),
    of_run("wake_up_min_us"),
    of_run("wake_up_avg_us"),
    of_run("wake_up_max_us"),
];

/// Names of the columns before these, each with its meaning.
pub(crate) const BEFORE: [(&str, &str); 2] = [
    ("kind", "what the row is of: `stream`, `group`, `size`"),
    (
        "name",
        "name of the stream or of the group; of a size its bytes with FCS, `594`, or a range, `512-1023`",
    ),
];

/// Returns the field of a run's rows with this name.
const fn of_run(name: &str) -> Field<Row> {
    let mut at = 0;
    while at < ROW.len() {
        let field = &ROW[at];
        if same(field.name.as_bytes(), name.as_bytes()) {
            return Field::new(field.name, field.unit, field.decimals, field.about, field.of);
        }
        at += 1;
    }
    panic!("no field of that name");
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Returns the names of the columns, separated by commas. `docs/use/files.md` explains each.
pub fn streams_csv_header() -> &'static str {
    static HEADER: LazyLock<String> = LazyLock::new(|| format!("{},{},{}", BEFORE[0].0, BEFORE[1].0, names(&STREAM)));
    &HEADER
}

/// Writes the rows of streams, groups and sizes to a CSV file, never holding up the caller. A run without streams
/// leaves the header alone.
pub struct StreamsCsvSink {
    spool: Spool<StreamRow>,
}

impl StreamsCsvSink {
    /// Opens `path` at once, and empties it when the run begins; `-` is standard output; a FIFO is written once
    /// somebody reads it.
    ///
    /// # Errors
    /// When it can't be opened for writing.
    pub fn create(path: &Path) -> Result<Self, ReportError> {
        Ok(Self {
            spool: Spool::create("csv of streams", path, StreamsFormat, Limits::ROWS)?,
        })
    }

    /// Returns the board of notes about write errors. Each error appears there when it happens.
    pub fn notes(&self) -> Notes {
        self.spool.notes()
    }
}

impl Sink for StreamsCsvSink {
    fn wants(&self) -> Wants {
        Wants {
            streams: true,
            ..Wants::default()
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(_) => self.spool.begin(),
            Event::Streams(rows) => rows_of(rows).for_each(|row| self.spool.push(row)),
            _ => {}
        }
    }

    fn finish(&mut self) -> Vec<String> {
        self.spool.finish()
    }
}

/// Row of a stream, a group or a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamRow {
    pub(crate) kind: StreamKind,
    pub(crate) name: String,
    pub(crate) row: Row,
}

impl Record for StreamRow {}

/// Returns the rows of one interval.
pub(crate) fn rows_of(all: &StreamRows<'_>) -> impl Iterator<Item = StreamRow> {
    all.of.iter().zip(all.rows).map(|((kind, name), row)| StreamRow {
        kind: *kind,
        name: name.clone(),
        row: row.clone(),
    })
}

/// Writer of rows.
struct StreamsFormat;

impl Format<StreamRow> for StreamsFormat {
    const HEADER_ALONE: bool = true;

    fn header(&mut self, _: Option<&StreamRow>, out: &mut Vec<u8>) {
        out.extend_from_slice(streams_csv_header().as_bytes());
        out.push(b'\n');
    }

    fn record(&mut self, of: &StreamRow, out: &mut Vec<u8>) {
        out.extend_from_slice(of.kind.as_str().as_bytes());
        out.push(b',');
        out.extend_from_slice(cell(&of.name).as_bytes());
        out.push(b',');
        // No field is a time of day.
        line(&STREAM, &of.row, 0, out);
    }
}

/// Returns a name as a cell (RFC 4180). Names of streams need no quotes, but the library takes any.
fn cell(name: &str) -> String {
    let name = no_formula(name);
    match name.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back_from_disk_and_its_name_is_one_cell() {
        let row = StreamRow {
            kind: StreamKind::Group,
            name: "-a,\"b\"".to_owned(),
            row: Row {
                start_ns: 200_000_000,
                length_ns: 100_000_000,
                tx: 7,
                lost: -1,
                ..Row::default()
            },
        };
        let bytes = serde_json::to_vec(&row).unwrap();
        assert_eq!(serde_json::from_slice::<StreamRow>(&bytes).unwrap(), row);
        let mut text = Vec::new();
        StreamsFormat.record(&row, &mut text);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "group,\"'-a,\"\"b\"\"\",0.200000,0.100000000,7,0,,-1,0.000000000,0,0,0,0,0,0,,,,,0,,,,,,\n"
        );
    }
}
