//! Finds UDP ports that programs of this host have open, and the names of these programs.

use mpps_sys::proc_stat::name_in;
use std::collections::BTreeMap;
use std::fs::{read_dir, read_link, read_to_string};
use std::path::Path;

/// Most processes that are searched for the holder of a port: the answer is worth no more time.
const MOST_PROCESSES: usize = 4096;

/// Returns the UDP ports that programs of this host (in this network namespace) have open, ascending, each with the
/// inode of one of its sockets; `None`: they can't be read. Source: `/proc/net/udp` and `/proc/net/udp6`, which a
/// kernel without IPv6 lacks.
fn sockets() -> Option<BTreeMap<u16, u64>> {
    let of_ipv4 = read_to_string("/proc/thread-self/net/udp").ok()?;
    let of_ipv6 = read_to_string("/proc/thread-self/net/udp6").unwrap_or_default();
    let lines = of_ipv4.lines().skip(1).chain(of_ipv6.lines().skip(1));
    Some(lines.filter_map(socket).collect())
}

/// Returns the UDP ports that programs have open, which test traffic leaves alone; `None`: they can't be read.
pub(crate) fn open_udp_ports() -> Option<Vec<u16>> {
    Some(sockets()?.into_keys().collect())
}

/// Parses local port and inode in a line of `/proc/net/udp`: `sl local_address … inode …`, address and port in
/// hexadecimal.
fn socket(line: &str) -> Option<(u16, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (_, port) = words.nth(1)?.rsplit_once(':')?;
    let inode = words.nth(7).and_then(|inode| inode.parse().ok()).unwrap_or(0);
    Some((u16::from_str_radix(port, 16).ok()?, inode))
}

/// Formats the ports, each with the program that has it open if this process may know it: "9000 (nc, pid 71)".
pub(crate) fn held(ports: &[u16]) -> String {
    let sockets = sockets().unwrap_or_default();
    let wanted: BTreeMap<u64, u16> = ports.iter().filter_map(|p| Some((*sockets.get(p)?, *p))).collect();
    let mut holders: BTreeMap<u16, String> = BTreeMap::new();
    let processes = read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for process in processes.take(MOST_PROCESSES) {
        if holders.len() == wanted.len() {
            break;
        }
        let files = read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let links = files.filter_map(|file| read_link(file.path()).ok());
        let inodes = links.filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            inode.parse::<u64>().ok()
        });
        for port in inodes.filter_map(|inode| wanted.get(&inode)) {
            let name = name_in(Path::new(&format!("/proc/{process}"))).unwrap_or_default();
            holders.insert(*port, format!("{port} ({name}, pid {process})"));
        }
    }
    let named = ports.iter().map(|port| match holders.get(port) {
        Some(holder) => holder.clone(),
        None => port.to_string(),
    });
    named.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_and_inode_are_read_from_a_line_of_proc() {
        let line =
            "  387: 0100007F:2328 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 12345 2 0 0";
        assert_eq!(socket(line), Some((9000, 12345)));
        let line = "  2: 00000000000000000000000001000000:0035 0000:0000 07";
        assert_eq!(socket(line), Some((53, 0)));
        assert_eq!(socket("  sl  local_address"), None);
    }

    #[test]
    fn the_program_that_holds_a_port_is_named() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(open_udp_ports().expect("/proc").contains(&port));
        let told = held(&[port]);
        assert!(
            told.starts_with(&format!("{port} (")) && told.contains(&std::process::id().to_string()),
            "{told}"
        );
    }

    #[test]
    fn a_program_that_holds_a_port_says_nothing_to_the_terminal_by_its_name() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let before = std::fs::read("/proc/self/comm").unwrap();
        std::fs::write("/proc/self/comm", "a\u{1b}]0;b\u{7}").unwrap();
        let told = held(&[port]);
        std::fs::write("/proc/self/comm", before).unwrap();
        assert!(told.contains("(a\u{fffd}]0;b\u{fffd}, pid"), "{told:?}");
    }
}
