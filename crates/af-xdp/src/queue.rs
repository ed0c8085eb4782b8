//! One lane's queue: the receiving and sending halves of the sockets that it owns, over one pool.

use crate::frame::AfXdpFrame;
use crate::gather::Gather;
use crate::port::{AfXdpPort, MAX_QUEUES, Parts};
use arrayvec::ArrayVec;
use mpps_io::{Burst, Error, Frame, Queue, Result, RoomUnit, RxRoom, Wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xsk::{Pool, Rx, Tx};

/// Receive calls that find nothing between two looks at the device, for lanes that never wait.
const CHECK_EVERY: u32 = 4096;
/// How often an idle lane that sleeps looks at the device: the kernel wakes nobody when it goes down or away.
const LOOK: Duration = Duration::from_millis(50);
/// How often a link that is down is looked at.
const DOWN: Duration = Duration::from_millis(10);
/// How long a lane sleeps that waits for room in a ring that the kernel does not empty: nothing would wake it.
const CONGESTED: Duration = Duration::from_micros(50);
/// Mean time between packets below which a lane that has nothing left to receive naps rather than asks to be woken: a
/// wake-up costs the sending core more than the packet.
const NAP_BELOW: Duration = Duration::from_micros(20);
/// Length of a nap, to which the thread's timer slack adds.
const NAP: Duration = Duration::from_micros(20);
/// The fill of an RX ring is one load of a word that the next receive call loads anyway.
const LOOK_AT_FILL: Duration = Duration::from_micros(100);

/// The queues of one lane.
pub struct AfXdpQueue<'p> {
    port: &'p AfXdpPort,
    pool: &'p Pool,
    lane: usize,
    name: Arc<str>,
    rx: Vec<Rx<'p>>,
    tx: Vec<Tx<'p>>,
    /// Index in `rx` of the queue that is asked next.
    turn: usize,
    timed: bool,
    /// Only for a lane that sends nothing: its waiting is part of no latency.
    gather: Option<Gather>,
    is_virtual: bool,
    busy_poll: bool,
    /// Receive calls in a row that found nothing.
    empty: u32,
    /// When the link was last seen down; `None`: believed up.
    down: Option<Instant>,
    /// Last look at the device of a lane that sleeps.
    looked: Instant,
    /// The kernel did not take all of the last burst.
    congested: bool,
    /// When the last wait ended, and how many frames were received since.
    awake: Instant,
    received: u32,
}

impl<'p> AfXdpQueue<'p> {
    pub(crate) fn new(port: &'p AfXdpPort, lane: usize, parts: Parts, pool: &'p Pool) -> Result<Self> {
        let limit = port.fill_limit();
        let receiver = |half: xsk::RxHalf| half.with_fill_limit(limit).over(pool);
        let rx: xsk::Result<Vec<_>> = parts.rx.into_iter().map(receiver).collect();
        let tx: xsk::Result<Vec<_>> = parts.tx.into_iter().map(|half| half.over(pool)).collect();
        Ok(Self {
            port,
            pool,
            lane,
            name: port.lane_name(lane),
            rx: rx.map_err(crate::error::of)?,
            tx: tx.map_err(crate::error::of)?,
            turn: 0,
            timed: port.timed(),
            gather: port.gathers(lane).then(|| Gather::new(Instant::now())),
            is_virtual: port.device().is_virtual,
            busy_poll: port.busy_poll(),
            empty: 0,
            down: None,
            looked: Instant::now(),
            congested: false,
            awake: Instant::now(),
            received: 0,
        })
    }

    /// Asks the kernel how the sockets are: an error when the device is down or gone.
    #[cold]
    fn check(&mut self) -> Result<()> {
        let mut result = Ok(());
        for rx in &mut self.rx {
            result = result.and(rx.wake().map(drop));
        }
        for tx in &mut self.tx {
            result = result.and(tx.kick().map(drop));
        }
        self.note(result)
    }

