//! Caller of a run: the program `mpps`, with its files, signals and privileges, or another program.

use crate::fail::Result;
use crate::paths::{Checked, Rules, Work};
use mpps_netdev::NtupleFilter;
use mpps_report::Notes;
use mpps_stats::Sink;
use std::cell::RefCell;
use std::path::Path;

/// Caller of a run.
pub struct Host<'a> {
    /// Returns how often the end has been requested: the first request ends the sending, the second one the settling.
    pub interruptions: &'a dyn Fn() -> u32,
    /// Steps that the caller has in a run.
    pub steps: &'a dyn Steps,
}

/// Readers of a run's events.
pub type Sinks = Vec<Box<dyn Sink>>;

/// Steps that the caller has in a run.
pub trait Steps {
    /// Prepares the process, before ports are opened.
    ///
    /// # Errors
    /// If the run can't take place.
    fn prepare(&self, _ports: &[&Checked], _rules: &Rules, _work: Work) -> Result<()> {
        Ok(())
    }

    /// Opens the readers of the run's events. The ports are open, and no privilege was given up yet.
    ///
    /// # Errors
    /// If a reader can't be opened.
    fn open(&self, opens: Opens<'_>) -> Result<Sinks>;

    /// Runs `what` on the thread that writes the user's files, and waits for it.
    ///
    /// # Errors
    /// If that thread is gone.
    fn on_writer(&self, what: Box<dyn FnOnce() + Send>) -> Result<()> {
        what();
        Ok(())
    }
}

/// Properties of a run that decide which readers are opened.
pub struct Opens<'a> {
    /// Each of two ways has counts of its own.
    pub both_ways: bool,
    /// Lanes move the packets, not the kernel.
    pub lanes: bool,
    /// File of the workload's own: its option, its path and the notes on it.
    pub file: Option<(&'static str, &'a Path, Notes)>,
    /// Line for the user, before the run begins.
    pub remark: Option<String>,
    /// Line for the user once every lane receives: a sender may start.
    pub ready: Option<String>,
}

impl Opens<'_> {
    /// Properties of a run without lines and files of its own.
    pub const PLAIN: Self = Self {
        both_ways: false,
        lanes: true,
        file: None,
        remark: None,
        ready: None,
    };
}

/// Another program, with readers of its own.
pub(crate) struct Library(RefCell<Sinks>);

impl Library {
    pub(crate) fn new(sinks: Sinks) -> Self {
        Self(RefCell::new(sinks))
    }
}

impl Steps for Library {
    fn open(&self, _: Opens<'_>) -> Result<Sinks> {
        Ok(self.0.take())
    }
}

/// Changes that stay in force until the run is over.
pub(crate) struct Prepared {
    _filters: Vec<NtupleFilter>,
}

impl Host<'_> {
    /// Runs the caller's steps, then applies flow rules to NICs of the host. Call it before ports are opened.
    pub(crate) fn prepare(&self, ports: &[&Checked], rules: &Rules, work: Work) -> Result<Prepared> {
        self.steps.prepare(ports, rules, work)?;
        let mut filters = Vec::new();
        for port in ports {
            filters.extend(rules.apply(port)?);
        }
        Ok(Prepared { _filters: filters })
    }
}
