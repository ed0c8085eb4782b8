//! Adds everything up: from totals, lanes' outcomes and the path's counters to the [`Summary`].

mod counts;
mod evidence;
mod host;
mod lanes;
mod remarks;
mod stages;
mod warnings;

use crate::lane::control::Control;
use crate::outcome::LaneOutcome;
use crate::plan::{Common, LanePlan};
use crate::run::outage;
use crate::verdict::judge;
use crate::verdict::meanwhile::LaneTime;
use crate::workload::WorkFacts;
use counts::{merge, named};
use evidence::{KernelDrops, evidence};
use host::host_facts;
use lanes::{lane_summaries, port_summaries};
use mpps_io::QueueCounters;
use mpps_io::around::Surroundings;
use mpps_stats::{
    FieldChange, Gap, Gaps, Histogram, HostFact, Housekeeping, LaneCounters, Moments, Remark, ReorderDistance, Started,
    Summary, Tally, Totals, Withheld, Workload,
};
use mpps_sys::cgroup::RealTimeLimit;
use mpps_sys::evidence::OthersRan;
use mpps_wire::changes::{Changed, Changes};
use stages::{latest, slowest, stage_cost, stage_rows};
use warnings::warnings;

/// Measurements of a run, before it is judged.
pub(crate) struct Measured<'r> {
    pub(crate) workload: Workload,
    pub(crate) common: &'r Common,
    pub(crate) work: WorkFacts,
    pub(crate) totals: Totals,
    pub(crate) outcomes: &'r [LaneOutcome],
    pub(crate) counters: &'r [LaneCounters],
    /// Counters of the path by lane, then by port.
    pub(crate) path: &'r [Vec<QueueCounters>],
    /// The measurements are of one track of several: a lane's sent packets belong to it only if the lane sends in it,
    /// and its received packets only if the lane receives in it.
    pub(crate) one_track: bool,
    /// Number of each lane's queues.
    pub(crate) queues: Vec<usize>,
    pub(crate) started: Started,
    pub(crate) end_ns: u64,
    pub(crate) interrupted: bool,
    pub(crate) housekeeping: Option<Housekeeping>,
    pub(crate) control: &'r Control,
    pub(crate) path_name: String,
    /// Place where latency is taken, if not where the workload usually does.
    pub(crate) latency_note: Option<&'static str>,
    pub(crate) port_facts: Vec<HostFact>,
    pub(crate) coalesces: bool,
    /// Events around the ports.
    pub(crate) around: Vec<Surroundings>,
    /// Names of the ports; empty if the report has no line for each.
    pub(crate) port_names: Vec<String>,
    pub(crate) clock: &'static str,
    pub(crate) steal_ns: Option<u64>,
    /// Priorities that were refused, and files that were not written.
    pub(crate) notes: &'r [Remark],
    /// Times when the collector was away from its clock.
    pub(crate) collector_gaps: Vec<Gap>,
    /// Lanes of other processes before the start.
    pub(crate) rivals: &'r OthersRan,
    /// By lane: its time until the sending ended, and its time during its drops.
    pub(crate) sending: Vec<LaneTime>,
    pub(crate) dropping: Vec<LaneTime>,
    /// CPU time that a quota withheld.
    pub(crate) withheld: Option<&'r Withheld>,
    /// Limit of threads of real-time priority, if lanes have one.
    pub(crate) real_time: Option<&'r RealTimeLimit>,
    /// Control group whose CPU quota can't be read.
    pub(crate) unread_quota: Option<&'r str>,
    /// Time over which the host was looked at, ns.
    pub(crate) looked_ns: u64,
}

