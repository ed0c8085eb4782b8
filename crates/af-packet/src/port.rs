//! An interface opened: its queues, its guard, what it can do and what it counted.

use crate::abi::ETH_HLEN;
use crate::config::{Checksum, Config, Fanout, GuardMode};
use crate::guard::{Guard, GuardFilter, GuardStatus};
use crate::open::Opener;
use crate::pool::AfPacketPool;
use crate::queue::AfPacketQueue;
use crate::ring::max_frame;
use crate::rx::RxSocket;
use crate::tx::TxSocket;
use mpps_io::around::Watch;
use mpps_io::{Capabilities, Error, ErrorKind, Fact, Layer, Port, QueueCounters, Result, Roles, counter};
use mpps_netdev::{DeviceWatch, NetDev, WatchOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most sockets in one fanout group that every kernel allows.
const FANOUT_MAX: usize = 256;

/// Counters of one lane's queue; each is written by one thread.
#[derive(Default)]
pub(crate) struct Counters {
    /// Lane: frames accepted, then refused as malformed.
    pub(crate) tx_failed: AtomicU64,
    /// Lane: send calls that found no buffer memory or a full device queue; the frames stayed in the burst.
    pub(crate) tx_refused: AtomicU64,
    /// Lane: received frames longer than any buffer.
    pub(crate) rx_cut: AtomicU64,
    /// Lane: merged frames that were split.
    pub(crate) rx_merged: AtomicU64,
    /// Lane: merged frames that could not be split.
    pub(crate) rx_unsplit: AtomicU64,
    /// Lane: packets of merged frames that there was no room for, or that could not be split.
    pub(crate) rx_unread: AtomicU64,
    /// Lane: received frames without a time of arrival that could be, although the kernel was to say it.
    pub(crate) rx_timed_by_lane: AtomicU64,
    /// Collector: packets that the ring had no slot for.
    rx_dropped: AtomicU64,
    /// Collector: packets that reached the socket.
    rx_seen: AtomicU64,
}

impl Counters {
    /// Adds to a counter with a single writer.
    #[inline]
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }
}

/// The sockets and rings of one queue.
#[repr(align(128))]
pub(crate) struct Lane {
    pub(crate) counters: Counters,
    pub(crate) name: Arc<str>,
    pub(crate) ifindex: u32,
    pub(crate) rx: Option<RxSocket>,
    pub(crate) tx: TxSocket,
    has_pool: AtomicBool,
    has_queue: AtomicBool,
}

impl Lane {
    /// Packets that the ring had no slot for, or the socket no memory. Asks the kernel: one system call.
    fn dropped(&self) -> u64 {
        let c = &self.counters;
        if let Some(rx) = &self.rx
            && let Ok(fresh) = rx
                .socket
                .get::<libc::tpacket_stats>(libc::SOL_PACKET, libc::PACKET_STATISTICS)
        {
            // Reading resets the kernel's counts; tp_packets includes tp_drops.
            c.rx_dropped.fetch_add(fresh.tp_drops.into(), Ordering::Relaxed);
            c.rx_seen.fetch_add(fresh.tp_packets.into(), Ordering::Relaxed);
        }
        c.rx_dropped.load(Ordering::Relaxed) + c.rx_unread.load(Ordering::Relaxed)
    }
}

/// An interface opened through AF_PACKET.
pub struct AfPacketPort {
    capabilities: Capabilities,
    config: Config,
    device: NetDev,
    lanes: Vec<Lane>,
    fanout: Option<Fanout>,
    guard: GuardStatus,
    _guards: Vec<Guard>,
}

