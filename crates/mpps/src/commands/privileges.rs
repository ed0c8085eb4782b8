//! Commands of a program whose file lends privileges to its user.

use crate::cli::Command;
use crate::fail::{Result, failed, usage};
use mpps_run::privilege::{lent, refused};
use mpps_sys::privilege::{self, CapabilitySet};

/// Refuses commands that change the host and start programs, if the program's file lends privileges. Gives up
/// privileges that other commands do not need.
pub(crate) fn check(command: &Command) -> Result<()> {
    if !lent() {
        return Ok(());
    }
    if command.in_lab().is_some() {
        return Err(usage(format!(
            "--lab: it changes the host and starts programs, {}",
            refused()
        )));
    }
    match command {
        Command::Lab(_) => Err(usage(format!(
            "lab: it changes the host and starts programs, {}",
            refused()
        ))),
        Command::Isolate(_) => Err(usage(format!(
            "isolate: it changes the host and starts programs, {}",
            refused()
        ))),
        Command::Demo(_) | Command::Plot(_) | Command::Report(_) | Command::Man(_) | Command::Completions(_) => {
            // None of these commands needs privileges, and the demo starts this program again.
            let closed = |e| failed(format!("give up privileges: {e}"));
            privilege::limit(CapabilitySet::empty()).map_err(closed)?;
            privilege::no_new().map_err(closed)
        }
        // Runs of `compare` are processes of their own, which get the privileges that they need from the program's
        // file. The command that `trace` starts belongs to the user.
        Command::Compare(_) | Command::Trace(_) => {
            privilege::limit(CapabilitySet::empty()).map_err(|e| failed(format!("give up privileges: {e}")))
        }
        Command::Doctor(_) => privilege::no_new().map_err(|e| failed(format!("give up privileges: {e}"))),
        _ => Ok(()),
    }
}
