//! Files and folders that nobody else can have put there, or put something in.
//!
//! A program of root's that writes by name in a folder of another user's follows the links that this user has made. The
//! rules here are those of the kernel's `protected_symlinks` and `protected_regular`, for every folder where others may
//! make files, whether or not the kernel has them switched on.

mod author;
mod folders;
mod walk;

pub use author::{is_open_to_others, other_author};
pub use folders::{NewFolder, clear, folder, is_own_folder, new_folder, open_folder, runtime_folder, runtime_path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use walk::{End, walk};

/// Write permission of the group and of others.
const OTHERS_WRITE: u32 = 0o022;

fn refuse(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Whether others than this process' user and root can make files in a folder.
fn open_to_others(folder: &Stat) -> bool {
    (folder.st_uid != me() && folder.st_uid != 0) || folder.st_mode & OTHERS_WRITE != 0
}

/// Opens `path` for writing as [`open`] does, and empties it.
///
/// # Errors
/// As [`open`].
pub fn create(path: &Path, more: OFlags) -> io::Result<File> {
    let file = open(path, more)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Opens `path` for writing, made if it is missing; a file that is there keeps what is in it.
///
/// In a folder where others may make files, links and files of theirs are refused: regular files, FIFOs, and files with
/// a second name. Under sudo, files (not links) of the user who called it are that user's own. Devices and what `/proc`
/// and `/dev` name (`/dev/stdout`) are opened as they are. `more` are further flags for `open(2)`.
///
/// # Errors
/// When it can't be opened, or somebody else may have put it there.
pub fn open(path: &Path, more: OFlags) -> io::Result<File> {
    match Place::find(path)? {
        Some(place) => place.open(more),
        None => {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::CREATE | more;
            Ok(File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o666))?))
        }
    }
}

/// Place of a file that exists or is to be made: a folder, kept open, and a name in it that is no link. Nobody can
/// redirect what is done with the file by moving folders or putting links in the way.
#[derive(Debug)]
pub struct Place {
    folder: OwnedFd,
    name: OsString,
    /// Others may make files in the folder.
    shared: bool,
}

/// File that exists at a [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct There {
    /// A regular file.
    pub regular: bool,
    /// A folder.
    pub folder: bool,
    /// A socket, which can't be opened.
    pub socket: bool,
    /// Device and inode: which file it is.
    pub id: (u64, u64),
    /// Permissions, without the bits that make a program run as its owner.
    mode: u32,
}

impl Place {
    /// The place that `path` leads to, by the rules of [`open`]. `None`: something that is open already
    /// (`/dev/stdout`).
    ///
    /// # Errors
    /// When there is no way to it, or a link of somebody else's is on it.
    pub fn find(path: &Path) -> io::Result<Option<Self>> {
        let End::File(folder, name) = walk(path)? else {
            return Ok(None);
        };
        let shared = open_to_others(&rustix::fs::fstat(&folder)?);
        Ok(Some(Self { folder, name, shared }))
    }

    /// Returns the place of the file `name` in an open folder. A link of that name is never followed, no matter who
    /// made it.
    ///
    /// # Errors
    /// When the folder can't be looked at.
    pub fn within(folder: &OwnedFd, name: &str) -> io::Result<Self> {
        let shared = open_to_others(&rustix::fs::fstat(folder)?);
        let (folder, name) = (folder.try_clone()?, OsString::from(name));
        Ok(Self { folder, name, shared })
    }

