//! Evidence of why a thread did not run: when the process was stopped and continued, which threads of other processes
//! ran meanwhile, and how much of the processor they used.

use crate::clock::monotonic_in_handler_ns;
use rustix::process::Pid;
use rustix::thread::sched_getaffinity;
use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many times of continuing are remembered: the newest.
const REMEMBERED: usize = 64;

static CONTINUED: AtomicUsize = AtomicUsize::new(0);
static TIMES: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(0) }; REMEMBERED];

extern "C" fn on_continue(_: libc::c_int) {
    // Only clock_gettime, atomics and sigaction: all may be used in a signal handler.
    let place = CONTINUED.fetch_add(1, Ordering::Relaxed) % REMEMBERED;
    TIMES[place].store(monotonic_in_handler_ns(), Ordering::Relaxed);
    crate::terminal::continued();
}

/// Records from now on when the process goes on after it was stopped (Ctrl-Z, SIGSTOP): the kernel sends SIGCONT then.
pub fn watch_continues() {
    // The handler can't read the offset of a time namespace.
    crate::clock::monotonic_ns();
    // SAFETY: the handler does only what is async-signal-safe; the struct is fully initialised by zeroed() plus the
    // fields set, as sigaction(2) asks. SA_RESTART: system calls that can go on do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_continue as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGCONT, &action, std::ptr::null_mut());
    }
}

/// Returns how many times the process received SIGCONT so far.
pub fn continued() -> usize {
    CONTINUED.load(Ordering::Relaxed)
}

/// Returns when the process was continued, ns of the lanes' clock: the newest 64 times. The handler runs on a thread
/// that has to get a core first, so each time may be some ms late. A SIGCONT to a process that was not stopped is
/// included, too: `timeout` sends one after each signal that it sends.
pub fn continues() -> Vec<u64> {
    let known = CONTINUED.load(Ordering::Relaxed).min(REMEMBERED);
    TIMES[..known].iter().map(|time| time.load(Ordering::Relaxed)).collect()
}

/// A thread of another process that has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Number of the process.
    pub process: u32,
    /// The name of the process.
    pub program: String,
    /// Number of the thread.
    pub thread: u32,
    /// The thread's name.
    pub name: String,
    /// The core that it ran on last.
    pub core: usize,
    /// The thread may run on that core only, so all of its time was there.
    pub bound: bool,
    /// Time that it has run meanwhile, ns.
    pub ran_ns: u64,
}

impl Rival {
    /// Returns whether the thread is a lane of another `mpps`.
    pub fn is_lane(&self) -> bool {
        self.program == "mpps" && self.name.starts_with("lane")
    }
}

/// Times that the threads of other processes had run by one moment. What can't be read is left out.
#[derive(Clone, Debug, Default)]
pub struct OthersRan(HashMap<(u32, u32), u64>);

impl OthersRan {
    /// Reads the present times. Goes through all of `/proc`, one file for each thread (some 7 µs): for before a run.
    pub fn now() -> Self {
        let threads = others().filter_map(|(process, thread, path)| Some(((process, thread), ran_ns(&path)?)));
        Self(threads.collect())
    }

    /// The threads that have run for so long since then, at the least. For after a run: one that has ended is not seen,
    /// and one that has begun meanwhile has all its time.
    pub fn since(&self, least_ns: u64) -> Vec<Rival> {
        let ran = others().filter_map(|(process, thread, path)| {
            let ran_ns = ran_ns(&path)?;
            let before = self.0.get(&(process, thread)).copied();
            // Less than before: another thread has its number now.
            let ran_ns = before.and_then(|before| ran_ns.checked_sub(before)).unwrap_or(ran_ns);
            (ran_ns >= least_ns.max(1)).then_some((process, thread, path, ran_ns))
        });
        let seen = ran.filter_map(|(process, thread, path, ran_ns)| {
            Some(Rival {
                process,
                program: comm(&format!("/proc/{process}")),
                thread,
                name: comm(&path),
                core: last_core(&path)?,
                bound: may_run_on_one_core(thread),
                ran_ns,
            })
        });
        seen.collect()
    }
}

