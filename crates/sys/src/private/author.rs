//! Possible authors of a file that is read, and is to be believed.

use super::{caller, kind, me};
use rustix::fs::{FileType, Mode, Stat};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Returns who else than root and this process's user may have written an open file, or put it in its place. The text
/// goes on after "and"; `None`: nobody. Under sudo the user who called is no stranger. Of anything but a regular file,
/// such as a pipe, only the owner is checked. `path` is how the file was found, for its folder.
///
/// # Errors
/// When the file, or its folder, can't be looked at.
pub fn other_author(file: &File, path: &Path) -> io::Result<Option<String>> {
    let stat = rustix::fs::fstat(file)?;
    if is_stranger(stat.st_uid) {
        return Ok(Some(format!("user {} owns this file", stat.st_uid)));
    }
    if kind(&stat) != FileType::RegularFile {
        return Ok(None);
    }
    if others_write(&stat, || rustix::fs::fgetxattr_query(file, ACCESS_LIST)) {
        return Ok(Some("others than its owner may write to this file".to_owned()));
    }
    // The folder that it lies in, wherever links have led.
    let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let real = real.ok().filter(|real| real.is_absolute());
    let folder = real.as_deref().unwrap_or(path).parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let stat = rustix::fs::stat(folder)?;
    let shown = folder.display();
    if is_stranger(stat.st_uid) {
        return Ok(Some(format!("user {} owns its folder {shown}", stat.st_uid)));
    }
    // In a folder such as /tmp nobody puts another file in the place of somebody else's.
    let sticky = Mode::from_raw_mode(stat.st_mode).contains(Mode::SVTX);
    if !sticky && others_write(&stat, || rustix::fs::getxattr_query(folder, ACCESS_LIST)) {
        return Ok(Some(format!("others may put files into its folder {shown}")));
    }
    Ok(None)
}

/// Whether others than root and its owner may write to a file or into a folder, links followed. A sticky folder is no
/// exception: they may put more into it.
///
/// # Errors
/// When it can't be looked at.
pub fn is_open_to_others(path: &Path) -> io::Result<bool> {
    let stat = rustix::fs::stat(path)?;
    Ok(others_write(&stat, || rustix::fs::getxattr_query(path, ACCESS_LIST)))
}

/// The attribute that holds a file's access list.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// Whether a user is neither root, nor this process' own, nor who called it by sudo.
fn is_stranger(user: u32) -> bool {
    user != 0 && user != me() && Some(user) != caller()
}

/// Returns whether others than its owner may write to a file or into a folder. A group that has the owner's number is
/// the owner's alone, by the habit of most distributions, and the one that they let write by default. If there is an
/// access list, its bits speak for others as well.
fn others_write(stat: &Stat, access_list: impl FnOnce() -> rustix::io::Result<usize>) -> bool {
    let mode = Mode::from_raw_mode(stat.st_mode);
    let own_group = stat.st_uid != 0 && stat.st_gid == stat.st_uid;
    let by_group = || !own_group || access_list().is_ok_and(|length| length > 0);
    mode.contains(Mode::WOTH) || (mode.contains(Mode::WGRP) && by_group())
}
