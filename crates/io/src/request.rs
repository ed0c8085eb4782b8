//! What a workload needs of a port, in words that no path owns. A path makes of it what it has.

use crate::{PortSpec, Roles, Selection};
use std::net::IpAddr;

/// What the packets of a port are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Send test packets, and receive none.
    Send,
    /// Send test packets, and receive them back.
    SendReceive,
    /// Receive the packets that another port of the run has sent.
    Collect,
    /// Receive test packets.
    Drop,
    /// Send packets back to where they came from.
    Reflect,
    /// Send frames out of another port, or back out of the same.
    Forward,
    /// Keep frames in a file.
    Capture,
}

impl Task {
    /// Whether it makes packets of its own.
    pub fn generates(self) -> bool {
        matches!(self, Self::Send | Self::SendReceive)
    }

    /// Whether frames for other MAC addresses are wanted, unless the port's options say otherwise: what such a task is
    /// for is often not for this host.
    pub fn wants_every_frame(self) -> bool {
        matches!(self, Self::Collect | Self::Forward | Self::Capture)
    }
}

/// The two ends of the packets that a port generates, for paths on which the kernel writes the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source and destination UDP port of each flow.
    pub flows: Vec<(u16, u16)>,
}

/// What a workload needs of one port.
pub struct Request<'a> {
    /// The port, as it was written.
    pub spec: &'a PortSpec,
    /// What its packets are for.
    pub task: Task,
    /// What each lane does; lane `i` drives queue `i`. Empty where the kernel runs the workload on its own CPUs.
    pub roles: &'a [Roles],
    /// Core of each lane, where it is pinned. As long as `roles`.
    pub cores: Vec<Option<usize>>,
    /// Which packets are the test's.
    pub selection: Selection,
    /// Addresses that the host does not have: the lanes answer for them (ARP, neighbour discovery, ping), so packets
    /// that ask for them are wanted, too.
    pub answer: Vec<IpAddr>,
    /// The ends of what is generated; `None` for other tasks.
    pub ends: Option<Ends>,
    /// Seed of the payload data.
    pub seed: u64,
}
