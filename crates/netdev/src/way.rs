//! The kernel's own route to a destination, as a socket would take it, and obstacles on it.

use crate::netlink::{Request, attributes, u32_at};
use crate::route::RTA_VIA;
use crate::{NetDev, RTMSG, address, assigned_addresses, family, octets};
use mpps_io::Obstacle;
use std::io;
use std::net::IpAddr;

/// The way that packets between two addresses go out of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A route exists.
    Out {
        /// The interface.
        ifindex: u32,
        /// The router that it leads to; `None`: the destination is on the link.
        router: Option<IpAddr>,
        /// The largest packet that the route allows, if it names one.
        mtu: Option<u32>,
        /// The MTU was learned from a router (ICMP), and expires.
        learned: bool,
    },
    /// No route exists, for this reason.
    None(Obstacle),
}

/// Looks up the way of packets from `src` to `dst`; `scope`: the interface of link-local addresses, or 0.
///
/// # Errors
/// When the kernel's tables can't be read.
pub fn way(src: IpAddr, dst: IpAddr, scope: u32) -> io::Result<Way> {
    let own = assigned_addresses();
    if !own.is_empty() && !src.is_loopback() && !own.iter().any(|(ip, _)| *ip == src) {
        return Ok(Way::None(Obstacle::NoAddress));
    }
    let (family, bits) = family(dst);
    let mut fixed = [0; RTMSG];
    (fixed[0], fixed[1], fixed[2]) = (family, bits, bits);
    let mut request = Request::new(libc::RTM_GETROUTE, 0, &fixed)
        .attribute(libc::RTA_DST, &octets(dst))
        .attribute(libc::RTA_SRC, &octets(src));
    let link_local = matches!(dst, IpAddr::V6(ip) if ip.is_unicast_link_local());
    if scope != 0 && link_local {
        request = request.attribute(libc::RTA_OIF, &scope.to_ne_bytes());
    }
    let mut found = None;
    let asked = request.run(|_, body| found = found.or(of_route(body)));
    match (asked, found) {
        (Ok(()), Some(way)) => Ok(way),
        (Ok(()), None) => Err(io::ErrorKind::InvalidData.into()),
        // IPv4 reports the type of a route that leads nowhere as an error; IPv6 only that there is none.
        (Err(error), _) => match error.raw_os_error() {
            Some(libc::ENETUNREACH) => Ok(Way::None(Obstacle::NoRoute)),
            Some(libc::EHOSTUNREACH) => Ok(Way::None(Obstacle::Unreachable)),
            Some(libc::EACCES) => Ok(Way::None(Obstacle::Prohibit)),
            // The source address is there: it was looked up.
            Some(libc::EINVAL) if !own.is_empty() => Ok(Way::None(Obstacle::Blackhole)),
            _ => Err(error),
        },
    }
}

fn of_route(body: &[u8]) -> Option<Way> {
    // include/uapi/linux/rtnetlink.h
    const RTN_BLACKHOLE: u8 = 6;
    const RTN_UNREACHABLE: u8 = 7;
    const RTN_PROHIBIT: u8 = 8;
    const RTAX_MTU: u16 = 2;
    match *body.get(7)? {
        RTN_BLACKHOLE => return Some(Way::None(Obstacle::Blackhole)),
        RTN_UNREACHABLE => return Some(Way::None(Obstacle::Unreachable)),
        RTN_PROHIBIT => return Some(Way::None(Obstacle::Prohibit)),
        _ => {}
    }
    let (mut ifindex, mut router, mut mtu, mut expires) = (0, None, None, 0);
    for (kind, value) in attributes(body, RTMSG) {
        match kind {
            libc::RTA_OIF => ifindex = u32_at(value, 0)?,
            libc::RTA_GATEWAY => router = address(value),
            // struct rtvia: the family, then the address.
            RTA_VIA => router = address(value.get(2..)?),
            libc::RTA_METRICS => {
                let named = attributes(value, 0).find(|(kind, _)| *kind == RTAX_MTU);
                mtu = named.and_then(|(_, value)| u32_at(value, 0));
            }
            // struct rta_cacheinfo: clntref, lastuse, expires, …
            libc::RTA_CACHEINFO => expires = u32_at(value, 8).unwrap_or(0),
            _ => {}
        }
    }
    Some(Way::Out {
        ifindex,
        router,
        mtu,
        learned: mtu.is_some() && expires > 0,
    })
}

/// Returns the interface by which packets between two addresses leave; `None` if there is no way, or it is not known.
pub fn way_out(src: IpAddr, dst: IpAddr, scope: u32) -> Option<NetDev> {
    match way(src, dst, scope) {
        Ok(Way::Out { ifindex, .. }) => NetDev::by_index(ifindex).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    #[test]
    fn loopback_is_reached_by_lo_and_a_stranger_is_no_source() {
        let lo = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(way_out(lo, lo, 0).map(|device| device.name).as_deref(), Some("lo"));
        let stranger = IpAddr::from([192, 0, 2, 77]);
        assert_eq!(way(stranger, lo, 0).ok(), Some(Way::None(Obstacle::NoAddress)));
    }

    proptest! {
        #[test]
        fn any_route_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = of_route(&bytes);
        }
    }
}
