//! Interfaces as the kernel knows them: addresses, routes, neighbours.

mod broadcast;
mod capability;
mod carrier;
mod change;
mod drops;
mod ethernet;
mod kernel_counts;
mod namespace;
mod netlink;
mod ntuple;
mod ntuple_spec;
mod owner;
mod packet_sockets;
mod promiscuous;
mod qdisc;
mod unix_names;
mod veth_statistics;
mod watch;
mod way;
mod xdp_features;

pub use broadcast::{Broadcast, broadcasts};
pub use capability::effective;
pub use carrier::await_carrier;
pub use change::{set_mac, set_mtu};
pub use drops::{Drops, drops, transmit_drops};
pub use kernel_counts::KernelCounts;
pub use namespace::netns_cookie;
pub use ntuple::{NtupleFilter, check_ntuple, ntuple_on, receive_rings};
pub use ntuple_spec::{Above, Bitmatch, Fate, Headers, Ntuple};
pub use owner::{owner, owners};
pub use packet_sockets::PacketSockets;
pub use promiscuous::Promiscuous;
pub use qdisc::{Qdisc, dropped_between, qdiscs};
pub use unix_names::{AbstractName, abstract_names};
pub use veth_statistics::veth_transmit_errors;
pub use watch::{DeviceWatch, WatchOptions};
pub use way::{Way, way, way_out};
pub use xdp_features::{XdpFeatures, xdp_features};

use mpps_sys::privilege::{CapabilitySet, with_reserve};
use netlink::{Request, attributes, u16_at, u32_at};
use std::ffi::CStr;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Lengths of the fixed parts: `ifinfomsg`, `ifaddrmsg`, `rtmsg`, `ndmsg`.
const IFINFOMSG: usize = 16;
const IFADDRMSG: usize = 8;
const RTMSG: usize = 12;
const NDMSG: usize = 12;
/// From `linux/if_link.h`; libc lacks it.
const IFLA_ALT_IFNAME: u16 = 53;
/// From `linux/if_link.h`; libc has it for some targets only.
const IFLA_CARRIER: u16 = 33;
/// From `linux/rtnetlink.h`; libc has it for glibc alone.
const RTA_VIA: libc::c_ushort = 18;

/// Neighbour states in which the address is usable: `NUD_REACHABLE | STALE | DELAY | PROBE | NOARP | PERMANENT`.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetDev {
    /// Name.
    pub name: String,
    /// Index: stays with the interface when it is renamed, and is not used again when it is removed.
    pub ifindex: u32,
    /// MAC address; zero when it has none.
    pub mac: [u8; 6],
    /// Largest packet in bytes above the Ethernet header.
    pub mtu: usize,
    /// Administratively up.
    pub up: bool,
    /// Up and with a carrier.
    pub running: bool,
    /// Moves Ethernet frames.
    pub ethernet: bool,
    /// Addresses assigned to it, with the prefix length.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Link speed in bit/s, if the driver reports it; the speed of virtual devices is nominal.
    pub speed_bps: Option<u64>,
    /// Driver's name; empty if the driver does not report it.
    pub driver: String,
    /// The device is virtual: it has no hardware.
    pub is_virtual: bool,
    /// The device computes transmit checksums, and it is switched on.
    pub tx_checksum: bool,
    /// Receive and transmit queues, whichever are more.
    pub queues: usize,
}

/// The way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The next hop on the link: a gateway, or the destination itself.
    pub next_hop: IpAddr,
    /// The source address that the kernel would use.
    pub source: Option<IpAddr>,
}

/// Names of the interfaces there are.
pub fn interface_names() -> Vec<String> {
    let mut names = Vec::new();
    // A failure leaves the list empty: it only decorates an error.
    let _ = Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &[0; IFINFOMSG]).run(|_, body| {
        names.extend(
            attributes(body, IFINFOMSG)
                .find(|(k, _)| *k == libc::IFLA_IFNAME)
                .map(|(_, v)| text(v)),
        );
    });
    names
}

