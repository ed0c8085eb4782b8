//! Direct system calls: live frames, and the signal that ends a call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Once;

/// `enum bpf_cmd`.
const BPF_PROG_TEST_RUN: libc::c_int = 10;
/// Frames are sent on as the program says, rather than thrown away.
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

/// The part of `union bpf_attr` for `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    reserved: u32,
}

/// `struct xdp_md`.
#[repr(C)]
#[derive(Default)]
struct XdpMd {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

const _: () = {
    assert!(size_of::<TestRun>() == 80);
    assert!(std::mem::offset_of!(TestRun, batch_size) == 72);
    assert!(size_of::<XdpMd>() == 24);
    assert!(size_of::<ProgramLoad>() == 48);
};

/// Runs a program `repeat` times over frames that begin as `frame` and that come as if received by interface `index`;
/// `batch` at a time. What the program sends is sent. Returns when all have run, or with `EINTR` on a signal.
pub(crate) fn run_live(program: BorrowedFd<'_>, index: u32, frame: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
    let context = XdpMd {
        data_end: frame.len() as u32,
        ingress_ifindex: index,
        ..XdpMd::default()
    };
    let attr = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat,
        ctx_size_in: size_of::<XdpMd>() as u32,
        ctx_in: (&raw const context) as u64,
        flags: BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: batch,
        ..TestRun::default()
    };
    bpf(&attr).map(|_| ())
}

/// `enum bpf_cmd`.
const BPF_PROG_LOAD: libc::c_int = 5;
/// `enum bpf_prog_type`.
const BPF_PROG_TYPE_XDP: u32 = 6;
/// `bpf_xdp_get_buff_len`, the first of the helpers for frames in several buffers (`enum bpf_func_id`).
const GET_BUFF_LEN: u64 = 188;

/// The part of `union bpf_attr` for `BPF_PROG_LOAD` that every kernel with XDP knows.
#[repr(C)]
struct ProgramLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

/// Returns whether the kernel lacks helpers for frames in several buffers. They came with live frames (Linux 5.18),
/// which all programs of this path need or run beside. A missing right to load programs is reported elsewhere.
#[allow(dead_code)]
pub(crate) fn lacks_buffer_helpers() -> bool {
    // A call of the helper, and the end.
    let code: [u64; 2] = [0x85 | GET_BUFF_LEN << 32, 0x95];
    let attr = ProgramLoad {
        prog_type: BPF_PROG_TYPE_XDP,
        insn_cnt: code.len() as u32,
        insns: code.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
    };
    // SAFETY: the kernel reads `size` bytes at `attr`, the instructions and the text, all alive during the call. A
    // descriptor that it returns is ours, and closed here.
    unsafe {
        let result = libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attr, size_of::<ProgramLoad>());
        match i32::try_from(result) {
            Ok(descriptor) if descriptor >= 0 => {
                libc::close(descriptor);
                false
            }
            _ => io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL),
        }
    }
}

/// Runs a program on one frame without sending the frame; returns its verdict and the frame. For the tests that include
/// this file.
#[cfg(test)]
#[allow(dead_code)]
pub(crate) fn run_once(program: BorrowedFd<'_>, index: u32, frame: &[u8]) -> io::Result<(u32, Vec<u8>)> {
    run_often(program, index, frame, 1)
}

/// Returns the same after `repeat` runs, each over the frame that the run before left.
#[cfg(test)]
#[allow(dead_code)]
pub(crate) fn run_often(program: BorrowedFd<'_>, index: u32, frame: &[u8], repeat: u32) -> io::Result<(u32, Vec<u8>)> {
    let mut out = vec![0; frame.len() + 512];
    let context = XdpMd {
        data_end: frame.len() as u32,
        ingress_ifindex: index,
        ..XdpMd::default()
    };
    let attr = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_size_out: out.len() as u32,
        data_in: frame.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        repeat,
        ctx_size_in: size_of::<XdpMd>() as u32,
        ctx_in: (&raw const context) as u64,
        ..TestRun::default()
    };
    let attr = bpf(&attr)?;
    out.truncate(attr.data_size_out as usize);
    Ok((attr.retval, out))
}

/// Runs a program for a tracepoint on this CPU.
#[cfg(test)]
#[allow(dead_code)]
pub(crate) fn run_tap(program: BorrowedFd<'_>) -> io::Result<()> {
    let attr = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        ..TestRun::default()
    };
    bpf(&attr).map(|_| ())
}

/// The system call; returns the attributes as the kernel left them.
fn bpf(attr: &TestRun) -> io::Result<TestRun> {
    // SAFETY: plain numbers.
    let mut attr: TestRun = unsafe { std::ptr::read(attr) };
    // SAFETY: the kernel reads and writes `size` bytes at `attr`, and what its pointers and sizes name: the callers'
    // buffers, which are alive.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut attr, size_of::<TestRun>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(attr)
}

/// The signal that ends a call of [`run_live`]. A real-time signal: nobody else sends it by chance.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 4
}

extern "C" fn nothing(_: libc::c_int) {}

/// Lets [`interrupt`] end calls of this process: the signal gets a handler that does nothing.
pub(crate) fn make_interruptible() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a zeroed `sigaction` is one without flags and with an empty mask. Without SA_RESTART a call ends.
        // The handler touches nothing.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(signal(), &raw const action, std::ptr::null_mut());
        }
    });
}

/// `MEMBARRIER_CMD_GLOBAL` of `<linux/membarrier.h>`.
const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;

/// Returns once every poll loop of a driver that ran when this was called is over, and with it all that programs at
/// interfaces did on behalf of what they had read before.
///
/// The command is a grace period of RCU (`synchronize_rcu`, kernel/sched/membarrier.c). A poll loop runs with soft
/// interrupts off from its first packet to its end, and such a stretch is a reader that a grace period waits for
/// (Documentation/RCU/whatisRCU.rst: `rcu_read_lock_bh` and its kind, since 4.20). A grace period takes some tens of
/// milliseconds.
///
/// # Errors
/// If the kernel has no such command, or refuses it because some CPUs have no tick (`nohz_full`).
pub(crate) fn await_programs() -> io::Result<()> {
    // SAFETY: plain numbers.
    match unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The calling thread's number.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// Ends the call that a thread of this process is in. [`make_interruptible`] was called before.
pub(crate) fn interrupt(thread: i32) {
    // SAFETY: plain numbers; the kernel checks that the thread is this process's.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal()) };
}
