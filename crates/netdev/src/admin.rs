//! `CAP_NET_ADMIN` for the time of a call, where a thread has it in reserve: held, and not in force.

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Does something with `CAP_NET_ADMIN` in force, if the calling thread holds it; else as it is.
pub(crate) fn with_net_admin<T>(work: impl FnOnce() -> T) -> T {
    let reserve = capabilities(None).ok().filter(|sets| {
        let held = sets.permitted.contains(CapabilitySet::NET_ADMIN);
        held && !sets.effective.contains(CapabilitySet::NET_ADMIN)
    });
    let Some(before) = reserve else { return work() };
    // A refusal is told by the call that then lacks it.
    let _ = set_capabilities(
        None,
        CapabilitySets {
            effective: before.effective | CapabilitySet::NET_ADMIN,
            ..before
        },
    );
    let done = work();
    let _ = set_capabilities(None, before);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_reserve_is_in_force_for_the_call_alone() {
        let before = capabilities(None).expect("our own");
        if !before.permitted.contains(CapabilitySet::NET_ADMIN) {
            println!("SKIPPED: needs CAP_NET_ADMIN (root)");
            return;
        }
        let in_force = || {
            let sets = capabilities(None).expect("our own");
            sets.effective.contains(CapabilitySet::NET_ADMIN)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let reserve = CapabilitySets {
                    effective: CapabilitySet::empty(),
                    ..before
                };
                set_capabilities(None, reserve).expect("less is always granted");
                assert!(!in_force());
                assert!(with_net_admin(in_force));
                assert!(!in_force());
                let nothing = CapabilitySets {
                    permitted: CapabilitySet::empty(),
                    ..reserve
                };
                set_capabilities(None, nothing).expect("less is always granted");
                assert!(!with_net_admin(in_force));
            });
        });
    }
}
