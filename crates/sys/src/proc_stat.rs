//! Times that the scheduler and the hypervisor account for, read from files of `/proc` that stay open.
//!
//! Opening such a file costs several times what reading it does, and allocates. A run opens each once, before its first
//! packet and before it gives up any right, and then calls the kernel once per reading.

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::pread;
use std::os::fd::OwnedFd;

/// The longest line that is of interest: `cpu` and ten numbers of up to 20 digits.
const LINE: usize = 256;

/// A file of `/proc` whose first line is read time and again.
#[derive(Debug)]
struct FirstLine(OwnedFd);

impl FirstLine {
    fn open(path: &str) -> Option<Self> {
        openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .ok()
            .map(Self)
    }

    /// The numbers of the first line as it is now, handed to `take`; words that are none are left out.
    fn numbers<const N: usize>(&self) -> Option<[u64; N]> {
        let mut line = [0; LINE];
        let length = pread(&self.0, &mut line[..], 0).ok()?;
        let first = line[..length].split(|&b| b == b'\n').next()?;
        let mut words = first
            .split(|&b| b == b' ')
            .filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok());
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = words.next()?;
        }
        Some(numbers)
    }
}

/// Time that the scheduler ran a thread and kept it waiting, since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Time on a core, ns.
    pub ran_ns: u64,
    /// Time ready to run and not running, ns.
    pub waited_ns: u64,
    /// Times that it was put on a core.
    pub stretches: u64,
}

/// The times of one thread of this process. Source: `/proc/self/task/TID/schedstat` (`sched-stats.rst`).
#[derive(Debug)]
pub struct ThreadStat(FirstLine);

impl ThreadStat {
    /// Opens the times of thread `tid`; `None` if there is no such thread or the kernel keeps no such times.
    pub fn open(tid: i32) -> Option<Self> {
        let file = FirstLine::open(&format!("/proc/self/task/{tid}/schedstat"))?;
        let this = Self(file);
        this.read().is_some().then_some(this)
    }

    /// The times so far; `None` once the thread has ended.
    pub fn read(&self) -> Option<ThreadTimes> {
        let [ran_ns, waited_ns, stretches] = self.0.numbers()?;
        Some(ThreadTimes {
            ran_ns,
            waited_ns,
            stretches,
        })
    }
}

/// The name of the thread or process with this folder in `/proc`, as [`shown`].
pub fn name_in(folder: &std::path::Path) -> Option<String> {
    let name = std::fs::read(folder.join("comm")).ok()?;
    Some(shown(name.strip_suffix(b"\n").unwrap_or(&name)))
}

/// Returns a name, or words, that a program has given itself, safe to print. Any user may put any bytes there
/// (`PR_SET_NAME`): a terminal would obey control characters, so they are replaced.
pub fn shown(name: &[u8]) -> String {
    crate::text::plain(String::from_utf8_lossy(name).trim(), '\u{fffd}')
}

/// The threads of this process as they are now: number and name. Source: `/proc/self/task`.
pub fn threads() -> Vec<(i32, String)> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let mut threads: Vec<(i32, String)> = tasks
        .filter_map(|task| {
            let path = task.ok()?.path();
            let tid = path.file_name()?.to_str()?.parse().ok()?;
            Some((tid, name_in(&path)?))
        })
        .collect();
    threads.sort_unstable();
    threads
}

/// Time that the hypervisor took from all cores together. Source: `/proc/stat`, `steal`.
#[derive(Debug)]
pub struct Steal {
    stat: FirstLine,
    tick_ns: u64,
}

impl Steal {
    /// Opens the file; `None` if the kernel does not report stolen time.
    pub fn open() -> Option<Self> {
        let this = Self {
            stat: FirstLine::open("/proc/stat")?,
            tick_ns: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
        };
        this.read_ns().is_some().then_some(this)
    }

    /// Returns the time stolen since boot, ns, at the resolution of the kernel's tick. The kernel writes the whole file
    /// for each reading, a line per core and per interrupt: not for every few milliseconds.
    pub fn read_ns(&self) -> Option<u64> {
        let [_user, _nice, _system, _idle, _iowait, _irq, _softirq, steal] = self.stat.numbers()?;
        Some(steal * self.tick_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::thread_id;

    #[test]
    fn the_name_of_a_thread_has_nothing_that_a_terminal_obeys() {
        let (said, heard) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let body = move || {
            let _ = tell.send(thread_id());
            let _ = heard.recv();
        };
        let named = std::thread::Builder::new().name("a\x1b]0;b\x07".to_owned());
        let thread = named.spawn(body).expect("a thread");
        let id = told.recv().expect("it runs");
        let name = threads().into_iter().find(|(tid, _)| *tid == id).map(|(_, name)| name);
        assert_eq!(name.as_deref(), Some("a\u{fffd}]0;b\u{fffd}"));
        drop(said);
        thread.join().expect("it ends");
    }

    #[test]
    fn times_of_a_thread_grow_with_its_work_and_end_with_it() {
        let Some(own) = ThreadStat::open(thread_id()) else {
            return eprintln!("SKIPPED: this kernel keeps no times of threads");
        };
        let before = own.read().expect("this thread lives");
        let mut spun = 0u64;
        // A tick at the latest brings the time up to date; so does every sleep.
        while own.read().expect("this thread lives").ran_ns < before.ran_ns + 1_000_000 {
            spun = std::hint::black_box(spun + 1);
            std::thread::sleep(std::time::Duration::from_micros(1));
        }
        let after = own.read().expect("this thread lives");
        assert!(after.stretches > before.stretches && after.waited_ns >= before.waited_ns);
        let (tid, stat) = std::thread::spawn(|| (thread_id(), ThreadStat::open(thread_id())))
            .join()
            .expect("thread");
        // The kernel removes the entry a little after the thread is joined.
        let stat = stat.expect("opened by the thread itself");
        while stat.read().is_some() {
            std::thread::yield_now();
        }
        assert!(ThreadStat::open(tid).is_none());
    }

    #[test]
    fn threads_are_listed_by_number_and_name() {
        let name = || threads().into_iter().find(|(tid, _)| *tid == thread_id());
        let listed = std::thread::Builder::new()
            .name("a-name-of-ours".to_owned())
            .spawn(name)
            .expect("thread")
            .join()
            .expect("thread");
        assert_eq!(listed.expect("listed").1, "a-name-of-ours");
    }

    #[test]
    fn steal_is_what_a_fresh_reading_of_the_file_says() {
        let Some(steal) = Steal::open() else {
            return eprintln!("SKIPPED: this kernel tells no steal");
        };
        let fresh = || -> u64 {
            let text = std::fs::read_to_string("/proc/stat").expect("there a moment ago");
            let field = text.split_ascii_whitespace().nth(8).expect("steal");
            field.parse::<u64>().expect("a number") * steal.tick_ns
        };
        let before = fresh();
        let read = steal.read_ns().expect("there a moment ago");
        assert!((before..=fresh()).contains(&read));
    }
}
