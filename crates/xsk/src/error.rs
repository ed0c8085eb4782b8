//! Errors: what was tried, on what, why it failed, and what would be right.

use std::io;
use std::sync::Arc;

/// Result of an operation of this crate.
pub type Result<T> = core::result::Result<T, Error>;

/// A failed operation, in one line: what was tried, on what, why, and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another AF_XDP socket has the queue.
    #[error("bind {object}: in use by another AF_XDP socket")]
    Busy {
        /// Device and queue.
        object: Arc<str>,
    },
    /// Another XDP program is attached.
    #[error("attach an XDP program to {device}: {by} is attached already")]
    ProgramAttached {
        /// The interface.
        device: Arc<str>,
        /// The program that is there, by number and name if known.
        by: String,
    },
    /// The kernel or the driver can't do it.
    #[error("{object}: {what}: {why}")]
    Unsupported {
        /// Operation or feature that was asked for.
        what: &'static str,
        /// Interface or queue that it was asked for.
        object: Arc<str>,
        /// Reason why it is not available, and what is.
        why: String,
    },
    /// A value that can't be used.
    #[error("{what} of {value}: want {want}")]
    Invalid {
        /// Name of the value.
        what: &'static str,
        /// The value.
        value: u64,
        /// Range or form of a valid value.
        want: String,
    },
    /// Too few frames, or too little memory, for what was asked.
    #[error("{what}: have {have}, need {need}")]
    TooSmall {
        /// Name of what is too small.
        what: &'static str,
        /// Amount available.
        have: u64,
        /// Amount needed.
        need: u64,
    },
    /// The limit of locked memory is in the way.
    #[error(
        "{op}: {need} bytes of locked memory needed, the limit (ulimit -l) is {limit} for all programs of the user \
         together: raise it or run with CAP_IPC_LOCK"
    )]
    Memlock {
        /// Operation that failed.
        op: &'static str,
        /// Bytes needed.
        need: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Not enough huge pages are reserved.
    #[error(
        "map {len} bytes in huge pages of {page} bytes: not enough are free: reserve {count} \
         (echo {count} > /sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages) or use normal pages"
    )]
    NoHugePages {
        /// Bytes wanted.
        len: usize,
        /// Bytes of one page.
        page: usize,
        /// Pages wanted.
        count: usize,
        /// KiB of one page.
        kib: usize,
    },
    /// The privilege is missing.
    #[error("{op} {object}: not permitted: it needs {need}")]
    Permission {
        /// Operation that failed.
        op: &'static str,
        /// Object of the operation.
        object: Arc<str>,
        /// The capability that is missing.
        need: &'static str,
    },
    /// No such interface or queue.
    #[error("{object}: {why}")]
    NotFound {
        /// Name that was not found.
        object: Arc<str>,
        /// Reason, and what exists instead.
        why: String,
    },
    /// The interface is down; it may come back.
    #[error("{object}: the interface is down")]
    Down {
        /// Device and queue.
        object: Arc<str>,
    },
    /// The interface has vanished, or its queue was taken away: the socket is of no more use.
    #[error("{object}: the interface is gone")]
    Gone {
        /// Device and queue.
        object: Arc<str>,
    },
    /// The socket has no such ring.
    #[error("{object}: the socket was made without a {ring} ring")]
    NoRing {
        /// Device and queue.
        object: Arc<str>,
        /// `RX` or `TX`.
        ring: &'static str,
    },
    /// The socket's halves exist once.
    #[error("{object}: the socket's halves were taken before")]
    Taken {
        /// Device and queue.
        object: Arc<str>,
    },
    /// Rings and pool lie in different memory.
    #[error("{object}: the pool belongs to another UMEM than the socket")]
    OtherUmem {
        /// Device and queue.
        object: Arc<str>,
    },
    /// The XDP program could not be loaded or attached.
    #[error("{op} {object}: {why}")]
    Program {
        /// Operation that failed.
        op: &'static str,
        /// Object of the operation.
        object: Arc<str>,
        /// Reason of the failure.
        why: String,
    },
    /// Anything else that the operating system refuses.
    #[error("{op} {object}: {source}")]
    Os {
        /// Operation that failed.
        op: &'static str,
        /// Object of the operation.
        object: Arc<str>,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Error {
    /// The operating system's refusal of `op` on `object`.
    pub(crate) fn os(op: &'static str, object: impl Into<Arc<str>>, source: io::Error) -> Self {
        Self::Os {
            op,
            object: object.into(),
            source,
        }
    }

    /// Returns the error for a wake-up that failed; `None` for "try again", which is no error.
    pub(crate) fn wakeup(op: &'static str, object: &Arc<str>, source: io::Error) -> Option<Self> {
        let object = object.clone();
        match source.raw_os_error() {
            // Try again: the kernel is at work, out of skbs, has sent its share of one call, or was interrupted.
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => None,
            Some(libc::ENETDOWN) => Some(Self::Down { object }),
            // Not bound any more: the device was unregistered.
            Some(libc::ENXIO | libc::ENODEV) => Some(Self::Gone { object }),
            _ => Some(Self::Os { op, object, source }),
        }
    }
}
