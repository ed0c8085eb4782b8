//! The sending half of a lane with several streams, or several sizes: takes the departure that is due first, writes its
//! packet, sends it, books it by stream.
//!
//! Streams with a rate have a schedule each, exact in total. Streams without take turns by weight. Each packet's flow,
//! number and size follow from its number among the packets of its stream on this lane.

use crate::books::Books;
use crate::codec::mix::MixCodec;
use crate::lane::Lane;
use crate::lane::control::Control;
use crate::plan::{Packets, StreamLoad, TrafficPlan};
use crate::send::earliest::Earliest;
use crate::send::pacing::Pacer;
use crate::send::replayed::Replayed;
use crate::send::sender::{Sender, Sent};
use crate::send::sent::SentLog;
use crate::send::slip::Slips;
use crate::send::turns::Turns;
use mpps_io::{Burst, Frame, MAX_BURST, Pacing, Queue, Rate, Rates, Result};
use mpps_stats::{Histogram, Moments, Recorder};
use mpps_trace::Stage;
use mpps_wire::Blank;

/// Time before the end of a run, ns, from which on the time is read again wherever it matters.
const NEAR_NS: u64 = 100_000;
/// Rows that missed departures of one stretch are booked in, at the most: the stretch may be hours.
const MISSED_ROWS: u64 = 1_000;

/// Shares of a stream that lanes have in common, for one lane.
#[derive(Debug)]
pub(crate) struct MixShare<'r> {
    /// Number of the stream.
    pub(crate) stream: usize,
    /// Place of this lane among the lanes that send the stream, and their number.
    pub(crate) seat: (u32, u32),
    pub(crate) slips: Option<&'r Slips>,
    pub(crate) log: Option<&'r SentLog>,
}

/// Schedule of a stream on this lane.
#[derive(Debug)]
enum Clock {
    Even(Pacer),
    Replayed(Replayed),
}

impl Clock {
    #[inline]
    fn due(&self, now_ns: u64, most: usize) -> usize {
        match self {
            Self::Even(pacer) => pacer.due(now_ns, most),
            Self::Replayed(replayed) => replayed.due(now_ns, most),
        }
    }

    #[inline]
    fn pop(&mut self) -> u64 {
        match self {
            Self::Even(pacer) => pacer.pop(),
            Self::Replayed(replayed) => replayed.pop(),
        }
    }

    #[inline]
    fn next_due(&self) -> Option<u64> {
        match self {
            Self::Even(pacer) => pacer.next_due(),
            Self::Replayed(replayed) => replayed.next_due(),
        }
    }

    #[cold]
    fn skip_before(&mut self, before_ns: u64) -> u64 {
        match self {
            Self::Even(pacer) => pacer.skip_before(before_ns),
            Self::Replayed(replayed) => replayed.skip_before(before_ns),
        }
    }
}

/// A stream on this lane.
#[derive(Debug)]
struct Part<'r> {
    stream: usize,
    /// Flow of the first packet, distance to the next flow of the lane, and number of these flows.
    first: u32,
    step: u32,
    flows: u32,
    /// Place of the next packet's flow among those of the lane, and the packet's number in it.
    place: u32,
    number: u64,
    /// Packets written so far, and before the burst at hand.
    written: u64,
    noted: u64,
    clock: Option<Clock>,
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
    number: u64,
    scheduled_ns: u64,
}

/// The sending half of a lane.
#[derive(Debug)]
pub(crate) struct Mix<'r> {
    parts: Vec<Part<'r>>,
    order: Order,
    /// Parts that the burst at hand has packets of.
    touched: Vec<u32>,
    catch_up_ns: u64,
    burst: usize,
    /// Frames written last, in their order.
    written: Box<[Written; MAX_BURST]>,
    /// Number of these frames that have left.
    left: usize,
    last_departure_ns: u64,
    written_bursts: u64,
    written_packets: u64,
    gaps: Histogram,
    gap_moments: Moments,
    done: bool,
    blocked: bool,
}

