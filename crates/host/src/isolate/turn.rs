//! The turn: one run of `isolate` at a time changes a host.
//!
//! Two runs at a time would each restore what the other has set, for good. So a run takes its turn before it looks at
//! anything, and keeps it until everything is undone. The turn is a lock, which the kernel drops however the process
//! ends. The guardian of a run that was killed holds that run's journal instead, and the next run waits for it.

use super::journal::{Mended, folder, journals, mend};
use super::tree::Tree;
use mpps_sys::private;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Name of the lock file. The file stays: a lock on a removed file excludes nobody.
const NAME: &str = "isolate.lock";
/// Longest wait for a guardian.
const LIMIT: Duration = Duration::from_secs(10);

/// The right to change this host; ends when dropped.
#[derive(Debug)]
pub struct Turn {
    _lock: File,
}

impl Turn {
    /// # Errors
    /// One line: another run has the turn, or the lock can't be taken.
    pub fn take(tree: &Tree) -> Result<Self, String> {
        let folder = folder(tree);
        let unable = |error: std::io::Error| {
            let path = folder.join(NAME);
            format!("lock {}: {error}: nothing is changed without it", path.display())
        };
        // No other user can have put a file there.
        let place = private::folder(&folder).map_err(unable)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(&place, NAME, flags, Mode::from_raw_mode(0o600));
        let lock = File::from(lock.map_err(|error| unable(error.into()))?);
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let inode = lock.metadata().map_or(0, |meta| meta.ino());
                let who = crate::lab::process_that_holds(inode).map_or_else(String::new, |n| format!(" (process {n})"));
                Err(format!(
                    "another `mpps isolate` runs on this host{who}: want it to end first"
                ))
            }
            Err(error) => Err(unable(error.into())),
        }
    }

    /// Undoes what earlier runs have left, and waits for a guardian that does. Afterwards the host is as it was before
    /// those runs, or the last line gives the reason why this run can't begin.
    pub fn clear(&self, tree: &Tree) -> (Vec<String>, Result<(), String>) {
        let Mended { told, .. } = mend_when_free(tree, LIMIT);
        let now = journals(tree);
        let ready = match now.left.first() {
            // A later undo would change what this run has set.
            Some(path) => Err(format!(
                "an earlier run has left what can't be undone, noted in {}: want it undone by hand, or the file \
                 removed",
                path.display()
            )),
            None if now.held > 0 => Err(
                "what a run that was killed has left is still being undone: want to begin again in a moment".to_owned(),
            ),
            None => Ok(()),
        };
        (told, ready)
    }
}

/// Undoes what was left, as soon as no other process holds any part of it: the kernel takes a moment to release the
/// locks of a killed process.
pub fn mend_when_free(tree: &Tree, limit: Duration) -> Mended {
    let deadline = Instant::now() + limit;
    while journals(tree).held > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    mend(tree)
}
