//! Rows of the time series and the summary of a run: plain data, made by the collector, written by `mpps-report`.

use crate::HostFact;
use crate::fill::{RingFill, RowFill};
use crate::gaps::Gap;
use crate::known::Known;
use crate::stretches::Stretches;
use crate::withheld::Withheld;
use mpps_trace::{Cause, Kept, LatePacket, ProgramRow, SlowBurst, StageCost, StageRow};
use serde::{Deserialize, Serialize};

/// Latency of one interval or one run in ns. All zero when [`Latency::count`] is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Packets measured.
    pub count: u64,
    /// Smallest, ns; exact.
    pub min: u64,
    /// Mean, ns; exact.
    pub mean: f64,
    /// Percentiles, ns; within 0.05 % of the value. `None` where no histogram was kept (intervals below 100 ms).
    pub percentiles: Option<Percentiles>,
    /// Largest, ns; exact.
    pub max: u64,
}

/// Percentiles in ns; each within 0.05 % (or 1 ns) of the true value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// 50th.
    pub p50: u64,
    /// 90th.
    pub p90: u64,
    /// 99th.
    pub p99: u64,
    /// 99.9th.
    pub p999: u64,
}

/// What the run does, as far as its rows and summary are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workload {
    /// Sends and receives back: rows by the interval of sending.
    #[default]
    SendRecv,
    /// Sends only: nothing comes back, nothing is lost.
    Send,
    /// Receives and verifies: rows by the interval of arrival, loss from gaps in the sequence numbers.
    Drop,
    /// Turns packets round: rows by the interval of arrival.
    Reflect,
    /// Takes frames from one port to another: rows by the interval of arrival.
    Forward,
    /// Keeps packets in a file: rows by the interval of arrival; sent are those that the filter took, received those
    /// that were handed to the writer, lost those that it had no room for.
    Capture,
}

impl Workload {
    /// It makes packets of its own, and knows from that what was sent: `sendrecv`, `send`.
    pub fn generates(self) -> bool {
        matches!(self, Self::SendRecv | Self::Send)
    }

    /// It sends what others have sent it: `reflect`, `forward`. What it can't take is loss to those.
    pub fn passes_on(self) -> bool {
        matches!(self, Self::Reflect | Self::Forward)
    }
}

/// One interval, closed: nothing can change it any more.
///
/// The sums over all rows of a run equal the summary's counts exactly. A packet that comes back after its row was
/// written moves from lost to late in the row then written, so `lost` can be negative there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Number of the interval; it starts at `index` times the interval's length.
    pub index: u64,
    /// Start, ns since the start of the run.
    pub start_ns: u64,
    /// Length, ns (the last row of a run may be shorter than the interval).
    pub length_ns: u64,
    /// Packets sent.
    pub tx: u64,
    /// Packets received: each once, intact, within the settle time.
    pub rx: u64,
    /// Packets received in this interval, whenever they were sent; of the last row, those of the settle time, too.
    /// `None` where nobody counts them, and where nothing is received.
    pub rx_by_arrival: Option<u64>,
    /// Packets lost.
    pub lost: i64,
    /// Packets that came back after the settle time.
    pub late: u64,
    /// Further copies of packets already counted.
    pub duplicates: u64,
    /// Packets that arrived after a later one of their flow (they count in `rx` too).
    pub reordered: u64,
    /// Packets whose checksum or data was wrong; their originals count as lost. By the interval of arrival.
    pub corrupt: u64,
    /// Packets that are none of this test's. By the interval of arrival.
    pub foreign: u64,
    /// Departures that were due but not sent, because the generator had fallen too far behind.
    pub missed: u64,
    /// Latency from the actual send time.
    pub latency: Latency,
    /// Latency from the scheduled send time; `None` when not paced.
    pub latency_scheduled: Option<Latency>,
    /// Time in this interval for which the scheduler or the hypervisor kept lanes from running, ns over all lanes,
    /// where the host tells (rows of 100 ms or longer).
    pub host_wait_ns: Option<u64>,
    /// Packets that this host dropped before mpps could take them, seen at the reading of the path's counters that
    /// belongs to this row: all since the reading before, whichever row that belongs to. `None`: no reading does.
    pub host_dropped: Option<u64>,
    /// Processor time in this interval of this program's own threads beside the lanes, ns, as the host wait: at most so
    /// much of it is not the host's doing.
    pub own_threads_ns: Option<u64>,
    /// Time in this interval for which lanes had packets to send and the path took none, ns over all lanes; `None`
    /// where the kernel sends.
    pub blocked_ns: Option<u64>,
    /// How full the receive rings of the lanes were; `None` where nobody looked in this row, or no path can tell.
    pub rx_fill: Option<RowFill>,
}

