//! On whose behalf a run is done.

use mpps_stats::Sink;
use mpps_sys::signal;
use std::cell::RefCell;

/// The program, with its files, signals and privileges, or another program that uses the library.
pub(crate) struct Host<'a> {
    /// How often the end has been asked for.
    pub(crate) interruptions: &'a dyn Fn() -> u32,
    /// Another program's readers of events; `None`: the files and views that the options name.
    sinks: Option<RefCell<Vec<Box<dyn Sink>>>>,
}

impl Host<'static> {
    /// The program.
    pub(crate) fn program() -> Self {
        Self {
            interruptions: &signal::interruptions,
            sinks: None,
        }
    }
}

impl<'a> Host<'a> {
    /// Another program.
    pub(crate) fn of_library(sinks: Vec<Box<dyn Sink>>, interruptions: &'a dyn Fn() -> u32) -> Self {
        Self {
            interruptions,
            sinks: Some(RefCell::new(sinks)),
        }
    }

    /// Whether it is the program: signals end its runs, and privileges are given up.
    pub(crate) fn is_program(&self) -> bool {
        self.sinks.is_none()
    }

    /// The other program's sinks, once.
    pub(crate) fn sinks(&self) -> Option<Vec<Box<dyn Sink>>> {
        Some(std::mem::take(&mut *self.sinks.as_ref()?.borrow_mut()))
    }
}
