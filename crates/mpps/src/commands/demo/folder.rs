//! The folder of the results: one demo at a time writes into it.

use super::tell::say;
use crate::fail::{Result, usage};
use mpps_sys::private;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files of a demo; those of an earlier one are removed first, so that nobody takes them for this one's.
const FILES: [&str; 28] = [
    "throughput-reflect.json",
    "trials.jsonl",
    "result.json",
    "report.md",
    "report.html",
    "run.csv",
    "run.json",
    "run.hdr",
    "run.svg",
    "run.png",
    "calibration.json",
    "reflect.json",
    "udp-1.json",
    "udp-2.json",
    "udp-3.json",
    "udp-reflect.json",
    "af_packet-1.json",
    "af_packet-2.json",
    "af_packet-3.json",
    "af_packet-reflect.json",
    "af_xdp-1.json",
    "af_xdp-2.json",
    "af_xdp-3.json",
    "af_xdp-reflect.json",
    "xdp-1.json",
    "xdp-2.json",
    "xdp-3.json",
    "xdp-reflect.json",
];

/// Time for which a folder may still be locked by a process that was just ended.
const LOCK_LIMIT: Duration = Duration::from_millis(500);

/// A folder that is this demo's while it, or a process that it started, runs.
pub(super) struct Folder {
    path: PathBuf,
    /// Inherited by the processes of the demo, so that one that outlives a `kill -9` never writes its results over a
    /// later demo's. The kernel drops the lock with its last holder.
    _lock: OwnedFd,
}

impl Folder {
    /// Makes the folder, or takes the one there is; while another demo uses it, the next free of `DIR-2`, `DIR-3`, ….
    pub(super) fn take(wanted: &Path) -> Result<Self> {
        let shown = wanted.display().to_string();
        let unusable =
            |e: &dyn std::fmt::Display| usage(format!("--out {shown}: {e}: want a folder that can be written"));
        for number in 1..=99 {
            let path = match number {
                1 => wanted.to_owned(),
                _ => PathBuf::from(format!("{}-{number}", shown.trim_end_matches('/'))),
            };
            let lock = private::open_folder(&path).map_err(|e| unusable(&e))?;
            let limit = if number == 1 { LOCK_LIMIT } else { Duration::ZERO };
            if !locked(&lock, limit).map_err(|e| unusable(&e))? {
                continue;
            }
            fcntl_setfd(&lock, FdFlags::empty()).map_err(|e| unusable(&e))?;
            if number > 1 {
                say(&format!(
                    "{shown} is in use by another demo: this one writes to {}",
                    path.display()
                ));
            }
            for file in FILES {
                private::clear(&lock, file).map_err(|e| unusable(&e))?;
            }
            return Ok(Self { path, _lock: lock });
        }
        Err(unusable(&"in use by 99 demos"))
    }

    /// Path of a file in the folder, as it is given to a command.
    pub(super) fn file(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// The folder, as it is given to a command.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Columns of the longest path that the demo names at its end.
    pub(super) fn width(&self) -> usize {
        self.file("reflect.json").chars().count()
    }
}

/// Whether the lock was free within the limit.
fn locked(file: &OwnedFd, limit: Duration) -> rustix::io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_is_left_to_its_user_and_earlier_results_go() {
        let place = std::env::temp_dir().join(format!("mpps-demo-folder-{}", std::process::id()));
        let first = Folder::take(&place).expect("free");
        std::fs::write(first.file("run.csv"), "mine").expect("writable");
        let second = Folder::take(&place).expect("the next one");
        assert_eq!(second.path, PathBuf::from(format!("{}-2", place.display())));
        assert_eq!(std::fs::read_to_string(first.file("run.csv")).expect("kept"), "mine");
        drop(first);
        let third = Folder::take(&place).expect("free again");
        assert!(third.path == place && !Path::new(&third.file("run.csv")).exists());
        let _ = (
            std::fs::remove_dir_all(&third.path),
            std::fs::remove_dir_all(&second.path),
        );
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_refused_by_name() {
        let Err(crate::fail::Failure::Usage(line)) = Folder::take(Path::new("/proc/demo")) else {
            panic!("taken")
        };
        assert!(line.starts_with("--out /proc/demo: "), "{line}");
    }

    #[test]
    fn root_follows_no_link_of_somebody_elses_into_or_out_of_the_folder() {
        use std::os::unix::fs::{chown, lchown, symlink};
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED: only root can make links of somebody else");
        }
        let place = std::env::temp_dir().join(format!("mpps-demo-links-{}", std::process::id()));
        let (home, victim, none) = (place.join("home"), place.join("victim"), place.join("none"));
        let wanted = home.join("results");
        std::fs::create_dir_all(&wanted).expect("a folder");
        std::fs::write(&victim, "kept").expect("a file");
        for (target, name) in [(&victim, "run.csv"), (&none, "run.json")] {
            symlink(target, wanted.join(name)).expect("a link");
            lchown(wanted.join(name), Some(65534), None).expect("lchown");
        }
        for folder in [&home, &wanted] {
            chown(folder, Some(65534), None).expect("chown");
        }
        drop(Folder::take(&wanted).expect("a folder"));
        assert_eq!(std::fs::read(&victim).expect("a file"), b"kept");
        assert!(!none.exists() && !wanted.join("run.csv").exists());
        // The folder itself as a link.
        std::fs::remove_dir_all(&wanted).expect("a folder");
        symlink(&place, &wanted).expect("a link");
        lchown(&wanted, Some(65534), None).expect("lchown");
        std::fs::write(place.join("run.csv"), "kept").expect("a file");
        let Err(crate::fail::Failure::Usage(line)) = Folder::take(&wanted) else {
            panic!("taken")
        };
        assert!(line.contains("link of user 65534"), "{line}");
        assert_eq!(std::fs::read(place.join("run.csv")).expect("a file"), b"kept");
        let _ = std::fs::remove_dir_all(&place);
    }
}
