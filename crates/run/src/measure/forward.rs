//! `forward`.
//!
//! Ports of one path, however many, are opened together, as two of them may share packet memory; two ports of two paths
//! never do, and any path goes with any other.

use super::in_kernel;
use crate::draft::forward::Draft;
use crate::fail::Result;
use crate::host::{Host, Opens, Sinks};
use crate::paths::{KernelPlan, Opened, Opening, Work, join, open};
use mpps_engine::{ForwardPlan, run_forward, run_forward_in_kernel};
use mpps_stats::Summary;

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
    let mut opened = open(draft.requests(), &opening)?;
    let plan = draft.plan(&opened.capabilities())?;
    let mut sinks = host.steps.open(Opens {
        lanes: opened.has_lanes(),
        ready: Some(ready(&plan)),
        ..Opens::PLAIN
    })?;
    let summary = match &mut opened {
        Opened::Lanes(ports) => {
            let ports: Vec<_> = ports.iter().map(|port| &**port).collect();
            run_forward(&ports, &join, &plan, &mut sinks, host.interruptions)?
        }
        Opened::Kernel(devices) => in_kernel(&mut **devices, KernelPlan::Forward(&plan), |port| {
            run_forward_in_kernel(port, &plan, &mut sinks, host.interruptions)
        })?,
    };
    Ok((summary, sinks))
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
