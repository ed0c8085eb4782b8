//! Labs that tests and the demo make for themselves.
//!
//! The name holds the owner's process id and start time, so runs never meet, and what a killed owner left is
//! recognised and removed by the next one.

use std::ops::Deref;
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
        let pid = std::process::id();
        let started = start_time(pid).ok_or_else(|| {
            LabError::io(
                "read start time from",
                format!("/proc/{pid}/stat"),
                std::io::ErrorKind::InvalidData,
            )
        })?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // From here on the drop cleans up, also when making it fails.
        let scratch = Self {
            lab: Lab::new(&names::scratch(pid, started, number), options)?,
        };
        scratch.lab.up()?;
        Ok(scratch)
    }

    /// Removes the scratch labs of owners that are no longer alive, and ends what still runs in them. Returns their
    /// names.
    ///
    /// # Errors
    /// As [`Lab::down`].
    pub fn remove_stale() -> Result<Vec<String>> {
        let kernel = Kernel::open("clean up")?;
        let mut stale: Vec<String> = kernel::names()
            .iter()
            .filter_map(|n| names::scratch_owner(n))
            .filter(|&(_, pid, started)| start_time(pid) != Some(started))
            .map(|(name, ..)| name.to_owned())
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
