//! Caller of a run: the program itself, or another program that uses the library.

use crate::fail::Result;
use crate::paths::{Checked, Rules, Work};
use mpps_netdev::NtupleFilter;
use mpps_stats::Sink;
use mpps_sys::signal;
use std::cell::RefCell;

/// The program, with its files, signals and privileges, or another program that uses the library.
pub(crate) struct Host<'a> {
    /// How often the end has been asked for.
    pub(crate) interruptions: &'a dyn Fn() -> u32,
    /// Another program's readers of events; `None`: the files and views that the options name.
    sinks: Option<RefCell<Vec<Box<dyn Sink>>>>,
    /// Steps of the program before ports are opened; `None` for the library.
    prepare: Option<&'a Prepare<'a>>,
}

/// Steps of the program before a run opens its ports.
type Prepare<'a> = dyn Fn(&[&Checked], &Rules, Work) -> Result<()> + 'a;

/// Changes that stay in force until the run is over.
pub(crate) struct Prepared {
    _filters: Vec<NtupleFilter>,
}

impl<'a> Host<'a> {
    /// Creates the host of the program. `prepare` runs before ports are opened.
    pub(crate) fn program(prepare: &'a Prepare<'a>) -> Self {
        Self {
            interruptions: &signal::interruptions,
            sinks: None,
            prepare: Some(prepare),
        }
    }

    /// Another program.
    pub(crate) fn of_library(sinks: Vec<Box<dyn Sink>>, interruptions: &'a dyn Fn() -> u32) -> Self {
        Self {
            interruptions,
            sinks: Some(RefCell::new(sinks)),
            prepare: None,
        }
    }

    /// Runs the program's steps, then applies flow rules to NICs of the host. Call it before ports are opened.
    pub(crate) fn prepare(&self, ports: &[&Checked], rules: &Rules, work: Work) -> Result<Prepared> {
        if let Some(prepare) = self.prepare {
            prepare(ports, rules, work)?;
        }
        let mut filters = Vec::new();
        for port in ports {
            filters.extend(rules.apply(port)?);
        }
        Ok(Prepared { _filters: filters })
    }

    /// The other program's sinks, once.
    pub(crate) fn sinks(&self) -> Option<Vec<Box<dyn Sink>>> {
        Some(std::mem::take(&mut *self.sinks.as_ref()?.borrow_mut()))
    }
}
