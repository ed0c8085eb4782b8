//! Routes and neighbours: the next hop to a destination, and its MAC address.

use crate::netlink::{Request, attributes, u16_at, u32_at};
use crate::{RTMSG, address, family, octets};
use std::io;
use std::net::IpAddr;

/// Length of the fixed part `ndmsg`.
pub(crate) const NDMSG: usize = 12;
/// From `linux/rtnetlink.h`; libc has it for glibc alone.
pub(crate) const RTA_VIA: libc::c_ushort = 18;

/// Neighbour states in which the address is usable: `NUD_REACHABLE | STALE | DELAY | PROBE | NOARP | PERMANENT`.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

/// The way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The next hop on the link: a gateway, or the destination itself.
    pub next_hop: IpAddr,
    /// The source address that the kernel would use.
    pub source: Option<IpAddr>,
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
