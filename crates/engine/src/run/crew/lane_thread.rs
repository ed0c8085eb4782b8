//! A lane's thread: what it makes ready, how it waits for the next trial, and its part in each.

use super::{Base, Trial};
use crate::error::RunError;
use crate::lane::Lane;
use crate::lane::idle::Idle;
use crate::lane::sample::Sampler;
use crate::lane::stages::{self, Flight, Stages, waited_of};
use crate::outcome::LaneOutcome;
use crate::plan::Opened;
use crate::receive::traces::Traces;
use crate::run::flight;
use crate::run::job::AnyLane;
use crate::stamped::StampMemory;
use mpps_io::{Error, Reason};
use mpps_stats::{LaneSeries, Remark, RemarkName};
use mpps_sys::clock::Clock;
use mpps_sys::proc_stat::ThreadStat;
use mpps_sys::sched::{self, Heirs};
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Time between two looks of the lanes at their queues, between trials. Questions for our address are answered, and no
/// packets pile up.
const ATTEND_EVERY: Duration = Duration::from_millis(50);

/// State of a lane that is ready.
pub(super) struct Ready {
    /// Thread of the lane; 0: it only reads, and counts as one of the program's own threads.
    pub(super) tid: i32,
    /// Whether its thread has a real-time class.
    pub(super) real_time: bool,
    /// Remark that its thread has no other priority than before, though one was asked for.
    pub(super) refused: Option<Remark>,
}

/// A lane's report that it is ready or has failed, with its number.
pub(super) type Readiness = (usize, Result<Ready, RunError>);

/// Message that starts a lane's part of a trial.
pub(super) struct Go {
    /// Part of the message, so that the collector notices a lane that has ended before the message could reach it.
    pub(super) ends: Ends,
    /// Series by track, then by lane.
    pub(super) series: Arc<Vec<Option<LaneSeries>>>,
    /// Series by lane, then by stream of packets.
    pub(super) by_stream: Arc<Vec<Vec<LaneSeries>>>,
    pub(super) start_ns: u64,
    pub(super) ended: mpsc::Sender<(usize, LaneOutcome)>,
}

/// The messages to a lane.
pub(super) enum Word {
    /// Empty your queue, say so, and leave it alone until the next word: a trial is about to begin.
    Attend(mpsc::Sender<usize>),
    Go(Go),
}

/// Notes that a lane has ended a trial, however it ends.
pub(super) struct Ends(pub(super) Arc<Trial>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.control.lane_ends();
    }
}

/// Runs one lane's thread, from pinning to its last trial.
pub(super) fn lane_thread(
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
        let text = format!(
            "lane {index} has the normal priority, not {priority}: {error}{}",
            sched::lacks_for(priority, &error)
        );
        Some(Remark::new(RemarkName::PriorityRefused, text).with("lane", index))
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
            ends,
            series,
            by_stream,
            ended,
            ..
        } = go;
        // Before it says that it has ended: the series are used again.
        drop((series, by_stream));
        outcome
            .reasons
            .extend((strays > 0).then_some((Reason::LateOfAnEarlierTrial, strays)));
        if ends.0.last {
            return Ok(Some((ends, outcome, ended)));
        }
        (strays, between) = (0, base.several);
        let of_arrivals = ends.0.traffic.get(job.tracks_of(index).takes);
        traces = of_arrivals.and_then(|trial| trial.traces.clone());
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
    let (tracks, lanes) = (job.tracks_of(index), base.common.lanes.len());
    let recorder_in = |track: usize| {
        let series = go.series[track * lanes + index].as_ref();
        series.expect("a series in each track of the lane").recorder()
    };
    let recorder = recorder_in(tracks.sends);
    let go_ns = start_ns.saturating_sub(job.ahead_ns());
    counters.stages.mark_ps.set(stages::mark_ps(clock));
    trial.control.wait_until(clock, go_ns);
    let delay = times.and_then(ThreadStat::read);
    let began_ns = clock.now_ns();
    let traced = trial.common.trace.is_some();
    let stamps = traced.then(|| trial.common.owner.stamps(index)).flatten();
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
        sampler: trial
            .common
            .sample
            .as_ref()
            .and_then(|sample| Sampler::of_lane(sample, index))
            .map(RefCell::new),
        stamps: stamps.as_ref().map(StampMemory::lane),
        clock: clock.clone(),
        control: &trial.control,
        port: job.port_of(index),
        counters,
        neighbor: job.neighbor(index, &base.found),
        attends: job.attends(index),
        // Ports beside each other may have different ones.
        burst: trial
            .traffic
            .get(tracks.takes)
            .map_or(trial.common.burst, |of| of.plan.common.burst),
        start_ns,
        dest_mac,
        by_stream: trial.layout.as_ref().zip(go.by_stream.get(index).map(Vec::as_slice)),
        arrivals: (tracks.takes != tracks.sends).then(|| recorder_in(tracks.takes)),
        told_down: Default::default(),
        obstacle: Default::default(),
        down: Default::default(),
        napped_ns: Default::default(),
    };
    let mut outcome = own.run(lane, recorder, &trial.traffic);
    outcome.began_after_ns = outcome.began_after_ns.max(began_ns.saturating_sub(start_ns));
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
