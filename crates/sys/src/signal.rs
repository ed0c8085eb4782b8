//! Ctrl-C, SIGTERM and a closed terminal as a flag: a run ends early, with its results.

use crate::clock::monotonic_in_handler_ns;
use crate::wake::Wake;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

static CAUGHT: AtomicU32 = AtomicU32::new(0);
/// When they came: the third ends the program.
static TIMES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Written by the handler: made before the handler is put in place, and never closed.
static WAKE: OnceLock<Option<Wake>> = OnceLock::new();

extern "C" fn on_signal(_: libc::c_int) {
    // Only what is async-signal-safe: atomics, clock_gettime(2), poll(2), write(2), _exit(2).
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

/// Catches SIGINT, SIGTERM and SIGHUP from now on, and ignores SIGPIPE (a reader that has gone is an error to report,
/// not an end). The first signal ends the run with its results, a third ends the program at once. Notes when the
/// process was continued, too, and leaves no cursor hidden when Ctrl-Z stops, or another signal ends, the program.
pub fn catch_interrupts() {
    crate::terminal::watch();
    crate::evidence::watch_continues();
    WAKE.get_or_init(|| Wake::new().ok());
    // SAFETY: the handler only does what is async-signal-safe; the struct is fully initialised by zeroed() plus the
    // fields set, as sigaction(2) asks.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
        libc::sigaction(libc::SIGHUP, &action, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
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
        // What the terminal sends, it sends to the child as well: both are in its foreground.
        if child > 0 && (*info).si_code != libc::SI_KERNEL {
            let errno = *libc::__errno_location();
            libc::kill(child, signal);
            *libc::__errno_location() = errno;
        }
    }
}

/// From now on a child has this process's signals: SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 go to it, and
/// none of them ends this process. [`pass_none`] must come before the child is waited for.
pub fn pass_on(child: i32) {
    CHILD.store(child, Ordering::Release);
    let all = [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ];
    for signal in all {
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
