//! Causes of missed departures: what the lanes that send did while the departures were due.

use crate::why::{Explain, UNRECORDED, spent};
use crate::{Cause, Gap, LaneTrace, Part, Stage, Subject, count, time};

/// Most parts that are named one by one.
const PARTS: usize = 4;
/// Shortest time, ns, that counts as a time in which a lane did not come back to its schedule.
pub const HELD_NS: u64 = 200_000;

/// A stretch in which departures were missed.
#[derive(Clone, Debug, Default)]
pub struct Missed {
    /// Start, ns.
    pub from_ns: u64,
    /// End, ns.
    pub to_ns: u64,
    /// Departures missed in the stretch.
    pub packets: u64,
    /// Lanes that send.
    pub senders: Vec<u32>,
    /// Departures of each of these lanes per second.
    pub lane_pps: f64,
    /// Times in which no packet could leave.
    pub stood: Vec<Stood>,
    /// Phrase for departures that were due while no lane is known to have been held.
    pub otherwise: String,
}

/// A time in which no lane could send.
#[derive(Clone, Debug, Default)]
pub struct Stood {
    /// Start, ns.
    pub from_ns: u64,
    /// End, ns.
    pub to_ns: u64,
    /// Reason as a clause: `eth1 had no carrier`.
    pub why: String,
}

impl Stood {
    /// Returns how long it lasted within a stretch, ns.
    fn within(&self, missed: &Missed) -> u64 {
        let (from, to) = (self.from_ns.max(missed.from_ns), self.to_ns.min(missed.to_ns));
        to.saturating_sub(from)
    }
}

/// Returns the parts of a time in which packets could leave.
fn without(gap: Gap, stood: &[Stood]) -> Vec<Gap> {
    let mut left = vec![gap];
    for of in stood {
        let cut = |gap: Gap| {
            let before = Gap {
                to_ns: gap.to_ns.min(of.from_ns),
                ..gap
            };
            let after = Gap {
                from_ns: gap.from_ns.max(of.to_ns),
                ..gap
            };
            [before, after].into_iter().filter(|gap| gap.to_ns > gap.from_ns)
        };
        left = left.into_iter().flat_map(cut).collect();
    }
    left
}

/// Returns the times that reach into a stretch and in which lanes are known to have been held, each once: by their
/// records and their clocks.
fn held(missed: &Missed, lanes: &[LaneTrace], gaps: &[Gap]) -> Vec<Gap> {
    let mut all: Vec<Gap> = Vec::new();
    for lane in lanes.iter().filter(|lane| missed.senders.contains(&lane.lane)) {
        let of_lane = |from_ns: u64, to_ns: u64| Gap {
            lane: lane.lane,
            tid: lane.tid,
            cpu: lane.cpu,
            from_ns,
            to_ns,
        };
        let slow = lane
            .rounds
            .iter()
            .filter(|round| round.moved() && round.took_ns() >= HELD_NS);
        let by_record = slow.map(|round| of_lane(round.at_ns, round.end_ns()));
        let by_clock = gaps.iter().filter(|gap| gap.lane == lane.lane).copied();
        let reach = |gap: &Gap| gap.to_ns > missed.from_ns && gap.from_ns < missed.to_ns;
        let mut held: Vec<Gap> = by_record.chain(by_clock).filter(reach).collect();
        held.sort_by_key(|gap| gap.from_ns);
        for gap in held {
            match all.last_mut() {
                Some(last) if last_reaches(last, &gap) => last.to_ns = last.to_ns.max(gap.to_ns),
                _ => all.push(gap),
            }
        }
    }
    all
}

fn last_reaches(last: &Gap, next: &Gap) -> bool {
    last.lane == next.lane && last.to_ns >= next.from_ns
}

/// Returns a phrase that can follow a number of departures.
fn phrase(what: &str) -> String {
    let is_stage = Stage::ALL.iter().any(|stage| stage.name() == what);
    match what {
        UNRECORDED => "while the lane was held by something that was not recorded".to_owned(),
        _ if is_stage || what.contains("interrupt") => format!("during {what}"),
        _ => format!("while {what}"),
    }
}

