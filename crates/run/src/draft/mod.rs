//! Turns a plan into a run that can be opened on this host. Every contradiction is found here, before anything is
//! opened.

pub(crate) mod across;
pub(crate) mod capture;
pub(crate) mod ends;
pub(crate) mod forward;
pub(crate) mod holders;
pub(crate) mod kernel;
pub mod lanes;
pub(crate) mod listen;
pub(crate) mod memory;
pub(crate) mod neighbor;
pub(crate) mod reach;
pub(crate) mod reserve;
pub mod traffic;

use crate::paths::drives_interface;
use mpps_io::PortSpec;
use mpps_netdev::NetDev;
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

/// Returns the port that a text names. If it names an interface by an alternative name (`ip link property add …
/// altname`), the port has the interface's own name.
///
/// # Errors
/// One line on what is wrong.
pub fn port(text: &str) -> std::result::Result<PortSpec, String> {
    let mut spec = text.parse::<PortSpec>().map_err(|error| error.0)?;
    name_by_kernel(&mut spec);
    Ok(spec)
}

/// Gives a port the interface's own name in place of an alternative one.
pub(crate) fn name_by_kernel(spec: &mut PortSpec) {
    if drives_interface(spec)
        && let Ok(device) = NetDev::by_name(&spec.device)
    {
        spec.device = device.name;
    }
}
