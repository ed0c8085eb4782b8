//! The runs that are one trial on ports. Their common parts are in [`crew`](crate::run::crew).

use crate::books::Layout;
use crate::error::RunError;
use crate::plan::{CapturePlan, Common, DropPlan, ForwardPlan, LanePlan, ReflectPlan, TrafficPlan};
use crate::receive::traces::Traces;
use crate::run::any_port::{AnyPort, LaneStart};
use crate::run::crew::{Order, run_job};
use crate::run::on_ports::OnPorts;
use crate::workload::{TrafficTrial, Work, capture, mixed};
use mpps_stats::{CaptureSummary, Sink, Summary, Workload};
use std::sync::Arc;

/// Runs `sendrecv` or `send`. Sinks get every row. `interruptions` is called every 20 ms and returns how often the user
/// has asked for the end: the first time ends the sending, another time the settling.
///
/// `ports` is one port, or a port for each plan that runs beside another ([`TrafficPlan::with_beside`]), or two: then
/// packets leave by the first and arrive at the second, and both ways ([`TrafficPlan::back`]) also the other way round.
/// One way, sending lanes of the plan have the queues of the first port in their order, receiving lanes have the queues
/// of the second, and no lane does both. The plan says how packets leave ([`TrafficPlan::link`]) and how they arrive
/// ([`TrafficPlan::far`]).
///
/// # Errors
/// When the run could not take place. A run that took place but whose numbers can't be believed is no error: see
/// [`Summary::valid`].
pub fn run_traffic(
    ports: &[&dyn AnyPort],
    plan: &TrafficPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let order = order(plan.clone(), Vec::new(), &by_burst(ports));
    run_job(&OnPorts::traffic(ports, plan), order, sinks, interruptions)
}

/// Returns whether each port takes bursts of one flow only.
pub(crate) fn by_burst(ports: &[&dyn AnyPort]) -> Vec<bool> {
    let of = |port: &&dyn AnyPort| port.port().capabilities().one_flow_per_burst;
    ports.iter().map(of).collect()
}

/// Returns the order of a trial in one track.
fn traffic(plan: TrafficPlan, traces: Option<Arc<Traces>>, one_flow_per_burst: bool) -> Order {
    let workload = if plan.receive {
        Workload::SendRecv
    } else {
        Workload::Send
    };
    Order {
        layout: mixed(&plan).map(|packets| Arc::new(Layout::of(packets))),
        common: plan.common.clone(),
        workload,
        settle_ns: plan.common.settle.as_nanos() as u64,
        paced: plan.receive && plan.rate.is_some(),
        traffic: vec![TrafficTrial::new(plan, traces, one_flow_per_burst)],
    }
}

/// Returns the order of a trial of `sendrecv` or `send`, after trials that left `traces`: one for each track, none for
/// a run of one trial. `one_flow_per_burst`: whether each port takes bursts of one flow only.
///
/// Both ways, all lanes of the plan send and receive. The first half has the queues of the first port, the other half
/// those of the second. The plan is that of the way from the first to the second; both of its links
/// ([`TrafficPlan::link`], [`TrafficPlan::far`]) say how packets leave there and arrive. The way back has the same
/// rate, sizes and flows, with addresses and ports exchanged: its packets look like answers, so devices in between pass
/// them on. Its seed is the next one, so that a packet that is turned round on its way is not taken for a packet of the
/// other way. Payloads that hold no data (16 bytes) do not show the difference.
pub(crate) fn order(plan: TrafficPlan, traces: Vec<Arc<Traces>>, one_flow_per_burst: &[bool]) -> Order {
    if !plan.beside.is_empty() {
        return beside(plan, traces, one_flow_per_burst);
    }
    let mut traces = traces.into_iter();
    if plan.back.is_none() {
        return traffic(plan, traces.next(), one_flow_per_burst[0]);
    }
    let half = plan.common.lanes.len() / 2;
    let one_track = |track: usize| {
        let lane = |(i, lane): (usize, &LanePlan)| {
            let sends = usize::from(i >= half);
            LanePlan {
                rx: sends != track,
                tx: sends == track,
                ..*lane
            }
        };
        plan.common.lanes.iter().enumerate().map(lane).collect()
    };
    let there = TrafficPlan {
        common: Common {
            lanes: one_track(0),
            ..plan.common.clone()
        },
        ..plan.clone()
    };
    let mut back = plan.way_back();
    back.common.lanes = one_track(1);
    let mut order = traffic(there, traces.next(), one_flow_per_burst[0]);
    let back = TrafficTrial::back(back, traces.next(), one_flow_per_burst[1]);
    order.traffic.push(back);
    Order {
        common: plan.common,
        ..order
    }
}

