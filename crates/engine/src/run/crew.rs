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

mod lane_thread;
mod measure;
mod start_at;
mod sum_up;

use crate::books::Layout;
use crate::error::RunError;
use crate::lane::control::Control;
use crate::lane::neighbor::Found;
use crate::lane::ring::LaneRing;
use crate::plan::{Common, Link, Opened};
use crate::run::around;
use crate::run::job::Job;
use crate::run::live::HostWait;
use crate::verdict::{meanwhile, withheld};
use crate::workload::TrafficTrial;
use lane_thread::{Readiness, Word, lane_thread};
use mpps_io::Error;
use mpps_stats::{LaneCounters, LaneSeries, Remark, Sink, Summary, Workload};
use mpps_sys::cgroup::{Groups, Quota, RealTimeLimit};
use mpps_sys::clock::ClockSource;
use mpps_sys::proc_stat::ThreadStat;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

/// Time between two looks for an interruption while a run is not ready.
const LOOK: Duration = Duration::from_millis(20);

/// Order for one trial.
pub(crate) struct Order {
    pub(crate) common: Common,
    pub(crate) workload: Workload,
    pub(crate) settle_ns: u64,
    /// Scheduled send times are known.
    pub(crate) paced: bool,
    /// Data of each track, if lanes generate packets; else empty.
    pub(crate) traffic: Vec<TrafficTrial>,
    /// Tracks and books of streams; `None`: there are no streams, or one whose results are those of the run.
    pub(crate) layout: Option<Arc<Layout>>,
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
            layout: None,
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
    /// Tracks and books of streams, as in its order.
    pub(crate) layout: Option<Arc<Layout>>,
    /// Lanes release their queues and pools after this trial, before they say that they have ended.
    last: bool,
}

/// State that the threads of a crew share.
pub(crate) struct Base<'s> {
    job: &'s dyn Job,
    /// The lanes are these in every trial.
    common: &'s Common,
    /// Neighbours of each port, then further next hops.
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
            found: (0..job.ports() + job.hops().len()).map(|_| Found::default()).collect(),
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
    series: Vec<Option<LaneSeries>>,
    trials: u64,
    /// There may be more trials than one.
    several: bool,
    panicked: Option<usize>,
    /// Requests of the lanes that the host refused and a run can do without: for the warnings of each trial.
    refused: Vec<Remark>,
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
            series: Vec::new(),
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
        self.refused.sort_by(|a, b| a.sentence.cmp(&b.sentence));
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
        let result = self.measure(order, last, sinks, interruptions);
        if let Err(RunError::Panicked(lane)) = result {
            self.panicked = Some(lane);
        }
        result
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
            let sent = member.words.send(Word::Attend(done.clone()));
            sent.map_err(|_| RunError::Panicked(index))?;
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
}
