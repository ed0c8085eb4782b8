//! The workloads as the common part of a run sees them: the work of a lane once everything is open.

pub(crate) mod capture;
pub(crate) mod drop;
mod echo;
pub(crate) mod forward;
pub(crate) mod loop_guard;
pub(crate) mod reflect;
pub(crate) mod traffic;

use crate::lane::Lane;
use crate::lane::neighbor::{Found, Neighbor};
use crate::plan::{CapturePlan, DropPlan, Link, ReflectPlan, TrafficPlan};
use crate::receive::Receiver;
use crate::receive::codec::{Ends, EthernetCodec, PayloadCodec};
use crate::run::crew::wait_until;
use crate::run::outcome::LaneOutcome;
use crate::run::traces::{self, Traces};
use crate::send::generate::{Generator, SendShare};
use crate::send::sent::{LATE_NS, SentLog};
use crate::send::slip::Slips;
use crate::workload::capture::Quota;
use mpps_io::{Capabilities, Layer, Queue};
use mpps_stats::Recorder;
use mpps_wire::{ChecksumMode, MacAddr, PayloadTemplate, Template, TemplateSpec};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Packets in flight that sequence windows are made for when the rate is not known.
const UNPACED_SPAN: u64 = 1 << 24;

/// Time for a lane to write down its flows and to make room for their sequence numbers, ns per flow: ten times the time
/// that an idle host needs. A lane that has no time left is late even so.
const AHEAD_A_FLOW_NS: u64 = 200;
/// Time for preparation that does not depend on the number of flows, ns.
const AHEAD_NS: u64 = 1_000_000;
/// Longest time by which a start is put off for preparation, ns: the time for 10 million flows.
const MOST_AHEAD_NS: u64 = 2_000_000_000;

/// Returns the packets in flight that sequence windows are made for.
pub(crate) fn span(pps: Option<f64>, settle: Duration) -> u64 {
    // A packet may be late by more than the settle time, and must still be distinguished from a duplicate.
    pps.map_or(UNPACED_SPAN, |pps| (pps * (2.0 * settle.as_secs_f64() + 2.0)) as u64)
}

/// Facts of a plan for the summary.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkFacts {
    pub(crate) frame_size: usize,
    /// Bytes of an IP packet.
    pub(crate) packet_len: usize,
    pub(crate) rates: Option<crate::Rates>,
    pub(crate) tolerance: f64,
    pub(crate) tx_lanes: u64,
    /// Packets arrive at another port than they leave by.
    pub(crate) across: bool,
}

/// A workload.
pub(crate) trait Work: Sync {
    /// State of one trial: see [`Job::Trial`](crate::run::job::Job::Trial).
    type Trial: Send + Sync;

    /// Returns layer 2, on Ethernet paths.
    fn link(&self) -> Option<&Link> {
        None
    }
    /// Returns the address that neighbours are asked from.
    fn src(&self) -> Option<IpAddr> {
        None
    }
    /// Returns how long before the start lanes may go, ns: see [`Desk::ahead_ns`](crate::run::job::Desk::ahead_ns).
    fn ahead_ns(&self) -> u64 {
        0
    }
    /// Returns facts for the summary.
    fn facts(&self, _trial: &Self::Trial) -> WorkFacts {
        WorkFacts::default()
    }
    /// Returns data on packets of a trial: see [`Job::traces`](crate::run::job::Job::traces).
    fn traces(&self, _trial: &Self::Trial) -> Option<Arc<Traces>> {
        None
    }
    /// Attends a lane's queue between two trials: see [`Job::attend`](crate::run::job::Job::attend).
    fn attend<Q: Queue>(&self, _lane: usize, _queue: &mut Q, _found: &Found, _traces: Option<&Traces>) -> u64 {
        0
    }
    /// Runs lane `index` through a trial.
    fn lane<Q: Queue>(
        &self,
        index: usize,
        lane: Lane<'_>,
        queue: &mut Q,
        recorder: Recorder<'_>,
        capabilities: &Capabilities,
        trial: &Self::Trial,
    ) -> LaneOutcome;
}

/// `sendrecv` and `send`: settings of every trial of a session.
pub(crate) struct TrafficWork<'r> {
    pub(crate) opening: &'r TrafficPlan,
}

/// One trial of `sendrecv` or `send`.
pub(crate) struct TrafficTrial {
    pub(crate) plan: TrafficPlan,
    /// Packets go the other way: from each flow's destination to its source.
    turned: bool,
    slips: Option<Slips>,
    /// Numbers that each send lane has sent; empty if nothing comes back.
    logs: Vec<SentLog>,
    tx_lanes: usize,
    /// Data on packets of this session's trials so far.
    traces: Option<Arc<Traces>>,
}

