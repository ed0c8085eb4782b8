//! Statistics: interval series, histograms, sequence windows; every counter has a single writer, nothing locks.

#![forbid(unsafe_code)]

mod arrivals;
mod book;
mod booking;
mod collector;
mod counter;
mod event;
mod fact;
pub mod fields;
mod fill;
mod gaps;
mod histogram;
mod known;
mod lane;
mod remark;
mod row;
mod series;
mod stages;
mod streams;
mod stretches;
mod summary;
mod tally;
mod times;
mod window;
mod withheld;

/// A module of its own so that `tests/orders.rs` can replace these types by loom's.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

pub use book::ArrivalTimes;
pub use collector::{Collector, StreamBook, Totals};
pub use counter::Counter;
pub use event::{
    Event, LanesSoFar, LiveLane, Period, Sink, Snapshot, Start, StreamKind, StreamRows, TrackSnapshot, Wants,
};
pub use fact::HostFact;
pub use fill::{FillGauge, FillUnit, RingFill, RowFill, WHOLE_PPM, share_ppm};
pub use gaps::{Gap, GapLog};
pub use histogram::{BUCKETS, Histogram, Moments, bucket_of, value_of};
pub use known::{Known, KnownKind};
pub use lane::{BurstSizes, LaneCounters, NO_WAYS};
pub use mpps_trace::count;
pub use remark::{Invalidates, Remark, RemarkName, RemarkValue, TRACK, sentences};
pub use row::{Latency, Percentiles, Row, Workload};
pub use series::{LaneSeries, MIN_PERIOD_NS, Recorder, Timing};
pub use stages::StageTable;
pub use streams::{Counted, Doubts, NEAR, Outcome, PROOF, STREAM_BYTES, Streams};
pub use stretches::{Stretch, Stretches};
pub use summary::{
    AwaySummary, CaptureSummary, Direction, Expectation, FieldChange, Gaps, Housekeeping, KeptOff, KeptOffBy, LEAST_NS,
    LaneSummary, LossTimes, Outage, PortSummary, ReorderDistance, SampleSummary, Shortfall, Started, StreamSummary,
    Summary,
};
pub use tally::Tally;
pub use times::{Delay, Time, Times};
pub use window::{Arrival, MIN_WINDOW, SequenceWindows};
pub use withheld::{Withheld, WithheldTime};
