//! The udp path: kernel UDP sockets, driven in bursts.
//!
//! Runs on any Linux without privilege, so it is the path that everyone can start with, and the one whose speed is
//! the kernel's: about 1.5 µs a datagram, nearly all of it below the system call. Batching system calls therefore
//! gains little; what gains an order of magnitude is segmentation (`gso=on`, `gro=on`), where the stack is passed
//! once for up to 128 datagrams.
//!
//! The path carries payloads only. Two ways to open it:
//!
//! * [`Mode::Connected`]: one connected socket per flow. The kernel caches the route, filters foreign senders and
//!   delivers each flow to the lane that owns it. A burst should hold frames of one flow, because one system call
//!   serves one socket.
//! * [`Mode::Listening`]: one socket per lane on the same address and port (`SO_REUSEPORT`; the kernel spreads flows by
//!   hash). A received frame carries its sender, and transmitting it sends it back there.
//!
//! Counters of a port ([`mpps_io::Port::counters`]):
//!
//! | counter | meaning |
//! |---|---|
//! | `rx_dropped` | datagrams that the kernel dropped at our sockets: buffer full, or checksum wrong; see below |
//! | `tx_failed` | datagrams that we passed to the kernel and it refused for good |
//! | `refused` | pending ICMP "port unreachable" that a call brought: the peer has no listener. Never ends a run |
//! | `icmp_errors` | other pending ICMP errors that a call brought |
//! | `tx_again` | transmit calls cut short because the socket buffer or the device queue was full |
//! | `blocked` | of `tx_failed`: by a firewall rule (`EPERM`) |
//! | `unreachable` | of `tx_failed`: no route back to the sender of a received datagram, or it can't be answered |
//! | `rx_truncated` | datagrams longer than the largest frame, cut on receipt |
//!
//! `rx_dropped` is the number that `SO_RXQ_OVFL` attaches to every datagram. It is read with `SO_MEMINFO` instead, so
//! that it costs the packet path nothing and is there when nothing is received any more. With `gro=on` the kernel
//! counts one dropped super-packet, of up to 128 datagrams, as one.
//!
//! A frame can't outlive its pool:
//!
//! ```compile_fail
//! use mpps_io::{Burst, Port, Queue};
//! fn escape(port: &mpps_udp::UdpPort) {
//!     let mut burst = Burst::new(1);
//!     {
//!         let pool = port.pool(0).unwrap();
//!         port.queue(0, &pool).unwrap().allocate(&mut burst, 1).unwrap();
//!     }
//!     drop(burst);
//! }
//! ```
//!
//! nor move to another thread:
//!
//! ```compile_fail
//! fn send(frame: mpps_udp::UdpFrame<'static>) {
//!     std::thread::spawn(move || drop(frame));
//! }
//! ```
//!
//! while the same code on one thread, within the pool's life, compiles:
//!
//! ```
//! use mpps_io::{Burst, Port, Queue};
//! fn stay(port: &mpps_udp::UdpPort) {
//!     let pool = port.pool(0).unwrap();
//!     let mut burst = Burst::new(1);
//!     port.queue(0, &pool).unwrap().allocate(&mut burst, 1).unwrap();
//!     drop(burst);
//! }
//! fn keep(frame: mpps_udp::UdpFrame<'static>) {
//!     drop(frame);
//! }
//! ```

mod config;
mod port;
mod queue;
mod ready;
mod receive;
mod transmit;

pub use config::check;
pub use mpps_sockets::{Config, DEFAULT_PORT, Mode, Pool as UdpPool, SocketFrame as UdpFrame};
pub use port::{UdpPort, open};
pub use queue::UdpQueue;
