//! Runs of packets as values: [`Plan`], ports that stay open over any number of trials ([`session`]), and one stream of
//! [`Event`]s. The program `mpps` is the first user of this library; its command line, its JSON plans and what stands
//! here are one and the same.
//!
//! Three trials on one open port:
//!
//! ```
//! use mpps::{FromArgs, Plan, session};
//!
//! let line = "sendrecv loop:loss=1% --src 10.0.0.1 --dest 10.0.0.2:9000 --duration 50ms --settle 20ms";
//! let plan = Plan::from_args(line.split(' '))?;
//! session(&plan, |session| {
//!     for rate in ["10kpps", "20kpps", "40kpps"] {
//!         let summary = session.trial(&plan.with("load.rate", rate)?, &mut [])?;
//!         println!("{rate}: {} of {} lost; valid: {}", summary.lost, summary.tx, summary.valid);
//!     }
//!     Ok(())
//! })?;
//! # Ok::<(), mpps::Error>(())
//! ```
//!
//! A stream that is paused for 30 ms, and then stopped:
//!
//! ```
//! use mpps::{At, Do, FromArgs, Plan, StreamId, Streams, session};
//! use std::time::Duration;
//!
//! let line = "sendrecv loop: --src 10.0.0.1 --dest 10.0.0.2:9000 --rate 10kpps --duration 0 --settle 20ms";
//! let plan = Plan::from_args(line.split(' '))?;
//! let streams = Streams::new();
//! for (what, ms) in [(Do::Pause, 50), (Do::Start, 80), (Do::Stop, 100)] {
//!     streams.order(&[(StreamId(0), what)], At::AfterStart(Duration::from_millis(ms)))?;
//! }
//! let summary = session(&plan, |session| session.directed(std::slice::from_ref(&plan), &streams, &mut []))?;
//! assert_eq!(summary.tx + summary.missed, 500 + 200);
//! # Ok::<(), mpps::Error>(())
//! ```
//!
//! Nothing here prints, writes a file, catches a signal or gives up a privilege, with one exception: if a path works,
//! but not as well as it could, a note on that goes to standard error.

#![forbid(unsafe_code)]

mod author;
mod cli;
mod commands;
mod fail;
mod traffic_file;

pub use mpps_run::{At, ClockTime, Do, OrderError, Rate, StreamCounts, StreamId, Streams};
pub use mpps_run::{Error, Plan, Session, run, run_until, session, session_beside, session_until};
pub use mpps_stats::{
    Direction, Event, HostFact, LaneSummary, Latency, LiveLane, Percentiles, Period, Remark, RemarkName, RemarkValue,
    Row, Sink, Snapshot, Start,
};
pub use mpps_stats::{Started, Summary, Wants, Workload};

use mpps_run::privilege;
use std::ffi::OsString;
use std::process::ExitCode;

/// A plan made from the words of a command line.
pub trait FromArgs: Sized {
    /// From the words of a command line, without the program's name: `["sendrecv", "loop:", …]`.
    ///
    /// # Errors
    /// [`Error::Usage`] for what the command line would refuse.
    fn from_args<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Result<Self, Error>;
}

impl FromArgs for Plan {
    fn from_args<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Result<Self, Error> {
        let words = std::iter::once("mpps".into()).chain(words.into_iter().map(Into::into));
        let cli = cli::Cli::of(words).map_err(|e| Error::Usage(fail::argument_line(&e)))?;
        Self::of_request(cli.command.into_run()?.run)
    }
}

/// The program: reads the command line, does what it asks for, and gives the exit code. 0: done and valid; 1: failed;
/// 2: wrong arguments; 3: done, but the trial is not valid.
#[doc(hidden)]
pub fn program() -> ExitCode {
    if let Err(failure) = privilege::begin() {
        return fail::report(&failure);
    }
    // A program with file capabilities does not use them to look into other processes.
    if !privilege::lent() {
        mpps_sys::cgroup::look_elsewhere();
    }
    commands::end_with_parent();
    mpps_sys::signal::survive();
    let words: Vec<_> = std::env::args_os().collect();
    let is_help = words.get(1).is_some_and(|word| word == "help");
    if let Some(text) = is_help
        .then(|| cli::near::help(&cli::Cli::definition(), &words))
        .flatten()
    {
        let printed = fail::print_words(|out| out.write_all(text.as_bytes()));
        return printed.map_or_else(|failure| fail::report(&failure), |()| ExitCode::SUCCESS);
    }
    let ended = match cli::Cli::of_program() {
        Ok(cli) => commands::run(cli.command),
        Err(error) => fail::of_arguments(&error),
    };
    ended.unwrap_or_else(|failure| {
        commands::failed_in_files(&failure);
        fail::report(&failure)
    })
}

#[cfg(test)]
mod plan_tests;
