//! Turns events into stretches: who had each core when, and when each thread was off its core.

use super::{Culprit, Explained, Piece};
use crate::{Event, KernelEvent, TakerKind};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Softirq vectors by name: `include/linux/interrupt.h` of the kernel.
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Name of the thread that has a core when no other thread wants it.
pub(super) const IDLE: &str = "the idle task";

/// State of a thread that was stopped (4) or is traced (8): `include/linux/sched.h`.
const STOPPED: i64 = 4 | 8;

/// A time in which a culprit had a core. Of two spans that overlap, the inner one has the greater `depth`, or at the
/// same depth the later start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    depth: u8,
    from: u64,
    to: u64,
    who: u32,
    /// Number of the visit, which distinguishes visits of the same culprit.
    visit: u32,
}

/// Culprits met so far, numbered, and the number of their visits.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) culprits: Vec<Culprit>,
    numbers: HashMap<Culprit, u32>,
    visits: u32,
}

impl Builder {
    pub(super) fn who(&mut self, kind: TakerKind, name: &str, tid: i32) -> u32 {
        let culprit = Culprit {
            kind,
            name: name.to_owned(),
            tid,
        };
        let next = self.culprits.len() as u32;
        *self.numbers.entry(culprit).or_insert_with_key(|culprit| {
            self.culprits.push(culprit.clone());
            next
        })
    }

    pub(super) fn span(&mut self, depth: u8, from: u64, to: u64, who: u32) -> Span {
        self.visits = self.visits.wrapping_add(1);
        Span {
            depth,
            from,
            to,
            who,
            visit: self.visits,
        }
    }
}

/// Returns the culprits of each core, nested.
pub(super) fn spans(order: &[&KernelEvent], own: &HashSet<i32>, builder: &mut Builder) -> HashMap<u32, Vec<Span>> {
    let mut spans: HashMap<u32, Vec<Span>> = HashMap::new();
    // Thread on each core, and the time when it came.
    let mut came: HashMap<u32, (u64, i32, &str)> = HashMap::new();
    // Time and core since which each thread of this program has its core; `None` if it has none.
    let mut on: HashMap<i32, Option<(u64, u32)>> = HashMap::new();
    let thread = |builder: &mut Builder, tid: i32, comm: &str, from, to| {
        let who = match tid {
            0 => builder.who(TakerKind::Thread, IDLE, 0),
            _ if own.contains(&tid) => builder.who(TakerKind::Own, comm, tid),
            _ => builder.who(TakerKind::Thread, comm, tid),
        };
        builder.span(0, from, to, who)
    };
    for event in order {
        let KernelEvent { at_ns, cpu, .. } = **event;
        let ended = |took: u64| at_ns.saturating_sub(took);
        let span = match &event.event {
            Event::Switch {
                prev_tid,
                prev_comm,
                next_tid,
                next_comm,
                ..
            } => {
                let before = came.insert(cpu, (at_ns, *next_tid, next_comm));
                // The name may have changed meanwhile: the thread is called as it was when it left. If another thread
                // has left than had come, a record is lost, and it is not known who had the core.
                let from = match before {
                    None => Some(0),
                    Some((from, tid, _)) => (tid == *prev_tid).then_some(from),
                };
                from.map(|from| thread(builder, *prev_tid, prev_comm, from, at_ns))
            }
            Event::Irq { name, took_ns, .. } => {
                let who = builder.who(TakerKind::Irq, name, 0);
                Some(builder.span(2, ended(*took_ns), at_ns, who))
            }
            Event::Vector { name, took_ns } => {
                let who = builder.who(TakerKind::Vector, name, 0);
                Some(builder.span(2, ended(*took_ns), at_ns, who))
            }
            Event::Softirq { vector, took_ns } => {
                let name = SOFTIRQS.get(*vector as usize).copied().unwrap_or("of another kind");
                let who = builder.who(TakerKind::Softirq, name, 0);
                Some(builder.span(1, ended(*took_ns), at_ns, who))
            }
            Event::SwitchedIn { tid } => {
                on.insert(*tid, Some((at_ns, cpu)));
                None
            }
            Event::SwitchedOut { tid, .. } => {
                // A thread that was never seen to come had the core all the time.
                let since = on.insert(*tid, None).unwrap_or(Some((0, cpu)));
                let from = since.filter(|&(_, core)| core == cpu).map(|(from, _)| from);
                let who = builder.who(TakerKind::Own, "", *tid);
                from.map(|from| builder.span(0, from, at_ns, who))
            }
            _ => None,
        };
        spans
            .entry(cpu)
            .or_default()
            .extend(span.filter(|span| span.from < span.to));
    }
    let mut on: Vec<_> = on.into_iter().collect();
    on.sort_unstable();
    for (tid, since) in on {
        let Some((from, cpu)) = since else { continue };
        let who = builder.who(TakerKind::Own, "", tid);
        let last = builder.span(0, from, u64::MAX, who);
        spans.entry(cpu).or_default().extend((from < u64::MAX).then_some(last));
    }
    for (cpu, (from, tid, comm)) in came {
        let last = thread(builder, tid, comm, from, u64::MAX);
        spans.entry(cpu).or_default().extend((from < u64::MAX).then_some(last));
    }
    spans
}

