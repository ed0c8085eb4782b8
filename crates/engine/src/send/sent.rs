//! Numbers that each send lane has sent, flow by flow, and when: a packet that comes back is compared with them.
//!
//! A lane that sends its flows in turn needs one count for all of them: number `seq` of the flow at `place` is packet
//! `seq * flows + place` of the lane. A lane that sends a burst of one flow at a time keeps a count per flow. Send
//! times are kept by blocks of packets, so that a fast lane stores one per burst; a slow one stores one per packet.
//!
//! The send lane writes before its packets leave. Every packet that has come back is therefore found here.

use crate::sync::{AtomicU64, Counter, Ordering, fence};
use mpps_io::MAX_BURST;
use mpps_sys::clock::SPREAD_NS;
use std::ops::Range;

/// Most send times that the lanes of a run keep: 2 MB.
const MOST_TIMES: u64 = 1 << 18;
/// Least blocks of a count, so that the block that is being written is not the one that is read.
const LEAST_BLOCKS: u64 = 4;
/// Packets of a block at the highest rates: about a burst.
const MOST_SHIFT: u32 = 5;
/// Longest time that a block spans at a given rate, in seconds. Below a packet in this time each has its own send time.
const BLOCK_S: f64 = 20e-6;
/// Packets that come back this long after the settle time still find their send time, ns.
pub(crate) const LATE_NS: u64 = 100_000_000;
/// Flows of a lane that sends bursts of one flow: each has a socket, of which there are no more.
const MOST_SOCKETS: u64 = 1 << 20;

/// Counter with its cache lines to itself: it is written once a burst, and the fields beside it are read by others.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart(Counter);

/// Numbers that one send lane has sent, and when.
#[derive(Debug)]
pub(crate) struct SentLog {
    /// Packets sent so far, by a lane that sends its flows in turn.
    in_turn: Apart,
    /// Packets sent so far by flow, by a lane that sends bursts of one flow; else empty.
    by_flow: Box<[Counter]>,
    /// Send time of the first packet of each block: by count, then by block. A ring for each count.
    times: Box<[AtomicU64]>,
    /// Blocks of a count, a power of two.
    blocks: u64,
    /// Packets of a block, as a power of two.
    shift: u32,
    /// Flows of the lane.
    flows: u64,
}

/// Shape of a log, which depends on its lane's flows and rate.
#[derive(Clone, Copy, Debug)]
struct Shape {
    counts: u64,
    shift: u32,
    blocks: u64,
}

impl Shape {
    /// Returns the shape for one of `lanes` logs with `counts` counts; `pps`: packets per second of each count, if
    /// known. A block has `2^most_shift` packets at most, unless there are too few blocks for that.
    fn of(counts: u64, lanes: u64, pps: Option<f64>, keep_ns: u64, most_shift: u32) -> Self {
        let shift = pps.map_or(most_shift, |pps| {
            ((pps * BLOCK_S) as u64).max(1).ilog2().min(most_shift)
        });
        let burst = MAX_BURST as u64;
        let in_flight = pps.map_or(u64::MAX >> 1, |pps| (pps * keep_ns as f64 / 1e9) as u64 + 2 * burst);
        let affordable = (MOST_TIMES / lanes.max(1) / counts.max(1)).max(LEAST_BLOCKS);
        let blocks = ((in_flight >> shift) + LEAST_BLOCKS)
            .min(affordable)
            .next_power_of_two();
        // With few blocks for each of many flows, a block holds a burst.
        let shift = if blocks < (burst >> shift) + LEAST_BLOCKS {
            burst.ilog2()
        } else {
            shift
        };
        Self { counts, shift, blocks }
    }

    fn bytes(self) -> u64 {
        self.counts.saturating_mul(8 * (self.blocks + 1))
    }
}

/// Packets that were sent one after the other, and their send times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Key of the first of them ([`SentLog::factors`]).
    pub(crate) first: u64,
    /// Number of them.
    pub(crate) packets: u64,
    /// Earliest send time of them, ns.
    pub(crate) from_ns: u64,
    /// Longest time after the earliest by which one of them may have been sent, ns.
    pub(crate) within_ns: u64,
}

impl Stretch {
    /// Returns whether the packet with this key and send time is one of them.
    #[inline(always)]
    pub(crate) fn has(&self, key: u64, time_ns: u64) -> bool {
        key.wrapping_sub(self.first) < self.packets && time_ns.wrapping_sub(self.from_ns) <= self.within_ns
    }
}

impl SentLog {
    /// Makes the log of one of `lanes` lanes, which sends `flows` flows of one of `streams` streams; all lanes together
    /// send `pps` packets of it per second.
    pub(crate) fn new(
        flows: u64,
        by_burst: bool,
        (lanes, streams): (u64, u64),
        pps: Option<f64>,
        keep_ns: u64,
    ) -> Self {
        let flows = flows.max(1);
        let counts = if by_burst { flows } else { 1 };
        let pps = pps.map(|pps| pps / (lanes * counts) as f64);
        let shape = Shape::of(counts, lanes.saturating_mul(streams), pps, keep_ns, MOST_SHIFT);
        Self::shaped(flows, shape)
    }

