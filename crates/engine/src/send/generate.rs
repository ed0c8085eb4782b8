//! The sending half of a lane: takes departures from the schedule, writes the packets, sends them, books them.

use crate::books::Books;
use crate::codec::Writer;
use crate::lane::Lane;
use crate::lane::control::Control;
use crate::outcome::departures::Departures;
use crate::send::pacing::Pacer;
use crate::send::sender::{Gaps, MISSED_ROWS, NEAR_NS, Sender, Sent};
use crate::send::sent::SentLog;
use crate::send::slip::Slips;
use crate::streams::{Do, Orders};
use crate::{FlowSet, TrafficPlan};
use mpps_io::{Burst, Frame, MAX_BURST, Queue, Rate, Result};
use mpps_stats::Recorder;
use mpps_trace::Stage;
use mpps_wire::Blank;

/// Time after its stop from which on a lane that still caught up ends the run now, not at the stop, ns.
const LATE_STOP_NS: u64 = 5_000_000;

/// The flows of one lane, in the order in which it sends them.
#[derive(Debug)]
struct LaneFlows {
    ports: Box<[(u16, u16)]>,
    /// Next number of each flow if a burst is of one flow; else empty.
    next_seq: Box<[u64]>,
    /// Next number of the flow whose turn it is, and of all flows after it, if flows take turns.
    round: u64,
    first: u32,
    step: u32,
    cursor: usize,
}

impl LaneFlows {
    /// Returns the flows of lane `lane` of `lanes`. `by_burst`: each burst is of one flow.
    fn new(flows: &FlowSet, (lane, lanes): (u32, u32), by_burst: bool, turned: bool) -> Self {
        let turn = |(src, dst)| if turned { (dst, src) } else { (src, dst) };
        let ports: Box<[_]> = flows.ports_of_lane(lane, lanes).map(turn).collect();
        assert!(!ports.is_empty(), "a lane sends one flow at the least");
        Self {
            next_seq: vec![0; if by_burst { ports.len() } else { 0 }].into_boxed_slice(),
            round: 0,
            ports,
            first: lane,
            step: lanes,
            cursor: 0,
        }
    }

    /// Returns the number of the flow at this place.
    #[inline]
    fn flow_at(&self, at: usize) -> u32 {
        self.first + at as u32 * self.step
    }

    /// Writes packets of the flow whose turn it is. Calls `departs` with flow and sequence number of each. Returns the
    /// place of the flow, and its next sequence number.
    #[inline]
    fn write_one<F: Frame, C: Writer>(
        &mut self,
        codec: &C,
        frames: &mut [F],
        now: u64,
        mut departs: impl FnMut(u32, u64),
    ) -> (usize, u64) {
        let len = codec.frame_len();
        let at = self.cursor;
        let (flow, ports, first) = (self.flow_at(at), self.ports[at], self.next_seq[at]);
        let next = first + frames.len() as u64;
        let blanks = (first..).zip(frames).map(move |(seq, frame)| {
            departs(flow, seq);
            blank(frame, len, flow, ports, seq)
        });
        codec.write_all(blanks, now);
        self.next_seq[at] = next;
        self.cursor = if at + 1 == self.ports.len() { 0 } else { at + 1 };
        (at, next)
    }

    /// Writes packets of many flows in turn, as [`LaneFlows::write_one`] does for one. The highest rates use this:
    /// without a schedule nothing is looked up for each packet.
    #[inline]
    fn write_in_turn<F: Frame, C: Writer>(
        &mut self,
        codec: &C,
        frames: &mut [F],
        now: u64,
        mut departs: impl FnMut(u32, u64),
    ) {
        let (len, all, step) = (codec.frame_len(), &self.ports[..], self.step);
        let (first, written) = (self.first, frames.len());
        let (mut flow, mut seq) = (self.flow_at(self.cursor), self.round);
        let mut ports = all[self.cursor..].iter();
        let blanks = frames.iter_mut().map(move |frame| {
            let ports = *ports.next().unwrap_or_else(|| {
                (flow, seq, ports) = (first, seq + 1, all[1..].iter());
                &all[0]
            });
            let this = flow;
            flow = flow.wrapping_add(step);
            departs(this, seq);
            blank(frame, len, this, ports, seq)
        });
        codec.write_all(blanks, now);
        let at = self.cursor + written;
        self.cursor = at % all.len();
        self.round += (at / all.len()) as u64;
    }
}

