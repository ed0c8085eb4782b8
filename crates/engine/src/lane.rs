//! A lane: a thread with its queues, and the loop that the lanes of every workload go through.
//!
//! The loop reads the time, closes rows, rests when nothing moves, and ends. What a round of it does is the workload's:
//! [`Rounds`], compiled into the loop.

pub(crate) mod away;
pub(crate) mod control;
pub(crate) mod fill;
pub(crate) mod idle;
mod loop_clock;
pub(crate) mod neighbor;
pub(crate) mod ring;
pub(crate) mod room;
pub(crate) mod sample;
pub(crate) mod spin;
pub(crate) mod stages;
pub(crate) mod worst;

use crate::books::{Books, Layout};
use crate::lane::control::Control;
use crate::lane::fill::Fill;
use crate::lane::idle::Idle;
use crate::lane::loop_clock::LoopClock;
use crate::lane::neighbor::Neighbor;
use crate::lane::sample::Sampler;
use crate::lane::stages::Stages;
use crate::outcome::{LaneOutcome, RINGS};
use crate::plan::Hop;
use crate::stamped::LaneStamps;
use mpps_io::{Burst, Error, ErrorKind, Obstacle, Queue, Result, RxRoom, Wait};
use mpps_stats::{LaneCounters, LaneSeries, NO_WAYS, Recorder};
use mpps_sys::{clock::Clock, sched};
use mpps_trace::Stage;
use mpps_wire::MacAddr;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

/// Rounds of a workload: the part of the lane's loop that differs between workloads.
pub(crate) trait Rounds<'r> {
    /// Runs one round. `now_ns` was read at its start or, where rounds are short, up to three rounds before; the run
    /// ends at `end_ns` as far as is known now.
    fn round(&mut self, lane: &Lane<'_>, now_ns: u64, end_ns: u64, recorder: &mut Recorder<'r>) -> Round;

    /// Sleeps until the event that the round waits for may have come.
    ///
    /// # Errors
    /// Returns the errors of [`Queue::wait`].
    fn sleep(&mut self, what: Wait, timeout: Duration) -> Result<()>;

    /// Books what belongs to the rows that are about to close. Called after each reading of the time. Rows other than
    /// the lane's own move on.
    fn fresh(&mut self, _now_ns: u64, _recorder: &mut Recorder<'r>) {}

    /// Returns the receive rings of the lane's queues; `None` for a queue that does not know its fill
    /// ([`Queue::rx_room`]).
    fn rx_rooms(&self) -> [Option<RxRoom>; RINGS];

    /// Returns the fill of each receive ring ([`Queue::rx_fill`]).
    fn rx_fills(&mut self) -> [Option<u64>; RINGS];

    /// Returns the recorder of received packets, if it is not the recorder of sent ones.
    fn arrivals(&mut self) -> Option<&mut Recorder<'r>> {
        None
    }

    /// Gives back frames that are still held, after the last round, and returns the lane's counts.
    fn finish(self) -> LaneOutcome;
}

/// Result of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Round {
    /// Packets have moved: the next round follows at once.
    Moved,
    /// Nothing moved, because the path had a trouble that was dealt with: the next round follows at once.
    Stalled,
    /// Nothing moved at `now_ns`, and there is nothing to do before `until_ns`, unless `what` comes.
    Idle { now_ns: u64, until_ns: u64, what: Wait },
    /// The round was the last.
    Over,
}

impl Round {
    /// Returns the result of a round in which a lane that waits for packets until `end_ns` received `came` frames at
    /// `now_ns`.
    #[inline(always)]
    pub(crate) fn of_receiver(lane: &Lane<'_>, came: Result<usize>, now_ns: u64, end_ns: u64) -> Self {
        if let Err(error) = &came {
            lane.trouble(error);
        }
        match came {
            _ if now_ns >= end_ns => Self::Over,
            Ok(0) => Self::Idle {
                now_ns,
                until_ns: end_ns,
                what: RX,
            },
            Ok(_) => Self::Moved,
            Err(_) => Self::Stalled,
        }
    }
}

/// A lane that waits for packets.
pub(crate) const RX: Wait = Wait { rx: true, tx: false };

const _: () = assert!(NO_WAYS == Obstacle::ALL.len(), "one counter per reason");

