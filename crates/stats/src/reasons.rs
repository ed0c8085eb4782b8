//! The names of all reasons for which packets were left to the host, dropped or not believed, with their meanings: one
//! list, for the summary and for docs/measuring.md.

/// Names as they stand in the JSON, and their meaning.
pub const REASONS: [(&str, &str); 46] = [
    ("too_short", "frames cut short: no header fits in"),
    ("not_ip", "other protocols than IP"),
    ("bad_ip_header", "malformed IP headers"),
    ("fragment", "IP fragments, which are not answered"),
    ("source_routed", "packets on a source route, which are not answered"),
    ("not_udp", "other protocols than UDP"),
    ("bad_udp_length", "UDP lengths that can't be"),
    ("multicast", "sent to a group or to all"),
    ("bad_source", "nobody to answer to: the source is no host's address"),
    ("own_source", "from the reflector's own address: forged, or come back"),
    ("ttl_expired", "their time to live was used up: they had gone round"),
    ("returned", "their source returns what it is sent"),
    ("probed", "got a probe, or nothing, in place of an answer"),
    ("wrong_mac", "sent to another MAC address"),
    ("wrong_address", "sent to another IP address"),
    ("wrong_port", "sent to another UDP port"),
    ("host_port", "sent to a port that another program here has open"),
    ("neighbor_service", "ARP, neighbour discovery and ping; not of the test"),
    ("tx_full", "given up because the path took nothing for 10 ms"),
    ("no_port", "no port to forward to"),
    ("not_taken", "frames that the filter leaves alone"),
    ("short", "frames too short to be rewritten"),
    ("cut", "frames longer than the buffer"),
    ("open_checksum", "frames whose checksum nobody finished"),
    ("too_long", "frames longer than the other port can send"),
    ("port_down", "frames for a port whose link is down"),
    ("ring_full", "packets that found the buffer to the file full"),
    ("after_count", "packets after the last one that --count asked for"),
    ("foreign_not_udp", "other traffic of the network"),
    ("foreign_fragment", "IP fragments, and packets on a source route"),
    ("foreign_wrong_address", "UDP between other addresses"),
    ("foreign_wrong_port", "UDP to ports that are not of the test"),
    ("foreign_not_stamped", "UDP without a valid stamp"),
    ("foreign_other_run", "stamped packets that this run has not sent"),
    ("late_of_an_earlier_trial", "sent by an earlier trial of this session"),
    ("flows", "flows that were seen"),
    ("untracked_flow_packets", "of flows beyond --max-flows: order unchecked"),
    ("beyond_window", "came too late to be told from duplicates"),
    ("flow_moved", "times that a flow changed to another queue or CPU"),
    ("flow_contended", "a flow moved while a packet of it was being counted"),
    ("sender_restarts", "streams of numbers that began again within a flow"),
    ("implausible_sequence", "their number jumps, and no others bore it out"),
    (
        "unconfirmed_gap",
        "numbers skipped by such packets; not counted as lost",
    ),
    (
        "contested_gap",
        "numbers skipped by packets that were none of the stream's; not counted as lost",
    ),
    ("gap_after_first", "lost after the first one or two packets of a flow"),
    ("latency_not_measurable", "the sender's clock is not this host's"),
];

/// The meaning of a name; `None` where there is none.
pub fn meaning_of(name: &str) -> Option<&'static str> {
    REASONS.iter().find(|(n, _)| *n == name).map(|(_, meaning)| *meaning)
}
