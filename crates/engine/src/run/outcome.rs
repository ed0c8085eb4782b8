//! What a lane hands over when it ends.

use crate::lane::fill::RINGS;
use crate::lane::sample::SampleCounts;
use crate::receive::missing::Missing;
use crate::send::departures::Departures;
use mpps_io::Reason;
use mpps_io::kernel::{LaneTotals, SourceTotals};
use mpps_stats::{Histogram, Moments};
use mpps_trace::{LatePacket, SlowBurst};

/// The lane's private results.
#[derive(Debug, Default)]
pub(crate) struct LaneOutcome {
    /// Gaps between departures.
    pub(crate) gaps: Option<(Histogram, Moments)>,
    /// When its packets left, where that can be told.
    pub(crate) departures: Option<Departures>,
    /// What is missing of the packets that were to come to it.
    pub(crate) missing: Option<Missing>,
    /// Counts by reason.
    pub(crate) reasons: Vec<(Reason, u64)>,
    /// Of [`host_port`](mpps_wire::Left::HostPort): how many for which UDP port.
    pub(crate) host_ports: Vec<(u16, u64)>,
    /// Forwarding: what came in and went out at each port of the run, by its place; nothing at those that the lane does
    /// not serve.
    pub(crate) ports: Vec<PortCounts>,
    /// The ports, by place, that its receive rings are of, where the report tells ports apart.
    pub(crate) ring_ports: [Option<usize>; RINGS],
    /// Sent by the kernel: what it counted for this lane.
    pub(crate) sent: Option<LaneTotals>,
    /// The lane reads what the kernel received: a line of the report each, in place of its own.
    pub(crate) sources: Option<Vec<SourceCounts>>,
    /// Bursts that it wrote, and their packets.
    pub(crate) written: (u64, u64),
    /// The rounds that took longest, the longest first; the lane's number is filled in later.
    pub(crate) slowest: Vec<SlowBurst>,
    /// The packets that came latest, the latest first; the lane's number is filled in later.
    pub(crate) latest: Vec<LatePacket>,
    /// Frames copied for the sample, if there is one.
    pub(crate) sampled: Option<SampleCounts>,
    /// Cores that its thread could run on in the end, if they are not the core that it was pinned to.
    pub(crate) moved_to: Option<Vec<usize>>,
    /// Involuntary context switches while it ran.
    pub(crate) preempted: u64,
    /// Time on the run queue but not running while it ran, ns.
    pub(crate) run_delay_ns: Option<u64>,
    /// Time over which that was measured, ns.
    pub(crate) measured_ns: u64,
}

/// What one source in the kernel received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceCounts {
    /// Its number within its port: a receive queue or a CPU.
    pub(crate) number: usize,
    /// The place of its port.
    pub(crate) port: usize,
    /// What it counted.
    pub(crate) totals: SourceTotals,
}

/// What one lane forwarded at one port.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortCounts {
    /// Frames received and taken.
    pub(crate) rx_packets: u64,
    /// Their bytes, without FCS.
    pub(crate) rx_bytes: u64,
    /// Frames sent.
    pub(crate) tx_packets: u64,
    /// Counts by reason.
    pub(crate) reasons: Vec<(Reason, u64)>,
}
