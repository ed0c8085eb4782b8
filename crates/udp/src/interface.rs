//! Which interface owns an address, and how large its packets may be.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The interface that owns an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    /// Largest IP packet, bytes.
    pub(crate) mtu: usize,
    /// Link speed, bit/s, where the driver tells.
    pub(crate) link_bps: Option<u64>,
}

/// The interface that owns `ip`; `None` when none does (or for a wildcard address).
pub(crate) fn owner(ip: IpAddr) -> Option<Interface> {
    if ip.is_unspecified() {
        return None;
    }
    // All of 127.0.0.0/8 belongs to lo, though only 127.0.0.1 is listed.
    let name = if ip.is_loopback() {
        "lo".to_owned()
    } else {
        name_of(ip)?
    };
    let c_name = std::ffi::CString::new(name.as_str()).ok()?;
    // SAFETY: `c_name` is a NUL-terminated string that outlives the call.
    let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
    let mtu = mtu_of(&c_name).ok()?;
    let link_bps = std::fs::read_to_string(format!("/sys/class/net/{name}/speed"))
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok())
        .filter(|&mbps| mbps > 0 && mbps != u64::from(u32::MAX))
        .map(|mbps| mbps * 1_000_000);
    Some(Interface {
        name,
        index,
        mtu,
        link_bps,
    })
}

fn name_of(ip: IpAddr) -> Option<String> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs writes the head of a list that it allocates; it is freed below.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return None;
    }
    let mut found = None;
    let mut next = list;
    while !next.is_null() && found.is_none() {
        // SAFETY: `next` is a node of the list, which lives until freeifaddrs below; `ifa_addr` is null or points at
        // an address of the length that its family says; `ifa_name` is NUL-terminated.
        unsafe {
            let node = &*next;
            if address_of(node.ifa_addr) == Some(ip) {
                found = Some(CStr::from_ptr(node.ifa_name).to_string_lossy().into_owned());
            }
            next = node.ifa_next;
        }
    }
    // SAFETY: `list` came from getifaddrs and no reference into it is left.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// # Safety
/// `addr` is null or points at a socket address of the length that its family says.
unsafe fn address_of(addr: *const libc::sockaddr) -> Option<IpAddr> {
    if addr.is_null() {
        return None;
    }
    // SAFETY: by the caller; unaligned reads because `sockaddr` promises alignment of 2 only.
    unsafe {
        match i32::from((*addr).sa_family) {
            libc::AF_INET => {
                let a = addr.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::V4(Ipv4Addr::from(a.sin_addr.s_addr.to_ne_bytes())))
            }
            libc::AF_INET6 => {
                let a = addr.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::V6(Ipv6Addr::from(a.sin6_addr.s6_addr)))
            }
            _ => None,
        }
    }
}

fn mtu_of(name: &CStr) -> io::Result<usize> {
    let socket = crate::socket::Socket::new(libc::AF_INET)?;
    // SAFETY: `ifreq` is plain data; zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.to_bytes();
    if bytes.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    // SAFETY: SIOCGIFMTU (netdevice(7)) reads the name and writes `ifr_mtu` of the struct, which outlives the call.
    let mtu = unsafe {
        if libc::ioctl(socket.fd(), libc::SIOCGIFMTU as _, &mut request) != 0 {
            return Err(io::Error::last_os_error());
        }
        request.ifr_ifru.ifru_mtu
    };
    usize::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_owns_its_addresses_and_nobody_owns_a_documentation_address() {
        let lo = owner(IpAddr::from([127, 0, 0, 9])).expect("lo");
        assert_eq!(lo.name, "lo");
        assert!(lo.mtu >= 1500, "mtu {}", lo.mtu);
        assert_eq!(owner(IpAddr::from([192, 0, 2, 77])), None);
        assert_eq!(owner(IpAddr::from([0, 0, 0, 0])), None);
    }
}
