//! `forward`.
//!
//! Ports of one path, however many, are opened together, as two of them may share packet memory; two ports of two paths
//! never do, and any path goes with any other.

use super::output::Output;
use super::steps::{self, printed};
use crate::cli::RunArgs;
use crate::fail::Result;
use crate::paths::{Checked, KernelDevices, Kind, Opening, Rules, Use, UseTwo, Work, with_ports};
use crate::plan::forward::Draft;
use crate::record;
use crate::run::Host;
use mpps_engine::{ForwardPlan, RunError, run_forward, run_forward_in_kernel, run_forward_pair};
use mpps_io::{Capabilities, Port};
use mpps_stats::{Sink, Summary};
use std::process::ExitCode;

pub(crate) fn run(mut args: RunArgs) -> Result<ExitCode> {
    let draft = Draft::new(args.run.clone())?;
    args.run.clone_from(&draft.args);
    if let Some(code) = printed(&args)? {
        return Ok(code);
    }
    let prepare = |ports: &[&Checked], rules: &Rules, work| steps::prepare(&args, ports, rules, work);
    let (summary, output) = measure(&args, &draft, &Host::program(&prepare))?;
    output.finish(summary)
}

pub(super) fn measure(args: &RunArgs, draft: &Draft, host: &Host<'_>) -> Result<(Summary, Output)> {
    let work = match draft.ports.len() {
        1 => Work::SendsBack,
        _ => Work::Forwards,
    };
    let run = &draft.args;
    let ports: Vec<_> = draft.ports.iter().map(|port| &port.port).collect();
    let _prepared = host.prepare(&ports, &draft.rules, work)?;
    let opening = Opening {
        run,
        rules: &draft.rules,
        interruptions: host.interruptions,
    };
    with_ports(draft.requests(), &opening, Forwarding { args, draft, host })
}

struct Forwarding<'a> {
    args: &'a RunArgs,
    draft: &'a Draft,
    host: &'a Host<'a>,
}

impl Use for Forwarding<'_> {
    const KINDS: &'static [Kind] = &[Kind::Synthetic, Kind::Device];
    type Out = (Summary, Output);

    fn frames<P: Port>(self, ports: &[P]) -> Result<Self::Out> {
        let capabilities: Vec<_> = ports.iter().map(P::capabilities).collect();
        execute(self.args, self.draft, self.host, &capabilities, |plan, sinks| {
            run_forward(ports, plan, sinks, self.host.interruptions)
        })
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<Self::Out> {
        let mut output = Output::open_in_kernel(self.args, self.host)?;
        let plan = self.draft.plan(&devices.capabilities())?;
        let port = devices.forward(&plan)?;
        output.when_ready(ready(&plan));
        let run = || run_forward_in_kernel(&port, &plan, &mut output.sinks, self.host.interruptions);
        let summary = record::with_programs(std::slice::from_ref(&port), run)?;
        Ok((summary, output))
    }
}

impl UseTwo for Forwarding<'_> {
    fn two<A: Port, B: Port>(self, a: &A, b: &B) -> Result<Self::Out> {
        execute(
            self.args,
            self.draft,
            self.host,
            &[a.capabilities(), b.capabilities()],
            |plan, sinks| run_forward_pair(a, b, plan, sinks, self.host.interruptions),
        )
    }
}

/// The line that says that it is ready.
fn ready(plan: &ForwardPlan) -> String {
    let names: Vec<_> = plan.ports.iter().map(|port| port.name.as_str()).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    match others {
        [] => format!("forward is ready on {last}"),
        others => format!("forward is ready on {} and {last}", others.join(", ")),
    }
}

fn execute(
    args: &RunArgs,
    draft: &Draft,
    host: &Host<'_>,
    capabilities: &[&Capabilities],
    start: impl FnOnce(&ForwardPlan, &mut [Box<dyn Sink>]) -> std::result::Result<Summary, RunError>,
) -> Result<(Summary, Output)> {
    let plan = draft.plan(capabilities)?;
    let mut output = Output::open(args, host)?;
    output.when_ready(ready(&plan));
    let summary = start(&plan, &mut output.sinks)?;
    Ok((summary, output))
}
