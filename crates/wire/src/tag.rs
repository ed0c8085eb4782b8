//! Tag of a test packet: the last 16 bytes of its innermost payload. It survives what changes headers: address
//! translation, routers, tunnels and VLAN tags that are put on or taken off, padding.
//!
//! Layout, big-endian: number (32 bits); two words of 16 bits, whose top bits are the marks and whose other bits are
//! together run (8) and flow (22); send time (36) and check (28). The check is keyed by the seed and covers all but the
//! marks. It is made of the number that the data before the tag count from, so that a packet needs one hash. The marks
//! are 01 in a packet as it was sent, and 10 in one that was returned: exchanging them changes no Internet checksum.

use crate::data::{STEP, base};

/// Bytes of a tag.
pub const TAG_LEN: usize = 16;
/// Number of flows that tags tell apart: flow numbers are below it.
pub const TAG_FLOWS: u32 = 1 << 22;

const TIME: u64 = (1 << 36) - 1;
const CHECK: u64 = (1 << 28) - 1;
const MARK: u16 = 0x8000;

/// Way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// As it was sent.
    Sent,
    /// Returned by a reflector.
    Returned,
}

/// Content of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Number of the packet in its flow, modulo 2^32.
    pub number: u32,
    /// Run that the packet is of.
    pub run: u8,
    /// Flow, below [`TAG_FLOWS`].
    pub flow: u32,
    /// Send time in ns, modulo 2^36 (some 68 s).
    pub time_ns: u64,
    /// Way of the packet.
    pub mark: Mark,
}

impl Tag {
    /// Returns the bytes, with a check keyed by `seed`.
    #[inline(always)]
    pub fn bytes(&self, seed: u64) -> [u8; TAG_LEN] {
        let flow = self.flow & (TAG_FLOWS - 1);
        let base = base(seed, u64::from(flow) << 32 | u64::from(self.number));
        let [first, last] = OfRun::new(self.run).words(base, flow, self.number, self.time_ns);
        let mut bytes = (u128::from(first) << 64 | u128::from(last)).to_be_bytes();
        if self.mark == Mark::Returned {
            mark_returned(&mut bytes);
        }
        bytes
    }

    /// Returns the tag that `bytes` hold, whatever their check is, with another send time and marked as sent.
    pub(crate) fn stamped(bytes: [u8; TAG_LEN], time_ns: u64) -> Self {
        let first = u128::from_be_bytes(bytes) >> 64;
        let both = (first as u32 >> 16 & 0x7fff) << 15 | first as u32 & 0x7fff;
        Self {
            number: (first >> 32) as u32,
            run: (both >> 22) as u8,
            flow: both & (TAG_FLOWS - 1),
            time_ns,
            mark: Mark::Sent,
        }
    }

    /// Reads a tag from the last bytes of a payload; `None` if its check is not that of `seed`.
    #[inline]
    pub fn read(payload: &[u8], seed: u64) -> Option<Self> {
        let whole = u128::from_be_bytes(*payload.last_chunk::<TAG_LEN>()?);
        let (first, last) = ((whole >> 64) as u64, whole as u64);
        const SENT: u64 = MARK as u64;
        const RETURNED: u64 = SENT << 16;
        let mark = match first & (SENT | RETURNED) {
            SENT => Mark::Sent,
            RETURNED => Mark::Returned,
            _ => return None,
        };
        let number = (first >> 32) as u32;
        let both = (first as u32 >> 16 & 0x7fff) << 15 | first as u32 & 0x7fff;
        let (run, flow) = ((both >> 22) as u8, both & (TAG_FLOWS - 1));
        let time_ns = last >> 28;
        let base = base(seed, u64::from(flow) << 32 | u64::from(number));
        (last & CHECK == check(base, OfRun::new(run).key, time_ns)).then_some(Self {
            number,
            run,
            flow,
            time_ns,
            mark,
        })
    }
}

/// Bits that are the same in all tags of a run, as they are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfRun {
    /// Run and mark in the first word, and run in the check.
    first: u64,
    key: u64,
}

