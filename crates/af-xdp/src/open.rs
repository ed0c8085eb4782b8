//! Opens one interface, or two over one packet memory: memory, sockets, XDP program, in this order. Everything that can
//! be refused is refused here, by the main thread, before a lane starts.

use crate::config::{Config, Mode, Pages};
use crate::error::{not_found, of};
use crate::layout::{Chunks, Depth, Shares, chunks, deal, queue_count};
use crate::port::{AfXdpPort, Parts};
use crate::take::{Take, Taken, own, without};
use mpps_io::Mailbox;
use mpps_io::{Capabilities, Error, ErrorKind, Layer, Result, Roles};
use mpps_netdev::{NetDev, Promiscuous};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use xsk::{
    Addresses, BusyPoll, Filter, Match, Ports, Program, ProgramConfig, ProgramMode, Socket, SocketConfig, SocketMode,
    Umem, UmemConfig,
};

/// How long a queue may stay busy after its last socket was closed: the kernel gives it back a little later.
const RELEASE: Duration = Duration::from_millis(500);
/// How long a link may take to come back after a program was attached: many drivers set their queues up anew.
const CARRIER: Duration = Duration::from_secs(10);

const PROTOCOL_UDP: u8 = 17;

/// One port to be opened.
struct Wanted<'a> {
    config: &'a Config,
    device: NetDev,
    queues_then: u32,
    taken: &'a Taken,
    depth: Depth,
    shares: Shares,
    queues: u32,
    /// By lane: it only receives.
    gathers: Vec<bool>,
}

/// Opens the interface with one lane for each entry of `roles`. No packet is received before
/// [`mpps_io::Port::queue`] is called for the lane.
///
/// # Errors
/// When the interface or a queue does not exist or is in use, another XDP program is attached, the privilege is
/// missing, memory can't be had, or there are more lanes than queues.
pub fn open(config: &Config, roles: &[Roles], taken: &Taken) -> Result<AfXdpPort> {
    let mut ports = make(vec![wanted(config, roles, taken)?])?;
    Ok(ports.remove(0))
}

/// Opens two interfaces over one packet memory, so that a frame received on one can be sent on the other. Lane *i* of
/// both uses the pool that the first makes for it.
///
/// # Errors
/// As [`open`], and when the two want packet memory of different kinds.
pub fn open_pair(a: (&Config, &[Roles], &Taken), b: (&Config, &[Roles], &Taken)) -> Result<(AfXdpPort, AfXdpPort)> {
    let mut ports = make(vec![wanted(a.0, a.1, a.2)?, wanted(b.0, b.1, b.2)?])?;
    let second = ports.remove(1);
    Ok((ports.remove(0), second))
}

fn wanted<'a>(config: &'a Config, roles: &[Roles], taken: &'a Taken) -> Result<Wanted<'a>> {
    let device = NetDev::by_name(&config.device).map_err(|e| not_found(&config.device, &e))?;
    if !device.ethernet {
        let cause = "not an Ethernet device: af_xdp moves Ethernet frames";
        return Err(Error::new(
            "open",
            config.device.as_str(),
            cause,
            ErrorKind::Unsupported,
        ));
    }
    let depth = Depth::of(config);
    depth.check(config)?;
    let there = xsk::Device::named(&config.device)
        .and_then(|d| d.queues())
        .map_err(of)?;
    let queues = queue_count(config, roles, taken.anything(), there.current)?;
    Ok(Wanted {
        config,
        device,
        queues_then: there.current,
        taken,
        depth,
        shares: deal(roles, queues),
        queues,
        gathers: roles
            .iter()
            .map(|role| role.rx && !role.tx && config.busy_budget.is_none())
            .collect(),
    })
}

