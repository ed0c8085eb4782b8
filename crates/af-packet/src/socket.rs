//! Packet sockets: the system calls, each behind a safe function.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A plain-data value that the kernel may read or write bytewise.
///
/// # Safety
/// The type must be `repr(C)` or primitive, without padding that matters, and valid for every bit pattern.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: primitives and structs of integers.
unsafe impl Plain for libc::c_int {}
// SAFETY: struct of integers.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: struct of integers.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: struct of integers.
unsafe impl Plain for libc::packet_mreq {}

/// `PACKET_FANOUT_FLAG_UNIQUEID`: the kernel picks a group id that nobody uses.
const FANOUT_UNIQUE_ID: u32 = 0x2000;

/// Result of a check of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    NoCarrier,
    Down,
    Gone,
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// One AF_PACKET socket of type `SOCK_RAW`.
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// A socket that receives nothing until it is bound to a protocol.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no memory is passed; the descriptor is new and owned from here on.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: as above.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(crate) fn set<T: Plain>(&self, level: libc::c_int, name: libc::c_int, value: T) -> io::Result<()> {
        // SAFETY: pointer and length describe `value`, which lives through the call.
        check(unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                size_of::<T>() as u32,
            )
        })
        .map(drop)
    }

    pub(crate) fn get<T: Plain>(&self, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
        // SAFETY: T is plain data, valid when zeroed.
        let mut value: T = unsafe { zeroed() };
        let mut len = size_of::<T>() as u32;
        // SAFETY: pointer and length describe `value`, which lives through the call.
        check(unsafe { libc::getsockopt(self.0.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) })?;
        Ok(value)
    }

    /// Makes the socket's send buffer at least `bytes`, beyond the system's limit if allowed; never smaller.
    pub(crate) fn raise_send_buffer(&self, bytes: usize) {
        self.raise(libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, bytes);
    }

    /// Does the same as [`Socket::raise_send_buffer`] for the receive buffer: memory that packets beside the ring may
    /// take.
    pub(crate) fn raise_receive_buffer(&self, bytes: usize) {
        self.raise(libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, bytes);
    }

    fn raise(&self, option: libc::c_int, beyond: libc::c_int, bytes: usize) {
        let bytes = bytes.min(libc::c_int::MAX as usize / 2) as libc::c_int;
        // The kernel stores and reports twice the value. Failing to raise it costs throughput, not correctness.
        if self
            .get::<libc::c_int>(libc::SOL_SOCKET, option)
            .is_ok_and(|now| now < bytes)
            && self.set(libc::SOL_SOCKET, beyond, bytes).is_err()
        {
            let _ = self.set(libc::SOL_SOCKET, option, bytes);
        }
    }

    /// Takes the next packet out of the socket's own queue, cut to `buffer`; returns its length before it was cut.
    pub(crate) fn take(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // An error that is pending, as after the link was down, comes in place of the packet and is then gone.
        match self.take_once(buffer) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => self.take_once(buffer),
            taken => taken,
        }
    }

    fn take_once(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: pointer and length describe `buffer`, which lives through the call.
        let len = unsafe {
            libc::recv(
                self.0.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
            )
        };
        usize::try_from(len).map_err(|_| io::Error::last_os_error())
    }

    /// Binds to the interface; `protocol` in host byte order, 0 to receive nothing.
    pub(crate) fn bind(&self, ifindex: u32, protocol: u16) -> io::Result<()> {
        let address = address(ifindex, protocol);
        // SAFETY: pointer and length describe `address`, which lives through the call.
        check(unsafe {
            libc::bind(
                self.0.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        })
        .map(drop)
    }

    /// Lets only packets through that `program` (classic BPF) accepts.
    pub(crate) fn attach_filter(&self, program: &[libc::sock_filter]) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_ptr().cast_mut(),
        };
        // SAFETY: pointer and length describe `program`, whose instructions the kernel only reads and copies.
        check(unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of::<libc::sock_fprog>() as u32,
            )
        })
        .map(drop)
    }

    pub(crate) fn detach_filter(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0)
    }

    /// Joins fanout group `id`, or makes one when `id` is `None`; returns the group's id. `hint` is tried first if
    /// the kernel can't pick an id by itself (before Linux 4.12).
    pub(crate) fn join_fanout(&self, mode: u32, id: Option<u16>, hint: u16) -> io::Result<u16> {
        let join = |id: u16, mode: u32| {
            self.set(
                libc::SOL_PACKET,
                libc::PACKET_FANOUT,
                (u32::from(id) | mode << 16) as i32,
            )
        };
        if let Some(id) = id {
            return join(id, mode).map(|()| id);
        }
        if join(0, mode | FANOUT_UNIQUE_ID).is_ok() {
            return self
                .get::<libc::c_int>(libc::SOL_PACKET, libc::PACKET_FANOUT)
                .map(|v| v as u16);
        }
        let mut last = io::Error::from_raw_os_error(libc::EBUSY);
        for attempt in 0..64u16 {
            let id = hint.wrapping_add(attempt.wrapping_mul(257));
            match join(id, mode) {
                Ok(()) => return Ok(id),
                // Another program's group of this number has another mode or another interface.
                Err(e)
                    if matches!(
                        e.raw_os_error(),
                        Some(libc::EINVAL | libc::EBUSY | libc::ENOSPC | libc::EALREADY)
                    ) =>
                {
                    last = e
                }
                Err(e) => return Err(e),
            }
        }
        Err(last)
    }

    /// Asks the kernel to send what the transmit ring holds. Does not wait.
    #[inline]
    pub(crate) fn kick(&self, to: &libc::sockaddr_ll) -> io::Result<()> {
        // SAFETY: no data is passed; the address is valid through the call and its length is its own.
        let sent = unsafe {
            libc::sendto(
                self.0.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::from_ref(to).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// The state of the interface with this index, in the network namespace that the socket was made in.
    pub(crate) fn link(&self, ifindex: u32) -> Link {
        // SAFETY: ifreq is plain data, valid when zeroed.
        let mut request: libc::ifreq = unsafe { zeroed() };
        request.ifr_ifru.ifru_ifindex = ifindex as i32;
        // SAFETY: SIOCGIFNAME reads the index and writes the name within `request`.
        if check(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFNAME as _, &raw mut request) }).is_err() {
            return Link::Gone;
        }
        // SAFETY: SIOCGIFFLAGS reads the name and writes the flags within `request`.
        if check(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) }).is_err() {
            return Link::Gone;
        }
        // SAFETY: the call above has set the flags.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        match (flags & libc::IFF_UP != 0, flags & libc::IFF_RUNNING != 0) {
            (false, _) => Link::Down,
            (true, false) => Link::NoCarrier,
            (true, true) => Link::Up,
        }
    }
}

/// The address of an interface; `protocol` in host byte order.
pub(crate) fn address(ifindex: u32, protocol: u16) -> libc::sockaddr_ll {
    // SAFETY: sockaddr_ll is plain data, valid when zeroed.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = ifindex as i32;
    address
}

/// Sleeps until one of `sockets` (with its poll events) is ready or `timeout` has passed; true when one of them
/// reports an error.
pub(crate) fn poll(sockets: &[(BorrowedFd<'_>, libc::c_short)], timeout: Duration) -> io::Result<bool> {
    let mut fds = [libc::pollfd {
        fd: -1,
        events: 0,
        revents: 0,
    }; 2];
    for (slot, (fd, events)) in fds.iter_mut().zip(sockets) {
        (slot.fd, slot.events) = (fd.as_raw_fd(), *events);
    }
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
    };
    // SAFETY: `fds` and `timeout` live through the call; entries with fd -1 are ignored.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as u64, &raw const timeout, std::ptr::null()) };
    match check(ready) {
        Ok(_) => Ok(fds
            .iter()
            .any(|f| f.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0)),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(e) => Err(e),
    }
}
