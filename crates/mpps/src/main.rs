//! `mpps`: arguments → validated plan → run. Exit codes; nothing else.
//!
//! Exit codes: 0 done and valid; 1 failed; 2 wrong arguments; 3 done, but the trial is not valid.

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod fail;
mod paths;
mod plan;
mod privilege;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mpps_sys::memory::Plain = mpps_sys::memory::Plain;

fn main() -> ExitCode {
    if let Err(failure) = privilege::begin() {
        return failure.report();
    }
    match cli::Cli::of(std::env::args_os()) {
        Ok(cli) => match commands::run(cli.command) {
            Ok(code) => code,
            Err(failure) => failure.report(),
        },
        Err(error) => fail::report_arguments(&error),
    }
}
