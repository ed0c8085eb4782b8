//! Opening a device: found or made, given memory, set up, started.

mod find;
mod queues;

use crate::beneath::Beneath;
use crate::config::{Checksum, Config, Rss};
use crate::counters::{self, LaneCounts};
use crate::eal;
use crate::flow::Flows;
use crate::journal::MtuChange;
use crate::link::Link;
use crate::memif::{self, Served, Socket};
use crate::memory;
use crate::options::Open;
use crate::port::{DpdkPort, Lane, unplug};
use crate::queue::Calls;
use crate::{tap, told};
use dpdk_sys as sys;
use mpps_io::{Capabilities, Error, ErrorKind, Layer, Mailbox, Result};
use mpps_netdev::NetDev;
use queues::Queues;
use std::ffi::{CStr, c_int};
use std::io;
use std::mem::zeroed;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Drivers that want as many receive as transmit queues.
const PAIRED: [&str; 2] = ["net_tap", "net_af_xdp"];
/// Frames per burst, if nothing else is said: what DPDK's own programs take.
const BURST: usize = 32;

/// Opens a port, with one queue pair per lane. [`crate::start`] comes first.
///
/// # Errors
/// When there is no such device or driver, it has fewer queues than lanes, memory is missing, the driver refuses, a
/// flow rule can't be applied, or (if asked for) its link does not come up. With what DPDK logged of it.
pub fn open(config: &Config, options: &Open<'_>) -> Result<DpdkPort> {
    eal::port_opened();
    let mut half = Half {
        config,
        plugged: false,
        port: None,
        started: false,
        socket: None,
        served: None,
        remarks: Vec::new(),
        mtu: None,
    };
    half.open(options).inspect_err(|_| half.undo())
}

/// Steps done so far, to be undone if the rest fails.
struct Half<'c> {
    config: &'c Config,
    plugged: bool,
    port: Option<u16>,
    started: bool,
    socket: Option<Socket>,
    served: Option<Served>,
    /// Notes on the port, shown before the run starts.
    remarks: Vec<String>,
    /// The interface beneath gets another MTU.
    mtu: Option<MtuChange>,
}

