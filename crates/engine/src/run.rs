//! A run from its start to its summary: threads, trials, the collector, what the main thread sees of the lanes.
//!
//! The parts that every run has are in [`crew`]; a [`job`] says what its lanes do. [`any_port`] brings a port and the
//! work of a lane together, and erases their types. [`on_ports`] contains the tables of lanes, [`entries`] the runs of
//! one trial, [`session`] any number of trials on open ports.

pub(crate) mod any_port;
pub(crate) mod around;
pub(crate) mod by_stream;
pub(crate) mod collect;
pub(crate) mod crew;
pub(crate) mod directions;
pub(crate) mod entries;
mod flight;
pub(crate) mod host_drops;
pub(crate) mod job;
pub(crate) mod live;
pub(crate) mod on_ports;
mod outage;
pub(crate) mod path_counters;
pub(crate) mod session;
pub(crate) mod summary;
