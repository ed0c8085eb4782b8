//! The few worst of many, kept without allocating: a new one takes the place of the least of them.

/// How many are kept.
const KEPT: usize = 100;

/// The [`KEPT`] items with the highest values.
#[derive(Debug)]
pub(crate) struct Worst<T> {
    /// Value, what it is one of, and the item.
    kept: Vec<(u64, Option<u64>, T)>,
    /// What a value must pass to be kept.
    floor: u64,
}

impl<T> Worst<T> {
    pub(crate) fn new() -> Self {
        Self {
            kept: Vec::with_capacity(KEPT),
            floor: 0,
        }
    }

    /// What a value must pass to be kept.
    #[inline]
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Keeps an item whose value passes the [floor](Self::floor).
    pub(crate) fn keep(&mut self, value: u64, item: T) {
        self.keep_one(value, None, item);
    }

    /// As [`keep`](Self::keep), of all items of one group only the worst: else a few groups of many would leave no room
    /// for others.
    pub(crate) fn keep_one_of(&mut self, group: u64, value: u64, item: T) {
        self.keep_one(value, Some(group), item);
    }

    #[cold]
    fn keep_one(&mut self, value: u64, group: Option<u64>, item: T) {
        if value <= self.floor {
            return;
        }
        let same = self.kept.iter_mut().find(|(_, of, _)| of.is_some() && *of == group);
        if let Some(same) = same {
            if same.0 < value {
                *same = (value, group, item);
            }
        } else if self.kept.len() < KEPT {
            self.kept.push((value, group, item));
        } else if let Some(least) = self.kept.iter_mut().min_by_key(|(value, ..)| *value) {
            *least = (value, group, item);
        }
        if self.kept.len() == KEPT {
            self.floor = self.kept.iter().map(|(value, ..)| *value).min().unwrap_or(0);
        }
    }

    /// All of them, the worst first.
    pub(crate) fn into_sorted(mut self) -> Vec<T> {
        self.kept.sort_by_key(|(value, ..)| std::cmp::Reverse(*value));
        self.kept.into_iter().map(|(_, _, item)| item).collect()
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
    fn of_a_group_the_worst_alone_is_kept_so_that_others_have_room() {
        let mut worst = Worst::new();
        for group in 0..50 {
            for value in [1_000, 5_000, 3_000] {
                // Far more of each than there is room for.
                (0..100).for_each(|n| worst.keep_one_of(group, value + n, (group, value + n)));
            }
        }
        worst.keep_one_of(50, 7, (50, 7));
        let kept = worst.into_sorted();
        let groups: std::collections::BTreeSet<u64> = kept.iter().map(|(group, _)| *group).collect();
        assert_eq!((kept.len(), groups.len()), (51, 51));
        assert!(kept[..50].iter().all(|(_, value)| *value == 5_099), "{kept:?}");
    }
}
