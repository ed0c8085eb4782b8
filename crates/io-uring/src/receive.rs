//! Receiving: buffers are provided in a ring, receive requests stay armed, completions say which buffer was filled.

mod layout;

pub(crate) use layout::Layout;

use crate::counters::RingCounters;
use crate::ledger::Ledger;
use crate::ring::{GROUP, Ring};
use crate::user_data::{RECEIVE, user_data};
use io_uring::{cqueue, opcode, squeue, types};
use layout::MessageOut;
use mpps_io::{Burst, Error};
use mpps_sockets::address::RawAddr;
use mpps_sockets::failure::{Unreceived, unreceived};
use mpps_sockets::message::{ArrivalTimes, Kind, read_control};
use mpps_sockets::raw::{Control, EMPTY_CONTROL, EMPTY_MESSAGE, RawArray};
use mpps_sockets::{Lane, Pool, SocketFrame, Sockets};
use std::collections::VecDeque;
use std::io;

/// Flag with which a completion reports the whole length of a packet that did not fit its buffer.
const TRUNCATE: i32 = libc::MSG_TRUNC;

/// A buffer that came, or a datagram of no bytes that came without one.
#[derive(Clone, Copy)]
struct Arrival {
    /// Place of the socket among those of the lane.
    place: u32,
    buffer: Option<u32>,
    /// Bytes, as the completion reported them.
    bytes: u32,
    /// Bytes of the datagrams that it consists of, if that is known (`Layout::Apart`); 0: it is one.
    segment: u32,
}

/// A coalesced packet that is being handed out.
#[derive(Clone, Copy)]
struct Split {
    buffer: u32,
    flow: u32,
    offset: usize,
    end: usize,
    segment: usize,
    cut: u32,
}

/// One lane's receiving half.
pub(crate) struct Receiver<'p> {
    pool: &'p Pool,
    sockets: &'p Sockets,
    lane: &'p Lane,
    kind: Kind,
    times: Option<ArrivalTimes>,
    layout: Layout,
    multishot: bool,
    direct: bool,
    /// Buffers that the kernel is to have.
    target: usize,
    ledger: Ledger,
    /// Sockets whose request has ended.
    unarmed: VecDeque<u32>,
    /// Requests that are armed.
    armed: usize,
    closing: bool,
    arrivals: VecDeque<Arrival>,
    split: Option<Split>,
    /// Message headers of the requests: one for all sockets, or (`Layout::Apart`) one for each.
    headers: RawArray<libc::mmsghdr>,
    names: RawArray<RawAddr>,
    control: RawArray<Control>,
}

impl<'p> Receiver<'p> {
    pub(crate) fn new(
        pool: &'p Pool,
        sockets: &'p Sockets,
        lane: &'p Lane,
        (multishot, direct, target): (bool, bool, u16),
    ) -> Self {
        let kind = sockets.kind();
        let layout = Layout::new(kind, multishot);
        let n = if layout == Layout::Apart { lane.rx.len() } else { 1 };
        let headers = RawArray::new(n, EMPTY_MESSAGE);
        let names = RawArray::new(n, RawAddr::NONE);
        let control = RawArray::new(n, EMPTY_CONTROL);
        if let Layout::Message { name, control } = layout {
            // SAFETY: the header is ours alone; a multishot request takes lengths from it, no memory.
            unsafe {
                let header = &mut (*headers.at(0)).msg_hdr;
                header.msg_namelen = name as _;
                header.msg_controllen = control as _;
            }
        }
        let target = usize::from(target);
        Self {
            pool,
            sockets,
            lane,
            kind,
            times: ArrivalTimes::new(kind),
            layout,
            multishot,
            direct,
            target,
            ledger: Ledger::new(pool.buffers()),
            unarmed: (0..lane.rx.len() as u32).collect(),
            armed: 0,
            closing: false,
            arrivals: VecDeque::with_capacity(target + lane.rx.len() + 1),
            split: None,
            headers,
            names,
            control,
        }
    }

    /// Whether something waits to be handed out.
    #[inline]
    pub(crate) fn pending(&self) -> bool {
        self.split.is_some() || !self.arrivals.is_empty()
    }

    /// Requests that the kernel has.
    pub(crate) fn armed(&self) -> usize {
        self.armed
    }

