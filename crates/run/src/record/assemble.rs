//! Puts a run's recording together from the records of the engine, the kernel and the rows, and explains it.

use super::rows::Rows;
use super::watched::Watched;
use super::withheld::Spans;
use crate::profile::Samples;
use mpps_io::counter;
use mpps_stats::{KeptOffBy, Known, KnownKind, LaneSummary, Shortfall, Stretch, Summary};
use mpps_sys::clock;
use mpps_trace::missed::{Missed, Stood, missed};
use mpps_trace::why::{self, Loss};
use mpps_trace::{
    Cause, Explained, Gap, Kept, KernelDrops, LaneTrace, LatePacket, LeftOut, LostTimes, Meta, Noted, Part, Recording,
    SlowBurst, Stage, Subject, Taker, TakerKind,
};

/// Fill at which a receive ring counts as full: it had no room, or soon would have had none.
const FULL: f64 = 0.95;

/// Most causes of each kind in the summary of a run without a trace.
const FEW: usize = 3;
/// Reason for missed departures at times when no lane was held up.
const FULL_PATH: &str = "while the path took nothing: a ring, buffer or queue was full";

/// Explains slow bursts, late packets, lost packets and missed departures of a run: all that are known, or only the
/// worst few if there is no trace.
pub fn causes(summary: &Summary, lanes: &[LaneTrace], watched: Option<&Watched>, rows: &Rows) -> Vec<Cause> {
    let nothing = Watched::default();
    let traced = watched.is_some();
    let watched = watched.unwrap_or(&nothing);
    let explained = Explained::new(&watched.events, &watched.own).with_names(&watched.names);
    let away = gaps(summary, lanes);
    let noted = Noted::new(&summary.slowest, &away);
    let by_bursts: Vec<LaneTrace>;
    let lanes = match traced {
        true => lanes,
        false => {
            by_bursts = lanes.iter().map(|lane| noted.recorded(lane)).collect();
            &by_bursts[..]
        }
    };
    let withheld = Spans::of(summary, &away, lanes, &watched.events);
    let explain = |lane: &LaneTrace, from_ns: u64, to_ns: u64| -> Vec<Part> {
        let gap = gap_of(lane, from_ns, to_ns);
        let mut parts = explained.parts(&gap);
        // Time that no other thread took is the lane's own.
        parts.retain(|part| part.what != Explained::UNEXPLAINED);
        parts.extend(noted.parts(lane.lane, (from_ns, to_ns), &parts));
        withheld.name_in(&gap, parts)
    };
    let held = |lane: &LaneTrace, from_ns: u64, to_ns: u64| explained.held_until(&gap_of(lane, from_ns, to_ns));
    let start_ns = summary.started.monotonic_ns;
    let kept = if traced { why::KEPT } else { FEW };
    let drops = watched.drops.as_ref();
    let lost = summary.loss_stretches.lost_times(start_ns, summary.duration_ns);
    let copies = drops.map(|drops| drops.copies(&lost)).unwrap_or_default();
    let outage = outage_of(summary);
    let (mut unsent, mut by_known) = (OfRun::unsent(summary), OfRun::by_known(summary));
    let mut causes = Vec::new();
    for stretch in summary
        .loss_stretches
        .largest
        .iter()
        .filter(|stretch| stretch.packets > 0)
    {
        let (from_ns, to_ns) = (stretch.from_ns, stretch.to_ns);
        let dropped_in = LostTimes::stretch(start_ns + from_ns, start_ns + to_ns, start_ns + summary.duration_ns);
        let dropped = rows.host_dropped(from_ns, to_ns);
        let dropped = if dropped == 0 && one_stretch(summary) {
            summary.host_dropped.unwrap_or(0)
        } else {
            dropped
        };
        // Without rows, the fill is known only for the whole run.
        let (fill, when) = match rows.highest_fill(from_ns, to_ns) {
            Some(fill) => (Some(fill), ""),
            None => (highest_fill(summary), "in the run "),
        };
        let host_drops = (dropped > 0).then(|| {
            let full = fill.map(|fill| format!(" ({when}a receive ring was up to {:.0} % full)", fill * 100.0));
            let what = format!("dropped by this host, by its own counters{}", full.unwrap_or_default());
            (what, dropped)
        });
        let not_sent = unsent.take(summary, stretch);
        let counted = by_known.take(summary, stretch);
        let [here, known] = hints(summary, stretch, &counted);
        let loss = Loss {
            from_ns: start_ns + from_ns,
            to_ns: start_ns + to_ns,
            packets: stretch.packets,
            host_drops: not_sent.into_iter().chain(host_drops).chain(counted).collect(),
            here,
            known,
            kernel_drops: drops.map(|drops| drops.losses_in(dropped_in, &copies)),
            perhaps: drops.map(|drops| drops.perhaps_in(dropped_in)).unwrap_or_default(),
            unseen: unseen(drops),
            outage: outage.filter(|outage| of_stretch((start_ns + from_ns, start_ns + to_ns), *outage)),
            answered: rows.answered_before(from_ns),
            // A lane's absence explains loss only if its ring was found full, or if packets were dropped for lack of
            // room.
            ring_lasts_ns: match dropped > 0 || fill.is_some_and(|fill| fill >= FULL) {
                true => ring_lasts_ns(summary),
                false => 0,
            },
            away: away.clone(),
            last: is_last(summary, stretch),
        };
        causes.push(why::loss(&loss, lanes, &watched.events, start_ns, &explain));
    }
    causes.extend(of_missed(summary, lanes, &away, &explain));
    for SlowBurst { lane, round, .. } in summary.slowest.iter().take(kept) {
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
    // With a trace, the latest packet is explained even if all packets are as late: that is a delay on the path.
    let mut latest = summary.latest.iter().enumerate();
    let worth_it = |(n, packet): &(usize, &LatePacket)| traced && *n == 0 || worth_it(packet, typical_ns);
    for (_, packet) in latest.by_ref().filter(worth_it).take(kept) {
        let sender = sender(summary, packet);
        causes.push(why::late(
            packet,
            sender,
            lanes,
            (typical_ns, start_ns),
            (&explain, &held),
        ));
    }
    worst_first(&mut causes);
    causes
}

fn gap_of(lane: &LaneTrace, from_ns: u64, to_ns: u64) -> Gap {
    Gap {
        lane: lane.lane,
        tid: lane.tid,
        cpu: lane.cpu,
        from_ns,
        to_ns,
    }
}

/// Sorts causes of the same subject by size (packets or time). The subject that the verdict cites comes first.
fn worst_first(causes: &mut [Cause]) {
    causes.sort_by_key(|cause| {
        let amount = match cause.subject {
            Subject::Loss | Subject::Missed => cause.packets,
            Subject::Late | Subject::Slow => cause.took_ns,
        };
        (std::cmp::Reverse(amount), cause.at_ns)
    });
    let cited = why::first(causes).map(|cause| cause.subject);
    let rank = |subject: Subject| match subject {
        Subject::Loss => 0,
        Subject::Missed => 1,
        Subject::Slow => 2,
        Subject::Late => 3,
    };
    causes.sort_by_key(|cause| (Some(cause.subject) != cited, rank(cause.subject)));
}

/// Packet counts that are known only for the whole run, each with its description.
struct OfRun {
    /// Packets of each count that earlier stretches have not used up.
    left: Vec<(String, u64)>,
    all: u64,
}

impl OfRun {
    fn new(left: Vec<(String, u64)>) -> Self {
        let all = left.iter().map(|(_, n)| n).sum();
        Self { left, all }
    }

    /// Counts packets that were counted as sent but did not leave, by a port's own counters.
    fn unsent(summary: &Summary) -> Self {
        let lanes = || summary.lanes.iter();
        let refused = lanes().map(|lane| lane.tx_failed).sum();
        let counters = lanes().flat_map(|lane| &lane.path_counters);
        let dropped = counters.filter(|(name, _)| name == counter::DROPPED_SENT);
        Self::new(vec![
            (
                "refused by the kernel or device after they were counted as sent".to_owned(),
                refused,
            ),
            (
                "dropped by the interface that should have sent them, of the test or of others".to_owned(),
                dropped.map(|(_, n)| n).sum(),
            ),
        ])
    }

    /// Counts packets that this host or an imitated path dropped, as evidence from the run's surroundings shows.
    fn by_known(summary: &Summary) -> Self {
        let here = |kind: KnownKind| kind.dropped_here() || kind == KnownKind::PathImitated;
        let count = |known: &Known| {
            let what = "by what this host counted over the run, of the test or of others";
            let packets = known.packets.filter(|_| here(known.kind)).unwrap_or(0);
            (format!("{what}: {}", known.sentence), packets)
        };
        Self::new(summary.known.iter().map(count).collect())
    }

    /// Takes the packets of a stretch of loss from the counts. Only if the counts cover all lost packets, or if there
    /// is just one stretch.
    fn take(&mut self, summary: &Summary, stretch: &Stretch) -> Vec<(String, u64)> {
        if !one_stretch(summary) && self.all < summary.lost {
            return Vec::new();
        }
        let mut lost = stretch.packets;
        let part = |(what, left): &mut (String, u64)| {
            let n = lost.min(*left);
            lost -= n;
            *left -= n;
            (n > 0).then(|| (what.clone(), n))
        };
        self.left.iter_mut().filter_map(part).collect()
    }
}

/// Returns evidence that may explain a stretch of loss but has no packet count, or one for the whole run only: first
/// evidence on this host, then evidence on the path. Evidence in `counted` is left out, because it is already named
/// with its count.
fn hints(summary: &Summary, stretch: &Stretch, counted: &[(String, u64)]) -> [Vec<String>; 2] {
    let then = |known: &&Known| known.when_ns.is_empty() || known.within(stretch.from_ns, stretch.to_ns) > 0;
    let told = |known: &&Known| !counted.iter().any(|(told, _)| told.ends_with(&known.sentence));
    let known = summary.known.iter().filter(|known| known.may_lose());
    let (here, path): (Vec<&Known>, Vec<&Known>) = known
        .filter(then)
        .filter(told)
        .partition(|known| known.kind.dropped_here() || known.kind.is_outage());
    [here, path].map(|all| all.into_iter().map(|known| known.sentence.clone()).collect())
}

/// Explains missed departures, stretch by stretch.
fn of_missed(summary: &Summary, lanes: &[LaneTrace], away: &[Gap], explain: &why::Explain<'_>) -> Vec<Cause> {
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

/// Returns the highest fill that was found in a receive ring of the run.
fn highest_fill(summary: &Summary) -> Option<f64> {
    let rings = summary.lanes.iter().flat_map(|lane| &lane.rx_rings);
    rings.map(|ring| ring.highest_ratio()).reduce(f64::max)
}

/// Returns the shortest time in which a receive ring fills, ns; 0: not known.
fn ring_lasts_ns(summary: &Summary) -> u64 {
    let rings = summary.lanes.iter().flat_map(|lane| &lane.rx_rings);
    rings.filter_map(|ring| ring.lasts_ns).min().unwrap_or(0)
}

/// Returns whether sending ended within this stretch.
fn is_last(summary: &Summary, stretch: &Stretch) -> bool {
    stretch.to_ns >= summary.duration_ns
}

/// Returns the longest outage: start and end, ns, and packets lost in it.
fn outage_of(summary: &Summary) -> Option<(u64, u64, u64)> {
    let start_ns = summary.started.monotonic_ns;
    let outage = summary.longest_outage?;
    Some((start_ns + outage.from_ns, start_ns + outage.to_ns, outage.lost?))
}

/// Returns the parts of the kernel whose drops could not be seen.
fn unseen(drops: Option<&KernelDrops>) -> Vec<String> {
    let unseen = drops.map_or(&[][..], |drops| &drops.unseen);
    unseen.iter().map(|(what, _)| what.clone()).collect()
}

/// Returns whether an outage belongs to a stretch: they overlap.
fn of_stretch(stretch: (u64, u64), outage: (u64, u64, u64)) -> bool {
    outage.0 < stretch.1 && outage.1 > stretch.0
}

/// Returns whether all loss is in one stretch.
fn one_stretch(summary: &Summary) -> bool {
    summary.loss_stretches.largest.len() == 1 && summary.loss_stretches.more == 0
}

/// Returns whether a late packet is worth an explanation: it took more than twice the median.
fn worth_it(packet: &LatePacket, typical_ns: u64) -> bool {
    packet.classified_ns.saturating_sub(packet.due_ns()) > 2 * typical_ns
}

/// Returns the lane that sent a packet, if this run sent it.
fn sender(summary: &Summary, packet: &LatePacket) -> Option<u32> {
    let senders: Vec<u32> = summary
        .lanes
        .iter()
        .filter(|lane| lane.tx_role)
        .map(|lane| lane.lane as u32)
        .collect();
    // Flows are assigned to the sending lanes in turn.
    let place = packet.flow as usize % senders.len().max(1);
    senders.get(place).copied()
}

/// Returns the typical time of a lane's burst, ns: the sum of the median times of its stages.
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

/// Returns all lanes with their thread IDs and cores, and the rounds that were kept.
pub fn with_threads(mut kept: Kept, summary: &Summary, watched: Option<&Watched>) -> Kept {
    let threads = watched.map_or(&[][..], |watched| &watched.lanes);
    let thread = |lane: u32| threads.iter().find(|thread| thread.lane == lane);
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
    for kept in kept.lanes.drain(..) {
        match lanes.iter_mut().find(|lane| lane.lane == kept.lane) {
            Some(lane) => lane.rounds = kept.rounds,
            None => lanes.push(kept),
        }
    }
    Kept { lanes, ..kept }
}

/// Returns the times when lanes were away by their own clocks, as far as these were kept.
fn gaps(summary: &Summary, lanes: &[LaneTrace]) -> Vec<Gap> {
    let start_ns = summary.started.monotonic_ns;
    let of_lane = |lane: &LaneSummary| {
        let trace = lanes.iter().find(|trace| trace.lane == lane.lane as u32);
        let gap = |gap: &mpps_stats::Gap| {
            trace.map(|trace| Gap {
                lane: trace.lane,
                tid: trace.tid,
                cpu: trace.cpu,
                from_ns: start_ns + gap.from_ns,
                to_ns: start_ns + gap.to_ns,
            })
        };
        lane.gaps.iter().filter_map(gap).collect::<Vec<_>>()
    };
    summary.lanes.iter().flat_map(of_lane).collect()
}

/// Returns the part of the lanes' gaps that no event accounts for: all of it if no events were recorded.
fn unexplained(summary: &Summary, watched: &Watched, lanes: &[LaneTrace]) -> Vec<Taker> {
    let explained = Explained::new(&watched.events, &watched.own);
    let mut takers = explained.takers(&gaps(summary, lanes));
    takers.retain(|taker| taker.kind == TakerKind::Unexplained);
    takers
}

/// Builds the recording of a run.
pub fn recording(
    summary: &Summary,
    kept: Kept,
    watched: Watched,
    rows: &Rows,
    samples: Option<&Samples>,
    lack: Option<LeftOut>,
) -> Recording {
    let Kept { lanes, left_out } = kept;
    let mut takers = watched.takers.clone();
    takers.extend(unexplained(summary, &watched, &lanes));
    if summary.withheld.is_some() {
        let spans = Spans::of(summary, &gaps(summary, &lanes), &lanes, &watched.events);
        takers = spans.name_among(takers, &Explained::new(&watched.events, &watched.own));
    }
    let left_out = left_out.into_iter().chain(watched.left_out).chain(rows.left_out());
    let left_out: Vec<LeftOut> = left_out.chain(lack).collect();
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
            steal_ns: fact("steal_ms").parse::<u64>().ok().map(|ms| ms * 1_000_000),
            start_ns: started.monotonic_ns,
            end_ns: started.monotonic_ns + summary.duration_ns,
            // Most recordings are windows. The records of one lane leave no gap.
            whole: false,
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
        programs: summary.programs.clone(),
        takers,
        causes: summary.causes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_trace::{Did, Round};

    fn stretch(from_ns: u64, packets: u64) -> Stretch {
        Stretch {
            from_ns,
            to_ns: from_ns + 10,
            packets,
        }
    }

    fn known(kind: KnownKind, sentence: &str, packets: Option<u64>, when_ns: &[(u64, u64)]) -> Known {
        Known {
            kind,
            sentence: sentence.to_owned(),
            packets,
            of_others: packets.is_some(),
            when_ns: when_ns.to_vec(),
        }
    }

    fn losing(known: Vec<Known>, stretches: Vec<Stretch>) -> Summary {
        let mut summary = Summary {
            known,
            lost: stretches.iter().map(|of| of.packets).sum(),
            ..Summary::default()
        };
        summary.loss_stretches.largest = stretches;
        summary
    }

    #[test]
    fn a_traced_lane_that_its_clock_misses_and_nobody_took_was_away_and_did_not_poll() {
        const MS: u64 = 1_000_000;
        let mut parts = [0; 7];
        parts[0] = 10 * MS as u32;
        let polled = Round {
            parts,
            polls: 10,
            did: Did::Polled,
            ..Round::default()
        };
        let lane = LaneTrace {
            rounds: vec![polled],
            ..LaneTrace::default()
        };
        let late = LatePacket {
            scheduled_ns: Some(2 * MS),
            sent_ns: 9 * MS,
            arrived_ns: 9 * MS,
            classified_ns: 9 * MS,
            ..LatePacket::default()
        };
        let summary = Summary {
            lanes: vec![LaneSummary {
                tx_role: true,
                gaps: vec![mpps_stats::Gap {
                    from_ns: 3 * MS,
                    to_ns: 8 * MS,
                }],
                ..LaneSummary::default()
            }],
            latest: vec![late],
            ..Summary::default()
        };
        let told = causes(&summary, &[lane], Some(&Watched::default()), &Rows::default());
        let parts: Vec<(&str, u64)> = told[0]
            .parts
            .iter()
            .map(|part| (part.what.as_str(), part.amount))
            .collect();
        assert_eq!(
            parts,
            [
                ("before it was sent: the lane was away from its clock", 5 * MS),
                ("before it was sent: empty polls", 2 * MS)
            ]
        );
    }

    #[test]
    fn drops_of_the_whole_run_are_told_once_over_its_stretches_of_loss() {
        let queues = vec![
            known(KnownKind::QueueDropped, "the queue", Some(100), &[]),
            known(KnownKind::PathImitated, "netem", Some(900), &[]),
        ];
        let summary = losing(queues, vec![stretch(0, 500), stretch(100, 500)]);
        let mut known = OfRun::by_known(&summary);
        let told: Vec<Vec<u64>> = summary
            .loss_stretches
            .largest
            .iter()
            .map(|of| known.take(&summary, of).into_iter().map(|(_, n)| n).collect())
            .collect();
        assert_eq!(told, [vec![100, 400], vec![500]]);
    }

    #[test]
    fn what_happened_on_this_host_is_not_said_to_be_the_path() {
        let all = vec![
            known(KnownKind::QueueDropped, "the queue", Some(99), &[]),
            known(KnownKind::NoWay, "no route", None, &[]),
            known(KnownKind::MtuChanged, "the MTU", None, &[]),
            known(KnownKind::NoCarrier, "no carrier", None, &[(105, 106), (300, 400)]),
            known(KnownKind::Unreachable, "unreachable", None, &[]),
        ];
        let summary = losing(all, vec![stretch(0, 50), stretch(100, 50)]);
        let mut left = OfRun::by_known(&summary);
        let hints = |of: &Stretch, left: &mut OfRun| hints(&summary, of, &left.take(&summary, of));
        let of = &summary.loss_stretches.largest;
        assert_eq!(hints(&of[0], &mut left), [vec!["the queue"], vec!["unreachable"]]);
        let second = hints(&of[1], &mut left);
        assert_eq!(second, [vec!["the queue", "no carrier"], vec!["unreachable"]]);
    }

    #[test]
    fn packets_that_were_refused_after_they_counted_as_sent_have_that_place() {
        let mut summary = losing(Vec::new(), vec![stretch(0, 60), stretch(100, 40)]);
        let told = |summary: &Summary| -> Vec<String> {
            let causes = causes(summary, &[], None, &Rows::default());
            causes.into_iter().map(|cause| cause.sentence).collect()
        };
        summary.lanes = vec![mpps_stats::LaneSummary {
            tx_failed: 100,
            ..Default::default()
        }];
        let all = told(&summary);
        for (sentence, n) in all.iter().zip([60, 40]) {
            let place = format!(": {n} refused by the kernel or device after they were counted as sent.");
            assert!(sentence.ends_with(&place), "{all:?}");
        }
        assert_eq!(all.len(), 2);
        // The stretch that these packets belong to is not known.
        summary.lanes[0].tx_failed = 50;
        assert!(told(&summary).iter().all(|told| !told.contains("refused")));
    }

    #[test]
    fn the_worst_of_a_kind_comes_first_and_the_kind_that_a_verdict_cites() {
        let cause = |subject, at_ns, took_ns, packets| Cause {
            subject,
            at_ns,
            took_ns,
            lane: None,
            packets,
            sentence: String::new(),
            parts: Vec::new(),
        };
        let mut causes = vec![
            cause(Subject::Loss, 1, 900, 2),
            cause(Subject::Loss, 2, 5, 7),
            cause(Subject::Slow, 3, 10, 1),
            cause(Subject::Late, 4, 10, 1),
            cause(Subject::Late, 5, 30, 1),
            cause(Subject::Missed, 6, 5, 8),
            cause(Subject::Missed, 7, 5, 10),
        ];
        worst_first(&mut causes);
        let order: Vec<_> = causes.iter().map(|cause| cause.at_ns).collect();
        assert_eq!(order, [7, 6, 2, 1, 3, 5, 4]);
        assert_eq!(why::first(&causes).map(|cause| cause.at_ns), Some(7));
    }
}
