//! Checks of a sender's loss: what may explain it, and where it may have been.

use crate::verdict::cause::kinds;
use crate::verdict::{Case, Finding};
use mpps_io::counter;
use mpps_stats::{Known, KnownKind, Remark, RemarkName, Stretch, Workload, count};
use mpps_trace::why::{meaning, perhaps, unseen};

/// Place where packets were lost, as far as the evidence shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The path lost them, by its own counters.
    Path,
    /// The kernel of this host dropped them, as a trace has seen.
    Kernel,
    /// Counters of this host account for some of them or all.
    HostCounters,
    /// Evidence on the surroundings explains the loss.
    Surroundings,
    /// No counter of this host shows them, and this host's drops are known.
    OnTheWay,
    /// The evidence does not show a place.
    NotKnown,
}

impl Place {
    /// Returns the name in the JSON.
    fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Kernel => "kernel",
            Self::HostCounters => "host_counters",
            Self::Surroundings => "surroundings",
            Self::OnTheWay => "on_the_way",
            Self::NotKnown => "not_known",
        }
    }
}

/// Returns the sentences of evidence.
fn texts<'k>(known: &[&'k Known]) -> Vec<&'k str> {
    known.iter().map(|known| known.sentence.as_str()).collect()
}

/// Returns how a path has lost the packets of one of its counters.
fn how(counter: &str) -> &str {
    match counter {
        counter::LOST => "at random",
        counter::DROPPED_BURST => "in a burst of losses",
        counter::LOST_OUTAGE => "in an outage",
        counter::DROPPED_QUEUE => "from a queue that was full",
        counter::CORRUPTED => "as it changed them",
        counter::NOT_REFLECTED => "as it could not send them back",
        other => other,
    }
}

/// Hint for a run that lost everything: the loss is its result.
const FAILS_IT: &str = " That all is lost does not make a run invalid: --expect 'loss<1%' makes it fail";

