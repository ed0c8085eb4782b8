//! Whether the program was started with a standard output.
//!
//! Rust opens `/dev/null` in place of a standard stream that is closed (`mpps … >&-`), before `main`. What is written
//! there is lost without an error, so the question is asked earlier: by the loader, which runs the functions of
//! `.init_array` first.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: plain numbers. Only asks for the descriptor's flags; sets this thread's errno, which nobody reads yet.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags < 0, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions that the loader calls once each, with arguments that `look` does not
// take, which the C calling convention allows. `look` needs nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static EARLY: extern "C" fn() = look;

/// Standard output was closed when the program was started: nothing can be written to it.
pub fn stdout_is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
