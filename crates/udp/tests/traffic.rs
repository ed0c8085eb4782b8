//! Datagrams arrive as they were sent, where they should.

mod common;
#[path = "common/traffic.rs"]
mod shared;
/// The path that the tests are of.
mod path {
    pub(crate) const NAME: &str = "udp";
    pub(crate) use mpps_udp::{Mode, UdpPort as PathPort, check, open};
}
