//! Locks on output files: two runs that write one file would mix their rows.
//!
//! The lock is `flock(2)`: it ends with the process however that ends, and it does not affect programs that only read.

use rustix::fs::FlockOperation;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Locks `file`, opened as `path`, until it is closed.
///
/// # Errors
/// When another run has the lock. If the file system has no locks, the run is not refused.
pub(crate) fn take(file: &File, path: &Path) -> io::Result<()> {
    // A descriptor that was opened earlier, such as standard output, belongs to the program that opened it.
    if path.starts_with("/dev") || path.starts_with("/proc") {
        return Ok(());
    }
    // A program that is just starting still has its parent's open files.
    for wait_ms in [0, 5, 20, 80] {
        std::thread::sleep(Duration::from_millis(wait_ms));
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            _ => return Ok(()),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        "another run is writing this file",
    ))
}

/// Returns whether two paths name one file, existing or not. Devices such as `/dev/null` may have many names.
pub fn same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::metadata(a), std::fs::metadata(b)) {
        (Ok(a), Ok(b)) => !a.file_type().is_char_device() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (Err(_), Err(_)) => place(a) == place(b),
        _ => false,
    }
}

/// Returns the place where a missing file would be made.
fn place(path: &Path) -> PathBuf {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    match (std::fs::canonicalize(folder), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;

    #[test]
    fn a_file_that_one_run_writes_is_refused_to_another_and_kept_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "earlier").unwrap();
        let mut first = Output::open(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"earlier", "the run has not begun");
        first.empty().unwrap();
        let _ = first.write(b"row\n", std::time::Duration::ZERO).unwrap();
        let error = Output::open(&path).err().expect("it is being written").to_string();
        assert!(error.contains("another run is writing this file"), "{error}");
        assert!(crate::JsonTarget::prepare(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"row\n");
        drop(first);
        let mut next = Output::open(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"row\n");
        next.empty().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn an_earlier_json_is_kept_for_one_run_and_one_written_meanwhile_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old.json"), folder.path().join("new.json"));
        std::fs::write(&old, "{}").unwrap();
        let target = crate::JsonTarget::prepare(&old).unwrap();
        assert!(crate::JsonTarget::prepare(&old).is_err());
        assert!(!target.overtaken());
        let target = crate::JsonTarget::prepare(&new).unwrap();
        assert!(!target.overtaken());
        std::fs::write(&new, "{}").unwrap();
        assert!(target.overtaken());
    }

    #[test]
    fn one_file_is_known_by_any_name_and_devices_are_everybodys() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        assert!(same_file(&a, &folder.path().join("./a")) && !same_file(&a, &b));
        std::fs::write(&a, "").unwrap();
        assert!(!same_file(&a, &b));
        std::os::unix::fs::symlink(&a, &b).unwrap();
        assert!(same_file(&a, &b));
        assert!(!same_file(Path::new("/dev/null"), Path::new("/dev/null")));
    }
}
