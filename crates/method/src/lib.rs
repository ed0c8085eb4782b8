//! Search methods as pure logic: from the trials so far to the next one, and to what they say.
//!
//! There is no clock here and no I/O: whoever runs the trials hands in the list of those that have ended. All else is
//! reckoned from that list anew each time, so a search that was cut short goes on by handing in the list again, and a
//! result can be checked by whoever has it.
//!
//! [`Search`] is MLRsearch as [RFC 9971](https://www.rfc-editor.org/rfc/rfc9971) defines it: several goals in one
//! search, of which the throughput of RFC 2544 (no loss) is one. The RFC prescribes what trials at a load say of it
//! ([`Goal::class`]) and what is reported ([`Search::results`]), not which trial is next; that is this crate's own.
//!
//! [`compare`] says which of two things is better by their trials, and whether that can be said.

#![forbid(unsafe_code)]

mod bounds;
mod burst;
mod class;
pub mod compare;
mod goal;
mod grid;
mod ratio;
mod search;
mod trial;

pub use bounds::Bounds;
pub use burst::{Burst, BurstSearch, Longest, NextBurst};
pub use class::{Class, Sums};
pub use goal::{BadGoal, Goal};
pub use ratio::Ratio;
pub use search::{BadLimits, End, Limits, Next, Outcome, Search};
pub use trial::{Input, Trial, Verdict};
