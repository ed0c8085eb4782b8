//! Removes leftovers of killed runs of `mpps` (`kill -9`, a full memory): namespaces of `--lab`, folders that DPDK made
//! for a process, folders of `mpps trace peer`.
//!
//! The name of each leftover contains the number of the process that it was made for. It is removed only if that
//! process is gone. Leftovers of other users stay, and are not reported.

use crate::lab::{ScratchLab, is_there};
use mpps_sys::private;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, lstat, stat};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::fs;
use std::os::fd::OwnedFd;
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
    // Another user's folder could lead to one of this user's.
    let dpdk = dpdk.iter().filter(|above| private::is_own_folder(above));
    let dpdk = dpdk.flat_map(|above| remove_of_dpdk(above, &|pid| !is_there(pid)));
    let peers = peer_places();
    let peers = peers
        .iter()
        .filter(|above| private::is_own_folder(above) && in_reach_of_others(above).is_none());
    let peers = peers.flat_map(|above| remove_of_peers(above));
    let folders = dpdk.chain(peers);
    let folders = folders.map(|path| format!("removed {} of a run that was killed", path.display()));
    labs.chain(folders).collect()
}

/// Returns whether `/proc` shows the processes in this process's own PID namespace.
fn sees_processes() -> bool {
    let own = std::process::id().to_string();
    fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == own.as_str())
}

/// Returns the folders in which DPDK makes one for each process of `mpps` (`--file-prefix mppsPID`), chosen as DPDK
/// chooses them.
fn dpdk_folders() -> Vec<PathBuf> {
    let above = match rustix::process::getuid().is_root() {
        true => PathBuf::from("/var/run"),
        false => std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from),
    };
    vec![above.join("dpdk")]
}

/// Removes the folders of DPDK in `above` whose process `is_gone`, with the files in them. Returns the removed folders.
/// A process in another container, which can't be seen here, may hold a folder by a lock.
fn remove_of_dpdk(above: &Path, is_gone: &dyn Fn(u32) -> bool) -> Vec<PathBuf> {
    let left = entries(above).filter(|(name, _)| {
        let pid = name.strip_prefix("mpps").and_then(|pid| pid.parse().ok());
        pid.is_some_and(is_gone)
    });
    left.map(|(_, path)| path)
        // In a folder that all users may write to, another user could have put a folder of that name there.
        .filter(|path| private::is_own_folder(path) && !is_held(path) && fs::remove_dir_all(path).is_ok())
        .collect()
}

/// Returns whether a process holds a folder of DPDK's, or that is not known: the EAL locks part of the file `config`
/// for as long as it runs (`rte_eal_config_create`). Without that file nothing in the folder is shared.
fn is_held(folder: &Path) -> bool {
    let lock = match open_as_it_is(&folder.join("config")) {
        Ok(lock) => lock,
        Err(error) => return error != Errno::NOENT,
    };
    // From the beginning to the end of the file.
    let whole = Flock::from(FlockType::WriteLock);
    fcntl_getlk(&lock, &whole).map_or(true, |held| held.is_some())
}

