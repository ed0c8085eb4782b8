//! Adds everything up: from totals, lanes' outcomes and the path's counters to the [`Summary`].

use crate::lane::away::{Signals, Standstills, standstills};
use crate::plan::{Common, LanePlan};
use crate::run::control::Control;
use crate::run::outage;
use crate::run::outcome::{LaneOutcome, SourceCounts};
use crate::verdict::meanwhile::LaneTime;
use crate::verdict::remarks::{Heard, remarks};
use crate::verdict::{Evidence, Icmp, Verdict, judge};
use crate::workload::WorkFacts;
use mpps_io::around::{Outage, Surroundings};
use mpps_io::{QueueCounters, Reason};
use mpps_stats::{
    AwaySummary, FillGauge, Gap, Gaps, Histogram, HostFact, Housekeeping, LaneCounters, LaneSummary, Moments,
    PortSummary, ReorderDistance, RingFill, StageTable, Started, Summary, Totals, Withheld, Workload,
};
use mpps_sys::cgroup::RealTimeLimit;
use mpps_sys::evidence::{OthersRan, Rival};
use mpps_sys::signal::{self, CpuLimit};
use mpps_trace::{LatePacket, SlowBurst, StageCost, StageRow};
use std::time::Duration;

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
    /// The measurements are of one way of several: a lane's sent packets belong to it only if the lane sends in it, and
    /// its received packets only if the lane receives in it.
    pub(crate) one_way: bool,
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
    pub(crate) sink_notes: &'r [String],
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
    /// Returns the outcomes of lanes that send (or, with `rx`, receive) in the measured way.
    pub(super) fn outcomes_of(&self, rx: bool) -> impl Iterator<Item = &'r LaneOutcome> + use<'r, '_> {
        let lanes = self.common.lanes.iter().zip(self.outcomes);
        let of_way = move |(plan, _): &(&LanePlan, _)| !self.one_way || if rx { plan.rx } else { plan.tx };
        lanes.filter(of_way).map(|(_, outcome)| outcome)
    }
}