impl<'r> Measured<'r> {
    /// Returns the length of the run, ns.
    fn run_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.started.monotonic_ns).max(1)
    }

    /// Returns the time that rates are taken over, ns: without packets of our own, that in which packets came.
    fn duration_ns(&self) -> u64 {
        let run_ns = self.run_ns();
        match self.workload.generates() {
            true => run_ns,
            false => active_ns(self.counters).unwrap_or(run_ns),
        }
    }

    /// Returns the departures that the schedule had; `None` if not paced.
    fn due(&self) -> Option<u64> {
        let Tally { tx, missed, .. } = self.totals.tally;
        self.work.rates.map(|rates| match self.work.ordered {
            true => tx + missed,
            false => rates.packets_in(self.run_ns()),
        })
    }

    /// Returns whether something was to be sent: a caller may have kept the stream from it.
    fn was_to_send(&self) -> bool {
        match (&self.common.streams, self.due()) {
            (None, _) => true,
            (Some(_), Some(due)) => due > 0,
            (Some(streams), None) => streams.was_to_send(self.work.stream, self.end_ns),
        }
    }

    /// Returns the mean rate of the schedule, packets per second; `None` if not paced.
    fn intended_pps(&self) -> Option<f64> {
        let run_ns = self.run_ns();
        match (self.work.rates, self.work.ordered) {
            (Some(_), true) => self.due().map(|due| due as f64 * 1e9 / run_ns as f64),
            (rates, _) => rates.map(|rates| rates.mean_pps(run_ns)),
        }
    }

    /// Returns the outcomes of lanes that send (or, with `rx`, receive) in the measured track.
    pub(super) fn outcomes_of(&self, rx: bool) -> impl Iterator<Item = &'r LaneOutcome> + use<'r, '_> {
        let lanes = self.common.lanes.iter().zip(self.outcomes);
        let of_track = move |(plan, _): &(&LanePlan, _)| !self.one_track || if rx { plan.rx } else { plan.tx };
        lanes.filter(of_track).map(|(_, outcome)| outcome)
    }
}

/// Returns the fields that arrived other than they were sent; `None`: headers were not compared.
fn changes(m: &Measured<'_>) -> Option<Vec<FieldChange>> {
    let mut all = Changes::default();
    m.outcomes_of(true).for_each(|outcome| all.add(&outcome.changes));
    let change = |of: &Changed| FieldChange {
        field: of.name.clone(),
        packets: of.packets,
        pairs: of
            .pairs
            .iter()
            .map(|(sent, received, packets)| (of.kind.text(*sent), of.kind.text(*received), *packets))
            .collect(),
    };
    let changed = all.fields.iter().filter(|of| of.packets > 0).map(change).collect();
    (!all.fields.is_empty()).then_some(changed)
}

pub(crate) fn summarise(m: &Measured<'_>) -> Summary {
    let lanes = lane_summaries(m);
    let reasons = merge(m.outcomes_of(true).flat_map(|o| &o.reasons).map(named));
    let kernel = KernelDrops::of(m);
    let kernel_drops = kernel.lost.clone();
    let verdict = judge(m.workload, &evidence(m, &lanes, &reasons, kernel), &lanes);
    let warnings = warnings(m, verdict.warnings, &reasons, &lanes);
    Summary {
        workload: m.workload,
        started: m.started,
        run_id: m.common.run_id,
        valid: verdict.reasons.is_empty(),
        shortfall: verdict.shortfall,
        invalid_reasons: verdict.reasons,
        kept_off: verdict.kept_off,
        warnings,
        known: verdict.known,
        interrupted: m.interrupted,
        withheld: m.withheld.cloned(),
        unread_quota: m.unread_quota.map(str::to_owned),
        open_ended: m.common.duration.is_none(),
        kernel_drops,
        housekeeping: m.housekeeping.clone(),
        host: host_facts(m),
        reasons,
        changes: changes(m),
        ports: port_summaries(m),
        lanes,
        stages: stage_rows(m),
        stage_cost: stage_cost(m),
        slowest: slowest(m),
        latest: latest(m),
        ..counted(m)
    }
}