/// Opens a file that programs make in their folder. Follows no link, and does not wait if the file is a FIFO.
fn open_as_it_is(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Returns whether a folder of `mpps trace peer` belongs to a command that runs, in any PID namespace.
pub fn is_of_a_running_peer(folder: &Path) -> bool {
    open_as_it_is(&folder.join("lock")).is_ok_and(|lock| flock(lock, FlockOperation::NonBlockingLockExclusive).is_err())
}

/// Returns the folders in which `mpps trace peer` may make one for itself, the best first.
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

/// Returns the reason why users other than root and this one may lead a folder elsewhere: the folder, or one on the way
/// to it, is theirs or open to them. `None`: nobody else can.
pub fn in_reach_of_others(place: &Path) -> Option<String> {
    if let Some(reason) = place.ancestors().find_map(others) {
        return Some(reason);
    }
    let real = fs::canonicalize(place).ok()?;
    if let Some(reason) = real.ancestors().find_map(others) {
        return Some(reason);
    }
    let open = |folder: &&Path| private::is_open_to_others(folder).unwrap_or(true);
    let open = real.ancestors().find(open)?;
    Some(format!(
        "lies in {}, which others than its owner may write to",
        open.display()
    ))
}

/// Returns the reason why a folder or a link is not only under the control of this user and root.
fn others(folder: &Path) -> Option<String> {
    let owner = |stat: rustix::fs::Stat| stat.st_uid;
    let owners = [lstat(folder).map(owner), stat(folder).map(owner)];
    let me = rustix::process::geteuid().as_raw();
    // In a user namespace root may have another number.
    let top = stat("/").map_or(0, owner);
    let other = owners
        .into_iter()
        .flatten()
        .find(|owner| ![0, me, top].contains(owner))?;
    Some(format!("lies in {}, which belongs to user {other}", folder.display()))
}

/// Removes the folders of `mpps trace peer` in `above` that belong to no process any more. Returns the removed folders.
pub fn remove_of_peers(above: &Path) -> Vec<PathBuf> {
    let remove = |(name, path): (String, PathBuf)| {
        let gone = |pid: &str| pid.parse().is_ok_and(|pid| !is_there(pid));
        // Held until the folder is removed.
        let lock = name.starts_with("peer-").then(|| open_as_it_is(&path.join("lock")));
        let left = match (name.strip_prefix("peer-"), name.strip_prefix("new-"), &lock) {
            (_, _, Some(Ok(lock))) => flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
            // The process was killed while it removed the folder.
            (Some(pid), _, Some(Err(Errno::NOENT))) => gone(pid),
            // The process was killed before it locked the folder. Files with such names belong to others.
            (_, Some(pid), _) => gone(pid),
            _ => false,
        };
        (left && fs::remove_dir_all(&path).is_ok()).then_some(path)
    };
    entries(above).filter_map(remove).collect()
}

/// Returns names and paths of everything in a folder; nothing if that can't be read.
fn entries(above: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let all = fs::read_dir(above).into_iter().flatten().flatten();
    all.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

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
    fn a_folder_whose_configuration_is_locked_or_is_no_file_stays() {
        let above = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = above.path().join(name);
            fs::create_dir(&path).unwrap();
            path.join("config")
        };
        let (link, held) = (make("mpps17"), make("mpps18"));
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        fs::write(&held, [0; 4096]).unwrap();
        // As the EAL does: a part, by another process, until that ends.
        let words = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 100, 500); \
                     print(flush=True); sys.stdin.read()";
        let python = std::process::Command::new("python3")
            .args(["-c", words])
            .arg(&held)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let Ok(mut holder) = python else {
            return println!("SKIPPED: python3 is not installed");
        };
        let locked = &mut [0];
        std::io::Read::read_exact(&mut holder.stdout.take().unwrap(), locked).unwrap();
        let removed = remove_of_dpdk(above.path(), &|_| true);
        drop(holder.stdin.take());
        holder.wait().unwrap();
        assert!(removed.is_empty(), "{removed:?}");
        assert_eq!(remove_of_dpdk(above.path(), &|_| true), [above.path().join("mpps18")]);
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
        // Who made a link or a FIFO of it keeps nobody up.
        let (link, pipe) = (make("peer-3").join("lock"), make("peer-4").join("lock"));
        for path in [&link, &pipe] {
            fs::remove_file(path).unwrap();
        }
        std::os::unix::fs::symlink(held.join("lock"), &link).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(fifo.unwrap().success());
        let lock = File::open(held.join("lock")).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!([&held, &left, &other].map(|folder| is_of_a_running_peer(folder)) == [true, false, false]);
        let mut removed = remove_of_peers(above.path());
        removed.sort();
        assert_eq!(removed, [left, above.path().join("peer-4")]);
        assert!(
            [link, held, draft, other]
                .iter()
                .all(|path| path.is_symlink() || path.exists()),
            "process 1 lives"
        );
    }

    #[test]
    fn a_folder_that_others_can_lead_elsewhere_is_named_with_the_folder_that_is_theirs() {
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED: wants root, to give a folder away");
        }
        // Not in /tmp, which all may write to.
        let home = tempfile::tempdir_in("/root").unwrap();
        let place = home.path().join("cache/mpps");
        fs::create_dir_all(&place).unwrap();
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        assert_eq!((in_reach_of_others(&place), in_reach_of_others(&link)), (None, None));
        let above = place.parent().unwrap();
        std::os::unix::fs::chown(above, Some(65_534), None).unwrap();
        for path in [&place, &link] {
            let reason = in_reach_of_others(path).unwrap();
            assert!(reason.contains("cache, which belongs to user 65534"), "{reason}");
        }
        std::os::unix::fs::chown(above, Some(0), None).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(above, open).unwrap();
        let reason = in_reach_of_others(&place).unwrap();
        assert!(reason.contains("which others than its owner may write to"), "{reason}");
    }
}