/// Returns the order of a trial of plans that run beside each other: each is a track of its own, in which the lanes of
/// the others do nothing.
fn beside(mut plan: TrafficPlan, traces: Vec<Arc<Traces>>, one_flow_per_burst: &[bool]) -> Order {
    let all = plan.common.clone();
    let own = plan.own_lanes();
    let others = std::mem::take(&mut plan.beside);
    plan.common.lanes.truncate(own);
    let mut traces = traces.into_iter();
    let mut before = 0;
    let mut order = Order::of(&all, Workload::Send);
    for (stream, mut plan) in std::iter::once(plan).chain(others).enumerate() {
        let lanes = std::mem::take(&mut plan.common.lanes);
        let idle = |lane: &LanePlan| LanePlan {
            rx: false,
            tx: false,
            ..*lane
        };
        let after = before + lanes.len();
        let (first, last) = (&all.lanes[..before], &all.lanes[after..]);
        plan.common = Common {
            lanes: first
                .iter()
                .map(idle)
                .chain(lanes)
                .chain(last.iter().map(idle))
                .collect(),
            streams: all.streams.clone(),
            duration: all.duration,
            interval: all.interval,
            settle: all.settle,
            ..plan.common
        };
        before = after;
        let of = traffic(plan, traces.next(), one_flow_per_burst[stream]);
        let trials = of.traffic.into_iter().map(|trial| trial.of_stream(stream));
        let traffic = order.traffic.into_iter().chain(trials).collect();
        let paced = of.paced || order.paced;
        let workload = match (of.workload, order.workload) {
            (Workload::Send, workload) => workload,
            (workload, _) => workload,
        };
        order = Order {
            traffic,
            paced,
            workload,
            settle_ns: of.settle_ns,
            ..order
        };
    }
    order
}

/// Runs `drop`, otherwise as [`run_traffic`].
///
/// # Errors
/// Returns the errors of [`run_traffic`].
pub fn run_drop(
    port: &dyn AnyPort,
    plan: &DropPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let (job, common) = (Work::Drop(plan), &plan.common);
    let order = Order {
        layout: plan
            .streams
            .as_ref()
            .map(|packets| Arc::new(Layout::of_streams(packets))),
        ..Order::of(common, Workload::Drop)
    };
    on_one(port, job, order, sinks, interruptions)
}

/// Runs `reflect`, otherwise as [`run_traffic`].
///
/// # Errors
/// Returns the errors of [`run_traffic`].
pub fn run_reflect(
    port: &dyn AnyPort,
    plan: &ReflectPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let (job, common) = (Work::Reflect(plan), &plan.common);
    on_one(port, job, Order::of(common, Workload::Reflect), sinks, interruptions)
}

/// Runs `capture`, otherwise as [`run_traffic`]. `finish` is called once the lanes have ended and released their rings:
/// it waits for the writer, and fills in the packets' fate.
///
/// # Errors
/// Returns the errors of [`run_traffic`].
pub fn run_capture(
    port: &dyn AnyPort,
    plan: &CapturePlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
    finish: impl FnOnce(&Summary, &mut CaptureSummary),
) -> Result<Summary, RunError> {
    let work = Work::Capture(plan, capture::Quota::new(plan.count));
    let order = Order::of(&plan.common, Workload::Capture);
    let mut summary = on_one(port, work, order, sinks, interruptions)?;
    let mut counted = capture::counted(&summary, plan);
    finish(&summary, &mut counted);
    capture::judge(&mut summary, counted);
    Ok(summary)
}

fn on_one(
    port: &dyn AnyPort,
    work: Work<'_>,
    order: Order,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let job = OnPorts::one(port, order.common.lanes.len(), work);
    run_job(&job, order, sinks, interruptions)
}

/// Joins two ports of different paths for `forward`, with [`pair`](crate::pair): only a caller that knows all paths
/// can.
pub type Join<'j, 'p> = &'j dyn Fn(&'p dyn AnyPort, &'p dyn AnyPort) -> Option<Box<dyn LaneStart + 'p>>;

/// Runs `forward`: between the two ports of each pair, and back out of an odd last one ([`ForwardPlan::ports`]). Frames
/// of a pair move without a copy if its ports share packet memory
/// ([`Port::shares_pools_with`](mpps_io::Port::shares_pools_with)), else they are copied once. `ports` contains a port
/// for each of the plan's, in its order, with a queue for each lane that serves it. `join` is asked
/// first, for pairs of different paths. Otherwise the run is as with [`run_traffic`].
///
/// # Errors
/// Returns the errors of [`run_traffic`], and [`RunError::Unpaired`] for a pair of different paths that `join` does not
/// know.
pub fn run_forward<'p>(
    ports: &[&'p dyn AnyPort],
    join: Join<'_, 'p>,
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let joined = |two: &[&'p dyn AnyPort]| {
        let (first, second) = (two[0], two[1]);
        let pair = join(first, second).or_else(|| first.with_alike(second));
        pair.ok_or_else(|| RunError::Unpaired([first, second].map(|port| port.port().capabilities().path)))
    };
    let pairs = ports.chunks_exact(2).map(joined).collect::<Result<Vec<_>, _>>()?;
    let job = OnPorts::forward(ports, &pairs, plan);
    run_job(&job, Order::of(&plan.common, Workload::Forward), sinks, interruptions)
}