/// State that a lane's loop works with, beside its queue.
pub(crate) struct Lane<'r> {
    pub(crate) clock: Clock,
    pub(crate) control: &'r Control,
    /// Place of the port that the lane sends by.
    pub(crate) port: usize,
    pub(crate) counters: &'r LaneCounters,
    pub(crate) idle: Idle<'r>,
    pub(crate) stages: Stages<'r>,
    /// Copies one of every so many frames to a file, if a sample was asked for.
    pub(crate) sampler: Option<RefCell<Sampler>>,
    /// Memory for the lane's newest stamps, if another program is to recognise its packets by them.
    pub(crate) stamps: Option<LaneStamps<'r>>,
    pub(crate) neighbor: Option<Neighbor<'r>>,
    /// The lane receives no test packets, but looks now and then for hosts that ask for our addresses.
    pub(crate) attends: bool,
    pub(crate) burst: usize,
    /// Time in ns when the run begins.
    pub(crate) start_ns: u64,
    /// The peer's MAC address, if the lane has found one.
    pub(crate) dest_mac: Option<MacAddr>,
    /// Tracks of streams, and the lane's series of each; `None`: the run has none.
    pub(crate) by_stream: Option<(&'r Arc<Layout>, &'r [LaneSeries])>,
    /// Recorder of received packets, if they go another way than sent ones.
    pub(crate) arrivals: Option<Recorder<'r>>,
    /// The user has been shown why nothing can leave: a bit for the device that is down, and one per [`Obstacle`].
    pub(crate) told_down: Cell<u16>,
    /// The device was found down, or without a way for packets, and has taken nothing since.
    pub(crate) down: Cell<bool>,
    /// Obstacle that keeps packets from leaving; `None`: the device itself was down.
    pub(crate) obstacle: Cell<Option<Obstacle>>,
    /// Part of the time counted as down that the lane has slept since the path took nothing, ns.
    pub(crate) napped_ns: Cell<u64>,
}

impl<'r> Lane<'r> {
    /// Returns the lane's entries by stream. Called once: a series has one writer.
    pub(crate) fn books(&self) -> Books<'r> {
        let books = |(layout, series): (&Arc<Layout>, _)| Books::new(Arc::clone(layout), series);
        self.by_stream.map(books).unwrap_or_default()
    }
}

