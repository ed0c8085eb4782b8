//! Privileges that this process has beyond its user's, and how it gives them up.
//!
//! Linux keeps credentials per thread. The C library's wrappers change all threads of a process at once, by a signal to
//! each. The functions here change the calling thread alone, by the system calls themselves. So a lane gives up its own
//! privileges when it has opened what it needs, and threads that it makes later are born without. Threads that a
//! library has made can't be asked to: [`everywhere()`] reaches those by a signal.

mod everywhere;
#[cfg(test)]
mod tests;
mod user;

use rustix::process::{Gid, Uid, getegid, geteuid, getgid, getuid};
use rustix::thread::{self as raw, CapabilitySets};
use std::io;

pub use everywhere::everywhere;
pub use rustix::process::{DumpableBehavior, set_dumpable_behavior};
pub use rustix::thread::CapabilitySet;
pub use user::User;

/// Returns the capabilities that the calling thread may use.
pub fn held() -> CapabilitySet {
    raw::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted)
}

/// Whether capability `number` (of `<linux/capability.h>`) is not in force for the calling thread. The kernel says so:
/// `/proc` may be hidden.
pub fn lacks(number: u32) -> bool {
    let wanted = CapabilitySet::from_bits_retain(1 << number);
    raw::capabilities(None).is_ok_and(|sets| !sets.effective.contains(wanted))
}

/// Whether the program's file gives this process more than its user has: capabilities (`setcap`) or another user or
/// group.
///
/// The kernel says so (`AT_SECURE`), but for root that has none by itself (`SECBIT_NOROOT`); so what is held and was
/// not handed down (ambient) counts, too.
pub fn is_lent() -> bool {
    // SAFETY: a number in, a number out.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let no_root =
        || raw::capabilities_secure_bits().is_ok_and(|bits| bits.contains(raw::CapabilitiesSecureBits::NO_ROOT));
    let handed_down = |cap| raw::capability_is_in_ambient_set(cap).unwrap_or(false);
    secure || ((!getuid().is_root() || no_root()) && each(held()).any(|cap| !handed_down(cap)))
}

/// Whether the program's file gives this process another user or group (`chmod u+s`, `g+s`).
pub fn is_set_id() -> bool {
    getuid() != geteuid() || getgid() != getegid()
}

/// Programs that this process starts, and the process itself when it becomes another, gain nothing by their files.
/// For the calling thread and those that it makes.
///
/// # Errors
/// The kernel's.
pub fn no_new() -> io::Result<()> {
    Ok(raw::set_no_new_privs(true)?)
}

/// Capabilities, one by one.
fn each(set: CapabilitySet) -> impl Iterator<Item = CapabilitySet> {
    (0..u64::BITS)
        .map(|bit| CapabilitySet::from_bits_retain(1 << bit))
        .filter(move |cap| set.contains(*cap))
}

/// Names, as in `CAP_NET_ADMIN, CAP_BPF`; `none`.
pub fn names(set: CapabilitySet) -> String {
    let names: Vec<_> = set.iter_names().map(|(name, _)| format!("CAP_{name}")).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Privileges that a thread keeps.
#[derive(Clone, Debug)]
pub struct Keep {
    /// Capabilities that the thread may still use, of those that it holds.
    pub held: CapabilitySet,
    /// Capabilities in force, a part of `held`; the others are put in force for the call that needs them.
    pub in_force: CapabilitySet,
    /// User that the thread becomes, for good.
    pub user: Option<User>,
}

impl Keep {
    /// No privileges.
    pub const NOTHING: Self = Self {
        held: CapabilitySet::empty(),
        in_force: CapabilitySet::empty(),
        user: None,
    };

    /// Makes the calling thread, and those that it makes from then on, keep this and nothing more, for good.
    ///
    /// # Errors
    /// When the kernel refuses: the thread may then have all that it had.
    pub fn apply(&self) -> io::Result<()> {
        let before = raw::capabilities(None)?;
        let held = before.permitted & self.held;
        // A thread without any has nothing to give up, and needs no system call that a filter may forbid.
        if before.permitted.is_empty() && before.inheritable.is_empty() && self.user.is_none() {
            return Ok(());
        }
        let _ = raw::clear_ambient_capability_set();
        if before.effective.contains(CapabilitySet::SETPCAP) {
            // No program that is started could gain what is in none of the sets. The kernel ends the list.
            for bit in 0..u64::BITS {
                if raw::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)).is_err() {
                    break;
                }
            }
        }
        if let Some(user) = &self.user {
            // Or the change of the user takes all of them.
            raw::set_keep_capabilities(true)?;
            raw::set_thread_groups(&user.groups)?;
            raw::set_thread_res_gid(user.gid, user.gid, user.gid)?;
            raw::set_thread_res_uid(user.uid, user.uid, user.uid)?;
            raw::set_keep_capabilities(false)?;
        }
        raw::set_capabilities(
            None,
            CapabilitySets {
                effective: held & self.in_force,
                permitted: held,
                inheritable: CapabilitySet::empty(),
            },
        )?;
        Ok(())
    }
}

