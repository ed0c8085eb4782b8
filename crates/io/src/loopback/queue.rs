//! One loop: departure on one side, arrival on the other.

use super::device::{Device, Passage};
use super::fault::{Counts, Dice, Fault, flip};
use super::frame::{LoopFrame, LoopPool, Mark};
use super::held::Held;
use super::{LoopConfig, Now, Turn};
use crate::null::Claim;
use crate::{Burst, Frame, Layer, MAX_BURST, Queue, Result, Wait};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How much longer than its delay a frame is held back when no later frame of its flow comes.
const IDLE_FLUSH_NS: u64 = 20_000_000;

/// Shorter waits spin: a sleeping thread is woken this much too late.
const WAKE_UP: Duration = Duration::from_micros(60);

/// A time in which all frames are lost.
struct Outage<'p> {
    /// ns after the first departure of the port.
    times: (u64, u64),
    /// Time of that first departure, ns; 0: none yet.
    first_ns: &'p AtomicU64,
}

impl Outage<'_> {
    /// Whether what departs now is lost.
    fn takes(&self, now_ns: u64) -> bool {
        let first = self.first_ns.compare_exchange(0, now_ns, Relaxed, Relaxed);
        let since = now_ns.saturating_sub(first.map_or_else(|earlier| earlier, |_| now_ns));
        (self.times.0..self.times.1).contains(&since)
    }
}

/// One queue of the loop path.
pub struct LoopQueue<'p, N: Now, T: Turn + 'p> {
    pool: &'p LoopPool,
    clock: &'p N,
    /// Turns departing frames round; `None` when they come back as they are.
    turn: Option<T::Memory<'p>>,
    counts: &'p Counts,
    layer: Layer,
    tagged: bool,
    delay_ns: u64,
    distance: u32,
    /// Queue, losses and delays that frames pass beside the faults; `None`: there are none. In a box: here it would lie
    /// between fields that loops without a device use.
    device: Option<Box<Device>>,
    /// Time in which all frames are lost.
    outage: Option<Box<Outage<'p>>>,
    dice: Dice,
    /// Any frame can meet a fault, or has a device to pass.
    faulty: bool,
    /// Times matter: frames take time, or are held back for a time.
    timed: bool,
    /// Frames take time, and carry their time of arrival.
    stamps: bool,
    /// Frames overtake each other, each having a delay of its own.
    overtake: bool,
    /// In flight, and ahead of all others: a burst as it was handed over. Empty if times or faults matter.
    handed: Burst<LoopFrame<'p>>,
    /// In flight, in order of departure and of arrival.
    flying: VecDeque<LoopFrame<'p>>,
    /// Arrived, and to be received before anything else.
    arrived: VecDeque<LoopFrame<'p>>,
    held: Held<LoopFrame<'p>>,
    _claim: Claim<'p>,
}

