//! One direction: from the queue that frames come in by to the queue that they leave by.
//!
//! Received frames are sent at once. With a drain time they are held until a burst is full or the oldest frame has
//! waited for so long. Holding has functions of its own: without it, it costs one comparison per burst.

use super::held::Held;
use super::work::Working;
use crate::lane::Lane;
use crate::lane::room::Room;
use crate::outcome::PortCounts;
use crate::plan::ForwardPort;
use mpps_io::{Burst, Frame, Queue, Reason, Result, RxChecksum, Wait};
use mpps_io::{OnFull, Work};
use mpps_stats::Recorder;
use mpps_trace::Stage;
use mpps_wire::forward::{is_frame, set_macs, swap_five_tuple, swap_macs};
use mpps_wire::{Rewrite, TakeFilter, complete_checksum, complete_open_checksum, eth};
use std::marker::PhantomData;
use std::time::Duration;

/// Step by which frames that one queue received become frames that another can send.
pub(crate) trait Step<F: Frame, Q: Queue> {
    /// Frames are written, not moved.
    const WRITES: bool;

    /// Takes frames from the front of `received` to the end of `out`, as many as go now; returns how many of them were
    /// dropped, because a buffer of `to` is too small.
    fn pass(received: &mut Burst<F>, to: &mut Q, out: &mut Burst<Q::Frame>) -> Result<usize>;
}

/// Both queues are over one pool, or are one: the frames themselves move.
pub(crate) struct Move;

impl<F: Frame, Q: Queue<Frame = F>> Step<F, Q> for Move {
    const WRITES: bool = false;

    #[inline]
    fn pass(received: &mut Burst<F>, _to: &mut Q, out: &mut Burst<F>) -> Result<usize> {
        if out.is_empty() {
            out.swap(received);
        } else {
            let room = out.room();
            for frame in received.drain(room) {
                // There is room: the loop's bound says so.
                let _ = out.push(frame);
            }
        }
        Ok(0)
    }
}

/// Each queue has a pool of its own: one copy, into a buffer of the second.
pub(crate) struct CopyOver;

impl<F: Frame, Q: Queue> Step<F, Q> for CopyOver {
    const WRITES: bool = true;

    #[inline]
    fn pass(received: &mut Burst<F>, to: &mut Q, out: &mut Burst<Q::Frame>) -> Result<usize> {
        let mut filled = out.len();
        let buffers = to.allocate(out, received.len())?;
        let mut too_long = 0;
        for frame in received.drain(buffers) {
            let bytes = frame.bytes();
            let copy = &mut out.as_mut_slice()[filled];
            if bytes.len() > copy.capacity() {
                too_long += 1;
                continue;
            }
            copy.set_len(bytes.len());
            copy.bytes_mut().copy_from_slice(bytes);
            filled += 1;
        }
        while out.len() > filled {
            drop(out.pop());
        }
        Ok(too_long)
    }
}

/// Counts of one direction. `rx = tx + cut + open_checksum + short + too_long + tx_full + port_down`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WayCounts {
    rx: u64,
    rx_bytes: u64,
    tx: u64,
    not_taken: u64,
    cut: u64,
    open_checksum: u64,
    short: u64,
    too_long: u64,
    tx_full: u64,
    port_down: u64,
}

impl WayCounts {
    /// Returns the counts that belong to the port that frames came in by.
    pub(super) fn at_source(&self) -> PortCounts {
        PortCounts {
            rx_packets: self.rx,
            rx_bytes: self.rx_bytes,
            tx_packets: 0,
            reasons: nonzero([
                (Reason::NotTaken, self.not_taken),
                (Reason::Short, self.short),
                (Reason::Cut, self.cut),
                (Reason::OpenChecksum, self.open_checksum),
            ]),
        }
    }

    /// Adds the counts that belong to the port that they left by.
    pub(super) fn add_at_destination(&self, port: &mut PortCounts) {
        port.tx_packets += self.tx;
        port.reasons.extend(nonzero([
            (Reason::TooLong, self.too_long),
            (Reason::TxFull, self.tx_full),
            (Reason::PortDown, self.port_down),
        ]));
    }
}

fn nonzero<const N: usize>(reasons: [(Reason, u64); N]) -> Vec<(Reason, u64)> {
    reasons.into_iter().filter(|(_, n)| *n > 0).collect()
}