/// Rights that the calling thread has put aside ([`aside`]). The thread has them again when this is dropped.
#[derive(Debug)]
#[must_use = "dropped, the thread has its rights again"]
pub struct Aside {
    sets: CapabilitySets,
    /// Effective user and group, and the groups.
    ids: Option<(Uid, Gid, Vec<Gid>)>,
    /// The thread's, and no other's.
    _here: std::marker::PhantomData<*const ()>,
}

/// Puts aside the rights that the calling thread has beyond its user: no capability is in force, and the thread opens
/// files as `user`. The thread keeps in reserve what it takes to have these rights again. For threads that wait for
/// processes of their own, and start or undo something afterwards.
///
/// # Errors
/// When the kernel refuses: the thread then has what it had.
pub fn aside(user: Option<&User>) -> io::Result<Aside> {
    let sets = raw::capabilities(None)?;
    let mut aside = Aside {
        sets,
        ids: None,
        _here: std::marker::PhantomData,
    };
    if let Some(user) = user {
        let before = (geteuid(), getegid(), rustix::process::getgroups()?);
        raw::set_thread_groups(&user.groups)?;
        // From here on what was changed is put back if the rest fails.
        aside.ids = Some(before);
        effective_ids(user.uid, user.gid)?;
    }
    raw::set_capabilities(
        None,
        CapabilitySets {
            effective: CapabilitySet::empty(),
            ..sets
        },
    )?;
    Ok(aside)
}

impl Drop for Aside {
    fn drop(&mut self) {
        // A privilege that does not come back is missed by the call that needs it, which reports that.
        if let Some((uid, gid, groups)) = self.ids.take() {
            // The user first: without capabilities only the saved user and group may be taken up again.
            let _ = effective_ids(uid, gid);
            let _ = raw::set_capabilities(None, self.sets);
            let _ = raw::set_thread_groups(&groups);
        } else {
            let _ = raw::set_capabilities(None, self.sets);
        }
    }
}

/// Sets the effective user and group of the calling thread; the real and the saved stay.
fn effective_ids(uid: Uid, gid: Gid) -> io::Result<()> {
    // SAFETY: plain numbers; -1 leaves an id as it is (`man 2 setresuid`). The system calls, and not the C library's
    // wrappers, change the calling thread alone.
    let set = |call, id: u32| match unsafe { libc::syscall(call, u32::MAX, id, u32::MAX) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    set(libc::SYS_setresgid, gid.as_raw())?;
    set(libc::SYS_setresuid, uid.as_raw())
}

/// Gives up what is not in `keep`, for the calling thread and those that it makes; the rest stays in force.
///
/// # Errors
/// The kernel's.
pub fn limit(keep: CapabilitySet) -> io::Result<()> {
    let before = raw::capabilities(None)?;
    let held = before.permitted & keep;
    Ok(raw::set_capabilities(
        None,
        CapabilitySets {
            effective: held,
            permitted: held,
            inheritable: before.inheritable & keep,
        },
    )?)
}

/// Does something with a capability in force, if the calling thread has it in reserve (held, and not in force); else
/// as it is.
pub fn with_reserve<T>(cap: CapabilitySet, work: impl FnOnce() -> T) -> T {
    let reserve = raw::capabilities(None)
        .ok()
        .filter(|sets| sets.permitted.contains(cap) && !sets.effective.contains(cap));
    let Some(before) = reserve else { return work() };
    // A refusal is reported by the call that then lacks the capability.
    let _ = raw::set_capabilities(
        None,
        CapabilitySets {
            effective: before.effective | cap,
            ..before
        },
    );
    let done = work();
    let _ = raw::set_capabilities(None, before);
    done
}

/// Whether the kernel lets a thread without capabilities run programs and read maps that it has descriptors of. Before
/// Linux 5.19 it does not if `kernel.unprivileged_bpf_disabled` is set. Asked by a thread that gives up its own.
///
/// # Errors
/// When no thread can be started to ask: then it is not known.
pub fn bpf_needs_none() -> io::Result<bool> {
    const BPF_PROG_TEST_RUN: libc::c_int = 10;
    let ask = || {
        if Keep::NOTHING.apply().is_err() {
            return false;
        }
        // An invalid descriptor: a process that may ask gets an error other than EPERM.
        let mut attr = [u32::MAX; 20];
        attr[1..].fill(0);
        // SAFETY: `attr` is readable for the size passed and outlives the call; no field of it is taken for a pointer,
        // as the descriptor comes first.
        let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, attr.as_mut_ptr(), size_of_val(&attr)) };
        result >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EPERM)
    };
    crate::thread::apart(ask)
}
