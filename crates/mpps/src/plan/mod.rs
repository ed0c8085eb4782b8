//! Turns raw arguments into a validated plan. Every contradiction is found here, before anything is opened.

pub(crate) mod across;
pub(crate) mod author;
pub(crate) mod capture;
pub(crate) mod ends;
pub(crate) mod fields;
pub(crate) mod forward;
pub(crate) mod holders;
pub(crate) mod json;
pub(crate) mod kernel;
pub(crate) mod lanes;
pub(crate) mod listen;
pub(crate) mod memory;
pub(crate) mod model;
pub(crate) mod neighbor;
pub(crate) mod reach;
pub(crate) mod reserve;
pub(crate) mod run;
pub(crate) mod traffic;
pub(crate) mod values;

use std::net::IpAddr;

/// Returns the first port that the kernel gives to programs which ask for any port, 2 at the least; `None`: it can't be
/// read. Source: `net.ipv4.ip_local_port_range`.
pub(crate) fn first_ephemeral_port() -> Option<u16> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let first: u16 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(first.max(2))
}

/// Returns `"IPv4"` or `"IPv6"`.
pub(crate) fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}
