//! The parts that every run has: threads, the start, the collector's loop, the end.
//!
//! A crew is the threads of lanes, each with its pool and queue, and what the main thread needs beside them. It is
//! brought together once: the calling thread starts one thread per lane, and waits until each has its pool, its queue
//! and (if needed) the peer's MAC address, and has given up its privileges. Then it goes through trials: most runs are
//! one, a [`session`](crate::run::session) is any number. For each the main thread makes the counters and rows, sets
//! the start a few milliseconds ahead, and then is the collector. It disciplines the clock, hands closed rows to the
//! sinks, watches for an interruption, and in the end adds everything up.
//!
//! Threads, queues and files opened under privileges live as long as the crew. Counters, rows, rings and the ends of
//! sending and settling live as long as the trial, so that nothing of one trial is in the next.

use crate::error::RunError;
use crate::lane::Lane;
use crate::lane::away::Away;
use crate::lane::idle::Idle;
use crate::lane::neighbor::{Found, Neighbor};
use crate::lane::ring::LaneRing;
use crate::lane::stages::{self, Flight, Stages, waited_of};
use crate::lane::stamped::StampMemory;
use crate::plan::{Common, LanePlan, Link, Opened};
use crate::run::around;
use crate::run::collect::{Collected, collect};
use crate::run::control::Control;
use crate::run::directions;
use crate::run::flight::{self, Keeper};
use crate::run::job::{AnyLane, Job};
use crate::run::live::HostWait;
use crate::run::outcome::LaneOutcome;
use crate::run::path_counters::PathCounters;
use crate::run::summary::{Measured, summarise};
use crate::run::traces::Traces;
use crate::verdict::host_drops::{self, HostDrops};
use crate::verdict::meanwhile::{self, LaneTime, Lookout};
use crate::verdict::withheld::{self, Quotas};
use crate::workload::TrafficTrial;
use mpps_io::{Error, Rate, Reason};
use mpps_stats::{
    Collector, Direction, Event, GapLog, Housekeeping, LaneCounters, LaneSeries, Sink, Start, Started, Summary, Timing,
    Totals, Workload,
};
use mpps_sys::cgroup::{Groups, Quota, RealTimeLimit};
use mpps_sys::clock::{Clock, ClockSource, StartAt, utc_ns};
use mpps_sys::evidence::OthersRan;
use mpps_sys::proc_stat::ThreadStat;
use mpps_sys::sched;
use mpps_sys::sched::Heirs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

/// Time between two looks for an interruption while a run is not ready.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two looks of the lanes at their queues, between trials. Questions for our address are answered, and no
/// packets pile up.
const ATTEND_EVERY: Duration = Duration::from_millis(50);
/// Time from the last lane's readiness to the start, ns.
const LEAD_NS: u64 = 5_000_000;
/// Additional time for each lane that has to wake up, ns.
const LEAD_A_LANE_NS: u64 = 1_000_000;

/// Least time between the readiness of all lanes and a start that was asked for, ns.
const LEAST_AHEAD_NS: u64 = 100_000_000;
/// Time before such a start in which counters and rows of the trial are made, ns.
const PREPARE_NS: u64 = 50_000_000;

/// State of a lane that is ready.
struct Ready {
    /// Thread of the lane; 0: it only reads, and counts as one of the program's own threads.
    tid: i32,
    /// Whether its thread has a real-time class.
    real_time: bool,
    /// Reason why its thread has no other priority than before, though one was asked for.
    refused: Option<String>,
}

/// A lane's report that it is ready or has failed, with its number.
type Readiness = (usize, Result<Ready, RunError>);

/// Order for one trial.
pub(crate) struct Order {
    pub(crate) common: Common,
    pub(crate) workload: Workload,
    pub(crate) settle_ns: u64,
    /// Scheduled send times are known.
    pub(crate) paced: bool,
    /// Data of each way, if lanes generate packets; else empty.
    pub(crate) traffic: Vec<TrafficTrial>,
}

impl Order {
    /// Returns an order that sends nothing.
    pub(crate) fn of(common: &Common, workload: Workload) -> Self {
        Self {
            common: common.clone(),
            workload,
            settle_ns: 0,
            paced: false,
            traffic: Vec::new(),
        }
    }
}

