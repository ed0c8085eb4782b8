//! The sending half of a lane: what leaves, and when.

pub(crate) mod departures;
pub(crate) mod generate;
pub(crate) mod pacing;
pub(crate) mod rate;
pub(crate) mod sent;
pub(crate) mod slip;
pub mod source;
