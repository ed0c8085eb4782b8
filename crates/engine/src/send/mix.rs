//! The sending half of a lane with several streams, or several sizes: takes the departure that is due first, writes its
//! packet, sends it, books it by stream.
//!
//! Streams with a rate have a schedule each, exact in total. Streams without take turns by weight. Each packet's flow,
//! number and size follow from its number among the packets of its stream on this lane.

use crate::books::Books;
use crate::codec::mix::MixCodec;
use crate::lane::Lane;
use crate::lane::control::Control;
use crate::plan::{KnownBy, Packets, StreamLoad, TrafficPlan};
use crate::send::ahead::Ahead;
use crate::send::earliest::Earliest;
use crate::send::pacing::Pacer;
use crate::send::replayed::Replayed;
use crate::send::sender::{Gaps, MISSED_ROWS, NEAR_NS, Sender, Sent};
use crate::send::sent::SentLog;
use crate::send::slip::Slips;
use crate::send::turns::Turns;
use mpps_io::{Burst, Frame, MAX_BURST, Pacing, Queue, Rate, Rates, Result};
use mpps_replay::{Place, Rings};
use mpps_stats::Recorder;
use mpps_trace::Stage;
use mpps_wire::image::Sizes;
use mpps_wire::{Blank, Blanks};

/// In place of a frame or an image.
const NONE: u32 = u32::MAX;

/// Shares of a stream that lanes have in common, for one lane.
#[derive(Debug)]
pub(crate) struct MixShare<'r> {
    /// Number of the stream.
    pub(crate) stream: usize,
    /// Place of this lane among the lanes that send the stream, and their number.
    pub(crate) seat: (u32, u32),
    pub(crate) slips: Option<&'r Slips>,
    pub(crate) log: Option<&'r SentLog>,
    /// Frames that are read while they are sent.
    pub(crate) rings: Option<&'r Rings>,
}

/// Schedule of a stream on this lane.
#[derive(Debug)]
enum Clock<'r> {
    Even(Pacer),
    Replayed(Replayed),
    Ahead(Box<Ahead<'r>>),
}

impl Clock<'_> {
    #[inline]
    fn due(&self, now_ns: u64, most: usize) -> usize {
        match self {
            Self::Even(pacer) => pacer.due(now_ns, most),
            Self::Replayed(replayed) => replayed.due(now_ns, most),
            Self::Ahead(ahead) => ahead.due(now_ns, most),
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<u64> {
        match self {
            Self::Even(pacer) => Some(pacer.pop()),
            Self::Replayed(replayed) => Some(replayed.pop()),
            Self::Ahead(ahead) => ahead.pop(),
        }
    }

    #[inline]
    fn next_due(&self) -> Option<u64> {
        match self {
            Self::Even(pacer) => pacer.next_due(),
            Self::Replayed(replayed) => replayed.next_due(),
            Self::Ahead(ahead) => ahead.next_due(),
        }
    }

    #[cold]
    fn skip_before(&mut self, before_ns: u64) -> u64 {
        match self {
            Self::Even(pacer) => pacer.skip_before(before_ns),
            Self::Replayed(replayed) => replayed.skip_before(before_ns),
            Self::Ahead(ahead) => ahead.skip_before(before_ns),
        }
    }
}

/// A stream on this lane.
#[derive(Debug)]
struct Part<'r> {
    stream: usize,
    /// Flow of the first packet, distance to the next flow of the lane, and number of the stream's flows.
    first: u32,
    step: u32,
    flows: u32,
    /// Flow of the next packet, and the packet's number in it.
    flow: u32,
    number: u64,
    /// It sends frames of a capture, which have the images of their lengths. Place of the next, if the lane sends
    /// nothing else.
    captured: bool,
    /// Nobody knows whether its packets come.
    untagged: bool,
    place: Place,
    /// Order of the stream's sizes, and the number of the image of the first.
    sizes: Sizes,
    first_image: u32,
    /// Packets written so far, and those of them that the log has.
    written: u64,
    noted: u64,
    clock: Option<Clock<'r>>,
    /// Without a schedule: packets left, and the time of the first, ns.
    left: u64,
    start_ns: u64,
    weight: u32,
    slips: Option<&'r Slips>,
    log: Option<&'r SentLog>,
}

