//! One UDP socket and the options that this path sets on it.

use crate::address::RawAddr;
use mpps_io::SocketFlow;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Indices of the memory that received datagrams take and of its limit in the answer of `SO_MEMINFO`
/// (`SK_MEMINFO_RMEM_ALLOC`, `SK_MEMINFO_RCVBUF`, linux/sock_diag.h).
const SK_MEMINFO_RMEM_ALLOC: usize = 0;
const SK_MEMINFO_RCVBUF: usize = 1;
/// Index of the drop counter in the answer of `SO_MEMINFO` (`SK_MEMINFO_DROPS`, linux/sock_diag.h).
const SK_MEMINFO_DROPS: usize = 8;
/// Number of values that `SO_MEMINFO` answers with (`SK_MEMINFO_VARS`, linux/sock_diag.h).
const SK_MEMINFO_VARS: usize = 9;
/// `SO_MEMINFO`, asm-generic/socket.h.
const SO_MEMINFO: libc::c_int = 55;
/// `SO_PREFER_BUSY_POLL`, asm-generic/socket.h; Linux 5.11.
const SO_PREFER_BUSY_POLL: libc::c_int = 69;
/// `UDP_SEGMENT` and `UDP_GRO`, linux/udp.h.
pub(crate) const UDP_SEGMENT: libc::c_int = 103;
pub(crate) const UDP_GRO: libc::c_int = 104;

/// `IPV6_FLOWLABEL_MGR` and `IPV6_FLOWINFO_SEND`, linux/in6.h; `IPV6_AUTOFLOWLABEL`, linux/in6.h (Linux 3.17).
const IPV6_FLOWLABEL_MGR: libc::c_int = 32;
const IPV6_FLOWINFO_SEND: libc::c_int = 33;
const IPV6_AUTOFLOWLABEL: libc::c_int = 70;
/// `IPV6_FL_A_GET`, `IPV6_FL_F_CREATE`, `IPV6_FL_S_ANY`, linux/in6.h: have a label, make it if it is not there, and
/// share it with everybody.
const FL_GET: u8 = 0;
const FL_CREATE: u16 = 1;
const FL_ANY: u8 = 255;

/// Request for a flow label (`struct in6_flowlabel_req`, linux/in6.h).
#[repr(C)]
struct LabelRequest {
    dst: [u8; 16],
    /// Network byte order.
    label: u32,
    action: u8,
    share: u8,
    flags: u16,
    expires: u16,
    linger: u16,
    pad: u32,
}

const _: () = {
    assert!(size_of::<LabelRequest>() == 32 && std::mem::offset_of!(LabelRequest, label) == 16);
    assert!(std::mem::offset_of!(LabelRequest, action) == 20 && std::mem::offset_of!(LabelRequest, flags) == 22);
};

/// A UDP socket; closed on drop.
pub(crate) struct Socket(OwnedFd);

/// Soft limit of open file descriptors.
pub fn descriptor_limit() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit writes the struct that it is given, which outlives the call.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX),
        _ => 1024,
    }
}

