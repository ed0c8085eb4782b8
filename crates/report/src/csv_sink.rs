//! The CSV: one row per interval, written as it closes.

use crate::json::rfc3339;
use crate::spill::Record;
use crate::spool::{Format, Limits, Spool};
use crate::{Notes, ReportError};
use mpps_stats::fields::{Field, ROW, Unit};
use mpps_stats::{Event, Row, Sink, Wants};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Returns the names of the columns, separated by commas. [`ROW`] has them. A cell is empty if nothing was measured.
pub fn csv_header() -> &'static str {
    static HEADER: LazyLock<String> = LazyLock::new(|| names(&ROW));
    &HEADER
}

/// Joins the names of fields with commas.
pub(crate) fn names<T>(fields: &[Field<T>]) -> String {
    let names: Vec<_> = fields.iter().map(|field| field.name).collect();
    names.join(",")
}

/// Appends a record's values, separated by commas, and the end of the line. Values are numbers and times, which need
/// no quotes.
pub(crate) fn line<T>(fields: &[Field<T>], record: &T, zero_ns: u64, out: &mut Vec<u8>) {
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        if let Some(value) = (field.of)(record, zero_ns) {
            text(field, value, out);
        }
    }
    out.push(b'\n');
}

/// Appends a value of a field: digit by digit, because at 10,000 rows/s a general formatter would take a noticeable
/// part of a core that the lanes may need.
pub(crate) fn text<T>(field: &Field<T>, value: i64, out: &mut Vec<u8>) {
    if field.unit == Unit::Utc {
        return out.extend_from_slice(rfc3339(value.unsigned_abs()).as_bytes());
    }
    if value < 0 {
        out.push(b'-');
    }
    fixed(out, value.unsigned_abs(), field.decimals.into());
}

/// Events that a file of rows needs.
pub(crate) const OF_ROWS: Wants = Wants {
    histograms: false,
    snapshots: false,
    lanes: false,
    streams: false,
    ..Wants::ALL
};

impl Record for Row {}

/// Writes rows to a CSV file, never holding up the caller.
pub struct CsvSink {
    spool: Spool<Row>,
    /// Time of day of the start of the run, ns since 1970; 0 until it is known. Shared with the thread that writes.
    zero: Arc<AtomicU64>,
}

impl CsvSink {
    /// Opens `path` at once, and empties it when the run begins; `-` is standard output; a FIFO is written once
    /// somebody reads it.
    ///
    /// # Errors
    /// When it can't be opened for writing.
    pub fn create(path: &Path) -> Result<Self, ReportError> {
        Self::with_patience(path, Limits::ROWS.patience)
    }

    /// Opens `path` like [`CsvSink::create`]. [`Sink::finish`] gives up when the reader has taken nothing for
    /// `patience`.
    ///
    /// # Errors
    /// Same as [`CsvSink::create`].
    pub fn with_patience(path: &Path, patience: Duration) -> Result<Self, ReportError> {
        let limits = Limits {
            patience,
            ..Limits::ROWS
        };
        let zero = Arc::new(AtomicU64::new(0));
        let format = CsvFormat(Arc::clone(&zero));
        Ok(Self {
            spool: Spool::create("csv", path, format, limits)?,
            zero,
        })
    }

    /// Returns the board of notes about write errors. Each error appears there when it happens.
    pub fn notes(&self) -> Notes {
        self.spool.notes()
    }
}

impl Sink for CsvSink {
    fn wants(&self) -> Wants {
        OF_ROWS
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(start) => {
                self.zero.store(start.started.utc_ns, Ordering::Relaxed);
                self.spool.begin();
            }
            Event::Row(row) => self.spool.push((*row).clone()),
            _ => {}
        }
    }

    fn finish(&mut self) -> Vec<String> {
        self.spool.finish()
    }
}

/// Writer of rows. Holds the start of the run, ns since 1970.
pub(crate) struct CsvFormat(pub(crate) Arc<AtomicU64>);

impl Format<Row> for CsvFormat {
    const HEADER_ALONE: bool = true;

    fn header(&mut self, _: Option<&Row>, out: &mut Vec<u8>) {
        out.extend_from_slice(csv_header().as_bytes());
        out.push(b'\n');
    }

    fn record(&mut self, row: &Row, out: &mut Vec<u8>) {
        // Rows are handed over after the start, by a lock that orders the two.
        line(&ROW, row, self.0.load(Ordering::Relaxed), out);
    }
}

/// Writes `n`, which counts units of 10^-`decimals`.
fn fixed(out: &mut Vec<u8>, mut n: u64, decimals: usize) {
    // 20 digits and the point.
    let mut text = [b'0'; 21];
    let mut at = text.len();
    let mut digits = 0;
    while n > 0 || digits <= decimals {
        if digits == decimals && decimals > 0 {
            at -= 1;
            text[at] = b'.';
        }
        at -= 1;
        text[at] = b'0' + (n % 10) as u8;
        n /= 10;
        digits += 1;
    }
    out.extend_from_slice(&text[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fixed_decimals_read_back_as_the_number_they_were(
            n in prop_oneof![any::<u64>(), 0u64..2000],
            decimals in 0usize..=9,
        ) {
            let mut out = Vec::new();
            fixed(&mut out, n, decimals);
            let text = String::from_utf8(out).unwrap();
            let scale = 10u64.pow(decimals as u32);
            let want = match decimals {
                0 => n.to_string(),
                _ => format!("{}.{:0decimals$}", n / scale, n % scale),
            };
            prop_assert_eq!(text, want);
        }
    }
}
