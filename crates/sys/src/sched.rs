//! Threads and their cores: pinning, timer slack, and what the scheduler did to a thread.

use crate::cgroup::{Groups, RealTimeLimit};
use crate::privilege::{CapabilitySet, held};
use crate::probe::in_user_namespace;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use std::io;
use std::sync::OnceLock;

/// Cores that this process may run on, in ascending order, as they were when this was first asked: before any thread
/// was given cores of its own.
pub fn allowed_cores() -> Vec<usize> {
    static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
    ALLOWED.get_or_init(own_cores).clone()
}

/// Cores that the calling thread may run on now, in ascending order.
pub fn own_cores() -> Vec<usize> {
    sched_getaffinity(None).map_or_else(
        |_| vec![0],
        |set| (0..CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).collect(),
    )
}

/// Returns those of the `wanted` cores that a thread of this process could be given. `taskset` can widen a mask that
/// was narrowed by `taskset`, but not what a cpuset allows. `None`: no thread can be started to try.
pub fn possible_cores(wanted: &[usize]) -> Option<Vec<usize>> {
    let mut set = CpuSet::new();
    let named = wanted.iter().filter(|&&core| core < CpuSet::MAX_CPU);
    named.for_each(|&core| set.set(core));
    let widest = || sched_setaffinity(None, &set).map_or_else(|_| Vec::new(), |()| own_cores());
    crate::thread::apart(widest).ok()
}

/// The first of these cores that no thread of this process can be given, and all that can be. That is tried: a thread
/// may leave the mask that it was started with, and not a cpuset.
pub fn denied_core(wanted: &[usize]) -> Option<(usize, Vec<usize>)> {
    let possible = possible_cores(wanted)?;
    let core = *wanted.iter().find(|core| !possible.contains(core))?;
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).collect();
    Some((core, possible_cores(&all).unwrap_or_default()))
}

/// Whether a thread of this process could be given a priority now; yes if no thread can be started to try.
pub fn may_have(priority: Priority) -> bool {
    crate::thread::apart(move || set_priority(priority, Heirs::Normal).is_ok()).unwrap_or(true)
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

/// Keeps the calling thread on `core`, if it can be given that: what the kernel allocates for it meanwhile, and what it
/// touches first, is on that core's NUMA node.
pub fn keep_on(core: Option<usize>) -> KeptOff {
    // Asked for first: it remembers which cores the process may use.
    allowed_cores();
    let before = sched_getaffinity(None).ok();
    KeptOff(before.filter(|_| core.is_some_and(|core| pin(core).is_ok())))
}

/// Keeps the calling thread, and those that it starts meanwhile, off some cores or on one, until dropped.
#[derive(Debug)]
pub struct KeptOff(Option<CpuSet>);

/// Keeps the calling thread off `cores`, if it may run on others.
pub fn keep_off(cores: &[usize]) -> KeptOff {
    // Asked for first: it remembers which cores the process may use.
    allowed_cores();
    let Ok(before) = sched_getaffinity(None) else {
        return KeptOff(None);
    };
    let mut set = CpuSet::new();
    let rest = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core) && !cores.contains(core));
    let left = rest.map(|core| set.set(core)).count();
    // If the kernel refuses, the thread stays on its cores: this is a favour to the lanes, not a need.
    KeptOff((left > 0 && set != before && sched_setaffinity(None, &set).is_ok()).then_some(before))
}

impl Drop for KeptOff {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// Sets the calling thread's timer slack to 1 ns, so that a sleep until a departure ends when it should (the default
/// is 50 µs late).
pub fn tight_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
    }
}

/// The calling thread's number.
pub fn thread_id() -> i32 {
    gettid().as_raw_nonzero().get()
}

/// Asks the scheduler to serve the calling thread in short slices (0.1 ms, the least that Linux 6.12 and later grant;
/// others ignore it). A thread that wakes with a shorter slice than the one that is running takes the core at once, and
/// both alternate by the shorter slice, not by milliseconds. It takes no more of the core for that.
pub fn short_slices() {
    let mut attr = SchedAttr::default();
    // SAFETY: sched_getattr(2) writes at most as many bytes to the struct as the size that is passed, sched_setattr(2)
    // reads as many as its first field says; both concern the calling thread (0) alone. The struct is
    // SCHED_ATTR_SIZE_VER0.
    unsafe {
        let zero: libc::c_long = 0;
        let size = size_of::<SchedAttr>() as libc::c_long;
        let got = libc::syscall(libc::SYS_sched_getattr, zero, &raw mut attr, size, zero);
        if got == 0 && matches!(attr.policy, POLICY_NORMAL | POLICY_BATCH) {
            attr.runtime_ns = SHORT_SLICE_NS;
            libc::syscall(libc::SYS_sched_setattr, zero, &raw const attr, zero);
        }
    }
}