impl<'r> Mix<'r> {
    /// Makes the part of a lane in the streams of a plan; `shares`: those that it sends. The run begins at `start_ns`.
    pub(crate) fn new(plan: &TrafficPlan, packets: &Packets, shares: Vec<MixShare<'r>>, start_ns: u64) -> Self {
        let part = |share: MixShare<'r>| Part::new(plan, packets, share, start_ns);
        let parts: Vec<Part<'r>> = shares.into_iter().map(part).collect();
        let order = match parts.iter().any(|part| part.clock.is_some()) {
            true => Order::Paced(Earliest::new(parts.iter().map(Part::due))),
            false => turns(&parts, start_ns),
        };
        Self {
            touched: Vec::with_capacity(parts.len()),
            parts,
            order,
            catch_up_ns: plan.catch_up.as_nanos() as u64,
            burst: plan.tx_burst,
            written: Box::new([Written::default(); MAX_BURST]),
            left: 0,
            last_departure_ns: 0,
            written_bursts: 0,
            written_packets: 0,
            gaps: Histogram::default(),
            gap_moments: Moments::default(),
            done: false,
            blocked: false,
        }
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

    /// Takes the next departure: the part whose turn it is, and the scheduled time, ns.
    #[inline]
    fn take(&mut self) -> Option<(usize, u64)> {
        match &mut self.order {
            Order::Paced(earliest) => {
                let (_, part) = earliest.first()?;
                let clock = self.parts[part].clock.as_mut()?;
                let scheduled = clock.pop();
                earliest.set_first(clock.next_due().unwrap_or(u64::MAX));
                Some((part, scheduled))
            }
            Order::Turns(turns, _) => {
                let part = turns.next()?;
                let of = &mut self.parts[part];
                of.left -= 1;
                if of.left == 0 {
                    turns.remove(part);
                }
                Some((part, 0))
            }
        }
    }

    /// Writes packets into the frames of a burst. Returns how many: a stream may end before.
    #[inline]
    fn write<F: Frame>(&mut self, codec: &MixCodec, burst: &mut Burst<F>, now: u64) -> usize {
        self.left = 0;
        let mut count = 0;
        for frame in burst.as_mut_slice() {
            let Some((place, scheduled_ns)) = self.take() else {
                break;
            };
            let part = &mut self.parts[place];
            let (flow, number) = part.next();
            let (image, of_flow) = codec.image_and_number(part.stream, flow, number);
            if let Some(number) = of_flow {
                if part.written == part.noted {
                    self.touched.push(place as u32);
                }
                part.written += 1;
                if let Some(slips) = part.slips {
                    slips.note(flow, number, now.saturating_sub(scheduled_ns));
                }
            }
            frame.set_len(codec.frame_len(part.stream, image));
            frame.set_flow(flow);
            self.written[count] = Written {
                part: place as u32,
                image: image as u32,
                flow,
                number,
                scheduled_ns,
            };
            count += 1;
        }
        let frames = &mut burst.as_mut_slice()[..count];
        write_frames(codec, &self.parts, frames, &self.written[..count], now);
        for place in self.touched.drain(..) {
            let part = &mut self.parts[place as usize];
            if let Some(log) = part.log {
                log.note(0, part.noted..part.written, now);
            }
            part.noted = part.written;
        }
        self.written_bursts += 1;
        self.written_packets += count as u64;
        count
    }

    /// Counts the frames that are pending, by part. For each, calls `each` with the part and the number of its packets
    /// that left.
    #[cold]
    fn pending_of_parts(&mut self, codec: &MixCodec, pending: usize, mut each: impl FnMut(&SentLog, u64, u64)) {
        for written in &self.written[self.left..self.left + pending] {
            let part = &mut self.parts[written.part as usize];
            let (_, number) = codec.image_and_number(part.stream, written.flow, written.number);
            if number.is_none() {
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

    #[inline]
    fn departed(&mut self, now: u64, taken: u64) {
        if self.last_departure_ns != 0 {
            let gap = now - self.last_departure_ns;
            self.gaps.record(gap);
            self.gap_moments.record(gap);
        }
        if taken > 1 {
            self.gaps.record_n(0, taken - 1);
            self.gap_moments.record_n(0, taken - 1);
        }
        self.last_departure_ns = now;
    }

    /// Notes that nothing is due: for now, or because all packets have left.
    fn rest(&mut self, lane: &Lane<'_>) {
        match &self.order {
            Order::Paced(earliest) => self.done = earliest.first().is_none_or(|(due, _)| due == u64::MAX),
            Order::Turns(turns, joins_ns) => {
                if turns.is_empty() && *joins_ns == u64::MAX {
                    self.done = true;
                    lane.control.sent_all(self.last_departure_ns);
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
    fn new(plan: &TrafficPlan, packets: &Packets, share: MixShare<'r>, start_ns: u64) -> Self {
        let MixShare {
            stream,
            seat: (lane, lanes),
            slips,
            log,
        } = share;
        let of = &packets.streams[stream];
        let load = of.load.unwrap_or(StreamLoad {
            rate: plan.rate,
            pacing: plan.pacing,
            weight: 1,
            start_ns: 0,
            packets: None,
        });
        let flows = of.flows();
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
        let replayed = replay.and_then(|replay| Replayed::new(replay, &load, lane, (start_ns, end_ns)));
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
        Self {
            stream,
            first: lane,
            step: lanes,
            flows: flows / lanes + u32::from(flows % lanes > lane),
            place: 0,
            number: 0,
            written: 0,
            noted: 0,
            clock: match replayed {
                Some(replayed) => Some(Clock::Replayed(replayed)),
                None => load.rate.and_then(even).map(Clock::Even),
            },
            left: if load.rate.is_none() { count } else { 0 },
            start_ns: start_ns.saturating_add(load.start_ns),
            weight: load.weight,
            slips,
            log,
        }
    }

    /// Returns the time of the next departure, ns; `u64::MAX`: there is none.
    fn due(&self) -> u64 {
        self.clock.as_ref().and_then(Clock::next_due).unwrap_or(u64::MAX)
    }

    /// Returns flow and number of the next packet.
    #[inline]
    fn next(&mut self) -> (u32, u64) {
        let next = (self.first + self.place * self.step, self.number);
        self.place += 1;
        if self.place == self.flows {
            self.place = 0;
            self.number += 1;
        }
        next
    }
}

/// Returns the schedule of a lane's part in a stream.
fn pacer(plan: &TrafficPlan, load: &StreamLoad, rate: Rate, stream: usize, lane: (u32, u32), start_ns: u64) -> Pacer {
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
    let begins_ns = start_ns.saturating_add(load.start_ns).saturating_add(phase_ns);
    Pacer::new(begins_ns, lasts, rate, load.pacing, lane, seed)
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

/// Returns the frame of a packet, to be written.
#[inline(always)]
fn blank<'f, F: Frame>(frame: &'f mut F, of: &Written) -> Blank<'f> {
    Blank {
        bytes: frame.bytes_mut(),
        flow: of.flow,
        ports: (0, 0),
        seq: of.number,
    }
}

/// Writes frames.
#[inline]
fn write_frames<F: Frame>(codec: &MixCodec, parts: &[Part<'_>], frames: &mut [F], written: &[Written], now: u64) {
    let Some(first) = written.first() else { return };
    let captured = |of: &Written| codec.captured(parts[of.part as usize].stream);
    if captured(first).is_none() && written.iter().all(|of| of.image == first.image) {
        let blanks = frames.iter_mut().zip(written).map(|(frame, of)| blank(frame, of));
        return codec.image(first.image as usize).write_all(blanks, now);
    }
    for (frame, of) in frames.iter_mut().zip(written) {
        match captured(of) {
            None => codec.image(of.image as usize).write_blank(blank(frame, of), now),
            Some(captured) => captured.write(frame.bytes_mut(), of.flow, of.number, now),
        }
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
        self.skip(now, (recorder, books));
        if now >= end_ns && self.wind_up(now, end_ns, pending, (recorder, books)) {
            return Ok(false);
        }
        if pending.is_empty() {
            let want = self.wanted(now);
            if want == 0 {
                self.rest(lane);
                return Ok(false);
            }
            if lane.stages.is_on() {
                match decides {
                    true => lane.stages.goes_on(now),
                    false => lane.stages.goes_on_unread(clock),
                }
                if decides {
                    lane.stages
                        .late(now.saturating_sub(<Self as Sender<MixCodec>>::next_due(self).min(now)));
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
        } else {
            lane.stamped(now);
            self.restamp(codec, pending, now);
        }
        let offered = pending.len();
        let result = lane.transmit(lane.port, queue, pending);
        lane.mark(Stage::Transmit);
        let taken = offered - pending.len();
        for written in &self.written[self.left..self.left + taken] {
            books.sent(written.image);
        }
        books.sent_at(now);
        self.left += taken;
        if !pending.is_empty() {
            self.pending_of_parts(codec, pending.len(), |log, left, _| log.take_back(0, left));
        }
        if taken > 0 {
            self.departed(now, taken as u64);
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
        _control: &Control,
        booked: (&mut Recorder<'_>, &mut Books<'_>),
    ) {
        self.stop(now, pending, booked);
    }

    fn into_sent(self) -> Sent {
        Sent {
            gaps: Some((self.gaps, self.gap_moments)),
            departures: None,
            written: (self.written_bursts, self.written_packets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
