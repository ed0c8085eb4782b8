//! Privileges that this process has beyond its user's, and how it gives them up.
//!
//! Linux keeps credentials per thread. The C library's wrappers change all threads of a process at once, by a signal to
//! each. The functions here change the calling thread alone, by the system calls themselves. So a lane gives up its own
//! privileges when it has opened what it needs, and threads that it makes later are born without. Threads that a
//! library has made can't be asked to: [`everywhere`] reaches those by a signal.

use rustix::process::{Gid, Uid, getegid, geteuid, getgid, getuid};
use rustix::thread::{self as raw, CapabilitySets};
use std::ffi::{CStr, CString};
use std::io;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

pub use rustix::process::{DumpableBehavior, set_dumpable_behavior};
pub use rustix::thread::CapabilitySet;

/// How long the other threads may take to give up what they hold.
const LIMIT: Duration = Duration::from_secs(2);

/// User that a process runs for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
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

/// Privileges that [`everywhere`] leaves to threads that the signal reaches.
static WANTED: AtomicPtr<Keep> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn on_signal(_: libc::c_int) {
    let wanted = WANTED.load(Ordering::Acquire);
    if !wanted.is_null() {
        // SAFETY: it was leaked when the signal was given its handler, and nobody changes it. What follows makes system
        // calls only, not by way of the C library, so neither a lock nor `errno` is touched. A refusal is seen by the
        // thread that asked.
        let _ = unsafe { &*wanted }.apply();
    }
}

/// A real-time signal that nobody in this process has a handler for: drivers take them, too, from the lowest on
/// (net_tap, one per queue).
fn free_signal() -> Option<libc::c_int> {
    (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(|&number| {
        // SAFETY: a zeroed `sigaction` is a value; the call only writes to it.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            (libc::sigaction(number, std::ptr::null(), &raw mut action) == 0).then_some(action)
        };
        action.is_some_and(|action| action.sa_sigaction == libc::SIG_DFL)
    })
}

