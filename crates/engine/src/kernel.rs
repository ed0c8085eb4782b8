//! Runs whose packets the kernel handles: the same plans, the same results, over a [`KernelPort`].
//!
//! A run here is one more [`Job`]: its sending lanes are threads that sit in the kernel for the whole run ([`sender`]).
//! One more lane, the reader ([`reader`]), wakes every 10 to 50 ms, takes the programs' counts that can change no more,
//! and books them into its own series. Collector, sinks, verdict and report see what they always see.
//!
//! A sending lane writes `thread`, `phase` and `down_ns` of its counters and nothing else, since it does not run. The
//! reader is not a lane when the reasons that kept lanes from running are looked for: it is one of the program's own
//! threads. The reader's counters are the totals of all lanes and sources, for the live view, and their one writer is
//! the reader. The report's lines are made from the kernel's own counts, once the lanes are out ([`LaneOutcome::sent`],
//! [`LaneOutcome::sources`]).
//!
//! Between two devices there are two ports here, one for each track: a port's lanes send by one device, and its sources
//! are those of the other. So a port hears answers at the device by which the other's packets leave. With traffic both
//! ways each track has a reader. One way, the second port has no lanes: it answers and hears.

mod reader;
mod sender;

use crate::books::Layout;
use crate::error::RunError;
use crate::lane::Lane;
use crate::lane::neighbor::{Found, QUESTION_LEN, question};
use crate::outcome::LaneOutcome;
use crate::plan::{Common, DropPlan, ForwardPlan, LanePlan, Link, PacketStream, Packets, ReflectPlan, TrafficPlan};
use crate::run::crew::{Order, run_job};
use crate::run::job::{ASK_EVERY_NS, AnyLane, Job, LaneTracks, RESOLVE_NS, host_facts, join, unresolved};
use crate::run::on_ports::WAYS;
use crate::send::mix::span;
use crate::send::pacing::schedule;
use crate::workload::{TrafficTrial, WorkFacts, mixed};
use mpps_io::around::Watch;
use mpps_io::kernel::{KernelPort, KernelTimes, LaneSchedule};
use mpps_io::{Error, ErrorKind, QueueCounters, Result};
use mpps_stats::{ArrivalTimes, HostFact, Recorder, Sink, Summary, Workload};
use mpps_sys::clock::Clock;
use mpps_wire::MacAddr;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Time by which lanes enter the kernel before the start, ns: frames are made there first.
const AHEAD_NS: u64 = 10_000_000;
/// Time from the interruption of a run to its end, ns: a moved end wakes the reader, which passes it to the programs.
const NOTICE_NS: u64 = 50_000_000;

/// Runs `sendrecv` or `send`: the plan's lanes are those that send, then one that receives, which is the reader.
/// Otherwise the run is as with [`crate::run_traffic`].
///
/// `ports` is one port. If packets arrive at another device ([`TrafficPlan::far`]), it is the port of the way there and
/// the port of the way back. Both ways ([`TrafficPlan::back`]), the plan's lanes are those that send there, as many
/// that send back, and a reader for each track. One way, the second port has no lanes.
///
/// # Errors
/// Returns the errors of [`crate::run_traffic`].
pub fn run_traffic_in_kernel(
    ports: &[&dyn KernelPort],
    plan: &TrafficPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    let workload = match plan.receive {
        true => Workload::SendRecv,
        false => Workload::Send,
    };
    let job = InKernel::of_traffic(ports, plan, workload);
    let paced = plan.receive && plan.rate.is_some();
    let settle_ns = plan.common.settle.as_nanos() as u64;
    let order = Order {
        layout: mixed(plan).map(|packets| Arc::new(Layout::of(packets))),
        settle_ns,
        paced,
        ..Order::of(&plan.common, workload)
    };
    run_job(&job, order, sinks, interruptions)
}

/// Runs `reflect`: the plan's one lane is the reader. Otherwise the run is as with [`crate::run_traffic`].
///
/// # Errors
/// Returns the errors of [`crate::run_traffic`].
pub fn run_reflect_in_kernel(
    port: &dyn KernelPort,
    plan: &ReflectPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    InKernel::new(port, &plan.common, Workload::Reflect).listen(sinks, interruptions)
}

