//! The `af_packet` path: AF_PACKET sockets with memory-mapped rings, one receive and one transmit socket per queue.
//!
//! Works on every interface, needs `CAP_NET_RAW` and nothing else. Why it is built the way it is:
//!
//! - **TPACKET_V2 for both directions.** V2 hands over each packet as it arrives; V3 hands over blocks, by a timer
//!   of milliseconds when traffic is thin, which is of no use to a tool that measures microseconds.
//! - **Received frames are ring slots**, written in place and given back on drop, in any order. The kernel fills
//!   slots strictly in order, so a frame held for a whole round of the ring stops reception there; what then
//!   arrives is counted in `rx_dropped`.
//! - **Frames to send are pool buffers, copied into the ring** by transmit. The kernel empties the ring strictly in
//!   order, so slots handed out directly could be sent neither in another order nor after a neighbour was dropped.
//!   The copy costs nanoseconds while the kernel's part costs hundreds, and a received frame needs it anyway.
//! - **After each transmit the ring is settled**: a slot that the kernel did not take is taken back, so its frame is
//!   still in the burst, and nothing stale is sent when a link returns.
//! - **The kernel copies small frames whole.** With `PACKET_VNET_HDR` and a header length equal to the frame's, the
//!   socket buffer is linear instead of pointing into ring pages, which saves page references and atomics.
//! - **A lane that receives at a high rate naps instead of being woken.** Waking a sleeper costs the sender's core more
//!   than the packet itself, for every packet; see [`Queue::wait`](AfPacketQueue).
//! - **Merged frames (GSO, TSO, GRO) are split again.** On virtual links they never become packets: a sender's 64
//!   datagrams arrive as one frame. `PACKET_VNET_HDR` says how long each datagram is. A frame longer than a slot waits
//!   whole in the socket's own queue (`PACKET_COPY_THRESH`), so slots need not be larger than the MTU.
//! - **The host's stack is kept away from test packets** by [`guard`]: a small program on the interface that drops
//!   them after the socket has seen them.

mod abi;
mod config;
mod frame;
pub mod guard;
mod open;
mod pool;
mod port;
mod queue;
mod ring;
mod rx;
mod socket;
mod tx;

pub use config::{Checksum, Config, DEFAULT_RX_TIME, Fanout, GuardMode, MergedFrames, check};
pub use frame::AfPacketFrame;
pub use guard::{GuardFilter, GuardStatus, IpFilter};
pub use mpps_netdev as netdev;
pub use mpps_netdev::NetDev;
pub use pool::AfPacketPool;
pub use port::AfPacketPort;
pub use queue::AfPacketQueue;
pub use ring::{RingSize, ring_sizes};