/// Makes the threads of this process that libraries have made keep `keep`: all whose capabilities or user are more than
/// `most`, which is what the process's own may have kept. Called last, when those have given up theirs.
///
/// # Errors
/// When a thread still has more a while later: with its name.
pub fn everywhere(keep: &Keep, most: CapabilitySet) -> io::Result<()> {
    let mut asked = Vec::new();
    let mut signal = 0;
    let deadline = Instant::now() + LIMIT;
    loop {
        let left = strays(keep, most);
        let Some((_, name)) = left.first() else { return Ok(()) };
        if Instant::now() > deadline {
            let why = format!("the thread '{name}' keeps what it had");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        if asked.is_empty() {
            signal = free_signal().ok_or_else(|| io::Error::other("no real-time signal is free"))?;
            WANTED.store(Box::leak(Box::new(keep.clone())), Ordering::Release);
            // SAFETY: the struct is fully initialised by zeroed() plus the fields set, as sigaction(2) asks; the
            // handler is safe for a signal. SA_RESTART: most calls that it interrupts go on.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
        for (thread, _) in left {
            if !asked.contains(&thread) {
                // SAFETY: plain numbers; the kernel checks that the thread is this process's.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
                asked.push(thread);
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Threads that have more than they should, with their names. Source: `/proc/self/task/*/status`.
fn strays(keep: &Keep, most: CapabilitySet) -> Vec<(i32, String)> {
    let mut left = Vec::new();
    // Without /proc none can be found.
    for entry in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // One that has ended meanwhile has nothing any more.
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.split_ascii_whitespace().next())
        };
        let held = field("CapPrm:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let more = held.is_some_and(|held| !most.contains(CapabilitySet::from_bits_retain(held)));
        let uid = field("Uid:").and_then(|uid| uid.parse::<u32>().ok());
        let other = keep.user.as_ref().is_some_and(|user| uid != Some(user.uid()));
        if more || other {
            left.push((thread, field("Name:").unwrap_or("?").to_owned()));
        }
    }
    left
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_up_its_own_and_leaves_others_theirs() {
        let before = held();
        // No kernel has a capability 63.
        assert!(lacks(63) && (!before.contains(CapabilitySet::NET_RAW) || !lacks(13)));
        let inside = std::thread::scope(|scope| {
            let bare = || {
                Keep::NOTHING.apply().expect("anybody may give up");
                std::thread::scope(|scope| scope.spawn(held).join().expect("a thread"))
            };
            scope.spawn(bare).join().expect("a thread")
        });
        assert_eq!((inside, held()), (CapabilitySet::empty(), before));
    }

    #[test]
    fn what_is_kept_in_reserve_is_held_and_not_in_force() {
        if !held().contains(CapabilitySet::NET_ADMIN) {
            println!("SKIPPED: giving up a part needs a whole (root)");
            return;
        }
        let keep = Keep {
            held: CapabilitySet::NET_ADMIN,
            in_force: CapabilitySet::empty(),
            user: Some(User {
                uid: Uid::from_raw(65_534),
                gid: Gid::from_raw(65_534),
                groups: vec![Gid::from_raw(65_534)],
            }),
        };
        let sets = std::thread::scope(|scope| {
            let kept = || {
                keep.apply().expect("root");
                raw::capabilities(None).expect("our own")
            };
            scope.spawn(kept).join().expect("a thread")
        });
        assert_eq!(sets.permitted, CapabilitySet::NET_ADMIN);
        assert!(sets.effective.is_empty() && sets.inheritable.is_empty());
        assert!(getuid().is_root(), "the user of one thread is not that of another");
    }

    #[test]
    fn what_is_in_reserve_is_in_force_for_the_call_alone() {
        let cap = CapabilitySet::NET_ADMIN;
        let before = raw::capabilities(None).expect("our own");
        if !before.permitted.contains(cap) {
            println!("SKIPPED: needs CAP_NET_ADMIN (root)");
            return;
        }
        let in_force = || raw::capabilities(None).expect("our own").effective.contains(cap);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let reserve = CapabilitySets {
                    effective: CapabilitySet::empty(),
                    ..before
                };
                raw::set_capabilities(None, reserve).expect("less is always granted");
                assert!(!in_force());
                assert!(with_reserve(cap, in_force));
                assert!(!in_force());
                let nothing = CapabilitySets {
                    permitted: CapabilitySet::empty(),
                    ..reserve
                };
                raw::set_capabilities(None, nothing).expect("less is always granted");
                assert!(!with_reserve(cap, in_force));
            });
        });
    }

    #[test]
    fn what_is_put_aside_is_not_in_force_and_comes_back() {
        let before = raw::capabilities(None).expect("our own");
        if !before.effective.contains(CapabilitySet::SETUID | CapabilitySet::SETGID) {
            println!("SKIPPED: becoming another user needs root");
            return;
        }
        let user = User {
            uid: Uid::from_raw(65_534),
            gid: Gid::from_raw(65_533),
            groups: vec![Gid::from_raw(65_533)],
        };
        let now = || {
            (
                raw::capabilities(None).expect("our own").effective,
                geteuid(),
                getegid(),
            )
        };
        let body = || {
            let whole = now();
            let groups = rustix::process::getgroups().expect("groups");
            {
                let _aside = aside(None).expect("root");
                assert_eq!(now(), (CapabilitySet::empty(), whole.1, whole.2));
            }
            assert_eq!(now(), whole);
            {
                let _aside = aside(Some(&user)).expect("root");
                assert_eq!(now(), (CapabilitySet::empty(), user.uid, user.gid));
                assert_eq!(rustix::process::getgroups().expect("groups"), user.groups);
                let shadow = std::fs::File::open("/proc/1/mem").map(|_| ());
                assert!(shadow.is_err(), "root's files are root's");
            }
            assert_eq!(now(), whole);
            assert_eq!(rustix::process::getgroups().expect("groups"), groups);
        };
        std::thread::scope(|scope| scope.spawn(body).join().expect("a thread"));
        assert!(geteuid().is_root(), "the user of one thread is not that of another");
    }

    #[test]
    fn names_are_the_kernels() {
        assert_eq!(
            names(CapabilitySet::NET_ADMIN | CapabilitySet::BPF),
            "CAP_NET_ADMIN, CAP_BPF"
        );
        assert_eq!(names(CapabilitySet::empty()), "none");
    }

    #[test]
    fn a_test_is_started_with_nothing_lent() {
        assert!(!is_lent() && !is_set_id());
    }
}
