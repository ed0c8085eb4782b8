//! The command and the measurement: processes with a place of their own, and the signals that are passed on to them.

use crate::commands::demo::stage::executable;
use crate::fail::{Result, failed};
use mpps_sys::child::{Came, Happened, Place, Signals};
use mpps_sys::signal::ignores_hang_up;
use mpps_sys::thread::explained;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

/// Signals that a user sends to end or to tell a program something.
const PASSED_ON: [Signal; 6] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Ended with this exit code.
    Code(u8),
    /// Killed by this signal.
    Signal(i32),
}

impl Ended {
    fn of(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code.to_le_bytes()[0]),
            None => Self::Signal(status.signal().unwrap_or(0)),
        }
    }

    /// Returns the exit code as a shell reports it: 128 + the signal's number after a signal.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => 128u8.wrapping_add(number.to_le_bytes()[0]),
        }
    }

    pub(super) fn exit_code(self) -> ExitCode {
        ExitCode::from(self.number())
    }
}

/// Outcome of a command that was to run.
#[derive(Debug)]
pub(super) enum Ran {
    /// The command has ended.
    Through(Ended),
    /// A signal came before the command was started: the run is to end like this.
    Not(Ended),
}

/// Starts processes and waits for them. From when it is made signals end nothing here: they are passed on.
pub(super) struct Runner(Signals);

impl Runner {
    pub(super) fn new() -> Result<Self> {
        // A program that was started with SIGHUP ignored (`nohup`) outlives its terminal, and so does its command.
        let passed = PASSED_ON.into_iter();
        let passed = passed.filter(|&signal| signal != Signal::HUP || !ignores_hang_up());
        let numbers: Vec<i32> = passed.map(Signal::as_raw).collect();
        Signals::block(&numbers)
            .map(Self)
            .map_err(|e| failed(format!("isolate: catch signals: {e}")))
    }

    /// Returns a signal that came while no command ran to pass it on to: it is meant for this run.
    pub(super) fn interrupted(&self) -> Option<Ended> {
        let came = std::iter::from_fn(|| self.0.next());
        came.last().map(|came| Ended::Signal(came.number))
    }

    /// Runs a command in its place.
    pub(super) fn run(&self, words: &[OsString], place: Place) -> Result<Ran> {
        if let Some(ended) = self.interrupted() {
            return Ok(Ran::Not(ended));
        }
        let Some((program, arguments)) = words.split_first() else {
            return Ok(Ran::Through(Ended::Code(0)));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        place.of(&mut command);
        let child = command
            .spawn()
            .map_err(|e| failed(format!("isolate: start {program:?}: {}", explained(e))))?;
        Ok(Ran::Through(self.attend(child)?.0))
    }

    /// Measures the noise of cores from a place: how it ended, and what it printed. A signal that comes meanwhile ends
    /// it, and is how it has ended.
    pub(super) fn probe(&self, cores: &str, length: Duration, place: Place) -> Result<(Ended, Vec<u8>)> {
        if let Some(ended) = self.interrupted() {
            return Ok((ended, Vec::new()));
        }
        let mut command = Command::new(executable());
        let length = format!("{}us", length.as_micros());
        command.args(["isolate", cores, "--probe", "--measure", &length]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        place.of(&mut command);
        let unable = |e| failed(format!("isolate: measure from cores {cores}: {}", explained(e)));
        let mut child = command.spawn().map_err(unable)?;
        let out = child.stdout.take();
        // All the time: on a large host it is more than a pipe holds.
        let read = move || {
            let mut text = Vec::new();
            let _ = out.map(|mut out| out.read_to_end(&mut text));
            text
        };
        let reader = match mpps_sys::thread::spawn("mpps-reader", read) {
            Ok(reader) => reader,
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(unable(e));
            }
        };
        let (ended, interrupted) = self.attend(child)?;
        let text = reader.join().unwrap_or_default();
        Ok((interrupted.map_or(ended, Ended::Signal), text))
    }

    /// Waits for the end of a process: how it has ended, and the last signal that came meanwhile.
    fn attend(&self, mut child: Child) -> Result<(Ended, Option<i32>)> {
        let unable = |e| failed(format!("isolate: wait for process {}: {e}", child.id()));
        let pass_on = |came: Came| {
            let signal = PASSED_ON.into_iter().find(|signal| signal.as_raw() == came.number);
            let _ = signal.map(|signal| kill_process(Pid::from_child(&child), signal));
            came.number
        };
        // A key that was pressed while it was being started may have found nobody but us.
        let mut last = std::iter::from_fn(|| self.0.next()).map(pass_on).last();
        loop {
            match self.0.wait(&child).map_err(unable)? {
                Happened::Ended => break,
                // A key of the terminal reaches the child itself: twice would be another wish.
                Happened::Signal(came) if came.by_kernel => last = Some(came.number),
                Happened::Signal(came) => last = Some(pass_on(came)),
            }
        }
        // A key reaches the child and us at once. Of a child that ends by it the end may be seen first: its signal was
        // the child's all the same, and is none for what comes after it.
        last = std::iter::from_fn(|| self.0.next())
            .map(|came| came.number)
            .last()
            .or(last);
        let status = child
            .wait()
            .map_err(|e| failed(format!("isolate: wait for the command: {e}")))?;
        Ok((Ended::of(status), last))
    }
}
