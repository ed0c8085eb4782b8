//! The result of a test as one value, `result.json`: what programs read of it, and the tables and charts that people
//! read. Whoever runs a test makes one; pages, tables and pictures are made from it alone, then or later.

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

/// What [`Document::schema`] is.
pub const SCHEMA: &str = "mpps.test/1";

/// The result of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// Which test: `ndr`, `rfc2544`, `overload`, `compare`, `run`; `report`: several results of one test.
    pub test: String,
    /// Heading, one line.
    pub title: String,
    /// Version of the program that ran it.
    pub version: String,
    /// Its command line, without secrets.
    pub command: Vec<String>,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// How long it took, pauses included, s.
    pub took_s: f64,
    /// Whether all was done that was asked for.
    pub complete: bool,
    /// Why not.
    pub incomplete: Option<String>,
    /// How it stands to the standard, one sentence: "not RFC 2544: …"; none where no standard is claimed.
    pub compliance: Option<String>,
    /// The answer, a sentence each, with its numbers and intervals.
    pub verdict: Vec<String>,
    /// What differs from the standards, each with its section in parentheses.
    pub deviations: Vec<String>,
    /// Everything that was chosen, defaults too: names with units at their end, base units.
    pub params: Value,
    /// What was found, for programs; its form is the test's own.
    pub results: Vec<Value>,
    /// What was found, for people. The table `trials` holds every trial, void ones too.
    pub tables: Vec<Table>,
    /// A chart is shown before the table of its name, if there is one.
    pub charts: Vec<Chart>,
    /// Words and what they mean.
    pub definitions: Vec<Definition>,
    /// The device under test in the user's words.
    pub device: Option<String>,
    /// What measured it: host, kernel, path, port, driver, versions. An object of texts and numbers.
    pub tester: Value,
    /// The plan that trials vary, as `mpps run` reads it.
    pub plan: Value,
    /// Every trial as the record has it.
    pub trials: Vec<Value>,
}

impl Document {
    /// The text of `result.json`.
    pub fn text(&self) -> String {
        let mut whole = self.clone();
        // What JSON has no number for could not be read again.
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
    /// What it shows, one line.
    pub caption: String,
    /// What stands in its columns.
    pub columns: Vec<Column>,
    /// Numbers in base units, texts, or null; as many in each row as there are columns.
    pub rows: Vec<Vec<Value>>,
}

/// What stands in a column of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Name for programs, with its unit at the end, as `loss_ratio`.
    pub key: String,
    /// Heading for people, without a unit.
    pub title: String,
    /// What its numbers are.
    #[serde(default)]
    pub unit: Unit,
}

/// What numbers are, which says how people are shown them.
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
    /// What it shows, one line.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is drawn, in this order.
    pub series: Vec<Series>,
}

impl Chart {
    /// Whether it shows how a search went, and not what was found.
    pub(crate) fn is_of_search(&self) -> bool {
        self.name.starts_with("search-")
    }
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows, without a unit.
    pub label: String,
    /// What its numbers are.
    #[serde(default)]
    pub unit: Unit,
    /// How they are laid out.
    #[serde(default)]
    pub scale: Scale,
    /// Where it begins, if not where the points do.
    #[serde(default)]
    pub min: Option<f64>,
    /// Where it ends, if not where the points do.
    #[serde(default)]
    pub max: Option<f64>,
}

/// How numbers lie on an axis.
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
    /// As the legend names it.
    pub name: String,
    /// How it is drawn.
    #[serde(default)]
    pub kind: Kind,
    /// `[x, y]` in base units; a `y` of null ends a line and begins another.
    pub points: Vec<(f64, Option<f64>)>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Markers, joined by a line in the order of the points.
    #[default]
    Line,
    /// Markers alone.
    Points,
    /// A dashed line without markers: what could be at best, or a limit.
    Reference,
}

/// A word and what it means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The word.
    pub term: String,
    /// One sentence.
    pub text: String,
}
