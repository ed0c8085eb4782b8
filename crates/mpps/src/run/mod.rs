//! The library: runs as values, ports that stay open, events. The command line uses the same functions.

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

/// Reason why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request can't be met: the text names the option or field, the value, and what would be right. Nothing was
    /// sent.
    #[error("{0}")]
    Usage(String),
    /// A step of the run failed.
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

/// Executes a run of any workload: opens its ports, and closes them at its end. Sinks read its events.
///
/// # Errors
/// If the run could not take place. A run whose numbers can't be trusted is no error: see [`Summary::valid`].
pub fn run(plan: &Plan, sinks: Vec<Box<dyn Sink>>) -> Result<Summary, Error> {
    run_until(plan, sinks, &|| 0)
}

/// Like [`run`], for runs without an end of their own. `interruptions` is called at least every 100 ms and returns how
/// often the end has been requested. The first request ends the sending, the second one the settling.
///
/// # Errors
/// Like [`run`].
pub fn run_until(plan: &Plan, sinks: Vec<Box<dyn Sink>>, interruptions: &dyn Fn() -> u32) -> Result<Summary, Error> {
    let host = Host::of_library(sinks, interruptions);
    let (summary, output) = commands::measure(plan.run(), &host)?;
    Ok(output.end(summary).0)
}

/// Adds the plan to a result, hands the result to the sinks as the last event, and returns it.
pub(crate) fn with_result(summary: Summary, plan: &model::Plan, sinks: &mut [Box<dyn Sink>]) -> Summary {
    let summary = Summary {
        plan: Some(plan.json().to_string()),
        ..summary
    };
    sinks.iter_mut().for_each(|sink| sink.event(&Event::End(&summary)));
    summary
}
