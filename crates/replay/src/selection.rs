//! Choice of packets.

use crate::matcher::Matcher;
use std::ops::RangeInclusive;

/// Packets that are read of a file; the default is all.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Numbers of the first and the last packet, from 1 as Wireshark counts. Nothing behind the last is read, nor can
    /// it be at fault.
    pub numbers: RangeInclusive<u64>,
    /// Test that packets pass; `None`: any packet.
    pub only: Option<Matcher>,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            numbers: 1..=u64::MAX,
            only: None,
        }
    }
}

impl Selection {
    /// Returns whether packet `number` is one of them.
    #[inline]
    pub fn takes(&self, number: u64, frame: &[u8]) -> bool {
        self.numbers.contains(&number) && self.only.as_ref().is_none_or(|only| only.matches(frame))
    }
}