/// Order of departures.
#[derive(Debug)]
enum Order {
    /// By their times.
    Paced(Earliest),
    /// In turn. The time, ns, at which the next stream joins; `u64::MAX`: none does.
    Turns(Turns, u64),
}

/// A frame that was written.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    part: u32,
    image: u32,
    flow: u32,
    /// Frame before this one of the same image; [`NONE`]: it is the first.
    before: u32,
    number: u64,
    scheduled_ns: u64,
}

/// Frames of one image in a burst.
#[derive(Clone, Copy, Debug)]
struct Group {
    image: u32,
    packets: u32,
}

/// Frames of one image, from the last to the first.
struct Chain<'b, F> {
    frames: &'b mut [F],
    written: &'b [Written],
    last: u32,
    len: usize,
    /// Number of the stream's first flow among those of all streams.
    first_flow: u32,
    packets: &'b mut u32,
}

impl<F: Frame> Blanks for Chain<'_, F> {
    #[inline(always)]
    fn each(self, mut write: impl FnMut(Blank<'_>)) {
        let (mut at, mut packets) = (self.last, 0);
        while let Some((frame, of)) = self.frames.get_mut(at as usize).zip(self.written.get(at as usize)) {
            frame.set_len(self.len);
            frame.set_flow(self.first_flow + of.flow);
            write(Blank {
                bytes: frame.bytes_mut(),
                flow: of.flow,
                ports: (0, 0),
                seq: of.number,
            });
            at = of.before;
            packets += 1;
        }
        *self.packets = packets;
    }
}

