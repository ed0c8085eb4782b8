//! Whether the numbers of a run can be believed. Pure: from what was measured to a verdict with its reasons.

mod cause;
mod checks;
pub(crate) mod host_drops;
mod known;
pub(crate) mod meanwhile;
pub(crate) mod remarks;
mod whose;
pub(crate) mod withheld;

use crate::lane::away::Standstills;
use crate::verdict::meanwhile::LaneTime;
use mpps_io::Obstacle;
use mpps_io::around::Surroundings;
use mpps_stats::{KeptOff, Known, LaneSummary, Shortfall, Stretches, Withheld, Workload};
use mpps_sys::cgroup::RealTimeLimit;
use mpps_sys::evidence::Rival;

use cause::Causes;
use checks::CHECKS;

/// What the verdict rests on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) tx: u64,
    pub(crate) rx: u64,
    /// Packets that came again.
    pub(crate) duplicates: u64,
    /// Packets arrive at another port than they leave by.
    pub(crate) across: bool,
    pub(crate) late: u64,
    pub(crate) lost: i64,
    pub(crate) missed: u64,
    /// Departures that the schedule had; `None` when not paced.
    pub(crate) scheduled: Option<u64>,
    pub(crate) tolerance: f64,
    pub(crate) device_gone: bool,
    /// For how long the device was down, ns.
    pub(crate) link_down_ns: u64,
    /// For how long packets could not leave for another reason, ns, by the number of the reason.
    pub(crate) no_way_ns: [u64; Obstacle::ALL.len()],
    /// Events around the ports; times are ns since the start.
    pub(crate) around: Vec<Surroundings>,
    /// ICMP messages that quote packets of the test.
    pub(crate) icmp: Icmp,
    /// Bytes of an IP packet; 0: not known.
    pub(crate) packet_len: usize,
    /// What the kernel drops may be super-packets of many packets each.
    pub(crate) coalesced: bool,
    pub(crate) settle_ms: f64,
    pub(crate) duration_ns: u64,
    /// The user ended it.
    pub(crate) interrupted: bool,
    /// Processor time of this program's threads beside the lanes, ns.
    pub(crate) own_ns: u64,
    /// Time that the hypervisor took from this host during the run, ns, and how long that was looked at.
    pub(crate) steal_ns: u64,
    pub(crate) looked_ns: u64,
    pub(crate) cores: u64,
    /// When the whole process stood still, ns since the start.
    pub(crate) still: Standstills,
    /// What the lanes that send did until the sending ended.
    pub(crate) sending: Vec<LaneTime>,
    /// What lanes did while packets were dropped that they were to take.
    pub(crate) dropping: Vec<LaneTime>,
    /// When this host dropped packets.
    pub(crate) drops: Stretches,
    /// When packets were lost.
    pub(crate) losses: Stretches,
    /// When departures were missed.
    pub(crate) misses: Stretches,
    /// The path tells what this host drops.
    pub(crate) host_drops_known: bool,
    /// CPU time that a quota withheld.
    pub(crate) withheld: Option<Withheld>,
    /// Limit of threads of real-time priority, if lanes have one.
    pub(crate) real_time: Option<RealTimeLimit>,
    /// Control group whose CPU quota can't be read.
    pub(crate) unread_quota: Option<String>,
    /// Lost packets that this host's kernel dropped, by its own reasons, the most first, in any of the host's network
    /// namespaces ([`mpps_trace::why::meaning`] explains a reason); `None`: without a trace, or not seen.
    pub(crate) kernel_drops: Option<Vec<(String, u64)>>,
    /// Packets dropped at the time of the loss that may have been others, or copies, by reason.
    pub(crate) kernel_perhaps: Vec<(String, u64)>,
    /// Parts of the kernel whose drops a trace does not see.
    pub(crate) kernel_unseen: Vec<String>,
    /// What took the cores is recorded.
    pub(crate) traced: bool,
    /// Threads of other processes on the cores of ours.
    pub(crate) rivals: Vec<Rival>,
    pub(crate) overflowed: u64,
    /// Packets in no percentile, of those with a latency.
    pub(crate) unranked: [u64; 2],
    pub(crate) beyond_window: u64,
    /// Times that a packet of a flow was counted by another source in the kernel than the one before.
    pub(crate) flow_moved: u64,
    /// Times that a source did not let go of a flow in time.
    pub(crate) flow_contended: u64,
    pub(crate) reordered: u64,
    /// `drop`: flows with a sequence window, and packets of others.
    pub(crate) flows: u64,
    pub(crate) untracked: u64,
}

/// ICMP messages that quote packets of the test, as far as the path sees them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Icmp {
    pub(crate) port_unreachable: u64,
    pub(crate) unreachable: u64,
    pub(crate) time_exceeded: u64,
    pub(crate) too_long: u64,
}

/// What one check has found.
enum Finding {
    /// The numbers can't be believed.
    Invalid(String),
    /// They can, and this is to be known.
    Warning(String),
}

impl Finding {
    /// A reason where `invalid`, else a warning.
    fn by(invalid: bool, text: String) -> Self {
        if invalid {
            Self::Invalid(text)
        } else {
            Self::Warning(text)
        }
    }
}

/// What a check looks at.
struct Case<'e> {
    workload: Workload,
    e: &'e Evidence,
    lanes: &'e [LaneSummary],
    known: &'e [Known],
    causes: Causes<'e>,
}

impl Case<'_> {
    /// Sum over the lanes.
    fn sum(&self, of: fn(&LaneSummary) -> u64) -> u64 {
        self.lanes.iter().map(of).sum()
    }

    /// Sum over the lanes of a counter of the path's.
    fn counter(&self, name: &str) -> u64 {
        let counters = self.lanes.iter().flat_map(|lane| &lane.path_counters);
        counters.filter(|(n, _)| n == name).map(|(_, value)| value).sum()
    }
}

/// What the numbers are worth.
pub(crate) struct Verdict {
    /// Why they are not valid.
    pub(crate) reasons: Vec<String>,
    pub(crate) warnings: Vec<String>,
    /// Evidence on the surroundings, which notes and reasons rest on.
    pub(crate) known: Vec<Known>,
    /// The one reason why they are not valid, where it is one of these.
    pub(crate) shortfall: Option<Shortfall>,
    /// What kept the lanes from their cores, if that was named.
    pub(crate) kept_off: Option<KeptOff>,
}

pub(crate) fn judge(workload: Workload, e: &Evidence, lanes: &[LaneSummary]) -> Verdict {
    let known = known::known(e, lanes);
    let case = Case {
        workload,
        e,
        lanes,
        known: &known,
        causes: Causes::new(workload, e, lanes).knowing(&known),
    };
    let (mut reasons, mut warnings) = (Vec::new(), Vec::new());
    for finding in CHECKS.iter().filter_map(|check| check(&case)) {
        match finding {
            Finding::Invalid(text) => reasons.push(text),
            Finding::Warning(text) => warnings.push(text),
        }
    }
    warnings.extend(case.causes.notes());
    let shortfall = case.causes.shortfall().filter(|_| reasons.len() == 1);
    Verdict {
        shortfall,
        kept_off: case.causes.kept_off(),
        known,
        reasons,
        warnings,
    }
}

#[cfg(test)]
mod tests;
