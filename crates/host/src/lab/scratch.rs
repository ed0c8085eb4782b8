//! Labs that tests and the demo make for themselves.
//!
//! The name holds the owner's PID namespace, process id and start time, so runs never meet, and what a killed owner
//! left is recognised and removed by the next one in the same PID namespace. From another one nobody can see whether
//! the owner lives, so its lab stays.

use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::{LabError, Result};
use super::kernel::{self, Kernel};
use super::{Lab, LabOptions, names};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A lab of its own name that is removed when dropped, together with every process still inside.
pub struct ScratchLab {
    lab: Lab,
}

impl ScratchLab {
    /// Removes the scratch labs whose owners are dead, then makes one.
    ///
    /// # Errors
    /// As [`Lab::up`]; [`LabError::is_permission`] tells a missing privilege, for which tests should skip.
    pub fn new(options: LabOptions) -> Result<Self> {
        Self::remove_stale()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // From here on the drop cleans up, also when making it fails.
        let scratch = Self {
            lab: Lab::new(&names::scratch(this_process()?, number), options)?,
        };
        scratch.lab.up()?;
        Ok(scratch)
    }

    /// Removes the scratch labs of owners in this PID namespace that are no longer alive, and ends what still runs in
    /// them. Returns their names.
    ///
    /// # Errors
    /// As [`Lab::down`].
    pub fn remove_stale() -> Result<Vec<String>> {
        let kernel = Kernel::open("clean up")?;
        // A /proc of another PID namespace shows other processes under these ids.
        let own = std::process::id().to_string();
        if std::fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() != own.as_str()) {
            return Ok(Vec::new());
        }
        let here = pid_namespace()?;
        let mut stale: Vec<String> = kernel::names()
            .iter()
            .filter_map(|n| names::scratch_owner(n))
            .filter(|(_, owner)| owner.pid_namespace == here && start_time(owner.pid) != Some(owner.started))
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
        // A failure here leaves the lab to the next run's cleaning.
        if let Ok(kernel) = Kernel::open("down") {
            let _ = self.lab.remove(&kernel, true);
        }
    }
}

/// The PID namespace of this process: its inode number.
fn pid_namespace() -> Result<u32> {
    const PATH: &str = "/proc/self/ns/pid";
    let meta = std::fs::metadata(PATH).map_err(|e| LabError::io("look at", PATH.to_owned(), e))?;
    Ok(meta.ino() as u32)
}

/// This process as an owner.
pub(super) fn this_process() -> Result<names::Owner> {
    const PATH: &str = "/proc/self/stat";
    let stat = std::fs::read_to_string(PATH).map_err(|e| LabError::io("read", PATH.to_owned(), e))?;
    let started = parse_start_time(&stat)
        .ok_or_else(|| LabError::io("read start time from", PATH.to_owned(), std::io::ErrorKind::InvalidData))?;
    Ok(names::Owner {
        pid_namespace: pid_namespace()?,
        pid: std::process::id(),
        started,
    })
}

/// When the process started, in clock ticks since boot; `None` when there is no such process.
fn start_time(pid: u32) -> Option<u64> {
    parse_start_time(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of proc(5)'s `/proc/PID/stat`. The second, the program's name, may hold spaces and parentheses. A zombie
/// counts as dead.
fn parse_start_time(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_whatever_the_program_is_called() {
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21";
        assert_eq!(parse_start_time(&format!("9 (a) b) S {rest}")), Some(4242));
        assert_eq!(parse_start_time(&format!("9 (sh) Z {rest}")), None);
        assert_eq!(parse_start_time("9 (sh) S 1 2"), None);
        assert!(start_time(std::process::id()).is_some());
    }
}
