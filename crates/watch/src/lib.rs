//! Watches the lanes' cores from the kernel's side: which threads use them while a lane wants them, and which of the
//! test's packets the kernel drops, and why.
//!
//! A lane sees by its own clock that it was away, never why. Here programs at the kernel's tracepoints (BPF, as on the
//! `xdp` path) see switches of threads, interrupts, soft interrupts, signals and drops. Each does two things:
//!
//! - It adds to a table of sums by culprit ([`Watch::takers`]). These are exact, however much happens.
//! - If asked to, it writes a record into a ring ([`Watch::poll`]). A record that finds the ring full is counted
//!   ([`Watch::lost`]) and dropped.
//!
//! Time counts as *taken* in two cases: a lane has its core and interrupts take it, or a lane is ready and waits for
//! it. While the lanes of a core sleep, others may run there and take nothing. No time is counted twice: a timer within
//! a soft interrupt within a thread's visit counts for the timer alone.
//!
//! [`Watch::start`] needs `CAP_BPF`, `CAP_PERFMON`, the kernel's types (`/sys/kernel/btf/vmlinux`) and Linux 5.12.
//! Afterwards everything is read in mapped memory, so the watch goes on when privileges are given up. The kernel
//! detaches the programs when the [`Watch`] is dropped, or when the process ends in any way.
//!
//! Without the privileges, [`OwnSwitches`] still reports when a lane left its core and whether it wanted to.
//!
//! The stamp of a dropped packet shows whether the packet belongs to this run. The lanes note the times with which they
//! stamp packets in memory that the program reads ([`Watch::stamps`]), and two runs stamp in the same nanosecond only
//! by chance. So a packet is recognized in another network namespace, on a bridge or at the reflector, too. Packets of
//! another run with the same addresses and ports do not count.
//!
//! A packet socket that has no room for a packet gives no reason, and the packet goes on. When the packet is dropped
//! afterwards, as a guard does with every packet, the program reads the counts of the device's sockets. An XDP program
//! that could not hand a packet on does not say which packet it was.
//!
//! Threads of this process have the numbers of its own pid namespace; all others have the numbers of the host's.
//!
//! # Cost
//!
//! Measured on a VM of two busy cores of 2.6 GHz (`examples/cost.rs`), by the kernel's own count of its programs, which
//! costs some 50 ns itself: 0.36 to 0.43 µs per switch with its record, 0.2 µs per wake-up with its record and 0.1 µs
//! more for the sums, 0.4 to 1 µs per interrupt. A switch between two threads takes 3.7 µs there without a watch, 4.0
//! µs with sums and 4.6 µs with records (least of 9). Of 2.4 million records, 1,056 found no room, as their reader came
//! late. A lane that polls has a few thousand events per second: no difference on a `null:` port beyond the noise. A
//! `udp:` lane that sends to its own host paid 14 % of its time for the sums and 22 % with records, while each soft
//! interrupt and each poll of the kernel's was looked at. Therefore soft interrupts and polls within the lane's own
//! calls are now passed over, and polls are looked at only if asked for ([`Options::polls`]). That has not been
//! measured again.
//!
//! [`ProgramTimes`] reports the time that the kernel's programs of the `xdp` path take, measured all the time. With
//! [`ProgramSample`] it is measured now and then.

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
