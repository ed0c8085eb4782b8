//! The few worst of many, kept without allocating: a new one takes the place of the least of them.

/// Number of items that are kept.
const KEPT: usize = 100;

/// A stretch of time, ns; a power of two (1.05 ms). [`Worst::keep_one`] keeps one item of each stretch.
const TOGETHER_NS: u64 = 1 << 20;

/// The [`KEPT`] items with the highest values.
#[derive(Debug)]
pub(crate) struct Worst<T> {
    kept: Vec<(u64, T)>,
    /// Value that an item must exceed to be kept.
    floor: u64,
    /// The worst item of the present stretch. It joins the others when the stretch ends.
    pending: Option<(u64, T)>,
    /// Time in ns when the present stretch ends.
    over_ns: u64,
    /// Value that an item must exceed until the stretch ends.
    bar: u64,
}

impl<T> Worst<T> {
    pub(crate) fn new() -> Self {
        Self {
            kept: Vec::with_capacity(KEPT),
            floor: 0,
            pending: None,
            over_ns: 0,
            bar: 0,
        }
    }

    /// Returns the value that an item must exceed to be [kept](Self::keep).
    #[inline]
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the value that an item must exceed at this time for [`keep_one`](Self::keep_one) to keep it.
    #[inline]
    pub(crate) fn floor_at(&self, now_ns: u64) -> u64 {
        if now_ns < self.over_ns { self.bar } else { self.floor }
    }

    /// Keeps an item whose value passes the [floor](Self::floor).
    #[cold]
    pub(crate) fn keep(&mut self, value: u64, item: T) {
        if value <= self.floor {
            return;
        }
        if self.kept.len() < KEPT {
            self.kept.push((value, item));
        } else if let Some(least) = self.kept.iter_mut().min_by_key(|(value, _)| *value) {
            *least = (value, item);
        }
        if self.kept.len() == KEPT {
            self.floor = self.kept.iter().map(|(value, _)| *value).min().unwrap_or(0);
        }
    }

    /// Keeps only the worst item of each stretch of time. Otherwise a few stalls, each with many bad items, would leave
    /// no room for others. Times don't go back.
    #[cold]
    pub(crate) fn keep_one(&mut self, now_ns: u64, value: u64, item: T) {
        if now_ns >= self.over_ns {
            self.settle();
            self.over_ns = (now_ns | (TOGETHER_NS - 1)) + 1;
        }
        if self.pending.as_ref().is_none_or(|(worst, _)| *worst < value) {
            self.pending = Some((value, item));
            self.bar = value.max(self.floor);
        }
    }

    fn settle(&mut self) {
        if let Some((value, item)) = self.pending.take() {
            self.keep(value, item);
        }
        self.bar = self.floor;
    }

    /// Returns all kept items, the worst first.
    pub(crate) fn into_sorted(mut self) -> Vec<T> {
        self.settle();
        self.kept.sort_by_key(|(value, _)| std::cmp::Reverse(*value));
        self.kept.into_iter().map(|(_, item)| item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_are_kept_in_order() {
        let mut worst = Worst::new();
        for value in (1..=1000).map(|n| n * 7919 % 1009) {
            worst.keep(value, value);
        }
        let mut all: Vec<u64> = (1..=1000).map(|n| n * 7919 % 1009).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(worst.floor(), all[99]);
        assert_eq!(worst.into_sorted(), all[..100]);
    }

    #[test]
    fn of_a_length_of_time_the_worst_alone_is_kept_so_that_others_have_room() {
        let mut worst = Worst::new();
        let mut looked_at = 0;
        for stall in 0..50 {
            for value in [1_000, 5_000, 3_000] {
                // Far more of each than there is room for.
                for n in 0..100 {
                    let now_ns = stall * TOGETHER_NS + n;
                    if value + n > worst.floor_at(now_ns) {
                        looked_at += 1;
                        worst.keep_one(now_ns, value + n, (stall, value + n));
                    }
                }
            }
        }
        assert_eq!(looked_at, 50 * 200, "none that is no worse than another of its time");
        worst.keep_one(50 * TOGETHER_NS, 7, (50, 7));
        let kept = worst.into_sorted();
        let stalls: std::collections::BTreeSet<u64> = kept.iter().map(|(stall, _)| *stall).collect();
        assert_eq!((kept.len(), stalls.len()), (51, 51));
        assert!(kept[..50].iter().all(|(_, value)| *value == 5_099), "{kept:?}");
    }
}
