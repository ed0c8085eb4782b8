//! Runs whose packets the kernel handles: the same plans, the same results, over a [`KernelPort`].
//!
//! A run here is one more [`Job`]: its sending lanes are threads that sit in the kernel for the whole run
//! ([`sender`]), and one more lane, the reader ([`reader`]), wakes every 10 ms, takes what the programs have counted
//! and can count no more, and books it into its own series. Collector, sinks, verdict and report see what they always
//! see.
//!
//! Who writes what: a sending lane writes `thread`, `phase` and `down_ns` of its counters and nothing else, since it
//! does not run. The reader is no lane to those who ask what kept lanes from running: it is one of the program's own
//! threads. The reader's counters are the totals of all lanes and sources, for the live view, and their one writer is
//! the reader. The report's lines are made of what the kernel itself counted, once the lanes are out
//! ([`LaneOutcome::sent`], [`LaneOutcome::sources`]).

mod reader;
mod sender;

use crate::error::RunError;
use crate::lane::Lane;
use crate::lane::neighbor::{Found, QUESTION_LEN, question};
use crate::plan::{Common, DropPlan, ForwardPlan, Link, ReflectPlan, TrafficPlan};
use crate::run::crew::{Order, run_job};
use crate::run::job::{ASK_EVERY_NS, Desk, Job, RESOLVE_NS, told, unresolved};
use crate::run::outcome::LaneOutcome;
use crate::send::pacing::schedule;
use crate::workload::WorkFacts;
use mpps_io::kernel::{KernelPort, KernelTimes, LaneSchedule};
use mpps_io::{Error, ErrorKind, QueueCounters, Result};
use mpps_stats::{HostFact, Recorder, Sink, Summary, Workload};
use mpps_sys::clock::Clock;
use mpps_wire::MacAddr;
use std::net::IpAddr;
use std::thread;
use std::time::Duration;

/// By how much lanes enter the kernel before the start: frames are made there first.
const AHEAD_NS: u64 = 10_000_000;
/// From the interruption of a run to its end: the reader wakes every 10 ms and tells the programs.
const NOTICE_NS: u64 = 50_000_000;

/// Runs `sendrecv` or `send`: the plan's lanes are those that send, then one that receives, which is the reader.
/// As [`crate::run_traffic`].
///
/// # Errors
/// As [`crate::run_traffic`].
pub fn run_traffic_in_kernel<P: KernelPort>(
    port: &P,
    plan: &TrafficPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    let workload = match plan.receive {
        true => Workload::SendRecv,
        false => Workload::Send,
    };
    let mut job = InKernel::new(port, &plan.common, workload);
    job.traffic = Some(plan);
    let paced = plan.receive && plan.rate.is_some();
    let settle_ns = plan.common.settle.as_nanos() as u64;
    let order = Order {
        settle_ns,
        paced,
        ..Order::of(&plan.common, workload, ())
    };
    run_job(&job, order, sinks, interruptions)
}

/// Runs `reflect`: the plan's one lane is the reader. As [`crate::run_traffic`].
///
/// # Errors
/// As [`crate::run_traffic`].
pub fn run_reflect_in_kernel<P: KernelPort>(
    port: &P,
    plan: &ReflectPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    InKernel::new(port, &plan.common, Workload::Reflect).listen(sinks, interruptions)
}

/// Runs `drop`: the plan's one lane is the reader. As [`crate::run_traffic`].
///
/// # Errors
/// As [`crate::run_traffic`].
pub fn run_drop_in_kernel<P: KernelPort>(
    port: &P,
    plan: &DropPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    InKernel::new(port, &plan.common, Workload::Drop).listen(sinks, interruptions)
}

/// Runs `forward`: the plan's one lane is the reader. As [`crate::run_traffic`].
///
/// # Errors
/// As [`crate::run_traffic`].
pub fn run_forward_in_kernel<P: KernelPort>(
    port: &P,
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    let mut job = InKernel::new(port, &plan.common, Workload::Forward);
    job.port_names = plan.ports.iter().map(|port| port.name.clone()).collect();
    job.listen(sinks, interruptions)
}

/// A workload that the kernel runs.
struct InKernel<'r, P> {
    port: &'r P,
    common: &'r Common,
    workload: Workload,
    /// `sendrecv` and `send`.
    traffic: Option<&'r TrafficPlan>,
    /// `forward`.
    port_names: Vec<String>,
    /// The lanes that send.
    exits: Vec<sender::Exit>,
}

impl<'r, P: KernelPort> InKernel<'r, P> {
    fn new(port: &'r P, common: &'r Common, workload: Workload) -> Self {
        let senders = common.lanes.iter().take_while(|lane| lane.tx).count();
        debug_assert_eq!(senders, port.lanes(), "the plan's sending lanes are the port's");
        debug_assert_eq!(senders + 1, common.lanes.len(), "one reader after them");
        Self {
            port,
            common,
            workload,
            traffic: None,
            port_names: Vec::new(),
            exits: (0..senders).map(|_| sender::Exit::default()).collect(),
        }
    }

