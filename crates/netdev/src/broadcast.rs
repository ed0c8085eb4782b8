//! Broadcast addresses of the host's subnets.

use crate::netlink::{Request, attributes, u32_at};
use crate::{IFADDRMSG, address, assigned};
use std::net::{IpAddr, Ipv4Addr};

/// A broadcast address, and the interface whose subnet it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broadcast {
    /// The address.
    pub ip: Ipv4Addr,
    /// Index of the interface.
    pub ifindex: u32,
}

/// Returns the broadcast addresses of all interfaces: the highest of each subnet of four addresses or more, and those
/// that were set beside it. Empty if the kernel does not report them. An address that an interface has as its own is
/// left out.
pub fn broadcasts() -> Vec<Broadcast> {
    let (mut all, mut own) = (Vec::new(), Vec::new());
    // After a failure, the addresses read so far are kept.
    let _ = Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; IFADDRMSG]).run(|_, body| {
        let (Some(IpAddr::V4(ip)), Some(&bits), Some(ifindex)) = (assigned(body), body.get(1), u32_at(body, 4)) else {
            return;
        };
        own.push(ip);
        all.extend(highest(ip, bits).map(|ip| Broadcast { ip, ifindex }));
        let set = attributes(body, IFADDRMSG).find(|(kind, _)| *kind == libc::IFA_BROADCAST);
        if let Some(IpAddr::V4(ip)) = set.and_then(|(_, value)| address(value)) {
            all.push(Broadcast { ip, ifindex });
        }
    });
    all.retain(|broadcast| !own.contains(&broadcast.ip));
    all
}

/// The highest address of a subnet; of one or two addresses it is a host's (RFC 3021).
fn highest(ip: Ipv4Addr, bits: u8) -> Option<Ipv4Addr> {
    let host = u32::MAX.checked_shr(bits.into()).filter(|_| bits <= 30)?;
    Some(Ipv4Addr::from(u32::from(ip) | host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_of_four_addresses_or_more_has_one_at_its_end() {
        let of = |ip: [u8; 4], bits| highest(ip.into(), bits).map(|ip| ip.to_string());
        assert_eq!(of([10, 99, 0, 2], 24).as_deref(), Some("10.99.0.255"));
        assert_eq!(of([10, 99, 0, 2], 30).as_deref(), Some("10.99.0.3"));
        assert_eq!(of([10, 1, 2, 3], 9).as_deref(), Some("10.127.255.255"));
        assert_eq!((of([10, 99, 0, 2], 31), of([10, 99, 0, 2], 32)), (None, None));
        assert_eq!(of([10, 99, 0, 2], 0).as_deref(), Some("255.255.255.255"));
    }

    #[test]
    fn no_address_of_this_host_is_a_broadcast_address() {
        let own = crate::assigned_addresses();
        assert!(
            broadcasts()
                .iter()
                .all(|b| own.iter().all(|(ip, _)| *ip != IpAddr::V4(b.ip)))
        );
    }
}
