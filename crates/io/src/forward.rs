//! Handling of frames that a lane passes on.

/// Handling of packets that the path does not take at once (transmit ring or socket buffer full), by a lane that passes
/// packets on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// The lane waits for room, up to 10 ms after the path last took any, and receives nothing meanwhile.
    #[default]
    Wait,
    /// The lane drops them and receives on, as DPDK's `l2fwd` does.
    Drop,
}

/// Work of a lane on each frame, beside forwarding it; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Time for which the lane spins, ns, in which memory is accessed, too.
    pub ns: u64,
    /// Words of 8 bytes that are read at random places.
    pub reads: u32,
    /// Words of 8 bytes that are written at random places.
    pub writes: u32,
    /// Memory of each direction of a lane that contains these places, bytes.
    pub memory: usize,
}