pub(crate) fn summarise(m: &Measured<'_>) -> Summary {
    let run_ns = m.end_ns.saturating_sub(m.started.monotonic_ns).max(1);
    let tally = m.totals.tally;
    let duration_ns = if m.workload.generates() {
        run_ns
    } else {
        active_ns(m.counters).unwrap_or(run_ns)
    };
    let seconds = duration_ns as f64 / 1e9;
    let lanes = lane_summaries(m);
    let reasons = merge(m.outcomes_of(true).flat_map(|o| &o.reasons).map(named));
    let reason = |reason: Reason| reason.of(&reasons);
    let scheduled = m.work.rates.map(|rates| rates.packets_in(run_ns));
    let (kernel_drops, kernel_perhaps, kernel_unseen) = match kernel_drops(m, run_ns) {
        Some((drops, perhaps, unseen)) => (Some(drops), perhaps, unseen),
        None => (None, Vec::new(), Vec::new()),
    };
    let evidence = Evidence {
        tx: tally.tx,
        rx: tally.rx,
        duplicates: tally.duplicates,
        late: tally.late,
        lost: if m.workload.generates() { m.totals.lost } else { 0 },
        missed: tally.missed,
        misses: m.totals.missed.clone(),
        scheduled,
        tolerance: m.work.tolerance,
        device_gone: m.control.gone(),
        link_down_ns: link_down_ns(m),
        no_way_ns: std::array::from_fn(|of| longest(m.counters.iter().map(|lane| lane.no_way_ns[of].get()))),
        around: m.around.clone(),
        icmp: Icmp {
            port_unreachable: reason(Reason::IcmpPortUnreachable),
            unreachable: reason(Reason::IcmpUnreachable),
            time_exceeded: reason(Reason::IcmpTimeExceeded),
            too_long: reason(Reason::IcmpTooLong),
        },
        packet_len: m.work.packet_len,
        coalesced: m.coalesces,
        settle_ms: m.common.settle.as_secs_f64() * 1e3,
        duration_ns: run_ns,
        interrupted: m.interrupted,
        own_ns: m.housekeeping.as_ref().map_or(0, |own| own.cpu_ns),
        steal_ns: m.steal_ns.unwrap_or(0),
        cores: mpps_sys::sched::allowed_cores().len() as u64,
        looked_ns: m.looked_ns,
        still: still(m),
        sending: senders(m, &lanes),
        dropping: droppers(m),
        drops: m.totals.host_drops.clone(),
        losses: m.totals.loss.clone(),
        host_drops_known: m.totals.host_dropped.is_some(),
        real_time: m.real_time.cloned(),
        unread_quota: m.unread_quota.map(str::to_owned),
        withheld: m.withheld.cloned(),
        kernel_drops: kernel_drops.clone(),
        kernel_perhaps,
        kernel_unseen,
        traced: m.common.trace.is_some(),
        rivals: rivals(&lanes, m.rivals, run_ns),
        overflowed: m.totals.overflowed,
        unranked: [m.totals.unranked, m.totals.latency.count],
        beyond_window: reason(Reason::BeyondWindow),
        flow_moved: reason(Reason::FlowMoved),
        flow_contended: reason(Reason::FlowContended),
        reordered: tally.reordered,
        across: m.work.across,
        flows: reason(Reason::Flows),
        untracked: reason(Reason::Untracked),
    };
    let Verdict {
        reasons: invalid_reasons,
        mut warnings,
        known,
        shortfall,
        kept_off,
    } = judge(m.workload, &evidence, &lanes);
    warnings.extend(remarks(&Heard::of(m, &reasons, &lanes)));
    if m.workload == Workload::Reflect {
        warnings.extend(crate::workload::loop_guard::warnings(reason));
    }
    warnings.splice(0..0, m.common.warnings.iter().cloned());
    warnings.extend(moved_lanes(m));
    warnings.extend(m.control.notes());
    warnings.extend(cpu_time_spent());
    warnings.extend(m.sink_notes.iter().cloned());
    let lost = m.totals.lost.max(0) as u64;
    let base = if m.workload.passes_on() { tally.rx } else { tally.tx };
    Summary {
        workload: m.workload,
        started: m.started,
        start_error_ns: None,
        run_id: m.common.run_id,
        command: Vec::new(),
        plan: None,
        duration_ns,
        tx: tally.tx,
        rx: tally.rx,
        lost,
        loss_stretches: m.totals.loss.clone(),
        missed_stretches: m.totals.missed.clone(),
        loss_times: outage::loss_times(m),
        longest_outage: outage::longest(m),
        host_dropped: m.totals.host_dropped,
        host_drop_stretches: m.totals.host_drops.clone(),
        kernel_drops,
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
        missed: tally.missed,
        frame_size: m.work.frame_size,
        intended_pps: m.work.rates.map(|rates| rates.mean_pps(run_ns)),
        due: scheduled,
        offered_pps: tally.tx as f64 / seconds,
        received_pps: tally.rx as f64 / seconds,
        loss_ratio: if base == 0 { 0.0 } else { lost as f64 / base as f64 },
        latency: m.totals.latency,
        latency_scheduled: (m.work.rates.is_some() && m.workload == Workload::SendRecv).then_some(m.totals.scheduled),
        latency_note: m
            .latency_note
            .unwrap_or_else(|| latency_note(m.workload, m.totals.latency.count > 0))
            .to_owned(),
        gaps: m.workload.generates().then(|| gaps(m, run_ns)),
        valid: invalid_reasons.is_empty(),
        shortfall,
        invalid_reasons,
        kept_off,
        warnings,
        interrupted: m.interrupted,
        withheld: m.withheld.cloned(),
        unread_quota: m.unread_quota.map(str::to_owned),
        open_ended: m.common.duration.is_none(),
        housekeeping: m.housekeeping.clone(),
        host: host_facts(m, run_ns),
        reasons,
        ports: port_summaries(m),
        lanes,
        directions: Vec::new(),
        capture: None,
        sample: None,
        stages: stage_rows(m),
        stage_cost: stage_cost(m),
        programs: Vec::new(),
        slowest: slowest(m),
        latest: latest(m),
        causes: Vec::new(),
        known,
        expectations: Vec::new(),
        kept: None,
    }
}

