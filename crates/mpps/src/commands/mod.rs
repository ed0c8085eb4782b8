//! One module a command: a validated plan, run.

mod capture;
mod demo;
mod doctor;
mod dpdk;
mod forward;
mod lab;
mod listen;
mod output;
mod traffic;
mod xdp;

use crate::cli::Command;
use crate::fail::Result;
use std::process::ExitCode;

/// Runs the command.
pub(crate) fn run(command: Command) -> Result<ExitCode> {
    if !matches!(command, Command::Plot(_)) {
        // What a run that was killed has left of its changes to interfaces.
        for line in mpps_dpdk::mend() {
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
        Command::Doctor(args) => doctor::run(&args),
        Command::Lab(args) => lab::run(args),
        Command::Demo(args) => demo::run(&args),
        Command::Plot(args) => {
            mpps_report::plot(&args.csv, &args.output)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
