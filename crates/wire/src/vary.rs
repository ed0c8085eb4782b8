//! Values that vary from packet to packet: pure functions of a number, so that any packet can be made by itself.

use crate::data::base;

/// Returns number `i` of a sequence of random numbers, 0 to `span`.
#[inline]
pub fn scaled(i: u64, seed: u64, span: u128) -> u128 {
    let low = base(seed, i);
    match u64::try_from(span) {
        Ok(u64::MAX) => u128::from(low),
        // The product's upper half: as even as 64 bits allow.
        Ok(span) => (u128::from(low) * (u128::from(span) + 1)) >> 64,
        Err(_) => wide(u128::from(base(!seed, i)) << 64 | u128::from(low), span),
    }
}

#[cold]
fn wide(number: u128, span: u128) -> u128 {
    match span.checked_add(1) {
        Some(values) => number % values,
        None => number,
    }
}

/// Returns number `i`, below `count`, of a random order of the numbers below `count`: a Feistel network over the next
/// power of four, walked until it gives a number below `count`.
#[inline]
pub fn shuffled(i: u64, count: u64, seed: u64) -> u64 {
    let half = (u64::BITS - count.saturating_sub(1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u64 << half) - 1;
    let mut at = i;
    loop {
        let (mut left, mut right) = (at >> half, at & mask);
        for round in 0..4 {
            let mixed = base(seed.wrapping_add(round), right) & mask;
            (left, right) = (right, left ^ mixed);
        }
        at = left << half | right;
        if at < count {
            return at;
        }
    }
}

/// Division of flow numbers by a constant, without dividing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    by: u64,
    /// 2^44 divided by the divisor, rounded up; 0: no flow number is as large as the divisor.
    factor: u64,
}

impl Divisor {
    /// Numbers that are divided have at most so many bits.
    const BITS: u32 = 22;

    pub(crate) fn new(by: u64) -> Self {
        let by = by.max(1);
        let large = by > 1 << Self::BITS;
        Self {
            by,
            factor: if large {
                0
            } else {
                (1u64 << (2 * Self::BITS)).div_ceil(by)
            },
        }
    }

    /// Returns `n / by`, of a number below 2^22.
    #[inline(always)]
    pub(crate) fn quotient(self, n: u64) -> u64 {
        // The error of the factor is below by / 2^44 of it, so that of the product is below 1 / by as long as n * by is
        // at most 2^44.
        ((u128::from(n) * u128::from(self.factor)) >> (2 * Self::BITS)) as u64
    }

    /// Returns `n % by`, of a number below 2^22.
    #[inline(always)]
    pub(crate) fn remainder(self, n: u64) -> u64 {
        n - self.quotient(n) * self.by
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_divisor_divides(n in 0u64..1 << 22, by in prop_oneof![1u64..100, 1u64..1 << 23, 1u64..u64::MAX]) {
            let divisor = Divisor::new(by);
            prop_assert_eq!((divisor.quotient(n), divisor.remainder(n)), (n / by, n % by));
        }
    }

    #[test]
    fn the_largest_numbers_are_divided() {
        for by in [1, 2, 3, (1 << 22) - 1, 1 << 22, (1 << 22) + 1] {
            for n in [0, 1, by - 1, by.min((1 << 22) - 1), (1 << 22) - 1] {
                if n < 1 << 22 {
                    assert_eq!(Divisor::new(by).quotient(n), n / by, "{n} / {by}");
                }
            }
        }
    }
}
