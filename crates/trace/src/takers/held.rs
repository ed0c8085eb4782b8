//! Detects whether packets waited for a lane's core. On devices that hand a packet over within the sender's own call
//! (veth, loopback, tap), the kernel handles it in a soft interrupt of that core. A thread of higher priority can hold
//! that up.

use super::stretches::IDLE;
use super::{Explained, Gap};
use crate::TakerKind;

/// Longest time, ns, between the end of a visit to the core and the start of the work that had waited for the core.
const SOON_NS: u64 = 1_000_000;
/// Name prefix of the kernel's threads that handle soft interrupts: they wait for the core, and are no culprits.
const SOFT: &str = "ksoftirqd/";

impl Explained {
    /// Returns the last stretch of a gap in which others had the lane's core all the time, and the culprit that had it
    /// longest. `None` if the lane or the idle task had it until shortly before the end of the gap, or if it is not
    /// known.
    pub fn held_until(&self, gap: &Gap) -> Option<(Gap, String)> {
        let cpu = self.place(gap, gap.from_ns)?;
        let pieces = self.pieces.get(&cpu).map_or(&[][..], Vec::as_slice);
        let after = pieces.partition_point(|piece| piece.from < gap.to_ns);
        let mut held: Option<(u64, u64)> = None;
        let mut by_who: Vec<(u32, u64)> = Vec::new();
        for piece in pieces[..after].iter().rev() {
            if piece.to <= gap.from_ns || held.map_or(gap.to_ns, |(from, _)| from) > piece.to.saturating_add(SOON_NS) {
                break;
            }
            let culprit = self.culprits.get(piece.who as usize)?;
            let waits = culprit.tid == gap.tid || culprit.name.starts_with(SOFT) || culprit.name == IDLE;
            match (culprit.kind, held) {
                (TakerKind::Thread | TakerKind::Own, Some(_)) if waits => break,
                (TakerKind::Thread | TakerKind::Own, None) if waits => {
                    if gap.to_ns.saturating_sub(piece.from) > SOON_NS {
                        return None;
                    }
                    continue;
                }
                (TakerKind::Thread | TakerKind::Own, _) => {}
                // Interrupts within a visit belong to the visit.
                _ => continue,
            }
            let (from, to) = (piece.from.max(gap.from_ns), piece.to.min(gap.to_ns));
            held = Some((from, held.map_or(to, |(_, last)| last)));
            match by_who.iter_mut().find(|(who, _)| *who == piece.who) {
                Some((_, ns)) => *ns += to - from,
                None => by_who.push((piece.who, to - from)),
            }
        }
        let (from_ns, to_ns) = held?;
        let (who, _) = by_who.into_iter().max_by_key(|(_, ns)| *ns)?;
        Some((Gap { from_ns, to_ns, ..*gap }, self.part(who, 0).what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, KernelEvent};

    const MS: u64 = 1_000_000;

    fn switch(at_ms: u64, prev: (i32, &str), next: (i32, &str)) -> KernelEvent {
        KernelEvent {
            at_ns: at_ms * MS,
            cpu: 1,
            event: Event::Switch {
                prev_tid: prev.0,
                prev_comm: prev.1.to_owned(),
                prev_state: 0,
                prev_prio: 120,
                next_tid: next.0,
                next_comm: next.1.to_owned(),
                next_prio: 120,
            },
        }
    }

    fn gap(from_ms: u64, to_ns: u64) -> Gap {
        Gap {
            lane: 0,
            tid: 77,
            cpu: Some(1),
            from_ns: from_ms * MS,
            to_ns,
        }
    }

    #[test]
    fn a_visit_that_ends_just_before_a_packet_came_held_it_up() {
        let (lane, busy, soft) = ((77, "lane0"), (99, "busy"), (12, "ksoftirqd/1"));
        let events = [switch(10, lane, busy), switch(510, busy, soft), switch(511, soft, lane)];
        let explained = Explained::new(&events, &[77]);
        let (held, who) = explained.held_until(&gap(9, 510 * MS + 200_000)).expect("it was held");
        assert_eq!((held.from_ns, held.to_ns), (10 * MS, 510 * MS));
        assert_eq!(who, "busy (thread 99) had the core");
        // The lane has run for long since: what came later did not wait for the core.
        assert_eq!(explained.held_until(&gap(9, 600 * MS)), None);
        // Nothing is known of another core.
        assert_eq!(
            explained.held_until(&Gap {
                cpu: Some(0),
                ..gap(9, 510 * MS)
            }),
            None
        );
    }

    #[test]
    fn a_lane_that_ran_in_between_ends_the_stretch() {
        let (lane, busy, idle) = ((77, "lane0"), (99, "busy"), (0, "swapper/1"));
        let events = [
            switch(10, lane, busy),
            switch(200, busy, lane),
            switch(205, lane, busy),
            switch(209, busy, lane),
            switch(300, lane, idle),
            switch(400, idle, lane),
        ];
        let explained = Explained::new(&events, &[77]);
        let (held, _) = explained.held_until(&gap(9, 209 * MS + 1)).expect("it was held");
        assert_eq!((held.from_ns, held.to_ns), (205 * MS, 209 * MS));
        // A core that is idle holds nothing up.
        assert_eq!(explained.held_until(&gap(9, 400 * MS)), None);
    }
}
