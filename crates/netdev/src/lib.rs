//! Interfaces as the kernel knows them: addresses, routes, neighbours.

mod broadcast;
mod capability;
mod carrier;
mod change;
mod drops;
mod ethernet;
mod ethtool;
mod kernel_counts;
mod namespace;
mod netlink;
mod ntuple;
mod ntuple_spec;
mod owner;
mod packet_sockets;
mod promiscuous;
mod qdisc;
mod route;
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
pub use ethtool::switch_gro_on;
pub use kernel_counts::KernelCounts;
pub use namespace::netns_cookie;
pub use ntuple::{NtupleFilter, check_ntuple, ntuple_on, receive_rings};
pub use ntuple_spec::{Above, Bitmatch, Fate, Headers, Ntuple};
pub use owner::{owner, owners};
pub use packet_sockets::PacketSockets;
pub use promiscuous::Promiscuous;
pub use qdisc::{Qdisc, dropped_between, qdiscs};
pub use route::{Route, has_route, neighbor_lookup, neighbor_solicit, route_lookup};
pub use unix_names::{AbstractName, abstract_names};
pub use veth_statistics::veth_transmit_errors;
pub use watch::{DeviceWatch, WatchOptions};
pub use way::{Way, way, way_out};
pub use xdp_features::{XdpFeatures, xdp_features};

use ethtool::{DrvInfo, ETHTOOL_GDRVINFO, ETHTOOL_GSET, ETHTOOL_GTXCSUM, EthtoolCmd, EthtoolValue, ethtool};
use mpps_sys::privilege::{CapabilitySet, with_reserve};
use netlink::{Request, attributes, u16_at, u32_at};
use std::ffi::CStr;
use std::io;
use std::net::IpAddr;

/// Lengths of the fixed parts: `ifinfomsg`, `ifaddrmsg`, `rtmsg`.
const IFINFOMSG: usize = 16;
const IFADDRMSG: usize = 8;
const RTMSG: usize = 12;
/// From `linux/if_link.h`; libc lacks it.
const IFLA_ALT_IFNAME: u16 = 53;
/// From `linux/if_link.h`; libc has it for some targets only.
const IFLA_CARRIER: u16 = 33;
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
