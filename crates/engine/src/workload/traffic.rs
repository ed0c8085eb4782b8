//! A lane that sends, receives back, or both.

use crate::books::Books;
use crate::codec::{Class, Reader};
use crate::lane::{Lane, Round, Rounds};
use crate::outcome::LaneOutcome;
use crate::outcome::RINGS;
use crate::receive::Receiver;
use crate::send::sender::Sender;
use mpps_io::{Burst, Error, ErrorKind, Frame, Queue, Result, RxRoom, Wait};
use mpps_stats::Recorder;
use mpps_trace::Stage;
use std::time::Duration;

/// Time between two bookings while the path takes nothing, ns.
const BOOK_BLOCKED_NS: u64 = 1_000_000;

/// Time between two looks for questions for our addresses, on a lane that receives no test packets, ns.
const ATTEND_EVERY_NS: u64 = 10_000_000;
/// Most bursts of one such look: it must not keep the lane from sending.
const LOOK_BURSTS: usize = 4;

/// Runs the lane from the start until the end of the run and, if it receives, of the settle time.
#[inline]
pub(crate) fn run<'r, Q: Queue, C: Reader, G: Sender<C>>(
    mut lane: Lane<'r>,
    queue: &mut Q,
    codec: &C,
    generator: Option<G>,
    receiver: Option<Receiver<'_>>,
    (recorder, books): (Recorder<'r>, Books<'r>),
    settle_ns: u64,
) -> LaneOutcome {
    let traffic = Traffic {
        arrivals: lane.arrivals.take(),
        books,
        incoming: Burst::new(lane.burst),
        pending: Burst::new(generator.as_ref().map_or(0, G::burst)),
        answers: Burst::new(lane.burst),
        blocked_to: 0,
        attend_at: 0,
        queue,
        codec,
        generator,
        receiver,
        settle_ns,
    };
    lane.control.wait_until(&lane.clock, lane.start_ns);
    let began_after_ns = lane.clock.now_ns().saturating_sub(lane.start_ns);
    LaneOutcome {
        began_after_ns,
        ..lane.run(traffic, recorder)
    }
}

struct Traffic<'l, 'g, 'r, Q: Queue, C, G> {
    queue: &'l mut Q,
    codec: &'l C,
    generator: Option<G>,
    receiver: Option<Receiver<'g>>,
    /// Recorder of received packets, if they go another way than sent ones.
    arrivals: Option<Recorder<'r>>,
    /// Entries by stream.
    books: Books<'r>,
    incoming: Burst<Q::Frame>,
    /// Frames that are written and not yet taken by the path.
    pending: Burst<Q::Frame>,
    answers: Burst<Q::Frame>,
    /// Time in ns up to which it is booked that the path takes nothing; 0: it takes frames.
    blocked_to: u64,
    /// Time in ns of the next look for questions for our addresses.
    attend_at: u64,
    settle_ns: u64,
}

impl<'r, Q: Queue, C: Reader, G: Sender<C>> Rounds<'r> for Traffic<'_, '_, 'r, Q, C, G> {
    #[inline(always)]
    fn round(&mut self, lane: &Lane<'_>, now: u64, end_ns: u64, recorder: &mut Recorder<'r>) -> Round {
        let mut busy = false;
        if let Some(receiver) = &mut self.receiver {
            match lane.receive(lane.port, self.queue, &mut self.incoming) {
                Ok(frames) => {
                    lane.count_rx(frames, now);
                    if frames > 0 {
                        busy = true;
                        let at = lane.clock.now_ns();
                        lane.mark_at(Stage::Receive, at);
                        let recorder = match &mut self.arrivals {
                            Some(arrivals) => arrivals,
                            None => recorder,
                        };
                        let frames = self.incoming.as_slice();
                        let (received, slow) = receiver.burst(frames, self.codec, at, recorder, &mut self.books);
                        lane.counters.rx_test.add(received);
                        if slow > 0 {
                            let (incoming, answers) = (&mut self.incoming, &mut self.answers);
                            attend(lane, self.queue, incoming, answers, receiver, self.codec, at, recorder);
                        }
                        self.queue.discard(&mut self.incoming);
                        lane.mark(Stage::Classify);
                    }
                }
                Err(error) => lane.trouble(&error),
            }
        }
        if lane.control.gone() {
            // Nothing moves any more: departures that were due until now count as missed.
            if let Some(generator) = self.generator.as_mut().filter(|g| !g.done()) {
                generator.give_up(now, &mut self.pending, lane.control, (recorder, &mut self.books));
            }
            return Round::Over;
        }
        if lane.attends && now >= self.attend_at {
            self.attend_at = now + ATTEND_EVERY_NS;
            look_round(lane, self.queue, &mut self.incoming, &mut self.answers);
        }
        let mut next = u64::MAX;
        let mut blocked = false;
        if let Some(generator) = self.generator.as_mut().filter(|g| !g.done()) {
            let stepped = match lane.control.may_send(lane.port) {
                true => {
                    let booked = (&mut *recorder, &mut self.books);
                    generator.step(self.queue, self.codec, &mut self.pending, lane, (now, end_ns), booked)
                }
                // The run or the stream ends though nothing can leave.
                false if now >= generator.end_ns(end_ns) => {
                    let (end_ns, booked) = (generator.end_ns(end_ns), (&mut *recorder, &mut self.books));
                    generator.give_up(end_ns, &mut self.pending, lane.control, booked);
                    Ok(false)
                }
                false if !generator.has_due(now, &self.pending) => Ok(false),
                // Departures that are missed meanwhile are booked as the time is read.
                false => Err(no_carrier(lane)),
            };
            match stepped {
                Ok(sent) => {
                    busy |= sent;
                    lane.down.set(lane.down.get() && !sent);
                }
                Err(error) => lane.trouble(&error),
            }
            blocked = generator.is_blocked();
            if blocked && now > self.blocked_to + BOOK_BLOCKED_NS || !blocked && self.blocked_to != 0 {
                self.blocked_to = book_blocked(lane, blocked, self.blocked_to, now, recorder);
            }
            next = if blocked { u64::MAX } else { generator.next_due() };
        }
        let sending = self.generator.as_ref().is_some_and(|g| !g.done());
        let settle_to = end_ns.saturating_add(self.settle_ns);
        if !sending {
            if lane.counters.phase.get() == 0 {
                lane.counters.phase.set(1);
                let _ = self.queue.flush();
                lane.mark(Stage::Flush);
            }
            // A lane that only sends stays to the end too: its rows close with those of the others.
            let settled = settle_to.min(lane.control.settle_end_ns()).max(end_ns);
            if now >= if self.receiver.is_none() { end_ns } else { settled } {
                return Round::Over;
            }
        }
        if busy {
            return Round::Moved;
        }
        let now_ns = lane.clock.now_ns();
        Round::Idle {
            now_ns,
            until_ns: next.min(if now_ns < end_ns { end_ns } else { settle_to }),
            what: Wait {
                rx: self.receiver.is_some(),
                tx: blocked,
            },
        }
    }

    fn sleep(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        self.queue.wait(what, timeout)
    }

    fn rx_rooms(&self) -> [Option<RxRoom>; RINGS] {
        [self.receiver.as_ref().and_then(|_| self.queue.rx_room()), None]
    }

    fn rx_fills(&mut self) -> [Option<u64>; RINGS] {
        [self.queue.rx_fill(), None]
    }

    fn arrivals(&mut self) -> Option<&mut Recorder<'r>> {
        self.arrivals.as_mut()
    }

    #[inline]
    fn fresh(&mut self, now_ns: u64, recorder: &mut Recorder<'r>) {
        // A lane that did not run for long has rows to close: each missed departure is booked in its own.
        if let Some(generator) = &mut self.generator {
            generator.skip(now_ns, (recorder, &mut self.books));
        }
        self.books.advance(now_ns);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.flush();
            arrivals.advance(now_ns);
        }
    }

    fn finish(self) -> LaneOutcome {
        if let Some(arrivals) = self.arrivals {
            arrivals.end();
        }
        self.books.end();
        let sent = self.generator.map(G::into_sent).unwrap_or_default();
        let taken = self.receiver.map(Receiver::told).unwrap_or_default();
        LaneOutcome {
            gaps: sent.gaps,
            departures: sent.departures,
            written: sent.written,
            missing: taken.missing,
            reasons: taken.reasons,
            latest: taken.latest,
            changes: taken.changes,
            ..LaneOutcome::default()
        }
    }
}

