//! Sequence numbers on a receiver that knows nothing of the sender: how many packets were sent, and which came.
//!
//! A flow's numbers go up by one, and its stamps' times with them. A gap is loss until its packets come after all. But
//! a single packet could claim any loss: a forged one, or one that was damaged before its checksum was made. So a jump
//! counts only once [`PROOF`] packets confirm it:
//!
//! - A **gap** of more than [`NEAR`] numbers is left open at first. The packet after it is received, but the numbers
//!   that it skips are in no count. They become lost when further packets follow above the gap and none of the gap
//!   comes between them. Packets of the gap that come in the meantime are just received.
//! - A packet that begins **another stream** (a lower number with a later time: a sender that was started again), or
//!   that is out of the window's reach, is held aside. It counts when as many more packets follow beside it, and none
//!   that continues the stream as it was.
//!
//! - A smaller gap is lost at once, and so is a larger one that other packets confirmed. But such gaps are remembered
//!   as a **leap** until packets follow without a gap. If the stream then goes on from where it was before the leap,
//!   the packets that leapt were not of the stream: the numbers that they skipped are lost no longer. Those numbers are
//!   open again if the stream itself fills them. If it took another stream to see it, they are in
//!   [`Doubts::contested_gap`].
//!
//! Each packet is in one of these counts: received, a duplicate, aside or beyond the window. At the end [`Doubts`]
//! reports what was never confirmed. Three forged packets in a row are believed if no gap and no packet of the sender
//! is between them. If the stream then goes on from where it was, the numbers between are left open, too.

mod doubt;

use crate::times::Delay;
use crate::window::{Arrival, SequenceWindows};
use doubt::{Doubt, GAP, HELD, Held, LEAP, Leap, Stream};

/// Largest gap, in numbers, that is believed at once.
pub const NEAR: u64 = 64;
/// Number of packets that confirm each other.
pub const PROOF: usize = 3;
/// Most gaps of a leap that can be undone. A leap of more gaps is believed: so long a chain is a path that loses much.
const MAX_GAPS: u32 = 255;
/// Largest distance, in numbers, between packets of another stream.
const MAX_STEP: u64 = 1 << 20;
/// Highest rate of a sender, packets per ns: a larger jump is another stream.
const MAX_RATE_PER_NS: u64 = 1;

/// Contribution of one packet to the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// One-way latency; `None` if the caller gave none.
    pub delay: Option<Delay>,
    /// Distance as in [`Arrival::Reordered`]; 0 if the packet is in order.
    pub distance: u64,
    /// Increase of the number of packets that the sequence numbers say were sent. Negative if a gap is no longer
    /// believed.
    pub expected: i64,
}

/// Result of a packet's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The packet is received.
    Counted(Counted),
    /// The packet is a copy of one that came before.
    Duplicate,
    /// The packet is in no count but [`Doubts`], until others confirm it.
    Aside,
    /// The packet and those that were held with it are received, in the order of their arrival.
    Believed([Counted; PROOF]),
}

/// Jumps that no later packet has confirmed so far; at the end of a run, ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Packets held aside: in no other count.
    pub aside: u64,
    /// Packets above an open gap, which are received.
    pub jumps: u64,
    /// Numbers that open gaps skip. They do not count as lost.
    pub open_gap: u64,
    /// Numbers that were lost until the stream went on from where it was before they were skipped. They do not count as
    /// lost.
    pub contested_gap: u64,
    /// Numbers counted as lost between the first packet or two of a flow, which no packet confirmed, and the next
    /// packet.
    pub after_first: u64,
    /// Packets from before the window; they are in no other count.
    pub beyond_window: u64,
    /// Streams that began in the middle of a flow and were believed.
    pub restarts: u64,
}

impl Doubts {
    /// Returns the number of packets whose number jumps.
    pub fn implausible(&self) -> u64 {
        self.aside + self.jumps
    }
}

/// Streams of the flows, numbered from 0.
#[derive(Debug)]
pub struct Streams {
    windows: SequenceWindows,
    streams: Box<[Stream]>,
    doubts: Box<[Doubt]>,
    doubted: Doubts,
}

