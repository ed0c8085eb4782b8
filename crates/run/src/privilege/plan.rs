//! Privileges that each thread of a run keeps. All others are given up.

use crate::fail::Result;
use crate::paths::{Checked, Work};
use crate::request::Run;
use crate::watchers::Watchers;
use mpps_engine::Opened;
use mpps_stats::HostFact;
use mpps_sys::privilege::{CapabilitySet, Keep, User, everywhere, held, names};
use rustix::process::{parent_process_death_signal, set_parent_process_death_signal};
use std::io;

/// Privileges that are kept.
#[derive(Debug)]
pub(crate) struct Keeps {
    /// Each lane keeps these, in force.
    lanes: CapabilitySet,
    /// Lane 0 keeps these as well, and uses them only for the call that needs them.
    reader: CapabilitySet,
    /// The main thread keeps these, and uses them only for the call that needs them.
    in_reserve: CapabilitySet,
    /// The main thread and DPDK's threads keep these, in force.
    in_force: CapabilitySet,
    /// The thread that has the kernel count its programs keeps these, and uses them only for the call that needs them.
    programs: CapabilitySet,
    /// User that lanes become.
    user: Option<User>,
    /// True if the main thread and DPDK's threads become that user, too.
    all_become: bool,
}

/// Decides which privileges a run on these ports keeps; `filters`: there are flow rules. Called before anything is
/// opened.
pub fn plan(run: &Run, ports: &[&Checked], filters: bool, work: Work) -> Result<()> {
    super::check_run(run)?;
    let user = super::caller().cloned();
    if run.beside.keep_privileges || (held().is_empty() && user.is_none()) {
        return Ok(());
    }
    let mut plan = Keeps::nothing(user);
    for port in ports {
        plan.add(port, filters, work);
    }
    if run.beside.trace.is_some() {
        plan.count_programs(ports);
    }
    let _ = run.watchers.keeps.set(plan);
    Ok(())
}

impl Keeps {
    /// Returns a plan that keeps no privileges.
    fn nothing(user: Option<User>) -> Self {
        let none = CapabilitySet::empty();
        Self {
            lanes: none,
            reader: none,
            in_reserve: none,
            in_force: none,
            programs: none,
            user,
            all_become: true,
        }
    }

    fn add(&mut self, port: &Checked, filters: bool, work: Work) {
        let kept = port.keeps(work);
        self.lanes |= kept.lanes;
        self.reader |= kept.reader;
        self.in_force |= kept.in_force;
        self.all_become &= !kept.root;
        // Filters of the host's interfaces are removed at the end.
        if filters && port.traits.interface.is_some() {
            self.in_reserve |= CapabilitySet::NET_ADMIN;
        }
    }

    /// Keeps the privilege for counting the time of programs, if the kernel runs the workload.
    fn count_programs(&mut self, ports: &[&Checked]) {
        if ports.iter().any(|port| port.traits.in_kernel) && !super::lent() {
            self.programs = held() & CapabilitySet::SYS_ADMIN;
        }
    }

    fn lane(&self, number: usize) -> Keep {
        let reader = if number == 0 {
            self.reader
        } else {
            CapabilitySet::empty()
        };
        Keep {
            held: self.lanes | reader,
            in_force: self.lanes,
            user: self.user.clone(),
        }
    }

    /// Gives up the main thread's. `clerk`: what the thread that writes files has kept.
    fn main(&self, clerk: Option<CapabilitySet>) -> io::Result<()> {
        let user = self.user.clone().filter(|_| self.all_become);
        let own = Keep {
            held: self.in_reserve | self.in_force,
            in_force: self.in_force,
            user: user.clone(),
        };
        own.apply()?;
        let others = Keep {
            held: self.in_force,
            in_force: self.in_force,
            user,
        };
        let most = own.held | self.lanes | self.reader | self.programs | clerk.unwrap_or(CapabilitySet::empty());
        everywhere(&others, most)
    }
}

