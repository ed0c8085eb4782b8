//! Opening a device: found or made, given memory, set up, started.

use crate::beneath::Beneath;
use crate::config::{Checksum, Config, Device, Rss};
use crate::counters::{self, LaneCounts};
use crate::eal;
use crate::flow::Flows;
use crate::link::Link;
use crate::memory;
use crate::options::Open;
use crate::port::{DpdkPort, Lane, unplug};
use crate::queue::Calls;
use dpdk_sys as sys;
use mpps_io::{Capabilities, Error, ErrorKind, Fact, Layer, Result, Roles};
use std::ffi::{CStr, c_char, c_int};
use std::mem::zeroed;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Frames a burst where nothing else is said: what DPDK's own programs take.
const BURST: usize = 32;

/// Opens a port, with one queue pair a lane. [`crate::start`] comes first.
///
/// # Errors
/// When there is no such device or driver, it has fewer queues than lanes, memory can't be had, the driver refuses, a
/// flow rule can't be applied, or (if asked for) its link does not come up. With what DPDK logged of it.
pub fn open(config: &Config, options: &Open<'_>) -> Result<DpdkPort> {
    eal::port_opened();
    let mut half = Half {
        config,
        plugged: false,
        port: None,
        started: false,
    };
    half.open(options).inspect_err(|_| half.undo())
}

/// What has been done so far, to be undone if the rest fails.
struct Half<'c> {
    config: &'c Config,
    plugged: bool,
    port: Option<u16>,
    started: bool,
}

