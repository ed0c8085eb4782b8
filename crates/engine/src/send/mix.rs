//! The sending half of a lane with several streams, or several sizes: takes the departure that is due first, writes its
//! packet, sends it, books it by stream.
//!
//! Streams with a rate have a schedule each, exact in total. Streams without take turns by weight. Each packet's flow,
//! number and size follow from its number among the packets of its stream on this lane.

mod part;

use crate::books::Books;
use crate::codec::mix::MixCodec;
use crate::lane::Lane;
use crate::lane::control::Control;
use crate::plan::{Packets, TrafficPlan};
use crate::send::ahead::Ahead;
use crate::send::earliest::Earliest;
use crate::send::sender::{Gaps, MISSED_ROWS, NEAR_NS, Sender, Sent};
use crate::send::sent::SentLog;
use crate::send::turns::Turns;
use mpps_io::{Burst, Error, Frame, MAX_BURST, Queue, Result};
use mpps_stats::Recorder;
use mpps_trace::Stage;
use mpps_wire::image::Place;

use part::{Clock, Part};
pub(crate) use part::{MixShare, span};

/// Order of departures.
#[derive(Debug)]
enum Order {
    /// By their times.
    Paced(Earliest),
    /// In turn.
    Turns(InTurn),
}

/// Streams that take turns.
#[derive(Debug)]
struct InTurn {
    turns: Turns,
    /// Time at which the next stream joins, ns; `u64::MAX`: none does.
    joins_ns: u64,
    /// Packets that each of the streams has at least.
    least: u64,
    /// All packets are made, none is of a capture.
    made: bool,
}

/// A frame that was written.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    part: u32,
    image: u32,
}

/// Departure of a frame that was written.
#[derive(Clone, Copy, Debug, Default)]
struct Departure {
    flow: u32,
    number: u64,
    scheduled_ns: u64,
}

/// The sending half of a lane.
#[derive(Debug)]
pub(crate) struct Mix<'r> {
    parts: Vec<Part<'r>>,
    order: Order,
    /// Whether what is sent is noted in logs.
    logs: bool,
    /// Parts that have pending packets.
    touched: Vec<u32>,
    catch_up_ns: u64,
    burst: usize,
    /// Frames written last, in their order.
    written: Box<[Written; MAX_BURST]>,
    /// Their departures, but of those that streams sent in turn: all of these are made, so each has a number, and none
    /// has a schedule.
    departures: Box<[Departure; MAX_BURST]>,
    /// The frames written last were sent by streams in turn.
    in_turn: bool,
    /// Number of these frames that have left.
    left: usize,
    /// Some parts have packets of which nobody knows whether they come.
    untagged: bool,
    written_bursts: u64,
    written_packets: u64,
    gaps: Gaps,
    done: bool,
    blocked: bool,
    /// Frames of a part are read while they are sent, and one waits for its next.
    reads: bool,
    waits: bool,
}

