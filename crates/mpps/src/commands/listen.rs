//! `drop` and `reflect`.

use super::output::Output;
use super::steps::{prepare, printed};
use crate::cli::{Drop, Reflect, Run};
use crate::fail::Result;
use crate::paths::{KernelDevices, Opening, Use, Work, with_alike};
use crate::plan::listen::Listener;
use mpps_engine::{run_drop, run_drop_in_kernel, run_reflect, run_reflect_in_kernel};
use mpps_io::Port;
use mpps_sys::signal::interruptions;
use std::process::ExitCode;

pub(crate) fn drop(mut args: Drop) -> Result<ExitCode> {
    let listener = Listener::of_drop(&args)?;
    listener.fill(&mut args.run);
    execute(&listener, &args.run, Work::Ends, DropRun(&args, &listener))
}

pub(crate) fn reflect(mut args: Reflect) -> Result<ExitCode> {
    let listener = Listener::of_reflect(&args)?;
    listener.fill(&mut args.run);
    execute(&listener, &args.run, Work::SendsBack, ReflectRun(&args, &listener))
}

fn execute(listener: &Listener, run: &Run, work: Work, user: impl Use<Out = ExitCode>) -> Result<ExitCode> {
    if let Some(code) = printed(run)? {
        return Ok(code);
    }
    let _prepared = prepare(run, &[&listener.port], &listener.rules, work)?;
    let port = vec![(&listener.port, listener.request())];
    with_alike(
        port,
        &Opening {
            run,
            rules: &listener.rules,
        },
        user,
    )
}

/// Says which ports are left to the host, and when every lane receives.
fn announce(workload: &str, run: &Run, listener: &Listener, output: &mut Output) {
    if !run.tell.quiet
        && let Some(note) = listener.left_ports()
    {
        eprintln!("mpps: {note}");
    }
    output.when_ready(run, format!("{workload} is ready on {}", listener.port.spec));
}

struct DropRun<'a>(&'a Drop, &'a Listener);

impl Use for DropRun<'_> {
    type Out = ExitCode;

    fn frames<P: Port>(self, ports: &[P]) -> Result<ExitCode> {
        let Self(args, listener) = self;
        let mut output = Output::open(&args.run)?;
        let plan = listener.drop_plan(args, ports[0].capabilities())?;
        announce("drop", &args.run, listener, &mut output);
        let summary = run_drop(&ports[0], &plan, &mut output.sinks, &interruptions)?;
        output.finish(&summary)
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<ExitCode> {
        let Self(args, listener) = self;
        let mut output = Output::open(&args.run)?;
        let plan = listener.drop_plan(args, devices.capabilities()[0])?;
        // Whoever waits for "ready" may send: the programs are loaded and attached by then.
        let port = devices.drop(&plan)?;
        announce("drop", &args.run, listener, &mut output);
        let summary = run_drop_in_kernel(&port, &plan, &mut output.sinks, &interruptions)?;
        output.finish(&summary)
    }
}

struct ReflectRun<'a>(&'a Reflect, &'a Listener);

impl Use for ReflectRun<'_> {
    type Out = ExitCode;

    fn frames<P: Port>(self, ports: &[P]) -> Result<ExitCode> {
        let Self(args, listener) = self;
        let mut output = Output::open(&args.run)?;
        let plan = listener.reflect_plan(args, ports[0].capabilities())?;
        announce("reflect", &args.run, listener, &mut output);
        let summary = run_reflect(&ports[0], &plan, &mut output.sinks, &interruptions)?;
        output.finish(&summary)
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<ExitCode> {
        let Self(args, listener) = self;
        let mut output = Output::open(&args.run)?;
        let plan = listener.reflect_plan(args, devices.capabilities()[0])?;
        let port = devices.reflect(&plan)?;
        announce("reflect", &args.run, listener, &mut output);
        let summary = run_reflect_in_kernel(&port, &plan, &mut output.sinks, &interruptions)?;
        output.finish(&summary)
    }
}
