//! The user that called this process by `sudo`, and that user's rights over files.

use super::held;
use rustix::process::{Gid, Uid, getegid, geteuid, getuid};
use rustix::thread::{self as raw, CapabilitySet};
use std::ffi::{CStr, CString};
use std::io;

/// User that a process runs for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    pub(super) groups: Vec<Gid>,
}

impl User {
    /// The user who called this process by `sudo`; `None` if it is not root, or not by sudo, or by root. Source:
    /// `SUDO_UID`, `SUDO_GID`, which sudo sets whatever they were before.
    pub fn of_sudo() -> Option<Self> {
        if !getuid().is_root() || !geteuid().is_root() {
            return None;
        }
        // In a container root may lack the right to become another.
        if !held().contains(CapabilitySet::SETUID | CapabilitySet::SETGID) {
            return None;
        }
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let (uid, gid) = (number("SUDO_UID").filter(|&uid| uid != 0)?, number("SUDO_GID")?);
        // The largest is "leave as it is" to the kernel.
        if uid == u32::MAX || gid == u32::MAX {
            return None;
        }
        // In a user namespace a number that has no counterpart outside of it is nobody to become.
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        if !is_mapped(uid, gid) || groups_are_fixed() {
            return None;
        }
        let groups = std::env::var("SUDO_USER")
            .ok()
            .and_then(|name| groups_of(&CString::new(name).ok()?, gid.as_raw()));
        let mut groups = groups.unwrap_or_else(|| vec![gid]);
        groups.retain(|&group| is_mapped(geteuid(), group));
        Some(Self { uid, gid, groups })
    }

    /// The user's number.
    pub fn uid(&self) -> u32 {
        self.uid.as_raw()
    }

    /// Does something with the user's rights over files; all else stays the calling thread's.
    ///
    /// # Errors
    /// When the kernel refuses the change.
    ///
    /// # Panics
    /// When the thread can't be changed back: it must not go on as somebody else.
    pub fn with_files<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let before: Vec<Gid> = rustix::process::getgroups()?;
        raw::set_thread_groups(&self.groups)?;
        set_file_ids(self.uid, self.gid);
        let done = work();
        set_file_ids(geteuid(), getegid());
        raw::set_thread_groups(&before).expect("a thread that could change its groups can change them back");
        Ok(done)
    }
}

/// Sets the user and group that the kernel looks at for files, for the calling thread. A refusal leaves them as they
/// are.
fn set_file_ids(uid: Uid, gid: Gid) {
    // SAFETY: plain numbers; the wrappers are the system calls, for the calling thread alone (`man 2 setfsuid`).
    unsafe {
        libc::setfsgid(gid.as_raw());
        libc::setfsuid(uid.as_raw());
    }
}

/// Whether the user namespace of this process has this user and this group. The kernel is asked: a thread that may
/// become anybody becomes them for files, and is what it was before at the end.
fn is_mapped(uid: Uid, gid: Gid) -> bool {
    // Numbers that are none change nothing, and the answer is what the thread has.
    const NONE: u32 = u32::MAX;
    set_file_ids(uid, gid);
    // SAFETY: as in `set_file_ids`.
    let (user, group) = unsafe { (libc::setfsuid(NONE), libc::setfsgid(NONE)) };
    set_file_ids(geteuid(), getegid());
    user as u32 == uid.as_raw() && group as u32 == gid.as_raw()
}

/// Whether the user namespace of this process lets nobody change groups (`user_namespaces(7)`). A host without the file
/// has no such rule.
fn groups_are_fixed() -> bool {
    std::fs::read_to_string("/proc/self/setgroups").is_ok_and(|rule| rule.trim() == "deny")
}

/// Returns the groups of a user, by the host's user database; `None` if the database does not give them.
fn groups_of(name: &CStr, gid: u32) -> Option<Vec<Gid>> {
    const MOST: usize = 1024;
    let mut groups = vec![0; MOST];
    let mut count = MOST as libc::c_int;
    // SAFETY: `name` ends with a zero; at most `count` numbers are written to `groups`, which has room for as many.
    let found = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
    let found = usize::try_from(found).ok()?;
    Some(groups[..found.min(MOST)].iter().map(|&g| Gid::from_raw(g)).collect())
}
