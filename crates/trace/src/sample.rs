//! Samples of the lanes' call stacks.

use crate::LeftOut;
use serde::{Deserialize, Serialize};

/// A place in the program or the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// Function, demangled; the address in hexadecimal if no name is known.
    pub name: String,
    /// `[kernel]`, or the file that holds the code.
    pub module: String,
}

/// Call stack of a lane at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Time of the sample, ns.
    pub at_ns: u64,
    /// Number of the lane.
    pub lane: u32,
    /// Core of the lane at that time.
    pub cpu: u32,
    /// Places of [`Recording::frames`](crate::Recording::frames), the outermost first.
    pub stack: Vec<u32>,
}

/// Settings and result of sampling the lanes of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Samples of a lane per second of its running.
    pub hz: u32,
    /// Lanes that were sampled.
    pub lanes: u32,
    /// Data that the samples do not have.
    pub left_out: Vec<LeftOut>,
    /// Reason why there are no samples; `None` if there are.
    pub failed: Option<String>,
}

impl Sampling {
    /// Returns a line with the number of samples.
    pub fn told(&self, samples: usize) -> String {
        let plural = if self.lanes == 1 { "" } else { "s" };
        let Self { hz, lanes, .. } = self;
        format!("profile: {samples} samples of {lanes} lane{plural}, {hz} a second of running")
    }

    /// Returns what is missing, a line each.
    pub fn missing(&self) -> Vec<String> {
        if let Some(why) = &self.failed {
            return vec![format!("--profile {}: no samples: {why}", self.hz)];
        }
        let missing = self.left_out.iter().map(|lack| match lack.count {
            0 => format!("profile: without {}: {}", lack.what, lack.why),
            count => format!("profile: without {count} {}: {}", lack.what, lack.why),
        });
        missing.collect()
    }
}
