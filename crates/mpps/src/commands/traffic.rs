//! `sendrecv` and `send`: a session of one trial.

use super::output::Output;
use super::steps::printed;
use crate::cli::Run;
use crate::fail::{Result, failed, say};
use crate::plan::traffic::Draft;
use crate::run::{Host, on_ports};
use mpps_stats::Summary;
use std::process::ExitCode;

pub(crate) fn run(args: Run) -> Result<ExitCode> {
    let draft = Draft::new(args)?;
    if let Some(name) = draft.dest.name.as_ref().filter(|_| !draft.args.tell.quiet) {
        say!("--dest {name} is {}", draft.dest.ip);
    }
    if let Some(code) = printed(&draft.args)? {
        return Ok(code);
    }
    let (summary, output) = measure(&draft, &Host::program())?;
    output.finish(summary)
}

/// Opens the port and the files, and runs.
pub(super) fn measure(draft: &Draft, host: &Host<'_>) -> Result<(Summary, Output)> {
    let output = std::cell::RefCell::new(None);
    let mut summary = None;
    let mut opened = || {
        let run = &draft.args;
        *output.borrow_mut() = Some(match draft.args.plan.traffic.both_ways {
            true => Output::open_both_ways(run, host)?,
            false if draft.port.traits.in_kernel => Output::open_in_kernel(run, host)?,
            false => Output::open(run, host)?,
        });
        Ok(())
    };
    on_ports(draft, host, &mut opened, &mut |ports, draft| {
        let mut output = output.borrow_mut();
        let sinks = output.as_mut().map(|output| &mut output.sinks[..]).unwrap_or_default();
        summary = Some(ports.trial(draft, true, sinks, host.interruptions)?);
        Ok(())
    })?;
    summary
        .zip(output.into_inner())
        .ok_or_else(|| failed("the ports were not opened"))
}
