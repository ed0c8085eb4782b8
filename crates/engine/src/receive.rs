//! The receiving half of a lane that also knows what was sent: classifies, counts each packet once, measures it.

pub(crate) mod flow_table;
pub(crate) mod traces;

use crate::books::Books;
use crate::codec::{Class, Compared, Foreign, Reader};
use crate::lane::worst::Worst;
use crate::outcome::missing::{Came, Missing};
use crate::receive::traces::Traces;
use crate::send::sent::{Seat, Senders, SentLog};
use crate::send::slip::Slips;
use mpps_io::{Frame, MAX_BURST, Reason};
use mpps_stats::{Arrival, Delay, Recorder, SequenceWindows};
use mpps_trace::LatePacket;
use mpps_wire::changes::Changes;
use mpps_wire::{Checker, IcmpError, Stamp};

/// Memory for the sequence windows of one lane, bytes.
pub(crate) const WINDOW_BYTES: usize = 16 << 20;

/// Returns bytes of the windows of one lane over `flows` flows that span `span` packets in flight over all of them.
pub(crate) fn window_bytes(flows: u64, span: u64) -> u64 {
    SequenceWindows::bytes(flows, span / flows.max(1) + 64, WINDOW_BYTES)
}

/// Reasons that ICMP errors are counted by, in the order of [`IcmpError`].
const ICMP: [Reason; 4] = [
    Reason::IcmpPortUnreachable,
    Reason::IcmpUnreachable,
    Reason::IcmpTimeExceeded,
    Reason::IcmpTooLong,
];

/// The receiving half of a lane.
#[derive(Debug)]
pub(crate) struct Receiver<'r> {
    first: Part<'r>,
    /// Parts of the streams after the first.
    more: Box<[Part<'r>]>,
    start_ns: u64,
    foreign: [u64; Foreign::ALL.len()],
    beyond_window: u64,
    service: u64,
    /// ICMP errors that quote packets of the test, by kind.
    icmp: [u64; 4],
    /// Data on packets of earlier trials, if there were any.
    pub(crate) traces: Option<&'r Traces>,
    late_of_an_earlier: u64,
    /// Headers of packets that came back.
    pub(crate) known: Checker,
    /// Headers that came other than they were sent.
    compared: Compared,
    /// Slips of the packets in [`Together`], ns.
    slipped: Box<[u64; MAX_BURST]>,
    /// The same of packets whose arrival was noted.
    noted: Box<Noted>,
    /// Times of arrival that can't be.
    odd_times: u64,
    missing: Missing,
    /// The newest packet that was not the next of its flow.
    odd: Came,
    latest: Worst<LatePacket>,
}

/// Knowledge of one stream. Its flows are numbered from 0 here.
#[derive(Debug)]
pub(crate) struct Part<'r> {
    windows: SequenceWindows,
    slips: Option<&'r Slips>,
    /// Numbers that were sent, and when.
    senders: Senders<'r>,
}

impl<'r> Part<'r> {
    /// Makes windows for `flows` flows that span `span` packets in flight over all of them, and take `bytes` at most.
    pub(crate) fn new(
        (flows, span, bytes): (u32, u64, usize),
        slips: Option<&'r Slips>,
        logs: &'r [SentLog],
        start_ns: u64,
    ) -> Self {
        Self {
            windows: SequenceWindows::new(flows as usize, span / u64::from(flows.max(1)) + 64, bytes),
            slips,
            senders: Senders::new(logs, start_ns),
        }
    }
}

/// Packets of a burst that came in one after the other as they were sent: one look at the windows for all.
#[derive(Default)]
struct InOrder {
    stream: usize,
    flow: usize,
    /// The sequence number that would follow.
    next: u64,
    packets: u64,
    /// Seat of the newest packet.
    seat: Seat,
}

/// Packets of a burst that were also sent in one burst: the latency is the same, and is booked once.
/// [`Receiver::slipped`] contains the slip of each.
#[derive(Default)]
struct Together {
    /// Image of the packets whose slip is known.
    of: usize,
    sent_ns: u64,
    at: u64,
    packets: u32,
    /// Number of these packets whose slip is known.
    slips: usize,
}

