//! Causes of lost packets: what the kernel, sockets, devices and lanes know of a stretch with losses.

use super::{Explain, Parts, at, meaning, spent};
use crate::{Cause, Did, Event, Gap, KernelEvent, LaneTrace, Subject, count, time};

/// A stretch in which packets were lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// Start, ns.
    pub from_ns: u64,
    /// End, ns.
    pub to_ns: u64,
    /// Packets lost in the stretch.
    pub packets: u64,
    /// Packets that this host's devices and sockets dropped in the stretch by their own counters, by name.
    pub host_drops: Vec<(String, u64)>,
    /// Packets that the kernel dropped in the stretch, by its own reasons, if that is known exactly. Otherwise the
    /// recorded events are counted.
    pub kernel_drops: Option<Vec<(String, u64)>>,
    /// Evidence on this host itself that may explain the loss, without a number of packets of this stretch.
    pub here: Vec<String>,
    /// Evidence on the path, without a number of packets.
    pub known: Vec<String>,
    /// Drops in the same time that may have been of other packets, or of copies, by the kernel's reasons.
    pub perhaps: Vec<(String, u64)>,
    /// Parts of the kernel whose drops were not seen.
    pub unseen: Vec<String>,
    /// Longest time without a packet: start and end, ns, and the packets lost in it.
    pub outage: Option<(u64, u64, u64)>,
    /// Whether packets came back before the stretch.
    pub answered: bool,
    /// Time for which the receive ring or socket lasts at this rate, ns; 0 if not known.
    pub ring_lasts_ns: u64,
    /// Times when lanes were away by their own clocks, in addition to their records.
    pub away: Vec<Gap>,
    /// Whether sending ended with the stretch.
    pub last: bool,
}

/// Returns the latest time at which packets lost in a stretch up to `to_ns` have been dropped, ns. Packets that were
/// due when sending ended leave after that, for as long as lanes catch up, and count in the last row.
pub fn dropped_by(to_ns: u64, last: bool) -> u64 {
    match last {
        true => u64::MAX,
        false => to_ns.saturating_add(AFTER_NS),
    }
}

/// Returns why packets were lost, as far as is known: the kernel's own reasons first, then the counters of sockets and
/// devices, then a receiving lane that was away for longer than its ring lasts. The rest was lost on the path or beyond
/// it. The parts add up to the packets.
pub fn loss(loss: &Loss, lanes: &[LaneTrace], kernel: &[KernelEvent], start_ns: u64, explain: &Explain<'_>) -> Cause {
    let mut left = loss.packets;
    let mut parts = Parts::default();
    let mut take = |what: String, n: u64, parts: &mut Parts| {
        let n = n.min(left);
        left -= n;
        parts.add(&what, n);
    };
    let mut drops = match &loss.kernel_drops {
        Some(drops) => drops.clone(),
        None => recorded_drops(loss, kernel),
    };
    drops.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let named: u64 = drops.iter().map(|(_, n)| n).sum();
    for (reason, n) in drops {
        let place = place_of(&reason, loss, kernel);
        let meaning = meaning(&reason, place, loss.answered);
        let place = place.filter(|_| reason == "NOT_SPECIFIED");
        let place = place.map_or_else(String::new, |place| format!(" in {place}"));
        let what = format!("dropped by this host's kernel: {reason}{place}{meaning}");
        take(what, n, &mut parts);
    }
    // A socket also counts the drops that the kernel has reported.
    let mut twice = named;
    for (what, n) in &loss.host_drops {
        let known = twice.min(*n);
        twice -= known;
        take(what.clone(), n - known, &mut parts);
    }
    // A lane was away for longer than its ring lasts: packets that came after the ring was full had no place.
    let mut away = None;
    if loss.ring_lasts_ns > 0 {
        for lane in lanes {
            let longest = longest_away(lane, loss, explain);
            if let Some((ns, who)) = longest.filter(|(ns, _)| *ns > loss.ring_lasts_ns) {
                away = away.max(Some((ns, lane.lane, who)));
            }
        }
    }
    let away = away.map(|(ns, lane, who)| {
        format!(
            "while lane {lane} was away for {} ({who}), longer than its ring lasts ({})",
            time(ns as f64),
            time(loss.ring_lasts_ns as f64)
        )
    });
    let dropped: u64 = parts.list.iter().map(|part| part.amount).sum();
    let beyond = beyond(loss, dropped);
    take(away.as_deref().unwrap_or(&beyond).to_owned(), u64::MAX, &mut parts);
    let parts = parts.list;
    let mut named: Vec<String> = parts
        .iter()
        .map(|part| format!("{} {}", count(part.amount), part.what))
        .collect();
    // All packets are accounted for: then this is why they found no room.
    named.extend(away.filter(|_| dropped == loss.packets));
    let took_ns = loss.to_ns.saturating_sub(loss.from_ns);
    let sentence = format!(
        "{} lost between {} and {}{}: {}.",
        match loss.packets {
            1 => "1 packet was".to_owned(),
            n => format!("{} packets were", count(n)),
        },
        at(loss.from_ns, start_ns),
        at(loss.to_ns, start_ns),
        outage(loss, start_ns),
        named.join("; ")
    );
    Cause {
        subject: Subject::Loss,
        at_ns: loss.from_ns,
        took_ns,
        lane: None,
        packets: loss.packets,
        sentence,
        parts,
    }
}

