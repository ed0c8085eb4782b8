//! Threads on a host that may refuse them: a limit of processes, a limit of the control group, or a sandbox. The error
//! says which of these it is, as far as the host shows it.

use crate::cgroup::Groups;
use crate::privilege::{CapabilitySet, held};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread.
///
/// # Errors
/// When the host refuses one: with the reason.
pub fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(explained)
}

/// Starts a thread that ends within `scope`.
///
/// # Errors
/// As [`spawn`].
pub fn spawn_scoped<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 's,
) -> io::Result<ScopedJoinHandle<'s, T>> {
    let named = Builder::new().name(name.to_owned());
    named.spawn_scoped(scope, work).map_err(explained)
}

/// Does something on a thread of its own, and waits for that. A panic there goes on here.
///
/// # Errors
/// As [`spawn`].
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = Builder::new().spawn_scoped(scope, work).map_err(explained)?;
        match thread.join() {
            Ok(done) => Ok(done),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The error of a thread or process that could not be started, with the limit that was met, if the host shows one.
pub fn explained(error: io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::EAGAIN) => limit(),
        Some(libc::EPERM | libc::ENOSYS) => sandbox(),
        _ => None,
    };
    match why {
        Some(why) => io::Error::new(error.kind(), format!("{error}: {why}")),
        None => error,
    }
}

/// The limit that leaves no room for another thread.
fn limit() -> Option<String> {
    if let Some(full) = Groups::live().pids().into_iter().find(|pids| pids.current >= pids.most) {
        return Some(format!(
            "the control group {} allows {} processes and threads (pids.max), and has as many: want a higher limit",
            full.group, full.most
        ));
    }
    // The kernel does not apply the limit to holders of one of these.
    let exempt = held().intersects(CapabilitySet::SYS_RESOURCE | CapabilitySet::SYS_ADMIN);
    let most = getrlimit(Resource::Nproc).current.filter(|_| !exempt)?;
    Some(format!(
        "this user may have {most} processes and threads (ulimit -u): want a higher limit, or fewer of them"
    ))
}

/// Returns the explanation if a filter of system calls refuses `clone3`, by which the C library starts threads.
fn sandbox() -> Option<String> {
    // SAFETY: no struct is passed, and its size is 0: a kernel that is asked refuses that as invalid, and starts
    // nothing.
    let result = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null_mut::<u8>(), 0usize) };
    let refused = result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    refused.then(|| {
        "a sandbox (seccomp) refuses clone3, by which threads are started: want a sandbox that allows it, or answers \
         ENOSYS"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_on_another_thread_and_a_panic_of_it_goes_on() {
        let here = std::thread::current().id();
        assert_ne!(apart(|| std::thread::current().id()).expect("a thread"), here);
        let panicked = std::panic::catch_unwind(|| apart(|| panic!("over")));
        assert!(panicked.is_err());
    }

    #[test]
    fn an_error_of_another_kind_is_left_as_it_is() {
        let error = explained(io::Error::from_raw_os_error(libc::ENOMEM));
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    }
}
