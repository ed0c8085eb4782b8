//! A C shim over DPDK at burst granularity, and the layout of an mbuf.
#![allow(missing_docs)]
/// Version of libdpdk that this was built against; `None`: built without.
pub const VERSION: Option<&str> = option_env!("DPDK_VERSION");
