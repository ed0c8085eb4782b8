//! What sequence numbers tell a receiver that knows nothing of the sender: how many packets were sent, and which came.
//!
//! A flow's numbers go up by one, and its stamps' times with them. A gap is loss until its packets come after all. But
//! a single packet could claim any loss: a forged one, or one that was damaged before its checksum was made. So a jump
//! counts once [`PROOF`] packets bear it out:
//!
//! - A **gap** of more than [`NEAR`] numbers is left open at first. Its packet is received, but the numbers that it
//!   skips
//!   are in no count. They become lost when further packets follow above it with none of the gap between them. Packets
//!   of the gap that come in the meantime are just received.
//! - A packet that begins **another stream** (a lower number with a later time: a sender that was started again), or
//!   that
//!   is out of the window's reach, is held aside. It counts when as many more follow beside it, and none that
//!   continues the stream as it was.
//!
//! - A smaller gap is lost at once, and so is a larger one that others bore out; but they are remembered as a **leap**
//!   until
//!   packets follow without a gap. When the stream goes on where it was before the leap, those that leapt were none of
//!   it: what they skipped is lost no longer. Its numbers are open again where the stream fills them, or, where it took
//!   another stream to see it, in [`Doubts::contested_gap`].
//!
//! Each packet is received, a duplicate, aside or beyond the window: in one of these counts. At the end [`Doubts`] says
//! what was never borne out. Three forged packets in a row without a gap between them, and with none of the sender's,
//! are believed; of a stream that then goes on where it was, the numbers between are left open, too.

use crate::window::{Arrival, SequenceWindows};

/// A gap of up to so many numbers is believed at once.
pub const NEAR: u64 = 64;
/// Packets that bear each other out.
pub const PROOF: usize = 3;
/// A leap of more gaps is believed: so long a chain is a way that loses much.
const MAX_GAPS: u32 = 255;
/// Packets of another stream are within so many numbers of each other.
const MAX_STEP: u64 = 1 << 20;
/// No sender is faster, packets a ns: a larger jump is another stream.
const MAX_RATE_PER_NS: u64 = 1;

/// What is counted of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// One-way latency, ns, where the caller gave one.
    pub latency: Option<u64>,
    /// As of [`Arrival::Reordered`]; 0: in order.
    pub distance: u64,
    /// By how many the packets grew that the numbers say were sent. Negative where a gap is believed no longer.
    pub expected: i64,
}

/// What the arrival of a packet comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is received.
    Counted(Counted),
    /// A copy of one that came before.
    Duplicate,
    /// It is in no count but [`Doubts`], until others bear it out.
    Aside,
    /// It and those that were held with it are received, in the order of their arrival.
    Believed([Counted; PROOF]),
}

/// Jumps that no later packet has confirmed so far; at the end of a run, ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Packets held aside: in no other count.
    pub aside: u64,
    /// Packets above an open gap, which are received.
    pub jumps: u64,
    /// Numbers that open gaps skip. Not counted as lost.
    pub open_gap: u64,
    /// Numbers that were lost until the stream went on where it had been before they were skipped. Not counted as lost.
    pub contested_gap: u64,
    /// Numbers counted as lost between the first packet or two of a flow, which nothing bore out, and what came next.
    pub after_first: u64,
    /// Packets from before the window; in no count.
    pub beyond_window: u64,
    /// Streams that began in the middle of a flow, and were believed.
    pub restarts: u64,
}

impl Doubts {
    /// Packets whose number jumps.
    pub fn implausible(&self) -> u64 {
        self.aside + self.jumps
    }
}

const HELD: u8 = 1;
const GAP: u8 = 2;
const LEAP: u8 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Lowest sequence number of the stream.
    base: u64,
    /// Send time of the highest sequence number.
    newest_ns: u64,
    /// When a packet of the stream was last received.
    heard_ns: u64,
    /// A packet was received.
    known: bool,
    /// [`HELD`], [`GAP`] and [`LEAP`]: what of [`Doubt`] is in use.
    doubt: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    seq: u64,
    time_ns: u64,
    latency: Option<u64>,
    /// It counts in [`Doubts::beyond_window`], not in [`Doubts::aside`].
    too_old: bool,
}

