//! Privileges of the process that its user lacks. None of them is lent to the user, and a run gives them up before the
//! first packet.
//!
//! - A program with file capabilities (`setcap`) may be run by users who have none. It then refuses options that lead
//!   to the user's own code, libraries or programs, and gives up at once what no path needs: see [`begin`].
//! - Every thread of a run gives up its own once it has opened what it needs ([`give_up`]); under sudo it becomes the
//!   user who called. Files are opened, and threads that write them are born, with the user's rights alone: see
//!   [`clerk`].

mod clerk;
mod plan;

pub use clerk::{Clerk, as_user};
pub use plan::plan;
pub(crate) use plan::{Keeps, facts, give_up, keep_for_programs};

use crate::fail::{Result, failed, usage};
use crate::request::Run;
use mpps_io::PortSpec;
use mpps_sys::privilege::{self, CapabilitySet, DumpableBehavior, User};
use std::sync::OnceLock;

/// The capabilities that paths other than `dpdk` use: those of the page on a quick start, and ports below 1024. None of
/// them opens other users' files.
const USEFUL: CapabilitySet = CapabilitySet::NET_RAW
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// True if the program's file gives this process privileges that its user lacks. Determined by [`begin`], before any
/// are given up.
static LENT: OnceLock<bool> = OnceLock::new();

/// Returns whether the program's file gives this process privileges that its user lacks.
pub fn lent() -> bool {
    *LENT.get_or_init(privilege::is_lent)
}

/// User who called sudo. Determined by [`begin`], before any thread becomes that user.
static CALLER: OnceLock<Option<User>> = OnceLock::new();

/// Returns the user who called sudo, if there is one.
pub fn caller() -> Option<&'static User> {
    CALLER.get_or_init(User::of_sudo).as_ref()
}

/// The program's first act: finds out which privileges it was given, and gives up those that would only help its user.
pub fn begin() -> Result<()> {
    let _ = (lent(), caller());
    if privilege::is_set_id() {
        return Err(usage(
            "the program is set-user-ID or set-group-ID, so its user could do all that this user or group may do: want \
             `chmod ug-s` and the setcap line of `mpps doctor`, or sudo",
        ));
    }
    if !lent() {
        return Ok(());
    }
    let closed = |e| failed(format!("give up privileges: {e}"));
    // Otherwise the user could read packets and take over sockets with a debugger.
    privilege::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|e| closed(e.into()))?;
    privilege::limit(USEFUL).map_err(closed)
}

/// Puts aside the rights that this thread has beyond the user who called, until the value is dropped. For the parent of
/// runs while they go on. `None` if there is nothing to put aside, or if the host forbids it.
pub fn aside() -> Option<privilege::Aside> {
    if privilege::held().is_empty() && caller().is_none() {
        return None;
    }
    privilege::aside(caller()).ok()
}

/// Gives up all rights beyond those of the user who called, for good. For threads that read the output of processes.
pub fn shed() {
    let keep = privilege::Keep {
        user: caller().cloned(),
        ..privilege::Keep::NOTHING
    };
    // A system-call filter may forbid this. The thread does not use its rights anyway.
    let _ = keep.apply();
}

/// Refuses `--keep-privileges` if the program's file lends privileges. Without that option, the process can't gain any
/// more privileges from here on.
pub fn check_run(run: &Run) -> Result<()> {
    if lent() && run.beside.keep_privileges {
        return Err(usage(format!(
            "--keep-privileges: this program gives up its privileges before the first packet, {}",
            refused()
        )));
    }
    if run.beside.keep_privileges {
        return Ok(());
    }
    privilege::no_new().map_err(|e| failed(format!("set no_new_privs: {e}")))
}

/// Refuses arguments of DPDK's EAL if [`check_dpdk`] would refuse its ports.
pub(crate) fn check_eal(text: &str) -> Result<()> {
    if !lent() {
        return Ok(());
    }
    Err(usage(format!("--eal '{text}': DPDK loads code, {}", refused())))
}

/// Refuses the `dpdk` path if the program's file lends privileges. DPDK's drivers load libraries, programs and
/// firmware, and open files, named by devargs, EAL arguments and the environment.
pub(crate) fn check_dpdk(spec: &PortSpec) -> Result<()> {
    if !lent() {
        return Ok(());
    }
    Err(usage(format!(
        "port '{spec}': DPDK loads code that its arguments, its devices' options and the environment name, {}",
        refused()
    )))
}

/// Returns the end of a refusal.
pub fn refused() -> &'static str {
    "and this program's file has capabilities (setcap) that its user does not have: want root (sudo), or a copy of the \
     program without them"
}