/// The sending half of a lane.
#[derive(Debug)]
pub(crate) struct Mix<'r> {
    parts: Vec<Part<'r>>,
    order: Order,
    /// Images of the burst at hand, and by image the last frame of it; [`NONE`]: there is none.
    groups: Vec<Group>,
    last_of: Vec<u32>,
    /// Parts that have pending packets.
    touched: Vec<u32>,
    catch_up_ns: u64,
    burst: usize,
    /// Frames written last, in their order.
    written: Box<[Written; MAX_BURST]>,
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
        let lens = packets.streams.iter().map(|stream| stream.lens().len()).sum();
        let part = |share: MixShare<'r>| {
            let first_image = sizes.clone().take(share.stream).sum::<usize>() as u32;
            Part::new(plan, packets, share, (first_image, start_ns))
        };
        let parts: Vec<Part<'r>> = shares.into_iter().map(part).collect();
        let reads = parts.iter().any(|part| part.ahead().is_some());
        let order = match parts.iter().any(Part::is_timed) {
            true => Order::Paced(Earliest::new(parts.iter().map(Part::due))),
            false => turns(&parts, start_ns),
        };
        Self {
            groups: Vec::with_capacity(MAX_BURST),
            last_of: vec![NONE; lens],
            touched: Vec::with_capacity(parts.len()),
            untagged: parts.iter().any(|part| part.untagged),
            parts,
            order,
            catch_up_ns: plan.catch_up.as_nanos() as u64,
            burst: plan.tx_burst,
            written: Box::new([Written::default(); MAX_BURST]),
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
            let Some(Clock::Ahead(ahead)) = &mut part.clock else {
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
            Order::Turns(_, joins_ns) if now >= *joins_ns => {
                self.order = turns(&self.parts, now);
                self.wanted_in_turn()
            }
            Order::Turns(..) => self.wanted_in_turn(),
        }
    }

    fn wanted_in_turn(&self) -> usize {
        match &self.order {
            Order::Turns(turns, _) if !turns.is_empty() => self.burst,
            _ => 0,
        }
    }

    /// Writes packets into the frames of a burst: which they are first, then those of each image together. Returns how
    /// many: a stream may end before.
    #[inline]
    fn write<F: Frame>(&mut self, codec: &MixCodec, burst: &mut Burst<F>, now: u64) -> usize {
        self.left = 0;
        self.groups.clear();
        if let [part] = &self.parts[..]
            && part.captured
            && !self.reads
        {
            return self.write_captured(codec, burst, now);
        }
        let mut count = 0;
        for slot in self.written.iter_mut().take(burst.len()) {
            let Some((part, place, scheduled_ns)) = take(&mut self.order, &mut self.parts) else {
                break;
            };
            let (flow, number, image) = match part.captured {
                false => {
                    let next = part.next();
                    if let Some(slips) = part.slips {
                        slips.note(next.0, next.1, now.saturating_sub(scheduled_ns));
                    }
                    next
                }
                true => part.next_captured(codec, now.saturating_sub(scheduled_ns)),
            };
            let before = std::mem::replace(&mut self.last_of[image as usize], count as u32);
            if before == NONE {
                self.groups.push(Group { image, packets: 0 });
            }
            *slot = Written {
                part: place as u32,
                image,
                flow,
                before,
                number,
                scheduled_ns,
            };
            count += 1;
        }
        let written = &self.written[..count];
        for group in &mut self.groups {
            let last = std::mem::replace(&mut self.last_of[group.image as usize], NONE);
            let part = &mut self.parts[written[last as usize].part as usize];
            let chain = Chain {
                frames: burst.as_mut_slice(),
                written,
                last,
                len: codec.frame_len(part.stream, group.image as usize),
                first_flow: codec.first_flow(part.stream),
                packets: &mut group.packets,
            };
            match codec.captured(part.stream) {
                None => codec.image(group.image as usize).write_all(chain, now),
                Some(captured) => chain.each(|blank| captured.write(blank.bytes, blank.flow, blank.seq, now)),
            }
            if let Some(log) = part.log.filter(|_| part.noted != part.written) {
                log.note(0, part.noted..part.written, now);
                part.noted = part.written;
            }
        }
        if self.reads {
            self.waits = self.parts.iter().filter_map(Part::ahead).any(Ahead::waits);
        }
        self.written_bursts += 1;
        self.written_packets += count as u64;
        count
    }

    /// Works as [`Mix::write`], on a lane that sends frames of one capture: in their order, one after the other.
    #[inline]
    fn write_captured<F: Frame>(&mut self, codec: &MixCodec, burst: &mut Burst<F>, now: u64) -> usize {
        let part = &mut self.parts[0];
        let Some(captured) = codec.captured(part.stream) else {
            return 0;
        };
        let mut frames = burst.as_mut_slice();
        if let Order::Turns(turns, _) = &mut self.order {
            let most = frames.len().min(part.left.try_into().unwrap_or(usize::MAX));
            frames = &mut frames[..most];
            part.left -= most as u64;
            if part.left == 0 {
                turns.remove(0);
            }
        }
        let (lane, count, first_image) = (part.first, frames.len(), codec.first_image(part.stream) as u32);
        let (mut slots, mut n) = (self.written.iter_mut(), part.number);
        let (groups, group_of) = (&mut self.groups, &mut self.last_of[..]);
        captured.write_all(frames, lane, &mut part.place, now, |size, number| {
            let scheduled_ns = part.clock.as_mut().and_then(Clock::pop).unwrap_or(0);
            let image = first_image + size as u32;
            if let Some(slot) = slots.next() {
                *slot = Written {
                    part: 0,
                    image,
                    flow: lane,
                    before: NONE,
                    number: n,
                    scheduled_ns,
                };
            }
            n += 1;
            let group = &mut group_of[image as usize];
            if *group == NONE {
                *group = groups.len() as u32;
                groups.push(Group { image, packets: 0 });
            }
            groups[*group as usize].packets += 1;
            if let Some(number) = number {
                part.written += 1;
                if let Some(slips) = part.slips {
                    slips.note(lane, number, now.saturating_sub(scheduled_ns));
                }
            }
        });
        part.number = n;
        for group in groups {
            group_of[group.image as usize] = NONE;
        }
        if let Some(log) = part.log.filter(|_| part.noted != part.written) {
            log.note(0, part.noted..part.written, now);
            part.noted = part.written;
        }
        if let Order::Paced(earliest) = &mut self.order {
            earliest.set_first(part.due());
        }
        self.written_bursts += 1;
        self.written_packets += count as u64;
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

    /// Counts the frames that are pending, by part. For each, calls `each` with the part and the number of its packets
    /// that left.
    #[cold]
    fn pending_of_parts(&mut self, codec: &MixCodec, pending: usize, mut each: impl FnMut(&SentLog, u64, u64)) {
        for written in &self.written[self.left..self.left + pending] {
            let part = &mut self.parts[written.part as usize];
            let (_, number) = codec.image_and_number(part.stream, written.flow, written.number);
            if part.log.is_none() || number.is_none() {
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
        for (frame, written) in frames.zip(&self.written[self.left..]) {
            let part = &self.parts[written.part as usize];
            match codec.captured(part.stream) {
                None => codec.image(written.image as usize).restamp(frame.bytes_mut(), now),
                Some(captured) => captured.restamp(frame.bytes_mut(), written.flow, written.number, now),
            }
            let (_, number) = codec.image_and_number(part.stream, written.flow, written.number);
            if let Some((slips, number)) = part.slips.zip(number) {
                slips.note(written.flow, number, now.saturating_sub(written.scheduled_ns));
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
            Order::Turns(turns, joins_ns) => {
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

impl<'r> Part<'r> {
    fn new(plan: &TrafficPlan, packets: &Packets, share: MixShare<'r>, (first_image, start_ns): (u32, u64)) -> Self {
        let MixShare {
            stream,
            seat: (lane, lanes),
            slips,
            log,
            rings,
        } = share;
        let of = &packets.streams[stream];
        let load = of.load.unwrap_or_else(|| plan.load());
        let packets = load.packets.or(plan.common.count);
        let replay = of.replay.as_ref();
        let count = packets.map_or(u64::MAX, |packets| match replay {
            Some(replay) => replay.frames.of_lane(lane as usize, packets),
            None => {
                let (lane, lanes) = (u64::from(lane), u64::from(lanes.max(1)));
                packets / lanes + u64::from(packets % lanes > lane)
            }
        });
        let end_ns = plan
            .common
            .duration
            .map_or(u64::MAX, |duration| start_ns.saturating_add(duration.as_nanos() as u64));
        let ring = rings.and_then(|rings| Some((rings, rings.of(lane as usize)?)));
        let replayed = replay.filter(|_| ring.is_none());
        let replayed = replayed.and_then(|replay| Replayed::new(replay, &load, lane, (start_ns, end_ns)));
        let even = |rate: Rate| match replay {
            // Lanes have different numbers of the frames.
            Some(replay) => {
                let share = replay.frames.of_lane(lane as usize, replay.frames.len() as u64);
                let rate = rate.times(share, replay.frames.len() as u64)?;
                let load = StreamLoad {
                    packets: packets.map(|_| count),
                    ..load
                };
                Some(pacer(plan, &load, rate, stream, (0, 1), start_ns))
            }
            None => Some(pacer(plan, &load, rate, stream, (lane, lanes), start_ns)),
        };
        let evenly = load.rate.filter(|_| replayed.is_none()).and_then(even);
        let clock = match (ring, replay, replayed) {
            (Some(ring), Some(replay), _) => {
                let ahead = Ahead::new((replay, &load), ring, evenly, count, (start_ns, end_ns));
                Some(Clock::Ahead(Box::new(ahead)))
            }
            (.., Some(replayed)) => Some(Clock::Replayed(replayed)),
            _ => evenly.map(Clock::Even),
        };
        Self {
            stream,
            first: lane,
            step: lanes,
            flows: of.specs.first().map_or(1, |spec| spec.flows),
            flow: lane,
            number: 0,
            captured: replay.is_some(),
            untagged: of.known_by == KnownBy::Headers,
            place: Place::default(),
            sizes: of.sizes.clone(),
            first_image,
            written: 0,
            noted: 0,
            clock,
            left: if load.rate.is_none() { count } else { 0 },
            start_ns: start_ns.saturating_add(load.start_ns),
            weight: load.weight,
            slips,
            log,
        }
    }

    /// Returns its frames that are read while they are sent.
    fn ahead(&self) -> Option<&Ahead<'r>> {
        match &self.clock {
            Some(Clock::Ahead(ahead)) => Some(ahead),
            _ => None,
        }
    }

    /// Returns whether it has a schedule.
    fn is_timed(&self) -> bool {
        self.clock.is_some() && self.ahead().is_none_or(Ahead::is_timed)
    }

    /// Returns the time of the next departure, ns; `u64::MAX`: there is none.
    fn due(&self) -> u64 {
        self.clock.as_ref().and_then(Clock::next_due).unwrap_or(u64::MAX)
    }

    /// Returns flow and number of the next packet, and the number of its image.
    #[inline(always)]
    fn next(&mut self) -> (u32, u64, u32) {
        let (flow, number) = (self.flow, self.number);
        self.written += 1;
        self.flow += self.step;
        if self.flow >= self.flows {
            self.flow = self.first;
            self.number += 1;
        }
        let size = self.sizes.at(flow, number as u32, self.flows);
        (flow, number, self.first_image + size as u32)
    }

    /// Returns lane and number of the next frame of a capture, and the number of its image. It leaves `slip` ns late.
    #[inline(never)]
    fn next_captured(&mut self, codec: &MixCodec, slip: u64) -> (u32, u64, u32) {
        let lane = self.first;
        let n = match &self.clock {
            Some(Clock::Ahead(ahead)) => ahead.taken(self.written),
            _ => self.number,
        };
        self.number += 1;
        let (image, number) = codec.image_and_number(self.stream, lane, n);
        if let Some(number) = number {
            self.written += 1;
            if let Some(slips) = self.slips {
                slips.note(lane, number, slip);
            }
        }
        (lane, n, image as u32)
    }
}

/// Returns when a stream begins, ns after the start of the run, how long its schedule lasts, ns (`None`: for ever), and
/// the seed of its gaps.
pub(crate) fn span(plan: &TrafficPlan, load: &StreamLoad, rate: Rate, stream: usize) -> (u64, Option<u64>, u64) {
    let runs = plan.common.duration;
    let runs = runs.map(|duration| (duration.as_nanos() as u64).saturating_sub(load.start_ns));
    let rates = Rates {
        first: rate,
        then: None,
    };
    // A burst that begins before the end is whole.
    let runs = runs.map(|runs| match load.pacing {
        Pacing::Bursts(unit) => {
            let unit = u64::from(unit.max(1));
            let whole = rate.packets_in(runs).div_ceil(unit).saturating_mul(unit);
            if whole > 0 { rates.time_for(whole).max(runs) } else { 0 }
        }
        _ => runs,
    });
    let takes = load.packets.map(|packets| rates.time_for(packets));
    let lasts = match (runs, takes) {
        (Some(runs), Some(takes)) => Some(runs.min(takes)),
        (one, other) => one.or(other),
    };
    // Streams with random gaps have different ones.
    let seed = mpps_wire::random(plan.common.seed, stream as u64 + 1);
    let phase_ns = match load.pacing {
        Pacing::Constant if load.start_ns == 0 => phase_ns(rate, lasts, stream),
        _ => 0,
    };
    (load.start_ns.saturating_add(phase_ns), lasts, seed)
}

/// Returns the schedule of a lane's part in a stream.
fn pacer(plan: &TrafficPlan, load: &StreamLoad, rate: Rate, stream: usize, lane: (u32, u32), start_ns: u64) -> Pacer {
    let (begins_ns, lasts, seed) = span(plan, load, rate, stream);
    Pacer::new(start_ns.saturating_add(begins_ns), lasts, rate, load.pacing, lane, seed)
}

/// Returns the time by which a stream begins after the run, ns, so that streams of one rate do not leave together. It
/// is less than the time between two packets, and leaves their number as it is: the last is due before the end.
fn phase_ns(rate: Rate, lasts: Option<u64>, stream: usize) -> u64 {
    /// 2^64 divided by the golden ratio: its multiples spread evenly, whatever their number.
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let step_ns = (rate.time_of(1) >> 64) as u64;
    let room_ns = match lasts {
        None => step_ns,
        Some(lasts) => {
            let last_ns = (rate.time_of(rate.packets_in(lasts).saturating_sub(1)) >> 64) as u64;
            lasts.saturating_sub(last_ns).min(step_ns)
        }
    };
    let part = u128::from(GOLDEN.wrapping_mul(stream as u64));
    ((u128::from(room_ns.saturating_sub(1)) * part) >> 64) as u64
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
        Order::Turns(turns, _) => {
            let place = turns.next()?;
            let part = &mut parts[place];
            if let Some(clock) = &mut part.clock {
                clock.pop()?;
            }
            part.left -= 1;
            if part.left == 0 {
                turns.remove(place);
            }
            Some((part, place, 0))
        }
    }
}

/// Returns the turns of the parts that have begun by `now` and still have packets.
#[cold]
fn turns(parts: &[Part<'_>], now: u64) -> Order {
    let open = |(_, part): &(usize, &Part<'_>)| part.left > 0;
    let (begun, later): (Vec<_>, Vec<_>) = parts
        .iter()
        .enumerate()
        .filter(open)
        .partition(|(_, part)| part.start_ns <= now);
    let begun: Vec<(usize, u32)> = begun.into_iter().map(|(place, part)| (place, part.weight)).collect();
    let joins_ns = later.iter().map(|(_, part)| part.start_ns).min();
    Order::Turns(Turns::new(&begun), joins_ns.unwrap_or(u64::MAX))
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
            Order::Turns(turns, _) if !turns.is_empty() => 0,
            Order::Turns(_, joins_ns) => *joins_ns,
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
        if now >= end_ns && self.wind_up(now, end_ns, pending, (recorder, books)) {
            self.note_reads(lane.control);
            return Ok(false);
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
        match self.left == 0 && pending.is_empty() {
            true => books.sent(self.groups.iter().map(|group| (group.image, group.packets)), now),
            false => {
                let taken = &self.written[self.left..self.left + taken];
                books.sent(taken.iter().map(|written| (written.image, 1)), now);
            }
        }
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
mod tests {
    use super::*;
    use crate::books::Layout;
    use crate::codec::Reader;
    use crate::plan::{Common, PacketStream};
    use crate::send::generate::tests::Packet;
    use mpps_io::FlowSet;
    use mpps_stats::{Collector, Timing, Workload};
    use mpps_wire::MacAddr;
    use mpps_wire::image::Place;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::time::Duration;

    /// Three streams that take turns: of one flow, of sizes in turn, and of headers that no loop is made for.
    const STREAMS: &str = "
        [[stream]]
        packet = 'eth / ipv4 / udp dst=9000'
        size = 64
        [[stream]]
        packet = 'eth / ipv4 src=10.0.0.1*3 dst=10.1.0.1*5 / udp src=1..200 dst=9'
        size = 'imix'
        [[stream]]
        packet = 'eth / vlan vid=5 / ipv6 / tcp src=1..7'
        size = 130
    ";

    fn packets() -> Packets {
        let forms = mpps_traffic::Traffic::parse(STREAMS, &[])
            .and_then(|traffic| traffic.forms(7))
            .expect("streams");
        let stream = |(form, weight): (&mpps_traffic::Form, u32)| {
            let (sizes, order) = form.size_order();
            PacketStream {
                replay: None,
                name: weight.to_string(),
                back: false,
                group: None,
                tracked: false,
                specs: sizes
                    .iter()
                    .map(|size| Arc::new(form.spec(*size).expect("a spec")))
                    .collect(),
                kernel_headers: 0,
                sizes: order,
                mean_size: form.mean_size(),
                to_next_hop: None,
                from_port: false,
                packet_len: 0,
                ends: Default::default(),
                known_by: KnownBy::Tag,
                fields: Arc::default(),
                load: Some(StreamLoad {
                    rate: None,
                    pacing: Pacing::Constant,
                    weight,
                    start_ns: 0,
                    packets: None,
                }),
                lanes: Vec::new(),
            }
        };
        Packets {
            streams: forms.iter().zip([3, 2, 1]).map(stream).collect(),
            stripped: [false; 2],
            turned: false,
            hops: Vec::new(),
        }
    }

    #[test]
    fn a_burst_has_the_packets_of_each_stream_in_their_order_and_all_are_booked() {
        let packets = packets();
        let plan = TrafficPlan {
            common: Common::default(),
            receive: false,
            src: [10, 99, 0, 1].into(),
            dst: [10, 99, 0, 2].into(),
            flows: FlowSet::new(1..=1, 9..=9, None),
            packets: None,
            payload_len: 64,
            frame_size: 110,
            rate: None,
            then: None,
            pacing: Pacing::Constant,
            tx_burst: 32,
            catch_up: Duration::ZERO,
            tolerance: 1.0,
            ttl: 64,
            dscp: 0,
            link: None,
            far: None,
            back: None,
            beside: Vec::new(),
        };
        let share = |stream| MixShare {
            stream,
            seat: (0, 1),
            slips: None,
            log: None,
            rings: None,
        };
        let mut mix = Mix::new(&plan, &packets, (0..3).map(share).collect(), 0);
        let codec = MixCodec::new(&packets, 3, (&[], MacAddr::BROADCAST, None), false, &[]);
        let layout = Arc::new(Layout::of(&packets));
        let timing = Timing {
            start_ns: 0,
            interval_ns: 100_000_000,
            settle_ns: 0,
        };
        let series = layout.series(timing, false);
        let mut books = Books::new(Arc::clone(&layout), &series);
        let mut sent = [0u64; 3];
        for round in 0..200 {
            // In 20 rows.
            let now = round * 10_000_000;
            let mut burst = Burst::new(32);
            burst
                .array_mut()
                .extend((0..1 + round % 32).map(|_| Packet(Vec::new(), 0)));
            assert_eq!(mix.write(&codec, &mut burst, now), burst.len());
            for (frame, written) in burst.as_slice().iter().zip(&mix.written[..]) {
                let stream = mix.parts[written.part as usize].stream;
                let flows = u64::from(packets.streams[stream].flows());
                let (flow, number) = ((sent[stream] % flows) as u32, sent[stream] / flows);
                sent[stream] += 1;
                let image = codec.image_of(stream, flow, number);
                let mut right = vec![0; codec.image(image).frame_len()];
                codec.image(image).write(&mut right, Place { flow, number }, now);
                let of_all = codec.first_flow(stream) + flow;
                assert_eq!((&frame.0, frame.1), (&right, of_all), "round {round}");
            }
            books.sent(mix.groups.iter().map(|group| (group.image, group.packets)), now);
            books.flush();
            books.advance(now);
        }
        books.end();
        let booked = |track: usize| {
            let mut collector = Collector::new(vec![&series[track]], Workload::Send, false);
            collector.set_end(2_000_000_000);
            collector.finish(&mut []).tally.tx
        };
        assert_eq!([0, 1, 2].map(booked), sent);
        let all: u64 = sent.iter().sum();
        assert_eq!((3..series.len()).map(booked).sum::<u64>(), all, "by size");
        assert_eq!(all, (0..200).map(|round| 1 + round % 32).sum::<u64>());
    }

    proptest! {
        #[test]
        fn streams_begin_apart_and_send_as_many_as_without(
            num in 1u64..3_000_000, den in 1u64..1_000, ms in 1u64..5_000, stream in 0usize..5_000,
        ) {
            let rate = Rate::new(num, den);
            prop_assume!(rate.is_some());
            let rate = rate.expect("a rate");
            let lasts = ms * 1_000_000;
            let phase = phase_ns(rate, Some(lasts), stream);
            let last = rate.time_of(rate.packets_in(lasts).saturating_sub(1)) >> 64;
            prop_assert!(u128::from(phase) + last < u128::from(lasts), "the last leaves before the end");
            prop_assert!(u128::from(phase_ns(rate, None, stream)) < (rate.time_of(1) >> 64).max(1));
        }
    }

    #[test]
    fn streams_of_one_rate_spread_over_the_time_between_two_packets() {
        let rate = Rate::new(50, 1).expect("a rate");
        let mut phases: Vec<u64> = (0..100)
            .map(|stream| phase_ns(rate, Some(1_000_000_000), stream))
            .collect();
        phases.sort_unstable();
        let widest = phases.windows(2).map(|two| two[1] - two[0]).max();
        assert!(phases.first() == Some(&0) && widest < Some(600_000), "{widest:?}");
    }
}
