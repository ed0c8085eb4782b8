//! Lines of the summary: one per lane, or per source in the kernel, and one per port.

use super::Measured;
use super::counts::{add_counters, count_of, merge, named, since_start};
use crate::outcome::{LaneOutcome, SourceCounts};
use mpps_io::{QueueCounters, Reason};
use mpps_stats::{AwaySummary, FillGauge, Gap, LaneCounters, LaneSummary, PortSummary, RingFill, Workload};

pub(super) fn lane_summaries(m: &Measured<'_>) -> Vec<LaneSummary> {
    let mut lines: Vec<LaneSummary> = Vec::new();
    let lanes = m.common.lanes.iter().zip(m.counters).zip(m.outcomes).zip(m.path);
    for (i, (((plan, counters), outcome), path)) in lanes.enumerate() {
        // The lane serves only another track.
        if m.one_track && !plan.rx && !plan.tx {
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
            busy_ns: (counters.loop_ns.get() > 0 && !m.one_track).then(|| counters.busy_ns.get()),
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
        if m.one_track {
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
    let duration_ns = m.duration_ns();
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

/// Clears the lane's counts of the other tracks.
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
            // In the summary of one of several tracks, lanes keep their numbers among all lanes.
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

/// Returns the sums over all lanes at each of the ports.
pub(super) fn port_summaries(m: &Measured<'_>) -> Vec<PortSummary> {
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
