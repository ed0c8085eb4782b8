//! What every run has in common: threads, the start, the collector's loop, the end.
//!
//! The calling thread starts one thread a lane, waits until each has its pool, its queue and (where one is needed) the
//! peer's MAC address, sets the start a few milliseconds ahead, and then is the collector: it disciplines the clock,
//! hands closed rows to the sinks, watches for an interruption, and in the end adds everything up.

use crate::away::Away;
use crate::capture;
use crate::collect::{Collected, collect};
use crate::control::Control;
use crate::generate::SentSeq;
use crate::host_drops::HostDrops;
use crate::idle::Idle;
use crate::job::{Job, Solo};
use crate::live::HostWait;
use crate::meanwhile::Lookout;
use crate::neighbor::{Found, Neighbor};
use crate::outcome::LaneOutcome;
use crate::plan::{CapturePlan, Common, DropPlan, Opened, ReflectPlan, TrafficPlan};
use crate::slip::Slips;
use crate::summary::{Measured, summarise};
use crate::traffic::Lane;
use crate::work::{CaptureWork, DropWork, ReflectWork, TrafficWork, Work};
use mpps_io::{Error, Port, QueueCounters};
use mpps_stats::{
    CaptureSummary, Collector, GapLog, Housekeeping, LaneCounters, LaneSeries, Sink, Started, Summary, Timing, Totals,
    Workload,
};
use mpps_sys::clock::{Clock, ClockSource, utc_ns};
use mpps_sys::proc_stat::ThreadStat;
use mpps_sys::{evidence, sched};
use std::sync::{OnceLock, mpsc};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// How often a run that is not ready looks for an interruption.
const LOOK: Duration = Duration::from_millis(20);
/// From the last lane's readiness to the start, ns.
const LEAD_NS: u64 = 5_000_000;
/// More of it for each lane that has to wake up.
const LEAD_A_LANE_NS: u64 = 1_000_000;

/// Why a run could not take place, or has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A port, pool or queue could not be opened.
    #[error(transparent)]
    Path(#[from] Error),
    /// Nobody answered for the peer's address.
    #[error("{0}")]
    Unresolved(String),
    /// Interrupted before the first packet.
    #[error("interrupted before the first packet")]
    Interrupted,
    /// A lane's thread has panicked: a defect of mpps.
    #[error("lane {0} has panicked; this is a defect, please report it")]
    Panicked(usize),
}

/// Runs `sendrecv` or `send`. Sinks get every row; `interruptions` is asked every 20 ms
/// how often the user has asked for the end: the first time ends the sending, another time the settling.
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
    let sent_seq = SentSeq::of(plan);
    let settle_ns = plan.common.settle.as_nanos() as u64;
    let slips = Slips::for_plan(plan);
    let work = TrafficWork {
        plan,
        slips: slips.as_ref(),
        sent_seq: &sent_seq,
    };
    let workload = if plan.receive {
        Workload::SendRecv
    } else {
        Workload::Send
    };
    execute(
        port,
        &plan.common,
        workload,
        settle_ns,
        plan.receive && plan.rate.is_some(),
        &work,
        sinks,
        interruptions,
    )
}

/// Runs `drop`. As [`run_traffic`].
///
/// # Errors
/// As [`run_traffic`].
pub fn run_drop<P: Port>(
    port: &P,
    plan: &DropPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let work = DropWork { plan };
    execute(
        port,
        &plan.common,
        Workload::Drop,
        0,
        false,
        &work,
        sinks,
        interruptions,
    )
}

/// Runs `reflect`. As [`run_traffic`].
///
/// # Errors
/// As [`run_traffic`].
pub fn run_reflect<P: Port>(
    port: &P,
    plan: &ReflectPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let work = ReflectWork { plan };
    execute(
        port,
        &plan.common,
        Workload::Reflect,
        0,
        false,
        &work,
        sinks,
        interruptions,
    )
}

