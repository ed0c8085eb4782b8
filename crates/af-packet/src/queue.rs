//! One lane's queue: the receive and the transmit ring together, and the handling of a link that goes away.

use crate::frame::AfPacketFrame;
use crate::pool::AfPacketPool;
use crate::port::{Counters, Lane};
use crate::rx::RxRing;
use crate::socket::{Link, poll};
use crate::tx::TxRing;
use mpps_io::{Burst, Error, ErrorKind, Frame, Queue, Result, RoomUnit, RxRoom, Wait};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Receive calls that find nothing between two looks at the device, for lanes that never wait.
const CHECK_EVERY: u32 = 4096;

/// How long a lane sleeps that waits for room in a device that just refused a packet: nothing would wake it.
const CONGESTED: Duration = Duration::from_micros(50);

/// How often a link that is down is looked at.
const DOWN: Duration = Duration::from_millis(10);

/// Mean time between packets below which a lane that has nothing left to receive naps rather than asks to be woken.
///
/// A sleeper in `poll` is woken by the very next packet, by an interrupt to its core that costs the sending core
/// about 1.5 µs in a virtual machine, twice the packet's own cost. A nap lets packets gather.
const NAP_BELOW: Duration = Duration::from_micros(20);

/// Length of a nap, to which the thread's timer slack adds (50 µs unless `PR_SET_TIMERSLACK` says otherwise).
const NAP: Duration = Duration::from_micros(20);

/// How often the fill of the ring is looked at, at most: some twenty slots, each on cache lines of its own.
const LOOK_AT_FILL: Duration = Duration::from_millis(1);

/// A receive and transmit queue over one pool.
///
/// `wait` for reception sleeps in `poll`, so the first packet wakes the lane at once, except while packets come
/// faster than one in 20 µs: then it naps first.
pub struct AfPacketQueue<'p> {
    lane: &'p Lane,
    pool: &'p AfPacketPool,
    rx: Option<RxRing<'p>>,
    tx: TxRing<'p>,
    /// Receive calls in a row that found nothing.
    empty: u32,
    /// When the link was last seen down; `None`: believed up.
    down: Option<Instant>,
    /// Transmit calls in a row that the device refused.
    congested: u32,
    /// When the last wait ended, and how many frames were received since.
    awake: Instant,
    received: u32,
}

impl<'p> AfPacketQueue<'p> {
    pub(crate) fn new(lane: &'p Lane, pool: &'p AfPacketPool) -> Self {
        let rx = lane.rx.as_ref().map(RxRing::new);
        Self {
            lane,
            pool,
            rx,
            tx: TxRing::new(&lane.tx),
            empty: 0,
            down: None,
            congested: 0,
            awake: Instant::now(),
            received: 0,
        }
    }

    /// Looks at the device: an error when it is down or gone, or when `carrier` is asked for and missing.
    #[cold]
    fn check(&mut self, op: &'static str, carrier: bool) -> Result<()> {
        let (cause, kind) = match self.tx.to.socket.link(self.lane.ifindex) {
            Link::Up => ("", ErrorKind::Other),
            Link::NoCarrier if !carrier => ("", ErrorKind::Other),
            Link::NoCarrier => (
                "the interface has no carrier: is the other end up?",
                ErrorKind::LinkDown,
            ),
            Link::Down => ("the interface is down", ErrorKind::LinkDown),
            Link::Gone => ("the interface has been removed", ErrorKind::Gone),
        };
        if cause.is_empty() {
            self.down = None;
            return Ok(());
        }
        self.down = Some(Instant::now());
        Err(Error::new(op, self.lane.name.clone(), cause, kind))
    }

    /// Judges the error of a failed `sendto`.
    #[cold]
    fn send_failed(&mut self, error: &io::Error) -> Result<()> {
        match error.raw_os_error() {
            // No socket buffer memory, device queue full, carrier lost: the frame is still ours.
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {
                Counters::add(&self.lane.counters.tx_refused, 1);
                self.congested = self.congested.wrapping_add(1);
                if self.congested % 64 == 1 {
                    self.check("send on", true)
                } else {
                    Ok(())
                }
            }
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                self.check("send on", true)?;
                // The link came back between the call and the check.
                Ok(())
            }
            _ => Err(Error::os("send on", self.lane.name.clone(), error)),
        }
    }
}

