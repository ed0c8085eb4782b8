//! Causes of slow bursts, late packets and lost packets: sentences whose parts add up.

mod late;
mod loss;
mod meaning;

pub use late::late;
pub use loss::{Loss, dropped_by, loss, perhaps, unseen};
pub use meaning::meaning;

use crate::{Cause, Did, Explained, Gap, LaneTrace, Part, Round, Stage, Subject, time};

/// Most causes of a subject that are kept.
pub const KEPT: usize = 100;
/// A part below this share of the whole is not named in a sentence.
const WORTH_NAMING: f64 = 0.1;
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

/// Returns the cause that a verdict cites: that of lost packets or of missed departures, whichever are more; else that
/// of a slow burst; else that of a late packet.
pub fn first(causes: &[Cause]) -> Option<&Cause> {
    let of = |subject| causes.iter().find(|cause| cause.subject == subject);
    let gone = [of(Subject::Missed), of(Subject::Loss)].into_iter().flatten();
    gone.max_by_key(|cause| cause.packets)
        .or_else(|| of(Subject::Slow))
        .or_else(|| of(Subject::Late))
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
mod tests;
