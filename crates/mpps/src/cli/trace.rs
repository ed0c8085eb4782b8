//! The arguments of `trace`.

use super::values::since_start;
use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Parts of a trace that `trace` prints.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Where the lanes' time went, stage by stage, and what took their cores
    Table,
    /// Why bursts were slow, and packets late or lost
    Why,
    /// Each thread as a tree with total and self time: its lanes and their stages, then the functions that samples
    /// (--profile) found it in
    Tree,
    /// Two traces, stage by stage
    Compare,
}

/// `trace`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Trace {
    #[command(subcommand)]
    pub(crate) action: Option<TraceAction>,
    /// The trace, as --trace has written it
    #[arg(value_name = "FILE", required = true)]
    pub(crate) file: Option<PathBuf>,
    /// Form to print [default: table and why; with --ctf, --folded or --svg nothing]
    #[arg(value_name = "WHAT")]
    pub(crate) show: Option<Show>,
    /// The trace to compare with
    #[arg(value_name = "FILE", id = "other")]
    pub(crate) other: Option<PathBuf>,
    /// Write the trace in the Common Trace Format (1.8) into DIR, which must be new or empty: three traces, for Trace
    /// Compass and babeltrace2
    #[arg(long, value_name = "DIR")]
    pub(crate) ctf: Option<PathBuf>,
    /// Write the samples of the run (--profile) as folded stacks, a line each, to OUT [default: standard output, for
    /// flamegraph.pl and the like]
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) folded: Option<PathBuf>,
    /// Draw them as a flame graph (SVG) into OUT [default: standard output]
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) svg: Option<PathBuf>,
    /// Take only samples from this time of the run on, for --folded, --svg and tree
    #[arg(long, value_name = "TIME", value_parser = since_start)]
    pub(crate) from: Option<Duration>,
    /// Take only samples before this time of the run
    #[arg(long, value_name = "TIME", value_parser = since_start)]
    pub(crate) to: Option<Duration>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TraceAction {
    /// Start a DPDK program as it is, and say what its threads did: mpps trace peer -- dpdk-testpmd -l 0-1 -- -i
    Peer(Peer),
}

/// `trace peer`.
#[derive(Args, Debug)]
#[command(
    after_help = "The program is given `-d PLUGIN` behind its name, which its EAL loads. Where its name is not the \
                  first word (stdbuf, taskset), write -d {plugin} where that belongs. The table goes to standard \
                  error; the exit code is the program's."
)]
pub(crate) struct Peer {
    /// Write the figures to FILE ('-': standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the table and the last calls of each lane to FILE: a Perfetto trace (gzipped), which `mpps trace FILE`
    /// reads, too
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Print no table
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Become the program, which then ends with the process that started this one.
    #[arg(long, hide = true)]
    pub(crate) exec: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) argv: Vec<OsString>,
}