/// Returns a summary of the packets alone: how many, how fast, how late.
fn counted(m: &Measured<'_>) -> Summary {
    let (run_ns, duration_ns, tally) = (m.run_ns(), m.duration_ns(), m.totals.tally);
    let seconds = duration_ns as f64 / 1e9;
    let lost = m.totals.lost.max(0) as u64;
    let known = tally.tx.saturating_sub(tally.untagged);
    let base = if m.workload.passes_on() { tally.rx } else { known };
    Summary {
        duration_ns,
        tx: tally.tx,
        untagged: tally.untagged,
        rx: tally.rx,
        lost,
        loss_stretches: m.totals.loss.clone(),
        missed_stretches: m.totals.missed.clone(),
        loss_times: outage::loss_times(m),
        // A pause is none.
        longest_outage: outage::longest(m).filter(|_| !m.work.pauses),
        host_dropped: m.totals.host_dropped,
        host_drop_stretches: m.totals.host_drops.clone(),
        late: tally.late,
        duplicates: tally.duplicates,
        reordered: tally.reordered,
        reorder_distance: ReorderDistance {
            max: m.totals.distance_max,
            mean: if tally.reordered == 0 {
                0.0
            } else {
                tally.distance_sum as f64 / tally.reordered as f64
            },
        },
        corrupt: tally.corrupt,
        foreign: tally.foreign,
        untagged_came: tally.untagged_came,
        missed: tally.missed,
        frame_size: m.work.frame_size,
        intended_pps: m.intended_pps(),
        due: m.due(),
        offered_pps: tally.tx as f64 / seconds,
        received_pps: tally.rx as f64 / seconds,
        loss_ratio: if base == 0 { 0.0 } else { lost as f64 / base as f64 },
        latency: m.totals.latency,
        latency_scheduled: (m.work.rates.is_some() && m.workload == Workload::SendRecv).then_some(m.totals.scheduled),
        latency_arrival: m.totals.arrival,
        wake_up: m.totals.wake_up,
        latency_note: m
            .latency_note
            .unwrap_or_else(|| latency_note(m.workload, m.totals.latency.count > 0))
            .to_owned(),
        gaps: m.workload.generates().then(|| gaps(m, run_ns)),
        ..Summary::default()
    }
}

/// Returns the time from the first burst received to the last, over all lanes, ns.
fn active_ns(counters: &[LaneCounters]) -> Option<u64> {
    let first = counters.iter().map(|c| c.first_rx_ns.get()).filter(|&t| t != 0).min()?;
    let last = counters.iter().map(|c| c.last_rx_ns.get()).max()?;
    (last > first).then_some(last - first)
}

fn latency_note(workload: Workload, measured: bool) -> &'static str {
    match (workload, measured) {
        (Workload::SendRecv, _) => {
            "round trip, from just before the packet is handed to the path to just after it was taken from it, in mpps"
        }
        (Workload::Drop, true) => {
            "one way, from the sender's stamp to reception; true only where both ends read the same clock (one host)"
        }
        (Workload::Drop, false) => "none: the sender's clock is not this host's, or packets were not stamped",
        (Workload::Capture, _) => "none: packets are kept, not measured",
        (Workload::Send, _) => "none: packets do not come back",
        (Workload::Reflect, _) => "none: the sender measures it",
        (Workload::Forward, _) => "none: frames are forwarded as they come, stamped or not",
    }
}

fn gaps(m: &Measured<'_>, run_ns: u64) -> Gaps {
    let (mut histogram, mut moments) = (Histogram::default(), Moments::default());
    for (h, s) in m.outcomes_of(false).filter_map(|o| o.gaps.as_ref()) {
        histogram.merge(h);
        moments.merge(s);
    }
    let rates = m.work.rates.filter(|_| !m.work.ordered);
    let intended_mean = rates.map_or(0.0, |rates| 1e9 / rates.mean_pps(run_ns) * m.work.tx_lanes as f64);
    Gaps {
        intended_mean,
        measured: moments.latency(Some(&histogram)),
    }
}
