//! Features of this kernel's io_uring: asked of the kernel itself, since distributions take features into older
//! kernels, and a sysctl or seccomp filter can refuse what the version has.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct io_uring_params` (linux/io_uring.h), the offsets of its rings left out.
#[repr(C)]
#[derive(Default)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    resv: [u32; 3],
    offsets: [u64; 10],
}

/// `struct io_uring_probe` with its 64 entries: which request is in bits 0 to 7 of each, its flags in bits 16 to 31.
#[repr(C)]
struct OpProbe {
    head: [u64; 2],
    ops: [u64; OPS],
}

/// `struct io_uring_buf_reg`.
#[repr(C)]
#[derive(Default)]
struct BufReg {
    ring_addr: u64,
    ring_entries: u32,
    bgid: u16,
    flags: u16,
    resv: [u64; 3],
}

const _: () = {
    assert!(size_of::<Params>() == 120 && std::mem::offset_of!(Params, features) == 20);
    assert!(std::mem::offset_of!(Params, offsets) == 40);
    assert!(size_of::<OpProbe>() == 16 + 8 * OPS);
    assert!(size_of::<BufReg>() == 40 && std::mem::offset_of!(BufReg, bgid) == 12);
};

const OPS: usize = 64;
const SETUP_SQPOLL: u32 = 1 << 1;
const SETUP_COOP_TASKRUN: u32 = 1 << 8;
const SETUP_SINGLE_ISSUER: u32 = 1 << 12;
const SETUP_DEFER_TASKRUN: u32 = 1 << 13;
const FEAT_NODROP: u32 = 1 << 1;
const FEAT_EXT_ARG: u32 = 1 << 8;
const FEAT_RECVSEND_BUNDLE: u32 = 1 << 14;
const REGISTER_PROBE: u32 = 8;
const REGISTER_PBUF_RING: u32 = 22;
const OP_SUPPORTED: u64 = 1 << 16;
const OP_SEND_ZC: usize = 47;
const OP_SENDMSG_ZC: usize = 48;
const OP_RECV_ZC: usize = 58;

/// Features of a kernel's io_uring that a packet path can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Completions that find no room are kept, not dropped (Linux 5.5).
    pub nodrop: bool,
    /// Waiting takes a timeout (5.11).
    pub timeout: bool,
    /// Rings of provided buffers (5.19).
    pub buffer_rings: bool,
    /// Work is done when its task calls the system next (`IORING_SETUP_COOP_TASKRUN`, 5.19).
    pub coop_taskrun: bool,
    /// One receive request brings packet after packet (6.0).
    pub multishot_receive: bool,
    /// Work is done when its task asks for it (`IORING_SETUP_DEFER_TASKRUN` with `SINGLE_ISSUER`, 6.1).
    pub defer_taskrun: bool,
    /// `send` by zero copy (6.0).
    pub send_zc: bool,
    /// `sendmsg` by zero copy (6.1).
    pub sendmsg_zc: bool,
    /// A kernel thread that takes submissions (`IORING_SETUP_SQPOLL`, without privilege 5.11).
    pub sqpoll: bool,
    /// Several buffers in one send or receive of a stream (6.10).
    pub bundles: bool,
    /// Zero-copy receive of TCP (6.15).
    pub recv_zc: bool,
}

