//! `drop` and `reflect`.

use super::output::Output;
use super::steps::{self, printed};
use crate::cli::RunArgs;
use crate::fail::Result;
use crate::paths::{Checked, KernelDevices, Opening, Rules, Use, Work, with_alike};
use crate::plan::listen::Listener;
use crate::plan::model::Workload;
use crate::record;
use crate::run::Host;
use mpps_engine::{run_drop, run_drop_in_kernel, run_reflect, run_reflect_in_kernel};
use mpps_io::Port;
use mpps_stats::Summary;
use std::process::ExitCode;

pub(crate) fn run(mut args: RunArgs) -> Result<ExitCode> {
    let listener = Listener::new(&mut args.run)?;
    if let Some(code) = printed(&args)? {
        return Ok(code);
    }
    let prepare = |ports: &[&Checked], rules: &Rules, work| steps::prepare(&args, ports, rules, work);
    let (summary, output) = listening(&args, &listener, &Host::program(&prepare))?;
    output.finish(summary)
}

pub(super) fn measure(mut args: RunArgs, host: &Host<'_>) -> Result<(Summary, Output)> {
    let listener = Listener::new(&mut args.run)?;
    listening(&args, &listener, host)
}

fn listening(args: &RunArgs, listener: &Listener, host: &Host<'_>) -> Result<(Summary, Output)> {
    match args.run.plan.workload {
        Workload::Drop => execute(args, listener, Work::Ends, host, DropRun { args, listener, host }),
        _ => execute(
            args,
            listener,
            Work::SendsBack,
            host,
            ReflectRun { args, listener, host },
        ),
    }
}

fn execute<U: Use>(args: &RunArgs, listener: &Listener, work: Work, host: &Host<'_>, user: U) -> Result<U::Out> {
    let _prepared = host.prepare(&[&listener.port], &listener.rules, work)?;
    let port = vec![(&listener.port, listener.request())];
    let opening = Opening {
        run: &args.run,
        rules: &listener.rules,
        interruptions: host.interruptions,
    };
    with_alike(port, &opening, user)
}

/// Prints which ports are left to the host, and when every lane receives.
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
    args: &'a RunArgs,
    listener: &'a Listener,
    host: &'a Host<'a>,
}

impl Use for DropRun<'_> {
    type Out = (Summary, Output);

    fn frames<P: Port>(self, ports: &[P]) -> Result<Self::Out> {
        let Self { args, listener, host } = self;
        let plan = listener.drop_plan(&args.run, ports[0].capabilities())?;
        let mut output = Output::open(args, host)?;
        announce("drop", listener, &mut output);
        let summary = run_drop(&ports[0], &plan, &mut output.sinks, host.interruptions)?;
        Ok((summary, output))
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<Self::Out> {
        let Self { args, listener, host } = self;
        let mut output = Output::open_in_kernel(args, host)?;
        let plan = listener.drop_plan(&args.run, devices.capabilities()[0])?;
        // A sender may wait for "ready": by then the programs are loaded and attached.
        let port = devices.drop(&plan)?;
        announce("drop", listener, &mut output);
        let run = || run_drop_in_kernel(&port, &plan, &mut output.sinks, host.interruptions);
        let summary = record::with_programs(std::slice::from_ref(&port), run)?;
        Ok((summary, output))
    }
}

struct ReflectRun<'a> {
    args: &'a RunArgs,
    listener: &'a Listener,
    host: &'a Host<'a>,
}

impl Use for ReflectRun<'_> {
    type Out = (Summary, Output);

    fn frames<P: Port>(self, ports: &[P]) -> Result<Self::Out> {
        let Self { args, listener, host } = self;
        let plan = listener.reflect_plan(&args.run, ports[0].capabilities())?;
        let mut output = Output::open(args, host)?;
        announce("reflect", listener, &mut output);
        let summary = run_reflect(&ports[0], &plan, &mut output.sinks, host.interruptions)?;
        Ok((summary, output))
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<Self::Out> {
        let Self { args, listener, host } = self;
        let mut output = Output::open_in_kernel(args, host)?;
        let plan = listener.reflect_plan(&args.run, devices.capabilities()[0])?;
        let port = devices.reflect(&plan)?;
        announce("reflect", listener, &mut output);
        let run = || run_reflect_in_kernel(&port, &plan, &mut output.sinks, host.interruptions);
        let summary = record::with_programs(std::slice::from_ref(&port), run)?;
        Ok((summary, output))
    }
}
