//! Missing numbers of the flows that a lane receives: the first, and the newest. Also the times when nothing came.
//!
//! A packet that is the next of its flow touches nothing here; the time without packets is looked at once per burst.

use mpps_stats::Gap;

/// Holes kept with the lowest numbers, and with the newest.
const FIRST: usize = 16;
const NEWEST: usize = 64;
/// Times without a packet that are kept.
const LONGEST: usize = 16;

/// Numbers of a flow that were skipped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hole {
    pub(crate) flow: u32,
    /// First number that was skipped, and the number that came in place of it.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Skipped numbers that have not come yet.
    pub(crate) open: u64,
    /// Departure and arrival of the packet that came in place of them.
    pub(crate) sent_ns: u64,
    pub(crate) at_ns: u64,
}

impl Hole {
    fn has(&self, flow: u32, seq: u64) -> bool {
        self.flow == flow && (self.from..self.to).contains(&seq)
    }

    /// Notes that one of its numbers came. A number at an end of the hole that has come is no longer part of it.
    fn fill(&mut self, seq: u64) {
        self.open = self.open.saturating_sub(1);
        if seq == self.from {
            self.from += 1;
        } else if seq + 1 == self.to {
            self.to -= 1;
        }
    }
}

/// A packet of the test that came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Came {
    pub(crate) flow: u32,
    pub(crate) seq: u64,
    pub(crate) sent_ns: u64,
    pub(crate) at_ns: u64,
}

/// Missing numbers of a lane.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    first: Vec<Hole>,
    newest: Vec<Hole>,
    /// Highest key among the first holes: holes with lower keys take its place.
    highest: (u64, u32),
    /// Number that none of the first holes reaches beyond.
    first_end: u64,
    /// Index of the next hole among the newest.
    place: usize,
    /// Numbers missing so far.
    pub(crate) open: u64,
    /// The longest times without a packet.
    pub(crate) silent: Silence,
    /// By flow, the number that the lane expects next; set once the lane has ended.
    pub(crate) next: Box<[u64]>,
}

impl Missing {
    pub(crate) fn new() -> Self {
        Self {
            first: Vec::with_capacity(FIRST),
            newest: Vec::with_capacity(NEWEST),
            ..Self::default()
        }
    }

    /// Notes that a packet came in place of number `expected`, which is lower.
    pub(crate) fn skipped(&mut self, expected: u64, came: Came) {
        let hole = Hole {
            flow: came.flow,
            from: expected,
            to: came.seq,
            open: came.seq - expected,
            sent_ns: came.sent_ns,
            at_ns: came.at_ns,
        };
        self.open += hole.open;
        if self.newest.len() < NEWEST {
            self.newest.push(hole);
        } else {
            self.newest[self.place] = hole;
            self.place = (self.place + 1) % NEWEST;
        }
        let key = (hole.from, hole.flow);
        if self.first.len() < FIRST || key < self.highest {
            self.first_end = self.first_end.max(hole.to);
        }
        if self.first.len() < FIRST {
            self.first.push(hole);
            self.highest = self.highest.max(key);
        } else if key < self.highest {
            if let Some(last) = self.first.iter_mut().max_by_key(|hole| (hole.from, hole.flow)) {
                *last = hole;
            }
            self.highest = self
                .first
                .iter()
                .map(|hole| (hole.from, hole.flow))
                .max()
                .unwrap_or_default();
        }
    }

    /// Notes that a skipped packet came after all.
    pub(crate) fn found(&mut self, flow: u32, seq: u64) {
        self.open = self.open.saturating_sub(1);
        // From the newest backwards: a late packet was skipped a little before.
        let (older, newer) = self.newest.split_at_mut(self.place);
        let mut newest = older.iter_mut().rev().chain(newer.iter_mut().rev());
        if let Some(hole) = newest.find(|hole| hole.has(flow, seq)) {
            hole.fill(seq);
        }
        if seq >= self.first_end {
            return;
        }
        if let Some(place) = self.first.iter().position(|hole| hole.has(flow, seq)) {
            self.first[place].fill(seq);
            if self.first[place].open == 0 {
                self.first.swap_remove(place);
            }
        }
    }

