//! Summary of a run: plain data, made by the collector, written by `mpps-report`.

use crate::HostFact;
use crate::fill::RingFill;
use crate::gaps::Gap;
use crate::known::Known;
use crate::remark::Remark;
use crate::row::{Latency, Workload};
use crate::stretches::Stretches;
use crate::withheld::Withheld;
use mpps_trace::{Cause, Kept, LatePacket, ProgramRow, SlowBurst, StageCost, StageRow};

/// Results of one lane; packets by its own count, independent of the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneSummary {
    /// Number of the lane.
    pub lane: usize,
    /// Queue of the port that it drives.
    pub queue: usize,
    /// Core that the lane is pinned to.
    pub core: Option<usize>,
    /// Whether the lane receives.
    pub rx_role: bool,
    /// Whether the lane transmits.
    pub tx_role: bool,
    /// Frames received (all, the test's or not).
    pub rx_packets: u64,
    /// Receive calls that gave at least one frame.
    pub rx_bursts: u64,
    /// Burst sizes that occurred, ascending, each with its number of receive calls; 256 includes larger bursts. Empty
    /// if unknown.
    pub rx_burst_sizes: Vec<(u32, u64)>,
    /// Receive calls that gave none.
    pub rx_empty_polls: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Transmit calls that took at least one frame.
    pub tx_bursts: u64,
    /// Transmit calls that took none.
    pub tx_full: u64,
    /// Packets of the lane by reason, as [`Summary::reasons`].
    pub reasons: Vec<(String, u64)>,
    /// Times that the lane went to sleep.
    pub waits: u64,
    /// Time for which the lane had packets to send and the path took none, ns; `None` if no thread of this process
    /// sends.
    pub blocked_ns: Option<u64>,
    /// Time for which the lane's device was down, ns.
    pub link_down_ns: u64,
    /// Time over which the lane's waiting for a core was measured, ns. The settle time is included.
    pub measured_ns: u64,
    /// Share of its time that the lane spent in loops that moved something, 0 to 1; `None` if it never looped.
    pub busy_ratio: Option<f64>,
    /// Time that the lane spent in loops that moved something, ns. `None` if it never looped, and in the summary of one
    /// of several directions.
    pub busy_ns: Option<u64>,
    /// Times that the lane was away from its clock; `None` if no thread of this process reads a clock.
    pub away: Option<AwaySummary>,
    /// Longest times that the lane was away, since the start of the run.
    pub gaps: Vec<Gap>,
    /// Time on the run queue but not running, ns (other threads had the core); `None` if the kernel does not report it.
    pub run_delay_ns: Option<u64>,
    /// Involuntary context switches; `None` if the kernel does not report them.
    pub preempted: Option<u64>,
    /// Kernel's drops on this queue.
    pub rx_dropped: u64,
    /// Fill of the lane's receive ring, or of the ring of each port; empty if the path can't report it, or if nobody
    /// looked.
    pub rx_rings: Vec<RingFill>,
    /// Packets taken by the path that the kernel then refused.
    pub tx_failed: u64,
    /// Further counters of the path.
    pub path_counters: Vec<(String, u64)>,
}

impl LaneSummary {
    /// Returns the packets per second that the lane would receive and send if it were busy all the time. Assumes the
    /// same time per packet as in this run, and thus the same burst sizes.
    ///
    /// # Errors
    /// The reason why the rates are not known.
    pub fn at_full_load(&self) -> Result<[f64; 2], &'static str> {
        match self.busy_ns {
            None if self.busy_ratio.is_some() => Err("its time is that of both ways"),
            None => Err("it has no thread whose time is known"),
            Some(_) if self.rx_packets + self.tx_packets == 0 => Err("it moved no packet"),
            Some(0) => Err("the clock did not advance while it was busy"),
            Some(ns) => Ok([self.rx_packets, self.tx_packets].map(|packets| packets as f64 * 1e9 / ns as f64)),
        }
    }
}

/// Times for which a lane did not come back to its clock though it should have, each of more than 1 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwaySummary {
    /// Number of times.
    pub count: u64,
    /// Total time away, ns.
    pub total_ns: u64,
    /// Longest time away, ns.
    pub longest_ns: u64,
    /// Start of the longest time away, ns since the start of the run.
    pub longest_at_ns: u64,
}

/// Frames forwarded at one port, over all lanes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortSummary {
    /// The port, as the user wrote it.
    pub port: String,
    /// Frames received and taken.
    pub rx_packets: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Frames that were not taken or not sent, by reason.
    pub reasons: Vec<(String, u64)>,
    /// Kernel's drops.
    pub rx_dropped: u64,
    /// Frames taken by the path that the kernel then refused.
    pub tx_failed: u64,
    /// Further counters of the path.
    pub path_counters: Vec<(String, u64)>,
}

