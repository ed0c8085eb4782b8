//! `forward`.
//!
//! Ports of one path, however many, are opened together, as two of them may share packet memory; two ports of two paths
//! never do, and any path goes with any other.

use super::output::Output;
use super::steps::{prepare, printed};
use crate::cli::Forward;
use crate::fail::Result;
use crate::paths::{KernelDevices, Kind, Opening, Use, UseTwo, Work, with_ports};
use crate::plan::forward::Draft;
use mpps_engine::{ForwardPlan, RunError, run_forward, run_forward_in_kernel, run_forward_pair};
use mpps_io::{Capabilities, Port};
use mpps_stats::{Sink, Summary};
use mpps_sys::signal::interruptions;
use std::process::ExitCode;

pub(crate) fn run(args: Forward) -> Result<ExitCode> {
    let draft = Draft::new(args)?;
    if let Some(code) = printed(&draft.args.run)? {
        return Ok(code);
    }
    let work = match draft.ports.len() {
        1 => Work::SendsBack,
        _ => Work::Forwards,
    };
    let run = &draft.args.run;
    let ports: Vec<_> = draft.ports.iter().map(|port| &port.port).collect();
    let _prepared = prepare(run, &ports, &draft.rules, work)?;
    with_ports(
        draft.requests(),
        &Opening {
            run,
            rules: &draft.rules,
        },
        Forwarding(&draft),
    )
}

struct Forwarding<'a>(&'a Draft);

impl Use for Forwarding<'_> {
    const KINDS: &'static [Kind] = &[Kind::Synthetic, Kind::Device];
    type Out = ExitCode;

    fn frames<P: Port>(self, ports: &[P]) -> Result<ExitCode> {
        let capabilities: Vec<_> = ports.iter().map(P::capabilities).collect();
        execute(self.0, &capabilities, |plan, sinks| {
            run_forward(ports, plan, sinks, &interruptions)
        })
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<ExitCode> {
        let run = &self.0.args.run;
        let mut output = Output::open(run)?;
        let plan = self.0.plan(&devices.capabilities())?;
        let port = devices.forward(&plan)?;
        output.when_ready(run, ready(&plan));
        let summary = run_forward_in_kernel(&port, &plan, &mut output.sinks, &interruptions)?;
        output.finish(&summary)
    }
}

impl UseTwo for Forwarding<'_> {
    fn two<A: Port, B: Port>(self, a: &A, b: &B) -> Result<ExitCode> {
        execute(self.0, &[a.capabilities(), b.capabilities()], |plan, sinks| {
            run_forward_pair(a, b, plan, sinks, &interruptions)
        })
    }
}

/// What is said once it is ready.
fn ready(plan: &ForwardPlan) -> String {
    let names: Vec<_> = plan.ports.iter().map(|port| port.name.as_str()).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    match others {
        [] => format!("forward is ready on {last}"),
        others => format!("forward is ready on {} and {last}", others.join(", ")),
    }
}

fn execute(
    draft: &Draft,
    capabilities: &[&Capabilities],
    start: impl FnOnce(&ForwardPlan, &mut [Box<dyn Sink>]) -> std::result::Result<Summary, RunError>,
) -> Result<ExitCode> {
    let run = &draft.args.run;
    let mut output = Output::open(run)?;
    let plan = draft.plan(capabilities)?;
    output.when_ready(run, ready(&plan));
    let summary = start(&plan, &mut output.sinks)?;
    output.finish(&summary)
}
