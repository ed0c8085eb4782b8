//! Times when lanes left their cores and came back, without the privileges for a [`Watch`](crate::Watch).

use crate::lack::Lack;
use crate::watch::Lane;
use mpps_sys::switches::{Switches, paranoid};
use mpps_trace::{Event, KernelEvent};

/// Switches of the lanes' own threads. It is known whether the lane wanted to go on, but not which thread had the core
/// meanwhile.
#[derive(Debug)]
pub struct OwnSwitches {
    switches: Vec<Switches>,
}

impl OwnSwitches {
    /// Begins to note the switches of these lanes, whose threads must exist. The lanes' cores do not matter.
    ///
    /// # Errors
    /// The reason why switches can't be noted.
    pub fn start(lanes: &[Lane]) -> Result<Self, Lack> {
        let switches = lanes.iter().map(|lane| Switches::open(lane.tid)).collect();
        match switches {
            Ok(switches) => Ok(Self { switches }),
            Err(e) => Err(match (e.kind(), paranoid()) {
                (std::io::ErrorKind::PermissionDenied, Some(level)) => Lack::Privileges(format!(
                    "CAP_PERFMON, or kernel.perf_event_paranoid of 2 or less (it is {level}) and memory to lock \
                     (kernel.perf_event_mlock_kb)"
                )),
                _ => Lack::Kernel(format!("note switches of threads: {e}")),
            }),
        }
    }

    /// Notes the switches of these threads of the process, too, as far as there is memory. Their time on a core is then
    /// known by name. The lanes come first.
    pub fn also(&mut self, tids: impl IntoIterator<Item = i32>) {
        self.switches
            .extend(tids.into_iter().map_while(|tid| Switches::open(tid).ok()));
    }

    /// Adds [`Event::SwitchedOut`] and [`Event::SwitchedIn`] since the last call, by time for each lane. Call about
    /// every 20 ms.
    pub fn poll(&mut self, events: &mut Vec<KernelEvent>) {
        for switches in &mut self.switches {
            switches.read(|switch| {
                let tid = switch.tid;
                let preempted = switch.preempted;
                events.push(KernelEvent {
                    at_ns: switch.at_ns,
                    cpu: switch.cpu,
                    event: match switch.out {
                        true => Event::SwitchedOut { tid, preempted },
                        false => Event::SwitchedIn { tid },
                    },
                });
            });
        }
    }

    /// Returns the switches for which there was no room.
    pub fn lost(&self) -> u64 {
        self.switches.iter().map(Switches::lost).sum()
    }
}