impl Together {
    /// Books the packets; returns how many were in time.
    #[inline(always)]
    fn book<C: Reader>(&self, slipped: &[u64; MAX_BURST], recorder: &mut Recorder<'_>, books: &mut Books<'_>) -> u64 {
        let slips = &slipped[..self.slips.min(MAX_BURST)];
        let in_time = self.packets > 0 && recorder.received_n(self.sent_ns, self.at, self.packets, slips);
        if C::MIXED && self.packets > 0 {
            books.came_at(self.sent_ns, self.at);
            if !slips.is_empty() {
                books.slipped(self.of, self.sent_ns, self.at, slips);
            }
        }
        u64::from(self.packets) * u64::from(in_time)
    }
}

/// A packet that is not booked with those that were sent in one burst and read in one: it was reordered, or its arrival
/// was noted.
struct Apart {
    of: usize,
    id: (u32, Stamp),
    noted: Option<u64>,
    slip: Option<u64>,
    distance: u64,
}

/// Packets in order whose arrivals were noted, all sent at one time: their latency is booked once, the rest each.
#[derive(Debug)]
struct Noted {
    slips: [u64; MAX_BURST],
    /// When they arrived, ns after they were sent.
    arrivals: [u64; MAX_BURST],
}

/// How full [`Noted`] is, and the times of its newest packet. They stay when the packets are booked.
#[derive(Default)]
struct Timed {
    sent_ns: u64,
    /// Arrival of the newest packet, ns; 0 if the burst has had none.
    at: u64,
    packets: usize,
    /// Number of these packets whose slip is known.
    slips: usize,
}

/// Packets of a burst that arrived at the same time and count as received. On a path that does not take the time
/// itself, all packets of a burst did.
struct Arrived {
    at_ns: u64,
    packets: u64,
}

impl Arrived {
    #[inline(always)]
    fn add(&mut self, at_ns: u64, packets: u64, recorder: &mut Recorder<'_>) {
        if at_ns != self.at_ns {
            recorder.by_arrival(self.at_ns, self.packets);
            *self = Self { at_ns, packets: 0 };
        }
        self.packets += packets;
    }
}

/// Results of a receiver, read after it has ended.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Counts by reason.
    pub(crate) reasons: Vec<(Reason, u64)>,
    /// Missing sequence numbers, and times without packets.
    pub(crate) missing: Option<Missing>,
    /// Packets that came latest.
    pub(crate) latest: Vec<LatePacket>,
    /// Changes of headers.
    pub(crate) changes: Changes,
}

/// Counts a packet that is known by its content alone and arrived at `at_ns`. Returns whether it is in time.
#[cold]
fn counted<C: Reader>(
    (stream, content, at_ns): (usize, u32, u64),
    codec: &C,
    recorder: &mut Recorder<'_>,
    books: &mut Books<'_>,
) -> bool {
    let Some(came) = codec.came(stream, content) else {
        return false;
    };
    // The sender's lane may be ahead by its reading of the clock.
    let sent_ns = came.sent_ns.min(at_ns);
    if came.again {
        recorder.event(sent_ns, |t| t.duplicates += 1);
        books.copied(came.image, sent_ns);
        return false;
    }
    books.counted(came.image, sent_ns, at_ns);
    recorder.counted(sent_ns, at_ns)
}

/// Difference that two readings of one host's clock may have: of the kernel's, and of the line that lanes follow.
const CLOCK_ERROR_NS: u64 = 100_000;

/// Whether a packet that was sent and read at these instants can have arrived at `at_ns`.
#[inline(always)]
pub(crate) fn is_likely(at_ns: u64, sent_ns: u64, now_ns: u64) -> bool {
    at_ns <= now_ns.saturating_add(CLOCK_ERROR_NS) && at_ns.saturating_add(CLOCK_ERROR_NS) >= sent_ns
}

impl<'r> Receiver<'r> {
    /// Makes the receiver of streams, one or more.
    pub(crate) fn new(mut parts: impl Iterator<Item = Part<'r>>, start_ns: u64) -> Self {
        Self {
            first: parts.next().expect("a stream"),
            more: parts.collect(),
            start_ns,
            foreign: [0; Foreign::ALL.len()],
            beyond_window: 0,
            service: 0,
            icmp: [0; 4],
            traces: None,
            late_of_an_earlier: 0,
            known: Checker::default(),
            compared: Compared::default(),
            slipped: Box::new([0; MAX_BURST]),
            noted: Box::new(Noted {
                slips: [0; MAX_BURST],
                arrivals: [0; MAX_BURST],
            }),
            odd_times: 0,
            missing: Missing::new(),
            odd: Came::default(),
            latest: Worst::new(),
        }
    }

