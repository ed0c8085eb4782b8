//! Files and folders that nobody else can have put there, or put something in.
//!
//! A program of root's that writes by name in a folder of another user's follows the links that this user has made. The
//! rules here are those of the kernel's `protected_symlinks` and `protected_regular`, for every folder where others may
//! make files, whether or not the kernel has them switched on.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

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

/// Makes `path` a folder of this user's that is closed to others (mode 0700), or takes the one that is there. One that
/// others could write to is closed to them.
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
    if stat.st_mode & OTHERS_WRITE != 0 {
        rustix::fs::fchmod(&fd, Mode::from_raw_mode(0o700))?;
    }
    Ok(fd)
}

/// Whether `path` is a folder of this user's that nobody else can write to, and no link.
pub fn is_own_folder(path: &Path) -> bool {
    rustix::fs::lstat(path)
        .is_ok_and(|stat| kind(&stat) == FileType::Directory && stat.st_uid == me() && stat.st_mode & OTHERS_WRITE == 0)
}

/// Where this user's sockets, locks and the like lie: `/run/mpps` for root, else `mpps` in the user's own folder of the
/// session (`XDG_RUNTIME_DIR`, `/run/user/UID`), else `/tmp/mpps-UID`.
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

/// [`runtime_path`], made where it is missing.
///
/// # Errors
/// When it does not belong to the user alone.
pub fn runtime_folder() -> io::Result<PathBuf> {
    let path = runtime_path();
    folder(&path)?;
    Ok(path)
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

/// Opens `path` for writing, made where it is missing; a file that is there keeps what is in it.
///
/// In a folder where others may make files, links and files of theirs are refused: regular files, FIFOs, and files with a
/// second name. Under sudo, files (not links) of the user who called it are that user's own. Devices and what `/proc` and
/// `/dev` name (`/dev/stdout`) are opened as they are. `more` are further flags for `open(2)`.
///
/// # Errors
/// When it can't be opened, or somebody else may have put it there.
pub fn open(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | more;
    let open_mode = Mode::from_raw_mode(0o666);
    let Place::File(folder, name) = walk(path)? else {
        let flags = flags | OFlags::CREATE;
        return Ok(File::from(rustix::fs::open(path, flags, open_mode)?));
    };
    let shared = open_to_others(&rustix::fs::fstat(&folder)?);
    let flags = flags | OFlags::NOFOLLOW;
    let new = if shared {
        OFlags::CREATE | OFlags::EXCL
    } else {
        OFlags::CREATE
    };
    let fd = match rustix::fs::openat(&folder, &name, flags | new, open_mode) {
        // A file that is there is looked at.
        Err(Errno::EXIST) => rustix::fs::openat(&folder, &name, flags, Mode::empty())?,
        other => other?,
    };
    let stat = rustix::fs::fstat(&fd)?;
    let regular = kind(&stat) == FileType::RegularFile;
    let theirs = stat.st_uid != me() && Some(stat.st_uid) != caller();
    if shared && theirs && (regular || kind(&stat) == FileType::Fifo) {
        return Err(refuse(format!("it is a file of user {}, in {NOT_YOURS}", stat.st_uid)));
    }
    if shared && regular && stat.st_nlink > 1 {
        return Err(refuse(format!("the file has a second name, in {NOT_YOURS}")));
    }
    Ok(File::from(fd))
}

/// Checks the way to `path` as [`create`] does, for those who open it otherwise: by a rename, or later.
///
/// # Errors
/// As [`create`], where it is there already; an absent file is no error.
pub fn check(path: &Path) -> io::Result<()> {
    let Place::File(folder, name) = walk(path)? else {
        return Ok(());
    };
    if !open_to_others(&rustix::fs::fstat(&folder)?) {
        return Ok(());
    }
    match rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            let kept = matches!(kind(&stat), FileType::RegularFile | FileType::Fifo);
            let theirs = stat.st_uid != me() && Some(stat.st_uid) != caller();
            match kept && theirs {
                true => Err(refuse(format!("it is a file of user {}, in {NOT_YOURS}", stat.st_uid))),
                false => Ok(()),
            }
        }
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens the folder `path`, which is made where it is missing; links on the way to it by the rules of [`create`].
///
/// # Errors
/// When it is none, or a link of somebody else's leads to it.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let Place::File(parent, name) = walk(path)? else {
        return Err(Errno::NOTDIR.into());
    };
    match rustix::fs::mkdirat(&parent, &name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&parent, &name, flags, Mode::empty())?)
}

/// Has no file `name` in a folder, and shows that one can be made there: what is there is removed, a link and not what it
/// leads to.
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

const NOT_YOURS: &str = "a folder that is not yours alone: want another folder";

