//! Asks the kernel about a device (`RTM_GETLINK`, `include/uapi/linux/if_link.h`).
//!
//! The answer gives the number of queues, for drivers that do not report their channels, and the attached XDP programs,
//! which no other interface shows. Works in the network namespace of the calling thread; sysfs would not.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_XDP: u16 = 43;
/// `IFLA_XDP_PROG_ID`, then the same for native, skb and hardware mode.
const IFLA_XDP_PROG_ID: std::ops::RangeInclusive<u16> = 4..=7;
/// `struct nlmsghdr` and `struct ifinfomsg`.
const HEADER: usize = 16;
const IFINFO: usize = 16;

/// Answer of the kernel about a device.
#[derive(Debug, Default)]
pub(crate) struct LinkInfo {
    /// Number of receive queues that the device was made with, if the kernel reports it.
    pub(crate) rx_queues: Option<u32>,
    /// XDP programs attached to it, by id.
    pub(crate) programs: Vec<u32>,
}

/// Asks for the device of this index.
pub(crate) fn link(index: u32) -> io::Result<LinkInfo> {
    // SAFETY: socket(2) takes no pointers.
    let raw = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_ROUTE,
        )
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else knows.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };

    let mut request = Vec::with_capacity(HEADER + IFINFO);
    request.extend(((HEADER + IFINFO) as u32).to_ne_bytes());
    request.extend(RTM_GETLINK.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend([0; 4]);
    request.extend(index.to_ne_bytes());
    request.extend([0; 8]);
    // SAFETY: the kernel reads `request.len()` bytes, which are there. Without an address it is the receiver.
    let sent = unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }

    let mut answer = vec![0_u8; 64 << 10];
    // SAFETY: the kernel writes at most `answer.len()` bytes to memory that is ours alone.
    let got = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    parse(&answer[..got as usize])
}

fn parse(message: &[u8]) -> io::Result<LinkInfo> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "malformed answer from rtnetlink");
    let body = message.get(HEADER..).ok_or_else(malformed)?;
    match u16_at(message, 4) {
        Some(NLMSG_ERROR) => {
            let errno = u32_at(body, 0).ok_or_else(malformed)? as i32;
            Err(io::Error::from_raw_os_error(-errno))
        }
        Some(RTM_NEWLINK) => {
            let mut info = LinkInfo::default();
            for (kind, value) in attributes(body.get(IFINFO..).unwrap_or_default()) {
                match kind {
                    IFLA_NUM_RX_QUEUES => info.rx_queues = u32_at(value, 0),
                    IFLA_XDP => {
                        let ids = attributes(value).filter(|(kind, _)| IFLA_XDP_PROG_ID.contains(kind));
                        info.programs.extend(ids.filter_map(|(_, id)| u32_at(id, 0)));
                    }
                    _ => {}
                }
            }
            info.programs.sort_unstable();
            info.programs.dedup();
            Ok(info)
        }
        _ => Err(malformed()),
    }
}

/// Attributes as `struct rtattr`: length, type, value, each aligned to 4.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        // The two top bits are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
        let kind = u16_at(bytes, 2)? & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn the_loopback_device_has_a_queue() {
        let info = link(1).unwrap();
        assert_eq!(info.rx_queues, Some(1));
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn a_device_that_is_not_there_is_told() {
        assert_eq!(link(0x7fff_fff0).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(message in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&message);
        }
    }
}