/// Returns a clause on `n` packets dropped for a reason: they may be the lost ones, or others.
pub fn perhaps(reason: &str, n: u64) -> String {
    let n = count(n);
    match reason {
        "PACKET_SOCK_COPY" => format!("among the {n} for which a packet socket of this host had no room"),
        "XDP_REDIRECT" => format!("among the {n} that XDP programs of this host had no room for (AF_XDP sockets)"),
        reason => format!("among the {n} that this host dropped: {reason}"),
    }
}

/// Returns a clause on drops in a part of the kernel that a trace does not see.
pub fn unseen(part: &str) -> String {
    format!("in {part} of this host, whose drops were not seen")
}

/// Returns where the packets were lost that are not among the `dropped`, as far as was looked and no further.
fn beyond(loss: &Loss, dropped: u64) -> String {
    let own = "on the path or beyond it, as far as this run's own counters tell".to_owned();
    let seen = match &loss.kernel_drops {
        _ if !loss.here.is_empty() => {
            let known = [&loss.here[..], &loss.known].concat().join("; ");
            format!("not attributed to a place; what is known: {known}")
        }
        _ if !loss.known.is_empty() => {
            let known = loss.known.join("; ");
            format!("on the path or beyond it, where this is known: {known}")
        }
        None => return own,
        Some(_) if loss.perhaps.is_empty() && loss.unseen.is_empty() => {
            // Other causes are not ruled out: a counter reports no more than it counted.
            return match dropped {
                0 => "on the path or beyond it: nothing on this host dropped them".to_owned(),
                _ => own,
            };
        }
        Some(_) => "on the path or beyond it".to_owned(),
    };
    let perhaps = loss.perhaps.iter().map(|(reason, n)| perhaps(reason, *n));
    let unseen = loss.unseen.iter().map(|part| unseen(part));
    let others = perhaps.chain(unseen).map(|of| format!(", or {of}"));
    others.fold(seen, |all, of| all + &of)
}

/// Returns a phrase on the longest outage, if it contains most of the loss.
fn outage(loss: &Loss, start_ns: u64) -> String {
    let Some((from_ns, to_ns, lost)) = loss.outage.filter(|(.., lost)| lost * 2 > loss.packets) else {
        return String::new();
    };
    let which = if lost >= loss.packets {
        "all".to_owned()
    } else {
        count(lost)
    };
    format!(
        ", {which} of them in an outage of {} from {} to {}",
        time(to_ns.saturating_sub(from_ns) as f64),
        at(from_ns, start_ns),
        at(to_ns, start_ns)
    )
}

