//! Errors of the paths: the operation, the object, and what the engine may do about it.

use std::net::IpAddr;
use std::sync::Arc;

/// Result of a path's operation.
pub type Result<T> = core::result::Result<T, Error>;

/// Meaning of an error for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The device is down; it may come back.
    LinkDown,
    /// The device is there, and packets can't leave by it for another reason; that may pass.
    NoWay(Obstacle),
    /// The device has vanished.
    Gone,
    /// The privilege is missing.
    Permission,
    /// The address or device is in use by another program.
    InUse,
    /// No such device, address or queue.
    NotFound,
    /// The option or value is not available here.
    Unsupported,
    /// Anything else.
    Other,
}

/// Reason why packets can't leave though the device is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The source address is on no interface of this host.
    NoAddress,
    /// This host has no route to the destination.
    NoRoute,
    /// The route to the destination is of type `unreachable`.
    Unreachable,
    /// The route to the destination is of type `blackhole`.
    Blackhole,
    /// The route to the destination is of type `prohibit`.
    Prohibit,
    /// Packets are longer than the MTU of the interface or route.
    TooLong,
    /// The kernel refuses packets, and its tables do not show why.
    Unknown,
}

impl Obstacle {
    /// All obstacles, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::NoAddress,
        Self::NoRoute,
        Self::Unreachable,
        Self::Blackhole,
        Self::Prohibit,
        Self::TooLong,
        Self::Unknown,
    ];

    /// Returns a sentence on the obstacle, for packets between two addresses.
    pub fn cause(self, src: IpAddr, dst: IpAddr) -> String {
        match self {
            Self::NoAddress => format!("this host does not have the source address {src}"),
            Self::NoRoute => format!("this host has no route to {dst}"),
            Self::Unreachable => format!("this host's route to {dst} is of type unreachable"),
            Self::Blackhole => format!("this host's route to {dst} is of type blackhole"),
            Self::Prohibit => format!("this host's route to {dst} is of type prohibit"),
            Self::TooLong => format!("packets to {dst} are longer than the MTU of the interface or route"),
            Self::Unknown => format!("the kernel refuses to send to {dst}"),
        }
    }

    /// Returns a sentence on the time for which the obstacle lasted: `for 2.000 s ...`.
    pub const fn while_it_lasted(self) -> &'static str {
        match self {
            Self::NoAddress => "this host did not have the source address",
            Self::NoRoute => "this host had no route to the destination",
            Self::Unreachable => "this host's route to the destination was of type unreachable",
            Self::Blackhole => "this host's route to the destination was of type blackhole",
            Self::Prohibit => "this host's route to the destination was of type prohibit",
            Self::TooLong => "packets were longer than the MTU of the interface or route",
            Self::Unknown => "the kernel refused to send",
        }
    }
}

/// A failed operation on a path: says what was tried, on what, and why it failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{op} {object}: {cause}")]
#[non_exhaustive]
pub struct Error {
    /// Operation that was tried ("bind", "set PACKET_RX_RING of 4096 frames on").
    pub op: &'static str,
    /// Object that it was tried on ("eth1 queue 0", "10.99.0.1:9000").
    pub object: Arc<str>,
    /// Why it failed, and where known what to do.
    pub cause: Arc<str>,
    /// Kind of the error: decides what the engine may do about it.
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
