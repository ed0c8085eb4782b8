//! Programs whose time of day (`CLOCK_REALTIME`) is set during the run, while that of the host stays.

use std::path::PathBuf;
use std::process::Command;

use crate::{Scratch, missing, run_command, skip};

/// Runs a program under ptrace. Adds the seconds in a file to the time of day that the program reads.
///
/// A filter (seccomp) stops the program at `clock_gettime(CLOCK_REALTIME)`. The vDSO would answer without a system
/// call, so its address is removed from the auxiliary vector when a program begins. Signals go on to the program.
const STEPPED: &str = "
import ctypes, os, signal, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
libc.ptrace.restype = ctypes.c_long
TRACEME, PEEK, POKE, CONT, GETREGS, SETREGS, SETOPTIONS = 0, 2, 5, 7, 12, 13, 0x4200
CLOCK_GETTIME, RAX, RSI, ORIG_RAX, RSP = 228, 10, 13, 15, 19
AT_IGNORE, AT_SYSINFO_EHDR = 1, 33
EXEC, SECCOMP, OPTIONS = 4, 7, 0x100000 | 0x80 | 0x10 | 8 | 4 | 2
child = os.fork()
if child == 0:
    steps = [(0x20, 0, 0, 0), (0x15, 0, 3, CLOCK_GETTIME), (0x20, 0, 0, 16), (0x15, 0, 1, 0), \
(6, 0, 0, 0x7ff00000), (6, 0, 0, 0x7fff0000)]
    code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
    filter = ctypes.create_string_buffer(struct.pack('HQ', len(steps), ctypes.addressof(code)))
    if libc.ptrace(TRACEME, 0, 0, 0):
        os._exit(97)
    os.kill(os.getpid(), signal.SIGSTOP)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, filter, 0, 0):
        os._exit(97)
    os.execvp(sys.argv[2], sys.argv[2:])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(child, number))
_, status = os.waitpid(child, 0)
if not os.WIFSTOPPED(status):
    sys.exit(97)
libc.ptrace(SETOPTIONS, child, 0, OPTIONS)
libc.ptrace(CONT, child, 0, 0)
peek = lambda pid, at: libc.ptrace(PEEK, pid, at, 0)
while True:
    pid, status = os.waitpid(-1, 0x40000000)
    if not os.WIFSTOPPED(status):
        if pid == child:
            sys.exit(os.waitstatus_to_exitcode(status) & 255)
        continue
    sent, event = os.WSTOPSIG(status), status >> 16
    registers = (ctypes.c_ulonglong * 27)()
    if event:
        libc.ptrace(GETREGS, pid, 0, ctypes.addressof(registers))
    if event == EXEC:
        # The stack: a number of arguments, arguments, 0, environment, 0, auxiliary vector.
        at = registers[RSP]
        at += 8 * (peek(pid, at) + 2)
        while peek(pid, at):
            at += 8
        at += 8
        while (key := peek(pid, at)):
            if key == AT_SYSINFO_EHDR:
                libc.ptrace(POKE, pid, at, AT_IGNORE)
            at += 16
    if event == SECCOMP:
        with open(sys.argv[1]) as ahead:
            now = time.clock_gettime_ns(time.CLOCK_REALTIME) + 10 ** 9 * int(ahead.read())
        for place, word in enumerate(divmod(now, 10 ** 9)):
            libc.ptrace(POKE, pid, registers[RSI] + 8 * place, word)
        # The call itself is left out, with 0 as its result.
        registers[ORIG_RAX], registers[RAX] = 2 ** 64 - 1, 0
        libc.ptrace(SETREGS, pid, 0, ctypes.addressof(registers))
    libc.ptrace(CONT, pid, 0, 0 if event or sent in (signal.SIGTRAP, signal.SIGSTOP) else sent)
";

/// A time of day for programs that a test starts.
pub struct TimeOfDay(PathBuf);

impl TimeOfDay {
    /// A time of day that is the host's until it is set. `None`, and said, where none can be had.
    pub fn new(scratch: &Scratch) -> Option<Self> {
        if missing("python3", "python3") {
            return None;
        }
        let time = Self(scratch.file("seconds"));
        time.set(1_000_000);
        let mut date = Command::new("date");
        date.arg("+%s");
        let seconds = |command: Command| run_command(command).stdout.trim().parse::<u64>().ok();
        let (there, here) = (seconds(time.of(&date)), seconds(date));
        if there.zip(here).is_none_or(|(there, here)| there < here + 900_000) {
            skip("no program can be given a time of day of its own here (ptrace, seccomp, x86-64)");
            return None;
        }
        time.set(0);
        Some(time)
    }

    /// Sets the time of day of all that was started so: ahead of the host's by so many seconds.
    ///
    /// # Panics
    /// When the file can't be written.
    pub fn set(&self, seconds: i64) {
        let next = self.0.with_extension("next");
        std::fs::write(&next, seconds.to_string()).expect("a file");
        // In one step: the tracer reads the old number or the new one.
        std::fs::rename(&next, &self.0).expect("a file");
    }

    /// The same command with this time of day.
    pub fn of(&self, command: &Command) -> Command {
        let mut stepped = Command::new("python3");
        stepped.args(["-c", STEPPED]).arg(&self.0);
        stepped.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => stepped.env(name, value),
                None => stepped.env_remove(name),
            };
        }
        stepped
    }
}