/// Sets an integer option of a socket.
///
/// # Errors
/// The kernel's.
pub fn set_option(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `value`, which outlives the call.
    match unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Socket {
    /// A new UDP socket of `family` (`AF_INET` or `AF_INET6`; the latter takes no IPv4 unless [`Socket::take_ipv4`] is
    /// called).
    pub(crate) fn new(family: libc::c_int) -> io::Result<Self> {
        // SAFETY: socket() takes integers; its result, when not negative, is a descriptor that nobody else owns.
        let socket = unsafe {
            let fd = libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Self(OwnedFd::from_raw_fd(fd))
        };
        if family == libc::AF_INET6 {
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        }
        Ok(socket)
    }

    /// Has a socket of IPv6 that is to be bound to all addresses take IPv4 as well.
    pub(crate) fn take_ipv4(&self) -> io::Result<()> {
        self.set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)
    }

    /// Descriptor of the socket.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Sets an integer option.
    pub(crate) fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        set_option(self.fd(), level, name, value)
    }

    /// Reads an integer option.
    pub(crate) fn get(&self, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
        let mut value: libc::c_int = 0;
        let mut len = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `value` and the number written to `len`; both outlive the
        // call.
        match unsafe { libc::getsockopt(self.fd(), level, name, (&raw mut value).cast(), &mut len) } {
            0 => Ok(value),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn bind(&self, address: &RawAddr) -> io::Result<()> {
        // SAFETY: the kernel reads `len` bytes of `storage`, which is at least that long and outlives the call.
        match unsafe { libc::bind(self.fd(), (&raw const address.storage).cast(), address.len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn connect(&self, address: &RawAddr) -> io::Result<()> {
        // SAFETY: as in `bind`.
        match unsafe { libc::connect(self.fd(), (&raw const address.storage).cast(), address.len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The local address.
    pub(crate) fn local(&self) -> io::Result<RawAddr> {
        let mut address = RawAddr::NONE;
        address.len = size_of_val(&address.storage) as u32;
        // SAFETY: the kernel writes at most `len` bytes to `storage`, and the length to `len`; both outlive the call.
        match unsafe { libc::getsockname(self.fd(), (&raw mut address.storage).cast(), &mut address.len) } {
            0 => Ok(address),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sets a buffer size, past the system's limit if privilege allows; returns the size that the kernel now
    /// counts with (twice what was asked for, since it counts its own overhead, socket(7)).
    pub(crate) fn set_buffer(&self, receive: bool, bytes: usize) -> io::Result<usize> {
        let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        let (force, plain) = if receive {
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)
        } else {
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)
        };
        if self.set(libc::SOL_SOCKET, force, value).is_err() {
            self.set(libc::SOL_SOCKET, plain, value)?;
        }
        Ok(self.get(libc::SOL_SOCKET, plain)?.max(0) as usize)
    }

    /// Sets `SO_BUSY_POLL`, and `SO_PREFER_BUSY_POLL` if the kernel knows it.
    pub(crate) fn set_busy_poll(&self, usecs: u32) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_BUSY_POLL, usecs as libc::c_int)?;
        match self.set(libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, libc::c_int::from(usecs > 0)) {
            Err(e) if e.raw_os_error() != Some(libc::ENOPROTOOPT) => Err(e),
            _ => Ok(()),
        }
    }

    /// Has the kernel stamp packets as they come, and say so with each. Unlike with `SO_TIMESTAMPNS`, a packet that it
    /// has not stamped has no time, rather than that of the receive call.
    pub(crate) fn ask_for_times(&self) -> io::Result<()> {
        let times = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, times as libc::c_int)
    }

    /// Sends only datagrams that fit the link, unfragmented: a datagram is a packet here, and one that does not fit is
    /// an error to report. `PROBE` rather than `DO`: no forged ICMP can shrink the packets of a test (ip(7)).
    pub(crate) fn forbid_fragments(&self, v6: bool) -> io::Result<()> {
        if v6 {
            self.set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        }
        // The same for IPv4 packets, which a socket of both families carries, too.
        self.set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
    }

    /// Gives the packets of a flow their marks. A label also has to be in the address that the socket is connected to.
    /// The error comes with the words for what was tried.
    pub(crate) fn mark(&self, flow: &SocketFlow) -> Result<(), (&'static str, io::Error)> {
        let marks = flow.marks;
        let set = |level, name, value: u32, what| {
            self.set(level, name, value as libc::c_int)
                .map_err(|error| (what, error))
        };
        match flow.dst.ip() {
            IpAddr::V4(_) => {
                if let Some(class) = marks.class {
                    set(libc::IPPROTO_IP, libc::IP_TOS, class.into(), "set IP_TOS on")?;
                }
                if let Some(ttl) = marks.ttl {
                    set(libc::IPPROTO_IP, libc::IP_TTL, ttl.into(), "set IP_TTL on")?;
                }
            }
            IpAddr::V6(ip) => {
                const LEVEL: libc::c_int = libc::IPPROTO_IPV6;
                if let Some(class) = marks.class {
                    set(LEVEL, libc::IPV6_TCLASS, class.into(), "set IPV6_TCLASS on")?;
                }
                if let Some(ttl) = marks.ttl {
                    set(LEVEL, libc::IPV6_UNICAST_HOPS, ttl.into(), "set IPV6_UNICAST_HOPS on")?;
                }
                match marks.label {
                    None => {}
                    Some(0) => set(LEVEL, IPV6_AUTOFLOWLABEL, 0, "set IPV6_AUTOFLOWLABEL on")?,
                    Some(label) => {
                        self.lease(label, ip.octets())
                            .map_err(|error| ("have the kernel lend a flow label (IPV6_FLOWLABEL_MGR) to", error))?;
                        set(LEVEL, IPV6_FLOWINFO_SEND, 1, "set IPV6_FLOWINFO_SEND on")?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Has the kernel lend a flow label for packets to an address, to be shared with all that want it as well.
    fn lease(&self, label: u32, dst: [u8; 16]) -> io::Result<()> {
        let request = LabelRequest {
            dst,
            label: label.to_be(),
            action: FL_GET,
            share: FL_ANY,
            flags: FL_CREATE,
            expires: 0,
            linger: 0,
            pad: 0,
        };
        let len = size_of_val(&request) as libc::socklen_t;
        let value = (&raw const request).cast();
        // SAFETY: the kernel reads `len` bytes of `request`, which outlives the call; it writes a label to it only if
        // none was asked for, which is not so.
        match unsafe { libc::setsockopt(self.fd(), libc::IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, value, len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Path MTU of a connected socket, bytes.
    pub(crate) fn path_mtu(&self, v6: bool) -> Option<usize> {
        let (level, name) = if v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU)
        } else {
            (libc::IPPROTO_IP, libc::IP_MTU)
        };
        self.get(level, name).ok().and_then(|mtu| usize::try_from(mtu).ok())
    }

    /// Datagrams dropped at this socket since it was made; wraps at 2^32. Zero if the kernel does not report it (before
    /// 4.12).
    pub(crate) fn drops(&self) -> u32 {
        self.memory().map_or(0, |values| values[SK_MEMINFO_DROPS])
    }

    /// Bytes that received datagrams take, and how many they may take; `None` if the kernel does not report it.
    pub(crate) fn filled(&self) -> Option<(u64, u64)> {
        let values = self.memory()?;
        let [taken, most] = [SK_MEMINFO_RMEM_ALLOC, SK_MEMINFO_RCVBUF].map(|at| u64::from(values[at]));
        (most > 0).then_some((taken, most))
    }

    /// Reads the kernel's numbers on the socket's memory.
    fn memory(&self) -> Option<[u32; SK_MEMINFO_VARS]> {
        let mut values = [0u32; SK_MEMINFO_VARS];
        let mut len = size_of_val(&values) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `values` and the number written to `len`; both outlive the
        // call.
        let result = unsafe {
            libc::getsockopt(
                self.fd(),
                libc::SOL_SOCKET,
                SO_MEMINFO,
                values.as_mut_ptr().cast(),
                &mut len,
            )
        };
        (result == 0 && len as usize == size_of_val(&values)).then_some(values)
    }

    /// Most segments that this kernel takes in one `UDP_SEGMENT` send: 128 from Linux 6.9 (`UDP_MAX_SEGMENTS`,
    /// linux/udp.h), else 64. Tried out with 65 one-byte segments sent from `address` to itself: the count is checked
    /// before the packet goes anywhere.
    pub(crate) fn probe_segments(address: &RawAddr) -> io::Result<usize> {
        let socket = Self::new(i32::from(address.storage.sin6_family))?;
        let mut any_port = *address;
        any_port.storage.sin6_port = 0;
        socket.bind(&any_port)?;
        socket.connect(&socket.local()?)?;
        socket.set(libc::SOL_UDP, UDP_SEGMENT, 1)?;
        let data = [0u8; 65];
        // SAFETY: the kernel reads 65 bytes of `data`, which outlives the call.
        let sent = unsafe { libc::send(socket.fd(), data.as_ptr().cast(), data.len(), libc::MSG_DONTWAIT) };
        Ok(if sent == 65 { 128 } else { 64 })
    }
}
