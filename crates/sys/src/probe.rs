//! Asking the kernel whether it would serve a path: each probe makes the smallest object of its kind and drops it.
//!
//! A version number is not enough: a container's seccomp filter, a sysctl or a build option can refuse what the version
//! has. Nothing here changes the host.

use crate::privilege::{CapabilitySet, held};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `union bpf_attr` (`linux/bpf.h`) of `BPF_MAP_CREATE`: its first four fields; the kernel takes the rest as zero.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

const _: () = assert!(size_of::<MapCreate>() == 16);

/// Makes and drops a BPF array map of one entry, as the loading of any XDP program begins.
///
/// # Errors
/// `ENOSYS`: no BPF in this kernel; `EPERM`: `CAP_BPF` is missing or seccomp forbids it.
pub fn bpf_map() -> io::Result<()> {
    const BPF_MAP_CREATE: u32 = 0;
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    let attr = MapCreate {
        map_type: BPF_MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: 8,
        max_entries: 1,
    };
    // SAFETY: `attr` is readable for the size passed and outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, &raw const attr, size_of::<MapCreate>()) };
    close_or_error(fd)
}

/// Returns why BPF is forbidden to this process whatever its capabilities; `None`: it is not, or only capabilities are
/// missing.
pub fn bpf_forbidden() -> Option<String> {
    let error = bpf_map().err()?;
    let may = held().intersects(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN);
    match error.raw_os_error()? {
        libc::ENOSYS | libc::EOPNOTSUPP => Some(format!(
            "bpf(2) is answered with \"{error}\": this kernel has no BPF, or a sandbox (seccomp) hides it"
        )),
        libc::EPERM | libc::EACCES if may => Some(match in_user_namespace() {
            Some(true) => format!(
                "bpf(2) is answered with \"{error}\": this process is root in a user namespace only, and its CAP_BPF \
                 does not count"
            ),
            _ => format!(
                "bpf(2) is answered with \"{error}\" though this process holds the capability: a sandbox (seccomp) \
                 forbids it"
            ),
        }),
        _ => None,
    }
}

/// Whether this process is in a user namespace beside the host's own; `None`: nothing shows it.
pub fn in_user_namespace() -> Option<bool> {
    let map = std::fs::read_to_string("/proc/self/uid_map").ok()?;
    // The host's own has all numbers, each as itself (`user_namespaces(7)`).
    Some(!map.split_ascii_whitespace().eq(["0", "0", "4294967295"]))
}

/// Release of the kernel, as `uname -r` prints it. It takes no file, so that it is known even if `/proc` is hidden.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Name of the host, as `uname -n` prints it.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Sets `PACKET_QDISC_BYPASS` on an AF_PACKET socket.
///
/// # Errors
/// `ENOPROTOOPT`: the kernel does not have it.
pub fn packet_qdisc_bypass(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: `on` is readable for the length passed and outlives the call; the descriptor is open as long as the
    // borrow lives.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Takes the result of a system call that gives a descriptor: closes it, or reads the error.
fn close_or_error(fd: libc::c_long) -> io::Result<()> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    drop(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_answer_without_leaving_a_descriptor_behind() {
        if let Err(error) = bpf_map() {
            // Any refusal is an answer; a wrong argument would be our fault.
            assert!(
                !matches!(error.raw_os_error(), Some(libc::EFAULT | libc::E2BIG | libc::EINVAL)),
                "{error}"
            );
        }
    }

    #[test]
    fn qdisc_bypass_on_a_socket_of_another_family_is_refused_not_taken() {
        use std::os::fd::AsFd;
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(packet_qdisc_bypass(socket.as_fd()).is_err());
    }
}
