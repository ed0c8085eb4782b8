//! The `dpdk` path: every poll-mode driver of DPDK behind the traits of `mpps-io`.
//!
//! Built against libdpdk if `pkg-config` finds it; else the types are the same, and opening says what is
//! missing.
//!
//! - **A frame is an mbuf pointer**, eight bytes: a burst is the array that DPDK's own calls take, so nothing is copied
//!   between the two. Address and length are read from the mbuf where they are needed.
//! - **A mempool per lane**, which its receive queue fills from and its sending half takes from. Pools live until every
//!   port of the process is closed, because a frame may lie in the ring of another port than it came in by.
//! - **DPDK is started once per process** ([`start`]), for all ports of a run, in memory of its own: no files, no
//!   shared configuration, no telemetry, so any number of processes run at once and nothing is left behind.
//! - **Lanes are ordinary threads** that register with the EAL, so that the mempools' caches are theirs; where they run
//!   is the engine's to say.

mod config;
mod eal_args;
// A build without DPDK changes nothing, and mends what another has left.
#[cfg_attr(not(dpdk), allow(dead_code))]
mod journal;
mod options;
mod privileges;

#[cfg(not(dpdk))]
mod absent;
#[cfg(dpdk)]
mod beneath;
#[cfg(dpdk)]
mod counters;
#[cfg(dpdk)]
mod eal;
#[cfg(dpdk)]
mod flow;
#[cfg(dpdk)]
mod frame;
#[cfg(dpdk)]
mod link;
#[cfg(dpdk)]
mod memif;
#[cfg(dpdk)]
mod memory;
#[cfg(dpdk)]
mod open;
#[cfg(dpdk)]
mod pool;
#[cfg(dpdk)]
mod port;
#[cfg(dpdk)]
mod queue;
#[cfg(dpdk)]
mod tap;
#[cfg(dpdk)]
mod told;

#[cfg(not(dpdk))]
pub use absent::{DpdkFrame, DpdkPool, DpdkPort, DpdkQueue, open, start};
pub use config::{Checksum, Config, Device, LINK_WAIT, OWN, Rss, check};
#[cfg(dpdk)]
pub use eal::start;
pub use eal_args::{EalArgs, check_eal};
#[cfg(dpdk)]
pub use frame::DpdkFrame;
pub use journal::mend;
#[cfg(dpdk)]
pub use open::open;
pub use options::Open;
#[cfg(dpdk)]
pub use pool::DpdkPool;
#[cfg(dpdk)]
pub use port::DpdkPort;
pub use privileges::Privileges;
#[cfg(dpdk)]
pub use queue::DpdkQueue;

/// Version of the DPDK that this build was made with (`22.11.4`); `None`: built without.
pub const VERSION: Option<&str> = dpdk_sys::VERSION;

/// The plug-in that other DPDK programs load to be counted (`mpps trace peer`); empty: built without.
pub const PEER_PLUGIN: &[u8] = dpdk_sys::PEER_PLUGIN;
