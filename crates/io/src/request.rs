//! Request of a workload to a port, in words that belong to no path. Each path translates it into its own settings.

use crate::{AddressRange, PortSpec, Roles, Selection};
use std::net::SocketAddr;

/// Purpose of a port's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Send test packets, and receive none.
    Send,
    /// Send test packets, and receive them back.
    SendReceive,
    /// Receive the packets that another port of the run has sent.
    Collect,
    /// Send test packets to another port of the run, and receive those that it sends.
    Exchange,
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
    /// Whether the task makes packets of its own.
    pub fn generates(self) -> bool {
        matches!(self, Self::Send | Self::SendReceive | Self::Exchange)
    }

    /// Whether a port takes frames for other MAC addresses, too: as its option `promisc=` says; without one, if the
    /// frames of such a task are often not for this host.
    pub fn promiscuous(self, said: Option<bool>) -> bool {
        said.unwrap_or(matches!(
            self,
            Self::Collect | Self::Exchange | Self::Forward | Self::Capture
        ))
    }
}

/// Marks of a flow in the IP headers that the kernel writes. `None`: as the host has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// DSCP and ECN: type of service of IPv4, traffic class of IPv6.
    pub class: Option<u8>,
    /// Time to live or hop limit, 1 to 255.
    pub ttl: Option<u8>,
    /// Flow label of IPv6, 0 to 2^20 - 1.
    pub label: Option<u32>,
}

/// Flow of the packets that a port generates, for paths on which the kernel writes the headers: a socket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketFlow {
    /// Source. Port 0: the kernel chooses one.
    pub src: SocketAddr,
    /// Destination, with the interface that a link-local address is on, if it was named.
    pub dst: SocketAddr,
    /// Marks of its packets.
    pub marks: Marks,
    /// Place of the lane that sends it, among those that send: the flow is of a stream, and its packets are known by
    /// their tags, so several flows may have the same ends. `None`: flow `f` is sent by lane `f` modulo their number.
    pub lane: Option<u32>,
}

impl From<(SocketAddr, SocketAddr)> for SocketFlow {
    fn from((src, dst): (SocketAddr, SocketAddr)) -> Self {
        Self {
            src,
            dst,
            marks: Marks::default(),
            lane: None,
        }
    }
}

/// Request of a workload to one port.
pub struct Request<'a> {
    /// The port, as it was written.
    pub spec: &'a PortSpec,
    /// Purpose of the port's packets.
    pub task: Task,
    /// Roles of each lane; lane `i` drives queue `i`. Empty if the kernel runs the workload on its own CPUs.
    pub roles: &'a [Roles],
    /// Core of each lane, if it is pinned. As long as `roles`.
    pub cores: Vec<Option<usize>>,
    /// Which packets are the test's.
    pub selection: Selection,
    /// Addresses that the host does not have: the lanes answer for them (ARP, neighbour discovery, ping), so packets
    /// that ask for them are wanted, too.
    pub answer: Vec<AddressRange>,
    /// Flows that are generated, for a port with sockets; `None` for other tasks and ports.
    pub flows: Option<Vec<SocketFlow>>,
    /// Seed of the payload data.
    pub seed: u64,
}
