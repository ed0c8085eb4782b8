//! One lane's queue: which socket to serve, and what to wait for.

use crate::ready::Ready;
use crate::receive::{Received, Receiver};
use crate::transmit::{Stop, Transmitter};
use mpps_io::{Burst, Error, Queue, Result, RxRoom, Wait};
use mpps_sockets::{Fill, Lane, Pool, SocketFrame, Sockets};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Longest sleep when a queue below the socket is full: the kernel has nothing to wake us by.
const BUSY_WAIT: Duration = Duration::from_micros(50);
/// Pending ICMP errors taken from one socket in one receive call.
const RECEIVE_RETRIES: u32 = 4;

/// One lane's queue over its pool. Dropping it frees the lane's place in the port.
pub struct UdpQueue<'p> {
    sockets: &'p Sockets,
    pool: &'p Pool,
    lane: &'p Lane,
    receiver: Option<Receiver<'p>>,
    /// With several sockets to receive from.
    ready: Option<Ready>,
    transmitter: Transmitter,
    /// Why the last transmit call was cut short, and on which socket.
    stopped: Option<(Stop, RawFd)>,
    fill: Fill,
}

impl<'p> UdpQueue<'p> {
    pub(crate) fn new(sockets: &'p Sockets, pool: &'p Pool, lane: &'p Lane) -> Result<Self> {
        let ready = if lane.rx.len() > 1 {
            let watched: Vec<RawFd> = lane.rx.iter().map(|&s| sockets.fd(s)).collect();
            Some(Ready::new(&watched).map_err(|e| Error::os("watch", "udp sockets", &e))?)
        } else {
            None
        };
        Ok(Self {
            sockets,
            pool,
            lane,
            receiver: (!lane.rx.is_empty()).then(|| Receiver::new(pool, sockets.kind())),
            ready,
            transmitter: Transmitter::new(sockets.gso(), sockets.kind().listening),
            stopped: None,
            fill: Fill::default(),
        })
    }
}

impl<'p> Queue for UdpQueue<'p> {
    type Frame = SocketFrame<'p>;

    fn receive(&mut self, burst: &mut Burst<SocketFrame<'p>>) -> Result<usize> {
        let Some(receiver) = &mut self.receiver else {
            return Ok(0);
        };
        let mut got = receiver.deliver(burst);
        if got > 0 || burst.room() == 0 {
            return Ok(got);
        }
        let counters = &self.lane.counters;
        if let Some(ready) = &mut self.ready {
            ready.ask();
            while burst.room() > 0 && !receiver.pending() {
                let Some(index) = ready.pop() else { break };
                let socket = self.lane.rx[index as usize];
                match receiver.receive(
                    self.sockets.fd(socket),
                    self.sockets.flow_of(socket),
                    burst.room(),
                    counters,
                )? {
                    Received::Some { drained } => {
                        got += receiver.deliver(burst);
                        if !drained {
                            ready.push(index);
                        }
                    }
                    Received::Nothing => {}
                    Received::Retry => ready.push(index),
                    Received::NoBuffer => {
                        ready.push(index);
                        break;
                    }
                }
            }
            return Ok(got);
        }
        let socket = self.lane.rx[0];
        let (fd, flow) = (self.sockets.fd(socket), self.sockets.flow_of(socket));
        for _ in 0..RECEIVE_RETRIES {
            match receiver.receive(fd, flow, burst.room(), counters)? {
                Received::Some { .. } => return Ok(receiver.deliver(burst)),
                Received::Nothing | Received::NoBuffer => return Ok(0),
                Received::Retry => {}
            }
        }
        Ok(0)
    }

    fn allocate(&mut self, burst: &mut Burst<SocketFrame<'p>>, n: usize) -> Result<usize> {
        let n = n.min(burst.room());
        for done in 0..n {
            let Some(frame) = self.pool.take_frame() else {
                return Ok(done);
            };
            // There is room: `n` is no more than that.
            let _ = burst.push(frame);
        }
        Ok(n)
    }

    fn transmit(&mut self, burst: &mut Burst<SocketFrame<'p>>) -> Result<usize> {
        self.stopped = None;
        let mut taken = 0;
        let mut result = Ok(());
        let frames = burst.as_slice();
        while taken < frames.len() {
            let run = match self.sockets.socket_of(self.lane, &frames[taken]) {
                Ok(socket) => {
                    let rest = frames[taken + 1..].iter();
                    // An error ends the run; it is reported when its frame is the first.
                    let same = rest
                        .take_while(|f| matches!(self.sockets.socket_of(self.lane, f), Ok(s) if s == socket))
                        .count();
                    (socket, 1 + same)
                }
                Err(e) => {
                    result = Err(e);
                    break;
                }
            };
            let fd = self.sockets.fd(run.0);
            let (sent, outcome) = self
                .transmitter
                .send(fd, &frames[taken..taken + run.1], &self.lane.counters);
            taken += sent;
            match outcome {
                Ok(Stop::Done) => {}
                Ok(stop) => {
                    self.stopped = Some((stop, fd));
                    break;
                }
                Err(e) => {
                    result = Err(self.sockets.explain(run.0, e));
                    break;
                }
            }
        }
        drop(burst.drain(taken));
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

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        let mut timeout = timeout;
        let mut fds = [libc::pollfd {
            fd: -1,
            events: 0,
            revents: 0,
        }; 2];
        if what.rx {
            let pending = self.receiver.as_ref().is_some_and(Receiver::pending);
            if pending || self.ready.as_ref().is_some_and(Ready::any) {
                return Ok(());
            }
            fds[0].events = libc::POLLIN;
            fds[0].fd = match (&self.ready, self.lane.rx.first()) {
                (Some(ready), _) => ready.fd(),
                (None, Some(&socket)) => self.sockets.fd(socket),
                (None, None) => -1,
            };
        }
        if what.tx {
            match self.stopped {
                // Nothing keeps the lane from transmitting.
                None | Some((Stop::Done, _)) => return Ok(()),
                Some((Stop::Full, fd)) => {
                    fds[1].fd = fd;
                    fds[1].events = libc::POLLOUT;
                }
                Some((Stop::Busy, _)) => timeout = timeout.min(BUSY_WAIT),
            }
        }
        let time = libc::timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as _,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: the kernel reads and writes the two entries of `fds` and reads `time`; both outlive the call.
        let n = unsafe { libc::ppoll(fds.as_mut_ptr(), 2, &time, std::ptr::null()) };
        if n < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINTR) {
                return Err(Error::os("wait on", "udp sockets", &error));
            }
        }
        Ok(())
    }
}

impl Drop for UdpQueue<'_> {
    fn drop(&mut self) {
        self.lane.give_back();
    }
}
