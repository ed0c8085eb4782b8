//! The workloads as the common part of a run sees them: the work of a lane once everything is open.

pub(crate) mod capture;
pub(crate) mod drop;
mod echo;
pub(crate) mod forward;
pub(crate) mod loop_guard;
pub(crate) mod loops;
pub(crate) mod reflect;
pub(crate) mod traffic;

use crate::codec::tagged::{TaggedCodec, run_of};
use crate::codec::{Ends, EthernetCodec, PayloadCodec};
use crate::lane::Lane;
use crate::outcome::LaneOutcome;
use crate::plan::{CapturePlan, DropPlan, ForwardPlan, Link, ReflectPlan, TrafficPlan};
use crate::receive::Receiver;
use crate::receive::traces::Traces;
use crate::send::generate::{Generator, SendShare};
use crate::send::sent::{LATE_NS, SentLog};
use crate::send::slip::Slips;
use crate::workload::capture::Quota;
use crate::workload::loops::Loops;
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
    /// The caller starts and stops packets and sets their rate: what was due is known from the lanes alone.
    pub(crate) ordered: bool,
    /// Number of the stream.
    pub(crate) stream: usize,
    pub(crate) tolerance: f64,
    pub(crate) tx_lanes: u64,
    /// Packets arrive at another port than they leave by.
    pub(crate) across: bool,
}

/// A workload as lanes on ports have it: its plan, or that of every trial of a session.
pub(crate) enum Work<'r> {
    Traffic(&'r TrafficPlan),
    Drop(&'r DropPlan),
    Reflect(&'r ReflectPlan),
    Capture(&'r CapturePlan, Quota),
    Forward(&'r ForwardPlan),
}

impl<'r> Work<'r> {
    /// Returns layer 2 of the first port, if mpps has a part in it, and the address that neighbours are asked from.
    pub(crate) fn link(&self) -> (Option<&'r Link>, Option<IpAddr>) {
        match self {
            Self::Traffic(plan) => (plan.link.as_ref(), Some(plan.src)),
            Self::Drop(plan) => (plan.link.as_ref(), plan.ip.as_ref().map(|ips| *ips.start())),
            Self::Reflect(plan) => (plan.link.as_ref(), plan.filter.ip.as_ref().map(|ips| *ips.start())),
            Self::Capture(..) | Self::Forward(_) => (None, None),
        }
    }

    /// Returns how long before the start lanes may go, ns: each keeps to the start itself.
    pub(crate) fn ahead_ns(&self) -> u64 {
        match self {
            Self::Traffic(plan) => {
                let flows = plan.each().map(|plan| u64::from(plan.flows.count())).max().unwrap_or(0);
                (AHEAD_NS + flows * AHEAD_A_FLOW_NS).min(MOST_AHEAD_NS)
            }
            _ => 0,
        }
    }

    /// Returns whether lane `lane` receives packets of every trial.
    pub(crate) fn receives(&self, lane: usize) -> bool {
        match self {
            Self::Traffic(plan) => plan.common.lanes[lane].rx,
            _ => true,
        }
    }
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
    /// Number of its stream.
    pub(crate) stream: usize,
    /// Data on packets of this session's trials so far.
    pub(crate) traces: Option<Arc<Traces>>,
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
            stream: 0,
            traces,
        }
    }

    /// Makes a trial of the way back of two. Source and destination of the plan are those of the packets of this track;
    /// the flows are those of the way there.
    pub(crate) fn back(plan: TrafficPlan, traces: Option<Arc<Traces>>, one_flow_per_burst: bool) -> Self {
        Self {
            turned: true,
            ..Self::new(plan, traces, one_flow_per_burst)
        }
    }

    /// Returns facts for the summary.
    pub(crate) fn facts(&self) -> WorkFacts {
        WorkFacts {
            frame_size: self.plan.frame_size,
            packet_len: self.plan.packet_len(),
            rates: self.plan.rates(),
            ordered: self.plan.common.streams.is_some(),
            stream: self.stream,
            tolerance: self.plan.tolerance,
            tx_lanes: self.tx_lanes as u64,
            across: self.plan.far.is_some(),
        }
    }

    /// Returns the trial as that of another stream.
    pub(crate) fn of_stream(self, stream: usize) -> Self {
        Self { stream, ..self }
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
                    orders: self
                        .plan
                        .common
                        .streams
                        .as_ref()
                        .map(|streams| streams.followed(self.stream)),
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

/// Runs lane `index` through a trial: its sent packets belong to the first trial, its received ones to the second. Both
/// are the same unless packets go in several tracks. It is called ahead of the start ([`Work::ahead_ns`]), and waits
/// for the start once it is ready. A million flows take milliseconds, and no packet may be late because of them.
#[inline(never)]
pub(crate) fn send_and_take<Q: Queue, L: Loops>(
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
    match (&plan.link, &plan.packets, capabilities.layer) {
        (Some(link), Some(packets), Layer::Ethernet) if const { L::FRAMES } => {
            let to = dest_mac.or(link.dest_mac).unwrap_or(MacAddr::BROADCAST);
            let trial = sent.traces.as_ref().map_or(1, |traces| traces.trials);
            let run = run_of(plan.common.run_id, trial);
            let codec = TaggedCodec::new(packets, run, [to, link.mac], plan.far.is_none());
            let receiver = receiver.map(|mut receiver| {
                receiver.compared = codec.compared();
                receiver
            });
            traffic::run(lane, queue, &codec, generator, receiver, recorder, settle_ns)
        }
        (Some(link), None, Layer::Ethernet) if const { L::FRAMES } => {
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
            traffic::run(lane, queue, &codec, generator, receiver, recorder, settle_ns)
        }
        _ if const { L::PAYLOADS } => {
            let template = PayloadTemplate::new(plan.payload_len, seed).expect("validated plan");
            let codec = PayloadCodec {
                template,
                flows: plan.flows.count(),
                seed,
            };
            traffic::run(lane, queue, &codec, generator, receiver, recorder, settle_ns)
        }
        _ => unreachable!("the plan was made for a port of another layer"),
    }
}