/// Returns a frame as the codec is to write it: `len` bytes, of this flow, with these ports and this sequence number.
#[inline(always)]
fn blank<F: Frame>(frame: &mut F, len: usize, flow: u32, ports: (u16, u16), seq: u64) -> Blank<'_> {
    frame.set_len(len);
    frame.set_flow(flow);
    let bytes = frame.bytes_mut();
    Blank {
        bytes,
        flow,
        ports,
        seq,
    }
}

/// The sending half of a lane.
#[derive(Debug)]
pub(crate) struct Generator<'r> {
    flows: LaneFlows,
    pacer: Option<Pacer>,
    /// Orders to the stream, if its caller gives some, and what it has been ordered.
    orders: Option<Box<Ordered>>,
    /// Time in ns of the next look for orders; `u64::MAX`: nobody gives any.
    look_ns: u64,
    /// Instant of the stream's stop, ns; `u64::MAX`: none has come.
    stopped_ns: u64,
    /// An order may hold that the lane does not know yet.
    holds: bool,
    /// Most packets of a burst without a schedule; 0 while the stream pauses.
    unpaced: usize,
    slips: Option<&'r Slips>,
    /// Numbers sent, and when, if packets come back.
    log: Option<&'r SentLog>,
    catch_up_ns: u64,
    burst: usize,
    /// Packets left of the lane's share of a count; without a count, more than there is time for.
    left_of_count: u64,
    /// A burst is of one flow, because the path wants it or because there is one.
    by_burst: bool,
    /// Departure times of packets; `None` if a packet's number does not give its place among the lane's.
    departures: Option<Departures>,
    /// Packets that were written, and given up at the end.
    unsent: usize,
    /// Bursts written, and their packets.
    written_bursts: u64,
    written_packets: u64,
    gaps: Gaps,
    done: bool,
    /// Flow, sequence number and scheduled time of the frames written last, in their order.
    written: Box<[(u32, u64, u64); MAX_BURST]>,
    /// Number of these frames that have left.
    left: usize,
    /// Place of their flow, if they are of one, and the key after the last of them in the log.
    newest: (usize, u64),
    /// The path took nothing on the last try.
    blocked: bool,
}

/// A stream that its caller gives orders to.
#[derive(Debug)]
struct Ordered {
    orders: Orders,
    /// Rate from the next start on.
    rate: Option<Rate>,
    sends: bool,
    /// End of the plan, ns; `None`: it has none.
    end_ns: Option<u64>,
}

/// State that the lanes of a run share, for one send lane.
#[derive(Debug)]
pub(crate) struct SendShare<'r> {
    pub(crate) slips: Option<&'r Slips>,
    pub(crate) log: Option<&'r SentLog>,
    /// Number of this send lane, and how many there are.
    pub(crate) lane: u32,
    pub(crate) lanes: u32,
    pub(crate) one_flow_per_burst: bool,
    pub(crate) start_ns: u64,
    /// Packets go the other way: from each flow's destination to its source.
    pub(crate) turned: bool,
    /// Orders to the stream.
    pub(crate) orders: Option<Orders>,
}

impl<'r> Generator<'r> {
    pub(crate) fn new(plan: &TrafficPlan, share: SendShare<'r>) -> Self {
        let duration = plan.common.duration.map(|d| d.as_nanos() as u64);
        let pacer = plan.rates().map(|rates| {
            Pacer::new(
                share.start_ns,
                duration,
                rates,
                plan.pacing,
                (share.lane, share.lanes),
                plan.common.seed,
            )
        });
        let seat = (share.lane, share.lanes);
        let one_flow = plan.flows.count_of_lane(share.lane, share.lanes) == 1;
        let by_burst = share.one_flow_per_burst || one_flow;
        let flows = LaneFlows::new(&plan.flows, seat, by_burst, share.turned);
        let in_turn = plan.receive && (!share.one_flow_per_burst || one_flow);
        let look_ns = if share.orders.is_some() { 0 } else { u64::MAX };
        Self {
            departures: in_turn.then(|| Departures::new(flows.ports.len(), duration)),
            unsent: 0,
            written_bursts: 0,
            written_packets: 0,
            flows,
            pacer,
            orders: share.orders.map(|orders| {
                Box::new(Ordered {
                    orders,
                    rate: plan.rate,
                    sends: true,
                    end_ns: duration.map(|ns| share.start_ns + ns),
                })
            }),
            look_ns,
            stopped_ns: u64::MAX,
            holds: false,
            unpaced: plan.tx_burst,
            slips: share.slips,
            log: share.log,
            catch_up_ns: plan.catch_up.as_nanos() as u64,
            burst: plan.tx_burst,
            left_of_count: plan.share(share.lane, share.lanes).unwrap_or(u64::MAX),
            by_burst,
            gaps: Gaps::default(),
            done: false,
            written: Box::new([(0, 0, 0); MAX_BURST]),
            left: 0,
            newest: (0, 0),
            blocked: false,
        }
    }