/// Gaps that were counted as lost, with no two packets in a row above them so far.
#[derive(Clone, Copy, Debug, Default)]
struct Leap {
    /// The number that was expected before the first of them.
    first: u64,
    /// Send time of the highest number before.
    time_ns: u64,
    /// The number that the stream would go on with, if it had not leapt.
    low: u64,
    /// Numbers from `first` on that are counted as lost, and have not come.
    lost: u64,
    gaps: u32,
    /// Packets in order since the last gap.
    run: u8,
    /// Packets that went on from `low`.
    fills: u8,
}

impl Leap {
    /// Whether a packet goes on with the stream that began at `base` from where it was before the leap. Of the numbers
    /// below, one or two may have been forged. One that begins at the base again is a sender that was started again.
    fn goes_on(&self, base: u64, packet: &Held) -> bool {
        let low = self.low.saturating_sub(PROOF as u64 - 1).max(base + 1);
        packet.time_ns >= self.time_ns && (low..=self.low.saturating_add(NEAR)).contains(&packet.seq)
    }
}

/// An open gap, a leap and packets held aside, one of each a flow: memory is bounded whatever is sent.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    held: [Held; PROOF - 1],
    count: u8,
    /// The gap lies below the stream's first packet, not above its highest.
    below: bool,
    /// Packets that bear the gap out so far.
    support: u8,
    /// Packets above the gap that [`Doubts::jumps`] counts.
    jumps: u32,
    /// The numbers of the gap, of which `open` have not come.
    low: u64,
    high: u64,
    open: u64,
    /// Where the flow's stream was before the one at hand was believed; 0: it was the first.
    former: u64,
    leap: Leap,
}

impl Doubt {
    /// Whether number `seq` continues the stream of before.
    fn goes_back(&self, seq: u64) -> bool {
        self.former != 0 && (self.former..=self.former.saturating_add(NEAR)).contains(&seq)
    }
}

/// The streams of flows, numbered from 0.
#[derive(Debug)]
pub struct Streams {
    windows: SequenceWindows,
    streams: Box<[Stream]>,
    doubts: Box<[Doubt]>,
    doubted: Doubts,
}

/// Bytes that a flow takes beside its window.
pub const STREAM_BYTES: usize = size_of::<Stream>() + size_of::<Doubt>();

impl Streams {
    /// Streams over windows: see [`SequenceWindows::new`].
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

    /// Jumps that no later packet has confirmed so far.
    pub fn doubts(&self) -> Doubts {
        self.doubted
    }

    /// Notes packet `seq` of `flow`, as [`Streams::record`] does, where it is the next and nothing is in doubt: most
    /// are, and there is nothing to find out about them. False: it is not, and nothing was noted.
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
    pub fn record(&mut self, flow: usize, seq: u64, time_ns: u64, now_ns: u64, latency: Option<u64>) -> Outcome {
        if self.record_next(flow, seq, time_ns, now_ns) {
            return Outcome::Counted(Counted {
                latency,
                distance: 0,
                expected: 1,
            });
        }
        let packet = Held {
            seq,
            time_ns,
            latency,
            too_old: false,
        };
        self.record_other(flow, packet, now_ns)
    }

