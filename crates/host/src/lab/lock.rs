//! The lock of all labs of a host. Only root may open it, because a user who can open it could hold it for ever.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::error::{LabError, Result};

/// Longest wait without a message.
const SILENCE: Duration = Duration::from_secs(1);
/// Only its owner may open it.
const MODE: u32 = 0o600;

static TELL: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that is called with one line when a lab command waits for another one.
pub fn tell_of_waiting(tell: fn(&str)) {
    let _ = TELL.set(tell);
}

/// Takes the lock `lab.lock` in `folder`. The file is made, closed to others, and repaired if an earlier version left
/// it open.
pub(super) fn take(folder: &Path, limit: Duration) -> Result<File> {
    let shown = folder.join("lab.lock").display().to_string();
    let error = |op: &'static str| {
        let shown = shown.clone();
        move |e: std::io::Error| LabError::io(op, shown, e)
    };
    let dir = mpps_sys::private::folder(folder).map_err(|e| LabError::io("use", folder.display().to_string(), e))?;
    let begun = Instant::now();
    let mut told = false;
    loop {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&dir, "lab.lock", flags, Mode::from_raw_mode(MODE));
        let lock = File::from(opened.map_err(|e| error("open")(e.into()))?);
        let meta = lock.metadata().map_err(error("look at"))?;
        if meta.mode() & 0o777 != MODE || meta.uid() != rustix::process::geteuid().as_raw() {
            // Others may have it open already, and hold it: their file is removed, with the lock that they hold.
            rustix::fs::unlinkat(&dir, "lab.lock", rustix::fs::AtFlags::empty())
                .or_else(|e| if e == Errno::NOENT { Ok(()) } else { Err(e) })
                .map_err(|e| error("remove")(e.into()))?;
            if begun.elapsed() < limit {
                continue;
            }
        }
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // Another command may have replaced the file before the lock was taken.
                let now = rustix::fs::statat(&dir, "lab.lock", rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
                if now.is_ok_and(|now| (now.st_dev, now.st_ino) == (meta.dev(), meta.ino())) {
                    return Ok(lock);
                }
            }
            Err(Errno::WOULDBLOCK) if begun.elapsed() >= limit => {
                return Err(LabError::Locked {
                    path: shown,
                    holder: holder(meta.ino()),
                    limit,
                });
            }
            Err(Errno::WOULDBLOCK) => {
                if !told && begun.elapsed() >= SILENCE.min(limit / 2) {
                    told = true;
                    if let Some(tell) = TELL.get() {
                        tell(&format!("waiting for {}, which holds {shown}", holder(meta.ino())));
                    }
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(e) => return Err(error("lock")(e.into())),
        }
    }
}

/// Returns a description of the process that holds a lock on this file. Source: `/proc/locks`, `/proc/PID/cmdline`.
fn holder(inode: u64) -> String {
    let Some(pid) = process_that_holds(inode) else {
        return "another process".to_owned();
    };
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = command
        .split(|b| *b == 0)
        .filter(|word| !word.is_empty())
        .map(mpps_sys::proc_stat::shown)
        .collect();
    match words.is_empty() {
        // Its lock lives on in a program that it started.
        true => format!("process {pid} (or a program that it started)"),
        false => format!("process {pid} ({})", words.join(" ")),
    }
}

/// Returns the process that holds a lock on this file; `None`: it is not known, as for one in another container.
pub(crate) fn process_that_holds(inode: u64) -> Option<u32> {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    pid_of(&locks, inode).filter(|&pid| pid > 0)
}

/// Finds the process of a lock: `1: FLOCK  ADVISORY  WRITE 123 00:1a:456 0 EOF` is process 123, inode 456. Lines of
/// waiting processes have an arrow.
fn pid_of(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (pid, file) = (words.get(4)?, words.get(5)?);
        let held = words.get(1) == Some(&"FLOCK") && file.rsplit(':').next()?.parse() == Ok(inode);
        held.then(|| pid.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("there").mode() & 0o777
    }

    #[test]
    fn a_lock_that_everybody_could_open_is_replaced_whoever_holds_it() {
        let place = tempfile::tempdir().expect("a folder");
        let (folder, path) = (place.path().join("mpps"), place.path().join("mpps/lab.lock"));
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).expect("ours");
        std::fs::write(&path, "").expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("ours");
        let nobody = File::open(&path).expect("open to all");
        rustix::fs::flock(&nobody, FlockOperation::NonBlockingLockExclusive).expect("free");
        let lock = take(&folder, Duration::from_secs(60)).expect("free");
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        drop(lock);
    }

    #[test]
    fn a_lock_that_is_held_is_refused_with_its_holder_by_name() {
        let place = tempfile::tempdir().expect("a folder");
        let held = take(place.path(), Duration::from_secs(60)).expect("free");
        let error = take(place.path(), Duration::from_millis(20))
            .expect_err("held")
            .to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(held);
        take(place.path(), Duration::from_secs(60)).expect("free again");
    }

    #[test]
    fn the_holder_is_found_in_the_kernels_list() {
        let list = "1: POSIX  ADVISORY  READ 5 00:17:9 0 EOF\n2: FLOCK  ADVISORY  WRITE 77 00:1a:9 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 78 00:1a:9 0 EOF\n";
        assert_eq!((pid_of(list, 9), pid_of(list, 8)), (Some(77), None));
    }
}