    #[inline]
    fn write<F: Frame, C: Writer>(&mut self, codec: &C, burst: &mut Burst<F>, now: u64) {
        self.left = 0;
        self.written_bursts += 1;
        self.written_packets += burst.len() as u64;
        let (frames, packets) = (burst.len() as u64, self.written_packets);
        let flows = &mut self.flows;
        let slips = self.slips;
        let mut written = self.written.iter_mut();
        let pacer = self.pacer.as_mut();
        let departs = pacer.map(|pacer| {
            move |flow, seq| {
                let scheduled = pacer.pop();
                if let Some(slips) = slips {
                    slips.note(flow, seq, now.saturating_sub(scheduled));
                    if let Some(written) = written.next() {
                        *written = (flow, seq, scheduled);
                    }
                }
            }
        });
        let frames_of = burst.as_mut_slice();
        self.newest = match (departs, self.by_burst) {
            (None, true) => flows.write_one(codec, frames_of, now, |_, _| {}),
            (Some(departs), true) => flows.write_one(codec, frames_of, now, departs),
            (None, false) => {
                flows.write_in_turn(codec, frames_of, now, |_, _| {});
                (0, packets)
            }
            (Some(departs), false) => {
                flows.write_in_turn(codec, frames_of, now, departs);
                (0, packets)
            }
        };
        if let Some(log) = self.log {
            let (place, end) = self.newest;
            log.note(place, end - frames..end, now);
        }
        if let Some(departures) = &mut self.departures {
            departures.wrote(burst.len(), now, self.gaps.last_ns);
        }
        if self.pacer.as_mut().is_some_and(Pacer::turn)
            && let Some(departures) = &mut self.departures
        {
            departures.turns(now);
        }
    }

    /// Notes that nothing is due: for now, or because all packets have left.
    #[inline]
    fn rest(&mut self, lane: &Lane<'_>) {
        if self.orders.is_some() {
            // It goes on after the next order, up to the end.
            return;
        }
        match &self.pacer {
            Some(pacer) => self.done |= pacer.next_due().is_none(),
            None => {
                self.done = true;
                lane.control.sent_all(self.gaps.last_ns);
            }
        }
    }

    /// Follows the orders that hold by now.
    #[cold]
    fn follow(&mut self, now: u64, recorder: &mut Recorder<'_>) {
        let Some(of) = &mut self.orders else { return };
        let caught_up_ns = now.saturating_sub(self.catch_up_ns);
        while let Some((at_ns, what)) = of.orders.next(now) {
            match what {
                Do::Stop => self.stopped_ns = at_ns,
                Do::Rate(rate) => of.rate = Some(rate),
                Do::Start | Do::Pause => {}
            }
            let sends = what.sends(of.sends);
            let sent = std::mem::replace(&mut of.sends, sends);
            if sent && what == Do::Start {
                continue;
            }
            if sends && !sent {
                self.gaps.started_ns = at_ns;
            }
            self.unpaced = if sends { self.burst } else { 0 };
            let part_ns = self.pacer.as_ref().map_or(0, Pacer::part_ns);
            let turns = match (&mut self.pacer, of.rate) {
                (Some(pacer), Some(rate)) => {
                    skip_before(pacer, at_ns.min(caught_up_ns), recorder);
                    of.orders.overshot(pacer.cut(at_ns));
                    if sends {
                        pacer.then(at_ns, of.end_ns, rate);
                    }
                    pacer.turn();
                    pacer.part_ns() != part_ns
                }
                _ => true,
            };
            if let Some(departures) = self.departures.as_mut().filter(|_| turns) {
                departures.turns(self.gaps.last_ns);
            }
        }
        self.look_ns = of.orders.look_ns();
        self.holds = of.orders.may_hold(now);
    }

