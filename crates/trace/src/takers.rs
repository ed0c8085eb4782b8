//! Causes of gaps in what a lane did: the threads and interrupts that took its core, by the kernel's events on that
//! core.
//!
//! A gap is measured, and events only name the culprit. At each instant one culprit is named, the innermost: an
//! interrupt before the soft interrupt that it interrupted, and either before the thread that it interrupted. So the
//! parts of a gap add up to the gap, and no time is counted twice. Time that no event covers is unexplained: the
//! hypervisor, the firmware, a page fault, or the time to enter and leave the kernel.

use crate::{Event, KernelEvent, Part, Taker, TakerKind, thread_number};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A stretch in which a lane was not where it meant to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Number of the lane.
    pub lane: u32,
    /// Thread of the lane.
    pub tid: i32,
    /// Core that the lane is bound to; `None` if it is bound to none: then events show where it was.
    pub cpu: Option<u32>,
    /// Start, ns.
    pub from_ns: u64,
    /// End, ns; not before [`from_ns`](Self::from_ns), else the gap is empty.
    pub to_ns: u64,
}

/// Softirq vectors by name: `include/linux/interrupt.h` of the kernel.
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Name of the thread that has a core when no other thread wants it.
const IDLE: &str = "the idle task";

/// State of a thread that was stopped (4) or is traced (8): `include/linux/sched.h`.
const STOPPED: i64 = 4 | 8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Culprit {
    kind: TakerKind,
    name: String,
    tid: i32,
}

/// A time in which a culprit had a core. Of two spans that overlap, the inner one has the greater `depth`, or at the
/// same depth the later start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    depth: u8,
    from: u64,
    to: u64,
    who: u32,
    /// Number of the visit, which distinguishes visits of the same culprit.
    visit: u32,
}

/// A stretch of a core with one culprit. Stretches of a core don't overlap.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u64,
    to: u64,
    who: u32,
    visit: u32,
}

/// Events on the cores, in an order in which gaps are looked up.
#[derive(Clone, Debug, Default)]
pub struct Explained {
    culprits: Vec<Culprit>,
    /// Number of the culprit that stands for any thread: a thread had the core, but it is not known which.
    others: u32,
    /// Stretches by core.
    pieces: HashMap<u32, Vec<Piece>>,
    /// Times by thread when it was off its core and did not want it, or when it is not known who had the core.
    off: HashMap<i32, Vec<Piece>>,
    /// Cores by thread: the time from which on the thread was on the core, or was to be.
    places: HashMap<i32, Vec<(u64, u32)>>,
}

/// Part of a gap that one culprit had.
#[derive(Clone, Copy, Debug)]
struct Share {
    cpu: u32,
    who: u32,
    visit: u32,
    from: u64,
    ns: u64,
}

#[derive(Default)]
struct Builder {
    culprits: Vec<Culprit>,
    numbers: HashMap<Culprit, u32>,
    visits: u32,
}

