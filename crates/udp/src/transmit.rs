//! Transmitting: `sendmmsg`, with runs of equal datagrams packed into segmented packets (`UDP_SEGMENT`).

use crate::address::RawAddr;
use crate::counters::LaneCounters;
use crate::pool::{Meta, UdpFrame};
use crate::raw::{Control, EMPTY_MESSAGE, EMPTY_VECTOR, RawArray};
use crate::socket::UDP_SEGMENT;
use mpps_io::{Error, ErrorKind, MAX_BURST};
use std::io;
use std::os::fd::RawFd;

/// How often a send is tried again at once after a pending ICMP error.
const RETRIES: u32 = 4;
/// Datagrams up to this size are copied side by side before they go out as one packet: the kernel takes one piece of
/// memory faster than many. Measured on veth, CPU time of the sender a datagram, copied or gathered: 18 bytes 40 or
/// 61 ns, 64 bytes 49 or 75, 512 bytes 131 or 172, 1472 bytes 259 or 200.
const COPY_UP_TO: usize = 768;
/// Bursts in a row whose first packet wants another time to live than the socket gives, before the socket gives that
/// one.
const OTHERS: u32 = 8;
/// Bytes of one piece of the staging memory.
const LINE: usize = 64;

const _: () = assert!(COPY_UP_TO.is_multiple_of(LINE));

/// Limits of segmentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gso {
    /// Datagrams in one packet.
    pub(crate) segments: usize,
    /// Payload bytes of all of them.
    pub(crate) bytes: usize,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// All was sent.
    Done,
    /// The socket buffer is full: wait until the socket is writable.
    Full,
    /// A queue below the socket is full: wait a little.
    Busy,
}

/// One lane's transmitting half.
pub(crate) struct Transmitter {
    headers: RawArray<libc::mmsghdr>,
    vectors: RawArray<libc::iovec>,
    control: RawArray<Control>,
    /// Frames in each message.
    frames: Box<[u16]>,
    gso: Option<Gso>,
    /// Where small datagrams are put side by side; room for a whole burst of them. Without segmentation: none.
    staging: RawArray<[u8; LINE]>,
    listening: bool,
    /// Time to live that the socket gives what has none of its own; 0: the system's. Setting it where most packets want
    /// the same costs a call now and then, saying it with each packet costs time for all of them.
    ttl: u8,
    /// Packets in a row that wanted another.
    others: u32,
}

impl Transmitter {
    pub(crate) fn new(gso: Option<Gso>, listening: bool) -> Self {
        Self {
            headers: RawArray::new(MAX_BURST, EMPTY_MESSAGE),
            vectors: RawArray::new(MAX_BURST, EMPTY_VECTOR),
            control: RawArray::new(MAX_BURST, [0; 12]),
            frames: vec![0; MAX_BURST].into_boxed_slice(),
            gso,
            staging: RawArray::new(
                if gso.is_some() {
                    MAX_BURST * COPY_UP_TO / LINE
                } else {
                    0
                },
                [0; LINE],
            ),
            listening,
            ttl: 0,
            others: 0,
        }
    }