/// What one lane did; packets by its own count, independent of the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneSummary {
    /// Number of the lane.
    pub lane: usize,
    /// Queue of the port that it drives.
    pub queue: usize,
    /// Core that it is pinned to.
    pub core: Option<usize>,
    /// It receives.
    pub rx_role: bool,
    /// It transmits.
    pub tx_role: bool,
    /// Frames received (all, the test's or not).
    pub rx_packets: u64,
    /// Receive calls that gave at least one frame.
    pub rx_bursts: u64,
    /// Sizes that these had, from the smallest on, each with how many had it; 256 stands for larger ones, too. Empty
    /// where that is not known.
    pub rx_burst_sizes: Vec<(u32, u64)>,
    /// Receive calls that gave none.
    pub rx_empty_polls: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Transmit calls that took at least one frame.
    pub tx_bursts: u64,
    /// Transmit calls that took none.
    pub tx_full: u64,
    /// Its packets by reason, as [`Summary::reasons`].
    pub reasons: Vec<(String, u64)>,
    /// Times that the lane went to sleep.
    pub waits: u64,
    /// Time for which it had packets to send and the path took none, ns; `None` where no thread of ours sends.
    pub blocked_ns: Option<u64>,
    /// Time for which its device was down, ns.
    pub link_down_ns: u64,
    /// Time over which its waiting for a core was measured, ns: that of the settle time is in it.
    pub measured_ns: u64,
    /// Share of its time that the lane spent in loops that moved something, 0 to 1; `None` where it never looped.
    pub busy_ratio: Option<f64>,
    /// That time, ns; `None` also where the summary is of one of the two ways that it serves.
    pub busy_ns: Option<u64>,
    /// When the lane was away from its clock; `None` where no thread of ours looks at one.
    pub away: Option<AwaySummary>,
    /// The longest of these times, since the start of the run.
    pub gaps: Vec<Gap>,
    /// Time on the run queue but not running, ns (other threads had the core), where the kernel tells.
    pub run_delay_ns: Option<u64>,
    /// Involuntary context switches, where the kernel tells.
    pub preempted: Option<u64>,
    /// Kernel's drops on this queue.
    pub rx_dropped: u64,
    /// How full its receive ring was, or that of each port; none where the path can't tell, or nobody looked.
    pub rx_rings: Vec<RingFill>,
    /// Packets taken by the path that the kernel then refused.
    pub tx_failed: u64,
    /// Further counters of the path.
    pub path_counters: Vec<(String, u64)>,
}

impl LaneSummary {
    /// Packets per second that the lane would receive and send if it were busy all the time, and if each packet took as
    /// much of its time as in this run, thus at these burst sizes.
    ///
    /// # Errors
    /// Why that is not known.
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
    /// How often.
    pub count: u64,
    /// For how long in all, ns.
    pub total_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
    /// When the longest began, ns since the start of the run.
    pub longest_at_ns: u64,
}

/// What was forwarded at one port, over all lanes.
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
    /// Gap that the schedule asks for on average over all lanes' packets of one lane, ns; 0 when not paced.
    pub intended_mean: f64,
    /// As measured between consecutive packets of one lane. Packets of one burst leave with gap 0.
    pub measured: Latency,
}

/// What became of the packets of a capture: `taken = written + dropped_ring + dropped_write`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureSummary {
    /// Most bytes kept of a packet.
    pub snap_len: u64,
    /// Packets received.
    pub received: u64,
    /// Packets that the filter took.
    pub taken: u64,
    /// Packets in the files, those since removed included.
    pub written: u64,
    /// Packets dropped because the ring to the writer was full.
    pub dropped_ring: u64,
    /// Packets dropped because a write had failed.
    pub dropped_write: u64,
    /// Bytes written.
    pub bytes: u64,
    /// The files that are there, oldest first.
    pub files: Vec<String>,
    /// Files removed because there were more than to be kept.
    pub files_removed: u64,
    /// Why writing ended early.
    pub failure: Option<String>,
}

/// Counts of the sample that a run has kept, one of every so many frames: `received + sent = written + dropped_ring +
/// dropped_write`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleSummary {
    /// Frames of a lane for each that is kept.
    pub every: u64,
    /// Most bytes kept of a frame.
    pub snap_len: u64,
    /// Received frames to keep.
    pub received: u64,
    /// Sent frames to keep.
    pub sent: u64,
    /// Frames of both in the file.
    pub written: u64,
    /// Frames dropped because the ring to the writer was full.
    pub dropped_ring: u64,
    /// Frames dropped because a write had failed.
    pub dropped_write: u64,
    /// Bytes written.
    pub bytes: u64,
    /// The file.
    pub file: String,
    /// Why writing ended early.
    pub failure: Option<String>,
}

