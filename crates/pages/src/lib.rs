//! Pages, tables and pictures of runs and tests, made from their results.
//!
//! A [`document::Document`] is the result of a test or a run as one value. The page (HTML or Markdown), a CSV for each
//! table and an SVG for each chart are made from that value alone. [`plot()`] draws the rows of a run as SVG or PNG.
//! [`junit()`] and [`method_junit`] return a result as JUnit XML.
//!
//! Nothing here runs while packets fly. The files that a run writes meanwhile, and its summary, are those of
//! [`mpps_report`].

#![forbid(unsafe_code)]

pub mod chart;
pub mod document;
mod escape;
mod junit;
mod not_json;
pub mod page;
mod plot;

pub use junit::{junit, junit_without_result, method_junit};
pub use not_json::no_json;
pub use plot::{Rows, plot, plot_all, rows, rows_of};
