//! Opening: from a checked configuration to bound sockets.

use crate::address::RawAddr;
use crate::config::{Config, DEFAULT_PORT, is_link_local};
use crate::message::{Gso, Kind};
use crate::socket::{Socket, UDP_GRO, descriptor_limit};
use crate::sockets::{Endpoint, Got, Lane, Sockets};
use mpps_io::{Capabilities, Error, ErrorKind, Layer, Result, Roles, SocketFlow};
use mpps_netdev::{NetDev, Way, interface_names, owner, owners, way};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Memory that the default receive buffers of all sockets together may take, bytes.
const RCVBUF_TOTAL: usize = 64 << 20;
/// Largest and smallest default receive buffer of one socket, bytes as asked for.
const RCVBUF: (usize, usize) = (256 << 10, 4 << 20);
/// Default send buffer, bytes as asked for. Fewer small datagrams than a device queue holds by default (1000), so
/// that the socket says "full" before the queue silently drops.
const SNDBUF: usize = 256 << 10;
/// Default send buffer with segmentation, where one packet is up to 64 KiB.
const SNDBUF_GSO: usize = 4 << 20;
/// Largest UDP payload over IPv4: 65535 less IP and UDP header.
const MAX_PAYLOAD: usize = 65_507;
/// How long binding is tried again while the address is in use. Measured on Linux 6.18: a killed ring's sockets are
/// gone after 34 to 64 ms.
const LAST_HELD: Duration = Duration::from_millis(500);

/// How the sockets are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One connected socket per flow, in flow order. Flow `f` is sent by transmitting lane `f % n` of `n` and received
    /// by receiving lane `f % m` of `m`, each numbered in the order of the roles; a lane with both roles uses its
    /// sockets both ways. A flow that names its lane ([`SocketFlow::lane`]) takes that number in place of `f`.
    ///
    /// No two flows have both ends in common, unless they name their lanes: the kernel gives all packets that come back
    /// to such ends to one of their sockets, and one lane receives from all of these.
    Connected(Vec<SocketFlow>),
    /// One socket a lane, all on the device's address and port: what comes in can be counted or sent back.
    Listening,
}

/// Opens the sockets of a port of the path `path`.
///
/// # Errors
/// [`ErrorKind::InUse`] naming address and port that another program holds, [`ErrorKind::NotFound`] for an address that
/// this host does not have, [`ErrorKind::Permission`] for an option that needs privilege, [`ErrorKind::Unsupported`]
/// for what is not available (more sockets than `RLIMIT_NOFILE`, no flows, no lanes).
pub fn open(path: &'static str, config: Config, mode: Mode, roles: &[Roles]) -> Result<Sockets> {
    if roles.is_empty() {
        return Err(unsupported(format!("{path} port"), "no lanes"));
    }
    match mode {
        Mode::Connected(flows) => connected(path, config, &flows, roles),
        Mode::Listening => listening(path, config, roles),
    }
}

fn unsupported(object: impl Into<String>, cause: impl Into<String>) -> Error {
    Error::new("open", object.into(), cause.into(), ErrorKind::Unsupported)
}