/// Opens the ports over one memory, whose chunks take the largest packets of any.
fn make(wanted: Vec<Wanted<'_>>) -> Result<Vec<AfXdpPort>> {
    let page = rustix::param::page_size() as u32;
    let shapes: Vec<Chunks> = wanted
        .iter()
        .map(|port| chunks(port.config, port.device.mtu, page))
        .collect::<Result<_>>()?;
    let shape = Chunks {
        size: shapes.iter().map(|shape| shape.size).max().unwrap_or(0),
        unaligned: shapes.iter().all(|shape| shape.unaligned),
    };
    // One socket registers the memory, and the mode is that of all.
    let modes: Vec<Mode> = wanted.iter().map(|port| port.config.mode).collect();
    let mode = if modes.contains(&Mode::ZeroCopy) {
        SocketMode::ZeroCopy
    } else if modes.iter().any(|mode| matches!(mode, Mode::Copy | Mode::Skb)) {
        SocketMode::Copy
    } else {
        SocketMode::Auto
    };
    over(&wanted, shape, mode)
}

fn over(wanted: &[Wanted<'_>], shape: Chunks, mode: SocketMode) -> Result<Vec<AfXdpPort>> {
    let lanes = wanted[0].shares.rx.len();
    // What the lanes of all ports need together: they have one pool.
    let frames: Vec<u32> = (0..lanes)
        .map(|lane| {
            let need = |p: &Wanted<'_>| {
                p.depth
                    .frames(p.config, p.shares.rx[lane].len(), p.shares.tx[lane].len())
            };
            wanted.iter().map(need).sum()
        })
        .collect();
    let first = wanted[0].config;
    let umem = Umem::new(&UmemConfig {
        frames: frames.iter().sum(),
        frame_size: shape.size,
        headroom: wanted.iter().map(|p| p.config.headroom).max().unwrap_or(0),
        unaligned: shape.unaligned,
        pages: match first.pages {
            Pages::Normal => xsk::Pages::Transparent,
            Pages::Huge => xsk::Pages::Huge2M,
        },
        ..UmemConfig::default()
    })
    .map_err(of)?;
    wanted.iter().map(|port| one(port, &umem, &frames, mode)).collect()
}

fn one(wanted: &Wanted<'_>, umem: &Arc<Umem>, frames: &[u32], mode: SocketMode) -> Result<AfXdpPort> {
    let Wanted {
        config,
        device,
        depth,
        shares,
        ..
    } = wanted;
    let mut remarks = Vec::new();
    let mut sockets = Vec::new();
    for position in 0..wanted.queues {
        sockets.push(bind(umem, config, depth, config.first + position, mode)?);
    }
    let mut parts: Vec<Parts> = shares.rx.iter().map(|_| Parts::default()).collect();
    for (position, socket) in (0..).zip(&sockets) {
        let (rx, tx) = socket.split().map_err(of)?;
        let owner = |halves: &[Vec<u32>]| halves.iter().position(|own| own.contains(&position));
        if let Some(lane) = owner(&shares.rx) {
            parts[lane].rx.push(rx);
        }
        if let Some(lane) = owner(&shares.tx) {
            parts[lane].tx.push(tx);
        }
    }
    let program = wanted
        .taken
        .anything()
        .then(|| attach(config, device, wanted.taken, &mut remarks))
        .transpose()?;
    if let Some(program) = &program {
        if let Some(why) = program.why_not_native().filter(|_| config.mode == Mode::Auto) {
            remarks.push(format!(
                "{}: the driver can't run XDP programs ({why}): skb mode, which is slower",
                config.device
            ));
        }
        await_carrier(device);
    }
    let promiscuous = config
        .promisc
        .then(|| Promiscuous::hold(device.ifindex))
        .transpose()
        .map_err(|e| Error::os("set promiscuous mode on", config.device.as_str(), &e))?;
    let zero_copy = sockets.first().is_some_and(|socket| socket.options().zero_copy);
    let capabilities = Capabilities {
        path: "af_xdp",
        layer: Layer::Ethernet,
        max_frame: device.mtu + 14,
        mac: Some(device.mac),
        tx_checksum: false,
        one_flow_per_burst: false,
        split_lanes: true,
        // What the program takes, the host's stack does not see.
        host_stack: false,
        link_bps: device.speed_bps,
        preferred_burst: if zero_copy { 32 } else { 64 },
    };
    Ok(AfXdpPort {
        capabilities,
        config: (*config).clone(),
        device: device.clone(),
        queues_then: wanted.queues_then,
        umem: umem.clone(),
        sockets,
        shares: shares.clone(),
        parts: parts.into_iter().map(|parts| Mutex::new(Some(parts))).collect(),
        frames: frames.to_vec(),
        gathers: wanted.gathers.clone(),
        program,
        _promiscuous: promiscuous,
        mailbox: Mailbox::default(),
        unsent: shares.rx.iter().map(|_| AtomicU64::new(0)).collect(),
        remarks,
    })
}

