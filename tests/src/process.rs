//! Programs that run beside a test: started, waited for, stopped, and never left behind.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take before a test gives up: far beyond what it takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Waits until `condition` holds.
///
/// # Panics
/// When it does not within three minutes.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// All that it wrote to standard output.
    pub stdout: String,
    /// All that it wrote to standard error.
    pub stderr: String,
}

/// A running program; ended when dropped.
pub struct Background {
    child: Child,
    name: String,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<()>>,
    /// Standard error so far.
    heard: Arc<Mutex<String>>,
}

impl Background {
    /// Starts it with standard input empty and its output kept.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn start(mut command: Command) -> Self {
        let name = format!("{command:?}");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("start {name}: {e}"));
        let mut out = child.stdout.take().expect("piped");
        let err = child.stderr.take().expect("piped");
        let stdout = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = out.read_to_end(&mut bytes);
            bytes
        });
        let heard = Arc::new(Mutex::new(String::new()));
        let told = Arc::clone(&heard);
        let stderr = thread::spawn(move || {
            let mut reader = BufReader::new(err);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                told.lock().expect("no panic").push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        Self {
            child,
            name,
            stdout: Some(stdout),
            stderr: Some(stderr),
            heard,
        }
    }

    /// Starts a listening `mpps` and waits until its port is open.
    ///
    /// # Panics
    /// When it ends instead.
    pub fn ready(command: Command) -> Self {
        let started = Self::start(command);
        started.wait_to_hear("is ready on")
    }

    /// Waits until standard error holds `text`.
    ///
    /// # Panics
    /// When the program ends without, or takes too long.
    #[must_use]
    pub fn wait_to_hear(mut self, text: &str) -> Self {
        let deadline = Instant::now() + LIMIT;
        while !self.stderr().contains(text) {
            let ended = self.child.try_wait().expect("a child of ours").is_some();
            // What it said before its end may not have been read yet.
            if ended && self.stderr.take().is_none_or(|reader| reader.join().is_ok()) && !self.stderr().contains(text) {
                panic!("{}: ended without saying {text:?}: {}", self.name, self.stderr());
            }
            assert!(
                Instant::now() < deadline,
                "{}: did not say {text:?}: {}",
                self.name,
                self.stderr()
            );
            thread::sleep(Duration::from_millis(5));
        }
        self
    }

    /// Standard error so far.
    ///
    /// # Panics
    /// Never.
    pub fn stderr(&self) -> String {
        self.heard.lock().expect("no panic").clone()
    }

    /// Whether it still runs.
    ///
    /// # Panics
    /// Never.
    pub fn running(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_none()
    }

    /// Number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When the program has ended already.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap_or_else(|e| panic!("signal {}: {e}", self.name));
    }

    /// Sends a signal and waits for the end.
    pub fn end(self, signal: Signal) -> Finished {
        self.signal(signal);
        self.finish()
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When it does not come within three minutes.
    pub fn finish(mut self) -> Finished {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "{}: does not end: {}",
                self.name,
                self.stderr()
            );
            thread::sleep(Duration::from_millis(5));
        };
        if let Some(reader) = self.stderr.take() {
            let _ = reader.join();
        }
        let stdout = self
            .stdout
            .take()
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default();
        Finished {
            code: status.code(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: self.stderr(),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end.
pub fn run_command(command: Command) -> Finished {
    Background::start(command).finish()
}

/// Runs a program through `sh -c`, so that a word of its own comes before: `umask`, a locale.
pub fn run_by_shell(first: &str, command: &Command) -> Finished {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{first}; exec \"$@\""), "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    run_command(shell)
}

/// Runs `mpps` with the given words, separated by white space, to its end.
pub fn run(words: &str) -> Finished {
    run_command(crate::mpps(words))
}
