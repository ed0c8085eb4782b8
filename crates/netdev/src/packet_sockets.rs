//! Packet sockets that a library of this process has opened. Only they count the packets that their rings had no room
//! for.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Packet sockets of this process on one interface, each by a descriptor of our own.
#[derive(Debug)]
pub struct PacketSockets {
    sockets: Vec<OwnedFd>,
    dropped: AtomicU64,
}

impl PacketSockets {
    /// Finds them among the open descriptors.
    ///
    /// # Errors
    /// When the descriptors can't be listed or duplicated.
    pub fn of_this_process(ifindex: u32) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
            let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            if bound_to(fd) == Some(ifindex) {
                // SAFETY: the descriptor was open a moment ago, and its owner keeps it while its port is open; should
                // it be closed by now, duplicating fails.
                let theirs = unsafe { BorrowedFd::borrow_raw(fd) };
                sockets.push(theirs.try_clone_to_owned()?);
            }
        }
        Ok(Self {
            sockets,
            dropped: AtomicU64::new(0),
        })
    }

    /// Packets that their rings had no room for, since they were found. Reading clears the kernel's count: whatever
    /// else in this process reads it finds only the rest.
    pub fn drops(&self) -> u64 {
        for socket in &self.sockets {
            // SAFETY: plain numbers, for which zeros are a value.
            let mut stats: libc::tpacket_stats = unsafe { zeroed() };
            let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
            // SAFETY: pointer and length describe the structure, which outlives the call.
            let result = unsafe {
                libc::getsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_PACKET,
                    libc::PACKET_STATISTICS,
                    (&raw mut stats).cast(),
                    &mut len,
                )
            };
            if result == 0 {
                self.dropped.fetch_add(u64::from(stats.tp_drops), Ordering::Relaxed);
            }
        }
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The interface that descriptor `fd` is bound to, if it is a packet socket.
fn bound_to(fd: i32) -> Option<u32> {
    // SAFETY: plain numbers, for which zeros are a value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: pointer and length describe the structure, which outlives the call; what is no socket is refused.
    let result = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &mut len) };
    let packet = result == 0 && i32::from(address.sll_family) == libc::AF_PACKET;
    (packet && address.sll_ifindex > 0).then_some(address.sll_ifindex as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_that_are_no_packet_sockets_are_passed_over() {
        let found = PacketSockets::of_this_process(1).expect("descriptors");
        assert_eq!(found.drops(), 0);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        assert_eq!(bound_to(socket.as_raw_fd()), None);
        assert_eq!(bound_to(-1), None);
    }
}
