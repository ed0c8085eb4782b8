//! A run's recording: what the engine, the kernel and the rows have of it, put together and explained.

use super::rows::Rows;
use super::watched::Watched;
use crate::profile::Samples;
use mpps_stats::Summary;
use mpps_sys::clock;
use mpps_trace::why::{self, Loss};
use mpps_trace::{Cause, Explained, Gap, LaneTrace, LatePacket, LeftOut, Meta, Part, Recording, SlowBurst, Stage};

/// Causes of a kind in the summary of a run without a trace.
const FEW: usize = 3;

/// Why bursts of a run were slow, and packets late or lost: all that is known, or, without a trace, the worst few.
pub(crate) fn causes(summary: &Summary, watched: Option<&Watched>, rows: &Rows) -> Vec<Cause> {
    let nothing = Watched::default();
    let traced = watched.is_some();
    let watched = watched.unwrap_or(&nothing);
    let explained = Explained::new(&watched.events, &watched.own);
    let explain = |lane: &LaneTrace, from_ns: u64, to_ns: u64| -> Vec<Part> {
        let gap = Gap {
            lane: lane.lane,
            tid: lane.tid,
            cpu: lane.cpu,
            from_ns,
            to_ns,
        };
        let mut parts = explained.parts(&gap);
        // What nobody took is the lane's own.
        parts.retain(|part| part.what != Explained::UNEXPLAINED);
        parts
    };
    let lanes = lanes(summary, watched);
    let start_ns = summary.started.monotonic_ns;
    let kept = if traced { why::KEPT } else { FEW };
    let ours = watched.drops.iter().filter(|dropped| dropped.ours > 0);
    let ours: Vec<(String, u64)> = ours.map(|dropped| (dropped.reason.clone(), dropped.ours)).collect();
    let kernel_drops = traced.then_some(ours);
    let mut causes = Vec::new();
    for stretch in summary
        .loss_stretches
        .largest
        .iter()
        .filter(|stretch| stretch.packets > 0)
    {
        let (from_ns, to_ns) = (stretch.from_ns, stretch.to_ns);
        let dropped = rows.host_dropped(from_ns, to_ns);
        let dropped = if dropped == 0 && one_stretch(summary) {
            summary.host_dropped.unwrap_or(0)
        } else {
            dropped
        };
        let host_drops = (dropped > 0).then(|| ("dropped by this host, by its own counters".to_owned(), dropped));
        let loss = Loss {
            from_ns: start_ns + from_ns,
            to_ns: start_ns + to_ns,
            packets: stretch.packets,
            host_drops: host_drops.into_iter().collect(),
            kernel_drops: kernel_drops.clone().filter(|_| one_stretch(summary)),
            ring_lasts_ns: 0,
        };
        causes.push(why::loss(&loss, &lanes, &watched.events, start_ns, &explain));
    }
    for SlowBurst { lane, round } in summary.slowest.iter().take(kept) {
        let Some(trace) = lanes.iter().find(|trace| trace.lane == *lane) else {
            continue;
        };
        let typical_ns = typical_burst_ns(summary, *lane);
        if round.took_ns() < 2 * typical_ns {
            continue;
        }
        causes.push(why::slow(trace, round, typical_ns, start_ns, &explain));
    }
    let typical_ns = summary.latency.percentiles.map_or(0, |percentiles| percentiles.p50);
    for packet in summary
        .latest
        .iter()
        .filter(|packet| worth_it(packet, typical_ns))
        .take(kept)
    {
        let sender = sender(summary, packet);
        causes.push(why::late(packet, sender, &lanes, (typical_ns, start_ns), &explain));
    }
    causes
}

/// All loss is in one stretch.
fn one_stretch(summary: &Summary) -> bool {
    summary.loss_stretches.largest.len() == 1 && summary.loss_stretches.more == 0
}

/// A packet no later than twice the median is none that anybody asks about.
fn worth_it(packet: &LatePacket, typical_ns: u64) -> bool {
    packet.classified_ns.saturating_sub(packet.due_ns()) > 2 * typical_ns
}

