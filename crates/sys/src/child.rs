//! A program that is started with a place of its own: cores, priority, control group. And the signals that its parent
//! passes on to it.

use crate::sched::{Heirs, Priority, set_priority};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::CpuSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Conditions under which a program runs. Programs that it starts inherit all of them except [`Place::ends_with_us`].
#[derive(Debug, Default)]
pub struct Place {
    /// The `cgroup.procs` of the groups that it joins, open for writing.
    pub groups: Vec<File>,
    /// Cores that it may run on; none: as this process.
    pub cores: Vec<usize>,
    /// Its priority; `None`: as this process.
    pub priority: Option<Priority>,
    /// Its timer slack, ns; 0: as this process.
    pub timer_slack_ns: u64,
    /// SIGTERM comes to it when the thread that starts it ends.
    pub ends_with_us: bool,
}

impl Place {
    /// Makes the program that `command` starts begin there. Starting it fails if the kernel refuses any of it.
    pub fn of(self, command: &mut Command) {
        let mut set = CpuSet::new();
        self.cores
            .iter()
            .filter(|&&core| core < CpuSet::MAX_CPU)
            .for_each(|&core| set.set(core));
        let parent = rustix::process::getpid();
        let begin = move || {
            for group in &self.groups {
                // Writing 0 moves the process that writes it into the group.
                rustix::io::write(group, b"0")?;
            }
            if !self.cores.is_empty() {
                rustix::thread::sched_setaffinity(None, &set)?;
            }
            unblock_all()?;
            if self.timer_slack_ns > 0 {
                // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory.
                unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, self.timer_slack_ns as libc::c_ulong, 0, 0, 0) };
            }
            if let Some(priority) = self.priority {
                set_priority(priority, Heirs::Same)?;
            }
            if self.ends_with_us {
                // SAFETY: PR_SET_PDEATHSIG takes one integer and touches no memory.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong, 0, 0, 0) };
                if rustix::process::getppid() != Some(parent) {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
            }
            Ok(())
        };
        // SAFETY: between fork and exec only system calls are made: no lock is taken, nothing is allocated (errors are
        // numbers), and what the closure owns was made before the fork.
        unsafe { command.pre_exec(begin) };
    }
}

/// Makes the program that `command` starts begin in a session of its own, without a terminal: no key reaches it, nor
/// what ends with the terminal. Starting it fails if the kernel refuses.
pub fn own_session(command: &mut Command) {
    let begin = || {
        // A leader of a process group may not: a new process is none, unless `process_group(0)` has made it one.
        rustix::process::setsid()?;
        Ok(())
    };
    // SAFETY: between fork and exec one system call is made, and nothing else.
    unsafe { command.pre_exec(begin) };
}

/// Makes the calling thread get all signals: a program inherits what its parent has blocked. Async-signal-safe.
fn unblock_all() -> io::Result<()> {
    // SAFETY: a zeroed set is overwritten by sigemptyset; the pointers are to it and outlive the calls.
    let error = unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
    };
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

/// A signal that came to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// Its number.
    pub number: i32,
    /// The kernel sent it, as it does for a key of the terminal, whose whole foreground group gets it.
    pub by_kernel: bool,
}

/// Signals that wait to be read, in place of doing what they do.
#[derive(Debug)]
pub struct Signals(OwnedFd);

/// Event that ended a [`Signals::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A signal has come.
    Signal(Came),
    /// The child has ended.
    Ended,
}

impl Signals {
    /// Blocks these signals for the calling thread, and for threads and programs that it starts from now on, except
    /// programs with a [`Place`]. Must be called before there are other threads.
    ///
    /// # Errors
    /// The kernel's.
    pub fn block(numbers: &[i32]) -> io::Result<Self> {
        // SAFETY: a zeroed set is overwritten by sigemptyset; all pointers are to it and outlive the calls; signalfd
        // returns a descriptor that nobody else owns.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for &number in numbers {
                libc::sigaddset(&raw mut set, number);
            }
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// The next signal that has come; `None`: none.
    pub fn next(&self) -> Option<Came> {
        // SAFETY: zero bytes are a valid signalfd_siginfo; the kernel writes at most its size.
        let (read, info) = unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            (libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size), info)
        };
        (read == size_of::<libc::signalfd_siginfo>() as isize).then_some(Came {
            number: info.ssi_signo as i32,
            by_kernel: info.ssi_code == libc::SI_KERNEL,
        })
    }

    /// Waits until a signal comes or the child ends.
    ///
    /// # Errors
    /// The kernel's: Linux before 5.3 has no descriptors of processes.
    pub fn wait(&self, child: &Child) -> io::Result<Happened> {
        let pid = Pid::from_child(child);
        let ended = pidfd_open(pid, PidfdFlags::empty())?;
        loop {
            if let Some(came) = self.next() {
                return Ok(Happened::Signal(came));
            }
            let mut both = [
                PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN),
            ];
            match poll(&mut both, None) {
                Ok(_) if !both[1].revents().is_empty() => return Ok(Happened::Ended),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::allowed_cores;

    #[test]
    fn a_program_begins_on_its_cores_with_its_priority() {
        let last = *allowed_cores().last().expect("a core");
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "grep Cpus_allowed_list /proc/self/status; nice; cat /proc/$$/timerslack_ns",
        ]);
        let place = Place {
            cores: vec![last],
            priority: Some(Priority::Nice(19)),
            timer_slack_ns: 7,
            ends_with_us: true,
            ..Place::default()
        };
        place.of(&mut command);
        let out = command.output().expect("sh");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[..3], ["Cpus_allowed_list:", &last.to_string(), "19"], "{text}");
        // Older kernels let only privileged readers see it.
        assert!(words.get(3).is_none_or(|slack| *slack == "7"), "{text}");
    }

    #[test]
    fn a_program_begins_in_a_session_of_its_own() {
        let mut command = Command::new("sh");
        command.args(["-c", "cut -d' ' -f6 /proc/$$/stat; echo $$"]);
        own_session(&mut command);
        let out = command.output().expect("sh");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.len() == 2 && words[0] == words[1], "{text}");
    }

    #[test]
    fn a_signal_is_read_and_not_done_and_the_end_of_a_child_is_seen() {
        std::thread::spawn(|| {
            let signals = Signals::block(&[libc::SIGUSR2]).expect("signals");
            assert_eq!(signals.next(), None);
            let mut child = Command::new("sleep").arg("100").spawn().expect("sleep");
            // SAFETY: plain numbers, to this very thread.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
            let came = Happened::Signal(Came {
                number: libc::SIGUSR2,
                by_kernel: false,
            });
            assert_eq!(signals.wait(&child).expect("a wait"), came);
            child.kill().expect("our own");
            assert_eq!(signals.wait(&child).expect("a wait"), Happened::Ended);
            child.wait().expect("it has ended");
        })
        .join()
        .expect("thread");
    }
}