/// Distance of reordered packets: the highest sequence number seen in the flow less the packet's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReorderDistance {
    /// Largest, packets.
    pub max: u64,
    /// Mean, packets.
    pub mean: f64,
}

/// Distribution of the gaps between departures, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gaps {
    /// Mean gap that the schedule asks for between packets of one lane, ns, averaged over the packets of all lanes; 0
    /// when not paced.
    pub intended_mean: f64,
    /// Gaps measured between consecutive packets of one lane. Packets of one burst leave with gap 0.
    pub measured: Latency,
}

/// Counts of a capture: `taken = written + dropped_ring + dropped_write`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureSummary {
    /// Most bytes kept of a packet.
    pub snap_len: u64,
    /// Packets received.
    pub received: u64,
    /// Packets that the filter took.
    pub taken: u64,
    /// Packets written to files, including files removed since.
    pub written: u64,
    /// Packets dropped because the ring to the writer was full.
    pub dropped_ring: u64,
    /// Packets dropped because a write had failed.
    pub dropped_write: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Files that still exist, oldest first.
    pub files: Vec<String>,
    /// Files removed because there were more than the limit.
    pub files_removed: u64,
    /// Error that ended writing early.
    pub failure: Option<String>,
}

/// Counts of the sample of frames that a run has kept: `received + sent = written + dropped_ring + dropped_write`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleSummary {
    /// Sampling interval: one of this many frames of a lane is kept.
    pub every: u64,
    /// Most bytes kept of a frame.
    pub snap_len: u64,
    /// Received frames chosen for the sample.
    pub received: u64,
    /// Sent frames chosen for the sample.
    pub sent: u64,
    /// Received and sent frames in the file.
    pub written: u64,
    /// Frames dropped because the ring to the writer was full.
    pub dropped_ring: u64,
    /// Frames dropped because a write had failed.
    pub dropped_write: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Path of the file.
    pub file: String,
    /// Error that ended writing early.
    pub failure: Option<String>,
}

/// CPU time of this program's threads other than the lanes: the collector, the writers of files, the readers of kernel
/// data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Housekeeping {
    /// CPU time while the lanes ran, ns over all of these threads.
    pub cpu_ns: u64,
    /// Time for which the lanes ran, ns.
    pub run_ns: u64,
    /// Longest stretch of the collector's work between two sleeps, ns of CPU time.
    pub longest_ns: u64,
    /// CPU time by thread: name, and time in ns.
    pub threads: Vec<(String, u64)>,
}

/// Start of a run by two clocks: the zero of its rows' times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// `CLOCK_MONOTONIC`, ns: the clock of the lanes.
    pub monotonic_ns: u64,
    /// Time of day, ns since 1970 (UTC), as it was set then.
    pub utc_ns: u64,
}

/// Times of the first and the last lost packet, ns since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossTimes {
    /// Departure of the first packet that was lost.
    pub first_ns: u64,
    /// Departure of the last one.
    pub last_ns: u64,
    /// Arrival of the first packet after the last loss; `None` if none came.
    pub received_after_ns: Option<u64>,
}

/// Longest time without an arriving test packet, between two that arrived (RFC 6201); ns since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outage {
    /// Arrival of the last packet before the outage.
    pub from_ns: u64,
    /// Arrival of the first packet after the outage.
    pub to_ns: u64,
    /// Lost packets that left after the former packet and before the latter; `None` if not known.
    pub lost: Option<u64>,
}

/// Field of the headers that arrived other than it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldChange {
    /// Name, such as `ipv4.ttl`.
    pub field: String,
    /// Packets.
    pub packets: u64,
    /// Value as sent, value as received, and packets that had both: the first 16 pairs.
    pub pairs: Vec<(String, String, u64)>,
}

