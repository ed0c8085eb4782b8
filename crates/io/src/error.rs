//! Errors of the paths: the operation, the object, and what the engine may do about it.

use std::sync::Arc;

/// Result of a path's operation.
pub type Result<T> = core::result::Result<T, Error>;

/// What an error means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The device is down; it may come back.
    LinkDown,
    /// The device has vanished.
    Gone,
    /// The privilege is missing.
    Permission,
    /// The address or device is in use by another program.
    InUse,
    /// No such device, address or queue.
    NotFound,
    /// The option or value can't be had here.
    Unsupported,
    /// Anything else.
    Other,
}

/// A failed operation on a path: says what was tried, on what, and why it failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{op} {object}: {cause}")]
#[non_exhaustive]
pub struct Error {
    /// What was tried ("bind", "set PACKET_RX_RING of 4096 frames on").
    pub op: &'static str,
    /// On what ("eth1 queue 0", "10.99.0.1:9000").
    pub object: Arc<str>,
    /// Why it failed, and where known what to do.
    pub cause: Arc<str>,
    /// What the engine may do about it.
    pub kind: ErrorKind,
}

impl Error {
    /// An error of the given kind.
    pub fn new(op: &'static str, object: impl Into<Arc<str>>, cause: impl Into<Arc<str>>, kind: ErrorKind) -> Self {
        Self {
            op,
            object: object.into(),
            cause: cause.into(),
            kind,
        }
    }

    /// An error from the operating system; its kind follows from the error number.
    pub fn os(op: &'static str, object: impl Into<Arc<str>>, source: &std::io::Error) -> Self {
        // Numbers of Linux's asm-generic/errno*.h, the same on every architecture mpps runs on.
        const EPERM: i32 = 1;
        const ENOENT: i32 = 2;
        const ENXIO: i32 = 6;
        const EACCES: i32 = 13;
        const EBUSY: i32 = 16;
        const ENODEV: i32 = 19;
        const ENOPROTOOPT: i32 = 92;
        const EOPNOTSUPP: i32 = 95;
        const EADDRINUSE: i32 = 98;
        const EADDRNOTAVAIL: i32 = 99;
        const ENETDOWN: i32 = 100;
        const ENETUNREACH: i32 = 101;
        const EHOSTUNREACH: i32 = 113;
        let kind = match source.raw_os_error() {
            Some(EPERM | EACCES) => ErrorKind::Permission,
            Some(ENXIO | ENODEV) => ErrorKind::Gone,
            Some(EADDRINUSE | EBUSY) => ErrorKind::InUse,
            Some(EADDRNOTAVAIL | ENOENT) => ErrorKind::NotFound,
            Some(ENETDOWN | ENETUNREACH | EHOSTUNREACH) => ErrorKind::LinkDown,
            Some(ENOPROTOOPT | EOPNOTSUPP) => ErrorKind::Unsupported,
            _ => ErrorKind::Other,
        };
        Self::new(op, object, source.to_string(), kind)
    }
}
