//! The processes that the demo starts, and their end.

use super::figures::Figures;
use super::stage::{Ends, Stage, Words, words};
use super::tell::{Teller, say};
use crate::commands::compare::of_this_process;
use crate::fail::{Failure, Result, failed};
use mpps_host::lab::Host;
use mpps_report::{LIVE_GROUP, own_group};
use mpps_run::privilege::{aside, shed};
use mpps_sys::signal;
use mpps_sys::thread::explained;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks at a process.
const TICK: Duration = Duration::from_millis(10);
/// Time that a reflector may take until it is ready.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// Time that a process may take to end when asked to: the settle time, and a slow disk.
const END_LIMIT: Duration = Duration::from_secs(15);

/// Standard error of a process, read all the time, so that the process never waits for us.
struct Said {
    ready: Receiver<()>,
    reader: Option<JoinHandle<String>>,
}

impl Said {
    /// Reads what `child` says. One that can't be read is killed.
    fn by(child: &mut Child) -> Result<Self> {
        let (told, ready) = channel();
        let stderr = child.stderr.take().expect("stderr is piped");
        let read = move || {
            shed();
            last_words(stderr, &told)
        };
        match mpps_sys::thread::spawn("mpps-reader", read) {
            Ok(reader) => Ok(Self {
                ready,
                reader: Some(reader),
            }),
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(format!("start a thread that reads what a process says: {e}")))
            }
        }
    }

    /// The last thing it said, once it has ended.
    fn last(&mut self) -> String {
        self.reader
            .take()
            .and_then(|r| r.join().ok())
            .filter(|s| !s.is_empty())
            .unwrap_or_else(|| "it said nothing".into())
    }
}

/// Reads until the end. Signals `ready` at the line that says the port is open; returns the last message.
fn last_words(stderr: ChildStderr, ready: &Sender<()>) -> String {
    let mut last = String::new();
    for line in BufReader::new(stderr).split(b'\n').map_while(std::result::Result::ok) {
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if line.contains(" is ready on ") {
            let _ = ready.send(());
        } else if let Some(message) = line.strip_prefix("mpps: ") {
            last = message.to_owned();
        } else if last.is_empty() && line.starts_with("exec of ") {
            // `ip netns exec`, when it can't start the program.
            last = line;
        }
    }
    last
}

/// A reflector; ended when dropped.
pub(in crate::commands) struct Reflector {
    child: Child,
    said: Said,
}

impl Reflector {
    /// Starts a reflector on host b and waits until its port is open.
    pub(super) fn start(tell: &mut Teller, stage: &Stage, argv: &Words) -> Result<Self> {
        tell.command(&stage.typed(Host::B, argv));
        let mut command = stage.command(Host::B, argv)?;
        of_this_process(&mut command);
        Self::of(command)
    }

