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

/// Most bytes per write if a write may wait.
const FEW: usize = 256;

pub(super) struct Tty {
    /// The terminal, opened once more, because only this thread's writes must not wait and the flag for that belongs to
    /// the opened file. `None`: it can't be opened (another user's).
    out: Option<File>,
    group: Option<Pid>,
    /// Bytes that the terminal has not taken yet.
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

    /// Returns whether it is this program's turn on the terminal.
    pub(super) fn ours(&self) -> bool {
        // A terminal of another session reports no group, and has no jobs.
        rustix::termios::tcgetpgrp(io::stdin()).map_or(true, |group| Some(group) == self.group)
    }

    /// Waits for a wake-up, for keys if they belong to this program, for room for the remaining bytes, or until
    /// `timeout` has passed. Returns false if the terminal is gone.
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

    /// Returns the typed bytes that were not yet read.
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

    /// Drops the rest of a frame that was for a screen that is gone.
    pub(super) fn forget(&mut self) {
        self.left.clear();
    }

    /// Starts again, on another screen.
    pub(super) fn restart(&mut self, first: &str) {
        self.forget();
        self.put(first);
    }

    pub(super) fn put(&mut self, text: &str) {
        self.left.extend_from_slice(in_cells(text).as_bytes());
    }

    /// Writes the remaining bytes, as far as the terminal takes them.
    ///
    /// # Errors
    /// When the terminal does not take all of them now.
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
                // The terminal was restored meanwhile.
                None => {
                    self.left.clear();
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
        }
        Ok(())
    }
}
