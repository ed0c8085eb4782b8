//! One lane's queue: receiving and sending on one ring.

use crate::counters::RingCounters;
use crate::ledger::Audit;
use crate::receive::Receiver;
use crate::ring::Ring;
use crate::transmit::{Sender, Stopped};
use crate::user_data::{CANCEL, RECEIVE, SEND, WRITABLE, parts, user_data};
use io_uring::{opcode, types};
use mpps_io::{Burst, Error, Queue, Result, RxRoom, Wait};
use mpps_sockets::{Fill, Lane, Pool, SocketFrame, Sockets};
use std::time::{Duration, Instant};

/// Longest sleep when a queue below the socket is full: the kernel has nothing to wake us by.
const BUSY_WAIT: Duration = Duration::from_micros(50);
/// How long a queue that is closed waits for sends to end, and then for requests to be given up.
const CLOSING: Duration = Duration::from_secs(1);

/// One lane's queue over its pool. Dropping it frees the lane's place in the port, and the sockets are then the port's
/// alone.
pub struct UringQueue<'p> {
    sockets: &'p Sockets,
    pool: &'p Pool,
    lane: &'p Lane,
    counters: &'p RingCounters,
    ring: Ring,
    receiver: Receiver<'p>,
    sender: Sender<'p>,
    fill: Fill,
    /// A request that wakes us when a socket is writable is armed.
    watching: bool,
    /// Error of a completion, or of a call that had frames to hand out first; the next call returns it.
    failed: Option<Error>,
    lost: u32,
}

/// Parts that a queue is made of.
pub(crate) struct Parts<'p> {
    pub(crate) sockets: &'p Sockets,
    pub(crate) pool: &'p Pool,
    pub(crate) lane: &'p Lane,
    pub(crate) counters: &'p RingCounters,
    pub(crate) ring: Ring,
    pub(crate) receiver: Receiver<'p>,
    pub(crate) sender: Sender<'p>,
}

impl<'p> UringQueue<'p> {
    pub(crate) fn new(parts: Parts<'p>) -> Result<Self> {
        let Parts {
            sockets,
            pool,
            lane,
            counters,
            ring,
            receiver,
            sender,
        } = parts;
        let mut this = Self {
            sockets,
            pool,
            lane,
            counters,
            ring,
            receiver,
            sender,
            fill: Fill::default(),
            watching: false,
            failed: None,
            lost: 0,
        };
        // Requests are armed before the first packet: what a socket keeps until then comes with the first call.
        this.receiver.provide(&mut this.ring);
        this.ring.submit(this.counters)?;
        Ok(this)
    }

