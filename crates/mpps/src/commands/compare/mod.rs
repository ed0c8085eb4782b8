//! `compare`: runs are processes of this program; which is better, and whether that can be said, is for
//! [`mpps_methods::compare`].
//!
//! This process keeps what it was started with, to start the next run, and puts it aside while a run goes on.

mod child;
mod operand;
mod settings;

pub(crate) use child::{end_with_parent, last_words, of_this_process, watch_parent};

use super::method::Views;
use crate::cli::{Compare, recorded_command, version};
use crate::fail::{Result, usage};
use mpps_methods::compare::{self, Ran, Runs, Varied};
use mpps_sys::signal;
use operand::{Operands, Typed};
use settings::Of;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn run(args: &Compare) -> Result<ExitCode> {
    if args.resume && args.out.is_none() {
        return Err(usage(
            "--resume: it goes on with the comparison in a folder: want --out DIR as well",
        ));
    }
    let compare = compare::Compare {
        metrics: args.metric.clone(),
        margin: args.margin,
        force: args.force,
        rounds: args.rounds,
        pause: args.pause.unwrap_or(Duration::from_secs(5)),
        retries: args.retries.unwrap_or(2),
        seed: args.seed,
        folder: args.out.clone(),
        resume: args.resume,
        command: recorded_command(),
        version: version::short(),
    };
    let views = Views::lines(args.quiet);
    let code = match operand::read(&args.operands)? {
        Operands::Runs(typed) => {
            let operand = typed[0].variant.text.clone();
            let (typed, varied) = varied(args, typed)?;
            let variants = typed.iter().map(|typed| typed.variant.clone()).collect();
            signal::catch_interrupts();
            compare::runs(&compare, variants, (operand, varied), (&views, &Children(typed)))?
        }
        Operands::Results(sides) => {
            of_runs_alone(args)?;
            compare::results(&compare, &sides, &views)?
        }
    };
    Ok(ExitCode::from(code))
}

/// Returns the runs: those that were typed, or the combinations of the settings, and these.
fn varied(args: &Compare, mut typed: Vec<Typed>) -> Result<(Vec<Typed>, Vec<Varied>)> {
    let mut varied = Vec::new();
    match (typed.len(), args.settings.is_empty()) {
        (1, true) => {
            return Err(usage(
                "one run alone: want another to compare it with, or --settings 'KEY=VALUE|VALUE'",
            ));
        }
        (1, false) => {
            let base = typed.remove(0);
            typed = settings::combinations(&base, &args.settings)?;
            let of = |key: &str| Of::find(key, base.workload()).words(key);
            varied.extend(args.settings.iter().map(|setting| Varied {
                setting: setting.clone(),
                what: of(&setting.key),
            }));
        }
        (n, false) => {
            return Err(usage(format!(
                "--settings: they are of one run, and {n} are given: want one"
            )));
        }
        _ => {}
    }
    Ok((typed, varied))
}

/// Refuses options on runs, where earlier results are compared.
fn of_runs_alone(args: &Compare) -> Result<()> {
    for (option, given) in [
        ("--rounds", args.rounds.is_some()),
        ("--pause", args.pause.is_some()),
        ("--retries", args.retries.is_some()),
        ("--settings", !args.settings.is_empty()),
        ("--resume", args.resume),
    ] {
        if given {
            return Err(usage(format!(
                "{option}: nothing is run of results that are there: want it left out"
            )));
        }
    }
    Ok(())
}

/// Runs that are processes of this program.
struct Children(Vec<Typed>);

impl Runs for Children {
    fn run(&self, variant: usize) -> Result<Ran> {
        let typed = &self.0[variant];
        child::run(&typed.words, typed.quiet)
    }

    fn interrupted(&self) -> bool {
        signal::interrupted()
    }
}