/// Turns spans that nest or overlap in any way into stretches with one culprit each: at each instant the deepest, and
/// of several the one that came last.
pub(super) fn flat(spans: Vec<Span>) -> Vec<Piece> {
    let mut edges: Vec<(u64, bool, Span)> = Vec::with_capacity(2 * spans.len());
    for span in spans {
        edges.push((span.from, true, span));
        edges.push((span.to, false, span));
    }
    edges.sort_unstable();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut open: BTreeSet<Span> = BTreeSet::new();
    let mut before = 0;
    for (at, begins, span) in edges {
        if let Some(inner) = open.last().filter(|_| at > before) {
            match pieces
                .last_mut()
                .filter(|last| last.to == before && last.visit == inner.visit)
            {
                Some(last) => last.to = at,
                None => pieces.push(Piece {
                    from: before,
                    to: at,
                    who: inner.who,
                    visit: inner.visit,
                }),
            }
        }
        before = at;
        if begins {
            open.insert(span);
        } else {
            open.remove(&span);
        }
    }
    pieces
}

/// Returns the cores of threads, by time.
pub(super) fn places(order: &[&KernelEvent]) -> HashMap<i32, Vec<(u64, u32)>> {
    let mut all: HashMap<i32, Vec<(u64, u32)>> = HashMap::new();
    let mut note = |tid: i32, at: u64, cpu: u32| {
        let places = all.entry(tid).or_default();
        if places.last().is_none_or(|&(_, last)| last != cpu) {
            places.push((at, cpu));
        }
    };
    for event in order {
        match &event.event {
            Event::Switch { prev_tid, next_tid, .. } => {
                note(*prev_tid, event.at_ns, event.cpu);
                note(*next_tid, event.at_ns, event.cpu);
            }
            Event::Waking { tid, target_cpu, .. } => note(*tid, event.at_ns, *target_cpu),
            Event::SwitchedOut { tid, .. } | Event::SwitchedIn { tid } => note(*tid, event.at_ns, event.cpu),
            _ => {}
        }
    }
    // The idle tasks of all cores have the same number.
    all.remove(&0);
    all
}

/// Returns the times when threads were off their cores without waiting for them, or waited and no event shows who had
/// the core.
pub(super) fn off(order: &[&KernelEvent], others: u32, builder: &mut Builder) -> HashMap<i32, Vec<Piece>> {
    let mut all: HashMap<i32, Vec<Piece>> = HashMap::new();
    // Start and cause of the time off its core, by thread.
    let mut since: HashMap<i32, (u64, u32)> = HashMap::new();
    let asleep = builder.who(TakerKind::Asleep, Explained::ASLEEP, 0);
    let stopped = builder.who(TakerKind::Stopped, "stopped by a signal", 0);
    // The records of a thread about itself show no more than this.
    let resting = builder.who(TakerKind::Asleep, "asleep, stopped, or woken and not on a core yet", 0);
    let mut back = |builder: &mut Builder, since: &mut HashMap<i32, (u64, u32)>, tid: i32, at: u64| {
        let Some((from, who)) = since.remove(&tid).filter(|&(from, _)| from < at) else {
            return;
        };
        let Span { from, to, visit, .. } = builder.span(0, from, at, who);
        all.entry(tid).or_default().push(Piece { from, to, who, visit });
    };
    for event in order {
        let at = event.at_ns;
        match &event.event {
            Event::Switch {
                prev_tid,
                prev_state,
                next_tid,
                ..
            } => {
                back(builder, &mut since, *next_tid, at);
                back(builder, &mut since, *prev_tid, at);
                if *prev_state != 0 {
                    since.insert(
                        *prev_tid,
                        (at, if prev_state & STOPPED != 0 { stopped } else { asleep }),
                    );
                }
            }
            // From now on the thread waits, and the culprit on the core is to be named.
            Event::Waking { tid, .. } => back(builder, &mut since, *tid, at),
            Event::SwitchedOut { tid, preempted } => {
                back(builder, &mut since, *tid, at);
                since.insert(*tid, (at, if *preempted { others } else { resting }));
            }
            Event::SwitchedIn { tid } => back(builder, &mut since, *tid, at),
            _ => {}
        }
    }
    // A lane that does not come back is not a gap by itself: it counts as being where it was last seen.
    for (tid, _) in since.clone() {
        back(builder, &mut since, tid, u64::MAX);
    }
    all
}