impl AfPacketPort {
    /// Opens the interface with one queue for each entry of `roles`, and keeps the packets of `guards` from the
    /// host's stack. No packet is received before [`Port::queue`] is called for the queue.
    ///
    /// A queue without the receive role receives nothing, unless no queue has it: then queue 0 receives ARP and
    /// ICMPv6 only, which neighbour resolution needs.
    ///
    /// # Errors
    /// When the interface does not exist, the privilege is missing, memory for rings can't be had, or `guard=on`
    /// and the guard can't be attached.
    pub fn open(config: &Config, roles: &[Roles], guards: &[GuardFilter]) -> Result<Self> {
        let name: Arc<str> = config.device.as_str().into();
        let device = NetDev::of_port(&config.device, "af_packet")?;
        let receivers = roles.iter().filter(|r| r.rx).count();
        if roles.is_empty() || receivers > FANOUT_MAX {
            let cause = format!("{} queues asked for: want 1 to {FANOUT_MAX}", roles.len());
            return Err(Error::new("open", name, cause, ErrorKind::Unsupported));
        }
        let (attached, guard_status) = attach_guards(config, &device, guards)?;
        let device_checksum = match config.checksum {
            Checksum::Software => false,
            Checksum::Device => true,
            Checksum::Auto => !device.is_virtual && device.tx_checksum,
        };
        let solicited = guards.iter().flat_map(GuardFilter::ips).cloned().collect();
        let mut opener = Opener {
            config,
            device: &device,
            name: &name,
            device_checksum,
            solicited,
            fanout: None,
        };
        let mut lanes = Vec::with_capacity(roles.len());
        for (queue, role) in roles.iter().enumerate() {
            let rx = match (role.rx, receivers == 0 && queue == 0) {
                (true, _) => Some(opener.receiver(false, receivers > 1)?),
                (false, true) => Some(opener.receiver(true, false)?),
                (false, false) => None,
            };
            lanes.push(Lane {
                counters: Counters::default(),
                name: format!("{name} queue {queue}").into(),
                ifindex: device.ifindex,
                rx,
                tx: opener.sender(role.tx)?,
                has_pool: AtomicBool::new(false),
                has_queue: AtomicBool::new(false),
            });
        }
        let capabilities = Capabilities {
            path: "af_packet",
            layer: Layer::Ethernet,
            max_frame: device.mtu + ETH_HLEN,
            mac: Some(device.mac),
            tx_checksum: device_checksum,
            one_flow_per_burst: false,
            link_bps: device.speed_bps,
            preferred_burst: 128,
        };
        let fanout = (receivers > 1).then_some(config.fanout);
        Ok(Self {
            capabilities,
            config: config.clone(),
            lanes,
            fanout,
            guard: guard_status,
            _guards: attached,
            device,
        })
    }

    /// Whether the host's own stack is kept from the test packets, and if not, why.
    pub fn guard_status(&self) -> &GuardStatus {
        &self.guard
    }

    /// The interface, as it was when the port was opened.
    pub fn device(&self) -> &NetDev {
        &self.device
    }

    fn lane(&self, queue: usize) -> Result<&Lane> {
        self.lanes.get(queue).ok_or_else(|| {
            let object = format!("{} queue {queue}", self.config.device);
            Error::new(
                "open",
                object,
                format!("there are {} queues", self.lanes.len()),
                ErrorKind::NotFound,
            )
        })
    }
}

fn attach_guards(config: &Config, device: &NetDev, filters: &[GuardFilter]) -> Result<(Vec<Guard>, GuardStatus)> {
    let off = |why: &str| Ok((Vec::new(), GuardStatus::Off(why.into())));
    match (config.guard, filters) {
        (GuardMode::Off, _) => return off("guard=off"),
        (_, []) => return off("no test addresses given"),
        _ => {}
    }
    let attach = |filter| Guard::attach(device.ifindex, &config.device, filter);
    match filters.iter().map(attach).collect::<Result<Vec<_>>>() {
        Ok(guards) => Ok((guards, GuardStatus::On)),
        Err(error) if config.guard == GuardMode::On => Err(error),
        Err(error) => off(&error.cause),
    }
}

