//! Errors for what the kernel refuses while a socket is made.

use std::io;

use super::{Maker, Peer};
use crate::Error;

impl Maker<'_> {
    /// Returns the error for the errno with which the kernel refused to bind.
    pub(super) fn not_bound(&self, e: io::Error, peer: Option<&Peer>) -> Error {
        match e.raw_os_error() {
            Some(libc::EBUSY) => Error::Busy {
                object: self.name.clone(),
            },
            Some(libc::EINVAL) => match self.device.queues() {
                Ok(queues) if self.queue >= queues.current => Error::NotFound {
                    object: self.name.clone(),
                    why: format!("the device has {} receive queues, numbered from 0", queues.current),
                },
                _ if self.config.multi_buffer => self.unsupported("multi-buffer", "it needs Linux 6.6"),
                _ => self.failure("bind", e),
            },
            Some(libc::EOPNOTSUPP) => match peer {
                Some(peer) if peer.handle.traits.zero_copy => self.unsupported(
                    "zero-copy mode",
                    "the driver can't, and the socket that it shares its UMEM with is in that mode: bind that one in \
                     copy mode",
                ),
                _ if self.config.multi_buffer => self.unsupported(
                    "zero-copy mode with multi-buffer",
                    "the driver can't: use copy mode or auto",
                ),
                _ => self.unsupported("zero-copy mode", "the driver can't: want copy mode, or auto"),
            },
            _ => self.failure("bind", e),
        }
    }

    /// Returns the error for zero-copy mode if the kernel refuses it but takes copy mode.
    pub(super) fn not_zero_copy(&self, e: &io::Error) -> Error {
        let driver = match self.device.driver() {
            name if name.is_empty() => "the driver".to_owned(),
            name => name,
        };
        let want = "want copy mode, or auto";
        let why = match e.raw_os_error() {
            Some(libc::EOPNOTSUPP) if self.config.multi_buffer => {
                format!("{driver} has none, or none with multi-buffer")
            }
            Some(libc::EOPNOTSUPP) => format!("{driver} has none"),
            _ => format!("{driver} refuses it ({e}) and takes copy mode"),
        };
        // A driver that has none says so, whatever the device can.
        let lacks = if driver == "virtio_net" && e.raw_os_error() != Some(libc::EOPNOTSUPP) {
            self.device.virtio_lacks()
        } else {
            None
        };
        let why = match lacks {
            Some(lacks) => format!("{why}: {lacks}; or {want}"),
            None => format!("{why}: {want}"),
        };
        self.unsupported("zero-copy mode", &why)
    }

    /// Returns the error for something that this kernel or driver lacks.
    pub(super) fn unsupported(&self, what: &'static str, why: &str) -> Error {
        Error::Unsupported {
            what,
            object: self.name.clone(),
            why: why.into(),
        }
    }

    /// Causes that every step may have.
    pub(super) fn failure(&self, op: &'static str, e: io::Error) -> Error {
        let object = self.name.clone();
        match e.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::Permission {
                op,
                object,
                need: "CAP_NET_RAW",
            },
            Some(libc::ENODEV | libc::ENXIO) => Error::Gone { object },
            Some(libc::ENETDOWN) => Error::Down { object },
            // The kernel's word for the limit (mm_account_pinned_pages) is ENOBUFS.
            Some(libc::ENOBUFS | libc::ENOMEM) if memlock_limit() < self.umem.size() as u64 => Error::Memlock {
                op,
                need: self.umem.size() as u64,
                limit: memlock_limit(),
            },
            _ => Error::Os { op, object, source: e },
        }
    }
}

/// How many bytes this process may lock, if it lacks the capability to lock more.
pub(super) fn memlock_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes one structure, which is ours.
    match unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}