    /// Starts the command and waits until its port is open.
    pub(in crate::commands) fn of(mut command: Command) -> Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = spawn(command, "reflector")?;
        let said = Said::by(&mut child)?;
        let mut reflector = Self { child, said };
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            match reflector.said.ready.recv_timeout(TICK) {
                Ok(()) => return Ok(reflector),
                Err(_) if interrupted() => return Err(too_early()),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(failed(format!(
                        "the reflector did not start: {}",
                        reflector.said.last()
                    )));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                    return Err(failed(format!(
                        "the reflector was not ready within {} s",
                        READY_LIMIT.as_secs()
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Returns the last message of the process if it has ended by itself; `None` while it runs.
    pub(in crate::commands) fn ended(&mut self) -> Option<String> {
        let ended = matches!(self.child.try_wait(), Ok(Some(_)));
        ended.then(|| self.said.last())
    }

    /// Ends the reflector. Returns its last message if it had ended by itself.
    pub(super) fn stop(mut self) -> Option<String> {
        self.ended()
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Asks a process to end, and kills it if it does not.
fn end(child: &mut Child) {
    if let Ok(None) = child.try_wait() {
        terminate(child);
    }
    let deadline = Instant::now() + END_LIMIT;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(TICK),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn terminate(child: &Child) {
    // Not waited for yet, so the id is still its own.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
}

/// Whether we were asked to end.
pub(in crate::commands) fn interrupted() -> bool {
    signal::interruptions() > 0
}

/// Starts a process in a group of its own. Ctrl-C then reaches it through us, and once: the reflector must not end
/// while packets are still under way, and a second signal would cut the sender's wait for them short.
fn spawn(mut command: Command, what: &str) -> Result<Child> {
    command.process_group(0);
    command
        .spawn()
        .map_err(|e| failed(format!("start the {what}: {}", explained(e))))
}

/// Waits for a sender, and passes on each request to end.
fn wait(child: &mut Child) -> Result<ExitStatus> {
    wait_with(child, END_LIMIT, || false)
}

/// Waits as [`wait`] does, for a process that may take `limit` to end; it is asked to end as soon as `over` says so,
/// too.
fn wait_with(child: &mut Child, limit: Duration, mut over: impl FnMut() -> bool) -> Result<ExitStatus> {
    // This process starts nothing, and removes nothing, before the run is over.
    let _aside = aside();
    let (mut passed, mut deadline) = (0, None);
    let mut is_over = false;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => std::thread::sleep(TICK),
            Err(error) => return Err(failed(format!("wait for the sender: {error}"))),
        }
        let ends = !is_over && over();
        is_over |= ends;
        if signal::interruptions() > passed || ends {
            passed = signal::interruptions();
            terminate(child);
            deadline.get_or_insert_with(|| Instant::now() + limit);
        }
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            let _ = child.kill();
        }
    }
}

/// Runs a command with the user's terminal while a reflector answers it, and returns its exit code. The command reports
/// its failures itself.
pub(in crate::commands) fn answered(
    mut command: Command,
    reflector: &mut Reflector,
    settle: Duration,
) -> Result<ExitCode> {
    command.envs(own_group().map(|group| (LIVE_GROUP, group.as_raw_nonzero().to_string())));
    let mut child = spawn(command, "sender")?;
    let mut died = None;
    let status = wait_with(&mut child, END_LIMIT + settle, || {
        died = reflector.ended();
        died.is_some()
    })?;
    match (died, status.code()) {
        (Some(why), _) => Err(failed(format!("--lab: the reflector ended before its time: {why}"))),
        (None, Some(code)) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        (None, None) => Err(failed("--lab: the sender was killed")),
    }
}

/// Runs `sendrecv` on host a without a word of its own, and reads its figures.
pub(super) fn measure(
    tell: &mut Teller,
    stage: &Stage,
    ends: &Ends,
    rate: Option<&str>,
    (duration, settle): (Duration, Option<Duration>),
    json: &str,
) -> Result<Figures> {
    let mut argv = ends.sendrecv(stage, rate, duration);
    if let Some(settle) = settle {
        argv = argv + words(["--settle", &super::seconds(settle)]);
    }
    let (code, last) = quietly(tell, stage, &(argv + words(["--json", json, "--quiet"])))?;
    match code {
        // A run as fast as it goes may well not be valid: it is not the measurement.
        Some(0 | 3) => Figures::read(json),
        _ => Err(failed(format!("sendrecv failed: {last}"))),
    }
}

/// Runs a command on host a without a word of its own; its exit code, and the last thing that it said.
pub(super) fn quietly(tell: &mut Teller, stage: &Stage, argv: &Words) -> Result<(Option<i32>, String)> {
    tell.command(&stage.typed(Host::A, argv));
    let mut command = stage.command(Host::A, argv)?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = spawn(command, "sender")?;
    let mut said = Said::by(&mut child)?;
    let status = wait(&mut child)?;
    if interrupted() {
        return Err(too_early());
    }
    Ok((status.code(), said.last()))
}

/// Runs `sendrecv` on host a with the user's terminal, and returns its exit code. The program reports its failures
/// itself.
pub(super) fn show(stage: &Stage, argv: &Words) -> Result<ExitCode> {
    let mut command = stage.command(Host::A, argv)?;
    // The command draws its live view while the terminal is ours.
    command.envs(own_group().map(|group| (LIVE_GROUP, group.as_raw_nonzero().to_string())));
    let mut child = spawn(command, "sender")?;
    match wait(&mut child)?.code() {
        Some(code @ (0 | 3)) => Ok(ExitCode::from(code as u8)),
        _ if interrupted() => Err(too_early()),
        Some(code) => Err(failed(format!("demo: sendrecv failed with exit code {code}"))),
        None => Err(failed("demo: sendrecv was killed")),
    }
}

/// The demo was asked to end before it had measured.
fn too_early() -> Failure {
    say("");
    failed("demo: interrupted before the measurement was done")
}
