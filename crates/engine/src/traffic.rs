//! The loop of a lane that sends, receives back, or both.

use crate::codec::Codec;
use crate::control::Control;
use crate::generate::Generator;
use crate::idle::Idle;
use crate::loop_clock::LoopClock;
use crate::neighbor::Neighbor;
use crate::outcome::LaneOutcome;
use crate::receive::Receiver;
use mpps_io::{Burst, Error, ErrorKind, Frame, Queue, Wait};
use mpps_stats::{LaneCounters, Recorder};
use mpps_sys::clock::Clock;
use mpps_wire::MacAddr;
use std::cell::Cell;
use std::time::Duration;

/// Time in which the path takes nothing is booked this often while it lasts, ns.
const BOOK_BLOCKED_NS: u64 = 1_000_000;

/// How often a lane that receives no test packets looks for somebody who asks for our addresses, ns.
const ATTEND_EVERY_NS: u64 = 10_000_000;
/// Bursts of one such look, at the most: it must not keep the lane from sending.
const LOOK_BURSTS: usize = 4;

/// What a lane's loop works with, beside its queue.
pub(crate) struct Lane<'r> {
    pub(crate) clock: Clock,
    pub(crate) control: &'r Control,
    pub(crate) counters: &'r LaneCounters,
    pub(crate) idle: Idle<'r>,
    pub(crate) neighbor: Option<Neighbor<'r>>,
    /// It receives no test packets, but looks now and then for somebody who asks for our addresses.
    pub(crate) attends: bool,
    pub(crate) burst: usize,
    /// When the run begins, ns.
    pub(crate) start_ns: u64,
    /// The peer's MAC address, where the lane has found one.
    pub(crate) dest_mac: Option<MacAddr>,
    /// Where it books what it receives, if that goes another way than what it sends.
    pub(crate) arrivals: Option<Recorder<'r>>,
    /// The user was told that the device is down.
    pub(crate) told_down: Cell<bool>,
    /// The device was found down, and has taken nothing since.
    pub(crate) down: Cell<bool>,
    /// Of the time that is counted as down, what was slept since the path took nothing, ns.
    pub(crate) napped_ns: Cell<u64>,
}

impl Lane<'_> {
    /// Deals with an error of the path: notes it and waits a little, or ends the run.
    #[cold]
    pub(crate) fn trouble(&self, error: &Error) {
        match error.kind {
            ErrorKind::LinkDown => {
                let since = self.clock.now_ns();
                // Reported once per lane: an outage is thousands of failed calls.
                if !self.told_down.replace(true) {
                    self.control.device_down(format!("{error}; trying on"));
                }
                let nap = Duration::from_millis(1);
                self.idle.away.sleeps_until(since + nap.as_nanos() as u64);
                std::thread::sleep(nap);
                let napped = self.clock.now_ns().saturating_sub(since);
                self.counters.down_ns.add(napped);
                self.down.set(true);
                self.napped_ns.set(self.napped_ns.get() + napped);
            }
            _ => self.control.device_gone(self.clock.now_ns(), &error.to_string()),
        }
    }

    /// Sends frames that answer somebody; what the path does not take is dropped.
    #[cold]
    pub(crate) fn answer<Q: Queue>(&self, queue: &mut Q, answers: &mut Burst<Q::Frame>) {
        if !answers.is_empty() {
            if let Err(error) = queue.transmit(answers).and_then(|_| queue.flush()) {
                self.trouble(&error);
            }
            answers.clear();
        }
    }

    #[inline]
    pub(crate) fn count_rx(&self, frames: usize, now_ns: u64) {
        if frames == 0 {
            self.counters.rx_empty_polls.add(1);
        } else {
            if self.counters.first_rx_ns.get() == 0 {
                self.counters.first_rx_ns.set(now_ns);
            }
            self.counters.last_rx_ns.set(now_ns);
            self.counters.rx_packets.add(frames as u64);
            self.counters.rx_bursts.add(1);
        }
    }
}

