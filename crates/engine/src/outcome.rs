//! Results of a lane, which it hands over when it ends.

pub(crate) mod departures;
pub(crate) mod missing;

use departures::Departures;
use missing::Missing;
use mpps_io::Reason;
use mpps_io::kernel::{LaneTotals, SourceTotals};
use mpps_stats::{Histogram, Moments};
use mpps_trace::{LatePacket, SlowBurst};
use mpps_wire::changes::Changes;

/// Receive rings of a lane: one, or one of each port of a pair.
pub(crate) const RINGS: usize = 2;

/// The lane's private results.
#[derive(Debug, Default)]
pub(crate) struct LaneOutcome {
    /// Gaps between departures.
    pub(crate) gaps: Option<(Histogram, Moments)>,
    /// Departure times of its packets, if they are recorded.
    pub(crate) departures: Option<Departures>,
    /// Packets missing among those that were to come to it.
    pub(crate) missing: Option<Missing>,
    /// Counts by reason.
    pub(crate) reasons: Vec<(Reason, u64)>,
    /// Packets by UDP port, among those counted as [`host_port`](mpps_wire::Left::HostPort).
    pub(crate) host_ports: Vec<(u16, u64)>,
    /// Forwarding: counts of each port of the run, by its place; all zero at ports that the lane does not serve.
    pub(crate) ports: Vec<PortCounts>,
    /// Ports, by place, of its receive rings, if the report has a line for each port.
    pub(crate) ring_ports: [Option<usize>; RINGS],
    /// Kernel's counts for this lane, if the kernel sends.
    pub(crate) sent: Option<LaneTotals>,
    /// Counts of each source in the kernel, if the lane only reads them: each is a line of the report, in place of the
    /// lane's own.
    pub(crate) sources: Option<Vec<SourceCounts>>,
    /// Number of bursts that it wrote, and of their packets.
    pub(crate) written: (u64, u64),
    /// Rounds that took longest, the longest first; the lane's number is filled in later.
    pub(crate) slowest: Vec<SlowBurst>,
    /// Packets that came latest, the latest first; the lane's number is filled in later.
    pub(crate) latest: Vec<LatePacket>,
    /// Changes of headers that it found.
    pub(crate) changes: Changes,
    /// Frames copied for the sample, if there is one.
    pub(crate) sampled: Option<SampleCounts>,
    /// Cores that its thread could run on in the end, if they are not the core that it was pinned to.
    pub(crate) moved_to: Option<Vec<usize>>,
    /// Involuntary context switches while it ran.
    pub(crate) preempted: u64,
    /// Time on the run queue but not running while it ran, ns.
    pub(crate) run_delay_ns: Option<u64>,
    /// Time from the start of the run to its first round, ns.
    pub(crate) began_after_ns: u64,
    /// Time over which the wait was measured, ns.
    pub(crate) measured_ns: u64,
}

/// Packets received by one source in the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceCounts {
    /// Its number within its port: a receive queue or a CPU.
    pub(crate) number: usize,
    /// Place of its port.
    pub(crate) port: usize,
    /// Its counts.
    pub(crate) totals: SourceTotals,
}

/// Frames that one lane forwarded at one port.
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

/// Counts of a lane's sample. `received + sent` counts frames in the ring and frames that found it full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleCounts {
    /// Received frames whose turn it was to be copied.
    pub(crate) received: u64,
    /// Sent frames whose turn it was to be copied.
    pub(crate) sent: u64,
    /// Frames of both that found the ring full.
    pub(crate) ring_full: u64,
}
