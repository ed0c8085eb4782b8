//! Two links between two hosts, for forwarders: the devices between them, and frames.

use crate::{End, Net, Way, net_of, wait_until};
use mpps_host::lab::Host;

/// MAC addresses that no device has.
pub const STRANGER: [u8; 6] = [2, 0, 0, 0, 0, 8];
/// See [`STRANGER`].
pub const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 7];

/// The MAC address of a device.
///
/// # Panics
/// When there is no such device.
pub fn mac_of(net: &Net, host: Host, device: &str) -> [u8; 6] {
    let text = net.on(host, &format!("cat /sys/class/net/{device}/address")).stdout;
    let bytes = text.trim().split(':').map(|b| u8::from_str_radix(b, 16).expect("hex"));
    bytes.collect::<Vec<u8>>().try_into().expect("six bytes")
}

/// The first bytes of a frame.
pub fn macs(destination: [u8; 6], source: [u8; 6]) -> [u8; 12] {
    let mut both = [0; 12];
    both[..6].copy_from_slice(&destination);
    both[6..].copy_from_slice(&source);
    both
}

/// From queue `queue` of one device to the same queue of another, unchanged.
pub fn way(from: &'static str, to: &'static str, queue: u32) -> Way {
    let end = |device| End { device, queue };
    let sent = macs(NOBODY, STRANGER);
    Way {
        from: end(from),
        to: Some(end(to)),
        sent,
        arrives: sent,
    }
}

/// A tester, host a, that is joined to a device under test, host b, by `eth1` and by `eth2`.
pub fn joined_twice() -> Option<Net> {
    let net = net_of(1)?;
    let b = net.lab.namespace(Host::B);
    net.on(Host::A, &format!("ip link add eth2 type veth peer name eth2 netns {b}"));
    for host in [Host::A, Host::B] {
        net.on(host, "ip link set eth2 up");
        net.on(host, "ip addr flush dev eth1 scope global");
    }
    for host in [Host::A, Host::B] {
        wait_until("both links", || {
            let up = |device: &str| net.on(host, &format!("cat /sys/class/net/{device}/operstate")).stdout;
            ["eth1", "eth2"].iter().all(|device| up(device).trim() == "up")
        });
    }
    Some(net)
}

/// Joins the two links of host b as switches do.
pub fn bridge(net: &Net) {
    net.on(Host::B, "ip link add br0 type bridge");
    for words in ["eth1 master br0", "eth2 master br0", "br0 up"] {
        net.on(Host::B, &format!("ip link set {words}"));
    }
    wait_until("a bridge that forwards", || {
        let state = |port: &str| {
            net.on(Host::B, &format!("cat /sys/class/net/{port}/brport/state"))
                .stdout
        };
        ["eth1", "eth2"].iter().all(|port| state(port).trim() == "3")
    });
}

/// Makes host b the router between the two links: 198.18.0.254 and 2001:2::fe at the first, 198.18.1.254 and
/// 2001:2:0:1::fe at the second.
pub fn route(net: &Net) {
    for words in [
        "ip addr add 198.18.0.254/24 dev eth1",
        "ip addr add 198.18.1.254/24 dev eth2",
        "ip -6 addr add 2001:2::fe/64 dev eth1 nodad",
        "ip -6 addr add 2001:2:0:1::fe/64 dev eth2 nodad",
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
    ] {
        net.on(Host::B, words);
    }
    // Packets that wait for a neighbour's answer: by default a hundred or so, and on a busy host those who answer are
    // kept from their core for longer.
    for (family, device) in [("ipv4", "eth1"), ("ipv4", "eth2"), ("ipv6", "eth1"), ("ipv6", "eth2")] {
        let room = format!("net.{family}.neigh.{device}.unres_qlen_bytes={}", 16 << 20);
        net.on(Host::B, &format!("sysctl -qw {room}"));
    }
    // The router asks from the address that only its link knows, once nobody else is found to have it.
    wait_until("the router's own addresses", || {
        let all = net.on(Host::B, "ip -6 addr show tentative").stdout;
        all.trim().is_empty()
    });
}
