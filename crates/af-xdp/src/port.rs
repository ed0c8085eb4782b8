//! An interface opened through AF_XDP: sockets, XDP program, what each lane owns of them, and what was counted.

use crate::config::Config;
use crate::error::of;
use crate::layout::{Depth, Shares};
use crate::queue::AfXdpQueue;
use mpps_io::Mailbox;
use mpps_io::around::Watch;
use mpps_io::{Capabilities, Error, ErrorKind, Fact, Port, QueueCounters, Result, counter};
use mpps_netdev::{DeviceWatch, NetDev, Promiscuous, WatchOptions};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use xsk::{Pool, Program, RxHalf, Socket, TxHalf, Umem};

/// Most queues of one port: the entries of the XDP program's map of sockets.
pub(crate) const MAX_QUEUES: usize = 64;

/// The halves of queues that one lane owns.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) rx: Vec<RxHalf>,
    pub(crate) tx: Vec<TxHalf>,
}

/// An interface opened through AF_XDP.
pub struct AfXdpPort {
    pub(crate) capabilities: Capabilities,
    pub(crate) config: Config,
    pub(crate) device: NetDev,
    /// Number of queues that the device had when the port was opened.
    pub(crate) queues_then: u32,
    pub(crate) umem: Arc<Umem>,
    /// By position in `shares`.
    pub(crate) sockets: Vec<Socket>,
    pub(crate) shares: Shares,
    /// Not taken yet, by lane.
    pub(crate) parts: Vec<Mutex<Option<Parts>>>,
    /// Chunks of each lane's pool, which the lane of a second port over the same memory uses, too: all but those in the
    /// fill rings.
    pub(crate) frames: Vec<u32>,
    /// By lane: it only receives.
    pub(crate) gathers: Vec<bool>,
    pub(crate) program: Option<Program>,
    /// Held for as long as the port is open.
    pub(crate) _promiscuous: Option<Promiscuous>,
    pub(crate) mailbox: Mailbox,
    /// Frames left in the TX rings when the queue was given up, by lane.
    pub(crate) unsent: Vec<AtomicU64>,
    /// Requests that could not be met.
    pub(crate) remarks: Vec<String>,
}

impl AfXdpPort {
    /// The interface, as it was when the port was opened.
    pub fn device(&self) -> &NetDev {
        &self.device
    }

    /// Remarks for the user: requests that could not be met, and better settings that could not be had.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Notes frames that were taken and are still in the TX ring of a lane that has ended. A device that reads the ring
    /// itself goes on sending them.
    pub(crate) fn note_unsent(&self, lane: usize, frames: u64) {
        if !self.sockets.first().is_some_and(|socket| socket.options().zero_copy) {
            self.unsent[lane].fetch_add(frames, Ordering::Relaxed);
        }
    }

    pub(crate) fn timed(&self) -> bool {
        self.config.timed() && self.program.is_some()
    }

    /// Whether the lane may let packets gather before it looks at them.
    pub(crate) fn gathers(&self, lane: usize) -> bool {
        self.gathers[lane]
    }

    pub(crate) fn busy_poll(&self) -> bool {
        self.config.busy_budget.is_some()
    }

    pub(crate) fn lane_name(&self, lane: usize) -> Arc<str> {
        format!("{} lane {lane}", self.config.device).into()
    }

    /// Chunks that wait in each fill ring.
    pub(crate) fn fill_limit(&self) -> usize {
        Depth::of(&self.config).fill as usize
    }

    /// Descriptors of the sockets that the lane receives from.
    pub(crate) fn rx_descriptors(&self, lane: usize) -> impl Iterator<Item = BorrowedFd<'_>> {
        let sockets = &self.sockets;
        self.shares.rx[lane]
            .iter()
            .filter_map(|&position| sockets[position as usize].descriptor())
    }

    /// Returns the number of queues that the device got since the port was opened: they have no socket, and packets go
    /// past.
    fn queues_added(&self) -> u64 {
        // It may have another name now.
        let device = NetDev::by_index(self.device.ifindex).ok();
        let now = device.and_then(|device| xsk::Device::named(&device.name).ok()?.queues().ok());
        now.map_or(0, |now| now.current.saturating_sub(self.queues_then).into())
    }

    fn exists(&self, lane: usize) -> Result<()> {
        if lane < self.parts.len() {
            return Ok(());
        }
        let cause = format!("there are {} lanes", self.parts.len());
        Err(Error::new("open", self.lane_name(lane), cause, ErrorKind::NotFound))
    }
}

