//! Loops that are compiled for a port.

/// The loops that are compiled for a port. A run that needs another loop on the port must have been refused before.
pub trait Loops: Sync {
    /// `sendrecv` and `send`.
    const GENERATES: bool = true;
    /// All other workloads.
    const LISTENS: bool = true;
    /// Ports whose packets are whole frames: `capture` and `forward` need them.
    const FRAMES: bool = true;
    /// Ports whose packets are payloads of UDP.
    const PAYLOADS: bool = true;
}

/// All loops.
#[derive(Clone, Copy, Debug)]
pub struct AllLoops;

impl Loops for AllLoops {}

/// Loops of a port whose packets are whole frames.
#[derive(Clone, Copy, Debug)]
pub struct FrameLoops;

impl Loops for FrameLoops {
    const PAYLOADS: bool = false;
}

/// Loops of a port whose packets are payloads.
#[derive(Clone, Copy, Debug)]
pub struct PayloadLoops;

impl Loops for PayloadLoops {
    const FRAMES: bool = false;
}

/// Loops of a port that is opened for packets of mpps's own.
#[derive(Clone, Copy, Debug)]
pub struct GeneratorLoops;

impl Loops for GeneratorLoops {
    const LISTENS: bool = false;
}

/// Loops of a port that is opened for packets of others.
#[derive(Clone, Copy, Debug)]
pub struct ListenerLoops;

impl Loops for ListenerLoops {
    const GENERATES: bool = false;
}
