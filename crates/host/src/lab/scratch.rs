//! Labs that tests and the demo make for themselves.
//!
//! The name contains the owner's PID namespace, process id and start time, so two runs never share a lab. If an owner
//! is killed, the next run in the same PID namespace recognises its lab and removes it. From another PID namespace
//! nobody can see whether the owner lives, so its lab stays.
//!
//! The start time is the host's. In a time namespace `/proc` shows every process's start with the offset of the reader
//! added.

use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::{LabError, Result};
use super::kernel::{self, Kernel};
use super::{Lab, LabOptions, names};
use mpps_sys::clock::namespace::offsets;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A lab with a name of its own that is removed when dropped, together with every process still inside.
pub struct ScratchLab {
    lab: Lab,
}

impl ScratchLab {
    /// Removes the scratch labs whose owners are dead, then makes one.
    ///
    /// # Errors
    /// Same as [`Lab::up`]. [`LabError::is_permission`] detects a missing privilege, for which tests should skip.
    pub fn new(options: LabOptions) -> Result<Self> {
        Self::remove_stale()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // From here on the drop cleans up, even if making the lab fails.
        let scratch = Self {
            lab: Lab::new(&names::scratch(this_process()?, number), options)?,
        };
        scratch.lab.up()?;
        Ok(scratch)
    }

    /// Removes the scratch labs of owners in this PID namespace that are no longer alive, and ends the programs that
    /// still run in them. Returns their names.
    ///
    /// # Errors
    /// Same as [`Lab::down`].
    pub fn remove_stale() -> Result<Vec<String>> {
        let kernel = Kernel::open("clean up")?;
        // A `/proc` of another PID namespace shows other processes under these ids.
        let own = std::process::id().to_string();
        if std::fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() != own.as_str()) {
            return Ok(Vec::new());
        }
        // Without a known offset every owner seems to have started at another time.
        let Ok(ahead) = ahead_ticks() else {
            return Ok(Vec::new());
        };
        let here = pid_namespace()?;
        let mut stale: Vec<String> = kernel::names()
            .iter()
            .filter_map(|n| names::scratch_owner(n))
            .filter(|(_, owner)| owner.pid_namespace == here && is_gone(owner, ahead))
            .map(|(name, _)| name.to_owned())
            .collect();
        stale.sort();
        stale.dedup();
        for name in &stale {
            Lab::new(name, LabOptions::default())?.remove(&kernel, true)?;
        }
        Ok(stale)
    }
}

impl Deref for ScratchLab {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

impl Drop for ScratchLab {
    fn drop(&mut self) {
        // If this fails, the next run removes the lab.
        if let Ok(kernel) = Kernel::open("down") {
            let _ = self.lab.remove(&kernel, true);
        }
    }
}

/// Returns the inode number of this process's PID namespace.
fn pid_namespace() -> Result<u32> {
    const PATH: &str = "/proc/self/ns/pid";
    let meta = std::fs::metadata(PATH).map_err(|e| LabError::io("look at", PATH.to_owned(), e))?;
    Ok(meta.ino() as u32)
}

/// Returns this process as an owner.
pub(super) fn this_process() -> Result<names::Owner> {
    const PATH: &str = "/proc/self/stat";
    let stat = std::fs::read_to_string(PATH).map_err(|e| LabError::io("read", PATH.to_owned(), e))?;
    let invalid = |why: &str| LabError::io("read start time from", PATH.to_owned(), std::io::Error::other(why));
    let started = start_time(&stat).ok_or_else(|| invalid("not the format of proc(5)"))?;
    Ok(names::Owner {
        pid_namespace: pid_namespace()?,
        pid: std::process::id(),
        started: started.wrapping_add_signed(-ahead_ticks().map_err(invalid)?),
    })
}

/// Returns the clock ticks by which start times in `/proc` are ahead of the host's. Rounding loses less than one more
/// tick.
///
/// # Errors
/// The reason why the offset is not known.
fn ahead_ticks() -> std::result::Result<i64, &'static str> {
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second() as i64;
    Ok(offsets()?.boottime_ns.div_euclid(tick_ns))
}

/// Returns whether the owner no longer lives. `ahead` comes from [`ahead_ticks`].
fn is_gone(owner: &names::Owner, ahead: i64) -> bool {
    if !is_there(owner.pid) {
        return true;
    }
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", owner.pid)) else {
        return !is_there(owner.pid);
    };
    let started = start_time(&stat).map(|shown| shown.wrapping_add_signed(-ahead));
    is_zombie(&stat) || started.is_some_and(|started| started.abs_diff(owner.started) > 1)
}

/// Returns whether a process of this number exists, even as a zombie. `/proc` may hide other users' processes.
pub(crate) fn is_there(pid: u32) -> bool {
    let pid = pid.try_into().ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Returns the fields of proc(5)'s `/proc/PID/stat` from the third on. The second, the program's name, may contain
/// spaces and parentheses.
fn fields(stat: &str) -> Option<std::str::SplitWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

/// Returns field 22: time when the process started, in clock ticks since boot as the reader's time namespace counts
/// them.
fn start_time(stat: &str) -> Option<u64> {
    fields(stat)?.nth(19)?.parse().ok()
}

fn is_zombie(stat: &str) -> bool {
    fields(stat).and_then(|mut fields| fields.next()) == Some("Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_whatever_the_program_is_called() {
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21";
        assert_eq!(start_time(&format!("9 (a) b) S {rest}")), Some(4242));
        assert!(is_zombie("9 (sh) Z 1") && !is_zombie("9 (Z ) S 1"));
        assert_eq!(start_time("9 (sh) S 1 2"), None);
    }

    #[test]
    fn an_owner_lives_by_any_rounding_of_its_start_and_is_gone_by_another_start() {
        let owner = this_process().unwrap();
        let ahead = ahead_ticks().unwrap();
        for (ticks, gone) in [(0, false), (1, false), (-1, false), (2, true), (-10_000_000, true)] {
            assert_eq!(is_gone(&owner, ahead + ticks), gone, "{ticks}");
        }
        assert!(!is_there(u32::MAX) && is_there(1));
    }
}