    /// Returns what exists at the place; `None`: nothing.
    ///
    /// # Errors
    /// When it is a link, or a file of somebody else's where others may put files.
    pub fn look(&self) -> io::Result<Option<There>> {
        match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if kind(&stat) == FileType::Symlink => Err(Errno::LOOP.into()),
            Ok(stat) => {
                self.trust(&stat)?;
                Ok(Some(There {
                    regular: kind(&stat) == FileType::RegularFile,
                    folder: kind(&stat) == FileType::Directory,
                    socket: kind(&stat) == FileType::Socket,
                    id: (stat.st_dev, stat.st_ino),
                    mode: stat.st_mode & 0o777,
                }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses what somebody else may have put there.
    fn trust(&self, stat: &Stat) -> io::Result<()> {
        let regular = kind(stat) == FileType::RegularFile;
        let theirs = stat.st_uid != me() && Some(stat.st_uid) != caller();
        if self.shared && theirs && (regular || kind(stat) == FileType::Fifo) {
            return Err(refuse(format!("it is a file of user {}, in {NOT_YOURS}", stat.st_uid)));
        }
        Ok(())
    }

    /// Opens it as [`open`] does.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(&self, more: OFlags) -> io::Result<File> {
        self.open_or_make(more).map(|(file, _)| file)
    }

    /// Opens the file as [`open`] does, and returns whether it was made.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open_or_make(&self, more: OFlags) -> io::Result<(File, bool)> {
        // A FIFO that was put there meanwhile must not hold anybody up.
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | more;
        let new = OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(0o666);
        // In a folder of one's own a file that goes between the two looks is made after all.
        let again = if self.shared { OFlags::empty() } else { OFlags::CREATE };
        let (fd, made) = match rustix::fs::openat(&self.folder, &self.name, flags | new, mode) {
            // A file that is there is looked at.
            Err(Errno::EXIST) => (
                rustix::fs::openat(&self.folder, &self.name, flags | again, mode)?,
                false,
            ),
            other => (other?, true),
        };
        let stat = rustix::fs::fstat(&fd)?;
        self.trust(&stat)?;
        if self.shared && kind(&stat) == FileType::RegularFile && stat.st_nlink > 1 {
            return Err(refuse(format!("the file has a second name, in {NOT_YOURS}")));
        }
        if !more.contains(OFlags::NONBLOCK) {
            let flags = rustix::fs::fcntl_getfl(&fd)?;
            rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK)?;
        }
        Ok((File::from(fd), made))
    }

    /// Shows that a file can be made beside it.
    ///
    /// # Errors
    /// When it can't.
    pub fn try_draft(&self) -> io::Result<()> {
        let (name, _) = self.draft(0o600)?;
        Ok(rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty())?)
    }

    /// Puts a file with these bytes there in one step: readers see what was there or this, never half. The permissions
    /// of a file that is there stay.
    ///
    /// # Errors
    /// When it can't be written or put there; what was there is then as it was.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.replace_with_mode(bytes, None)
    }

    /// Replaces the file as [`Place::replace`] does, and gives it this mode, whatever the umask or an earlier file's
    /// mode.
    ///
    /// # Errors
    /// As [`Place::replace`].
    pub fn replace_with_mode(&self, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
        let before = self.look()?;
        let mode = mode.or(before.map(|before| before.mode));
        let (name, mut file) = self.draft(mode.unwrap_or(0o666))?;
        let mut put = || -> io::Result<()> {
            file.write_all(bytes)?;
            if let Some(mode) = mode {
                rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
            }
            Ok(rustix::fs::renameat(&self.folder, &name, &self.folder, &self.name)?)
        };
        put().inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty());
        })
    }

    /// Removes the file there.
    ///
    /// # Errors
    /// When it can't be removed, is a link, or is a file of somebody else's where others may put files.
    pub fn remove(&self) -> io::Result<()> {
        self.look()?;
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Makes a new file in the folder, with a name that no file has, and no more rights than these.
    fn draft(&self, mode: u32) -> io::Result<(OsString, File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = OsString::from(format!(".mpps-{:016x}", RandomState::new().hash_one(&self.name)));
            match rustix::fs::openat(&self.folder, &name, flags, Mode::from_raw_mode(mode)) {
                Err(Errno::EXIST) => {}
                made => return Ok((name, File::from(made?))),
            }
        }
    }
}

/// Checks the way to `path` as [`create`] does, for those who open it otherwise: by a rename, or later.
///
/// # Errors
/// As [`create`], if it is there already; an absent file is no error.
pub fn check(path: &Path) -> io::Result<()> {
    match Place::find(path)? {
        Some(place) => place.look().map(drop),
        None => Ok(()),
    }
}

/// Removes the file that `path` leads to, by the rules of [`create`]: what was written there is still to be there, and
/// no folder on the way may have become a link of somebody else's.
///
/// # Errors
/// When it can't be removed, or somebody else may have put there what is there now.
pub fn remove(path: &Path) -> io::Result<()> {
    match Place::find(path)? {
        Some(place) => place.remove(),
        // The kernel's own links lead to files that are nobody's to remove.
        None => Err(refuse(format!("{} is no file of its own", path.display()))),
    }
}

const NOT_YOURS: &str = "a folder that is not yours alone: want another folder";

/// The user who called this program by sudo.
fn caller() -> Option<u32> {
    // Both, as sudo sets them: else a run stays root's.
    let number = |name| std::env::var(name).ok()?.parse().ok();
    number("SUDO_GID")?;
    number("SUDO_UID").filter(|_| me() == 0)
}

#[cfg(test)]
mod tests;