/// The threads of other processes.
fn others() -> impl Iterator<Item = (u32, u32, String)> {
    let me = std::process::id();
    numbers("/proc")
        .filter(move |&process| process != me)
        .flat_map(threads_of)
}

/// The threads of a process: process, thread, and its folder.
fn threads_of(process: u32) -> impl Iterator<Item = (u32, u32, String)> {
    let tasks = format!("/proc/{process}/task");
    let threads: Vec<u32> = numbers(&tasks).collect();
    let path = move |thread: u32| (process, thread, format!("{tasks}/{thread}"));
    threads.into_iter().map(path)
}

/// Returns how long a thread has run since it began, ns.
fn ran_ns(path: &str) -> Option<u64> {
    let ran = fs::read_to_string(format!("{path}/schedstat")).ok()?;
    ran.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns whether a thread may run on one core only; false if that can't be read.
fn may_run_on_one_core(thread: u32) -> bool {
    let thread = i32::try_from(thread).ok().and_then(Pid::from_raw);
    thread.is_some_and(|thread| sched_getaffinity(Some(thread)).is_ok_and(|cores| cores.count() == 1))
}

/// The core that a thread was on last.
fn last_core(path: &str) -> Option<usize> {
    let stat = fs::read_to_string(format!("{path}/stat")).ok()?;
    // The name, in parentheses, may hold blanks; after it the third field comes first (proc_pid_stat(5)), and the 39th
    // is the processor.
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(39 - 3)?
        .parse()
        .ok()
}

/// Entries of a folder that are numbers.
fn numbers(folder: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn comm(path: &str) -> String {
    crate::proc_stat::name_in(path.as_ref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_another_process_is_seen_to_run() {
        struct Spinner(std::process::Child);
        impl Drop for Spinner {
            fn drop(&mut self) {
                let _ = self.0.kill();
                let _ = self.0.wait();
            }
        }
        // The shell ends with this test, even if the test is killed.
        let spinner = std::process::Command::new("sh")
            .args(["-c", "while [ -d /proc/$PPID ]; do :; done"])
            .spawn()
            .expect("a shell");
        let spinner = Spinner(spinner);
        let id = spinner.0.id();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let of_it = |then: &OthersRan, least_ns| {
            let seen = then.since(least_ns).into_iter().find(|rival| rival.thread == id);
            assert!(std::time::Instant::now() < deadline, "it does not run");
            seen
        };
        let wait = || std::thread::sleep(std::time::Duration::from_millis(1));
        const SOME_NS: u64 = 1_000_000;
        while of_it(&OthersRan::default(), SOME_NS).is_none() {
            wait();
        }
        let before = OthersRan::now();
        let ran = loop {
            match of_it(&before, 1) {
                Some(rival) => break rival,
                None => wait(),
            }
        };
        // Looked at later, and without what it had run before: it goes on running meanwhile.
        let all = of_it(&OthersRan::default(), 1).expect("it has run");
        drop(spinner);
        assert_eq!((ran.name.as_str(), ran.program.as_str(), ran.process), ("sh", "sh", id));
        assert!(!ran.is_lane());
        assert!(
            all.ran_ns >= ran.ran_ns + SOME_NS,
            "{} of {} ns",
            ran.ran_ns,
            all.ran_ns
        );
        let me = std::process::id();
        assert!(OthersRan::default().since(0).iter().all(|rival| rival.process != me));
    }

    #[test]
    fn a_continue_is_noted_with_its_time() {
        watch_continues();
        let before = crate::clock::monotonic_ns();
        // SAFETY: raise sends a signal to the calling thread, which has a handler for it.
        unsafe { libc::raise(libc::SIGCONT) };
        let after = crate::clock::monotonic_ns();
        assert!(
            continues().iter().any(|time| (before..=after).contains(time)),
            "{:?} not between {before} and {after}",
            continues()
        );
    }
}