/// Bytes per flow in addition to its window.
pub const STREAM_BYTES: usize = size_of::<Stream>() + size_of::<Doubt>();

impl Streams {
    /// Creates streams over windows: see [`SequenceWindows::new`].
    pub fn new(windows: SequenceWindows) -> Self {
        let flows = windows.flows();
        Self {
            windows,
            streams: vec![Stream::default(); flows].into_boxed_slice(),
            doubts: vec![Doubt::default(); flows].into_boxed_slice(),
            doubted: Doubts::default(),
        }
    }

    /// Whether a packet of `flow` was received.
    #[inline]
    pub fn known(&self, flow: usize) -> bool {
        self.streams[flow].known
    }

    /// Returns the number that is expected next in `flow`: the highest that came + 1, or 0 if none came.
    #[inline]
    pub fn next(&self, flow: usize) -> u64 {
        self.windows.next(flow)
    }

    /// Returns the jumps that no later packet has confirmed so far.
    pub fn doubts(&self) -> Doubts {
        self.doubted
    }

    /// Notes packet `seq` of `flow`, as [`Streams::record`] does, if it is the next and nothing is in doubt. Most
    /// packets are such, and need no further checks. Returns false if it is not, and then notes nothing.
    ///
    /// # Panics
    /// When there is no such flow.
    #[inline(always)]
    pub fn record_next(&mut self, flow: usize, seq: u64, time_ns: u64, now_ns: u64) -> bool {
        let stream = &mut self.streams[flow];
        let next = seq == self.windows.next(flow) && stream.known && stream.doubt == 0;
        if next {
            self.windows.record(flow, seq);
            stream.newest_ns = time_ns;
            stream.heard_ns = now_ns;
        }
        next
    }

    /// Notes packet `seq` (below `u64::MAX`) of `flow`, sent at `time_ns` by its sender's clock, received at `now_ns`.
    ///
    /// # Panics
    /// When there is no such flow.
    #[inline]
    pub fn record(&mut self, flow: usize, seq: u64, time_ns: u64, now_ns: u64, delay: Option<Delay>) -> Outcome {
        if self.record_next(flow, seq, time_ns, now_ns) {
            return Outcome::Counted(Counted {
                delay,
                distance: 0,
                expected: 1,
            });
        }
        let packet = Held {
            seq,
            time_ns,
            delay,
            too_old: false,
        };
        self.record_other(flow, packet, now_ns)
    }

    /// Handles a packet that is not the next of a flow without doubts.
    #[inline(never)]
    fn record_other(&mut self, flow: usize, packet: Held, now_ns: u64) -> Outcome {
        let (stream, next) = (self.streams[flow], self.windows.next(flow));
        let Held { seq, time_ns, .. } = packet;
        if !stream.known {
            return self.received(flow, packet, now_ns, true);
        }
        // Numbers and times rise together: else the packet is of another stream, or of none.
        let another = match seq >= next {
            true => seq - next > self.windows.span() / 2 || (seq > next && time_ns < stream.newest_ns),
            false => time_ns > stream.newest_ns,
        };
        if another {
            return self.hold(flow, packet, now_ns);
        }
        if seq >= next && stream.doubt & HELD != 0 {
            // The stream goes on, so the held packets belong to no stream.
            let doubt = &mut self.doubts[flow];
            for held in &doubt.held[..usize::from(doubt.count).min(PROOF - 1)] {
                if held.seq >= doubt.leap.low && held.seq - doubt.leap.low <= NEAR {
                    doubt.leap.low = held.seq + 1;
                }
            }
            doubt.count = 0;
            self.streams[flow].doubt &= !HELD;
        }
        self.received(flow, packet, now_ns, false)
    }

