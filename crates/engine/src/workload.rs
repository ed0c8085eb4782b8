//! The workloads as the common part of a run sees them: the work of a lane once everything is open.

pub(crate) mod capture;
pub(crate) mod drop;
mod echo;
pub(crate) mod forward;
pub(crate) mod loop_guard;
pub(crate) mod loops;
pub(crate) mod reflect;
pub(crate) mod traffic;

use crate::books::Books;
use crate::codec::captured::Flown;
use crate::codec::mix::MixCodec;
use crate::codec::tagged::{TaggedCodec, run_of};
use crate::codec::{Ends, EthernetCodec, PayloadCodec};
use crate::lane::Lane;
use crate::outcome::LaneOutcome;
use crate::plan::{CapturePlan, DropPlan, ForwardPlan, KnownBy, Link, Packets, ReflectPlan, Replay, TrafficPlan};
use crate::receive::traces::Traces;
use crate::receive::{Part, Receiver, WINDOW_BYTES};
use crate::send::ahead::Reading;
use crate::send::generate::{Generator, SendShare};
use crate::send::mix::{Mix, MixShare};
use crate::send::sent::{LATE_NS, SentLog};
use crate::send::slip::Slips;
use crate::workload::capture::Quota;
use crate::workload::loops::Loops;
use mpps_io::{Capabilities, Layer, Pacing, Queue};
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
/// Time for a lane to make the image of one size of a stream, and room for the numbers of the stream, ns: five times
/// the time that an idle host needs.
const AHEAD_AN_IMAGE_NS: u64 = 100_000;
/// Time for preparation that does not depend on the number of flows, ns.
const AHEAD_NS: u64 = 1_000_000;
/// Longest time by which a start is put off for preparation, ns: the time for 10 million flows and 65,536 sizes.
const MOST_AHEAD_NS: u64 = 8_000_000_000;

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
    /// The caller starts and stops packets and sets their rate, or streams have rates of their own: what was due is
    /// known from the lanes alone.
    pub(crate) ordered: bool,
    /// There are times in which nothing is sent: no packet coming is then no outage.
    pub(crate) pauses: bool,
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
                let packets = plan.packets.as_ref();
                let images = packets.map_or(0, |of| of.streams.iter().map(|stream| stream.specs.len()).sum());
                let images = images as u64 * AHEAD_AN_IMAGE_NS;
                (AHEAD_NS + flows * AHEAD_A_FLOW_NS + images).min(MOST_AHEAD_NS)
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
    /// By stream of packets: how much later than scheduled packets were sent.
    slips: Vec<Option<Slips>>,
    /// By stream of packets: numbers that each of its send lanes has sent; empty if nothing comes back.
    logs: Vec<Vec<SentLog>>,
    /// By stream of packets: what lanes know together of the frames of a capture; none if nothing comes back and no
    /// frame is read meanwhile.
    flown: Vec<Option<Arc<Flown>>>,
    /// Captures that are read while they are sent.
    readings: Vec<Reading>,
    /// By stream of packets: places of its lanes among those that send; empty if all send.
    senders: Vec<Vec<usize>>,
    tx_lanes: usize,
    /// Number of its stream.
    pub(crate) stream: usize,
    /// Data on packets of this session's trials so far.
    pub(crate) traces: Option<Arc<Traces>>,
}

/// Makes a log for each of `lanes` lanes that send these flows. `one_flow_per_burst`: lanes send a burst of one flow at
/// a time. Empty if nothing comes back.
fn sent_logs(
    plan: &TrafficPlan,
    flows: u32,
    pps: Option<f64>,
    (lanes, streams): (u32, u64),
    one_flow_per_burst: bool,
) -> Vec<SentLog> {
    if !plan.receive {
        return Vec::new();
    }
    let keep_ns = (plan.common.settle.as_nanos() as u64).saturating_add(LATE_NS);
    let log = |lane: u32| {
        let flows = u64::from(flows / lanes + u32::from(flows % lanes > lane));
        SentLog::new(flows, one_flow_per_burst, (u64::from(lanes), streams), pps, keep_ns)
    };
    (0..lanes).map(log).collect()
}

/// Makes logs as [`sent_logs`] does, with the time of each packet.
fn logs_of_each(plan: &TrafficPlan, flows: u32, pps: Option<f64>, (lanes, streams): (u32, u64)) -> Vec<SentLog> {
    let keep_ns = (plan.common.settle.as_nanos() as u64).saturating_add(LATE_NS);
    let log = |lane: u32| {
        let flows = u64::from(flows / lanes + u32::from(flows % lanes > lane));
        SentLog::of_each(flows, (u64::from(lanes), streams), pps, keep_ns)
    };
    (0..lanes).map(log).collect()
}