impl<'p> Queue for AfPacketQueue<'p> {
    type Frame = AfPacketFrame<'p>;

    #[inline]
    fn receive(&mut self, burst: &mut Burst<Self::Frame>) -> Result<usize> {
        let Some(rx) = &mut self.rx else { return Ok(0) };
        let received = rx.receive(burst, self.pool, &self.lane.counters);
        if received > 0 {
            self.empty = 0;
            self.received = self.received.saturating_add(received as u32);
            return Ok(received);
        }
        self.empty = self.empty.wrapping_add(1);
        let look = match self.down {
            None => self.empty.is_multiple_of(CHECK_EVERY),
            Some(seen) => seen.elapsed() >= DOWN,
        };
        if look {
            self.check("receive on", false)?;
        }
        Ok(0)
    }

    #[inline]
    fn allocate(&mut self, burst: &mut Burst<Self::Frame>, n: usize) -> Result<usize> {
        Ok(self.pool.take(burst, n))
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst<Self::Frame>) -> Result<usize> {
        let mut taken = 0;
        while let Some(first) = burst.as_slice().first() {
            if !self.tx.sendable(first.bytes()) {
                drop(burst.drain(1));
                Counters::add(&self.lane.counters.tx_failed, 1);
                taken += 1;
                continue;
            }
            let sent = self.tx.send(burst.as_slice());
            drop(burst.drain(sent.taken));
            taken += sent.taken;
            if sent.refused > 0 {
                Counters::add(&self.lane.counters.tx_failed, sent.refused as u64);
            }
            match sent.error {
                None if sent.taken == 0 => break,
                None => self.congested = 0,
                Some(error) => {
                    // Frames that were taken count, whatever stopped the rest: the next call meets it again.
                    let result = self.send_failed(&error);
                    if taken == 0 {
                        result?;
                    }
                    break;
                }
            }
        }
        Ok(taken)
    }

    fn rx_room(&self) -> Option<RxRoom> {
        self.rx.as_ref().map(|rx| RxRoom {
            size: rx.from.geometry.frames() as u64,
            count: 1,
            unit: RoomUnit::Packets,
            every: LOOK_AT_FILL,
        })
    }

    fn rx_fill(&mut self) -> Option<u64> {
        self.rx.as_ref().map(|rx| rx.filled() as u64)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.rx.as_ref().map(|rx| rx.from.socket.fd())
    }

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        let result = self.sleep(what, timeout);
        self.awake = Instant::now();
        self.received = 0;
        result
    }
}

impl AfPacketQueue<'_> {
    fn sleep(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        if what.rx && self.rx.as_ref().is_some_and(RxRing::holds_back) {
            return Ok(());
        }
        let failed = |e: io::Error| Error::os("wait on", self.lane.name.clone(), &e);
        if self.down.is_some() {
            poll(&[], timeout.min(DOWN)).map_err(failed)?;
            return self.check("wait on", false);
        }
        let busy = what.rx && !what.tx && self.received > 0 && self.awake.elapsed() < NAP_BELOW * self.received;
        if busy {
            return poll(&[], timeout.min(NAP)).map(drop).map_err(failed);
        }
        let rx = self
            .rx
            .as_ref()
            .map(|r| (r.from.socket.fd(), if what.rx { libc::POLLIN } else { 0 }));
        let tx = (self.tx.to.socket.fd(), libc::POLLOUT);
        let broken = match (rx, what.tx, self.congested > 0) {
            (Some(rx), true, false) => poll(&[rx, tx], timeout),
            (Some(rx), true, true) => poll(&[rx], timeout.min(CONGESTED)),
            (Some(rx), false, _) => poll(&[rx], timeout),
            (None, true, false) => poll(&[tx], timeout),
            (None, true, true) => poll(&[], timeout.min(CONGESTED)),
            (None, false, _) => poll(&[], timeout),
        }
        .map_err(failed)?;
        if broken {
            if let Some(rx) = &self.rx {
                // Reading the pending error clears it; the device itself says what it means.
                let _ = rx.from.socket.get::<libc::c_int>(libc::SOL_SOCKET, libc::SO_ERROR);
            }
            return self.check("wait on", false);
        }
        Ok(())
    }
}
