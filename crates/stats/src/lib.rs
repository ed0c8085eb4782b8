//! Statistics: interval series, histograms, sequence windows; every counter has a single writer, nothing locks.

#![forbid(unsafe_code)]

mod booking;
mod collector;
mod counter;
mod histogram;
mod lane;
mod row;
mod series;
mod tally;
mod window;

pub use collector::{Collector, Totals};
pub use counter::Counter;
pub use histogram::{BUCKETS, Histogram, Moments, bucket_of, value_of};
pub use lane::LaneCounters;
pub use row::{
    CaptureSummary, Gaps, LaneSummary, Latency, Percentiles, PortSummary, ReorderDistance, Row, Sink, Snapshot,
    Started, Summary, Workload,
};
pub use series::{LaneSeries, MIN_PERIOD_NS, Recorder, Timing};
pub use tally::Tally;
pub use window::{Arrival, MIN_WINDOW, SequenceWindows};
