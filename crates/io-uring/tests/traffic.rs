//! Datagrams arrive as they were sent, where they should.

#[path = "../../udp/tests/common/mod.rs"]
mod common;
#[path = "../../udp/tests/common/traffic.rs"]
mod shared;
/// The path that the tests are of.
mod path {
    pub(crate) const NAME: &str = "io_uring";
    pub(crate) use mpps_io_uring::{Mode, UringPort as PathPort, check, open};
}
use shared::{all_sizes, arrivals_are_the_kernels, comes_back, one_way};

/// Ways to drive the ring. Each must carry every packet.
const WAYS: [&str; 7] = [
    ",multishot=off",
    ",direct=off",
    ",taskrun=coop",
    ",taskrun=interrupt",
    ",sqpoll=50",
    ",zerocopy=1",
    ",buffers=16,sends=3",
];

#[test]
fn datagrams_arrive_bit_identical_whatever_way_the_ring_is_driven() {
    let sizes: Vec<usize> = all_sizes().into_iter().step_by(5).collect();
    for way in WAYS {
        one_way("127.0.0.1", way, way, &sizes);
        one_way("127.0.0.1", &format!("{way},gso=on"), &format!("{way},gro=on"), &sizes);
    }
}

#[test]
fn what_a_listener_sends_back_returns_whatever_way_the_ring_is_driven() {
    for way in WAYS {
        comes_back("127.0.0.1", "127.0.0.1", way);
        comes_back("0.0.0.0", "127.0.0.7", &format!("{way},gso=on,gro=on"));
        comes_back("[::]", "::1", way);
    }
}

#[test]
fn the_kernels_times_of_arrival_come_by_requests_for_one_packet_too() {
    arrivals_are_the_kernels(",multishot=off");
}

#[test]
fn the_largest_datagram_passes_by_zero_copy() {
    one_way("127.0.0.1", ",zerocopy=1000", "", &[65_507, 65_507, 999, 1000]);
}
