//! Numbers at random, by which runs know each other.

use std::hash::{BuildHasher, RandomState};

/// A number at random: a keyed hash whose key the standard library has from the kernel.
pub fn random_number() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_numbers_are_alike() {
        let numbers: std::collections::BTreeSet<_> = (0..1000).map(|_| super::random_number()).collect();
        assert_eq!(numbers.len(), 1000);
    }
}
