//! Samples of where lanes were.

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