/// Returns how long the link was down, as far as lanes could not send because of it, ns. A lane that sends rarely looks
/// rarely: then the time of the link itself counts.
fn link_down_ns(m: &Measured<'_>) -> u64 {
    let by_lanes = longest(m.counters.iter().map(|lane| lane.down_ns.get()));
    let run_ns = m.end_ns.saturating_sub(m.started.monotonic_ns);
    let ns = |of: &Outage| of.to_ns.min(run_ns).saturating_sub(of.from_ns);
    let by_links = m.around.iter().map(|seen| {
        let outages = seen.off.iter().chain(&seen.no_carrier);
        outages.map(ns).sum::<u64>()
    });
    match by_lanes {
        0 => 0,
        ns => ns.max(longest(by_links)),
    }
}

fn longest(all: impl Iterator<Item = u64>) -> u64 {
    all.max().unwrap_or(0)
}

/// Returns warnings on lanes whose thread was moved off its core during the run.
fn moved_lanes(m: &Measured<'_>) -> impl Iterator<Item = String> {
    let lanes = m.common.lanes.iter().zip(m.outcomes).enumerate();
    lanes.filter_map(|(lane, (plan, outcome))| {
        let (core, now) = (plan.core?, outcome.moved_to.as_ref()?);
        let now: Vec<_> = now.iter().map(usize::to_string).collect();
        Some(format!(
            "lane {lane} was moved off core {core} during the run (its cpuset or affinity was changed from outside): \
             in the end it could run on core{} {}",
            if now.len() == 1 { "" } else { "s" },
            now.join(", ")
        ))
    })
}

/// Packets by the reason for which the kernel dropped them.
type Drops = Vec<(String, u64)>;

/// Returns lost packets that the kernel dropped, if a trace has seen them; other drops of that time, which may or may
/// not be of lost packets; and the parts of the kernel whose drops the trace does not see. They are not known for one
/// of two ways.
fn kernel_drops(m: &Measured<'_>, run_ns: u64) -> Option<(Drops, Drops, Vec<String>)> {
    let trace = m
        .common
        .trace
        .as_ref()
        .filter(|_| !m.one_way && m.workload.generates())?;
    let drops = (trace.kernel_drops)()?;
    let lost = m.totals.loss.lost_times(m.started.monotonic_ns, run_ns);
    let unseen = drops.unseen.iter().map(|(part, _)| part.clone()).collect();
    Some((drops.losses(&lost), drops.perhaps(&lost), unseen))
}

/// Returns the stage table. With two ways, a lane's time belongs to both: only their sum has the table.
fn stage_rows(m: &Measured<'_>) -> Vec<StageRow> {
    let lanes = m.counters.iter().enumerate().filter(|_| !m.one_way);
    lanes
        .flat_map(|(lane, counters)| counters.stage_rows(lane as u32))
        .collect()
}

fn stage_cost(m: &Measured<'_>) -> Option<StageCost> {
    let tables = || {
        m.counters
            .iter()
            .map(|lane| &lane.stages)
            .filter(|table| table.wall_ns() > 0)
    };
    let wall_ns: u64 = tables().map(StageTable::wall_ns).sum();
    let readings: u64 = tables().map(|table| table.readings.get()).sum();
    let ns: f64 = tables()
        .map(|table| (table.readings.get() * table.mark_ps.get()) as f64 / 1e3)
        .sum();
    let prices = tables().map(|table| table.mark_ps.get() as f64 / 1e3).sum::<f64>();
    (wall_ns > 0 && !m.one_way).then(|| StageCost {
        readings,
        reading_ns: prices / tables().count() as f64,
        share: ns / wall_ns as f64,
        lost: 0,
    })
}

/// Returns the bursts that took longest, over all lanes.
fn slowest(m: &Measured<'_>) -> Vec<SlowBurst> {
    let of_lane = |(lane, outcome): (usize, &LaneOutcome)| {
        let burst = move |burst: &SlowBurst| SlowBurst {
            lane: lane as u32,
            ..*burst
        };
        outcome.slowest.iter().map(burst).collect::<Vec<_>>()
    };
    let lanes = m.outcomes.iter().enumerate().filter(|_| !m.one_way);
    let mut all: Vec<SlowBurst> = lanes.flat_map(of_lane).collect();
    all.sort_by_key(|burst| std::cmp::Reverse(burst.round.took_ns()));
    all
}

