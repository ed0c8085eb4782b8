//! `--trace`: what a run keeps of what happened in it, beside its numbers.
//!
//! The engine keeps what the lanes did; here is what the kernel did on their cores meanwhile, what each row counted,
//! and what all of it together says of packets that were slow, late or lost. As with samples ([`crate::profile`]) the
//! threads of lanes are known when they have opened all that they need, and the kernel's tracepoints are opened by the
//! main thread while it still may. There is one run a process.

mod assemble;
mod culprits;
mod programs;
mod rows;
mod thin;
mod watched;
mod withheld;

pub(crate) use assemble::{causes, recording, with_threads};
pub(crate) use culprits::culprits;
pub(crate) use programs::{programs, with_programs};
pub(crate) use rows::{Rows, RowsSink};
pub(crate) use watched::{PART_OF_EVENTS, ask, begin, finish, kernel_drops, opened, stamps};
