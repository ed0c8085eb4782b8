//! The terminal's cursor comes back however the program stops or ends: a live view hides it, and few shells show it
//! again.
//!
//! A view restores it when it ends. Ctrl-Z, Ctrl-\ and the third Ctrl-C leave no time for that, so their handlers do.

use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

static HIDDEN: AtomicBool = AtomicBool::new(false);
/// Whether Ctrl-Z is ours to handle: not where whoever started the program had it ignored.
static STOPS: AtomicBool = AtomicBool::new(false);

/// Says whether the cursor of the terminal on standard error is hidden now: before it is hidden, after it was shown.
pub fn set_hidden(hidden: bool) {
    HIDDEN.store(hidden, Ordering::Relaxed);
}

/// Shows a hidden cursor. Async-signal-safe, and waits for nobody: a terminal that takes nothing (Ctrl-S) stays as it
/// is.
pub(crate) fn give_back() {
    if !HIDDEN.swap(false, Ordering::Relaxed) {
        return;
    }
    let show = b"\x1b[?25h";
    let mut terminal = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: poll and write are async-signal-safe and get a pollfd and bytes that live here. The interrupted code may
    // be about to read errno, which is this thread's and always there, so it is put back.
    unsafe {
        let errno = *libc::__errno_location();
        if libc::poll(&raw mut terminal, 1, 0) == 1 && terminal.revents & libc::POLLOUT != 0 {
            libc::write(terminal.fd, show.as_ptr().cast(), show.len());
        }
        *libc::__errno_location() = errno;
    }
}

/// The default, which SA_RESETHAND has put back, does the rest as soon as this returns. It is not for SIGSTOP to do: a
/// group that has no shell to continue it is not stopped by Ctrl-Z, and would be for good.
extern "C" fn on_leaving(signal: libc::c_int) {
    give_back();
    // SAFETY: raise is async-signal-safe. The signal is blocked until this handler returns.
    unsafe { libc::raise(signal) };
}

/// From now on Ctrl-Z and Ctrl-\ show the cursor first, unless they were ignored.
pub(crate) fn watch() {
    STOPS.store(handle(libc::SIGTSTP), Ordering::Relaxed);
    handle(libc::SIGQUIT);
}

/// For the next Ctrl-Z: a handler of a signal is gone once it was called. Async-signal-safe.
pub(crate) fn continued() {
    if STOPS.load(Ordering::Relaxed) {
        handle(libc::SIGTSTP);
    }
}

/// Whether it is handled now.
fn handle(signal: libc::c_int) -> bool {
    // SAFETY: sigaction is async-signal-safe, and so is all that the handler does; the structs are fully initialised by
    // zeroed() plus the fields set, as sigaction(2) asks.
    unsafe {
        let mut before: libc::sigaction = zeroed();
        libc::sigaction(signal, null_mut(), &raw mut before);
        if before.sa_sigaction == libc::SIG_IGN {
            return false;
        }
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = on_leaving as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, null_mut()) == 0
    }
}
