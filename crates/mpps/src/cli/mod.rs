//! The arguments, as the user writes them. What they mean is in [`crate::plan`].

mod compare;
mod config;
mod fields;
mod help;
mod host;
mod isolate;
mod keep;
pub(crate) mod lab;
mod manual;
mod method;
pub(crate) mod near;
mod rate;
mod results;
mod run;
mod serve;
mod streams;
mod trace;
mod traffic;
mod traffic_file;
pub(crate) mod version;

pub(crate) use compare::Compare;
pub(crate) use config::{Word, read_by_program, recorded_command, values_of_program, words_of_program};
pub(crate) use help::{Example, examples, headed};
pub(crate) use host::{Demo, Doctor, Lab, LabAction};
pub(crate) use isolate::Isolate;
pub(crate) use keep::Keep;
#[cfg(test)]
pub(crate) use manual::Shell;
pub(crate) use manual::{Completions, Man};
pub(crate) use method::{Method, Ndr, Overload, Rfc2544, Rfc2544Test, SearchBy};
pub(crate) use results::{Plot, Report};
pub(crate) use run::{Again, RunArgs, Tell};
pub(crate) use serve::{Listen, Serve};
pub(crate) use streams::{Looked, TrafficAction, TrafficFiles};
pub(crate) use trace::{Peer, Show, Trace, TraceAction};
pub(crate) use traffic::Traffic;

pub(crate) use mpps_plan::values;
pub(crate) use mpps_plan::values::rate::RateText;

use clap::parser::ValueSource;
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use mpps_plan::Workload;
use mpps_report::Colour;
use mpps_run::paths;
use std::ffi::OsString;
use traffic::{only_sends, without_streams};

/// Generates, reflects and measures packets, with numbers that can be trusted.
#[derive(Parser, Debug)]
#[command(name = "mpps", version = version::short(), long_version = version::long(), max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The command line as it is, with all that `--help` shows.
    pub(crate) fn definition() -> clap::Command {
        help::with_examples(help::headed(Self::command()))
    }

    /// Reads a command line; a run is given its plan.
    pub(crate) fn of(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let command = Self::definition();
        let given = config::given(&command, words.into_iter().collect())?;
        Self::with(&command, given, true)
    }

    /// Reads the command line of this program.
    pub(crate) fn of_program() -> Result<Self, clap::Error> {
        let command = Self::definition();
        let given = config::given_to_program(&command, std::env::args_os().collect())?;
        Self::with(&command, given, false)
    }

    /// `again`: the command line is read once more, by another process as a rule, and so are its files.
    fn with(command: &clap::Command, given: config::Given, again: bool) -> Result<Self, clap::Error> {
        let config::Given { words, origin } = given;
        let words = lab::named(command, words);
        // clap itself colours what a dumb terminal gets wherever CI is set.
        let colour = match Colour::is_welcome() {
            true => ColorChoice::Auto,
            false => ColorChoice::Never,
        };
        let matches = command
            .clone()
            .color(colour)
            .try_get_matches_from(&words)
            .map_err(|error| origin.located(error))?;
        let mut cli = Self::from_arg_matches(&matches)?;
        let again = again || cli.command.in_lab().is_some();
        if let Some(run) = cli.command.run_mut() {
            debug_assert!(run.config.is_none(), "its options stand in its place");
            if let Some((name, given)) = matches.subcommand()
                && let Some(plan) = fields::plan_of(name, given, again)?
            {
                run.run = mpps_run::Run::as_given(plan, run.tell.beside());
            }
        }
        if let (Some(method), Some((_, given))) = (cli.command.method_mut(), matches.subcommand()) {
            let is_given = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
            method.settle_given = is_given("settle");
            method.tolerance_given = is_given("tolerance");
        }
        if let Some(traffic) = cli.command.traffic_mut() {
            traffic.words = words;
        }
        Ok(cli)
    }
}

impl Command {
    /// Returns the arguments of a run; `None` for a command that is no run.
    pub(crate) fn run_mut(&mut self) -> Option<&mut RunArgs> {
        match self {
            Self::Sendrecv(args) | Self::Send(args) => Some(&mut args.args),
            Self::Drop(run) | Self::Reflect(run) | Self::Forward(run) | Self::Capture(run) => Some(run),
            Self::Ndr(args) => Some(&mut args.method.traffic.args),
            Self::Rfc2544(args) => Some(&mut args.method.traffic.args),
            Self::Overload(args) => Some(&mut args.method.traffic.args),
            _ => None,
        }
    }

    /// The command that a run is.
    pub(crate) fn of(run: RunArgs) -> Self {
        let traffic = |args| Traffic {
            lab: false,
            words: Vec::new(),
            args,
        };
        match run.run.plan.workload {
            Workload::Sendrecv => Self::Sendrecv(traffic(run)),
            Workload::Send => Self::Send(traffic(run)),
            Workload::Drop => Self::Drop(run),
            Workload::Reflect => Self::Reflect(run),
            Workload::Forward => Self::Forward(run),
            Workload::Capture => Self::Capture(run),
        }
    }

