//! Output of a run: live view, CSV, JSON, HDR log, plots, and the pages of tests and runs.
//!
//! Everything here runs beside the packet path and must never hold it up. Output during a run (CSV, HDR log) goes
//! through [`spool`]: a bounded inbox, a backlog that spills to disk, and a thread that waits for slow readers so that
//! the collector does not. Output at the end (JSON, plots) replaces the earlier file in one step, so that nobody ever
//! reads half of it.

#![forbid(unsafe_code)]

mod capture;
pub mod chart;
mod csv_sink;
pub mod document;
mod error;
mod escape;
mod expect;
#[cfg(test)]
mod fields_tests;
mod hdr;
mod json;
mod json_lines;
mod junit;
mod lanes_csv;
mod live;
mod lock;
mod not_json;
mod notes;
mod output;
pub mod page;
mod plot;
mod sinks;
mod spill;
mod spool;
mod summary;
mod target;
mod trace_file;
pub mod units;
mod ways;

pub use capture::{CaptureEnd, CaptureHeader, CaptureOptions, CaptureTotals, CaptureWriter, Rotation};
pub use csv_sink::{CsvSink, csv_header};
pub use error::ReportError;
pub use expect::{Between, Expect, Found, NOT_DECIDED};
pub use hdr::HdrSink;
pub use json::{JsonSink, JsonWritten, json_value, rfc3339, write_json};
pub use json_lines::{JsonLines, LINES_SCHEMA};
pub use junit::{junit, junit_without_result, method_junit};
pub use lanes_csv::{LanesCsvSink, lanes_csv_header};
pub use live::{LIVE_GROUP, LiveSink, LiveStyle, own_group, whole_terminal};
pub use lock::same_file;
pub use not_json::no_json;
pub use notes::Notes;
pub use plot::{Rows, plot, plot_all, rows, rows_of};
pub use sinks::{AtBegin, Sinks};
pub use summary::{Colour, Detail, columns_of, print_summary};
pub use target::JsonTarget;
pub use trace_file::{packed_trace, read_trace, trace_from, write_ctf, write_trace};
pub use ways::{OfWay, WAYS, of_way};