    /// Arms no request again.
    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    /// Gives the kernel buffers up to the number that it is to have, and arms what has ended.
    #[inline]
    pub(crate) fn provide(&mut self, ring: &mut Ring) {
        if self.closing {
            return;
        }
        if self.ledger.count() < self.target {
            self.post(ring);
        }
        if !self.unarmed.is_empty() && self.ledger.count() > 0 {
            self.arm(ring);
        }
    }

    fn post(&mut self, ring: &mut Ring) {
        let Some(buffers) = ring.buffers() else { return };
        let capacity = self.pool.rx_capacity() as u32;
        let before = self.ledger.count();
        while self.ledger.count() < self.target {
            let Some((buffer, data)) = self.pool.take_rx() else {
                break;
            };
            self.ledger.post(buffer);
            buffers.push(data.as_ptr(), capacity, buffer as u16);
        }
        if self.ledger.count() > before {
            buffers.publish();
        }
    }

    #[cold]
    fn arm(&mut self, ring: &mut Ring) {
        while let Some(&place) = self.unarmed.front() {
            let entry = self.request(place);
            // SAFETY: the header and what it points at live in `self`, are not touched while the request is armed
            // (`Layout::Apart`: the kernel has read and written them when it completes) and outlive the ring's use of
            // them: `UringQueue` ends all requests before it drops this. Buffers are those of the pool, provided.
            if !unsafe { ring.push(&entry) } {
                return;
            }
            self.unarmed.pop_front();
            self.armed += 1;
        }
    }

    /// The request that receives from a socket of the lane.
    fn request(&mut self, place: u32) -> squeue::Entry {
        let (fd, fixed) = match self.direct {
            true => (types::Fd(place as i32), squeue::Flags::FIXED_FILE),
            false => (
                types::Fd(self.sockets.fd(self.lane.rx[place as usize])),
                squeue::Flags::empty(),
            ),
        };
        let entry = match (self.layout, self.multishot) {
            (Layout::Plain, true) => opcode::RecvMulti::new(fd, GROUP).flags(TRUNCATE).build(),
            (Layout::Plain, false) => opcode::Recv::new(fd, std::ptr::null_mut(), self.pool.rx_capacity() as u32)
                .flags(TRUNCATE)
                .buf_group(GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT),
            (Layout::Message { .. }, _) => {
                // SAFETY: the header lives in `self` and never moves.
                let header = unsafe { &raw const (*self.headers.at(0)).msg_hdr };
                opcode::RecvMsgMulti::new(fd, header, GROUP)
                    .flags(TRUNCATE as u32)
                    .build()
            }
            (Layout::Apart, _) => {
                let at = place as usize;
                // SAFETY: no request of this socket is armed, so its header, name and control area are ours alone;
                // they live in `self` and never move.
                let header = unsafe {
                    let header = &mut (*self.headers.at(at)).msg_hdr;
                    header.msg_name = (&raw mut (*self.names.at(at)).storage).cast();
                    header.msg_namelen = size_of::<libc::sockaddr_in6>() as _;
                    header.msg_control = self.control.at(at).cast();
                    header.msg_controllen = self.kind.control_len() as _;
                    &raw mut *header
                };
                opcode::RecvMsg::new(fd, header)
                    .flags(TRUNCATE as u32)
                    .buf_group(GROUP)
                    .build()
                    .flags(squeue::Flags::BUFFER_SELECT)
            }
        };
        entry.flags(fixed).user_data(user_data(RECEIVE, place))
    }

    /// Books a completion of the request of a socket. The error is one that ends the run.
    #[inline]
    pub(crate) fn completed(
        &mut self,
        place: u32,
        entry: &cqueue::Entry,
        counters: &RingCounters,
    ) -> Result<(), Error> {
        let (result, flags) = (entry.result(), entry.flags());
        let buffer = cqueue::buffer_select(flags).map(u32::from);
        // A buffer that we never gave to the kernel is not touched: `Audit::strange` counts it.
        let buffer = buffer.filter(|&buffer| self.ledger.take(buffer));
        if result > 0 && buffer.is_some() || result == 0 {
            let segment = match (self.layout, buffer) {
                (Layout::Apart, Some(buffer)) => self.keep_apart(place, buffer),
                _ => 0,
            };
            self.arrivals.push_back(Arrival {
                place,
                buffer,
                bytes: result as u32,
                segment,
            });
        } else if let Some(buffer) = buffer {
            self.pool.release(buffer);
        }
        if cqueue::more(flags) {
            return Ok(());
        }
        self.armed -= 1;
        // A datagram of no bytes came without a buffer. The sender's address stays in the socket's own memory, which
        // the next request would overwrite: `empty_buffer` arms the socket again.
        let address_waits = self.layout == Layout::Apart && result == 0 && buffer.is_none();
        if !address_waits {
            self.unarmed.push_back(place);
        }
        if result < 0 {
            return self.ended(-result, counters);
        }
        Ok(())
    }