fn connected(path: &'static str, config: Config, flows: &[SocketFlow], roles: &[Roles]) -> Result<Sockets> {
    check_flows(path, &config, flows)?;
    let src = flows[0].src.ip();
    let v6 = flows.iter().any(|flow| flow.src.is_ipv6());
    let shared = shared_sources(flows);
    let lanes = lanes(roles, flows);
    let receives = lanes.iter().any(|l| !l.rx.is_empty());
    // A link-local destination is on the link that was named with it, if one was, and a link-local source, too.
    let named = flows.iter().find_map(|flow| match flow.dst {
        SocketAddr::V6(peer) => Some(peer.scope_id()).filter(|&scope| scope > 0),
        SocketAddr::V4(_) => None,
    });
    let iface = match named.filter(|_| is_link_local(src) && config.zone.is_none()) {
        Some(ifindex) => NetDev::by_index(ifindex).ok(),
        None => interface_of(src, &config)?,
    };
    let scope = named.unwrap_or(iface.as_ref().map_or(0, |i| i.ifindex));
    let mut setup = Setup::new(path, &config, flows.len(), receives, v6);
    let mut endpoints = Vec::with_capacity(flows.len());
    for local in &shared {
        // Without SO_REUSEADDR, so that another program's socket at this end is an error even if it has set it.
        bind(&new_socket(local.is_ipv6(), flows.len())?, *local, scope)?;
    }
    for flow in flows {
        let (local, peer) = (flow.src, flow.dst);
        let socket = new_socket(local.is_ipv6(), flows.len())?;
        setup.apply(&socket, local)?;
        if shared.contains(&local) {
            socket
                .set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)
                .map_err(|e| Error::os("set SO_REUSEADDR on", local.to_string(), &e))?;
        }
        bind(&socket, local, scope)?;
        socket
            .mark(flow)
            .map_err(|(what, e)| Error::os(what, format!("{local} to {peer}"), &e))?;
        let to = RawAddr::new(peer.ip(), peer.port(), scope);
        socket
            .connect(&to.labelled(flow.marks.label))
            .map_err(|e| unconnected(&e, (local, peer), iface.as_ref()))?;
        let chosen = socket.local().ok().and_then(|bound| bound.get());
        endpoints.push(Endpoint {
            socket,
            local: chosen.filter(|_| local.port() == 0).unwrap_or(local),
            peer: Some(peer),
        });
    }
    let path_mtu = endpoints[0].socket.path_mtu(src.is_ipv6());
    let mtu = [path_mtu, iface.as_ref().map(|i| i.mtu)].into_iter().flatten().min();
    finish(
        config,
        Kind {
            listening: false,
            wildcard: false,
            gro: setup.gro,
            answers: false,
            timed: setup.timed,
        },
        endpoints,
        lanes,
        iface,
        mtu,
        setup,
    )
}

/// Refuses flows that no sockets can have: none, from an address that is not the port's, between two families, or two
/// with the same ends.
fn check_flows(path: &str, config: &Config, flows: &[SocketFlow]) -> Result<()> {
    let Some(first) = flows.first() else {
        return Err(unsupported(format!("{path} port"), "no flows"));
    };
    if config
        .address
        .is_some_and(|a| flows.iter().any(|flow| flow.src.ip() != a))
    {
        return Err(unsupported(
            first.src.ip().to_string(),
            format!("not the address that the {path} port names: want the same, or none there"),
        ));
    }
    if let Some(flow) = flows.iter().find(|flow| flow.src.is_ipv6() != flow.dst.is_ipv6()) {
        let what = format!("{} to {}", flow.src.ip(), flow.dst.ip());
        return Err(unsupported(what, "one is IPv4, the other IPv6"));
    }
    let mut ends = HashSet::new();
    let mut unnamed = flows.iter().filter(|flow| flow.lane.is_none());
    if let Some(flow) = unnamed.find(|flow| !ends.insert((flow.src, flow.dst))) {
        return Err(unsupported(
            format!("{} to {}", flow.src, flow.dst),
            "two flows between the same ends: a udp socket needs its own",
        ));
    }
    Ok(())
}

/// Explains why a socket could not be connected, by the state of the interface and the kernel's routes if these show
/// it.
fn unconnected(error: &io::Error, (local, peer): (SocketAddr, SocketAddr), iface: Option<&NetDev>) -> Error {
    let error = Error::os("connect", format!("{local} to {peer}"), error);
    let route = way(local.ip(), peer.ip(), iface.map_or(0, |i| i.ifindex));
    let (cause, kind) = match (iface, route) {
        (Some(device), _) if !device.up => (format!("{} is switched off", device.name), ErrorKind::LinkDown),
        (Some(device), Ok(Way::None(_))) if !device.running => (
            format!("{} has no carrier, and there is no other way", device.name),
            ErrorKind::LinkDown,
        ),
        (_, Ok(Way::None(obstacle))) => (obstacle.cause(local.ip(), peer.ip()), ErrorKind::NoWay(obstacle)),
        _ => return error,
    };
    Error::new(error.op, error.object, cause, kind)
}

/// Returns the sources of more than one flow: their sockets are distinguished by the peers that they are connected to.
fn shared_sources(flows: &[SocketFlow]) -> HashSet<SocketAddr> {
    let mut seen = HashSet::new();
    flows
        .iter()
        .map(|flow| flow.src)
        .filter(|local| local.port() != 0 && !seen.insert(*local))
        .collect()
}