    /// A packet that is not the next of a flow without doubts.
    #[inline(never)]
    fn record_other(&mut self, flow: usize, packet: Held, now_ns: u64) -> Outcome {
        let (stream, next) = (self.streams[flow], self.windows.next(flow));
        let Held { seq, time_ns, .. } = packet;
        if !stream.known {
            return self.received(flow, packet, now_ns, true);
        }
        // Numbers and times rise together: else it is of another stream, or none.
        let another = match seq >= next {
            true => seq - next > self.windows.span() / 2 || (seq > next && time_ns < stream.newest_ns),
            false => time_ns > stream.newest_ns,
        };
        if another {
            return self.hold(flow, packet, now_ns);
        }
        if seq >= next && stream.doubt & HELD != 0 {
            // The stream goes on, so what is held belongs to none.
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

    /// Notes a packet of the stream at hand. `sure`: what it skips is believed.
    fn received(&mut self, flow: usize, packet: Held, now_ns: u64, sure: bool) -> Outcome {
        let next = self.windows.next(flow);
        let Held { seq, latency, .. } = packet;
        let (distance, expected) = match self.windows.record(flow, seq) {
            Arrival::InOrder => (0, self.risen(flow, seq, next, packet.time_ns, sure)),
            Arrival::Reordered(distance) => (distance, self.behind(flow, seq)),
            Arrival::Duplicate => {
                let (stream, doubt) = (&self.streams[flow], &mut self.doubts[flow]);
                if seq + 1 == next && packet.time_ns != stream.newest_ns {
                    // No copy, so the one at the top was forged: this is the packet of that number.
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
            latency,
            distance,
            expected,
        })
    }

    /// A new highest number; `next` was expected. Returns how many more packets were sent.
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
                // One that is beyond this count stays in the sum.
                doubt.jumps = doubt.jumps.saturating_add(1);
                self.doubted.jumps += 1;
                self.doubted.open_gap += gap;
            }
            expected += self.support(flow);
        } else if gap <= NEAR && (gap == 0 || !doubt.goes_back(seq)) {
            expected += gap as i64;
            doubt.leap.lost += gap;
        } else {
            // One gap at a time: one below the first packet stays open for ever.
            self.open_gap(flow, next, seq, false);
        }
        expected
    }

    /// A new number below the highest. Returns how many more packets were sent.
    fn behind(&mut self, flow: usize, seq: u64) -> i64 {
        let (stream, doubt) = (&mut self.streams[flow], &mut self.doubts[flow]);
        doubt.leap.run = 0;
        if stream.doubt & GAP != 0 && (doubt.low..doubt.high).contains(&seq) {
            // None is open: this one was counted as lost.
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
            // Nothing bore the first packets out so far: then it is they that jump.
            let below = self.windows.next(flow) - base >= PROOF as u64;
            self.open_gap(flow, seq + 1, base, below);
        }
        1
    }

    /// The stream goes on below the gap: what it skipped there is lost. Returns how many more packets were sent.
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
            // All of it came or is lost: those above were only early.
            self.doubted.jumps -= u64::from(doubt.jumps);
            stream.doubt &= !GAP;
        }
        missing as i64
    }

    /// The same below a leap. Once [`PROOF`] packets have done so, what was leapt over is open, and no longer lost.
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

    /// One more packet bears the gap out. Returns how many packets it now says were sent.
    fn support(&mut self, flow: usize) -> i64 {
        let doubt = &mut self.doubts[flow];
        doubt.support += 1;
        if usize::from(doubt.support) < PROOF - 1 {
            return 0;
        }
        self.close_gap(flow)
    }

    /// The gap is believed: what has not come of it was sent.
    fn close_gap(&mut self, flow: usize) -> i64 {
        let (stream, doubt) = (&mut self.streams[flow], &mut self.doubts[flow]);
        stream.doubt &= !GAP;
        if !doubt.below && doubt.goes_back(doubt.high) {
            // The earlier stream goes on, so the one in between was none. Gaps that it left open stay open.
            doubt.former = 0;
            return 0;
        }
        if !doubt.below && doubt.low - stream.base < PROOF as u64 {
            self.doubted.after_first += doubt.open;
        }
        self.doubted.jumps -= u64::from(doubt.jumps);
        self.doubted.open_gap -= doubt.open;
        // Of a leap that began within the gap, only some.
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
        // Within the window, so that all of them have a place in it.
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

    /// A packet bears out those that are held: they are of the stream, beyond a long gap, or of another one.
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
            // They are numbers of their own, and the window has room for them: each is received.
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