    /// A request has ended with an error.
    #[cold]
    fn ended(&mut self, errno: i32, counters: &RingCounters) -> Result<(), Error> {
        match errno {
            libc::ENOBUFS => {
                counters.no_buffers.add(1);
                return Ok(());
            }
            libc::ECANCELED => return Ok(()),
            _ => {}
        }
        let error = io::Error::from_raw_os_error(errno);
        match unreceived(&error, &self.lane.counters) {
            Unreceived::Nothing | Unreceived::Pending => Ok(()),
            Unreceived::Fatal => Err(Error::os("receive on", "io_uring socket", &error)),
        }
    }

    /// Puts what the kernel wrote beside the packet with its buffer, before the socket's memory is used again;
    /// returns the length of the segments.
    fn keep_apart(&mut self, place: u32, buffer: u32) -> u32 {
        let at = place as usize;
        let meta = self.pool.meta(buffer);
        // SAFETY: the request has completed and none is armed, so header, name and control area of this socket are ours
        // alone, and so is the meta data of a buffer that the kernel has filled or never had, and nobody was given.
        unsafe {
            let header = &(*self.headers.at(at)).msg_hdr;
            clear(meta);
            if self.kind.listening {
                (*meta).peer.storage = (*self.names.at(at)).storage;
                (*meta).peer.len = header.msg_namelen;
            }
            if self.kind.needs_control() && header.msg_controllen > 0 {
                return read_control(header, meta) as u32;
            }
            0
        }
    }

    /// Hands out what came as frames, as many as the burst has room for; returns how many.
    #[inline]
    pub(crate) fn deliver(&mut self, burst: &mut Burst<SocketFrame<'p>>) -> usize {
        let before = burst.len();
        if let Some(times) = &mut self.times
            && !self.arrivals.is_empty()
        {
            times.look();
        }
        while burst.room() > 0 {
            if self.split.is_some() {
                self.hand_out(burst);
                continue;
            }
            let Some(arrival) = self.arrivals.front().copied() else {
                break;
            };
            let Some(buffer) = arrival.buffer.or_else(|| self.empty_buffer(arrival.place)) else {
                break;
            };
            self.arrivals.pop_front();
            let flow = self.sockets.flow_of(self.lane.rx[arrival.place as usize]);
            let (wire, segment) = self.examine(buffer, arrival);
            if let Some(times) = &self.times {
                // SAFETY: the buffer is held once, by us, so nobody else uses its meta data.
                unsafe { times.settle(self.pool.meta(buffer), &self.lane.counters) };
            }
            let start = self.layout.headroom();
            let most = self.pool.rx_capacity() - start;
            let len = wire.min(most);
            if wire > len {
                self.lane.counters.rx_truncated.add(1);
            }
            let cut = (wire - len) as u32;
            if segment > 0 && len > segment {
                self.pool.share(buffer, len.div_ceil(segment) as u32);
                self.split = Some(Split {
                    buffer,
                    flow,
                    offset: start,
                    end: start + len,
                    segment,
                    cut,
                });
                continue;
            }
            // SAFETY: the buffer is held once, by us, and handed to this one frame.
            let frame = unsafe { self.pool.frame(buffer, start, len, most, flow, cut) };
            // There is room, as the loop's condition says.
            let _ = burst.push(frame);
        }
        burst.len() - before
    }