/// Longest time after the end of a stretch, ns, at which a packet of that stretch is dropped: on its way, or on the way
/// back. Stretches are further apart.
pub(super) const AFTER_NS: u64 = 60_000_000;

/// Returns the recorded drops of the test's packets. The events must be in the order of time.
fn recorded<'e>(loss: &Loss, kernel: &'e [KernelEvent]) -> impl Iterator<Item = &'e crate::Drop> + use<'e> {
    let to_ns = dropped_by(loss.to_ns, loss.last);
    let first = kernel.partition_point(|event| event.at_ns < loss.from_ns);
    let within = kernel[first..].iter().take_while(move |event| event.at_ns <= to_ns);
    within.filter_map(|event| match &event.event {
        Event::Drop(drop) => Some(drop).filter(|drop| drop.ours),
        _ => None,
    })
}

/// Returns the drops of the test's packets by reason, as far as they were recorded.
fn recorded_drops(loss: &Loss, kernel: &[KernelEvent]) -> Vec<(String, u64)> {
    let mut drops: Vec<(String, u64)> = Vec::new();
    for drop in recorded(loss, kernel) {
        let packets = u64::from(drop.packets.max(1));
        match drops.iter_mut().find(|(known, _)| *known == drop.reason) {
            Some((_, n)) => *n += packets,
            None => drops.push((drop.reason.clone(), packets)),
        }
    }
    drops
}

/// Returns the place in the kernel where most of the recorded packets with this reason were dropped.
fn place_of<'e>(reason: &str, loss: &Loss, kernel: &'e [KernelEvent]) -> Option<&'e str> {
    let mut places: Vec<(&str, u64)> = Vec::new();
    for drop in recorded(loss, kernel).filter(|drop| drop.reason == reason) {
        match places.iter_mut().find(|(known, _)| *known == drop.place) {
            Some((_, n)) => *n += 1,
            None => places.push((&drop.place, 1)),
        }
    }
    places.iter().max_by_key(|(_, n)| *n).map(|(place, _)| *place)
}

/// Returns the longest stretch in which the lane did not look at its queue, ns, and who had the core: by the lane's
/// records, or its clock.
fn longest_away(lane: &LaneTrace, loss: &Loss, explain: &Explain<'_>) -> Option<(u64, String)> {
    // Drops from the time away are counted once the lane is back.
    let after = |gap: &Gap| gap.to_ns.saturating_add(AFTER_NS) >= loss.from_ns;
    let within = |gap: &&Gap| gap.lane == lane.lane && after(gap) && gap.from_ns <= loss.to_ns;
    let length = |gap: &Gap| gap.to_ns.saturating_sub(gap.from_ns);
    let by_clock = loss
        .away
        .iter()
        .filter(within)
        .max_by_key(|gap| length(gap))
        .map(|gap| {
            let parts = explain(lane, gap.from_ns, gap.to_ns);
            let who = parts.into_iter().max_by_key(|part| part.amount);
            (
                length(gap),
                who.map_or_else(|| "nobody saw why".to_owned(), |part| part.what),
            )
        });
    recorded_away(lane, loss, explain).max(by_clock)
}

fn recorded_away(lane: &LaneTrace, loss: &Loss, explain: &Explain<'_>) -> Option<(u64, String)> {
    let longest = lane
        .rounds
        .iter()
        .filter(|round| round.end_ns() >= loss.from_ns && round.at_ns <= loss.to_ns)
        .filter(|round| matches!(round.did, Did::Burst | Did::Slept))
        .max_by_key(|round| round.took_ns())?;
    let parts = spent(
        &LaneTrace {
            rounds: vec![*longest],
            ..lane.clone_head()
        },
        longest.at_ns,
        longest.end_ns(),
        explain,
    );
    let most = parts.iter().max_by_key(|part| part.amount)?;
    Some((longest.took_ns(), most.what.clone()))
}