    /// Notes a packet of the current stream. `sure`: the gap before it is believed.
    fn received(&mut self, flow: usize, packet: Held, now_ns: u64, sure: bool) -> Outcome {
        let next = self.windows.next(flow);
        let Held { seq, delay, .. } = packet;
        let (distance, expected) = match self.windows.record(flow, seq) {
            Arrival::InOrder => (0, self.risen(flow, seq, next, packet.time_ns, sure)),
            Arrival::Reordered(distance) => (distance, self.behind(flow, seq)),
            Arrival::Duplicate => {
                let (stream, doubt) = (&self.streams[flow], &mut self.doubts[flow]);
                if seq + 1 == next && packet.time_ns != stream.newest_ns {
                    // Not a copy, so the packet at the top was forged: this is the packet of that number.
                    if stream.doubt & GAP != 0 && !doubt.below && seq == doubt.high {
                        self.doubted.jumps -= u64::from(doubt.jumps);
                        doubt.jumps = 0;
                    }
                    self.doubted.aside += 1;
                    return Outcome::Aside;
                }
                return Outcome::Duplicate;
            }
            Arrival::TooOld => {
                let packet = Held {
                    too_old: true,
                    ..packet
                };
                return self.hold(flow, packet, now_ns);
            }
        };
        self.streams[flow].heard_ns = now_ns;
        Outcome::Counted(Counted {
            delay,
            distance,
            expected,
        })
    }

    /// Handles a new highest number; `next` was expected. Returns how many more packets were sent.
    fn risen(&mut self, flow: usize, seq: u64, next: u64, time_ns: u64, sure: bool) -> i64 {
        let (stream, doubt) = (&mut self.streams[flow], &mut self.doubts[flow]);
        let before_ns = std::mem::replace(&mut stream.newest_ns, time_ns);
        if !stream.known {
            (stream.known, stream.base) = (true, seq);
            return 1;
        }
        let gap = seq - next;
        if gap == 0 {
            doubt.leap.run = doubt.leap.run.saturating_add(1);
            if usize::from(doubt.leap.run) >= PROOF - 1 {
                stream.doubt &= !LEAP;
            }
        } else if !sure {
            if stream.doubt & LEAP == 0 {
                stream.doubt |= LEAP;
                doubt.leap = Leap {
                    first: next,
                    time_ns: before_ns,
                    low: next,
                    ..Leap::default()
                };
            }
            (doubt.leap.run, doubt.leap.gaps) = (0, doubt.leap.gaps + 1);
            if doubt.leap.gaps > MAX_GAPS {
                stream.doubt &= !LEAP;
            }
        }
        let above = stream.doubt & GAP != 0 && !doubt.below;
        let mut expected = 1;
        if sure {
            expected += gap as i64;
        } else if above {
            if gap > 0 {
                doubt.high = seq;
                doubt.open += gap;
                // A packet beyond the range of this count stays in the sum.
                doubt.jumps = doubt.jumps.saturating_add(1);
                self.doubted.jumps += 1;
                self.doubted.open_gap += gap;
            }
            expected += self.support(flow);
        } else if gap <= NEAR && (gap == 0 || !doubt.goes_back(seq)) {
            expected += gap as i64;
            doubt.leap.lost += gap;
        } else {
            // One gap at a time: a gap below the first packet stays open for ever.
            self.open_gap(flow, next, seq, false);
        }
        expected
    }

    /// Handles a new number below the highest. Returns how many more packets were sent.
    fn behind(&mut self, flow: usize, seq: u64) -> i64 {
        let (stream, doubt) = (&mut self.streams[flow], &mut self.doubts[flow]);
        doubt.leap.run = 0;
        if stream.doubt & GAP != 0 && (doubt.low..doubt.high).contains(&seq) {
            // No number is open: this one was counted as lost.
            let mut expected = 0;
            if doubt.open > 0 {
                doubt.open -= 1;
                self.doubted.open_gap -= 1;
                expected = 1;
            }
            if doubt.below {
                return expected + self.support(flow);
            }
            doubt.support = 0;
            return expected + self.fill_gap(flow, seq);
        }
        if stream.doubt & LEAP != 0 && seq >= doubt.leap.first {
            if seq >= doubt.leap.low {
                doubt.leap.lost = doubt.leap.lost.saturating_sub(1);
            }
            return self.fill_leap(flow, seq);
        }
        if seq >= stream.base {
            return 0;
        }
        // The first packets of the stream came out of order: it begins earlier than thought.
        let (base, more) = (stream.base, stream.base - seq);
        if more <= NEAR {
            stream.base = seq;
            return more as i64;
        }
        if stream.doubt & GAP == 0 {
            stream.base = seq;
            // Nothing has confirmed the first packets so far: then they are the ones that jump.
            let below = self.windows.next(flow) - base >= PROOF as u64;
            self.open_gap(flow, seq + 1, base, below);
        }
        1
    }

