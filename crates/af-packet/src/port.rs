//! Opening an interface: sockets, rings, fanout and guard.

use crate::abi::RX_RESERVE;
use crate::config::{Checksum, Config, Fanout, GuardMode};
use crate::guard::{Guard, GuardFilter, GuardStatus};
use crate::netdev::{NetDev, interface_names};
use crate::pool::AfPacketPool;
use crate::queue::AfPacketQueue;
use crate::ring::{Geometry, Mapping, max_frame};
use crate::rx::{self, RxSocket};
use crate::socket::{Socket, address};
use crate::tx::{self, TxSocket};
use mpps_io::{Capabilities, Error, ErrorKind, Fact, Layer, MAX_BURST, Port, QueueCounters, Result, Roles};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Slots of a receive ring when the option is not given: 27 ms of 0.3 Mpps, longer than a scheduler's slice.
const RX_FRAMES: usize = 8192;
/// Slots of a transmit ring when the option is not given: two bursts in flight in a device.
const TX_FRAMES: usize = 2 * MAX_BURST;
/// Slots of rings that carry only ARP and neighbour discovery.
const CONTROL_FRAMES: u32 = 64;
/// What a socket buffer of a small packet costs beside its data (`struct sk_buff` and its shared info).
const SKB_OVERHEAD: usize = 1024;
/// EtherType for local experiments (IEEE 802): what the kernel takes packets for that it need not look into.
const ETH_P_EXPERIMENT: u16 = 0x88b5;
/// Most sockets in one fanout group that every kernel allows.
const FANOUT_MAX: usize = 256;