    /// Notes that the lane sends no more. A run whose streams are all stopped ends with the last of them.
    #[cold]
    fn is_through(&mut self, now: u64, control: &Control) {
        debug_assert!(!self.done, "a lane is through once");
        self.done = true;
        self.look_ns = u64::MAX;
        if let Some(of) = &self.orders {
            of.orders.ended(self.gaps.last_ns);
            if self.stopped_ns != u64::MAX {
                // Rows up to now have closed if the lane caught up for long.
                let late_ns = if now > self.stopped_ns + LATE_STOP_NS { now } else { 0 };
                control.sent_all((self.stopped_ns.saturating_sub(1)).max(self.gaps.last_ns).max(late_ns));
            }
        }
    }

    /// Decides at the end of the run, or of the stream, whether to go on: packets that were due before it may still
    /// leave, as long as they could be caught up. Returns true when the lane is through.
    #[cold]
    fn wind_up<F: Frame>(
        &mut self,
        now: u64,
        end_ns: u64,
        pending: &mut Burst<F>,
        control: &Control,
        recorder: &mut Recorder<'_>,
    ) -> bool {
        if let Some(pacer) = &mut self.pacer {
            let due_before_end = pacer.next_due().is_some_and(|due| due < end_ns);
            if now < end_ns.saturating_add(self.catch_up_ns) && (due_before_end || !pending.is_empty()) {
                return false;
            }
            skip_before(pacer, end_ns, recorder);
            pacer.stop();
            recorder.missed(end_ns.saturating_sub(1), pending.len() as u64);
        }
        self.unsent = pending.len();
        pending.clear();
        self.is_through(now, control);
        true
    }

    /// Returns when the lane sends its last packet at the latest, as far as is known, if the run ends at `end_ns`.
    #[inline]
    fn last_ns(&self, end_ns: u64) -> u64 {
        end_ns.min(self.stopped_ns)
    }

    /// Books departures that are too late to be caught up, once the orders that hold by now are followed.
    #[inline]
    fn skip_late(&mut self, now: u64, recorder: &mut Recorder<'_>) {
        if now >= self.look_ns {
            self.follow(now, recorder);
        }
        if let Some(pacer) = &mut self.pacer {
            let before_ns = now.saturating_sub(self.catch_up_ns);
            if pacer.next_due().is_some_and(|next| next < before_ns) {
                let part_ns = pacer.part_ns();
                skip_before(pacer, before_ns, recorder);
                if let Some(departures) = self.departures.as_mut().filter(|_| pacer.part_ns() != part_ns) {
                    departures.turns(self.gaps.last_ns);
                }
            }
        }
    }
}

