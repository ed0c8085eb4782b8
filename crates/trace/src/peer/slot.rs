//! Layout of the file, and how a lane is read from its slot.

use super::{Calls, PeerLane, RING, Scheduled};
use crate::{Did, Round, Stage, standard_deviation};

/// Bytes of a record of a call.
pub(super) const RECORD: usize = 32;
/// Bytes of a slot before its ring.
pub(super) const COUNTS: usize = 12_800;
/// Buckets of a histogram of clocks: eight per power of two.
pub(super) const BUCKETS: usize = 496;
/// Offset of the kernel's counts for the thread.
pub(super) const SCHEDULED: usize = 12_672;
/// Buckets of the histogram of packets per poll.
const BURSTS: usize = 64;

/// Reader of numbers at offsets in bytes; a number beyond the end is 0.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'b>(pub(super) &'b [u8]);

impl Bytes<'_> {
    fn at<const N: usize>(self, place: usize) -> [u8; N] {
        let found = self.0.get(place..).and_then(|rest| rest.first_chunk());
        found.copied().unwrap_or([0; N])
    }

    fn u16(self, place: usize) -> u16 {
        u16::from_ne_bytes(self.at(place))
    }

    pub(super) fn u32(self, place: usize) -> u32 {
        u32::from_ne_bytes(self.at(place))
    }

    pub(super) fn u64(self, place: usize) -> u64 {
        u64::from_ne_bytes(self.at(place))
    }

    /// Reads text up to a zero byte, at most `len` bytes. A byte that is not text, or would act on a terminal, becomes
    /// `?`.
    pub(super) fn text(self, place: usize, len: usize) -> String {
        let bytes = self.0.get(place..).unwrap_or_default();
        let bytes = &bytes[..len.min(bytes.len())];
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let shown = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '?',
        };
        bytes.iter().map(shown).collect()
    }
}

/// Conversion from the processor's counter to `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// Counter and ns at the start.
    pub(super) start: (u64, u64),
    /// Increase of both up to the last look.
    pub(super) since: (u64, u64),
}