/// The address of a message about one.
fn assigned(body: &[u8]) -> Option<IpAddr> {
    let find = |kind| {
        attributes(body, IFADDRMSG)
            .find(|(k, _)| *k == kind)
            .and_then(|(_, v)| address(v))
    };
    // On point-to-point links IFA_ADDRESS is the peer's; IFA_LOCAL is ours if it is present.
    find(libc::IFA_LOCAL).or_else(|| find(libc::IFA_ADDRESS))
}

/// The addresses that reach this host by `device`: those of the device, then those that the host has elsewhere (on a
/// bridge or a VLAN above it, on the loopback interface) and answers for on all its links. Loopback addresses and other
/// links' link-local ones are not among them.
pub fn host_addresses(device: &NetDev) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = device.addresses.iter().map(|(ip, _)| *ip).collect();
    // A failure leaves those of the device.
    let _ = Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; IFADDRMSG]).run(|_, body| {
        let elsewhere = assigned(body).filter(|ip| match ip {
            IpAddr::V4(ip) => !ip.is_loopback(),
            IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
        });
        if let Some(ip) = elsewhere.filter(|ip| !all.contains(ip)) {
            all.push(ip);
        }
    });
    all
}

/// Returns all addresses of this host's interfaces, with the prefix length; none if the kernel does not report them.
pub fn assigned_addresses() -> Vec<(IpAddr, u8)> {
    let mut all = Vec::new();
    // After a failure, the addresses read so far are kept.
    let _ = Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; IFADDRMSG])
        .run(|_, body| all.extend(assigned(body).zip(body.get(1).copied())));
    all
}

impl NetDev {
    /// Looks an interface up by its name or by an alternative one (`ip link property add … altname`).
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is none of this name.
    pub fn by_name(name: &str) -> io::Result<Self> {
        let request = Request::new(libc::RTM_GETLINK, 0, &[0; IFINFOMSG]);
        // The kernel compares either attribute with names of both kinds; the first one has no room for long names.
        let kind = match name.len() < libc::IFNAMSIZ {
            true => libc::IFLA_IFNAME,
            false => IFLA_ALT_IFNAME,
        };
        Self::asked(request.attribute(kind, &[name.as_bytes(), &[0]].concat()))
    }

    /// Looks an interface up by its index.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is none of this index.
    pub fn by_index(ifindex: u32) -> io::Result<Self> {
        let mut head = [0; IFINFOMSG];
        head[4..8].copy_from_slice(&ifindex.to_ne_bytes());
        Self::asked(Request::new(libc::RTM_GETLINK, 0, &head))
    }