fn listening(path: &'static str, config: Config, roles: &[Roles]) -> Result<Sockets> {
    let ip = config.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let address = SocketAddr::new(ip, config.port.unwrap_or(DEFAULT_PORT));
    let iface = interface_of(ip, &config)?;
    let scope = iface.as_ref().map_or(0, |i| i.ifindex);
    let v6 = ip.is_ipv6();
    // All addresses are those of IPv4, too.
    let both = v6 && ip.is_unspecified();
    let new_socket = |v6, wanted| {
        let socket = new_socket(v6, wanted)?;
        if both {
            let failed = |e| Error::os("switch IPV6_V6ONLY off on", address.to_string(), &e);
            socket.take_ipv4().map_err(failed)?;
        }
        Ok::<_, Error>(socket)
    };
    // Without SO_REUSEPORT, so that another program's socket on this port is an error even if it has set it.
    bind(&new_socket(v6, roles.len())?, address, scope)?;
    let mut setup = Setup::new(path, &config, roles.len(), true, v6);
    let answers = roles.iter().any(|role| role.tx);
    let mut endpoints = Vec::with_capacity(roles.len());
    for _ in roles {
        let socket = new_socket(v6, roles.len())?;
        let set = |level, name, what| {
            socket
                .set(level, name, 1)
                .map_err(|e| Error::os(what, address.to_string(), &e))
        };
        set(libc::SOL_SOCKET, libc::SO_REUSEPORT, "set SO_REUSEPORT on")?;
        if ip.is_unspecified() {
            match v6 {
                true => set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, "set IPV6_RECVPKTINFO on")?,
                false => set(libc::IPPROTO_IP, libc::IP_PKTINFO, "set IP_PKTINFO on")?,
            }
        }
        if answers && both {
            set(libc::IPPROTO_IP, libc::IP_RECVTTL, "set IP_RECVTTL on")?;
        }
        if answers {
            match v6 {
                true => set(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, "set IPV6_RECVHOPLIMIT on")?,
                false => set(libc::IPPROTO_IP, libc::IP_RECVTTL, "set IP_RECVTTL on")?,
            }
        }
        setup.apply(&socket, address)?;
        bind(&socket, address, scope)?;
        endpoints.push(Endpoint {
            socket,
            local: address,
            peer: None,
        });
    }
    let lanes = (0..roles.len() as u32).map(|i| lane(vec![i], vec![i])).collect();
    let mtu = iface.as_ref().map(|i| i.mtu);
    let kind = Kind {
        listening: true,
        wildcard: ip.is_unspecified(),
        gro: setup.gro,
        answers,
        timed: setup.timed,
    };
    finish(config, kind, endpoints, lanes, iface, mtu, setup)
}

/// The interface that has an address of ours; of a link-local one the interface that was named with it.
fn interface_of(ip: IpAddr, config: &Config) -> Result<Option<NetDev>> {
    let named = |name: &str| {
        NetDev::by_name(name).map_err(|_| {
            let cause = format!(
                "no such interface '{name}'; there are: {}",
                interface_names().join(", ")
            );
            Error::new("bind", ip.to_string(), cause, ErrorKind::NotFound)
        })
    };
    if !is_link_local(ip) {
        return Ok(owner(ip));
    }
    let owners = owners(ip);
    match (&config.zone, &owners[..]) {
        (Some(name), _) => named(name).map(Some),
        (None, []) => Ok(None),
        (None, [one]) => named(one).map(Some),
        (None, [one, ..]) => {
            let cause = format!(
                "{} have this link-local address: want the one that is meant, such as [{ip}%{one}]",
                owners.join(" and ")
            );
            Err(Error::new("bind", ip.to_string(), cause, ErrorKind::Unsupported))
        }
    }
}