    /// Lets the socket give the time to live that its packets want, where all have wanted the same for a while.
    fn follow_ttl(&mut self, fd: RawFd, frames: &[UdpFrame<'_>]) {
        let Some(meta) = frames.first().map(UdpFrame::meta) else {
            return;
        };
        let wanted = answer_ttl(meta);
        if wanted == self.ttl {
            self.others = 0;
            return;
        }
        self.others += 1;
        if self.others < OTHERS || wanted == 0 {
            return;
        }
        self.others = 0;
        let (level, name) = match is_v6(meta) {
            true => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
            false => (libc::IPPROTO_IP, libc::IP_TTL),
        };
        if crate::socket::set_option(fd, level, name, wanted.into()).is_ok() {
            self.ttl = wanted;
        }
    }

    /// Sends `frames` (one flow's, when connected; at most [`MAX_BURST`]) on `fd`. Returns how many were taken, and
    /// why no more.
    pub(crate) fn send(
        &mut self,
        fd: RawFd,
        frames: &[UdpFrame<'_>],
        counters: &LaneCounters,
    ) -> (usize, Result<Stop, Error>) {
        let frames = &frames[..frames.len().min(MAX_BURST)];
        if self.listening {
            self.follow_ttl(fd, frames);
        }
        let messages = self.build(frames);
        let (mut sent, mut taken, mut retries) = (0, 0, 0);
        while sent < messages {
            let left = (messages - sent) as u32;
            // SAFETY: the headers from `sent` on were built above from `frames`, whose buffers and meta data live
            // until this function returns; the kernel only reads them, and writes `msg_len`.
            let n = unsafe { libc::sendmmsg(fd, self.headers.at(sent), left, libc::MSG_DONTWAIT as _) };
            if let Ok(n) = usize::try_from(n) {
                taken += self.frames[sent..sent + n]
                    .iter()
                    .map(|&f| usize::from(f))
                    .sum::<usize>();
                sent += n;
                continue;
            }
            let error = io::Error::last_os_error();
            let head = usize::from(self.frames[sent]);
            match self.judge(&error, retries < RETRIES, head as u64, counters) {
                Verdict::Retry => retries += 1,
                Verdict::Skip => {
                    counters.tx_failed.add(head as u64);
                    taken += head;
                    sent += 1;
                }
                Verdict::Stop(stop) => {
                    counters.tx_again.add(1);
                    return (taken, Ok(stop));
                }
                Verdict::Fail => {
                    let len = frames.get(taken).map_or(0, UdpFrame::len);
                    return (taken, Err(send_error(&error, len)));
                }
            }
        }
        (taken, Ok(Stop::Done))
    }

    /// Builds the messages; returns how many.
    fn build(&mut self, frames: &[UdpFrame<'_>]) -> usize {
        let (mut first, mut message, mut vector, mut line) = (0, 0, 0, 0);
        while first < frames.len() {
            let n = self
                .gso
                .map_or(1, |gso| run_length(&frames[first..], gso, self.listening));
            // SAFETY: header, vectors and control area of this message are ours alone outside of the system call
            // (one vector or less a frame, so `vector` stays below their number); the pointers stored are to buffers
            // held by `frames`, used while the caller keeps them.
            unsafe {
                let header = &mut (*self.headers.at(message)).msg_hdr;
                header.msg_iov = self.vectors.at(vector);
                let start = vector;
                let packet = &frames[first..first + n];
                if n > 1 && packet[0].len() <= COPY_UP_TO && !side_by_side(packet) {
                    line += self.copy(packet, line, vector);
                    vector += 1;
                } else {
                    vector += self.gather(packet, vector);
                }
                header.msg_iovlen = (vector - start) as _;
                let meta = frames[first].meta();
                if self.listening {
                    header.msg_name = (&raw const meta.peer.storage).cast_mut().cast();
                    header.msg_namelen = meta.peer.len;
                }
                let segment = if n > 1 { frames[first].len() as u16 } else { 0 };
                let local = self.listening && meta.has_local;
                let ttl = answer_ttl(meta);
                let own_ttl = self.listening && ttl != self.ttl && ttl > 0;
                header.msg_controllen = 0;
                header.msg_control = std::ptr::null_mut();
                if segment > 0 || local || own_ttl {
                    let area = self.control.at(message);
                    header.msg_control = area.cast();
                    header.msg_controllen = write_control(area, segment, meta, local, own_ttl) as _;
                }
            }
            self.frames[message] = n as u16;
            message += 1;
            first += n;
        }
        message
    }

    /// Copies the bytes of `frames`, none longer than [`COPY_UP_TO`], into the staging memory from `line` on, and makes
    /// them vector `at`; returns how many lines they fill.
    ///
    /// # Safety
    /// The vector and the staging memory from `line` on are not in use; `line` is at most the lines that the frames
    /// before these have filled.
    unsafe fn copy(&self, frames: &[UdpFrame<'_>], line: usize, at: usize) -> usize {
        let base = self.staging.at(line).cast::<u8>();
        let mut used = 0;
        for frame in frames {
            // SAFETY: a burst has at most MAX_BURST frames, each packet of which fills no more than COPY_UP_TO bytes
            // (a multiple of LINE) a frame, so all fit the staging memory; frames and staging do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(frame.data(), base.add(used), frame.len()) };
            used += frame.len();
        }
        // SAFETY: the vector is not in use, by the caller.
        unsafe {
            *self.vectors.at(at) = libc::iovec {
                iov_base: base.cast(),
                iov_len: used,
            }
        };
        used.div_ceil(LINE)
    }

    /// Fills vectors from `at` on with the bytes of `frames`, joining those that lie side by side (as the datagrams
    /// of a coalesced packet do); returns how many.
    ///
    /// # Safety
    /// The vectors are not in use.
    unsafe fn gather(&self, frames: &[UdpFrame<'_>], at: usize) -> usize {
        let mut n = 0;
        let mut end: *mut u8 = std::ptr::null_mut();
        for frame in frames {
            // SAFETY: vectors `at..at + frames.len()` exist (one per frame) and are not in use, by the caller; `end` is
            // the end of a frame's bytes, at most one past its buffer.
            unsafe {
                if n > 0 && frame.data() == end {
                    (*self.vectors.at(at + n - 1)).iov_len += frame.len();
                } else {
                    *self.vectors.at(at + n) = libc::iovec {
                        iov_base: frame.data().cast(),
                        iov_len: frame.len(),
                    };
                    n += 1;
                }
                end = frame.data().add(frame.len());
            }
        }
        n
    }

    /// What to do about an error of `sendmmsg`, which concerns the first message that was not sent.
    #[cold]
    fn judge(&self, error: &io::Error, may_retry: bool, frames: u64, counters: &LaneCounters) -> Verdict {
        match error.raw_os_error() {
            Some(libc::EAGAIN) => Verdict::Stop(Stop::Full),
            Some(libc::ENOBUFS | libc::ENOMEM) => Verdict::Stop(Stop::Busy),
            Some(libc::EINTR) => Verdict::Retry,
            // A pending ICMP error is reported instead of sending; reporting clears it.
            Some(libc::ECONNREFUSED) => {
                counters.refused.add(1);
                if may_retry {
                    Verdict::Retry
                } else {
                    Verdict::Stop(Stop::Busy)
                }
            }
            Some(libc::ENOPROTOOPT | libc::EHOSTDOWN | libc::ENONET) => {
                counters.icmp_errors.add(1);
                if may_retry {
                    Verdict::Retry
                } else {
                    Verdict::Stop(Stop::Busy)
                }
            }
            Some(libc::EPERM) => {
                counters.blocked.add(frames);
                Verdict::Skip
            }
            // The answer to one sender can't be sent: its own affair, whatever the cause. A made-up source address or
            // port must not stop the answers to the others.
            Some(
                libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EINVAL | libc::EACCES | libc::EMSGSIZE,
            ) if self.listening => {
                counters.unreachable.add(frames);
                Verdict::Skip
            }
            // A pending ICMP error or the state of the route: the second answer tells.
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH) if may_retry => Verdict::Retry,
            _ => Verdict::Fail,
        }
    }
}

enum Verdict {
    /// Try the same message again.
    Retry,
    /// Count the message as failed, go on with the next.
    Skip,
    /// Leave the rest for later.
    Stop(Stop),
    /// Tell the caller.
    Fail,
}

/// How many frames from the front go out as one packet: equal lengths, the last may be shorter but not empty
/// (udp(7), `UDP_SEGMENT`), within the limits, and to one receiver.
fn run_length(frames: &[UdpFrame<'_>], gso: Gso, listening: bool) -> usize {
    let first = &frames[0];
    let segment = first.len();
    if segment == 0 {
        return 1;
    }
    let most = gso.segments.min(gso.bytes / segment).min(frames.len());
    let mut n = 1;
    while n < most {
        let frame = &frames[n];
        if frame.len() == 0 || frame.len() > segment || listening && !same_receiver(first, frame) {
            break;
        }
        n += 1;
        if frame.len() < segment {
            break;
        }
    }
    n
}

/// Whether the bytes of all frames follow one another in memory.
fn side_by_side(frames: &[UdpFrame<'_>]) -> bool {
    frames
        .windows(2)
        .all(|w| w[0].data().wrapping_add(w[0].len()) == w[1].data())
}

fn same_receiver(a: &UdpFrame<'_>, b: &UdpFrame<'_>) -> bool {
    if a.same_buffer(b) {
        return true;
    }
    let (a, b) = (a.meta(), b.meta());
    a.peer.same(&b.peer)
        && a.ttl == b.ttl
        && a.has_local == b.has_local
        && (!a.has_local || a.local == b.local && a.interface == b.interface)
}

fn is_v6(meta: &Meta) -> bool {
    meta.peer.len == size_of::<libc::sockaddr_in6>() as u32
}

/// Time to live of the answer to a packet: one less than it came with, as a router does it. 0: not known.
fn answer_ttl(meta: &Meta) -> u8 {
    meta.ttl.saturating_sub(1)
}

/// Writes control messages: segment size (0: none), and where asked for source address and time to live; returns their
/// length in bytes.
///
/// # Safety
/// `area` is not in use.
unsafe fn write_control(area: *mut Control, segment: u16, meta: &Meta, local: bool, own_ttl: bool) -> usize {
    const SEGMENT: usize = cmsg_space(size_of::<u16>());
    const TTL: usize = cmsg_space(size_of::<libc::c_int>());
    const _: () = assert!(SEGMENT + TTL + cmsg_space(size_of::<libc::in6_pktinfo>()) <= size_of::<Control>());
    let mut used = 0;
    let mut put = |kind: (libc::c_int, libc::c_int), data: *const u8, len: usize| {
        // SAFETY: all messages fit the area, by the assertion above, each at a multiple of 8 bytes; `data` points at
        // `len` bytes.
        unsafe {
            let header = area.cast::<u8>().add(used).cast::<libc::cmsghdr>();
            (*header).cmsg_level = kind.0;
            (*header).cmsg_type = kind.1;
            (*header).cmsg_len = libc::CMSG_LEN(len as u32) as _;
            std::ptr::copy_nonoverlapping(data, libc::CMSG_DATA(header), len);
        }
        used += cmsg_space(len);
    };
    if segment > 0 {
        put(
            (libc::SOL_UDP, UDP_SEGMENT),
            (&raw const segment).cast(),
            size_of::<u16>(),
        );
    }
    if own_ttl {
        let ttl = libc::c_int::from(answer_ttl(meta));
        let kind = match is_v6(meta) {
            true => (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
            false => (libc::IPPROTO_IP, libc::IP_TTL),
        };
        put(kind, (&raw const ttl).cast(), size_of_val(&ttl));
    }
    if local {
        if is_v6(meta) {
            let info = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr { s6_addr: meta.local },
                ipi6_ifindex: if meta.local[0] == 0xfe { meta.interface } else { 0 },
            };
            put(
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO),
                (&raw const info).cast(),
                size_of_val(&info),
            );
        } else {
            let mut address = [0; 4];
            address.copy_from_slice(&meta.local[..4]);
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr {
                    s_addr: u32::from_ne_bytes(address),
                },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            put(
                (libc::IPPROTO_IP, libc::IP_PKTINFO),
                (&raw const info).cast(),
                size_of_val(&info),
            );
        }
    }
    used
}

/// `CMSG_SPACE` as a constant function.
const fn cmsg_space(len: usize) -> usize {
    // SAFETY: CMSG_SPACE computes; it touches no memory.
    unsafe { libc::CMSG_SPACE(len as u32) as usize }
}

#[cold]
fn send_error(error: &io::Error, len: usize) -> Error {
    let object = format!("datagram of {len} bytes");
    match error.raw_os_error() {
        Some(libc::EMSGSIZE) => Error::new(
            "send",
            object,
            "larger than the path's MTU less IP and UDP header: use a smaller payload or a larger MTU",
            ErrorKind::Other,
        ),
        Some(libc::EINVAL | libc::EIO) => Error::new(
            "send",
            object,
            format!(
                "{error}: with gso=on a datagram must fit the MTU, and the route must not be encrypted or tunnelled: \
                 try gso=off"
            ),
            ErrorKind::Unsupported,
        ),
        _ => Error::os("send", object, error),
    }
}

/// A frame to send on an unconnected socket that has no receiver: it was allocated, not received.
#[cold]
pub(crate) fn no_receiver() -> Error {
    Error::new(
        "send",
        "an allocated frame",
        "a listening udp port only answers what it received",
        ErrorKind::Unsupported,
    )
}

/// Whether a listening socket can send this frame anywhere.
#[inline]
pub(crate) fn has_receiver(frame: &UdpFrame<'_>) -> bool {
    let peer: &RawAddr = &frame.meta().peer;
    peer.len > 0
}