    /// Fills the gap from below, where the stream goes on: the numbers that it skipped there are lost. Returns how many
    /// more packets were sent.
    fn fill_gap(&mut self, flow: usize, seq: u64) -> i64 {
        let (stream, doubt) = (&mut self.streams[flow], &mut self.doubts[flow]);
        let mut missing = 0;
        if seq - doubt.low <= NEAR && self.windows.reaches(flow, doubt.low) {
            missing = self.windows.missing(flow, doubt.low, seq).min(doubt.open);
            doubt.low = seq + 1;
            doubt.open -= missing;
            self.doubted.open_gap -= missing;
        }
        if doubt.open == 0 {
            // All numbers of the gap have come or are lost: the packets above it were only early.
            self.doubted.jumps -= u64::from(doubt.jumps);
            stream.doubt &= !GAP;
        }
        missing as i64
    }

    /// Does the same below a leap. Once [`PROOF`] packets have come there, the numbers of the leap are open and no
    /// longer lost.
    fn fill_leap(&mut self, flow: usize, seq: u64) -> i64 {
        let (next, stream, doubt) = (self.windows.next(flow), &mut self.streams[flow], &mut self.doubts[flow]);
        let leap = &mut doubt.leap;
        if seq < leap.low || seq - leap.low > NEAR || !self.windows.reaches(flow, leap.low) {
            return 0;
        }
        leap.lost = leap.lost.saturating_sub(self.windows.missing(flow, leap.low, seq));
        leap.low = seq + 1;
        leap.fills += 1;
        let (gaps, lost) = (leap.gaps, leap.lost);
        if usize::from(leap.fills) < PROOF || (stream.doubt & GAP != 0 && doubt.below) {
            leap.fills = leap.fills.min(PROOF as u8);
            return 0;
        }
        stream.doubt &= !LEAP;
        if lost == 0 {
            return 0;
        }
        if stream.doubt & GAP == 0 {
            self.open_gap(flow, seq + 1, next - 1, false);
            let doubt = &mut self.doubts[flow];
            self.doubted.open_gap -= doubt.open;
            self.doubted.jumps += u64::from(gaps - 1);
            (doubt.open, doubt.jumps) = (0, gaps);
        }
        let doubt = &mut self.doubts[flow];
        doubt.low = seq + 1;
        doubt.open += lost;
        self.doubted.open_gap += lost;
        -(lost as i64)
    }

    /// Leaves the numbers from `low` to below `high` open.
    fn open_gap(&mut self, flow: usize, low: u64, high: u64, below: bool) {
        let doubt = &mut self.doubts[flow];
        (doubt.low, doubt.high, doubt.open, doubt.below) = (low, high, high - low, below);
        (doubt.support, doubt.jumps) = (0, 1);
        self.streams[flow].doubt |= GAP;
        self.doubted.jumps += 1;
        self.doubted.open_gap += high - low;
    }

    /// Counts one more packet that confirms the gap. Returns how many more packets are then known to be sent.
    fn support(&mut self, flow: usize) -> i64 {
        let doubt = &mut self.doubts[flow];
        doubt.support += 1;
        if usize::from(doubt.support) < PROOF - 1 {
            return 0;
        }
        self.close_gap(flow)
    }

