//! Threads and their cores: pinning, timer slack, and what the scheduler did to a thread.

use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use std::io;

/// Cores that this process may run on, in ascending order.
pub fn allowed_cores() -> Vec<usize> {
    sched_getaffinity(None).map_or_else(
        |_| vec![0],
        |set| (0..CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).collect(),
    )
}

/// Pins the calling thread to `core`.
///
/// # Errors
/// When the core does not exist or is not allowed.
pub fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// Sets the calling thread's timer slack to 1 ns, so that a sleep until a departure ends when it should (the default
/// is 50 µs late).
pub fn tight_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
    }
}

/// The calling thread's number, for [`schedstat`].
pub fn thread_id() -> i32 {
    gettid().as_raw_nonzero().get()
}

/// Time that thread `tid` of this process was runnable but did not run, ns since it began. `None` where the kernel
/// does not tell. Source: `/proc/self/task/TID/schedstat`, second field.
pub fn run_delay_ns(tid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Time that the hypervisor took from all cores together, ns since boot, at the resolution of the kernel's tick.
/// Source: `/proc/stat`, `steal`.
pub fn steal_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = text.lines().next()?.split_ascii_whitespace().nth(8)?.parse().ok()?;
    Some(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// Involuntary context switches of the calling thread since it began.
pub fn preemptions() -> u64 {
    // SAFETY: getrusage fills the struct that it is given, which outlives the call; zero bytes are a valid rusage.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    usage.ru_nivcsw as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_pinned_to_each_allowed_core_and_to_no_other() {
        for core in allowed_cores() {
            std::thread::spawn(move || {
                pin(core).expect("allowed core");
                assert_eq!(allowed_cores(), vec![core]);
            })
            .join()
            .expect("thread");
        }
        assert!(pin(CpuSet::MAX_CPU + 1).is_err());
    }

    #[test]
    fn run_delay_of_this_thread_is_told_or_absent_and_a_dead_thread_has_none() {
        if let Some(first) = run_delay_ns(thread_id()) {
            assert!(run_delay_ns(thread_id()).expect("told before") >= first);
        }
        assert_eq!(run_delay_ns(i32::MAX), None);
    }
}
