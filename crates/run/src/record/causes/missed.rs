//! Causes of missed departures.

use mpps_stats::{KeptOffBy, Known, KnownKind, Shortfall, Stretch, Summary};
use mpps_trace::missed::{Missed, Stood, missed};
use mpps_trace::{Cause, Gap, LaneTrace, why};

/// Reason for missed departures at times when no lane was held up.
const FULL_PATH: &str = "while the path took nothing: a ring, buffer or queue was full";

/// Explains missed departures, stretch by stretch.
pub(super) fn of_missed(
    summary: &Summary,
    lanes: &[LaneTrace],
    away: &[Gap],
    explain: &why::Explain<'_>,
) -> Vec<Cause> {
    let sending = summary.lanes.iter().filter(|lane| lane.tx_role);
    let senders: Vec<u32> = sending.clone().map(|lane| lane.lane as u32).collect();
    let blocked_ns: u64 = sending.filter_map(|lane| lane.blocked_ns).sum();
    let lane_pps = summary.intended_pps.unwrap_or(0.0) / senders.len().max(1) as f64;
    // If the time for which the path took nothing explains half of the missed departures, the others are blamed on it
    // too.
    let most = |ns: u64| ns > 0 && ns as f64 * lane_pps / 1e9 * 2.0 >= summary.missed as f64;
    let refused = most(blocked_ns);
    let down_ns: u64 = summary
        .lanes
        .iter()
        .filter(|lane| lane.tx_role)
        .map(|lane| lane.link_down_ns)
        .sum();
    let otherwise = match summary.shortfall {
        _ if most(down_ns) => "while the link was down".to_owned(),
        Some(Shortfall::Outpaced) => "while the lanes were busy: the rate is more than they can send".to_owned(),
        Some(Shortfall::Refused) => path_took_nothing(summary).to_owned(),
        None if refused => path_took_nothing(summary).to_owned(),
        None => without_a_record(summary),
    };
    let start_ns = summary.started.monotonic_ns;
    let stood = stood(summary, down_ns > 0);
    let cause = |stretch: &Stretch| {
        let of = Missed {
            from_ns: start_ns + stretch.from_ns,
            to_ns: start_ns + stretch.to_ns,
            packets: stretch.packets,
            senders: senders.clone(),
            lane_pps,
            stood: stood.clone(),
            otherwise: otherwise.clone(),
        };
        missed(&of, lanes, away, start_ns, explain)
    };
    summary.missed_stretches.largest.iter().map(cause).collect()
}

/// Returns the reason for missed departures that no record explains. Obstacles and quotas have a total time, but no
/// start and end times.
fn without_a_record(summary: &Summary) -> String {
    let no_way = summary.known.iter().filter(|known| known.kind == KnownKind::NoWay);
    let mut whiles: Vec<String> = no_way.map(|known| format!("while {}", known.sentence)).collect();
    let quota = summary
        .kept_off
        .as_ref()
        .is_some_and(|off| off.by == KeptOffBy::CpuQuota);
    whiles.extend(quota.then(|| "while the CPU quota kept lanes from running".to_owned()));
    if let Some(group) = &summary.unread_quota {
        whiles.push(format!("by a CPU quota of control group {group}, which can't be read"));
    }
    whiles.push(match summary.tx {
        // A program in the kernel that did not run leaves no times, either.
        0 => "for a reason that nothing here shows".to_owned(),
        // No lane of mpps reads its clock while the kernel sends.
        _ if summary.lanes.iter().all(|lane| lane.away.is_none()) => {
            "at times that this path keeps no record of".to_owned()
        }
        _ => "in times too short for a record of each".to_owned(),
    });
    whiles.join(", or ")
}

/// Returns the reason why the path took nothing. If the device dropped the packets, its queue need not have been full.
fn path_took_nothing(summary: &Summary) -> &'static str {
    let has = |kind| summary.known.iter().any(|known| known.kind == kind);
    match has(KnownKind::DeviceDropped) && !has(KnownKind::QueueDropped) {
        true => "while the path took nothing: the device dropped what it was given",
        false => FULL_PATH,
    }
}

/// Returns the times in which no packet could leave, without overlap. `down`: lanes found the link down.
fn stood(summary: &Summary, down: bool) -> Vec<Stood> {
    let stops = |of: &&Known| match of.kind {
        KnownKind::LinkOff | KnownKind::NoCarrier => down,
        KnownKind::NoWay => true,
        _ => false,
    };
    let start_ns = summary.started.monotonic_ns;
    let mut all: Vec<Stood> = Vec::new();
    let known = summary.known.iter().filter(stops);
    let times = known.flat_map(|of| of.when_ns.iter().map(move |when| (of, *when)));
    for (of, (from_ns, to_ns)) in times {
        let (mut from_ns, to_ns) = (start_ns + from_ns, start_ns + to_ns);
        for before in &all {
            if before.from_ns <= from_ns {
                from_ns = from_ns.max(before.to_ns.min(to_ns));
            }
        }
        let to_ns = all
            .iter()
            .map(|before| before.from_ns)
            .filter(|at| *at >= from_ns)
            .fold(to_ns, u64::min);
        if to_ns > from_ns {
            all.push(Stood {
                from_ns,
                to_ns,
                why: of.sentence.clone(),
            });
        }
    }
    all
}