/// Settings of a port, the pools of its receive queues, and the node of its memory: what a start needs.
type Setup<'a> = (&'a sys::PortConf, &'a [*mut sys::RteMempool], i32);

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
        eal::port_closed();
    }

    fn error(&self, op: &'static str, cause: impl Into<Arc<str>>, kind: ErrorKind) -> Error {
        Error::new(op, self.config.name.as_str(), cause, kind)
    }

    /// Takes all steps in order, and notes those that [`Half::undo`] must undo.
    fn open(&mut self, options: &Open<'_>) -> Result<DpdkPort> {
        let config = self.config;
        self.socket = Socket::find(config)?;
        if let Some(misnamed) = told::misnamed(config, self.socket.as_ref()) {
            return Err(self.error("open", misnamed, ErrorKind::NotFound));
        }
        let _ = eal::logged();
        let port = self.find()?;
        self.port = Some(port);
        let info = self.describe(port)?;
        let driver = counters::text(&info.driver);
        let queues = Queues::of(options.roles, PAIRED.contains(&driver.as_str()));
        self.check(&info, &queues, &driver)?;
        let (hardware, promisc) = (!config.is_virtual(), options.promisc);
        let beneath = Beneath::of(config, info.interface);
        let conf = settings(config, &info, &queues, beneath.is_some(), promisc);
        let lanes = self.lanes(port, &info, &conf, &queues, options)?;
        let rx_pools: Vec<*mut sys::RteMempool> = lanes
            .iter()
            .filter(|lane| lane.rx.is_some())
            .map(|lane| lane.mempool.as_ptr())
            .collect();
        // SAFETY: plain data, for which zeros are a value.
        let mut state: sys::PortState = unsafe { zeroed() };
        let setup = (&conf, &rx_pools[..], info.socket);
        let checked = self.memif(port, &conf, &rx_pools)?;
        self.mtu = self.remember_mtu()?;
        self.start(port, setup, &mut state, options)?;
        self.started = true;
        let apart = tap::own_address(config, &info);
        let name: Arc<str> = config.name.as_str().into();
        let beneath = beneath.map(|mut beneath| {
            beneath.find_sockets();
            beneath
        });
        let link = Link::new(port, name.clone(), beneath, hardware, config.is_memif_client());
        if options.wait_for_link {
            self.wait_for_link(&link, port, setup, &mut state, options)?;
        }
        let promiscuous = match link.beneath().filter(|_| promisc) {
            Some(beneath) => beneath
                .hold_promiscuous()
                .map_err(|e| Error::os("set promiscuous mode on", name.clone(), &e))?,
            None => None,
        };
        let flows = Flows::make(port, &name, &driver, options.rules)?;
        let (up, link_bps) = link.look();
        let capabilities = Capabilities {
            path: "dpdk",
            layer: Layer::Ethernet,
            max_frame: usize::from(state.mtu) + 14,
            mac: Some(info.mac),
            tx_checksum: conf.tx_checksum != 0,
            one_flow_per_burst: false,
            link_bps,
            preferred_burst: BURST,
        };
        let facts = told::facts(config, &driver, &info, &conf, &state, (up, promisc), lanes.len());
        let unmarked = link.beneath().is_some_and(|beneath| beneath.unmarked);
        let calls = Calls::of(&driver, port, conf.tx_checksum != 0, unmarked, checked);
        self.add_remarks(apart, checked, queues.receiving, state.rss != 0, &driver);
        Ok(DpdkPort {
            id: port,
            name,
            config: config.clone(),
            driver,
            capabilities,
            lanes,
            link: Arc::new(link),
            calls,
            rx_ring: state.rx_ring,
            mailbox: Mailbox::default(),
            _mtu: self.mtu.take(),
            _served: self.served.take(),
            _promiscuous: promiscuous,
            flows,
            facts,
            remarks: std::mem::take(&mut self.remarks),
        })
    }

    /// Returns the driver's description of the port.
    fn describe(&self, port: u16) -> Result<sys::PortInfo> {
        // SAFETY: plain data, for which zeros are a value.
        let mut info: sys::PortInfo = unsafe { zeroed() };
        // SAFETY: the port was found, and the structure is ours.
        let result = unsafe { sys::mpps_port_info(port, &mut info) };
        if result < 0 {
            return Err(self.error("describe", eal::cause_of(result), ErrorKind::Other));
        }
        Ok(info)
    }

    /// Waits for the link. A memif client is stopped and started again until its server takes it.
    fn wait_for_link(
        &self,
        link: &Link,
        port: u16,
        setup: Setup<'_>,
        state: &mut sys::PortState,
        options: &Open<'_>,
    ) -> Result<()> {
        let config = self.config;
        let lanes = match config.driver() {
            "net_memif" => ", with as many lanes",
            _ => "",
        };
        link.wait(config.link_wait, lanes, options.interrupted, &mut || {
            if config.is_memif_client() {
                // SAFETY: no lane has the port yet.
                unsafe { sys::mpps_port_stop(port) };
                self.start(port, setup, state, options)?;
            }
            Ok(())
        })
    }

    /// Adds the remarks on a port that is open. `apart`: whether its interface has a MAC address of its own; `checked`:
    /// a memif behind the shim; `receiving`: number of receive queues; `rss`: whether the device spreads packets.
    fn add_remarks(&mut self, apart: io::Result<()>, checked: bool, receiving: u16, rss: bool, driver: &str) {
        let (config, name) = (self.config, self.config.name.as_str());
        self.remarks
            .extend(self.socket.as_ref().and_then(|socket| socket.remark(name)));
        if let Err(e) = apart {
            self.remarks
                .push(format!("{name}: its interface keeps the MAC address of the port: {e}"));
        }
        if !checked && receiving > 1 && config.driver() == "net_memif" && !config.is_memif_client() {
            self.remarks.push(format!(
                "{name}: the client must have as many lanes: with fewer, DPDK's driver hands its packets out more than \
                 once"
            ));
        }
        if receiving > 1 && !rss && !config.is_virtual() && config.rss != Rss::Off {
            self.remarks.push(format!(
                "{name}: {driver} offers no RSS over addresses or ports: one queue may get everything"
            ));
        }
    }

    /// Checks that the device offers what the port needs.
    fn check(&self, info: &sys::PortInfo, queues: &Queues, driver: &str) -> Result<()> {
        let refuse = |cause: String| Err(self.error("open", cause, ErrorKind::NotFound));
        for (has, what, wanted) in [
            (info.max_rx_queues, "receive", usize::from(queues.receiving)),
            (info.max_tx_queues, "transmit", usize::from(queues.sending)),
        ] {
            if usize::from(has) < wanted {
                return refuse(format!(
                    "{driver} has {has} {what} queue{} here, {wanted} lanes want one each: want --lanes {has}{}",
                    if has == 1 { "" } else { "s" },
                    told::more_queues(self.config)
                ));
            }
        }
        if PAIRED.contains(&driver) && queues.receiving != queues.sending {
            return refuse(format!(
                "{driver} wants as many receive queues as transmit queues, not {} and {}: want --lanes N",
                queues.receiving, queues.sending
            ));
        }
        if self.config.checksum == Checksum::Device && info.tx_checksum == 0 {
            return refuse(format!(
                "csum=device: {driver} offers no UDP checksums: want csum=software"
            ));
        }
        let wanted = match self.config.rss {
            Rss::Udp => 2,
            Rss::Ip => 1,
            Rss::Auto | Rss::Off => 0,
        };
        if info.rss < wanted {
            let offers = ["no RSS", "RSS over addresses only"][usize::from(info.rss.min(1))];
            return refuse(format!("rss: {driver} offers {offers}: want rss=off or auto"));
        }
        Ok(())
    }

    /// Sets the port up and starts it; a memif client waits for its server.
    fn start(
        &self,
        port: u16,
        (conf, rx_pools, socket): Setup<'_>,
        state: &mut sys::PortState,
        options: &Open<'_>,
    ) -> Result<()> {
        let (config, begun) = (self.config, Instant::now());
        loop {
            // SAFETY: one pool for each receive queue; they live until every port is closed.
            let result = unsafe { sys::mpps_port_start(port, conf, rx_pools.as_ptr(), socket, state) };
            if result >= 0 {
                return Ok(());
            }
            // A client can't start before its server is there.
            let waits = config.is_memif_client() && step(state) == "rte_eth_dev_start";
            if waits && begun.elapsed() < config.link_wait && !(options.interrupted)() {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            let why = match (waits, (options.interrupted)()) {
                (true, true) => "interrupted while its server was not there: ",
                (true, false) => "its server is not there: is it started? (link_wait=SECONDS waits longer): ",
                _ => "",
            };
            return Err(self.error(step(state), format!("{why}{}", eal::cause_of(result)), ErrorKind::Other));
        }
    }

    /// Remembers the MTU of the interface beneath, if it is to be changed.
    fn remember_mtu(&self) -> Result<Option<MtuChange>> {
        let (Some(mtu), Some(name)) = (self.config.mtu, self.config.interface()) else {
            return Ok(None);
        };
        let Ok(device) = NetDev::by_name(name) else {
            return Ok(None);
        };
        if device.mtu == usize::from(mtu) {
            return Ok(None);
        }
        let remembered = MtuChange::remember(&device, mtu);
        remembered
            .map(Some)
            .map_err(|e| self.error("remember the MTU of", e.to_string(), ErrorKind::Other))
    }

    /// Puts the shim between a memif and its lanes; false: it is another device, or its driver is left alone.
    fn memif(&mut self, port: u16, conf: &sys::PortConf, rx_pools: &[*mut sys::RteMempool]) -> Result<bool> {
        let Some(socket) = &self.socket else { return Ok(false) };
        let path = eal::c_string(&socket.path);
        let Some(told) = memif::conf(self.config, &path, (conf.rx_queues, conf.tx_queues)) else {
            return Ok(false);
        };
        // SAFETY: one pool for each receive queue, which live until every port is closed; the path is copied.
        let result = unsafe { sys::mpps_memif_open(port, &told, rx_pools.as_ptr()) };
        if result < 0 {
            return Err(self.error("have memory for", eal::cause_of(result), ErrorKind::Other));
        }
        if result > 0 {
            self.remarks.push(format!(
                "{}: an other end that sleeps is not woken, only one that polls is served: no asynchronous I/O \
                 (io_setup: {}): want a larger sysctl fs.aio-max-nr, where that is what it lacks",
                self.config.name,
                io::Error::from_raw_os_error(result)
            ));
        }
        Ok(true)
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
        let room = memory::room(conf.mtu);
        let mut lanes = Vec::with_capacity(queues.lanes.len());
        for (index, &(rx, tx)) in queues.lanes.iter().enumerate() {
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
                tx,
                mempool,
                taken: AtomicBool::new(false),
            });
        }
        Ok(lanes)
    }
}

/// Returns the settings of a port. `beneath`: there is an interface of the kernel under the device.
fn settings(config: &Config, info: &sys::PortInfo, queues: &Queues, beneath: bool, promisc: bool) -> sys::PortConf {
    let ring =
        |given: Option<u16>, preferred: u16| given.unwrap_or(if preferred == 0 { memory::RING } else { preferred });
    let hardware = !config.is_virtual();
    sys::PortConf {
        rx_queues: queues.receiving,
        tx_queues: queues.sending,
        rx_ring: ring(config.rx_ring, info.rx_ring),
        tx_ring: ring(config.tx_ring, info.tx_ring),
        mtu: config.mtu.or_else(|| memory::interface_mtu(config)).unwrap_or(info.mtu),
        set_mtu: u8::from(config.mtu.is_some()),
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
        // All frames of a transmit queue come from one pool, have one owner, and lie in buffers of that pool.
        fast_free: u8::from(info.fast_free != 0 && !eal::external_buffers()),
        rx_checksum: u8::from(hardware && info.rx_checksum != 0),
        // The interface stays the kernel's: its mode is held by a socket, which ends with us.
        promisc: if beneath { 2 } else { u8::from(promisc) },
    }
}

/// Returns the name of the call that a start ended with.
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