    /// Returns the receiver with room for changes of the headers.
    pub(crate) fn comparing(self, compared: Compared) -> Self {
        Self { compared, ..self }
    }

    /// Returns the knowledge of a stream. Without streams its number is a constant.
    #[inline(always)]
    fn part(&self, stream: usize) -> &Part<'r> {
        match stream {
            0 => &self.first,
            after => &self.more[after - 1],
        }
    }

    /// As [`Receiver::part`].
    #[inline(always)]
    fn part_mut(&mut self, stream: usize) -> &mut Part<'r> {
        match stream {
            0 => &mut self.first,
            after => &mut self.more[after - 1],
        }
    }

    /// Counts the frames of one burst received at `now_ns`. Returns (test packets counted as received, frames for the
    /// slow path).
    #[inline]
    pub(crate) fn burst<F: Frame, C: Reader>(
        &mut self,
        frames: &[F],
        codec: &C,
        now_ns: u64,
        recorder: &mut Recorder<'_>,
        books: &mut Books<'_>,
    ) -> (u64, usize) {
        let (mut received, mut by_content, mut slow) = (0, 0, 0);
        let mut arrived = Arrived {
            at_ns: now_ns,
            packets: 0,
        };
        let (mut order, mut together, mut timed) = (InOrder::default(), Together::default(), Timed::default());
        for frame in frames {
            match codec.classify(frame, &mut self.known) {
                Class::Test { flow, stamp } => {
                    let own = codec.stream_of(flow);
                    let mut stamp = codec.whole(stamp, || self.due(&order, own), now_ns);
                    let mut measured = true;
                    if C::MIXED && !codec.is_timed(own.0) {
                        let Some((time_ns, exact)) = self.part(own.0).senders.left_at(own.1, stamp.seq, now_ns) else {
                            self.untagged(own.0, now_ns, recorder, books);
                            continue;
                        };
                        (stamp.time_ns, measured) = (time_ns, exact);
                    }
                    // Where the log does not know when a packet left, it may be earlier than it says.
                    let since_ns = if measured { stamp.time_ns } else { 0 };
                    let noted = frame.rx_time_ns().filter(|at| is_likely(*at, since_ns, now_ns));
                    let at = noted.unwrap_or(now_ns);
                    let Some(arrival) = self.arrival(&mut order, own, stamp, (at, now_ns)) else {
                        self.stranger((frame, codec), Some(Foreign::OtherRun), now_ns, recorder, books);
                        continue;
                    };
                    let of = codec.image_of(own.0, own.1, stamp.seq);
                    let distance = match arrival {
                        Arrival::InOrder => 0,
                        Arrival::Reordered(distance) => distance,
                        Arrival::Duplicate => {
                            recorder.event(stamp.time_ns, |t| t.duplicates += 1);
                            if C::MIXED {
                                books.copied(of, stamp.time_ns);
                            }
                            continue;
                        }
                        Arrival::TooOld => {
                            self.beyond_window += 1;
                            continue;
                        }
                    };
                    if noted.is_none() && frame.rx_time_ns().is_some() {
                        self.odd_times += 1;
                    }
                    codec.compare(frame, own, stamp, &mut self.compared);
                    if C::MIXED && !measured {
                        let in_time = u64::from(recorder.counted(stamp.time_ns, at));
                        books.counted(of, stamp.time_ns, at);
                        arrived.add(at, in_time, recorder);
                        received += in_time;
                        continue;
                    }
                    let slip = self.part(own.0).slips.and_then(|slips| slips.of(own.1, stamp.seq));
                    if distance != 0 || noted.is_some() {
                        let came = Apart {
                            of,
                            id: (flow, stamp),
                            noted,
                            slip,
                            distance,
                        };
                        received += self.apart::<C>(came, now_ns, &mut timed, (&mut arrived, recorder, books));
                        continue;
                    }
                    let another = together.sent_ns != stamp.time_ns;
                    let another = another || C::MIXED && slip.is_some() && together.slips > 0 && together.of != of;
                    if together.packets == 0 || another || together.slips == MAX_BURST {
                        let in_time = together.book::<C>(&self.slipped, recorder, books);
                        if in_time > 0 {
                            arrived.add(now_ns, in_time, recorder);
                            received += in_time;
                        }
                        together = Together {
                            sent_ns: stamp.time_ns,
                            at: now_ns,
                            ..Together::default()
                        };
                        if now_ns.saturating_sub(stamp.time_ns) + slip.unwrap_or(0) > self.latest.floor_at(now_ns) {
                            self.came_late((flow, stamp), now_ns, slip, now_ns);
                        }
                    }
                    together.packets += 1;
                    if C::MIXED && slip.is_none() {
                        books.came(of);
                    }
                    // There is room: a full list was booked above.
                    if let Some(slip) = slip
                        && let Some(place) = self.slipped.get_mut(together.slips)
                    {
                        *place = slip;
                        together.slips += 1;
                        together.of = of;
                    }
                }
                Class::Content { stream, content } => {
                    let noted = frame.rx_time_ns().filter(|at| is_likely(*at, 0, now_ns));
                    let at = noted.unwrap_or(now_ns);
                    let in_time = u64::from(counted((stream, content, at), codec, recorder, books));
                    arrived.add(at, in_time, recorder);
                    (received, by_content) = (received + in_time, by_content + in_time);
                }
                Class::Untagged { stream } => self.untagged(stream, now_ns, recorder, books),
                Class::Corrupt => self.stranger((frame, codec), None, now_ns, recorder, books),
                Class::Foreign(why) => self.stranger((frame, codec), Some(why), now_ns, recorder, books),
                Class::SlowPath => slow += 1,
            }
        }
        self.note(&order);
        let in_time = together.book::<C>(&self.slipped, recorder, books);
        if in_time > 0 {
            arrived.add(now_ns, in_time, recorder);
            received += in_time;
        }
        if timed.at > 0 {
            received += self.book_timed(&mut timed, now_ns, &mut arrived, recorder);
        }
        if arrived.packets > 0 {
            recorder.by_arrival(arrived.at_ns, arrived.packets);
        }
        // What is known by its content has no number.
        if order.packets > 0 || together.packets > 0 || timed.at > 0 || received > by_content {
            let first_ns = frames.first().and_then(Frame::rx_time_ns);
            let first_ns = first_ns.filter(|at| is_likely(*at, 0, now_ns)).unwrap_or(now_ns);
            if self.missing.silent.is_long(first_ns) {
                self.after_silence(frames, codec, now_ns);
            }
            let (sent_ns, at_ns) = match timed.at {
                0 => (together.sent_ns, together.at),
                at => (timed.sent_ns, at),
            };
            self.missing.silent.came(match order.packets {
                0 => self.odd,
                _ => Came {
                    flow: order.flow as u32,
                    seq: order.next - 1,
                    sent_ns,
                    at_ns,
                },
            });
        }
        (received, slow)
    }

    /// Counts a packet by itself, or among those of one send time whose arrivals were noted. Returns how many packets
    /// were found to be in time by that.
    #[inline(never)]
    fn apart<C: Reader>(
        &mut self,
        came: Apart,
        now_ns: u64,
        timed: &mut Timed,
        (arrived, recorder, books): (&mut Arrived, &mut Recorder<'_>, &mut Books<'_>),
    ) -> u64 {
        let (sent_ns, at) = (came.id.1.time_ns, came.noted.unwrap_or(now_ns));
        let delay = Delay::of(sent_ns, came.noted, now_ns);
        if delay.latency_ns + came.slip.unwrap_or(0) > self.latest.floor_at(now_ns) {
            self.came_late(came.id, at, came.slip, now_ns);
        }
        if C::MIXED {
            books.received(came.of, sent_ns, delay, came.slip, came.distance);
        }
        let Some(arrival) = delay.arrival_ns.filter(|_| came.distance == 0) else {
            let in_time = u64::from(recorder.received(sent_ns, delay, came.slip, came.distance));
            arrived.add(at, in_time, recorder);
            return in_time;
        };
        // Whether a packet that was read this late was in time, only its own arrival says.
        let read_late = delay.latency_ns > recorder.settle_ns();
        let mut in_time = 0;
        if timed.sent_ns != sent_ns || timed.packets == MAX_BURST || read_late {
            in_time = self.book_timed(timed, now_ns, arrived, recorder);
        }
        (timed.sent_ns, timed.at) = (sent_ns, at);
        if read_late {
            let counts = u64::from(recorder.received(sent_ns, delay, came.slip, 0));
            arrived.add(at, counts, recorder);
            return in_time + counts;
        }
        let noted = &mut *self.noted;
        noted.arrivals[timed.packets] = arrival;
        timed.packets += 1;
        if let Some(slip) = came.slip {
            noted.slips[timed.slips] = slip;
            timed.slips += 1;
        }
        in_time
    }

    /// Books the packets whose arrivals were noted; returns how many were in time.
    fn book_timed(
        &mut self,
        timed: &mut Timed,
        now_ns: u64,
        arrived: &mut Arrived,
        recorder: &mut Recorder<'_>,
    ) -> u64 {
        let (packets, slipped) = (std::mem::take(&mut timed.packets), std::mem::take(&mut timed.slips));
        let slips = &self.noted.slips[..slipped.min(MAX_BURST)];
        if packets == 0 || !recorder.received_n(timed.sent_ns, now_ns, packets as u32, slips) {
            return 0;
        }
        let arrivals = &self.noted.arrivals[..packets.min(MAX_BURST)];
        recorder.timed(now_ns.saturating_sub(timed.sent_ns), arrivals);
        for arrival in arrivals {
            arrived.add(timed.sent_ns + arrival, 1, recorder);
        }
        packets as u64
    }

    /// Keeps a packet that is among the latest so far and was taken from the path at `now_ns`.
    #[cold]
    #[inline(never)]
    fn came_late(&mut self, (flow, stamp): (u32, Stamp), arrived_ns: u64, slip: Option<u64>, now_ns: u64) {
        let packet = LatePacket {
            lane: 0,
            flow,
            seq: stamp.seq,
            scheduled_ns: slip.map(|slip| stamp.time_ns.saturating_sub(slip)),
            sent_ns: stamp.time_ns,
            arrived_ns,
            classified_ns: now_ns,
        };
        // A lane that could not run makes many packets late at once, all for the same reason.
        self.latest.keep_one(now_ns, packet.delay_ns(), packet);
    }

    /// Returns the number that is due next in a flow.
    #[inline(always)]
    fn due(&self, order: &InOrder, (stream, flow): (usize, u32)) -> u64 {
        match order.packets > 0 && (stream, flow as usize) == (order.stream, order.flow) {
            true => order.next,
            false => self.part(stream).windows.next(flow as usize),
        }
    }

    /// Returns how a packet arrived: as the next of the run at hand, as the first of another run, or as the windows
    /// decide. `None`: no lane has sent it. It arrived at the first of the two times, and was taken from the path at
    /// the second.
    #[inline(always)]
    fn arrival(
        &mut self,
        order: &mut InOrder,
        (stream, flow): (usize, u32),
        stamp: Stamp,
        (at_ns, now_ns): (u64, u64),
    ) -> Option<Arrival> {
        let (seq, place) = (stamp.seq, flow as usize);
        if order.packets > 0 && (stream, place) == (order.stream, order.flow) && seq == order.next {
            let seat = order.seat.next();
            let senders = &mut self.part_mut(stream).senders;
            if !senders.sent_in(seat, flow, seq, stamp.time_ns, now_ns) {
                return None;
            }
            order.seat = seat;
            order.next += 1;
            order.packets += 1;
            return Some(Arrival::InOrder);
        }
        self.note(order);
        order.packets = 0;
        let part = self.part_mut(stream);
        if seq != part.windows.next(place) {
            let sent = part.senders.sent(flow, seq, stamp.time_ns, now_ns);
            return sent.then(|| self.odd((stream, place), stamp, at_ns));
        }
        let seat = part.senders.seat_of(flow, seq);
        if !part.senders.sent_in(seat, flow, seq, stamp.time_ns, now_ns) {
            return None;
        }
        *order = InOrder {
            stream,
            flow: place,
            next: seq + 1,
            packets: 1,
            seat,
        };
        Some(Arrival::InOrder)
    }

    /// Records a packet that is not the next of its flow.
    #[inline(never)]
    fn odd(&mut self, (stream, flow): (usize, usize), stamp: Stamp, at_ns: u64) -> Arrival {
        let windows = &mut self.part_mut(stream).windows;
        let next = windows.next(flow);
        let arrival = windows.record(flow, stamp.seq);
        let came = Came {
            flow: flow as u32,
            seq: stamp.seq,
            sent_ns: stamp.time_ns,
            at_ns,
        };
        match arrival {
            Arrival::InOrder => self.missing.skipped(next, came),
            Arrival::Reordered(_) => self.missing.found(came.flow, came.seq),
            Arrival::Duplicate | Arrival::TooOld => return arrival,
        }
        self.odd = came;
        arrival
    }

    /// Notes the first packet of a burst that came after a long time.
    #[cold]
    fn after_silence<F: Frame, C: Reader>(&mut self, frames: &[F], codec: &C, now_ns: u64) {
        for frame in frames {
            let Class::Test { flow, stamp } = codec.classify(frame, &mut self.known) else {
                continue;
            };
            let (stream, flow) = codec.stream_of(flow);
            let part = self.part_mut(stream);
            let stamp = codec.whole(stamp, || part.windows.next(flow as usize), now_ns);
            if part.senders.sent(flow, stamp.seq, stamp.time_ns, now_ns) {
                return self.missing.silent.note(Came {
                    flow,
                    seq: stamp.seq,
                    sent_ns: stamp.time_ns,
                    at_ns: frame.rx_time_ns().map_or(now_ns, |at| at.min(now_ns)),
                });
            }
        }
    }

    /// Records a run in the windows.
    #[inline(always)]
    fn note(&mut self, order: &InOrder) {
        let windows = &mut self.part_mut(order.stream).windows;
        match order.packets {
            0 => {}
            // Flows that take turns: each packet is a run of its own.
            1 => _ = windows.record(order.flow, order.next - 1),
            packets => windows.record_next(order.flow, packets),
        }
    }

    /// Counts a packet that this trial has not sent (`why`), or not like this (`None`: corrupt). A packet of an earlier
    /// trial may have another length, seed or flow, and so look like any of these. The check for such packets is only
    /// here, as they are few.
    #[cold]
    fn stranger<F: Frame, C: Reader>(
        &mut self,
        (frame, codec): (&F, &C),
        why: Option<Foreign>,
        now_ns: u64,
        recorder: &mut Recorder<'_>,
        books: &mut Books<'_>,
    ) {
        let start_ns = self.start_ns;
        match why {
            _ if self.traces.is_some_and(|traces| traces.are_earlier(frame, start_ns)) => self.late_of_an_earlier += 1,
            Some(why) => self.foreign(why, now_ns, recorder),
            None => {
                recorder.event(now_ns, |t| t.corrupt += 1);
                if let Some(stream) = codec.damaged(frame) {
                    books.event(stream, now_ns, |t| t.corrupt += 1);
                }
            }
        }
    }

    /// Counts a packet of a stream that does not say which it is.
    #[cold]
    fn untagged(&mut self, stream: usize, now_ns: u64, recorder: &mut Recorder<'_>, books: &mut Books<'_>) {
        recorder.event(now_ns, |t| t.untagged_came += 1);
        books.event(stream, now_ns, |t| t.untagged_came += 1);
    }

    #[cold]
    fn foreign(&mut self, why: Foreign, now_ns: u64, recorder: &mut Recorder<'_>) {
        self.foreign[why as usize] += 1;
        recorder.event(now_ns, |t| t.foreign += 1);
    }

    /// Counts a frame of the slow path: a question that mpps deals with, or other traffic.
    pub(crate) fn slow_path(&mut self, understood: bool, now_ns: u64, recorder: &mut Recorder<'_>) {
        if understood {
            self.service += 1;
        } else {
            self.foreign(Foreign::NotUdp, now_ns, recorder);
        }
    }

    /// Counts an ICMP error that quotes a packet of the test: it counts neither as foreign nor as an answer.
    #[cold]
    pub(crate) fn quoted(&mut self, error: IcmpError) {
        self.icmp[error as usize] += 1;
    }

    /// Returns the receiver's results.
    pub(crate) fn told(self) -> Taken {
        let reasons = self.reasons();
        let next = self.first.windows.into_next();
        let mut missing = self.missing;
        missing.next = next;
        Taken {
            reasons,
            missing: Some(missing),
            latest: self.latest.into_sorted(),
            changes: self.compared.into_changes(),
        }
    }

    pub(crate) fn reasons(&self) -> Vec<(Reason, u64)> {
        let mut reasons: Vec<_> = Foreign::ALL
            .iter()
            .map(|f| (f.reason(), self.foreign[*f as usize]))
            .collect();
        reasons.push((Reason::BeyondWindow, self.beyond_window));
        reasons.push((Reason::ImplausibleRxTime, self.odd_times));
        reasons.push((Reason::NeighborService, self.service));
        reasons.extend(ICMP.into_iter().zip(self.icmp));
        reasons.push((Reason::LateOfAnEarlierTrial, self.late_of_an_earlier));
        reasons.retain(|(_, n)| *n > 0);
        reasons
    }
}

#[cfg(test)]
mod tests;
