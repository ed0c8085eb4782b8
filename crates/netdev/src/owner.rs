//! Which interface has an address.

use crate::netlink::{Request, u32_at};
use crate::{IFADDRMSG, NetDev, assigned};
use std::net::IpAddr;

/// Returns the interface that has this address, `lo` for every loopback address; `None` if none has it.
pub fn owner(ip: IpAddr) -> Option<NetDev> {
    // All of 127.0.0.0/8 belongs to lo, though only 127.0.0.1 is listed.
    if ip.is_loopback() {
        return NetDev::by_name("lo").ok();
    }
    let mut found = None;
    Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; IFADDRMSG])
        .run(|_, body| {
            if found.is_none() && assigned(body) == Some(ip) {
                found = u32_at(body, 4);
            }
        })
        .ok()?;
    NetDev::by_index(found?).ok()
}

/// Names of the interfaces that have this address: a link-local one may be on several.
pub fn owners(ip: IpAddr) -> Vec<String> {
    let mut found = Vec::new();
    // After a failure, the interfaces read so far are kept.
    let _ = Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; IFADDRMSG]).run(|_, body| {
        found.extend(u32_at(body, 4).filter(|_| assigned(body) == Some(ip)));
    });
    let names = found.into_iter().filter_map(|ifindex| NetDev::by_index(ifindex).ok());
    names.map(|device| device.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{assigned_addresses, interface_names};

    #[test]
    fn loopback_has_its_addresses_and_nobody_has_one_of_documentation() {
        let lo = owner(IpAddr::from([127, 0, 0, 9])).expect("lo");
        assert_eq!(lo.name, "lo");
        assert!(lo.mtu >= 1500, "mtu {}", lo.mtu);
        assert_eq!(owner(IpAddr::from([192, 0, 2, 77])), None);
        assert_eq!(owner(IpAddr::from([0, 0, 0, 0])), None);
    }

    #[test]
    fn every_address_of_this_host_has_an_interface() {
        for (ip, _) in assigned_addresses() {
            let device = owner(ip).unwrap_or_else(|| panic!("{ip}"));
            assert!(interface_names().contains(&device.name), "{ip}: {}", device.name);
        }
    }
}