/// Runs `capture`. As [`run_traffic`]. `finish` is called once the lanes have ended and let go of their rings: it waits for
/// the writer, and fills in what became of the packets.
///
/// # Errors
/// As [`run_traffic`].
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
    let mut summary = execute(
        port,
        &plan.common,
        Workload::Capture,
        0,
        false,
        &work,
        sinks,
        interruptions,
    )?;
    let mut counted = capture::counted(&summary, plan);
    finish(&summary, &mut counted);
    capture::judge(&mut summary, counted);
    Ok(summary)
}

/// What lane threads share.
pub(crate) struct Shared<'r, J> {
    pub(crate) control: &'r Control,
    pub(crate) counters: &'r [LaneCounters],
    series: &'r OnceLock<Vec<LaneSeries>>,
    found: &'r Found,
    pub(crate) common: &'r Common,
    pub(crate) job: &'r J,
}

/// A workload on one port.
#[allow(clippy::too_many_arguments)]
pub(crate) fn execute<P: Port, W: Work>(
    port: &P,
    common: &Common,
    workload: Workload,
    settle_ns: u64,
    paced: bool,
    work: &W,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let job = Solo { port, work };
    run_job(&job, common, workload, settle_ns, paced, sinks, interruptions)
}

/// Any workload, on whatever ports it has.
pub(crate) fn run_job<J: Job>(
    job: &J,
    common: &Common,
    workload: Workload,
    settle_ns: u64,
    paced: bool,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let control = Control::new().map_err(|e| Error::os("make the descriptor that wakes", "the collector", &e))?;
    let mut clocks = ClockSource::new();
    let counters: Vec<LaneCounters> = common.lanes.iter().map(|_| LaneCounters::default()).collect();
    let series = OnceLock::new();
    let found = Found::new();
    let lanes = common.lanes.len();
    let shared = Shared {
        control: &control,
        counters: &counters,
        series: &series,
        found: &found,
        common,
        job,
    };
    thread::scope(|scope| {
        let (ready, is_ready) = mpsc::channel();
        let mut starts = Vec::new();
        let mut threads: Vec<ScopedJoinHandle<'_, Option<LaneOutcome>>> = Vec::new();
        for index in 0..lanes {
            let (start, started) = mpsc::channel::<u64>();
            starts.push(start);
            let (ready, clock, shared) = (ready.clone(), clocks.clock(), &shared);
            let builder = thread::Builder::new().name(format!("lane{index}"));
            let spawned = builder.spawn_scoped(scope, move || lane_thread(index, clock, shared, &ready, &started));
            match spawned {
                Ok(handle) => threads.push(handle),
                Err(e) => {
                    control.end_at(0);
                    return Err(Error::os("start the thread of", format!("lane {index}"), &e).into());
                }
            }
        }
        drop(ready);
        let resolves = job
            .link()
            .is_some_and(|link| link.dest_mac.is_none() && link.next_hop.is_some());
        for _ in 0..lanes {
            // A lane that failed or panicked says so or hangs up; dropping `starts` then sends the others home.
            let said = loop {
                match is_ready.recv_timeout(LOOK) {
                    // Only asking for a neighbour takes long; what else a lane prepares is ready at once, and a run that
                    // is interrupted by then still reports.
                    Err(mpsc::RecvTimeoutError::Timeout) if interruptions() == 0 || !resolves => {}
                    Err(mpsc::RecvTimeoutError::Timeout) => break Err(RunError::Interrupted),
                    Err(mpsc::RecvTimeoutError::Disconnected) => break Err(RunError::Panicked(0)),
                    Ok(said) => break said,
                }
            };
            if let Err(error) = said {
                control.end_at(0);
                return Err(error);
            }
        }
        // Its files are opened while that is allowed.
        let mut host = HostWait::begin(&counters);
        let lookout = Lookout::new(&counters);
        common.opened(Opened::Main).inspect_err(|_| control.end_at(0))?;
        let baseline: Vec<_> = (0..lanes).map(|i| job.counters(i)).collect();
        let rivals = evidence::lanes_of_others();
        let (steal, looked_from_ns) = (host.steal_ns(), clocks.clock().now_ns());
        let interval_ns = common.interval.as_nanos() as u64;
        let mut timing = Timing {
            start_ns: 0,
            interval_ns,
            settle_ns,
        };
        let mut rings: Vec<LaneSeries> = common.lanes.iter().map(|l| LaneSeries::new(timing, l.rx)).collect();
        // Making the rings takes a while; the start is chosen after, so that it is ahead of every lane.
        let start_ns = clocks.clock().now_ns() + job.ahead_ns() + LEAD_NS + lanes as u64 * LEAD_A_LANE_NS;
        timing.start_ns = start_ns;
        rings.iter_mut().for_each(|ring| ring.set_start(start_ns));
        let all = series.get_or_init(|| rings);
        if let Some(duration) = common.duration {
            control.end_at(start_ns + duration.as_nanos() as u64);
        }
        let started = Started {
            monotonic_ns: start_ns,
            utc_ns: utc_ns(start_ns),
        };
        for sink in sinks.iter_mut() {
            sink.workload(workload);
            sink.begin(started);
        }
        job.begin(start_ns, control.end_ns());
        for start in &starts {
            let _ = start.send(start_ns);
        }
        let mut collector = Collector::new(all.iter().collect(), workload, paced);
        if job.kernel_sends() {
            collector.kernel_sends();
        }
        let mut drops = HostDrops::new(job, &baseline, &common.lanes, &control, lookout);
        let gaps = GapLog::default();
        let beside_lanes = sched::keep_off(&common.cores());
        let collected = collect(
            &mut collector,
            (&mut drops, &Away::new(&gaps)),
            &mut clocks,
            timing,
            &shared,
            &mut host,
            sinks,
            interruptions,
        );
        drop(beside_lanes);
        let mut outcomes = Vec::new();
        for (index, thread) in threads.into_iter().enumerate() {
            match thread.join() {
                Ok(Some(outcome)) => outcomes.push(outcome),
                _ => return Err(RunError::Panicked(index)),
            }
        }
        let end_ns = control.end_ns();
        collector.set_end(end_ns);
        let path: Vec<Vec<QueueCounters>> = baseline
            .iter()
            .enumerate()
            .map(|(i, then)| {
                job.counters(i)
                    .into_iter()
                    .zip(then)
                    .map(|(now, then)| since(now, then))
                    .collect()
            })
            .collect();
        let ended_ns = clocks.clock().now_ns();
        let [sending, dropping] = drops.end(ended_ns, job, (&path, &outcomes), &mut collector);
        let totals: Totals = collector.finish(sinks);
        let totals_measured = totals.latency.count > 0;
        let notes: Vec<String> = sinks.iter_mut().flat_map(|sink| sink.finish()).collect();
        Ok(summarise(Measured {
            workload,
            common,
            work: job.facts(),
            totals,
            outcomes,
            counters: &counters,
            path,
            queues: (0..lanes).map(|lane| job.queue_number(lane)).collect(),
            started,
            end_ns,
            interrupted: collected.interrupted,
            housekeeping: housekeeping(&mut host, &collected, clocks.clock().now_ns().saturating_sub(start_ns)),
            control: &control,
            path_name: job.path(),
            latency_note: job.latency_note(totals_measured),
            port_facts: job.port_facts(),
            coalesces: job.coalesces(),
            port_names: job.port_names(),
            clock: clocks.name(),
            steal_ns: host.steal_ns().zip(steal).map(|(now, then)| now.saturating_sub(then)),
            sink_notes: notes,
            collector_gaps: gaps.longest(),
            rivals,
            sending,
            dropping,
            looked_ns: ended_ns.saturating_sub(looked_from_ns),
        }))
    })
}

