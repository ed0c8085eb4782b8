//! Request of a workload to a port, in words that belong to no path. Each path translates it into its own settings.

use crate::{AddressRange, FlowSet, PortSpec, Roles, Selection, addresses};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

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

/// The two ends of the packets that a port generates, for paths on which the kernel writes the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// First source address.
    pub src: IpAddr,
    /// First destination address.
    pub dst: IpAddr,
    /// The flows between them.
    pub flows: FlowSet,
    /// Index of the interface that link-local addresses of either end are on, if it was named; else 0.
    pub scope: u32,
}

impl Ends {
    /// Source and destination of a flow.
    pub fn of(&self, flow: u32) -> (SocketAddr, SocketAddr) {
        let ((src_port, dst_port), (src, dst)) = (self.flows.ports(flow), self.flows.addresses(flow));
        let (src, dst) = (addresses::at(self.src, src), addresses::at(self.dst, dst));
        let dst = match dst {
            IpAddr::V6(ip) => SocketAddrV6::new(ip, dst_port, 0, self.scope).into(),
            ip => SocketAddr::new(ip, dst_port),
        };
        (SocketAddr::new(src, src_port), dst)
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
    /// The ends of what is generated; `None` for other tasks.
    pub ends: Option<Ends>,
    /// Seed of the payload data.
    pub seed: u64,
}