/// Runs `drop`: the plan's one lane is the reader. Otherwise the run is as with [`crate::run_traffic`].
///
/// # Errors
/// Returns the errors of [`crate::run_traffic`].
pub fn run_drop_in_kernel(
    port: &dyn KernelPort,
    plan: &DropPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    let job = InKernel {
        streams: plan.streams.as_deref(),
        ..InKernel::new(port, &plan.common, Workload::Drop)
    };
    job.listen(sinks, interruptions)
}

/// Runs `forward`: the plan's one lane is the reader. Otherwise the run is as with [`crate::run_traffic`].
///
/// # Errors
/// Returns the errors of [`crate::run_traffic`].
pub fn run_forward_in_kernel(
    port: &dyn KernelPort,
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    let mut job = InKernel::new(port, &plan.common, Workload::Forward);
    job.port_names = plan.ports.iter().map(|port| port.name.clone()).collect();
    job.listen(sinks, interruptions)
}

/// A workload that the kernel runs.
struct InKernel<'r> {
    /// Ports by track. One way between two devices, the second port answers at the device that packets leave by.
    ports: Vec<&'r dyn KernelPort>,
    common: &'r Common,
    workload: Workload,
    /// Plan of `sendrecv` and `send`.
    traffic: Option<&'r TrafficPlan>,
    /// Streams that have results of their own.
    streams: Option<&'r Packets>,
    /// Names of the ports of `forward`.
    port_names: Vec<String>,
    /// The lanes that send, by track.
    exits: Vec<Vec<sender::Exit>>,
    /// Settings of the run in each track, with traffic both ways; else empty.
    commons: Vec<Common>,
}

/// Role of a lane of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seat {
    track: usize,
    /// Number of the lane among those that send in that track; `None`: it is the reader.
    sender: Option<usize>,
}

/// Returns the seat of lane `lane`: first the lanes that send in each track, then the readers. `senders`: how many
/// send, by track.
fn seat(senders: impl Iterator<Item = usize>, lane: usize) -> Seat {
    let mut rest = lane;
    for (track, lanes) in senders.enumerate() {
        if rest < lanes {
            let sender = Some(rest);
            return Seat { track, sender };
        }
        rest -= lanes;
    }
    Seat {
        track: rest,
        sender: None,
    }
}

impl<'r> InKernel<'r> {
    fn new(port: &'r dyn KernelPort, common: &'r Common, workload: Workload) -> Self {
        let senders = common.lanes.iter().take_while(|lane| lane.tx).count();
        debug_assert_eq!(senders, port.lanes(), "the plan's sending lanes are the port's");
        debug_assert_eq!(senders + 1, common.lanes.len(), "one reader after them");
        Self {
            ports: vec![port],
            common,
            workload,
            traffic: None,
            streams: None,
            port_names: Vec::new(),
            exits: vec![exits(senders)],
            commons: Vec::new(),
        }
    }

    fn of_traffic(ports: &[&'r dyn KernelPort], plan: &'r TrafficPlan, workload: Workload) -> Self {
        let tracks = if plan.back.is_some() { 2 } else { 1 };
        let senders = plan.common.lanes.iter().take_while(|lane| lane.tx).count() / tracks;
        debug_assert!(
            ports.iter().take(tracks).all(|port| port.lanes() == senders),
            "the plan's are the ports'"
        );
        debug_assert_eq!(tracks * (senders + 1), plan.common.lanes.len(), "a reader for each way");
        let of_track = |track: usize| {
            let role = |(lane, plan): (usize, &LanePlan)| {
                let own = seat([senders; 2].into_iter(), lane).track == track;
                LanePlan {
                    rx: plan.rx && own,
                    tx: plan.tx && own,
                    ..*plan
                }
            };
            let common = if track == 0 {
                plan.common.clone()
            } else {
                plan.way_back().common
            };
            Common {
                lanes: plan.common.lanes.iter().enumerate().map(role).collect(),
                ..common
            }
        };
        Self {
            ports: ports.to_vec(),
            common: &plan.common,
            workload,
            traffic: Some(plan),
            streams: plan.packets.as_ref(),
            port_names: Vec::new(),
            exits: (0..tracks).map(|_| exits(senders)).collect(),
            commons: (0..tracks).filter(|_| tracks > 1).map(of_track).collect(),
        }
    }

    fn seat(&self, lane: usize) -> Seat {
        seat(self.exits.iter().map(Vec::len), lane)
    }

    /// Returns the port that hears the answers to questions that leave with the packets of this track.
    fn hears(&self, track: usize) -> &'r dyn KernelPort {
        self.ports[(track + 1) % self.ports.len()]
    }