    fn note(&mut self, result: xsk::Result<()>) -> Result<()> {
        match result {
            Ok(()) => {
                self.down = None;
                Ok(())
            }
            Err(error) => {
                self.down = Some(Instant::now());
                Err(crate::error::of(error))
            }
        }
    }

    /// Counts a receive call that found nothing, and now and then looks at the device for the reason.
    #[cold]
    fn idle(&mut self) -> Result<usize> {
        self.empty = self.empty.wrapping_add(1);
        let mut result = Ok(());
        for rx in &mut self.rx {
            if self.busy_poll || rx.wakeup_needed() {
                result = result.and(rx.wake().map(drop));
            }
        }
        if result.is_err() {
            self.note(result)?;
        }
        let look = match self.down {
            None => self.empty.is_multiple_of(CHECK_EVERY),
            Some(seen) => seen.elapsed() >= DOWN,
        };
        if look {
            self.check()?;
        }
        Ok(0)
    }

    /// A lane that can't send hands its answers to the one that sends on the queue.
    #[cold]
    fn post(&mut self, burst: &mut Burst<AfXdpFrame<'p>>) -> usize {
        let n = burst.len();
        for frame in burst.drain(n) {
            self.port.mailbox().post(frame.bytes());
        }
        n
    }

    /// Sends what lanes that can't send have posted.
    #[cold]
    fn deliver(&mut self) {
        let Some(tx) = self.tx.first_mut() else { return };
        for letter in self.port.mailbox().take() {
            let frame = (tx.room() > 0).then(|| self.pool.allocate_one()).flatten();
            // The rest is dropped, as answers may be. What is in the ring leaves.
            let Some(mut frame) = frame else { break };
            frame.set_len(letter.len());
            let fits = frame.bytes().len() == letter.len();
            if fits {
                frame.bytes_mut().copy_from_slice(&letter);
                tx.send(std::iter::once(frame));
            }
        }
        let _ = tx.kick();
    }
}

impl<'p> Queue for AfXdpQueue<'p> {
    type Frame = AfXdpFrame<'p>;

    #[inline]
    fn receive(&mut self, burst: &mut Burst<Self::Frame>) -> Result<usize> {
        let (timed, is_virtual) = (self.timed, self.is_virtual);
        let now = self.gather.as_ref().map(|_| Instant::now());
        if let (Some(gather), Some(now)) = (&self.gather, now)
            && gather.early(now)
        {
            return Ok(0);
        }
        for _ in 0..self.rx.len() {
            let queue = self.turn;
            self.turn = if queue + 1 == self.rx.len() { 0 } else { queue + 1 };
            let n = self.rx[queue].receive(burst.room(), |inner| {
                // There is room: no more than that was asked for.
                let _ = burst.push(AfXdpFrame {
                    inner,
                    queue: queue as u32,
                    timed,
                    is_virtual,
                });
            });
            if n > 0 {
                if let (Some(gather), Some(now)) = (&mut self.gather, now) {
                    gather.received(now, n, burst.room() == 0);
                }
                self.empty = 0;
                self.received = self.received.saturating_add(n as u32);
                return Ok(n);
            }
        }
        self.idle()
    }

    #[inline]
    fn allocate(&mut self, burst: &mut Burst<Self::Frame>, n: usize) -> Result<usize> {
        let want = n.min(burst.room());
        if self.pool.free() < want {
            for tx in &mut self.tx {
                tx.reclaim();
            }
        }
        Ok(self.pool.allocate(want, |inner| {
            let _ = burst.push(AfXdpFrame {
                inner,
                queue: 0,
                timed: false,
                is_virtual: false,
            });
        }))
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst<Self::Frame>) -> Result<usize> {
        if self.port.mailbox().waiting() {
            self.deliver();
        }
        if self.tx.is_empty() {
            return Ok(self.post(burst));
        }
        if self.down.is_some() {
            // Frames in the ring of a link that is down would be sent late, when it is back.
            self.check()?;
        }
        let mut taken = 0;
        while let Some(first) = burst.as_slice().first() {
            // Frames go out by the queue that they came in on, so that a flow keeps its queue and its order.
            let queue = first.queue as usize;
            let run = if self.tx.len() == 1 {
                burst.len()
            } else {
                let same = |frame: &&AfXdpFrame<'_>| frame.queue as usize == queue;
                burst.as_slice().iter().take_while(same).count()
            };
            let at = if queue < self.tx.len() { queue } else { 0 };
            let tx = &mut self.tx[at];
            let n = run.min(tx.room());
            let sent = tx.send(burst.drain(n).map(|frame| frame.inner));
            let kicked = tx.kick();
            taken += sent;
            match kicked {
                Ok(idle) => self.congested = !idle && tx.pending() > 0,
                Err(error) => {
                    // Taken frames count, whatever stopped the rest: the next call meets the same obstacle.
                    let result = self.note(Err(error));
                    if taken == 0 {
                        result?;
                    }
                    return Ok(taken);
                }
            }
            if sent < run {
                break;
            }
        }
        Ok(taken)
    }

