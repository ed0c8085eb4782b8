//! Ctrl-C, SIGTERM, a closed terminal and a spent CPU-time limit as a flag: a run ends early, with its results. And
//! SIGUSR2: files that rows go to are opened again.

use crate::clock::monotonic_in_handler_ns;
use crate::wake::Wake;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

static CAUGHT: AtomicU32 = AtomicU32::new(0);
/// Times of the first two signals. The third ends the program.
static TIMES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Written by the handler: made before the handler is put in place, and never closed.
static WAKE: OnceLock<Option<Wake>> = OnceLock::new();

/// Number of times that SIGUSR2 came.
static REOPEN: AtomicU32 = AtomicU32::new(0);

/// SIGXCPU came.
static SPENT: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(signal: libc::c_int) {
    // Only what is async-signal-safe: atomics, clock_gettime(2), poll(2), write(2), _exit(2).
    if signal == libc::SIGXCPU {
        SPENT.store(true, Ordering::Relaxed);
        // The kernel repeats it for each further second of CPU time: that is no third request.
        if interruptions() as usize >= TIMES.len() {
            return;
        }
    }
    let before = CAUGHT.fetch_add(1, Ordering::Relaxed) as usize;
    if let Some(time) = TIMES.get(before) {
        time.store(monotonic_in_handler_ns(), Ordering::Relaxed);
    } else {
        // The third request is from somebody who wants out now.
        crate::terminal::give_back();
        // SAFETY: _exit is async-signal-safe.
        unsafe { libc::_exit(130) };
    }
    if let Some(wake) = waker() {
        // SAFETY: __errno_location returns this thread's errno, which is always there. The interrupted code may be
        // about to read it, so it is put back after the write.
        unsafe {
            let errno = *libc::__errno_location();
            wake.wake();
            *libc::__errno_location() = errno;
        }
    }
}

extern "C" fn on_reopen(_: libc::c_int) {
    REOPEN.fetch_add(1, Ordering::Relaxed);
}

/// How often it was asked (SIGUSR2) that files which are written all the time be opened again, since what was their
/// name leads elsewhere (logrotate).
pub fn reopenings() -> u32 {
    REOPEN.load(Ordering::Relaxed)
}

/// Catches SIGINT, SIGTERM, SIGHUP and SIGXCPU from now on, and ignores SIGPIPE (a reader that has gone is an error to
/// report, not an end). The first signal ends the run with its results, a third ends the program at once. Notes when
/// the process was continued, too, and leaves no cursor hidden when Ctrl-Z stops, or another signal ends, the program.
///
/// SIGHUP stays ignored if the program was started with it ignored (`nohup`). SIGINT and SIGTERM do not: a shell starts
/// `command &` of a script with SIGINT ignored, and such a run, too, is to end with its results.
pub fn catch_interrupts() {
    crate::terminal::watch();
    crate::evidence::watch_continues();
    WAKE.get_or_init(|| Wake::new().ok());
    let hang_up = (!ignores_hang_up()).then_some(libc::SIGHUP);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGXCPU].into_iter().chain(hang_up) {
        handle(signal, on_signal, 0);
    }
    // SAFETY: no handler and no memory is passed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Puts a handler in place that does only what is async-signal-safe.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int), flags: libc::c_int) {
    // SAFETY: the handler only does what is async-signal-safe; the struct is fully initialised by zeroed() plus the
    // fields set, as sigaction(2) asks.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Returns whether this process ignores SIGHUP: then it was started to outlive the terminal (`nohup`).