/// State that the main thread and the lanes share in a trial.
pub(crate) struct Trial {
    pub(crate) control: Control,
    pub(crate) counters: Vec<LaneCounters>,
    /// A ring for each lane if rounds are recorded, else none.
    rings: Vec<LaneRing>,
    pub(crate) common: Common,
    pub(crate) traffic: Vec<TrafficTrial>,
    /// Lanes release their queues and pools after this trial, before they say that they have ended.
    last: bool,
}

/// Message that starts a lane's part of a trial.
struct Go {
    /// Part of the message, so that the collector notices a lane that has ended before the message could reach it.
    ends: Ends,
    /// Series by way, then by lane.
    series: Arc<Vec<LaneSeries>>,
    start_ns: u64,
    ended: mpsc::Sender<(usize, LaneOutcome)>,
}

/// The messages to a lane.
enum Word {
    /// Empty your queue, say so, and leave it alone until the next word: a trial is about to begin.
    Attend(mpsc::Sender<usize>),
    Go(Go),
}

/// State that the threads of a crew share.
pub(crate) struct Base<'s> {
    job: &'s dyn Job,
    /// The lanes are these in every trial.
    common: &'s Common,
    /// Neighbours of each port.
    found: Vec<Found>,
    /// Nobody is to wait any longer for lanes that are not ready yet.
    given_up: AtomicBool,
    /// There may be several trials.
    several: bool,
}

impl<'s> Base<'s> {
    pub(crate) fn new(job: &'s dyn Job, common: &'s Common, several: bool) -> Self {
        Self {
            job,
            common,
            found: (0..job.ports()).map(|_| Found::default()).collect(),
            given_up: AtomicBool::new(false),
            // While lanes wait for a start, they look after their queues.
            several: several || common.start_at.is_some(),
        }
    }
}

/// Runs any workload that is one trial, on whatever ports it has.
pub(crate) fn run_job(
    job: &dyn Job,
    order: Order,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Result<Summary, RunError> {
    let common = order.common.clone();
    let base = Base::new(job, &common, false);
    thread::scope(|scope| Crew::open(scope, &base, interruptions)?.trial(order, true, sinks, interruptions))
}

/// A lane as the main thread knows it.
struct Member<'s> {
    words: mpsc::Sender<Word>,
    thread: ScopedJoinHandle<'s, ()>,
}

/// Lanes that are ready, and the state by which the main thread watches them.
pub(crate) struct Crew<'s> {
    job: &'s dyn Job,
    common: &'s Common,
    given_up: &'s AtomicBool,
    members: Vec<Member<'s>>,
    /// Thread of each lane; 0: the lane only reads, and its thread counts as one of the program's own.
    tids: Vec<i32>,
    clocks: ClockSource,
    /// The files of these were opened while that was allowed.
    host: HostWait,
    stats: Vec<Option<ThreadStat>>,
    /// The kernel's limit for threads of real-time priority, if lanes have one.
    real_time: Option<RealTimeLimit>,
    /// Control group whose CPU quota can't be read.
    unread_quota: Option<String>,
    /// Quotas of CPU time that concern this process.
    quotas: Vec<Quota>,
    /// Series of the last trial, to be used again.
    rings: Vec<LaneSeries>,
    trials: u64,
    /// There may be more trials than one.
    several: bool,
    panicked: Option<usize>,
    /// Requests of the lanes that the host refused and a run can do without: for the warnings of each trial.
    refused: Vec<String>,
}