    /// Believes the gap: its numbers that have not come were sent. Returns how many.
    fn close_gap(&mut self, flow: usize) -> i64 {
        let (stream, doubt) = (&mut self.streams[flow], &mut self.doubts[flow]);
        stream.doubt &= !GAP;
        if !doubt.below && doubt.goes_back(doubt.high) {
            // The earlier stream goes on, so the stream in between was not one. Gaps that it left open stay open.
            doubt.former = 0;
            return 0;
        }
        if !doubt.below && doubt.low - stream.base < PROOF as u64 {
            self.doubted.after_first += doubt.open;
        }
        self.doubted.jumps -= u64::from(doubt.jumps);
        self.doubted.open_gap -= doubt.open;
        // If the leap began within the gap, only some of the gap's numbers belong to the leap.
        if !doubt.below && stream.doubt & LEAP != 0 && doubt.low >= doubt.leap.first {
            doubt.leap.lost += doubt.open;
        }
        doubt.open as i64
    }

    /// Holds a packet aside, or believes it with those that were held.
    fn hold(&mut self, flow: usize, packet: Held, now_ns: u64) -> Outcome {
        let (stream, doubt) = (&mut self.streams[flow], &mut self.doubts[flow]);
        let count = usize::from(doubt.count).min(PROOF - 1);
        let mut others = doubt.held[..count].iter();
        if others.any(|held| held.seq == packet.seq && held.time_ns == packet.time_ns) {
            return Outcome::Duplicate;
        }
        // Within the window, so that each of them has a place in it.
        let most = MAX_STEP.min(self.windows.span() / 2);
        let beside = |held: &Held| held.seq != packet.seq && held.seq.abs_diff(packet.seq) <= most;
        if count > 0 && !doubt.held[..count].iter().all(beside) {
            doubt.count = 0;
        }
        let count = usize::from(doubt.count);
        if let Some(place) = doubt.held.get_mut(count) {
            *place = packet;
            doubt.count += 1;
            stream.doubt |= HELD;
            match packet.too_old {
                true => self.doubted.beyond_window += 1,
                false => self.doubted.aside += 1,
            }
            return Outcome::Aside;
        }
        self.believe(flow, packet, now_ns)
    }

    /// Believes the packets that are held, as `last` confirms them: they are of this stream, beyond a long gap, or of
    /// another.
    #[cold]
    fn believe(&mut self, flow: usize, last: Held, now_ns: u64) -> Outcome {
        let next = self.windows.next(flow);
        let stream = self.streams[flow];
        let doubt = &mut self.doubts[flow];
        let mut packets = [last; PROOF];
        packets[..PROOF - 1].copy_from_slice(&doubt.held);
        doubt.count = 0;
        for held in &packets[..PROOF - 1] {
            match held.too_old {
                true => self.doubted.beyond_window -= 1,
                false => self.doubted.aside -= 1,
            }
        }
        let first = packets[0];
        let most = MAX_STEP + now_ns.saturating_sub(stream.heard_ns).saturating_mul(MAX_RATE_PER_NS);
        let goes_on = packets.iter().all(|p| p.seq >= next && p.time_ns >= stream.newest_ns);
        let mut contested = 0;
        if goes_on && first.seq - next <= most && !doubt.goes_back(first.seq) {
            self.streams[flow].doubt = 0;
        } else {
            let leap = doubt.leap;
            if stream.doubt & LEAP != 0 && leap.goes_on(stream.base, &first) {
                contested = leap.lost;
                self.doubted.contested_gap += contested;
            }
            doubt.former = next;
            self.windows.reset(flow);
            self.streams[flow] = Stream::default();
            self.doubted.restarts += 1;
        }
        let mut counted = [Counted::default(); PROOF];
        for (i, packet) in packets.into_iter().enumerate() {
            // Their numbers differ, and the window has room for them: each is received.
            if let Outcome::Counted(one) = self.received(flow, packet, now_ns, i == 0) {
                counted[i] = one;
            }
        }
        counted[0].expected -= contested as i64;
        Outcome::Believed(counted)
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