impl<'p, N: Now, T: Turn + 'p> LoopQueue<'p, N, T> {
    pub(super) fn new(
        config: &LoopConfig,
        (queue, queues): (usize, usize),
        pool: &'p LoopPool,
        clock: &'p N,
        turn: Option<T::Memory<'p>>,
        (counts, first_ns): (&'p Counts, &'p AtomicU64),
        claim: Claim<'p>,
    ) -> Self {
        let dice = Dice::new(config, queue);
        let device = Device::new(config, queue, queues).map(Box::new);
        let stamps = config.takes_time();
        let frames = config.buffers.frames;
        let may_hold = if config.reorder > 0.0 { frames } else { 0 };
        Self {
            pool,
            clock,
            turn,
            counts,
            layer: config.buffers.layer,
            tagged: config.tagged,
            delay_ns: config.delay_ns,
            distance: config.reorder_distance,
            faulty: dice.loaded() || device.is_some() || config.outage.is_some(),
            device,
            outage: config.outage.map(|times| Box::new(Outage { times, first_ns })),
            dice,
            timed: stamps || config.reorder > 0.0,
            stamps,
            overtake: config.jitter.overtake,
            handed: Burst::new(MAX_BURST),
            flying: VecDeque::with_capacity(frames),
            arrived: VecDeque::with_capacity(may_hold),
            held: Held::new(may_hold),
            _claim: claim,
        }
    }

    /// Turns the frames of a burst round, where they are; those that the far end does not send back are dropped.
    #[inline]
    fn turn(&mut self, burst: &mut Burst<LoopFrame<'p>>) {
        let Some(turn) = &mut self.turn else { return };
        let mut all = true;
        for frame in burst.as_mut_slice() {
            if !T::turn(turn, frame.bytes_mut()) {
                frame.mark.set(Mark::Refused);
                all = false;
            }
        }
        if !all {
            self.drop_refused(burst);
        }
    }

    #[cold]
    fn drop_refused(&mut self, burst: &mut Burst<LoopFrame<'p>>) {
        burst.retain(|frame| {
            let refused = frame.mark.get() == Mark::Refused;
            if refused {
                self.counts.not_reflected.bump();
            }
            !refused
        });
    }

    /// Sends one frame on its way, or loses it.
    fn depart(&mut self, mut frame: LoopFrame<'p>) {
        let fault = self.dice.draw();
        if let Some(outage) = &self.outage
            && outage.takes(self.clock.now_ns())
        {
            self.counts.lost_outage.bump();
            return;
        }
        if self.device.is_some() && !self.passes(&mut frame) {
            return;
        }
        match fault {
            Fault::None => self.fly(frame),
            Fault::Lose => self.counts.lost.bump(),
            Fault::Duplicate => {
                let copy = frame.copy();
                if copy.is_some() {
                    frame.mark.set(Mark::Copied);
                }
                self.fly(frame);
                if let Some(copy) = copy {
                    self.fly(copy);
                }
            }
            Fault::Reorder => {
                frame.mark.set(Mark::HoldBack);
                self.fly(frame);
            }
            Fault::Corrupt(random) => {
                if flip(frame.bytes_mut(), self.layer, self.tagged, random) {
                    frame.mark.set(Mark::Corrupt);
                }
                self.fly(frame);
            }
        }
    }

    /// Passes a frame through the device; false if the device drops it. A function of its own, so that faults without a
    /// device cost no more than before.
    #[inline(never)]
    fn passes(&mut self, frame: &mut LoopFrame<'p>) -> bool {
        let Some(device) = &mut self.device else { return true };
        match device.pass(frame.due_ns, frame.bytes().len()) {
            Passage::Until(due_ns) => {
                frame.due_ns = due_ns;
                return true;
            }
            Passage::Full => self.counts.dropped_queue.bump(),
            Passage::Burst => self.counts.dropped_burst.bump(),
        }
        false
    }

    /// Puts a departing frame in flight, behind all that arrive before it or with it.
    #[inline]
    fn fly(&mut self, frame: LoopFrame<'p>) {
        if self.overtake {
            self.outrun(frame);
        } else {
            self.flying.push_back(frame);
        }
    }

    /// Puts a frame in flight that may arrive before others. Corrupt frames overtake none, for the receiver can't know
    /// what they were.
    #[cold]
    fn outrun(&mut self, frame: LoopFrame<'p>) {
        let place = self.flying.partition_point(|other| other.due_ns <= frame.due_ns);
        if frame.mark.get() != Mark::Corrupt {
            for other in self.flying.range_mut(place..) {
                if other.flow == frame.flow {
                    other.mark.set(match other.mark.get() {
                        Mark::Plain => Mark::Overtaken,
                        Mark::Copied => Mark::OvertakenCopied,
                        mark => mark,
                    });
                }
            }
        }
        self.flying.insert(place, frame);
    }

    /// Hands one arrived frame over, and counts the fault that the receiver now sees.
    #[inline]
    fn deliver(&mut self, frame: LoopFrame<'p>, burst: &mut Burst<LoopFrame<'p>>) {
        if frame.mark.get() != Mark::Plain {
            self.count(frame.mark.get());
            frame.mark.set(Mark::Plain);
        }
        // Every caller has seen room in the burst.
        let _ = burst.push(frame);
    }

    #[cold]
    fn count(&self, mark: Mark) {
        match mark {
            Mark::Plain | Mark::Copied | Mark::HoldBack | Mark::Refused => {}
            Mark::Corrupt => self.counts.corrupted.bump(),
            Mark::Copy => self.counts.duplicated.bump(),
            Mark::Overtaken | Mark::OvertakenCopied => self.counts.reordered.bump(),
        }
    }

    /// Time in ns when the next frame arrives or is released; 0 when one has arrived already; `None` when nothing will
    /// happen. Ties go to the frame that arrives: it may overtake the one held.
    #[inline]
    fn next_event(&self) -> Option<u64> {
        if !self.arrived.is_empty() || !self.handed.is_empty() {
            return Some(0);
        }
        let due = self.flying.front().map(|frame| frame.due_ns);
        match (due, self.held.deadline()) {
            (Some(due), Some(deadline)) => Some(due.min(deadline)),
            (due, deadline) => due.or(deadline),
        }
    }

    /// Handles all that is due by `now`, in order of time, until the burst is full.
    fn arrive(&mut self, burst: &mut Burst<LoopFrame<'p>>, now: u64) {
        while burst.room() > 0 {
            if let Some(frame) = self.arrived.pop_front() {
                self.deliver(frame, burst);
                continue;
            }
            let Some(time) = self.next_event().filter(|time| *time <= now) else {
                return;
            };
            let flies = self.flying.front().is_some_and(|frame| frame.due_ns <= time);
            match if flies { self.flying.pop_front() } else { None } {
                Some(frame) if frame.mark.get() == Mark::HoldBack => {
                    let (flow, deadline) = (frame.flow.get(), frame.due_ns.saturating_add(IDLE_FLUSH_NS));
                    self.held.hold(frame, flow, self.distance, deadline);
                }
                Some(frame) => {
                    // A copy stands for its original, which it directly follows; corrupt frames overtake nothing,
                    // for the receiver can't tell what they were.
                    let overtakes = matches!(frame.mark.get(), Mark::Plain | Mark::Copy);
                    let (flow, due_ns) = (frame.flow.get(), frame.due_ns);
                    self.deliver(frame, burst);
                    if overtakes {
                        let arrived = &mut self.arrived;
                        self.held.overtake(flow, |mut late| {
                            late.due_ns = due_ns;
                            late.mark.set(Mark::Overtaken);
                            arrived.push_back(late);
                        });
                    }
                }
                None => {
                    if let Some((mut frame, overtaken)) = self.held.expire() {
                        frame.due_ns = time;
                        frame.mark.set(if overtaken { Mark::Overtaken } else { Mark::Plain });
                        self.deliver(frame, burst);
                    }
                }
            }
        }
    }
}