impl Half<'_> {
    fn undo(&self) {
        if let Some(port) = self.port {
            // SAFETY: found and not yet closed; no lane has it.
            unsafe {
                if self.started {
                    sys::mpps_port_stop(port);
                }
                sys::mpps_port_close(port);
            }
        }
        if self.plugged {
            unplug(self.config);
        }
        eal::port_closed(true);
    }

    fn error(&self, op: &'static str, cause: impl Into<Arc<str>>, kind: ErrorKind) -> Error {
        Error::new(op, self.config.name.as_str(), cause, kind)
    }

    fn open(&mut self, options: &Open<'_>) -> Result<DpdkPort> {
        let config = self.config;
        let _ = eal::logged();
        let port = self.find()?;
        self.port = Some(port);
        // SAFETY: plain data, for which zeros are a value.
        let mut info: sys::PortInfo = unsafe { zeroed() };
        // SAFETY: the port was found, and the structure is ours.
        let result = unsafe { sys::mpps_port_info(port, &mut info) };
        if result < 0 {
            return Err(self.error("describe", eal::cause_of(result), ErrorKind::Other));
        }
        let driver = counters::text(&info.driver);
        let queues = Queues::of(options.roles);
        self.check(&info, &queues, &driver)?;
        let ring =
            |given: Option<u16>, preferred: u16| given.unwrap_or(if preferred == 0 { memory::RING } else { preferred });
        let hardware = !matches!(config.device, Device::Vdev(_));
        let conf = sys::PortConf {
            rx_queues: queues.receiving,
            tx_queues: options.roles.len() as u16,
            rx_ring: ring(config.rx_ring, info.rx_ring),
            tx_ring: ring(config.tx_ring, info.tx_ring),
            mtu: config.mtu.unwrap_or(0),
            rss: match config.rss {
                Rss::Off => 0,
                Rss::Ip => 1,
                Rss::Auto | Rss::Udp => 2,
            },
            tx_checksum: u8::from(match config.checksum {
                Checksum::Software => false,
                Checksum::Device => true,
                // A virtual device does it in software, too, and further from the cache.
                Checksum::Auto => hardware && info.tx_checksum != 0,
            }),
            // All that a transmit queue gets comes from the pools of its own lane: one a direction.
            fast_free: info.fast_free,
            rx_checksum: u8::from(hardware && info.rx_checksum != 0),
            promisc: u8::from(config.promisc.unwrap_or(options.promisc)),
        };
        let lanes = self.lanes(port, &info, &conf, &queues, options)?;
        let rx_pools: Vec<*mut sys::RteMempool> = lanes
            .iter()
            .filter(|lane| lane.rx.is_some())
            .map(|lane| lane.mempool.as_ptr())
            .collect();
        // SAFETY: as above.
        let mut state: sys::PortState = unsafe { zeroed() };
        let begun = Instant::now();
        loop {
            // SAFETY: one pool for each receive queue; they live until every port is closed.
            let result = unsafe { sys::mpps_port_start(port, &conf, rx_pools.as_ptr(), info.socket, &mut state) };
            if result >= 0 {
                break;
            }
            // A client can't start before its server is there.
            let waits = config.is_memif_client() && step(&state) == "rte_eth_dev_start";
            if waits && begun.elapsed() < config.link_wait && !(options.interrupted)() {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            let why = if waits { "its server is not there: " } else { "" };
            return Err(self.error(
                step(&state),
                format!("{why}{}", eal::cause_of(result)),
                ErrorKind::Other,
            ));
        }
        self.started = true;
        let name: Arc<str> = config.name.as_str().into();
        let link = Link::new(port, name.clone());
        if options.wait_for_link {
            let lanes = match config.driver() {
                "net_memif" => " and does it have as many lanes?",
                _ => "",
            };
            link.wait(config.link_wait, lanes, options.interrupted)?;
        }
        let flows = Flows::make(port, &name, &driver, options.rules)?;
        let (up, link_bps) = link.look();
        let capabilities = Capabilities {
            path: "dpdk",
            layer: Layer::Ethernet,
            max_frame: usize::from(state.mtu) + 14,
            mac: Some(info.mac),
            tx_checksum: conf.tx_checksum != 0,
            one_flow_per_burst: false,
            split_lanes: true,
            host_stack: false,
            link_bps,
            preferred_burst: BURST,
        };
        let facts = facts(config, &driver, &info, &conf, &state, up, &lanes);
        let calls = Calls::of(&driver, conf.tx_checksum != 0);
        let mut remarks = Vec::new();
        if queues.receiving > 1 && state.rss == 0 && hardware && config.rss != Rss::Off {
            remarks.push(format!(
                "{name}: {driver} offers no RSS over addresses or ports: one queue may get everything"
            ));
        }
        Ok(DpdkPort {
            id: port,
            name,
            config: config.clone(),
            driver,
            capabilities,
            lanes,
            link,
            calls,
            beneath: Beneath::of(config),
            flows,
            facts,
            remarks,
        })
    }

    /// Makes the virtual device, or finds the one that the bus has.
    fn find(&mut self) -> Result<u16> {
        let mut port = 0;
        match &self.config.device {
            Device::Vdev(name) => {
                let devargs = eal::c_string(&self.config.devargs());
                // SAFETY: the EAL runs (a port counts as open), and the string ends with a zero.
                let result = unsafe { sys::mpps_probe(devargs.as_ptr()) };
                if result < 0 {
                    return Err(self.error("make", hint(self.config, eal::cause_of(result)), ErrorKind::Other));
                }
                self.plugged = true;
                let name = eal::c_string(name);
                // SAFETY: as above.
                if unsafe { sys::mpps_port_by_name(name.as_ptr(), &mut port) } < 0 {
                    return Err(self.error("find the port of", eal::cause_of(-19), ErrorKind::NotFound));
                }
            }
            Device::Pci(address) => {
                let name = eal::c_string(address);
                // SAFETY: as above.
                if unsafe { sys::mpps_port_by_name(name.as_ptr(), &mut port) } < 0 {
                    let log = eal::logged().map(|log| format!(" ({log})")).unwrap_or_default();
                    let cause = format!(
                        "no DPDK driver has taken {address}{log}: is it there, and bound to vfio-pci? `mpps doctor` says"
                    );
                    return Err(self.error("open", cause, ErrorKind::NotFound));
                }
            }
            Device::Mac(mac) => {
                // SAFETY: six bytes.
                if unsafe { sys::mpps_port_by_mac(mac.as_ptr(), &mut port) } < 0 {
                    let cause = match macs() {
                        there if there.is_empty() => {
                            "DPDK has found no device at all: `mpps doctor` says why".to_owned()
                        }
                        there => format!("no device has this MAC address; there are: {there}"),
                    };
                    return Err(self.error("open", cause, ErrorKind::NotFound));
                }
            }
        }
        Ok(port)
    }

    /// What the device must offer.
    fn check(&self, info: &sys::PortInfo, queues: &Queues, driver: &str) -> Result<()> {
        let lanes = queues.lanes.len();
        let refuse = |cause: String| Err(self.error("open", cause, ErrorKind::NotFound));
        for (has, what, wanted) in [
            (info.max_rx_queues, "receive", usize::from(queues.receiving)),
            (info.max_tx_queues, "transmit", lanes),
        ] {
            if usize::from(has) < wanted {
                return refuse(format!(
                    "{driver} has {has} {what} queue{} here, {wanted} lanes want one each: want --lanes {has}{}",
                    if has == 1 { "" } else { "s" },
                    more_queues(self.config)
                ));
            }
        }
        if driver == "net_tap" && usize::from(queues.receiving) != lanes {
            return refuse(format!(
                "net_tap wants as many receive queues as transmit queues, not {} and {lanes}: want --lanes N",
                queues.receiving
            ));
        }
        if self.config.checksum == Checksum::Device && info.tx_checksum == 0 {
            return refuse(format!(
                "csum=device: {driver} offers no UDP checksums: want csum=software"
            ));
        }
        let offered = info.rss;
        // RTE_ETH_RSS_IPV4 to RTE_ETH_RSS_IPV6_UDP_EX: zero where a driver has none of them.
        if matches!(self.config.rss, Rss::Udp | Rss::Ip) && offered == 0 {
            return refuse(format!("rss: {driver} offers none: want rss=off or auto"));
        }
        Ok(())
    }

    /// A mempool for each lane, on the node of its core.
    fn lanes(
        &self,
        port: u16,
        info: &sys::PortInfo,
        conf: &sys::PortConf,
        queues: &Queues,
        options: &Open<'_>,
    ) -> Result<Vec<Lane>> {
        let mbufs = memory::mbufs(self.config, conf.rx_ring, conf.tx_ring);
        let room = memory::room(if conf.mtu == 0 { info.mtu } else { conf.mtu });
        let mut lanes = Vec::with_capacity(queues.lanes.len());
        for (index, &rx) in queues.lanes.iter().enumerate() {
            let core = options.cores.get(index).copied().flatten();
            let socket = core.map_or(info.socket, memory::node_of_core);
            let name = eal::c_string(&format!("mpps{port}_{index}"));
            let mut failed: c_int = 0;
            // SAFETY: the EAL runs, the name ends with a zero, and `failed` is ours.
            let pool = unsafe { sys::mpps_pool_create(name.as_ptr(), mbufs, room, socket, &mut failed) };
            let Some(mempool) = NonNull::new(pool) else {
                let cause = format!(
                    "{mbufs} buffers of {room} bytes for lane {index}: {}: want fewer (mbufs=N), or more memory \
                     (`sysctl -w vm.nr_hugepages=N`, or --eal \"--no-huge -m MIB\")",
                    eal::cause_of(failed)
                );
                return Err(self.error("have packet memory for", cause, ErrorKind::Other));
            };
            eal::keep_pool(pool);
            if let Some(packet) = options.prefill {
                // SAFETY: all buffers are in the pool, and no lane has it yet.
                unsafe { sys::mpps_pool_fill(pool, packet.as_ptr(), packet.len() as u16) };
            }
            lanes.push(Lane {
                counts: LaneCounts::default(),
                rx,
                mempool,
                taken: AtomicBool::new(false),
            });
        }
        Ok(lanes)
    }
}

