//! One trial, as the main thread takes it from its preparation to its summary.
//!
//! Four steps: [`Crew::prepare`] makes counters and rows and reads the host, [`Crew::start`] starts the lanes,
//! [`Crew::collect`] is the collector until all lanes have ended, and [`Crew::sum_up`] makes the summary.

use super::lane_thread::{Ends, Go, Word};
use super::start_at::StartsAt;
use super::{Crew, Order, Trial};
use crate::error::RunError;
use crate::lane::away::Away;
use crate::lane::control::Control;
use crate::outcome::LaneOutcome;
use crate::plan::{Common, LanePlan};
use crate::run::around;
use crate::run::collect::{Collected, Parts, Watches, collect};
use crate::run::flight::{self, Keeper};
use crate::run::host_drops::{self, HostDrops};
use crate::run::job::Job;
use crate::run::live::HostWait;
use crate::run::path_counters::PathCounters;
use crate::streams::{OrderError, StreamPlan, Streams};
use crate::verdict::meanwhile::{LaneTime, Lookout};
use crate::verdict::withheld::Quotas;
use crate::workload::WorkFacts;
use mpps_io::around::Surroundings;
use mpps_io::{Error, Rate, Rates};
use mpps_stats::{
    ArrivalTimes, Collector, Event, GapLog, LaneCounters, LaneSeries, Remark, RemarkName, Sink, Start, Started,
    Summary, Timing, Totals, Withheld, Workload,
};
use mpps_sys::clock::{ClockSource, utc_ns};
use mpps_sys::evidence::OthersRan;
use mpps_sys::proc_stat::ThreadStat;
use mpps_sys::sched;
use std::sync::{Arc, mpsc};

/// Time from the last lane's readiness to the start, ns.
const LEAD_NS: u64 = 5_000_000;
/// Additional time for each lane that has to wake up, ns.
const LEAD_A_LANE_NS: u64 = 1_000_000;

/// A trial that is ready to start.
pub(super) struct Prepared {
    pub(super) trial: Arc<Trial>,
    pub(super) workload: Workload,
    /// Scheduled send times are known.
    pub(super) paced: bool,
    pub(super) timing: Timing,
    pub(super) started: Started,
    /// Start that was asked for.
    pub(super) starts_at: Option<StartsAt>,
    /// Series by track, then by lane.
    pub(super) series: Arc<Vec<Option<LaneSeries>>>,
    /// Series by lane, then by stream of packets, group or size; empty if there are none.
    pub(super) by_stream: Arc<Vec<Vec<LaneSeries>>>,
}

/// Readings of the host and of the path before the start.
pub(super) struct Before {
    pub(super) rivals: OthersRan,
    pub(super) path: PathCounters,
    /// Watches of interfaces, until they are ended.
    pub(super) watches: Watches,
    pub(super) steal_ns: Option<u64>,
    pub(super) looked_from_ns: u64,
}

impl Before {
    fn read(job: &dyn Job, lanes: usize, host: &HostWait, clocks: &ClockSource) -> Self {
        // This takes longer the more threads the host has: packets that the path counts meanwhile are not the trial's.
        let rivals = OthersRan::now();
        Self {
            rivals,
            path: PathCounters::read(job, lanes),
            watches: job.watches(),
            steal_ns: host.steal_ns(),
            looked_from_ns: clocks.clock().now_ns(),
        }
    }
}

/// Lanes that have started on a trial.
struct Running {
    outcomes: mpsc::Receiver<(usize, LaneOutcome)>,
    /// First lane that could not receive the message.
    panicked: Option<usize>,
}

impl Running {
    /// Returns the outcomes by lane. All lanes have ended: each that has not panicked has sent its outcome.
    ///
    /// # Errors
    /// The lane that has panicked.
    fn outcomes(self, lanes: usize) -> Result<Vec<LaneOutcome>, usize> {
        let mut panicked = self.panicked;
        let mut by_lane: Vec<Option<LaneOutcome>> = (0..lanes).map(|_| None).collect();
        for (index, outcome) in self.outcomes {
            by_lane[index] = Some(outcome);
        }
        let mut outcomes = Vec::new();
        for (index, outcome) in by_lane.into_iter().enumerate() {
            match outcome {
                Some(outcome) => outcomes.push(outcome),
                None => panicked = panicked.or(Some(index)),
            }
        }
        match panicked {
            Some(lane) => Err(lane),
            None => Ok(outcomes),
        }
    }
}

