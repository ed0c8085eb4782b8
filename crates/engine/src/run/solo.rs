//! The runs on one port. Their common parts are in [`crew`](crate::run::crew).

use crate::error::RunError;
use crate::plan::{CapturePlan, DropPlan, ReflectPlan, TrafficPlan};
use crate::run::crew::{Order, run_job};
use crate::run::job::Solo;
use crate::run::traces::Traces;
use crate::workload::capture;
use crate::workload::{CaptureWork, DropWork, ReflectWork, TrafficTrial, TrafficWork};
use mpps_io::Port;
use mpps_stats::{CaptureSummary, Sink, Summary, Workload};
use std::sync::Arc;

/// Runs `sendrecv` or `send`. Sinks get every row. `interruptions` is called every 20 ms and returns how often the user
/// has asked for the end: the first time ends the sending, another time the settling.
///
/// # Errors
/// When the run could not take place. A run that took place but whose numbers can't be believed is no error: see
/// [`Summary::valid`].
pub fn run_traffic<P: Port>(
    port: &P,
    plan: &TrafficPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let job = Solo {
        port,
        work: &TrafficWork { opening: plan },
    };
    let order = traffic(plan.clone(), None, [port.capabilities().one_flow_per_burst; 2]);
    run_job(&job, order, sinks, interruptions)
}

/// Returns the order of a trial of `sendrecv` or `send`, after trials that left `traces`. `one_flow_per_burst`: whether
/// the port that packets leave by takes bursts of one flow only, then whether the port that they arrive at does.
pub(crate) fn traffic(
    plan: TrafficPlan,
    traces: Option<Arc<Traces>>,
    one_flow_per_burst: [bool; 2],
) -> Order<TrafficTrial> {
    let workload = if plan.receive {
        Workload::SendRecv
    } else {
        Workload::Send
    };
    Order {
        common: plan.common.clone(),
        workload,
        settle_ns: plan.common.settle.as_nanos() as u64,
        paced: plan.receive && plan.rate.is_some(),
        own: TrafficTrial::new(plan, traces, one_flow_per_burst[0]),
    }
}

/// Runs `drop`, otherwise as [`run_traffic`].
///
/// # Errors
/// Returns the errors of [`run_traffic`].
pub fn run_drop<P: Port>(
    port: &P,
    plan: &DropPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let job = Solo {
        port,
        work: &DropWork { plan },
    };
    run_job(&job, Order::of(&plan.common, Workload::Drop, ()), sinks, interruptions)
}

/// Runs `reflect`, otherwise as [`run_traffic`].
///
/// # Errors
/// Returns the errors of [`run_traffic`].
pub fn run_reflect<P: Port>(
    port: &P,
    plan: &ReflectPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let job = Solo {
        port,
        work: &ReflectWork { plan },
    };
    run_job(
        &job,
        Order::of(&plan.common, Workload::Reflect, ()),
        sinks,
        interruptions,
    )
}

/// Runs `capture`, otherwise as [`run_traffic`]. `finish` is called once the lanes have ended and released their rings:
/// it waits for the writer, and fills in the packets' fate.
///
/// # Errors
/// Returns the errors of [`run_traffic`].
pub fn run_capture<P: Port>(
    port: &P,
    plan: &CapturePlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
    finish: impl FnOnce(&Summary, &mut CaptureSummary),
) -> Result<Summary, RunError> {
    let work = CaptureWork {
        plan,
        quota: capture::Quota::new(plan.count),
    };
    let job = Solo { port, work: &work };
    let order = Order::of(&plan.common, Workload::Capture, ());
    let mut summary = run_job(&job, order, sinks, interruptions)?;
    let mut counted = capture::counted(&summary, plan);
    finish(&summary, &mut counted);
    capture::judge(&mut summary, counted);
    Ok(summary)
}
