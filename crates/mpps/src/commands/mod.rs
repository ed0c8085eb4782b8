//! One module a command: a validated plan, run.

mod again;
mod capture;
mod demo;
mod doctor;
mod forward;
mod lab;
mod listen;
mod output;
mod steps;
mod traffic;

use crate::cli::Command;
use crate::fail::{Result, print};
use crate::paths;
use crate::privilege::{self, as_user};
use std::process::ExitCode;

/// Runs the command.
pub(crate) fn run(command: Command) -> Result<ExitCode> {
    privilege::check(&command)?;
    // A user whom the program's file lends rights could write the list of changes.
    if !matches!(command, Command::Plot(_)) && !privilege::lent() {
        // What a run that was killed has left of its changes to interfaces.
        for line in paths::mend() {
            eprintln!("mpps: {line}");
        }
    }
    match command {
        Command::Sendrecv(args) => traffic::run(args, true),
        Command::Send(args) => traffic::run(args, false),
        Command::Drop(args) => listen::drop(args),
        Command::Reflect(args) => listen::reflect(args),
        Command::Forward(args) => forward::run(args),
        Command::Capture(args) => capture::run(args),
        Command::Run(args) => again::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Lab(args) => lab::run(args),
        Command::Demo(args) => demo::run(&args),
        Command::Plot(args) => {
            as_user(|| Ok(mpps_report::plot(&args.csv, &args.output)?))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Ports => {
            print(|out| writeln!(out, "{}", paths::text()))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