impl Drop for Crew<'_> {
    /// Ends the lanes. A panic of a lane was already reported, or it came after all results.
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
        let threads: Vec<_> = self.members.drain(..).map(|member| member.thread).collect();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl<'s> Crew<'s> {
    /// Starts the lanes, and waits until they are ready.
    pub(crate) fn open(
        scope: &'s Scope<'s, '_>,
        base: &'s Base<'s>,
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Self, RunError> {
        let lanes = base.common.lanes.len();
        let job = base.job;
        let mut crew = Self {
            job,
            common: base.common,
            given_up: &base.given_up,
            members: Vec::new(),
            tids: vec![0; lanes],
            clocks: ClockSource::new(),
            host: HostWait::default(),
            stats: Vec::new(),
            real_time: None,
            unread_quota: None,
            quotas: Vec::new(),
            rings: Vec::new(),
            trials: 0,
            several: base.several,
            panicked: None,
            refused: Vec::new(),
        };
        let (ready, is_ready) = mpsc::channel();
        for index in 0..lanes {
            let (words, heard) = mpsc::channel();
            let (ready, clock) = (ready.clone(), crew.clocks.clock());
            let work = move || lane_thread(index, clock, base, ready, &heard);
            let spawned = mpps_sys::thread::spawn_scoped(scope, &format!("lane{index}"), work);
            let thread = spawned.map_err(|e| Error::os("start the thread of", format!("lane {index}"), &e))?;
            crew.members.push(Member { words, thread });
        }
        drop(ready);
        let resolves = (0..lanes).any(|lane| base.job.link_of(lane).is_some_and(Link::is_asked_for));
        let gathered = crew.gather(resolves, &is_ready, interruptions);
        gathered.map_err(|error| around::why_unresolved(error, job))?;
        Ok(crew)
    }

    /// Waits until all lanes are ready.
    fn gather(
        &mut self,
        resolves: bool,
        is_ready: &mpsc::Receiver<Readiness>,
        interruptions: &dyn Fn() -> u32,
    ) -> Result<(), RunError> {
        let mut classes = Vec::new();
        for _ in 0..self.members.len() {
            // A lane that failed or panicked says so or hangs up; dropping the crew then sends the others home.
            let (index, ready) = loop {
                match is_ready.recv_timeout(LOOK) {
                    // Only asking for a neighbour takes long; what else a lane prepares is ready at once, and a run
                    // that is interrupted by then still reports.
                    Err(mpsc::RecvTimeoutError::Timeout) if interruptions() == 0 || !resolves => {}
                    Err(mpsc::RecvTimeoutError::Timeout) => return Err(RunError::Interrupted),
                    Err(mpsc::RecvTimeoutError::Disconnected) => return Err(RunError::Panicked(self.finished())),
                    Ok((index, said)) => break (index, said?),
                }
            };
            self.tids[index] = ready.tid;
            classes.push((ready.tid, ready.real_time));
            self.refused.extend(ready.refused);
        }
        self.refused.sort();
        self.host = HostWait::begin(&self.tids);
        self.stats = meanwhile::open(&self.tids);
        if classes.iter().any(|(_, real_time)| *real_time) {
            self.real_time = Groups::live().real_time();
        }
        if withheld::may_hold(&classes) {
            let groups = Groups::live();
            self.quotas = groups.quotas();
            self.unread_quota = groups.unread_quota();
        }
        self.common.opened(Opened::Main)?;
        Ok(())
    }

    /// Returns the first lane whose thread has ended.
    fn finished(&self) -> usize {
        let ended = self.members.iter().position(|member| member.thread.is_finished());
        ended.unwrap_or(0)
    }

    /// Runs a trial. After the `last` one there is no other.
    pub(crate) fn trial(
        &mut self,
        order: Order,
        last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary, RunError> {
        if let Some(lane) = self.panicked {
            return Err(RunError::Panicked(lane));
        }
        let start = order.common.start_at.map(|start| self.wait_for(start, interruptions));
        let result = start.transpose().and_then(|start| {
            self.between(interruptions)?;
            self.measure(order, start, last, sinks, interruptions)
        });
        if let Err(RunError::Panicked(lane)) = result {
            self.panicked = Some(lane);
        }
        result
    }

    /// Waits until it is time to prepare a trial that starts at this instant.
    ///
    /// # Errors
    /// If it is too near or past, or if the run is interrupted.
    fn wait_for(&self, start: StartAt, interruptions: &dyn Fn() -> u32) -> Result<StartsAt, RunError> {
        let (at_ns, read_within_ns) = start.monotonic();
        let clock = self.clocks.clock();
        let ahead_ns = self.job.ahead_ns();
        let ready_ns = clock.now_ns();
        if at_ns < ready_ns + LEAST_AHEAD_NS + ahead_ns {
            return Err(RunError::TooLate(too_late(at_ns, ready_ns, LEAST_AHEAD_NS + ahead_ns)));
        }
        loop {
            let left_ns = at_ns.saturating_sub(clock.now_ns() + PREPARE_NS + ahead_ns);
            if left_ns == 0 {
                return Ok(StartsAt { at_ns, read_within_ns });
            }
            if interruptions() > 0 {
                return Err(RunError::Interrupted);
            }
            thread::sleep(LOOK.min(Duration::from_nanos(left_ns)));
        }
    }

    /// Prepares the next trial, after the last one or after the opening: packets that have come in meanwhile belong to
    /// neither. Lanes that look after their queues of their own accord stop doing so. A lane that did it late, as it
    /// lacked its core, would take the first packets of the trial for leftovers.
    fn between(&mut self, interruptions: &dyn Fn() -> u32) -> Result<(), RunError> {
        if !self.several {
            return Ok(());
        }
        if self.trials > 0 && interruptions() > 0 {
            return Err(RunError::Interrupted);
        }
        let (done, is_done) = mpsc::channel();
        for (index, member) in self.members.iter().enumerate() {
            let told = member.words.send(Word::Attend(done.clone()));
            told.map_err(|_| RunError::Panicked(index))?;
        }
        drop(done);
        // All answers that can come: a lane that panics drops its end of the channel, too.
        let answered: Vec<usize> = is_done.iter().collect();
        if let Some(panicked) = (0..self.members.len()).find(|lane| !answered.contains(lane)) {
            return Err(RunError::Panicked(panicked));
        }
        // The clock was not disciplined since.
        self.clocks.discipline();
        Ok(())
    }

    fn measure(
        &mut self,
        order: Order,
        starts_at: Option<StartsAt>,
        last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary, RunError> {
        self.trials += 1;
        let (job, lanes) = (self.job, self.members.len());
        let (workload, settle_ns, paced) = (order.workload, order.settle_ns, order.paced);
        let control = Control::new().map_err(|e| Error::os("make the descriptor that wakes", "the collector", &e))?;
        let counters: Vec<LaneCounters> = self.tids.iter().map(|_| LaneCounters::default()).collect();
        for (counters, tid) in counters.iter().zip(&self.tids) {
            counters.thread.set(*tid as u64);
        }
        let trial = Arc::new(Trial {
            control,
            counters,
            rings: flight::rings(&order.common),
            common: order.common,
            traffic: order.traffic,
            last,
        });
        let (control, common) = (&trial.control, &trial.common);
        let names = job.ways();
        let ways = names.len().max(1);
        // This takes longer the more threads the host has: packets that the path counts meanwhile are not the trial's.
        let rivals = OthersRan::now();
        let baseline = PathCounters::read(job, lanes);
        let mut watches = job.watches();
        let (clocks, host) = (&mut self.clocks, &mut self.host);
        let (steal, looked_from_ns) = (host.steal_ns(), clocks.clock().now_ns());
        let interval_ns = common.interval.as_nanos() as u64;
        let mut timing = Timing {
            start_ns: 0,
            interval_ns,
            settle_ns,
        };
        let mut rings = std::mem::take(&mut self.rings);
        if rings.len() != ways * lanes || !rings.iter_mut().all(|ring| ring.renew(timing)) {
            let roles = (0..ways).flat_map(|way| roles(job, common, way));
            rings = roles.map(|role| LaneSeries::new(timing, role.rx)).collect();
        }
        // Making the rings takes a while; the start is chosen after, so that it is ahead of every lane.
        let soonest_ns = clocks.clock().now_ns() + job.ahead_ns() + LEAD_NS + lanes as u64 * LEAD_A_LANE_NS;
        let start_ns = starts_at.map_or(soonest_ns, |starts| starts.at_ns.max(soonest_ns));
        timing.start_ns = start_ns;
        rings.iter_mut().for_each(|ring| ring.set_start(start_ns));
        let series = Arc::new(rings);
        if common.count.is_some() {
            control.count_senders(common.lanes.iter().filter(|lane| lane.tx).count());
        }
        if let Some(duration) = common.duration {
            control.end_at(start_ns + duration.as_nanos() as u64);
        }
        let started = Started {
            monotonic_ns: start_ns,
            utc_ns: utc_ns(start_ns),
        };
        let work = job.facts(&trial.traffic, None);
        let of_ways = |rate: Rate| rate.pps() * names.len().max(1) as f64;
        let start = Start {
            workload,
            ways: names,
            started,
            intended_pps: work.rates.map(|rates| of_ways(rates.first)),
            then_pps: work
                .rates
                .and_then(|rates| rates.then)
                .map(|then| (then.after_ns, of_ways(then.rate))),
            tolerance: work.tolerance,
        };
        for sink in sinks.iter_mut() {
            sink.event(&Event::Start(start));
        }
        job.begin(start_ns, control.end_ns());
        let (ended, outcomes) = mpsc::channel();
        // A lane that can't receive the message has panicked since the last trial. The lanes that have started are
        // ended at once.
        let mut panicked = None;
        for (index, member) in self.members.iter().enumerate() {
            let go = Go {
                ends: Ends(Arc::clone(&trial)),
                series: Arc::clone(&series),
                start_ns,
                ended: ended.clone(),
            };
            if member.words.send(Word::Go(go)).is_err() {
                panicked = panicked.or(Some(index));
                control.end_at(0);
            }
        }
        drop(ended);
        let by_way = series.chunks(lanes).map(|lanes| lanes.iter().collect()).collect();
        let mut collector = Collector::of_ways(by_way, workload, paced);
        if job.kernel_sends() {
            collector.kernel_sends();
        }
        let drops = baseline.ways.iter().enumerate().map(|(way, baseline)| {
            let lookout = Lookout::new(&trial.counters, &self.stats);
            HostDrops::new(job, (way, baseline), roles(job, common, way), control, lookout)
        });
        let mut drops: Vec<HostDrops<'_>> = drops.collect();
        let mut keeper = Keeper::new(&trial.rings, common, start_ns);
        let mut quotas = Quotas::new(&self.quotas, start_ns);
        let gaps = GapLog::default();
        let beside_lanes = sched::keep_off(&common.cores());
        let collected = collect(
            job,
            (control, common, &trial.counters),
            &mut collector,
            (&mut drops, &mut quotas, &Away::new(&gaps), &mut keeper),
            &mut watches,
            clocks,
            timing,
            host,
            sinks,
            interruptions,
        );
        drop(beside_lanes);
        // All have ended: each that has not panicked has sent its outcome.
        let mut by_lane: Vec<Option<LaneOutcome>> = (0..lanes).map(|_| None).collect();
        for (index, outcome) in outcomes {
            by_lane[index] = Some(outcome);
        }
        let mut outcomes = Vec::new();
        for (index, outcome) in by_lane.into_iter().enumerate() {
            match outcome {
                Some(outcome) => outcomes.push(outcome),
                None => panicked = panicked.or(Some(index)),
            }
        }
        if let Some(lane) = panicked {
            let told = Summary {
                workload,
                started,
                ..Summary::default()
            };
            return Err(broken_off(lane, &trial.counters, told, sinks));
        }
        let end_ns = control.end_ns();
        collector.set_end(end_ns);
        let path = PathCounters::read(job, lanes).since(&baseline);
        let ended_ns = clocks.clock().now_ns();
        quotas.look(ended_ns);
        let withheld = quotas.end();
        let around = around::end(watches, ended_ns, start_ns);
        let mut did = host_drops::end(drops, ended_ns, job, (&path.ways, &outcomes), &mut collector);
        let totals: Totals = collector.finish(sinks);
        let totals_of_ways = collector.totals_of_ways();
        drop(collector);
        // For the next trial: the lanes have released them.
        self.rings = Arc::into_inner(series).unwrap_or_default();
        let notes = sinks.iter_mut().flat_map(|sink| sink.finish());
        let notes: Vec<String> = self.refused.iter().cloned().chain(notes).collect();
        let housekeeping = housekeeping(host, &collected, clocks.clock().now_ns().saturating_sub(start_ns));
        // Facts of one way, or of all together.
        let common_of = |way: Option<usize>| way.and_then(|way| job.common_of(&trial.traffic, way));
        let measured = |way: Option<usize>, totals: Totals, [sending, dropping]: [Vec<LaneTime>; 2]| Measured {
            workload,
            common: common_of(way).unwrap_or(common),
            work: job.facts(&trial.traffic, way),
            latency_note: job.latency_note(totals.latency.count > 0),
            totals,
            outcomes: &outcomes,
            counters: &trial.counters,
            path: path.of(way),
            one_way: way.is_some(),
            queues: (0..lanes).map(|lane| job.queue_number(lane)).collect(),
            started,
            end_ns,
            interrupted: collected.interrupted,
            housekeeping: housekeeping.clone(),
            control,
            path_name: job.path(),
            port_facts: job.port_facts(),
            coalesces: job.coalesces(),
            port_names: job.port_names(),
            around: around::of_way(&around, way),
            clock: clocks.name(),
            steal_ns: host.steal_ns().zip(steal).map(|(now, then)| now.saturating_sub(then)),
            sink_notes: &notes,
            collector_gaps: gaps.longest(),
            rivals: &rivals,
            withheld: withheld.as_ref(),
            real_time: self.real_time.as_ref(),
            unread_quota: self.unread_quota.as_deref(),
            sending,
            dropping,
            looked_ns: ended_ns.saturating_sub(looked_from_ns),
        };
        let start_error_ns = starts_at.map(|starts| {
            let began_after_ns = outcomes.iter().map(|lane| lane.began_after_ns).max();
            start_ns - starts.at_ns + began_after_ns.unwrap_or(0) + starts.read_within_ns
        });
        let with_kept = |mut summary: Summary| {
            summary.start_error_ns = start_error_ns;
            summary.warnings.extend(start_error_ns.and_then(began_late));
            let lost = keeper.lost();
            let known = (ended_ns, summary.lost as i64, summary.valid);
            summary.kept = keeper.end(common, &trial.counters, known);
            summary.sample = common.sample.as_ref().map(|sample| sample.counted(&outcomes));
            if let Some(cost) = &mut summary.stage_cost {
                cost.lost = lost;
            }
            summary
        };
        if names.is_empty() {
            return Ok(with_kept(summarise(&measured(None, totals, did.remove(0)))));
        }
        let of_way = |(way, (totals, did))| Direction {
            name: names[way],
            summary: summarise(&measured(Some(way), totals, did)),
        };
        let ways = totals_of_ways.into_iter().zip(did).enumerate().map(of_way).collect();
        let all = summarise(&measured(None, totals, Default::default()));
        Ok(with_kept(directions::combine(all, ways)))
    }
}

/// Start of a trial that was asked for.
#[derive(Clone, Copy, Debug)]
struct StartsAt {
    /// The instant, ns on the lanes' clock.
    at_ns: u64,
    /// How far off that may be, as two clocks were read one after the other, ns.
    read_within_ns: u64,
}

/// Returns the error for a start that is too near or past.
fn too_late(at_ns: u64, ready_ns: u64, least_ns: u64) -> String {
    let ms = |ns: u64| ns.div_ceil(1_000_000);
    let when = match at_ns.checked_sub(ready_ns) {
        Some(left_ns) => format!("{} ms before it", ms(left_ns)),
        None => format!("{} ms after it", ms(ready_ns - at_ns)),
    };
    format!(
        "--start-at: ports and lanes were ready {when}, and nothing was sent: want a start {} ms after that at least",
        ms(least_ns)
    )
}

/// Returns the warning about a start that was not kept; `None`: it was, to a ms.
fn began_late(error_ns: u64) -> Option<String> {
    (error_ns > 1_000_000).then(|| {
        format!(
            "--start-at: the last lane began {:.1} ms after the instant that was asked for",
            error_ns as f64 / 1e6
        )
    })
}

/// Ends the stream of a trial without its last rows, as a lane has panicked: nothing after this ends it.
fn broken_off(lane: usize, counters: &[LaneCounters], told: Summary, sinks: &mut [Box<dyn Sink>]) -> RunError {
    let error = RunError::Panicked(lane);
    let sum = |of: fn(&LaneCounters) -> u64| counters.iter().map(of).sum();
    let mut summary = Summary {
        tx: sum(|lane| lane.tx_packets.get()),
        rx: sum(|lane| lane.rx_test.get()),
        valid: false,
        invalid_reasons: vec![error.to_string()],
        ..told
    };
    summary.warnings = sinks.iter_mut().flat_map(|sink| sink.finish()).collect();
    sinks.iter_mut().for_each(|sink| sink.event(&Event::End(&summary)));
    error
}

/// Returns the role of each lane in one way.
fn roles(job: &dyn Job, common: &Common, way: usize) -> Vec<LanePlan> {
    let role = |(lane, plan): (usize, &LanePlan)| {
        let ways = job.ways_of(lane);
        LanePlan {
            rx: plan.rx && ways.takes == way,
            tx: plan.tx && ways.sends == way,
            ..*plan
        }
    };
    common.lanes.iter().enumerate().map(role).collect()
}

/// Returns the CPU time of the threads beside the lanes; `None` if the kernel does not report it.
fn housekeeping(host: &mut HostWait, collected: &Collected, run_ns: u64) -> Option<Housekeeping> {
    let threads = host.own().by_thread();
    (!threads.is_empty()).then(|| Housekeeping {
        cpu_ns: threads.iter().map(|(_, ns)| ns).sum(),
        run_ns,
        longest_ns: collected.longest_ns,
        threads,
    })
}

/// Notes that a lane has ended a trial, however it ends.
struct Ends(Arc<Trial>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.control.lane_ends();
    }
}

/// Runs one lane's thread, from pinning to its last trial.
fn lane_thread(
    index: usize,
    clock: Clock,
    base: &Base<'_>,
    ready: mpsc::Sender<Readiness>,
    words: &mpsc::Receiver<Word>,
) {
    let plan = base.common.lanes[index];
    sched::tight_timers();
    sched::short_slices();
    // A lane that only reads the kernel's counts stays out of the way of lanes that send.
    let cores = base.common.cores();
    let _beside = plan.core.is_none().then(|| sched::keep_off(&cores));
    match open_and_serve(index, &clock, base, &ready, words) {
        // Its queue and its pool are gone by now, and the path's counters are final.
        Ok(Some((ends, outcome, ended))) => {
            let _ = ended.send((index, outcome));
            drop(ends);
        }
        Ok(None) => {}
        Err(error) => {
            let _ = ready.send((index, Err(error)));
        }
    }
}

/// Results of the last trial, still to be sent to the main thread.
type Left = (Ends, LaneOutcome, mpsc::Sender<(usize, LaneOutcome)>);

/// Makes a lane's memory and queues, which are gone when it returns, and goes through its trials.
fn open_and_serve(
    index: usize,
    clock: &Clock,
    base: &Base<'_>,
    ready: &mpsc::Sender<Readiness>,
    words: &mpsc::Receiver<Word>,
) -> Result<Option<Left>, RunError> {
    if let Some(core) = base.common.lanes[index].core {
        sched::pin(core).map_err(|e| Error::os("pin a lane to", format!("core {core}"), &e))?;
    }
    let mut served = Ok(None);
    base.job
        .with_lane(index, &mut |own| served = serve(index, own, clock, base, ready, words))?;
    served
}

/// Makes a lane ready and goes through its trials, up to the last; `None`: the lane was ended without a last trial.
fn serve(
    index: usize,
    own: &mut dyn AnyLane,
    clock: &Clock,
    base: &Base<'_>,
    ready: &mpsc::Sender<Readiness>,
    words: &mpsc::Receiver<Word>,
) -> Result<Option<Left>, RunError> {
    let job = base.job;
    let ended = |_| base.given_up.load(Ordering::Relaxed);
    // Before privileges are given up. Threads that a path's library starts from here on have the normal priority.
    let priority = base.common.priority.filter(|_| !job.only_reads(index));
    let refused = priority.and_then(|priority| {
        let error = sched::set_priority(priority, Heirs::Normal).err()?;
        Some(format!(
            "lane {index} has the normal priority, not {priority}: {error}{}",
            sched::lacks_for(priority, &error)
        ))
    });
    let dest_mac = own.resolve(&base.found, clock, &ended)?;
    base.common.opened(Opened::Lane(index))?;
    let thread = sched::thread_id();
    // A reader is one of the program's own threads.
    let tid = if job.only_reads(index) { 0 } else { thread };
    // Set above, or inherited from the program's parent.
    let real_time = sched::is_real_time();
    let times = (tid != 0).then(|| ThreadStat::open(thread)).flatten();
    let _ = ready.send((
        index,
        Ok(Ready {
            tid,
            real_time,
            refused,
        }),
    ));
    let mut traces: Option<Arc<Traces>> = None;
    // Packets of earlier trials that came in between two.
    let mut strays = 0;
    // Packets that come in belong to no trial yet.
    let mut between = base.several;
    loop {
        let word = match between {
            true => words.recv_timeout(ATTEND_EVERY),
            false => words.recv().map_err(mpsc::RecvTimeoutError::from),
        };
        let go = match word {
            Ok(Word::Go(go)) => go,
            Ok(Word::Attend(done)) => {
                strays += own.attend(&base.found, traces.as_deref());
                between = false;
                let _ = done.send(index);
                continue;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                strays += own.attend(&base.found, traces.as_deref());
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(None),
        };
        let mut outcome = run_lane(index, own, clock, base, &go, (dest_mac, times.as_ref()));
        let Go {
            ends, series, ended, ..
        } = go;
        // Before it says that it has ended: the series are used again.
        drop(series);
        outcome
            .reasons
            .extend((strays > 0).then_some((Reason::LateOfAnEarlierTrial, strays)));
        if ends.0.last {
            return Ok(Some((ends, outcome, ended)));
        }
        (strays, between) = (0, base.several);
        traces = ends.0.traffic.first().and_then(|trial| trial.traces.clone());
        let _ = ended.send((index, outcome));
    }
}

/// Runs a lane's part in one trial.
fn run_lane(
    index: usize,
    own: &mut dyn AnyLane,
    clock: &Clock,
    base: &Base<'_>,
    go: &Go,
    (dest_mac, times): (Option<mpps_wire::MacAddr>, Option<&ThreadStat>),
) -> LaneOutcome {
    let (job, trial, start_ns) = (base.job, &*go.ends.0, go.start_ns);
    let counters = &trial.counters[index];
    let (ways, lanes) = (job.ways_of(index), base.common.lanes.len());
    let recorder_in = |way: usize| go.series[way * lanes + index].recorder();
    // Rows of a way in which the lane does nothing wait for it no longer.
    (0..job.ways().len())
        .filter(|&way| way != ways.sends && way != ways.takes)
        .for_each(|way| recorder_in(way).end());
    let recorder = recorder_in(ways.sends);
    let go_ns = start_ns.saturating_sub(job.ahead_ns());
    counters.stages.mark_ps.set(stages::mark_ps(clock));
    wait_until(clock, go_ns, &trial.control);
    let delay = times.and_then(ThreadStat::read);
    let began_ns = clock.now_ns();
    let stamps = trial.common.trace.as_ref().and_then(|trace| (trace.stamps)(index));
    let lane = Lane {
        idle: Idle::new(
            trial.common.busy_poll,
            trial.common.share_cores,
            matches!(trial.common.priority, Some(sched::Priority::Fifo(_))),
            clock.clone(),
            counters,
        ),
        stages: Stages::new(
            &counters.stages,
            waited_of(times),
            trial
                .rings
                .get(index)
                .zip(trial.common.trace.as_ref())
                .map(|(ring, options)| Flight::new(ring, flight::limits(options), trial.common.lanes[index].rx)),
        ),
        sampler: trial.common.sample.as_ref().and_then(|sample| sample.sampler(index)),
        stamps: stamps.as_ref().map(StampMemory::lane),
        clock: clock.clone(),
        control: &trial.control,
        port: job.port_of(index),
        counters,
        neighbor: job
            .link_of(index)
            .map(|link| Neighbor::new(link, job.src_of(index), &base.found[job.port_of(index)])),
        attends: job.attends(index),
        burst: trial.common.burst,
        start_ns,
        dest_mac,
        arrivals: (ways.takes != ways.sends).then(|| recorder_in(ways.takes)),
        told_down: Default::default(),
        obstacle: Default::default(),
        down: Default::default(),
        napped_ns: Default::default(),
    };
    let mut outcome = own.run(lane, recorder, &trial.traffic);
    outcome.began_after_ns = began_ns.saturating_sub(start_ns);
    let pinned = trial.common.lanes[index].core;
    outcome.moved_to = pinned
        .map(|core| (core, sched::own_cores()))
        .and_then(|(core, now)| (now != [core]).then_some(now));
    outcome.run_delay_ns = times
        .and_then(ThreadStat::read)
        .zip(delay)
        .map(|(now, then)| now.waited_ns.saturating_sub(then.waited_ns));
    // Time before the start is no part of it.
    outcome.measured_ns = clock.now_ns().saturating_sub(began_ns.max(start_ns));
    outcome
}

/// Returns at this time, ns, or at once if it is past or the end has come. Sleeps for as long as that is exact enough,
/// then spins.
pub(crate) fn wait_until(clock: &Clock, at_ns: u64, control: &Control) {
    /// Longest sleep, ns: a user who wants the end does not wait for the start.
    const SLICE_NS: u64 = 50_000_000;
    loop {
        let now_ns = clock.now_ns();
        if now_ns >= at_ns || control.end_ns() <= now_ns {
            return;
        }
        match at_ns - now_ns {
            0..200_000 => std::hint::spin_loop(),
            far => thread::sleep(Duration::from_nanos((far - 150_000).min(SLICE_NS))),
        }
    }
}