    /// Returns the port that only answers, if there is one.
    fn beside(&self) -> Option<&'r dyn KernelPort> {
        self.ports.get(self.exits.len()).copied()
    }

    fn listen(
        &self,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> std::result::Result<Summary, RunError> {
        let order = Order {
            layout: self.streams.map(|packets| Arc::new(Layout::of_streams(packets))),
            ..Order::of(self.common, self.workload)
        };
        run_job(self, order, sinks, interruptions)
    }

    /// Returns the number of ports that are counted apart.
    fn counted_ports(&self) -> usize {
        self.port_names.len().max(1)
    }

    fn schedules(&self, track: usize) -> Vec<LaneSchedule> {
        let lanes = self.exits[track].len() as u32;
        if let Some((plan, packets)) = self.traffic.and_then(|plan| Some((plan, mixed(plan)?))) {
            let of_lane = |lane: usize| {
                let streams = packets.streams.iter().enumerate();
                streams.map(move |(number, stream)| {
                    let seats = stream.senders(number, lanes as usize);
                    let seat = seats.iter().position(|of| *of == lane);
                    of_stream(
                        plan,
                        (number, stream),
                        seat.map(|seat| (seat as u32, seats.len() as u32)),
                    )
                })
            };
            return (0..lanes as usize).flat_map(of_lane).collect();
        }
        let Some((plan, rate)) = self.traffic.and_then(|plan| Some((plan, plan.rate?))) else {
            let share = |lane| {
                Some(LaneSchedule {
                    first: 0,
                    step: 0,
                    unit: 1,
                    packets: self.traffic?.share(lane, lanes)?,
                    random: None,
                    until_ns: None,
                })
            };
            // As fast as they go, and no more than the plan's count; without a count there is no schedule.
            return (0..lanes).filter_map(share).collect();
        };
        let duration = plan.common.duration.map(|d| d.as_nanos() as u64);
        let seed = plan.common.seed.wrapping_add(track as u64);
        (0..lanes)
            .map(|lane| schedule(duration, rate, plan.pacing, (lane, lanes), seed))
            .collect()
    }

    /// Returns layer 2 of the device by which packets of this track leave, and the address that questions are sent from
    /// there.
    fn departure(&self, track: usize) -> (Option<&'r Link>, Option<IpAddr>) {
        match (self.traffic, track) {
            (Some(plan), 0) => (plan.link.as_ref(), Some(plan.src)),
            (Some(plan), _) => (plan.far.as_ref(), Some(plan.dst)),
            (None, _) => (None, None),
        }
    }

    /// Asks for the address of this track's next hop until it is heard.
    fn ask(
        &self,
        track: usize,
        link: &Link,
        clock: &Clock,
        ended: &dyn Fn(u64) -> bool,
    ) -> std::result::Result<MacAddr, RunError> {
        let begun = clock.now_ns();
        let mut ask_at = begun;
        let mut frame = [0; QUESTION_LEN];
        let len = question(link, self.departure(track).1, &mut frame);
        loop {
            if let Some(mac) = self.hears(track).heard() {
                return Ok(MacAddr(mac));
            }
            let now = clock.now_ns();
            if ended(now) {
                return Err(RunError::Interrupted);
            }
            if now - begun > RESOLVE_NS {
                return Err(RunError::Unresolved(unresolved(link)));
            }
            if now >= ask_at && len > 0 {
                self.ports[track].inject(&frame[..len])?;
                ask_at = now + ASK_EVERY_NS;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Job for InKernel<'_> {
    fn with_lane(&self, lane: usize, run: &mut dyn FnMut(&mut dyn AnyLane)) -> Result<()> {
        run(&mut KernelLane { job: self, lane });
        Ok(())
    }

    fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Returns the first: the programs know the device that they send by.
    fn port_of(&self, _lane: usize) -> usize {
        0
    }

    /// The reader only reads. It sleeps nearly always, and no packet is lost if it is kept from running.
    fn only_reads(&self, lane: usize) -> bool {
        self.seat(lane).sender.is_none()
    }

    fn link_of(&self, lane: usize) -> Option<&Link> {
        self.departure(self.seat(lane).track).0
    }

    fn src_of(&self, lane: usize) -> Option<IpAddr> {
        self.departure(self.seat(lane).track).1
    }

    fn packets<'t>(&'t self, _trial: &'t [TrafficTrial]) -> Option<&'t Packets> {
        self.streams
    }

    fn common_of<'t>(&'t self, _trial: &'t [TrafficTrial], track: usize) -> Option<&'t Common> {
        self.commons.get(track)
    }

    fn facts(&self, _trial: &[TrafficTrial], _way: Option<usize>) -> WorkFacts {
        self.traffic.map_or_else(WorkFacts::default, |plan| WorkFacts {
            frame_size: plan.frame_size,
            packet_len: plan.packet_len(),
            rates: plan.rate.map(Into::into),
            ordered: mixed(plan).is_some(),
            pauses: plan.packets.as_ref().is_some_and(Packets::pause),
            stream: 0,
            tolerance: plan.tolerance,
            tx_lanes: self.exits[0].len() as u64,
            across: plan.far.is_some(),
        })
    }

    /// Senders are numbered as the lanes of their device.
    fn queue_number(&self, lane: usize) -> usize {
        self.seat(lane).sender.unwrap_or(lane)
    }

    fn tracks(&self) -> &'static [&'static str] {
        if self.commons.is_empty() { &[] } else { &WAYS }
    }

    fn tracks_of(&self, lane: usize) -> LaneTracks {
        let track = self.seat(lane).track;
        LaneTracks {
            sends: track,
            takes: track,
        }
    }

    /// Returns the counters of all ports of its track for a reader; the others have none.
    fn counters(&self, lane: usize, track: Option<usize>) -> Vec<QueueCounters> {
        let seat = self.seat(lane);
        if seat.sender.is_some() || track.is_some_and(|track| track != seat.track) {
            return Vec::new();
        }
        let own = (0..self.counted_ports()).map(|port| self.ports[seat.track].counters(port));
        own.chain(self.beside().map(|port| port.counters(0))).collect()
    }

    /// Returns `None`: the device drops before the program sees a packet, and does not report drops.
    fn rx_dropped(&self, _lane: usize, _place: usize, _way: Option<usize>) -> Option<u64> {
        None
    }

    fn kernel_sends(&self) -> bool {
        true
    }

    fn arrival_times(&self) -> ArrivalTimes {
        ArrivalTimes::OfLatency
    }

    fn path(&self, _track: Option<usize>) -> String {
        self.ports[0].capabilities().path.to_owned()
    }

    fn watches(&self) -> Vec<(usize, Box<dyn Watch>)> {
        let ports = self.ports.iter().enumerate();
        let each = ports.flat_map(|(track, port)| port.watches().into_iter().map(move |watch| (track, watch)));
        each.collect()
    }

    fn port_facts(&self, _track: Option<usize>) -> Vec<HostFact> {
        // A port's facts are those of the device that it receives by.
        join(
            &self
                .ports
                .iter()
                .rev()
                .map(|port| host_facts(port.facts()))
                .collect::<Vec<_>>(),
        )
    }

    fn port_names(&self) -> Vec<String> {
        self.port_names.clone()
    }

    fn ahead_ns(&self) -> u64 {
        AHEAD_NS
    }

    fn notice_ns(&self) -> u64 {
        NOTICE_NS
    }

    fn begin(&self, start_ns: u64, end_ns: u64) {
        for track in 0..self.exits.len() {
            self.ports[track].begin(KernelTimes { start_ns, end_ns }, &self.schedules(track));
        }
    }

    fn latency_note(&self, measured: bool) -> Option<&'static str> {
        match self.workload {
            Workload::SendRecv => Some(self.ports[0].latency_note(false)),
            Workload::Drop if measured => Some(self.ports[0].latency_note(true)),
            _ => None,
        }
    }
}

/// A lane that sends in the kernel, or reads what its programs counted.
struct KernelLane<'l> {
    job: &'l InKernel<'l>,
    lane: usize,
}