    /// As [`SentLog::new`] with flows in turn, and with the time of each packet, if there is room.
    pub(crate) fn of_each(flows: u64, (lanes, streams): (u64, u64), pps: Option<f64>, keep_ns: u64) -> Self {
        let pps = pps.map(|pps| pps / lanes as f64);
        Self::shaped(
            flows.max(1),
            Shape::of(1, lanes.saturating_mul(streams), pps, keep_ns, 0),
        )
    }

    /// Makes a log for tests: one count in blocks of `2^shift` packets, as few blocks as there may be.
    #[cfg(test)]
    pub(crate) fn of_blocks(flows: u64, shift: u32) -> Self {
        let (counts, blocks) = (1, LEAST_BLOCKS);
        Self::shaped(flows, Shape { counts, shift, blocks })
    }

    fn shaped(flows: u64, shape: Shape) -> Self {
        let by_flow = if shape.counts == 1 { 0 } else { shape.counts };
        let mut times = Vec::new();
        // Written once here, so that no page is allocated while packets fly.
        times.resize_with((shape.counts * shape.blocks) as usize, || AtomicU64::new(u64::MAX));
        Self {
            in_turn: Apart::default(),
            by_flow: (0..by_flow).map(|_| Counter::default()).collect(),
            times: times.into_boxed_slice(),
            blocks: shape.blocks,
            shift: shape.shift,
            flows,
        }
    }

    /// Returns bytes of the logs of a stream, one of `streams`, that is sent by `lanes` lanes. `each`: they are made by
    /// [`SentLog::of_each`].
    pub(crate) fn bytes_of_stream(pps: Option<f64>, keep_ns: u64, (lanes, streams): (u64, u64), each: bool) -> u64 {
        let pps = pps.map(|pps| pps / lanes.max(1) as f64);
        let most_shift = if each { 0 } else { MOST_SHIFT };
        Shape::of(1, lanes.saturating_mul(streams), pps, keep_ns, most_shift)
            .bytes()
            .saturating_mul(lanes)
    }

    /// Returns bytes of the logs of such a run, the larger of both ways in which its lanes may send.
    pub(crate) fn bytes(flows: u64, pps: Option<f64>, keep_ns: u64, lanes: u64) -> u64 {
        let lanes = lanes.max(1);
        let of = |counts: u64| {
            let pps = pps.map(|pps| pps / lanes.saturating_mul(counts) as f64);
            Shape::of(counts, lanes, pps, keep_ns, MOST_SHIFT)
                .bytes()
                .saturating_mul(lanes)
        };
        of(1).max(of((flows / lanes).min(MOST_SOCKETS) + 1))
    }

    #[inline(always)]
    fn count(&self, flow: usize) -> &Counter {
        self.by_flow.get(flow).unwrap_or(&self.in_turn.0)
    }

    /// Notes that packets `keys` of a count leave at `now_ns`. The count is the lane's if its flows are sent in turn,
    /// else that of the flow at `place`.
    #[inline]
    pub(crate) fn note(&self, place: usize, keys: Range<u64>, now_ns: u64) {
        // Readers that see a time of a block also see the count that was published before it.
        fence(Ordering::Release);
        let ring = if self.by_flow.is_empty() {
            0
        } else {
            place as u64 * self.blocks
        };
        let mut block = (keys.start + (1 << self.shift) - 1) >> self.shift;
        while block << self.shift < keys.end {
            self.times[(ring + (block & (self.blocks - 1))) as usize].store(now_ns, Ordering::Relaxed);
            block += 1;
        }
        self.count(place).publish(keys.end);
    }

    /// Notes that packets of a count from `key` on have not left after all.
    #[cold]
    pub(crate) fn take_back(&self, place: usize, key: u64) {
        self.count(place).publish(key);
    }

    /// Returns the factors of a packet's key: of its number, and of its flow's place in the lane. Packets that are sent
    /// one after the other have keys that follow each other.
    pub(crate) fn factors(&self) -> (u64, u64) {
        match self.by_flow.is_empty() {
            true => (self.flows, 1),
            // Numbers of one flow are beside those of the next.
            false => (1, 1 << 40),
        }
    }

    /// Returns packets around number `seq` of the flow at `place`, as known to a lane that reads the clock as `now_ns`;
    /// `None`: this number was not sent. The run began at `start_ns`.
    pub(crate) fn around(&self, place: u64, seq: u64, start_ns: u64, now_ns: u64) -> Option<Stretch> {
        let (of_seq, of_place) = self.factors();
        let in_turn = self.by_flow.is_empty();
        let (ring, key) = match in_turn {
            true => (0, seq.checked_mul(self.flows)?.checked_add(place)?),
            false => (place * self.blocks, seq),
        };
        if place >= self.flows {
            return None;
        }
        let count = self.count(place as usize);
        let sent = count.get_published();
        if key >= sent {
            return None;
        }
        let time = |block: u64| self.times[(ring + (block & (self.blocks - 1))) as usize].load(Ordering::Relaxed);
        let block = key >> self.shift;
        let first = block << self.shift;
        let mut from_ns = time(block);
        let mut to_ns = match (block + 1) << self.shift {
            _ if self.shift == 0 => from_ns,
            next if next < sent => time(block + 1),
            _ => now_ns.saturating_add(SPREAD_NS),
        };
        fence(Ordering::Acquire);
        // The newest block that the lane may be writing: blocks that share its place in the ring are lost.
        let newest = (count.get() + MAX_BURST as u64) >> self.shift;
        if block + self.blocks <= newest {
            from_ns = start_ns;
            to_ns = time(newest + 2 - self.blocks);
        }
        let packets = (sent - first).min(1 << self.shift);
        Some(Stretch {
            first: if in_turn {
                first
            } else {
                first.wrapping_mul(of_seq).wrapping_add(place.wrapping_mul(of_place))
            },
            packets,
            from_ns,
            within_ns: to_ns.saturating_sub(from_ns),
        })
    }
}

