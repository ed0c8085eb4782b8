//! `sendrecv` and `send`: a session of one trial.

use super::output::Output;
use super::steps::{self, printed};
use crate::cli::RunArgs;
use crate::fail::{Result, failed, say};
use crate::paths::{Checked, Rules};
use crate::plan::traffic::Draft;
use crate::run::{Host, on_ports};
use mpps_stats::Summary;
use std::process::ExitCode;

pub(crate) fn run(mut args: RunArgs) -> Result<ExitCode> {
    let draft = Draft::new(args.run.clone())?;
    args.run.clone_from(&draft.args);
    if let Some(name) = draft.dest.name.as_ref().filter(|_| !args.tell.quiet) {
        say!("--dest {name} is {}", draft.dest.ip);
    }
    if let Some(code) = printed(&args)? {
        return Ok(code);
    }
    let prepare = |ports: &[&Checked], rules: &Rules, work| steps::prepare(&args, ports, rules, work);
    let (summary, output) = measure(&args, &draft, &Host::program(&prepare))?;
    output.finish(summary)
}

/// Opens the port and the files, and runs.
pub(super) fn measure(args: &RunArgs, draft: &Draft, host: &Host<'_>) -> Result<(Summary, Output)> {
    let output = std::cell::RefCell::new(None);
    let mut summary = None;
    let mut opened = || {
        *output.borrow_mut() = Some(match draft.args.plan.traffic.both_ways {
            true => Output::open_both_ways(args, host)?,
            false if draft.port.traits.in_kernel => Output::open_in_kernel(args, host)?,
            false => Output::open(args, host)?,
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
