//! Gaps in a thread's own time: times when the thread did not come back to its clock though it should have.

use crate::counter::Counter;

/// Number of gaps that are kept one by one: the longest.
const KEPT: usize = 16;

/// A gap, ns on the lanes' clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Time when the thread should have been back.
    pub from_ns: u64,
    /// Time when the thread was back.
    pub to_ns: u64,
}

impl Gap {
    /// Returns the length, ns.
    pub fn ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// Returns the time for which both gaps last at the same time, ns.
    pub fn common_ns(&self, other: &Self) -> u64 {
        let (from, to) = (self.from_ns.max(other.from_ns), self.to_ns.min(other.to_ns));
        to.saturating_sub(from)
    }
}

/// Gaps of one thread. The thread writes; others read once it has ended.
#[derive(Debug, Default)]
pub struct GapLog {
    count: Counter,
    total_ns: Counter,
    kept: [(Counter, Counter); KEPT],
}

impl GapLog {
    /// Notes a gap. For the single writer only.
    #[cold]
    pub fn note(&self, gap: Gap) {
        self.count.add(1);
        self.total_ns.add(gap.ns());
        let kept_ns = |place: &(Counter, Counter)| place.1.get() - place.0.get();
        if let Some(place) = self
            .kept
            .iter()
            .min_by_key(|place| kept_ns(place))
            .filter(|place| kept_ns(place) < gap.ns())
        {
            place.0.set(gap.from_ns);
            place.1.set(gap.to_ns);
        }
    }

    /// Returns the number of gaps.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Returns the total length of all gaps, ns.
    pub fn total_ns(&self) -> u64 {
        self.total_ns.get()
    }

    /// Returns the longest gaps, longest first.
    pub fn longest(&self) -> Vec<Gap> {
        let gap = |(from, to): &(Counter, Counter)| Gap {
            from_ns: from.get(),
            to_ns: to.get(),
        };
        let mut gaps: Vec<_> = self.kept.iter().map(gap).filter(|gap| gap.ns() > 0).collect();
        gaps.sort_by_key(|gap| std::cmp::Reverse(gap.ns()));
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_longest_gaps_are_kept_and_all_are_counted(lengths in proptest::collection::vec(1u64..1000, 0..100)) {
            let log = GapLog::default();
            for (i, &ns) in lengths.iter().enumerate() {
                let from_ns = 1 + i as u64 * 1000;
                log.note(Gap { from_ns, to_ns: from_ns + ns });
            }
            prop_assert_eq!((log.count(), log.total_ns()), (lengths.len() as u64, lengths.iter().sum()));
            let mut longest = lengths.clone();
            longest.sort_unstable_by(|a, b| b.cmp(a));
            longest.truncate(KEPT);
            prop_assert_eq!(log.longest().iter().map(Gap::ns).collect::<Vec<_>>(), longest);
        }
    }
}
