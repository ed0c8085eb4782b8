//! Tests that need the host to themselves, and run one by one. Searches repeat each trial in which the host kept a
//! lane from running, so they take long on a busy host. `dpdk_closing` passes a descriptor that a child of another test
//! would keep open.

mod compare;
mod dpdk_closing;
mod ndr;
mod overload;
mod rfc2544;
