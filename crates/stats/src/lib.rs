//! Statistics: interval series, histograms, sequence windows; every counter has a single writer, nothing locks.

#![forbid(unsafe_code)]

mod collector;
mod counter;
mod histogram;
mod lane;
mod row;
mod series;
mod window;

pub use collector::{Collector, Totals};
pub use counter::Counter;
pub use histogram::{BUCKETS, Histogram, Moments, bucket_of, value_of};
pub use lane::LaneCounters;
pub use series::{LaneSeries, MIN_PERIOD_NS, Recorder, Tally, Timing};
pub use window::{Arrival, MIN_WINDOW, SequenceWindows};
pub use row::{Gaps, LaneSummary, Latency, Percentiles, ReorderDistance, Row, Sink, Snapshot, Summary, Workload};
