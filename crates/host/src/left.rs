//! Removes what killed runs of `mpps` (`kill -9`, a full memory) have left: namespaces of `--lab`, folders that DPDK
//! made for a process, folders of `mpps trace peer`.
//!
//! Each has a name that holds the number of the process it was made for, and is removed only if that process is gone.
//! Leftovers of other users stay, and are not reported.

use crate::lab::ScratchLab;
use mpps_sys::private;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Removes all such leftovers. Returns one line for each that was removed.
pub fn remove() -> Vec<String> {
    // In another PID namespace a number means another process, or none.
    if !sees_processes() {
        return Vec::new();
    }
    let labs = ScratchLab::remove_stale().unwrap_or_default();
    let labs = labs
        .into_iter()
        .map(|name| format!("removed the lab {name} of a run that was killed"));
    let dpdk = dpdk_folders();
    // A folder of somebody else's could lead to one of this user's.
    let dpdk = dpdk.iter().filter(|above| private::is_own_folder(above));
    let dpdk = dpdk.flat_map(|above| remove_of_dpdk(above, &is_gone));
    let peers = peer_places();
    let peers = peers.iter().filter(|above| private::is_own_folder(above));
    let peers = peers.flat_map(|above| remove_of_peers(above));
    let folders = dpdk.chain(peers);
    let folders = folders.map(|path| format!("removed {} of a run that was killed", path.display()));
    labs.chain(folders).collect()
}

/// Whether `/proc` shows the processes that this one counts with.
fn sees_processes() -> bool {
    let own = std::process::id().to_string();
    fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == own.as_str())
}

/// Whether there is no process of this number.
fn is_gone(pid: u32) -> bool {
    !Path::new("/proc").join(pid.to_string()).exists()
}

/// Folders in which DPDK makes one for each process of `mpps` (`--file-prefix mppsPID`), as it chooses them.
fn dpdk_folders() -> Vec<PathBuf> {
    let above = match rustix::process::getuid().is_root() {
        true => PathBuf::from("/var/run"),
        false => std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from),
    };
    vec![above.join("dpdk")]
}

/// Removes the folders of DPDK in `above` whose process `is_gone`, with the files in them. Returns those removed.
fn remove_of_dpdk(above: &Path, is_gone: &dyn Fn(u32) -> bool) -> Vec<PathBuf> {
    let left = entries(above).filter(|(name, _)| {
        let pid = name.strip_prefix("mpps").and_then(|pid| pid.parse().ok());
        pid.is_some_and(is_gone)
    });
    left.map(|(_, path)| path)
        // In a folder that all may write to others could have put one of that name there.
        .filter(|path| private::is_own_folder(path) && fs::remove_dir_all(path).is_ok())
        .collect()
}

/// Folders in which `mpps trace peer` may make one for itself, the best first.
pub fn peer_places() -> Vec<PathBuf> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let root = rustix::process::geteuid().is_root();
    let places = [
        Some(private::runtime_path()),
        cache.map(|cache| cache.join("mpps")),
        root.then(|| PathBuf::from("/var/cache/mpps")),
    ];
    places.into_iter().flatten().collect()
}

/// Removes the folders of `mpps trace peer` in `above` that belong to no process any more. Returns those removed.
pub fn remove_of_peers(above: &Path) -> Vec<PathBuf> {
    let left = entries(above).filter(|(name, path)| {
        let gone = |pid: &str| pid.parse().is_ok_and(is_gone);
        match (name.strip_prefix("peer-"), name.strip_prefix("new-")) {
            (Some(pid), _) => match File::open(path.join("lock")) {
                Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
                // It was killed as it was removed.
                Err(_) => gone(pid),
            },
            // It was killed before it was locked. Files of such names are others'.
            (_, Some(pid)) => gone(pid),
            _ => false,
        }
    });
    left.filter_map(|(_, path)| fs::remove_dir_all(&path).is_ok().then_some(path))
        .collect()
}

/// Names and paths of what lies in a folder; nothing if that can't be read.
fn entries(above: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let all = fs::read_dir(above).into_iter().flatten().flatten();
    all.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_processes_that_are_gone_are_removed() {
        let above = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = above.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("config"), "x").unwrap();
            path
        };
        let (dead, alive, named) = (make("mpps17"), make("mpps18"), make("mppsx"));
        let (rte, other) = (make("rte"), make("xmpps17"));
        assert_eq!(remove_of_dpdk(above.path(), &|pid| pid == 17), [dead]);
        assert!([alive, named, rte, other].iter().all(|path| path.exists()));
        assert!(remove_of_dpdk(&above.path().join("none"), &|_| true).is_empty());
    }

    #[test]
    fn a_folder_that_is_locked_belongs_to_somebody() {
        let above = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = above.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("lock"), "").unwrap();
            path
        };
        let (held, left, draft, other) = (make("peer-1"), make("peer-2"), make("new-1"), make("peers"));
        let lock = File::open(held.join("lock")).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(remove_of_peers(above.path()), [left]);
        assert!([held, draft, other].iter().all(|path| path.exists()), "process 1 lives");
    }
}
