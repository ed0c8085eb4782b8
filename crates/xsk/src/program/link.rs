//! Attaching by a BPF link, and nothing else.
//!
//! A link lives as long as its descriptor: the kernel detaches the program when the process is gone, however it went.
//! The loader's own attaching falls back to netlink, by which a program would stay; so it isn't used.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::AttachedMode;
use crate::{Device, Error};

/// `enum bpf_cmd` in `include/uapi/linux/bpf.h`.
const BPF_LINK_CREATE: libc::c_int = 28;
/// `enum bpf_attach_type`.
const BPF_XDP: u32 = 37;

/// The part of `union bpf_attr` that `BPF_LINK_CREATE` reads for XDP.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

const _: () = assert!(size_of::<LinkCreate>() == 16);

/// `XDP_FLAGS_*` in `include/uapi/linux/if_link.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flags {
    Skb = 1 << 1,
    Native = 1 << 2,
}

/// A program's attachment: closing it detaches.
#[derive(Debug)]
pub(super) struct Link(OwnedFd);

impl Link {
    pub(super) fn create(program: BorrowedFd<'_>, index: u32, flags: Flags) -> io::Result<Link> {
        let attr = LinkCreate {
            prog_fd: program.as_raw_fd() as u32,
            target_ifindex: index,
            attach_type: BPF_XDP,
            flags: flags as u32,
        };
        // SAFETY: the kernel reads `size` bytes at `attr`, which is alive, and writes nothing. bpf(2) takes what lies
        // beyond the given size to be zero.
        let raw = unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, &raw const attr, size_of::<LinkCreate>()) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else knows; bpf(2) sets close-on-exec on all of its own.
        Ok(Link(unsafe { OwnedFd::from_raw_fd(raw as i32) }))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether the driver, as it is set up, can't run the program, while socket buffers still can.
pub(super) fn driver_cannot(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::ERANGE | libc::ENOSPC | libc::EINVAL | libc::ENOMEM)
    )
}

/// Returns the meaning of the errno with which a driver refused a program.
pub(super) fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "the driver has no native XDP".into(),
        Some(libc::ERANGE) => "the driver refuses the MTU of the device or of its peer (without frags)".into(),
        Some(libc::ENOSPC) => "the device has fewer receive queues than its peer has transmit queues".into(),
        _ => format!("the driver refused the program: {error}"),
    }
}

/// The error for a link that was refused.
pub(super) fn refused(device: &Device, mode: AttachedMode, error: &io::Error) -> Error {
    match error.raw_os_error() {
        // EEXIST: a program in the other of the two modes.
        Some(libc::EBUSY | libc::EEXIST) => Error::ProgramAttached {
            device: device.name().clone(),
            by: others(device),
        },
        Some(libc::EPERM | libc::EACCES) => Error::Permission {
            op: "attach an XDP program to",
            object: device.name().clone(),
            need: "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN",
        },
        Some(libc::ENODEV | libc::ENXIO) => Error::Gone {
            object: device.name().clone(),
        },
        Some(libc::EINVAL) if !links_known() => Error::Unsupported {
            what: "an XDP program attached by a link",
            object: device.name().clone(),
            why: "it needs Linux 5.9".into(),
        },
        _ => Error::Unsupported {
            what: match mode {
                AttachedMode::Native => "an XDP program in the driver",
                AttachedMode::Skb => "an XDP program on socket buffers",
            },
            object: device.name().clone(),
            why: why(error),
        },
    }
}

/// BPF links for XDP came with Linux 5.9.
fn links_known() -> bool {
    aya::util::KernelVersion::current().is_ok_and(|v| v >= aya::util::KernelVersion::new(5, 9, 0))
}

/// Returns the programs attached to a device, by name and id if known.
fn others(device: &Device) -> String {
    let ids = device.programs().unwrap_or_default();
    let names: Vec<String> = ids
        .iter()
        .map(|&id| {
            let info = aya::programs::loaded_programs()
                .filter_map(Result::ok)
                .find(|p| p.id() == id);
            match info.as_ref().and_then(|p| p.name_as_str()) {
                Some("xdp_dispatcher") => {
                    let device = device.name();
                    format!(
                        "\"xdp_dispatcher\" (id {id}), which runs the programs that libxdp has loaded (xdp-loader \
                         status {device} lists them, xdp-loader unload {device} --all removes them)"
                    )
                }
                Some(name) if !name.is_empty() => format!("\"{name}\" (id {id})"),
                _ => format!("id {id}"),
            }
        })
        .collect();
    if names.is_empty() {
        "unknown".into()
    } else {
        names.join(" and ")
    }
}
