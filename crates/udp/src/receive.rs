//! Receiving: `recvmmsg` into buffers that were posted beforehand, and handing out what came as frames.

use mpps_io::{Burst, Error, MAX_BURST};
use mpps_sockets::counters::LaneCounters;
use mpps_sockets::failure::{Unreceived, unreceived};
use mpps_sockets::message::{ArrivalTimes, Kind, read_control};
use mpps_sockets::pool::NO_FLOW;
use mpps_sockets::raw::{Control, EMPTY_CONTROL, EMPTY_MESSAGE, EMPTY_VECTOR, RawArray};
use mpps_sockets::{Pool, SocketFrame};
use std::io;
use std::os::fd::RawFd;

/// Super-packets taken in one call, at most.
const MAX_SUPER: usize = 64;
/// No buffer posted.
const NONE: u32 = u32::MAX;

/// Result of a receive call.
pub(crate) enum Received {
    /// Datagrams; `drained`: fewer than asked for, so the socket is empty.
    Some { drained: bool },
    /// Nothing there.
    Nothing,
    /// A pending ICMP error, now cleared and counted: call again.
    Retry,
    /// No free buffer.
    NoBuffer,
}

/// One lane's receiving half.
pub(crate) struct Receiver<'p> {
    pool: &'p Pool,
    kind: Kind,
    times: Option<ArrivalTimes>,
    headers: RawArray<libc::mmsghdr>,
    vectors: RawArray<libc::iovec>,
    control: RawArray<Control>,
    /// Buffer posted in, or delivered from, each slot.
    posted: Box<[u32]>,
    /// Slots from here on are posted for certain.
    holes_end: usize,
    /// Slots that the last call filled and that are still to be handed out: `next..count`.
    next: usize,
    count: usize,
    /// Bytes of slot `next` already handed out.
    offset: usize,
    /// Segment size of each filled slot; 0: a single datagram.
    segment: Box<[usize]>,
    flow: u32,
    /// Datagrams a message in the last call, to guess how many messages fill a burst.
    per_message: usize,
}

impl<'p> Receiver<'p> {
    pub(crate) fn new(pool: &'p Pool, kind: Kind) -> Self {
        let slots = if kind.gro { MAX_SUPER } else { MAX_BURST };
        let this = Self {
            pool,
            kind,
            times: ArrivalTimes::new(kind),
            headers: RawArray::new(slots, EMPTY_MESSAGE),
            vectors: RawArray::new(slots, EMPTY_VECTOR),
            control: RawArray::new(slots, EMPTY_CONTROL),
            posted: vec![NONE; slots].into_boxed_slice(),
            holes_end: slots,
            next: 0,
            count: 0,
            offset: 0,
            segment: vec![0; slots].into_boxed_slice(),
            flow: NO_FLOW,
            per_message: 1,
        };
        for i in 0..slots {
            // SAFETY: header `i` and vector `i` belong to `self` and nobody refers to them; the vector does not move.
            unsafe {
                let header = &mut (*this.headers.at(i)).msg_hdr;
                header.msg_iov = this.vectors.at(i);
                header.msg_iovlen = 1;
                if this.kind.needs_control() {
                    header.msg_control = this.control.at(i).cast();
                }
            }
        }
        this
    }

    /// Datagrams wait to be handed out.
    #[inline]
    pub(crate) fn pending(&self) -> bool {
        self.next < self.count
    }

    /// Puts a buffer into every slot that lacks one; returns how many slots from the first on are posted.
    fn post(&mut self) -> usize {
        for i in 0..self.holes_end {
            if self.posted[i] != NONE {
                continue;
            }
            let Some((buffer, data)) = self.pool.take_rx() else {
                return i;
            };
            self.posted[i] = buffer;
            // SAFETY: slot `i` is not in use by the kernel outside of `receive`, and the pointers stored stay valid
            // while the buffer is posted: it is held here, and the pool outlives `self`.
            unsafe {
                let vector = &mut *self.vectors.at(i);
                vector.iov_base = data.as_ptr().cast();
                vector.iov_len = self.pool.rx_capacity();
                let header = &mut (*self.headers.at(i)).msg_hdr;
                let meta = self.pool.meta(buffer);
                if self.kind.listening {
                    header.msg_name = (&raw mut (*meta).peer.storage).cast();
                    header.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
                } else {
                    (*meta).peer.len = 0;
                }
                if self.kind.needs_control() {
                    header.msg_controllen = self.kind.control_len() as _;
                }
                (*meta).has_local = false;
                (*meta).to_group = false;
                (*meta).ttl = 0;
                (*meta).rx_time_ns = 0;
            }
        }
        self.holes_end = 0;
        self.posted.len()
    }