impl<'r> Mix<'r> {
    /// Makes the part of a lane in the streams of a plan; `shares`: those that it sends. The run begins at `start_ns`.
    pub(crate) fn new(plan: &TrafficPlan, packets: &Packets, shares: Vec<MixShare<'r>>, start_ns: u64) -> Self {
        let sizes = packets.streams.iter().map(|stream| stream.specs.len());
        let part = |share: MixShare<'r>| {
            let first_image = sizes.clone().take(share.stream).sum::<usize>() as u32;
            Part::new(plan, packets, share, (first_image, start_ns))
        };
        let parts: Vec<Part<'r>> = shares.into_iter().map(part).collect();
        let reads = parts.iter().any(|part| part.ahead().is_some());
        let order = match parts.iter().any(Part::is_timed) {
            true => Order::Paced(Earliest::new(parts.iter().map(Part::due))),
            false => Order::Turns(InTurn::new(&parts, start_ns)),
        };
        Self {
            logs: parts.iter().any(|part| part.log.is_some()),
            touched: Vec::with_capacity(parts.len()),
            untagged: parts.iter().any(|part| part.untagged),
            parts,
            order,
            catch_up_ns: plan.catch_up.as_nanos() as u64,
            burst: plan.tx_burst,
            written: Box::new([Written::default(); MAX_BURST]),
            departures: Box::new([Departure::default(); MAX_BURST]),
            in_turn: false,
            left: 0,
            written_bursts: 0,
            written_packets: 0,
            gaps: Gaps::default(),
            done: false,
            blocked: false,
            waits: reads,
            reads,
        }
    }

    /// Gives back the memory of frames that were read and have left, and looks for those that were read meanwhile.
    ///
    /// # Errors
    /// Says why no more will be read.
    #[inline(never)]
    fn look_ahead(&mut self, now: u64, is_empty: bool) -> Result<()> {
        let waited = std::mem::take(&mut self.waits);
        for part in &mut self.parts {
            let Some(Clock::Ahead(ahead)) = part.clock.as_deref_mut() else {
                continue;
            };
            if is_empty {
                ahead.free();
            }
            if ahead.waits() {
                ahead.look(now);
                if let Some(fault) = ahead.fault() {
                    return Err(fault);
                }
                self.waits |= ahead.waits();
            }
        }
        if waited && let Order::Paced(earliest) = &mut self.order {
            earliest.set_all(self.parts.iter().map(Part::due));
        }
        Ok(())
    }

    /// Returns why departures are missing at the end that nobody has counted: their frames were not read in time.
    #[cold]
    fn not_in_time(&self) -> Option<Error> {
        let mut read = self.parts.iter().filter(|_| self.reads).filter_map(Part::ahead);
        read.find_map(Ahead::not_in_time)
    }

    /// Notes what was read too late, once the lane is through.
    #[cold]
    fn note_reads(&self, control: &Control) {
        let notes = self.parts.iter().filter_map(Part::ahead).filter_map(Ahead::note);
        notes.for_each(|note| control.note(note));
    }

    /// Returns how many packets are to leave by now.
    #[inline]
    fn wanted(&mut self, now: u64) -> usize {
        match &mut self.order {
            Order::Paced(earliest) => {
                let mut want = 0;
                let (parts, burst) = (&self.parts, self.burst);
                earliest.due(now, |part| {
                    want += parts[part]
                        .clock
                        .as_ref()
                        .map_or(0, |clock| clock.due(now, burst - want));
                    want < burst
                });
                want
            }
            Order::Turns(of) => {
                if now >= of.joins_ns {
                    *of = InTurn::new(&self.parts, now);
                }
                if of.turns.is_empty() { 0 } else { self.burst }
            }
        }
    }

    /// Writes packets into the frames of a burst, in the order of their departures. Returns how many: a stream may end
    /// before.
    #[inline]
    fn write<F: Frame>(&mut self, codec: &MixCodec, burst: &mut Burst<F>, now: u64) -> usize {
        self.left = 0;
        let frames = burst.as_mut_slice();
        self.in_turn = match &mut self.order {
            Order::Turns(of) => of.have(frames.len() as u64, &self.parts),
            Order::Paced(_) => false,
        };
        let count = match &self.parts[..] {
            _ if self.in_turn => self.write_in_turn(codec, frames, now),
            [part] if part.captured && !self.reads => self.write_captured(codec, frames, now),
            _ => self.write_taken(codec, frames, now),
        };
        if self.logs {
            for written in &self.written[..count] {
                self.parts[written.part as usize].note(now);
            }
        }
        self.written_bursts += 1;
        self.written_packets += count as u64;
        count
    }

    /// Writes packets of streams that take turns, each of which has enough of them. Out of line: what the loop needs is
    /// in registers there.
    #[inline(never)]
    fn write_in_turn<F: Frame>(&mut self, codec: &MixCodec, frames: &mut [F], now: u64) -> usize {
        let Order::Turns(InTurn { turns, .. }) = &mut self.order else {
            return 0;
        };
        let (count, turns) = (frames.len(), turns.take(frames.len()));
        for ((frame, place), slot) in frames.iter_mut().zip(turns).zip(&mut self.written[..]) {
            let part = &mut self.parts[*place as usize];
            let (place_in_flow, image) = part.next();
            *slot = Written { part: *place, image };
            let image = codec.image(image as usize);
            frame.set_len(image.frame_len());
            frame.set_flow(part.first_flow + place_in_flow.flow);
            image.write_next(frame.bytes_mut(), place_in_flow, now);
        }
        count
    }

    /// Writes packets as they are taken one by one.
    #[inline]
    fn write_taken<F: Frame>(&mut self, codec: &MixCodec, frames: &mut [F], now: u64) -> usize {
        let mut count = 0;
        let slots = self.written.iter_mut().zip(&mut self.departures[..]);
        for (frame, (slot, departure)) in frames.iter_mut().zip(slots) {
            let Some((part, place, scheduled_ns)) = take(&mut self.order, &mut self.parts) else {
                break;
            };
            let (Place { flow, number }, image) = match part.captured {
                false => {
                    let next = part.next();
                    if let Some(slips) = part.slips {
                        slips.note(next.0.flow, next.0.number, now.saturating_sub(scheduled_ns));
                    }
                    next
                }
                true => part.next_captured(codec, now.saturating_sub(scheduled_ns)),
            };
            *slot = Written {
                part: place as u32,
                image,
            };
            *departure = Departure {
                flow,
                number,
                scheduled_ns,
            };
            frame.set_len(codec.frame_len(part.stream, image as usize));
            frame.set_flow(part.first_flow + flow);
            match codec.captured(part.stream) {
                None => codec
                    .image(image as usize)
                    .write_next(frame.bytes_mut(), Place { flow, number }, now),
                Some(captured) => captured.write(frame.bytes_mut(), flow, number, now),
            }
            count += 1;
        }
        if self.reads {
            self.waits = self.parts.iter().filter_map(Part::ahead).any(Ahead::waits);
        }
        count
    }

    /// Writes frames of the only stream of the lane, which is a capture: in their order, one after the other.
    #[inline]
    fn write_captured<F: Frame>(&mut self, codec: &MixCodec, mut frames: &mut [F], now: u64) -> usize {
        let part = &mut self.parts[0];
        let Some(captured) = codec.captured(part.stream) else {
            return 0;
        };
        if let Order::Turns(of) = &mut self.order {
            let left = part.left().try_into().unwrap_or(usize::MAX);
            let most = frames.len().min(left);
            frames = &mut frames[..most];
            if most == left {
                of.turns.remove(0);
            }
        }
        let (lane, count, first_image) = (part.lane(), frames.len(), codec.first_image(part.stream) as u32);
        let mut slots = self.written.iter_mut().zip(&mut self.departures[..]);
        captured.write_all(frames, lane, &mut part.place, now, |size, number| {
            let scheduled_ns = part.clock.as_mut().and_then(|clock| clock.pop()).unwrap_or(0);
            let n = part.course.next_frame();
            if let Some((slot, departure)) = slots.next() {
                *slot = Written {
                    part: 0,
                    image: first_image + size as u32,
                };
                *departure = Departure {
                    flow: lane,
                    number: n,
                    scheduled_ns,
                };
            }
            if let Some(number) = number {
                part.written += 1;
                if let Some(slips) = part.slips {
                    slips.note(lane, number, now.saturating_sub(scheduled_ns));
                }
            }
        });
        if let Order::Paced(earliest) = &mut self.order {
            earliest.set_first(part.due());
        }
        count
    }

    /// Counts those of the next `taken` frames of which nobody knows whether they come. They left at `now`.
    #[cold]
    fn note_untagged(&self, taken: usize, (now, lane): (u64, &Lane<'_>), recorder: &mut Recorder<'_>) {
        let taken = &self.written[self.left..self.left + taken];
        let untagged = taken
            .iter()
            .filter(|written| self.parts[written.part as usize].untagged);
        let untagged = untagged.count() as u64;
        lane.counters.tx_untagged.add(untagged);
        recorder.sent_untagged(now, untagged);
    }

    /// Books the next frames of those that were written, which leave.
    #[inline(always)]
    fn book(&self, books: &mut Books<'_>, taken: usize, now: u64) {
        let taken = &self.written[self.left..self.left + taken];
        books.sent(taken.iter().map(|written| written.image), now);
    }

    /// Counts the frames that are pending, by part. For each, calls `each` with the part and the number of its packets
    /// that left.
    #[cold]
    fn pending_of_parts(&mut self, codec: &MixCodec, pending: usize, mut each: impl FnMut(&SentLog, u64, u64)) {
        let pending = self.left..self.left + pending;
        for (written, of) in self.written[pending.clone()].iter().zip(&self.departures[pending]) {
            let part = &mut self.parts[written.part as usize];
            let has_tag = || self.in_turn || codec.image_and_number(part.stream, of.flow, of.number).1.is_some();
            if part.log.is_none() || !has_tag() {
                continue;
            }
            if part.noted == part.written {
                self.touched.push(written.part);
            }
            part.noted -= 1;
        }
        for place in self.touched.drain(..) {
            let part = &mut self.parts[place as usize];
            if let Some(log) = part.log {
                each(log, part.noted, part.written);
            }
            part.noted = part.written;
        }
    }

    /// Prepares frames again that the path did not take: they leave later than their first stamp says, and have slipped
    /// by as much more.
    #[cold]
    fn restamp<F: Frame>(&mut self, codec: &MixCodec, pending: &mut Burst<F>, now: u64) {
        let frames = pending.as_mut_slice().iter_mut();
        let written = self.written[self.left..].iter().zip(&self.departures[self.left..]);
        for (frame, (written, of)) in frames.zip(written) {
            let part = &self.parts[written.part as usize];
            match codec.captured(part.stream) {
                None => codec.image(written.image as usize).restamp(frame.bytes_mut(), now),
                Some(captured) => captured.restamp(frame.bytes_mut(), of.flow, of.number, now),
            }
            if let Some(slips) = part.slips
                && let (_, Some(number)) = codec.image_and_number(part.stream, of.flow, of.number)
            {
                slips.note(of.flow, number, now.saturating_sub(of.scheduled_ns));
            }
        }
        self.pending_of_parts(codec, pending.len(), |log, left, written| {
            log.note(0, left..written, now)
        });
    }

    /// Notes that nothing is due: for now, or because all packets have left.
    fn rest(&mut self, lane: &Lane<'_>) {
        match &self.order {
            Order::Paced(earliest) => self.done = earliest.first().is_none_or(|(due, _)| due == u64::MAX),
            Order::Turns(InTurn { turns, joins_ns, .. }) => {
                if turns.is_empty() && *joins_ns == u64::MAX {
                    self.done = true;
                    lane.control.sent_all(self.gaps.last_ns);
                }
            }
        }
    }

    /// Gives up departures that were due before `before_ns`. Each is missed in the row in which it was due.
    #[cold]
    fn skip_before(&mut self, before_ns: u64, (recorder, books): (&mut Recorder<'_>, &mut Books<'_>)) {
        let Order::Paced(earliest) = &mut self.order else {
            return;
        };
        let Some((first, _)) = earliest.first() else { return };
        let least_ns = before_ns.saturating_sub(first) / MISSED_ROWS;
        while let Some((due, place)) = earliest.first().filter(|(due, _)| *due < before_ns) {
            let part = &mut self.parts[place];
            let Some(clock) = &mut part.clock else { return };
            let until = recorder.row_end_ns(due).max(due.saturating_add(least_ns));
            let missed = clock.skip_before(until.min(before_ns));
            recorder.missed(due, missed);
            books.missed(part.stream, due, missed);
            earliest.set_first(clock.next_due().unwrap_or(u64::MAX));
        }
        self.waits |= self.reads;
    }

    /// Gives up departures before `end_ns` and those to come, and frames that are pending.
    #[cold]
    fn stop<F>(&mut self, end_ns: u64, pending: &mut Burst<F>, (recorder, books): (&mut Recorder<'_>, &mut Books<'_>)) {
        self.skip_before(end_ns, (recorder, books));
        if matches!(self.order, Order::Paced(_)) {
            // The last row is the one before the end.
            let at_ns = end_ns.saturating_sub(1);
            recorder.missed(at_ns, pending.len() as u64);
            for written in &self.written[self.left..self.left + pending.len()] {
                books.missed(self.parts[written.part as usize].stream, at_ns, 1);
            }
        }
        pending.clear();
        self.done = true;
    }

    /// Decides at the end of the run whether to go on: packets that were due before it may still leave, as long as they
    /// could be caught up. Returns true when the lane is through.
    #[cold]
    fn wind_up<F>(
        &mut self,
        now: u64,
        end_ns: u64,
        pending: &mut Burst<F>,
        booked: (&mut Recorder<'_>, &mut Books<'_>),
    ) -> bool {
        if let Order::Paced(earliest) = &self.order {
            let due_before_end = earliest.first().is_some_and(|(due, _)| due < end_ns);
            if now < end_ns.saturating_add(self.catch_up_ns) && (due_before_end || !pending.is_empty()) {
                return false;
            }
        }
        self.stop(end_ns, pending, booked);
        true
    }
}

