//! Meaning of the kernel's errors when datagrams are sent and received, whatever way the kernel was called.

use crate::counters::LaneCounters;
use crate::pool::SocketFrame;
use mpps_io::{Error, ErrorKind, Obstacle};
use std::io;

/// Reason why the kernel did not send a message, and what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// The socket buffer is full: try again when the socket is writable.
    Full,
    /// A queue below the socket is full: try again in a little while.
    Busy,
    /// Interrupted: try again.
    Again,
    /// Instead of sending, the kernel reported an earlier packet's ICMP error, which is thereby cleared: try again.
    Pending,
    /// The state of the route, or a pending ICMP error of the same name: a second try shows which.
    Route,
    /// Refused for good, and counted: only this message is concerned. Go on with the next.
    Refused,
    /// The run can't go on: [`send_error`].
    Fatal,
}

/// Judges an error of sending one message of `frames` datagrams, and counts it; [`LaneCounters::tx_failed`] and
/// [`LaneCounters::tx_again`] are left to the caller.
#[cold]
pub fn unsent(error: &io::Error, listening: bool, frames: u64, counters: &LaneCounters) -> Unsent {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Unsent::Full,
        Some(libc::ENOBUFS | libc::ENOMEM) => Unsent::Busy,
        Some(libc::EINTR) => Unsent::Again,
        // A pending ICMP error is reported instead of sending; reporting clears it.
        Some(libc::ECONNREFUSED) => {
            counters.refused.add(1);
            Unsent::Pending
        }
        Some(libc::ENOPROTOOPT | libc::EHOSTDOWN | libc::ENONET) => {
            counters.icmp_errors.add(1);
            Unsent::Pending
        }
        Some(libc::EPERM) => {
            counters.blocked.add(frames);
            Unsent::Refused
        }
        // The answer to one sender can't be sent: only this answer is concerned, whatever the cause. A made-up source
        // address or port must not stop the answers to the others.
        Some(
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EINVAL | libc::EACCES | libc::EMSGSIZE,
        ) if listening => {
            counters.unreachable.add(frames);
            Unsent::Refused
        }
        // The error number is the same for the state of a route, an address that went, a lower MTU and an ICMP error of
        // an earlier packet.
        Some(
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EMSGSIZE | libc::EINVAL | libc::EADDRNOTAVAIL,
        ) => Unsent::Route,
        _ => Unsent::Fatal,
    }
}

/// Meaning of the error of a receive call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreceived {
    /// Nothing was there.
    Nothing,
    /// A pending ICMP error, now cleared and counted: call again.
    Pending,
    /// The run can't go on.
    Fatal,
}

/// Judges an error of receiving. UDP has no errors of its own on receipt: what comes is either "nothing there" or the
/// pending ICMP error of an earlier send (udp(7), `icmp_err_convert` in net/ipv4/icmp.c).
#[cold]
pub fn unreceived(error: &io::Error, counters: &LaneCounters) -> Unreceived {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Unreceived::Nothing,
        Some(libc::ECONNREFUSED) => {
            counters.refused.add(1);
            Unreceived::Pending
        }
        Some(
            libc::ENOPROTOOPT
            | libc::EOPNOTSUPP
            | libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::EHOSTDOWN
            | libc::ENONET
            | libc::EACCES
            | libc::EPROTO
            | libc::EMSGSIZE,
        ) => {
            counters.icmp_errors.add(1);
            Unreceived::Pending
        }
        _ => Unreceived::Fatal,
    }
}

/// Returns the error of a datagram of `len` bytes that can't be sent, as far as its number shows the cause:
/// [`Sockets::explain`](crate::Sockets::explain) looks closer.
#[cold]
pub fn send_error(error: &io::Error, len: usize) -> Error {
    let object = format!("datagram of {len} bytes");
    let obstacle = match error.raw_os_error() {
        Some(libc::EMSGSIZE) => Obstacle::TooLong,
        Some(libc::ENETUNREACH) => Obstacle::NoRoute,
        Some(libc::EHOSTUNREACH) => Obstacle::Unreachable,
        Some(libc::EACCES) => Obstacle::Prohibit,
        Some(libc::EADDRNOTAVAIL) => Obstacle::NoAddress,
        Some(libc::EINVAL) => Obstacle::Unknown,
        Some(libc::EIO) => {
            let cause = format!("{error}: the route is encrypted or tunnelled, which gso=on can't be: try gso=off");
            return Error::new("send", object, cause, ErrorKind::Unsupported);
        }
        _ => return Error::os("send", object, error),
    };
    Error::new("send", object, error.to_string(), ErrorKind::NoWay(obstacle))
}

/// A frame to send on an unconnected socket that has no receiver: it was allocated, not received.
#[cold]
pub fn no_receiver(path: &str) -> Error {
    Error::new(
        "send",
        "an allocated frame",
        format!("a listening {path} port only answers what it received"),
        ErrorKind::Unsupported,
    )
}

/// A frame of a flow that the port does not have.
#[cold]
pub fn no_flow(frame: &SocketFrame<'_>, flows: usize) -> Error {
    let object = format!("a frame of flow {}", frame.flow);
    Error::new(
        "send",
        object,
        format!("the port was opened with flows 0 to {}", flows - 1),
        ErrorKind::Unsupported,
    )
}