    /// One system call for up to `room` datagrams from `fd`. Nothing may be pending.
    pub(crate) fn receive(
        &mut self,
        fd: RawFd,
        flow: u32,
        room: usize,
        counters: &LaneCounters,
    ) -> Result<Received, Error> {
        debug_assert!(!self.pending());
        let posted = self.post();
        let want = room.div_ceil(self.per_message).clamp(1, self.posted.len()).min(posted);
        if want == 0 {
            return Ok(Received::NoBuffer);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the first `want` headers name one posted buffer each, with its true size, and name and control
        // areas that live in the pool and in `self`; nobody else refers to any of it during the call.
        let n = unsafe { libc::recvmmsg(fd, self.headers.at(0), want as u32, flags as _, std::ptr::null_mut()) };
        let Ok(n) = usize::try_from(n) else {
            return receive_error(counters);
        };
        self.flow = flow;
        (self.next, self.count, self.offset) = (0, n, 0);
        self.holes_end = self.holes_end.max(n);
        let mut datagrams = 0;
        if let Some(times) = &mut self.times {
            times.look();
        }
        for i in 0..n {
            datagrams += self.examine(i, counters);
        }
        self.per_message = (datagrams / n.max(1)).max(1);
        Ok(Received::Some { drained: n < want })
    }

    /// Reads what the kernel says of slot `i` beside the data; returns the number of datagrams in it.
    fn examine(&mut self, i: usize, counters: &LaneCounters) -> usize {
        self.segment[i] = 0;
        // SAFETY: the call has ended: header, control area and meta data of slot `i` are ours alone. The kernel has
        // set `msg_controllen` to the bytes it wrote, in whole control messages.
        unsafe {
            let message = &*self.headers.at(i);
            let len = message.msg_len as usize;
            if len > self.pool.rx_capacity() {
                counters.rx_truncated.add(1);
            }
            if self.kind.listening {
                (*self.pool.meta(self.posted[i])).peer.len = message.msg_hdr.msg_namelen;
            }
            if self.kind.needs_control() && message.msg_hdr.msg_controllen > 0 {
                let header = &raw const message.msg_hdr;
                self.segment[i] = read_control(header, self.pool.meta(self.posted[i]));
            }
            if let Some(times) = &self.times {
                times.settle(self.pool.meta(self.posted[i]), counters);
            }
            match self.segment[i] {
                0 => 1,
                segment => {
                    let n = len.div_ceil(segment).max(1);
                    self.pool.share(self.posted[i], n as u32);
                    n
                }
            }
        }
    }

    /// Hands out pending datagrams as frames, as many as the burst has room for; returns how many.
    #[inline]
    pub(crate) fn deliver(&mut self, burst: &mut Burst<SocketFrame<'p>>) -> usize {
        let before = burst.len();
        while self.next < self.count && burst.room() > 0 {
            let i = self.next;
            let buffer = self.posted[i];
            // SAFETY: the call that filled slot `i` has ended; reading a header that only `self` refers to.
            let wire = unsafe { (*self.headers.at(i)).msg_len } as usize;
            let len = wire.min(self.pool.rx_capacity());
            let cut = (wire - len) as u32;
            let segment = self.segment[i];
            let (offset, end) = if segment == 0 {
                (0, len)
            } else {
                (self.offset, (self.offset + segment).min(len))
            };
            let last = end >= len;
            // A datagram that is the last in its buffer may grow to the buffer's end.
            let capacity = if last {
                self.pool.rx_capacity() - offset
            } else {
                end - offset
            };
            if last {
                self.posted[i] = NONE;
                self.next += 1;
                self.offset = 0;
            } else {
                self.offset = end;
            }
            // SAFETY: slot `i` held the buffer once for each datagram in it (`share`), and each is handed out once,
            // over bytes of its own.
            let frame = unsafe { self.pool.frame(buffer, offset, end - offset, capacity, self.flow, cut) };
            // There is room, as the loop's condition says.
            let _ = burst.push(frame);
        }
        burst.len() - before
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        for i in 0..self.posted.len() {
            let buffer = self.posted[i];
            if buffer == NONE {
                continue;
            }
            let mut holds = 1;
            if (self.next..self.count).contains(&i) && self.segment[i] > 0 {
                // SAFETY: as in `deliver`.
                let len = unsafe { (*self.headers.at(i)).msg_len } as usize;
                let done = if i == self.next { self.offset } else { 0 };
                holds = (len - done).div_ceil(self.segment[i]).max(1);
            }
            for _ in 0..holds {
                self.pool.release(buffer);
            }
        }
    }
}

#[cold]
fn receive_error(counters: &LaneCounters) -> Result<Received, Error> {
    let error = io::Error::last_os_error();
    match unreceived(&error, counters) {
        Unreceived::Nothing => Ok(Received::Nothing),
        Unreceived::Pending => Ok(Received::Retry),
        Unreceived::Fatal => Err(Error::os("receive on", "udp socket", &error)),
    }
}
