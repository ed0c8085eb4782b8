//! The longest burst that is forwarded without loss (RFC 9004): binary search with loss verification.

/// A burst, and whether all of it came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Frames that were asked for.
    pub frames: u64,
    /// Whether no frame was lost.
    pub passed: bool,
}

/// Next step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextBurst {
    /// Try a burst of this many frames.
    Try(u64),
    /// The search is over, with this result.
    Done(Longest),
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Longest {
    /// Longest burst that passes, frames; the next step up does not pass.
    Frames(u64),
    /// The longest burst that may be tried passes, or the longest that passes comes so close that nothing is known of
    /// the device. RFC 9004 has the search repeated with a higher limit.
    AtLimit,
    /// Even the shortest burst loses frames.
    None,
}

/// A search between two lengths, in frames.
///
/// Lengths are halved by ratio, as buffers differ by orders of magnitude. A burst that loses frames is repeated: it
/// counts as too long only if all attempts lose frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstSearch {
    /// Shortest burst, frames.
    pub min: u64,
    /// Longest burst, frames.
    pub max: u64,
    /// Largest distance of the two ends, as a share of the longer one.
    pub width: f64,
    /// Attempts per burst.
    pub attempts: u32,
}

impl BurstSearch {
    /// Returns the next step after `bursts`, which are all bursts of this search, in order.
    pub fn next(&self, bursts: &[Burst]) -> NextBurst {
        let passed = bursts.iter().filter(|burst| burst.passed).map(|burst| burst.frames);
        let tries = |frames: u64| bursts.iter().filter(|burst| burst.frames == frames).count() as u32;
        let low = passed.clone().max();
        let passes = |frames: u64| passed.clone().any(|there| there == frames);
        if let Some(last) = bursts.last().filter(|last| !passes(last.frames))
            && tries(last.frames) < self.attempts
        {
            return NextBurst::Try(last.frames);
        }
        let failed = bursts.iter().filter(|burst| !passes(burst.frames));
        // A burst that is longer than one that failed is not believed.
        let high = failed.map(|burst| burst.frames).min();
        let low = low.filter(|low| high.is_none_or(|high| *low < high)).or_else(|| {
            let below = passed.clone().filter(|frames| high.is_none_or(|high| *frames < high));
            below.max()
        });
        let close = |low: u64, high: u64| (high - low) as f64 <= (high as f64 * self.width).max(1.0);
        let middle = |low: u64, high: u64| {
            let middle = (low as f64 * high as f64).sqrt() as u64;
            middle.clamp(low + 1, high - 1)
        };
        match (low, high) {
            (_, Some(high)) if high <= self.min => NextBurst::Done(Longest::None),
            (None, None) => {
                NextBurst::Try(((self.min as f64 * self.max as f64).sqrt() as u64).clamp(self.min, self.max))
            }
            (Some(low), None) if low >= self.max || close(low, self.max) => NextBurst::Done(Longest::AtLimit),
            (Some(low), None) => NextBurst::Try(middle(low, self.max + 1)),
            (Some(low), Some(high)) if close(low, high) => NextBurst::Done(Longest::Frames(low)),
            (Some(low), Some(high)) => NextBurst::Try(middle(low, high)),
            (None, Some(high)) if close(self.min, high) => NextBurst::Try(self.min),
            (None, Some(high)) => NextBurst::Try(middle(self.min, high)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEARCH: BurstSearch = BurstSearch {
        min: 16,
        max: 30_000_000,
        width: 0.01,
        attempts: 2,
    };

    /// Runs a search against a device. Returns its result and its bursts.
    fn search(search: BurstSearch, mut passes: impl FnMut(u64, usize) -> bool) -> (Longest, Vec<Burst>) {
        let mut bursts = Vec::new();
        for number in 0..200 {
            match search.next(&bursts) {
                NextBurst::Done(longest) => return (longest, bursts),
                NextBurst::Try(frames) => bursts.push(Burst {
                    frames,
                    passed: passes(frames, number),
                }),
            }
        }
        panic!("no end: {bursts:?}");
    }

    #[test]
    fn the_shortest_and_the_longest_are_told_from_what_was_found() {
        assert_eq!(search(SEARCH, |_, _| false).0, Longest::None);
        assert_eq!(search(SEARCH, |_, _| true).0, Longest::AtLimit);
    }

    proptest! {
        #[test]
        fn a_buffer_s_size_is_found_within_the_width(room in 16u64..20_000_000) {
            let (longest, bursts) = search(SEARCH, |frames, _| frames <= room);
            let Longest::Frames(found) = longest else { panic!("{longest:?}") };
            prop_assert!(found <= room && found as f64 >= room as f64 * 0.98 - 2.0, "{found} of {room}");
            prop_assert!(bursts.len() < 40);
        }

        #[test]
        fn one_loss_of_a_burst_that_fits_does_not_shorten_it(room in 1_000u64..1_000_000, bad in 0usize..12) {
            // One frame is lost by chance; the second attempt passes.
            let (longest, _) = search(SEARCH, |frames, number| frames <= room && number != bad);
            let Longest::Frames(found) = longest else { panic!("{longest:?}") };
            prop_assert!(found <= room && found as f64 >= room as f64 * 0.98 - 2.0, "{found} of {room}");
        }

        #[test]
        fn any_answers_come_to_an_end(answers in prop::collection::vec(any::<bool>(), 200)) {
            search(SEARCH, |_, number| answers[number]);
        }
    }
}
