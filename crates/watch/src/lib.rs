//! Watches the lanes' cores from the kernel's side: who has them while a lane wants them, and which of the test's
//! packets the kernel drops, and why.
//!
//! A lane sees by its own clock that it was away, never why. Here programs at the kernel's tracepoints (BPF, as on the
//! `xdp` path) see switches of threads, interrupts, soft interrupts, signals and drops. Each does two things:
//!
//! - It adds to a table of sums by culprit ([`Watch::takers`]). These are exact, however much happens.
//! - Where asked to, it writes a record into a ring ([`Watch::poll`]). A record that finds the ring full is counted
//!   ([`Watch::lost`]) and is gone.
//!
//! Time counts as *taken* while a lane has its core (then interrupts take it) or is ready and waits for it. While the
//! lanes of a core sleep, others may run there and take nothing. No time is counted twice: a timer within a soft
//! interrupt within a thread's visit is the timer's alone.
//!
//! [`Watch::start`] needs `CAP_BPF`, `CAP_PERFMON`, the kernel's types (`/sys/kernel/btf/vmlinux`) and Linux 5.12.
//! Afterwards everything is read in mapped memory, so that it goes on when privileges are given up. The kernel detaches
//! the programs when the [`Watch`] is dropped, or when the process ends in whatever way.
//!
//! Without the privileges [`OwnSwitches`] still tells when a lane left its core and whether it wanted to.
//!
//! A dropped packet is this run's by its stamp: the lanes note the times that they stamp packets with in memory that
//! the program reads ([`Watch::stamps`]), and no two runs stamp in the same nanosecond but by chance. So it may be
//! dropped in another network namespace, on a bridge or at the reflector, and another run with the same addresses and
//! ports counts for nothing.
//!
//! A packet socket that has no room for a packet gives no reason, and the packet goes on. What drops it afterwards, as
//! a guard does of every packet, has the counts of the device's sockets looked at. An XDP program that could not hand a
//! packet on does not say which packet it was.
//!
//! Threads of this process are numbered as in its own pid namespace, all others as in the host's.
//!
//! # What it costs
//!
//! On a VM of two busy cores of 2.6 GHz (`examples/cost.rs`; by the kernel's own count of its programs, which costs
//! some 50 ns itself): 0.36 to 0.43 µs a switch with its record, 0.2 µs a wake-up with its record and 0.1 µs more for
//! the sums, 0.4 to 1 µs an interrupt. A switch between two threads takes 3.7 µs there without a watch, 4.0 µs with
//! sums and 4.6 µs with records (least of 9). Of 2.4 million records, 1,056 found no room, as their reader came late.
//! A lane that polls has a few thousand events a second: no difference on a `null:` port beyond the noise. A `udp:`
//! lane that sends to its own host paid 14 % of its time for the sums and 22 % with records while each soft interrupt
//! and each poll of the kernel's was looked at; therefore those within the lane's own calls are passed over now, and
//! polls are looked at only where asked for ([`Options::polls`]). That has not been measured again.
//!
//! What the kernel's programs of the `xdp` path take is told by [`ProgramTimes`], all the time or, by
//! [`ProgramSample`], now and then.

mod abi;
mod btf;
#[cfg(test)]
#[path = "../../xsk/src/c_side.rs"]
mod c_side;
mod lack;
#[cfg(test)]
mod layout_tests;
mod load;
mod names;
mod own;
mod record;
mod sample;
mod times;
mod watch;

pub use lack::Lack;
pub use names::{PACKET_SOCKET_COPY, XDP_REDIRECT};
pub use own::OwnSwitches;
pub use sample::{ProgramReading, ProgramSample, ProgramSum, ProgramTotals};
pub use times::{ProgramTime, ProgramTimes};
pub use watch::{Dropped, Lane, Options, Polls, Stamps, Watch};
