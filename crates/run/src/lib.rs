//! Runs of packets: a plan is checked, its ports are opened, packets are measured, and readers get the events.
//!
//! [`draft`] turns a plan into a run that can be opened on this host. [`paths`] opens the ports. [`measure`] runs one
//! workload to its end; a [`Session`] runs any number of trials on ports that stay open. [`record`] explains slow, late
//! and lost packets of a run with a trace. Who starts the run is a [`Host`].

#![forbid(unsafe_code)]

pub mod draft;
pub mod fail;
pub mod host;
pub mod measure;
pub mod paths;
mod plan;
pub mod privilege;
pub mod profile;
pub mod record;
pub mod replay;
pub mod request;
pub mod sample;
mod session;
pub mod streams;
mod watchers;

pub use host::Host;
pub use measure::Drafted;
pub use plan::Plan;
pub use request::{Beside, Run, Trace};
pub use session::{Session, memory_of, on_session, session, session_beside, session_until};
pub use watchers::Watchers;

/// Streams that the caller of [`Session::directed`] starts and stops.
pub use mpps_engine::{At, Do, OrderError, Rate, StreamCounts, StreamId, Streams};
/// Clock of [`At::Time`].
pub use mpps_sys::clock::ClockTime;

use fail::Failure;
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

impl From<OrderError> for Error {
    fn from(error: OrderError) -> Self {
        Self::Usage(error.to_string())
    }
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
    let drafted = Drafted::new(plan.run())?;
    let library = host::Library::new(sinks);
    let (summary, mut sinks) = drafted.measure(&Host {
        interruptions,
        steps: &library,
    })?;
    Ok(with_results(summary, std::iter::once(drafted.run()), &mut sinks))
}

/// Adds the plan to a result, or to each direction of it the plan of its stream, hands the result to the sinks as the
/// last event, and returns it.
fn with_results<'r>(
    summary: Summary,
    runs: impl ExactSizeIterator<Item = &'r Run>,
    sinks: &mut [Box<dyn Sink>],
) -> Summary {
    let several = runs.len() > 1;
    let mut summary = summary;
    let mut plans = runs.map(|run| run.recorded().json().to_string());
    if several {
        // Each is that of a direction.
        summary
            .directions
            .iter_mut()
            .zip(plans)
            .for_each(|(of, plan)| of.summary.plan = Some(plan));
    } else {
        summary.plan = plans.next();
    }
    sinks.iter_mut().for_each(|sink| sink.event(&Event::End(&summary)));
    summary
}
