//! What tells apart why a thread did not run: that the process was stopped and continued, whose threads used how much
//! of the processor, and whether another `mpps` has a lane on the same core.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many times of continuing are remembered: the newest.
const REMEMBERED: usize = 64;

static CONTINUED: AtomicUsize = AtomicUsize::new(0);
static TIMES: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(0) }; REMEMBERED];

extern "C" fn on_continue(_: libc::c_int) {
    // Only clock_gettime, atomics and sigaction: all may be used in a signal handler.
    let place = CONTINUED.fetch_add(1, Ordering::Relaxed) % REMEMBERED;
    TIMES[place].store(nanoseconds(ClockId::Monotonic), Ordering::Relaxed);
    crate::cursor::continued();
}

/// Notes from now on when the process goes on after it was stopped (Ctrl-Z, SIGSTOP): the kernel sends SIGCONT then.
pub fn watch_continues() {
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

/// How many times the process was told to continue so far.
pub fn continued() -> usize {
    CONTINUED.load(Ordering::Relaxed)
}

/// When the process was continued, ns on `CLOCK_MONOTONIC`: the newest 64 times. The handler runs on a thread that has
/// to get a core first, so each may be some ms late. One that had not been stopped is told, too: `timeout` does so
/// after each signal that it sends.
pub fn continues() -> Vec<u64> {
    let known = CONTINUED.load(Ordering::Relaxed).min(REMEMBERED);
    TIMES[..known].iter().map(|time| time.load(Ordering::Relaxed)).collect()
}

pub(crate) fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A thread of another process, as a rule a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Its process.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// The core that it ran on last.
    pub core: usize,
    /// Time that it has run since it began, ns; after [`Rival::since`] since then.
    pub ran_ns: u64,
}

impl Rival {
    /// The same with the time that it has run since it was seen in `before`; all of its time where it was not.
    pub fn since(mut self, before: &[Self]) -> Self {
        let same = |earlier: &&Self| (earlier.process, earlier.thread) == (self.process, self.thread);
        let ran = before.iter().find(same).map_or(0, |earlier| earlier.ran_ns);
        self.ran_ns = self.ran_ns.saturating_sub(ran);
        self
    }
}

/// Threads named `lane…` of other processes named `mpps`. Goes through all of `/proc`: for before and after a run. What
/// can't be read is passed over.
pub fn lanes_of_others() -> Vec<Rival> {
    let me = std::process::id();
    let processes = numbers("/proc").filter(|&process| process != me && comm(&format!("/proc/{process}")) == "mpps");
    let threads = processes.flat_map(threads_of);
    threads
        .filter(|(_, _, path)| comm(path).starts_with("lane"))
        .filter_map(|(process, thread, path)| seen(process, thread, &path))
        .collect()
}

/// All threads of other processes that can be seen, with their names. Goes through all of `/proc`, which takes some 20
/// µs a thread: for before and after a run. What can't be read is passed over.
pub fn threads_of_others() -> Vec<(String, Rival)> {
    let me = std::process::id();
    let threads = numbers("/proc").filter(|&process| process != me).flat_map(threads_of);
    threads
        .filter_map(|(process, thread, path)| Some((comm(&path), seen(process, thread, &path)?)))
        .collect()
}

/// The threads of a process: process, thread, and its folder.
fn threads_of(process: u32) -> impl Iterator<Item = (u32, u32, String)> {
    let tasks = format!("/proc/{process}/task");
    let threads: Vec<u32> = numbers(&tasks).collect();
    let path = move |thread: u32| (process, thread, format!("{tasks}/{thread}"));
    threads.into_iter().map(path)
}

/// Where a thread was last, and for how long it has run.
fn seen(process: u32, thread: u32, path: &str) -> Option<Rival> {
    let stat = fs::read_to_string(format!("{path}/stat")).ok()?;
    // The name, in parentheses, may hold blanks; after it the third field comes first (proc_pid_stat(5)), and the 39th
    // is the processor.
    let core = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(39 - 3)?;
    let ran = fs::read_to_string(format!("{path}/schedstat")).ok()?;
    Some(Rival {
        process,
        thread,
        core: core.parse().ok()?,
        ran_ns: ran.split_ascii_whitespace().next()?.parse().ok()?,
    })
}

/// Entries of a folder that are numbers.
fn numbers(folder: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn comm(path: &str) -> String {
    fs::read_to_string(format!("{path}/comm")).map_or_else(|_| String::new(), |name| name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_another_process_is_seen_to_run() {
        let mut spinner = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .expect("a shell");
        let id = spinner.id();
        let find = || threads_of_others().into_iter().find(|(_, rival)| rival.thread == id);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let before: Vec<Rival> = find().map(|(_, rival)| rival).into_iter().collect();
        let ran = loop {
            let (name, now) = find().expect("it runs");
            assert!(std::time::Instant::now() < deadline, "it does not run");
            match now.since(&before).ran_ns {
                0 => std::thread::sleep(std::time::Duration::from_millis(1)),
                ran => break (name, ran),
            }
        };
        let _ = (spinner.kill(), spinner.wait());
        assert_eq!(ran.0, "sh");
        let me = std::process::id();
        assert!(threads_of_others().iter().all(|(_, rival)| rival.process != me));
    }

    #[test]
    fn a_continue_is_noted_with_its_time() {
        watch_continues();
        let before = nanoseconds(ClockId::Monotonic);
        // SAFETY: raise sends a signal to the calling thread, which has a handler for it.
        unsafe { libc::raise(libc::SIGCONT) };
        let after = nanoseconds(ClockId::Monotonic);
        assert!(
            continues().iter().any(|time| (before..=after).contains(time)),
            "{:?} not between {before} and {after}",
            continues()
        );
    }

    #[test]
    fn lanes_of_this_process_are_no_rivals() {
        let found = lanes_of_others();
        assert!(
            found.iter().all(|rival| rival.process != std::process::id()),
            "{found:?}"
        );
    }
}
