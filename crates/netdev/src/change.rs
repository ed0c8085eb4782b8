//! The two properties of an interface that a run may change.

use crate::IFINFOMSG;
use crate::netlink::Request;
use std::io;

/// Sets the MTU of an interface, bytes.
///
/// # Errors
/// Without `CAP_NET_ADMIN`, when the driver refuses, or when the interface has vanished.
pub fn set_mtu(ifindex: u32, mtu: u32) -> io::Result<()> {
    set(ifindex, libc::IFLA_MTU, &mtu.to_ne_bytes())
}

/// Sets the MAC address of an interface.
///
/// # Errors
/// As [`set_mtu`].
pub fn set_mac(ifindex: u32, mac: [u8; 6]) -> io::Result<()> {
    set(ifindex, libc::IFLA_ADDRESS, &mac)
}

fn set(ifindex: u32, attribute: u16, value: &[u8]) -> io::Result<()> {
    let mut head = [0; IFINFOMSG];
    head[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    Request::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &head)
        .attribute(attribute, value)
        .run(|_, _| ())
}