/// A receive lane's view of one send lane.
#[derive(Debug)]
struct Sender<'r> {
    log: &'r SentLog,
    of_seq: u64,
    of_place: u64,
    /// Stretch of packets around the one that came last.
    near: Stretch,
}

/// Place of a packet among those of the lane that sends its flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seat {
    lane: usize,
    /// Key of the packet; see [`SentLog::factors`].
    key: u64,
    /// Distance to the next packet of the flow.
    step: u64,
}

impl Seat {
    /// Returns the seat of the flow's next packet.
    #[inline(always)]
    pub(crate) fn next(self) -> Self {
        Self {
            key: self.key.wrapping_add(self.step),
            ..self
        }
    }
}

/// A receive lane's view of all send lanes.
#[derive(Debug)]
pub(crate) struct Senders<'r> {
    lanes: Box<[Sender<'r>]>,
    /// 2^64 / lanes, rounded up: a flow's place in its lane without a division.
    reciprocal: u64,
    start_ns: u64,
}

impl<'r> Senders<'r> {
    pub(crate) fn new(logs: &'r [SentLog], start_ns: u64) -> Self {
        let sender = |log: &'r SentLog| {
            let (of_seq, of_place) = log.factors();
            let near = Stretch::default();
            Sender {
                log,
                of_seq,
                of_place,
                near,
            }
        };
        Self {
            lanes: logs.iter().map(sender).collect(),
            reciprocal: (u64::MAX / (logs.len() as u64).max(1)).wrapping_add(1),
            start_ns,
        }
    }

    /// Returns the lane that sends a flow, and the flow's place there.
    #[inline(always)]
    fn seat(&self, flow: u32) -> (usize, u64) {
        if self.lanes.len() == 1 {
            return (0, u64::from(flow));
        }
        let place = ((u128::from(flow) * u128::from(self.reciprocal)) >> 64) as u64;
        (flow as usize - place as usize * self.lanes.len(), place)
    }

    /// Returns the place of a packet among those of its lane. Its number is small: the one after the highest that was
    /// received of the flow.
    #[inline(always)]
    pub(crate) fn seat_of(&self, flow: u32, seq: u64) -> Seat {
        let (lane, place) = self.seat(flow);
        let (step, of_place) = self
            .lanes
            .get(lane)
            .map_or((0, 0), |sender| (sender.of_seq, sender.of_place));
        let key = seq.wrapping_mul(step).wrapping_add(place.wrapping_mul(of_place));
        Seat { lane, key, step }
    }

    /// Returns when a packet left, ns, by the log alone; false: it left then or before. `None`: no lane has sent it.
    #[cold]
    pub(crate) fn left_at(&self, flow: u32, seq: u64, now_ns: u64) -> Option<(u64, bool)> {
        let (lane, place) = self.seat(flow);
        let log = self.lanes.get(lane)?.log;
        let near = log.around(place, seq, self.start_ns, now_ns)?;
        let exact = near.within_ns == 0 && log.shift == 0;
        Some(((near.from_ns + near.within_ns).min(now_ns).max(near.from_ns), exact))
    }

    /// Returns whether the packet in this seat was sent: its number by its flow, at about its time.
    #[inline(always)]
    pub(crate) fn sent_in(&mut self, seat: Seat, flow: u32, seq: u64, time_ns: u64, now_ns: u64) -> bool {
        let near = self.lanes.get(seat.lane).map(|sender| &sender.near);
        near.is_some_and(|near| near.has(seat.key, time_ns)) || self.sent(flow, seq, time_ns, now_ns)
    }

    /// Returns whether any packet was sent, as [`Senders::sent_in`] does, but for any number.
    #[inline(never)]
    pub(crate) fn sent(&mut self, flow: u32, seq: u64, time_ns: u64, now_ns: u64) -> bool {
        let (lane, place) = self.seat(flow);
        let Some(sender) = self.lanes.get_mut(lane) else {
            return false;
        };
        let Some(near) = sender.log.around(place, seq, self.start_ns, now_ns) else {
            return false;
        };
        sender.near = near;
        time_ns.wrapping_sub(near.from_ns) <= near.within_ns
    }
}

#[cfg(all(test, not(loom)))]
#[path = "sent_tests.rs"]
mod tests;
