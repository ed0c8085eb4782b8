//! Sets of cores, as the kernel writes them: lists (`0-3,8`) and masks (`0000000f,ffffffff`); pure.

use std::collections::BTreeSet;

/// Most cores that Linux can be built for.
const MOST: usize = 8192;

/// A set of cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus(BTreeSet<usize>);

impl FromIterator<usize> for Cpus {
    fn from_iter<T: IntoIterator<Item = usize>>(cores: T) -> Self {
        Self(cores.into_iter().collect())
    }
}

impl Cpus {
    /// Parses a list such as `0-3,8`; `None` if it is not one. An empty text means no core.
    pub fn of_list(text: &str) -> Option<Self> {
        let mut all = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last >= MOST {
                return None;
            }
            all.extend(first..=last);
        }
        Some(Self(all))
    }

    /// Parses a mask: words of 32 bits in hexadecimal, the highest first, between commas. `None` if it is not one.
    pub fn of_mask(text: &str) -> Option<Self> {
        let digits: String = text.trim().chars().filter(|c| *c != ',').collect();
        if digits.is_empty() || digits.len() > MOST / 4 {
            return None;
        }
        let mut all = BTreeSet::new();
        for (place, digit) in digits.chars().rev().enumerate() {
            let bits = digit.to_digit(16)?;
            all.extend((0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| place * 4 + bit));
        }
        Some(Self(all))
    }

    /// Returns a list, `0-3,8`.
    pub fn list(&self) -> String {
        let mut parts: Vec<(usize, usize)> = Vec::new();
        for &core in &self.0 {
            match parts.last_mut() {
                Some((_, last)) if *last + 1 == core => *last = core,
                _ => parts.push((core, core)),
            }
        }
        let text = |&(first, last): &(usize, usize)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        parts.iter().map(text).collect::<Vec<_>>().join(",")
    }

    /// Returns `core 3` or `cores 0-3,8`.
    pub fn named(&self) -> String {
        let plural = if self.0.len() == 1 { "core" } else { "cores" };
        format!("{plural} {}", self.list())
    }

    /// Returns a mask, in the words of 32 bits that the kernel wants between commas.
    pub fn mask(&self) -> String {
        let words = self.0.last().map_or(0, |last| last / 32) + 1;
        let word = |at: usize| {
            (0..32)
                .filter(|bit| self.contains(at * 32 + bit))
                .fold(0u32, |w, bit| w | 1 << bit)
        };
        let mut text = format!("{:x}", word(words - 1));
        for at in (0..words - 1).rev() {
            text += &format!(",{:08x}", word(at));
        }
        text
    }

    /// Returns the cores that are not in `other`.
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Returns whether at least one core is in `other`.
    pub fn meets(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// Returns whether all cores are in `other`.
    pub fn within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Returns whether the set contains a core.
    pub fn contains(&self, core: usize) -> bool {
        self.0.contains(&core)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the cores in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn masks_are_the_kernels() {
        let cpus = |text: &str| Cpus::of_list(text).expect("a list");
        assert_eq!(cpus("0-1").mask(), "3");
        assert_eq!(cpus("0,32").mask(), "1,00000001");
        assert_eq!(Cpus::default().mask(), "0");
        assert_eq!(Cpus::of_mask("00000001,80000000"), Some(cpus("31,32")));
        for bad in ["", "g", "-1", "1-0", "99999"] {
            assert!(Cpus::of_mask(bad).is_none() || Cpus::of_list(bad).is_none(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_set_is_read_as_it_was_written(cores in prop::collection::btree_set(0usize..300, 0..40)) {
            let cpus = Cpus(cores);
            prop_assert_eq!(Cpus::of_list(&cpus.list()), Some(cpus.clone()));
            prop_assert_eq!(Cpus::of_mask(&cpus.mask()), Some(cpus));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = (Cpus::of_list(&text), Cpus::of_mask(&text));
        }
    }
}