/// Results of a trial, beside its totals.
pub(super) struct Findings {
    pub(super) collected: Collected,
    pub(super) outcomes: Vec<LaneOutcome>,
    pub(super) path: PathCounters,
    /// Events around each port.
    pub(super) around: Vec<(usize, Surroundings)>,
    pub(super) withheld: Option<Withheld>,
    /// Times when the collector was away from its clock.
    pub(super) gaps: GapLog,
    /// End of sending.
    pub(super) end_ns: u64,
    /// End of the trial.
    pub(super) ended_ns: u64,
}

/// Totals of a trial.
pub(super) struct Sums {
    pub(super) all: Totals,
    pub(super) of_tracks: Vec<Totals>,
    /// Totals of streams, groups and sizes, in the order of their books.
    pub(super) by_stream: Vec<Totals>,
    /// By track: the lanes' time until the sending ended, and their time during the drops.
    pub(super) times_of_tracks: Vec<[Vec<LaneTime>; 2]>,
}

impl Crew<'_> {
    /// Measures one trial.
    pub(super) fn measure(
        &mut self,
        order: Order,
        last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary, RunError> {
        // However the trial ends: its caller may wait for counts in another thread.
        let _ends = order.common.streams.clone().map(EndsStreams);
        let (prepared, mut before) = self.prepare(order, last, interruptions)?;
        let running = self.start(&prepared, sinks);
        let (findings, sums, keeper) = self.collect(&prepared, &mut before, running, sinks, interruptions)?;
        let summary = self.sum_up(&prepared, &before, &findings, sums, keeper, sinks);
        // For the next trial: the lanes have released them.
        self.series = Arc::into_inner(prepared.series).unwrap_or_default();
        Ok(summary)
    }

    /// Makes counters, rings and rows, waits for a start that was asked for, reads the host and the path, and then
    /// chooses the start.
    fn prepare(
        &mut self,
        order: Order,
        last: bool,
        interruptions: &dyn Fn() -> u32,
    ) -> Result<(Prepared, Before), RunError> {
        let (job, lanes) = (self.job, self.members.len());
        let lead_ns = job.ahead_ns() + LEAD_NS + lanes as u64 * LEAD_A_LANE_NS;
        let starts_at = order.common.start_at.map(|start| StartsAt::arm(start, lead_ns));
        let starts_at = starts_at.transpose()?;
        let directed = match &order.common.streams {
            Some(streams) => {
                let plans = stream_plans(&order)?;
                let soonest_ns = self.clocks.clock().now_ns() + lead_ns;
                streams.check(starts_at.map_or(soonest_ns, |starts| starts.at_ns), &plans)?;
                plans
            }
            None => Vec::new(),
        };
        let control = Control::new().map_err(|e| Error::os("make the descriptor that wakes", "the collector", &e))?;
        let trial = Arc::new(Trial {
            control,
            counters: self.counters(),
            rings: flight::rings(&order.common),
            common: order.common,
            traffic: order.traffic,
            layout: order.layout,
            last,
        });
        let mut timing = Timing {
            start_ns: 0,
            interval_ns: trial.common.interval.as_nanos() as u64,
            settle_ns: order.settle_ns,
        };
        let mut series = self.series(timing, &trial.common);
        let mut by_stream = series_by_stream(self.job, &trial, timing);
        if let Some(starts) = starts_at {
            starts.wait(lead_ns, interruptions)?;
        }
        self.between(interruptions)?;
        self.trials += 1;
        let before = Before::read(job, lanes, &self.host, &self.clocks);
        // All this takes a while; the start is chosen after, so that it is ahead of every lane.
        let soonest_ns = self.clocks.clock().now_ns() + lead_ns;
        let start_ns = starts_at.map_or(soonest_ns, |starts| starts.at_ns.max(soonest_ns));
        timing.start_ns = start_ns;
        series.iter_mut().flatten().for_each(|lane| lane.set_start(start_ns));
        by_stream.iter_mut().flatten().for_each(|lane| lane.set_start(start_ns));
        set_ends(&trial, start_ns);
        if let Some(streams) = &trial.common.streams {
            streams.begin(start_ns, &directed)?;
        }
        let prepared = Prepared {
            trial,
            workload: order.workload,
            paced: order.paced,
            timing,
            started: Started {
                monotonic_ns: start_ns,
                utc_ns: utc_ns(start_ns),
            },
            starts_at,
            series: Arc::new(series),
            by_stream: Arc::new(by_stream),
        };
        Ok((prepared, before))
    }

    fn counters(&self) -> Vec<LaneCounters> {
        let counters: Vec<LaneCounters> = self.tids.iter().map(|_| LaneCounters::default()).collect();
        for (counters, tid) in counters.iter().zip(&self.tids) {
            counters.thread.set(*tid as u64);
        }
        counters
    }

    /// Returns the series of the lanes, by track, of the tracks in which they do something: those of the last trial if
    /// they fit.
    fn series(&mut self, timing: Timing, common: &Common) -> Vec<Option<LaneSeries>> {
        let tracks = self.job.tracks().len().max(1);
        let mut series = std::mem::take(&mut self.series);
        let fits = |lane: &mut LaneSeries| lane.renew(timing);
        if series.len() == tracks * self.members.len() && series.iter_mut().flatten().all(fits) {
            return series;
        }
        series.clear();
        for track in 0..tracks {
            for (lane, role) in roles(self.job, common, track).into_iter().enumerate() {
                let own = self.job.tracks_of(lane);
                let works = own.sends == track || own.takes == track;
                let timed = role.rx && self.job.arrival_times() == ArrivalTimes::Noted;
                series.push(works.then(|| LaneSeries::new(timing, role.rx).with_arrivals(timed)));
            }
        }
        series
    }

    /// Announces the trial to the sinks, and starts the lanes.
    fn start(&self, prepared: &Prepared, sinks: &mut [Box<dyn Sink>]) -> Running {
        let control = &prepared.trial.control;
        let start = start_event(self.job, prepared);
        for sink in sinks.iter_mut() {
            sink.event(&Event::Start(start));
        }
        let start_ns = prepared.timing.start_ns;
        self.job.begin(start_ns, control.end_ns());
        let (ended, outcomes) = mpsc::channel();
        // A lane that can't receive the message has panicked since the last trial. The lanes that have started are
        // ended at once.
        let mut panicked = None;
        for (index, member) in self.members.iter().enumerate() {
            let go = Go {
                ends: Ends(Arc::clone(&prepared.trial)),
                series: Arc::clone(&prepared.series),
                by_stream: Arc::clone(&prepared.by_stream),
                start_ns,
                ended: ended.clone(),
            };
            if member.words.send(Word::Go(go)).is_err() {
                panicked = panicked.or(Some(index));
                control.end_at(0);
            }
        }
        Running { outcomes, panicked }
    }

    /// Runs the collector until all lanes have ended, and takes the last readings of the host and the path.
    fn collect<'p>(
        &mut self,
        prepared: &'p Prepared,
        before: &mut Before,
        running: Running,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<(Findings, Sums, Keeper<'p>), RunError> {
        let (job, lanes) = (self.job, self.members.len());
        let (trial, start_ns) = (&*prepared.trial, prepared.timing.start_ns);
        let (control, common) = (&trial.control, &trial.common);
        let mut collector = collector(job, prepared);
        let mut by_stream = collector_by_stream(job, prepared);
        let mut drops = drops_of_tracks(job, &before.path, trial, &self.stats);
        let mut keeper = Keeper::new(&trial.rings, common, start_ns);
        let mut quotas = Quotas::new(&self.quotas, start_ns);
        let gaps = GapLog::default();
        let beside_lanes = sched::keep_off(&common.cores());
        let collected = collect(Parts {
            job,
            control,
            common,
            counters: &trial.counters,
            timing: prepared.timing,
            collector: &mut collector,
            by_stream: by_stream.as_mut(),
            drops: &mut drops,
            quotas: &mut quotas,
            away: Away::new(&gaps),
            keeper: &mut keeper,
            watches: &mut before.watches,
            clocks: &mut self.clocks,
            host: &mut self.host,
            sinks,
            interruptions,
        });
        drop(beside_lanes);
        let outcomes = running
            .outcomes(lanes)
            .map_err(|lane| broken_off(lane, prepared, sinks))?;
        let end_ns = control.end_ns();
        collector.set_end(end_ns);
        if let Some(by_stream) = &mut by_stream {
            by_stream.set_end(end_ns);
            by_stream.finish(sinks);
        }
        let path = PathCounters::read(job, lanes).since(&before.path);
        let ended_ns = self.clocks.clock().now_ns();
        quotas.look(ended_ns);
        let withheld = quotas.end();
        let around = around::end(std::mem::take(&mut before.watches), ended_ns, start_ns);
        let times_of_tracks = host_drops::end(drops, ended_ns, job, (&path.tracks, &outcomes), &mut collector);
        let sums = Sums {
            all: collector.finish(sinks),
            of_tracks: collector.totals_of_tracks(),
            by_stream: by_stream.map(|mut of| of.totals_of_tracks()).unwrap_or_default(),
            times_of_tracks,
        };
        if let Some(streams) = &common.streams {
            let counts = |totals: &Totals| (totals.tally.tx, totals.lost);
            let until_ns = ended_ns.saturating_sub(start_ns);
            streams.note(until_ns, counts(&sums.all), sums.of_tracks.iter().map(counts));
        }
        let findings = Findings {
            collected,
            outcomes,
            path,
            around,
            withheld,
            gaps,
            end_ns,
            ended_ns,
        };
        Ok((findings, sums, keeper))
    }
}

