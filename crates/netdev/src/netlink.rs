//! The little of netlink that is needed: ask, and walk the attributes of the answers (`man 7 netlink`).
//!
//! Messages are built and read as bytes, bounds-checked; offsets follow `include/uapi/linux/{netlink,rtnetlink}.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Answers come in datagrams of up to 32 KiB (`NLMSG_GOODSIZE` and what dumps use).
const BUFFER: usize = 64 << 10;

/// A request: message type, flags beside `NLM_F_REQUEST`, the fixed part of the body, then attributes.
pub(crate) struct Request {
    bytes: Vec<u8>,
    /// `NETLINK_ROUTE`, `NETLINK_GENERIC` or `NETLINK_SOCK_DIAG`.
    protocol: libc::c_int,
}

impl Request {
    pub(crate) fn new(kind: u16, flags: libc::c_int, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes[8..12].copy_from_slice(&1u32.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        Self {
            bytes,
            protocol: libc::NETLINK_ROUTE,
        }
    }

    /// A request of generic netlink: the family's number, the command, and the version of the family
    /// (`struct genlmsghdr`).
    pub(crate) fn generic(family: u16, command: u8, version: u8) -> Self {
        Self {
            protocol: libc::NETLINK_GENERIC,
            ..Self::new(family, 0, &[command, version, 0, 0])
        }
    }

    /// A request about sockets.
    pub(crate) fn diagnosis(kind: u16, flags: libc::c_int, fixed: &[u8]) -> Self {
        Self {
            protocol: libc::NETLINK_SOCK_DIAG,
            ..Self::new(kind, flags, fixed)
        }
    }

    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let bytes = &mut self.bytes;
        bytes.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self
    }

    /// Sends the request and calls `each` with the type and body of every answer.
    pub(crate) fn run(self, mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        let mut bytes = self.bytes;
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        let socket = socket(self.protocol)?;
        // SAFETY: pointer and length describe the request, which lives through the call. Unbound and unconnected,
        // a netlink socket sends to the kernel.
        let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let dump = u16::from_ne_bytes([bytes[6], bytes[7]]) & libc::NLM_F_DUMP as u16 == libc::NLM_F_DUMP as u16;
        let mut buffer = vec![0; BUFFER];
        loop {
            // SAFETY: pointer and length describe the buffer, which lives through the call.
            let got = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            if got < 0 {
                return Err(io::Error::last_os_error());
            }
            if answers(&buffer[..got as usize], &mut each)? || !dump {
                return Ok(());
            }
        }
    }
}

fn socket(protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed; the descriptor is new and owned from here on.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// News of the kernel's: messages that it sends unasked.
pub(crate) struct News {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl News {
    /// Subscribes to `groups` (`RTMGRP_…`).
    pub(crate) fn of(groups: u32) -> io::Result<Self> {
        let socket = socket(libc::NETLINK_ROUTE)?;
        // SAFETY: sockaddr_nl is plain data, valid when zeroed.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = groups;
        let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: pointer and length describe `address`, which outlives the call.
        if unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            socket,
            buffer: vec![0; BUFFER],
        })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Calls `each` with the type and body of every message that has come. False: some may be missing.
    pub(crate) fn read(&mut self, mut each: impl FnMut(u16, &[u8])) -> bool {
        loop {
            let (fd, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
            // SAFETY: pointer and length describe the buffer, which lives through the call.
            let got = unsafe { libc::recv(fd, self.buffer.as_mut_ptr().cast(), self.buffer.len(), flags) };
            let Ok(got) = usize::try_from(got) else {
                let error = io::Error::last_os_error().raw_os_error();
                return matches!(error, Some(libc::EAGAIN | libc::EINTR));
            };
            if got == 0 || answers(&self.buffer[..got.min(self.buffer.len())], &mut each).is_err() {
                return false;
            }
        }
    }
}

/// Walks one datagram of answers; true when the last of a dump was among them.
fn answers(mut bytes: &[u8], each: &mut impl FnMut(u16, &[u8])) -> io::Result<bool> {
    while let (Some(len), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let Some(body) = bytes.get(HEADER..len as usize) else {
            break;
        };
        match libc::c_int::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => match u32_at(body, 0).map(u32::cast_signed) {
                Some(0) | None => return Ok(true),
                Some(error) => return Err(io::Error::from_raw_os_error(-error)),
            },
            _ => each(kind, body),
        }
        bytes = bytes.get((len as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The attributes of a body after its fixed part: type (flags removed) and value.
pub(crate) fn attributes(body: &[u8], fixed: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = body.get(fixed..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (len, kind) = (u16_at(rest, 0)? as usize, u16_at(rest, 2)? & 0x3fff);
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_answer_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..300), fixed in 0usize..40) {
            let _ = answers(&bytes, &mut |_, body| attributes(body, fixed).for_each(drop));
            attributes(&bytes, fixed).for_each(drop);
        }

        #[test]
        fn attributes_come_back_as_they_were_put_in(
            values in prop::collection::vec((1u16..100, prop::collection::vec(any::<u8>(), 0..40)), 0..8),
        ) {
            let request = values.iter().fold(Request::new(1, 0, &[0; 12]), |r, (k, v)| r.attribute(*k, v));
            let got: Vec<_> = attributes(&request.bytes[HEADER..], 12).map(|(k, v)| (k, v.to_vec())).collect();
            prop_assert_eq!(got, values);
        }
    }
}
