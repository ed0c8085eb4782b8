//! The terminal comes back as it was however the program stops or ends: a live view hides the cursor, a full-screen
//! view also takes the alternate screen and turns echo off, and few shells undo that.
//!
//! A view restores all of it when it ends. Ctrl-Z, Ctrl-\, a panic, the third Ctrl-C, and signals that end a program
//! which does not catch them, a fault of its own among them, leave no time for that, so their handlers do.

use std::io;
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

static HIDDEN: AtomicBool = AtomicBool::new(false);
/// How the terminal on standard input was before [`take`]; null while it is as it was. What is behind the pointer is
/// never freed: a handler may read it at any time. It is 60 bytes per [`take`], of which a run has one, and one more
/// after each Ctrl-Z.
static BEFORE: AtomicPtr<libc::termios> = AtomicPtr::new(null_mut());
/// The alternate screen is shown, or may be.
static ALTERNATE: AtomicBool = AtomicBool::new(false);
/// A thread is writing to the full screen now.
static DRAWING: AtomicBool = AtomicBool::new(false);
/// Nobody takes the screen any more.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// Ctrl-Z is ours to handle: the program was not started with it ignored.
static STOPS: AtomicBool = AtomicBool::new(false);

/// Ends a frame that was cut short, resets colours, leaves the alternate screen, shows the cursor.
const LEAVE: &[u8] = b"\x1b[?2026l\x1b[0m\x1b[?1049l\x1b[?25h";
const SHOW: &[u8] = b"\x1b[?25h";
/// How long the way back waits for the terminal to take it, ms. One that takes nothing (Ctrl-S) stays as it is.
const PATIENCE_MS: libc::c_int = 50;