/// Counters of one lane's queue; each is written by one thread.
#[derive(Default)]
pub(crate) struct Counters {
    /// Lane: frames accepted, then refused as malformed.
    pub(crate) tx_failed: AtomicU64,
    /// Lane: send calls that found no buffer memory or a full device queue; the frames stayed in the burst.
    pub(crate) tx_refused: AtomicU64,
    /// Lane: received frames longer than a slot.
    pub(crate) rx_cut: AtomicU64,
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

/// An interface opened through AF_PACKET.
pub struct AfPacketPort {
    capabilities: Capabilities,
    config: Config,
    device: NetDev,
    lanes: Vec<Lane>,
    fanout: Option<Fanout>,
    guard: GuardStatus,
    _guard: Option<Guard>,
}

impl AfPacketPort {
    /// Opens the interface with one queue for each entry of `roles`, and keeps the packets of `guard` from the
    /// host's stack. No packet is received before [`Port::queue`] is called for the queue.
    ///
    /// A queue without the receive role receives nothing, unless no queue has it: then queue 0 receives ARP and
    /// ICMPv6 only, which neighbour resolution needs.
    ///
    /// # Errors
    /// When the interface does not exist, the privilege is missing, memory for rings can't be had, or `guard=on`
    /// and the guard can't be attached.
    pub fn open(config: &Config, roles: &[Roles], guard: Option<GuardFilter>) -> Result<Self> {
        let name: Arc<str> = config.device.as_str().into();
        let device = NetDev::by_name(&config.device).map_err(|e| not_found(&name, &e))?;
        if !device.ethernet {
            return Err(Error::new(
                "open",
                name,
                "not an Ethernet device: af_packet moves Ethernet frames",
                ErrorKind::Unsupported,
            ));
        }
        let receivers = roles.iter().filter(|r| r.rx).count();
        if roles.is_empty() || receivers > FANOUT_MAX {
            let cause = format!("{} queues asked for: want 1 to {FANOUT_MAX}", roles.len());
            return Err(Error::new("open", name, cause, ErrorKind::Unsupported));
        }
        let (attached, guard_status) = attach_guard(config, &device, guard.as_ref())?;
        let device_checksum = match config.checksum {
            Checksum::Software => false,
            Checksum::Device => true,
            Checksum::Auto => !device.is_virtual && device.tx_checksum,
        };
        let solicited = guard.map(|g| g.ips).unwrap_or_default();
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
            max_frame: device.mtu + crate::abi::ETH_HLEN,
            mac: Some(device.mac),
            tx_checksum: device_checksum,
            one_flow_per_burst: false,
            split_lanes: true,
            host_stack: true,
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
            _guard: attached,
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

/// The error for an interface that can't be looked up, with those that can.
fn not_found(name: &Arc<str>, error: &io::Error) -> Error {
    if error.kind() != io::ErrorKind::NotFound {
        return Error::os("look up interface", name.clone(), error);
    }
    let cause = format!("no such interface; there are: {}", interface_names().join(", "));
    Error::new("open", name.clone(), cause, ErrorKind::NotFound)
}

fn attach_guard(
    config: &Config,
    device: &NetDev,
    filter: Option<&GuardFilter>,
) -> Result<(Option<Guard>, GuardStatus)> {
    let filter = match (config.guard, filter) {
        (GuardMode::Off, _) => return Ok((None, GuardStatus::Off("guard=off".into()))),
        (_, None) => return Ok((None, GuardStatus::Off("no test addresses given".into()))),
        (_, Some(filter)) => filter,
    };
    match Guard::attach(device.ifindex, &config.device, filter) {
        Ok(guard) => Ok((Some(guard), GuardStatus::On)),
        Err(error) if config.guard == GuardMode::On => Err(error),
        Err(error) => Ok((None, GuardStatus::Off(error.cause.to_string()))),
    }
}

/// What opening one queue after the other needs to remember.
struct Opener<'a> {
    config: &'a Config,
    device: &'a NetDev,
    name: &'a Arc<str>,
    device_checksum: bool,
    solicited: Vec<IpAddr>,
    fanout: Option<u16>,
}

impl Opener<'_> {
    fn failed(&self, op: &'static str) -> impl Fn(io::Error) -> Error {
        let name = self.name.clone();
        move |error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                let cause = "af_packet needs CAP_NET_RAW: run as root, or `sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep` the program";
                Error::new(op, name.clone(), cause, ErrorKind::Permission)
            }
            Some(libc::ENOMEM) => Error::new(
                op,
                name.clone(),
                "not enough memory: ask for fewer frames with ring=",
                ErrorKind::Other,
            ),
            _ => Error::os(op, name.clone(), &error),
        }
    }

    fn receiver(&mut self, control_only: bool, share: bool) -> Result<RxSocket> {
        let socket = Socket::new().map_err(self.failed("make a packet socket for"))?;
        let packet = libc::SOL_PACKET;
        let set = |name, value: libc::c_int| socket.set(packet, name, value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)
            .map_err(self.failed("set PACKET_VERSION on"))?;
        set(libc::PACKET_RESERVE, RX_RESERVE as i32).map_err(self.failed("set PACKET_RESERVE on"))?;
        set(libc::PACKET_IGNORE_OUTGOING, 1).map_err(self.failed("set PACKET_IGNORE_OUTGOING (Linux 4.20) on"))?;
        // Nothing passes until the lane takes its queue: a socket receives from bind on, and can join its fanout
        // group only after.
        socket
            .attach_filter(&REFUSE_ALL)
            .map_err(self.failed("attach a filter to the socket on"))?;
        let wanted = if control_only {
            Some(CONTROL_FRAMES)
        } else {
            self.config.ring
        };
        let geometry = Geometry::new(rx::slot_bytes(max_frame(self.device.mtu)), wanted, RX_FRAMES);
        socket
            .set(packet, libc::PACKET_RX_RING, geometry.request())
            .map_err(self.failed("set PACKET_RX_RING on"))?;
        let ring = Mapping::of_ring(socket.fd(), geometry.bytes()).map_err(self.failed("map the receive ring of"))?;
        for membership in self.memberships() {
            socket
                .set(packet, libc::PACKET_ADD_MEMBERSHIP, membership)
                .map_err(self.failed("set PACKET_ADD_MEMBERSHIP on"))?;
        }
        socket
            .bind(self.device.ifindex, libc::ETH_P_ALL as u16)
            .map_err(self.failed("bind a packet socket to"))?;
        // Binding to an interface that is down reports so here; the lane finds out by itself.
        let _ = socket.get::<libc::c_int>(libc::SOL_SOCKET, libc::SO_ERROR);
        if share {
            let hint = (std::process::id() ^ self.device.ifindex << 8) as u16;
            let mode = fanout_mode(self.config.fanout);
            let id = socket
                .join_fanout(mode, self.fanout, hint)
                .map_err(self.failed("join a PACKET_FANOUT group on"))?;
            self.fanout = Some(id);
        }
        if control_only {
            socket
                .attach_filter(&CONTROL_ONLY)
                .map_err(self.failed("attach a filter to the socket on"))?;
        }
        Ok(RxSocket {
            ring,
            socket,
            geometry,
            control_only,
        })
    }

    /// What the device must let in beside its own address and broadcast: the solicited-node groups of our IPv6
    /// addresses (RFC 4291, 2.7.1), or all groups when it is not known which addresses are ours.
    fn memberships(&self) -> Vec<libc::packet_mreq> {
        let entry = |kind: libc::c_int, address: &[u8]| {
            let mut mr_address = [0; 8];
            mr_address[..address.len()].copy_from_slice(address);
            libc::packet_mreq {
                mr_ifindex: self.device.ifindex as i32,
                mr_type: kind as u16,
                mr_alen: address.len() as u16,
                mr_address,
            }
        };
        let mut list: Vec<_> = self
            .solicited
            .iter()
            .filter_map(|ip| match ip {
                IpAddr::V4(_) => None,
                IpAddr::V6(ip) => {
                    let o = ip.octets();
                    Some(entry(
                        libc::PACKET_MR_MULTICAST,
                        &[0x33, 0x33, 0xff, o[13], o[14], o[15]],
                    ))
                }
            })
            .collect();
        if self.solicited.is_empty() {
            list.push(entry(libc::PACKET_MR_ALLMULTI, &[]));
        }
        if self.config.promisc {
            list.push(entry(libc::PACKET_MR_PROMISC, &[]));
        }
        list
    }

    fn sender(&self, transmits: bool) -> Result<TxSocket> {
        let socket = Socket::new().map_err(self.failed("make a packet socket for"))?;
        let set = |name, value: libc::c_int| socket.set(libc::SOL_PACKET, name, value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)
            .map_err(self.failed("set PACKET_VERSION on"))?;
        set(libc::PACKET_VNET_HDR, 1).map_err(self.failed("set PACKET_VNET_HDR on"))?;
        if self.config.qdisc_bypass {
            set(libc::PACKET_QDISC_BYPASS, 1).map_err(self.failed("set PACKET_QDISC_BYPASS on"))?;
        }
        let frame = max_frame(self.device.mtu);
        let wanted = if transmits {
            self.config.ring
        } else {
            Some(CONTROL_FRAMES)
        };
        let geometry = Geometry::new(tx::slot_bytes(frame), wanted, TX_FRAMES);
        socket.raise_send_buffer(geometry.frames() * (frame + SKB_OVERHEAD));
        socket
            .set(libc::SOL_PACKET, libc::PACKET_TX_RING, geometry.request())
            .map_err(self.failed("set PACKET_TX_RING on"))?;
        let ring = Mapping::of_ring(socket.fd(), geometry.bytes()).map_err(self.failed("map the transmit ring of"))?;
        socket
            .bind(self.device.ifindex, 0)
            .map_err(self.failed("bind a packet socket to"))?;
        let _ = socket.get::<libc::c_int>(libc::SOL_SOCKET, libc::SO_ERROR);
        // With protocol 0 the kernel dissects each packet to find its transport header, which costs a tenth of the
        // whole way. Nobody between here and a veth's other end needs it, and that end reads the EtherType anew.
        let blind = self.config.qdisc_bypass && !self.device_checksum && self.device.driver == "veth";
        let to = address(self.device.ifindex, if blind { ETH_P_EXPERIMENT } else { 0 });
        Ok(TxSocket {
            ring,
            socket,
            geometry,
            to,
            device_checksum: self.device_checksum,
            mtu: self.device.mtu,
        })
    }
}