/// Returns the packets that came latest, over the lanes that receive in this way.
fn latest(m: &Measured<'_>) -> Vec<LatePacket> {
    let lanes = m.common.lanes.iter().zip(m.outcomes).enumerate();
    let lanes = lanes.filter(|(_, (plan, _))| !m.one_way || plan.rx);
    let of_lane = |(lane, (_, outcome)): (usize, (_, &LaneOutcome))| {
        let packet = move |packet: &LatePacket| LatePacket {
            lane: lane as u32,
            ..*packet
        };
        outcome.latest.iter().map(packet).collect::<Vec<_>>()
    };
    let mut all: Vec<LatePacket> = lanes.flat_map(of_lane).collect();
    all.sort_by_key(|packet| std::cmp::Reverse(packet.delay_ns()));
    all
}

/// Returns the time of the sending lanes until the sending ended.
fn senders(m: &Measured<'_>, lanes: &[LaneSummary]) -> Vec<LaneTime> {
    let all = m.common.lanes.iter().zip(&m.sending).enumerate();
    let senders = all.filter(|(_, (plan, _))| plan.tx);
    let sender = |(i, (_, time)): (usize, (_, &LaneTime))| {
        let mut time = *time;
        // A lane in the kernel does not loop: its looks count instead, and those that found something due are busy.
        if let Some(line) = lanes.get(i).filter(|_| m.outcomes[i].sent.is_some()) {
            (time.busy_ns, time.loop_ns) = (line.tx_bursts, line.tx_bursts + line.waits);
        }
        time
    };
    senders.map(sender).collect()
}

/// Returns the lanes' time while packets were dropped that they were to take.
fn droppers(m: &Measured<'_>) -> Vec<LaneTime> {
    let stretches = m.totals.host_drops.largest.iter().map(|stretch| Gap {
        from_ns: stretch.from_ns,
        to_ns: stretch.to_ns,
    });
    let stretches: Vec<Gap> = stretches.collect();
    let lane = |(time, counters): (&LaneTime, &LaneCounters)| {
        let gaps = counters.away.longest();
        let gaps = gaps.iter().map(|gap| since_start(gap, m.started.monotonic_ns));
        let common = |gap: Gap| stretches.iter().map(|stretch| stretch.common_ns(&gap)).sum::<u64>();
        LaneTime {
            // A gap that ended after the stretch is noted only then.
            away_ns: time.away_ns.max(gaps.map(common).sum::<u64>().min(time.ns)),
            ..*time
        }
    };
    let lanes = m.dropping.iter().zip(m.counters).map(lane);
    lanes.filter(|time| time.dropped > 0).collect()
}

/// Returns the longest gaps of each lane that looks at a clock.
fn lane_gaps(m: &Measured<'_>) -> Vec<Vec<Gap>> {
    let looks = m.counters.iter().filter(|c| c.loop_ns.get() > 0);
    looks.map(|c| c.away.longest()).collect()
}

fn since_start(gap: &Gap, start_ns: u64) -> Gap {
    Gap {
        from_ns: gap.from_ns.saturating_sub(start_ns),
        to_ns: gap.to_ns.saturating_sub(start_ns),
    }
}

/// Returns a warning if a limit of CPU time ended the run, and names the limit.
fn cpu_time_spent() -> Option<String> {
    if !signal::cpu_time_is_spent() {
        return None;
    }
    let (cpu, real_time) = (CpuLimit::of_process(), CpuLimit::of_real_time());
    // The kernel counts CPU time by ticks, so that its count and this one differ, and raises the soft limit by a second
    // as it sends the signal.
    let reached = |limit: &CpuLimit| real_time.is_none() || signal::cpu_time_s() + 2 >= limit.soft;
    Some(match (cpu.filter(reached), real_time) {
        (Some(_), _) => {
            "the run ended early: the program reached its limit of CPU time (ulimit -t): want a higher limit, or a \
             shorter run"
                .to_owned()
        }
        (None, Some(_)) => "the run ended early: a real-time thread ran for longer than it may without sleeping \
                            (RLIMIT_RTTIME)"
            .to_owned(),
        (None, None) => "the run ended early: SIGXCPU came, and this process has no limit of CPU time".to_owned(),
    })
}

