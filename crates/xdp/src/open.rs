//! Looks a device up, loads programs, and attaches them.

use crate::abi::{Plan, Run, flag};
use crate::config::{Check, Config, Mode};
use crate::encode::{self, Constant, Place, Sizes};
use crate::error::of;
use crate::load::{Loaded, Wanted, Which};
use crate::port::{Site, XdpPort};
use crate::spec::{ForwardSpec, Series};
use crate::{forward as forwarding, reasons};
use mpps_io::{Capabilities, Error, ErrorKind, Fact, Layer, Result};
use mpps_netdev::{NetDev, Promiscuous, await_carrier};
use mpps_sys::map::Mapping;
use mpps_sys::privilege::lacks;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use xsk::{AttachedMode, Attachment, ProgramMode};

/// Bytes of a frame that programs of one buffer take: a page, less the room before and after.
const MAX_LINEAR_FRAME: usize = 4096 - 256 - 320;
/// Bytes of a frame that the kernel can make: less what it keeps beside each (`struct xdp_page_head`).
const MAX_LIVE_FRAME: usize = MAX_LINEAR_FRAME - 112;
/// Programs of which there is one for frames in several buffers, too: by the same name and `_frags`.
const FRAGS: [&str; 4] = ["reflect", "reflect_tagged", "forward_a", "forward_b"];
/// Frames that the kernel makes at a time if nothing is paced: more gain nothing, fewer cost.
pub(crate) const BATCH: u32 = 64;

/// Packets of a poll loop for which a reflector's reading of the clock is good. It measures no latency: the time only
/// chooses the row. As many as the kernel's loops handle at a time.
const REFLECT_CLOCK_EVERY: u32 = 64;

/// A device that programs may be put on; nothing is loaded yet.
#[derive(Clone, Debug)]
pub struct XdpDevice {
    pub(crate) config: Config,
    pub(crate) device: NetDev,
    pub(crate) xsk: xsk::Device,
    pub(crate) queues: u32,
    capabilities: Capabilities,
}

/// Looks the device up.
///
/// # Errors
/// When it does not exist, or is no Ethernet device.
pub fn open(config: &Config) -> Result<XdpDevice> {
    privileges(config)?;
    if crate::sys::lacks_buffer_helpers() {
        let cause = "this kernel has no live frames, and no helpers for frames in several buffers (Linux 5.18): use \
                     af_xdp or af_packet";
        return Err(Error::new(
            "load XDP programs for",
            config.device.as_str(),
            cause,
            ErrorKind::Unsupported,
        ));
    }
    let device = NetDev::of_port(&config.device, "xdp")?;
    // The programs stamp, send and age packets by the kernel's clock, and are given times of this process's.
    mpps_sys::clock::namespace::agrees(xsk::kernel_clock).map_err(|why| {
        let cause = format!("{why}: mount /proc, or run outside of the time namespace");
        Error::new("set up", config.device.as_str(), cause, ErrorKind::Unsupported)
    })?;
    let xsk = xsk::Device::named(&config.device).map_err(of)?;
    let queues = xsk.queues().map_err(of)?.current;
    Ok(XdpDevice {
        capabilities: Capabilities {
            path: "xdp",
            layer: Layer::Ethernet,
            max_frame: (device.mtu + 14).min(MAX_LIVE_FRAME),
            mac: Some(device.mac),
            tx_checksum: false,
            one_flow_per_burst: false,
            link_bps: device.speed_bps,
            preferred_burst: BATCH as usize,
        },
        config: config.clone(),
        device,
        xsk,
        queues,
    })
}

/// Completes a plan, given the sources of each device; returns further constants.
type Complete<'a> = dyn Fn(&mut Plan, &[u32]) -> Result<Vec<Constant>> + 'a;

