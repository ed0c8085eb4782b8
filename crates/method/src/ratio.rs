//! Shares that are compared exactly.

use std::fmt;

/// A share of one in whole billionths: 0.5 % is 5,000,000. At 50 % equality decides between two classes, so shares are
/// no floating-point numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(u32);

impl Ratio {
    /// None of it.
    pub const ZERO: Self = Self(0);
    /// Half of it.
    pub const HALF: Self = Self(500_000_000);
    const ONE: u32 = 1_000_000_000;

    /// So many billionths; `None` where that is one or more.
    pub fn of_billionths(billionths: u32) -> Option<Self> {
        (billionths < Self::ONE).then_some(Self(billionths))
    }

    /// The nearest; `None` where the share is not within 0 and 1, or rounds to 1.
    pub fn of_share(share: f64) -> Option<Self> {
        let billionths = (share * f64::from(Self::ONE)).round();
        (0.0..f64::from(Self::ONE))
            .contains(&billionths)
            .then_some(Self(billionths as u32))
    }

    /// As a share of one.
    pub fn share(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE)
    }

    /// Billionths of it.
    pub(crate) fn part(self) -> u128 {
        u128::from(self.0)
    }

    /// Billionths of what is left of one.
    pub(crate) fn rest(self) -> u128 {
        u128::from(Self::ONE - self.0)
    }

    pub(crate) fn whole() -> u128 {
        u128::from(Self::ONE)
    }

    /// Whether `part` of `whole` is more than this share of it.
    pub(crate) fn is_exceeded(self, part: u64, whole: u64) -> bool {
        u128::from(part) * Self::whole() > u128::from(whole) * self.part()
    }
}

/// In per cent, with the digits that it has.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (percent, rest) = (self.0 / 10_000_000, self.0 % 10_000_000);
        if rest == 0 {
            return write!(f, "{percent} %");
        }
        let digits = format!("{rest:07}");
        write!(f, "{percent}.{} %", digits.trim_end_matches('0'))
    }
}