/// Processor time of this program's threads beside the lanes: the collector, what writes files, what reads from the
/// kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Housekeeping {
    /// While the lanes ran, ns over all of them.
    pub cpu_ns: u64,
    /// For how long that was, ns.
    pub run_ns: u64,
    /// The collector's longest stretch of work between two sleeps, ns of processor time.
    pub longest_ns: u64,
    /// By thread: name, and time, ns.
    pub threads: Vec<(String, u64)>,
}

/// When a run began: the zero of its rows' times, by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// `CLOCK_MONOTONIC`, ns: the clock of the lanes.
    pub monotonic_ns: u64,
    /// Time of day, ns since 1970 (UTC), as it was set then.
    pub utc_ns: u64,
}

/// When the first and the last packet left that were lost, and what came then; ns since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossTimes {
    /// Departure of the first packet that was lost.
    pub first_ns: u64,
    /// Departure of the last one.
    pub last_ns: u64,
    /// Arrival of the first packet after the last one; `None`: none came.
    pub received_after_ns: Option<u64>,
}

/// The longest time without a packet of the test between two that came (RFC 6201); ns since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outage {
    /// Arrival of the last packet before.
    pub from_ns: u64,
    /// Arrival of the first packet after.
    pub to_ns: u64,
    /// Packets lost that left after the one and before the other; `None` where that is not known.
    pub lost: Option<u64>,
}

/// All that a run has measured.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// What was run.
    pub workload: Workload,
    /// When it began.
    pub started: Started,
    /// Number of the run, at random: all trials of one have the same.
    pub run_id: u64,
    /// The command line; empty where it was no command that ran it.
    pub command: Vec<String>,
    /// The run as a value, JSON text; `None` where it was no plan that was run.
    pub plan: Option<String>,
    /// Length of the sending (or, on a receiver, receiving) phase in ns, as measured.
    pub duration_ns: u64,
    /// Packets sent.
    pub tx: u64,
    /// Packets received: each once, intact, within the settle time.
    pub rx: u64,
    /// Packets lost: `tx - rx - late`.
    pub lost: u64,
    /// When they were lost, by rows.
    pub loss_stretches: Stretches,
    /// When the first and the last of them left; `None` where none was lost or that is not known.
    pub loss_times: Option<LossTimes>,
    /// The longest time in which nothing came; `None` where fewer than two bursts came, or that is not known.
    pub longest_outage: Option<Outage>,
    /// Packets that this host dropped before mpps could take them; `None` where the path can't tell. Exactly the sum
    /// over the rows.
    pub host_dropped: Option<u64>,
    /// When, by readings of the path's counters.
    pub host_drop_stretches: Stretches,
    /// Lost packets that the kernel of this host dropped, in any of its network namespaces, by the kernel's own
    /// reasons; `None`: without a trace, or not seen.
    pub kernel_drops: Option<Vec<(String, u64)>>,
    /// Came back after the settle time.
    pub late: u64,
    /// Further copies.
    pub duplicates: u64,
    /// Arrived after a later packet of their flow.
    pub reordered: u64,
    /// Distance of the reordered ones.
    pub reorder_distance: ReorderDistance,
    /// Wrong checksum or data.
    pub corrupt: u64,
    /// None of this test's.
    pub foreign: u64,
    /// Due but not sent.
    pub missed: u64,
    /// When, by rows: a departure is missed when the lane comes back to its schedule.
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
    /// lost / tx; 0 when nothing was sent.
    pub loss_ratio: f64,
    /// Latency from the actual send time.
    pub latency: Latency,
    /// Latency from the scheduled send time; `None` when not paced.
    pub latency_scheduled: Option<Latency>,
    /// Where latency was taken, or why there is none; one sentence.
    pub latency_note: String,
    /// Departure gaps; `None` on a receiver.
    pub gaps: Option<Gaps>,
    /// Why frames were left alone or dropped by reason (reflect, drop): snake_case reason and count.
    pub reasons: Vec<(String, u64)>,
    /// Whether the numbers can be believed.
    pub valid: bool,
    /// The one reason why not, where it is one of these.
    pub shortfall: Option<Shortfall>,
    /// Why not; one sentence each.
    pub invalid_reasons: Vec<String>,
    /// What kept the lanes from their cores; `None`: nothing did for long enough to be named.
    pub kept_off: Option<KeptOff>,
    /// What the reader should know though the numbers stand.
    pub warnings: Vec<String>,
    /// CPU time that a quota of the control groups withheld; `None`: nothing was withheld, or nothing shows it.
    pub withheld: Option<Withheld>,
    /// A control group whose CPU quota can't be read: whether it withheld time is not known.
    pub unread_quota: Option<String>,
    /// Ended by a signal.
    pub interrupted: bool,
    /// No end was asked for: the run goes on until a signal ends it.
    pub open_ended: bool,
    /// CPU time of the threads beside the lanes, where the kernel tells.
    pub housekeeping: Option<Housekeeping>,
    /// What became of the packets of a capture; `None` for other workloads.
    pub capture: Option<CaptureSummary>,
    /// Counts of the sample (`--sample-pcap`); `None`: there is none.
    pub sample: Option<SampleSummary>,
    /// Of each way, where packets went in two ways at the same time; else empty. The other fields are then of both:
    /// counts and rates are sums, latency is over the packets of both, and it is valid if both are.
    pub directions: Vec<Direction>,
    /// Per lane and queue.
    pub lanes: Vec<LaneSummary>,
    /// What the lanes did with their time, by lane and stage; empty where no lane goes through a loop, and of one of
    /// two ways, as a lane's time is of both.
    pub stages: Vec<StageRow>,
    /// What it cost to know that.
    pub stage_cost: Option<StageCost>,
    /// What programs in the kernel took, where that was counted.
    pub programs: Vec<ProgramRow>,
    /// The bursts that took longest, the longest first: 100 of each lane at the most.
    pub slowest: Vec<SlowBurst>,
    /// The packets that came latest, the latest first: 100 of each lane at the most.
    pub latest: Vec<LatePacket>,
    /// Why packets were lost or late, and bursts slow: the worst first of each; as far as somebody has found out.
    pub causes: Vec<Cause>,
    /// Evidence on the run's surroundings.
    pub known: Vec<Known>,
    /// What the run was to reach, and whether it did; in the order in which it was asked for.
    pub expectations: Vec<Expectation>,
    /// What the flight recorders kept, where there were any.
    pub kept: Option<Kept>,
    /// Per port (forward; else empty).
    pub ports: Vec<PortSummary>,
    /// Host, device and plan of the run: snake_case name and value, in order (version, kernel, CPU, clock, path, port
    /// facts, plan).
    pub host: Vec<HostFact>,
}

