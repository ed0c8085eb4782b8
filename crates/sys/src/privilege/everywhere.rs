//! Threads that libraries have made, which give up their privileges on a signal.

use super::Keep;
use rustix::thread::CapabilitySet;
use std::io;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// How long the other threads may take to give up what they hold.
const LIMIT: Duration = Duration::from_secs(2);

/// Privileges that [`everywhere`] leaves to threads that the signal reaches.
static WANTED: AtomicPtr<Keep> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn on_signal(_: libc::c_int) {
    let wanted = WANTED.load(Ordering::Acquire);
    if !wanted.is_null() {
        // SAFETY: it was leaked when the signal was given its handler, and nobody changes it. What follows makes system
        // calls only, not by way of the C library, so neither a lock nor `errno` is touched. A refusal is seen by the
        // thread that asked.
        let _ = unsafe { &*wanted }.apply();
    }
}

/// A real-time signal that nobody in this process has a handler for: drivers take them, too, from the lowest on
/// (net_tap, one per queue).
fn free_signal() -> Option<libc::c_int> {
    (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(|&number| {
        // SAFETY: a zeroed `sigaction` is a value; the call only writes to it.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            (libc::sigaction(number, std::ptr::null(), &raw mut action) == 0).then_some(action)
        };
        action.is_some_and(|action| action.sa_sigaction == libc::SIG_DFL)
    })
}

/// Makes the threads of this process that libraries have made keep `keep`: all whose capabilities or user are more than
/// `most`, which is what the process's own may have kept. Called last, when those have given up theirs.
///
/// # Errors
/// When a thread still has more a while later: with its name.
pub fn everywhere(keep: &Keep, most: CapabilitySet) -> io::Result<()> {
    let mut asked = Vec::new();
    let mut signal = 0;
    let deadline = Instant::now() + LIMIT;
    loop {
        let left = strays(keep, most);
        let Some((_, name)) = left.first() else { return Ok(()) };
        if Instant::now() > deadline {
            let why = format!("the thread '{name}' keeps what it had");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        if asked.is_empty() {
            signal = free_signal().ok_or_else(|| io::Error::other("no real-time signal is free"))?;
            WANTED.store(Box::leak(Box::new(keep.clone())), Ordering::Release);
            // SAFETY: the struct is fully initialised by zeroed() plus the fields set, as sigaction(2) asks; the
            // handler is safe for a signal. SA_RESTART: most calls that it interrupts go on.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
        for (thread, _) in left {
            if !asked.contains(&thread) {
                // SAFETY: plain numbers; the kernel checks that the thread is this process's.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
                asked.push(thread);
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Threads that have more than they should, with their names. Source: `/proc/self/task/*/status`.
fn strays(keep: &Keep, most: CapabilitySet) -> Vec<(i32, String)> {
    let mut left = Vec::new();
    // Without /proc none can be found.
    for entry in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // One that has ended meanwhile has nothing any more.
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.split_ascii_whitespace().next())
        };
        let held = field("CapPrm:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let more = held.is_some_and(|held| !most.contains(CapabilitySet::from_bits_retain(held)));
        let uid = field("Uid:").and_then(|uid| uid.parse::<u32>().ok());
        let other = keep.user.as_ref().is_some_and(|user| uid != Some(user.uid()));
        if more || other {
            left.push((thread, field("Name:").unwrap_or("?").to_owned()));
        }
    }
    left
}