/// Returns the packets of a plan with several streams, or several sizes.
pub(crate) fn mixed(plan: &TrafficPlan) -> Option<&Packets> {
    let senders = plan.common.lanes.iter().filter(|lane| lane.tx).count();
    plan.packets.as_ref().filter(|packets| packets.plain(senders).is_none())
}

impl TrafficTrial {
    /// Makes a trial. `one_flow_per_burst`: the port that packets leave by takes bursts of one flow only.
    pub(crate) fn new(plan: TrafficPlan, traces: Option<Arc<Traces>>, one_flow_per_burst: bool) -> Self {
        let tx_lanes = plan.common.lanes.iter().filter(|lane| lane.tx).count();
        let mut trial = Self {
            slips: Vec::new(),
            logs: Vec::new(),
            senders: Vec::new(),
            flown: Vec::new(),
            readings: Vec::new(),
            tx_lanes,
            turned: false,
            stream: 0,
            traces,
            plan,
        };
        let plan = &trial.plan;
        let Some(packets) = mixed(plan) else {
            let pps = plan.rates().map(|rates| rates.highest_pps());
            let flows = plan.flows.count();
            trial.slips = vec![Slips::for_plan(plan)];
            trial.logs = vec![sent_logs(plan, flows, pps, (tx_lanes as u32, 1), one_flow_per_burst)];
            return trial;
        };
        let settle_ns = plan.common.settle.as_nanos() as u64;
        for (number, stream) in packets.streams.iter().enumerate() {
            // The other way's lanes send the others.
            let own = packets.sends(stream);
            let senders = if own {
                stream.senders(number, tx_lanes)
            } else {
                Vec::new()
            };
            let (pps, lanes) = (pps_of(plan, number), senders.len() as u32);
            let slips = pps.filter(|_| plan.receive && own);
            let slips = slips.map(|pps| Slips::new(stream.flows(), pps, settle_ns + LATE_NS));
            let shares = (lanes.max(1), packets.streams.len() as u64);
            trial.logs.push(match stream.known_by {
                _ if !own => Vec::new(),
                // Nobody asks what was sent.
                KnownBy::Headers => Vec::new(),
                KnownBy::Number(_) => logs_of_each(plan, stream.flows(), pps, shares),
                KnownBy::Tag => sent_logs(plan, stream.flows(), pps, shares, false),
            });
            trial.slips.push(slips);
            trial.senders.push(senders);
            let is_known = |replay: &&Replay| plan.receive || replay.frames.read_ahead().is_some();
            let replay = stream.replay.as_ref().filter(is_known);
            let flown = replay.map(|replay| Arc::new(Flown::new(&replay.frames)));
            let count = plan.common.count;
            trial
                .readings
                .extend(flown.as_ref().and_then(|flown| Reading::begin(stream, flown, count)));
            trial.flown.push(flown);
        }
        trial
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
            ordered: self.plan.common.streams.is_some() || mixed(&self.plan).is_some(),
            pauses: self.plan.common.streams.is_some() || self.plan.packets.as_ref().is_some_and(Packets::pause),
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
                    slips: self.slips.first().and_then(Option::as_ref),
                    log: self.logs.first().and_then(|logs| logs.get(lane)),
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

    /// Returns the sending half of a lane with several streams or sizes.
    fn mix(&self, index: usize, packets: &Packets, start_ns: u64) -> Option<Mix<'_>> {
        let lanes = &self.plan.common.lanes;
        lanes[index].tx.then(|| {
            let lane = lanes[..index].iter().filter(|l| l.tx).count();
            let share = |(stream, senders): (usize, &Vec<usize>)| {
                let place = senders.iter().position(|of| *of == lane)?;
                Some(MixShare {
                    stream,
                    seat: (place as u32, senders.len() as u32),
                    slips: self.slips[stream].as_ref(),
                    log: self.logs[stream].get(place),
                    rings: self.flown[stream]
                        .as_ref()
                        .and_then(|flown| flown.rings())
                        .map(Arc::as_ref),
                })
            };
            let shares = self.senders.iter().enumerate().filter_map(share).collect();
            Mix::new(&self.plan, packets, shares, start_ns)
        })
    }

