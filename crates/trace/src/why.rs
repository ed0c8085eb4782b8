//! Causes of slow bursts, late packets and lost packets: sentences whose parts add up.

use crate::{
    Cause, Did, Event, Explained, Gap, KernelEvent, LaneTrace, LatePacket, Part, Round, Stage, Subject, count, time,
};

/// Most causes of a subject that are kept.
pub const KEPT: usize = 100;
/// A part below this share of the whole is not named in a sentence.
const WORTH_NAMING: f64 = 0.1;
/// Largest gap between two records that follow each other, ns: the records of a lane leave no time out.
const APART_NS: u64 = 1_000;
/// Name of time that is in no record of a lane.
pub(crate) const UNRECORDED: &str = "unrecorded";

/// Function that returns what a lane's time between two points went to, beside its own work: parts that add up to no
/// more than that time. It comes from the code that knows what the kernel did then. If nothing is known, it returns no
/// parts.
pub type Explain<'e> = dyn Fn(&LaneTrace, u64, u64) -> Vec<Part> + 'e;

/// Function that returns the last stretch of a time in which others had a lane's core, and who had it
/// ([`Explained::held_until`]).
pub type Held<'e> = dyn Fn(&LaneTrace, u64, u64) -> Option<(Gap, String)> + 'e;

/// Returns what a lane did with a stretch of time, ns, part by part: its stages by its records, and time in no record
/// as `unrecorded`. The parts add up to the stretch. Time of a stage, or time in no record, that `explain` knows was
/// taken by others becomes a part of its own.
pub fn spent(lane: &LaneTrace, from_ns: u64, to_ns: u64, explain: &Explain<'_>) -> Vec<Part> {
    let mut parts = Parts::default();
    let mut at = from_ns;
    // Adds the parts of a stretch that others took; the rest is `own`. A lane that waits for packets or for room has
    // chosen to sleep.
    let split = |parts: &mut Parts, from_ns: u64, to_ns: u64, own: &str, may_sleep: bool| {
        let mut rest = to_ns.saturating_sub(from_ns);
        if rest == 0 {
            return;
        }
        let chosen = |part: &Part| may_sleep && part.what.contains(Explained::ASLEEP);
        for part in explain(lane, from_ns, to_ns).into_iter().filter(|part| !chosen(part)) {
            let amount = part.amount.min(rest);
            rest -= amount;
            parts.add(&part.what, amount);
        }
        parts.add(own, rest);
    };
    let first = lane.rounds.partition_point(|round| round.end_ns() <= from_ns);
    for round in &lane.rounds[first..] {
        if at >= to_ns || round.at_ns >= to_ns {
            break;
        }
        split(&mut parts, at, round.at_ns.clamp(at, to_ns), UNRECORDED, true);
        at = at.max(round.at_ns.min(to_ns));
        let mut begin = round.at_ns;
        for (stage, took) in pieces(round) {
            let end = begin.saturating_add(took);
            let (cut_from, cut_to) = (begin.max(at), end.min(to_ns));
            if cut_from < cut_to {
                let may_sleep = matches!(stage, Stage::Asleep | Stage::Rest);
                split(&mut parts, cut_from, cut_to, stage.name(), may_sleep);
                at = cut_to;
            }
            begin = end;
        }
    }
    split(&mut parts, at, to_ns, UNRECORDED, true);
    parts.list
}

/// Returns the stages of a record, with their lengths, ns.
fn pieces(round: &Round) -> impl Iterator<Item = (Stage, u64)> + '_ {
    let alone = match round.did {
        Did::Burst => None,
        Did::Polled => Some(Stage::EmptyPolls),
        Did::Slept => Some(Stage::Asleep),
        Did::Spun => Some(Stage::Spinning),
    };
    let parts = Round::STAGES.into_iter().zip(round.parts);
    parts.map(move |(stage, took)| (alone.unwrap_or(stage), u64::from(took)))
}

/// Parts by name, in the order of their first appearance.
#[derive(Default)]
struct Parts {
    list: Vec<Part>,
}

impl Parts {
    fn add(&mut self, what: &str, amount: u64) {
        if amount == 0 {
            return;
        }
        match self.list.iter_mut().find(|part| part.what == what) {
            Some(part) => part.amount += amount,
            None => self.list.push(Part {
                what: what.to_owned(),
                amount,
            }),
        }
    }
}

