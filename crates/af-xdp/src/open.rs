//! Opens one interface, or two over one packet memory: memory, sockets, buffers to receive into, XDP program, in this
//! order. Everything that can be refused is refused here, by the main thread, before a lane starts.

use crate::config::{Config, Mode, Pages};
use crate::error::of;
use crate::layout::{Chunks, Depth, Shares, chunks, deal, queue_count};
use crate::port::{AfXdpPort, Parts};
use mpps_io::selection::{Listed, left_to_host, without};
use mpps_io::{Capabilities, Error, ErrorKind, Layer, Mailbox, Request, Result, Selection, Task};
use mpps_netdev::{NetDev, Promiscuous, await_carrier};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use xsk::{
    Addresses, BusyPoll, Filter, Match, Pool, Ports, Program, ProgramConfig, ProgramMode, Socket, SocketConfig,
    SocketMode, Umem, UmemConfig,
};

/// How long a queue may stay busy after its last socket was closed: the kernel gives it back a little later.
const RELEASE: Duration = Duration::from_millis(500);

const PROTOCOL_UDP: u8 = 17;

/// One port to be opened.
struct Wanted<'a> {
    config: &'a Config,
    device: NetDev,
    queues_then: u32,
    request: &'a Request<'a>,
    depth: Depth,
    shares: Shares,
    queues: u32,
    /// By lane: it only receives.
    gathers: Vec<bool>,
}

/// Opens the interfaces, with one lane for each entry of their roles. If frames are forwarded, two neighbours, the
/// first at an even place, are a pair over one packet memory. A frame received on one can then be sent on the other:
/// lane *i* of both uses the pool that the first makes for it. No packet is received before [`mpps_io::Port::queue`] is
/// called for the lane.
///
/// # Errors
/// When an interface or a queue does not exist or is in use, another XDP program is attached, the privilege is missing,
/// memory can't be had, there are more lanes than queues, or the two of a pair want packet memory of different kinds.
pub fn open(ports: &[(&Config, &Request<'_>)]) -> Result<Vec<AfXdpPort>> {
    let mut opened = Vec::with_capacity(ports.len());
    let forwards = ports.iter().all(|(_, request)| request.task == Task::Forward);
    for pair in ports.chunks(if forwards { 2 } else { 1 }) {
        let pair = pair.iter().map(|(config, request)| wanted(config, request));
        opened.extend(make(pair.collect::<Result<_>>()?)?);
    }
    Ok(opened)
}

fn wanted<'a>(config: &'a Config, request: &'a Request<'_>) -> Result<Wanted<'a>> {
    let roles = request.roles;
    let device = NetDev::of_port(&config.device, "af_xdp")?;
    if config.timed() && receives(request) {
        clocks_agree(config)?;
    }
    let depth = Depth::of(config);
    depth.check(config)?;
    let there = xsk::Device::named(&config.device)
        .and_then(|d| d.queues())
        .map_err(of)?;
    let queues = queue_count(config, roles, receives(request), there.current)?;
    Ok(Wanted {
        config,
        device,
        queues_then: there.current,
        request,
        depth,
        shares: deal(roles, queues),
        queues,
        gathers: roles
            .iter()
            .map(|role| role.rx && !role.tx && config.busy_budget.is_none())
            .collect(),
    })
}

/// Refuses `rx_time=kernel` if times of arrival, which are the kernel's, could not be compared with this process's.
fn clocks_agree(config: &Config) -> Result<()> {
    mpps_sys::clock::namespace::agrees(xsk::kernel_clock).map_err(|why| {
        let cause = format!("rx_time=kernel: {why}: leave it out, or run outside of the time namespace");
        Error::new("set up", config.device.as_str(), cause, ErrorKind::Unsupported)
    })
}

/// Opens the ports over one memory, whose chunks take the largest packets of any.
fn make(wanted: Vec<Wanted<'_>>) -> Result<Vec<AfXdpPort>> {
    let page = rustix::param::page_size() as u32;
    let shapes: Vec<Chunks> = wanted
        .iter()
        .map(|port| chunks(port.config, port.device.mtu, &port.device.driver, page))
        .collect::<Result<_>>()?;
    let shape = Chunks {
        size: shapes.iter().map(|shape| shape.size).max().unwrap_or(0),
        unaligned: shapes.iter().all(|shape| shape.unaligned),
        copies: shapes.iter().any(|shape| shape.copies),
    };
    // One socket registers the memory, and the mode is that of all.
    let modes: Vec<Mode> = wanted.iter().map(|port| port.config.mode).collect();
    let mode = if modes.contains(&Mode::ZeroCopy) {
        SocketMode::ZeroCopy
    } else if shape.copies || modes.iter().any(|mode| matches!(mode, Mode::Copy | Mode::Skb)) {
        SocketMode::Copy
    } else {
        SocketMode::Auto
    };
    over(&wanted, shape, mode)
}