/// What the program itself took; `None` where the kernel does not tell.
fn housekeeping(host: &mut HostWait, collected: &Collected, run_ns: u64) -> Option<Housekeeping> {
    let threads = host.own().by_thread();
    (!threads.is_empty()).then(|| Housekeeping {
        cpu_ns: threads.iter().map(|(_, ns)| ns).sum(),
        run_ns,
        longest_ns: collected.longest_ns,
        threads,
    })
}

/// Says that a lane has ended, however it does.
struct Ends<'r>(&'r Control);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.lane_ends();
    }
}

/// Counters since a baseline.
fn since(now: QueueCounters, then: &QueueCounters) -> QueueCounters {
    let before = |name| then.other.iter().find(|(n, _)| *n == name).map_or(0, |(_, v)| *v);
    QueueCounters {
        rx_dropped: now.rx_dropped.saturating_sub(then.rx_dropped),
        tx_failed: now.tx_failed.saturating_sub(then.tx_failed),
        other: now
            .other
            .iter()
            .map(|&(name, value)| (name, value.saturating_sub(before(name))))
            .collect(),
    }
}

/// One lane's thread, from pinning to its outcome. `None`: sent home before the start.
fn lane_thread<J: Job>(
    index: usize,
    clock: Clock,
    shared: &Shared<'_, J>,
    ready: &mpsc::Sender<Result<(), RunError>>,
    started: &mpsc::Receiver<u64>,
) -> Option<LaneOutcome> {
    let _ends = Ends(shared.control);
    let plan = shared.common.lanes[index];
    let job = shared.job;
    sched::tight_timers();
    sched::short_slices();
    // One that only reads what the kernel counts stays out of the way of those that send.
    let cores = shared.common.cores();
    let _beside = plan.core.is_none().then(|| sched::keep_off(&cores));
    let prepared = (|| {
        if let Some(core) = plan.core {
            sched::pin(core).map_err(|e| Error::os("pin a lane to", format!("core {core}"), &e))?;
        }
        job.pools(index)
    })();
    let pools = match prepared {
        Ok(pools) => pools,
        Err(error) => {
            let _ = ready.send(Err(error.into()));
            return None;
        }
    };
    let ended = |now| shared.control.end_ns() <= now;
    let opened = job
        .queues(index, &pools)
        .map_err(RunError::from)
        .and_then(|mut queues| {
            let dest_mac = job.resolve(&mut queues, shared.found, &clock, &ended)?;
            shared.common.opened(Opened::Lane(index))?;
            Ok((queues, dest_mac))
        });
    let (mut queues, dest_mac) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let _ = ready.send(Err(error));
            return None;
        }
    };
    let counters = &shared.counters[index];
    let thread = sched::thread_id();
    // A reader is one of the program's own threads.
    let times = (!job.only_reads(index)).then(|| {
        counters.thread.set(thread as u64);
        ThreadStat::open(thread)
    });
    let times = times.flatten();
    let _ = ready.send(Ok(()));
    let start_ns = started.recv().ok()?;
    let recorder = shared.series.get()?[index].recorder();
    let go_ns = start_ns.saturating_sub(job.ahead_ns());
    while clock.now_ns() + 200_000 < go_ns {
        thread::sleep(Duration::from_nanos(
            go_ns.saturating_sub(clock.now_ns()).saturating_sub(150_000),
        ));
    }
    while clock.now_ns() < go_ns {
        std::hint::spin_loop();
    }
    let delay = times.as_ref().and_then(ThreadStat::read);
    let began_ns = clock.now_ns();
    let measured = clock.clone();
    let lane = Lane {
        idle: Idle::new(
            shared.common.busy_poll,
            shared.common.share_cores,
            clock.clone(),
            counters,
        ),
        clock,
        control: shared.control,
        counters,
        neighbor: job
            .link_of(index)
            .map(|link| Neighbor::new(link, job.src(), shared.found)),
        attends: job.attends(index),
        burst: shared.common.burst,
        told_down: Default::default(),
        down: Default::default(),
        napped_ns: Default::default(),
    };
    let mut outcome = job.lane(index, lane, &mut queues, recorder, start_ns, dest_mac);
    outcome.run_delay_ns = times
        .and_then(|times| times.read())
        .zip(delay)
        .map(|(now, then)| now.waited_ns.saturating_sub(then.waited_ns));
    outcome.measured_ns = measured.now_ns().saturating_sub(began_ns);
    Some(outcome)
}
