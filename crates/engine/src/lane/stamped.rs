//! The times that a lane has stamped packets with, for whoever is to know its packets again.
//!
//! A stamp is a nanosecond of the host's clock, and a burst has one: no other run has the same but by chance. Whoever
//! sees a packet far from here (a program in the kernel that watches what is dropped) finds out by it whose it is. The
//! lane writes two words a burst, and only where somebody reads them.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory for the stamps of one lane: a word that counts them, and from [`StampMemory::PLACES_AT`] on a place for each
/// of the newest, a power of two of them.
pub struct StampMemory(Box<dyn Deref<Target = [AtomicU64]> + Send + Sync>);

impl fmt::Debug for StampMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StampMemory")
            .field("words", &self.0.len())
            .finish_non_exhaustive()
    }
}

impl StampMemory {
    /// Where places begin: the count has a cache line of its own.
    pub const PLACES_AT: usize = 8;

    /// Of memory that nobody else writes to.
    ///
    /// # Panics
    /// When the number of places is no power of two.
    pub fn new(words: impl Deref<Target = [AtomicU64]> + Send + Sync + 'static) -> Self {
        let places = words.len().saturating_sub(Self::PLACES_AT);
        assert!(places.is_power_of_two(), "{places} places for stamps");
        Self(Box::new(words))
    }

    /// The lane's end of it.
    pub(crate) fn lane(&self) -> LaneStamps<'_> {
        LaneStamps {
            count: &self.0[0],
            places: &self.0[Self::PLACES_AT..],
        }
    }
}

/// See [`StampMemory`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneStamps<'r> {
    count: &'r AtomicU64,
    places: &'r [AtomicU64],
}

impl LaneStamps<'_> {
    /// Packets that leave next have this stamp.
    #[inline]
    pub(crate) fn note(&self, time_ns: u64) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some(place) = self.places.get(count as usize & (self.places.len() - 1)) {
            place.store(time_ns, Ordering::Relaxed);
            // Whoever sees the count sees the stamp.
            self.count.store(count + 1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stamps_are_in_their_places_behind_their_count() {
        let words: Box<[AtomicU64]> = (0..8 + 4).map(|_| AtomicU64::new(0)).collect();
        let memory = StampMemory::new(words);
        let lane = memory.lane();
        (1..=6).for_each(|time| lane.note(time * 10));
        let found: Vec<u64> = memory.0.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        assert_eq!(found, [6, 0, 0, 0, 0, 0, 0, 0, 50, 60, 30, 40]);
    }
}