/// Refuses without the capabilities: what the kernel says of a program that may not be loaded names none.
fn privileges(config: &Config) -> Result<()> {
    // Numbers from `<linux/capability.h>`.
    const SYS_ADMIN: u32 = 21;
    let wanted = [(12, "CAP_NET_ADMIN"), (38, "CAP_PERFMON"), (39, "CAP_BPF")];
    let missing: Vec<_> = wanted
        .iter()
        .filter(|(bit, _)| lacks(*bit) && (*bit < SYS_ADMIN || lacks(SYS_ADMIN)))
        .map(|(_, name)| *name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let cause = format!(
        "not permitted: it needs {}: run as root, or give the program capabilities with the command that `mpps doctor` \
         prints",
        missing.join(", ")
    );
    let device = config.device.as_str();
    Err(Error::new(
        "load XDP programs for",
        device,
        cause,
        ErrorKind::Permission,
    ))
}

/// Programs and maps to load on one device or two.
pub(crate) struct Order<'a> {
    pub(crate) which: Which,
    pub(crate) series: Series,
    pub(crate) complete: &'a Complete<'a>,
    /// Further maps and their entries.
    pub(crate) entries: &'a dyn Fn(&Plan) -> Vec<(&'static str, u32)>,
    /// The program at each device.
    pub(crate) programs: &'a [&'static str],
    pub(crate) lanes: usize,
    /// Histograms per source: none, of one latency, of both.
    pub(crate) kinds: u32,
    pub(crate) answers: bool,
}

impl Order<'_> {
    /// Whether received frames are sent back or on.
    fn sends_back(&self) -> bool {
        matches!(self.which, Which::Reflect | Which::Forward)
    }
}