fn bind(umem: &Arc<Umem>, config: &Config, depth: &Depth, queue: u32, mode: SocketMode) -> Result<Socket> {
    let mut wanted = SocketConfig {
        rx_ring: depth.ring,
        tx_ring: depth.ring,
        fill_ring: depth.fill_ring,
        completion_ring: depth.ring,
        mode,
        need_wakeup: config.need_wakeup,
        multi_buffer: false,
        busy_poll: config.busy_budget.map(|budget| BusyPoll {
            budget,
            usecs: 20,
            prefer: true,
        }),
        tx_budget: config.tx_budget.or((depth.ring > 32).then_some(depth.ring)),
    };
    let deadline = Instant::now() + RELEASE;
    loop {
        match Socket::bind(umem, &config.device, queue, &wanted) {
            Ok(socket) => return Ok(socket),
            // Before Linux 6.17 the budget can't be set: 32 it is, unless that was asked for.
            Err(xsk::Error::Unsupported { .. }) if wanted.tx_budget.is_some() && config.tx_budget.is_none() => {
                wanted.tx_budget = None;
            }
            Err(xsk::Error::Busy { .. }) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(of(error)),
        }
    }
}

fn attach(config: &Config, device: &NetDev, taken: &Taken, remarks: &mut Vec<String>) -> Result<Program> {
    let take = match &taken.take {
        Take::Nothing => xsk::Take::Nothing,
        Take::All => xsk::Take::All,
        Take::Foreign => {
            let (own, more) = own(mpps_netdev::host_addresses(device), device.addresses.len());
            if more > 0 {
                remarks.push(format!(
                    "{}: {more} of the host's addresses on other interfaces are more than the XDP program has room for: frames for them are taken, too",
                    config.device
                ));
            }
            xsk::Take::Foreign { own }
        }
        Take::Udp {
            addresses,
            ports,
            excluded,
        } => xsk::Take::Match(Match {
            protocol: Some(PROTOCOL_UDP),
            ports: Ports::In(without(ports, excluded)),
            addresses: if addresses.is_empty() {
                Addresses::Unicast
            } else {
                Addresses::Of(addresses.clone())
            },
            either: false,
        }),
        Take::Either {
            protocol,
            addresses,
            ports,
        } => xsk::Take::Match(Match {
            protocol: *protocol,
            ports: ports
                .as_ref()
                .map_or(Ports::Any, |range| Ports::In(vec![range.clone()])),
            addresses: if addresses.is_empty() {
                Addresses::Any
            } else {
                Addresses::Of(addresses.clone())
            },
            either: true,
        }),
    };
    let program = ProgramConfig {
        mode: match config.mode {
            Mode::Auto => ProgramMode::Auto,
            Mode::ZeroCopy | Mode::Copy => ProgramMode::Native,
            Mode::Skb => ProgramMode::Skb,
        },
        filter: Filter {
            take,
            answer: taken.answer.clone(),
        },
        rx_timestamp: config.rx_time,
        frags: false,
    };
    Program::attach(&config.device, &program).map_err(of)
}

/// Waits for a link that went down when the program was attached. One that was down before stays so.
fn await_carrier(device: &NetDev) {
    let deadline = Instant::now() + CARRIER;
    let down = || NetDev::by_name(&device.name).is_ok_and(|now| !now.running);
    while device.running && down() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
}