/// Returns an error, as the path would take packets and lose them: the collector has seen the link go down.
#[cold]
fn no_carrier(lane: &Lane<'_>) -> Error {
    let by = lane.control.closed_by(lane.port);
    let cause = "the interface has no carrier: is the other end up?";
    Error::new("send test packets by", by, cause, ErrorKind::LinkDown)
}

/// Counts the time up to `now` in which the path took nothing, or as time of the device if it is down. Returns the time
/// up to which this is booked; 0: the path takes frames again.
#[cold]
fn book_blocked(lane: &Lane<'_>, blocked: bool, blocked_to: u64, now: u64, recorder: &mut Recorder<'_>) -> u64 {
    let napped = lane.napped_ns.take();
    if blocked_to != 0 && now > blocked_to {
        let ns = now - blocked_to;
        if lane.down.get() {
            lane.could_not_send(ns.saturating_sub(napped));
        } else {
            lane.counters.blocked_ns.add(ns);
            recorder.blocked(now, ns);
        }
    }
    if blocked { now } else { 0 }
}

/// Takes frames that have come to a lane that receives no test packets, and answers those that ask.
#[cold]
fn look_round<Q: Queue>(lane: &Lane<'_>, queue: &mut Q, incoming: &mut Burst<Q::Frame>, answers: &mut Burst<Q::Frame>) {
    for _ in 0..LOOK_BURSTS {
        let came = match lane.receive(lane.port, queue, incoming) {
            Ok(came) => came,
            Err(error) => return lane.trouble(&error),
        };
        for mut frame in incoming.drain(came) {
            let attended = lane.neighbor.as_ref().and_then(|n| n.attend(&mut frame));
            if attended == Some(true) && frame.capacity() > 0 {
                let _ = answers.push(frame);
            }
        }
        lane.answer(queue, answers);
        if came == 0 {
            return;
        }
    }
}

/// Goes through a burst again for the frames that are no test packets, and answers those that ask.
#[cold]
#[allow(clippy::too_many_arguments)]
fn attend<Q: Queue, C: Reader>(
    lane: &Lane<'_>,
    queue: &mut Q,
    incoming: &mut Burst<Q::Frame>,
    answers: &mut Burst<Q::Frame>,
    receiver: &mut Receiver<'_>,
    codec: &C,
    now_ns: u64,
    recorder: &mut Recorder<'_>,
) {
    let all = incoming.len();
    for mut frame in incoming.drain(all) {
        if !matches!(codec.classify(&frame, &mut receiver.known), Class::SlowPath) {
            continue;
        }
        if let Some(error) = codec.quoted(frame.bytes()) {
            receiver.quoted(error);
            continue;
        }
        let attended = lane.neighbor.as_ref().and_then(|n| n.attend(&mut frame));
        receiver.slow_path(attended.is_some(), now_ns, recorder);
        if attended == Some(true) && frame.capacity() > 0 {
            let _ = answers.push(frame);
        }
    }
    lane.answer(queue, answers);
}