/// Results of one stream, of a group of streams, or of frames of one size over all streams.
#[derive(Clone, Debug, Default)]
pub struct StreamSummary {
    /// Name of the stream or of the group. Of a size: its bytes with FCS, `594`, or a range, `512-1023`.
    pub name: String,
    /// Group that the stream belongs to; `None`: it belongs to none, or this is no stream.
    pub group: Option<String>,
    /// Number of streams that these results are summed over.
    pub streams: usize,
    /// Number of flows, of a stream or a group; 0 of a size.
    pub flows: u64,
    /// Number of lanes that send, of a stream or a group; 0 of a size, and on a receiver without a sender.
    pub lanes: usize,
    /// Mean length of a frame with FCS, bytes: of the mix that was asked for.
    pub frame_size: f64,
    /// Packets sent.
    pub tx: u64,
    /// Packets among them of which nobody can know whether they came: those of streams without a tag.
    pub untagged: u64,
    /// Packets that came with the headers of such streams, or of no number that was sent.
    pub untagged_came: u64,
    /// Packets received: each once, intact, within the settle time.
    pub rx: u64,
    /// Packets lost: `tx - untagged - rx - late`.
    pub lost: u64,
    /// Packets that came back after the settle time.
    pub late: u64,
    /// Further copies of packets already counted.
    pub duplicates: u64,
    /// Packets that arrived after a later packet of their flow.
    pub reordered: u64,
    /// Distance of the reordered packets.
    pub reorder_distance: ReorderDistance,
    /// Packets with a wrong checksum or wrong data; of a size always 0, as a damaged packet does not show its own.
    pub corrupt: u64,
    /// Departures that were due but not sent.
    pub missed: u64,
    /// Departures that were due in the time of sending; `None` when not paced.
    pub due: Option<u64>,
    /// Mean rate asked for over the whole time of sending, packets/s; `None` when not paced.
    pub intended_pps: Option<f64>,
    /// Rate sent, packets/s over the time of sending of the run.
    pub offered_pps: f64,
    /// Rate received (rx over the same duration), packets/s.
    pub received_pps: f64,
    /// lost / (tx - untagged); 0 when nothing else was sent.
    pub loss_ratio: f64,
    /// Times when packets were lost, by rows of 100 ms or longer.
    pub loss_stretches: Stretches,
    /// Latency from the actual send time. Without percentiles if only those of its group are kept.
    pub latency: Latency,
    /// Latency from the scheduled send time; `None` when not paced.
    pub latency_scheduled: Option<Latency>,
    /// Latency from the actual send time to the arrival; `None` if only lanes take times.
    pub latency_arrival: Option<Latency>,
    /// Time from the arrival to the lane's reading; `None` if only one of the two is known.
    pub wake_up: Option<Latency>,
    /// Whether the numbers of this stream, or of all streams of the group, can be trusted; of a size, or on a receiver
    /// without a sender, whether those of the run can.
    pub valid: bool,
    /// Reasons why the stream is not valid by itself; those of the run are in [`Summary::invalid_reasons`].
    pub invalid_reasons: Vec<Remark>,
}

