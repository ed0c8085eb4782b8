//! Statistics: interval series, histograms, sequence windows; every counter has a single writer, nothing locks.

#![forbid(unsafe_code)]

mod row;

pub use row::{Gaps, LaneSummary, Latency, Percentiles, ReorderDistance, Row, Sink, Snapshot, Summary, Workload};
