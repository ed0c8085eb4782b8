//! Test methods: searches for rates, the tests of RFC 2544, overload, comparisons.
//!
//! A method asks for one trial after another on ports that stay open. Each trial is a line of a record as it ends, and
//! an interrupted method continues from its record. Its result is one document. [`search`] and [`statistics`] are pure
//! logic: from the trials so far to the next trial and to the result.
//!
//! A method knows no command line and no terminal. Its caller hands in settings, and shows what happens: see [`View`].

#![forbid(unsafe_code)]

mod bench;
pub mod compare;
mod document;
mod expect;
mod folder;
mod found;
mod limits;
mod measure;
pub mod ndr;
mod outcome;
pub mod overload;
mod record;
pub mod rfc2544;
pub mod search;
mod setup;
pub mod statistics;
mod view;

pub use measure::{Ask, Phase};
pub use view::{Teller, View};

use mpps_plan::values::rate::RateText;
use mpps_report::Expect;
use mpps_run::Run;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of every method.
#[derive(Clone, Debug)]
pub struct Common {
    /// Request that trials vary.
    pub run: Run,
    /// Lowest rate to try, if given.
    pub min_rate: Option<RateText>,
    /// Highest rate to try, if given.
    pub max_rate: Option<RateText>,
    /// Pause between two trials, if not the method's own.
    pub pause: Option<Duration>,
    /// Time that a packet may take to come back, if not the method's own.
    pub settle: Option<Duration>,
    /// Folder for the record and the result.
    pub folder: Option<PathBuf>,
    /// Continues the test whose record is in the folder.
    pub resume: bool,
    /// File for the verdict and the demands as JUnit XML.
    pub junit: Option<PathBuf>,
    /// All files and folders that are written while the method runs, those of the views too.
    pub files: Vec<PathBuf>,
    /// Text file about the device under test.
    pub device_note: Option<PathBuf>,
    /// Demands on the result.
    pub expect: Vec<Expect>,
    /// Command line, as the result names it.
    pub command: Vec<String>,
    /// Version of the program, as the record names it.
    pub version: &'static str,
}
