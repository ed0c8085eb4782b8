//! An opened port: its sockets, and who serves which.

use crate::config::Config;
use crate::counters::LaneCounters;
use crate::pool::{NO_FLOW, UdpPool};
use crate::queue::UdpQueue;
use crate::receive::Kind;
use crate::socket::Socket;
use crate::transmit::Gso;
use mpps_io::{Capabilities, Error, ErrorKind, Fact, Port, QueueCounters, Result, counter};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Frames of one lane that can be in hand at a time: two full bursts, what is posted to the kernel, and as much again.
const POOL_FRAMES: u32 = 1024;
/// Buffers for coalesced packets: a full burst of single datagrams, what is posted, and room for frames held back.
const POOL_SUPER: u32 = 512;
/// Largest coalesced packet that the kernel delivers: an IP packet's most.
const SUPER_BYTES: usize = 65_536;

/// What one lane serves.
pub(crate) struct Lane {
    /// Sockets that it sends by, as indices into the port's.
    pub(crate) tx: Box<[u32]>,
    /// Sockets that it receives from.
    pub(crate) rx: Box<[u32]>,
    pub(crate) counters: LaneCounters,
    pub(crate) taken: AtomicBool,
    /// Of its receiving sockets the one whose drops are asked for next.
    pub(crate) next_asked: AtomicUsize,
}

/// Sockets whose drops are asked for at one reading: each is a system call, and a lane may have thousands.
const SOCKETS_A_READING: usize = 64;

/// One socket of the port.
pub(crate) struct Endpoint {
    pub(crate) socket: Socket,
    pub(crate) local: SocketAddr,
    /// Where a connected socket sends.
    pub(crate) peer: Option<SocketAddr>,
}

/// What the kernel granted, for the report.
pub(crate) struct Got {
    pub(crate) rcvbuf: usize,
    pub(crate) sndbuf: usize,
    pub(crate) interface: Option<String>,
    pub(crate) mtu: Option<usize>,
}

/// UDP sockets opened for a set of lanes; made by [`crate::open`].
pub struct UdpPort {
    pub(crate) config: Config,
    pub(crate) capabilities: Capabilities,
    pub(crate) kind: Kind,
    pub(crate) gso: Option<Gso>,
    pub(crate) endpoints: Box<[Endpoint]>,
    pub(crate) lanes: Box<[Lane]>,
    pub(crate) got: Got,
    /// Drops of each socket so far: the kernel's 32-bit count, extended.
    pub(crate) drops: Mutex<Box<[u64]>>,
}

impl UdpPort {
    /// Number of flows (connected) or listening sockets.
    pub fn sockets(&self) -> usize {
        self.endpoints.len()
    }

    /// The address that the listening sockets are bound to, or that of the first flow.
    pub fn local_address(&self) -> SocketAddr {
        self.endpoints[0].local
    }

    pub(crate) fn socket(&self, socket: u32) -> &Socket {
        &self.endpoints[socket as usize].socket
    }

    #[inline]
    pub(crate) fn fd(&self, socket: u32) -> RawFd {
        self.endpoints[socket as usize].socket.fd()
    }