pub fn ignores_hang_up() -> bool {
    // SAFETY: a zeroed `sigaction` is a value; the call only writes to it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

extern "C" fn nothing(_: libc::c_int) {}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with EFBIG from now on, as a write to a full disk fails.
/// Without a handler the kernel ends the program by SIGXFSZ. A handler, unlike SIG_IGN, is not handed on to programs
/// that this one starts.
///
/// And SIGUSR2 is heard from now on ([`reopenings`]): who rotates the files of all runs of a host sends it to those,
/// too, that have none, or have hardly begun.
pub fn survive() {
    handle(libc::SIGXFSZ, nothing, 0);
    // A call that it interrupts goes on.
    handle(libc::SIGUSR2, on_reopen, libc::SA_RESTART);
}

/// Whether SIGXCPU came: a limit of CPU time was reached.
pub fn cpu_time_is_spent() -> bool {
    SPENT.load(Ordering::Relaxed)
}

/// A limit of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLimit {
    /// Seconds (`RLIMIT_CPU`) or microseconds (`RLIMIT_RTTIME`) at which SIGXCPU comes.
    pub soft: u64,
    /// The same at which the kernel kills the program; `None`: it does not.
    pub hard: Option<u64>,
}

impl CpuLimit {
    /// The limit of the process's CPU time, s; `None`: there is none.
    pub fn of_process() -> Option<Self> {
        Self::of(Resource::Cpu)
    }

    /// The limit of the time that a thread with real-time priority may run without sleeping, µs; `None`: there is none.
    pub fn of_real_time() -> Option<Self> {
        Self::of(Resource::Rttime)
    }

    fn of(resource: Resource) -> Option<Self> {
        let limit = getrlimit(resource);
        let soft = limit.current.or(limit.maximum)?;
        Some(Self {
            soft,
            hard: limit.maximum,
        })
    }

    /// Whether the kernel kills the program when this limit is reached, and leaves no time for results.
    pub fn kills(&self) -> bool {
        self.hard.is_some_and(|hard| hard <= self.soft)
    }
}

/// CPU time of this process, all threads together, s.
pub fn cpu_time_s() -> u64 {
    clock_gettime(ClockId::ProcessCPUTime).tv_sec as u64
}

/// Does what one of these signals does, for a key that asks for the same. No signal is sent: the thread that hears the
/// key may not be allowed to send the process any.
pub fn interrupt() {
    on_signal(libc::SIGINT);
}

/// Ends a sleep when one of these signals comes; `None` before [`catch_interrupts`].
pub fn waker() -> Option<&'static Wake> {
    WAKE.get()?.as_ref()
}

/// How many of these signals came so far: the first ends the sending, another the wait for what is in flight.
pub fn interruptions() -> u32 {
    CAUGHT.load(Ordering::Relaxed)
}

/// When the first two of them came, ns of the lanes' clock.
pub fn interrupted_at() -> Vec<u64> {
    let times = TIMES.iter().map(|time| time.load(Ordering::Relaxed));
    times.filter(|&time| time > 0).collect()
}

/// True once any of them came.
pub fn interrupted() -> bool {
    interruptions() > 0
}

/// The process that [`pass_on`] passes signals on to; 0: none.
static CHILD: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_passed(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let child = CHILD.load(Ordering::Acquire);
    // SAFETY: the kernel hands a siginfo to a handler with SA_SIGINFO. kill(2) is async-signal-safe; errno, which the
    // interrupted code may be about to read, is this thread's and put back.
    unsafe {
        // Signals from the terminal reach the child as well: both processes are in its foreground.
        if child > 0 && (*info).si_code != libc::SI_KERNEL {
            let errno = *libc::__errno_location();
            libc::kill(child, signal);
            *libc::__errno_location() = errno;
        }
    }
}

/// From now on a child has this process's signals: SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 go to it, and
/// none of them ends this process. A SIGHUP that is ignored stays so, for both. [`pass_none`] must come before the
/// child is waited for.
pub fn pass_on(child: i32) {
    CHILD.store(child, Ordering::Release);
    let all = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];
    let hang_up = (!ignores_hang_up()).then_some(libc::SIGHUP);
    for signal in all.into_iter().chain(hang_up) {
        // SAFETY: the handler only does what is async-signal-safe; the struct is fully initialised by zeroed() plus
        // the fields set, as sigaction(2) asks. SA_RESTART: calls that it interrupts go on.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_passed as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Passes no more signals on: the number of a child that was waited for may be another process's.
pub fn pass_none() {
    CHILD.store(0, Ordering::Release);
}
