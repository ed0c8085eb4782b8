//! A lane that takes frames from one port to another, or sends them back out of the port they came in by.
//!
//! A lane that owns a queue of each port of a pair serves both directions in turn; with the directions split it serves
//! one. A direction is a [`Way`]. Its [`Step`] is the difference between ports whose queues share packet memory and
//! ports whose queues do not: a frame is moved or copied, which is decided at compile time.

mod held;
mod lanes;
mod way;
mod work;

pub(crate) use lanes::{alone, between};
pub(crate) use way::{CopyOver, Move, Step};

use crate::lane::{Lane, RX, Round, Rounds};
use crate::outcome::RINGS;
use crate::outcome::{LaneOutcome, PortCounts};
use crate::plan::{ForwardPort, ForwardSeat};
use mpps_io::{Error, OnFull, Queue, Result, RxRoom, Wait, Work};
use mpps_stats::Recorder;
use mpps_sys::ready;
use std::time::{Duration, Instant};
use way::Way;

/// Mean time between bursts' frames below which a lane of two queues naps rather than asks to be woken: being woken
/// costs the sender's core more than a frame does (as on the `af_packet` path).
const NAP_BELOW: Duration = Duration::from_micros(20);
/// Length of a nap.
const NAP: Duration = Duration::from_micros(20);
/// Longest sleep on one of two queues that can't be waited for together.
const ALTERNATE: Duration = Duration::from_micros(100);

/// The queues of a lane, and the ways between them.
trait Ways {
    /// Moves the frames that have come on every way; true when any has come, or a held one has gone.
    fn turn(&mut self, lane: &Lane<'_>, now_ns: u64, recorder: &mut Recorder<'_>) -> bool;
    /// Returns when held frames must go, ns; `u64::MAX` when none is held.
    fn due_ns(&self) -> u64;
    /// Sends held frames.
    fn release(&mut self, lane: &Lane<'_>, recorder: &mut Recorder<'_>);
    /// Sleeps until frames may have come.
    fn sleep(&mut self, timeout: Duration) -> Result<()>;
    /// Returns the receive rings, and how full they are: of the lane's port, or of the pair's two.
    fn rx_rooms(&self) -> [Option<RxRoom>; RINGS];
    fn rx_fills(&mut self) -> [Option<u64>; RINGS];
    /// Pushes out frames that the paths hold back, and returns the counts: at the lane's port, or at the pair's two.
    fn finish(&mut self) -> Vec<PortCounts>;
}

/// Runs the lane until the end of the run.
/// `at` contains the places of the ports that `ways` serves among all `ports` of the run.
fn run(lane: Lane<'_>, ways: impl Ways, recorder: Recorder<'_>, at: ForwardSeat, ports: usize) -> LaneOutcome {
    lane.run(Forward { ways, at, ports }, recorder)
}

struct Forward<W> {
    ways: W,
    at: ForwardSeat,
    ports: usize,
}

impl<'r, W: Ways> Rounds<'r> for Forward<W> {
    #[inline(always)]
    fn round(&mut self, lane: &Lane<'_>, now: u64, end_ns: u64, recorder: &mut Recorder<'r>) -> Round {
        let moved = self.ways.turn(lane, now, recorder);
        if now >= end_ns {
            self.ways.release(lane, recorder);
            return Round::Over;
        }
        match moved {
            true => Round::Moved,
            false => Round::Idle {
                now_ns: now,
                until_ns: end_ns.min(self.ways.due_ns()),
                what: RX,
            },
        }
    }

    fn sleep(&mut self, _what: Wait, timeout: Duration) -> Result<()> {
        self.ways.sleep(timeout)
    }

    fn rx_rooms(&self) -> [Option<RxRoom>; RINGS] {
        self.ways.rx_rooms()
    }

    fn rx_fills(&mut self) -> [Option<u64>; RINGS] {
        self.ways.rx_fills()
    }

    fn finish(mut self) -> LaneOutcome {
        let mut places = vec![PortCounts::default(); self.ports];
        let at = [self.at.first].into_iter().chain(self.at.second);
        for (place, counts) in at.zip(self.ways.finish()) {
            places[place] = counts;
        }
        LaneOutcome {
            reasons: places.iter().flat_map(|port| port.reasons.iter().copied()).collect(),
            ports: places,
            ring_ports: [Some(self.at.first), self.at.second],
            ..LaneOutcome::default()
        }
    }
}

/// One queue: frames that come in go back out.
struct Alone<'l, 'r, Q: Queue> {
    queue: &'l mut Q,
    way: Way<'r, Q::Frame, Q, way::Move>,
}

impl<'l, 'r, Q: Queue> Alone<'l, 'r, Q> {
    fn new(
        queue: &'l mut Q,
        (port, place): (&'r ForwardPort, usize),
        max_frame: usize,
        burst: usize,
        passing: (Duration, OnFull, Work),
    ) -> Self {
        let plain = queue.gives_plain();
        Self {
            queue,
            way: Way::new((port, plain), port, [place; 2], max_frame, burst, passing),
        }
    }
}

impl<Q: Queue> Ways for Alone<'_, '_, Q> {
    #[inline]
    fn turn(&mut self, lane: &Lane<'_>, now_ns: u64, recorder: &mut Recorder<'_>) -> bool {
        let came = self.way.receive(lane, self.queue, now_ns, recorder);
        self.way.pass_on(came, lane, self.queue, now_ns, recorder)
    }