impl StreamSummary {
    /// Returns whether nobody knows which packets came: none that was sent had a tag.
    pub fn is_untagged(&self) -> bool {
        self.untagged > 0 && self.untagged >= self.tx
    }
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Workload of the run.
    pub workload: Workload,
    /// Start of the run.
    pub started: Started,
    /// How far from the instant of `--start-at` the last lane may have begun, ns; `None`: none was asked for.
    pub start_error_ns: Option<u64>,
    /// Random number of the run; all trials of one run have the same.
    pub run_id: u64,
    /// Command line; empty if no command started the run.
    pub command: Vec<String>,
    /// Plan of the run as JSON text; `None` if the run had no plan, or several: each is then in a direction.
    pub plan: Option<String>,
    /// Length of the sending (or, on a receiver, receiving) phase in ns, as measured.
    pub duration_ns: u64,
    /// Packets sent.
    pub tx: u64,
    /// Packets among them of which nobody can know whether they came: those of streams without a tag.
    pub untagged: u64,
    /// Packets received: each once, intact, within the settle time.
    pub rx: u64,
    /// Packets lost: `tx - untagged - rx - late`.
    pub lost: u64,
    /// Times when packets were lost, by rows.
    pub loss_stretches: Stretches,
    /// Send times of the first and the last lost packet; `None` if no packet was lost, or if the times are not known.
    pub loss_times: Option<LossTimes>,
    /// Longest time in which no packet came; `None` if fewer than two bursts came, or if it is not known.
    pub longest_outage: Option<Outage>,
    /// Packets that this host dropped before mpps could take them: exactly the sum over the rows. `None` if the path
    /// can't report drops.
    pub host_dropped: Option<u64>,
    /// Times when this host dropped packets, by readings of the path's counters.
    pub host_drop_stretches: Stretches,
    /// Lost packets that the kernel of this host dropped, in any of its network namespaces, by the kernel's own
    /// reasons. `None` without a trace, or if none was seen.
    pub kernel_drops: Option<Vec<(String, u64)>>,
    /// Packets that came back after the settle time.
    pub late: u64,
    /// Further copies of packets already counted.
    pub duplicates: u64,
    /// Packets that arrived after a later packet of their flow.
    pub reordered: u64,
    /// Distance of the reordered packets.
    pub reorder_distance: ReorderDistance,
    /// Packets with a wrong checksum or wrong data.
    pub corrupt: u64,
    /// Packets that are not of this test.
    pub foreign: u64,
    /// Packets that came with the headers of streams without a tag, or of no number that was sent.
    pub untagged_came: u64,
    /// Departures that were due but not sent.
    pub missed: u64,
    /// Times when departures were missed, by rows. A departure is missed when the lane comes back to its schedule.
    pub missed_stretches: Stretches,
    /// Frame length in bytes with FCS as the rates count it (0: unknown).
    pub frame_size: usize,
    /// Rate asked for, packets/s; `None` when not paced.
    pub intended_pps: Option<f64>,
    /// Departures that were due in the time of sending; `None` when not paced.
    pub due: Option<u64>,
    /// Rate sent, packets/s.
    pub offered_pps: f64,
    /// Rate received (rx over the same duration), packets/s.
    pub received_pps: f64,
    /// lost / (tx - untagged); 0 when nothing else was sent.
    pub loss_ratio: f64,
    /// Latency from the actual send time.
    pub latency: Latency,
    /// Latency from the scheduled send time; `None` when not paced.
    pub latency_scheduled: Option<Latency>,
    /// Latency from the actual send time to the arrival; `None` if only lanes take times.
    pub latency_arrival: Option<Latency>,
    /// Time from the arrival to the lane's reading; `None` if only one of the two is known.
    pub wake_up: Option<Latency>,
    /// Place where latency was taken, or why there is no latency; one sentence.
    pub latency_note: String,
    /// Departure gaps; `None` on a receiver.
    pub gaps: Option<Gaps>,
    /// Frames left alone or dropped (reflect, drop), by reason: snake_case reason and count.
    pub reasons: Vec<(String, u64)>,
    /// Fields of the headers that arrived other than they were sent; `None`: headers were not compared.
    pub changes: Option<Vec<FieldChange>>,
    /// Whether the numbers can be trusted.
    pub valid: bool,
    /// Only reason why the run is not valid, if it is one of these.
    pub shortfall: Option<Shortfall>,
    /// Reasons why the run is not valid.
    pub invalid_reasons: Vec<Remark>,
    /// Main cause that kept the lanes from their cores; `None` if no cause lasted long enough to be named.
    pub kept_off: Option<KeptOff>,
    /// Warnings: facts that the reader should know although the numbers are valid.
    pub warnings: Vec<Remark>,
    /// CPU time that a quota of the control groups withheld; `None` if none was withheld, or if no counter shows it.
    pub withheld: Option<Withheld>,
    /// Control group whose CPU quota can't be read. Whether that group withheld time is not known.
    pub unread_quota: Option<String>,
    /// Whether a signal ended the run.
    pub interrupted: bool,
    /// Whether the run had no planned end and goes on until a signal ends it.
    pub open_ended: bool,
    /// CPU time of the threads other than the lanes; `None` if the kernel does not report it.
    pub housekeeping: Option<Housekeeping>,
    /// Counts of a capture; `None` for other workloads.
    pub capture: Option<CaptureSummary>,
    /// Counts of the sample (`--sample-pcap`); `None` if there is no sample.
    pub sample: Option<SampleSummary>,
    /// Summary of each direction, if packets went in several directions at the same time; else empty. The other fields
    /// then cover both directions: counts and rates are sums, latency is over the packets of both, and the run is valid
    /// if each is.
    pub directions: Vec<Direction>,
    /// Results of each stream, in the order of the traffic file; empty for a run without streams (`--packet` and
    /// `--traffic` have them).
    pub streams: Vec<StreamSummary>,
    /// Results of each group of streams, in the order of their names' first use.
    pub groups: Vec<StreamSummary>,
    /// Results by size of the frames, smallest first; empty if all have one size.
    pub sizes: Vec<StreamSummary>,
    /// Results per lane and queue.
    pub lanes: Vec<LaneSummary>,
    /// Time of the lanes by lane and stage. Empty if no lane runs a loop, and in the summary of one of several
    /// directions, as a lane's time covers both.
    pub stages: Vec<StageRow>,
    /// Cost of measuring the stages.
    pub stage_cost: Option<StageCost>,
    /// CPU time of programs in the kernel, if it was measured.
    pub programs: Vec<ProgramRow>,
    /// Bursts that took longest, the longest first: at most 100 per lane.
    pub slowest: Vec<SlowBurst>,
    /// Packets that came latest, the latest first: at most 100 per lane.
    pub latest: Vec<LatePacket>,
    /// Causes of lost packets, late packets and slow bursts, the worst of each kind first. Only causes that were found.
    pub causes: Vec<Cause>,
    /// Evidence on the surroundings of the run.
    pub known: Vec<Known>,
    /// Expectations of the run with their results, in the order in which the user gave them.
    pub expectations: Vec<Expectation>,
    /// Records that the flight recorders kept; `None` if there were no recorders.
    pub kept: Option<Kept>,
    /// Results per port (forward; else empty).
    pub ports: Vec<PortSummary>,
    /// Host, device and plan of the run: snake_case name and value, in order (version, kernel, CPU, clock, path, port
    /// facts, plan).
    pub host: Vec<HostFact>,
}