fn over(wanted: &[Wanted<'_>], shape: Chunks, mode: SocketMode) -> Result<Vec<AfXdpPort>> {
    let lanes = wanted[0].shares.rx.len();
    // Chunks that the lanes of all ports need together: they have one pool.
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
            Pages::Huge1G => xsk::Pages::Huge1G,
        },
        ..UmemConfig::default()
    })
    .map_err(of)?;
    // Frames of the lanes' pools: the fill rings have the others.
    let waiting = |lane: usize| {
        wanted
            .iter()
            .map(move |p| p.depth.fill * p.shares.rx[lane].len() as u32)
    };
    let frames: Vec<u32> = (0..lanes)
        .map(|lane| frames[lane] - waiting(lane).sum::<u32>())
        .collect();
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
            // Filled before the program is attached: the driver then gives the device its buffers. One that finds none
            // may not look again (igb, if the two directions of a queue have an interrupt each).
            let waiting = Pool::new(umem, depth.fill).map_err(of)?;
            let full = rx.with_fill_limit(depth.fill as usize).over(&waiting).map_err(of)?;
            parts[lane].rx.push(full.into_half());
        }
        if let Some(lane) = owner(&shares.tx) {
            parts[lane].tx.push(tx);
        }
    }
    let zero_copy = sockets.first().is_some_and(|socket| socket.options().zero_copy);
    let receives = receives(wanted.request);
    // In zero-copy mode drivers do not send either while no program is attached; any program will do.
    let program = (receives || zero_copy).then(|| attach(config, device, wanted.request, &mut remarks));
    let program = match program {
        Some(Err(error)) if !receives && error.kind == ErrorKind::InUse => None,
        program => program.transpose()?,
    };
    if let Some(program) = &program {
        if let Some(why) = program.why_not_native().filter(|_| config.mode == Mode::Auto) {
            remarks.push(format!(
                "{}: the driver can't run XDP programs ({why}): skb mode, which is slower",
                config.device
            ));
        }
        remarks.extend(await_carrier([device]));
    }
    let promiscuous = (config.promisc == Some(true))
        .then(|| Promiscuous::hold(device.ifindex))
        .transpose()
        .map_err(|e| Error::os("set promiscuous mode on", config.device.as_str(), &e))?;
    let capabilities = Capabilities {
        path: "af_xdp",
        layer: Layer::Ethernet,
        max_frame: device.mtu + 14,
        mac: Some(device.mac),
        tx_checksum: false,
        one_flow_per_burst: false,
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

/// Whether any packet may be taken at all.
fn receives(request: &Request<'_>) -> bool {
    !request.selection.is_empty() || !request.answer.is_empty()
}

fn attach(config: &Config, device: &NetDev, request: &Request<'_>, remarks: &mut Vec<String>) -> Result<Program> {
    let take = match &request.selection {
        Selection::Nothing => xsk::Take::Nothing,
        Selection::All => xsk::Take::All,
        // Runs whose streams have no tag are refused on this path.
        Selection::Tagged { seed, .. } => xsk::Take::Tagged { seed: *seed },
        Selection::Foreign => {
            let (own, more) = left_to_host(mpps_netdev::host_addresses(device), device.addresses.len());
            if more > 0 {
                remarks.push(format!(
                    "{}: {more} of the host's addresses on other interfaces are more than the XDP program has room \
                     for: frames for them are taken, too",
                    config.device
                ));
            }
            xsk::Take::Foreign { own }
        }
        Selection::Udp {
            to, ports, excluded, ..
        } => xsk::Take::Match(Match {
            protocol: Some(PROTOCOL_UDP),
            ports: Ports::In(without(ports.as_ref().unwrap_or(&(1..=u16::MAX)), excluded)),
            addresses: match to.with_room() {
                Listed { range: Some(range), .. } => Addresses::Within(range),
                listed if listed.is_empty() => Addresses::Unicast,
                listed => Addresses::Of(listed.single),
            },
            either: false,
        }),
        Selection::Either { protocol, ip, ports } => xsk::Take::Match(Match {
            protocol: *protocol,
            ports: ports
                .as_ref()
                .map_or(Ports::Any, |range| Ports::In(vec![range.clone()])),
            addresses: ip.map_or(Addresses::Any, |ip| Addresses::Of(vec![ip])),
            either: true,
        }),
    };
    let answer = Listed::of(&request.answer);
    let program = ProgramConfig {
        mode: match config.mode {
            Mode::Auto => ProgramMode::Auto,
            Mode::ZeroCopy | Mode::Copy => ProgramMode::Native,
            Mode::Skb => ProgramMode::Skb,
        },
        filter: Filter {
            take,
            answer: answer.single,
            answer_within: answer.range,
        },
        rx_timestamp: config.timed(),
        frags: false,
    };
    Program::attach(&config.device, &program).map_err(of)
}
