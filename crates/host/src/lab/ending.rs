//! Ends the programs in a lab before its interfaces are removed. A run whose interface is removed is not valid, but a
//! program that is asked to end first still gives its results.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use mpps_sys::proc_stat::name_in;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::error::Result;
use super::kernel::{self, Kernel};

/// Longest wait for programs to end when asked to. mpps waits for packets on their way, by default a second; a run with
/// a settle time longer than this may be killed.
const PATIENCE: Duration = Duration::from_secs(15);

/// A process, held so that its number can't become another's meanwhile.
struct Process {
    id: u32,
    name: String,
    handle: OwnedFd,
}

/// Ends every process in the namespace except this one and its ancestors: asks, waits, and kills the remaining ones.
/// Adds a line for each to `done`.
pub(super) fn end_processes(kernel: &Kernel, namespace: &str, done: &mut Vec<String>) -> Result<()> {
    let found = processes(kernel, namespace)?;
    for process in &found {
        // A process that has ended already needs nothing. A stopped one must continue so that it can end.
        let _ = pidfd_send_signal(&process.handle, Signal::TERM);
        let _ = pidfd_send_signal(&process.handle, Signal::CONT);
    }
    let deadline = Instant::now() + PATIENCE;
    for process in found {
        let Process { id, name, handle } = &process;
        if ended(handle, deadline.saturating_duration_since(Instant::now())) {
            done.push(format!("ended {name} (process {id}) in {namespace}"));
            continue;
        }
        let _ = pidfd_send_signal(handle, Signal::KILL);
        ended(handle, PATIENCE);
        let limit = PATIENCE.as_secs();
        done.push(format!(
            "killed {name} (process {id}) in {namespace}: it did not end within {limit} s"
        ));
    }
    Ok(())
}

fn processes(kernel: &Kernel, namespace: &str) -> Result<Vec<Process>> {
    let spared = ancestors();
    let inside = kernel::identity(namespace)?;
    let hold = |id: u32| {
        let handle = pidfd_open(Pid::from_raw(id.try_into().ok()?)?, PidfdFlags::empty()).ok()?;
        // Checked after the process is held: the listed process may have ended, and its number be in use again.
        let net = fs::metadata(format!("/proc/{id}/ns/net")).ok()?;
        ((net.dev(), net.ino()) == inside).then_some(())?;
        let name = name_in(Path::new(&format!("/proc/{id}"))).unwrap_or_default();
        Some(Process { id, name, handle })
    };
    let listed = kernel.processes(namespace)?;
    Ok(listed
        .into_iter()
        .filter(|id| !spared.contains(id))
        .filter_map(hold)
        .collect())
}

/// Returns whether the process ends within this time. A process that nobody has waited for yet counts as ended.
fn ended(handle: &OwnedFd, within: Duration) -> bool {
    let within = Timespec::try_from(within).ok();
    let mut fds = [PollFd::new(handle, PollFlags::IN)];
    poll(&mut fds, within.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Returns this process and its ancestors: `lab down` may be typed in a shell that runs in the lab.
fn ancestors() -> Vec<u32> {
    let mut all = vec![std::process::id()];
    while let Some(above) = parent(all[all.len() - 1]).filter(|id| *id > 1 && !all.contains(id)) {
        all.push(above);
    }
    all
}

fn parent(id: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}