    fn due_ns(&self) -> u64 {
        self.way.due_ns()
    }

    fn release(&mut self, lane: &Lane<'_>, recorder: &mut Recorder<'_>) {
        self.way.release(lane, self.queue, recorder);
    }

    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        self.queue.wait(RX, timeout)
    }

    fn rx_rooms(&self) -> [Option<RxRoom>; RINGS] {
        [self.queue.rx_room(), None]
    }

    fn rx_fills(&mut self) -> [Option<u64>; RINGS] {
        [self.queue.rx_fill(), None]
    }

    fn finish(&mut self) -> Vec<PortCounts> {
        let _ = self.queue.flush();
        let mut port = self.way.counts.at_source();
        self.way.counts.add_at_destination(&mut port);
        vec![port]
    }
}

/// Two queues, and one way between them or both.
struct Pair<'l, 'r, A: Queue, B: Queue, S> {
    a: &'l mut A,
    b: &'l mut B,
    there: Option<Way<'r, A::Frame, B, S>>,
    back: Option<Way<'r, B::Frame, A, S>>,
    /// Turns in which packets came since the lane last slept, and the end of that sleep.
    turns: u32,
    awake: Instant,
    /// Whether the second queue is waited for next, if both can't be.
    wait_for_b: bool,
}

impl<A: Queue, B: Queue, S> Ways for Pair<'_, '_, A, B, S>
where
    S: Step<A::Frame, B> + Step<B::Frame, A>,
{
    #[inline]
    fn turn(&mut self, lane: &Lane<'_>, now_ns: u64, recorder: &mut Recorder<'_>) -> bool {
        let (mut came, mut moved) = (false, false);
        if let Some(way) = &mut self.there {
            let any = way.receive(lane, self.a, now_ns, recorder);
            came |= any;
            moved |= way.pass_on(any, lane, self.b, now_ns, recorder);
        }
        if let Some(way) = &mut self.back {
            let any = way.receive(lane, self.b, now_ns, recorder);
            came |= any;
            moved |= way.pass_on(any, lane, self.a, now_ns, recorder);
        }
        self.turns = self.turns.saturating_add(u32::from(came));
        moved
    }

    fn due_ns(&self) -> u64 {
        let there = self.there.as_ref().map_or(u64::MAX, Way::due_ns);
        let back = self.back.as_ref().map_or(u64::MAX, Way::due_ns);
        there.min(back)
    }

    fn release(&mut self, lane: &Lane<'_>, recorder: &mut Recorder<'_>) {
        if let Some(way) = &mut self.there {
            way.release(lane, self.b, recorder);
        }
        if let Some(way) = &mut self.back {
            way.release(lane, self.a, recorder);
        }
    }

    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        match (&self.there, &self.back) {
            // Frames that the other queue could not push out at once must not lie there until the next frame comes.
            (Some(_), None) => self.b.flush().and_then(|()| self.a.wait(RX, timeout)),
            (None, Some(_)) => self.a.flush().and_then(|()| self.b.wait(RX, timeout)),
            _ => {
                let slept = self.sleep_on_both(timeout);
                (self.turns, self.awake) = (0, Instant::now());
                slept
            }
        }
    }

    /// Returns the rings of queues that a way begins at: the others receive nothing.
    fn rx_rooms(&self) -> [Option<RxRoom>; RINGS] {
        [
            self.there.as_ref().and_then(|_| self.a.rx_room()),
            self.back.as_ref().and_then(|_| self.b.rx_room()),
        ]
    }

    fn rx_fills(&mut self) -> [Option<u64>; RINGS] {
        [
            self.there.as_ref().and_then(|_| self.a.rx_fill()),
            self.back.as_ref().and_then(|_| self.b.rx_fill()),
        ]
    }

    fn finish(&mut self) -> Vec<PortCounts> {
        let _ = (self.a.flush(), self.b.flush());
        let (there, back) = (self.there.as_ref(), self.back.as_ref());
        let there = there.map(|way| way.counts).unwrap_or_default();
        let back = back.map(|way| way.counts).unwrap_or_default();
        let (mut a, mut b) = (there.at_source(), back.at_source());
        back.add_at_destination(&mut a);
        there.add_at_destination(&mut b);
        vec![a, b]
    }
}

impl<A: Queue, B: Queue, S> Pair<'_, '_, A, B, S> {
    fn sleep_on_both(&mut self, timeout: Duration) -> Result<()> {
        if self.turns > 0 && self.awake.elapsed() < NAP_BELOW * self.turns {
            std::thread::sleep(timeout.min(NAP));
            return Ok(());
        }
        self.a.flush()?;
        self.b.flush()?;
        let [a_failed, b_failed] = match (self.a.descriptor(), self.b.descriptor()) {
            (Some(a), Some(b)) => {
                ready::readable([a, b], timeout).map_err(|e| Error::os("wait on", "two queues", &e))?
            }
            _ => {
                self.wait_for_b = !self.wait_for_b;
                let timeout = timeout.min(ALTERNATE);
                return match self.wait_for_b {
                    true => self.b.wait(RX, timeout),
                    false => self.a.wait(RX, timeout),
                };
            }
        };
        // The path itself knows what its error means, and how to clear it.
        if a_failed {
            self.a.wait(RX, Duration::ZERO)?;
        }
        if b_failed {
            self.b.wait(RX, Duration::ZERO)?;
        }
        Ok(())
    }
}
