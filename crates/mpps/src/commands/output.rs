//! Destinations of a run's results: files checked before the first packet, written whatever happens after.

mod files;
mod finish;
mod forms;
mod open;

use super::serving::Serving;
use super::steps;
use crate::cli::RunArgs;
use crate::fail::{Result, failed, say};
use forms::Form;
use mpps_report::{AtBegin, Detail, Expect, JsonTarget, JsonWritten, Notes};
use mpps_run::Run;
use mpps_run::host::{Opens, Steps};
use mpps_run::paths::{Checked, Rules, Work};
use mpps_run::privilege::Clerk;
use mpps_run::profile::Picture;
use mpps_run::record::Rows;
use mpps_run::sample::Sampling;
use mpps_stats::Sink;
use mpps_sys::sched;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};

/// The program as the caller of a run.
pub(super) struct Program<'a> {
    args: &'a RunArgs,
    output: RefCell<Option<Output>>,
}

impl<'a> Program<'a> {
    pub(super) fn new(args: &'a RunArgs) -> Self {
        Self {
            args,
            output: RefCell::new(None),
        }
    }

    /// Returns the files and views of a run that took place.
    pub(super) fn into_output(self) -> Result<Output> {
        self.output
            .into_inner()
            .ok_or_else(|| failed("the ports were not opened"))
    }
}

impl Steps for Program<'_> {
    fn prepare(&self, ports: &[&Checked], rules: &Rules, work: Work) -> Result<()> {
        steps::prepare(self.args, ports, rules, work)
    }

    fn open(&self, opens: Opens<'_>) -> Result<Vec<Box<dyn Sink>>> {
        let Opens { remark, ready, .. } = &opens;
        let (remark, ready) = (remark.clone(), ready.clone());
        let (sinks, output) = Output::open(self.args, opens)?;
        let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(sinks)];
        if !output.quiet {
            remark.iter().for_each(|line| say!("{line}"));
            // The sender may now start.
            sinks.extend(ready.map(|line| Box::new(AtBegin(move || say!("{line}"))) as Box<dyn Sink>));
        }
        *self.output.borrow_mut() = Some(output);
        Ok(sinks)
    }

    fn on_writer(&self, what: Box<dyn FnOnce() + Send>) -> Result<()> {
        match &*self.output.borrow() {
            Some(output) => output.clerk.does(what),
            None => Err(failed("no file is open")),
        }
    }
}

/// Files and views of one run.
pub(super) struct Output {
    /// The run; the summary holds its complete plan.
    run: Run,
    /// Nothing is printed.
    quiet: bool,
    /// Notes on the files that are written.
    boards: Vec<Notes>,
    json: Option<JsonWritten>,
    /// File of the trace.
    trace: Option<JsonTarget>,
    /// Counts of each row, for the trace.
    rows: Arc<Mutex<Rows>>,
    /// Files of the samples, each with its form.
    pictures: Vec<(Picture, JsonTarget)>,
    /// Frames of the run.
    sample: Option<Sampling>,
    /// Other forms of the result, each with its file.
    forms: Vec<(Form, JsonTarget)>,
    /// Servers and views that show the run while it goes on.
    serving: Option<Serving>,
    /// Conditions of `--expect`.
    expect: Vec<Expect>,
    detail: Detail,
    /// Standard output belongs to the CSV or JSON: the summary goes to standard error.
    stdout_taken: bool,
    /// The thread that opens and writes files.
    clerk: Clerk,
    /// This thread, and those that it has started, stay off the cores that lanes were given.
    _beside_lanes: sched::KeptOff,
}
