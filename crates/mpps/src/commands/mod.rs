//! One module a command: a validated plan, run.

mod again;
mod compare;
mod demo;
mod doctor;
mod elsewhere;
mod in_lab;
mod isolate;
mod lab;
mod manual;
mod method;
mod output;
mod privileges;
mod rfc2544;
mod run_folder;
mod serving;
mod state_files;
mod steps;
mod trace;
mod trace_peer;
mod traffic;
mod workload;

pub(crate) use compare::end_with_parent;
pub(crate) use state_files::{begin_in_files, failed_in_files};

use crate::cli::{Command, TraceAction};
use crate::fail::{Result, print_words, say, unwritable, usage};
use mpps_report::ReportError;
use mpps_run::paths;
use mpps_run::privilege::{self, as_user};
use std::io::ErrorKind;
use std::process::ExitCode;

/// Runs the command.
pub(crate) fn run(mut command: Command) -> Result<ExitCode> {
    privileges::check(&command)?;
    if command.run_mut().is_some() {
        begin_in_files();
    }
    // A command that becomes another program leaves this to that program, or to the kernel's signal.
    let becomes_another = match &command {
        Command::Lab(_) => true,
        Command::Trace(args) => matches!(&args.action, Some(TraceAction::Peer(args)) if args.exec),
        _ => false,
    };
    if !becomes_another {
        compare::watch_parent()?;
    }
    // A user who has rights only from the program's file could write the list of changes.
    let mends = match &command {
        Command::Plot(_) | Command::Report(_) | Command::Trace(_) => false,
        Command::Traffic(_) | Command::Man(_) | Command::Completions(_) => false,
        // `isolate --undo` prints itself what it undoes; `--probe` is part of a run that still lives.
        Command::Isolate(args) => !args.undo && !args.probe,
        _ => true,
    };
    if mends && !privilege::lent() {
        // Undoes the changes to interfaces that a killed run has left.
        paths::mend().for_each(|line| say!("{line}"));
        // `isolate` does so itself, when it is its turn.
        if !matches!(command, Command::Isolate(_)) {
            let host = mpps_host::isolate::mend(&mpps_host::isolate::Tree::live());
            host.told.iter().for_each(|line| say!("{line}"));
        }
    }
    if let Some(traffic) = command.in_lab() {
        return in_lab::run(traffic);
    }
    match command {
        Command::Sendrecv(args) | Command::Send(args) => workload::run(args.args),
        Command::Drop(args) | Command::Reflect(args) | Command::Forward(args) | Command::Capture(args) => {
            workload::run(args)
        }
        Command::Ndr(args) => method::ndr(&args),
        Command::Rfc2544(args) => rfc2544::run(&args),
        Command::Overload(args) => method::overload(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Run(args) => again::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Lab(args) => lab::run(args),
        Command::Trace(args) => match &args.action {
            Some(TraceAction::Peer(args)) => trace_peer::run(args),
            None => trace::run(&args),
        },
        Command::Isolate(args) => isolate::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Plot(args) => written(&args.output, || mpps_pages::plot_all(&args.files, &args.output)),
        Command::Report(args) => written(&args.output, || {
            mpps_pages::document::report(&args.files, &args.output, args.redact)
        }),
        Command::Traffic(args) => traffic::run(&args.action),
        Command::Man(args) => manual::man(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Ports => {
            print_words(|out| writeln!(out, "{}", paths::text()))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Makes a file of files, as the user. Where it may write is for the user to say, as of every file (see `unwritable`).
fn written(
    file: &std::path::Path,
    make: impl FnOnce() -> std::result::Result<(), ReportError> + Send,
) -> Result<ExitCode> {
    let full = |e: &std::io::Error| {
        matches!(
            e.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::WriteZero
        )
    };
    let unopened = |e: &ReportError| match e {
        ReportError::Io { path, source, .. } => path == file && !full(source),
        _ => false,
    };
    // A file to read that is none of ours, or can't be read, is a wrong argument, as it is for `trace` and `run`.
    let misread = |e: &ReportError| match e {
        ReportError::Io { op, .. } => *op == "read",
        ReportError::Malformed { .. } => true,
        _ => false,
    };
    as_user(|| match make() {
        Err(e) if unopened(&e) => Err(unwritable("-o", &e)),
        Err(e) if misread(&e) => Err(usage(e)),
        other => Ok(other?),
    })?;
    Ok(ExitCode::SUCCESS)
}
