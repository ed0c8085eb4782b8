//! Which frame meets which fault, where a bit is flipped, and what is counted.

use super::LoopConfig;
use crate::{Layer, QueueCounters, counter};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Fault that a departing frame meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    Lose,
    Duplicate,
    Reorder,
    /// Flip the bit that this random number chooses.
    Corrupt(u64),
}

/// A seeded stream of numbers: SplitMix64 (Steele, Lea, Flood 2014).
pub(super) struct Random(u64);

impl Random {
    /// One of a lane's streams: neither two lanes nor two streams may go in step.
    pub(super) fn new(seed: u64, lane: usize, stream: u64) -> Self {
        Self(mix(seed ^ mix(lane as u64 ^ (stream << 32))))
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}

/// Chooses faults: one draw a frame.
pub(super) struct Dice {
    random: Random,
    /// Upper ends of the ranges of a 63-bit draw that stand for loss, duplication, reordering and corruption.
    ends: [u64; 4],
}

impl Dice {
    pub(super) fn new(config: &LoopConfig, queue: usize) -> Self {
        let mut sum = 0.0_f64;
        let ends = [config.loss, config.duplicate, config.reorder, config.corrupt].map(|ratio| {
            sum += ratio;
            (sum.min(1.0) * (1_u64 << 63) as f64) as u64
        });
        Self {
            random: Random::new(config.seed, queue, 0),
            ends,
        }
    }

    /// True when any frame can meet a fault.
    pub(super) fn loaded(&self) -> bool {
        self.ends[3] > 0
    }

    /// The next frame's fault.
    #[inline]
    pub(super) fn draw(&mut self) -> Fault {
        let random = self.random.next();
        let draw = random >> 1;
        let [lose, duplicate, reorder, corrupt] = self.ends;
        if draw >= corrupt {
            Fault::None
        } else if draw < lose {
            Fault::Lose
        } else if draw < duplicate {
            Fault::Duplicate
        } else if draw < reorder {
            Fault::Reorder
        } else {
            // The draw lies in a narrow range: mix it again for a position.
            Fault::Corrupt(mix(random))
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Bytes of a test packet's payload, from its start, that carry the stamp and no check of their own.
const UNCHECKED_STAMP: usize = 16;

/// Bytes of the tag at the end of a test packet of any headers.
const TAG: usize = 16;

/// Flips the payload bit that `random` chooses; false when the frame has none whose flipping is noticed. `tagged`: test
/// packets end with a tag, which alone is sure to be verified.
pub(super) fn flip(frame: &mut [u8], layer: Layer, tagged: bool, random: u64) -> bool {
    let range = match layer {
        Layer::Ethernet if tagged => frame.len().saturating_sub(TAG)..frame.len(),
        Layer::Ethernet => udp_payload(frame),
        Layer::Payload => UNCHECKED_STAMP..frame.len(),
    };
    let Some(payload) = frame.get_mut(range).filter(|payload| !payload.is_empty()) else {
        return false;
    };
    let bit = random as usize % (payload.len() * 8);
    payload[bit / 8] ^= 1 << (bit % 8);
    true
}

/// Returns the range of the UDP payload in an Ethernet frame, padding left out; empty when the frame isn't UDP over
/// IPv4 or IPv6, is cut short, or carries no UDP checksum (no flipped bit would be noticed). Looks past VLAN tags (IEEE
/// 802.1Q) and IPv4 options, not past IPv6 extension headers.
pub fn udp_payload(frame: &[u8]) -> Range<usize> {
    locate(frame).unwrap_or(0..0)
}

fn locate(frame: &[u8]) -> Option<Range<usize>> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut ip = 14;
    let mut ethertype = word(12)?;
    while matches!(ethertype, 0x8100 | 0x88a8) {
        ethertype = word(ip + 2)?;
        ip += 4;
    }
    let udp = match ethertype {
        // RFC 791: protocol at 9; a fragment (offset or more-fragments) at 6 has no whole UDP packet.
        0x0800 if *frame.get(ip + 9)? == 17 && word(ip + 6)? & 0x3fff == 0 => {
            ip + usize::from(*frame.get(ip)? & 0xf) * 4
        }
        // RFC 8200: next header at 6.
        0x86dd if *frame.get(ip + 6)? == 17 => ip + 40,
        _ => return None,
    };
    let checksum = word(udp + 6)?;
    // RFC 768: the length counts the header's 8 bytes.
    let end = udp + usize::from(word(udp + 4)?);
    (checksum != 0 && end >= udp + 8 && end <= frame.len()).then_some(udp + 8..end)
}

/// The faults that took effect on one queue. Only the lane that owns the queue writes them; any thread reads.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Counts {
    pub(super) lost: Count,
    pub(super) lost_outage: Count,
    pub(super) duplicated: Count,
    pub(super) reordered: Count,
    pub(super) corrupted: Count,
    pub(super) not_reflected: Count,
    pub(super) dropped_queue: Count,
    pub(super) dropped_burst: Count,
}

impl Counts {
    /// The totals, by name.
    pub(super) fn read(&self) -> QueueCounters {
        let other = vec![
            (counter::LOST, self.lost.get()),
            (counter::LOST_OUTAGE, self.lost_outage.get()),
            ("duplicated", self.duplicated.get()),
            ("reordered", self.reordered.get()),
            (counter::CORRUPTED, self.corrupted.get()),
            (counter::NOT_REFLECTED, self.not_reflected.get()),
            (counter::DROPPED_QUEUE, self.dropped_queue.get()),
            (counter::DROPPED_BURST, self.dropped_burst.get()),
        ];
        QueueCounters {
            other,
            ..QueueCounters::default()
        }
    }
}

/// A counter with one writer: a plain load and store, no locked read-modify-write.
#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(super) fn bump(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
