//! The times that a lane has stamped packets with, for another program that is to recognise its packets.
//!
//! A stamp is a nanosecond of the host's clock, and a burst has one: no other run has the same but by chance. A program
//! that sees a packet far from here (in the kernel, watching dropped packets) finds out by the stamp which lane sent
//! it. The lane writes two words per burst, and only if another program reads them.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory for the stamps of one lane: a word that counts them, and from [`StampMemory::PLACES_AT`] on a place for each
/// of the newest. The number of places is a power of two.
pub struct StampMemory(Box<dyn Deref<Target = [AtomicU64]> + Send + Sync>);

impl fmt::Debug for StampMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StampMemory")
            .field("words", &self.0.len())
            .finish_non_exhaustive()
    }
}

impl StampMemory {
    /// Index of the first place: the count has a cache line of its own.
    pub const PLACES_AT: usize = 8;

    /// Uses memory that nobody else writes to.
    ///
    /// # Panics
    /// When the number of places is no power of two.
    pub fn new(words: impl Deref<Target = [AtomicU64]> + Send + Sync + 'static) -> Self {
        let places = words.len().saturating_sub(Self::PLACES_AT);
        assert!(places.is_power_of_two(), "{places} places for stamps");
        Self(Box::new(words))
    }

    /// Returns the lane's end of the memory.
    pub(crate) fn lane(&self) -> LaneStamps<'_> {
        LaneStamps {
            count: &self.0[0],
            places: &self.0[Self::PLACES_AT..],
        }
    }
}

/// A lane's end of a [`StampMemory`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneStamps<'r> {
    count: &'r AtomicU64,
    places: &'r [AtomicU64],
}

impl LaneStamps<'_> {
    /// Notes the stamp of the packets that leave next.
    #[inline]
    pub(crate) fn note(&self, time_ns: u64) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some(place) = self.places.get(count as usize & (self.places.len() - 1)) {
            place.store(time_ns, Ordering::Relaxed);
            // A reader that sees the count sees the stamp.
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