/// Least slice that Linux grants, ns (`kernel/sched/syscalls.c`, `__setparam_fair`).
const SHORT_SLICE_NS: u64 = 100_000;
const POLICY_NORMAL: u32 = 0;
const POLICY_FIFO: u32 = 1;
const POLICY_RR: u32 = 2;
const POLICY_BATCH: u32 = 3;
const POLICY_DEADLINE: u32 = 6;
/// `SCHED_FLAG_RESET_ON_FORK` of `linux/sched.h`.
const RESET_ON_FORK: u64 = 1;

/// `struct sched_attr` of `linux/sched/types.h`, first version.
#[derive(Default)]
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const _: () = assert!(size_of::<SchedAttr>() == 48 && std::mem::offset_of!(SchedAttr, runtime_ns) == 24);

/// How the scheduler ranks a thread among others that want its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Nice value, -20 (largest share of the core) to 19.
    Nice(i32),
    /// `SCHED_FIFO` with this real-time priority, 1 to 99: it runs until it sleeps, even if threads of lower rank wait.
    Fifo(u32),
}

impl std::fmt::Display for Priority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nice(nice) => write!(f, "nice {nice}"),
            Self::Fifo(priority) => write!(f, "SCHED_FIFO {priority}"),
        }
    }
}

/// Whether threads and processes that a thread starts have its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heirs {
    /// The same priority.
    Same,
    /// The normal priority (`SCHED_FLAG_RESET_ON_FORK`).
    Normal,
}

/// Gives the calling thread a priority. Async-signal-safe: two system calls and nothing else.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE`, but for a lower priority than it has and within the limits of `ulimit -e`, `-r`.
pub fn set_priority(priority: Priority, heirs: Heirs) -> io::Result<()> {
    let mut attr = SchedAttr::default();
    let zero: libc::c_long = 0;
    let size = size_of::<SchedAttr>() as libc::c_long;
    // SAFETY: as in `short_slices`.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, zero, &raw mut attr, size, zero) } != 0 {
        return Err(io::Error::last_os_error());
    }
    match priority {
        // Leaves any real-time policy, as a nice value means nothing to SCHED_FIFO. The slice stays.
        Priority::Nice(nice) => (attr.policy, attr.priority, attr.nice) = (normal(attr.policy), 0, nice),
        Priority::Fifo(rank) => (attr.policy, attr.priority, attr.nice, attr.runtime_ns) = (POLICY_FIFO, rank, 0, 0),
    }
    if heirs == Heirs::Normal {
        attr.flags |= RESET_ON_FORK;
    }
    // SAFETY: as in `short_slices`.
    if unsafe { libc::syscall(libc::SYS_sched_setattr, zero, &raw const attr, zero) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns whether the calling thread has a real-time class; not if the host does not say.
pub fn is_real_time() -> bool {
    let mut attr = SchedAttr::default();
    let zero: libc::c_long = 0;
    let size = size_of::<SchedAttr>() as libc::c_long;
    // SAFETY: as in `short_slices`.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, zero, &raw mut attr, size, zero) };
    got == 0 && matches!(attr.policy, POLICY_FIFO | POLICY_RR | POLICY_DEADLINE)
}

/// Number of cores of this host that are online, whichever of them this process may use; `None`: not known.
pub fn online_cores() -> Option<u64> {
    cores_in(&std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?)
}

/// Number of cores in a list as `0-3,6`.
fn cores_in(list: &str) -> Option<u64> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(u64::from(last.checked_sub(first)?) + 1)
    };
    list.trim().split(',').map(range).sum()
}

