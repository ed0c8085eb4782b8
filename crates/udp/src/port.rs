//! An opened port: its sockets, which each lane calls by itself.

use crate::queue::UdpQueue;
use mpps_io::around::Watch;
use mpps_io::{Capabilities, Error, Fact, Port, QueueCounters, Result, Roles};
use mpps_sockets::{Config, Mode, Pool, Sockets};
use std::net::SocketAddr;

/// Frames of one lane that can be in hand at a time: two full bursts, what is posted to the kernel, and as much again.
const POOL_FRAMES: u32 = 1024;
/// Buffers for coalesced packets: a full burst of single datagrams, what is posted, and room for frames held back.
const POOL_SUPER: u32 = 512;

/// UDP sockets opened for a set of lanes; made by [`open`].
pub struct UdpPort {
    sockets: Sockets,
}

/// Opens the sockets.
///
/// # Errors
/// The same as for [`mpps_sockets::open`].
pub fn open(config: Config, mode: Mode, roles: &[Roles]) -> Result<UdpPort> {
    let sockets = mpps_sockets::open("udp", config, mode, roles)?;
    Ok(UdpPort { sockets })
}

impl UdpPort {
    /// Number of flows (connected) or listening sockets.
    pub fn sockets(&self) -> usize {
        self.sockets.count()
    }

    /// The address that the listening sockets are bound to, or that of the first flow.
    pub fn local_address(&self) -> SocketAddr {
        self.sockets.local_address()
    }
}

impl Port for UdpPort {
    type Pool = Pool;
    type Queue<'p> = UdpQueue<'p>;

    fn capabilities(&self) -> &Capabilities {
        self.sockets.capabilities()
    }

    fn pool(&self, queue: usize) -> Result<Pool> {
        let lane = self.sockets.lane(queue)?;
        let large = if self.sockets.kind().gro && !lane.rx.is_empty() {
            POOL_SUPER
        } else {
            0
        };
        Pool::new(POOL_FRAMES, self.capabilities().max_frame, large, 0)
            .map_err(|e| Error::os("map the buffers of", format!("udp queue {queue}"), &e))
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p Pool) -> Result<UdpQueue<'p>> {
        let lane = self.sockets.take_lane(queue)?;
        UdpQueue::new(&self.sockets, pool, lane).inspect_err(|_| lane.give_back())
    }

    fn times_arrivals(&self) -> bool {
        self.sockets.config().timed()
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        self.sockets.counters(queue)
    }

    fn rx_dropped(&self, queue: usize) -> Option<u64> {
        self.sockets.rx_dropped(queue)
    }

    fn coalesces(&self) -> bool {
        self.sockets.kind().gro
    }

    fn watches(&self) -> Vec<Box<dyn Watch>> {
        self.sockets.watches()
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = self.sockets.facts();
        let system = || std::fs::read_to_string("/proc/sys/net/core/busy_read").map(|s| s.trim().to_owned());
        let busy_poll = self
            .sockets
            .config()
            .busy_poll
            .map(|us| us.to_string())
            .or_else(|| system().ok());
        facts.extend(busy_poll.map(|us| Fact::new("busy_poll_us", us)));
        facts
    }
}