/// Returns why departures were missed. Each lane has its departures at one rate, so departures due in a stretch are
/// missing because of what the lane did then. The parts add up to the departures.
pub fn missed(missed: &Missed, lanes: &[LaneTrace], gaps: &[Gap], start_ns: u64, explain: &Explain<'_>) -> Cause {
    let held = held(missed, lanes, gaps);
    let held: Vec<Gap> = held.into_iter().flat_map(|gap| without(gap, &missed.stood)).collect();
    let mut times: Vec<Part> = Vec::new();
    for of in &missed.stood {
        let ns = of.within(missed) * missed.senders.len() as u64;
        times.extend((ns > 0).then(|| Part {
            what: of.why.clone(),
            amount: ns,
        }));
    }
    for gap in &held {
        let Some(lane) = lanes.iter().find(|lane| lane.lane == gap.lane) else {
            continue;
        };
        for part in spent(lane, gap.from_ns, gap.to_ns, explain) {
            match times.iter_mut().find(|known| known.what == part.what) {
                Some(known) => known.amount += part.amount,
                None => times.push(part),
            }
        }
    }
    times.sort_by_key(|part| std::cmp::Reverse(part.amount));
    let ns: u64 = times.iter().map(|part| part.amount).sum();
    // Departures that were caught up with later were due then, too.
    let due = ((ns as f64 * missed.lane_pps / 1e9).round() as u64).min(missed.packets);
    let mut shares: Vec<(String, u64)> = times.iter().map(|part| (phrase(&part.what), part.amount)).collect();
    let others: u64 = shares.drain(PARTS.min(shares.len())..).map(|(_, ns)| ns).sum();
    shares.push(("for other reasons".to_owned(), others));
    // Rounded so that the parts add up: each part is the rounded sum up to its end, less the sum before it.
    let (mut until_ns, mut told) = (0, 0);
    let mut parts = Vec::new();
    for (what, took) in shares {
        until_ns += took;
        let until = (u128::from(due) * u128::from(until_ns) / u128::from(ns.max(1))) as u64;
        parts.push(Part {
            what,
            amount: until - told,
        });
        told = until;
    }
    parts.push(Part {
        what: missed.otherwise.clone(),
        amount: missed.packets - told,
    });
    parts.retain(|part| part.amount > 0);
    let said: Vec<_> = parts
        .iter()
        .map(|part| format!("{} {}", count(part.amount), part.what))
        .collect();
    let longest = held.iter().max_by_key(|gap| gap.to_ns.saturating_sub(gap.from_ns));
    let longest = longest.map_or_else(String::new, |gap| {
        let ns = gap.to_ns.saturating_sub(gap.from_ns);
        format!(" (longest time: {} of lane {})", time(ns as f64), gap.lane)
    });
    let second = |at_ns: u64| at_ns.saturating_sub(start_ns) as f64 / 1e9;
    let one = missed.packets == 1;
    let sentence = format!(
        "{} departure{} missed between {:.6} s and {:.6} s: {}{longest}.",
        count(missed.packets),
        if one { " was" } else { "s were" },
        second(missed.from_ns),
        second(missed.to_ns),
        said.join("; ")
    );
    Cause {
        subject: Subject::Missed,
        at_ns: missed.from_ns,
        took_ns: missed.to_ns.saturating_sub(missed.from_ns),
        lane: None,
        packets: missed.packets,
        sentence,
        parts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Round;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn lane(number: u32, rounds: Vec<Round>) -> LaneTrace {
        LaneTrace {
            lane: number,
            rounds,
            ..LaneTrace::default()
        }
    }

    fn burst(at_ns: u64, transmit: u32) -> Round {
        Round {
            at_ns,
            parts: [0, 0, 0, 0, transmit, 0, 0],
            tx: 32,
            ..Round::default()
        }
    }

    /// Another thread had the core from 10 to 13 ms.
    fn rustc(_: &LaneTrace, from: u64, to: u64) -> Vec<Part> {
        let amount = to.min(13 * MS).saturating_sub(from.max(10 * MS));
        let what = "rustc (thread 99) had the core".to_owned();
        if amount > 0 {
            vec![Part { what, amount }]
        } else {
            vec![]
        }
    }

    fn of(packets: u64) -> Missed {
        Missed {
            from_ns: 0,
            to_ns: 20 * MS,
            packets,
            senders: vec![0, 1],
            lane_pps: 100_000.0,
            stood: Vec::new(),
            otherwise: "in shorter times".to_owned(),
        }
    }

    #[test]
    fn who_had_the_core_and_what_the_lane_did_else_are_told_by_the_departures_due_then() {
        // 5 ms away, of which rustc had 3: its clock noted the same time.
        let lanes = [lane(0, vec![burst(9 * MS, 5_000_000)])];
        let gaps = [Gap {
            from_ns: 9 * MS,
            to_ns: 14 * MS,
            ..Gap::default()
        }];
        let cause = missed(&of(520), &lanes, &gaps, 0, &rustc);
        assert_eq!(
            cause.sentence,
            "520 departures were missed between 0.000000 s and 0.020000 s: 300 while rustc (thread 99) had the core; \
             200 during transmit; 20 in shorter times (longest time: 5.000 ms of lane 0)."
        );
        // Departures that were caught up with are not missed.
        let cause = missed(&of(100), &lanes, &gaps, 0, &rustc);
        let amounts: Vec<_> = cause.parts.iter().map(|part| part.amount).collect();
        assert_eq!(amounts, [60, 40]);
    }

    #[test]
    fn what_was_due_while_nothing_could_leave_is_missed_for_that_alone() {
        // The lane slept meanwhile, and was held a little longer.
        let gaps = [Gap {
            from_ns: 4 * MS,
            to_ns: 9 * MS,
            ..Gap::default()
        }];
        let stood = vec![Stood {
            from_ns: 2 * MS,
            to_ns: 8 * MS,
            why: "eth1 had no carrier".to_owned(),
        }];
        let lanes = [lane(0, vec![]), lane(1, vec![])];
        let cause = missed(&Missed { stood, ..of(1_320) }, &lanes, &gaps, 0, &|_, _, _| Vec::new());
        assert_eq!(
            cause.sentence,
            "1,320 departures were missed between 0.000000 s and 0.020000 s: 1,200 while eth1 had no carrier; 100 \
             while the lane was held by something that was not recorded; 20 in shorter times (longest time: 1.000 ms \
             of lane 0)."
        );
    }

    #[test]
    fn where_no_lane_was_held_it_is_said() {
        let cause = missed(&of(1), &[lane(0, vec![])], &[], 0, &rustc);
        assert_eq!(
            cause.sentence,
            "1 departure was missed between 0.000000 s and 0.020000 s: 1 in shorter times."
        );
    }

    proptest! {
        #[test]
        fn the_parts_add_up_whatever_lanes_did(
            rounds in proptest::collection::vec((0..20 * MS, 0..9_000_000_u32, 0..3_u32), 0..20),
            packets in 0..100_000_u64,
            lane_pps in 0.0..1e7_f64,
        ) {
            let mut lanes = [0, 1, 2].map(|number| lane(number, Vec::new()));
            for (at, took, of) in rounds {
                lanes[of as usize].rounds.push(burst(at, took));
            }
            lanes.iter_mut().for_each(|lane| lane.rounds.sort_by_key(|round| round.at_ns));
            let cause = missed(&Missed { lane_pps, ..of(packets) }, &lanes, &[], 0, &rustc);
            prop_assert_eq!(cause.parts.iter().map(|part| part.amount).sum::<u64>(), packets);
        }
    }
}
