//! The sending half of a lane: its packets, and their departure times.

pub(crate) mod generate;
pub(crate) mod pacing;
pub(crate) mod sent;
pub(crate) mod slip;
pub mod source;
