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

/// Division by a constant, without dividing, of numbers below 2^22 by any, or of numbers below 2^33 by one below 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisor {
    by: u64,
    /// 2^64 divided by the divisor, rounded up, modulo 2^64: the bits of its reciprocal behind the point.
    factor: u64,
}

impl Divisor {
    /// Makes the divisor; 0 stands for 1.
    pub fn new(by: u64) -> Self {
        // No number that a larger one divides is as large as this.
        let by = by.clamp(1, 1 << 31);
        Self {
            by,
            factor: (u64::MAX / by).wrapping_add(1),
        }
    }

    /// Returns `n / by`.
    #[inline(always)]
    pub fn quotient(self, n: u64) -> u64 {
        match self.by {
            1 => n,
            _ => high(self.factor, n),
        }
    }

    /// Returns `n % by`: the fraction that the quotient leaves, times the divisor. Factor and number have an error
    /// below n / 2^64, so that of the product is below 1 as long as n * by is at most 2^64.
    #[inline(always)]
    pub fn remainder(self, n: u64) -> u64 {
        high(self.factor.wrapping_mul(n), self.by)
    }
}

/// Returns the upper half of a product.
#[inline(always)]
fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
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

        #[test]
        fn a_small_divisor_divides_larger_numbers(n in 0u64..1 << 33, by in prop_oneof![1u64..100, 1u64..1 << 31]) {
            let divisor = Divisor::new(by);
            for n in [n, n / by * by, (n / by * by).saturating_sub(1), (1 << 33) - 1] {
                prop_assert_eq!((divisor.quotient(n), divisor.remainder(n)), (n / by, n % by));
            }
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