    /// The run, of a command that is one.
    pub(crate) fn into_run(self) -> Result<RunArgs, crate::fail::Failure> {
        let usage = crate::fail::usage;
        match self {
            Self::Sendrecv(args) | Self::Send(args) if args.lab => {
                // The program makes the lab, and starts itself there; a plan is none of its commands.
                Err(usage("--lab: only the program makes a lab: want it left out"))
            }
            Self::Sendrecv(args) | Self::Send(args) => Ok(args.args),
            Self::Drop(run) | Self::Reflect(run) | Self::Forward(run) | Self::Capture(run) => Ok(run),
            _ => Err(usage("no run: want sendrecv, send, drop, reflect, forward or capture")),
        }
    }

    /// Returns the arguments that all methods have; `None` for a command that is no method.
    fn method_mut(&mut self) -> Option<&mut Method> {
        match self {
            Self::Ndr(args) => Some(&mut args.method),
            Self::Rfc2544(args) => Some(&mut args.method),
            Self::Overload(args) => Some(&mut args.method),
            _ => None,
        }
    }

    /// Returns the traffic of a command that sends test packets.
    fn traffic_mut(&mut self) -> Option<&mut Traffic> {
        match self {
            Self::Sendrecv(args) | Self::Send(args) => Some(args),
            _ => self.method_mut().map(|method| &mut method.traffic),
        }
    }

    /// The same, where a lab is to be made for it.
    pub(crate) fn in_lab(&self) -> Option<&Traffic> {
        let traffic = match self {
            Self::Sendrecv(args) | Self::Send(args) => args,
            Self::Ndr(args) => &args.method.traffic,
            Self::Rfc2544(args) => &args.method.traffic,
            Self::Overload(args) => &args.method.traffic,
            _ => return None,
        };
        traffic.lab.then_some(traffic)
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Send stamped UDP packets, receive them back from a reflector, and measure rate, loss and latency
    #[command(after_help = paths::summary())]
    Sendrecv(Traffic),
    /// Send stamped UDP packets one way
    #[command(after_help = paths::summary(), mut_args(only_sends))]
    Send(Traffic),
    /// Receive, verify and count stamped packets: the other end of `send`
    #[command(after_help = paths::summary())]
    Drop(RunArgs),
    /// Send every UDP packet back where it came from, addresses and ports swapped
    #[command(after_help = paths::summary(), mut_args(without_streams))]
    Reflect(RunArgs),
    /// Forward frames from one port to another, or back out of the same port
    #[command(after_help = paths::summary(), mut_args(without_streams))]
    Forward(RunArgs),
    /// Keep the packets that arrive in a pcapng file, for Wireshark and the like
    #[command(after_help = paths::summary(), mut_args(without_streams))]
    Capture(RunArgs),
    /// Find the highest rates at which no more than so many packets are lost (MLRsearch, RFC 9971)
    #[command(after_help = paths::summary(), mut_args(method::chosen_by_method))]
    Ndr(Box<Ndr>),
    /// Test a device by RFC 2544 and RFC 9004: throughput, latency, loss, back-to-back frames, recovery, reset
    #[command(after_help = paths::summary(), mut_args(method::chosen_by_rfc2544))]
    Rfc2544(Box<Rfc2544>),
    /// Show what a device does with 10 to 200 % of the load that it forwards without loss (in the words of RFC 2889)
    #[command(after_help = paths::summary(), mut_args(method::chosen_by_overload))]
    Overload(Box<Overload>),
    /// Say which of several runs is better, and by how much: they are run in turns, or their results are read
    Compare(Compare),
    /// Repeat a run from its plan (--print-plan) or from its result (--json)
    Run(Again),
    /// Say which paths work on this host, what limits them, and the command that improves it
    Doctor(Doctor),
    /// Make, use and remove a lab: two hosts (network namespaces) joined by a veth pair
    Lab(Lab),
    /// Run a command on cores that nothing else uses, and say how much of them was taken before, then and afterwards
    Isolate(Isolate),
    /// Show a whole measurement: a lab, a reflector, a run, and its CSV, JSON and plot
    Demo(Demo),
    /// Draw a run's CSV as SVG or PNG, or those of several over one another: rates, loss and latency over time
    Plot(Plot),
    /// Make a page of a test's result or of plain runs: one HTML file, or Markdown
    Report(Report),
    /// Read a trace that a run has kept (--trace): where its time went, and why packets were late or lost; or count
    /// what another DPDK program does with its time
    Trace(Trace),
    /// Check a traffic file, show or write the packets that it describes
    Traffic(TrafficFiles),
    /// Print a manual page, or write all of them
    Man(Man),
    /// Print the completions of a shell
    Completions(Completions),
    /// List the options of each path's ports
    #[command(after_help = paths::text())]
    Ports,
}