/// Makes a log for each lane of a plan that sends. `one_flow_per_burst`: lanes send a burst of one flow at a time.
/// Empty if nothing comes back.
fn sent_logs(plan: &TrafficPlan, one_flow_per_burst: bool) -> Vec<SentLog> {
    let lanes = plan.common.lanes.iter().filter(|lane| lane.tx).count() as u32;
    if !plan.receive {
        return Vec::new();
    }
    let pps = plan.rates().map(|rates| rates.highest_pps());
    let keep_ns = (plan.common.settle.as_nanos() as u64).saturating_add(LATE_NS);
    let log = |lane| {
        let flows = u64::from(plan.flows.count_of_lane(lane, lanes));
        SentLog::new(flows, one_flow_per_burst, u64::from(lanes), pps, keep_ns)
    };
    (0..lanes).map(log).collect()
}

impl TrafficTrial {
    /// Makes a trial. `one_flow_per_burst`: the port that packets leave by takes bursts of one flow only.
    pub(crate) fn new(plan: TrafficPlan, traces: Option<Arc<Traces>>, one_flow_per_burst: bool) -> Self {
        Self {
            slips: Slips::for_plan(&plan),
            logs: sent_logs(&plan, one_flow_per_burst),
            tx_lanes: plan.common.lanes.iter().filter(|lane| lane.tx).count(),
            plan,
            turned: false,
            traces,
        }
    }

    /// Makes a trial of the way back of two. Source and destination of the plan are those of the packets of this way;
    /// the flows are those of the way there.
    pub(crate) fn back(plan: TrafficPlan, traces: Option<Arc<Traces>>, one_flow_per_burst: bool) -> Self {
        Self {
            turned: true,
            ..Self::new(plan, traces, one_flow_per_burst)
        }
    }

    fn generator(&self, index: usize, capabilities: &Capabilities, start_ns: u64) -> Option<Generator<'_>> {
        let lanes = &self.plan.common.lanes;
        lanes[index].tx.then(|| {
            let lane = lanes[..index].iter().filter(|l| l.tx).count();
            Generator::new(
                &self.plan,
                SendShare {
                    slips: self.slips.as_ref(),
                    log: self.logs.get(lane),
                    lane: lane as u32,
                    lanes: self.tx_lanes as u32,
                    one_flow_per_burst: capabilities.one_flow_per_burst,
                    start_ns,
                    turned: self.turned,
                },
            )
        })
    }

    fn receiver(&self, index: usize, start_ns: u64) -> Option<Receiver<'_>> {
        let plan = &self.plan;
        let span = span(plan.rates().map(|rates| rates.highest_pps()), plan.common.settle);
        let receiver = || {
            let mut receiver = Receiver::new(plan.flows.count(), span, self.slips.as_ref(), &self.logs, start_ns);
            receiver.traces = self.traces.as_deref();
            receiver
        };
        (plan.receive && plan.common.lanes[index].rx).then(receiver)
    }
}

impl Work for TrafficWork<'_> {
    type Trial = TrafficTrial;

    fn link(&self) -> Option<&Link> {
        self.opening.link.as_ref()
    }

    fn src(&self) -> Option<IpAddr> {
        Some(self.opening.src)
    }

    fn ahead_ns(&self) -> u64 {
        (AHEAD_NS + u64::from(self.opening.flows.count()) * AHEAD_A_FLOW_NS).min(MOST_AHEAD_NS)
    }

    fn facts(&self, trial: &TrafficTrial) -> WorkFacts {
        WorkFacts {
            frame_size: trial.plan.frame_size,
            packet_len: trial.plan.packet_len(),
            rates: trial.plan.rates(),
            tolerance: trial.plan.tolerance,
            tx_lanes: trial.tx_lanes as u64,
            across: trial.plan.far.is_some(),
        }
    }

    fn traces(&self, trial: &TrafficTrial) -> Option<Arc<Traces>> {
        trial.traces.clone()
    }

    fn attend<Q: Queue>(&self, lane: usize, queue: &mut Q, found: &Found, traces: Option<&Traces>) -> u64 {
        if !self.opening.common.lanes[lane].rx {
            return 0;
        }
        let neighbor = self
            .link()
            .map(|link| Neighbor::new(link, Some(self.opening.src), found));
        traces::attend(queue, neighbor.as_ref(), traces)
    }

    fn lane<Q: Queue>(
        &self,
        index: usize,
        lane: Lane<'_>,
        queue: &mut Q,
        recorder: Recorder<'_>,
        capabilities: &Capabilities,
        trial: &TrafficTrial,
    ) -> LaneOutcome {
        send_and_take(index, lane, queue, recorder, capabilities, [trial, trial])
    }
}

