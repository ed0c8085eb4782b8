//! Causes of gaps in what a lane did: the threads and interrupts that took its core, by the kernel's events on that
//! core.
//!
//! A gap is measured, and events only name the culprit. At each instant one culprit is named, the innermost: an
//! interrupt before the soft interrupt that it interrupted, and either before the thread that it interrupted. So the
//! parts of a gap add up to the gap, and no time is counted twice. Time that no event covers is unexplained: the
//! hypervisor, the firmware, a page fault, or the time to enter and leave the kernel.

mod held;
mod stretches;
#[cfg(test)]
mod tests;

use crate::{Event, KernelEvent, Part, Taker, TakerKind, thread_number};
use std::collections::{BTreeMap, HashMap, HashSet};
use stretches::{Builder, flat, off, places, spans};

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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Culprit {
    kind: TakerKind,
    name: String,
    tid: i32,
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