    fn asked(request: Request) -> io::Result<Self> {
        let mut found = None;
        let asked = request.run(|_, body| found = Self::of_link(body));
        let mut device = match (asked, found) {
            (Ok(()), Some(device)) => device,
            (Err(e), _)
                if !matches!(
                    e.raw_os_error(),
                    Some(libc::ENODEV | libc::ENOENT | libc::EINVAL | libc::ERANGE)
                ) =>
            {
                return Err(e);
            }
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; IFADDRMSG]).run(|_, body| {
            if u32_at(body, 4) == Some(device.ifindex) {
                device.addresses.extend(assigned(body).zip(body.get(1).copied()));
            }
        })?;
        device.ask_driver();
        Ok(device)
    }

    fn of_link(body: &[u8]) -> Option<Self> {
        let flags = u32_at(body, 8)? as libc::c_int;
        let mut device = Self {
            name: String::new(),
            ifindex: u32_at(body, 4)?,
            mac: [0; 6],
            mtu: 0,
            up: flags & libc::IFF_UP != 0,
            running: flags & libc::IFF_RUNNING != 0,
            ethernet: matches!(u16_at(body, 2)?, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK),
            addresses: Vec::new(),
            speed_bps: None,
            driver: String::new(),
            is_virtual: true,
            tx_checksum: false,
            queues: 1,
        };
        for (kind, value) in attributes(body, IFINFOMSG) {
            match kind {
                libc::IFLA_IFNAME => device.name = text(value),
                libc::IFLA_ADDRESS => device.mac = value.try_into().unwrap_or_default(),
                libc::IFLA_MTU => device.mtu = u32_at(value, 0)? as usize,
                // The flag follows a lost carrier up to a second later.
                IFLA_CARRIER => device.running &= value.first() != Some(&0),
                libc::IFLA_NUM_TX_QUEUES | libc::IFLA_NUM_RX_QUEUES => {
                    device.queues = device.queues.max(u32_at(value, 0)? as usize);
                }
                _ => {}
            }
        }
        Some(device)
    }

    /// Reads properties that only the driver knows, by ioctl `SIOCETHTOOL`. A driver that does not answer leaves the
    /// defaults.
    fn ask_driver(&mut self) {
        if let Some(info) = ethtool::<DrvInfo>(&self.name, ETHTOOL_GDRVINFO) {
            self.driver = text(&info.driver);
            // Hardware has an address on a bus ("0000:00:03.0", "virtio0"); virtual devices have a word or nothing.
            let bus = text(&info.bus_info);
            self.is_virtual = !bus.contains(|c: char| c.is_ascii_digit()) || self.driver == "veth";
        }
        if let Some(value) = ethtool::<EthtoolValue>(&self.name, ETHTOOL_GTXCSUM) {
            self.tx_checksum = value.data != 0;
        }
        if let Some(link) = ethtool::<EthtoolCmd>(&self.name, ETHTOOL_GSET) {
            let mbps = u32::from(link.speed_hi) << 16 | u32::from(link.speed);
            // SPEED_UNKNOWN, in 16 and in 32 bits.
            self.speed_bps = (mbps != 0 && mbps != 0xffff && mbps != u32::MAX).then_some(u64::from(mbps) * 1_000_000);
        }
    }
}

/// Returns whether the other end of a veth, in any namespace, has an XDP program in the driver; false if that is not
/// known.
///
/// # Errors
/// When the kernel refuses: the other end's namespace is another user's.
pub fn veth_peer_has_program(ifindex: u32) -> io::Result<bool> {
    // Numbers from `<linux/if_link.h>`; libc has not all of them.
    const IFLA_LINK: u16 = 5;
    const IFLA_LINK_NETNSID: u16 = 37;
    const IFLA_XDP: u16 = 43;
    const IFLA_TARGET_NETNSID: u16 = 46;
    const IFLA_XDP_ATTACHED: u16 = 2;
    const XDP_ATTACHED_DRV: u8 = 1;
    const XDP_ATTACHED_MULTI: u8 = 4;
    let head = |index: u32| {
        let mut head = [0; IFINFOMSG];
        head[4..8].copy_from_slice(&index.to_ne_bytes());
        head
    };
    let (mut peer, mut namespace) = (None, None);
    Request::new(libc::RTM_GETLINK, 0, &head(ifindex)).run(|_, body| {
        for (kind, value) in attributes(body, IFINFOMSG) {
            match kind {
                IFLA_LINK => peer = u32_at(value, 0),
                IFLA_LINK_NETNSID => namespace = u32_at(value, 0),
                _ => {}
            }
        }
    })?;
    let Some(peer) = peer else { return Ok(false) };
    let mut request = Request::new(libc::RTM_GETLINK, 0, &head(peer));
    if let Some(namespace) = namespace {
        request = request.attribute(IFLA_TARGET_NETNSID, &namespace.to_ne_bytes());
    }
    let mut program = false;
    // The kernel shows interfaces in another namespace to that namespace's administrators only.
    with_reserve(CapabilitySet::NET_ADMIN, || {
        request.run(|_, body| {
            let xdp = attributes(body, IFINFOMSG).find(|(kind, _)| *kind == IFLA_XDP);
            for (kind, value) in xdp.into_iter().flat_map(|(_, nested)| attributes(nested, 0)) {
                let drivers = matches!(value.first(), Some(&(XDP_ATTACHED_DRV | XDP_ATTACHED_MULTI)));
                program |= kind == IFLA_XDP_ATTACHED && drivers;
            }
        })
    })?;
    Ok(program)
}