    /// Hands out the next datagram of a coalesced packet.
    fn hand_out(&mut self, burst: &mut Burst<SocketFrame<'p>>) {
        let Some(split) = &mut self.split else { return };
        let Split {
            buffer,
            flow,
            offset,
            end,
            segment,
            cut,
        } = *split;
        let len = segment.min(end - offset);
        let last = offset + len >= end;
        // The last in a buffer may grow to the buffer's end.
        let capacity = if last { self.pool.rx_capacity() - offset } else { len };
        split.offset += len;
        if last {
            self.split = None;
        }
        // SAFETY: the buffer is held once for each of its datagrams (`share`), and each is handed out once, over bytes
        // of its own.
        let frame = unsafe {
            self.pool
                .frame(buffer, offset, len, capacity, flow, if last { cut } else { 0 })
        };
        let _ = burst.push(frame);
    }

    /// A buffer for a datagram of no bytes, which the kernel reported without one: with the sender's address, if the
    /// kernel has written that apart.
    #[cold]
    fn empty_buffer(&mut self, place: u32) -> Option<u32> {
        let (buffer, _) = self.pool.take_rx()?;
        if self.layout == Layout::Apart {
            self.keep_apart(place, buffer);
            self.unarmed.push_back(place);
        } else {
            // SAFETY: the buffer was free, so nobody uses its meta data or its bytes.
            unsafe { clear(self.pool.meta(buffer)) };
        }
        Some(buffer)
    }

    /// Reads what the kernel says of a packet; returns its length as it came, and that of its segments (0: it is one
    /// datagram).
    #[inline]
    fn examine(&self, buffer: u32, arrival: Arrival) -> (usize, usize) {
        let meta = self.pool.meta(buffer);
        match self.layout {
            Layout::Plain => {
                // SAFETY: nobody else has the buffer or its meta data.
                unsafe { clear(meta) };
                (arrival.bytes as usize, 0)
            }
            Layout::Apart => (arrival.bytes as usize, arrival.segment as usize),
            Layout::Message { name, control } if arrival.buffer.is_some() => {
                let data = self.pool.data(buffer).as_ptr();
                // SAFETY: as above. The kernel has written header, address and control messages at these places
                // (io_recvmsg_multishot, io_uring/net.c), and the buffer is larger than all three; what it says of
                // their lengths is held to the room that they have.
                unsafe {
                    let out = data.cast::<MessageOut>().read_unaligned();
                    clear(meta);
                    if name > 0 {
                        let len = (out.namelen as usize).min(size_of::<libc::sockaddr_in6>());
                        let from = data.add(size_of::<MessageOut>());
                        std::ptr::copy_nonoverlapping(from, (&raw mut (*meta).peer.storage).cast(), len);
                        (*meta).peer.len = len as u32;
                    }
                    let mut segment = 0;
                    let controllen = (out.controllen as usize).min(control);
                    if controllen > 0 {
                        let mut header = EMPTY_MESSAGE.msg_hdr;
                        header.msg_control = data.add(size_of::<MessageOut>() + name).cast();
                        header.msg_controllen = controllen as _;
                        segment = read_control(&raw const header, meta);
                    }
                    (out.payloadlen as usize, segment)
                }
            }
            Layout::Message { .. } => (0, 0),
        }
    }

    /// The buffers of what waits to be handed out, one for each hold.
    pub(crate) fn received(&self) -> impl Iterator<Item = u32> + '_ {
        let splits = self
            .split
            .iter()
            .flat_map(|s| (s.offset..s.end).step_by(s.segment).map(|_| s.buffer));
        splits.chain(self.arrivals.iter().filter_map(|a| a.buffer))
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Gives all buffers back to the pool, when the ring is gone; returns how many datagrams were not handed out (a
    /// coalesced packet counts as one before it is looked into).
    pub(crate) fn release_all(&mut self) -> u64 {
        let pool = self.pool;
        let held: Vec<u32> = self.received().collect();
        let without = self.arrivals.iter().filter(|a| a.buffer.is_none()).count();
        let unread = (held.len() + without) as u64;
        held.into_iter().for_each(|buffer| pool.release(buffer));
        self.split = None;
        self.arrivals.clear();
        self.ledger.take_all(|buffer| pool.release(buffer));
        unread
    }
}

/// # Safety
/// Nobody else uses the meta data.
#[inline]
unsafe fn clear(meta: *mut mpps_sockets::pool::Meta) {
    // SAFETY: by the caller.
    unsafe {
        (*meta).peer.len = 0;
        (*meta).has_local = false;
        (*meta).to_group = false;
        (*meta).ttl = 0;
        (*meta).rx_time_ns = 0;
    }
}