/// Takes the next departure: the part whose turn it is, its place, and the scheduled time, ns.
#[inline(always)]
fn take<'p, 'r>(order: &mut Order, parts: &'p mut [Part<'r>]) -> Option<(&'p mut Part<'r>, usize, u64)> {
    match order {
        Order::Paced(earliest) => {
            let (_, place) = earliest.first()?;
            let part = &mut parts[place];
            let clock = part.clock.as_mut()?;
            let scheduled = clock.pop()?;
            earliest.set_first(clock.next_due().unwrap_or(u64::MAX));
            Some((part, place, scheduled))
        }
        Order::Turns(of) => {
            let place = of.turns.next()?;
            let part = &mut parts[place];
            if let Some(clock) = &mut part.clock {
                clock.pop()?;
            }
            if part.left() <= 1 {
                of.turns.remove(place);
            }
            Some((part, place, 0))
        }
    }
}

impl InTurn {
    /// Makes the turns of the parts that have begun by `now` and still have packets.
    #[cold]
    fn new(parts: &[Part<'_>], now: u64) -> Self {
        let open = |(_, part): &(usize, &Part<'_>)| part.left() > 0;
        let (begun, later): (Vec<_>, Vec<_>) = parts
            .iter()
            .enumerate()
            .filter(open)
            .partition(|(_, part)| part.start_ns <= now);
        let begun: Vec<(usize, u32)> = begun.into_iter().map(|(place, part)| (place, part.weight)).collect();
        let joins_ns = later.iter().map(|(_, part)| part.start_ns).min();
        Self {
            turns: Turns::new(&begun),
            joins_ns: joins_ns.unwrap_or(u64::MAX),
            least: 0,
            made: !parts.iter().any(|part| part.captured || part.slips.is_some()),
        }
    }

    /// Returns whether a burst of so many packets can be written as the turns say: no stream ends in it.
    #[inline(always)]
    fn have(&mut self, packets: u64, parts: &[Part<'_>]) -> bool {
        if self.least <= packets {
            self.least = self.least_of(parts);
        }
        let have = self.least > packets;
        self.least = if have { self.least - packets } else { 0 };
        have
    }

    #[cold]
    fn least_of(&self, parts: &[Part<'_>]) -> u64 {
        let sends = |part: &&Part<'_>| part.left() > 0 && part.start_ns < self.joins_ns;
        let left = parts.iter().filter(sends).map(Part::left).min();
        left.filter(|_| self.made).unwrap_or(0)
    }
}

impl Sender<MixCodec> for Mix<'_> {
    fn burst(&self) -> usize {
        self.burst
    }

    #[inline]
    fn done(&self) -> bool {
        self.done
    }

    #[inline]
    fn is_blocked(&self) -> bool {
        self.blocked
    }

    #[inline]
    fn next_due(&self) -> u64 {
        if self.waits && !self.done {
            return 0;
        }
        match &self.order {
            Order::Paced(earliest) => earliest.first().map_or(u64::MAX, |(due, _)| due),
            Order::Turns(of) if !of.turns.is_empty() => 0,
            Order::Turns(of) => of.joins_ns,
        }
    }

    #[inline]
    fn end_ns(&self, end_ns: u64) -> u64 {
        end_ns
    }

    #[cold]
    fn has_due<F>(&self, now: u64, pending: &Burst<F>) -> bool {
        self.next_due() <= now || !pending.is_empty()
    }

    #[inline]
    fn step<Q: Queue>(
        &mut self,
        queue: &mut Q,
        codec: &MixCodec,
        pending: &mut Burst<Q::Frame>,
        lane: &Lane<'_>,
        (loop_ns, end_ns): (u64, u64),
        (recorder, books): (&mut Recorder<'_>, &mut Books<'_>),
    ) -> Result<bool> {
        let (clock, counters) = (&lane.clock, lane.counters);
        // Without a schedule the time only decides whether the run is over.
        let decides = matches!(self.order, Order::Paced(_)) || !pending.is_empty() || loop_ns + NEAR_NS >= end_ns;
        let mut now = if decides { clock.now_ns() } else { loop_ns };
        self.blocked = false;
        if self.reads {
            self.look_ahead(now, pending.is_empty())?;
        }
        self.skip(now, (recorder, books));
        if now >= end_ns {
            // Once it has wound up, nothing waits any more.
            let late = self.not_in_time();
            if self.wind_up(now, end_ns, pending, (recorder, books)) {
                self.note_reads(lane.control);
                return late.map_or(Ok(false), Err);
            }
        }
        if pending.is_empty() {
            let want = self.wanted(now);
            if want == 0 {
                self.rest(lane);
                if self.done {
                    self.note_reads(lane.control);
                }
                return Ok(false);
            }
            if lane.stages.is_on() {
                match decides {
                    true => lane.stages.goes_on(now),
                    false => lane.stages.goes_on_unread(clock),
                }
                if let Order::Paced(earliest) = &self.order {
                    let due = earliest.first().map_or(now, |(due, _)| due);
                    lane.stages.late(now.saturating_sub(due));
                }
            }
            if queue.allocate(pending, want)? == 0 {
                lane.mark(Stage::Allocate);
                counters.tx_full.add(1);
                self.blocked = true;
                return Ok(false);
            }
            // Allocating may have meant a system call; the stamp is to be as late as possible.
            now = clock.now_ns();
            lane.mark_at(Stage::Allocate, now);
            lane.stamped(now);
            let count = self.write(codec, pending, now);
            while pending.len() > count {
                drop(pending.pop());
            }
            lane.mark(Stage::Write);
            if count == 0 {
                return Ok(false);
            }
        } else {
            lane.stamped(now);
            self.restamp(codec, pending, now);
        }
        let offered = pending.len();
        let result = lane.transmit(lane.port, queue, pending);
        lane.mark(Stage::Transmit);
        let taken = offered - pending.len();
        self.book(books, taken, now);
        if self.untagged {
            self.note_untagged(taken, (now, lane), recorder);
        }
        self.left += taken;
        if !pending.is_empty() {
            self.pending_of_parts(codec, pending.len(), |log, left, _| log.take_back(0, left));
        }
        if taken > 0 {
            self.gaps.departed(now, taken as u64);
            recorder.sent(now, taken as u64);
            counters.tx_packets.add(taken as u64);
            counters.tx_bursts.add(1);
        } else {
            counters.tx_full.add(1);
            self.blocked = true;
        }
        result.map(|_| taken > 0)
    }

    #[inline]
    fn skip(&mut self, now: u64, booked: (&mut Recorder<'_>, &mut Books<'_>)) {
        if let Order::Paced(earliest) = &self.order {
            let before_ns = now.saturating_sub(self.catch_up_ns);
            if earliest.first().is_some_and(|(due, _)| due < before_ns) {
                self.skip_before(before_ns, booked);
            }
        }
    }

    #[cold]
    fn give_up<F: Frame>(
        &mut self,
        now: u64,
        pending: &mut Burst<F>,
        control: &Control,
        booked: (&mut Recorder<'_>, &mut Books<'_>),
    ) {
        self.stop(now, pending, booked);
        self.note_reads(control);
    }

    fn into_sent(self) -> Sent {
        Sent {
            gaps: Some(self.gaps.into_parts()),
            departures: None,
            written: (self.written_bursts, self.written_packets),
        }
    }
}

#[cfg(test)]
#[path = "mix_tests.rs"]
mod tests;
