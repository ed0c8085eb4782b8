//! Transmitting: one submission per datagram, or per run of them as one segmented packet (`UDP_SEGMENT`).
//!
//! No send blocks (`MSG_DONTWAIT`): what the socket has no room for comes back at once, and is tried again in order by
//! [`Sender::submit_again`]. Until then nothing new is taken, so a full socket holds the lane back as it does on `udp`.
//! Submissions that stand beside one another are independent for the kernel: if the socket was full for one of them
//! and had room again for the next, packets change places. That is counted (`tx_overtaken`), and the next
//! [`CAREFUL`] batches are chains (`IOSQE_IO_LINK`), in which nothing passes what failed.

use crate::counters::RingCounters;
use crate::ring::Ring;
use crate::sends::Sends;
use crate::user_data::{SEND, user_data};
use io_uring::{cqueue, opcode, squeue, types};
use mpps_io::{Error, ErrorKind, MAX_BURST};
use mpps_sockets::failure::{Unsent, send_error, unsent};
use mpps_sockets::message::{self, Gso, LINE, Place, SocketTtl};
use mpps_sockets::raw::{Control, EMPTY_CONTROL, EMPTY_MESSAGE, EMPTY_VECTOR, RawArray};
use mpps_sockets::{Lane, Pool, SocketFrame, Sockets};
use std::io;

/// Batches sent as chains after a socket was full.
const CAREFUL: u32 = 1024;
/// Tries of one send that end with another packet's ICMP error, in a row, before it is left for later.
const RETRIES: u8 = 4;
/// Most bytes of one segmented packet.
const STAGING: usize = 65_536;
/// `IORING_SEND_ZC_REPORT_USAGE`: notifications report whether the kernel copied after all.
const REPORT_USAGE: u16 = 1 << 3;
/// `IORING_NOTIF_USAGE_ZC_COPIED`, in the result of a notification.
const COPIED: u32 = 1 << 31;
/// Most pieces of memory of one packet in the kernel (`MAX_SKB_FRAGS`, unless it was built with more).
const MAX_FRAGMENTS: usize = 17;
const PAGE: usize = 4096;
/// Not in the ring's table of sockets.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Reason why sends are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Nothing.
    Not,
    /// A socket is full: wait until it is writable.
    Full(u32),
    /// A queue below the sockets is full: wait a little.
    Busy,
}

/// One lane's transmitting half.
pub(crate) struct Sender<'p> {
    pool: &'p Pool,
    sockets: &'p Sockets,
    lane: &'p Lane,
    gso: Option<Gso>,
    listening: bool,
    zerocopy: usize,
    /// Place of each of the port's sockets in the ring's table.
    fixed: Box<[u32]>,
    sends: Sends,
    /// Most datagrams under way, so that receiving keeps its buffers.
    most_frames: usize,
    run: usize,
    headers: RawArray<libc::mmsghdr>,
    vectors: RawArray<libc::iovec>,
    control: RawArray<Control>,
    staging: RawArray<[u8; LINE]>,
    ttl: SocketTtl,
    careful: u32,
    stopped: Stopped,
    /// Sends whose frames are still in the burst, and how many.
    fresh: Vec<(u16, usize)>,
    /// Sends that were written as one chain and not handed over yet.
    chain: usize,
}

/// Sizes of a sender, by the port's options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) sends: u16,
    pub(crate) run: usize,
    pub(crate) most_frames: usize,
    /// [`usize::MAX`]: nothing is sent by zero copy.
    pub(crate) zerocopy: usize,
}

impl Sizes {
    pub(crate) fn new(sends: Option<u16>, gso: Option<Gso>, zerocopy: Option<usize>) -> Self {
        let run = gso.map_or(1, |gso| gso.segments);
        let sends = sends.unwrap_or(if gso.is_some() { 64 } else { 256 });
        Self {
            sends,
            run,
            most_frames: (usize::from(sends) * run).min(4 * MAX_BURST).max(run),
            zerocopy: zerocopy.unwrap_or(usize::MAX),
        }
    }
}