/// Runs lane `index` through a trial: its sent packets belong to the first trial, its received ones to the second. Both
/// are the same unless packets go in two ways. It is called ahead of the start ([`Work::ahead_ns`]), and waits for the
/// start once it is ready. A million flows take milliseconds, and no packet may be late because of them.
pub(crate) fn send_and_take<Q: Queue>(
    index: usize,
    lane: Lane<'_>,
    queue: &mut Q,
    recorder: Recorder<'_>,
    capabilities: &Capabilities,
    [sent, taken]: [&TrafficTrial; 2],
) -> LaneOutcome {
    let plan = &sent.plan;
    let generator = sent.generator(index, capabilities, lane.start_ns);
    let receiver = taken.receiver(index, lane.start_ns);
    let dest_mac = lane.dest_mac;
    let settle_ns = if plan.receive {
        plan.common.settle.as_nanos() as u64
    } else {
        0
    };
    let seed = plan.common.seed;
    match (&plan.link, capabilities.layer) {
        (Some(link), Layer::Ethernet) => {
            let spec = TemplateSpec {
                src_mac: link.mac,
                dst_mac: dest_mac.or(link.dest_mac).unwrap_or(MacAddr::BROADCAST),
                vlan: link.vlan,
                src: plan.src,
                dst: plan.dst,
                payload_len: plan.payload_len,
                ttl: plan.ttl,
                dscp: plan.dscp,
                seed,
                checksum: if capabilities.tx_checksum {
                    ChecksumMode::Device
                } else {
                    ChecksumMode::Software
                },
            };
            // The plan was validated; a template that can't be made from it is a defect.
            let template = Template::new(&spec).expect("validated plan");
            let arrives = &taken.plan;
            // For both ways, flows have the ends that they have on the way there.
            let (src, dst) = match taken.turned {
                false => (arrives.src, arrives.dst),
                true => (arrives.dst, arrives.src),
            };
            let codec = EthernetCodec {
                template,
                ends: Ends {
                    flows: arrives.flows.clone(),
                    src,
                    dst,
                    as_sent: arrives.far.is_some() && !taken.turned,
                },
                turned: sent.turned,
                seed: arrives.common.seed,
            };
            wait_until(&lane.clock, lane.start_ns, lane.control);
            traffic::run(lane, queue, &codec, generator, receiver, recorder, settle_ns)
        }
        _ => {
            let template = PayloadTemplate::new(plan.payload_len, seed).expect("validated plan");
            let codec = PayloadCodec {
                template,
                flows: plan.flows.count(),
                seed,
            };
            wait_until(&lane.clock, lane.start_ns, lane.control);
            traffic::run(lane, queue, &codec, generator, receiver, recorder, settle_ns)
        }
    }
}

pub(crate) struct DropWork<'r> {
    pub(crate) plan: &'r DropPlan,
}

impl Work for DropWork<'_> {
    type Trial = ();

    fn link(&self) -> Option<&Link> {
        self.plan.link.as_ref()
    }

    fn src(&self) -> Option<IpAddr> {
        self.plan.ip.as_ref().map(|ips| *ips.start())
    }

    fn lane<Q: Queue>(
        &self,
        _index: usize,
        lane: Lane<'_>,
        queue: &mut Q,
        recorder: Recorder<'_>,
        capabilities: &Capabilities,
        _trial: &(),
    ) -> LaneOutcome {
        drop::run(lane, queue, self.plan, capabilities.layer, recorder)
    }
}

pub(crate) struct ReflectWork<'r> {
    pub(crate) plan: &'r ReflectPlan,
}

impl Work for ReflectWork<'_> {
    type Trial = ();

    fn link(&self) -> Option<&Link> {
        self.plan.link.as_ref()
    }

    fn src(&self) -> Option<IpAddr> {
        self.plan.filter.ip.as_ref().map(|ips| *ips.start())
    }

    fn lane<Q: Queue>(
        &self,
        _index: usize,
        lane: Lane<'_>,
        queue: &mut Q,
        recorder: Recorder<'_>,
        capabilities: &Capabilities,
        _trial: &(),
    ) -> LaneOutcome {
        let (filter, on_full) = (&self.plan.filter, self.plan.on_full);
        reflect::run(lane, queue, filter, capabilities.layer, on_full, recorder)
    }
}

pub(crate) struct CaptureWork<'r> {
    pub(crate) plan: &'r CapturePlan,
    pub(crate) quota: Quota,
}

impl Work for CaptureWork<'_> {
    type Trial = ();

    fn lane<Q: Queue>(
        &self,
        index: usize,
        lane: Lane<'_>,
        queue: &mut Q,
        recorder: Recorder<'_>,
        _capabilities: &Capabilities,
        _trial: &(),
    ) -> LaneOutcome {
        let ring = self.plan.rings[index].lock().ok().and_then(|mut ring| ring.take());
        // Each lane runs once, and the plan has a ring for each.
        let ring = ring.expect("a ring per lane");
        capture::run(lane, queue, self.plan, &self.quota, ring, recorder)
    }
}
