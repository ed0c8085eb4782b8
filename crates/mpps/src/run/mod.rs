//! The library: runs as values, ports that stay open, events. What the command line asks for goes the same way.

mod host;
mod plan;
mod session;

pub(crate) use host::Host;
pub use plan::Plan;
pub use session::{Session, session, session_until};
pub(crate) use session::{on_ports, on_session};

use crate::commands;
use crate::fail::Failure;
use crate::plan::model;
use mpps_stats::{Event, Sink, Summary};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for can't be had: names the option or field, the value, and what would be right. Nothing was
    /// sent.
    #[error("{0}")]
    Usage(String),
    /// Something that was tried has failed.
    #[error("{0}")]
    Failed(String),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Usage(line) => Self::Usage(line),
            Failure::Failed(line) => Self::Failed(line),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Usage(line) => Self::Usage(line),
            Error::Failed(line) => Self::Failed(line),
        }
    }
}

/// Does a run of any workload: opens its ports, and closes them at its end. Sinks read its events.
///
/// # Errors
/// When it could not take place. One that took place but whose numbers can't be believed is no error: see
/// [`Summary::valid`].
pub fn run(plan: &Plan, sinks: Vec<Box<dyn Sink>>) -> Result<Summary, Error> {
    run_until(plan, sinks, &|| 0)
}

/// As [`run`], for runs without an end of their own: `interruptions` is asked every 100 ms or more often how often the
/// end has been asked for. The first time ends the sending, another time the settling.
///
/// # Errors
/// As [`run`].
pub fn run_until(plan: &Plan, sinks: Vec<Box<dyn Sink>>, interruptions: &dyn Fn() -> u32) -> Result<Summary, Error> {
    let host = Host::of_library(sinks, interruptions);
    let (summary, output) = commands::measure(plan.run(), &host)?;
    Ok(output.end(summary).0)
}

/// A result as the library gives it: with the plan that it is of, told to the sinks as the last event.
pub(crate) fn with_result(summary: Summary, plan: &model::Plan, sinks: &mut [Box<dyn Sink>]) -> Summary {
    let summary = Summary {
        plan: Some(plan.json().to_string()),
        ..summary
    };
    sinks.iter_mut().for_each(|sink| sink.event(&Event::End(&summary)));
    summary
}
