//! Records of a lane's flight recorder: one for each burst, and one for each stretch without any.

use crate::{LaneTrace, LeftOut, Stage};

/// Kind of a record.
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
/// The parts of a burst follow each other in the order of [`Round::STAGES`], from [`at_ns`](Self::at_ns) on. Other
/// stretches have their time in [`parts`](Self::parts)`[0]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Start, ns.
    pub at_ns: u64,
    /// Test packets that this lane had sent before the record began (over its flows).
    pub sent_before: u64,
    /// Length of each part, ns; at most 4.29 s, a longer one is `u32::MAX`.
    pub parts: [u32; 7],
    /// Packets received in the record's time.
    pub rx: u16,
    /// Packets sent in the record's time.
    pub tx: u16,
    /// Rounds that found nothing, in [`Did::Polled`] and [`Did::Spun`].
    pub polls: u32,
    /// Fill of the receive ring or socket as seen last, packets; `u32::MAX` if not known.
    pub fill: u32,
    /// Time after its schedule at which the latest packet of the burst left, ns; a longer time is cut to `u32::MAX`.
    pub late_ns: u32,
    /// Kind of the record.
    pub did: Did,
}

impl Round {
    /// Stage of each place of [`parts`](Self::parts) of a burst.
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

    /// Returns the record as words.
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

    /// Returns the record that these words store.
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

    /// Whether the record is of a burst that moved packets.
    pub(crate) fn moved(&self) -> bool {
        self.did == Did::Burst
    }

    /// Returns the length, ns.
    pub fn took_ns(&self) -> u64 {
        self.parts.iter().map(|&part| u64::from(part)).sum()
    }

    /// Returns the end, ns.
    pub fn end_ns(&self) -> u64 {
        self.at_ns.saturating_add(self.took_ns())
    }
}

/// A burst that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowBurst {
    /// Lane of the burst.
    pub lane: u32,
    /// Record of the burst. If only the length of the round is known, all of it is in the last part.
    pub round: Round,
    /// Time in each part for which the lane did not have its core, ns, as the kernel reports it to the lane's own
    /// thread; 0 if it does not. It is read after long parts only.
    pub away: [u32; 7],
}

/// A packet that came late, or the first of several late packets that were sent in one burst and received in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatePacket {
    /// Lane that received the packet.
    pub lane: u32,
    /// Flow of the packet.
    pub flow: u32,
    /// Sequence number within the flow.
    pub seq: u64,
    /// Scheduled send time, ns; `None` without a schedule.
    pub scheduled_ns: Option<u64>,
    /// Actual send time, ns: the packet's stamp.
    pub sent_ns: u64,
    /// Arrival, ns: the kernel's stamp if the path has one, else the time when the lane had taken the packet.
    pub arrived_ns: u64,
    /// Time when the lane had taken the packet from the path and went on to classify it, ns.
    pub classified_ns: u64,
}

impl LatePacket {
    /// Returns the time when the packet was due, ns: the scheduled send time, or the actual one without a schedule.
    pub fn due_ns(&self) -> u64 {
        self.scheduled_ns.unwrap_or(self.sent_ns)
    }

    /// Returns the time from when the packet was due until the lane had it, ns: the latency, with all its parts.
    pub fn delay_ns(&self) -> u64 {
        self.classified_ns.saturating_sub(self.due_ns())
    }
}

/// Records that were kept of the flight recorders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Records by lane.
    pub lanes: Vec<LaneTrace>,
    /// Records that were not kept.
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
