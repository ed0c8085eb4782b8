//! The way to a file: links are followed one by one, by the rules of the kernel's `protected_symlinks`.

use super::{NOT_YOURS, kind, me, open_to_others, refuse};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Most links that are followed, as the kernel's.
const LINKS: usize = 40;
/// File system type of `/proc` (`linux/magic.h`).
const PROC_SUPER_MAGIC: i128 = 0x9fa0;

/// Target of a path.
pub(super) enum End {
    /// A name in a folder; no link.
    File(OwnedFd, OsString),
    /// Something open, reached by a link of the kernel's own: `/proc/self/fd/1`.
    Kernel,
}

/// Follows the links of a path, each by the rules of [`open`](super::open).
pub(super) fn walk(path: &Path) -> io::Result<End> {
    let enter = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let step = |at: &OwnedFd, name: &OsStr, more| rustix::fs::openat(at, name, enter | more, Mode::empty());
    let begin = |path: &Path| {
        let start = if path.is_absolute() { "/" } else { "." };
        rustix::fs::openat(CWD, start, enter, Mode::empty())
    };
    let parts = |path: &Path| -> Vec<OsString> {
        let named = path
            .components()
            .filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
        named.map(|part| part.as_os_str().to_owned()).rev().collect()
    };
    let mut at = begin(path)?;
    // Last first.
    let (mut left, mut links) = (parts(path), 0);
    while let Some(name) = left.pop() {
        if name == ".." {
            at = step(&at, &name, OFlags::empty())?;
            continue;
        }
        let stat = match rustix::fs::statat(&at, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) if left.is_empty() => return Ok(End::File(at, name)),
            Err(error) => return Err(error.into()),
        };
        if kind(&stat) != FileType::Symlink {
            if left.is_empty() {
                return Ok(End::File(at, name));
            }
            at = step(&at, &name, OFlags::NOFOLLOW)?;
            continue;
        }
        links += 1;
        if links > LINKS {
            return Err(Errno::LOOP.into());
        }
        let kernels = i128::from(rustix::fs::fstatfs(&at)?.f_type) == PROC_SUPER_MAGIC;
        if kernels && left.is_empty() {
            return Ok(End::Kernel);
        }
        if kernels {
            // The link leads to what is open, whatever its text says: `/proc/self/fd/3/file`.
            at = step(&at, &name, OFlags::empty())?;
            continue;
        }
        if open_to_others(&rustix::fs::fstat(&at)?) && stat.st_uid != me() {
            let link = name.display();
            return Err(refuse(format!(
                "{link} is a link of user {}, in {NOT_YOURS}",
                stat.st_uid
            )));
        }
        let target = rustix::fs::readlinkat(&at, &name, Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            at = begin(&target)?;
        }
        left.extend(parts(&target));
    }
    Err(Errno::ISDIR.into())
}