/// Signals that a fault of the program's own raises, by an instruction that is tried again when a handler returns.
const FAULTS: [libc::c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
/// Other signals that end the program, and that it has no use for. Real-time signals are left to the libraries that
/// take them; SIGINT and its like end a run with its results, SIGUSR2 has files opened again, SIGPIPE is ignored, and
/// SIGXFSZ is a failed write.
const ENDINGS: [libc::c_int; 10] = [
    libc::SIGABRT,
    libc::SIGALRM,
    libc::SIGIO,
    libc::SIGPROF,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGSYS,
    libc::SIGTRAP,
    libc::SIGUSR1,
    libc::SIGVTALRM,
];
/// Action in place for each of [`FAULTS`] before; null: nothing, or the default. The memory behind the pointers is
/// never freed.
static FORMER: [AtomicPtr<libc::sigaction>; FAULTS.len()] = [const { AtomicPtr::new(null_mut()) }; FAULTS.len()];
/// [`watch_ends`] was called.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Says whether the cursor of the terminal on standard error is hidden now: before it is hidden, after it was shown.
pub fn set_hidden(hidden: bool) {
    HIDDEN.store(hidden, Ordering::Relaxed);
}

/// Takes the terminal on standard input for a full-screen view: keys come one by one and without echo, and Ctrl-C,
/// Ctrl-Z and Ctrl-\ stay signals. The caller then draws inside [`draw`]. False: Ctrl-Z or the end of the program came
/// just then, and the terminal is given back again.
///
/// # Errors
/// When standard input is no terminal, or nobody may take it any more ([`close`]).
pub fn take() -> io::Result<bool> {
    if CLOSED.load(Ordering::SeqCst) {
        return Err(io::Error::other("the program ends"));
    }
    // SAFETY: tcgetattr fills the struct, which lives here; tcsetattr reads one.
    unsafe {
        let mut before: libc::termios = zeroed();
        if libc::tcgetattr(libc::STDIN_FILENO, &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut keys = before;
        keys.c_lflag &= !(libc::ICANON | libc::ECHO);
        keys.c_cc[libc::VMIN] = 1;
        keys.c_cc[libc::VTIME] = 0;
        // Before the change: a handler that comes between the two restores what still is.
        let ours = Box::into_raw(Box::new(before));
        BEFORE.store(ours, Ordering::SeqCst);
        if libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const keys) != 0 {
            let error = io::Error::last_os_error();
            BEFORE.store(null_mut(), Ordering::SeqCst);
            return Err(error);
        }
        // `close` sets CLOSED and then takes BEFORE; here BEFORE is set and then CLOSED read: one of the two sees the
        // other. One that took BEFORE ahead of the change has put back what had not changed yet: it is done again.
        if CLOSED.load(Ordering::SeqCst) || BEFORE.load(Ordering::SeqCst) != ours {
            BEFORE.store(ours, Ordering::SeqCst);
            restore();
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a full-screen view has the terminal. Ctrl-Z takes it away.
pub fn taken() -> bool {
    !BEFORE.load(Ordering::Acquire).is_null()
}

/// Writes to the full screen, as long as it is taken; `None` if it is not. `write` gives how many bytes went out.
/// Giving the screen back waits for the end of this, a moment at the most.
pub fn draw<E>(write: impl FnOnce() -> Result<usize, E>) -> Option<Result<usize, E>> {
    struct Drawing;
    impl Drop for Drawing {
        fn drop(&mut self) {
            DRAWING.store(false, Ordering::SeqCst);
        }
    }
    DRAWING.store(true, Ordering::SeqCst);
    let _drawing = Drawing;
    // Sequentially consistent with the swap in `restore`: one of the two sees the other.
    if BEFORE.load(Ordering::SeqCst).is_null() {
        return None;
    }
    let written = write();
    if matches!(written, Ok(1..)) {
        ALTERNATE.store(true, Ordering::SeqCst);
    }
    Some(written)
}

/// Gives the terminal back, if it is taken. False: it takes nothing now, so the alternate screen stays for the next
/// call to leave.
pub fn leave() -> bool {
    restore();
    !ALTERNATE.load(Ordering::SeqCst)
}

/// Whether the terminal on standard error takes something now, or in a moment. Async-signal-safe.
pub fn takes() -> bool {
    let mut terminal = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: poll is async-signal-safe and gets one pollfd, which lives here.
    unsafe { libc::poll(&raw mut terminal, 1, PATIENCE_MS) == 1 }
}

/// Gives the terminal back and lets nobody take it again: the program panics or ends.
pub fn close() {
    CLOSED.store(true, Ordering::SeqCst);
    give_back();
}

/// The calling thread hears no signal from now on: other threads do. One that draws must not be interrupted by a
/// handler that waits for the drawing to end, and is not stopped when it touches a terminal in the background. A fault
/// of its own is the exception: if its signal is blocked, the kernel ends the program at once.
pub fn deaf() {
    // SAFETY: sigfillset fills the set, which lives here; sigdelset changes it, and pthread_sigmask reads it.
    unsafe {
        let mut all: libc::sigset_t = zeroed();
        libc::sigfillset(&raw mut all);
        for fault in FAULTS {
            libc::sigdelset(&raw mut all, fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, null_mut());
    }
}

/// Writes to the terminal on standard error; false if it takes nothing now. Async-signal-safe.
fn write(bytes: &[u8]) -> bool {
    if !takes() {
        return false;
    }
    // SAFETY: write is async-signal-safe and gets bytes that live here. A terminal that is gone has nobody to look at
    // it.
    unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
    true
}

/// Puts back modes and screen, each once. Async-signal-safe.
fn restore() {
    let before = BEFORE.swap(null_mut(), Ordering::SeqCst);
    if !before.is_null() {
        // SAFETY: all calls are async-signal-safe and get structs that live here, or what `take` has put behind the
        // pointer, which is never freed.
        unsafe {
            // In the background the terminal has another program's modes; and SIGTTOU would stop this one.
            let group = libc::tcgetpgrp(libc::STDIN_FILENO);
            if group == -1 || group == libc::getpgrp() {
                let (mut stop, mut mask): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
                libc::sigemptyset(&raw mut stop);
                libc::sigaddset(&raw mut stop, libc::SIGTTOU);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const stop, &raw mut mask);
                libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, before);
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, null_mut());
            }
            // A frame that is being written now ends first.
            let moment = libc::timespec {
                tv_sec: 0,
                tv_nsec: 1_000_000,
            };
            for _ in 0..PATIENCE_MS {
                if !DRAWING.load(Ordering::SeqCst) {
                    break;
                }
                libc::nanosleep(&raw const moment, null_mut());
            }
        }
    }
    if ALTERNATE.swap(false, Ordering::SeqCst) && !write(LEAVE) {
        ALTERNATE.store(true, Ordering::SeqCst);
    }
}

/// Restores the screen, or shows a hidden cursor. Async-signal-safe, and waits for nobody but a moment: a terminal that
/// takes nothing (Ctrl-S) stays as it is.
pub(crate) fn give_back() {
    // SAFETY: the interrupted code may be about to read errno, which is this thread's and always there, so it is put
    // back.
    unsafe {
        let errno = *libc::__errno_location();
        restore();
        if HIDDEN.swap(false, Ordering::Relaxed) {
            write(SHOW);
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

/// Does what [`on_leaving`] does, and leaves a fault to the handler that was in place before. The instruction is tried
/// again when this returns, and Rust's own handler, say, reports that the stack is full.
extern "C" fn on_ending(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    give_back();
    // SAFETY: the kernel hands a siginfo to a handler with SA_SIGINFO. sigaction and raise are async-signal-safe, and
    // what is behind a pointer in FORMER is never freed. The signal is blocked until this handler returns.
    unsafe {
        let number = FAULTS.iter().position(|fault| *fault == signal);
        // Else a process has sent it, and no instruction will raise it again.
        match number.filter(|_| (*info).si_code > 0) {
            Some(number) => {
                let former = FORMER[number].load(Ordering::Acquire);
                if !former.is_null() {
                    libc::sigaction(signal, former, null_mut());
                }
            }
            None => _ = libc::raise(signal),
        }
    }
}

/// From now on Ctrl-Z and Ctrl-\, and whatever else stops or ends the program, restore the terminal first, unless they
/// were ignored.
pub(crate) fn watch() {
    STOPS.store(handle(libc::SIGTSTP), Ordering::Relaxed);
    handle(libc::SIGQUIT);
    watch_ends();
}

/// Only once: libraries that have a use for a fault put their handlers above these later, and have them called.
fn watch_ends() {
    if WATCHED.swap(true, Ordering::Relaxed) {
        return;
    }
    for (number, signal) in FAULTS.into_iter().chain(ENDINGS).enumerate() {
        // SAFETY: the handler only does what is async-signal-safe; the structs are fully initialised by zeroed() plus
        // the fields set, as sigaction(2) asks.
        unsafe {
            let mut before: libc::sigaction = zeroed();
            libc::sigaction(signal, null(), &raw mut before);
            let former = FORMER.get(number);
            // A handler for any other signal is there for a purpose of its own.
            let free = before.sa_sigaction == libc::SIG_DFL || former.is_some();
            if before.sa_sigaction == libc::SIG_IGN || !free {
                continue;
            }
            if let Some(former) = former.filter(|_| before.sa_sigaction != libc::SIG_DFL) {
                former.store(Box::into_raw(Box::new(before)), Ordering::Release);
            }
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = on_ending as *const () as usize;
            // SA_ONSTACK: the fault may be that the stack is full.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_RESETHAND | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, null_mut());
        }
    }
}

/// For the next Ctrl-Z: a handler of a signal is gone once it was called. Async-signal-safe.
pub(crate) fn continued() {
    if STOPS.load(Ordering::Relaxed) {
        handle(libc::SIGTSTP);
    }
}

/// For a group that has no shell to continue it: Ctrl-Z has not stopped it, so nothing says that it goes on.
pub fn not_stopped() {
    continued();
}

/// Whether it is handled now.
fn handle(signal: libc::c_int) -> bool {
    // SAFETY: sigaction is async-signal-safe, and so is all that the handler does; the structs are fully initialised by
    // zeroed() plus the fields set, as sigaction(2) asks.
    unsafe {
        let mut before: libc::sigaction = zeroed();
        libc::sigaction(signal, null(), &raw mut before);
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
