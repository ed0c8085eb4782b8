//! Folders: of this user alone, or made for a file.

use super::walk::{End, walk};
use super::{OTHERS_WRITE, kind, me, refuse};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Makes `path` a folder of this user's that is closed to others (mode 0700), or takes the one that is there. One that
/// is open to others, as earlier versions made it, is closed to them.
///
/// # Errors
/// When it can't be made, is no folder (a link is none), or belongs to somebody else.
pub fn folder(path: &Path) -> io::Result<OwnedFd> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let shown = path.display();
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP | Errno::NOTDIR => refuse(format!("{shown} is no folder, or a link")),
        error => error.into(),
    })?;
    let stat = rustix::fs::fstat(&fd)?;
    if stat.st_uid != me() {
        return Err(refuse(format!("{shown} belongs to user {}", stat.st_uid)));
    }
    if stat.st_mode & 0o077 != 0 {
        rustix::fs::fchmod(&fd, Mode::from_raw_mode(0o700))?;
    }
    Ok(fd)
}

/// Whether `path` is a folder of this user's that nobody else can write to, and no link.
pub fn is_own_folder(path: &Path) -> bool {
    rustix::fs::lstat(path)
        .is_ok_and(|stat| kind(&stat) == FileType::Directory && stat.st_uid == me() && stat.st_mode & OTHERS_WRITE == 0)
}

/// Returns the folder of this user's sockets, locks and the like: `/run/mpps` for root, else `mpps` in the user's own
/// folder of the session (`XDG_RUNTIME_DIR`, `/run/user/UID`), else `/tmp/mpps-UID`.
pub fn runtime_path() -> PathBuf {
    let uid = me();
    if uid == 0 {
        return PathBuf::from("/run/mpps");
    }
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = session.filter(|path| path.is_absolute());
    let found = session.into_iter().chain([PathBuf::from(format!("/run/user/{uid}"))]);
    match found.into_iter().find(|path| is_own_folder(path)) {
        Some(session) => session.join("mpps"),
        None => PathBuf::from(format!("/tmp/mpps-{uid}")),
    }
}

/// [`runtime_path`], made if it is missing.
///
/// # Errors
/// When it does not belong to the user alone.
pub fn runtime_folder() -> io::Result<PathBuf> {
    let path = runtime_path();
    folder(&path)?;
    Ok(path)
}

/// Opens the folder `path`, made if it is missing, with those above it; links on the way to it by the rules
/// of [`create`](super::create).
///
/// # Errors
/// When it is none, or a link of somebody else's leads to it.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty())
        && matches!(walk(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    {
        open_folder(above)?;
    }
    let End::File(parent, name) = walk(path)? else {
        return Err(Errno::NOTDIR.into());
    };
    match rustix::fs::mkdirat(&parent, &name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&parent, &name, flags, Mode::empty())?)
}

/// Makes the folder `path`, with those above it if they are missing; links on the way to it by the rules of
/// [`create`](super::create).
///
/// # Errors
/// When it is there, whatever it is, or can't be made.
pub fn new_folder(path: &Path) -> io::Result<NewFolder> {
    let mut above = None;
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
        && matches!(walk(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    {
        above = match new_folder(parent) {
            Ok(made) => Some(Box::new(made)),
            // Somebody else has made it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(error) => return Err(error),
        };
    }
    let made = || -> io::Result<_> {
        let End::File(parent, name) = walk(path)? else {
            return Err(Errno::EXIST.into());
        };
        rustix::fs::mkdirat(&parent, &name, Mode::from_raw_mode(0o777))?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::PATH | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&parent, &name, flags, Mode::empty())?;
        Ok((parent, name, folder))
    };
    match made() {
        Ok((parent, name, folder)) => Ok(NewFolder {
            parent,
            name,
            folder,
            above,
        }),
        Err(error) => {
            if let Some(above) = above {
                above.remove(&[] as &[&OsStr]);
            }
            Err(error)
        }
    }
}

/// A folder that this process has made, kept open, so that it can be taken back wherever it is moved to.
#[derive(Debug)]
pub struct NewFolder {
    parent: OwnedFd,
    name: OsString,
    folder: OwnedFd,
    /// The one that it is in, if that was made for it.
    above: Option<Box<NewFolder>>,
}

impl NewFolder {
    /// Removes the files of these names in the folder, links and not what they lead to. Then removes the folder, unless
    /// there is more in it or another folder has its name now. Last, removes the folders above that were made for it,
    /// by the same rule.
    pub fn remove(&self, names: &[impl AsRef<OsStr>]) {
        for name in names {
            let _ = rustix::fs::unlinkat(&self.folder, name.as_ref(), AtFlags::empty());
        }
        let there = rustix::fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let same = |there: Stat| {
            rustix::fs::fstat(&self.folder).is_ok_and(|made| (made.st_dev, made.st_ino) == (there.st_dev, there.st_ino))
        };
        if there.is_ok_and(same) {
            let _ = rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR);
        }
        if let Some(above) = &self.above {
            above.remove(&[] as &[&OsStr]);
        }
    }
}

/// Makes sure that a folder has no file `name`, and that one can be made there. What is there is removed: a link, and
/// not what it leads to.
///
/// # Errors
/// When it can't be removed or made.
pub fn clear(folder: &OwnedFd, name: &str) -> io::Result<()> {
    let remove = || match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    };
    remove()?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    drop(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o666))?);
    Ok(remove()?)
}