/// One direction of one lane.
pub(super) struct Way<'r, F: Frame, Q: Queue, S> {
    take: &'r TakeFilter,
    takes_all: bool,
    /// All received frames are plain.
    plain: bool,
    rewrite: Rewrite,
    /// Largest frame that the second port carries, bytes; a VLAN tag may come on top.
    max_frame: usize,
    received: Burst<F>,
    out: Burst<Q::Frame>,
    held: Held,
    work: Working,
    /// Frames are held, or there is work on them.
    special: bool,
    on_full: OnFull,
    /// Places of the port that frames come in by and of the port that they leave by.
    places: [usize; 2],
    pub(super) counts: WayCounts,
    step: PhantomData<S>,
}

impl<'r, F: Frame, Q: Queue, S: Step<F, Q>> Way<'r, F, Q, S> {
    /// Makes a direction. `plain`: the queue that frames come in by gives plain frames only ([`Queue::gives_plain`]).
    /// `max_frame`: largest frame of the port `to`. `places`: places of the two ports among the ports of the run.
    pub(super) fn new(
        (from, plain): (&'r ForwardPort, bool),
        to: &'r ForwardPort,
        places: [usize; 2],
        max_frame: usize,
        burst: usize,
        (drain, on_full, work): (Duration, OnFull, Work),
    ) -> Self {
        let out = Burst::new(burst);
        Self {
            take: &from.take,
            takes_all: from.take.takes_all(),
            plain,
            rewrite: to.rewrite,
            max_frame,
            received: Burst::new(burst),
            held: Held::new(out.limit(), drain.as_nanos() as u64),
            special: !drain.is_zero() || work != Work::default(),
            work: Working::new(work),
            out,
            on_full,
            places,
            counts: WayCounts::default(),
            step: PhantomData,
        }
    }

    /// Receives a burst and makes it ready to be sent; false when no frame had come.
    #[inline]
    pub(super) fn receive<R: Queue<Frame = F>>(
        &mut self,
        lane: &Lane<'_>,
        from: &mut R,
        now_ns: u64,
        recorder: &mut Recorder<'_>,
    ) -> bool {
        match lane.receive(self.places[0], from, &mut self.received) {
            Ok(frames) => {
                lane.count_rx(frames, now_ns);
                if frames == 0 {
                    return false;
                }
                lane.mark(Stage::Receive);
                let before = self.counts.rx;
                self.prepare();
                let taken = self.counts.rx - before;
                recorder.arrived_n(now_ns, taken as u32, None);
                lane.counters.rx_test.add(taken);
                lane.mark(Stage::Classify);
                true
            }
            Err(error) => {
                lane.trouble(&error);
                false
            }
        }
    }

    /// Rewrites frames that are to be sent, and drops the others. The kind of rewriting is chosen once per burst.
    #[inline]
    fn prepare(&mut self) {
        let plain = match self.plain {
            _ if !self.takes_all => 0,
            true => self.rewrite_all::<true>(),
            false => self.rewrite_all::<false>(),
        };
        if plain < self.received.len() {
            self.sort_out(plain);
        }
    }

    /// Calls [`Way::plain`] with the rewriting of this direction.
    #[inline(always)]
    fn rewrite_all<const PLAIN: bool>(&mut self) -> usize {
        match self.rewrite {
            Rewrite::Io if PLAIN => self.untouched(),
            Rewrite::Io => self.plain::<PLAIN>(|frame| is_frame(frame)),
            Rewrite::MacSwap => self.plain::<PLAIN>(swap_macs),
            Rewrite::L2Forward { source, destination } => {
                self.plain::<PLAIN>(|frame| set_macs(frame, source, destination))
            }
            Rewrite::FiveTupleSwap => self.plain::<PLAIN>(swap_five_tuple),
        }
    }

    /// Does the work of [`Way::plain`] for plain frames that go on as they are. As a rule they are of one length: then
    /// no frame needs a closer look.
    #[inline]
    fn untouched(&mut self) -> usize {
        let frames = self.received.as_slice();
        // Bits that any length has, and bits that all have: equal if the lengths are.
        let (len, common) = frames.iter().fold((0, usize::MAX), |(any, all), frame| {
            let len = frame.bytes().len();
            (any | len, all & len)
        });
        if len != common || len < eth::HEADER_LEN || len > self.max_frame {
            return self.plain::<true>(|frame| is_frame(frame));
        }
        let frames = frames.len();
        self.counts.rx += frames as u64;
        self.counts.rx_bytes += (frames * len) as u64;
        frames
    }

    /// Rewrites the frames up to the first that needs more than rewriting, or is too long; returns how many: nearly
    /// always all. `rewrite` is false for a frame that is too short for it.
    #[inline(always)]
    fn plain<const PLAIN: bool>(&mut self, rewrite: impl Fn(&mut [u8]) -> bool) -> usize {
        let (mut bytes, max_frame) = (0, self.max_frame);
        let frames = self.received.as_mut_slice();
        let odd = |frame: &mut F| {
            let whole = PLAIN || frame.is_plain();
            let content = frame.bytes_mut();
            let len = content.len();
            if !whole || len > max_frame || !rewrite(content) {
                return true;
            }
            bytes += len as u64;
            false
        };
        let plain = frames.iter_mut().position(odd).unwrap_or(frames.len());
        self.counts.rx += plain as u64;
        self.counts.rx_bytes += bytes;
        plain
    }

    /// Does the work of [`Way::prepare`] frame by frame, except for the first `done` frames, which are ready.
    #[inline(never)]
    fn sort_out(&mut self, done: usize) {
        let (take, rewrite, max_frame, counts) = (self.take, self.rewrite, self.max_frame, &mut self.counts);
        let mut at = 0;
        self.received.retain(|frame| {
            at += 1;
            if at <= done {
                return true;
            }
            let len = frame.bytes().len();
            if !take.takes(frame.bytes()) {
                counts.not_taken += 1;
                return false;
            }
            counts.rx += 1;
            counts.rx_bytes += len as u64;
            if frame.wire_len() > len {
                counts.cut += 1;
                return false;
            }
            // The next device would not know that the checksum is unfinished.
            match frame.rx_checksum() {
                RxChecksum::Partial if !complete_checksum(frame.bytes_mut()) => {
                    counts.open_checksum += 1;
                    return false;
                }
                RxChecksum::Unmarked => complete_open_checksum(frame.bytes_mut()),
                _ => {}
            }
            if rewrite.apply(frame.bytes_mut()).is_err() {
                counts.short += 1;
                return false;
            }
            if len > max_frame && len > max_frame + tag_len(frame.bytes()) {
                counts.too_long += 1;
                return false;
            }
            true
        });
    }

    /// Takes the frames that [`Way::receive`] made ready (`came`) on their way: sends them, or holds them for a while.
    /// True when any came or went.
    #[inline]
    pub(super) fn pass_on(
        &mut self,
        came: bool,
        lane: &Lane<'_>,
        to: &mut Q,
        now_ns: u64,
        recorder: &mut Recorder<'_>,
    ) -> bool {
        if self.special {
            if came && self.work.any() {
                self.work.on(self.received.len(), &lane.clock);
                lane.mark(Stage::Classify);
            }
            if self.held.holds() {
                return self.hold(lane, to, now_ns, recorder) || came;
            }
        }
        if came {
            self.send::<false>(lane, to, now_ns, recorder);
        }
        came
    }

    /// Returns when held frames must go, ns; `u64::MAX` when none is held.
    pub(super) fn due_ns(&self) -> u64 {
        self.held.due_ns()
    }

    /// Sends held frames, however short they have been held.
    pub(super) fn release(&mut self, lane: &Lane<'_>, to: &mut Q, recorder: &mut Recorder<'_>) {
        if !self.out.is_empty() {
            self.send::<true>(lane, to, lane.clock.now_ns(), recorder);
        }
    }

    /// Puts received frames behind held ones, and sends those that make a full burst or have waited for long enough;
    /// true when any was sent.
    #[inline(never)]
    fn hold(&mut self, lane: &Lane<'_>, to: &mut Q, now_ns: u64, recorder: &mut Recorder<'_>) -> bool {
        let mut sent = false;
        while !self.received.is_empty() {
            if let Err(error) = self.pass::<true>(lane, to, now_ns) {
                lane.trouble(&error);
                self.counts.port_down += self.give_up();
                return true;
            }
            if self.received.is_empty() && self.out.room() > 0 {
                break;
            }
            // Full, or there is no buffer for more.
            self.send::<true>(lane, to, now_ns, recorder);
            sent = true;
        }
        if now_ns >= self.held.due_ns() {
            self.send::<true>(lane, to, now_ns, recorder);
            sent = true;
        }
        sent
    }

    /// Takes received frames to the outgoing burst, as many as go now.
    #[inline]
    fn pass<const HELD: bool>(&mut self, lane: &Lane<'_>, to: &mut Q, now_ns: u64) -> Result<()> {
        let before = self.out.len();
        self.counts.too_long += S::pass(&mut self.received, to, &mut self.out)? as u64;
        let passed = self.out.len() - before;
        if HELD {
            self.held.add(now_ns, passed);
        }
        if S::WRITES {
            lane.counters.stages.written_bursts.add(u64::from(passed > 0));
            lane.counters.stages.written_packets.add(passed as u64);
            lane.mark(Stage::Write);
        }
        Ok(())
    }

    /// Sends all received frames. If frames are `HELD`, sends the outgoing burst (or, if that is empty, the first
    /// received frames). As a rule the path takes all of them in one go.
    #[inline]
    fn send<const HELD: bool>(&mut self, lane: &Lane<'_>, to: &mut Q, now_ns: u64, recorder: &mut Recorder<'_>) {
        if let Some(taken) = self.offer::<HELD>(lane, to, now_ns, recorder)
            && !self.all_sent::<HELD>(taken)
        {
            self.send_rest::<HELD>(taken, lane, to, now_ns, recorder);
        }
    }

    /// Returns whether nothing is left to be sent after the path took `taken`.
    #[inline]
    fn all_sent<const HELD: bool>(&self, taken: u64) -> bool {
        self.out.is_empty() && (self.received.is_empty() || HELD && taken > 0)
    }

    /// Offers the path the frames that are to be sent, once; returns how many it took. `None`: the path failed, and the
    /// frames that it did not take are dropped.
    #[inline(always)]
    fn offer<const HELD: bool>(
        &mut self,
        lane: &Lane<'_>,
        to: &mut Q,
        now_ns: u64,
        recorder: &mut Recorder<'_>,
    ) -> Option<u64> {
        if !HELD || self.out.is_empty() {
            match self.pass::<HELD>(lane, to, now_ns) {
                Ok(()) => {}
                Err(error) => return self.fail(lane, &error),
            }
        }
        let offered = self.out.len();
        if offered == 0 {
            return Some(0);
        }
        let result = lane.transmit(self.places[1], to, &mut self.out);
        lane.mark(Stage::Transmit);
        let taken = (offered - self.out.len()) as u64;
        if taken > 0 {
            match HELD {
                true => self.held.take(taken, |at, n| recorder.sent(at, n)),
                false => recorder.sent(now_ns, taken),
            }
            self.counts.tx += taken;
            lane.counters.tx_packets.add(taken);
            lane.counters.tx_bursts.add(1);
        }
        match result {
            Ok(_) => Some(taken),
            Err(error) => self.fail(lane, &error),
        }
    }

    /// Goes on after an offer of which the path took `taken`: waits for room a little, or not at all, and gives up
    /// frames that it still refuses then.
    #[cold]
    fn send_rest<const HELD: bool>(
        &mut self,
        mut taken: u64,
        lane: &Lane<'_>,
        to: &mut Q,
        now_ns: u64,
        recorder: &mut Recorder<'_>,
    ) {
        let mut room = Room::new(self.on_full);
        if room.gives_up(lane, taken) {
            self.drop_rest::<HELD>(lane);
            return;
        }
        while !self.all_sent::<HELD>(taken) {
            if taken > 0 {
                room.found();
            } else if !room.wait(lane, recorder, |timeout| to.wait(Wait { rx: false, tx: true }, timeout)) {
                let left = self.give_up();
                self.count_full(lane, left);
                return;
            }
            match self.offer::<HELD>(lane, to, now_ns, recorder) {
                Some(more) => taken = more,
                None => return,
            }
        }
    }

    /// Drops frames of an offer that the path did not take. Of `HELD` frames, those that have come since and were not
    /// offered yet stay, unless the path had not even a buffer for one.
    #[cold]
    fn drop_rest<const HELD: bool>(&mut self, lane: &Lane<'_>) {
        let left = match HELD && !self.out.is_empty() {
            true => {
                let left = self.out.len() as u64;
                self.out.clear();
                self.held.clear();
                left
            }
            false => self.give_up(),
        };
        self.count_full(lane, left);
    }

    /// Counts frames that were dropped because the path had no room.
    fn count_full(&mut self, lane: &Lane<'_>, frames: u64) {
        self.counts.tx_full += frames;
        lane.counters.tx_given_up.add(frames);
    }

    /// Drops the frames that a failed path did not take.
    #[cold]
    fn fail(&mut self, lane: &Lane<'_>, error: &mpps_io::Error) -> Option<u64> {
        lane.trouble(error);
        self.counts.port_down += self.give_up();
        None
    }

    /// Drops frames that were not sent; returns how many.
    #[cold]
    fn give_up(&mut self) -> u64 {
        let left = self.out.len() + self.received.len();
        self.out.clear();
        self.received.clear();
        self.held.clear();
        left as u64
    }
}

/// Returns the bytes by which a frame may exceed the largest one because of its VLAN tag.
#[cold]
fn tag_len(frame: &[u8]) -> usize {
    if eth::vlan_id(frame).is_some() { eth::TAG_LEN } else { 0 }
}

#[cfg(test)]
#[path = "way_tests.rs"]
mod tests;