impl<'p> Sender<'p> {
    pub(crate) fn new(pool: &'p Pool, sockets: &'p Sockets, lane: &'p Lane, sizes: Sizes, fixed: Box<[u32]>) -> Self {
        let slots = usize::from(sizes.sends);
        let gso = sockets.gso();
        Self {
            pool,
            sockets,
            lane,
            gso,
            listening: sockets.kind().listening,
            zerocopy: sizes.zerocopy,
            fixed,
            sends: Sends::new(sizes.sends, sizes.run),
            most_frames: sizes.most_frames,
            run: sizes.run,
            headers: RawArray::new(slots, EMPTY_MESSAGE),
            vectors: RawArray::new(slots * sizes.run, EMPTY_VECTOR),
            control: RawArray::new(slots, EMPTY_CONTROL),
            staging: RawArray::new(if gso.is_some() { slots * STAGING / LINE } else { 0 }, [0; LINE]),
            ttl: SocketTtl::default(),
            careful: 0,
            stopped: Stopped::Not,
            fresh: Vec::with_capacity(slots),
            chain: 0,
        }
    }

    pub(crate) fn sends(&self) -> &Sends {
        &self.sends
    }

    pub(crate) fn stopped(&self) -> Stopped {
        self.stopped
    }

    /// Whether something could be sent now.
    pub(crate) fn has_room(&self) -> bool {
        self.sends.retries() == 0 && self.sends.room() > 0 && self.sends.frames() + self.run <= self.most_frames
    }

    /// How many sends were written as one chain since the last call; 0: what was written is none.
    pub(crate) fn take_chain(&mut self) -> usize {
        std::mem::take(&mut self.chain)
    }

