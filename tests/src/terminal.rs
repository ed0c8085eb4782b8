//! A terminal that a test looks at and types on, and a program that runs there.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::wait_until;

/// A program on a terminal of its own, as the leader of its session; killed when dropped.
pub struct OnTerminal {
    terminal: OwnedFd,
    child: Child,
    seen: Vec<u8>,
}

impl OnTerminal {
    /// Starts it on a terminal of so many columns and rows. `stdout`: where standard output goes, if not there.
    ///
    /// # Panics
    /// When there is no terminal to be had.
    pub fn start(command: &Command, (columns, rows): (u16, u16), stdout: Option<&str>) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("our own");
        let name = ptsname(&terminal, Vec::new()).expect("a name");
        let name = name.to_str().expect("text");
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "ulimit -c 0; out=$1; shift; exec setsid --ctty \"$@\" < \"$0\" > \"$out\" 2> \"$0\"",
        ]);
        shell.arg(name).arg(stdout.unwrap_or(name));
        shell.arg(command.get_program()).args(command.get_args());
        shell.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        set_size(&terminal, (columns, rows));
        Self {
            child: shell.spawn().expect("a shell"),
            terminal,
            seen: Vec::new(),
        }
    }

    /// Changes its size.
    ///
    /// # Panics
    /// When it has none.
    pub fn resize(&self, size: (u16, u16)) {
        set_size(&self.terminal, size);
    }

    /// Types.
    ///
    /// # Panics
    /// When nobody can.
    pub fn press(&self, keys: &[u8]) {
        rustix::io::write(&self.terminal, keys).expect("keys");
    }

    /// Number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the program a signal.
    ///
    /// # Panics
    /// When it is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process");
        kill_process(pid, signal).expect("a process of ours");
    }

    /// Whether keys come as whole lines and are shown: what a shell leaves and expects.
    ///
    /// # Panics
    /// When it can't be told.
    pub fn is_as_it_was(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("modes").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Whether there is room for more: not where much has appeared that was not read.
    ///
    /// # Panics
    /// When it can't be told.
    pub fn has_room(&self) -> bool {
        let name = ptsname(&self.terminal, Vec::new()).expect("a name");
        let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
        let inside = open(name, flags, Mode::empty()).expect("the other side");
        let mut polled = [PollFd::new(&inside, PollFlags::OUT)];
        poll(&mut polled, Some(&Timespec::default())).expect("a terminal") > 0
    }

    /// All that has appeared so far.
    pub fn seen(&mut self) -> String {
        while self.readable() {
            let mut bytes = [0; 4096];
            match rustix::io::read(&self.terminal, &mut bytes) {
                Ok(read) if read > 0 => self.seen.extend_from_slice(&bytes[..read]),
                // Nobody has it open any more.
                _ => break,
            }
        }
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    fn readable(&self) -> bool {
        let terminal = self.terminal.as_fd();
        let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            && polled[0].revents().contains(PollFlags::IN)
    }

    /// Reads until this has appeared after so many bytes, and gives how many there are then.
    ///
    /// # Panics
    /// When it does not appear in time.
    pub fn wait_for(&mut self, what: &str, after: usize) -> usize {
        let mut last = String::new();
        wait_until(&format!("{what:?} on the terminal"), || {
            last = self.seen();
            last.get(after..).is_some_and(|new| new.contains(what))
        });
        last.len()
    }

    /// Whether it has ended; what is not read of the terminal stays there.
    ///
    /// # Panics
    /// When it is no child of ours.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of ours")
    }

    /// Reads until it has ended: its exit code, and all that has appeared.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn finish(mut self) -> (Option<i32>, String) {
        let mut status = None;
        wait_until("the end of the program on the terminal", || {
            self.seen();
            status = self.ended();
            status.is_some()
        });
        (status.and_then(|status| status.code()), self.seen())
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn set_size(terminal: &OwnedFd, (columns, rows): (u16, u16)) {
    let size = Winsize {
        ws_col: columns,
        ws_row: rows,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).expect("a size");
}
