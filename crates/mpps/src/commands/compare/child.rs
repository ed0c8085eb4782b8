//! The runs: processes of this program, one at a time, which end when it does.

use crate::commands::demo::stage::executable;
use crate::fail::{Result, failed};
use mpps_methods::compare::Ran;
use mpps_run::privilege::{aside, shed};
use mpps_sys::signal;
use mpps_sys::thread::explained;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open, set_parent_process_death_signal,
};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Names the process that a run belongs to: its number, and behind a colon the inode of its PID namespace, if that is
/// known.
const PARENT: &str = "MPPS_PARENT";
/// Time between two checks whether the end was asked for. Rarely: nothing is to be in the way of the run.
const TICK: Duration = Duration::from_millis(100);
/// Time that a run may take to end when asked to.
const END_LIMIT: Duration = Duration::from_secs(15);

/// Makes the kernel end this process with the process that started it. The signal is set here and not by the parent:
/// capabilities of the program's file (`setcap`) make the kernel forget a signal that was set before.
pub(crate) fn end_with_parent() {
    let named = std::env::var(PARENT).unwrap_or_default();
    let Some(parent) = named.split(':').next().and_then(process) else {
        return;
    };
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    if getppid() != Some(parent) {
        // A variable that was left over.
        let _ = set_parent_process_death_signal(None);
    }
}

/// The process of a number as text. Anybody may have written it.
fn process(text: &str) -> Option<Pid> {
    let number = text.parse().ok().filter(|number: &i32| *number > 0)?;
    Pid::from_raw(number)
}

/// Watches the process that this one is a run of, from a thread that does nothing else: the kernel's own signal
/// ([`end_with_parent`]) comes as soon as the *thread* ends that started it, which in Python may be any. That process
/// may be an ancestor, too: what it started may be a script, or `sudo`. Not for a process that becomes another program.
///
/// # Errors
/// When that process has ended already.
pub(crate) fn watch_parent() -> Result<()> {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let named = std::env::var(PARENT).unwrap_or_default();
    let (pid, namespace) = named.split_once(':').unwrap_or((&named, ""));
    let Some(parent) = process(pid) else {
        return Ok(());
    };
    // Numbers are those of a PID namespace.
    let own = std::fs::metadata("/proc/self/ns/pid").map_or(0, |of| of.ino());
    let same = namespace.parse() == Ok(own);
    let ended = || failed(format!("process {pid}, to which this run belongs, has ended"));
    let pidfd = match pidfd_open(parent, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH) if same => return Err(ended()),
        // If the kernel, or a sandbox, has none of these, the signal stays.
        Err(_) => return Ok(()),
    };
    if same && ends(&pidfd, Some(&Timespec::default())) {
        return Err(ended());
    }
    // Or the variable was left over.
    if getppid() != Some(parent) && !(same && is_ancestor(parent)) {
        return Ok(());
    }
    let watching = mpps_sys::thread::spawn("mpps-parent", move || {
        shed();
        if ends(&pidfd, None) {
            let _ = kill_process(getpid(), Signal::TERM);
        }
    });
    if watching.is_ok() {
        let _ = set_parent_process_death_signal(None);
    }
    Ok(())
}

/// Waits for the end of a process, for so long at the most (`None`: for ever). False: it has not ended.
fn ends(pidfd: &OwnedFd, timeout: Option<&Timespec>) -> bool {
    let mut ended = [PollFd::new(pidfd, PollFlags::IN)];
    while matches!(poll(&mut ended, timeout), Err(Errno::INTR)) {}
    !ended[0].revents().is_empty()
}

/// Whether a process has started this one, or one that has, and so on.
fn is_ancestor(process: Pid) -> bool {
    let above = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        line.trim().parse::<i32>().ok().filter(|pid| *pid > 0)
    };
    let first = getppid().map(|parent| parent.as_raw_nonzero().get());
    // A chain of processes is no circle, and no longer than this.
    std::iter::successors(first, above)
        .take(64)
        .any(|pid| pid == process.as_raw_nonzero().get())
}

/// Makes a command end with this process, if it is this program, and if the main thread starts it.
pub(crate) fn of_this_process(command: &mut Command) {
    command.env(PARENT, getpid().as_raw_nonzero().to_string());
}

/// Runs a command line, without a word of its own. Must be called by the main thread: the run ends with its thread.
pub(super) fn run(words: &[OsString], quiet: bool) -> Result<Ran> {
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
        return Ok(Ran::Interrupted);
    }
    let said = || last_words(&err.recv().unwrap_or_default());
    Ok(match status.code() {
        Some(0 | 3) => match serde_json::from_slice(&text) {
            Ok(summary) => Ran::Told(summary),
            Err(e) => Ran::Failed(status.code(), format!("its summary can't be read: {e}")),
        },
        code => Ran::Failed(code, said()),
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
