//! Promiscuous mode, held by a socket: the kernel counts who wants it, and takes it back when the process ends, however
//! it does.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An interface's promiscuous mode, for as long as this lives.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Makes interface `ifindex` receive frames for other MAC addresses, too (`PACKET_MR_PROMISC`, `man 7 packet`).
    ///
    /// # Errors
    /// Without `CAP_NET_RAW`, or when the interface has vanished.
    pub fn hold(ifindex: u32) -> io::Result<Self> {
        // SAFETY: socket(2) takes no pointers. Protocol 0: the socket itself receives nothing.
        let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else has.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        let membership = libc::packet_mreq {
            mr_ifindex: ifindex as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: pointer and length describe the structure that this option takes; it outlives the call.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const membership).cast(),
                size_of::<libc::packet_mreq>() as u32,
            )
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { _socket: socket })
    }
}
