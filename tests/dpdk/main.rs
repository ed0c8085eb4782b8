//! DPDK's virtual devices, testpmd as the other end, and `mpps trace peer`.

mod dpdk;
mod dpdk_devices;
mod dpdk_faults;
mod dpdk_forward;
mod dpdk_host;
mod dpdk_hostile;
mod dpdk_passed;
mod dpdk_peers;
mod dpdk_refusals;
mod dpdk_sockets;
mod flow;
mod on_full;
mod trace_peer;