impl Features {
    /// Asks the kernel.
    ///
    /// # Errors
    /// `ENOSYS`: not in this kernel; `EPERM`: forbidden by `kernel.io_uring_disabled` or seccomp. One of the three
    /// system calls that is answered so is enough.
    pub fn probe() -> io::Result<Self> {
        let (ring, features) = allowed().map_err(|(_, error)| error)?;
        let mut ops = OpProbe {
            head: [0; 2],
            ops: [0; OPS],
        };
        // SAFETY: `ops` is writable, zeroed, aligned and has room for the OPS entries that the call allows; it outlives
        // the call.
        let known = unsafe { register(&ring, REGISTER_PROBE, (&raw mut ops).cast(), OPS as u32) };
        let has = |op: usize| known.is_ok() && ops.ops[op] & OP_SUPPORTED != 0;
        let can = |flags| setup(flags).is_ok();
        Ok(Self {
            nodrop: features & FEAT_NODROP != 0,
            timeout: features & FEAT_EXT_ARG != 0,
            buffer_rings: buffer_rings(&ring).is_ok(),
            coop_taskrun: can(SETUP_COOP_TASKRUN),
            // Multishot receive came with the same version as zero-copy send. An unknown request fails only once it is
            // made.
            multishot_receive: has(OP_SEND_ZC),
            defer_taskrun: can(SETUP_SINGLE_ISSUER | SETUP_DEFER_TASKRUN),
            send_zc: has(OP_SEND_ZC),
            sendmsg_zc: has(OP_SENDMSG_ZC),
            sqpoll: can(SETUP_SQPOLL),
            bundles: features & FEAT_RECVSEND_BUNDLE != 0,
            recv_zc: has(OP_RECV_ZC),
        })
    }

    /// Returns the features that there are and those that are missing, in a few words each, with the version that
    /// brought it.
    pub fn told(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let all = [
            (
                self.buffer_rings,
                "provided buffer rings",
                "provided buffer rings (Linux 5.19)",
            ),
            (
                self.multishot_receive,
                "multishot receive",
                "multishot receive (Linux 6.0)",
            ),
            (
                self.defer_taskrun,
                "deferred task work",
                "deferred task work (Linux 6.1)",
            ),
            (
                self.send_zc && self.sendmsg_zc,
                "zero-copy sends",
                "zero-copy sends (Linux 6.1)",
            ),
            (self.sqpoll, "SQPOLL", "SQPOLL"),
        ];
        let has = all.iter().filter(|(has, ..)| *has).map(|(_, name, _)| *name).collect();
        let lacks = all.iter().filter(|(has, ..)| !has).map(|(.., name)| *name).collect();
        (has, lacks)
    }

    /// Whether a path can be made of it.
    pub fn suffices(&self) -> bool {
        self.nodrop && self.timeout && self.buffer_rings
    }
}

/// Registers a ring of provided buffers, and removes it again.
///
/// # Errors
/// The kernel's own: `EINVAL` before Linux 5.19, and on later kernels that have them switched off.
pub fn try_buffer_rings() -> io::Result<()> {
    buffer_rings(&setup(0)?.0)
}

/// Why io_uring is forbidden to this process; `None`: it is not.
pub fn forbidden() -> Option<String> {
    let (call, error) = allowed().err()?;
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let disabled = disabled.ok().and_then(|text| text.trim().parse::<u32>().ok());
    let why = match (error.raw_os_error()?, disabled) {
        (libc::EPERM | libc::EACCES, Some(n @ 1..)) => format!("kernel.io_uring_disabled={n} forbids it"),
        (libc::EPERM | libc::EACCES, Some(0)) => "a sandbox (seccomp) forbids it".to_owned(),
        (libc::EPERM | libc::EACCES, None) => "a sandbox (seccomp) or kernel.io_uring_disabled forbids it".to_owned(),
        (libc::ENOSYS | libc::EOPNOTSUPP, _) if call != SETUP => "a sandbox (seccomp) hides it".to_owned(),
        (libc::ENOSYS | libc::EOPNOTSUPP, _) => {
            "this kernel has no io_uring, or a sandbox (seccomp) hides it".to_owned()
        }
        _ => return None,
    };
    Some(format!("{call}(2) is answered with \"{error}\": {why}"))
}

/// Name of the call that makes a ring. If it is answered, the kernel has the other two as well.
const SETUP: &str = "io_uring_setup";

/// The system call that io_uring is denied by, with the kernel's answer; `None`: none is.
pub fn denied() -> Option<(&'static str, io::Error)> {
    allowed().err()
}