impl Case<'_> {
    /// Warns of a run that lost everything, and names what may explain that.
    pub(super) fn nothing_came_back(&self) -> Option<Finding> {
        let e = self.e;
        if self.workload != Workload::SendRecv || e.tx <= e.untagged || e.rx > 0 || e.late > 0 {
            return None;
        }
        // An outage of half of the run may be why; a shorter one is only mentioned.
        let long = |known: &Known| known.within(0, e.duration_ns) * 2 >= e.duration_ns;
        let (explains, beside) = self.explanations(long);
        let (what, question) = match e.across {
            true => (
                "nothing arrived at the other port",
                "does what lies between pass these frames on, by their MAC addresses (--dest-mac, or dst= in \
                 eth of a packet) or as a router (--gateway)?",
            ),
            false => (
                "nothing came back",
                "is a reflector running at the destination, and does it take these ports?",
            ),
        };
        let (place, text) = match (explains.is_empty(), beside.is_empty()) {
            (false, _) => {
                let all = [texts(&explains), texts(&beside)].concat();
                (Place::Surroundings, format!("{what}: {}", all.join("; ")))
            }
            (true, false) => {
                let beside = texts(&beside).join("; ");
                (
                    Place::NotKnown,
                    format!("{what}: {beside}. If that is not why: {question}"),
                )
            }
            (true, true) => (Place::NotKnown, format!("{what}: {question}")),
        };
        let stop = if text.ends_with('?') { "" } else { "." };
        let remark = Remark::new(RemarkName::NothingCameBack, text + stop + FAILS_IT)
            .with("packets", e.tx)
            .with("where", place.as_str());
        Some(Finding::Warning(remark.with("known", kinds(explains))))
    }

    /// Returns evidence on lost packets: evidence that explains them, and evidence that may explain some. Evidence that
    /// may be about other packets explains only if its number is half of the lost ones or more, and an outage only if
    /// it is `long` enough.
    fn explanations(&self, long: impl Fn(&Known) -> bool) -> (Vec<&Known>, Vec<&Known>) {
        let lost = self.e.lost.max(0).unsigned_abs();
        let explains = |known: &Known| match known.kind {
            kind if kind.is_outage() => long(known),
            _ => !known.of_others || known.packets.is_some_and(|n| n * 2 >= lost),
        };
        let (mut why, mut beside) = (Vec::new(), Vec::new());
        for known in self.known.iter().filter(|known| known.may_lose()) {
            let list = if explains(known) { &mut why } else { &mut beside };
            list.push(known);
        }
        (why, beside)
    }

    /// Returns whether an outage reaches into a stretch of loss that is kept.
    pub(super) fn at_some_loss(&self, known: &Known) -> bool {
        let mut kept = self.e.losses.largest.iter();
        kept.any(|of| of.packets > 0 && known.within(of.from_ns, of.to_ns) > 0)
    }

    /// Returns whether half of the loss is in stretches that an outage reaches into.
    fn at_the_loss(&self, known: &Known) -> bool {
        let at = |of: &&Stretch| known.within(of.from_ns, of.to_ns) > 0;
        let packets: u64 = self.e.losses.largest.iter().filter(at).map(|of| of.packets).sum();
        packets > 0 && packets * 2 >= self.e.losses.packets()
    }

    /// Returns where a sender's loss may have been, as far as this host's counters show: packets that it dropped on the
    /// way in, and perhaps as many as it refused on the way out.
    pub(super) fn where_lost(&self) -> Option<Finding> {
        let e = self.e;
        if self.workload != Workload::SendRecv || e.lost <= 0 || e.rx == 0 {
            return None;
        }
        let lost = e.lost.unsigned_abs();
        let remark = |place: Place, text| {
            Remark::new(RemarkName::WhereLost, text)
                .with("packets", lost)
                .with("where", place.as_str())
        };
        if let Some((n, text)) = self.lost_by_the_path(lost) {
            return Some(Finding::Warning(remark(Place::Path, text).with("counted_packets", n)));
        }
        let here = self.sum(|lane| lane.rx_dropped);
        let refused = self.counter(counter::DROPPED_SENT) + self.sum(|lane| lane.tx_failed);
        let (_, known) = self.known_of(KnownKind::dropped_here);
        let imitated = self.known_of(|kind| kind == KnownKind::PathImitated);
        // A queueing discipline that imitates a path drops for the same reason as one that is full.
        if let Some((n, text)) = self.dropped_by_the_kernel(lost).filter(|_| imitated.1 == 0) {
            return Some(Finding::Warning(remark(Place::Kernel, text).with("counted_packets", n)));
        }
        let many = count(lost);
        let (explains, beside) = self.explanations(|known| self.at_the_loss(known));
        let perhaps = e.kernel_perhaps.iter().map(|(reason, n)| perhaps(reason, *n));
        let unseen = e.kernel_unseen.iter().map(|part| unseen(part));
        let perhaps = perhaps.chain(unseen).collect::<Vec<_>>().join(", or ");
        let outage = |known: &Known| known.kind.is_outage() && self.may_explain(known);
        let may_be_here = !perhaps.is_empty() || self.known.iter().any(outage);
        let counted = here + refused + known;
        let (place, text) = match counted {
            0 if imitated.1 > 0 => (
                Place::Surroundings,
                format!("of the {many} lost packets: {}", imitated.0.join("; ")),
            ),
            0 if !explains.is_empty() => (
                Place::Surroundings,
                format!("of the {many} lost packets: {}", texts(&explains).join("; ")),
            ),
            0 if may_be_here => (
                Place::NotKnown,
                format!("where the {many} lost packets were lost is not known"),
            ),
            0 if e.host_drops_known => (
                Place::OnTheWay,
                format!(
                    "none of the {many} lost packets shows on this host's counters: they were lost on the way, or at \
                     the other end (see the counters there)"
                ),
            ),
            0 => (
                Place::NotKnown,
                format!(
                    "where the {many} lost packets were lost is not known: this path does not tell what this host drops"
                ),
            ),
            all if all >= lost => (
                Place::HostCounters,
                format!(
                    "this host's counters account for all of the {many} lost packets, if what it dropped was of the \
                     test"
                ),
            ),
            some => (
                Place::HostCounters,
                format!(
                    "this host's counters account for {} of the {many} lost packets at the most{}",
                    count(some),
                    self.uncounted(perhaps.is_empty())
                ),
            ),
        };
        // Counters with a number are already in that sum.
        let beside = match counted + imitated.1 {
            0 if explains.is_empty() && !beside.is_empty() => {
                format!(". What may explain some: {}", texts(&beside).join("; "))
            }
            _ => String::new(),
        };
        let perhaps = match perhaps.as_str() {
            "" => String::new(),
            perhaps => format!(". Some may be {perhaps}"),
        };
        let remark = remark(place, text + &beside + &perhaps);
        Some(Finding::Warning(match place {
            Place::HostCounters => remark.with("counted_packets", counted.min(lost)),
            Place::Surroundings if imitated.1 > 0 => {
                let known = self.known.iter().filter(|of| of.kind == KnownKind::PathImitated);
                remark
                    .with("counted_packets", imitated.1.min(lost))
                    .with("known", kinds(known))
            }
            Place::Surroundings => remark.with("known", kinds(explains)),
            _ => remark,
        }))
    }

    /// Returns whether a piece of evidence may be about lost packets: an outage, only if packets were lost then or its
    /// time is not known.
    fn may_explain(&self, known: &Known) -> bool {
        let then = known.when_ns.is_empty() || self.at_some_loss(known);
        known.may_lose() && (!known.kind.is_outage() || then)
    }

    /// Returns a clause on lost packets that no counter of this host has. They were lost on the way only if no other
    /// evidence may explain them, and `on_the_way`: no drop of the kernel may be about them.
    fn uncounted(&self, on_the_way: bool) -> String {
        let counted = |known: &Known| known.kind.dropped_here() || known.kind == KnownKind::PathImitated;
        let known = self.known.iter().filter(|of| self.may_explain(of) && !counted(of));
        let known: Vec<_> = known.map(|known| known.sentence.as_str()).collect();
        match known.is_empty() {
            false => format!("; what is known of the others: {}", known.join("; ")),
            true if on_the_way && self.e.host_drops_known => {
                ": the others were lost on the way, or at the other end".to_owned()
            }
            true => "; where the others were lost is not known".to_owned(),
        }
    }

    /// Returns the number of lost packets that a trace has seen the kernel of this host drop, in any of its network
    /// namespaces, and a sentence on them.
    fn dropped_by_the_kernel(&self, lost: u64) -> Option<(u64, String)> {
        let drops = self.e.kernel_drops.as_deref()?;
        let sum: u64 = drops.iter().map(|(_, n)| n).sum();
        let reasons = drops.iter().map(|(reason, n)| {
            let meaning = meaning(reason, None, self.e.rx > 0);
            format!("{} {reason}{meaning}", count(*n))
        });
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        let which = match sum {
            0 => return None,
            sum if sum >= lost => format!("all of the {} lost packets", count(lost)),
            sum => format!("{} of the {} lost packets", count(sum), count(lost)),
        };
        // Sockets of this run have counters of their own.
        let other = drops
            .iter()
            .all(|(reason, _)| reason.starts_with("PACKET_SOCK") || reason == "SOCKET_RCVBUFF")
            && self.sum(|lane| lane.rx_dropped) == 0;
        let other = if other {
            "; by another socket of this host, none of this run's"
        } else {
            ""
        };
        let text = format!("this host's kernel dropped {which}: {reasons}{other}");
        Some((sum.min(lost), text))
    }

    /// Returns the number of lost packets that the path reports as lost, and a sentence on them, by the meaning of its
    /// counters.
    fn lost_by_the_path(&self, lost: u64) -> Option<(u64, String)> {
        let told = counter::LOSSES.map(|name| (how(name), self.counter(name)));
        let each: Vec<_> = told.iter().filter(|(_, n)| *n > 0).collect();
        let sum: u64 = each.iter().map(|(_, n)| n).sum();
        let which = match lost {
            1 => "the lost packet was".to_owned(),
            lost if sum >= lost => format!("all {} lost packets were", count(lost)),
            lost => format!("{} of the {} lost packets were", count(sum), count(lost)),
        };
        let text = match each.as_slice() {
            [] => return None,
            [(how, _)] => format!("{which} lost by the path itself, {how}"),
            each => {
                let each: Vec<_> = each.iter().map(|(how, n)| format!("{} {how}", count(*n))).collect();
                format!("{which} lost by the path itself: {}", each.join(", "))
            }
        };
        Some((sum.min(lost), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_stands_in_the_documentation() {
        let page = include_str!("../../../../../docs/use/verdict.md");
        for place in [
            Place::Path,
            Place::Kernel,
            Place::HostCounters,
            Place::Surroundings,
            Place::OnTheWay,
            Place::NotKnown,
        ] {
            let row = format!("| `{}` |", place.as_str());
            assert!(page.contains(&row), "docs/use/verdict.md lacks {}", place.as_str());
        }
    }
}
