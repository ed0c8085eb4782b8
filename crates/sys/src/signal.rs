//! Ctrl-C, SIGTERM and a closed terminal as a flag: a run ends early, with its results.

use std::sync::atomic::{AtomicU32, Ordering};

static CAUGHT: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(_: libc::c_int) {
    // Only an atomic: all that a signal handler may safely do here.
    if CAUGHT.fetch_add(1, Ordering::Relaxed) >= 2 {
        // The third request is from somebody who wants out now.
        // SAFETY: _exit is async-signal-safe.
        unsafe { libc::_exit(130) };
    }
}

/// Catches SIGINT, SIGTERM and SIGHUP from now on, and ignores SIGPIPE (a reader that has gone is an error to report, not an
/// end). The first signal ends the run with its results, a third ends the program at once. Notes when the process was
/// continued, too.
pub fn catch_interrupts() {
    crate::evidence::watch_continues();
    // SAFETY: the handler only touches an atomic and _exit; the struct is fully initialised by zeroed() plus the
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

/// How many of these signals came so far: the first ends the sending, another the wait for what is in flight.
pub fn interruptions() -> u32 {
    CAUGHT.load(Ordering::Relaxed)
}

/// True once any of them came.
pub fn interrupted() -> bool {
    interruptions() > 0
}