    fn flush(&mut self) -> Result<()> {
        if self.port.mailbox().waiting() {
            self.deliver();
        }
        let mut result = Ok(());
        self.congested = false;
        for tx in &mut self.tx {
            tx.reclaim();
            let mut left = tx.pending();
            let kicked = loop {
                let kicked = tx.kick();
                let before = std::mem::replace(&mut left, tx.pending());
                // The kernel ends a call at its budget, and at each frame that the driver refuses: on, while it takes
                // any.
                if !matches!(kicked, Ok(false)) || left == 0 || left >= before {
                    break kicked;
                }
            };
            self.congested |= matches!(kicked, Ok(false)) && left > 0;
            result = result.and(kicked.map(drop));
        }
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            for rx in &mut self.rx {
                result = result.and(rx.wake().map(drop));
            }
        }
        self.note(result)
    }

    fn rx_room(&self) -> Option<RxRoom> {
        Some(RxRoom {
            size: self.rx.iter().map(Rx::size).max()? as u64,
            count: self.rx.len(),
            unit: RoomUnit::Packets,
            every: LOOK_AT_FILL,
        })
    }

    fn rx_fill(&mut self) -> Option<u64> {
        self.rx.iter_mut().map(|rx| rx.available() as u64).max()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // One descriptor can't stand for several sockets.
        if self.rx.len() == 1 {
            self.port.rx_descriptors(self.lane).next()
        } else {
            None
        }
    }

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        let result = self.sleep(what, timeout);
        self.awake = Instant::now();
        self.received = 0;
        result
    }
}

impl Drop for AfXdpQueue<'_> {
    /// Frames still in the TX rings count as sent but never were: in copy mode nobody calls the kernel any more.
    fn drop(&mut self) {
        let _ = self.flush();
        self.port
            .note_unsent(self.lane, self.tx.iter_mut().map(|tx| tx.pending() as u64).sum());
    }
}

impl AfXdpQueue<'_> {
    fn sleep(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        if self.down.is_some() {
            nap(timeout.min(DOWN));
            return self.check();
        }
        self.flush()?;
        let often = what.rx && !what.tx && self.received > 0 && self.awake.elapsed() < NAP_BELOW * self.received;
        if often {
            nap(timeout.min(NAP));
            return Ok(());
        }
        // Room in a TX ring that the kernel does not empty by itself is not announced.
        let timeout = if what.tx || self.congested {
            timeout.min(CONGESTED)
        } else {
            timeout
        };
        if !what.rx || self.rx.is_empty() {
            nap(timeout);
            return Ok(());
        }
        let broken = {
            let fds = self
                .port
                .rx_descriptors(self.lane)
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let mut fds: ArrayVec<PollFd<'_>, MAX_QUEUES> = fds.collect();
            match poll(&mut fds, Timespec::try_from(timeout).ok().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::os("wait on", self.name.clone(), &e.into())),
            }
            fds.iter()
                .any(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::NVAL))
        };
        if broken {
            return self.check();
        }
        Ok(())
    }
}

/// Sleeps on nothing.
fn nap(time: Duration) {
    std::thread::sleep(time);
}
