//! The end of a trial: its summary, made from what was measured.

use super::Crew;
use super::measure::{Before, Findings, Prepared, Sums, unwritten};
use super::start_at::began_late;
use crate::outcome::LaneOutcome;
use crate::plan::SampleOptions;
use crate::run::around;
use crate::run::by_stream;
use crate::run::collect::Collected;
use crate::run::directions;
use crate::run::flight::Keeper;
use crate::run::live::HostWait;
use crate::run::summary::{Measured, summarise};
use crate::streams::Streams;
use crate::verdict::meanwhile::LaneTime;
use mpps_stats::{Direction, Housekeeping, Remark, RemarkName, SampleSummary, Sink, Summary, Totals};

impl Crew<'_> {
    /// Makes the summary of a trial: of each track, if there are several, and of all.
    pub(super) fn sum_up(
        &mut self,
        prepared: &Prepared,
        before: &Before,
        findings: &Findings,
        mut sums: Sums,
        keeper: Keeper<'_>,
        sinks: &mut [Box<dyn Sink>],
    ) -> Summary {
        let notes = self.refused.iter().cloned().chain(unwritten(sinks)).collect();
        let run_ns = self.clocks.clock().now_ns().saturating_sub(prepared.timing.start_ns);
        let housekeeping = housekeeping(&mut self.host, &findings.collected, run_ns);
        let review = Review {
            crew: self,
            prepared,
            before,
            findings,
            notes,
            housekeeping,
        };
        let names = self.job.tracks();
        let mut summary = if names.is_empty() {
            summarise(&review.of(None, sums.all, sums.times_of_tracks.remove(0)))
        } else {
            let of_track = |(track, (totals, times))| Direction {
                name: names[track],
                summary: summarise(&review.of(Some(track), totals, times)),
            };
            let tracks = sums.of_tracks.into_iter().zip(sums.times_of_tracks);
            let tracks = tracks.enumerate().map(of_track).collect();
            directions::combine(summarise(&review.of(None, sums.all, Default::default())), tracks)
        };
        let trial = &*prepared.trial;
        if let Some(packets) = self.job.packets(&trial.traffic) {
            let senders = trial.common.lanes.iter().filter(|lane| lane.tx).count();
            // Each way has lanes of its own.
            let senders = if packets.go_back() { senders / 2 } else { senders };
            let tolerance = self.job.facts(&trial.traffic, None).tolerance;
            let layout = trial.layout.as_deref();
            by_stream::add(&mut summary, packets, (senders, tolerance), layout, sums.by_stream);
        }
        with_kept(summary, prepared, findings, keeper)
    }
}

/// Results of a trial that its summaries are made from.
struct Review<'r, 's> {
    crew: &'r Crew<'s>,
    prepared: &'r Prepared,
    before: &'r Before,
    findings: &'r Findings,
    notes: Vec<Remark>,
    housekeeping: Option<Housekeeping>,
}

impl Review<'_, '_> {
    /// Returns the measurements of one track, or of all together.
    fn of(&self, track: Option<usize>, totals: Totals, [sending, dropping]: [Vec<LaneTime>; 2]) -> Measured<'_> {
        let (crew, findings, before) = (self.crew, self.findings, self.before);
        let (job, host, trial) = (crew.job, &crew.host, &*self.prepared.trial);
        let common = track.and_then(|track| job.common_of(&trial.traffic, track));
        Measured {
            workload: self.prepared.workload,
            common: common.unwrap_or(&trial.common),
            work: job.facts(&trial.traffic, track),
            latency_note: job.latency_note(totals.latency.count > 0),
            totals,
            outcomes: &findings.outcomes,
            counters: &trial.counters,
            path: findings.path.of(track),
            one_track: track.is_some(),
            queues: (0..crew.members.len()).map(|lane| job.queue_number(lane)).collect(),
            started: self.prepared.started,
            end_ns: findings.end_ns,
            interrupted: findings.collected.interrupted,
            housekeeping: self.housekeeping.clone(),
            control: &trial.control,
            path_name: job.path(track),
            port_facts: job.port_facts(track),
            coalesces: job.coalesces(track),
            port_names: job.port_names(),
            around: around::of_track(&findings.around, track),
            clock: crew.clocks.name(),
            steal_ns: host
                .steal_ns()
                .zip(before.steal_ns)
                .map(|(now, then)| now.saturating_sub(then)),
            notes: &self.notes,
            collector_gaps: findings.gaps.longest(),
            rivals: &before.rivals,
            withheld: findings.withheld.as_ref(),
            real_time: crew.real_time.as_ref(),
            unread_quota: crew.unread_quota.as_deref(),
            sending,
            dropping,
            looked_ns: findings.ended_ns.saturating_sub(before.looked_from_ns),
        }
    }
}

/// Adds to a summary what is known of the whole trial only: the error of its start, and what was kept of its rounds
/// and packets.
fn with_kept(mut summary: Summary, prepared: &Prepared, findings: &Findings, keeper: Keeper<'_>) -> Summary {
    let (trial, start_ns) = (&*prepared.trial, prepared.timing.start_ns);
    let outcomes = &findings.outcomes;
    // Lanes that the kernel sends for keep to the start in the kernel, and do not say how well.
    let starts_at = prepared
        .starts_at
        .filter(|_| outcomes.iter().all(|lane| lane.sent.is_none()));
    let start_error_ns = starts_at.map(|starts| starts.error_ns(start_ns, outcomes));
    summary.start_error_ns = start_error_ns;
    let overshot = trial.common.streams.as_ref().map_or(0, Streams::overshot);
    summary.warnings.extend((overshot > 0).then(|| {
        let text =
            format!("{overshot} packets left after an order held: a lane knew of it too late, as it lacked its core");
        Remark::new(RemarkName::SentAfterOrder, text).with("packets", overshot)
    }));
    summary.warnings.extend(start_error_ns.and_then(began_late));
    let lost = keeper.lost();
    let known = (findings.ended_ns, summary.lost as i64, summary.valid);
    summary.kept = keeper.end(&trial.common, &trial.counters, known);
    summary.sample = trial.common.sample.as_ref().map(|sample| sampled(sample, outcomes));
    if let Some(cost) = &mut summary.stage_cost {
        cost.lost = lost;
    }
    summary
}

/// Returns the counts of all lanes' samples, before the writer has ended.
fn sampled(sample: &SampleOptions, lanes: &[LaneOutcome]) -> SampleSummary {
    let counts = || lanes.iter().filter_map(|lane| lane.sampled);
    SampleSummary {
        every: sample.every,
        snap_len: sample.snap_len as u64,
        received: counts().map(|lane| lane.received).sum(),
        sent: counts().map(|lane| lane.sent).sum(),
        dropped_ring: counts().map(|lane| lane.ring_full).sum(),
        ..SampleSummary::default()
    }
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