/// Ends the streams of a trial when it is dropped.
struct EndsStreams(Streams);

impl Drop for EndsStreams {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Returns the streams of a trial that its caller directs, for their orders.
///
/// # Errors
/// If its plans leave no room for orders.
fn stream_plans(order: &Order) -> Result<Vec<StreamPlan>, OrderError> {
    let wrong = |why: &str| Err(OrderError(format!("orders to streams: {why}")));
    let plans = || order.traffic.iter().map(|of| &of.plan);
    if order.traffic.is_empty() {
        return wrong("no lane of this run sends: want sendrecv or send, on another path than xdp");
    }
    if plans().any(|plan| plan.common.count.is_some()) || order.common.count.is_some() {
        return wrong("a number of packets says when to end: want a duration");
    }
    if order.layout.is_some() {
        return wrong("the packets are of several streams or sizes: want a plan for each stream");
    }
    if plans().any(|plan| plan.then.is_some()) {
        return wrong("the plan has a step to another rate: want an order for that instead");
    }
    let of_stream = |stream: usize| {
        let own = || order.traffic.iter().filter(move |of| of.stream == stream);
        let lanes = own()
            .flat_map(|of| &of.plan.common.lanes)
            .filter(|lane| lane.tx)
            .count();
        own().next().map(|of| StreamPlan {
            rate: of.plan.rate,
            lanes,
        })
    };
    Ok((0..).map_while(of_stream).collect())
}

/// Sets the ends of a trial that are known before its start.
fn set_ends(trial: &Trial, start_ns: u64) {
    let (control, common) = (&trial.control, &trial.common);
    // Streams without a rate may have a number of packets, too.
    let sends = common.lanes.iter().any(|lane| lane.tx);
    let several = trial.layout.is_some() && sends;
    if common.count.is_some() || common.streams.is_some() || several {
        control.count_senders(common.lanes.iter().filter(|lane| lane.tx).count());
    }
    if let Some(duration) = common.duration {
        control.end_at(start_ns + duration.as_nanos() as u64);
    }
}

fn start_event(job: &dyn Job, prepared: &Prepared) -> Start {
    let names = job.tracks();
    let facts = |track| job.facts(&prepared.trial.traffic, track);
    let work = facts(None);
    let tracks: Vec<WorkFacts> = match names {
        [] => vec![work],
        names => (0..names.len()).map(|track| facts(Some(track))).collect(),
    };
    // What the caller will order is not known, and streams may begin later.
    let rates = |of: &WorkFacts| of.rates.filter(|_| !of.pauses);
    let rates: Option<Vec<_>> = tracks.iter().map(rates).collect();
    let sum = |of: &dyn Fn(&Rates) -> Option<Rate>| {
        let rates = rates.as_ref()?.iter().map(|rates| Some(of(rates)?.pps()));
        rates.sum::<Option<f64>>()
    };
    let step = |rates: &Rates| rates.then.map(|step| step.rate);
    let after_ns = work.rates.and_then(|rates| rates.then).map(|step| step.after_ns);
    Start {
        workload: prepared.workload,
        tracks: names,
        started: prepared.started,
        intended_pps: sum(&|rates| Some(rates.first)),
        then_pps: after_ns.zip(sum(&step)),
        tolerance: work.tolerance,
    }
}

fn collector<'p>(job: &dyn Job, prepared: &'p Prepared) -> Collector<'p> {
    let tracks = prepared.series.chunks(prepared.trial.common.lanes.len());
    let by_track = tracks.map(|lanes| lanes.iter().flatten().collect()).collect();
    let mut collector = Collector::of_tracks(by_track, prepared.workload, prepared.paced);
    if job.kernel_sends() {
        collector.kernel_sends();
    }
    time_arrivals(job, prepared.workload, &mut collector);
    collector
}

