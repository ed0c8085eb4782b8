//! `mpps isolate`: keeps everything but one command off some cores, for as long as the command runs.
//!
//! Each way to keep something off a core is a [`Part`]: control group, interrupts, workqueues, sysctls, idle states,
//! threads. A part is planned by reading ([`plan`]), so that `--dry-run`, `doctor` and the run itself say the same; it
//! is then [applied](apply) step by step, each step in a journal before it is done, and undone from that journal: at
//! the end, by a guardian process when this one is killed, or by the next start of the program. What a host can't do is
//! a part with a reason. One run at a time has its turn.
//!
//! All files are read and written under a root directory ([`Tree`]), so that the tests isolate cores of hosts that
//! they have made of files. [`noise`] measures what is left.

mod apply;
mod boot;
mod cgroup;
mod cpus;
#[cfg(test)]
mod fake;
mod heirs;
mod journal;
pub mod noise;
mod plan;
mod realtime;
mod tell;
#[cfg(test)]
mod tests;
mod tree;
mod turn;
mod undo;

pub use apply::{Applied, Outcome, Refusal, Restored, apply};
pub use boot::{Boot, Parameter};
pub use cpus::Cpus;
pub use journal::{Journals, Mended, journals, mend};
pub use plan::{Kind, Options, Part, Plan, Step, Undo, plan};
pub use realtime::{Share, nice_trap};
pub use tell::{counted, outcomes, script, table};
pub use tree::Tree;
pub use turn::{Turn, mend_when_free};

/// Returns the reason why cores can't be isolated at all.
///
/// # Errors
/// One line: a core that does not exist, no core left for the host, or a host that does not report its cores.
pub fn check(tree: &Tree, cores: &Cpus) -> Result<(), String> {
    let list = cores.list();
    if cores.is_empty() {
        return Err("no core: want cores by number, such as 2-3".to_owned());
    }
    let Some(online) = online(tree) else {
        return Err(format!(
            "'{list}': which cores this host has is not known: /{ONLINE} can't be read: want it shown here"
        ));
    };
    if !cores.within(&online) {
        return Err(format!(
            "'{list}': this host has cores {}: want some of them",
            online.list()
        ));
    }
    if online.without(cores).is_empty() {
        return Err(format!(
            "'{list}': no core is left for everything else: want at least one of {} left out",
            online.list()
        ));
    }
    Ok(())
}

/// Returns notes for the user besides what was applied: things that may undo it, or share the cores all the same.
pub fn notes(tree: &Tree, plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    for core in plan.cores.iter() {
        let path = format!("sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        let siblings = tree
            .read(&path)
            .ok()
            .and_then(|text| Cpus::of_list(&text))
            .unwrap_or_default();
        let outside = siblings.without(&plan.cores);
        if !outside.is_empty() {
            notes.push(format!(
                "core {core} has its execution units in common with core {}, which is not isolated (SMT)",
                outside.list()
            ));
        }
    }
    let processes = tree
        .folders("proc")
        .into_iter()
        .filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let names = processes.filter_map(|process| tree.read(&format!("proc/{process}/comm")).ok());
    if names.into_iter().any(|name| name == "irqbalance") {
        notes.push(
            "irqbalance runs and may move interrupts back to the cores: want `systemctl stop irqbalance` meanwhile"
                .to_owned(),
        );
    }
    notes
}

/// The kernel's list of cores that are switched on.
const ONLINE: &str = "sys/devices/system/cpu/online";

/// Returns the cores that are switched on; `None`: the list can't be read.
fn online(tree: &Tree) -> Option<Cpus> {
    let text = tree.read(ONLINE).ok()?;
    Cpus::of_list(&text).filter(|cpus| !cpus.is_empty())
}
