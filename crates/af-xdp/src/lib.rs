//! The `af_xdp` path: AF_XDP sockets over one shared packet memory, one socket per queue of the device.
//!
//! The rings and the memory are those of the crate `xsk`; this crate says which queue belongs to which lane, what the
//! XDP program takes, and how the path behaves.
//!
//! - **A lane owns halves of queues**: the RX and fill ring of some, the TX and completion ring of some. Usually both
//!   of the same queue; if lanes only send or only receive, each half has its own. A queue of the device that no
//!   lane looks at would lose its packets, so a port uses all of them, and a lane several if there are more queues
//!   than lanes.
//! - **One packet memory for a port, or for two**: `forward` moves a received frame from one port's RX ring to the
//!   other's TX ring without touching its bytes. Each lane has its own share of the chunks, so nothing is shared while
//!   packets move.
//! - **The XDP program takes the test's packets only**; the host's own traffic passes, so it is the guard as well.

#![forbid(unsafe_code)]

mod config;
mod error;
mod frame;
mod gather;
mod layout;
mod open;
mod port;
mod queue;

pub use config::{Config, Mode, Pages, check};
pub use frame::AfXdpFrame;
pub use layout::{Frames, frames};
pub use open::open;
pub use port::AfXdpPort;
pub use queue::AfXdpQueue;