/// What a run was to reach, and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expectation {
    /// As it was asked for: `loss<0.01%`.
    pub expected: String,
    /// What was measured, in packets, parts of one, ns, packets/s or bits/s; `None`: it was not.
    pub measured: Option<f64>,
    /// The same for people, with its unit.
    pub told: String,
    /// Whether that is enough.
    pub met: bool,
    /// Why it shows less than it seems to, though it is met.
    pub note: Option<String>,
}

/// Why fewer packets left than were due, where this host did all that it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// The path did not take them: a ring, buffer or queue was full.
    Refused,
    /// The lanes were busy all the time: a lower rate helps.
    Outpaced,
}

/// What kept the lanes from their cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptOff {
    /// Its kind.
    pub by: KeptOffBy,
    /// A clause that says it: `other threads kept the lanes from running for 9.0 % of the time (…)`.
    pub sentence: String,
    /// A reason or a warning on missed or dropped packets names it as the cause; else it is a warning by itself.
    pub named: bool,
}

/// Kinds of [`KeptOff`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptOffBy {
    /// Threads of other programs, as far as is known.
    OtherThreads,
    /// Lanes of this run or of another one of `mpps`, or this program's own threads, alone or among others.
    OwnThreads,
    /// The CPU quota of a control group.
    CpuQuota,
    /// A control group's limit of real-time threads, or such threads: nothing counts which.
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

    /// Its name in the JSON.
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

    /// Returns the kind of a name in the JSON.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == name)
    }
}

/// One of the ways in which packets went at the same time.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    /// From which port to which: "A to B" is from the first to the second.
    pub name: &'static str,
    /// What was measured in it.
    pub summary: Summary,
}

/// A sender that is interrupted earlier has sent a burst or two, and tells no rate, ns.
pub const LEAST_NS: u64 = 100_000_000;
/// Packets that came within a shorter time are one burst, which tells no rate, ns.
const LEAST_SPAN_NS: u64 = 1_000_000;

impl Summary {
    /// The longest outage and the packets lost in it, if these are most of the lost packets.
    pub fn outage_of_loss(&self) -> Option<(Outage, u64)> {
        let outage = self.longest_outage?;
        let lost = outage.lost.filter(|lost| lost * 2 > self.lost)?;
        Some((outage, lost))
    }

    /// Whether the run lasted long enough to tell a rate: a sender as long as the user had asked for, or for a while.
    /// The time of a receiver is that between its first and last packets: one has none, nor has a single burst.
    pub fn tells_rate(&self) -> bool {
        if self.workload.generates() {
            return !(self.interrupted && self.duration_ns < LEAST_NS);
        }
        self.tx.max(self.rx) != 1 && self.duration_ns >= LEAST_SPAN_NS
    }

    /// Share of the departures due that left, of all if `packets` are those received; `None` when not paced.
    pub fn share_of_due(&self, packets: u64) -> Option<f64> {
        let due = self.due.filter(|due| *due > 0)?;
        Some(packets as f64 / due as f64)
    }
}
