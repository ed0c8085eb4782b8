//! Choice of packets.

use std::ops::RangeInclusive;

/// Packets that are read of a file; the default is all.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Numbers of the first and the last packet, from 1 as Wireshark counts. Nothing behind the last is read, nor can
    /// it be at fault.
    pub numbers: RangeInclusive<u64>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { numbers: 1..=u64::MAX }
    }
}

impl Selection {
    /// Returns whether packet `number` is one of them.
    #[inline]
    pub fn takes(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }
}
