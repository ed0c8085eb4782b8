//! Programs on a host that denies them a system call.

use std::process::Command;

/// A system call that may be denied, with the number by which it is called and the first argument that is meant.
#[derive(Clone, Copy)]
pub enum Call {
    /// `io_setup` for 64 requests: asynchronous I/O.
    IoSetup,
    /// `clone` of a process with the memory and the descriptors of the caller.
    CloneShared,
}

impl Call {
    /// `None`: not known on this architecture.
    fn number(self) -> Option<(u32, u32)> {
        let numbers = match std::env::consts::ARCH {
            "x86_64" => [206, 56],
            "aarch64" => [0, 220],
            _ => return None,
        };
        Some(match self {
            Self::IoSetup => (numbers[0], 64),
            Self::CloneShared => (numbers[1], 0x500),
        })
    }
}

/// A filter (seccomp) that answers the call with EAGAIN, and then the program.
const FILTERED: &str = "
import ctypes, os, struct, sys
number, first = int(sys.argv[1]), int(sys.argv[2])
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 0, 1, first), (6, 0, 0, 0x5000b), (6, 0, 0, \
0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
filter = ctypes.create_string_buffer(struct.pack('HQ', len(steps), ctypes.addressof(code)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(38, 1, 0, 0, 0) or prctl(22, 2, filter, 0, 0):
    sys.exit('no filter: ' + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[3], sys.argv[3:])
";

/// The same command where the host denies it that call. `None`, and said, where that can't be had.
pub fn denied(call: Call, command: &Command) -> Option<Command> {
    if crate::missing("python3", "python3") {
        return None;
    }
    let Some((number, first)) = call.number() else {
        crate::skip("the numbers of system calls are not known here");
        return None;
    };
    let mut filtered = Command::new("python3");
    filtered.args(["-c", FILTERED]);
    filtered.args([number.to_string(), first.to_string()]);
    filtered.arg(command.get_program()).args(command.get_args());
    crate::without_sudo(&mut filtered);
    Some(filtered)
}
