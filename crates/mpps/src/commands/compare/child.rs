//! The runs: processes of this program, one at a time, which end when it does.

use crate::commands::demo::stage::executable;
use crate::fail::{Result, failed};
use crate::privilege::{aside, shed};
use mpps_sys::signal;
use mpps_sys::thread::explained;
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Names the process that a run belongs to.
const PARENT: &str = "MPPS_PARENT";
/// How often it is looked whether the end was asked for. Rarely: nothing is to be in the way of the run.
const TICK: Duration = Duration::from_millis(100);
/// How long a run may take to end when asked to.
const END_LIMIT: Duration = Duration::from_secs(15);

/// Has the kernel end this process with the one that it is a run of. The signal is set here and not by the parent:
/// what the program's file lends it (`setcap`) makes the kernel forget a signal that was set before.
pub(crate) fn end_with_parent() {
    let parent = std::env::var(PARENT).ok().and_then(|text| text.parse().ok());
    let Some(parent) = parent.and_then(Pid::from_raw) else {
        return;
    };
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    if getppid() != Some(parent) {
        // A variable that was left over.
        let _ = set_parent_process_death_signal(None);
    }
}

/// Has a command end with this process, if it is this program, and if the main thread starts it.
pub(crate) fn of_this_process(command: &mut Command) {
    command.env(PARENT, getpid().as_raw_nonzero().to_string());
}

/// How a run has ended.
pub(super) enum Ended {
    /// With a summary.
    Told(Value),
    /// Without, or with one that can't be read: its exit code, and the last thing it said.
    Failed(Option<i32>, String),
    /// By Ctrl-C.
    Interrupted,
}

/// Runs a command line, without a word of its own. Must be called by the main thread: the run ends with its thread.
pub(super) fn run(words: &[OsString], quiet: bool) -> Result<Ended> {
    let unable = |e: io::Error| failed(format!("start a run: {}", explained(e)));
    let mut command = Command::new(executable());
    let (workload, rest) = words.split_first().ok_or_else(|| failed("start a run: no words"))?;
    command.arg(workload).args(["--json", "-"]);
    if !quiet {
        command.arg("--quiet");
    }
    command.args(rest);
    of_this_process(&mut command);
    // Ctrl-C reaches it through us, and once: a second signal would cut its wait for packets under way short.
    command.process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(unable)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = match read(out).and_then(|out| Ok((out, read(err)?))) {
        Ok(both) => both,
        Err(e) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(format!("start a thread that reads what a run prints: {e}")));
        }
    };
    let (text, stopped) = wait_for(&mut child, &out);
    let status = child.wait().map_err(|e| failed(format!("wait for a run: {e}")))?;
    if stopped || signal::interrupted() {
        return Ok(Ended::Interrupted);
    }
    let said = || last_words(&err.recv().unwrap_or_default());
    Ok(match status.code() {
        Some(0 | 3) => match serde_json::from_slice(&text) {
            Ok(summary) => Ended::Told(summary),
            Err(e) => Ended::Failed(status.code(), format!("its summary can't be read: {e}")),
        },
        code => Ended::Failed(code, said()),
    })
}

/// Reads to the end, all the time, so that the run never waits for us.
fn read(from: Option<impl Read + Send + 'static>) -> io::Result<Receiver<Vec<u8>>> {
    let (give, take) = channel();
    mpps_sys::thread::spawn("mpps-reader", move || {
        shed();
        let mut all = Vec::new();
        if let Some(mut from) = from {
            let _ = from.read_to_end(&mut all);
        }
        let _ = give.send(all);
    })?;
    Ok(take)
}

/// Waits until it has said all, and passes on requests to end; whether there were any.
fn wait_for(child: &mut Child, out: &Receiver<Vec<u8>>) -> (Vec<u8>, bool) {
    let _aside = aside();
    let (mut passed, mut deadline) = (0, None);
    loop {
        match out.recv_timeout(TICK) {
            Ok(text) => return (text, passed > 0),
            Err(RecvTimeoutError::Disconnected) => return (Vec::new(), passed > 0),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if signal::interruptions() > passed {
            passed += 1;
            // Not waited for yet, so the id is still its own.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
            deadline.get_or_insert_with(|| Instant::now() + END_LIMIT);
        }
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            let _ = child.kill();
        }
    }
}

/// The last line that a process of this program said.
pub(crate) fn last_words(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.map(|line| line.strip_prefix("mpps: ").unwrap_or(line));
    mpps_sys::text::plain(line.unwrap_or("it said nothing"), '?')
}
