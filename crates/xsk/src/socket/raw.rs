//! A socket's descriptor, the mappings of its rings, and the calls on them.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::config::Options;
use crate::Device;
use crate::handle::{Kernel, Ready};
use crate::mapping::Mapping;

/// Interval at which a waiting socket checks that its device still exists: poll(2) does not report a removed device.
const HEALTH: Duration = Duration::from_millis(100);

/// A bound socket of the kernel's. The mappings of its rings stay for as long as it lives.
#[derive(Debug)]
pub(crate) struct LinuxSocket {
    pub(super) descriptor: OwnedFd,
    pub(super) device: Device,
    pub(super) queue: u32,
    pub(super) options: Options,
    /// Frames that the kernel took to send, and the driver refused.
    pub(super) tx_dropped: AtomicU64,
    /// The rings lie in these.
    pub(super) _mappings: Vec<Mapping>,
}

impl LinuxSocket {
    /// Makes the kernel send what lies in the TX ring.
    pub(crate) fn wake_tx(&self) -> io::Result<()> {
        // SAFETY: no buffer and no address are given, so that the kernel touches no memory of ours.
        let result = unsafe {
            let fd = self.descriptor.as_raw_fd();
            libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        let result = done(result as i64);
        if let Err(e) = &result
            && e.raw_os_error() == Some(libc::EBUSY)
            && !self.options.zero_copy
        {
            // In copy mode the kernel says this for one thing: a frame that it had taken out of the ring and completed
            // was dropped by the driver (NET_XMIT_DROP). Each call ends with the first of them.
            self.tx_dropped.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// Makes the kernel look at the fill ring, and poll the device when busy polling.
    pub(crate) fn wake_rx(&self) -> io::Result<()> {
        let (none, nowhere) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: as above.
        let result = unsafe {
            let fd = self.descriptor.as_raw_fd();
            libc::recvfrom(fd, std::ptr::null_mut(), 0, libc::MSG_DONTWAIT, none, nowhere)
        };
        match done(result as i64) {
            // Before Linux 5.11 such a socket looks at its rings when it is polled, and has no recvfrom(2).
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                let mut entry = libc::pollfd {
                    fd: self.descriptor.as_raw_fd(),
                    events: libc::POLLIN,
                    revents: 0,
                };
                // SAFETY: one entry, alive during the call.
                done(unsafe { libc::poll(&raw mut entry, 1, 0) }.into())
            }
            woken => woken,
        }
    }

    /// Sleeps until the socket is ready for what is asked for, or the time is over.
    pub(crate) fn poll(&self, want: Ready, timeout: Duration) -> io::Result<Ready> {
        let mut entry = libc::pollfd {
            fd: self.descriptor.as_raw_fd(),
            events: if want.rx { libc::POLLIN } else { 0 } | if want.tx { libc::POLLOUT } else { 0 },
            revents: 0,
        };
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let slice = left.min(HEALTH);
            let time = libc::timespec {
                tv_sec: slice.as_secs() as _,
                tv_nsec: slice.subsec_nanos() as _,
            };
            // SAFETY: one entry and one time, both alive during the call.
            match unsafe { libc::ppoll(&raw mut entry, 1, &raw const time, std::ptr::null()) } {
                0 => {}
                -1 => match io::Error::last_os_error() {
                    // Treated as a timeout: the sender of the signal wants the caller to look up.
                    e if e.kind() == io::ErrorKind::Interrupted => return Ok(Ready::default()),
                    e => return Err(e),
                },
                _ => {
                    let ready = Ready {
                        rx: entry.revents & libc::POLLIN != 0,
                        tx: entry.revents & libc::POLLOUT != 0,
                    };
                    // Neither: an error, which the check below names.
                    if ready != Ready::default() {
                        return Ok(ready);
                    }
                }
            }
            self.health()?;
            if left <= slice {
                return Ok(Ready::default());
            }
        }
    }

    /// Fails with `ENXIO` when the device is gone, with `ENETDOWN` when it is down.
    fn health(&self) -> io::Result<()> {
        match self.wake_rx() {
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENXIO | libc::ENODEV | libc::ENETDOWN)) => Err(e),
            _ => Ok(()),
        }
    }
}

impl Kernel {
    /// The real one's socket; `None` for the fake.
    pub(super) fn linux(&self) -> Option<&LinuxSocket> {
        match self {
            Self::Linux(socket) => Some(socket),
            #[cfg(any(test, feature = "fake"))]
            Self::Fake(_) => None,
        }
    }
}

impl AsFd for LinuxSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn done(result: i64) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// A new AF_XDP socket.
pub(super) fn open() -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers.
    let raw = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    done(raw.into())?;
    // SAFETY: a fresh descriptor that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Plain data of the kernel's interface: no padding, no pointers, every bit pattern a value.
///
/// # Safety
/// It is.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for i32 {}
// SAFETY: `repr(C)`, integers that fill it (asserted where it is defined).
unsafe impl Plain for crate::abi::UmemReg {}
// SAFETY: as above.
unsafe impl Plain for crate::abi::MmapOffsets {}
// SAFETY: as above.
unsafe impl Plain for crate::abi::RawStatistics {}
// SAFETY: as above.
unsafe impl Plain for crate::abi::RawOptions {}
// SAFETY: as above.
unsafe impl Plain for crate::abi::SockaddrXdp {}

pub(super) fn set<T: Plain>(fd: BorrowedFd<'_>, level: i32, option: i32, value: T) -> io::Result<()> {
    // SAFETY: the kernel reads the value's bytes, all of which are initialised (Plain).
    let result = unsafe {
        let length = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length)
    };
    done(result.into())
}

/// The value, and how many bytes of it the kernel wrote: older ones know shorter structures. The rest is zero.
pub(super) fn get<T: Plain>(fd: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<(T, usize)> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the value's size.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    done(result.into())?;
    // SAFETY: zeroed before, and every bit pattern is a value (Plain).
    Ok((unsafe { value.assume_init() }, length as usize))
}

pub(super) fn bind(fd: BorrowedFd<'_>, address: crate::abi::SockaddrXdp) -> io::Result<()> {
    // SAFETY: the kernel reads the address, whose size is passed with it.
    let result = unsafe {
        let length = size_of_val(&address) as libc::socklen_t;
        libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length)
    };
    done(result.into())
}
