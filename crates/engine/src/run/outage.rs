//! When packets were lost, to the packet: from the numbers that are missing at the receiving lanes, and from when the
//! sending lanes sent the packets with these numbers.

use crate::outcome::departures::Departures;
use crate::outcome::missing::{Came, Missing};
use crate::run::summary::Measured;
use mpps_stats::{Gap, LossTimes, Outage};

/// Number of the longest times without a packet, common to all lanes, that are looked at.
const KEPT: usize = 16;

/// Results of the lanes of one track.
struct Track<'m> {
    senders: Vec<&'m Departures>,
    receivers: Vec<&'m Missing>,
}

/// A packet as the senders know it: its departure, ns, its lane, and its number among the packets of the lane.
type Left = (u64, usize, u64);

impl<'m> Track<'m> {
    /// Returns the results of one track. `None`: lanes do not record them, or they are of several tracks.
    fn of(m: &'m Measured<'_>) -> Option<Self> {
        let senders: Vec<_> = m.outcomes_of(false).filter_map(|o| o.departures.as_ref()).collect();
        let receivers: Vec<_> = m.outcomes_of(true).filter_map(|o| o.missing.as_ref()).collect();
        let whole = senders.len() as u64 == m.work.tx_lanes && !senders.is_empty() && !receivers.is_empty();
        whole.then_some(Self { senders, receivers })
    }

    /// Returns the lane of a flow, and the flow's place there.
    fn place(&self, flow: usize) -> (usize, u64) {
        let lanes = self.senders.len();
        (flow % lanes, (flow / lanes) as u64)
    }

    /// Returns the packet with this number of a flow.
    fn left(&self, flow: usize, seq: u64) -> Option<Left> {
        let (lane, place) = self.place(flow);
        let number = self.senders[lane].number(place, seq);
        Some((self.senders[lane].time_of(number)?, lane, number))
    }

    /// Returns by flow: the first number that no lane has received at the end, and how many were sent.
    fn tails(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        let flows = self
            .receivers
            .iter()
            .map(|missing| missing.next.len())
            .max()
            .unwrap_or(0);
        (0..flows).filter_map(|flow| {
            let next = self
                .receivers
                .iter()
                .filter_map(|missing| missing.next.get(flow))
                .max()?;
            let (lane, place) = self.place(flow);
            let sent = self.senders[lane].sent_of(place);
            (sent > *next).then_some((flow, *next, sent))
        })
    }
}

/// Returns when packets were lost. `None`: none was lost, or the numbers do not show it: if flows came to more than one
/// receiving lane, numbers are missing at each.
pub(crate) fn loss_times(m: &Measured<'_>) -> Option<LossTimes> {
    let lost = u64::try_from(m.totals.lost).ok().filter(|lost| *lost > 0)?;
    let track = Track::of(m)?;
    let at_the_end: u64 = track.tails().map(|(_, next, sent)| sent - next).sum();
    let within: u64 = track.receivers.iter().map(|missing| missing.open).sum();
    if within + at_the_end != lost {
        return None;
    }
    let holes = || track.receivers.iter().flat_map(|missing| missing.holes());
    let (mut first, mut last): (Option<Left>, Option<Left>) = (None, None);
    let ranges = holes().map(|hole| (hole.flow as usize, hole.from, hole.to));
    for (flow, from, to) in ranges.chain(track.tails()) {
        let (low, high) = (track.left(flow, from)?, track.left(flow, to - 1)?);
        first = Some(first.map_or(low, |first| first.min(low)));
        last = Some(last.map_or(high, |last| last.max(high)));
    }
    let (first, last) = (first?, last?);
    // A packet of the same lane is later if its number is higher: packets of one burst have one stamp.
    let later = |came: &Came| {
        let (lane, place) = track.place(came.flow as usize);
        match lane == last.1 {
            true => track.senders[lane].number(place, came.seq) > last.2,
            false => came.sent_ns > last.0,
        }
    };
    let filled = holes().map(|hole| Came {
        flow: hole.flow,
        seq: hole.to,
        sent_ns: hole.sent_ns,
        at_ns: hole.at_ns,
    });
    let silent = track.receivers.iter().flat_map(|missing| missing.silent.bounds());
    let after = filled.chain(silent).filter(later).map(|came| came.at_ns).min();
    let since = |ns: u64| ns.saturating_sub(m.started.monotonic_ns);
    Some(LossTimes {
        first_ns: since(first.0),
        last_ns: since(last.0),
        received_after_ns: after.map(since),
    })
}

/// Returns the longest time in which no packet came to any lane.
pub(crate) fn longest(m: &Measured<'_>) -> Option<Outage> {
    let receivers: Vec<_> = m.outcomes_of(true).filter_map(|o| o.missing.as_ref()).collect();
    let heard = receivers
        .iter()
        .map(|missing| &missing.silent)
        .filter(|silent| silent.heard());
    let mut common: Option<Vec<Gap>> = None;
    // All times longer than this are among those that the lanes have kept.
    let mut least_ns = 0;
    for silent in heard {
        let (times, least) = silent.times();
        least_ns = least_ns.max(least);
        common = Some(match common {
            None => times,
            Some(others) => in_common(&others, &times),
        });
    }
    let gap = *common?.first()?;
    if gap.ns() < least_ns || m.work.tx_lanes == 0 || Track::of(m).is_none() && m.work.across {
        return None;
    }
    let since = |ns: u64| ns.saturating_sub(m.started.monotonic_ns);
    Some(Outage {
        from_ns: since(gap.from_ns),
        to_ns: since(gap.to_ns),
        lost: Track::of(m)
            .and_then(|track| lost_in(&track, gap))
            .map(|lost| lost.min(m.totals.lost.max(0) as u64)),
    })
}

/// Returns the longest times that are in both lists, longest first.
fn in_common(some: &[Gap], others: &[Gap]) -> Vec<Gap> {
    let both = |one: &Gap| {
        let one = *one;
        others.iter().map(move |other| Gap {
            from_ns: one.from_ns.max(other.from_ns),
            to_ns: one.to_ns.min(other.to_ns),
        })
    };
    let mut common: Vec<_> = some.iter().flat_map(both).filter(|gap| gap.ns() > 0).collect();
    common.sort_by_key(|gap| std::cmp::Reverse(gap.ns()));
    common.truncate(KEPT);
    common
}

/// Returns how many packets left between the last one that came before a time without packets, and the first one after.
fn lost_in(track: &Track<'_>, gap: Gap) -> Option<u64> {
    let longest = || track.receivers.iter().filter_map(|missing| missing.silent.longest);
    let (before, _) = longest().find(|(from, _)| from.at_ns == gap.from_ns)?;
    let (_, after) = longest().find(|(_, to)| to.at_ns == gap.to_ns)?;
    let mut between = 0;
    for (lane, sender) in track.senders.iter().enumerate() {
        // A packet's number shows how many packets of its own lane left before it.
        let sent_before = |came: &Came, itself: u64| match track.place(came.flow as usize) {
            (own, place) if own == lane => Some(sender.number(place, came.seq) + itself),
            _ => sender.sent_before(came.sent_ns),
        };
        between += sent_before(&after, 0)?.saturating_sub(sent_before(&before, 1)?);
    }
    Some(between)
}
