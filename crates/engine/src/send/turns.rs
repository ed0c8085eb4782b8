//! Turns of streams without a rate: by weight, spread evenly, exact in each cycle.

use mpps_io::MAX_BURST;

/// Longest cycle. Weights with a longer one are rounded.
const LONGEST: u64 = 4096;

/// Streams in the order in which they send.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// A cycle, and the turns behind it that a burst may reach into, so that no burst looks for the end.
    turns: Vec<u32>,
    /// Turns of a cycle.
    len: usize,
    at: usize,
}

impl Turns {
    /// Makes the turns of streams with these numbers and weights, 1 or more each.
    pub(crate) fn new(streams: &[(usize, u32)]) -> Self {
        let common = streams
            .iter()
            .fold(0, |common, (_, weight)| gcd(common, u64::from(*weight)));
        let sum: u64 = streams.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let round = |weight: u64| match sum / common.max(1) > LONGEST {
            true => (weight * LONGEST / sum).max(1),
            false => weight / common.max(1),
        };
        let weights: Vec<u64> = streams.iter().map(|(_, weight)| round(u64::from(*weight))).collect();
        let length: u64 = weights.iter().sum();
        // Smooth round-robin: who has waited longest for its share is next.
        let mut credit = vec![0i64; weights.len()];
        let cycle = (0..length).filter_map(|_| {
            for (credit, weight) in credit.iter_mut().zip(&weights) {
                *credit += weight.cast_signed();
            }
            let place = (0..credit.len()).max_by_key(|place| (credit[*place], std::cmp::Reverse(*place)))?;
            credit[place] -= length.cast_signed();
            Some(streams[place].0 as u32)
        });
        let mut turns = Self {
            turns: Vec::with_capacity(length as usize + MAX_BURST),
            len: 0,
            at: 0,
        };
        turns.turns.extend(cycle);
        turns.repeat();
        turns
    }

    /// Repeats the turns, which are one cycle, as far as a burst reaches.
    fn repeat(&mut self) {
        self.len = self.turns.len();
        for place in 0..if self.len > 0 { MAX_BURST } else { 0 } {
            self.turns.push(self.turns[place]);
        }
    }

    /// Returns the stream whose turn it is; `None`: there is none.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<usize> {
        let stream = *self.turns.get(self.at)?;
        self.at += 1;
        if self.at == self.len {
            self.at = 0;
        }
        Some(stream as usize)
    }

    /// Takes the next `n` turns, [`MAX_BURST`] at the most, of streams that all have more packets than that.
    #[inline]
    pub(crate) fn take(&mut self, n: usize) -> &[u32] {
        let at = self.at;
        self.at = (at + n) % self.len.max(1);
        self.turns.get(at..at + n).unwrap_or_default()
    }

    /// Takes out a stream that has ended. The others go on in their order.
    #[cold]
    pub(crate) fn remove(&mut self, stream: usize) {
        let is_other = |of: &u32| *of as usize != stream;
        self.at = self.turns[..self.at].iter().filter(|of| is_other(of)).count();
        self.turns.truncate(self.len);
        self.turns.retain(is_other);
        self.repeat();
        if self.at == self.len {
            self.at = 0;
        }
    }

    /// Returns whether no stream is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(streams: &[(usize, u32)], n: usize) -> Vec<usize> {
        let mut turns = Turns::new(streams);
        (0..n).map_while(|_| turns.next()).collect()
    }

    #[test]
    fn each_cycle_has_all_streams_by_their_weights_and_spreads_them() {
        assert_eq!(turns(&[(4, 3), (7, 1)], 8), [4, 4, 7, 4, 4, 4, 7, 4]);
        assert_eq!(turns(&[(0, 10), (1, 10), (2, 10)], 4), [0, 1, 2, 0]);
        let all = turns(&[(0, 7), (1, 4), (2, 1)], 12);
        assert_eq!(
            [0, 1, 2].map(|of| all.iter().filter(|stream| **stream == of).count()),
            [7, 4, 1]
        );
    }

    #[test]
    fn a_stream_that_has_ended_leaves_the_others_in_their_order() {
        let mut turns = Turns::new(&[(0, 2), (1, 1), (2, 1)]);
        let first: Vec<usize> = (0..2).filter_map(|_| turns.next()).collect();
        turns.remove(1);
        let rest: Vec<usize> = (0..6).filter_map(|_| turns.next()).collect();
        assert_eq!((first, rest), (vec![0, 1], vec![2, 0, 0, 2, 0, 0]));
        turns.remove(0);
        turns.remove(2);
        assert!(turns.is_empty() && turns.next().is_none());
    }

    #[test]
    fn turns_of_a_burst_are_those_that_come_one_by_one() {
        for weights in [&[(3, 1)][..], &[(0, 2), (1, 1), (2, 1)], &[(0, 7), (1, 4), (5, 1)]] {
            let (mut together, mut one_by_one) = (Turns::new(weights), Turns::new(weights));
            for n in [1, 5, 32, 7, MAX_BURST, 2, 0] {
                let each: Vec<u32> = (0..n).filter_map(|_| one_by_one.next()).map(|of| of as u32).collect();
                assert_eq!(together.take(n), each);
            }
        }
    }

    #[test]
    fn weights_far_apart_are_rounded_and_none_is_left_out() {
        let all = turns(&[(0, 1_000_000), (1, 1)], 5000);
        assert!(all.contains(&1) && all.iter().filter(|stream| **stream == 0).count() > 4000);
        assert_eq!(turns(&[], 3), [0usize; 0]);
        assert!(Turns::new(&[]).is_empty());
    }
}
