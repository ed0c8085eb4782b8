//! The CSV: one row per interval, written as it closes.

use crate::json::rfc3339;
use crate::spool::{Format, Limits, Spool};
use crate::{Notes, ReportError};
use mpps_stats::{Event, Latency, Row, Sink, Wants};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Rows kept in memory before the rest goes to disk: some 400 ms of the shortest interval, about 1.2 MB.
const ROWS: usize = 4096;
/// How long the end of a run waits for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(10);

const HEADER: &str = "time_s,tx_packets,rx_packets,loss_ratio,latency_avg_us,\
    interval_s,lost_packets,late_packets,duplicate_packets,reordered_packets,corrupt_packets,foreign_packets,\
    missed_packets,\
    latency_min_us,latency_p50_us,latency_p90_us,latency_p99_us,latency_p999_us,latency_max_us,\
    latency_scheduled_avg_us,latency_scheduled_min_us,latency_scheduled_p50_us,latency_scheduled_p90_us,\
    latency_scheduled_p99_us,latency_scheduled_p999_us,latency_scheduled_max_us,\
    host_wait_us,host_dropped_packets,own_threads_us,start_utc_ns,blocked_us,\
    rx_fill_highest_ratio,rx_fill_mean_ratio,rx_by_arrival_packets,start_utc";

/// The column that holds a text.
pub(crate) const TEXT: &str = "start_utc";

/// The names of the CSV's columns, separated by commas. `time_s` is the start of the interval since the start of the
/// run in s, `start_utc_ns` the same as a time of day, ns since 1970, and `start_utc` that as a text (RFC 3339); cells
/// are empty where nothing was measured.
pub fn csv_header() -> &'static str {
    HEADER
}

/// What a file of rows wants.
pub(crate) const OF_ROWS: Wants = Wants {
    histograms: false,
    snapshots: false,
    lanes: false,
    ..Wants::ALL
};

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
        Self::with_patience(path, PATIENCE)
    }

    /// As [`CsvSink::create`]; [`Sink::finish`] gives up once the reader has taken nothing for `patience`.
    ///
    /// # Errors
    /// As [`CsvSink::create`].
    pub fn with_patience(path: &Path, patience: Duration) -> Result<Self, ReportError> {
        let limits = Limits {
            records: ROWS,
            patience,
            noun: "rows",
            to_the_end: false,
        };
        let zero = Arc::new(AtomicU64::new(0));
        let format = CsvFormat(Arc::clone(&zero));
        Ok(Self {
            spool: Spool::create("csv", path, format, limits)?,
            zero,
        })
    }

    /// What goes wrong while writing, as it happens.
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

/// A row's cells, separated by commas. Knows the time of day of the start of the run, ns since 1970.
pub(crate) struct CsvFormat(pub(crate) Arc<AtomicU64>);

impl Format<Row> for CsvFormat {
    const HEADER_ALONE: bool = true;

    fn header(&mut self, _: Option<&Row>, out: &mut Vec<u8>) {
        out.extend_from_slice(HEADER.as_bytes());
        out.push(b'\n');
    }

    /// Writes numbers and a time only, so that nothing needs quoting; digit by digit, because at 10,000 rows/s a
    /// general formatter would take a noticeable part of a core that the lanes may need.
    fn record(&mut self, row: &Row, out: &mut Vec<u8>) {
        let loss_ratio = if row.tx == 0 {
            0.0
        } else {
            row.lost.max(0) as f64 / row.tx as f64
        };
        fixed(out, row.start_ns / 1000, 6);
        cell(out, row.tx);
        cell(out, row.rx);
        out.push(b',');
        fixed(out, (loss_ratio * 1e9).round() as u64, 9);
        out.push(b',');
        average(out, &row.latency);
        out.push(b',');
        fixed(out, row.length_ns, 9);
        out.push(b',');
        if row.lost < 0 {
            out.push(b'-');
        }
        fixed(out, row.lost.unsigned_abs(), 0);
        for n in [
            row.late,
            row.duplicates,
            row.reordered,
            row.corrupt,
            row.foreign,
            row.missed,
        ] {
            cell(out, n);
        }
        distribution(out, &row.latency);
        out.push(b',');
        let scheduled = row.latency_scheduled.unwrap_or_default();
        average(out, &scheduled);
        distribution(out, &scheduled);
        out.push(b',');
        if let Some(wait) = row.host_wait_ns {
            fixed(out, wait, 3);
        }
        out.push(b',');
        if let Some(dropped) = row.host_dropped {
            fixed(out, dropped, 0);
        }
        out.push(b',');
        if let Some(own) = row.own_threads_ns {
            fixed(out, own, 3);
        }
        out.push(b',');
        // Rows are handed over after the start, by a lock that orders the two.
        let zero = self.0.load(Ordering::Relaxed);
        if zero > 0 {
            fixed(out, zero + row.start_ns, 0);
        }
        out.push(b',');
        if let Some(blocked) = row.blocked_ns {
            fixed(out, blocked, 3);
        }
        let fill = row.rx_fill.map(|fill| [fill.highest_ppm, fill.mean_ppm]);
        for column in 0..2 {
            out.push(b',');
            if let Some(fill) = fill {
                fixed(out, fill[column], 6);
            }
        }
        out.push(b',');
        if let Some(packets) = row.rx_by_arrival {
            fixed(out, packets, 0);
        }
        out.push(b',');
        if zero > 0 {
            out.extend_from_slice(rfc3339(zero + row.start_ns).as_bytes());
        }
        out.push(b'\n');
    }
}

/// Writes `n`, which counts units of 10^-`decimals`.
pub(crate) fn fixed(out: &mut Vec<u8>, mut n: u64, decimals: usize) {
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

pub(crate) fn cell(out: &mut Vec<u8>, n: u64) {
    out.push(b',');
    fixed(out, n, 0);
}

fn average(out: &mut Vec<u8>, latency: &Latency) {
    if latency.count > 0 && latency.mean.is_finite() {
        fixed(out, latency.mean.round() as u64, 3);
    }
}

fn distribution(out: &mut Vec<u8>, latency: &Latency) {
    let percentiles = latency.percentiles.map(|p| [p.p50, p.p90, p.p99, p.p999]);
    let cells = [Some(latency.min)].into_iter();
    let cells = cells
        .chain((0..4).map(|i| percentiles.map(|p| p[i])))
        .chain([Some(latency.max)]);
    for cell in cells {
        out.push(b',');
        if let Some(ns) = cell
            && latency.count > 0
        {
            fixed(out, ns, 3);
        }
    }
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
