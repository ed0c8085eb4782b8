//! What one run kept.

use crate::{Frame, KernelEvent, ProgramRow, Round, Sample, Sampling, StageRow, Taker};
use serde::{Deserialize, Serialize};

/// All that a run kept of what happened in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Which run it is of.
    pub meta: Meta,
    /// The lanes, by number.
    pub lanes: Vec<LaneTrace>,
    /// What happened on their cores, by time.
    pub kernel: Vec<KernelEvent>,
    /// Where the lanes were, by time.
    pub samples: Vec<Sample>,
    /// The places that samples name.
    pub frames: Vec<Frame>,
    /// Values over time.
    pub counters: Vec<Counter>,
    /// The stage table.
    pub stages: Vec<StageRow>,
    /// The table of programs in the kernel.
    pub programs: Vec<ProgramRow>,
    /// The table of what took the cores.
    pub takers: Vec<Taker>,
    /// Why bursts were slow, packets late or lost: the worst first within a [`Subject`].
    pub causes: Vec<Cause>,
}

/// Which run a recording is of, and what it left out.
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
    /// The process that the lanes are threads of.
    #[serde(default)]
    pub pid: i32,
    /// Time of day, ns since 1970, at nought of the monotonic clock.
    pub utc_offset_ns: i64,
    /// `CLOCK_BOOTTIME` at nought of the monotonic clock, ns: for how long the host was suspended.
    #[serde(default)]
    pub boot_offset_ns: i64,
    /// What the hypervisor took from all cores of the host together meanwhile, ns; `None`: that is not known.
    #[serde(default)]
    pub steal_ns: Option<u64>,
    /// When the run began, ns.
    pub start_ns: u64,
    /// When it ended, ns.
    pub end_ns: u64,
    /// Every record from a lane's first to its last is there: no window was cut out, and where no record is the lane
    /// did none of what is recorded.
    #[serde(default)]
    pub whole: bool,
    /// What is not in the file, and why.
    pub left_out: Vec<LeftOut>,
    /// What recording itself cost, a sentence.
    pub cost: String,
    /// How the lanes were sampled, where that was asked for (`--profile`).
    #[serde(default)]
    pub sampling: Option<Sampling>,
}

/// What a recording does not have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// What: "rounds of lane 0", "kernel events".
    pub what: String,
    /// How many; 0: not known.
    pub count: u64,
    /// Why.
    pub why: String,
}

/// What a lane did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneTrace {
    /// Its number.
    pub lane: u32,
    /// As people read it: `lane 0 (tx, rx)`.
    pub name: String,
    /// Its thread.
    pub tid: i32,
    /// The core that it is bound to.
    pub cpu: Option<u32>,
    /// What was kept of it, by time.
    pub rounds: Vec<Round>,
}

/// What a counter is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Packets.
    #[default]
    Packets,
    /// Packets a second.
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
    /// What it is: `sent`, `lost`, `fill of the receive ring`.
    pub name: String,
    /// The lane that it is of, where it is of one.
    pub lane: Option<u32>,
    /// What its values are in.
    pub unit: Unit,
    /// Time, ns, and value.
    pub points: Vec<(u64, f64)>,
}

/// What a sentence is about.
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

/// Why something was slow, late or lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// What it is about.
    pub subject: Subject,
    /// When it began, ns.
    pub at_ns: u64,
    /// For how long, ns.
    pub took_ns: u64,
    /// The lane where it was seen, where there is one.
    pub lane: Option<u32>,
    /// Packets that it concerns.
    pub packets: u64,
    /// One sentence.
    pub sentence: String,
    /// What it is made of; the parts add up to [`took_ns`](Self::took_ns), or (of a loss, and of departures that were
    /// missed) to the packets.
    pub parts: Vec<Part>,
}

/// A part of a [`Cause`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// What: `scheduled to sent`, `transmit call`, `path`, `rustc (pid 77) had the core`.
    pub what: String,
    /// ns of a slow burst or a late packet; packets of a loss, departures of those that were missed.
    pub amount: u64,
}
