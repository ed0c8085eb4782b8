//! Names of what is counted by reason: `enum left` in `xdp/udp.h`, and the enumerations in `xdp/test.h` and
//! `xdp/run.h`.

use crate::load::Which;

/// Lists of places and names.
pub(crate) type Names = &'static [&'static [(usize, &'static str)]];

const LISTENER: [(usize, &str); 14] = [
    (0, "too_short"),
    (1, "not_ip"),
    (2, "bad_ip_header"),
    (3, "fragment"),
    (4, "source_routed"),
    (5, "not_udp"),
    (6, "bad_udp_length"),
    (7, "multicast"),
    (8, "bad_source"),
    (9, "wrong_mac"),
    (10, "wrong_address"),
    (11, "wrong_port"),
    (12, "host_port"),
    (13, "neighbor_service"),
];

const REFLECTOR: [(usize, &str); 4] = [
    (28, "own_source"),
    (29, "ttl_expired"),
    (30, "returned"),
    (31, "probed"),
];

const FORWARDER: [(usize, &str); 1] = [(15, "no_port")];

const SERVICE: [(usize, &str); 1] = [(13, "neighbor_service")];

const RECEIVER: [(usize, &str); 11] = [
    (16, "foreign_not_stamped"),
    (17, "foreign_other_run"),
    (18, "foreign_wrong_address"),
    (19, "foreign_wrong_port"),
    (20, "foreign_fragment"),
    (21, "beyond_window"),
    (22, "flow_moved"),
    (23, "untracked_flow_packets"),
    (24, "sender_restarts"),
    (25, "latency_not_measurable"),
    (26, "flow_contended"),
];

/// Counted up and down, by one source or another.
const DOUBTS: [(usize, &str); 4] = [
    (27, "implausible_sequence"),
    (28, "unconfirmed_gap"),
    (29, "gap_after_first"),
    (30, "contested_gap"),
];

/// What the programs of a workload count by reason: place and name.
pub(crate) fn of(which: Which) -> Names {
    match which {
        Which::Reflect => &[&LISTENER, &REFLECTOR],
        // What is not taken is the host's: it is in `left_to_host`.
        Which::Forward => &[&FORWARDER],
        Which::Traffic => &[&SERVICE, &RECEIVER],
        Which::Drop => &[&LISTENER, &RECEIVER, &DOUBTS],
    }
}