impl Clock {
    /// Converts clocks to ns.
    fn ns(self, clocks: u64) -> u64 {
        let (counted, ns) = self.since;
        let ns = u128::from(clocks) * u128::from(ns) / u128::from(counted.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Converts a reading of the counter to a time. A reading before the start gives the start.
    fn at(self, reading: u64) -> u64 {
        self.start
            .1
            .saturating_add(self.ns(reading.saturating_sub(self.start.0)))
    }
}

/// Returns the largest value of a bucket of a histogram of clocks.
pub(super) fn most_of(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let (power, part) = ((bucket >> 3) + 2, (bucket & 7) as u128);
    let end = ((8 + part + 1) << (power - 3)) - 1;
    u64::try_from(end).unwrap_or(u64::MAX)
}

/// Returns the standard deviation of calls by clocks, ns. Each call counts as the middle of its bucket.
fn spread_ns(hist: &[u64], most: u64, clock: Clock) -> Option<u64> {
    let least_of = |bucket: usize| {
        bucket
            .checked_sub(1)
            .map_or(0, |below| most_of(below).saturating_add(1))
    };
    let middle = |bucket: usize| (least_of(bucket) as f64 + most_of(bucket) as f64) / 2.0;
    let calls = hist.iter().enumerate();
    let calls = calls.map(|(bucket, &count)| (middle(bucket).min(most as f64), count));
    standard_deviation(calls).map(|clocks| clock.ns(clocks.round() as u64))
}

/// Returns the time that `share` of 100 calls did not exceed, in clocks.
fn percentile(hist: &[u64], share: u64) -> u64 {
    let total: u128 = hist.iter().map(|count| u128::from(*count)).sum();
    let want = (total * u128::from(share)).div_ceil(100).max(1);
    let mut sum = 0;
    let found = hist.iter().position(|count| {
        sum += u128::from(*count);
        sum >= want
    });
    found.map_or(0, most_of)
}

/// Returns a lane by its slot; the caller numbers it.
pub(super) fn lane(slot: Bytes<'_>, clock: Clock) -> PeerLane {
    let numbers = |place: usize, count: usize| (0..count).map(move |i| slot.u64(place + 8 * i));
    let calls = |(calls, packets, clocks): (u64, u64, u64), max: usize, hist: usize| {
        let hist: Vec<u64> = numbers(hist, BUCKETS).collect();
        let most = slot.u64(max);
        let at_most = |share| clock.ns(percentile(&hist, share).min(most));
        Calls {
            calls,
            packets,
            total_ns: clock.ns(clocks),
            max_ns: clock.ns(most),
            max_at_ns: clock.at(slot.u64(max + 8)),
            sd_ns: spread_ns(&hist, most, clock),
            p50_ns: at_most(50),
            p99_ns: at_most(99),
        }
    };
    let hist = |place: usize| 768 + 8 * BUCKETS * place;
    let (polls, empty) = (slot.u64(112), slot.u64(120));
    let head = slot.u64(248);
    let kept = head.min(RING as u64);
    let mut rounds: Vec<_> = (head - kept..head)
        .filter_map(|number| round(slot, COUNTS + RECORD * (number as usize % RING), clock))
        .collect();
    rounds.sort_by_key(|round| round.at_ns);
    PeerLane {
        lane: 0,
        tid: slot.u32(4) as i32,
        port: slot.u16(8),
        queue: slot.u16(10),
        cpu: slot.u32(12) as i32,
        thread: slot.text(16, 16),
        device: slot.text(32, 64),
        first_ns: clock.at(slot.u64(96)),
        last_ns: clock.at(slot.u64(104)),
        receive: calls(
            (polls.saturating_sub(empty), slot.u64(128), slot.u64(136)),
            152,
            hist(0),
        ),
        empty: calls((empty, 0, slot.u64(144)), 168, hist(1)),
        transmit: calls((slot.u64(184), slot.u64(200), slot.u64(208)), 216, hist(2)),
        offered: slot.u64(192),
        rest_ns: clock.ns(slot.u64(232)),
        rest_max_ns: clock.ns(slot.u64(240)),
        bursts: numbers(256, BURSTS).collect(),
        overwritten: head - kept,
        scheduled: scheduled(slot),
        rounds,
    }
}

/// Returns the thread's switches and times since the slot was made.
fn scheduled(slot: Bytes<'_>) -> Option<Scheduled> {
    let since = |place: usize| {
        slot.u64(SCHEDULED + 40 + place)
            .saturating_sub(slot.u64(SCHEDULED + 8 + place))
    };
    (slot.u64(SCHEDULED) > 0).then(|| Scheduled {
        voluntary: since(0),
        involuntary: since(8),
        ran_ns: since(16),
        waited_ns: since(24),
    })
}

/// Returns a record of the ring; `None` if its kind is not known.
fn round(slot: Bytes<'_>, place: usize, clock: Clock) -> Option<Round> {
    let (start, packets) = (slot.u64(place), slot.u16(place + 20));
    let took = u32::try_from(clock.ns(slot.u64(place + 8))).unwrap_or(u32::MAX);
    let stage_at = |stage| Round::STAGES.iter().position(|at| *at == stage).unwrap_or(0);
    let mut round = Round {
        at_ns: clock.at(start),
        fill: u32::MAX,
        late_ns: u32::MAX,
        ..Round::default()
    };
    match slot.u32(place + 24) {
        1 => {
            round.rx = packets;
            round.parts[stage_at(Stage::Receive)] = took;
        }
        2 => {
            round.did = Did::Polled;
            round.polls = slot.u32(place + 16);
            round.parts[0] = took;
        }
        3 => {
            round.tx = packets;
            round.parts[stage_at(Stage::Transmit)] = took;
        }
        _ => return None,
    }
    Some(round)
}