impl Port for AfPacketPort {
    type Pool = AfPacketPool;
    type Queue<'p> = AfPacketQueue<'p>;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn pool(&self, queue: usize) -> Result<AfPacketPool> {
        let lane = self.lane(queue)?;
        if lane.has_pool.swap(true, Ordering::Relaxed) {
            return Err(Error::new(
                "make the pool of",
                lane.name.clone(),
                "it has one",
                ErrorKind::InUse,
            ));
        }
        AfPacketPool::new(max_frame(self.device.mtu))
            .map_err(|e| Error::os("map the buffers of", lane.name.clone(), &e))
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p AfPacketPool) -> Result<AfPacketQueue<'p>> {
        let lane = self.lane(queue)?;
        if lane.has_queue.swap(true, Ordering::Relaxed) {
            return Err(Error::new(
                "open",
                lane.name.clone(),
                "the queue is taken",
                ErrorKind::InUse,
            ));
        }
        if let Some(rx) = &lane.rx
            && !rx.control_only
        {
            rx.socket
                .detach_filter()
                .map_err(|e| Error::os("start receiving on", lane.name.clone(), &e))?;
        }
        Ok(AfPacketQueue::new(lane, pool))
    }

    /// Transmitting copies into the ring, whatever memory the frame is in.
    fn shares_pools_with(&self, _other: &Self) -> bool {
        true
    }

    fn times_arrivals(&self) -> bool {
        self.config.timed()
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        let Some(lane) = self.lanes.get(queue) else {
            return QueueCounters::default();
        };
        let c = &lane.counters;
        QueueCounters {
            rx_dropped: lane.dropped(),
            tx_failed: c.tx_failed.load(Ordering::Relaxed),
            other: vec![
                ("rx_seen", c.rx_seen.load(Ordering::Relaxed)),
                (counter::CUT, c.rx_cut.load(Ordering::Relaxed)),
                ("rx_merged", c.rx_merged.load(Ordering::Relaxed)),
                (counter::UNSPLIT, c.rx_unsplit.load(Ordering::Relaxed)),
                (counter::TX_REFUSED, c.tx_refused.load(Ordering::Relaxed)),
                (counter::TIMED_BY_LANE, c.rx_timed_by_lane.load(Ordering::Relaxed)),
            ],
        }
    }

    fn rx_dropped(&self, queue: usize) -> Option<u64> {
        self.lanes.get(queue).map(Lane::dropped)
    }

    fn watches(&self) -> Vec<Box<dyn Watch>> {
        let by_kernel = !self.config.qdisc_bypass;
        let options = WatchOptions {
            queues: by_kernel,
            device: true,
            // Behind a queueing discipline nothing reports that the device has no carrier.
            blind: by_kernel,
            ..WatchOptions::default()
        };
        vec![Box::new(DeviceWatch::new(&self.device, options))]
    }

    fn coalesces(&self) -> bool {
        let merged = |lane: &Lane| lane.counters.rx_merged.load(Ordering::Relaxed) > 0;
        self.lanes.iter().any(merged)
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![
            Fact::new("interface", self.device.name.clone()),
            Fact::shown("driver", self.device.driver.clone()),
            Fact::new("mtu_bytes", self.device.mtu.to_string()),
            Fact::new("qdisc", if self.config.qdisc_bypass { "bypass" } else { "kernel" }),
            Fact::new("tx_method", "TPACKET_V2 ring"),
            Fact::shown(
                "udp_checksum",
                if self.capabilities.tx_checksum {
                    "device"
                } else {
                    "software"
                },
            ),
            Fact::new("fanout", self.fanout.map_or("none (one receiving queue)", Fanout::name)),
            Fact::new("promisc", if self.config.promisc == Some(true) { "on" } else { "off" }),
            Fact::new("rx_time", self.config.rx_time.name()),
            Fact::shown("guard", self.guard.to_string()),
        ];
        if let Some(rx) = self.lanes.iter().find_map(|l| l.rx.as_ref()) {
            facts.push(Fact::shown("rx_ring_frames", rx.geometry.frames().to_string()));
            facts.push(Fact::new("rx_ring_bytes", rx.ring.len().to_string()));
        }
        if let Some(lane) = self.lanes.first() {
            facts.push(Fact::new("tx_ring_frames", lane.tx.geometry.frames().to_string()));
            facts.push(Fact::new("tx_ring_bytes", lane.tx.ring.len().to_string()));
        }
        facts
    }
}
