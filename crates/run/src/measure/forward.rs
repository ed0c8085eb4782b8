//! `forward`.
//!
//! Ports of one path, however many, are opened together, as two of them may share packet memory; two ports of two paths
//! never do, and any path goes with any other.

use crate::draft::forward::Draft;
use crate::fail::Result;
use crate::host::{Host, Opens, Sinks};
use crate::paths::{KernelDevices, Kind, Opening, Use, UseTwo, Work, with_ports};
use crate::record;
use mpps_engine::{ForwardPlan, RunError, run_forward, run_forward_in_kernel, run_forward_pair};
use mpps_io::{Capabilities, Port};
use mpps_stats::{Sink, Summary};

/// Opens the ports, and runs.
pub(super) fn measure(draft: &Draft, host: &Host<'_>) -> Result<(Summary, Sinks)> {
    let work = match draft.ports.len() {
        1 => Work::SendsBack,
        _ => Work::Forwards,
    };
    let ports: Vec<_> = draft.ports.iter().map(|port| &port.port).collect();
    let _prepared = host.prepare(&ports, &draft.rules, work)?;
    let opening = Opening {
        run: &draft.args,
        rules: &draft.rules,
        interruptions: host.interruptions,
    };
    with_ports(draft.requests(), &opening, Forwarding { draft, host })
}

struct Forwarding<'a> {
    draft: &'a Draft,
    host: &'a Host<'a>,
}

impl Use for Forwarding<'_> {
    const KINDS: &'static [Kind] = &[Kind::Synthetic, Kind::Device];
    type Out = (Summary, Sinks);

    fn frames<P: Port>(self, ports: &[P]) -> Result<Self::Out> {
        let capabilities: Vec<_> = ports.iter().map(P::capabilities).collect();
        self.execute(&capabilities, |plan, sinks| {
            run_forward(ports, plan, sinks, self.host.interruptions)
        })
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<Self::Out> {
        let plan = self.draft.plan(&devices.capabilities())?;
        let mut sinks = self.open(&plan, false)?;
        let port = devices.forward(&plan)?;
        let run = || run_forward_in_kernel(&port, &plan, &mut sinks, self.host.interruptions);
        let summary = record::with_programs(std::slice::from_ref(&port), run)?;
        Ok((summary, sinks))
    }
}

impl UseTwo for Forwarding<'_> {
    fn two<A: Port, B: Port>(self, a: &A, b: &B) -> Result<Self::Out> {
        self.execute(&[a.capabilities(), b.capabilities()], |plan, sinks| {
            run_forward_pair(a, b, plan, sinks, self.host.interruptions)
        })
    }
}

impl Forwarding<'_> {
    fn open(&self, plan: &ForwardPlan, lanes: bool) -> Result<Sinks> {
        self.host.steps.open(Opens {
            lanes,
            ready: Some(ready(plan)),
            ..Opens::PLAIN
        })
    }

    fn execute(
        &self,
        capabilities: &[&Capabilities],
        start: impl FnOnce(&ForwardPlan, &mut [Box<dyn Sink>]) -> std::result::Result<Summary, RunError>,
    ) -> Result<(Summary, Sinks)> {
        let plan = self.draft.plan(capabilities)?;
        let mut sinks = self.open(&plan, true)?;
        let summary = start(&plan, &mut sinks)?;
        Ok((summary, sinks))
    }
}

/// Returns the line for the user once every lane receives.
fn ready(plan: &ForwardPlan) -> String {
    let names: Vec<_> = plan.ports.iter().map(|port| port.name.as_str()).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    match others {
        [] => format!("forward is ready on {last}"),
        others => format!("forward is ready on {} and {last}", others.join(", ")),
    }
}
