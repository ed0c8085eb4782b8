//! The result of a test as one value, `result.json`: results for programs, and tables and charts for people. Each test
//! makes one such document. Pages, tables and pictures are made from the document alone, then or later.

mod beside;
mod files;
mod read;
pub mod redact;
mod report;
pub mod runs;
pub(crate) mod show;
mod write;

use files::files_from;
pub use files::{RESULT, files, is_plain};
pub use read::{Found, find, read};
pub use report::report;
pub(crate) use report::{Drawn, drawn};
pub use show::{headed, shown};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Value of [`Document::schema`].
pub const SCHEMA: &str = "mpps.test/1";

/// The result of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the test: `ndr`, `rfc2544`, `overload`, `compare`, `run`; `report`: several results of one test.
    pub test: String,
    /// Heading, one line.
    pub title: String,
    /// Version of the program that ran it.
    pub version: String,
    /// Command line of the test, without secrets.
    pub command: Vec<String>,
    /// Start of the test, RFC 3339 in UTC.
    pub started: String,
    /// Duration of the test, pauses included, s.
    pub took_s: f64,
    /// Whether everything requested was done.
    pub complete: bool,
    /// Reason why the result is not complete.
    pub incomplete: Option<String>,
    /// Relation to the standard, one sentence: "not RFC 2544: …"; `None` if no standard is claimed.
    pub compliance: Option<String>,
    /// The answer, a sentence each, with its numbers and intervals.
    pub verdict: Vec<String>,
    /// Deviations from the standards, each with its section in parentheses.
    pub deviations: Vec<String>,
    /// All parameters, defaults too. Names end in the unit; values are in base units.
    pub params: Value,
    /// Results for programs, in a form of the test's own.
    pub results: Vec<Value>,
    /// Results for people. The table `trials` has every trial, void ones too.
    pub tables: Vec<Table>,
    /// A chart is shown before the table of its name, if there is one.
    pub charts: Vec<Chart>,
    /// Terms and their meaning.
    pub definitions: Vec<Definition>,
    /// The device under test in the user's words.
    pub device: Option<String>,
    /// Conditions of the measurement: host, kernel, path, port, driver, versions. An object of texts and numbers.
    pub tester: Value,
    /// The plan that trials vary, as `mpps run` reads it.
    pub plan: Value,
    /// Every trial as recorded.
    pub trials: Vec<Value>,
}

impl Document {
    /// The text of `result.json`.
    pub fn text(&self) -> String {
        let mut whole = self.clone();
        // JSON has no number for a value that is not finite, and a file with such a value could not be read again.
        whole.took_s = if self.took_s.is_finite() { self.took_s } else { 0.0 };
        for series in whole.charts.iter_mut().flat_map(|chart| &mut chart.series) {
            series.points.retain(|point| point.0.is_finite());
        }
        // Maps have texts as keys, and numbers that are not finite become null: nothing fails.
        mpps_sys::text::json(write::text(&serde_json::to_value(whole).unwrap_or_default()))
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Name of its file, without an ending: letters, digits and hyphens.
    pub name: String,
    /// Contents of the table, one line.
    pub caption: String,
    /// Columns of the table.
    pub columns: Vec<Column>,
    /// Numbers in base units, texts, or null; as many in each row as there are columns.
    pub rows: Vec<Vec<Value>>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Name for programs, with its unit at the end, as `loss_ratio`.
    pub key: String,
    /// Heading for people, without a unit.
    pub title: String,
    /// Unit of its numbers.
    #[serde(default)]
    pub unit: Unit,
}

/// Unit of numbers, which selects the form in which people see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A text, or a number as it is.
    #[default]
    Plain,
    /// A count: 1,234,567.
    Count,
    /// Packets per second.
    Pps,
    /// Bits per second, layer 1.
    Bps,
    /// Bytes.
    Bytes,
    /// Nanoseconds; shown in the unit that fits, one for a column or an axis.
    Ns,
    /// Seconds.
    S,
    /// A part of one, shown as a percentage.
    Ratio,
}

/// A chart of two axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Name of its file, without an ending: letters, digits and hyphens.
    pub name: String,
    /// Contents of the chart, one line.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Series of the chart, drawn in this order.
    pub series: Vec<Series>,
}

impl Chart {
    /// Returns whether the chart shows the steps of a search rather than a result.
    pub(crate) fn is_of_search(&self) -> bool {
        self.name.starts_with("search-")
    }
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Name of the quantity, without a unit.
    pub label: String,
    /// Unit of its numbers.
    #[serde(default)]
    pub unit: Unit,
    /// Scale of the axis.
    #[serde(default)]
    pub scale: Scale,
    /// Start of the axis, if it is not that of the points.
    #[serde(default)]
    pub min: Option<f64>,
    /// End of the axis, if it is not that of the points.
    #[serde(default)]
    pub max: Option<f64>,
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By their logarithm.
    Log,
    /// Each number that occurs has a place of its own, as frame sizes have, in their order.
    Category,
    /// Parts of one, the nearer to one the wider: 0, 0.9, 0.99, 0.999 are equally far apart.
    Nines,
}

/// One line, or one set of points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Style of the series.
    #[serde(default)]
    pub kind: Kind,
    /// `[x, y]` in base units; a `y` of null ends a line and begins another.
    pub points: Vec<(f64, Option<f64>)>,
}

/// Style of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Markers, joined by a line in the order of the points.
    #[default]
    Line,
    /// Markers alone.
    Points,
    /// A dashed line without markers: a best possible value, or a limit.
    Reference,
}

/// A term and its meaning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The word.
    pub term: String,
    /// One sentence.
    pub text: String,
}