    /// What frames received from this socket say their flow is.
    #[inline]
    pub(crate) fn flow_of(&self, socket: u32) -> u32 {
        if self.kind.listening { NO_FLOW } else { socket }
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    #[inline]
    pub(crate) fn gso(&self) -> Option<Gso> {
        self.gso
    }

    /// Adds to an error of sending on `socket` between which addresses it was.
    #[cold]
    pub(crate) fn explain(&self, socket: u32, mut error: Error) -> Error {
        let endpoint = &self.endpoints[socket as usize];
        error.object = match endpoint.peer {
            Some(peer) => format!("{} from {} to {peer}", error.object, endpoint.local),
            None => format!("{} from {}", error.object, endpoint.local),
        }
        .into();
        error
    }

    fn lane(&self, queue: usize) -> Result<&Lane> {
        self.lanes.get(queue).ok_or_else(|| {
            let cause = format!("the port was opened with {} queues", self.lanes.len());
            Error::new("use", format!("udp queue {queue}"), cause, ErrorKind::NotFound)
        })
    }
}

impl Port for UdpPort {
    type Pool = UdpPool;
    type Queue<'p> = UdpQueue<'p>;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn pool(&self, queue: usize) -> Result<UdpPool> {
        let lane = self.lane(queue)?;
        let large = if self.kind.gro && !lane.rx.is_empty() {
            POOL_SUPER
        } else {
            0
        };
        let large_bytes = if large > 0 { SUPER_BYTES } else { 0 };
        UdpPool::new(POOL_FRAMES, self.capabilities.max_frame, large, large_bytes)
            .map_err(|e| Error::os("map the buffers of", format!("udp queue {queue}"), &e))
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p UdpPool) -> Result<UdpQueue<'p>> {
        let lane = self.lane(queue)?;
        if lane.taken.swap(true, Ordering::Acquire) {
            return Err(Error::new(
                "use",
                format!("udp queue {queue}"),
                "taken by another lane",
                ErrorKind::InUse,
            ));
        }
        UdpQueue::new(self, pool, lane).inspect_err(|_| lane.taken.store(false, Ordering::Release))
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        let Some(lane) = self.lanes.get(queue) else {
            return QueueCounters::default();
        };
        let mut drops = self.drops.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut rx_dropped = 0;
        for &socket in &lane.rx {
            let total = &mut drops[socket as usize];
            let now = self.endpoints[socket as usize].socket.drops();
            *total += u64::from(now.wrapping_sub(*total as u32));
            rx_dropped += *total;
        }
        let c = &lane.counters;
        QueueCounters {
            rx_dropped,
            tx_failed: c.tx_failed.get(),
            other: vec![
                (counter::REFUSED, c.refused.get()),
                ("icmp_errors", c.icmp_errors.get()),
                ("tx_again", c.tx_again.get()),
                ("blocked", c.blocked.get()),
                ("unreachable", c.unreachable.get()),
                ("rx_truncated", c.rx_truncated.get()),
            ],
        }
    }

    /// Of many sockets a few are asked at a time, in turn.
    fn rx_dropped(&self, queue: usize) -> Option<u64> {
        let lane = self.lanes.get(queue)?;
        let mut drops = self.drops.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let asked = lane.rx.len().min(SOCKETS_A_READING);
        let first = lane.next_asked.fetch_add(asked, Ordering::Relaxed);
        for i in first..first + asked {
            let socket = lane.rx[i % lane.rx.len()] as usize;
            let total = &mut drops[socket];
            let now = self.endpoints[socket].socket.drops();
            *total += u64::from(now.wrapping_sub(*total as u32));
        }
        Some(lane.rx.iter().map(|&socket| drops[socket as usize]).sum())
    }

    fn coalesces(&self) -> bool {
        self.kind.gro
    }

    fn facts(&self) -> Vec<Fact> {
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        let mut facts = vec![
            Fact::shown(
                "mode",
                if self.kind.listening { "listening" } else { "connected" }.to_owned(),
            ),
            Fact::new("local_address", self.local_address().to_string()),
            Fact::new("sockets", self.endpoints.len().to_string()),
            Fact::shown("rcvbuf_bytes", self.got.rcvbuf.to_string()),
            Fact::new("sndbuf_bytes", self.got.sndbuf.to_string()),
            Fact::shown("gso", switch(self.gso.is_some())),
            Fact::shown("gro", switch(self.kind.gro)),
        ];
        if let Some(gso) = self.gso {
            facts.push(Fact::new("gso_max_segments", gso.segments.to_string()));
        }
        let system = || std::fs::read_to_string("/proc/sys/net/core/busy_read").map(|s| s.trim().to_owned());
        let busy_poll = self.config.busy_poll.map(|us| us.to_string()).or_else(|| system().ok());
        facts.extend(busy_poll.map(|us| Fact::new("busy_poll_us", us)));
        facts.extend(self.got.interface.clone().map(|name| Fact::new("interface", name)));
        facts.extend(self.got.mtu.map(|mtu| Fact::new("mtu_bytes", mtu.to_string())));
        facts
    }
}
