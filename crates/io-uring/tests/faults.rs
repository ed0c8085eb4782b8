//! What goes wrong is told, counted, and does not end a run.

#[path = "../../udp/tests/common/mod.rs"]
mod common;
#[path = "../../udp/tests/common/faults.rs"]
mod shared;
/// The path that the tests are of.
mod path {
    pub(crate) const NAME: &str = "io_uring";
    pub(crate) use mpps_io_uring::{Mode, UringPort as PathPort, check, open};
}
