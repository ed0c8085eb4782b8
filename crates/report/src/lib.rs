//! Output of a run: live view, CSV, JSON Lines, HDR log and pcapng while packets fly, summary and trace at the end.
//!
//! Everything here runs beside the packet path and must never hold it up. Output during a run (CSV, HDR log) goes
//! through [`spool`]: a bounded inbox, a backlog that spills to disk, and a thread that waits for slow readers so that
//! the collector does not. Output at the end (JSON) replaces the earlier file in one step, so that nobody ever
//! reads half of it.

#![forbid(unsafe_code)]

mod capture;
mod csv_sink;
mod error;
mod expect;
#[cfg(test)]
mod fields_tests;
mod hdr;
mod json;
mod json_lines;
mod lanes_csv;
mod live;
mod lock;
mod notes;
mod output;
mod sinks;
mod spill;
mod spool;
mod streams_csv;
mod summary;
mod target;
mod trace_file;
mod tracks;
pub mod units;

pub use capture::{CaptureEnd, CaptureHeader, CaptureOptions, CaptureTotals, CaptureWriter, Rotation, pcapng_of};
pub use csv_sink::{CsvSink, csv_header};
pub use error::ReportError;
pub use expect::{Between, Expect, Found, NOT_DECIDED, name_of_stream, no_stream, stream_named};
pub use hdr::HdrSink;
pub use json::{JsonSink, JsonWritten, json_text, json_value, keys, rfc3339, workload_name, write_json};
pub use json_lines::{JsonLines, LINES_SCHEMA};
pub use lanes_csv::{LanesCsvSink, lanes_csv_header};
pub use live::{LIVE_GROUP, LiveSink, LiveStyle, own_group, whole_terminal};
pub use lock::same_file;
pub use notes::Notes;
pub use sinks::{AtBegin, Sinks};
pub use streams_csv::{StreamsCsvSink, streams_csv_header};
pub use summary::{Colour, Detail, columns_of, print_summary};
pub use target::JsonTarget;
pub use trace_file::{packed_trace, read_trace, trace_from, write_ctf, write_trace};
pub use tracks::{OfTrack, WAYS, of_both, of_way};
