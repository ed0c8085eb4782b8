//! Shares that are compared exactly.

use std::fmt;

/// A share of one in whole billionths: 0.5 % is 5,000,000. At 50 % equality decides between two classes, so shares are
/// not floating-point numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(u32);

impl Ratio {
    /// Ratio of 0.
    pub const ZERO: Self = Self(0);
    /// Ratio of one half.
    pub const HALF: Self = Self(500_000_000);
    const ONE: u32 = 1_000_000_000;

    /// Returns the ratio of this many billionths; `None` if the ratio is 1 or more.
    pub fn of_billionths(billionths: u32) -> Option<Self> {
        (billionths < Self::ONE).then_some(Self(billionths))
    }

    /// Returns the ratio nearest to `share`; `None` if `share` is not within 0 and 1, or rounds to 1.
    pub fn of_share(share: f64) -> Option<Self> {
        let billionths = (share * f64::from(Self::ONE)).round();
        (0.0..f64::from(Self::ONE))
            .contains(&billionths)
            .then_some(Self(billionths as u32))
    }

    /// Returns the ratio as a share of one.
    pub fn share(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE)
    }

    /// Returns the billionths of the ratio.
    pub(crate) fn part(self) -> u128 {
        u128::from(self.0)
    }

    /// Returns the billionths of what is left of one.
    pub(crate) fn rest(self) -> u128 {
        u128::from(Self::ONE - self.0)
    }

    pub(crate) fn whole() -> u128 {
        u128::from(Self::ONE)
    }

    /// Whether `part` of `whole` is more than this ratio.
    pub(crate) fn is_exceeded(self, part: u64, whole: u64) -> bool {
        u128::from(part) * Self::whole() > u128::from(whole) * self.part()
    }
}

/// Prints the ratio in per cent, without trailing zeros.
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
