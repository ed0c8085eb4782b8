//! Socket addresses as the kernel wants them: one fixed struct for both families.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A socket address that the kernel reads or writes: `sockaddr_in6`, of which `sockaddr_in` is a prefix with the same
/// place of family and port (`linux/in.h`, `linux/in6.h`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawAddr {
    /// The kernel's struct.
    pub storage: libc::sockaddr_in6,
    /// Bytes of `storage` in use; 0: no address.
    pub len: u32,
}

const _: () = {
    assert!(size_of::<libc::sockaddr_in6>() == 28 && size_of::<libc::sockaddr_in>() == 16);
    assert!(std::mem::offset_of!(libc::sockaddr_in6, sin6_family) == 0);
    assert!(std::mem::offset_of!(libc::sockaddr_in, sin_family) == 0);
    assert!(std::mem::offset_of!(libc::sockaddr_in6, sin6_port) == 2);
    assert!(std::mem::offset_of!(libc::sockaddr_in, sin_port) == 2);
    assert!(std::mem::offset_of!(libc::sockaddr_in, sin_addr) == 4);
    assert!(std::mem::offset_of!(libc::sockaddr_in6, sin6_flowinfo) == 4);
    assert!(std::mem::offset_of!(libc::sockaddr_in6, sin6_addr) == 8);
    assert!(std::mem::offset_of!(libc::sockaddr_in6, sin6_scope_id) == 24);
    assert!(size_of::<RawAddr>() == 32);
};

impl RawAddr {
    /// No address.
    pub const NONE: Self = Self {
        // SAFETY: `sockaddr_in6` consists of integers; zero is a valid value of each.
        storage: unsafe { std::mem::zeroed() },
        len: 0,
    };

    /// The kernel's form of `ip`:`port`; `scope` is the interface's index and is used for link-local addresses only.
    pub fn new(ip: IpAddr, port: u16, scope: u32) -> Self {
        let mut raw = Self::NONE;
        raw.storage.sin6_port = port.to_be();
        match ip {
            IpAddr::V4(ip) => {
                raw.storage.sin6_family = libc::AF_INET as libc::sa_family_t;
                // `sin_addr` lies where `sin6_flowinfo` does.
                raw.storage.sin6_flowinfo = u32::from_ne_bytes(ip.octets());
                raw.len = size_of::<libc::sockaddr_in>() as u32;
            }
            IpAddr::V6(ip) => {
                raw.storage.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                raw.storage.sin6_addr.s6_addr = ip.octets();
                raw.storage.sin6_scope_id = if ip.is_unicast_link_local() { scope } else { 0 };
                raw.len = size_of::<libc::sockaddr_in6>() as u32;
            }
        }
        raw
    }

    /// Returns an address of IPv6 with a flow label; IPv4 has none.
    pub(crate) fn labelled(mut self, label: Option<u32>) -> Self {
        if let Some(label) = label.filter(|_| self.len == size_of::<libc::sockaddr_in6>() as u32) {
            self.storage.sin6_flowinfo = label.to_be();
        }
        self
    }

    /// Whether it is an IPv4 address in the form that sockets of both families have it in (`::ffff:10.0.0.1`).
    #[inline]
    pub fn is_mapped(&self) -> bool {
        self.len == size_of::<libc::sockaddr_in6>() as u32
            && Ipv6Addr::from(self.storage.sin6_addr.s6_addr)
                .to_ipv4_mapped()
                .is_some()
    }

    /// The address in Rust's form, IPv4 as IPv4; `None` when there is none.
    pub fn get(&self) -> Option<SocketAddr> {
        let s = &self.storage;
        let port = u16::from_be(s.sin6_port);
        match i32::from(s.sin6_family) {
            libc::AF_INET if self.len >= 16 => {
                let ip = Ipv4Addr::from(s.sin6_flowinfo.to_ne_bytes());
                Some(SocketAddr::V4(SocketAddrV4::new(ip, port)))
            }
            libc::AF_INET6 if self.len >= 28 => {
                let ip = Ipv6Addr::from(s.sin6_addr.s6_addr);
                if let Some(ip) = ip.to_ipv4_mapped() {
                    return Some(SocketAddr::V4(SocketAddrV4::new(ip, port)));
                }
                Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, s.sin6_scope_id)))
            }
            _ => None,
        }
    }

    /// Whether both name the same address and port.
    #[inline]
    pub fn same(&self, other: &Self) -> bool {
        let (a, b) = (&self.storage, &other.storage);
        self.len == other.len
            && a.sin6_family == b.sin6_family
            && a.sin6_port == b.sin6_port
            && (a.sin6_flowinfo == b.sin6_flowinfo || self.len == 28)
            && (self.len != 28 || a.sin6_addr.s6_addr == b.sin6_addr.s6_addr && a.sin6_scope_id == b.sin6_scope_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_survives_the_way_to_the_kernel_and_back(v4: [u8; 4], v6: [u8; 16], port: u16, scope: u32) {
            let a = RawAddr::new(IpAddr::from(v4), port, scope);
            prop_assert_eq!(a.get(), Some(SocketAddr::new(IpAddr::from(v4), port)));
            let b = RawAddr::new(IpAddr::from(v6), port, 0);
            prop_assert_eq!(b.get(), Some(SocketAddr::new(IpAddr::from(v6), port)));
            prop_assert!(a.same(&a) && b.same(&b) && !a.same(&b));
            let c = RawAddr::new(IpAddr::from(v4), port ^ 1, scope);
            prop_assert!(!a.same(&c));
        }
    }

    #[test]
    fn an_ipv4_address_on_a_socket_of_both_families_is_ipv4() {
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().expect("an address");
        let raw = RawAddr::new(mapped, 9000, 0);
        assert!(raw.is_mapped());
        assert_eq!(raw.get(), Some("10.0.0.1:9000".parse().expect("an address")));
        assert!(!RawAddr::new("fd00::1".parse().expect("an address"), 9000, 0).is_mapped());
        assert!(
            !RawAddr::new("10.0.0.1".parse().expect("an address"), 9000, 0).is_mapped() && !RawAddr::NONE.is_mapped()
        );
    }

    #[test]
    fn nothing_is_no_address() {
        assert_eq!(RawAddr::NONE.get(), None);
    }
}