    /// Takes frames from the front: writes a submission for each, or each run, as far as there is room. Returns how
    /// many; the caller then gives their buffers to [`Sender::hold`], in order. The error is that of the first frame
    /// that was not taken, which no socket can send.
    pub(crate) fn write(&mut self, ring: &mut Ring, frames: &[SocketFrame<'_>]) -> (usize, Result<(), Error>) {
        if self.sends.retries() > 0 || self.careful > 0 && self.sends.unresolved() > 0 {
            return (0, Ok(()));
        }
        if self.listening
            && let Some(&socket) = self.lane.tx.first()
        {
            self.ttl.follow(self.sockets.fd(socket), frames);
        }
        let chained = self.careful > 0;
        self.careful = self.careful.saturating_sub(1);
        let mut room = ring.room();
        let mut taken = 0;
        while taken < frames.len() && room > 0 {
            let rest = &frames[taken..];
            let socket = match self.sockets.socket_of(self.lane, &rest[0]) {
                Ok(socket) => socket,
                Err(e) => return (taken, Err(e)),
            };
            let n = match self.gso {
                None => 1,
                Some(gso) => {
                    let run = message::run_length(rest, gso, self.listening);
                    let same =
                        |f: &&SocketFrame<'_>| matches!(self.sockets.socket_of(self.lane, f), Ok(s) if s == socket);
                    1 + rest[1..run].iter().take_while(same).count()
                }
            };
            if self.sends.frames() + taken + n > self.most_frames {
                break;
            }
            let Some(slot) = self.sends.begin(socket) else { break };
            self.describe(slot, &rest[..n]);
            self.fresh.push((slot, n));
            taken += n;
            room -= 1;
            let more = taken < frames.len() && room > 0 && self.sends.room() > 0;
            let entry = self.entry(slot, n, chained && more);
            // SAFETY: what the entry points at is memory of this slot, which is used for nothing else before the send
            // has ended, and buffers that the slot holds until then (`hold`, which the caller calls before the kernel
            // sees the entry); all outlive the ring's use of them, as `UringQueue` ends all requests before it goes.
            let pushed = unsafe { ring.push(&entry) };
            debug_assert!(pushed, "there was room");
            self.chain += usize::from(chained);
        }
        (taken, Ok(()))
    }

    /// Gives the sends that were just written the buffers of their frames, from the front of the burst.
    pub(crate) fn hold(&mut self, mut frames: impl Iterator<Item = SocketFrame<'p>>) {
        for (slot, n) in self.fresh.drain(..) {
            for frame in frames.by_ref().take(n) {
                self.sends.hold(slot, frame.into_buffer());
            }
        }
    }

    /// Writes what the kernel is to read of a send.
    fn describe(&mut self, slot: u16, frames: &[SocketFrame<'_>]) {
        let at = usize::from(slot);
        let staging = if frames.len() > 1 {
            self.staging.at(at * STAGING / LINE).cast()
        } else {
            std::ptr::null_mut()
        };
        // SAFETY: header, vectors, control area and staging memory of a slot are used by its send alone, which the
        // kernel does not have yet. A run has no more frames than there are vectors a slot and no more bytes than
        // STAGING (`Gso::bytes`).
        unsafe {
            let place = Place {
                header: &raw mut (*self.headers.at(at)).msg_hdr,
                vectors: self.vectors.at(at * self.run),
                control: self.control.at(at),
                staging,
            };
            message::write(place, frames, self.listening, self.ttl.given());
        }
    }

    /// Whether a send of so many vectors goes by zero copy: it is large enough, and its pages are no more than a packet
    /// can name (the kernel would refuse it: `EMSGSIZE`, skb_zerocopy_iter_dgram).
    #[inline]
    fn by_zerocopy(&self, slot: u16, vectors: usize) -> bool {
        if self.zerocopy == usize::MAX {
            return false;
        }
        let (mut bytes, mut pages) = (0, 0);
        for i in 0..vectors {
            // SAFETY: the vectors of this slot were written by `describe`, and the kernel only reads them.
            let vector = unsafe { *self.vectors.at(usize::from(slot) * self.run + i) };
            bytes += vector.iov_len;
            pages += (vector.iov_base.addr() % PAGE + vector.iov_len).div_ceil(PAGE);
        }
        bytes >= self.zerocopy && pages <= MAX_FRAGMENTS
    }

    /// The submission of a send that was described.
    fn entry(&self, slot: u16, frames: usize, chained: bool) -> squeue::Entry {
        let at = usize::from(slot);
        let socket = self.sends.socket_of(slot);
        let (fd, mut flags) = match self.fixed[socket as usize] {
            NOWHERE => (types::Fd(self.sockets.fd(socket)), squeue::Flags::empty()),
            place => (types::Fd(place as i32), squeue::Flags::FIXED_FILE),
        };
        if chained {
            flags |= squeue::Flags::IO_LINK;
        }
        // SAFETY: header and vectors of this slot were written by `describe`, and the kernel only reads them.
        let (header, first, vectors) = unsafe {
            let header = &raw const (*self.headers.at(at)).msg_hdr;
            (header, *self.vectors.at(at * self.run), (*header).msg_iovlen as _)
        };
        let (data, len) = (first.iov_base.cast_const().cast::<u8>(), first.iov_len as u32);
        let plain = frames == 1 && !self.listening;
        let entry = match (plain, self.by_zerocopy(slot, vectors)) {
            (true, false) => opcode::Send::new(fd, data, len).flags(libc::MSG_DONTWAIT).build(),
            (true, true) => opcode::SendZc::new(fd, data, len)
                .flags(libc::MSG_DONTWAIT)
                .zc_flags(REPORT_USAGE)
                .build(),
            (false, false) => opcode::SendMsg::new(fd, header)
                .flags(libc::MSG_DONTWAIT as u32)
                .build(),
            (false, true) => opcode::SendMsgZc::new(fd, header)
                .ioprio(REPORT_USAGE)
                .flags(libc::MSG_DONTWAIT as u32)
                .build(),
        };
        entry.flags(flags).user_data(user_data(SEND, slot.into()))
    }

    /// Writes the sends that wait for another try again, in order, as one chain; false: their turn has not come, as
    /// others are still with the kernel.
    pub(crate) fn submit_again(&mut self, ring: &mut Ring) -> bool {
        if self.sends.unresolved() > 0 {
            return false;
        }
        let mut room = ring.room();
        while let Some(slot) = self.sends.first_retry().filter(|_| room > 0) {
            room -= 1;
            let chained = room > 0 && self.sends.retries() > 1;
            let entry = self.entry(slot, self.sends.frames_of(slot) as usize, chained);
            // SAFETY: as in `write`.
            if !unsafe { ring.push(&entry) } {
                break;
            }
            self.sends.resubmitted();
            self.chain += 1;
        }
        self.stopped = Stopped::Not;
        true
    }

    /// Books a completion of a send. The error is one that ends the run; its datagrams are counted as not sent.
    #[inline]
    pub(crate) fn completed(
        &mut self,
        which: u32,
        entry: &cqueue::Entry,
        counters: &RingCounters,
    ) -> Result<(), Error> {
        let slot = which as u16;
        let (result, flags) = (entry.result(), entry.flags());
        let pool = self.pool;
        if cqueue::notif(flags) {
            if self.sends.awaits_notification(slot) {
                if result as u32 & COPIED != 0 {
                    counters.zerocopy_copied.add(self.sends.frames_of(slot));
                }
                self.sends.notified(slot, |buffer| pool.release(buffer));
            }
            return Ok(());
        }
        if !self.sends.awaits_result(slot) {
            debug_assert!(false, "a completion of no send");
            return Ok(());
        }
        let notification = cqueue::more(flags);
        if result < 0 {
            return self.failed(slot, -result, notification);
        }
        if notification {
            counters.zerocopied.add(self.sends.frames_of(slot));
        }
        if self.sends.retries() > 0 && self.sends.overtakes(slot) {
            counters.overtaken.add(self.sends.frames_of(slot));
        }
        self.sends.finished(slot, notification, |buffer| pool.release(buffer));
        Ok(())
    }

    /// A send has failed.
    #[cold]
    fn failed(&mut self, slot: u16, errno: i32, notification: bool) -> Result<(), Error> {
        let pool = self.pool;
        let counters = &self.lane.counters;
        // This send was in a chain behind one that failed.
        if errno == libc::ECANCELED {
            self.sends.again(slot, notification);
            return Ok(());
        }
        let (error, frames) = (io::Error::from_raw_os_error(errno), self.sends.frames_of(slot));
        let verdict = match unsent(&error, self.listening, frames, counters) {
            Unsent::Route if self.sends.tried(slot) >= RETRIES => Unsent::Fatal,
            other => other,
        };
        match verdict {
            Unsent::Full => self.put_off(slot, notification, Stopped::Full(self.sends.socket_of(slot))),
            Unsent::Busy => self.put_off(slot, notification, Stopped::Busy),
            // Another packet's error, now cleared. Many of them in a row must not keep the lane in a loop.
            Unsent::Pending if self.sends.tried(slot) >= RETRIES => self.put_off(slot, notification, Stopped::Busy),
            Unsent::Pending | Unsent::Again | Unsent::Route => self.sends.again(slot, notification),
            Unsent::Refused => {
                counters.tx_failed.add(frames);
                self.sends.finished(slot, notification, |buffer| pool.release(buffer));
            }
            Unsent::Fatal => {
                // SAFETY: the slot's first vector was written by `describe`; the kernel only reads it.
                let len = unsafe { (*self.vectors.at(usize::from(slot) * self.run)).iov_len };
                let error = self
                    .sockets
                    .explain(self.sends.socket_of(slot), send_error(&error, len));
                if matches!(error.kind, ErrorKind::LinkDown | ErrorKind::NoWay(_)) {
                    // The lane waits for the link, and so do the packets.
                    self.sends.again(slot, notification);
                } else {
                    counters.tx_failed.add(frames);
                    self.sends.finished(slot, notification, |buffer| pool.release(buffer));
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn put_off(&mut self, slot: u16, notification: bool, why: Stopped) {
        self.lane.counters.tx_again.add(1);
        self.sends.again(slot, notification);
        self.careful = CAREFUL;
        if self.stopped == Stopped::Not {
            self.stopped = why;
        }
    }

    /// Gives up all sends, when the ring is gone; returns the number of datagrams that were never known to be sent.
    pub(crate) fn release_all(&mut self) -> u64 {
        let pool = self.pool;
        self.sends.abandon(|buffer| pool.release(buffer))
    }
}
