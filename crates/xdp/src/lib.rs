//! The `xdp` path: packets made, turned and counted by XDP programs in the kernel.
//!
//! Nothing comes to user space but counts. A sender runs a program over frames that the kernel makes
//! (`BPF_PROG_TEST_RUN` with live frames); reflectors and receivers are programs at the interface. The path plugs in
//! one level higher than those that move frames: it implements [`mpps_io::kernel::KernelPort`].

mod abi;
#[cfg(test)]
#[path = "../../xsk/src/c_side.rs"]
mod c_side;
mod config;
mod counts;
mod encode;
mod error;
mod forward;
#[cfg(test)]
mod layout_tests;
mod load;
mod open;
mod port;
mod reasons;
mod spec;
mod sys;
mod veth;
mod workload;

pub use config::{Check, Clock, Config, Mode, check};
pub use open::{XdpDevice, forward, open};
pub use port::XdpPort;
pub use spec::{
    Answer, Arrival, DropSpec, ForwardPortSpec, ForwardRewrite, ForwardSpec, ForwardTake, ReflectSpec, Series,
    StreamSpec, Taken, TrafficSpec, Unanswered,
};
pub use workload::across;
