//! The clock of BPF programs, as a program reads it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `enum bpf_cmd` in `include/uapi/linux/bpf.h`.
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
/// `enum bpf_prog_type`.
const BPF_PROG_TYPE_XDP: u32 = 6;

/// `r0 = bpf_ktime_get_ns(); r0 >>= 20; exit`: instructions of 8 bytes (code, registers, offset, number). The call is
/// for programs under a licence that the GPL is compatible with.
const CODE: [u64; 3] = [5 << 32 | 0x85, 20 << 32 | 0x77, 0x95];

/// The parts of `union bpf_attr` for the two calls, the rest left out: it is zero.
#[repr(C)]
struct Load {
    kind: u32,
    count: u32,
    code: u64,
    license: u64,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    result: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

const _: () = assert!(size_of::<Load>() == 24 && size_of::<TestRun>() == 40);

/// Reads the kernel's own monotonic clock, which no time namespace shifts: in units of 2^20 ns, modulo 2^32.
///
/// # Errors
/// Without the privileges that other XDP programs need, or if the kernel has no BPF.
pub fn kernel_clock() -> io::Result<u32> {
    let license = c"Dual MIT/GPL";
    let load = Load {
        kind: BPF_PROG_TYPE_XDP,
        count: CODE.len() as u32,
        code: CODE.as_ptr() as u64,
        license: license.as_ptr() as u64,
    };
    // SAFETY: the kernel reads `size` bytes at `attr` and what its pointers name; all of that is alive. It writes
    // nothing.
    let raw = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const load, size_of::<Load>()) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else knows; bpf(2) sets close-on-exec on all of its own.
    let program = unsafe { OwnedFd::from_raw_fd(raw as i32) };
    // The kernel wants a whole Ethernet header.
    let frame = [0u8; 64];
    let mut run = TestRun {
        program: program.as_raw_fd() as u32,
        size_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat: 1,
        ..TestRun::default()
    };
    // SAFETY: the kernel reads and writes `size` bytes at `attr`, and reads the frame; both are alive.
    if unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut run, size_of::<TestRun>()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(run.result)
}
