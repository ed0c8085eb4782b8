//! Packets that are not test traffic, but must be answered or learnt from when the test's addresses are not the host's
//! own.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{MacAddr, arp, eth, icmp, ndp};

/// Longest frame that a `build_` function writes: a tagged neighbour solicitation or advertisement.
pub const MAX_SLOW_PATH_LEN: usize = eth::HEADER_LEN + eth::TAG_LEN + ndp::PACKET_LEN;

/// A frame of the slow path. `vlan` is the VLAN identifier of its tag; an answer carries the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowPath {
    /// Question for the MAC address of `target_ip`.
    ArpRequest {
        /// MAC address of the host that asks.
        sender_mac: MacAddr,
        /// IPv4 address of the host that asks; unspecified in a probe (RFC 5227).
        sender_ip: Ipv4Addr,
        /// The address asked for.
        target_ip: Ipv4Addr,
        /// VLAN of the frame.
        vlan: Option<u16>,
    },
    /// `sender_ip` is at `sender_mac`.
    ArpReply {
        /// The host that answers.
        sender_ip: Ipv4Addr,
        /// MAC address of the host that answers.
        sender_mac: MacAddr,
        /// VLAN of the frame.
        vlan: Option<u16>,
    },
    /// Question for the MAC address of `target`.
    NeighborSolicit {
        /// MAC address of the host that asks: its link-layer option, else the frame's source.
        src_mac: MacAddr,
        /// IPv6 address of the host that asks; `None` while it looks for duplicates of the address that it wants (RFC
        /// 4862).
        src_ip: Option<Ipv6Addr>,
        /// The address asked for.
        target: Ipv6Addr,
        /// Whether the answer names the link-layer address: not if the host asks us alone and names no address itself.
        /// Such a host knows the address already, and an answer is no longer than the question (RFC 4861, section
        /// 7.2.4).
        named: bool,
        /// VLAN of the frame.
        vlan: Option<u16>,
    },
    /// `target` is at `mac`.
    NeighborAdvert {
        /// The address that the advertisement is about.
        target: Ipv6Addr,
        /// MAC address at which the target is.
        mac: MacAddr,
        /// VLAN of the frame.
        vlan: Option<u16>,
    },
    /// A ping that [`crate::answer_echo_in_place`] can answer.
    EchoRequest {
        /// The host that asks.
        src_ip: IpAddr,
        /// The address asked.
        dst_ip: IpAddr,
        /// VLAN of the frame (its outermost tag).
        vlan: Option<u16>,
    },
}

/// Reads a frame of the slow path; `None` for anything else, and for what is malformed, has a wrong checksum, or by
/// its RFC must be discarded.
pub fn parse_slow_path(frame: &[u8]) -> Option<SlowPath> {
    let ethernet = eth::parse(frame)?;
    let vlan = eth::vlan_id(frame);
    match ethernet.ethertype {
        // Answers are built with one tag at most.
        eth::TYPE_ARP if ethernet.vlans <= 1 => arp::parse(frame.get(ethernet.l3..)?, vlan),
        eth::TYPE_IPV6 if ethernet.vlans <= 1 => {
            ndp::parse(frame, ethernet.l3, vlan).or_else(|| icmp::parse_echo_request(frame, &ethernet, vlan))
        }
        eth::TYPE_IPV4 | eth::TYPE_IPV6 => icmp::parse_echo_request(frame, &ethernet, vlan),
        _ => None,
    }
}