/// Returns what is missing for a refused priority, as the end of a sentence: empty if nothing shows it.
pub fn lacks_for(priority: Priority, error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return String::new();
    }
    let none = |limit: &RealTimeLimit| matches!(priority, Priority::Fifo(_)) && limit.granted_us == 0;
    if let Some(limit) = Groups::live().real_time().filter(none) {
        return format!(
            ": the control group {} grants real-time threads no time (cpu.rt_runtime_us is 0): want another \
             group, or --nice",
            limit.group
        );
    }
    if !held().contains(CapabilitySet::SYS_NICE) {
        return ": want root, or CAP_SYS_NICE".to_owned();
    }
    match in_user_namespace() {
        Some(true) => ": this process is root in a user namespace only, and its CAP_SYS_NICE does not count".to_owned(),
        _ => ": this process holds CAP_SYS_NICE, so a sandbox or another limit refuses it".to_owned(),
    }
}

/// The policy that a thread with a nice value has.
fn normal(policy: u32) -> u32 {
    if policy == POLICY_BATCH {
        POLICY_BATCH
    } else {
        POLICY_NORMAL
    }
}

/// Lets another thread that is ready run on this core; returns at once if there is none.
#[inline]
pub fn yield_core() {
    rustix::thread::sched_yield();
}

/// Processor time of the calling thread since it began, ns.
pub fn thread_cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
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
                assert_eq!(own_cores(), vec![core]);
            })
            .join()
            .expect("thread");
        }
        assert!(pin(CpuSet::MAX_CPU + 1).is_err());
    }

    #[test]
    fn a_thread_kept_off_cores_or_on_one_may_return() {
        std::thread::spawn(|| {
            let before = own_cores();
            drop(keep_off(&before));
            assert_eq!(own_cores(), before, "kept off all: stays");
            let (first, rest) = before.split_first().expect("a core");
            let kept = keep_off(&[*first]);
            assert_eq!(
                own_cores(),
                if rest.is_empty() { before.clone() } else { rest.to_vec() }
            );
            drop(kept);
            assert_eq!(own_cores(), before);
            let kept = keep_on(Some(*first));
            assert_eq!(own_cores(), [*first]);
            drop(kept);
            for none in [None, Some(CpuSet::MAX_CPU + 1)] {
                let _kept = keep_on(none);
                assert_eq!(own_cores(), before, "{none:?}");
            }
            assert_eq!(own_cores(), before);
        })
        .join()
        .expect("thread");
    }

    #[test]
    fn a_lower_priority_is_had_without_privilege_and_stays_in_its_thread() {
        let nice = || {
            // SAFETY: plain numbers; 0 is the calling thread.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
        };
        let before = nice();
        std::thread::spawn(move || {
            set_priority(Priority::Nice(19), Heirs::Normal).expect("lower is always allowed");
            assert_eq!(nice(), 19);
        })
        .join()
        .expect("thread");
        assert_eq!(nice(), before);
        assert!(
            set_priority(Priority::Fifo(100), Heirs::Normal).is_err(),
            "no such priority"
        );
    }

    #[test]
    fn a_thread_with_a_nice_value_has_no_real_time_class_and_one_with_fifo_has() {
        std::thread::spawn(|| {
            set_priority(Priority::Nice(19), Heirs::Normal).expect("lower is always allowed");
            assert!(!is_real_time());
            match set_priority(Priority::Fifo(1), Heirs::Normal) {
                Ok(()) => assert!(is_real_time()),
                Err(error) => println!("skipped: {error}"),
            }
        })
        .join()
        .expect("thread");
    }

    #[test]
    fn cores_of_a_list_are_counted() {
        let counts = ["0\n", "0-15\n", "0-3,6,8-9\n"].map(cores_in);
        assert_eq!(counts, [Some(1), Some(16), Some(7)]);
        assert_eq!(["", "x", "3-1", "0-"].map(cores_in), [None; 4]);
    }

    #[test]
    fn a_thread_with_short_slices_keeps_its_policy_and_nice_value() {
        std::thread::spawn(|| {
            let read = || {
                let mut attr = SchedAttr::default();
                // SAFETY: as in `short_slices`.
                let got = unsafe {
                    let (zero, size): (libc::c_long, _) = (0, size_of::<SchedAttr>() as libc::c_long);
                    libc::syscall(libc::SYS_sched_getattr, zero, &raw mut attr, size, zero)
                };
                assert_eq!(got, 0);
                attr
            };
            let before = read();
            short_slices();
            let after = read();
            assert_eq!((before.policy, before.nice), (after.policy, after.nice));
            if after.runtime_ns != SHORT_SLICE_NS {
                eprintln!("this kernel grants no slices (before Linux 6.12)");
            }
        })
        .join()
        .expect("thread");
    }
}