    fn listen(
        &self,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> std::result::Result<Summary, RunError> {
        run_job(self, Order::of(self.common, self.workload, ()), sinks, interruptions)
    }

    /// Ports that are counted apart.
    fn ports(&self) -> usize {
        self.port_names.len().max(1)
    }

    fn schedules(&self) -> Vec<LaneSchedule> {
        let Some((plan, rate)) = self.traffic.and_then(|plan| Some((plan, plan.rate?))) else {
            return Vec::new();
        };
        let duration = plan.common.duration.map(|d| d.as_nanos() as u64);
        let lanes = self.exits.len() as u32;
        (0..lanes)
            .map(|lane| schedule(duration, rate, plan.pacing, (lane, lanes), plan.common.seed))
            .collect()
    }

    /// Asks for the next hop's address until it is heard.
    fn ask(&self, link: &Link, clock: &Clock, ended: &dyn Fn(u64) -> bool) -> std::result::Result<MacAddr, RunError> {
        let begun = clock.now_ns();
        let mut ask_at = begun;
        let mut frame = [0; QUESTION_LEN];
        let len = question(link, self.src(), &mut frame);
        loop {
            if let Some(mac) = self.port.heard() {
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
                self.port.inject(&frame[..len])?;
                ask_at = now + ASK_EVERY_NS;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl<P: KernelPort> Desk for InKernel<'_, P> {
    /// The reader's are those of all ports; the others have none.
    fn counters(&self, lane: usize, _way: Option<usize>) -> Vec<QueueCounters> {
        let ports = if lane < self.exits.len() { 0 } else { self.ports() };
        (0..ports).map(|port| self.port.counters(port)).collect()
    }

    /// The device drops before the program sees a packet, and does not tell.
    fn rx_dropped(&self, _lane: usize, _place: usize, _way: Option<usize>) -> Option<u64> {
        None
    }

    fn kernel_sends(&self) -> bool {
        true
    }

    fn path(&self) -> String {
        self.port.capabilities().path.to_owned()
    }

    fn port_facts(&self) -> Vec<HostFact> {
        told(self.port.facts())
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
        self.port.begin(KernelTimes { start_ns, end_ns }, &self.schedules());
    }

    fn latency_note(&self, measured: bool) -> Option<&'static str> {
        match self.workload {
            Workload::SendRecv => Some(self.port.latency_note(false)),
            Workload::Drop if measured => Some(self.port.latency_note(true)),
            _ => None,
        }
    }
}

impl<P: KernelPort> Job for InKernel<'_, P> {
    type Trial = ();

    type Pools = ();

    /// The lane's number.
    type Queues<'p>
        = usize
    where
        Self: 'p;

    fn pools(&self, _lane: usize) -> Result<()> {
        Ok(())
    }

    fn queues<'p>(&'p self, lane: usize, _pools: &'p ()) -> Result<usize> {
        Ok(lane)
    }

    /// It sleeps nearly always; that it is kept from running costs no packet.
    fn only_reads(&self, lane: usize) -> bool {
        lane >= self.exits.len()
    }

    fn link(&self) -> Option<&Link> {
        self.traffic.and_then(|plan| plan.link.as_ref())
    }

    fn src(&self) -> Option<IpAddr> {
        self.traffic.map(|plan| plan.src)
    }

    fn facts(&self, (): &(), _way: Option<usize>) -> WorkFacts {
        self.traffic.map_or_else(WorkFacts::default, |plan| WorkFacts {
            frame_size: plan.frame_size,
            rate: plan.rate,
            tolerance: plan.tolerance,
            tx_lanes: self.exits.len() as u64,
            across: false,
        })
    }

    /// The first lane asks for all: the programs send its question and hear the answer.
    fn resolve(
        &self,
        lane: &mut usize,
        _found: &[Found; 2],
        clock: &Clock,
        ended: &dyn Fn(u64) -> bool,
    ) -> std::result::Result<Option<MacAddr>, RunError> {
        let Some(link) = self.link().filter(|_| *lane == 0) else {
            return Ok(None);
        };
        let mac = match (link.dest_mac, link.next_hop) {
            (Some(mac), _) => mac,
            (None, Some(_)) => self.ask(link, clock, ended)?,
            (None, None) => return Ok(None),
        };
        self.port.set_dest_mac(mac.0);
        Ok(Some(mac))
    }

    fn lane(
        &self,
        index: usize,
        lane: Lane<'_>,
        _queues: &mut usize,
        recorder: Recorder<'_>,
        _trial: &(),
    ) -> LaneOutcome {
        match self.exits.get(index) {
            Some(exit) => sender::run(self.port, index, &lane, recorder, exit),
            None => reader::run(self, &lane, recorder),
        }
    }
}

/// Deals with an error of the port, as [`Lane::trouble`]; that the device is down is told once for all lanes.
#[cold]
fn trouble(lane: &Lane<'_>, error: &Error) {
    if error.kind == ErrorKind::LinkDown && lane.control.was_down() {
        thread::sleep(Duration::from_millis(1));
    } else {
        lane.trouble(error);
    }
}
