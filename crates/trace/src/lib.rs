//! Recordings of what a run did with its time, as pure logic: the data, their meaning, and the formats that viewers
//! read.
//!
//! A [`Recording`] is what one run kept: what each lane did and when, what the kernel did on the lanes' cores
//! meanwhile, samples of where the lanes were, and the causes in words. The engine and the leaf crates that look into
//! the kernel fill a recording; the program writes it to a file and reads it back. There is no clock here, no I/O and
//! no system call.
//!
//! All times are nanoseconds of `CLOCK_MONOTONIC`, as everywhere in `mpps`.

#![forbid(unsafe_code)]

pub mod ctf;
mod dropped;
mod figures;
mod flame;
mod kernel;
pub mod missed;
mod noted;
pub mod over_time;
mod own;
pub mod peer;
pub mod perfetto;
mod proto;
mod recording;
mod round;
mod sample;
mod stage;
pub mod table;
mod takers;
pub mod tree;
pub mod why;

pub use dropped::{Dropping, KernelDrops, LostTimes};
pub use figures::{count, four_digits, time};
pub use flame::{Caption, flame_svg, folded};
pub use kernel::{Drop, Event, KernelEvent, OF_HOST, Taker, TakerKind, thread_number};
pub use noted::Noted;
pub use own::{NotATrace, SCHEMA, read, read_from};
pub use recording::{Cause, Counter, LaneTrace, LeftOut, Meta, Part, Recording, Subject, Unit};
pub use round::{Did, Kept, LatePacket, Round, SlowBurst};
pub use sample::{Frame, Sample, Sampling};
pub use stage::{ProgramRow, Stage, StageCost, StageRow, standard_deviation};
pub use takers::{Explained, Gap, displaced};