/// Which lane has which receive queue.
struct Queues {
    lanes: Vec<Option<u16>>,
    receiving: u16,
}

impl Queues {
    /// Receiving lanes in order; where none receives, the first does: questions for our address come in there.
    fn of(roles: &[Roles]) -> Self {
        let none = !roles.iter().any(|role| role.rx);
        let mut receiving = 0;
        let lanes = roles.iter().enumerate().map(|(index, role)| {
            let rx = role.rx || (none && index == 0);
            rx.then(|| {
                receiving += 1;
                receiving - 1
            })
        });
        let lanes = lanes.collect();
        Self { lanes, receiving }
    }
}

fn step(state: &sys::PortState) -> &'static str {
    if state.step.is_null() {
        return "start";
    }
    // SAFETY: a constant string of the shim, ended by a zero.
    let text = unsafe { CStr::from_ptr::<'static>(state.step) };
    let call = text.to_str().unwrap_or("start");
    // The call without its arguments: `rte_eth_dev_start`.
    call.split('(').next().unwrap_or(call)
}

fn macs() -> String {
    let mut bytes: Vec<c_char> = vec![0; 2048];
    // SAFETY: at most as many bytes are written, with a zero at the end.
    unsafe { sys::mpps_port_macs(bytes.as_mut_ptr(), bytes.len()) };
    counters::text(&bytes)
}