/// Informs the collector who notes when packets arrive, if their latency is measured.
fn time_arrivals(job: &dyn Job, workload: Workload, collector: &mut Collector<'_>) {
    if matches!(workload, Workload::SendRecv | Workload::Drop) {
        collector.time_arrivals(job.arrival_times());
    }
}

/// Makes the series of streams, groups and sizes, by lane.
fn series_by_stream(job: &dyn Job, trial: &Trial, timing: Timing) -> Vec<Vec<LaneSeries>> {
    let lanes = trial.common.lanes.iter();
    let timed = job.arrival_times() == ArrivalTimes::Noted;
    trial.layout.as_ref().map_or_else(Vec::new, |layout| {
        lanes
            .map(|lane| layout.series(timing, lane.rx, timed && lane.rx))
            .collect()
    })
}

fn collector_by_stream<'p>(job: &dyn Job, prepared: &'p Prepared) -> Option<Collector<'p>> {
    let layout = prepared.trial.layout.as_ref()?;
    let lanes = &prepared.by_stream;
    let track = |track: usize| lanes.iter().map(|series| &series[track]).collect();
    let tracks = (0..lanes.first()?.len()).map(track).collect();
    let books = layout.books.clone();
    let mut collector = Collector::of_streams(tracks, books, prepared.workload, prepared.paced);
    time_arrivals(job, prepared.workload, &mut collector);
    Some(collector)
}

