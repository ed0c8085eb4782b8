//! What a lane's flight recorder keeps: a record for each burst, and one for each stretch without any.

use crate::{LaneTrace, LeftOut, Stage};

/// What a record is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Did {
    /// One round of the loop that moved packets.
    #[default]
    Burst,
    /// Rounds in a row that found nothing: [`Round::polls`] of them.
    Polled,
    /// Asleep.
    Slept,
    /// Awake without anything to do.
    Spun,
}

/// A record, 64 bytes: a cache line.
///
/// The parts of a burst follow each other in the order of [`Round::STAGES`], from [`at_ns`](Self::at_ns) on. What
/// other stretches took is [`parts`](Self::parts)`[0]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// When it began, ns.
    pub at_ns: u64,
    /// Test packets that this lane had sent before it (over its flows).
    pub sent_before: u64,
    /// How long each part took, ns; at most 4.29 s, a longer one is `u32::MAX`.
    pub parts: [u32; 7],
    /// Packets received and sent in it.
    pub rx: u16,
    /// As [`rx`](Self::rx).
    pub tx: u16,
    /// Rounds that found nothing, of [`Did::Polled`] and [`Did::Spun`].
    pub polls: u32,
    /// The fill of the receive ring or socket as it was seen last, packets; `u32::MAX`: not known.
    pub fill: u32,
    /// By how much the worst packet of the burst left after its scheduled time, ns; `u32::MAX` or more is cut off.
    pub late_ns: u32,
    /// What it is of.
    pub did: Did,
}

impl Round {
    /// The stage of each place of [`parts`](Self::parts) of a burst.
    pub const STAGES: [Stage; 7] = [
        Stage::Receive,
        Stage::Classify,
        Stage::Allocate,
        Stage::Write,
        Stage::Transmit,
        Stage::Flush,
        Stage::Rest,
    ];

    /// Words of a record as a recorder stores it.
    pub const WORDS: usize = 8;

    /// The record as words.
    pub fn to_words(&self) -> [u64; Self::WORDS] {
        let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let p = &self.parts;
        [
            self.at_ns,
            self.sent_before,
            two(p[0], p[1]),
            two(p[2], p[3]),
            two(p[4], p[5]),
            two(p[6], u32::from(self.rx) | u32::from(self.tx) << 16),
            two(self.polls, self.fill),
            two(self.late_ns, self.did as u32),
        ]
    }

    /// The record that these words are of.
    pub fn from_words(words: [u64; Self::WORDS]) -> Self {
        let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
        let [at_ns, sent_before, a, b, c, d, e, f] = words;
        Self {
            at_ns,
            sent_before,
            parts: [low(a), high(a), low(b), high(b), low(c), high(c), low(d)],
            rx: high(d) as u16,
            tx: (high(d) >> 16) as u16,
            polls: low(e),
            fill: high(e),
            late_ns: low(f),
            did: match high(f) {
                1 => Did::Polled,
                2 => Did::Slept,
                3 => Did::Spun,
                _ => Did::Burst,
            },
        }
    }

    /// It is of a burst that moved packets.
    pub(crate) fn moved(&self) -> bool {
        self.did == Did::Burst
    }

    /// How long it took, ns.
    pub fn took_ns(&self) -> u64 {
        self.parts.iter().map(|&part| u64::from(part)).sum()
    }

    /// When it ended, ns.
    pub fn end_ns(&self) -> u64 {
        self.at_ns.saturating_add(self.took_ns())
    }
}

/// A burst that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowBurst {
    /// The lane that it was of.
    pub lane: u32,
    /// What it was. Where only the length of the round is known, all of it is in the last part.
    pub round: Round,
    /// Of each part, for how long the lane did not have its core, as the kernel tells its own thread, ns; 0 where it
    /// does not tell. It is asked after long parts only.
    pub away: [u32; 7],
}

/// A packet that came late, or the first of several that were sent in one burst and came in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatePacket {
    /// The lane that received it.
    pub lane: u32,
    /// Its flow.
    pub flow: u32,
    /// Its sequence number within its flow.
    pub seq: u64,
    /// When it was to be sent, ns; `None` without a schedule.
    pub scheduled_ns: Option<u64>,
    /// When it was sent, ns: its stamp.
    pub sent_ns: u64,
    /// When it arrived, ns: the kernel's stamp where the path has one, else when the lane had taken it.
    pub arrived_ns: u64,
    /// When the lane had taken it from the path and went on to classify it, ns.
    pub classified_ns: u64,
}

impl LatePacket {
    /// When it was due, ns: when it was to be sent, or was, without a schedule.
    pub fn due_ns(&self) -> u64 {
        self.scheduled_ns.unwrap_or(self.sent_ns)
    }

    /// From when it was due to its arrival, ns.
    pub fn delay_ns(&self) -> u64 {
        self.arrived_ns.saturating_sub(self.due_ns())
    }
}

/// What was kept of the flight recorders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// By lane.
    pub lanes: Vec<LaneTrace>,
    /// What was not.
    pub left_out: Vec<LeftOut>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_the_same_after_it_was_stored() {
        for did in [Did::Burst, Did::Polled, Did::Slept, Did::Spun] {
            let round = Round {
                at_ns: u64::MAX - 1,
                sent_before: 1 << 40,
                parts: [1, 2, u32::MAX, 4, 5, 6, 7],
                rx: 65_535,
                tx: 3,
                polls: 9,
                fill: u32::MAX,
                late_ns: 11,
                did,
            };
            assert_eq!(Round::from_words(round.to_words()), round);
        }
        assert_eq!(size_of::<Round>(), 64);
    }
}