impl AnyLane for KernelLane<'_> {
    /// Asks on the first lane of a track for all lanes: the programs send its question and hear the answer.
    fn resolve(
        &mut self,
        _found: &[Found],
        clock: &Clock,
        ended: &dyn Fn(u64) -> bool,
    ) -> std::result::Result<Option<MacAddr>, RunError> {
        let job = self.job;
        let Seat { track, sender } = job.seat(self.lane);
        let Some(link) = job.departure(track).0.filter(|_| sender == Some(0)) else {
            return Ok(None);
        };
        let mac = match (link.dest_mac, link.next_hop) {
            (Some(mac), _) => mac,
            (None, Some(_)) => job.ask(track, link, clock, ended)?,
            (None, None) => return Ok(None),
        };
        job.ports[track].set_dest_mac(mac.0);
        Ok(Some(mac))
    }

    fn run(&mut self, lane: Lane<'_>, recorder: Recorder<'_>, _trial: &[TrafficTrial]) -> LaneOutcome {
        let job = self.job;
        let Seat { track, sender } = job.seat(self.lane);
        let Some(number) = sender else {
            return reader::run(job, track, &lane, recorder);
        };
        let (port, exits) = (job.ports[track], &job.exits[track]);
        let counted = job.traffic.and_then(|plan| match mixed(plan) {
            None => plan.share(number as u32, exits.len() as u32),
            // Streams with a schedule end by it.
            Some(_) if plan.rate.is_some() => None,
            Some(packets) => {
                let streams = packets.streams.len();
                let own = job.schedules(track).into_iter().skip(number * streams).take(streams);
                own.map(|of| (of.packets != u64::MAX).then_some(of.packets)).sum()
            }
        });
        sender::run(port, number, &lane, recorder, &exits[number], counted)
    }
}

