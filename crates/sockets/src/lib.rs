//! UDP sockets as packet paths use them: opened and dealt to lanes, with the lanes' packet memory and the form that
//! datagrams have in system calls.
//!
//! Two paths carry the same packets by the same sockets and differ in how they call the kernel: `udp` in batched system
//! calls, `io_uring` in rings. All that does not depend on that is here once: addresses and options, the set-up of
//! sockets and their division among lanes ([`Sockets`]), buffers and frames ([`Pool`]), control messages and
//! segmentation ([`message`]), the meaning of the kernel's errors ([`failure`]).

pub mod address;
pub mod config;
pub mod counters;
pub mod failure;
mod fill;
pub mod message;
mod open;
pub mod pool;
pub mod raw;
mod socket;
mod sockets;

pub use config::{Config, DEFAULT_PORT};
pub use fill::Fill;
pub use open::{Mode, open};
pub use pool::{Pool, SocketFrame};
pub use socket::{descriptor_limit, set_option};
pub use sockets::{Endpoint, Lane, Sockets};
