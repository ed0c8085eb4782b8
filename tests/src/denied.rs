//! Programs on a host that denies them a system call.

use std::process::Command;

/// A system call that may be denied, with the argument that is meant.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// `io_setup` for 64 requests: asynchronous I/O.
    IoSetup,
    /// `clone` of a process with the memory and the descriptors of the caller.
    CloneShared,
    /// `clone3`, whatever for: the C library starts threads by it.
    Clone3,
    /// `io_uring_setup`.
    IoUringSetup,
    /// `io_uring_enter`
    IoUringEnter,
    /// `io_uring_register`
    IoUringRegister,
    /// `bpf`, whatever for.
    Bpf,
    /// `socket` for questions about sockets (`NETLINK_SOCK_DIAG`).
    SocketDiagnosis,
}

/// Answer of the kernel to a call that is denied.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// `EPERM`: what most sandboxes answer.
    NotPermitted,
    /// `EAGAIN`
    TryAgain,
    /// `ENOSYS`: as a kernel without the call.
    NoSuchCall,
    /// `EOPNOTSUPP`
    NotSupported,
}

impl Answer {
    /// `linux/errno.h`, the same on every architecture that mpps runs on.
    fn number(self) -> u32 {
        match self {
            Self::NotPermitted => 1,
            Self::TryAgain => 11,
            Self::NoSuchCall => 38,
            Self::NotSupported => 95,
        }
    }
}

impl Call {
    /// Its number, and the place and the value of the argument that is meant; `None` of the argument: all. `None`: not
    /// known on this architecture.
    fn number(self) -> Option<(u32, Option<(u32, u32)>)> {
        let x86 = match std::env::consts::ARCH {
            "x86_64" => true,
            "aarch64" => false,
            _ => return None,
        };
        let of = |on_x86: u32, on_arm: u32| if x86 { on_x86 } else { on_arm };
        Some(match self {
            Self::IoSetup => (of(206, 0), Some((0, 64))),
            Self::CloneShared => (of(56, 220), Some((0, 0x500))),
            Self::Clone3 => (435, None),
            Self::IoUringSetup => (425, None),
            Self::IoUringEnter => (426, None),
            Self::IoUringRegister => (427, None),
            Self::Bpf => (of(321, 280), None),
            Self::SocketDiagnosis => (of(41, 198), Some((2, 4))),
        })
    }
}

/// A filter (seccomp) that gives the call this answer, and then the program.
const FILTERED: &str = "
import ctypes, os, struct, sys
number, meant, answer = int(sys.argv[1]), sys.argv[2].split(), 0x50000 | int(sys.argv[3])
place, value = map(int, meant or (0, 0))
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16 + 8 * place), (0x15, 0, 1, value), \
(6, 0, 0, answer), (6, 0, 0, 0x7fff0000)]
if not meant:
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, answer), (6, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
filter = ctypes.create_string_buffer(struct.pack('HQ', len(steps), ctypes.addressof(code)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(38, 1, 0, 0, 0) or prctl(22, 2, filter, 0, 0):
    sys.exit('no filter: ' + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[4], sys.argv[4:])
";

/// The same command where the host answers that call with EAGAIN. `None`, and said, where that can't be had.
pub fn denied(call: Call, command: &Command) -> Option<Command> {
    answered(call, Answer::TryAgain, command)
}

/// The same command where the host gives that call this answer. `None`, and said, where that can't be had.
pub fn answered(call: Call, answer: Answer, command: &Command) -> Option<Command> {
    if crate::missing("python3", "python3") {
        return None;
    }
    let Some((number, meant)) = call.number() else {
        crate::skip("the numbers of system calls are not known here");
        return None;
    };
    let mut filtered = Command::new("python3");
    filtered.args(["-c", FILTERED, &number.to_string()]);
    filtered.arg(meant.map_or_else(String::new, |(place, value)| format!("{place} {value}")));
    filtered.arg(answer.number().to_string());
    filtered.arg(command.get_program()).args(command.get_args());
    crate::without_sudo(&mut filtered);
    Some(filtered)
}
