//! The stages of a lane's work, and the table of them.

use crate::count;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a lane does with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Asking the path for packets, where some came.
    Receive,
    /// Asking the path for packets, where none came.
    EmptyPolls,
    /// Looking at what came: checks, counts, turning round.
    Classify,
    /// Taking frames from the pool or from the path.
    Allocate,
    /// Writing packets.
    Write,
    /// Handing packets to the path.
    Transmit,
    /// Pushing out what the path holds back.
    Flush,
    /// Asleep until packets or a departure.
    Asleep,
    /// Awake, with nothing to do before the next departure or packet.
    Spinning,
    /// Not on its core though it wanted to be: other threads, interrupts, the hypervisor.
    Away,
    /// The rest of the loop: its own book-keeping.
    Rest,
}

impl Stage {
    /// All, in the order in which a loop goes through them.
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

    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Its place in [`ALL`](Self::ALL).
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// As people read it.
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

    /// The stage of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// A row of the stage table: one stage of one lane, over a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageRow {
    /// The lane's number.
    pub lane: u32,
    /// What it did.
    pub stage: Stage,
    /// How often, exactly.
    pub calls: u64,
    /// Packets of these calls, exactly; 0 where the stage handles none.
    pub packets: u64,
    /// Its time, ns: measured where every loop is timed, else scaled from those that were.
    pub total_ns: u64,
    /// Calls whose time was taken.
    pub timed: u64,
    /// Standard deviation of the timed calls, ns; `None`: no call was timed, or the file is of an earlier version.
    #[serde(default)]
    pub sd_ns: Option<u64>,
    /// Half of the timed calls took no longer, ns.
    pub p50_ns: u64,
    /// 99 of 100 took no longer, ns.
    pub p99_ns: u64,
    /// The longest timed call, ns.
    pub max_ns: u64,
    /// Of the lane's time, 0 to 1. The shares of a lane add up to 1.
    pub share: f64,
}

impl StageRow {
    /// Packets a call; 0 where there was no call.
    pub fn packets_per_call(&self) -> f64 {
        ratio(self.packets as f64, self.calls)
    }

    /// Time for each packet, ns; 0 where the stage handles none.
    pub fn ns_per_packet(&self) -> f64 {
        ratio(self.total_ns as f64, self.packets)
    }

    /// Time for each call, ns; 0 where there was none.
    pub fn ns_per_call(&self) -> f64 {
        ratio(self.total_ns as f64, self.calls)
    }
}

/// A row of the table of programs in the kernel: what one took over a run, by the kernel's own count of all its runs or
/// of some.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramRow {
    /// Its name.
    pub program: String,
    /// The device that it is of.
    pub device: String,
    /// How often it ran: counted where all runs were timed, else reckoned for the times in between.
    pub runs: u64,
    /// Runs that the kernel has counted and timed. A file of a version that timed all of them does not say.
    #[serde(default)]
    pub timed: u64,
    /// Packets that it handled; 0 where it handles none itself.
    pub packets: u64,
    /// For how long it ran in all, ns: where not all runs were timed, reckoned from those that were.
    pub total_ns: u64,
    /// That as a share of the time that was measured: of one core, so it may be above 1 on several.
    pub share: f64,
}

impl ProgramRow {
    /// Whether its numbers are of some of its runs.
    pub fn is_sampled(&self) -> bool {
        self.timed > 0 && self.timed < self.runs
    }

    /// Packets a run; 0 where it never ran.
    pub fn packets_per_run(&self) -> f64 {
        ratio(self.packets as f64, self.runs)
    }

    /// Time for each packet, ns; 0 where it handles none.
    pub fn ns_per_packet(&self) -> f64 {
        ratio(self.total_ns as f64, self.packets)
    }

    /// Time for each run, ns; 0 where there was none.
    pub fn ns_per_run(&self) -> f64 {
        ratio(self.total_ns as f64, self.runs)
    }
}

/// Standard deviation of values that were counted in buckets: `(value, how many)`. `None`: there is none.
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

/// What it cost to fill the stage table, over all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageCost {
    /// Readings of the clock that were made for the table alone.
    pub readings: u64,
    /// What one takes with all that is booked for it, ns, as measured before the run.
    pub reading_ns: f64,
    /// Their share of the lanes' time, 0 to 1.
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