impl Lane<'_> {
    /// Deals with an error of the path: notes it and waits a little, or ends the run.
    #[cold]
    pub(crate) fn trouble(&self, error: &Error) {
        match error.kind {
            ErrorKind::LinkDown | ErrorKind::NoWay(_) => {
                let since = self.clock.now_ns();
                let obstacle = match error.kind {
                    ErrorKind::NoWay(obstacle) => Some(obstacle),
                    _ => None,
                };
                // Reported once per lane and reason: an outage is thousands of failed calls.
                let (bit, told) = (1 << obstacle.map_or(0, |of| 1 + of as u16), self.told_down.get());
                if told & bit == 0 {
                    self.told_down.set(told | bit);
                    self.control.device_down(format!("{error} (trying on)"));
                }
                self.obstacle.set(obstacle);
                let nap = Duration::from_millis(1);
                self.idle.away.sleeps_until(since + nap.as_nanos() as u64);
                std::thread::sleep(nap);
                let napped = self.clock.now_ns().saturating_sub(since);
                self.could_not_send(napped);
                self.down.set(true);
                self.napped_ns.set(self.napped_ns.get() + napped);
                self.stages.napped(napped);
            }
            _ => self.control.device_gone(self.clock.now_ns(), &error.to_string()),
        }
    }

    /// Counts time in which nothing could leave.
    #[cold]
    pub(crate) fn could_not_send(&self, ns: u64) {
        match self.obstacle.get() {
            Some(obstacle) => self.counters.no_way_ns[obstacle as usize].add(ns),
            None => self.counters.down_ns.add(ns),
        }
    }

    /// Sends frames that answer a host's questions; frames that the path does not take are dropped.
    #[cold]
    pub(crate) fn answer<Q: Queue>(&self, queue: &mut Q, answers: &mut Burst<Q::Frame>) {
        if !answers.is_empty() {
            if let Err(error) = self.transmit(self.port, queue, answers).and_then(|_| queue.flush()) {
                self.trouble(&error);
            }
            answers.clear();
        }
    }

    /// Returns the MAC addresses of the next hops beside the first, as far as they are known.
    pub(crate) fn more_macs(&self, hops: &[Hop]) -> Vec<MacAddr> {
        let found = |place: usize| self.neighbor.as_ref().and_then(|neighbor| neighbor.more_mac(place));
        let mac = |(place, hop): (usize, &Hop)| hop.link.dest_mac.or(found(place)).unwrap_or(MacAddr::BROADCAST);
        hops.iter().enumerate().map(mac).collect()
    }

    /// Notes the stamp of the packets that leave next.
    #[inline(always)]
    pub(crate) fn stamped(&self, now_ns: u64) {
        if let Some(stamps) = &self.stamps {
            stamps.note(now_ns);
        }
    }

    #[inline]
    pub(crate) fn count_rx(&self, frames: usize, now_ns: u64) {
        if frames == 0 {
            self.counters.rx_empty_polls.add(1);
            if self.stages.is_timed() {
                self.stages.read(Stage::EmptyPolls, &self.clock);
            } else {
                self.stages.found_none();
            }
        } else {
            if self.counters.first_rx_ns.get() == 0 {
                self.counters.first_rx_ns.set(now_ns);
            }
            self.counters.last_rx_ns.set(now_ns);
            self.counters.rx_packets.add(frames as u64);
            self.counters.rx_bursts.add(1);
            self.counters.rx_burst_sizes.add(frames);
        }
    }

    /// Books the time since the last reading of the clock to this stage, if the round is timed.
    #[inline(always)]
    pub(crate) fn mark(&self, stage: Stage) {
        if self.stages.is_on() {
            self.stages.read(stage, &self.clock);
        }
    }

    /// Works as [`Lane::mark`], with a reading of the clock that was taken for another purpose.
    #[inline(always)]
    pub(crate) fn mark_at(&self, stage: Stage, now_ns: u64) {
        if self.stages.is_on() {
            self.stages.note(stage, now_ns);
        }
    }

    /// Goes through rounds until one says that it was the last.
    #[inline(always)]
    pub(crate) fn run<'b>(mut self, mut rounds: impl Rounds<'b>, mut recorder: Recorder<'b>) -> LaneOutcome {
        let preempted = sched::preemptions();
        let mut time = LoopClock::default();
        let mut fill = Fill::new(self.counters, rounds.rx_rooms(), self.burst);
        self.stages.begin(&self.clock);
        loop {
            // A timed stage begins with a reading of its own.
            let (now, fresh) = time.now(&self.clock);
            if fresh {
                rounds.fresh(now, &mut recorder);
                recorder.flush();
                recorder.advance(now);
                self.idle.look(now);
                if let Some(sampler) = &self.sampler {
                    sampler.borrow_mut().publish(now);
                }
                let timed = self.stages.fresh(now, time.is_short(), self.counters);
                if fill.is_due(now) {
                    let found = fill.look(now, self.counters.rx_packets.get(), || rounds.rx_fills());
                    if let Some((fill, ppm)) = found {
                        self.stages.filled(fill);
                        rounds.arrivals().unwrap_or(&mut recorder).filled(now, ppm);
                    }
                }
                if timed {
                    time.read_next();
                    // Work that is done once per reading is no part of a stage.
                    self.stages.read_once(&self.clock);
                }
            }
            let end_ns = self.control.end_ns();
            match rounds.round(&self, now, end_ns, &mut recorder) {
                Round::Moved => {
                    time.moved(true);
                    self.stages.moved();
                    self.idle.worked();
                }
                Round::Stalled => time.moved(false),
                Round::Idle { now_ns, until_ns, what } => {
                    time.moved(false);
                    let sleep = |timeout| rounds.sleep(what, timeout);
                    match self.idle.rest(now_ns, until_ns, self.counters, sleep) {
                        Ok(None) => {}
                        Ok(Some(by_ns)) => self.stages.slept(now_ns, by_ns),
                        Err(error) => self.trouble(&error),
                    }
                }
                Round::Over => break,
            }
        }
        let slowest = self.stages.end(self.clock.now_ns(), self.counters);
        let outcome = rounds.finish();
        let (bursts, packets) = outcome.written;
        self.counters.stages.written_bursts.add(bursts);
        self.counters.stages.written_packets.add(packets);
        self.counters.phase.set(2);
        recorder.end();
        LaneOutcome {
            slowest,
            sampled: self.sampler.map(|sampler| sampler.borrow().counts()),
            preempted: sched::preemptions() - preempted,
            ..outcome
        }
    }
}