    /// Returns holes that are open; the first by number and the newest are among them.
    pub(crate) fn holes(&self) -> impl Iterator<Item = &Hole> {
        self.first.iter().chain(&self.newest).filter(|hole| hole.open > 0)
    }
}

/// The longest times without a packet.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// Kept times, the longest first.
    kept: [Gap; LONGEST],
    /// The two packets before and after the longest time.
    pub(crate) longest: Option<(Came, Came)>,
    /// Last packet of the burst before; its arrival 0: there was none.
    last: Came,
    /// Shortest time of interest, ns.
    least_ns: u64,
}

impl Silence {
    /// Returns whether the time since the burst before must be noted.
    #[inline]
    pub(crate) fn is_long(&self, now_ns: u64) -> bool {
        self.last.at_ns != 0 && now_ns.saturating_sub(self.last.at_ns) > self.least_ns
    }

    /// Notes the time before `came`, the first packet of a burst after a long time.
    #[cold]
    pub(crate) fn note(&mut self, came: Came) {
        let gap = Gap {
            from_ns: self.last.at_ns,
            to_ns: came.at_ns,
        };
        if gap.ns() <= self.least_ns {
            return;
        }
        if self.longest.is_none_or(|(from, to)| to.at_ns - from.at_ns < gap.ns()) {
            self.longest = Some((self.last, came));
        }
        // The new time pushes the shortest out.
        let place = self.kept.partition_point(|kept| kept.ns() >= gap.ns());
        self.kept[place..].rotate_right(1);
        self.kept[place] = gap;
        self.least_ns = self.kept[LONGEST - 1].ns();
    }

    /// Notes the last packet of a burst.
    #[inline]
    pub(crate) fn came(&mut self, last: Came) {
        self.last = last;
    }

    /// Returns the longest times, and a length, ns: all longer times are among them.
    pub(crate) fn times(&self) -> (Vec<Gap>, u64) {
        let kept = self.kept.iter().filter(|gap| gap.ns() > 0);
        (kept.copied().collect(), self.least_ns)
    }

    /// Returns the packet after the longest time, and the newest one.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = Came> {
        let newest = self.heard().then_some(self.last);
        self.longest.map(|(_, to)| to).into_iter().chain(newest)
    }

    /// Returns whether any packet has come.
    pub(crate) fn heard(&self) -> bool {
        self.last.at_ns != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(flow: u32, seq: u64, at_ns: u64) -> Came {
        Came {
            flow,
            seq,
            sent_ns: at_ns - 1,
            at_ns,
        }
    }

    #[test]
    fn the_first_and_the_newest_hole_are_kept_whatever_lies_between() {
        let mut missing = Missing::new();
        for i in 0..1_000 {
            missing.skipped(i * 10, came(3, i * 10 + 2, 1 + i * 100));
        }
        assert_eq!(missing.open, 2_000);
        assert_eq!(missing.holes().map(|hole| hole.from).min(), Some(0));
        assert_eq!(missing.holes().map(|hole| hole.to).max(), Some(9_992));
        // The first two come after all, and one of the last two.
        [0, 1, 9_991].iter().for_each(|&seq| missing.found(3, seq));
        assert_eq!(missing.open, 1_997);
        assert_eq!(missing.holes().map(|hole| hole.from).min(), Some(10));
        assert_eq!(missing.holes().map(|hole| hole.to).max(), Some(9_991));
    }

    #[test]
    fn the_longest_silence_has_its_bounds() {
        let mut silence = Silence::default();
        assert!(!silence.is_long(5) && !silence.heard());
        let mut at = 1_000;
        for i in 0..100 {
            at += if i == 50 { 5_000 } else { 100 + i };
            if silence.is_long(at) {
                silence.note(came(0, i, at));
            }
            silence.came(came(0, i, at));
        }
        let (from, to) = silence.longest.unwrap();
        assert_eq!((from.seq, to.seq, to.at_ns - from.at_ns), (49, 50, 5_000));
        let (times, least) = silence.times();
        assert_eq!((times.len(), times[0].ns()), (16, 5_000));
        assert_eq!(least, times[15].ns());
        assert!(silence.heard());
    }
}
