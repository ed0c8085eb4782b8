//! The io_uring path: kernel UDP sockets, driven by submission and completion rings.
//!
//! The path carries the same payloads by the same sockets as the udp path ([`mpps_sockets`]), connected or listening,
//! and differs in how the kernel is called:
//!
//! * **Receiving.** The lane provides buffers in a ring of their own. One request per socket stays armed (multishot)
//!   and each packet is a completion that names the buffer it is in. Many sockets need no `epoll`: all complete in one
//!   ring. A request ends when buffers run dry, when completions overflow, with an ICMP error; it is armed again, and
//!   what the socket received meanwhile waits in the socket.
//! * **Sending.** One submission per datagram, or per run of them with `gso=on`; one call hands a burst over, whatever
//!   sockets it is for. Taken means handed over: the frame's buffer is the kernel's until its completion, with zero
//!   copy until the notification. What the socket had no room for is tried again, in order, before anything new is
//!   taken.
//! * **The ring is one lane's**, made on its thread (`SINGLE_ISSUER`, `DEFER_TASKRUN`): the kernel works for it when
//!   the lane asks, and a look into the completion queue costs no call if nothing has come.
//!
//! No packet is lost by us. Completions that overflow are kept by the kernel (`IORING_FEAT_NODROP`, without which the
//! path is refused) and fetched when the ring says so; the completion queue has room for all that can complete at a
//! time unless `cq=` asks for less. A send that fails late is counted as not sent. A queue that is dropped ends what is
//! under way and gives every buffer back; what was not sent by then is `tx_failed`.
//!
//! Counters beside those of `udp`: [`UringPort`] and docs/paths/io_uring.md.
//!
//! Bundles (`IORING_RECVSEND_BUNDLE`) are for streams, where several buffers are one stretch of bytes: a datagram is a
//! send of its own. Zero-copy receive is for TCP.

mod buf_ring;
mod config;
mod counters;
mod ledger;
mod port;
mod queue;
mod receive;
mod ring;
mod sends;
mod transmit;
mod user_data;

pub use config::{Config, TaskRun, check};
pub use ledger::Audit;
pub use mpps_sockets::{DEFAULT_PORT, Mode, Pool as UringPool, SocketFrame as UringFrame};
pub use port::{UringPort, open};
pub use queue::UringQueue;
