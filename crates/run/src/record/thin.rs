//! Chooses the kernel events to keep if memory can't hold all of them: events that may explain a slow burst or a late
//! packet.
//!
//! A busy host has tens of thousands of switches per second, and a run may take days. A late packet or a slow burst is
//! explained by events near a time when a lane waited long for its core, or was stopped. So when the memory is full,
//! events that are near no such wait are dropped. If that is not enough, events near short waits are dropped too, with
//! a limit that grows each time.

use mpps_trace::{Event, KernelEvent};
use std::collections::HashMap;

/// Shortest wait whose events are kept at first, ns. The limit grows by a factor of four as long as too many events
/// remain.
const FIRST_NS: u64 = 100_000;
/// Events this long before and after a wait are kept with the wait, ns.
const AROUND_NS: u64 = 200_000;
/// State of a thread that was stopped (4) or is traced (8): `include/linux/sched.h`.
const STOPPED: i64 = 4 | 8;

/// Reduces the events to half of `most` or fewer, sorted by time, and returns the number of dropped events. `lanes` are
/// the lanes' thread IDs.
pub(super) fn thin(events: &mut Vec<KernelEvent>, lanes: &[i32], most: usize) -> u64 {
    let before = events.len();
    events.sort_by_key(|event| event.at_ns);
    let waits = waits(events, lanes);
    let mut least_ns = FIRST_NS;
    while events.len() > most / 2 {
        let long: Vec<(u64, u64)> = merged(waits.iter().filter(|(from, to)| to - from >= least_ns));
        if long.is_empty() && least_ns > FIRST_NS {
            // Only drops and signals are left, a few from each look: keep the newest.
            events.drain(..events.len() - most / 2);
            break;
        }
        let mut at = 0;
        events.retain(|event| {
            while long.get(at).is_some_and(|&(_, to)| to < event.at_ns) {
                at += 1;
            }
            let near = long.get(at).is_some_and(|&(from, _)| from <= event.at_ns);
            near || match &event.event {
                Event::Drop(drop) => drop.ours,
                Event::Signal { .. } => true,
                Event::Irq { took_ns, .. } | Event::Softirq { took_ns, .. } | Event::Vector { took_ns, .. } => {
                    *took_ns >= least_ns
                }
                _ => false,
            }
        });
        least_ns = least_ns.saturating_mul(4);
    }
    (before - events.len()) as u64
}

/// Returns the spans (start, end) in which lanes waited for their cores, or were stopped.
fn waits(events: &[KernelEvent], lanes: &[i32]) -> Vec<(u64, u64)> {
    let mut since: HashMap<i32, u64> = HashMap::new();
    let mut waits = Vec::new();
    for event in events {
        match &event.event {
            Event::Switch {
                prev_tid,
                prev_state,
                next_tid,
                ..
            } => {
                if let Some(from) = since.remove(next_tid) {
                    waits.push((from, event.at_ns));
                }
                if lanes.contains(prev_tid) && (*prev_state == 0 || prev_state & STOPPED != 0) {
                    since.insert(*prev_tid, event.at_ns);
                }
            }
            Event::Waking { tid, .. } if lanes.contains(tid) => {
                since.entry(*tid).or_insert(event.at_ns);
            }
            _ => {}
        }
    }
    // Waits that have not ended yet.
    let end = events.last().map_or(0, |event| event.at_ns);
    waits.extend(since.into_values().map(|from| (from, end.max(from + FIRST_NS))));
    waits.sort_unstable();
    waits
}

/// Returns the spans to keep around waits, by time and without overlap.
fn merged<'w>(waits: impl Iterator<Item = &'w (u64, u64)>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for &(from, to) in waits {
        let (from, to) = (from.saturating_sub(AROUND_NS), to + AROUND_NS);
        match all.last_mut().filter(|last| from <= last.1) {
            Some(last) => last.1 = last.1.max(to),
            None => all.push((from, to)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const LANE: i32 = 7;

    fn switch(at_ns: u64, prev_tid: i32, prev_state: i64, next_tid: i32) -> KernelEvent {
        KernelEvent {
            at_ns,
            cpu: 0,
            event: Event::Switch {
                prev_tid,
                prev_comm: String::new(),
                prev_state,
                prev_prio: 120,
                next_tid,
                next_comm: String::new(),
                next_prio: 120,
            },
        }
    }

    /// The lane sleeps, and another thread uses its core for 20 µs, a thousand times. Every hundredth time the other
    /// thread uses the core for 3 ms.
    fn day() -> Vec<KernelEvent> {
        let mut events = Vec::new();
        for n in 0..1000 {
            let at = n * 10 * MS;
            events.push(switch(at, LANE, 1, 0));
            events.push(switch(at + MS / 2, 0, 0, LANE));
            let length = if n % 100 == 50 { 3 * MS } else { 20_000 };
            events.push(switch(at + 5 * MS, LANE, 0, 99));
            events.push(switch(at + 5 * MS + length, 99, 0, LANE));
        }
        events
    }

    #[test]
    fn what_happened_while_a_lane_waited_for_long_is_kept_and_the_rest_goes() {
        let mut events = day();
        let gone = thin(&mut events, &[LANE], 4000);
        assert_eq!((gone, events.len()), (4000 - 20, 20));
        let waits = waits(&events, &[LANE]);
        assert_eq!(waits.iter().filter(|(from, to)| to - from == 3 * MS).count(), 10);
    }

    #[test]
    fn whatever_the_room_it_is_never_passed() {
        for most in [2, 10, 40, 1000, 10_000] {
            let mut events = day();
            let gone = thin(&mut events, &[LANE], most);
            assert!(events.len() <= most / 2 || most >= 8000, "{} of {most}", events.len());
            assert_eq!(events.len() as u64 + gone, 4000);
        }
        assert_eq!(thin(&mut Vec::new(), &[LANE], 0), 0);
    }
}
