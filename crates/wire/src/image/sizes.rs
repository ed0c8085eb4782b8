//! Which of a stream's sizes each packet has.

use crate::data::base;

/// Order of a stream's sizes: a pure function of flow and number, so that a receiver knows the size of each packet.
/// Sizes are numbered from 0, the smallest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All packets have one size.
    One,
    /// These sizes in turn. They go on with each packet of a flow and from one flow to the next, so that each flow has
    /// all of them.
    Turns(Vec<u16>),
    /// Any of so many sizes, at random.
    Random {
        /// Number of sizes, 1 or more.
        count: u64,
        /// Beginning of the sequence.
        seed: u64,
    },
}

impl Sizes {
    /// Returns the size of packet `number` of a flow, one of `flows`. The number is its tag's: the lowest 32 bits.
    #[inline]
    pub fn at(&self, flow: u32, number: u32, flows: u32) -> usize {
        match self {
            Self::One => 0,
            Self::Turns(turns) => {
                let turn = (u64::from(flow) + u64::from(number)) % turns.len().max(1) as u64;
                turns.get(turn as usize).copied().unwrap_or_default().into()
            }
            Self::Random { count, seed } => {
                let n = u64::from(number) * u64::from(flows) + u64::from(flow);
                // The product's upper half: as even as 64 bits allow.
                ((u128::from(base(*seed, n)) * u128::from(*count)) >> 64) as usize
            }
        }
    }
}
