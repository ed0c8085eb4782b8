//! The terminal as the view's thread uses it: keys from standard input, pictures to standard error. No call waits for a
//! terminal that takes nothing.

use mpps_report::own_group;
use mpps_sys::terminal;
use mpps_sys::text::in_cells;
use mpps_sys::wake::Wake;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Written at once where writing may wait.
const FEW: usize = 256;

pub(super) struct Tty {
    /// The terminal, opened once more: only this thread's writes are not to wait, and the flag that says so is of the
    /// opened file. `None`: it can't be opened (another user's).
    out: Option<File>,
    group: Option<Pid>,
    /// What the terminal has not taken yet.
    left: Vec<u8>,
}

impl Tty {
    pub(super) fn open() -> Self {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let out = rustix::fs::open("/proc/self/fd/2", flags, Mode::empty());
        Self {
            out: out.ok().map(File::from),
            group: own_group(),
            left: Vec::new(),
        }
    }

    /// Whether it is this program's turn on the terminal.
    pub(super) fn ours(&self) -> bool {
        // A terminal that is not this session's tells no group, and has no jobs.
        rustix::termios::tcgetpgrp(io::stdin()).map_or(true, |group| Some(group) == self.group)
    }

    /// Waits for a wake, for keys where they are this program's, for room for what is left, or until `timeout` has
    /// passed. False: the terminal is gone.
    pub(super) fn wait(&self, wake: &Wake, timeout: Duration, keys: bool) -> bool {
        let (stdin, stderr) = (io::stdin(), io::stderr());
        let mut polled = vec![PollFd::new(wake, PollFlags::IN)];
        if keys {
            polled.push(PollFd::new(&stdin, PollFlags::IN));
        }
        if !self.left.is_empty() {
            polled.push(PollFd::new(&stderr, PollFlags::OUT));
        }
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let woken = poll(&mut polled, Some(&timeout));
        if !polled[0].revents().is_empty() {
            wake.clear();
        }
        let gone = polled[1..].iter().any(|fd| {
            fd.revents()
                .intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
        });
        woken.is_err() || !gone
    }

    /// What was typed and not yet read.
    ///
    /// # Errors
    /// When it is not this program's turn.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let stdin = io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        if poll(&mut polled, Some(&Timespec::default()))? == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; 256];
        let read = rustix::io::read(stdin.as_fd(), &mut bytes[..])?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Drops the rest of a frame: it is for a screen that is no more.
    pub(super) fn forget(&mut self) {
        self.left.clear();
    }

    /// Begins again, on another screen.
    pub(super) fn restart(&mut self, first: &str) {
        self.forget();
        self.put(first);
    }

    pub(super) fn put(&mut self, text: &str) {
        self.left.extend_from_slice(in_cells(text).as_bytes());
    }

    /// Writes what is left, as far as the terminal takes it.
    ///
    /// # Errors
    /// When it does not take all of it now.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.left.is_empty() {
            let left = &self.left;
            let out = self.out.as_ref();
            let written = terminal::draw(|| match out {
                Some(out) => rustix::io::write(out, left),
                None => {
                    let stderr = io::stderr();
                    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
                    match poll(&mut polled, Some(&Timespec::default()))? {
                        0 => Err(rustix::io::Errno::AGAIN),
                        _ => rustix::io::write(&stderr, &left[..left.len().min(FEW)]),
                    }
                }
            });
            match written {
                Some(Ok(taken)) if taken > 0 => drop(self.left.drain(..taken)),
                Some(Err(rustix::io::Errno::INTR)) => {}
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(_)) => return Err(io::ErrorKind::WouldBlock.into()),
                // It was given back meanwhile.
                None => {
                    self.left.clear();
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
        }
        Ok(())
    }
}