/// Asks the kernel's routing tables for the way to `dst` out of interface `ifindex`.
///
/// # Errors
/// When there is none (`ENETUNREACH`).
pub fn route_lookup(dst: IpAddr, ifindex: u32) -> io::Result<Route> {
    let (family, bits) = family(dst);
    let mut fixed = [0; RTMSG];
    (fixed[0], fixed[1]) = (family, bits);
    let mut route = Route {
        next_hop: dst,
        source: None,
    };
    Request::new(libc::RTM_GETROUTE, 0, &fixed)
        .attribute(libc::RTA_DST, &octets(dst))
        .attribute(libc::RTA_OIF, &ifindex.to_ne_bytes())
        .run(|_, body| {
            for (kind, value) in attributes(body, RTMSG) {
                match kind {
                    libc::RTA_GATEWAY => route.next_hop = address(value).unwrap_or(dst),
                    // struct rtvia: the family, then the address: an IPv4 route by way of an IPv6 gateway (RFC 5549).
                    RTA_VIA => route.next_hop = value.get(2..).and_then(address).unwrap_or(dst),
                    libc::RTA_PREFSRC => route.source = address(value),
                    _ => {}
                }
            }
        })?;
    Ok(route)
}

/// Whether the kernel's routing tables have a route to `dst` by interface `ifindex`. [`route_lookup`] finds a way where
/// they have none, too: the kernel then takes an IPv4 address for one on the link.
///
/// # Errors
/// When the kernel does not say: a type of route that refuses packets, or a failure.
pub fn has_route(dst: IpAddr, ifindex: u32) -> io::Result<bool> {
    /// `RTM_F_FIB_MATCH`, linux/rtnetlink.h: the answer is the entry of the table (Linux 4.13).
    const FIB_MATCH: u32 = 0x2000;
    let (family, bits) = family(dst);
    let mut fixed = [0; RTMSG];
    (fixed[0], fixed[1]) = (family, bits);
    fixed[8..12].copy_from_slice(&FIB_MATCH.to_ne_bytes());
    let asked = Request::new(libc::RTM_GETROUTE, 0, &fixed)
        .attribute(libc::RTA_DST, &octets(dst))
        .attribute(libc::RTA_OIF, &ifindex.to_ne_bytes())
        .run(|_, _| ());
    match asked {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// The MAC address that the kernel knows for `ip` on interface `ifindex`, if it knows one.
///
/// # Errors
/// When the kernel's table can't be read.
pub fn neighbor_lookup(ip: IpAddr, ifindex: u32) -> io::Result<Option<[u8; 6]>> {
    let mut mac = None;
    let mut fixed = [0; NDMSG];
    fixed[0] = family(ip).0;
    // A dump, because asking for one entry needs Linux 5.0.
    Request::new(libc::RTM_GETNEIGH, libc::NLM_F_DUMP, &fixed).run(|_, body| {
        let find = |kind| attributes(body, NDMSG).find(|(k, _)| *k == kind).map(|(_, v)| v);
        let usable = u16_at(body, 8).is_some_and(|state| state & NUD_VALID != 0);
        if usable && u32_at(body, 4) == Some(ifindex) && find(libc::NDA_DST).and_then(address) == Some(ip) {
            mac = find(libc::NDA_LLADDR).and_then(|v| v.try_into().ok()).or(mac);
        }
    })?;
    Ok(mac)
}

/// Makes the kernel find out the MAC address of `ip` on interface `ifindex` (ARP, neighbour discovery), as it does for
/// its own traffic, without sending a packet of data; [`neighbor_lookup`] has the answer soon after.
///
/// # Errors
/// Without `CAP_NET_ADMIN` (`EPERM`), or when the interface has vanished.
pub fn neighbor_solicit(ip: IpAddr, ifindex: u32) -> io::Result<()> {
    // include/uapi/linux/neighbour.h
    const NTF_USE: u8 = 1;
    let mut fixed = [0; NDMSG];
    fixed[0] = family(ip).0;
    fixed[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    fixed[10] = NTF_USE;
    Request::new(libc::RTM_NEWNEIGH, libc::NLM_F_CREATE | libc::NLM_F_ACK, &fixed)
        .attribute(libc::NDA_DST, &octets(ip))
        .run(|_, _| ())
}

fn family(ip: IpAddr) -> (u8, u8) {
    match ip {
        IpAddr::V4(_) => (libc::AF_INET as u8, 32),
        IpAddr::V6(_) => (libc::AF_INET6 as u8, 128),
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(value).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(value).ok()?)),
        _ => None,
    }
}

fn text(value: &[u8]) -> String {
    CStr::from_bytes_until_nul(value)
        .map_or_else(|_| String::from_utf8_lossy(value), CStr::to_string_lossy)
        .into_owned()
}

// include/uapi/linux/ethtool.h
const ETHTOOL_GSET: u32 = 0x01;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;

/// A structure that `SIOCETHTOOL` fills in.
///
/// # Safety
/// The type must be `repr(C)`, start with the command, be valid for every bit pattern, and have the kernel's layout.
unsafe trait Ethtool: Copy {}

#[repr(C)]
#[derive(Clone, Copy)]
struct DrvInfo {
    cmd: u32,
    driver: [u8; 32],
    version: [u8; 32],
    fw_version: [u8; 32],
    bus_info: [u8; 32],
    erom_version: [u8; 32],
    reserved2: [u8; 12],
    counts: [u32; 5],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct EthtoolCmd {
    cmd: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    modes: [u8; 6],
    limits: [u32; 2],
    speed_hi: u16,
    more: [u8; 2],
    rest: [u32; 3],
}

const _: () = assert!(size_of::<DrvInfo>() == 196 && size_of::<EthtoolValue>() == 8 && size_of::<EthtoolCmd>() == 44);
const _: () =
    assert!(std::mem::offset_of!(EthtoolCmd, speed) == 12 && std::mem::offset_of!(EthtoolCmd, speed_hi) == 28);
const _: () = assert!(std::mem::offset_of!(DrvInfo, bus_info) == 100);

// SAFETY: layout asserted above; integers only.
unsafe impl Ethtool for DrvInfo {}
// SAFETY: layout asserted above; integers only.
unsafe impl Ethtool for EthtoolValue {}
// SAFETY: layout asserted above; integers only.
unsafe impl Ethtool for EthtoolCmd {}

/// Switches generic receive offload on, as `ethtool -K NAME gro on` does. True if it was off.
///
/// # Errors
/// Without `CAP_NET_ADMIN`, or if there is no such interface.
pub fn switch_gro_on(name: &str) -> io::Result<bool> {
    let was_on = ethtool::<EthtoolValue>(name, ETHTOOL_GGRO).is_some_and(|value| value.data != 0);
    // Set in any case: an XDP program in the driver shows GRO as on for as long as it is there.
    set_ethtool(
        name,
        EthtoolValue {
            cmd: ETHTOOL_SGRO,
            data: 1,
        },
    )?;
    Ok(!was_on)
}

fn ethtool<T: Ethtool>(name: &str, command: u32) -> Option<T> {
    // SAFETY: Ethtool types are plain data, valid when zeroed.
    let mut value: T = unsafe { zeroed() };
    // SAFETY: every Ethtool type starts with the command word.
    unsafe { (&raw mut value).cast::<u32>().write(command) };
    set_ethtool(name, value).ok()
}

/// Gives `value`, command included, to the driver, and returns the answer.
fn set_ethtool<T: Ethtool>(name: &str, mut value: T) -> io::Result<T> {
    // SAFETY: the kernel reads or fills `value`, whose size is that of the command's structure.
    unsafe { with_driver(name, (&raw mut value).cast()) }.map(|()| value)
}

/// Gives what is at `value`, which begins with a command, to the driver of an interface, which may answer there.
///
/// # Safety
/// `value` must be as long as what the driver reads and writes on this command.
unsafe fn with_driver(name: &str, value: *mut libc::c_char) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned from here on.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: ifreq is plain data, valid when zeroed.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = value;
    // SAFETY: the kernel reads the name; the rest is promised by the caller.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
