//! The form that datagrams have in a system call: one `msghdr` with vectors and control messages for each, and runs of
//! equal datagrams as one segmented packet (`UDP_SEGMENT`).

use crate::counters::LaneCounters;
use crate::pool::{Meta, SocketFrame};
use crate::raw::Control;
use crate::set_option;
use crate::socket::{UDP_GRO, UDP_SEGMENT};
use mpps_sys::clock::WallClock;
use std::net::Ipv6Addr;
use std::num::NonZeroU64;
use std::os::fd::RawFd;

/// Datagrams up to this size are copied side by side before they go out as one packet: the kernel takes one piece of
/// memory faster than many. Measured on veth, CPU time of the sender a datagram, copied or gathered: 18 bytes 40 or
/// 61 ns, 64 bytes 49 or 75, 512 bytes 131 or 172, 1472 bytes 259 or 200.
pub const COPY_UP_TO: usize = 768;
/// Bytes of one piece of the staging memory.
pub const LINE: usize = 64;
/// Number of bursts in a row whose first packet wants another time to live than the socket gives, before the socket is
/// set to it.
const OTHERS: u32 = 8;

const _: () = assert!(COPY_UP_TO.is_multiple_of(LINE));

/// Properties of the sockets of a lane.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Not connected: keep the sender of each datagram.
    pub listening: bool,
    /// Bound to the wildcard address: keep the address that was hit.
    pub wildcard: bool,
    /// Coalesced packets come.
    pub gro: bool,
    /// Received packets are sent back, so their time to live is kept.
    pub answers: bool,
    /// The kernel says when each packet came.
    pub timed: bool,
}

impl Kind {
    /// Whether received packets come with control messages.
    pub fn needs_control(self) -> bool {
        self.gro || self.wildcard || self.answers || self.timed
    }

    /// Bytes that the control messages of a received packet take, at most.
    pub fn control_len(self) -> usize {
        match (self.needs_control(), self.timed) {
            (false, _) => 0,
            (true, false) => size_of::<Control>() - TIME,
            (true, true) => size_of::<Control>(),
        }
    }
}

/// Limits of segmentation.
#[derive(Clone, Copy, Debug)]
pub struct Gso {
    /// Datagrams in one packet.
    pub segments: usize,
    /// Payload bytes of all of them.
    pub bytes: usize,
    /// Payload bytes of each: the kernel makes no fragments of segments.
    pub largest: usize,
}

/// Memory in which a message is written: nobody else uses it until the kernel has read it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Header of the message.
    pub header: *mut libc::msghdr,
    /// Room for a vector per frame.
    pub vectors: *mut libc::iovec,
    /// Control messages of the message.
    pub control: *mut Control,
    /// Room for [`COPY_UP_TO`] bytes per frame of a run; unused for a single frame.
    pub staging: *mut u8,
}

/// Parts of its place that a message has filled.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    /// Number of vectors.
    pub vectors: usize,
    /// Number of pieces of [`LINE`] bytes of the staging memory.
    pub lines: usize,
}