/// The lane that sent a packet, where this run did.
fn sender(summary: &Summary, packet: &LatePacket) -> Option<u32> {
    let senders: Vec<u32> = summary
        .lanes
        .iter()
        .filter(|lane| lane.tx_role)
        .map(|lane| lane.lane as u32)
        .collect();
    // Flows go round the lanes that send.
    let place = packet.flow as usize % senders.len().max(1);
    senders.get(place).copied()
}

/// What half of the lane's bursts take, ns: the median of each stage that a burst goes through, together.
fn typical_burst_ns(summary: &Summary, lane: u32) -> u64 {
    const OF_A_BURST: [Stage; 6] = [
        Stage::Receive,
        Stage::Classify,
        Stage::Allocate,
        Stage::Write,
        Stage::Transmit,
        Stage::Flush,
    ];
    let rows = summary
        .stages
        .iter()
        .filter(|row| row.lane == lane && OF_A_BURST.contains(&row.stage));
    rows.map(|row| row.p50_ns).sum()
}

/// The lanes with their threads and what was kept of them.
fn lanes(summary: &Summary, watched: &Watched) -> Vec<LaneTrace> {
    let thread = |lane: u32| watched.lanes.iter().find(|thread| thread.lane == lane);
    let lane = |number: u32, core: Option<usize>, roles: (bool, bool)| LaneTrace {
        lane: number,
        name: match roles {
            (true, true) => format!("lane {number} (rx, tx)"),
            (true, false) => format!("lane {number} (rx)"),
            (false, true) => format!("lane {number} (tx)"),
            (false, false) => format!("lane {number}"),
        },
        tid: thread(number).map_or(0, |thread| thread.tid),
        cpu: core.map(|core| core as u32).or_else(|| thread(number)?.cpu),
        rounds: Vec::new(),
    };
    let mut lanes: Vec<LaneTrace> = summary
        .lanes
        .iter()
        .map(|of| lane(of.lane as u32, of.core, (of.rx_role, of.tx_role)))
        .collect();
    for kept in summary.kept.iter().flat_map(|kept| &kept.lanes) {
        match lanes.iter_mut().find(|lane| lane.lane == kept.lane) {
            Some(lane) => lane.rounds = kept.rounds.clone(),
            None => lanes.push(kept.clone()),
        }
    }
    lanes
}

/// The recording of a run.
pub(crate) fn recording(summary: &Summary, watched: Watched, rows: &Rows, samples: Option<&Samples>) -> Recording {
    let lanes = lanes(summary, &watched);
    let kept_out = summary.kept.iter().flat_map(|kept| kept.left_out.clone());
    let left_out: Vec<LeftOut> = kept_out.chain(watched.left_out).chain(rows.left_out()).collect();
    let fact = |name: &str| {
        let fact = summary.host.iter().find(|fact| fact.name == name);
        fact.map(|fact| fact.value.clone()).unwrap_or_default()
    };
    let started = summary.started;
    Recording {
        meta: Meta {
            program: format!("mpps {}", env!("CARGO_PKG_VERSION")),
            command: summary.command.join(" "),
            host: fact("hostname"),
            kernel: fact("kernel"),
            pid: std::process::id() as i32,
            utc_offset_ns: started.utc_ns as i64 - started.monotonic_ns as i64,
            boot_offset_ns: clock::suspended_ns() as i64,
            start_ns: started.monotonic_ns,
            end_ns: started.monotonic_ns + summary.duration_ns,
            left_out,
            cost: summary.stage_cost.map(|cost| cost.to_string()).unwrap_or_default(),
            sampling: samples.map(|samples| samples.sampling.clone()),
        },
        lanes,
        kernel: watched.events,
        samples: samples.map(|samples| samples.samples.clone()).unwrap_or_default(),
        frames: samples.map(|samples| samples.frames.clone()).unwrap_or_default(),
        counters: rows.counters(),
        stages: summary.stages.clone(),
        takers: watched.takers,
        causes: summary.causes.clone(),
    }
}