    /// Books everything that has completed.
    fn reap(&mut self) {
        let completions = self.ring.completions();
        for entry in completions {
            let (what, which) = parts(entry.user_data());
            let result = match what {
                RECEIVE => self.receiver.completed(which, &entry, self.counters),
                SEND => self.sender.completed(which, &entry, self.counters),
                WRITABLE => {
                    self.watching = false;
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(error) = result {
                self.failed.get_or_insert(error);
            }
        }
    }

    /// Calls the kernel if there is work for it, then does the same as [`UringQueue::reap`]. False: there was no such
    /// work.
    fn work(&mut self) -> Result<bool> {
        if !self.ring.has_work(self.counters) {
            return Ok(false);
        }
        self.ring.work(self.counters)?;
        self.reap();
        let lost = self.ring.lost();
        if lost != self.lost {
            self.counters
                .completions_lost
                .add(u64::from(lost.wrapping_sub(self.lost)));
            self.lost = lost;
        }
        Ok(true)
    }

    /// Returns the error that was kept, once.
    fn told(&mut self) -> Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Hands over the sends that were written, and books what has ended by it.
    #[inline]
    fn hand_over(&mut self) -> Result<()> {
        match self.sender.take_chain() {
            _ if self.ring.polled() => self.ring.submit(self.counters)?,
            // A lane that has nothing to hand out gets by the same call what has come.
            0 if self.receiver.armed() > 0 && !self.receiver.pending() => self.ring.work(self.counters)?,
            0 => self.ring.submit(self.counters)?,
            // No send of it waits, so all of them end.
            chain => self.ring.work_until(chain, self.counters)?,
        }
        self.reap();
        Ok(())
    }

    /// Tries again what the kernel did not take.
    fn push_on(&mut self) -> Result<()> {
        if self.sender.sends().retries() > 0 && self.sender.submit_again(&mut self.ring) {
            self.hand_over()?;
        }
        Ok(())
    }

    /// Counts where the buffers of the lane's pool are.
    pub fn audit(&self) -> Audit {
        self.receiver.ledger().audit(
            self.pool.free_buffers(),
            self.sender.sends().held(),
            self.receiver.received(),
            |buffer| self.pool.holders(buffer),
        )
    }

    /// Arms a request that completes when there is room in a socket again.
    fn watch(&mut self, socket: u32) {
        if self.watching {
            return;
        }
        let fd = types::Fd(self.sockets.fd(socket));
        let entry = opcode::PollAdd::new(fd, libc::POLLOUT as u32)
            .build()
            .user_data(user_data(WRITABLE, socket));
        // SAFETY: the entry points at nothing.
        self.watching = unsafe { self.ring.push(&entry) };
    }

    /// Tries the unfinished sends again until all have ended or the time is over.
    fn finish_sends(&mut self, end: Instant) -> Result<()> {
        let left = || end.saturating_duration_since(Instant::now());
        while self.sender.sends().retries() + self.sender.sends().unresolved() > 0 && !left().is_zero() {
            self.push_on()?;
            if self.sender.sends().unresolved() == 0 && self.sender.sends().retries() > 0 {
                if let Stopped::Full(socket) = self.sender.stopped() {
                    self.watch(socket);
                }
                let most = if self.watching { left() } else { BUSY_WAIT };
                self.ring.wait(most, self.counters)?;
            } else {
                self.ring.work(self.counters)?;
            }
            self.reap();
        }
        Ok(())
    }

    /// Ends all requests, so that the kernel has no buffer and no socket of ours any more.
    fn cancel(&mut self, end: Instant) -> Result<()> {
        let left = || end.saturating_duration_since(Instant::now());
        let mut cancelled = false;
        while self.receiver.armed() > 0 || self.watching || self.sender.sends().under_way() > 0 {
            if left().is_zero() {
                break;
            }
            if !cancelled {
                cancelled = self.ring.cancel_all(user_data(CANCEL, 0));
            }
            self.ring.wait(left(), self.counters)?;
            self.reap();
        }
        Ok(())
    }
}

impl<'p> Queue for UringQueue<'p> {
    type Frame = SocketFrame<'p>;

    fn receive(&mut self, burst: &mut Burst<SocketFrame<'p>>) -> Result<usize> {
        self.receiver.provide(&mut self.ring);
        if !self.receiver.pending() {
            self.reap();
            self.push_on()?;
            if !self.receiver.pending() {
                self.work()?;
                self.told()?;
            }
        }
        let mut got = self.receiver.deliver(burst);
        // The kernel does a part at a time: 32 datagrams of a socket, and one if a request is for one. What it left
        // would wait behind the next burst that is sent, and in the end find no room in the socket.
        while got > 0 && burst.room() > 0 {
            self.receiver.provide(&mut self.ring);
            // If the kernel completes requests on its own, more has come by now.
            self.reap();
            if !self.receiver.pending()
                && let Err(error) = self.work()
            {
                // The burst goes first; the next call returns the error.
                self.failed.get_or_insert(error);
            }
            match self.receiver.deliver(burst) {
                0 => break,
                more => got += more,
            }
        }
        Ok(got)
    }

    fn allocate(&mut self, burst: &mut Burst<SocketFrame<'p>>, n: usize) -> Result<usize> {
        let n = n.min(burst.room());
        for done in 0..n {
            let frame = match self.pool.take_frame() {
                Some(frame) => frame,
                None => {
                    // Sends may have ended.
                    self.reap();
                    self.work()?;
                    let Some(frame) = self.pool.take_frame() else {
                        return Ok(done);
                    };
                    frame
                }
            };
            // There is room: `n` is no more than that.
            let _ = burst.push(frame);
        }
        Ok(n)
    }

    fn transmit(&mut self, burst: &mut Burst<SocketFrame<'p>>) -> Result<usize> {
        self.reap();
        self.told()?;
        self.push_on()?;
        if !self.sender.has_room() || self.sender.sends().unresolved() > 0 {
            self.work()?;
        }
        let (taken, result) = self.sender.write(&mut self.ring, burst.as_slice());
        self.sender.hold(burst.drain(taken));
        if taken > 0 {
            self.hand_over()?;
        }
        match result {
            Err(e) if taken == 0 => Err(e),
            // First report what was taken; the next call returns the error again.
            _ => Ok(taken),
        }
    }

    fn rx_room(&self) -> Option<RxRoom> {
        Fill::room(self.sockets, self.lane)
    }

    fn rx_fill(&mut self) -> Option<u64> {
        self.fill.look(self.sockets, self.lane)
    }

    fn flush(&mut self) -> Result<()> {
        self.reap();
        self.push_on()?;
        self.work()?;
        Ok(())
    }

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        self.reap();
        if what.rx && self.receiver.pending() || what.tx && self.sender.has_room() || self.failed.is_some() {
            return Ok(());
        }
        self.receiver.provide(&mut self.ring);
        let mut timeout = timeout;
        if self.sender.sends().retries() > 0 {
            match self.sender.stopped() {
                Stopped::Full(socket) => self.watch(socket),
                Stopped::Busy | Stopped::Not => timeout = timeout.min(BUSY_WAIT),
            }
        }
        self.ring.wait(timeout, self.counters)?;
        self.reap();
        Ok(())
    }
}

impl Drop for UringQueue<'_> {
    fn drop(&mut self) {
        let end = Instant::now() + CLOSING;
        self.receiver.close();
        self.reap();
        // An error here is one of a ring that is beyond use: what is left is counted below either way.
        let _ = self.finish_sends(end);
        let _ = self.cancel(end + CLOSING);
        self.ring.unregister();
        let unsent = self.sender.release_all();
        self.lane.counters.tx_failed.add(unsent);
        self.counters.unsent_at_close.add(unsent);
        self.counters.unread_at_close.add(self.receiver.release_all());
        self.lane.give_back();
    }
}
