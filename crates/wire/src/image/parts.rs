//! An image as plain numbers, for writers that are not in this crate: programs in the kernel.

use super::column::{Source, place};
use super::region::Region;
use super::{Image, MOST_SUMS, Payload};

/// Packets of an image: a copy of the headers, a store for each writer in turn, data and tag, and the checksums in
/// their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Headers, with 0 where writers and checksums write.
    pub headers: Vec<u8>,
    /// Bytes of a frame.
    pub frame_len: usize,
    /// Bytes of data between headers and tag, which are a function of seed, flow and number
    /// ([`fill_back`](crate::fill_back)).
    pub data_len: usize,
    /// Seed of data and tags.
    pub seed: u64,
    /// Number of flows.
    pub flows: u32,
    /// Number of the first flow in tags.
    pub first_flow: u32,
    /// Fields that vary.
    pub writers: Vec<PartWriter>,
    /// Checksums, innermost first.
    pub sums: Vec<PartSum>,
}

/// Field that varies, and the bytes behind it: `constant | swap(word & mask)` is a little-endian word at `at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartWriter {
    /// Byte of the frame.
    pub at: u32,
    /// Bits of the field in a big-endian word.
    pub mask: u64,
    /// The other bytes.
    pub constant: u64,
    /// By checksum: factor of the swapped bits in its sum, 0, 1 or 256.
    pub factors: [u64; MOST_SUMS],
    /// Origin of the word.
    pub source: PartSource,
}

/// Origin of a writer's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartSource {
    /// `start + step * flow`.
    Counter {
        /// Word of flow 0.
        start: u64,
        /// Difference from one flow to the next.
        step: u64,
    },
    /// Words by flow.
    Table(Vec<u64>),
    /// Random numbers by packet: the upper half of `count` times number `number * flows + flow` of the sequence that
    /// `seed` begins, plus `low`, moved to the left.
    Random {
        /// Lowest number.
        low: u64,
        /// Number of numbers; 0 stands for 2^64.
        count: u64,
        /// Beginning of the sequence.
        seed: u64,
        /// Places to the left.
        shift: u32,
    },
}

/// Checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSum {
    /// Byte of the field.
    pub at: u32,
    /// Sum of all that is constant, as little-endian words.
    pub constant: u16,
    /// Factor of the sum of data and tag, 0, 1 or 256.
    pub rest: u64,
    /// By checksum before this one: factor of its field.
    pub inner: [u64; MOST_SUMS],
    /// Field in place of 0.
    pub zero: u16,
}

impl Image {
    /// Returns the image as plain numbers; `None` if it has what they can't say: a payload of other bytes, no tag,
    /// CRC32c, a wrong checksum, fields that share a byte or of which more than 64 bits vary, random values that others
    /// are made of.
    pub fn parts(&self) -> Option<Parts> {
        let verified = self.tagged && self.payload != Payload::Constant;
        if !verified || !self.wide.is_empty() {
            return None;
        }
        let counters = self.counters.iter().map(|counter| Some(counter.part()));
        let cycles = self.cycles.iter().map(|cycle| Some(cycle.part(self.flows as u32)));
        let columns = self.columns.iter().map(|column| column.part(self.flows as u32));
        Some(Parts {
            headers: self.bytes[..self.headers_len as usize].to_vec(),
            frame_len: self.frame_len,
            data_len: self.data_len,
            seed: self.seed,
            flows: self.flows as u32,
            first_flow: self.first_flow,
            writers: counters.chain(cycles).chain(columns).collect::<Option<_>>()?,
            sums: self.regions.iter().map(Region::part).collect::<Option<_>>()?,
        })
    }
}

impl Source {
    /// Returns the origin of the words as plain numbers, if it is plain.
    pub(super) fn part(&self, flows: u32) -> Option<PartSource> {
        Some(match self {
            Self::Counter { start, step } => PartSource::Counter {
                start: *start,
                step: *step,
            },
            Self::Cycle {
                start,
                step,
                every,
                period,
            } => {
                let word = |flow: u32| start.wrapping_add(step.wrapping_mul(place(flow.into(), *every, *period)));
                PartSource::Table((0..flows).map(word).collect())
            }
            Self::Table(words) => PartSource::Table(words.clone()),
            Self::Random(random, shift) => random.part(*shift),
            Self::Any(value, shift) if value.is_by_flow() => {
                let word = |flow: u32| value.of_packet(flow.into(), 0, 0) << shift;
                PartSource::Table((0..flows).map(word).collect())
            }
            Self::Any(..) => return None,
        })
    }
}
