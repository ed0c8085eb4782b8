//! Samples of where lanes were.

use crate::LeftOut;
use serde::{Deserialize, Serialize};

/// A place in the program or the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// Function, demangled; the address in hexadecimal where no name is known.
    pub name: String,
    /// `[kernel]`, or the file that holds the code.
    pub module: String,
}

/// A lane was here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When, ns.
    pub at_ns: u64,
    /// The lane's number.
    pub lane: u32,
    /// On which core.
    pub cpu: u32,
    /// Places of [`Recording::frames`](crate::Recording::frames), the outermost first.
    pub stack: Vec<u32>,
}

/// How the lanes of a run were sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Samples of a lane for each second of its running.
    pub hz: u32,
    /// Lanes that were sampled.
    pub lanes: u32,
    /// What the samples do not have.
    pub left_out: Vec<LeftOut>,
    /// Why there are none, where that is so.
    pub failed: Option<String>,
}

impl Sampling {
    /// How many samples there are.
    pub fn told(&self, samples: usize) -> String {
        let plural = if self.lanes == 1 { "" } else { "s" };
        let Self { hz, lanes, .. } = self;
        format!("profile: {samples} samples of {lanes} lane{plural}, {hz} a second of running")
    }

    /// What is missing, a line each.
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
