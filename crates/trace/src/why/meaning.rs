//! Meanings of the reasons for which the kernel drops packets.

/// Returns what a reason of the kernel means to the user; empty for reasons whose names say enough. If the kernel gives
/// no reason, the place in the kernel decides.
pub fn meaning(reason: &str, place: Option<&str>, answered: bool) -> &'static str {
    match reason {
        "NOT_SPECIFIED" => meaning_of_place(place.unwrap_or_default()),
        "NO_SOCKET" if answered => " (nobody listens on that port any more)",
        "SOCKET_RCVBUFF" => " (a socket's receive buffer was full)",
        "NO_SOCKET" => " (nobody listens on that port)",
        "PROTO_MEM" => " (the kernel's memory for UDP was used up)",
        "UDP_CSUM" => " (wrong UDP checksum)",
        "IP_CSUM" => " (wrong IP checksum)",
        "NO_TX_TARGET" => " (a bridge had no port to send it to)",
        "FULL_RING" => " (a device's ring was full)",
        "CPU_BACKLOG" => " (the backlog of a core was full: net.core.netdev_max_backlog)",
        "NEIGH_QUEUEFULL" | "NEIGH_FAILED" => " (no MAC address for the next hop)",
        "QDISC_DROP" | "QDISC_OVERLIMIT" | "QDISC_CONGESTED" => " (a queueing discipline was full)",
        "QUEUE_PURGE" | "SOCKET_CLOSE" => CLOSED,
        "BRIDGE_INGRESS_STP_STATE" => " (a port of a bridge that does not forward)",
        "XDP" => " (an XDP program)",
        "NETFILTER_DROP" => " (a firewall rule)",
        "TC_INGRESS" | "TC_EGRESS" => " (a filter of tc)",
        "DEV_READY" => " (the device was down)",
        "IP_RPFILTER" => " (the reverse path filter)",
        "OTHERHOST" => " (another host's MAC address)",
        "PACKET_SOCK_ERROR" => " (a packet socket's ring was full)",
        "TAP_TXFILTER" | "TAP_FILTER" => " (a filter of the tap)",
        _ => "",
    }
}

const CLOSED: &str = " (left in the queue of a socket that was closed)";

/// Returns the part of the kernel that a function belongs to which dropped a packet without a reason.
fn meaning_of_place(place: &str) -> &'static str {
    let begins = |words: &[&str]| words.iter().any(|word| place.starts_with(word));
    match place {
        _ if begins(&["br_", "__br_", "nf_hook_bridge"]) => " (a bridge)",
        _ if begins(&[
            "udp_destruct",
            "udp_v6_destruct",
            "inet_sock_destruct",
            "packet_release",
        ]) =>
        {
            CLOSED
        }
        _ if begins(&["veth_"]) => " (a veth pair: its other end was down or its queue full)",
        _ if begins(&["tun_", "tap_"]) => " (a tap: nobody reads it, or its queue was full)",
        _ if begins(&["netem_", "tbf_", "fq_", "qdisc_", "pfifo_", "codel_"]) => " (a queueing discipline)",
        _ => "",
    }
}