/// Returns the largest parts as a phrase: `3.01 ms rustc (99) had core 1, 40 µs transmit`.
fn phrase(parts: &[Part], total: u64) -> String {
    let mut named: Vec<&Part> = parts.iter().collect();
    named.sort_by_key(|part| std::cmp::Reverse(part.amount));
    let worth = named
        .iter()
        .take_while(|part| part.amount as f64 >= WORTH_NAMING * total as f64)
        .count();
    let named: Vec<String> = named
        .iter()
        .take(worth.clamp(1, 3))
        .map(|part| format!("{} {}", time(part.amount as f64), part.what))
        .collect();
    named.join(", ")
}

/// Returns a point in time as text, counted from the start of the run.
fn at(at_ns: u64, start_ns: u64) -> String {
    let ns = at_ns.saturating_sub(start_ns);
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

/// Returns why a burst took long. `typical_ns`: length of the lane's median burst.
pub fn slow(lane: &LaneTrace, round: &Round, typical_ns: u64, start_ns: u64, explain: &Explain<'_>) -> Cause {
    let took_ns = round.took_ns();
    let alone = LaneTrace {
        rounds: vec![*round],
        ..lane.clone_head()
    };
    let parts = spent(&alone, round.at_ns, round.end_ns(), explain);
    let packets = u64::from(round.rx) + u64::from(round.tx);
    let sentence = format!(
        "A burst of {} packets on lane {} at {} took {} (half of them take no more than {}): {}.",
        packets,
        lane.lane,
        at(round.at_ns, start_ns),
        time(took_ns as f64),
        time(typical_ns as f64),
        phrase(&parts, took_ns)
    );
    Cause {
        subject: Subject::Slow,
        at_ns: round.at_ns,
        took_ns,
        lane: Some(lane.lane),
        packets,
        sentence,
        parts,
    }
}

/// Returns why a packet was late: each part of its way, and what the lanes did then. `sender` is the lane that sent the
/// packet, if it is of this program; `typical_ns` is the delay of the median packet.
pub fn late(
    packet: &LatePacket,
    sender: Option<u32>,
    lanes: &[LaneTrace],
    (typical_ns, start_ns): (u64, u64),
    (explain, held): (&Explain<'_>, &Held<'_>),
) -> Cause {
    let lane = |number: u32| lanes.iter().find(|lane| lane.lane == number);
    let due_ns = packet.due_ns();
    let took_ns = packet.classified_ns.saturating_sub(due_ns);
    // A clock's correction must not make a part negative: each begins where the one before ended.
    let mut begin = due_ns;
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
    // Time on the path in which the kernel could not handle the packet, since others had the core of its lane.
    let core = [
        ("the sender's core", sender),
        ("the receiver's core", Some(packet.lane)),
    ];
    let behind = core.into_iter().find_map(|(whose, number)| {
        let (gap, who) = held(lane(number?)?, path.0, wait_from)?;
        let most = gap.to_ns.saturating_sub(gap.from_ns) * 2 >= wait_from.saturating_sub(path.0);
        most.then(|| (gap, format!("path, waiting for {whose}: {who}")))
    });
    match behind {
        Some((gap, what)) => {
            of_lane("path", None, (path.0, gap.from_ns));
            of_lane(&what, None, (gap.from_ns, gap.to_ns));
            of_lane("path", None, (gap.to_ns, wait_from));
        }
        None => of_lane("path", None, (path.0, wait_from)),
    }
    of_lane("in the receive queue", Some(packet.lane), (wait_from, path.1));
    of_lane("in the receive queue", Some(packet.lane), queue);
    let parts = parts.list;
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

/// Returns the cause that a verdict cites: that of lost packets or of missed departures, whichever are more; else that
/// of a slow burst; else that of a late packet.
pub fn first(causes: &[Cause]) -> Option<&Cause> {
    let of = |subject| causes.iter().find(|cause| cause.subject == subject);
    let gone = [of(Subject::Missed), of(Subject::Loss)].into_iter().flatten();
    gone.max_by_key(|cause| cause.packets)
        .or_else(|| of(Subject::Slow))
        .or_else(|| of(Subject::Late))
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
const AFTER_NS: u64 = 60_000_000;

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

/// Returns what a reason of the kernel means to the user; empty for reasons whose names say enough. If the kernel gives
/// no reason, the place in the kernel decides.
pub fn meaning(reason: &str, place: Option<&str>, answered: bool) -> &'static str {
    match reason {
        "NOT_SPECIFIED" => meaning_of_place(place.unwrap_or_default()),
        "NO_SOCKET" if answered => " (nobody listens on that port any more)",
        "SOCKET_RCVBUFF" => " (a socket's receive buffer was full)",
        "NO_SOCKET" => " (nobody listens on that port)",
        "PROTO_MEM" => " (the kernel's memory for UDP was used up)",
        "UDP_CSUM" => " (wrong UDP checksum)",
        "IP_CSUM" => " (wrong IP checksum)",
        "NO_TX_TARGET" => " (a bridge had no port to send it to)",
        "FULL_RING" => " (a device's ring was full)",
        "CPU_BACKLOG" => " (the backlog of a core was full: net.core.netdev_max_backlog)",
        "NEIGH_QUEUEFULL" | "NEIGH_FAILED" => " (no MAC address for the next hop)",
        "QDISC_DROP" | "QDISC_OVERLIMIT" | "QDISC_CONGESTED" => " (a queueing discipline was full)",
        "QUEUE_PURGE" | "SOCKET_CLOSE" => CLOSED,
        "BRIDGE_INGRESS_STP_STATE" => " (a port of a bridge that does not forward)",
        "XDP" => " (an XDP program)",
        "NETFILTER_DROP" => " (a firewall rule)",
        "TC_INGRESS" | "TC_EGRESS" => " (a filter of tc)",
        "DEV_READY" => " (the device was down)",
        "IP_RPFILTER" => " (the reverse path filter)",
        "OTHERHOST" => " (another host's MAC address)",
        "PACKET_SOCK_ERROR" => " (a packet socket's ring was full)",
        "TAP_TXFILTER" | "TAP_FILTER" => " (a filter of the tap)",
        _ => "",
    }
}

const CLOSED: &str = " (left in the queue of a socket that was closed)";

/// Returns the part of the kernel that a function belongs to which dropped a packet without a reason.
fn meaning_of_place(place: &str) -> &'static str {
    let begins = |words: &[&str]| words.iter().any(|word| place.starts_with(word));
    match place {
        _ if begins(&["br_", "__br_", "nf_hook_bridge"]) => " (a bridge)",
        _ if begins(&[
            "udp_destruct",
            "udp_v6_destruct",
            "inet_sock_destruct",
            "packet_release",
        ]) =>
        {
            CLOSED
        }
        _ if begins(&["veth_"]) => " (a veth pair: its other end was down or its queue full)",
        _ if begins(&["tun_", "tap_"]) => " (a tap: nobody reads it, or its queue was full)",
        _ if begins(&["netem_", "tbf_", "fq_", "qdisc_", "pfifo_", "codel_"]) => " (a queueing discipline)",
        _ => "",
    }
}

impl LaneTrace {
    /// Returns the lane without its records.
    fn clone_head(&self) -> Self {
        Self {
            lane: self.lane,
            name: self.name.clone(),
            tid: self.tid,
            cpu: self.cpu,
            rounds: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Drop;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn lane(rounds: Vec<Round>) -> LaneTrace {
        LaneTrace {
            lane: 0,
            name: "lane 0".to_owned(),
            tid: 77,
            cpu: Some(1),
            rounds,
        }
    }

    fn burst(at_ns: u64, parts: [u32; 7]) -> Round {
        Round {
            at_ns,
            parts,
            tx: 32,
            ..Round::default()
        }
    }

    fn nobody(_: &LaneTrace, _: u64, _: u64) -> Vec<Part> {
        Vec::new()
    }

    /// Another thread had the core from 10 to 13 ms.
    fn rustc(_: &LaneTrace, from: u64, to: u64) -> Vec<Part> {
        let (from, to) = (from.max(10 * MS), to.min(13 * MS));
        let part = Part {
            what: "rustc (99) had core 1".to_owned(),
            amount: to.saturating_sub(from),
        };
        if part.amount > 0 { vec![part] } else { vec![] }
    }

    #[test]
    fn time_without_a_record_is_anothers_as_far_as_it_is_known() {
        let parts = spent(&lane(Vec::new()), 9 * MS, 14 * MS, &rustc);
        let told: Vec<_> = parts.iter().map(|part| (part.what.as_str(), part.amount)).collect();
        assert_eq!(told, [("rustc (99) had core 1", 3 * MS), (UNRECORDED, 2 * MS)]);
    }

    #[test]
    fn a_verdict_cites_what_was_missed_where_that_is_more_than_was_lost() {
        let cause = |subject, packets| Cause {
            subject,
            at_ns: 0,
            took_ns: 0,
            lane: None,
            packets,
            sentence: String::new(),
            parts: Vec::new(),
        };
        let (lost, slow) = (cause(Subject::Loss, 5), cause(Subject::Slow, 99));
        for (missed, cited) in [(4, Subject::Loss), (5, Subject::Loss), (6, Subject::Missed)] {
            let causes = [lost.clone(), slow.clone(), cause(Subject::Missed, missed)];
            assert_eq!(first(&causes).map(|cause| cause.subject), Some(cited));
        }
        assert_eq!(first(&[slow]).map(|cause| cause.subject), Some(Subject::Slow));
    }

    fn total(parts: &[Part]) -> u64 {
        parts.iter().map(|part| part.amount).sum()
    }

    #[test]
    fn a_slow_burst_names_who_had_the_core_and_its_parts_add_up() {
        let round = burst(9_990_000, [1_000, 500, 0, 2_000, 3_040_000, 0, 100]);
        let cause = slow(&lane(vec![]), &round, 14_000, 0, &rustc);
        assert_eq!(total(&cause.parts), cause.took_ns);
        assert_eq!(
            cause.sentence,
            "A burst of 32 packets on lane 0 at 0.009990 s took 3.044 ms (half of them take no more than 14.00 µs): \
             3.000 ms rustc (99) had core 1."
        );
    }

    #[test]
    fn a_late_packet_is_told_by_the_part_of_its_way_that_took_longest() {
        let lanes = [lane(vec![
            burst(9_999_000, [0, 0, 0, 0, 3_001_000, 0, 0]),
            burst(13_000_500, [0, 0, 0, 500, 900, 0, 0]),
        ])];
        let packet = LatePacket {
            seq: 4711,
            scheduled_ns: Some(10 * MS),
            sent_ns: 13_001_000,
            arrived_ns: 13_040_000,
            classified_ns: 13_040_100,
            ..LatePacket::default()
        };
        let cause = late(&packet, Some(0), &lanes, (45_000, 0), (&rustc, &|_, _, _| None));
        assert_eq!(total(&cause.parts), cause.took_ns);
        assert!(
            cause
                .sentence
                .contains("3.000 ms before it was sent: rustc (99) had core 1"),
            "{}",
            cause.sentence
        );
    }

    #[test]
    fn loss_is_told_by_the_kernel_s_own_reasons_and_the_rest_by_the_path() {
        let drop = |at_ns, ours| KernelEvent {
            at_ns,
            cpu: 0,
            event: Event::Drop(Drop {
                reason: "SOCKET_RCVBUFF".to_owned(),
                ours,
                ..Drop::default()
            }),
        };
        let kernel = [drop(5, true), drop(6, true), drop(7, false), drop(90 + AFTER_NS, true)];
        let lost = Loss {
            from_ns: 0,
            to_ns: 50,
            packets: 5,
            ..Loss::default()
        };
        let cause = loss(&lost, &[], &kernel, 0, &nobody);
        assert_eq!(
            cause.sentence,
            "5 packets were lost between 0.000000 s and 0.000000 s: 2 dropped by this host's kernel: SOCKET_RCVBUFF (a \
             socket's receive buffer was full); 3 on the path or beyond it, as far as this run's own counters tell."
        );
        // The last stretch has what left after it, too.
        let last = Loss {
            last: true,
            ..lost.clone()
        };
        let cause = loss(&last, &[], &kernel, 0, &nobody);
        assert!(
            cause.sentence.contains(": 3 dropped by this host's kernel"),
            "{}",
            cause.sentence
        );
        // The socket's own count has the same two, and another.
        let counted = Loss {
            host_drops: vec![("dropped by this host".to_owned(), 3)],
            ..lost
        };
        let cause = loss(&counted, &[], &kernel, 0, &nobody);
        let amounts: Vec<u64> = cause.parts.iter().map(|part| part.amount).collect();
        assert_eq!(amounts, [2, 1, 2], "{}", cause.sentence);
        let away = lane(vec![burst(9 * MS, [4_100_000, 0, 0, 0, 0, 0, 0])]);
        let lost = Loss {
            from_ns: 9 * MS,
            to_ns: 13 * MS,
            packets: 5,
            ring_lasts_ns: MS,
            ..Loss::default()
        };
        let cause = loss(&lost, &[away], &[], 0, &rustc);
        assert!(
            cause
                .sentence
                .contains("5 while lane 0 was away for 4.100 ms (rustc (99) had core 1)"),
            "{}",
            cause.sentence
        );
        // What the host dropped, by its own counters, had no room because the lane was away.
        let lost = Loss {
            host_drops: vec![("dropped by this host".to_owned(), 9)],
            away: vec![Gap {
                from_ns: 8 * MS,
                to_ns: 12 * MS,
                ..Gap::default()
            }],
            ..lost
        };
        let cause = loss(&lost, &[lane(Vec::new())], &[], 0, &nobody);
        assert!(
            cause.sentence.ends_with(
                "5 dropped by this host; while lane 0 was away for 4.000 ms (nobody saw why), longer than its ring \
                 lasts (1.000 ms)."
            ),
            "{}",
            cause.sentence
        );
        assert_eq!(total(&cause.parts), 5);
    }

    #[test]
    fn a_sleep_that_a_lane_chose_is_not_laid_to_the_kernel() {
        let asleep = |_: &LaneTrace, from: u64, to: u64| {
            vec![Part {
                what: Explained::ASLEEP.to_owned(),
                amount: to - from,
            }]
        };
        let slept = Round {
            did: Did::Slept,
            ..burst(1_000, [500, 0, 0, 0, 0, 0, 0])
        };
        // In the transmit call it is the kernel that sleeps.
        let lane = lane(vec![slept, burst(1_500, [0, 0, 0, 0, 200, 0, 0])]);
        let parts = spent(&lane, 1_000, 1_700, &asleep);
        let parts: Vec<_> = parts.iter().map(|part| (part.what.as_str(), part.amount)).collect();
        assert_eq!(parts, [(Stage::Asleep.name(), 500), (Explained::ASLEEP, 200)]);
    }

    #[test]
    fn what_is_known_of_this_host_is_not_put_on_the_path() {
        let lost = Loss {
            packets: 5,
            here: vec!["the queue dropped 4 packets".to_owned()],
            known: vec!["a router reported".to_owned()],
            ..Loss::default()
        };
        let cause = loss(&lost, &[], &[], 0, &|_, _, _| Vec::new());
        assert!(
            cause.sentence.ends_with(
                ": 5 not attributed to a place; what is known: the queue dropped 4 packets; a router reported."
            ),
            "{}",
            cause.sentence
        );
    }

    #[test]
    fn a_drop_without_a_reason_is_told_by_its_place_and_a_closed_port_by_what_came_before() {
        let lost = Loss {
            to_ns: 50,
            packets: 5,
            kernel_drops: Some(vec![("NOT_SPECIFIED".to_owned(), 3), ("NO_SOCKET".to_owned(), 2)]),
            answered: true,
            ..Loss::default()
        };
        let kernel = [KernelEvent {
            at_ns: 5,
            cpu: 0,
            event: Event::Drop(Drop {
                reason: "NOT_SPECIFIED".to_owned(),
                place: "br_forward".to_owned(),
                ours: true,
                ..Drop::default()
            }),
        }];
        let cause = loss(&lost, &[], &kernel, 0, &nobody);
        for part in [
            "3 dropped by this host's kernel: NOT_SPECIFIED in br_forward (a bridge)",
            "2 dropped by this host's kernel: NO_SOCKET (nobody listens on that port any more).",
        ] {
            assert!(cause.sentence.contains(part), "{}", cause.sentence);
        }
    }

    proptest! {
        #[test]
        fn whatever_a_lane_did_the_parts_of_a_stretch_add_up(
            gaps in proptest::collection::vec((0..3_000_u64, any::<[u16; 7]>()), 0..20),
            from in 0..40_000_u64,
            length in 0..60_000_u64,
        ) {
            let mut at = 0;
            let rounds = gaps.iter().map(|(gap, parts)| {
                let round = burst(at + gap, parts.map(u32::from));
                at = round.end_ns();
                round
            });
            let lane = lane(rounds.collect());
            let half = |_: &LaneTrace, from: u64, to: u64| vec![Part { what: "x".to_owned(), amount: (to - from) / 2 }];
            for explain in [&half as &Explain<'_>, &nobody] {
                prop_assert_eq!(total(&spent(&lane, from, from + length, explain)), length);
            }
        }

        #[test]
        fn the_parts_of_a_late_packet_add_up_whatever_its_times(times in any::<[u32; 4]>()) {
            let [a, b, d, e] = times.map(u64::from);
            let packet = LatePacket {
                scheduled_ns: Some(a.min(e)),
                sent_ns: b,
                arrived_ns: d,
                classified_ns: e,
                ..LatePacket::default()
            };
            let lanes = [lane(vec![burst(1_000_000_000, [500_000_000; 7])])];
            let cause = late(&packet, Some(0), &lanes, (1, 0), (&nobody, &|_, _, _| None));
            prop_assert_eq!(total(&cause.parts), cause.took_ns);
        }
    }
}