/// Runs the lane until the end of the run and, where it receives, of the settle time.
pub(crate) fn run<'r, Q: Queue, C: Codec>(
    mut lane: Lane<'r>,
    queue: &mut Q,
    codec: &C,
    mut generator: Option<Generator<'_>>,
    mut receiver: Option<Receiver<'_>>,
    mut recorder: Recorder<'r>,
    settle_ns: u64,
) -> LaneOutcome {
    let preempted = mpps_sys::sched::preemptions();
    let mut arrivals = lane.arrivals.take();
    let mut incoming = Burst::new(lane.burst);
    let mut pending = Burst::new(lane.burst);
    let mut answers = Burst::new(lane.burst);
    let mut time = LoopClock::default();
    // Until when it is booked that the path takes nothing; 0: it takes.
    let mut blocked_to = 0;
    let mut attend_at = 0;
    loop {
        // What is measured is measured by readings of its own.
        let (now, fresh) = time.now(&lane.clock);
        if fresh {
            recorder.flush();
            recorder.advance(now);
            if let Some(recorder) = &mut arrivals {
                recorder.flush();
                recorder.advance(now);
            }
            lane.idle.look(now);
        }
        let end_ns = lane.control.end_ns();
        let mut busy = false;
        if let Some(receiver) = &mut receiver {
            match queue.receive(&mut incoming) {
                Ok(frames) => {
                    lane.count_rx(frames, now);
                    if frames > 0 {
                        busy = true;
                        let at = lane.clock.now_ns();
                        let recorder = arrivals.as_mut().unwrap_or(&mut recorder);
                        let (received, slow) = receiver.burst(incoming.as_slice(), codec, at, recorder);
                        lane.counters.rx_test.add(received);
                        if slow > 0 {
                            attend(&lane, queue, &mut incoming, &mut answers, receiver, codec, at, recorder);
                        }
                        queue.discard(&mut incoming);
                    }
                }
                Err(error) => lane.trouble(&error),
            }
        }
        if lane.control.gone() {
            // Nothing moves any more: what was due until now counts as missed.
            if let Some(generator) = &mut generator {
                generator.give_up(now, &mut pending, &mut recorder);
            }
            break;
        }
        if lane.attends && now >= attend_at {
            attend_at = now + ATTEND_EVERY_NS;
            look_round(&lane, queue, &mut incoming, &mut answers);
        }
        let mut next = u64::MAX;
        let mut blocked = false;
        if let Some(generator) = generator.as_mut().filter(|g| !g.done()) {
            match generator.step(
                queue,
                codec,
                &mut pending,
                &lane.clock,
                (now, end_ns),
                &mut recorder,
                lane.counters,
            ) {
                Ok(sent) => {
                    busy |= sent;
                    lane.down.set(lane.down.get() && !sent);
                }
                Err(error) => lane.trouble(&error),
            }
            blocked = generator.blocked;
            if blocked && now > blocked_to + BOOK_BLOCKED_NS || !blocked && blocked_to != 0 {
                blocked_to = book_blocked(&lane, blocked, blocked_to, now, &mut recorder);
            }
            next = if blocked { u64::MAX } else { generator.next_due() };
        }
        let sending = generator.as_ref().is_some_and(|g| !g.done());
        if !sending {
            if lane.counters.phase.get() == 0 {
                lane.counters.phase.set(1);
                let _ = queue.flush();
            }
            // A lane that only sends stays to the end too: its rows close with those of the others.
            let settled = end_ns.saturating_add(settle_ns).min(lane.control.settle_end_ns());
            if now
                >= if receiver.is_none() {
                    end_ns
                } else {
                    settled.max(end_ns)
                }
            {
                break;
            }
        }
        time.moved(busy);
        if busy {
            lane.idle.worked();
            continue;
        }
        let now = lane.clock.now_ns();
        let next = next.min(if now < end_ns {
            end_ns
        } else {
            end_ns.saturating_add(settle_ns)
        });
        let what = Wait {
            rx: receiver.is_some(),
            tx: blocked,
        };
        if let Err(error) = lane.idle.rest(queue, now, next, what, lane.counters) {
            lane.trouble(&error);
        }
    }
    lane.counters.phase.set(2);
    recorder.end();
    if let Some(recorder) = arrivals {
        recorder.end();
    }
    LaneOutcome {
        gaps: generator.map(Generator::gaps),
        reasons: receiver.map(|r| r.reasons()).unwrap_or_default(),
        preempted: mpps_sys::sched::preemptions() - preempted,
        ..LaneOutcome::default()
    }
}

/// Counts the time up to `now` in which the path took nothing, as the device's where that is down; returns up to when
/// that is done, 0 where it takes again.
#[cold]
fn book_blocked(lane: &Lane<'_>, blocked: bool, blocked_to: u64, now: u64, recorder: &mut Recorder<'_>) -> u64 {
    let napped = lane.napped_ns.take();
    if blocked_to != 0 && now > blocked_to {
        let ns = now - blocked_to;
        if lane.down.get() {
            lane.counters.down_ns.add(ns.saturating_sub(napped));
        } else {
            lane.counters.blocked_ns.add(ns);
            recorder.blocked(now, ns);
        }
    }
    if blocked { now } else { 0 }
}

/// Takes what has come to a lane that receives no test packets, and answers those that ask.
#[cold]
fn look_round<Q: Queue>(lane: &Lane<'_>, queue: &mut Q, incoming: &mut Burst<Q::Frame>, answers: &mut Burst<Q::Frame>) {
    for _ in 0..LOOK_BURSTS {
        let came = match queue.receive(incoming) {
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
fn attend<Q: Queue, C: Codec>(
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
        if !matches!(
            codec.classify(&frame, &mut receiver.known),
            crate::codec::Class::SlowPath
        ) {
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
