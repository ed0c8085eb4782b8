//! The traits `Port`, `Queue` and `Frame` that every packet path implements, and the paths without a kernel.
//!
//! A *path* is a way to move packets. The engine is generic over these traits and monomorphised for each path, so
//! that nothing on the packet path is a virtual call. The shape is that of the hardware: a [`Port`] is opened once,
//! by one thread; each lane then makes its own [`Port::Pool`] (packet memory, on the lane's own thread and NUMA
//! node) and its own [`Queue`], and moves [`Frame`]s in [`Burst`]s.
//!
//! A frame borrows its pool, so no frame outlives the memory it points into; it is move-only, so a frame that was
//! sent can't be touched; and pools need not be `Sync`, so a queue can't be shared between threads.

#![forbid(unsafe_code)]

pub mod addresses;
pub mod around;
mod burst;
mod capabilities;
pub mod counter;
mod error;
mod flows;
mod forward;
mod frame;
pub mod kernel;
pub mod loopback;
mod mailbox;
pub mod null;
pub mod packet_ring;
mod port;
mod queue;
mod rate;
mod reason;
mod request;
pub mod selection;
mod spec;

/// Kept apart so that `tests/orders.rs` can put loom's types in their place. No `Word` is read while it is written.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU64 as Word, Ordering};
}

pub use addresses::AddressRange;
pub use burst::{Burst, MAX_BURST};
pub use capabilities::{Capabilities, Layer};
pub use error::{Error, ErrorKind, Obstacle, Result};
pub use flows::{Axis, FlowSet, Step};
pub use forward::{OnFull, Work};
pub use frame::{Frame, RxChecksum, RxTime};
pub use mailbox::Mailbox;
pub use port::{Fact, Port, QueueCounters, Roles};
pub use queue::{Queue, RoomUnit, RxRoom, Wait};
pub use rate::{Pacing, Rate, RateStep, Rates};
pub use reason::Reason;
pub use request::{Marks, Request, SocketFlow, Task};
pub use selection::{Selection, To};
pub use spec::{PortSpec, SpecError, SpecOptions, hide_secrets, path_name};
