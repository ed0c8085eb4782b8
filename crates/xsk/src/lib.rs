//! Safe AF_XDP for Rust: move-only frames, rings inlined into the caller, no C library.
//!
//! Three things make up a program: a [`Umem`], the memory that packets lie in; a [`Socket`] on a queue of a device,
//! whose halves [`RxHalf`] and [`TxHalf`] may go to two threads; and a [`Pool`], one thread's share of the memory. A
//! half that is put over a pool moves [`Frame`]s: [`Rx::receive`] hands them out, [`Tx::send`] takes them.
//!
//! # Why it is safe
//! - A chunk of the UMEM is in exactly one place: a free list, a [`Frame`], the fill, RX, TX or completion ring, or the
//!   kernel between two of these. Frames are move-only, so a frame that was sent can't be touched, nor sent twice.
//! - Frames borrow their pool, and so can't outlive it; pools, halves and sockets hold the UMEM, so any order of
//!   dropping will do. Chunks that are in a ring when its socket is closed are found there: [`Umem::audit`] shows that
//!   none is lost and none is in two places.
//! - Pools and what borrows them stay on one thread (`!Sync`), so the packet path needs neither locks nor atomics
//!   beyond the rings' indices.
//! - Frames of two pools are distinguished by a comparison of pointers when sent, or by [`Pool::scope`] when compiled.
//! - The rings are reached through raw pointers and atomics only; what the kernel writes there is checked before use:
//!   an index gives no more than the ring's size, a descriptor no memory outside the UMEM. That it names a chunk only
//!   once is the kernel's promise (debug builds check it).
//! - Closing a socket is what makes its chunks available again. Code that duplicates its descriptor, and so keeps the
//!   kernel receiving after that, breaks the promise that a frame's bytes are its own.

pub mod abi;
mod audit;
#[cfg(test)]
mod c_side;
pub mod device;
mod error;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod frame;
mod handle;
mod ledger;
mod mapping;
mod netlink;
mod owner;
mod pool;
mod program;
mod ring;
mod rx;
mod socket;
mod sync;
mod teardown;
mod tx;
mod umem;

pub use audit::Audit;
pub use device::{Device, Queues};
pub use error::{Error, Result};
pub use frame::{Frame, TxRequest};
pub use handle::Ready;
pub use mapping::Pages;
pub use pool::{Pool, PoolRef};
pub use program::{
    Addresses, AttachedMode, Attachment, CounterReader, Counters, Filter, Match, Ports, Program, ProgramConfig,
    ProgramMode, Take, kernel_clock, load_failure,
};
pub use rx::{Rx, RxHalf};
pub use socket::{BusyPoll, Options, RingSizes, Socket, SocketConfig, SocketMode, Statistics};
pub use tx::{Tx, TxHalf};
pub use umem::{Umem, UmemConfig};

/// The README's example is compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
