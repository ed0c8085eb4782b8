//! Causes of lost packets.

use super::Case;
use crate::record::rows::Rows;
use mpps_io::counter;
use mpps_stats::{Known, KnownKind, Stretch, Summary};
use mpps_trace::why::{self, Loss};
use mpps_trace::{Cause, KernelDrops, LostTimes};

/// Fill at which a receive ring counts as full: it had no room, or soon would have had none.
const FULL: f64 = 0.95;

/// Explains lost packets, stretch by stretch.
pub(super) fn of_lost(case: &Case<'_>, explain: &why::Explain<'_>) -> Vec<Cause> {
    let Case { summary, start_ns, .. } = *case;
    let drops = case.watched.drops.as_ref();
    let lost = summary.loss_stretches.lost_times(start_ns, summary.duration_ns);
    let copies = drops.map(|drops| drops.copies(&lost)).unwrap_or_default();
    let outage = outage_of(summary);
    let (mut unsent, mut by_known) = (OfRun::unsent(summary), OfRun::by_known(summary));
    let cause = |stretch: &Stretch| {
        let (from_ns, to_ns) = (start_ns + stretch.from_ns, start_ns + stretch.to_ns);
        let dropped_in = LostTimes::stretch(from_ns, to_ns, start_ns + summary.duration_ns);
        let host = HostDrops::of(summary, case.rows, stretch);
        let not_sent = unsent.take(summary, stretch);
        let counted = by_known.take(summary, stretch);
        let [here, known] = hints(summary, stretch, &counted);
        let loss = Loss {
            from_ns,
            to_ns,
            packets: stretch.packets,
            host_drops: not_sent.into_iter().chain(host.named()).chain(counted).collect(),
            here,
            known,
            kernel_drops: drops.map(|drops| drops.losses_in(dropped_in, &copies)),
            perhaps: drops.map(|drops| drops.perhaps_in(dropped_in)).unwrap_or_default(),
            unseen: unseen(drops),
            outage: outage.filter(|outage| of_stretch((from_ns, to_ns), *outage)),
            answered: case.rows.answered_before(stretch.from_ns),
            // A lane's absence explains loss only if its ring was found full, or if packets were dropped for lack of
            // room.
            ring_lasts_ns: match host.had_no_room() {
                true => ring_lasts_ns(summary),
                false => 0,
            },
            away: case.away.to_vec(),
            last: is_last(summary, stretch),
        };
        why::loss(&loss, case.lanes, &case.watched.events, start_ns, explain)
    };
    let stretches = summary.loss_stretches.largest.iter();
    stretches.filter(|stretch| stretch.packets > 0).map(cause).collect()
}

/// Drops that this host counted itself in a stretch of loss.
struct HostDrops {
    packets: u64,
    /// Highest fill of a receive ring, and the time that it is known for.
    fill: Option<f64>,
    when: &'static str,
}

impl HostDrops {
    fn of(summary: &Summary, rows: &Rows, stretch: &Stretch) -> Self {
        let (from_ns, to_ns) = (stretch.from_ns, stretch.to_ns);
        let dropped = rows.host_dropped(from_ns, to_ns);
        let packets = if dropped == 0 && one_stretch(summary) {
            summary.host_dropped.unwrap_or(0)
        } else {
            dropped
        };
        // Without rows, the fill is known only for the whole run.
        let (fill, when) = match rows.highest_fill(from_ns, to_ns) {
            Some(fill) => (Some(fill), ""),
            None => (highest_fill(summary), "in the run "),
        };
        Self { packets, fill, when }
    }

    /// Returns their name and number, if there are any.
    fn named(&self) -> Option<(String, u64)> {
        let full = |fill: f64| {
            let when = self.when;
            format!(" ({when}a receive ring was up to {:.0} % full)", fill * 100.0)
        };
        (self.packets > 0).then(|| {
            let full = self.fill.map(full).unwrap_or_default();
            (format!("dropped by this host, by its own counters{full}"), self.packets)
        })
    }

    /// Returns whether packets were dropped, or a ring was found full.
    fn had_no_room(&self) -> bool {
        self.packets > 0 || self.fill.is_some_and(|fill| fill >= FULL)
    }
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
    let is_new = |known: &&Known| !counted.iter().any(|(what, _)| what.ends_with(&known.sentence));
    let known = summary.known.iter().filter(|known| known.may_lose());
    let (here, path): (Vec<&Known>, Vec<&Known>) = known
        .filter(then)
        .filter(is_new)
        .partition(|known| known.kind.dropped_here() || known.kind.is_outage());
    [here, path].map(|all| all.into_iter().map(|known| known.sentence.clone()).collect())
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

#[cfg(test)]
mod tests {
    use super::super::tests::{losing, stretch};
    use super::*;

    fn known(kind: KnownKind, sentence: &str, packets: Option<u64>, when_ns: &[(u64, u64)]) -> Known {
        Known {
            kind,
            sentence: sentence.to_owned(),
            packets,
            of_others: packets.is_some(),
            when_ns: when_ns.to_vec(),
        }
    }

    #[test]
    fn drops_of_the_whole_run_are_named_once_over_its_stretches_of_loss() {
        let queues = vec![
            known(KnownKind::QueueDropped, "the queue", Some(100), &[]),
            known(KnownKind::PathImitated, "netem", Some(900), &[]),
        ];
        let summary = losing(queues, vec![stretch(0, 500), stretch(100, 500)]);
        let mut known = OfRun::by_known(&summary);
        let counts: Vec<Vec<u64>> = summary
            .loss_stretches
            .largest
            .iter()
            .map(|of| known.take(&summary, of).into_iter().map(|(_, n)| n).collect())
            .collect();
        assert_eq!(counts, [vec![100, 400], vec![500]]);
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
}