/// The user who called this program by sudo.
fn caller() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok().filter(|_| me() == 0)
}

/// Most links that are followed, as the kernel's.
const LINKS: usize = 40;
/// File system type of `/proc` (`linux/magic.h`).
const PROC_SUPER_MAGIC: i128 = 0x9fa0;

/// Where a path leads.
enum Place {
    /// To this name in this folder; no link.
    File(OwnedFd, OsString),
    /// To something open, by a link of the kernel's own: `/proc/self/fd/1`.
    Kernel,
}

/// Follows the links of a path, each by the rules above.
fn walk(path: &Path) -> io::Result<Place> {
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
            Err(Errno::NOENT) if left.is_empty() => return Ok(Place::File(at, name)),
            Err(error) => return Err(error.into()),
        };
        if kind(&stat) != FileType::Symlink {
            if left.is_empty() {
                return Ok(Place::File(at, name));
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
            return Ok(Place::Kernel);
        }
        if kernels {
            // It leads to what is open, whatever its text says: `/proc/self/fd/3/file`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// A folder that is removed when dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("mpps-private-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir(&path).expect("a folder");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn ones_own_files_and_links_in_ones_own_folder_are_followed() {
        let own = Scratch::new("own");
        let (file, link) = (own.0.join("file"), own.0.join("link"));
        std::fs::write(&file, "before").expect("a file");
        symlink("file", &link).expect("a link");
        for path in [&file, &link, &own.0.join("./x/../link")] {
            std::fs::create_dir_all(own.0.join("x")).expect("a folder");
            std::fs::write(&file, "before").expect("a file");
            drop(create(path, OFlags::empty()).expect("ours"));
            assert_eq!(std::fs::read(&file).expect("a file"), b"");
        }
        for path in ["/dev/stdout", "/dev/null", "/proc/self/fd/1"] {
            // Whoever runs the tests may have closed it.
            if std::fs::metadata(path).is_ok() {
                create(Path::new(path), OFlags::empty()).expect(path);
            }
        }
    }

    #[test]
    fn links_files_and_folders_of_others_are_refused_where_others_may_put_them() {
        if me() != 0 {
            return println!("SKIPPED: only root can make files of somebody else");
        }
        let place = Scratch::new("theirs");
        let victim = place.0.join("victim");
        let shared = place.0.join("shared");
        std::fs::create_dir(&shared).expect("a folder");
        for (owner, mode) in [(65534, 0o755), (0, 0o1777), (0, 0o775)] {
            chown(&shared, Some(owner), None).expect("chown");
            std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(mode)).expect("chmod");
            for (name, target) in [("link", "../victim"), ("dangling", "../none"), ("dir", "..")] {
                let link = shared.join(name);
                let _ = std::fs::remove_file(&link);
                symlink(target, &link).expect("a link");
                std::os::unix::fs::lchown(&link, Some(65534), None).expect("lchown");
            }
            std::fs::write(&victim, "kept").expect("a file");
            std::fs::write(shared.join("theirs"), "kept").expect("a file");
            chown(shared.join("theirs"), Some(65534), None).expect("chown");
            for name in ["link", "dangling", "dir/victim", "theirs"] {
                for error in [
                    create(&shared.join(name), OFlags::empty()).err(),
                    check(&shared.join(name)).err(),
                ] {
                    let error = error
                        .unwrap_or_else(|| panic!("{name} of {owner} {mode:o}"))
                        .to_string();
                    assert!(
                        error.contains("user 65534") && error.contains("not yours alone"),
                        "{error}"
                    );
                }
            }
            assert_eq!(std::fs::read(&victim).expect("a file"), b"kept");
            assert!(!place.0.join("none").exists());
            // What is new, or ours, is as before.
            create(&shared.join("new"), OFlags::empty()).expect("new");
            create(&shared.join("new"), OFlags::empty()).expect("ours");
            std::fs::hard_link(&victim, shared.join("second")).expect("a second name");
            assert!(create(&shared.join("second"), OFlags::empty()).is_err());
            std::fs::remove_file(shared.join("second")).expect("ours");
        }
    }

    #[test]
    fn a_private_folder_is_no_link_nobody_elses_and_closed() {
        let place = Scratch::new("folder");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let path = place.0.join("new");
        folder(&path).expect("made");
        assert_eq!(mode(&path), 0o700);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).expect("chmod");
        folder(&path).expect("ours");
        assert_eq!(mode(&path), 0o700);
        symlink(&path, place.0.join("link")).expect("a link");
        assert!(folder(&place.0.join("link")).is_err());
        if me() == 0 {
            chown(&path, Some(65534), None).expect("chown");
            assert!(folder(&path).expect_err("theirs").to_string().contains("user 65534"));
        }
    }
}
