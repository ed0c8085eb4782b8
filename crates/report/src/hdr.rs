//! The HdrHistogram log: a histogram of latencies per period, for the tools that read such logs.
//!
//! Format: HdrHistogram's "Histogram log format version 1.3" with V2 compressed histograms; values in ns.

use crate::spill::Record;
use crate::spool::{Format, Limits, Spool};
use crate::{Notes, ReportError};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use mpps_stats::{Event, Sink, Wants};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Periods kept in memory before the rest goes to disk.
const PERIODS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes latency histograms (from the actual send time, ns) to an HdrHistogram log, never holding up the caller.
pub struct HdrSink {
    spool: Spool<Logged>,
    /// Time of day of the start of the run, ns since 1970; 0 until it is known. Shared with the thread that writes.
    zero: Arc<AtomicU64>,
}

impl HdrSink {
    /// Opens `path` at once, and empties it when the run begins; `-` is standard output.
    ///
    /// # Errors
    /// When it can't be opened for writing.
    pub fn create(path: &Path) -> Result<Self, ReportError> {
        let limits = Limits {
            records: PERIODS,
            patience: PATIENCE,
            noun: "histograms",
            to_the_end: false,
        };
        let zero = Arc::new(AtomicU64::new(0));
        let format = HdrFormat {
            zero: Arc::clone(&zero),
            histogram: None,
            scratch: Vec::new(),
        };
        Ok(Self {
            spool: Spool::create("hdr", path, format, limits)?,
            zero,
        })
    }

    /// Returns the board of notes about write errors. Each error appears there when it happens.
    pub fn notes(&self) -> Notes {
        self.spool.notes()
    }
}

impl Sink for HdrSink {
    fn wants(&self) -> Wants {
        Wants {
            histograms: true,
            ..Wants::default()
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(start) => {
                self.zero.store(start.started.utc_ns, Ordering::Relaxed);
                self.spool.begin();
            }
            Event::Period(period) => self.spool.push(Logged {
                start_ns: period.start_ns,
                length_ns: period.length_ns,
                buckets: period.buckets.to_vec(),
            }),
            _ => {}
        }
    }

    fn finish(&mut self) -> Vec<String> {
        self.spool.finish()
    }
}

#[derive(Serialize, Deserialize)]
struct Logged {
    start_ns: u64,
    length_ns: u64,
    buckets: Vec<(u64, u64)>,
}

impl Record for Logged {}

struct HdrFormat {
    zero: Arc<AtomicU64>,
    histogram: Option<Histogram<u64>>,
    scratch: Vec<u8>,
}

impl Format<Logged> for HdrFormat {
    fn header(&mut self, _: Option<&Logged>, out: &mut Vec<u8>) {
        // The header is written after the start, ordered by a lock. Readers add each period's start to this time.
        let start = Duration::from_nanos(match self.zero.load(Ordering::Relaxed) {
            // A run that never began.
            0 => mpps_sys::clock::realtime_ns(),
            zero => zero,
        });
        let start = start.as_secs_f64();
        let version = env!("CARGO_PKG_VERSION");
        // A Vec takes everything.
        let _ = writeln!(
            out,
            "#[Logged with mpps {version}: latency in ns from the actual send time]"
        );
        let _ = writeln!(out, "#[Histogram log format version 1.3]");
        let _ = writeln!(out, "#[StartTime: {start:.3} (seconds since epoch)]");
        let _ = writeln!(
            out,
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
        );
    }

    fn record(&mut self, period: &Logged, out: &mut Vec<u8>) {
        if self.histogram.is_none() {
            self.histogram = Histogram::new(3).ok();
        }
        let Some(histogram) = &mut self.histogram else { return };
        histogram.reset();
        for &(value, count) in &period.buckets {
            // The histogram resizes itself. Only a value near 2^64 (584 years) can be refused; it then counts at the
            // top.
            if histogram.record_n(value, count).is_err() {
                histogram.saturating_record_n(value, count);
            }
        }
        self.scratch.clear();
        let (start, length) = (
            Duration::from_nanos(period.start_ns),
            Duration::from_nanos(period.length_ns),
        );
        let mut serializer = V2DeflateSerializer::new();
        let builder = IntervalLogWriterBuilder::new();
        let written = builder
            .begin_log_with(&mut self.scratch, &mut serializer)
            .is_ok_and(|mut log| log.write_histogram(histogram, start, length, None).is_ok());
        if written {
            out.extend_from_slice(&self.scratch);
        }
    }
}