/// How a virtual device gets more queues.
fn more_queues(config: &Config) -> &'static str {
    match config.driver() {
        "net_af_packet" => ", or qpairs=N in the port",
        "net_af_xdp" => ", or queue_count=N in the port",
        "net_virtio_user" => ", or queues=N in the port",
        _ => "",
    }
}

/// What most often is missing where a virtual device can't be made.
fn hint(config: &Config, cause: String) -> String {
    let missing = |path: &str| !std::path::Path::new(path).exists();
    let hint = match config.driver() {
        "net_tap" | "net_virtio_user" if missing("/dev/net/tun") => "there is no /dev/net/tun: `modprobe tun`",
        "net_af_packet" | "net_af_xdp" if config.interface().is_none() => {
            "want iface=NAME, such as net_af_packet0,iface=eth1"
        }
        "net_af_packet" | "net_af_xdp"
            if config
                .interface()
                .is_some_and(|name| missing(&format!("/sys/class/net/{name}"))) =>
        {
            "there is no such interface"
        }
        _ if cause.contains("failed to parse device") => {
            "DPDK has no driver of this name: is it spelled right, and installed? (`mpps doctor` lists the drivers)"
        }
        _ if cause.contains("no such device")
            || cause.contains("No such device")
            || cause.contains("nvalid argument")
            || cause.contains("no driver") =>
        {
            "is the driver installed, and its name and options right? (`mpps doctor` lists the drivers)"
        }
        _ => return cause,
    };
    format!("{hint} ({cause})")
}

fn facts(
    config: &Config,
    driver: &str,
    info: &sys::PortInfo,
    conf: &sys::PortConf,
    state: &sys::PortState,
    up: bool,
    lanes: &[Lane],
) -> Vec<Fact> {
    let on = |on: bool| if on { "on" } else { "off" }.to_owned();
    let by = |device: u8| if device != 0 { "device" } else { "software" }.to_owned();
    let mac: Vec<String> = info.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = [
        ("dpdk_version", crate::VERSION.unwrap_or_default().to_owned()),
        ("driver", driver.to_owned()),
        ("mac", mac.join(":")),
        ("mtu_bytes", state.mtu.to_string()),
        ("link", if up { "up" } else { "down at the start" }.to_owned()),
        ("rx_queues", conf.rx_queues.to_string()),
        ("tx_queues", conf.tx_queues.to_string()),
        ("rx_ring_descriptors", state.rx_ring.to_string()),
        ("tx_ring_descriptors", state.tx_ring.to_string()),
        (
            "mbufs_a_lane",
            memory::mbufs(config, conf.rx_ring, conf.tx_ring).to_string(),
        ),
        ("numa_node", info.socket.to_string()),
        ("checksums_by", by(conf.tx_checksum)),
        ("rx_checksums_by", by(conf.rx_checksum)),
        ("fast_free", on(conf.fast_free != 0)),
        ("promiscuous", on(state.promisc != 0)),
        (
            "rss",
            if state.rss == 0 {
                "none".to_owned()
            } else {
                format!("{:#x}", state.rss)
            },
        ),
        ("lanes", lanes.len().to_string()),
    ];
    list.into_iter().map(|(name, value)| Fact { name, value }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receiving_lanes_have_queues_in_order_and_one_listens_where_none_receives() {
        let (rx, tx) = (Roles { rx: true, tx: false }, Roles { rx: false, tx: true });
        assert_eq!(Queues::of(&[tx, rx, rx]).lanes, [None, Some(0), Some(1)]);
        let queues = Queues::of(&[tx, tx]);
        assert_eq!((queues.lanes, queues.receiving), (vec![Some(0), None], 1));
    }
}