fn still(m: &Measured<'_>) -> Standstills {
    let waited_ns = m.outcomes.iter().filter_map(|o| o.run_delay_ns).max().unwrap_or(0);
    let signals = Signals {
        continued: mpps_sys::evidence::continues(),
        ended: signal::interrupted_at(),
    };
    let found = standstills(&lane_gaps(m), &m.collector_gaps, &signals, waited_ns);
    let since = |gaps: Vec<Gap>| {
        gaps.iter()
            .map(|gap| since_start(gap, m.started.monotonic_ns))
            .collect()
    };
    Standstills {
        stops: since(found.stops),
        others: since(found.others),
    }
}

/// Returns threads of other processes that last ran on the cores of our lanes, if lanes waited for their cores at all.
fn rivals(lanes: &[LaneSummary], before: &OthersRan, run_ns: u64) -> Vec<Rival> {
    let waited: u64 = lanes.iter().filter_map(|l| l.run_delay_ns).sum();
    if waited < run_ns / 200 {
        return Vec::new();
    }
    let pinned: Vec<usize> = lanes.iter().filter_map(|l| l.core).collect();
    let cores = if pinned.is_empty() {
        mpps_sys::sched::allowed_cores()
    } else {
        pinned
    };
    let mut rivals = before.since(0);
    rivals.retain(|rival| cores.contains(&rival.core));
    rivals
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

/// Returns a count with the reason's name in the summary.
fn named(&(reason, count): &(Reason, u64)) -> (&'static str, u64) {
    (reason.as_str(), count)
}

/// Adds up counts of the same name.
fn merge(counts: impl Iterator<Item = (&'static str, u64)>) -> Vec<(String, u64)> {
    let mut merged = Vec::new();
    add_counts(&mut merged, counts);
    merged
}

fn add_counts(merged: &mut Vec<(String, u64)>, counts: impl Iterator<Item = (&'static str, u64)>) {
    for (name, count) in counts {
        match merged.iter_mut().find(|(n, _)| n == name) {
            Some((_, total)) => *total += count,
            None => merged.push((name.to_owned(), count)),
        }
    }
}

fn gaps(m: &Measured<'_>, run_ns: u64) -> Gaps {
    let (mut histogram, mut moments) = (Histogram::default(), Moments::default());
    for (h, s) in m.outcomes_of(false).filter_map(|o| o.gaps.as_ref()) {
        histogram.merge(h);
        moments.merge(s);
    }
    let intended_mean = m
        .work
        .rates
        .map_or(0.0, |rates| 1e9 / rates.mean_pps(run_ns) * m.work.tx_lanes as f64);
    Gaps {
        intended_mean,
        measured: moments.latency(Some(&histogram)),
    }
}

fn lane_summaries(m: &Measured<'_>) -> Vec<LaneSummary> {
    let mut lines: Vec<LaneSummary> = Vec::new();
    let lanes = m.common.lanes.iter().zip(m.counters).zip(m.outcomes).zip(m.path);
    for (i, (((plan, counters), outcome), path)) in lanes.enumerate() {
        // The lane serves only another way.
        if m.one_way && !plan.rx && !plan.tx {
            continue;
        }
        if let Some(sources) = &outcome.sources {
            source_lines(m.workload, i, &mut lines, sources, path);
            continue;
        }
        let mut line = LaneSummary {
            lane: i,
            queue: m.queues[i],
            // The core at the end is not the core of the whole run: no core is named.
            core: plan.core.filter(|_| outcome.moved_to.is_none()),
            rx_role: plan.rx,
            tx_role: plan.tx,
            rx_packets: counters.rx_packets.get(),
            rx_bursts: counters.rx_bursts.get(),
            rx_burst_sizes: counters.rx_burst_sizes.all(),
            rx_empty_polls: counters.rx_empty_polls.get(),
            tx_packets: counters.tx_packets.get(),
            tx_bursts: counters.tx_bursts.get(),
            tx_full: counters.tx_full.get(),
            reasons: merge(outcome.reasons.iter().map(named)),
            waits: counters.waits.get(),
            busy_ratio: match counters.loop_ns.get() {
                0 => None,
                looped => Some((counters.busy_ns.get() as f64 / looped as f64).min(1.0)),
            },
            busy_ns: (counters.loop_ns.get() > 0 && !m.one_way).then(|| counters.busy_ns.get()),
            run_delay_ns: outcome.run_delay_ns,
            measured_ns: outcome.measured_ns,
            blocked_ns: (counters.loop_ns.get() > 0).then(|| counters.blocked_ns.get()),
            link_down_ns: counters.down_ns.get(),
            away: away(counters, m.started.monotonic_ns),
            gaps: gaps_of(counters, m.started.monotonic_ns),
            preempted: Some(outcome.preempted),
            ..LaneSummary::default()
        };
        if let Some(sent) = &outcome.sent {
            (line.tx_packets, line.tx_bursts, line.waits) = (sent.packets, sent.bursts, sent.waits);
        }
        if m.one_way {
            keep_roles(&mut line);
        }
        path.iter().for_each(|port| add_counters(&mut line, port));
        if line.rx_role {
            line.rx_rings = rings(m, counters, outcome, line.rx_dropped);
        }
        lines.push(line);
    }
    lines
}

/// Returns how full the receive rings of a lane were. Rates are over the time that the run is measured to last.
fn rings(m: &Measured<'_>, counters: &LaneCounters, outcome: &LaneOutcome, dropped: u64) -> Vec<RingFill> {
    let run_ns = m.end_ns.saturating_sub(m.started.monotonic_ns).max(1);
    let duration_ns = match m.workload.generates() {
        true => run_ns,
        false => active_ns(m.counters).unwrap_or(run_ns),
    };
    let ring = |(gauge, place): (&FillGauge, Option<usize>)| {
        let received = match place.and_then(|place| outcome.ports.get(place)) {
            Some(port) => port.rx_packets + count_of(Reason::NotTaken, &port.reasons),
            // Packets that found no room came as well.
            None => counters.rx_packets.get() + dropped,
        };
        let port = place.and_then(|place| m.port_names.get(place)).cloned();
        gauge.told(port, received as f64 * 1e9 / duration_ns as f64)
    };
    counters.fill.iter().zip(outcome.ring_ports).filter_map(ring).collect()
}

fn count_of(reason: Reason, counts: &[(Reason, u64)]) -> u64 {
    let of = counts.iter().filter(|(of, _)| *of == reason);
    of.map(|(_, count)| count).sum()
}

/// Clears the lane's counts of the other way.
fn keep_roles(line: &mut LaneSummary) {
    if !line.rx_role {
        (line.rx_packets, line.rx_bursts, line.rx_empty_polls) = (0, 0, 0);
        line.rx_burst_sizes.clear();
    }
    if !line.tx_role {
        (line.tx_packets, line.tx_bursts, line.tx_full) = (0, 0, 0);
        line.blocked_ns = line.blocked_ns.map(|_| 0);
    }
}

fn away(counters: &LaneCounters, start_ns: u64) -> Option<AwaySummary> {
    let longest = counters.away.longest().first().map(|gap| since_start(gap, start_ns));
    (counters.loop_ns.get() > 0).then(|| AwaySummary {
        count: counters.away.count(),
        total_ns: counters.away.total_ns(),
        longest_ns: longest.map_or(0, |gap| gap.ns()),
        longest_at_ns: longest.map_or(0, |gap| gap.from_ns),
    })
}

/// Returns the longest times when the lane was away.
fn gaps_of(counters: &LaneCounters, start_ns: u64) -> Vec<Gap> {
    let gaps = counters.away.longest();
    let gaps = gaps.iter().filter(|_| counters.loop_ns.get() > 0);
    gaps.map(|gap| since_start(gap, start_ns)).collect()
}

/// Adds a line for each source that received anything, and for the first of each port, which carries the port's
/// counters.
fn source_lines(
    workload: Workload,
    reader: usize,
    lines: &mut Vec<LaneSummary>,
    sources: &[SourceCounts],
    path: &[QueueCounters],
) {
    let turns = workload.passes_on();
    let mut left: Vec<Option<&QueueCounters>> = path.iter().map(Some).collect();
    for source in sources {
        let totals = &source.totals;
        let first = left.get(source.port).is_some_and(Option::is_some);
        if totals.packets == 0 && (!first || workload == Workload::Send) {
            continue;
        }
        let mut line = LaneSummary {
            // In the summary of one of two ways, lanes keep their numbers among all lanes.
            lane: lines
                .iter()
                .map(|line| line.lane + 1)
                .max()
                .map_or(reader, |next| next.max(reader)),
            queue: source.number,
            rx_role: true,
            tx_role: turns,
            rx_packets: totals.packets,
            rx_bursts: totals.polls,
            tx_packets: if turns { totals.tx } else { 0 },
            ..LaneSummary::default()
        };
        if let Some(counters) = left.get_mut(source.port).and_then(Option::take) {
            add_counters(&mut line, counters);
        }
        lines.push(line);
    }
    for counters in left.into_iter().flatten() {
        if let Some(line) = lines.first_mut() {
            add_counters(line, counters);
        }
    }
}

fn add_counters(line: &mut LaneSummary, counters: &QueueCounters) {
    line.rx_dropped += counters.rx_dropped;
    line.tx_failed += counters.tx_failed;
    add_counts(&mut line.path_counters, counters.other.iter().copied());
}

/// Returns the sums over all lanes at each of the ports.
fn port_summaries(m: &Measured<'_>) -> Vec<PortSummary> {
    let summary = |(i, name): (usize, &String)| {
        let moved = || m.outcomes.iter().filter_map(move |o| o.ports.get(i));
        let path = || m.path.iter().filter_map(move |lane| lane.get(i));
        PortSummary {
            port: name.clone(),
            rx_packets: moved().map(|p| p.rx_packets).sum(),
            rx_bytes: moved().map(|p| p.rx_bytes).sum(),
            tx_packets: moved().map(|p| p.tx_packets).sum(),
            reasons: merge(moved().flat_map(|p| &p.reasons).map(named)),
            rx_dropped: path().map(|p| p.rx_dropped).sum(),
            tx_failed: path().map(|p| p.tx_failed).sum(),
            path_counters: merge(path().flat_map(|p| &p.other).copied()),
        }
    };
    m.port_names.iter().enumerate().map(summary).collect()
}

/// Returns how the clocks of a time namespace were related to the host's; `None` outside of one.
fn time_namespace() -> Option<String> {
    match mpps_sys::clock::namespace::offsets() {
        Ok(offsets) if offsets.monotonic_ns == 0 => None,
        Ok(offsets) => {
            let seconds = offsets.monotonic_ns as f64 / 1e9;
            Some(format!(
                "its clock is {seconds} s ahead of the host's: times here are the host's"
            ))
        }
        Err(why) => Some(format!("not known whether in one ({why})")),
    }
}

fn host_facts(m: &Measured<'_>, run_ns: u64) -> Vec<HostFact> {
    let mut facts = vec![HostFact::shown("mpps_version", env!("CARGO_PKG_VERSION"))];
    facts.push(HostFact::shown("kernel", mpps_sys::probe::kernel_release()));
    facts.extend(mpps_sys::processor::name().map(|cpu| HostFact::shown("cpu", cpu)));
    let cores = mpps_sys::sched::allowed_cores().len();
    facts.extend([
        HostFact::shown("cores_allowed", cores.to_string()),
        HostFact::shown("clock", m.clock),
        HostFact::new("path", m.path_name.as_str()),
    ]);
    facts.extend(mpps_sys::clock::tick_ns().map(|ns| HostFact::shown("clock_tick_ns", format!("{ns:.3}"))));
    facts.extend(time_namespace().map(|told| HostFact::shown("time_namespace", told)));
    facts.extend_from_slice(&m.common.host);
    facts.extend_from_slice(&m.port_facts);
    let ms = |time: Duration| format!("{}", time.as_secs_f64() * 1e3);
    facts.extend([
        HostFact::new("run_s", format!("{:.6}", run_ns as f64 / 1e9)),
        HostFact::new("interval_ms", ms(m.common.interval)),
        HostFact::new("settle_ms", ms(m.common.settle)),
        HostFact::new("burst", m.common.burst.to_string()),
        HostFact::new("seed", m.common.seed.to_string()),
    ]);
    facts.extend(
        m.steal_ns
            .map(|ns| HostFact::new("steal_ms", (ns / 1_000_000).to_string())),
    );
    facts
}
