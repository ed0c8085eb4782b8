//! `drop` and `reflect`.

use super::output::Output;
use super::steps::{prepare, printed};
use crate::cli::Run;
use crate::fail::Result;
use crate::paths::{KernelDevices, Opening, Use, Work, with_alike};
use crate::plan::listen::Listener;
use crate::record;
use crate::run::Host;
use mpps_engine::{run_drop, run_drop_in_kernel, run_reflect, run_reflect_in_kernel};
use mpps_io::Port;
use mpps_stats::Summary;
use std::process::ExitCode;

pub(crate) fn drop(mut args: Run) -> Result<ExitCode> {
    let listener = Listener::of_drop(&mut args)?;
    if let Some(code) = printed(&args)? {
        return Ok(code);
    }
    let (summary, output) = dropping(&args, &listener, &Host::program())?;
    output.finish(summary)
}

pub(crate) fn reflect(mut args: Run) -> Result<ExitCode> {
    let listener = Listener::of_reflect(&mut args)?;
    if let Some(code) = printed(&args)? {
        return Ok(code);
    }
    let (summary, output) = reflecting(&args, &listener, &Host::program())?;
    output.finish(summary)
}

pub(super) fn measure_drop(mut args: Run, host: &Host<'_>) -> Result<(Summary, Output)> {
    let listener = Listener::of_drop(&mut args)?;
    dropping(&args, &listener, host)
}

pub(super) fn measure_reflect(mut args: Run, host: &Host<'_>) -> Result<(Summary, Output)> {
    let listener = Listener::of_reflect(&mut args)?;
    reflecting(&args, &listener, host)
}

fn dropping(args: &Run, listener: &Listener, host: &Host<'_>) -> Result<(Summary, Output)> {
    let user = DropRun { args, listener, host };
    execute(listener, args, Work::Ends, host, user)
}

fn reflecting(args: &Run, listener: &Listener, host: &Host<'_>) -> Result<(Summary, Output)> {
    let user = ReflectRun { args, listener, host };
    execute(listener, args, Work::SendsBack, host, user)
}

fn execute<U: Use>(listener: &Listener, run: &Run, work: Work, host: &Host<'_>, user: U) -> Result<U::Out> {
    let _prepared = prepare(host, run, &[&listener.port], &listener.rules, work)?;
    let port = vec![(&listener.port, listener.request())];
    with_alike(
        port,
        &Opening {
            run,
            rules: &listener.rules,
            interruptions: host.interruptions,
        },
        user,
    )
}

/// Says which ports are left to the host, and when every lane receives.
fn announce(workload: &str, listener: &Listener, output: &mut Output) {
    if let Some(note) = listener.left_ports() {
        output.remark(&note);
    }
    output.when_ready(format!(
        "{workload} is ready on {}{}",
        listener.port.spec,
        listener.hears()
    ));
}

struct DropRun<'a> {
    args: &'a Run,
    listener: &'a Listener,
    host: &'a Host<'a>,
}

impl Use for DropRun<'_> {
    type Out = (Summary, Output);

    fn frames<P: Port>(self, ports: &[P]) -> Result<Self::Out> {
        let Self { args, listener, host } = self;
        let plan = listener.drop_plan(args, ports[0].capabilities())?;
        let mut output = Output::open(args, host)?;
        announce("drop", listener, &mut output);
        let summary = run_drop(&ports[0], &plan, &mut output.sinks, host.interruptions)?;
        Ok((summary, output))
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<Self::Out> {
        let Self { args, listener, host } = self;
        let mut output = Output::open_in_kernel(args, host)?;
        let plan = listener.drop_plan(args, devices.capabilities()[0])?;
        // A sender may wait for "ready": by then the programs are loaded and attached.
        let port = devices.drop(&plan)?;
        announce("drop", listener, &mut output);
        let run = || run_drop_in_kernel(&port, &plan, &mut output.sinks, host.interruptions);
        let summary = record::with_programs(std::slice::from_ref(&port), run)?;
        Ok((summary, output))
    }
}

struct ReflectRun<'a> {
    args: &'a Run,
    listener: &'a Listener,
    host: &'a Host<'a>,
}

impl Use for ReflectRun<'_> {
    type Out = (Summary, Output);

    fn frames<P: Port>(self, ports: &[P]) -> Result<Self::Out> {
        let Self { args, listener, host } = self;
        let plan = listener.reflect_plan(args, ports[0].capabilities())?;
        let mut output = Output::open(args, host)?;
        announce("reflect", listener, &mut output);
        let summary = run_reflect(&ports[0], &plan, &mut output.sinks, host.interruptions)?;
        Ok((summary, output))
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<Self::Out> {
        let Self { args, listener, host } = self;
        let mut output = Output::open_in_kernel(args, host)?;
        let plan = listener.reflect_plan(args, devices.capabilities()[0])?;
        let port = devices.reflect(&plan)?;
        announce("reflect", listener, &mut output);
        let run = || run_reflect_in_kernel(&port, &plan, &mut output.sinks, host.interruptions);
        let summary = record::with_programs(std::slice::from_ref(&port), run)?;
        Ok((summary, output))
    }
}
