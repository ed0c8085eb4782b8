//! Causes of late packets: the parts of their way.

use super::{Explain, Held, Parts, at, phrase, spent};
use crate::{Cause, Did, Explained, Gap, LaneTrace, LatePacket, Part, Round, Stage, Subject, count, time};

/// Largest gap between two records that follow each other, ns: the records of a lane leave no time out.
const APART_NS: u64 = 1_000;

/// Returns why a packet was late: each part of its way, and what the lanes did then. `sender` is the lane that sent the
/// packet, if it is of this program; `typical_ns` is the delay of the median packet.
pub fn late(
    packet: &LatePacket,
    sender: Option<u32>,
    lanes: &[LaneTrace],
    (typical_ns, start_ns): (u64, u64),
    (explain, held): (&Explain<'_>, &Held<'_>),
) -> Cause {
    let due_ns = packet.due_ns();
    let took_ns = packet.classified_ns.saturating_sub(due_ns);
    let parts = way(packet, sender, lanes, explain, held);
    let sentence = format!(
        "Packet {} of flow {} was back {} after it was due at {} (half of them take no more than {}): {}.",
        count(packet.seq),
        packet.flow,
        time(took_ns as f64),
        at(due_ns, start_ns),
        time(typical_ns as f64),
        phrase(&parts, took_ns)
    );
    Cause {
        subject: Subject::Late,
        at_ns: due_ns,
        took_ns,
        lane: Some(packet.lane),
        packets: 1,
        sentence,
        parts,
    }
}

/// Returns the parts of a packet's way, from the time when it was due until it was classified.
fn way(
    packet: &LatePacket,
    sender: Option<u32>,
    lanes: &[LaneTrace],
    explain: &Explain<'_>,
    held: &Held<'_>,
) -> Vec<Part> {
    let lane = |number: u32| lanes.iter().find(|lane| lane.lane == number);
    // A clock's correction must not make a part negative: each begins where the one before ended.
    let mut begin = packet.due_ns();
    let mut stretch = |end: u64| {
        let from = begin;
        begin = end.clamp(begin, packet.classified_ns.max(begin));
        (from, begin)
    };
    let scheduled = stretch(packet.sent_ns);
    let transmitted = sender
        .and_then(lane)
        .and_then(|lane| transmitted_ns(lane, packet.sent_ns));
    let transmit = stretch(transmitted.unwrap_or(packet.sent_ns).min(packet.arrived_ns));
    let path = stretch(packet.arrived_ns);
    let queue = stretch(packet.classified_ns);
    let mut parts = Parts::default();
    let mut of_lane = |name: &str, number: Option<u32>, (from, to): (u64, u64)| {
        if to <= from {
            return;
        }
        match number.and_then(lane) {
            Some(lane) => {
                for part in spent(lane, from, to, explain) {
                    parts.add(&format!("{name}: {}", part.what), part.amount);
                }
            }
            None => parts.add(name, to - from),
        }
    };
    of_lane("before it was sent", sender, scheduled);
    of_lane("transmit call", sender, transmit);
    // Without a stamp of the kernel's, the packet may have been in our own receive queue while the lane was elsewhere.
    let wait_from = match lane(packet.lane) {
        Some(lane) => away_until(lane, path, explain),
        None => path.1,
    };
    match waited_for_core(packet.lane, sender, lanes, (path.0, wait_from), held) {
        Some((gap, what)) => {
            of_lane("path", None, (path.0, gap.from_ns));
            of_lane(&what, None, (gap.from_ns, gap.to_ns));
            of_lane("path", None, (gap.to_ns, wait_from));
        }
        None => of_lane("path", None, (path.0, wait_from)),
    }
    of_lane("in the receive queue", Some(packet.lane), (wait_from, path.1));
    of_lane("in the receive queue", Some(packet.lane), queue);
    parts.list
}

/// Returns the time on the path in which the kernel could not handle the packet, since others had the core of its
/// sender or receiver, and what to call that part. `None` if that was less than half of the time on the path.
fn waited_for_core(
    receiver: u32,
    sender: Option<u32>,
    lanes: &[LaneTrace],
    (from_ns, to_ns): (u64, u64),
    held: &Held<'_>,
) -> Option<(Gap, String)> {
    let core = [("the sender's core", sender), ("the receiver's core", Some(receiver))];
    core.into_iter().find_map(|(whose, number)| {
        let lane = lanes.iter().find(|lane| Some(lane.lane) == number)?;
        let (gap, who) = held(lane, from_ns, to_ns)?;
        let most = gap.to_ns.saturating_sub(gap.from_ns) * 2 >= to_ns.saturating_sub(from_ns);
        most.then(|| (gap, format!("path, waiting for {whose}: {who}")))
    })
}

/// Returns the time when the call returned that sent the packet written at `sent_ns`, by the lane's records.
fn transmitted_ns(lane: &LaneTrace, sent_ns: u64) -> Option<u64> {
    let place = lane
        .rounds
        .partition_point(|round| round.at_ns <= sent_ns)
        .checked_sub(1)?;
    let round = &lane.rounds[place];
    if round.did != Did::Burst || round.tx == 0 || round.end_ns() < sent_ns {
        return None;
    }
    let through = Round::STAGES.iter().position(|stage| *stage == Stage::Flush)?;
    let took: u64 = round.parts[..=through].iter().map(|&part| u64::from(part)).sum();
    Some(round.at_ns + took)
}

/// Returns the time in a stretch of a packet's way from which on the receiving lane did not look: the packet may have
/// been in the lane's queue since. Returns the end of the stretch if the lane looked all the time.
fn away_until(lane: &LaneTrace, (from, to): (u64, u64), explain: &Explain<'_>) -> u64 {
    // The last look before the packet was found is the end of the last record that began before, unless that record is
    // the one that found the packet.
    let next = lane.rounds.partition_point(|round| round.at_ns < to);
    let Some(last) = next.checked_sub(1).map(|place| &lane.rounds[place]) else {
        return to;
    };
    if last.end_ns() < from || last.end_ns().saturating_add(APART_NS) < to {
        // What the lane did then was not recorded: it may have looked all the time.
        return to;
    }
    if last.at_ns > from {
        // The lane looked since the packet was sent: the record that found the packet began after. A sleep that the
        // lane chose ends when something comes.
        let away = |part: &Part| !part.what.contains(Explained::ASLEEP);
        return if explain(lane, last.at_ns, to).iter().any(away) {
            last.at_ns
        } else {
            to
        };
    }
    from.max(last.at_ns)
}