fn finish(
    config: Config,
    kind: Kind,
    endpoints: Vec<Endpoint>,
    lanes: Vec<Lane>,
    iface: Option<NetDev>,
    mtu: Option<usize>,
    setup: Setup,
) -> Result<Sockets> {
    let local = endpoints[0].local;
    let headers = if setup.v6 { 48 } else { 28 };
    let max_frame = mtu.map_or(MAX_PAYLOAD, |mtu| mtu.saturating_sub(headers).clamp(1, MAX_PAYLOAD));
    let gso = if config.gso {
        let scope = iface.as_ref().map_or(0, |i| i.ifindex);
        let own = if local.ip().is_unspecified() {
            loopback(setup.v6)
        } else {
            local.ip()
        };
        let segments = Socket::probe_segments(&RawAddr::new(own, 0, scope))
            .map_err(|e| Error::os("set UDP_SEGMENT (gso=on) on", local.to_string(), &e))?;
        Some(Gso {
            segments,
            bytes: MAX_PAYLOAD.min(65_535 - headers),
            // On all interfaces the MTU is that of none.
            largest: mtu.unwrap_or(1500).saturating_sub(headers).clamp(1, MAX_PAYLOAD),
        })
    } else {
        None
    };
    let capabilities = Capabilities {
        path: setup.path,
        layer: Layer::Payload,
        max_frame,
        mac: None,
        tx_checksum: false,
        one_flow_per_burst: !kind.listening,
        link_bps: iface.as_ref().and_then(|i| i.speed_bps),
        preferred_burst: gso.map_or(64, |gso| gso.segments),
    };
    let got = Got {
        rcvbuf: setup.got_rcvbuf,
        sndbuf: setup.got_sndbuf,
        ifindex: iface.as_ref().map_or(0, |i| i.ifindex),
        interface: iface.map(|i| i.name),
        mtu,
    };
    let drops = Mutex::new(vec![0; endpoints.len()].into_boxed_slice());
    let (endpoints, lanes) = (endpoints.into_boxed_slice(), lanes.into_boxed_slice());
    Ok(Sockets {
        config,
        capabilities,
        kind,
        gso,
        endpoints,
        lanes,
        got,
        drops,
        obstacle: Mutex::new(None),
    })
}

fn loopback(v6: bool) -> IpAddr {
    if v6 {
        IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)
    } else {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }
}

fn lane(tx: Vec<u32>, rx: Vec<u32>) -> Lane {
    Lane {
        tx: tx.into(),
        rx: rx.into(),
        counters: Default::default(),
        taken: false.into(),
        next_asked: 0.into(),
    }
}

/// Spreads the flows over the lanes with each role.
fn lanes(roles: &[Roles], flows: &[SocketFlow]) -> Vec<Lane> {
    let number = |flow: usize| flows[flow].lane.map_or(flow, |lane| lane as usize);
    // What comes back to the ends of several flows comes to any of their sockets, and all of these are one lane's.
    let mut first = HashMap::new();
    let received: Vec<usize> = (0..flows.len())
        .map(|flow| match flows[flow].src.port() {
            0 => number(flow),
            _ => *first.entry((flows[flow].src, flows[flow].dst)).or_insert(number(flow)),
        })
        .collect();
    let share = |has: fn(&Roles) -> bool, i: usize, number: &dyn Fn(usize) -> usize| -> Vec<u32> {
        let n = roles.iter().filter(|r| has(r)).count();
        let nth = roles[..i].iter().filter(|r| has(r)).count();
        match has(&roles[i]) {
            true => (0..flows.len())
                .filter(|flow| number(*flow) % n == nth)
                .map(|flow| flow as u32)
                .collect(),
            false => Vec::new(),
        }
    };
    (0..roles.len())
        .map(|i| lane(share(|r| r.tx, i, &number), share(|r| r.rx, i, &|flow| received[flow])))
        .collect()
}

fn new_socket(v6: bool, wanted: usize) -> Result<Socket> {
    Socket::new(if v6 { libc::AF_INET6 } else { libc::AF_INET }).map_err(|e| match e.raw_os_error() {
        Some(libc::EMFILE) => {
            let cause = format!(
                "the limit of open files (ulimit -n) is {}: want fewer flows or a higher limit",
                descriptor_limit()
            );
            unsupported(format!("{wanted} udp sockets"), cause)
        }
        _ => Error::os("open", format!("{wanted} udp sockets"), &e),
    })
}

