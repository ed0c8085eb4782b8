//! The caller's part of a method: what is shown while the method runs, and where its result is printed.

use crate::Ask;
use crate::search::{Bounds, Goal};
use mpps_pages::document::Document;
use mpps_run::fail::Result;
use mpps_run::privilege::Clerk;
use mpps_stats::Sink;
use std::sync::Arc;

/// Function that shows the user a line, from any thread.
pub type Teller = Arc<dyn Fn(&str) + Send + Sync>;

/// Views of a method.
pub trait View {
    /// Starts the views. The ports are open, and no privilege was given up yet. `clerk` writes files, if there are any.
    ///
    /// # Errors
    /// If a view can't be started. The method then ends before its first trial.
    fn start(&self, _test: &'static str, _clerk: Option<&Clerk>) -> Result<()> {
        Ok(())
    }

    /// Returns a function that shows a line while the method runs.
    fn teller(&self) -> Teller;

    /// Shows that a trial begins, and returns a reader of its events, if it is shown.
    fn trial(&self, _ask: &Ask) -> Option<Box<dyn Sink>> {
        None
    }

    /// Shows the bounds that a search knows so far, one per goal.
    fn search(&self, _frame_size: usize, _goals: &[Goal], _bounds: &[Bounds]) {}

    /// Prints the lines of the result, and shows the result.
    ///
    /// # Errors
    /// If the lines can't be printed. The files of the result are written all the same.
    fn result(&self, lines: &[String], document: &Document) -> Result<()>;

    /// Reports what could not be written, and ends the views.
    ///
    /// # Errors
    /// If a file of the views could not be written.
    fn end(&self, unwritten: &[String]) -> Result<()>;
}
