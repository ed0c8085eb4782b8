//! Why packets were left to the host, dropped or not believed: one list of names and meanings, for paths, lanes,
//! verdict, summary and docs/use/counts.md.

/// Declares [`Reason`] with its list, names and meanings from one table, so that they can't differ.
macro_rules! reasons {
    ($($reason:ident = $name:literal: $meaning:literal,)*) => {
        /// Reason by which packets are counted, beside the test's own figures.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason { $(#[doc = $meaning] $reason,)* }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$reason,)*];

            /// Returns the name that the JSON uses.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$reason => $name,)* }
            }

            /// Returns the meaning, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$reason => $meaning,)* }
            }
        }
    };
}

reasons! {
    TooShort = "too_short": "frames cut short: no header fits in",
    NotIp = "not_ip": "other protocols than IP",
    BadIpHeader = "bad_ip_header": "malformed IP headers",
    Fragment = "fragment": "IP fragments, which are not answered",
    SourceRouted = "source_routed": "packets on a source route, which are not answered",
    NotUdp = "not_udp": "other protocols than UDP",
    NotTagged = "not_tagged": "frames without the tag of a test packet",
    BadUdpLength = "bad_udp_length": "UDP lengths that can't be",
    Multicast = "multicast": "sent to a group or to all",
    BadSource = "bad_source": "nobody to answer to: the source is no host's address",
    OwnSource = "own_source": "from the reflector's own address: forged, or come back",
    TtlExpired = "ttl_expired": "their time to live was used up: they had gone round",
    Returned = "returned": "their source returns what it is sent",
    Probed = "probed": "got a probe, or nothing, in place of an answer",
    WrongMac = "wrong_mac": "sent to another MAC address",
    WrongAddress = "wrong_address": "sent to another IP address",
    WrongPort = "wrong_port": "sent to another UDP port",
    HostPort = "host_port": "sent to a port that another program here has open",
    NeighborService = "neighbor_service": "ARP, neighbour discovery and ping; not of the test",
    TxFull = "tx_full": "the path had no room: not within 10 ms, or not at once (--on-full drop)",
    NoPort = "no_port": "no port to forward to",
    NotTaken = "not_taken": "frames that the filter leaves alone",
    Short = "short": "frames too short to be rewritten",
    Cut = "cut": "frames longer than the buffer",
    OpenChecksum = "open_checksum": "frames whose checksum nobody finished",
    TooLong = "too_long": "frames longer than the other port can send",
    PortDown = "port_down": "frames for a port whose link is down",
    RingFull = "ring_full": "packets that found the buffer to the file full",
    AfterCount = "after_count": "packets after the last one that --count asked for",
    ForeignNotUdp = "foreign_not_udp": "other traffic of the network",
    ForeignFragment = "foreign_fragment": "IP fragments, and packets on a source route",
    ForeignWrongAddress = "foreign_wrong_address": "UDP between other addresses",
    ForeignWrongPort = "foreign_wrong_port": "UDP to ports that are not of the test",
    ForeignNotStamped = "foreign_not_stamped": "packets without a valid stamp or tag",
    ForeignLooped = "foreign_looped": "tagged packets that came back as they were sent: a loop in the network",
    ForeignOtherRun = "foreign_other_run": "stamped packets that this run did not send in that flow or at that time",
    IcmpPortUnreachable = "icmp_port_unreachable": "reports (ICMP) that nobody listens at the destination",
    IcmpUnreachable = "icmp_unreachable": "reports (ICMP) that the destination can't be reached",
    IcmpTimeExceeded = "icmp_time_exceeded": "reports (ICMP) of packets that went through too many routers",
    IcmpTooLong = "icmp_too_long": "reports (ICMP) that packets are too long for a router's next link",
    LateOfAnEarlierTrial = "late_of_an_earlier_trial": "sent by an earlier trial of this session",
    Flows = "flows": "flows that were seen",
    Untracked = "untracked_flow_packets": "of flows beyond --max-flows: order unchecked",
    UnnamedFlow = "unnamed_flow_packets": "of flows that no stream of --traffic has: in no stream's results",
    BeyondWindow = "beyond_window": "came too late to be told from duplicates",
    ImplausibleRxTime = "implausible_rx_time": "noted times of arrival that can't be: the lane's were taken",
    FlowMoved = "flow_moved": "times that a flow changed to another queue or CPU",
    FlowContended = "flow_contended": "a flow moved while a packet of it was being counted",
    SenderRestarts = "sender_restarts": "streams of numbers that began again within a flow",
    ImplausibleSequence = "implausible_sequence": "their number jumps, and no others bore it out",
    UnconfirmedGap = "unconfirmed_gap": "numbers skipped by such packets; not counted as lost",
    ContestedGap = "contested_gap": "numbers skipped by packets that were none of the stream's; not counted as lost",
    GapAfterFirst = "gap_after_first": "lost after the first one or two packets of a flow",
    LatencyNotMeasurable = "latency_not_measurable": "the sender's clock is not this host's",
}

impl Reason {
    /// The reason of this name; `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == name)
    }

    /// Returns the count of this reason in a list of counts by name; 0 if it is not in the list.
    pub fn of(self, counts: &[(String, u64)]) -> u64 {
        let found = counts.iter().find(|(name, _)| name == self.as_str());
        found.map_or(0, |(_, n)| *n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_name_of_its_own_and_stands_in_the_documentation() {
        let page = include_str!("../../../docs/use/counts.md");
        for &reason in Reason::ALL {
            let name = reason.as_str();
            assert_eq!(Reason::named(name), Some(reason));
            assert!(page.contains(&format!("`{name}`")), "docs/use/counts.md lacks {name}");
        }
    }
}
