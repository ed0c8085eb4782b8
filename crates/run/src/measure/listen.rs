//! `drop` and `reflect`.

use super::in_kernel;
use crate::draft::listen::Listener;
use crate::fail::Result;
use crate::host::{Host, Opens, Sinks};
use crate::paths::{KernelPlan, Opened, Opening, Work, open};
use crate::request::Run;
use mpps_engine::{run_drop, run_drop_in_kernel, run_reflect, run_reflect_in_kernel};
use mpps_plan::Workload;
use mpps_stats::Summary;

/// Opens the port, and runs.
pub(super) fn measure(run: &Run, listener: &Listener, host: &Host<'_>) -> Result<(Summary, Sinks)> {
    let drops = run.plan.workload == Workload::Drop;
    let work = if drops { Work::Ends } else { Work::SendsBack };
    let _prepared = host.prepare(&[&listener.port], &listener.rules, work)?;
    let port = vec![(&listener.port, listener.request())];
    let opening = Opening {
        run,
        rules: &listener.rules,
        interruptions: host.interruptions,
    };
    let mut ports = open(port, &opening)?;
    let lanes = ports.has_lanes();
    // Opens the readers. A sender may wait for the line that is printed when every lane receives.
    let readers = || {
        host.steps.open(Opens {
            lanes,
            remark: listener.left_ports(),
            ready: Some(format!(
                "{} is ready on {}{}",
                run.plan.workload.name(),
                listener.port.spec,
                listener.hears()
            )),
            ..Opens::PLAIN
        })
    };
    let capabilities = ports.capabilities()[0];
    if drops {
        let plan = listener.drop_plan(run, capabilities)?;
        let mut sinks = readers()?;
        let summary = match &mut ports {
            Opened::Lanes(ports) => run_drop(&*ports[0], &plan, &mut sinks, host.interruptions)?,
            Opened::Kernel(devices) => in_kernel(&mut **devices, KernelPlan::Drop(&plan), |port| {
                run_drop_in_kernel(port, &plan, &mut sinks, host.interruptions)
            })?,
        };
        return Ok((summary, sinks));
    }
    let plan = listener.reflect_plan(run, capabilities)?;
    let mut sinks = readers()?;
    let summary = match &mut ports {
        Opened::Lanes(ports) => run_reflect(&*ports[0], &plan, &mut sinks, host.interruptions)?,
        Opened::Kernel(devices) => in_kernel(&mut **devices, KernelPlan::Reflect(&plan), |port| {
            run_reflect_in_kernel(port, &plan, &mut sinks, host.interruptions)
        })?,
    };
    Ok((summary, sinks))
}