/// Returns the schedule of a stream on one of the lanes that send it; `seat`: which, and how many do; `None`: the lane
/// is none of them.
fn of_stream(plan: &TrafficPlan, (number, stream): (usize, &PacketStream), seat: Option<(u32, u32)>) -> LaneSchedule {
    let load = stream.load.unwrap_or_else(|| plan.load());
    let (lane, lanes) = seat.unwrap_or((0, 1));
    let mut of = match load.rate {
        Some(rate) => {
            let (begins_ns, lasts, seed) = span(plan, &load, rate, number);
            let of = schedule(lasts, rate, load.pacing, (lane, lanes), seed);
            LaneSchedule {
                first: of.first + (u128::from(begins_ns) << 64),
                until_ns: lasts.map(|lasts| begins_ns.saturating_add(lasts)),
                ..of
            }
        }
        None => {
            let (lane, lanes) = (u64::from(lane), u64::from(lanes));
            let packets = load.packets.or(plan.common.count);
            LaneSchedule {
                first: u128::from(load.start_ns) << 64,
                step: (1 << 96) / u128::from(load.weight.max(1)),
                unit: 1,
                packets: packets.map_or(u64::MAX, |all| all / lanes + u64::from(all % lanes > lane)),
                random: None,
                until_ns: None,
            }
        }
    };
    if seat.is_none() {
        of.packets = 0;
    }
    of
}

/// Returns an exit for each of `lanes` lanes, which the lane shares with the reader.
fn exits(lanes: usize) -> Vec<sender::Exit> {
    (0..lanes).map(|_| sender::Exit::default()).collect()
}

/// Deals with an error of the port, as [`Lane::trouble`] does, but reports only once for all lanes that the device is
/// down.
#[cold]
fn trouble(lane: &Lane<'_>, error: &Error) {
    if error.kind == ErrorKind::LinkDown && lane.control.was_down() {
        thread::sleep(Duration::from_millis(1));
    } else {
        lane.trouble(error);
    }
}
