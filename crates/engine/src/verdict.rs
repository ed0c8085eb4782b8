//! Decides whether the numbers of a run can be trusted. Pure: from measurements to a verdict with its reasons.

mod cause;
mod checks;
mod known;
pub(crate) mod meanwhile;
mod whose;
pub(crate) mod withheld;

use crate::lane::away::Standstills;
use crate::verdict::meanwhile::LaneTime;
use mpps_io::Obstacle;
use mpps_io::around::Surroundings;
use mpps_stats::{Invalidates, KeptOff, Known, LaneSummary, Remark, Shortfall, Stretches, Withheld, Workload};
use mpps_sys::cgroup::RealTimeLimit;
use mpps_sys::evidence::Rival;

use cause::Causes;
use checks::CHECKS;

/// Measurements that the verdict is based on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) tx: u64,
    /// Packets among them of which nobody knows whether they came.
    pub(crate) untagged: u64,
    pub(crate) rx: u64,
    /// Packets that came more than once.
    pub(crate) duplicates: u64,
    /// Packets arrive at another port than they leave by.
    pub(crate) across: bool,
    pub(crate) late: u64,
    pub(crate) lost: i64,
    pub(crate) missed: u64,
    /// Departures that the schedule had; `None` when not paced.
    pub(crate) scheduled: Option<u64>,
    /// Nothing was to be sent: orders kept the stream from it.
    pub(crate) kept_silent: bool,
    pub(crate) tolerance: f64,
    pub(crate) device_gone: bool,
    /// Time for which the device was down, ns.
    pub(crate) link_down_ns: u64,
    /// Time for which packets could not leave for another reason, ns, by the number of the reason.
    pub(crate) no_way_ns: [u64; Obstacle::ALL.len()],
    /// Events around the ports; times are ns since the start.
    pub(crate) around: Vec<Surroundings>,
    /// ICMP messages that quote packets of the test.
    pub(crate) icmp: Icmp,
    /// Bytes of an IP packet; 0: not known.
    pub(crate) packet_len: usize,
    /// Drops of the kernel may be super-packets of many packets each.
    pub(crate) coalesced: bool,
    pub(crate) settle_ms: f64,
    pub(crate) duration_ns: u64,
    /// The user ended the run.
    pub(crate) interrupted: bool,
    /// Processor time of this program's threads beside the lanes, ns.
    pub(crate) own_ns: u64,
    /// Time that the hypervisor took from this host during the run, ns, and the time over which it was measured.
    pub(crate) steal_ns: u64,
    pub(crate) looked_ns: u64,
    pub(crate) cores: u64,
    /// Times when the whole process stood still, ns since the start.
    pub(crate) still: Standstills,
    /// Time of the sending lanes until the sending ended.
    pub(crate) sending: Vec<LaneTime>,
    /// Time of the lanes while packets were dropped that they were to take.
    pub(crate) dropping: Vec<LaneTime>,
    /// Times when this host dropped packets.
    pub(crate) drops: Stretches,
    /// Times when packets were lost.
    pub(crate) losses: Stretches,
    /// Times when departures were missed.
    pub(crate) misses: Stretches,
    /// The path reports the packets that this host drops.
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
    /// A trace records which threads took the cores.
    pub(crate) traced: bool,
    /// Threads of other processes on the cores of our lanes.
    pub(crate) rivals: Vec<Rival>,
    pub(crate) overflowed: u64,
    /// Packets in no percentile, and packets with a latency.
    pub(crate) unranked: [u64; 2],
    pub(crate) beyond_window: u64,
    /// Number of times that another source in the kernel counted a packet of a flow than the packet before.
    pub(crate) flow_moved: u64,
    /// Number of times that a source did not release a flow in time.
    pub(crate) flow_contended: u64,
    pub(crate) reordered: u64,
    /// `drop`: flows with a sequence window, and packets of other flows.
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

/// Result of one check.
enum Finding {
    /// The numbers can't be trusted.
    Invalid(Remark),
    /// The numbers can be trusted, and the user should know this.
    Warning(Remark),
}

impl Finding {
    /// Makes a reason if `invalid`, else a warning.
    fn by(invalid: bool, remark: Remark) -> Self {
        if invalid {
            Self::Invalid(remark)
        } else {
            Self::Warning(remark)
        }
    }
}

/// Data that a check looks at.
struct Case<'e> {
    workload: Workload,
    e: &'e Evidence,
    lanes: &'e [LaneSummary],
    known: &'e [Known],
    causes: Causes<'e>,
}

impl Case<'_> {
    /// Returns the sum over the lanes.
    fn sum(&self, of: fn(&LaneSummary) -> u64) -> u64 {
        self.lanes.iter().map(of).sum()
    }

    /// Returns the sum over the lanes of a counter of the path.
    fn counter(&self, name: &str) -> u64 {
        let counters = self.lanes.iter().flat_map(|lane| &lane.path_counters);
        counters.filter(|(n, _)| n == name).map(|(_, value)| value).sum()
    }
}

/// Result of judging a run's numbers.
pub(crate) struct Verdict {
    /// Reasons why they are not valid.
    pub(crate) reasons: Vec<Remark>,
    pub(crate) warnings: Vec<Remark>,
    /// Evidence on the surroundings, which notes and reasons are based on.
    pub(crate) known: Vec<Known>,
    /// The one reason why they are not valid, if it is one of these.
    pub(crate) shortfall: Option<Shortfall>,
    /// Reason that kept the lanes from their cores, if one was named.
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
            Finding::Invalid(remark) => reasons.push(remark),
            Finding::Warning(remark) => warnings.push(remark),
        }
    }
    warnings.extend(case.causes.notes());
    let as_documented = |all: &[Remark], no: Invalidates| all.iter().all(|remark| remark.name.invalidates() != no);
    debug_assert!(as_documented(&reasons, Invalidates::Never) && as_documented(&warnings, Invalidates::Always));
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