impl<C: Writer> Sender<C> for Generator<'_> {
    fn burst(&self) -> usize {
        self.burst
    }

    #[inline]
    fn done(&self) -> bool {
        self.done
    }

    #[inline]
    fn next_due(&self) -> u64 {
        let due = match &self.pacer {
            Some(pacer) => pacer.next_due().unwrap_or(u64::MAX),
            None if self.unpaced > 0 => 0,
            None => u64::MAX,
        };
        due.min(self.look_ns)
    }

    #[inline]
    fn end_ns(&self, end_ns: u64) -> u64 {
        self.last_ns(end_ns)
    }

    #[inline]
    fn is_blocked(&self) -> bool {
        self.blocked
    }

    #[cold]
    fn has_due<F>(&self, now: u64, pending: &Burst<F>) -> bool {
        let due = match &self.pacer {
            Some(pacer) => pacer.next_due().is_some_and(|due| due <= now),
            None => self.unpaced > 0,
        };
        due || !pending.is_empty()
    }

    #[inline]
    fn step<Q: Queue>(
        &mut self,
        queue: &mut Q,
        codec: &C,
        pending: &mut Burst<Q::Frame>,
        lane: &Lane<'_>,
        (loop_ns, end_ns): (u64, u64),
        (recorder, _): (&mut Recorder<'_>, &mut Books<'_>),
    ) -> Result<bool> {
        let (clock, counters) = (&lane.clock, lane.counters);
        // Without a schedule the time only decides whether the run is over.
        let decides = self.pacer.is_some() || !pending.is_empty() || loop_ns + NEAR_NS >= end_ns;
        let mut now = if decides { clock.now_ns() } else { loop_ns };
        self.blocked = false;
        self.skip_late(now, recorder);
        if self.holds && now < end_ns {
            return Ok(false);
        }
        let end_ns = self.last_ns(end_ns);
        if now >= end_ns && self.wind_up(now, end_ns, pending, lane.control, recorder) {
            return Ok(false);
        }
        if pending.is_empty() {
            let want = match &self.pacer {
                Some(pacer) => pacer.due(now, self.burst),
                None => (self.unpaced as u64).min(self.left_of_count) as usize,
            };
            if want == 0 {
                self.rest(lane);
                return Ok(false);
            }
            if lane.stages.is_on() {
                match decides {
                    true => lane.stages.goes_on(now),
                    false => lane.stages.goes_on_unread(clock),
                }
                if let Some(pacer) = &self.pacer {
                    lane.stages.late(now.saturating_sub(pacer.next_due().unwrap_or(now)));
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
            self.write(codec, pending, now);
            self.left_of_count -= pending.len() as u64;
            lane.mark(Stage::Write);
        } else {
            // They leave later than their first stamp says, and have slipped by as much more.
            lane.stamped(now);
            for (frame, &(flow, seq, scheduled)) in pending.as_mut_slice().iter_mut().zip(&self.written[self.left..]) {
                codec.restamp(frame.bytes_mut(), now);
                if let Some(slips) = self.slips {
                    slips.note(flow, seq, now.saturating_sub(scheduled));
                }
            }
            if let Some(log) = self.log {
                let (place, end) = self.newest;
                log.note(place, end - pending.len() as u64..end, now);
            }
        }
        let offered = pending.len();
        let result = lane.transmit(lane.port, queue, pending);
        lane.mark(Stage::Transmit);
        let taken = (offered - pending.len()) as u64;
        self.left += taken as usize;
        if let Some(log) = self.log.filter(|_| !pending.is_empty()) {
            let (place, end) = self.newest;
            log.take_back(place, end - pending.len() as u64);
        }
        if taken > 0 {
            self.gaps.departed(now, taken);
            recorder.sent(now, taken);
            counters.tx_packets.add(taken);
            counters.tx_bursts.add(1);
        } else {
            counters.tx_full.add(1);
            self.blocked = true;
        }
        result.map(|_| taken > 0)
    }

    #[inline]
    fn skip(&mut self, now: u64, (recorder, _): (&mut Recorder<'_>, &mut Books<'_>)) {
        self.skip_late(now, recorder);
    }

    #[cold]
    fn give_up<F: Frame>(
        &mut self,
        now: u64,
        pending: &mut Burst<F>,
        control: &Control,
        (recorder, _): (&mut Recorder<'_>, &mut Books<'_>),
    ) {
        if let Some(pacer) = &mut self.pacer {
            skip_before(pacer, now, recorder);
            pacer.stop();
            // The last row is the one before the end.
            recorder.missed(now.saturating_sub(1), pending.len() as u64);
        }
        self.unsent = pending.len();
        pending.clear();
        self.is_through(now, control);
    }

    fn into_sent(self) -> Sent {
        let mut departures = self.departures;
        if let Some(departures) = &mut departures {
            departures.end(self.unsent, self.gaps.last_ns);
        }
        Sent {
            gaps: Some(self.gaps.into_parts()),
            departures,
            written: (self.written_bursts, self.written_packets),
        }
    }
}

/// Gives up departures that were due before `before_ns`. Each is missed in the row in which it was due.
#[cold]
fn skip_before(pacer: &mut Pacer, before_ns: u64, recorder: &mut Recorder<'_>) {
    let Some(first) = pacer.next_due() else { return };
    let least_ns = before_ns.saturating_sub(first) / MISSED_ROWS;
    while let Some(due) = pacer.next_due().filter(|due| *due < before_ns) {
        let until = recorder.row_end_ns(due).max(due.saturating_add(least_ns));
        let missed = pacer.skip_before(until.min(before_ns));
        recorder.missed(due, missed);
    }
}

#[cfg(test)]
#[path = "generate_tests.rs"]
pub(crate) mod tests;
