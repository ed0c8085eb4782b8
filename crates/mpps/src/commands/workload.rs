//! A run of one workload: `sendrecv`, `send`, `drop`, `reflect`, `forward`, `capture`.

use super::output::Program;
use super::steps::printed;
use crate::cli::RunArgs;
use crate::fail::{Result, say, usage};
use mpps_run::streams::check_expect;
use mpps_run::{Drafted, Host};
use mpps_sys::signal;
use std::process::ExitCode;

pub(crate) fn run(mut args: RunArgs) -> Result<ExitCode> {
    if args.tell.streams_csv.is_some() && !args.has_streams() {
        return Err(usage(
            "--streams-csv: the run has no streams: want sendrecv or send with --traffic or --packet, or drop with \
             --traffic",
        ));
    }
    check_expect(&args.run.plan, &args.tell.expect)?;
    let drafted = Drafted::new(args.run.clone())?;
    args.run.clone_from(drafted.run());
    if let Drafted::Traffic(draft) = &drafted
        && let Some(name) = draft.dest.name.as_ref().filter(|_| !args.tell.quiet)
    {
        say!("--dest {name} is {}", draft.dest.ip);
    }
    if let Some(code) = printed(&args)? {
        return Ok(code);
    }
    let program = Program::new(&args);
    let (summary, sinks) = drafted.measure(&Host {
        interruptions: &signal::interruptions,
        steps: &program,
    })?;
    program.into_output()?.finish(summary, sinks)
}
