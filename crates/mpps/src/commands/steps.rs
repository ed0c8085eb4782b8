//! The steps that come before the ports of a run are opened, in their one order.

use super::serving;
use crate::cli::RunArgs;
use crate::fail::{Result, print, say, to_stderr, usage};
use mpps_plan::Plan;
use mpps_run::paths::{Checked, Rules, Work};
use mpps_run::privilege;
use mpps_run::profile;
use mpps_run::record;
use mpps_sys::signal::{self, CpuLimit};
use std::process::ExitCode;

/// Prints the run as a value, if only that is asked for.
pub(super) fn printed(args: &RunArgs) -> Result<Option<ExitCode>> {
    if !args.print_plan {
        return Ok(None);
    }
    print(|out| writeln!(out, "{}", args.run.complete.text()))?;
    Ok(Some(ExitCode::SUCCESS))
}

/// Limits of CPU time at which the kernel kills the program, and leaves no time for results.
fn deadly_limits(plan: &Plan) -> Vec<String> {
    let deadly = |limit: Option<CpuLimit>| limit.filter(CpuLimit::kills).map(|limit| limit.soft);
    let mut told = Vec::new();
    if let Some(seconds) = deadly(CpuLimit::of_process()) {
        told.push(format!(
            "CPU time is limited to {seconds} s (ulimit -t), soft and hard limit alike: the kernel kills the program \
             there, without results. With a lower soft limit (ulimit -S -t SECONDS) the run ends there with its results"
        ));
    }
    if let Some(us) = deadly(CpuLimit::of_real_time()).filter(|_| plan.lanes.fifo.is_some()) {
        told.push(format!(
            "--fifo: a real-time thread may run for {us} us without sleeping (RLIMIT_RTTIME), soft and hard limit \
             alike: the kernel kills the program there, without results. With a lower soft limit (prlimit \
             --rttime=SOFT:HARD) the run ends there with its results"
        ));
    }
    told
}

/// Prepares the program for a run: signals end the run with its results, and unneeded privileges are marked to be
/// dropped.
pub(super) fn prepare(args: &RunArgs, ports: &[&Checked], rules: &Rules, work: Work) -> Result<()> {
    let (run, tell) = (&args.run, &args.tell);
    if let Some(hz) = tell.profile
        && tell.flame.is_none()
        && tell.folded.is_none()
        && tell.keep.trace.is_none()
    {
        return Err(usage(format!(
            "--profile {hz}: nothing is to be made of the samples: want --flame FILE, --folded FILE or --trace FILE as \
             well"
        )));
    }
    profile::ask(run);
    record::ask(run, ports);
    if let Some(sample) = &tell.sample_pcap {
        sample.ask(ports)?;
    }
    signal::catch_interrupts();
    // With --quiet as well: once killed it says nothing more.
    deadly_limits(&run.plan)
        .iter()
        .for_each(|line| to_stderr(&format!("mpps: {line}")));
    if let Some(start) = run.plan.times.start_at.as_ref().filter(|_| !tell.quiet) {
        match start.text().strip_prefix('+') {
            Some(time) => say!("the run starts in {time} (--start-at)"),
            None => say!("the run starts at {} (--start-at)", start.text()),
        }
    }
    privilege::plan(run, ports, !rules.is_empty(), work)?;
    serving::bind(args, ports)
}