/// Result that a run was expected to reach, and whether it did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expectation {
    /// Expectation as the user wrote it: `loss<0.01%`.
    pub expected: String,
    /// Measured value in packets, parts of one, ns, packets/s or bits/s; `None` if it was not measured.
    pub measured: Option<f64>,
    /// Measured value as text, with its unit.
    pub told: String,
    /// Whether the measured value meets the expectation.
    pub met: bool,
    /// Reason why an expectation that is met shows less than it seems to.
    pub note: Option<String>,
}

/// Reason why fewer packets left than were due, although this host did all that it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// The path did not take them: a ring, buffer or queue was full.
    Refused,
    /// The lanes were busy all the time: a lower rate helps.
    Outpaced,
}

/// Cause that kept the lanes from their cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptOff {
    /// Kind of the cause.
    pub by: KeptOffBy,
    /// Clause that names the cause: `other threads kept the lanes from running for 9.0 % of the time (…)`.
    pub sentence: String,
    /// Whether a reason or a warning on missed or dropped packets names this cause; else it is a warning by itself.
    pub named: bool,
}

/// Kinds of [`KeptOff`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptOffBy {
    /// Threads of other programs, as far as known.
    OtherThreads,
    /// Lanes of this run or of another `mpps`, or other threads of this program, alone or among others.
    OwnThreads,
    /// The CPU quota of a control group.
    CpuQuota,
    /// Limit of a control group for real-time threads, or real-time threads themselves: no counter separates the two.
    RealTime,
    /// The hypervisor.
    Hypervisor,
    /// Threads that were not seen, or a CPU quota that can't be read.
    NotKnown,
}

impl KeptOffBy {
    const ALL: [Self; 6] = [
        Self::OtherThreads,
        Self::OwnThreads,
        Self::CpuQuota,
        Self::RealTime,
        Self::Hypervisor,
        Self::NotKnown,
    ];

    /// Returns the name in the JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OtherThreads => "other_threads",
            Self::OwnThreads => "own_threads",
            Self::CpuQuota => "cpu_quota",
            Self::RealTime => "real_time",
            Self::Hypervisor => "hypervisor",
            Self::NotKnown => "not_known",
        }
    }

    /// Returns the kind with a given name in the JSON.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == name)
    }
}

/// Direction of packets, one of several at the same time: between two ports, or the stream of one of several ports.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    /// Ports of the direction: "A to B" is from the first port to the second.
    pub name: &'static str,
    /// Results of this direction.
    pub summary: Summary,
}

/// Shortest sending time, ns, from which an interrupted run has a rate. Before that, a sender has sent only a burst or
/// two.
pub const LEAST_NS: u64 = 100_000_000;
/// Shortest time between the first and the last packet, ns, from which a receiver has a rate. A shorter time is one
/// burst.
const LEAST_SPAN_NS: u64 = 1_000_000;

impl Summary {
    /// Returns the longest outage and the packets lost in it, if these are most of the lost packets.
    pub fn outage_of_loss(&self) -> Option<(Outage, u64)> {
        let outage = self.longest_outage?;
        let lost = outage.lost.filter(|lost| lost * 2 > self.lost)?;
        Some((outage, lost))
    }

    /// Whether the run lasted long enough for a rate. A sender needs the time that the user asked for, or [`LEAST_NS`].
    /// The time of a receiver is that between its first and last packets: one packet or a single burst gives no rate.
    pub fn tells_rate(&self) -> bool {
        if self.workload.generates() {
            return !(self.interrupted && self.duration_ns < LEAST_NS);
        }
        self.tx.max(self.rx) != 1 && self.duration_ns >= LEAST_SPAN_NS
    }

    /// Returns `packets` as a share of the departures due: packets sent, or packets received. `None` when not paced.
    pub fn share_of_due(&self, packets: u64) -> Option<f64> {
        let due = self.due.filter(|due| *due > 0)?;
        Some(packets as f64 / due as f64)
    }
}
