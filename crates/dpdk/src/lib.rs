//! The `dpdk` path: every poll-mode driver of DPDK behind the traits of `mpps-io`.
//!
//! Built against libdpdk where `pkg-config` finds it; elsewhere the types are the same, and opening says what is missing.

mod config;
mod eal_args;
mod options;

#[cfg(not(dpdk))]
mod absent;
#[cfg(not(dpdk))]
pub use absent::{DpdkFrame, DpdkPool, DpdkPort, DpdkQueue, open, start};

pub use config::{Checksum, Config, Device, LINK_WAIT, OWN, Rss, check};
pub use eal_args::{EalArgs, check_eal};
pub use options::Open;

/// Version of the DPDK that this build was made with (`22.11.4`); `None`: built without.
pub const VERSION: Option<&str> = dpdk_sys::VERSION;