fn fanout_mode(fanout: Fanout) -> u32 {
    match fanout {
        Fanout::Hash => libc::PACKET_FANOUT_HASH,
        Fanout::RoundRobin => libc::PACKET_FANOUT_LB,
        Fanout::Cpu => libc::PACKET_FANOUT_CPU,
        Fanout::Random => libc::PACKET_FANOUT_RND,
        Fanout::QueueMapping => libc::PACKET_FANOUT_QM,
    }
}

const fn insn(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Classic BPF: accept nothing.
const REFUSE_ALL: [libc::sock_filter; 1] = [insn(libc::BPF_RET | libc::BPF_K, 0, 0, 0)];

/// Classic BPF: accept ARP and ICMPv6. A VLAN tag is not in the way: the kernel has stripped it.
const CONTROL_ONLY: [libc::sock_filter; 7] = [
    insn(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 12),
    insn(
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        3,
        0,
        libc::ETH_P_ARP as u32,
    ),
    insn(
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        0,
        3,
        libc::ETH_P_IPV6 as u32,
    ),
    insn(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 20),
    insn(
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        0,
        1,
        libc::IPPROTO_ICMPV6 as u32,
    ),
    insn(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    insn(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
];

impl Port for AfPacketPort {
    type Pool = AfPacketPool;
    type Queue<'p> = AfPacketQueue<'p>;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn queues(&self) -> usize {
        self.lanes.len()
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

    fn counters(&self, queue: usize) -> QueueCounters {
        let Some(lane) = self.lanes.get(queue) else {
            return QueueCounters::default();
        };
        let c = &lane.counters;
        if let Some(rx) = &lane.rx
            && let Ok(fresh) = rx
                .socket
                .get::<libc::tpacket_stats>(libc::SOL_PACKET, libc::PACKET_STATISTICS)
        {
            // Reading resets the kernel's counts; tp_packets includes tp_drops.
            c.rx_dropped.fetch_add(fresh.tp_drops.into(), Ordering::Relaxed);
            c.rx_seen.fetch_add(fresh.tp_packets.into(), Ordering::Relaxed);
        }
        QueueCounters {
            rx_dropped: c.rx_dropped.load(Ordering::Relaxed),
            tx_failed: c.tx_failed.load(Ordering::Relaxed),
            other: vec![
                ("rx_seen", c.rx_seen.load(Ordering::Relaxed)),
                ("rx_cut", c.rx_cut.load(Ordering::Relaxed)),
                ("tx_refused", c.tx_refused.load(Ordering::Relaxed)),
            ],
        }
    }

    fn facts(&self) -> Vec<Fact> {
        let fact = |name, value: String| Fact { name, value };
        let mut facts = vec![
            fact("interface", self.device.name.clone()),
            fact("driver", self.device.driver.clone()),
            fact("mtu_bytes", self.device.mtu.to_string()),
            fact(
                "qdisc",
                if self.config.qdisc_bypass { "bypass" } else { "kernel" }.into(),
            ),
            fact("tx_method", "TPACKET_V2 ring".into()),
            fact(
                "udp_checksum",
                if self.capabilities.tx_checksum {
                    "device"
                } else {
                    "software"
                }
                .into(),
            ),
            fact(
                "fanout",
                self.fanout.map_or("none (one receiving queue)", Fanout::name).into(),
            ),
            fact("promisc", if self.config.promisc { "on" } else { "off" }.into()),
            fact("guard", self.guard.to_string()),
        ];
        if let Some(rx) = self.lanes.iter().find_map(|l| l.rx.as_ref()) {
            facts.push(fact("rx_ring_frames", rx.geometry.frames().to_string()));
            facts.push(fact("rx_ring_bytes", rx.ring.len().to_string()));
        }
        if let Some(lane) = self.lanes.first() {
            facts.push(fact("tx_ring_frames", lane.tx.geometry.frames().to_string()));
            facts.push(fact("tx_ring_bytes", lane.tx.ring.len().to_string()));
        }
        facts
    }
}
