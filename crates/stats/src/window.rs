//! Sequence windows: which sequence numbers of a flow have been seen, for exact counts of duplicates and reordering.
//!
//! Each receive lane owns the windows of the flows that hash to its queue, so nothing is shared. A window is a ring of
//! bits; the memory of all flows together is bounded, and with many flows each window gets its share. In order, a
//! packet touches one word of bits and one number of its flow.

/// Meaning of the arrival of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Highest number of its flow so far.
    InOrder,
    /// New, but a later number of its flow has been seen. The value is how many sequence numbers it is behind the
    /// highest (1 or more; RFC 4737's reordering, RFC 5236's displacement).
    Reordered(u64),
    /// Seen before.
    Duplicate,
    /// So far behind the highest that the window can't distinguish new from seen.
    TooOld,
}

const WORD_BITS: u64 = 64;

/// Least bits per flow.
pub const MIN_WINDOW: u64 = 256;

/// Windows over `flows` flows, numbered from 0; each flow's sequence numbers start anywhere.
#[derive(Debug)]
pub struct SequenceWindows {
    bits: Box<[u64]>,
    /// Highest sequence number seen + 1, by flow; 0: none yet.
    next: Box<[u64]>,
    words: u64,
}

impl SequenceWindows {
    /// Creates windows for `flows` flows of at least `span` sequence numbers each if `max_bytes` allows, never less
    /// than [`MIN_WINDOW`].
    pub fn new(flows: usize, span: u64, max_bytes: usize) -> Self {
        let flows = flows.max(1);
        let words = Self::words(flows as u64, span, max_bytes);
        Self {
            bits: vec![0; words as usize * flows].into_boxed_slice(),
            next: vec![0; flows].into_boxed_slice(),
            words,
        }
    }

    /// Returns the words of the window of each flow.
    fn words(flows: u64, span: u64, max_bytes: usize) -> u64 {
        let affordable = (max_bytes as u64 * 8 / flows).max(MIN_WINDOW);
        let wanted = (span + 2 * WORD_BITS).max(MIN_WINDOW).min(affordable);
        // The largest power of two that is affordable, the smallest that suffices.
        let bits = wanted.next_power_of_two();
        let bits = if bits > affordable { bits / 2 } else { bits }.max(MIN_WINDOW);
        bits / WORD_BITS
    }

    /// Returns the bytes that [`SequenceWindows::new`] takes with the same arguments.
    pub fn bytes(flows: u64, span: u64, max_bytes: usize) -> u64 {
        let flows = flows.max(1);
        flows.saturating_mul((Self::words(flows, span, max_bytes) + 1) * 8)
    }

    /// Returns how far behind the highest a sequence number may be so that the window still knows whether it was seen.
    pub fn span(&self) -> u64 {
        (self.words - 1) * WORD_BITS
    }

    /// Returns the number of flows.
    pub fn flows(&self) -> usize {
        self.next.len()
    }

    /// Returns the highest sequence number seen in `flow` + 1; 0 if none was seen.
    #[inline]
    pub fn next(&self, flow: usize) -> u64 {
        self.next[flow]
    }

    /// Whether the window knows if number `seq` of `flow`, below [`SequenceWindows::next`], was seen.
    pub fn reaches(&self, flow: usize, seq: u64) -> bool {
        self.next[flow] / WORD_BITS - seq / WORD_BITS < self.words
    }

    /// Returns how many numbers of `flow` from `from` to below `to` have not been seen. The window must reach `from`.
    pub fn missing(&self, flow: usize, from: u64, to: u64) -> u64 {
        let base = flow * self.words as usize;
        let seen =
            |seq: u64| self.bits[base + ((seq / WORD_BITS) & (self.words - 1)) as usize] >> (seq % WORD_BITS) & 1;
        (from..to).map(|seq| 1 - seen(seq)).sum()
    }

    /// Returns the number that is expected next, by flow: the highest that came + 1; 0 if none came.
    pub fn into_next(self) -> Box<[u64]> {
        self.next
    }

    /// Forgets what was seen of `flow`, for example when its sender has started again.
    pub fn reset(&mut self, flow: usize) {
        let words = self.words as usize;
        self.bits[flow * words..(flow + 1) * words].fill(0);
        self.next[flow] = 0;
    }

    /// Notes that sequence number `seq` of `flow` has arrived. `seq` must be below `u64::MAX`.
    ///
    /// # Panics
    /// When `flow` is not below [`SequenceWindows::flows`].
    #[inline(always)]
    pub fn record(&mut self, flow: usize, seq: u64) -> Arrival {
        let next = self.next[flow];
        let base = flow * self.words as usize;
        let word = base + ((seq / WORD_BITS) & (self.words - 1)) as usize;
        let bit = 1u64 << (seq % WORD_BITS);
        if seq == next {
            // Entering a word clears it, so bits above the highest number are never stale.
            self.bits[word] = if seq.is_multiple_of(WORD_BITS) {
                bit
            } else {
                self.bits[word] | bit
            };
            self.next[flow] = seq + 1;
            return Arrival::InOrder;
        }
        self.record_other(flow, seq)
    }