impl Port for AfXdpPort {
    type Pool = Pool;
    type Queue<'p> = AfXdpQueue<'p>;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn pool(&self, queue: usize) -> Result<Pool> {
        self.exists(queue)?;
        Pool::new(&self.umem, self.frames[queue]).map_err(of)
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p Pool) -> Result<AfXdpQueue<'p>> {
        self.exists(queue)?;
        let parts = self.parts[queue].lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(parts) = parts else {
            return Err(Error::new(
                "open",
                self.lane_name(queue),
                "it is in use",
                ErrorKind::InUse,
            ));
        };
        let made = AfXdpQueue::new(self, queue, parts, pool)?;
        // From here on packets come in: the fill ring has its chunks.
        if let Some(program) = &self.program {
            for &position in &self.shares.rx[queue] {
                program
                    .insert(self.config.first + position, &self.sockets[position as usize])
                    .map_err(of)?;
            }
        }
        Ok(made)
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        let mut counters = QueueCounters::default();
        let mut other = [0; 4];
        let none = Vec::new();
        let rx = self.shares.rx.get(queue).unwrap_or(&none);
        let tx = self.shares.tx.get(queue).unwrap_or(&none);
        for (position, socket) in (0..).zip(&self.sockets) {
            // A socket that is gone has no statistics any more; what it counted is lost with it.
            let Ok(statistics) = socket.statistics() else { continue };
            if rx.contains(&position) {
                // A frame without a chunk is counted in rx_dropped, too.
                counters.rx_dropped += statistics.rx_dropped + statistics.rx_ring_full;
                other[0] += statistics.rx_ring_full;
                other[1] += statistics.rx_fill_ring_empty_descs;
                other[2] += statistics.rx_invalid_descs;
            }
            if tx.contains(&position) {
                // Taken, and then refused by the driver.
                counters.tx_failed += statistics.tx_invalid_descs + statistics.tx_dropped;
                other[3] += statistics.tx_dropped;
            }
        }
        let unsent = self.unsent.get(queue).map_or(0, |n| n.load(Ordering::Relaxed));
        counters.tx_failed += unsent;
        counters.other.push(("tx_never_taken", unsent));
        if queue == 0
            && let Some(counts) = self.program.as_ref().and_then(|program| program.counters().ok())
        {
            counters.other.push((counter::LEFT_TO_HOST, counts.passed));
            counters.other.push((counter::NO_SOCKET, counts.no_socket));
            counters.other.push((counter::NO_ROOM_FOR_RX_TIME, counts.no_metadata));
            match self.queues_added() {
                0 => {}
                added => counters.other.push((counter::QUEUES_ADDED, added)),
            }
        }
        counters.other.push(("rx_ring_full", other[0]));
        counters.other.push(("rx_fill_ring_empty", other[1]));
        counters.other.push(("rx_invalid_descriptors", other[2]));
        counters.other.push(("tx_dropped_by_driver", other[3]));
        counters
    }

    fn rx_dropped(&self, queue: usize) -> Option<u64> {
        let sockets = self.shares.rx.get(queue)?.iter();
        let dropped = sockets.filter_map(|&position| {
            let statistics = self.sockets.get(position as usize)?.statistics().ok()?;
            Some(statistics.rx_dropped + statistics.rx_ring_full)
        });
        Some(dropped.sum())
    }

    fn times_arrivals(&self) -> bool {
        self.timed()
    }

    fn shares_pools_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.umem, &other.umem)
    }

    fn watches(&self) -> Vec<Box<dyn Watch>> {
        let options = WatchOptions {
            // Drops of other devices are counted by the port, as those of the interface.
            device: self.device.driver == "ifb",
            // ICMP for an address of the host's goes to the host: only its counters show it.
            kernel: true,
            arrivals: true,
            ..WatchOptions::default()
        };
        vec![Box::new(DeviceWatch::new(&self.device, options))]
    }

    fn facts(&self) -> Vec<Fact> {
        let options = self.sockets.first().map(Socket::options).unwrap_or_default();
        let umem = self.umem.config();
        let skb = self
            .program
            .as_ref()
            .is_some_and(|program| program.mode() == xsk::AttachedMode::Skb);
        let mode = match (skb, options.zero_copy) {
            (_, true) => "zero-copy",
            (true, _) => "skb",
            _ => "copy",
        };
        let mut facts = vec![
            Fact::shown("driver", self.device.driver.clone()),
            Fact::shown("mode", mode),
            Fact::new("queues", self.sockets.len().to_string()),
            Fact::new("rx_ring_entries", options.rings.rx.to_string()),
            Fact::new("tx_ring_entries", options.rings.tx.to_string()),
            Fact::new("fill_ring_entries", options.rings.fill.to_string()),
            Fact::new("chunk_bytes", umem.frame_size.to_string()),
            Fact::new("chunks", umem.frames.to_string()),
            Fact::new("unaligned_chunks", umem.unaligned.to_string()),
            Fact::new("need_wakeup", options.need_wakeup.to_string()),
            Fact::new("mtu_bytes", self.device.mtu.to_string()),
        ];
        let budget = options
            .tx_budget
            .map_or_else(|| "the kernel's (32)".to_owned(), |n| n.to_string());
        facts.push(Fact::new("tx_budget", budget));
        if let Some(budget) = self.config.busy_budget {
            // A socket knows its poll loop once a packet has come by it; on veth it never does.
            let polled = self.sockets.iter().any(|socket| socket.incoming_napi_id().is_some());
            let how = if polled {
                format!("{budget} packets a call")
            } else {
                "nothing to poll: no NAPI id".to_owned()
            };
            facts.push(Fact::new("busy_poll", how));
        }
        if let Some(program) = &self.program {
            facts.push(Fact::new("xdp_program", program.mode().to_string()));
        }
        facts
    }
}