/// Gives up the privileges that the calling thread no longer needs: none if [`plan`] found none to give up.
pub(crate) fn give_up(watchers: &Watchers, opened: Opened) -> io::Result<()> {
    let given_up = match (watchers.keeps.get(), opened) {
        (None, _) => Ok(()),
        (Some(plan), Opened::Lane(number)) => plan.lane(number).apply(),
        (Some(plan), Opened::Main) => {
            // The kernel resets this signal when a thread becomes another user.
            let with_parent = parent_process_death_signal();
            let done = plan.main(watchers.clerk.get().copied());
            if let Ok(Some(signal)) = with_parent {
                let _ = set_parent_process_death_signal(Some(signal));
            }
            done
        }
    };
    // A system-call filter may forbid even this.
    given_up.map_err(|e| io::Error::new(e.kind(), format!("{e} (--keep-privileges goes on with all of them)")))
}

/// Gives up all privileges of the calling thread except those for having the kernel count its programs, which it keeps
/// in reserve. Does nothing if [`plan`] found no privileges to give up.
pub(crate) fn keep_for_programs(watchers: &Watchers) {
    let Some(plan) = watchers.keeps.get() else { return };
    let keep = Keep {
        held: plan.programs,
        in_force: CapabilitySet::empty(),
        user: plan.user.clone(),
    };
    // If this fails, the main thread, which gives up its own privileges last, finds this thread.
    let _ = keep.apply();
}

/// Returns the privileges that are kept, for the report.
pub(crate) fn facts(run: &Run) -> Option<HostFact> {
    let text = match run.watchers.keeps.get() {
        // A run without privileges has none to give up, and nothing to report.
        None if !run.beside.keep_privileges || held().is_empty() => return None,
        None => "all kept (--keep-privileges)".to_owned(),
        Some(plan) => {
            let mut kept = Vec::new();
            for (who, what) in [
                ("main thread", plan.in_reserve | plan.in_force),
                ("lanes", plan.lanes),
                ("lane 0", plan.reader),
                ("programs' times", plan.programs),
                (
                    "files",
                    run.watchers.clerk.get().copied().unwrap_or(CapabilitySet::empty()),
                ),
            ] {
                if !what.is_empty() {
                    kept.push(format!("{who}: {}", names(what)));
                }
            }
            match (&plan.user, plan.all_become) {
                (Some(user), true) => kept.push(format!("user {}", user.uid())),
                (Some(user), false) => kept.push(format!("user {} but for the main thread (root)", user.uid())),
                (None, _) => {}
            }
            if kept.is_empty() {
                "given up".to_owned()
            } else {
                kept.join("; ")
            }
        }
    };
    Some(HostFact::new("privileges", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_io::Task;

    fn plan_of(ports: &[&str], filters: bool) -> Keeps {
        let mut plan = Keeps::nothing(None);
        for port in ports {
            let path = Checked::new(&port.parse().expect("a port"), Task::Drop).expect("valid");
            plan.add(&path, filters, Work::Ends);
        }
        plan
    }

    #[test]
    fn filters_of_a_nic_can_be_taken_back_by_the_main_thread_alone() {
        for port in ["af_packet:eth1", "af_xdp:eth1", "xdp:eth1"] {
            let plan = plan_of(&[port], true);
            assert_eq!(plan.in_reserve, CapabilitySet::NET_ADMIN, "{port}");
            assert!(
                !(plan.lanes | plan.reader | plan.in_force).contains(CapabilitySet::NET_ADMIN),
                "{port}"
            );
            assert!(plan_of(&[port], false).in_reserve.is_empty(), "{port}");
        }
    }

    #[test]
    fn of_several_ports_each_keeps_what_it_needs() {
        let plan = plan_of(&["af_packet:eth1", "dpdk:net_tap0,iface=tap0"], false);
        assert_eq!(
            (plan.in_force, plan.lanes, plan.all_become),
            (CapabilitySet::NET_ADMIN, CapabilitySet::empty(), true)
        );
        let plan = plan_of(&["dpdk:net_null0", "dpdk:0000:03:00.0"], false);
        assert!(!plan.all_become && plan.in_force.contains(CapabilitySet::SYS_RAWIO));
        assert_eq!(plan.lanes, CapabilitySet::IPC_LOCK);
    }
}