    /// Notes the arrival of the next `n` sequence numbers of `flow`, from [`SequenceWindows::next`] on: the same as
    /// [`SequenceWindows::record`] for each, all of them in order.
    ///
    /// # Panics
    /// As [`SequenceWindows::record`].
    #[inline]
    pub fn record_next(&mut self, flow: usize, n: u64) {
        let base = flow * self.words as usize;
        let (mut seq, end) = (self.next[flow], self.next[flow] + n);
        while seq < end {
            let first = seq % WORD_BITS;
            let count = (WORD_BITS - first).min(end - seq);
            let bits = u64::MAX >> (WORD_BITS - count) << first;
            let word = &mut self.bits[base + ((seq / WORD_BITS) & (self.words - 1)) as usize];
            *word = if first == 0 { bits } else { *word | bits };
            seq += count;
        }
        self.next[flow] = end;
    }

    /// Notes a number that is not the next of its flow.
    #[inline(never)]
    fn record_other(&mut self, flow: usize, seq: u64) -> Arrival {
        let next = self.next[flow];
        let base = flow * self.words as usize;
        let word = base + ((seq / WORD_BITS) & (self.words - 1)) as usize;
        let bit = 1u64 << (seq % WORD_BITS);
        if seq > next {
            self.advance(base, next, seq);
            self.bits[word] |= bit;
            self.next[flow] = seq + 1;
            return Arrival::InOrder;
        }
        if next / WORD_BITS - seq / WORD_BITS >= self.words {
            return Arrival::TooOld;
        }
        if self.bits[word] & bit != 0 {
            return Arrival::Duplicate;
        }
        self.bits[word] |= bit;
        Arrival::Reordered(next - 1 - seq)
    }

    /// Clears the words between the one that holds `next` and the one that holds `seq`.
    #[cold]
    fn advance(&mut self, base: usize, next: u64, seq: u64) {
        // The word of `next` is already clean above `next` unless `next` would be the first bit of a new word.
        let first = if next.is_multiple_of(WORD_BITS) {
            next / WORD_BITS
        } else {
            next / WORD_BITS + 1
        };
        let last = seq / WORD_BITS;
        if last + 1 < first {
            return;
        }
        let count = (last + 1 - first).min(self.words);
        for i in 0..count {
            self.bits[base + ((last - i) & (self.words - 1)) as usize] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        /// Against a set that remembers everything, from random starts, with jumps that wrap the ring many times.
        #[test]
        fn agrees_with_a_set_within_its_span(
            start in prop_oneof![Just(0u64), 0u64..5000, Just(u64::MAX - 100_000)],
            steps in proptest::collection::vec((0u64..700, 0u64..600, any::<bool>()), 1..500),
        ) {
            let mut windows = SequenceWindows::new(3, 0, 0);
            let mut seen: HashSet<u64> = HashSet::new();
            let mut highest: Option<u64> = None;
            let mut at = start;
            for (back, forward, go) in steps {
                let seq = if go { at += forward; at } else { at.saturating_sub(back) };
                let arrival = windows.record(1, seq);
                match highest {
                    Some(h) if seq <= h => {
                        if arrival == Arrival::TooOld {
                            prop_assert!(h - seq > windows.span() - 1, "{h} {seq}");
                            continue;
                        }
                        if seen.contains(&seq) {
                            prop_assert_eq!(arrival, Arrival::Duplicate);
                        } else {
                            prop_assert_eq!(arrival, Arrival::Reordered(h - seq));
                        }
                    }
                    _ => {
                        prop_assert_eq!(arrival, Arrival::InOrder);
                        highest = Some(seq);
                    }
                }
                seen.insert(seq);
            }
            prop_assert_eq!(windows.next(0), 0);
            prop_assert_eq!(windows.next(2), 0);
        }

        #[test]
        fn memory_is_bounded_and_the_span_is_as_asked_where_affordable(flows in 1usize..5000, span in 0u64..1 << 22) {
            let windows = SequenceWindows::new(flows, span, 1 << 22);
            let told = SequenceWindows::bytes(flows as u64, span, 1 << 22);
            prop_assert_eq!(told, (windows.bits.len() + windows.next.len()) as u64 * 8);
            prop_assert!(windows.bits.len() * 8 <= (1 << 22).max(flows * MIN_WINDOW as usize / 8));
            prop_assert!(windows.span() >= MIN_WINDOW - WORD_BITS);
            if (span + 128).next_power_of_two() * flows as u64 <= (1 << 25) {
                prop_assert!(windows.span() >= span);
            }
        }
    }

    proptest! {
        #[test]
        fn a_run_of_the_next_numbers_is_as_each_of_them(
            start in 0u64..300, runs in proptest::collection::vec((0u64..300, 0u64..3), 1..50),
        ) {
            let (mut runwise, mut single) = (SequenceWindows::new(2, 0, 0), SequenceWindows::new(2, 0, 0));
            runwise.record(1, start);
            single.record(1, start);
            for (n, skip) in runs {
                runwise.record_next(1, n);
                for _ in 0..n {
                    prop_assert_eq!(single.record(1, single.next(1)), Arrival::InOrder);
                }
                let stray = single.next(1) + skip;
                prop_assert_eq!(runwise.record(1, stray), single.record(1, stray));
                prop_assert_eq!(runwise.next(1), single.next(1));
                prop_assert_eq!(&runwise.bits, &single.bits);
            }
        }
    }

    #[test]
    fn a_flow_that_was_reset_starts_anew() {
        let mut windows = SequenceWindows::new(1, 0, 0);
        assert_eq!(windows.record(0, 5), Arrival::InOrder);
        windows.reset(0);
        assert_eq!(windows.record(0, 5), Arrival::InOrder);
        assert_eq!(windows.record(0, 5), Arrival::Duplicate);
    }
}