impl OfRun {
    #[inline(always)]
    pub(crate) const fn new(run: u8) -> Self {
        Self {
            first: split((run as u32) << 22) | MARK as u64,
            key: (run as u64) << 36,
        }
    }

    /// Returns a tag as two big-endian words. The flow is below [`TAG_FLOWS`]; `base` is what the data of packet `flow
    /// * 2^32 + number` count from.
    #[inline(always)]
    pub(crate) const fn words(self, base: u64, flow: u32, number: u32, time_ns: u64) -> [u64; 2] {
        let time = time_ns & TIME;
        [
            (number as u64) << 32 | split(flow) | self.first,
            time << 28 | check(base, self.key, time),
        ]
    }
}

/// Returns run and flow, 30 bits, in two words of 15: the upper bits of both move by one place.
#[inline(always)]
const fn split(both: u32) -> u64 {
    (both + (both & !0x7fff)) as u64
}

/// Returns the check of a tag, 28 bits. All of it changes with the packet's base. With this factor it changes with each
/// bit of run and time, and with any two or three of them. These bits in the middle need no shift by two words, which
/// is slow.
#[inline(always)]
const fn check(base: u64, run: u64, time: u64) -> u64 {
    (base ^ (run | time)).wrapping_mul(STEP) >> 32 & CHECK
}

/// Marks a tag as returned. Returns `false`, and changes nothing, if it is not marked as sent.
#[inline]
pub fn mark_returned(tag: &mut [u8; TAG_LEN]) -> bool {
    let sent = tag[4] & 0x80 == 0 && tag[6] & 0x80 != 0;
    if sent {
        tag[4] |= 0x80;
        tag[6] &= 0x7f;
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sum;
    use proptest::prelude::*;

    prop_compose! {
        fn any_tag()(number: u32, run: u8, flow in 0..TAG_FLOWS, time_ns in 0..=TIME, back: bool) -> Tag {
            let mark = if back { Mark::Returned } else { Mark::Sent };
            Tag { number, run, flow, time_ns, mark }
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(tag in any_tag(), seed: u64, before in prop::collection::vec(any::<u8>(), 0..9)) {
            let payload = [before, tag.bytes(seed).to_vec()].concat();
            prop_assert_eq!(Tag::read(&payload, seed), Some(tag));
        }

        #[test]
        fn a_changed_bit_is_seen(tag in any_tag(), seed: u64, bit in 0usize..128) {
            let mut bytes = tag.bytes(seed);
            bytes[bit / 8] ^= 1 << (bit % 8);
            // Of numbers and flows one in 2^28 would be taken for another's.
            prop_assert_eq!(Tag::read(&bytes, seed), None);
        }

        #[test]
        fn each_one_or_two_bits_of_run_and_time_change_the_check(base: u64, of_tag in 0u64..1 << 44) {
            let check = |bits: u64| super::check(base, 0, bits);
            for one in 0..44 {
                for other in 0..44 {
                    let changed = of_tag ^ 1 << one ^ if other == one { 0 } else { 1 << other };
                    prop_assert_ne!(check(changed), check(of_tag), "bits {} and {}", one, other);
                }
            }
        }

        #[test]
        fn another_seed_reads_nothing(tag in any_tag(), seed: u64) {
            prop_assert_eq!(Tag::read(&tag.bytes(seed), seed ^ 1), None);
        }

        #[test]
        fn returning_changes_no_checksum(tag in any_tag(), seed: u64) {
            let mut bytes = Tag { mark: Mark::Sent, ..tag }.bytes(seed);
            let sum = Sum::ZERO.bytes(&bytes).fold();
            prop_assert!(mark_returned(&mut bytes));
            prop_assert_eq!(Sum::ZERO.bytes(&bytes).fold(), sum);
            prop_assert_eq!(Tag::read(&bytes, seed), Some(Tag { mark: Mark::Returned, ..tag }));
            prop_assert!(!mark_returned(&mut bytes), "twice");
        }
    }
}
