//! The arguments of `man` and `completions`: what packages install beside the program, made from the same definitions.

use super::{Cli, values};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, ValueEnum};
use mpps_methods::compare::Quantity;
use mpps_plan::values::forward::{Mode, Take};
use mpps_run::paths;
use std::path::PathBuf;

/// `man`.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The command to print the page of: sendrecv, lab up [default: the program]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into DIR: mpps.1, mpps-sendrecv.1, …
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// `completions`.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// A shell.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// The script that this shell reads.
    pub(crate) fn completions(self) -> Vec<u8> {
        let shell = match self {
            Self::Bash => clap_complete::Shell::Bash,
            Self::Zsh => clap_complete::Shell::Zsh,
            Self::Fish => clap_complete::Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut offering(Cli::definition()), "mpps", &mut script);
        script
    }
}

/// Values of options that take one of a few words, and of some of which a few words are usual. Options that know their
/// values to clap have them already.
fn values_of(long: &str) -> Vec<&'static str> {
    let fixed: &[&'static str] = match long {
        "pacing" => &["constant", "poisson", "burst=32"],
        "step" => &["combine", "together"],
        "on-full" => &["wait", "drop"],
        "goal" => &["loss=0", "loss=0.5%", "rfc2544", "tst009", "csit"],
        "cores" => &["0", "0,1", "0-3"],
        "duration" => &["10s", "1m", "1h", "0"],
        "rate" | "max-rate" | "min-rate" | "reference" => &["100kpps", "1Mpps", "1Gbps", "10%"],
        "frame-size" | "frame-sizes" => &["64", "128", "256", "512", "1024", "1280", "1518"],
        "expect" => &[
            "loss==0",
            "lost==0",
            "p99<1ms",
            "received>=1Mpps",
            "ndr>=1Mpps",
            "throughput>=1Mpps",
        ],
        "take" => return Take::ALL.map(Take::name).into(),
        "mode" => return Mode::ALL.map(Mode::name).into(),
        "metric" => return Quantity::ALL.map(Quantity::name).into(),
        "path" => return paths::shown().map(|(path, _)| path).collect(),
        "dscp" => {
            let names = values::CLASSES.iter().map(|(name, _)| *name);
            return names.filter(|name| name.len() <= 4).collect();
        }
        _ => &[],
    };
    fixed.to_vec()
}

/// A command, and those below it, with the values that completions offer. What they parse does not matter here.
fn offering(command: clap::Command) -> clap::Command {
    let with_values = |arg: Arg| {
        let port = arg.is_positional()
            && arg
                .get_value_names()
                .is_some_and(|names| names.iter().any(|n| n == "PORT"));
        // A script is made once in a process: what is leaked is little.
        let named = |path: &&'static str| -> &'static str { format!("{path}:").leak() };
        let offered: Vec<&'static str> = match arg.get_long() {
            _ if port => paths::all_names().iter().map(named).collect(),
            Some(long) if arg.get_action().takes_values() => values_of(long),
            _ => Vec::new(),
        };
        match offered.is_empty() || !arg.get_possible_values().is_empty() {
            true => arg,
            // clap checks that defaults are values.
            false => arg
                .default_value(None::<&str>)
                .value_parser(PossibleValuesParser::new(offered)),
        }
    };
    command.mut_args(with_values).mut_subcommands(offering)
}