/// Attaches the tracepoint programs that see packets which a device refuses after a program has sent them, and no
/// others. Returns false if the kernel does not describe its types, or lacks one of the tracepoints. `counted`: the
/// driver counts what is sent back, so that tracepoint is left out. A tracepoint that is passed with every bulk of
/// packets costs about 3 ns per packet, refused or not.
fn tap_refusals(loaded: &mut Loaded, order: &Order<'_>, skb: bool, counted: bool) -> Result<bool> {
    let mut taps: Vec<_> = match (order.which, skb) {
        (Which::Drop, _) => vec![],
        // A port that only answers attaches none: it would see packets that the other direction's lanes send by this
        // device.
        (Which::Traffic, _) if order.lanes == 0 => vec![],
        // Lanes send in the same way when the program runs on socket buffers.
        (Which::Traffic, _) => vec![("redirect_err", "xdp_redirect_err"), ("devmap_xmit", "xdp_devmap_xmit")],
        (_, true) => vec![("redirect_err", "xdp_redirect_err"), ("exception", "xdp_exception")],
        (_, false) => vec![
            ("redirect_err", "xdp_redirect_err"),
            ("devmap_xmit", "xdp_devmap_xmit"),
            ("bulk_tx", "xdp_bulk_tx"),
            ("exception", "xdp_exception"),
        ],
    };
    taps.retain(|(program, _)| !(counted && *program == "bulk_tx"));
    for (program, tracepoint) in taps {
        if !loaded.tap(program, tracepoint, true)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sources of a device.
fn sources(device: &XdpDevice, skb: bool) -> u32 {
    if skb { possible_cpus() } else { device.queues }
}

/// CPUs that there could be.
pub(crate) fn possible_cpus() -> u32 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text
        .trim()
        .rsplit([',', '-'])
        .next()
        .and_then(|n| n.parse::<u32>().ok());
    last.map_or_else(
        || std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        |last| last + 1,
    )
}

/// Loads and attaches the programs: in the driver or, if it can't and the mode is left to us, on socket buffers.
pub(crate) fn load(devices: Vec<XdpDevice>, order: &Order<'_>) -> Result<XdpPort> {
    let skb_only = devices.iter().any(|d| d.config.mode == Mode::Skb);
    let may_skb = devices.iter().all(|d| d.config.mode == Mode::Auto);
    match load_as(&devices, order, skb_only) {
        Err(error) if error.kind == ErrorKind::Unsupported && may_skb && !skb_only => {
            let mut port = load_as(&devices, order, true)?;
            port.remarks
                .push(format!("{}: on socket buffers: {}", error.object, error.cause));
            Ok(port)
        }
        other => other,
    }
}

/// Loads the programs and attaches them, all in the driver or all on socket buffers (`skb`).
fn load_as(devices: &[XdpDevice], order: &Order<'_>, skb: bool) -> Result<XdpPort> {
    let first = &devices[0];
    let name = first.config.device.as_str();
    let counts: Vec<u32> = devices.iter().map(|device| sources(device, skb)).collect();
    let place = place(devices, counts.iter().sum(), skb);
    let mut plan = Box::new(encode::common(&first.config, place, order.series));
    let constants = (order.complete)(&mut plan, &counts)?;
    if order.which == Which::Reflect && plan.clock_every > 0 {
        plan.clock_every = REFLECT_CLOCK_EVERY;
    }
    let sizes = Sizes::of(order.series);
    sizes.check(name, order.kinds, (plan.sources, order.lanes), plan.places)?;
    let (receive, send) = encode::writers(plan.sources, order.lanes, plan.places);
    let (writers, octaves) = (receive + send, sizes.octaves(order.kinds, receive));
    plan.scheduled = sizes.octaves(1, receive);
    let cpus = possible_cpus();
    let mut entries = vec![
        ("ROWS", writers * sizes.rows),
        ("SOURCES", plan.sources),
        ("REFUSED", 2 * cpus),
        ("POLLS", cpus),
    ];
    if octaves > 0 {
        entries.push(("HISTOGRAMS", octaves));
    }
    entries.extend((order.entries)(&plan));
    let wanted = Wanted {
        which: order.which,
        plan: &plan,
        constants,
        entries: &entries,
    };
    let mut loaded = Loaded::new(name, &wanted)?;
    // Taps and times come first: a program counts from when it is attached.
    if plan.clock_every > 0 {
        tap_polls(&mut loaded, name)?;
    }
    let errors = errors_before(devices, order, skb);
    let counted = errors.is_some();
    let told = tap_refusals(&mut loaded, order, skb, counted)?;
    let run: Mapping<Run> = loaded.map("RUN", 1)?;
    run[0].end_ns.store(u64::MAX, Relaxed);
    let sites = attach(&mut loaded, devices, order, skb, errors.as_deref())?;
    let mut port = XdpPort {
        facts: facts(devices, order, &plan, told, counted),
        capabilities: first.capabilities.clone(),
        remarks: Vec::new(),
        named: false,
        sending: None,
        run,
        heard: order.answers.then(|| loaded.map("HEARD", 1)).transpose()?,
        rows: loaded.map("ROWS", writers * sizes.rows)?,
        sources: loaded.map("SOURCES", plan.sources)?,
        histograms: (octaves > 0).then(|| loaded.map("HISTOGRAMS", octaves)).transpose()?,
        refused: loaded.map("REFUSED", 2 * cpus)?,
        flows: None,
        which: order.which,
        reasons: reasons::of(order.which),
        end_ns: AtomicU64::new(u64::MAX),
        begun: AtomicBool::new(false),
        looked_at: AtomicU64::new(0),
        loaded: Mutex::new(loaded),
        plan,
        sites,
    };
    port.choose_way_back();
    port.remarks
        .extend(await_carrier(port.sites.iter().map(|site| &site.device)));
    Ok(port)
}

/// Returns the properties of the devices that the programs know. `sources`: those of all devices.
fn place(devices: &[XdpDevice], sources: u32, skb: bool) -> Place {
    let first = &devices[0];
    let index = |at: usize| devices.get(at).map_or(0, |d: &XdpDevice| d.device.ifindex);
    Place {
        sources,
        by_cpu: skb,
        // Between virtual devices, and on socket buffers, packets come as the host's stack left them.
        open_checksums: skb || devices.iter().any(|d| d.device.is_virtual),
        devices: [index(0), index(1)],
        mac: first.device.mac,
        own_mac: first.config.promisc != Some(true),
        // Frames of a tap come from the process that writes to it, and in no poll loop whose end would be seen.
        polled: devices.iter().all(|d| d.device.driver != "tun"),
        veth: first.device.driver == "veth",
        // A bond hands frames to the devices below it.
        moved: devices
            .iter()
            .any(|d| matches!(d.device.driver.as_str(), "virtio_net" | "bonding")),
    }
}

/// Attaches the tracepoint program that ends a poll loop's use of one reading of the clock.
fn tap_polls(loaded: &mut Loaded, name: &str) -> Result<()> {
    if loaded.tap("poll", "napi_poll", false)? {
        return Ok(());
    }
    let cause = "the kernel has no tracepoint napi_poll: want clock=packet";
    Err(Error::new(
        "read the clock once per poll on",
        name,
        cause,
        ErrorKind::Other,
    ))
}

/// Returns the frames that each device's driver had refused before the run. `None`: a driver does not count them, or
/// the programs are not the only ones that send so.
fn errors_before(devices: &[XdpDevice], order: &Order<'_>, skb: bool) -> Option<Vec<u64>> {
    if skb || !order.sends_back() {
        return None;
    }
    devices
        .iter()
        .map(|d| mpps_netdev::veth_transmit_errors(&d.device).ok().flatten())
        .collect()
}

/// Attaches a program to each device. `errors`: frames that each had refused before, if its driver counts them.
fn attach(
    loaded: &mut Loaded,
    devices: &[XdpDevice],
    order: &Order<'_>,
    skb: bool,
    errors: Option<&[u64]>,
) -> Result<Vec<Site>> {
    let mode = if skb { ProgramMode::Skb } else { ProgramMode::Native };
    // A map of devices is for programs of one kind.
    let large = devices.iter().any(|d| d.device.mtu + 14 > MAX_LINEAR_FRAME);
    let mut sites = Vec::new();
    for (at, (device, program)) in devices.iter().zip(order.programs).enumerate() {
        let frags = large && FRAGS.contains(program);
        let program = if frags {
            loaded.xdp(&format!("{program}_frags"))?
        } else {
            loaded.xdp(program)?
        };
        sites.push(Site {
            name: device.config.device.clone(),
            _attachment: Attachment::new(program.as_fd(), &device.xsk, mode).map_err(of)?,
            queues: device.queues,
            _promiscuous: match device.config.promisc {
                Some(true) => Some(promiscuous(&device.device)?),
                _ => None,
            },
            drops_then: (skb && order.sends_back() || order.which == Which::Drop)
                .then(|| mpps_netdev::transmit_drops(device.device.ifindex).ok())
                .flatten(),
            errors_then: errors.map(|errors| errors[at]),
            errors: AtomicU64::new(0),
            sources: sources(device, skb),
            device: device.device.clone(),
        });
    }
    Ok(sites)
}

/// Makes the device receive frames for other MAC addresses, until this is dropped.
fn promiscuous(device: &NetDev) -> Result<Promiscuous> {
    Promiscuous::hold(device.ifindex).map_err(|e| match e.raw_os_error() {
        Some(libc::EPERM) => {
            let cause = "not permitted: it needs CAP_NET_RAW (or promisc=off)";
            Error::new("set promiscuous", device.name.as_str(), cause, ErrorKind::Permission)
        }
        _ => Error::os("set promiscuous", device.name.as_str(), &e),
    })
}

fn facts(devices: &[XdpDevice], order: &Order<'_>, plan: &Plan, refusals_told: bool, counted: bool) -> Vec<Fact> {
    let mut facts = Vec::new();
    let drivers: Vec<_> = devices.iter().map(|d| d.device.driver.as_str()).collect();
    facts.push(Fact::shown("driver", drivers.join(", ")));
    let skb = plan.flags & flag::BY_CPU != 0;
    facts.push(Fact::shown(
        "xdp_mode",
        if skb { AttachedMode::Skb } else { AttachedMode::Native }.to_string(),
    ));
    facts.push(Fact::new(
        "sources",
        match (plan.sources, skb) {
            (n, true) => format!("{n} CPUs"),
            (1, false) => "1 receive queue".to_owned(),
            (n, false) => format!("{n} receive queues"),
        },
    ));
    let config = &devices[0].config;
    let clock = match plan.clock_every {
        0 => "for each packet".to_owned(),
        every => format!("once per poll loop, and after {every} packets"),
    };
    facts.push(Fact::new("arrival_time", clock));
    if order.which == Which::Drop || plan.flags & flag::RECEIVE != 0 {
        let payload = match config.check {
            Check::All => "checked in the kernel",
            Check::Headers => "unchecked (check=headers)",
        };
        facts.push(Fact::shown("payload", payload));
        if order.which == Which::Traffic && plan.flags & flag::TAGGED != 0 {
            facts.push(Fact::shown("changes", "not compared: packets stay in the kernel"));
        }
    }
    let veth = devices.iter().all(|d| d.device.driver == "veth");
    let two = devices.len() == 2;
    let refusals = match (refusals_told, order.which) {
        (true, Which::Drop) => "none: nothing of the test is sent",
        (true, Which::Traffic) => "counted (tracepoints xdp_devmap_xmit, xdp_redirect_err)",
        (true, _) if skb => "in the statistics of the interface, among others' (interface_dropped_sent)",
        (true, _) if counted => "counted (by veth, and tracepoints xdp_devmap_xmit, xdp_redirect_err)",
        (true, _) if veth || two => "counted (tracepoints xdp_devmap_xmit, xdp_bulk_tx, xdp_redirect_err)",
        (true, _) => "in part (tracepoint xdp_exception), else in the driver's own statistics only",
        (false, _) => "not counted: the kernel does not tell its types (BTF)",
    };
    facts.push(Fact::new("device_refusals", refusals));
    facts
}

impl XdpDevice {
    /// Returns what the path can do on the device.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Remarks for the user, known once it is open.
    pub fn remarks(&self) -> &[String] {
        &[]
    }
}

/// Refuses a device that can't send frames from XDP programs. If the kernel does not report that (before Linux 6.3),
/// the first frame sent shows it. A program is attached by now, without which many drivers have no rings for such
/// frames.
pub(crate) fn check_transmit(device: &NetDev) -> Result<()> {
    match mpps_netdev::xdp_features(device.ifindex) {
        Ok(Some(features)) if !features.transmit => {}
        _ => return Ok(()),
    }
    // On a veth the other end is to blame, elsewhere the device that the user named.
    let (kind, cause) = if device.driver == "veth" {
        let cause = "the other end of this veth takes no frames from XDP programs, as it has no poll loop for them: \
                     want an XDP program in the driver there (mpps reflect xdp:… or af_xdp:…), or `ethtool -K IFACE \
                     gro on` in its namespace";
        (ErrorKind::Other, cause)
    } else {
        let cause =
            "its driver does not send frames that XDP programs give it (ndo_xdp_xmit): want af_xdp or af_packet";
        (ErrorKind::Unsupported, cause)
    };
    Err(Error::new("send from the kernel on", device.name.as_str(), cause, kind))
}

/// Loads the programs of `forward` on one device or two.
///
/// # Errors
/// As [`XdpDevice::traffic`].
pub fn forward(devices: Vec<XdpDevice>, spec: &ForwardSpec) -> Result<XdpPort> {
    forwarding::load(devices, spec)
}
