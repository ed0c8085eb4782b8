//! Nothing on the packet path allocates.

mod common;
#[path = "../../engine/tests/counting/mod.rs"]
mod counting;
#[path = "common/no_alloc.rs"]
mod shared;
/// The path that the tests are of.
mod path {
    pub(crate) const NAME: &str = "udp";
    pub(crate) const WAYS: [&str; 2] = ["", ",gso=on,gro=on"];
    pub(crate) use mpps_udp::{Mode, UdpPort as PathPort, check, open};
}
