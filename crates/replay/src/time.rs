//! Times of packets: units of an interface as ns since 1970.

/// Nanoseconds of a second.
const SECOND: u32 = 1_000_000_000;

/// Clock of an interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    scale: Scale,
    /// Time to add, ns.
    offset_ns: i128,
}

/// Nanoseconds of a unit.
#[derive(Clone, Copy, Debug)]
enum Scale {
    /// So many.
    Times(u64),
    /// One of so many parts.
    Part(u64),
    /// Seconds of 2^n parts.
    Shift(u32),
    /// None, for any number of units.
    Zero,
}

impl Default for Clock {
    /// Microseconds.
    fn default() -> Self {
        Self::new(6, 0)
    }
}

impl Clock {
    /// Reads the options `if_tsresol` and `if_tsoffset` of pcapng: parts of a second as a negative power of 10, or of 2
    /// with the top bit set, and seconds to add.
    pub(crate) fn new(resolution: u8, offset_s: i64) -> Self {
        let scale = match resolution {
            0..=9 => Scale::Times(10u64.pow(9 - u32::from(resolution))),
            10..=28 => Scale::Part(10u64.pow(u32::from(resolution) - 9)),
            29..=127 => Scale::Zero,
            128.. => Scale::Shift(u32::from(resolution & 0x7f)),
        };
        Self {
            scale,
            offset_ns: i128::from(offset_s) * i128::from(SECOND),
        }
    }

    /// Returns ns since 1970, rounded down.
    #[inline]
    pub(crate) fn ns(&self, units: u64) -> i128 {
        let ns = match self.scale {
            Scale::Times(ns) => i128::from(units) * i128::from(ns),
            Scale::Part(parts) => i128::from(units / parts),
            Scale::Shift(bits) => (i128::from(units) * i128::from(SECOND)) >> bits,
            Scale::Zero => 0,
        };
        ns + self.offset_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_ten_or_of_two() {
        assert_eq!(Clock::default().ns(1_500_000), 1_500_000_000);
        assert_eq!(Clock::new(9, 0).ns(7), 7);
        assert_eq!(Clock::new(0, 0).ns(u64::MAX), i128::from(u64::MAX) * 1_000_000_000);
        assert_eq!(Clock::new(12, 0).ns(7_999), 7);
        assert_eq!(Clock::new(28, 0).ns(u64::MAX), 1);
        assert_eq!(Clock::new(29, 0).ns(u64::MAX), 0);
        // 2^-10 s, and 2^-32 s as of NTP.
        assert_eq!(Clock::new(0x8a, 0).ns(512), 500_000_000);
        assert_eq!(Clock::new(0xa0, 0).ns(3 << 31), 1_500_000_000);
        assert_eq!(Clock::new(0xff, 0).ns(u64::MAX), 0);
        assert_eq!(Clock::new(6, -1).ns(1), 1_000 - 1_000_000_000);
        let latest = Clock::new(0x80, i64::MAX).ns(u64::MAX);
        assert_eq!(latest, (i128::from(u64::MAX) + i128::from(i64::MAX)) * 1_000_000_000);
    }
}
