//! Which of a stream's sizes each packet has.

use crate::data::base;
use crate::vary::Divisor;

/// Order of a stream's sizes: a pure function of flow and number, so that a receiver knows the size of each packet.
/// Sizes are numbered from 0, the smallest.
/// It has a number of its own, which is compared once for each packet: one hidden in other values takes more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Sizes {
    /// All packets have one size.
    One,
    /// Sizes in turn. They go on with each packet of a flow and from one flow to the next, so that each flow has all of
    /// them.
    Turns {
        /// Sizes, 1 or more.
        turns: Vec<u16>,
        /// Their number.
        count: Divisor,
    },
    /// Any of so many sizes, at random.
    Random {
        /// Number of sizes, 1 or more.
        count: u64,
        /// Beginning of the sequence.
        seed: u64,
    },
}

impl Sizes {
    /// Returns the order in which these sizes, less than 2^31, come in turn.
    pub fn in_turn(turns: Vec<u16>) -> Self {
        Self::Turns {
            count: Divisor::new(turns.len() as u64),
            turns,
        }
    }

    /// Returns the size of packet `number` of a flow, one of `flows`. The number is its tag's: the lowest 32 bits.
    #[inline]
    pub fn at(&self, flow: u32, number: u32, flows: u32) -> usize {
        match self {
            Self::One => 0,
            Self::Turns { turns, count } => {
                let turn = count.remainder(u64::from(flow) + u64::from(number));
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
