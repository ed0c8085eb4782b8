//! Searches as pure logic: from the trials so far to the next one, and to their result.
//!
//! There is no clock here and no I/O: the program that runs the trials hands in the list of those that have ended. All
//! else is computed from that list each time. So a search that was interrupted continues when the list is handed in
//! again, and a result can be checked by anyone who has the list.
//!
//! [`Search`] is MLRsearch as [RFC 9971](https://www.rfc-editor.org/rfc/rfc9971) defines it: several goals in one
//! search, of which the throughput of RFC 2544 (no loss) is one. The RFC prescribes the class of a load by its trials
//! ([`Goal::class`]) and what is reported ([`Search::results`]). It does not prescribe which trial is next; that is
//! this module's own.

mod bounds;
mod burst;
mod class;
mod goal;
mod grid;
mod mlrsearch;
mod ratio;
mod trial;

pub use bounds::Bounds;
pub use burst::{Burst, BurstSearch, Longest, NextBurst};
pub use class::{Class, Sums};
pub use goal::{BadGoal, Goal};
pub use mlrsearch::{BadLimits, End, Limits, Next, Outcome, Search};
pub use ratio::Ratio;
pub use trial::{Input, StreamLoss, Trial, Verdict};
