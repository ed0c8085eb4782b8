//! `isolate`.

use super::values::{self, Cores};
use clap::Args;
use mpps_host::isolate::Kind;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// `isolate`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Its own words go to standard error. Exit codes: COMMAND's own, 128 + N where signal N ended it; \
                  without COMMAND 0; 1: it could not be started or measured, another one runs, or --undo could not \
                  undo all; 2: wrong arguments"
)]
pub(crate) struct Isolate {
    /// Cores that nothing but COMMAND is to run on: 2-3
    #[arg(value_name = "CORES", value_parser = values::cores, required_unless_present = "undo")]
    pub(crate) cores: Option<Cores>,
    /// The program and its arguments, behind `--` [default: none: only the noise is measured: before, isolated, after]
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<OsString>,
    /// Length of each measurement of the cores' noise, 10ms to 1h; 0: none
    #[arg(
        long, value_name = "TIME", default_value = "3s", value_parser = values::measure, allow_hyphen_values = true
    )]
    pub(crate) measure: Duration,
    /// Leave out some of interrupts, workqueues, sysctls, idle-states, cpuset
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) without: Vec<Kind>,
    /// Move all other threads of the host off the cores as well
    #[arg(long)]
    pub(crate) move_threads: bool,
    /// Nice value of COMMAND, -20 to 19
    #[arg(
        long, value_name = "N", conflicts_with = "fifo", value_parser = values::nice, allow_hyphen_values = true
    )]
    pub(crate) nice: Option<i32>,
    /// Real-time priority of COMMAND and of all its threads, 1 to 99 (SCHED_FIFO): for commands that sleep
    #[arg(long, value_name = "PRIO", value_parser = values::fifo, allow_hyphen_values = true)]
    pub(crate) fifo: Option<u32>,
    /// Print the commands of a shell that would do the same, and what needs a restart; change nothing
    #[arg(long, conflicts_with = "json")]
    pub(crate) dry_run: bool,
    /// Write what was measured, applied and not applied to FILE ('-': standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// No word but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Undo what a run that was killed has left, and exit; any other command of mpps does so too
    #[arg(long, conflicts_with_all = ["cores", "command", "dry_run", "json"])]
    pub(crate) undo: bool,
    /// First wait until standard input ends, as it does with the process that holds its other end.
    #[arg(long, hide = true, requires = "undo")]
    pub(crate) guard: bool,
    /// Measure, print the noise as JSON, and exit.
    #[arg(long, hide = true)]
    pub(crate) probe: bool,
    /// A host made of files, in place of this one: for tests.
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}