impl Builder {
    fn who(&mut self, kind: TakerKind, name: &str, tid: i32) -> u32 {
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

    fn span(&mut self, depth: u8, from: u64, to: u64, who: u32) -> Span {
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

/// Number of the unexplained culprit, which is in no list.
const UNEXPLAINED: u32 = u32::MAX;

impl Explained {
    /// Name of the part of a gap that no event covers.
    pub const UNEXPLAINED: &str = "unexplained (hypervisor, firmware, page fault or what was not watched)";
    /// Name of the time in which a lane slept without having chosen to.
    pub const ASLEEP: &str = "asleep in the kernel (a page fault, a lock or a disk)";

    /// Takes events in any order. `own`: the threads of this program.
    pub fn new(events: &[KernelEvent], own: &[i32]) -> Self {
        let own: HashSet<i32> = own.iter().copied().collect();
        let mut order: Vec<&KernelEvent> = events.iter().collect();
        order.sort_by_key(|event| event.at_ns);
        let mut builder = Builder::default();
        let spans = spans(&order, &own, &mut builder);
        let others = builder.who(TakerKind::Thread, "another thread", 0);
        let off = off(&order, others, &mut builder);
        Self {
            others,
            pieces: spans.into_iter().map(|(cpu, spans)| (cpu, flat(spans))).collect(),
            off,
            places: places(&order),
            culprits: builder.culprits,
        }
    }

    /// Gives the threads of this program their names, if events have no names for them.
    #[must_use]
    pub fn with_names(mut self, names: &[(i32, String)]) -> Self {
        for culprit in self.culprits.iter_mut().filter(|culprit| culprit.name.is_empty()) {
            if let Some((_, name)) = names.iter().find(|(tid, _)| *tid == culprit.tid) {
                culprit.name.clone_from(name);
            }
        }
        self
    }

    /// Returns the culprits and their parts of a gap. The rest of the gap is unexplained.
    fn shares(&self, gap: &Gap) -> Vec<Share> {
        let mut shares = Vec::new();
        let mut at = gap.from_ns;
        let off = self.off.get(&gap.tid).map_or(&[][..], Vec::as_slice);
        for off in within(off, gap.from_ns, gap.to_ns) {
            self.known(gap, at, off.from, &mut shares);
            let before = shares.len();
            if off.who == self.others {
                self.known(gap, off.from, off.to, &mut shares);
            }
            let known: u64 = shares[before..].iter().map(|share| share.ns).sum();
            let ns = (off.to - off.from).saturating_sub(known);
            shares.extend((ns > 0).then(|| Share {
                cpu: self.place(gap, off.from).unwrap_or(0),
                who: off.who,
                visit: off.visit,
                from: off.from,
                ns,
            }));
            at = off.to;
        }
        self.known(gap, at, gap.to_ns, &mut shares);
        shares
    }

    /// Returns the core on which a lane was, or to which it was to go, at that time; `None` if not known.
    fn place(&self, gap: &Gap, at: u64) -> Option<u32> {
        let of_events = || {
            let places = self.places.get(&gap.tid)?;
            let after = places.partition_point(|&(from, _)| from <= at);
            // Before its first event a thread was on the core of that event.
            places.get(after.saturating_sub(1)).map(|&(_, cpu)| cpu)
        };
        gap.cpu.or_else(of_events)
    }

    /// Adds the parts of a stretch in which the lane was on its core or wanted it.
    fn known(&self, gap: &Gap, from: u64, to: u64, shares: &mut Vec<Share>) {
        let places = self.places.get(&gap.tid).filter(|_| gap.cpu.is_none());
        let places = places.map_or(&[][..], Vec::as_slice);
        let first = places.partition_point(|&(at, _)| at <= from);
        let moves = places[first..].iter().map(|&(at, _)| at).take_while(|&at| at < to);
        let mut at = from;
        for end in moves.chain([to]) {
            if let Some(cpu) = self.place(gap, at) {
                self.known_on(cpu, gap, at, end, shares);
            }
            at = end;
        }
    }

    fn known_on(&self, cpu: u32, gap: &Gap, from: u64, to: u64, shares: &mut Vec<Share>) {
        let pieces = self.pieces.get(&cpu).map_or(&[][..], Vec::as_slice);
        for piece in within(pieces, from, to) {
            let culprit = self.culprits.get(piece.who as usize);
            if culprit.is_none_or(|culprit| culprit.tid != gap.tid || gap.tid == 0) {
                shares.push(Share {
                    cpu,
                    who: piece.who,
                    visit: piece.visit,
                    from: piece.from,
                    ns: piece.to - piece.from,
                });
            }
        }
    }

    /// Returns the parts of a gap, the longest first and the unexplained part last. The amounts, ns, add up to the gap
    /// exactly.
    pub fn parts(&self, gap: &Gap) -> Vec<Part> {
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for share in self.shares(gap) {
            *sums.entry(share.who).or_default() += share.ns;
        }
        let explained: u64 = sums.values().sum();
        let mut parts: Vec<Part> = sums.iter().map(|(&who, &amount)| self.part(who, amount)).collect();
        parts.sort_by(|a, b| b.amount.cmp(&a.amount).then_with(|| a.what.cmp(&b.what)));
        let left = gap.to_ns.saturating_sub(gap.from_ns).saturating_sub(explained);
        parts.extend((left > 0).then(|| self.part(UNEXPLAINED, left)));
        parts
    }

    fn part(&self, who: u32, amount: u64) -> Part {
        let what = match self.culprits.get(who as usize) {
            Some(culprit) => culprit.sentence(),
            None => Self::UNEXPLAINED.to_owned(),
        };
        Part { what, amount }
    }

    /// Returns the culprits that took the cores in these gaps: a row per lane and culprit, the longest total first. The
    /// totals of a lane add up to its gaps, if these do not overlap.
    pub fn takers(&self, gaps: &[Gap]) -> Vec<Taker> {
        struct Row {
            taker: Taker,
            visit: Option<u32>,
            /// Time and start of the current visit.
            ns: u64,
            from: u64,
        }
        let mut order: Vec<&Gap> = gaps.iter().filter(|gap| gap.to_ns > gap.from_ns).collect();
        order.sort_by_key(|gap| gap.from_ns);
        let mut rows: HashMap<(u32, u32, u32), Row> = HashMap::new();
        let mut add = |gap: &Gap, share: Share, new: bool| {
            let row = rows.entry((share.cpu, gap.lane, share.who)).or_insert_with(|| Row {
                taker: self.taker(gap, share.cpu, share.who),
                visit: None,
                ns: 0,
                from: 0,
            });
            if new || row.visit != Some(share.visit) {
                row.visit = Some(share.visit);
                row.taker.count += 1;
                (row.ns, row.from) = (0, share.from);
            }
            row.ns = row.ns.saturating_add(share.ns);
            row.taker.total_ns = row.taker.total_ns.saturating_add(share.ns);
            if row.ns > row.taker.max_ns {
                (row.taker.max_ns, row.taker.max_at_ns) = (row.ns, row.from);
            }
        };
        for gap in order {
            let mut left = gap.to_ns - gap.from_ns;
            for share in self.shares(gap) {
                left -= share.ns;
                add(gap, share, false);
            }
            if left > 0 {
                let share = Share {
                    cpu: self.place(gap, gap.from_ns).unwrap_or(0),
                    who: UNEXPLAINED,
                    visit: 0,
                    from: gap.from_ns,
                    ns: left,
                };
                add(gap, share, true);
            }
        }
        let mut takers: Vec<Taker> = rows.into_values().map(|row| row.taker).collect();
        takers.sort_by(|a, b| {
            let by_name = || (a.cpu, a.lane, a.kind, &a.name, a.tid).cmp(&(b.cpu, b.lane, b.kind, &b.name, b.tid));
            b.total_ns.cmp(&a.total_ns).then_with(by_name)
        });
        takers
    }

    fn taker(&self, gap: &Gap, cpu: u32, who: u32) -> Taker {
        let culprit = self.culprits.get(who as usize);
        Taker {
            cpu,
            lane: gap.lane,
            kind: culprit.map_or(TakerKind::Unexplained, |culprit| culprit.kind),
            name: culprit.map_or_else(|| "unexplained".to_owned(), |culprit| culprit.name.clone()),
            tid: culprit.map_or(0, |culprit| culprit.tid),
            count: 0,
            total_ns: 0,
            max_ns: 0,
            max_at_ns: gap.from_ns,
        }
    }
}

impl Culprit {
    fn sentence(&self) -> String {
        let Self { kind, name, tid } = self;
        match kind {
            TakerKind::Thread if *tid == 0 => format!("{name} had the core"),
            TakerKind::Thread => format!("{name} (thread {}) had the core", thread_number(*tid)),
            TakerKind::Own if name.is_empty() => format!("own thread {tid} had the core"),
            TakerKind::Own => format!("own thread {name} ({tid}) had the core"),
            TakerKind::Irq => format!("interrupt {name}"),
            TakerKind::Softirq => format!("soft interrupt {name}"),
            TakerKind::Vector => format!("{name} interrupt"),
            TakerKind::Stopped | TakerKind::Asleep | TakerKind::Withheld | TakerKind::Unexplained => name.clone(),
        }
    }
}

/// Returns the pieces that lie in a stretch, cut to it.
fn within(pieces: &[Piece], from: u64, to: u64) -> impl Iterator<Item = Piece> + '_ {
    let first = pieces.partition_point(|piece| piece.to <= from);
    let rest = pieces.get(first..).unwrap_or_default();
    rest.iter()
        .take_while(move |piece| piece.from < to)
        .filter_map(move |piece| {
            let (from, to) = (piece.from.max(from), piece.to.min(to));
            (from < to).then_some(Piece { from, to, ..*piece })
        })
}

/// Returns the culprits of each core, nested.
fn spans(order: &[&KernelEvent], own: &HashSet<i32>, builder: &mut Builder) -> HashMap<u32, Vec<Span>> {
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
fn flat(spans: Vec<Span>) -> Vec<Piece> {
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
fn places(order: &[&KernelEvent]) -> HashMap<i32, Vec<(u64, u32)>> {
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
fn off(order: &[&KernelEvent], others: u32, builder: &mut Builder) -> HashMap<i32, Vec<Piece>> {
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

/// Returns the times when lanes were displaced, by the records of their own threads: (number, thread, core) of each. A
/// lane that did not come back was away until `end_ns`.
pub fn displaced(events: &[KernelEvent], lanes: &[(u32, i32, Option<u32>)], end_ns: u64) -> Vec<Gap> {
    let mut order: Vec<&KernelEvent> = events.iter().collect();
    order.sort_by_key(|event| event.at_ns);
    let mut gaps = Vec::new();
    for &(lane, tid, cpu) in lanes {
        let mut since = None;
        let gap = |from_ns: u64, to_ns: u64| Gap {
            lane,
            tid,
            cpu,
            from_ns,
            to_ns,
        };
        for event in &order {
            match event.event {
                Event::SwitchedOut { tid: of, preempted } if of == tid => since = preempted.then_some(event.at_ns),
                Event::SwitchedIn { tid: of } if of == tid => {
                    gaps.extend(since.take().map(|from| gap(from, event.at_ns)));
                }
                _ => {}
            }
        }
        gaps.extend(since.filter(|from| *from < end_ns).map(|from| gap(from, end_ns)));
    }
    gaps
}

mod held;
#[cfg(test)]
mod tests;
