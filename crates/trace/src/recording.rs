//! Recording of one run.

use crate::{Frame, KernelEvent, ProgramRow, Round, Sample, Sampling, StageRow, Taker};
use serde::{Deserialize, Serialize};

/// All that a run kept of its events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Run that the recording is of.
    pub meta: Meta,
    /// Lanes, by number.
    pub lanes: Vec<LaneTrace>,
    /// Events on the lanes' cores, by time.
    pub kernel: Vec<KernelEvent>,
    /// Samples of the lanes, by time.
    pub samples: Vec<Sample>,
    /// Places that samples refer to.
    pub frames: Vec<Frame>,
    /// Values over time.
    pub counters: Vec<Counter>,
    /// Stage table.
    pub stages: Vec<StageRow>,
    /// Table of programs in the kernel.
    pub programs: Vec<ProgramRow>,
    /// Table of what took the cores.
    pub takers: Vec<Taker>,
    /// Causes of slow bursts, late packets and lost packets: the worst first within a [`Subject`].
    pub causes: Vec<Cause>,
}

/// Run that a recording is of, and what the recording left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Program and version.
    pub program: String,
    /// Command line.
    pub command: String,
    /// Name of the host.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Process whose threads the lanes are.
    #[serde(default)]
    pub pid: i32,
    /// Time of day, ns since 1970, at zero of the monotonic clock.
    pub utc_offset_ns: i64,
    /// `CLOCK_BOOTTIME` at zero of the monotonic clock, ns: the time for which the host was suspended.
    #[serde(default)]
    pub boot_offset_ns: i64,
    /// Time that the hypervisor took from all cores of the host together during the run, ns; `None` if it is not known.
    #[serde(default)]
    pub steal_ns: Option<u64>,
    /// Start of the run, ns.
    pub start_ns: u64,
    /// End of the run, ns.
    pub end_ns: u64,
    /// Whether every record from a lane's first to its last is there. Then no window was cut out, and a lane did
    /// nothing that is recorded at times without a record.
    #[serde(default)]
    pub whole: bool,
    /// Data that is not in the file, and why.
    pub left_out: Vec<LeftOut>,
    /// Cost of the recording itself, a sentence.
    pub cost: String,
    /// Settings and result of sampling the lanes; `None` if it was not asked for (`--profile`).
    #[serde(default)]
    pub sampling: Option<Sampling>,
}

/// Data that a recording does not have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Kind of data: "rounds of lane 0", "kernel events".
    pub what: String,
    /// Number of missing items; 0 if not known.
    pub count: u64,
    /// Reason why they are missing.
    pub why: String,
}

/// Records of a lane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneTrace {
    /// Number of the lane.
    pub lane: u32,
    /// Name for people: `lane 0 (tx, rx)`.
    pub name: String,
    /// Thread of the lane.
    pub tid: i32,
    /// Core that the lane is bound to.
    pub cpu: Option<u32>,
    /// Records that were kept, by time.
    pub rounds: Vec<Round>,
}

/// Unit of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Packets.
    #[default]
    Packets,
    /// Packets per second.
    PacketsPerSecond,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// A share, 0 to 1.
    Share,
}

/// A value over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counter {
    /// Name: `sent`, `lost`, `fill of the receive ring`.
    pub name: String,
    /// Lane of the counter; `None` if it is not of one lane.
    pub lane: Option<u32>,
    /// Unit of the values.
    pub unit: Unit,
    /// Time, ns, and value.
    pub points: Vec<(u64, f64)>,
}

/// Subject of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A stretch of loss.
    Loss,
    /// A packet that came late.
    Late,
    /// A burst that took long.
    Slow,
    /// A stretch in which departures were missed.
    Missed,
}

/// Cause of something that was slow, late or lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Subject of the cause.
    pub subject: Subject,
    /// Start, ns.
    pub at_ns: u64,
    /// Length, ns.
    pub took_ns: u64,
    /// Lane that it was seen on, if there is one.
    pub lane: Option<u32>,
    /// Number of packets concerned.
    pub packets: u64,
    /// Cause as one sentence.
    pub sentence: String,
    /// Parts of the cause. They add up to [`took_ns`](Self::took_ns); for a loss and for missed departures they add up
    /// to the packets.
    pub parts: Vec<Part>,
}

/// A part of a [`Cause`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Name of the part: `scheduled to sent`, `transmit call`, `path`, `rustc (pid 77) had the core`.
    pub what: String,
    /// Size of the part: ns for a slow burst or a late packet, packets for a loss, departures for missed departures.
    pub amount: u64,
}