/// Makes a ring, as [`setup`], and asks whether the other two calls are allowed. The error has the call's name.
fn allowed() -> Result<(OwnedFd, u32), (&'static str, io::Error)> {
    let (ring, features) = setup(0).map_err(|error| (SETUP, error))?;
    let denied = |error: &io::Error| {
        let denials = [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EOPNOTSUPP];
        error.raw_os_error().is_some_and(|number| denials.contains(&number))
    };
    // SAFETY: neither call is given memory: no entry is submitted and none waited for, and without memory the other is
    // answered with EFAULT, or EINVAL before Linux 5.6, if it may be made at all.
    let (entered, registered) = unsafe {
        let none = std::ptr::null_mut::<libc::c_void>();
        let entered = libc::syscall(
            libc::SYS_io_uring_enter,
            ring.as_raw_fd(),
            0u32,
            0u32,
            0u32,
            none,
            0usize,
        );
        let entered = if entered < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        };
        (entered, register(&ring, REGISTER_PROBE, none, OPS as u32))
    };
    for (call, answer) in [("io_uring_enter", entered), ("io_uring_register", registered)] {
        if let Err(error) = answer
            && denied(&error)
        {
            return Err((call, error));
        }
    }
    Ok((ring, features))
}

/// Makes a ring of two entries; returns its descriptor and the kernel's features.
fn setup(flags: u32) -> io::Result<(OwnedFd, u32)> {
    let mut params = Params {
        flags,
        ..Params::default()
    };
    // SAFETY: `params` is writable and as large as the kernel's struct; it outlives the call. A descriptor that the
    // call gives is nobody else's.
    unsafe {
        let fd = libc::syscall(libc::SYS_io_uring_setup, 2u32, &raw mut params);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(fd as libc::c_int), params.features))
    }
}

/// # Safety
/// `arg` is what this operation takes, and outlives the call.
unsafe fn register(ring: &OwnedFd, operation: u32, arg: *mut libc::c_void, n: u32) -> io::Result<()> {
    // SAFETY: by the caller.
    match unsafe { libc::syscall(libc::SYS_io_uring_register, ring.as_raw_fd(), operation, arg, n) } {
        result if result < 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Registers a ring of buffers, and closes it with its io_uring.
fn buffer_rings(ring: &OwnedFd) -> io::Result<()> {
    const BYTES: usize = 4096;
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory. It is given back
    // here: the kernel holds a registered page by itself, and the ring is never used.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut arg = BufReg {
            ring_addr: page as u64,
            ring_entries: 8,
            ..BufReg::default()
        };
        let result = register(ring, REGISTER_PBUF_RING, (&raw mut arg).cast(), 1);
        libc::munmap(page, BYTES);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_and_nothing_stays_open() {
        let descriptors = || std::fs::read_dir("/proc/self/fd").expect("a list").count();
        let features = match Features::probe() {
            Ok(features) => features,
            Err(e) => {
                // Any refusal is an answer; a wrong argument would be our fault.
                let wrong = [libc::EFAULT, libc::E2BIG, libc::EINVAL].contains(&e.raw_os_error().unwrap_or(0));
                assert!(!wrong, "{e}");
                return;
            }
        };
        // A later feature is not there without the earlier ones.
        assert!(
            !features.defer_taskrun || features.coop_taskrun && features.buffer_rings,
            "{features:?}"
        );
        assert!(!features.buffer_rings || features.suffices(), "{features:?}");
        assert!(!features.recv_zc || features.sendmsg_zc, "{features:?}");
        // Other tests open and close theirs.
        let before = descriptors();
        for _ in 0..100 {
            assert_eq!(Features::probe().expect("as before"), features);
        }
        assert!(descriptors() < before + 50);
    }

    #[test]
    fn what_is_told_names_each_once() {
        let (has, lacks) = Features::default().told();
        assert!(has.is_empty() && lacks.len() == 5);
        let all = Features {
            buffer_rings: true,
            multishot_receive: true,
            defer_taskrun: true,
            send_zc: true,
            sendmsg_zc: true,
            sqpoll: true,
            ..Features::default()
        };
        assert!(!all.suffices());
        let (has, lacks) = all.told();
        assert!(lacks.is_empty() && has.len() == 5);
    }
}
