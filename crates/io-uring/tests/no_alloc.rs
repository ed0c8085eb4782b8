//! Nothing on the packet path allocates.

#[path = "../../udp/tests/common/mod.rs"]
mod common;
#[path = "../../engine/tests/counting/mod.rs"]
mod counting;
#[path = "../../udp/tests/common/no_alloc.rs"]
mod shared;
/// The path that the tests are of.
mod path {
    pub(crate) const NAME: &str = "io_uring";
    pub(crate) const WAYS: [&str; 8] = [
        "",
        ",gso=on,gro=on",
        ",multishot=off",
        ",direct=off",
        ",taskrun=interrupt",
        ",sqpoll=50",
        ",zerocopy=1",
        ",buffers=16,sends=3,cq=16",
    ];
    pub(crate) use mpps_io_uring::{Mode, UringPort as PathPort, check, open};
}
