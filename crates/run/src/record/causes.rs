//! Causes of what went wrong in a run: slow bursts, late packets, lost packets and missed departures.

mod loss;
mod missed;

use super::rows::Rows;
use super::watched::Watched;
use super::withheld::Spans;
use loss::of_lost;
use missed::of_missed;
use mpps_stats::{LaneSummary, Summary};
use mpps_trace::why;
use mpps_trace::{Cause, Explained, Gap, LaneTrace, LatePacket, Noted, Part, SlowBurst, Stage, Subject};

/// Most causes of each kind in the summary of a run without a trace.
const FEW: usize = 3;

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
    let case = Case {
        summary,
        lanes,
        watched,
        rows,
        away: &away,
        start_ns: summary.started.monotonic_ns,
        traced,
    };
    let mut causes = of_lost(&case, &explain);
    causes.extend(of_missed(summary, lanes, &away, &explain));
    causes.extend(of_slow(&case, &explain));
    causes.extend(of_late(&case, &explain, &held));
    worst_first(&mut causes);
    causes
}

/// Records of a run that is explained.
struct Case<'c> {
    summary: &'c Summary,
    lanes: &'c [LaneTrace],
    watched: &'c Watched,
    rows: &'c Rows,
    /// Times when lanes were away by their own clocks.
    away: &'c [Gap],
    start_ns: u64,
    /// There is a trace.
    traced: bool,
}

impl Case<'_> {
    /// Returns the number of causes of each kind.
    fn most(&self) -> usize {
        if self.traced { why::KEPT } else { FEW }
    }
}

/// Explains slow bursts.
fn of_slow(case: &Case<'_>, explain: &why::Explain<'_>) -> Vec<Cause> {
    let cause = |SlowBurst { lane, round, .. }: &SlowBurst| {
        let trace = case.lanes.iter().find(|trace| trace.lane == *lane)?;
        let typical_ns = typical_burst_ns(case.summary, *lane);
        let is_slow = round.took_ns() >= 2 * typical_ns;
        is_slow.then(|| why::slow(trace, round, typical_ns, case.start_ns, explain))
    };
    let slowest = case.summary.slowest.iter().take(case.most());
    slowest.filter_map(cause).collect()
}

/// Explains late packets.
fn of_late(case: &Case<'_>, explain: &why::Explain<'_>, held: &why::Held<'_>) -> Vec<Cause> {
    let summary = case.summary;
    let typical_ns = summary.latency.percentiles.map_or(0, |percentiles| percentiles.p50);
    // With a trace, the latest packet is explained even if all packets are as late: that is a delay on the path.
    let worth_it = |(n, packet): &(usize, &LatePacket)| case.traced && *n == 0 || worth_it(packet, typical_ns);
    let cause = |(_, packet): (usize, &LatePacket)| {
        let sender = sender(summary, packet);
        let times = (typical_ns, case.start_ns);
        why::late(packet, sender, case.lanes, times, (explain, held))
    };
    let latest = summary.latest.iter().enumerate();
    latest.filter(worth_it).take(case.most()).map(cause).collect()
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

/// Returns the times when lanes were away by their own clocks, as far as these were kept.
pub(super) fn gaps(summary: &Summary, lanes: &[LaneTrace]) -> Vec<Gap> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::{Known, Stretch};
    use mpps_trace::{Did, Round};

    pub(super) fn stretch(from_ns: u64, packets: u64) -> Stretch {
        Stretch {
            from_ns,
            to_ns: from_ns + 10,
            packets,
        }
    }

    pub(super) fn losing(known: Vec<Known>, stretches: Vec<Stretch>) -> Summary {
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
        let found = causes(&summary, &[lane], Some(&Watched::default()), &Rows::default());
        let parts: Vec<(&str, u64)> = found[0]
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
    fn packets_that_were_refused_after_they_counted_as_sent_have_that_place() {
        let mut summary = losing(Vec::new(), vec![stretch(0, 60), stretch(100, 40)]);
        let sentences = |summary: &Summary| -> Vec<String> {
            let causes = causes(summary, &[], None, &Rows::default());
            causes.into_iter().map(|cause| cause.sentence).collect()
        };
        summary.lanes = vec![mpps_stats::LaneSummary {
            tx_failed: 100,
            ..Default::default()
        }];
        let all = sentences(&summary);
        for (sentence, n) in all.iter().zip([60, 40]) {
            let place = format!(": {n} refused by the kernel or device after they were counted as sent.");
            assert!(sentence.ends_with(&place), "{all:?}");
        }
        assert_eq!(all.len(), 2);
        // The stretch that these packets belong to is not known.
        summary.lanes[0].tx_failed = 50;
        assert!(sentences(&summary).iter().all(|of| !of.contains("refused")));
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