/// Binds a socket, and tries again for a while if the address is in use: the kernel takes down the rings of a killed
/// program, and with them their registered sockets, only tens of milliseconds after the program has gone.
fn bind(socket: &Socket, address: SocketAddr, scope: u32) -> Result<()> {
    let raw = RawAddr::new(address.ip(), address.port(), scope);
    let since = Instant::now();
    loop {
        match socket.bind(&raw) {
            Err(e) if e.raw_os_error() == Some(libc::EADDRINUSE) && since.elapsed() < LAST_HELD => {
                std::thread::sleep(LAST_HELD / 50);
            }
            bound => return bound.map_err(|e| unbound(&e, address)),
        }
    }
}

/// Returns a hint for an IPv6 address that ends like one with a port behind it: `fd00::1:9000`.
fn meant_port(ip: IpAddr) -> String {
    let text = ip.to_string();
    let split = text.rsplit_once(':').filter(|_| ip.is_ipv6());
    let meant = split.filter(|(host, port)| host.parse::<IpAddr>().is_ok() && port.parse::<u16>().is_ok());
    meant.map_or_else(String::new, |(host, port)| {
        format!("; an IPv6 address stands in brackets in front of a port: [{host}]:{port}")
    })
}

fn unbound(error: &io::Error, address: SocketAddr) -> Error {
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) => Error::new(
            "bind",
            address.to_string(),
            "in use by another program",
            ErrorKind::InUse,
        ),
        Some(libc::EADDRNOTAVAIL) => Error::new(
            "bind",
            address.to_string(),
            format!("no interface of this host has this address{}", meant_port(address.ip())),
            ErrorKind::NotFound,
        ),
        _ => Error::os("bind", address.to_string(), error),
    }
}

/// Options that every socket gets, and the sizes that the kernel really gave.
struct Setup {
    path: &'static str,
    rcvbuf: usize,
    sndbuf: usize,
    busy_poll: Option<u32>,
    gro: bool,
    /// The kernel says when packets came.
    timed: bool,
    v6: bool,
    got_rcvbuf: usize,
    got_sndbuf: usize,
}

impl Setup {
    fn new(path: &'static str, config: &Config, sockets: usize, receives: bool, v6: bool) -> Self {
        let share = (RCVBUF_TOTAL / sockets.max(1)).clamp(RCVBUF.0, RCVBUF.1);
        Self {
            path,
            // A socket that nobody reads shall not fill memory: the kernel rounds this up to its minimum.
            rcvbuf: if receives { config.rcvbuf.unwrap_or(share) } else { 1 },
            sndbuf: config.sndbuf.unwrap_or(if config.gso { SNDBUF_GSO } else { SNDBUF }),
            busy_poll: config.busy_poll,
            gro: config.gro && receives,
            timed: config.timed() && receives,
            v6,
            got_rcvbuf: 0,
            got_sndbuf: 0,
        }
    }

    fn apply(&mut self, socket: &Socket, address: SocketAddr) -> Result<()> {
        let failed = |op| move |e| Error::os(op, address.to_string(), &e);
        self.got_rcvbuf = socket
            .set_buffer(true, self.rcvbuf)
            .map_err(failed("set SO_RCVBUF on"))?;
        self.got_sndbuf = socket
            .set_buffer(false, self.sndbuf)
            .map_err(failed("set SO_SNDBUF on"))?;
        socket
            .forbid_fragments(address.is_ipv6())
            .map_err(failed("set IP_MTU_DISCOVER on"))?;
        if let Some(usecs) = self.busy_poll {
            socket.set_busy_poll(usecs).map_err(|e| match e.raw_os_error() {
                Some(libc::EPERM) => {
                    let cause = "more than net.core.busy_read needs CAP_NET_ADMIN: run as root, or raise the sysctl";
                    Error::new(
                        "set SO_BUSY_POLL (busy_poll=) on",
                        address.to_string(),
                        cause,
                        ErrorKind::Permission,
                    )
                }
                _ => Error::os("set SO_BUSY_POLL (busy_poll=) on", address.to_string(), &e),
            })?;
        }
        if self.gro {
            socket
                .set(libc::SOL_UDP, UDP_GRO, 1)
                .map_err(failed("set UDP_GRO (gro=on) on"))?;
        }
        if self.timed {
            socket
                .ask_for_times()
                .map_err(failed("set SO_TIMESTAMPING (rx_time=kernel) on"))?;
        }
        Ok(())
    }
}