/// Returns the readers of the host's drops, by track.
fn drops_of_tracks<'r>(
    job: &dyn Job,
    before: &PathCounters,
    trial: &'r Trial,
    stats: &'r [Option<ThreadStat>],
) -> Vec<HostDrops<'r>> {
    let of_track = |(track, counters): (usize, &Vec<_>)| {
        let roles = roles(job, &trial.common, track);
        let own = stats
            .iter()
            .zip(&roles)
            .map(|(stat, role)| stat.as_ref().filter(|_| role.rx || role.tx));
        let lookout = Lookout::new(&trial.counters, own.collect());
        HostDrops::new(job, (track, counters), roles, &trial.control, lookout)
    };
    before.tracks.iter().enumerate().map(of_track).collect()
}

/// Ends the stream of a trial without its last rows, as a lane has panicked: nothing after this ends it.
fn broken_off(lane: usize, prepared: &Prepared, sinks: &mut [Box<dyn Sink>]) -> RunError {
    let error = RunError::Panicked(lane);
    let sum = |of: fn(&LaneCounters) -> u64| prepared.trial.counters.iter().map(of).sum();
    let mut summary = Summary {
        workload: prepared.workload,
        started: prepared.started,
        tx: sum(|lane| lane.tx_packets.get()),
        rx: sum(|lane| lane.rx_test.get()),
        valid: false,
        invalid_reasons: vec![Remark::new(RemarkName::LanePanicked, error.to_string()).with("lane", lane)],
        ..Summary::default()
    };
    summary.warnings = unwritten(sinks).collect();
    sinks.iter_mut().for_each(|sink| sink.event(&Event::End(&summary)));
    error
}

/// Ends the sinks, and returns their notes on files that were not written.
pub(super) fn unwritten(sinks: &mut [Box<dyn Sink>]) -> impl Iterator<Item = Remark> {
    let notes = sinks.iter_mut().flat_map(|sink| sink.finish());
    notes.map(|note| Remark::new(RemarkName::Output, note))
}

/// Returns the role of each lane in one track.
fn roles(job: &dyn Job, common: &Common, track: usize) -> Vec<LanePlan> {
    let role = |(lane, plan): (usize, &LanePlan)| {
        let tracks = job.tracks_of(lane);
        LanePlan {
            rx: plan.rx && tracks.takes == track,
            tx: plan.tx && tracks.sends == track,
            ..*plan
        }
    };
    common.lanes.iter().enumerate().map(role).collect()
}
