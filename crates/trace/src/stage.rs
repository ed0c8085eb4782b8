//! The stages of a lane's work, and the table of them.

use crate::count;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Kind of work that a lane spends time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Asking the path for packets, if some came.
    Receive,
    /// Asking the path for packets, if none came.
    EmptyPolls,
    /// Looking at received packets: checks, counts, turning round.
    Classify,
    /// Taking frames from the pool or from the path.
    Allocate,
    /// Writing packets.
    Write,
    /// Handing packets to the path.
    Transmit,
    /// Sending the packets that the path holds back.
    Flush,
    /// Asleep until packets or a departure.
    Asleep,
    /// Awake, with nothing to do before the next departure or packet.
    Spinning,
    /// Not on its core though it wanted to be: other threads, interrupts, the hypervisor.
    Away,
    /// Rest of the loop: its own book-keeping.
    Rest,
}

impl Stage {
    /// All stages, in the order in which a loop goes through them.
    pub const ALL: [Self; 11] = [
        Self::Receive,
        Self::EmptyPolls,
        Self::Classify,
        Self::Allocate,
        Self::Write,
        Self::Transmit,
        Self::Flush,
        Self::Asleep,
        Self::Spinning,
        Self::Away,
        Self::Rest,
    ];

    /// Number of stages.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the place in [`ALL`](Self::ALL).
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::EmptyPolls => "empty polls",
            Self::Classify => "classify",
            Self::Allocate => "allocate",
            Self::Write => "write",
            Self::Transmit => "transmit",
            Self::Flush => "flush",
            Self::Asleep => "asleep",
            Self::Spinning => "spinning",
            Self::Away => "away",
            Self::Rest => "rest",
        }
    }

    /// Returns the stage with that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// A row of the stage table: one stage of one lane, over a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageRow {
    /// Number of the lane.
    pub lane: u32,
    /// Stage of the row.
    pub stage: Stage,
    /// Number of calls, exact.
    pub calls: u64,
    /// Packets of these calls, exact; 0 if the stage handles none.
    pub packets: u64,
    /// Time of the stage, ns: measured if every loop is timed, else scaled from the timed loops.
    pub total_ns: u64,
    /// Calls that were timed.
    pub timed: u64,
    /// Standard deviation of the timed calls, ns; `None` if no call was timed, or if the file is of an earlier version.
    #[serde(default)]
    pub sd_ns: Option<u64>,
    /// Median of the timed calls, ns.
    pub p50_ns: u64,
    /// 99th percentile of the timed calls, ns.
    pub p99_ns: u64,
    /// Longest timed call, ns.
    pub max_ns: u64,
    /// Share of the lane's time, 0 to 1. The shares of a lane add up to 1.
    pub share: f64,
}

impl StageRow {
    /// Returns the packets per call; 0 if there was no call.
    pub fn packets_per_call(&self) -> f64 {
        ratio(self.packets as f64, self.calls)
    }

    /// Returns the time per packet, ns; 0 if the stage handles none.
    pub fn ns_per_packet(&self) -> f64 {
        ratio(self.total_ns as f64, self.packets)
    }

    /// Returns the time per call, ns; 0 if there was none.
    pub fn ns_per_call(&self) -> f64 {
        ratio(self.total_ns as f64, self.calls)
    }
}

/// A row of the table of programs in the kernel: the time that one program took over a run. The kernel counts all of
/// its runs, or some.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramRow {
    /// Name of the program.
    pub program: String,
    /// Device of the program.
    pub device: String,
    /// Number of runs: counted if all runs were timed, else estimated for the times in between.
    pub runs: u64,
    /// Runs that the kernel has counted and timed. A file of a version that timed all runs does not have this number.
    #[serde(default)]
    pub timed: u64,
    /// Packets that the program handled; 0 if it handles none itself.
    pub packets: u64,
    /// Total time of the runs, ns; if not all runs were timed, estimated from the timed ones.
    pub total_ns: u64,
    /// Total time as a share of the measured time: the share of one core, so it may be above 1 on several cores.
    pub share: f64,
}

impl ProgramRow {
    /// Whether the numbers are from some of the runs only.
    pub fn is_sampled(&self) -> bool {
        self.timed > 0 && self.timed < self.runs
    }

    /// Returns the packets per run; 0 if the program never ran.
    pub fn packets_per_run(&self) -> f64 {
        ratio(self.packets as f64, self.runs)
    }

    /// Returns the time per packet, ns; 0 if the program handles none.
    pub fn ns_per_packet(&self) -> f64 {
        ratio(self.total_ns as f64, self.packets)
    }

    /// Returns the time per run, ns; 0 if there was none.
    pub fn ns_per_run(&self) -> f64 {
        ratio(self.total_ns as f64, self.runs)
    }
}

/// Returns the standard deviation of values counted in buckets: `(value, how many)`. `None` if there are no values.
pub fn standard_deviation(buckets: impl Iterator<Item = (f64, u64)> + Clone) -> Option<f64> {
    let sum = |of: &dyn Fn(f64) -> f64| {
        buckets
            .clone()
            .map(|(value, count)| of(value) * count as f64)
            .sum::<f64>()
    };
    let count = sum(&|_| 1.0);
    let mean = sum(&|value| value) / count;
    (count > 0.0).then(|| (sum(&|value| (value - mean).powi(2)) / count).sqrt())
}

fn ratio(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part / whole as f64 }
}

/// Cost of filling the stage table, over all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageCost {
    /// Clock readings made only for the table.
    pub readings: u64,
    /// Time that one reading takes with all that is booked for it, ns, as measured before the run.
    pub reading_ns: f64,
    /// Share of the lanes' time that the readings took, 0 to 1.
    pub share: f64,
    /// Records of the flight recorders that were overwritten before they could be kept.
    pub lost: u64,
}

impl fmt::Display for StageCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this table cost {:.2} % of the lanes' time: {} readings of the clock, {:.1} ns each with what is booked",
            self.share * 100.0,
            count(self.readings),
            self.reading_ns,
        )?;
        match self.lost {
            0 => Ok(()),
            lost => write!(f, ", and {} records of rounds were lost", count(lost)),
        }
    }
}
