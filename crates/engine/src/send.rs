//! The sending half of a lane: its packets, and their departure times.

pub(crate) mod ahead;
mod earliest;
pub(crate) mod generate;
pub(crate) mod mix;
pub(crate) mod pacing;
mod replayed;
pub(crate) mod sender;
pub(crate) mod sent;
pub(crate) mod slip;
pub mod source;
mod turns;
