//! The few worst of many, kept without allocating: a new one takes the place of the least of them.

/// How many are kept.
const KEPT: usize = 100;

/// The [`KEPT`] items with the highest values.
#[derive(Debug)]
pub(crate) struct Worst<T> {
    kept: Vec<(u64, T)>,
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

    /// All of them, the worst first.
    pub(crate) fn into_sorted(mut self) -> Vec<T> {
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
}