    fn receiver(&self, index: usize, start_ns: u64) -> Option<Receiver<'_>> {
        let plan = &self.plan;
        if !plan.receive || !plan.common.lanes[index].rx {
            return None;
        }
        let part = |stream: usize| {
            let (flows, pps) = match mixed(plan) {
                None => (plan.flows.count(), plan.rates().map(|rates| rates.highest_pps())),
                Some(packets) if !packets.sends(&packets.streams[stream]) => (1, Some(1.0)),
                Some(packets) => (packets.streams[stream].flows(), pps_of(plan, stream)),
            };
            let span = span(pps, plan.common.settle);
            let all = (plan.flows.count(), plan.rates().map(|rates| rates.highest_pps()));
            let bytes = window_share((flows, pps), all);
            Part::new(
                (flows, span, bytes),
                self.slips[stream].as_ref(),
                &self.logs[stream],
                start_ns,
            )
        };
        let mut receiver = Receiver::new((0..self.slips.len()).map(part), start_ns);
        receiver.traces = self.traces.as_deref();
        Some(receiver)
    }
}

/// Returns the share of the memory for sequence windows that a stream may have, bytes: by its flows or by its rate
/// among those of all streams, whichever is more.
fn window_share((flows, pps): (u32, Option<f64>), (all_flows, all_pps): (u32, Option<f64>)) -> usize {
    let by_flows = f64::from(flows) / f64::from(all_flows.max(1));
    let by_rate = pps.zip(all_pps).map_or(0.0, |(pps, all)| pps / all.max(pps));
    ((WINDOW_BYTES as f64 * by_flows.max(by_rate).min(1.0)) as usize).max(1 << 12)
}

/// Returns the rate of a stream, packets/s; `None`: it has none.
fn pps_of(plan: &TrafficPlan, stream: usize) -> Option<f64> {
    let stream = plan.packets.as_ref()?.streams.get(stream)?;
    match stream.load {
        Some(load) => {
            let pps = load.rate?.pps();
            let pps = pps * stream.replay.as_ref().map_or(1.0, |replay| replay.peak);
            // Packets of a burst are in flight together.
            let burst = if let Pacing::Bursts(packets) = load.pacing {
                f64::from(packets)
            } else {
                0.0
            };
            Some(pps + burst)
        }
        None => plan.rates().map(|rates| rates.highest_pps()),
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
    let receiver = taken.receiver(index, lane.start_ns);
    let generator = || sent.generator(index, capabilities, lane.start_ns);
    let dest_mac = lane.dest_mac;
    let settle_ns = if plan.receive {
        plan.common.settle.as_nanos() as u64
    } else {
        0
    };
    let seed = plan.common.seed;
    let run = || {
        let trial = sent.traces.as_ref().map_or(1, |traces| traces.trials);
        run_of(plan.common.run_id, trial)
    };
    match (&plan.link, &plan.packets, capabilities.layer) {
        (Some(link), Some(packets), Layer::Ethernet) if const { L::FRAMES } => {
            let to = dest_mac.or(link.dest_mac).unwrap_or(MacAddr::BROADCAST);
            let turned = plan.far.is_none();
            let Some(stream) = packets.plain(sent.tx_lanes) else {
                let hops: Vec<MacAddr> = [to].into_iter().chain(lane.more_macs(&packets.hops)).collect();
                let peer = plan.far.as_ref().map(|far| far.mac);
                let codec = MixCodec::new(packets, run(), (&hops, link.mac, peer), turned, &sent.flown);
                let receiver = receiver.map(|receiver| receiver.comparing(codec.compared()));
                let mix = sent.mix(index, packets, lane.start_ns);
                let booked = (recorder, lane.books());
                return traffic::run(lane, queue, &codec, mix, receiver, booked, settle_ns);
            };
            let codec = TaggedCodec::new(stream, run(), [to, link.mac], (turned, packets.stripped[0]));
            let receiver = receiver.map(|receiver| receiver.comparing(codec.compared()));
            let (generator, booked) = (generator(), (recorder, Books::default()));
            traffic::run(lane, queue, &codec, generator, receiver, booked, settle_ns)
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
            let (generator, booked) = (generator(), (recorder, Books::default()));
            traffic::run(lane, queue, &codec, generator, receiver, booked, settle_ns)
        }
        (_, Some(packets), Layer::Payload) if const { L::PAYLOADS } => {
            let none = MacAddr::BROADCAST;
            let codec = MixCodec::new(packets, run(), (&[], none, None), false, &sent.flown).of_payloads();
            let (mix, booked) = (sent.mix(index, packets, lane.start_ns), (recorder, lane.books()));
            traffic::run(lane, queue, &codec, mix, receiver, booked, settle_ns)
        }
        _ if const { L::PAYLOADS } => {
            let template = PayloadTemplate::new(plan.payload_len, seed).expect("validated plan");
            let codec = PayloadCodec {
                template,
                flows: plan.flows.count(),
                seed,
            };
            let (generator, booked) = (generator(), (recorder, Books::default()));
            traffic::run(lane, queue, &codec, generator, receiver, booked, settle_ns)
        }
        _ => unreachable!("the plan was made for a port of another layer"),
    }
}
