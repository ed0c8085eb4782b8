//! A C shim over DPDK at burst granularity, and the layout of an mbuf. Empty where libdpdk is not installed.
//!
//! `rte_eth_rx_burst` and the like are inline functions that can't be linked to: the shim calls them, once per burst.
//! Per-packet fields (address, length, flags of an mbuf) are read and written from Rust, inlined, through [`RteMbuf`].
//! Its layout is checked at compile time on both sides: by `_Static_assert` in `shim/burst.c` against the headers of
//! the DPDK that is installed, and by `const` assertions here.

/// Version of libdpdk that this was built against (`22.11.4`); `None`: built without.
pub const VERSION: Option<&str> = option_env!("DPDK_VERSION");

/// Whether net_memif is linked in with the shim between it and its other end.
pub const MEMIF_CHECKED: bool = option_env!("MPPS_MEMIF_CHECKED").is_some();

/// A plug-in for the environment abstraction layer of other programs, which counts what their ports do (a shared
/// object, `peer/peer.c`); empty in a build without DPDK.
pub const PEER_PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mpps_peer.so"));

#[cfg(dpdk)]
mod ffi;
mod mbuf;

#[cfg(dpdk)]
pub use ffi::*;
pub use mbuf::{RX_L4_GOOD, RX_L4_MASK, RX_L4_PARTIAL, RX_UNMARKED, RteMbuf, TX_UDP_CHECKSUM};
