//! From raw arguments to a validated plan: every contradiction is found here, before anything is opened.

pub(crate) mod capture;
pub(crate) mod dpdk;
pub(crate) mod ends;
pub(crate) mod flow;
pub(crate) mod forward;
pub(crate) mod lanes;
pub(crate) mod listen;
pub(crate) mod neighbor;
mod ntuple;
pub(crate) mod path;
pub(crate) mod traffic;
pub(crate) mod xdp;

use std::collections::BTreeSet;
use std::net::IpAddr;

/// UDP ports that programs of this host (in this network namespace) have open, ascending. Test traffic leaves them
/// alone. Source: `/proc/net/udp` and `/proc/net/udp6`.
pub(crate) fn open_udp_ports() -> Vec<u16> {
    let mut ports = BTreeSet::new();
    for file in ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"] {
        ports.extend(
            std::fs::read_to_string(file)
                .unwrap_or_default()
                .lines()
                .skip(1)
                .filter_map(local_port),
        );
    }
    ports.into_iter().collect()
}

/// The first port that the kernel gives to programs which ask for any; 2 at the least. Source:
/// `net.ipv4.ip_local_port_range`.
pub(crate) fn first_ephemeral_port() -> u16 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    text.split_ascii_whitespace()
        .next()
        .and_then(|port| port.parse().ok())
        .unwrap_or(32_768)
        .max(2)
}

/// The local port in a line of `/proc/net/udp`: `sl local_address …`, address and port in hexadecimal.
fn local_port(line: &str) -> Option<u16> {
    let (_, port) = line.split_ascii_whitespace().nth(1)?.rsplit_once(':')?;
    u16::from_str_radix(port, 16).ok()
}

/// `"IPv4"` or `"IPv6"`.
pub(crate) fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_port_is_read_from_a_line_of_proc() {
        let line =
            "  387: 0100007F:2328 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 0";
        assert_eq!(super::local_port(line), Some(9000));
        let line = "  2: 00000000000000000000000001000000:0035 0000:0000 07";
        assert_eq!(super::local_port(line), Some(53));
        assert_eq!(super::local_port("  sl  local_address"), None);
    }
}