/// How many frames from the front go out as one packet: equal lengths, the last may be shorter but not empty
/// (udp(7), `UDP_SEGMENT`), within the limits, and to one receiver.
pub fn run_length(frames: &[SocketFrame<'_>], gso: Gso, listening: bool) -> usize {
    let first = &frames[0];
    let segment = first.len();
    if segment == 0 || segment > gso.largest {
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

/// Writes one message that sends `frames` (one, or a run of [`run_length`]); when `listening`, to the sender that they
/// came from. The message's time to live is the socket's (`socket_ttl`; 0: the system's) or, for an answer, its own.
///
/// # Safety
/// The place is not in use and has the room that [`Place`] says; what is written holds pointers to it and to the
/// frames' buffers, which the caller keeps until the kernel has done with them.
#[inline]
pub unsafe fn write(place: Place, frames: &[SocketFrame<'_>], listening: bool, socket_ttl: u8) -> Filled {
    let n = frames.len();
    // SAFETY: by the caller, all of the place is ours alone and large enough.
    unsafe {
        let header = &mut *place.header;
        header.msg_iov = place.vectors;
        let filled = if n > 1 && frames[0].len() <= COPY_UP_TO && !side_by_side(frames) {
            copy(place, frames)
        } else {
            gather(place, frames)
        };
        header.msg_iovlen = filled.vectors as _;
        let meta = frames[0].meta();
        if listening {
            header.msg_name = (&raw const meta.peer.storage).cast_mut().cast();
            header.msg_namelen = meta.peer.len;
        }
        let segment = if n > 1 { frames[0].len() as u16 } else { 0 };
        let local = listening && meta.has_local;
        let ttl = answer_ttl(meta);
        // On a socket of both families `socket_ttl` is that of IPv6.
        let own_ttl = listening && ttl > 0 && (ttl != socket_ttl || meta.peer.is_mapped());
        header.msg_controllen = 0;
        header.msg_control = std::ptr::null_mut();
        if segment > 0 || local || own_ttl {
            header.msg_control = place.control.cast();
            header.msg_controllen = write_control(place.control, segment, meta, local, own_ttl) as _;
        }
        filled
    }
}

/// Copies the bytes of `frames`, none longer than [`COPY_UP_TO`], into the staging memory as one vector.
///
/// # Safety
/// The same as for [`write`].
unsafe fn copy(place: Place, frames: &[SocketFrame<'_>]) -> Filled {
    let mut used = 0;
    for frame in frames {
        // SAFETY: there is room for COPY_UP_TO bytes a frame, by the caller; frames and staging do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(frame.data(), place.staging.add(used), frame.len()) };
        used += frame.len();
    }
    // SAFETY: the vector is not in use, by the caller.
    unsafe {
        *place.vectors = libc::iovec {
            iov_base: place.staging.cast(),
            iov_len: used,
        }
    };
    Filled {
        vectors: 1,
        lines: used.div_ceil(LINE),
    }
}

/// Fills vectors with the bytes of `frames`, joining those that lie side by side (as the datagrams of a coalesced
/// packet do).
///
/// # Safety
/// The same as for [`write`].
unsafe fn gather(place: Place, frames: &[SocketFrame<'_>]) -> Filled {
    let mut n = 0;
    let mut end: *mut u8 = std::ptr::null_mut();
    for frame in frames {
        // SAFETY: there is room for a vector per frame, and none is in use, by the caller; `end` is the end of a
        // frame's bytes, at most one past its buffer.
        unsafe {
            if n > 0 && frame.data() == end {
                (*place.vectors.add(n - 1)).iov_len += frame.len();
            } else {
                *place.vectors.add(n) = libc::iovec {
                    iov_base: frame.data().cast(),
                    iov_len: frame.len(),
                };
                n += 1;
            }
            end = frame.data().add(frame.len());
        }
    }
    Filled { vectors: n, lines: 0 }
}

/// Whether the bytes of all frames follow one another in memory.
fn side_by_side(frames: &[SocketFrame<'_>]) -> bool {
    frames
        .windows(2)
        .all(|w| w[0].data().wrapping_add(w[0].len()) == w[1].data())
}

fn same_receiver(a: &SocketFrame<'_>, b: &SocketFrame<'_>) -> bool {
    if a.same_buffer(b) {
        return true;
    }
    let (a, b) = (a.meta(), b.meta());
    a.peer.same(&b.peer)
        && a.ttl == b.ttl
        && a.has_local == b.has_local
        && (!a.has_local || a.local == b.local && a.interface == b.interface)
}

/// Whether a listening socket can send this frame anywhere.
#[inline]
pub fn has_receiver(frame: &SocketFrame<'_>) -> bool {
    frame.meta().peer.len > 0
}

fn is_v6(meta: &Meta) -> bool {
    meta.peer.len == size_of::<libc::sockaddr_in6>() as u32
}

/// Time to live of the answer to a packet: one less than it came with, as a router does it. 0: not known.
fn answer_ttl(meta: &Meta) -> u8 {
    meta.ttl.saturating_sub(1)
}

/// The time to live that a socket gives to packets without one of their own. If most packets want the same, setting it
/// costs a call now and then; passing it with each packet costs time for all of them.
#[derive(Debug, Default)]
pub struct SocketTtl {
    /// 0: the system's.
    given: u8,
    /// Packets in a row that wanted another.
    others: u32,
}

impl SocketTtl {
    /// Returns the time to live that the socket gives; 0: the system's.
    #[inline]
    pub fn given(&self) -> u8 {
        self.given
    }

    /// Sets the socket to the time to live that its answers want, if all have wanted the same for a while.
    pub fn follow(&mut self, fd: RawFd, frames: &[SocketFrame<'_>]) {
        let Some(meta) = frames.first().map(SocketFrame::meta) else {
            return;
        };
        let wanted = answer_ttl(meta);
        if meta.peer.is_mapped() {
            return;
        }
        if wanted == self.given {
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
        if set_option(fd, level, name, wanted.into()).is_ok() {
            self.given = wanted;
        }
    }
}

/// Writes control messages: segment size (0: none), and, if asked for, source address and time to live; returns their
/// length in bytes.
///
/// # Safety
/// `area` is not in use.
unsafe fn write_control(area: *mut Control, segment: u16, meta: &Meta, local: bool, own_ttl: bool) -> usize {
    const SEGMENT: usize = cmsg_space(size_of::<u16>());
    const TTL: usize = cmsg_space(size_of::<libc::c_int>());
    const _: () = assert!(SEGMENT + TTL + cmsg_space(size_of::<libc::in6_pktinfo>()) + TIME <= size_of::<Control>());
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
        let kind = match is_v6(meta) && !meta.peer.is_mapped() {
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

/// Times of arrival of a lane's packets, if the kernel takes them ([`Kind::timed`]).
pub struct ArrivalTimes(WallClock);

impl ArrivalTimes {
    /// Reads clocks; `None`: the kernel takes no times.
    pub fn new(kind: Kind) -> Option<Self> {
        kind.timed.then(|| Self(WallClock::new()))
    }

    /// Reads clocks again: once for a burst, after all of its packets have come.
    #[inline]
    pub fn look(&mut self) {
        self.0.look();
    }

    /// Makes the time that [`read_control`] has read a reading of this host's clock, or none if it can't be one.
    ///
    /// # Safety
    /// Nobody else uses `meta`.
    #[inline]
    pub unsafe fn settle(&self, meta: *mut Meta, counters: &LaneCounters) {
        // SAFETY: by the caller.
        let time = unsafe { &mut (*meta).rx_time_ns };
        *time = self.0.monotonic_ns(*time).map_or(0, NonZeroU64::get);
        if *time == 0 {
            counters.rx_timed_by_lane.add(1);
        }
    }
}

/// Nanoseconds since 1970; 0 if that is none.
fn wall_ns(time: libc::timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).ok();
    let ns = u64::try_from(time.tv_nsec).ok();
    let whole = seconds.and_then(|s| s.checked_mul(1_000_000_000)?.checked_add(ns?));
    whole.unwrap_or(0)
}

/// Bytes of the control message `SCM_TIMESTAMPING`: three times, of which the first is the kernel's
/// (linux/errqueue.h).
const TIME: usize = cmsg_space(3 * size_of::<libc::timespec>());
const _: () = assert!(size_of::<libc::timespec>() == 16);

/// `CMSG_SPACE` as a constant function.
const fn cmsg_space(len: usize) -> usize {
    // SAFETY: CMSG_SPACE computes; it touches no memory.
    unsafe { libc::CMSG_SPACE(len as u32) as usize }
}

/// Reads the control messages that came with a packet into `meta`; returns the length of the segments that it consists
/// of, 0: it is a single datagram.
///
/// # Safety
/// `header` names a control area that the kernel has filled, with the number of bytes that it wrote in whole control
/// messages; nobody else uses `meta`.
pub unsafe fn read_control(header: *const libc::msghdr, meta: *mut Meta) -> usize {
    let mut segment = 0;
    // SAFETY: by the caller; the data of each kind has the length that the kernel's headers give it (linux/udp.h: int;
    // linux/in.h: in_pktinfo, ip(7): int; linux/ipv6.h: in6_pktinfo, int; linux/errqueue.h: three timespec), and is
    // read unaligned.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            let data = libc::CMSG_DATA(control);
            match ((*control).cmsg_level, (*control).cmsg_type) {
                (libc::SOL_UDP, UDP_GRO) => {
                    segment = usize::try_from(data.cast::<libc::c_int>().read_unaligned()).unwrap_or(0);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    (&mut (*meta).local)[..4].copy_from_slice(&info.ipi_spec_dst.s_addr.to_ne_bytes());
                    (*meta).interface = info.ipi_ifindex as u32;
                    (*meta).has_local = true;
                    // A packet to one host was sent to the address that answers (`fib_compute_spec_dst`).
                    (*meta).to_group = info.ipi_addr.s_addr != info.ipi_spec_dst.s_addr;
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    (*meta).local = info.ipi6_addr.s6_addr;
                    (*meta).interface = info.ipi6_ifindex;
                    (*meta).has_local = true;
                    (*meta).to_group = Ipv6Addr::from(info.ipi6_addr.s6_addr)
                        .to_ipv4_mapped()
                        .map_or(info.ipi6_addr.s6_addr[0] == 0xff, |ip| {
                            ip.is_multicast() || ip.is_broadcast()
                        });
                }
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    let ttl = data.cast::<libc::c_int>().read_unaligned();
                    (*meta).ttl = u8::try_from(ttl).unwrap_or(0);
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    (*meta).rx_time_ns = wall_ns(data.cast::<libc::timespec>().read_unaligned());
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    segment
}