impl<'p, N: Now, T: Turn + 'p> Queue for LoopQueue<'p, N, T> {
    type Frame = LoopFrame<'p>;

    #[inline]
    fn receive(&mut self, burst: &mut Burst<LoopFrame<'p>>) -> Result<usize> {
        let before = burst.len();
        if self.timed {
            if self.next_event().is_some() {
                self.arrive(burst, self.clock.now_ns());
            }
        } else if self.faulty {
            for _ in 0..burst.room() {
                let Some(frame) = self.flying.pop_front() else { break };
                self.deliver(frame, burst);
            }
        } else if burst.is_empty() && self.handed.len() <= burst.limit() && self.flying.is_empty() {
            burst.swap(&mut self.handed);
        } else {
            for frame in self.handed.drain(burst.room()) {
                let _ = burst.push(frame);
            }
            let n = burst.room().min(self.flying.len());
            burst.array_mut().extend(self.flying.drain(..n));
        }
        Ok(burst.len() - before)
    }

    #[inline]
    fn allocate(&mut self, burst: &mut Burst<LoopFrame<'p>>, n: usize) -> Result<usize> {
        let mut free = self.pool.buffers.borrow();
        let n = n.min(burst.room()).min(free.len());
        let keep = free.len() - n;
        for data in free.drain(keep..).rev() {
            let _ = burst.push(LoopFrame::new(data, self.pool));
        }
        Ok(n)
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst<LoopFrame<'p>>) -> Result<usize> {
        let n = burst.len();
        if n == 0 {
            return Ok(0);
        }
        // Times are written into all of the frames before the first one moves.
        if self.timed {
            let due_ns = self.clock.now_ns().saturating_add(self.delay_ns);
            for frame in burst.as_mut_slice() {
                frame.due_ns = due_ns;
                frame.timed.set(self.stamps);
            }
        }
        self.turn(burst);
        let turned = burst.len();
        if self.faulty {
            for frame in burst.drain(turned) {
                self.depart(frame);
            }
        } else if !self.timed && self.handed.is_empty() && self.flying.is_empty() {
            // They change places, and no frame is moved.
            self.handed.swap(burst);
        } else {
            self.flying.extend(burst.drain(turned));
        }
        Ok(n)
    }

    /// Ends early, by as much as a sleeping thread may be woken late.
    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        if what.tx && self.pool.buffers.available() > 0 {
            return Ok(());
        }
        let mut time = timeout;
        if what.rx || what.tx {
            match self.next_event() {
                Some(_) if !self.timed => return Ok(()),
                Some(event) => time = time.min(Duration::from_nanos(event.saturating_sub(self.clock.now_ns()))),
                None => {}
            }
        }
        if time > WAKE_UP {
            std::thread::sleep(time - WAKE_UP);
        } else {
            let start = Instant::now();
            while start.elapsed() < time {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }
}
