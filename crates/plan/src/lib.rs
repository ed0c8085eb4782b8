//! Plan of a run, as data: workload, ports, traffic, load, times, lanes and checks.
//!
//! [`Plan`] is the structure. [`fields`] is the one table of its fields: section, name, unit, default, help and the
//! workloads that have it. The command line, its help, the JSON form, its schema and the page on plans are made from
//! that table. [`values`] reads the text of one field. Nothing here asks the operating system, so a plan can be checked
//! for the ports of another host.

#![forbid(unsafe_code)]

pub mod fields;
pub mod json;
#[expect(missing_docs, reason = "the table of fields describes each")]
mod model;
pub mod values;

pub use model::{
    Capture, Checks, DEFAULT_SRC_PORTS, Device, Forward, Lanes, Load, Plain, Plan, Selection, Times, Traffic, Workload,
    Written,
};
