//! `--trace`: recording of one run, kept beside its numbers.
//!
//! The engine records the lanes' rounds. This module records the kernel's events on the lanes' cores and the counts of
//! each row. From all of them it explains packets that were slow, late or lost. As with samples ([`crate::profile`]),
//! the threads of lanes are known only after the lanes have opened all that they need. The main thread opens the
//! kernel's tracepoints then, while it still has the privileges.

mod assemble;
mod causes;
mod culprits;
mod programs;
mod rows;
mod thin;
mod watched;
mod withheld;

pub use assemble::{recording, with_threads};
pub use causes::causes;
pub use culprits::culprits;
pub use programs::programs;
pub(crate) use programs::{State as Programs, with_programs};
pub use rows::{Rows, RowsSink};
pub use watched::{PART_OF_EVENTS, ask, finish};
pub(crate) use watched::{State as Events, begin, kernel_drops, opened, stamps};
