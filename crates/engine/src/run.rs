//! A run from its start to its summary: threads, trials, the collector, what the main thread sees of the lanes.
//!
//! The parts that every run has are in [`crew`]; a [`job`] says what its lanes do. [`solo`] contains the runs on one
//! port, [`across`] those between two, [`session`] any number of trials on open ports.

pub(crate) mod across;
pub(crate) mod around;
pub(crate) mod collect;
pub(crate) mod control;
pub(crate) mod crew;
pub(crate) mod directions;
mod flight;
pub(crate) mod job;
pub(crate) mod live;
mod outage;
pub(crate) mod outcome;
pub(crate) mod path_counters;
pub(crate) mod session;
pub(crate) mod solo;
pub(crate) mod summary;
pub(crate) mod traces;
