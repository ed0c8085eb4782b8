//! Finds the innermost payload of a packet, behind whatever headers it has.
//!
//! Data of a test packet count backwards from its tag, so a start that is too late only leaves some of them unverified.
//! A packet with a header that is not known has no start: what follows could be anything.

use super::{PPP_IPV4, PPP_IPV6, TYPE_MPLS, TYPE_MPLS_UPSTREAM, TYPE_PPPOE};
use crate::bytes::be16;
use crate::extensions::{self, Chain};
use crate::{eth, ipv4, ipv6, udp};

/// Most headers that are walked over, each VLAN tag and MPLS label being one.
const MOST_HEADERS: usize = 64;

const TYPE_ETHERNET: u16 = 0x6558;
const PPP_MPLS: u16 = 0x0281;

const PROTOCOL_IGMP: u8 = 2;
const PROTOCOL_IPV4: u8 = 4;
const PROTOCOL_IPV6: u8 = 41;
const PROTOCOL_GRE: u8 = 47;
const PROTOCOL_MPLS: u8 = 137;
const PROTOCOL_ETHERNET: u8 = 143;
/// Protocol number of TCP.
pub(crate) const PROTOCOL_TCP: u8 = 6;
/// Protocol number of SCTP.
pub(crate) const PROTOCOL_SCTP: u8 = 132;

const PORT_VXLAN: u16 = 4789;
const PORT_GENEVE: u16 = 6081;
const PORT_GTPU: u16 = 2152;
const PORT_MPLS: u16 = 6635;

/// Kind of header that comes next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Ethernet,
    /// Header of this EtherType.
    Type(u16),
    /// IP of the version that its first bits name.
    Ip,
    /// Header of this protocol of IP.
    Protocol(u8),
    Payload,
}

/// Returns the offset of the innermost payload of an Ethernet frame; `None` if a header is not known, or ends beyond
/// the frame.
///
/// Known headers are Ethernet II, VLAN tags, MPLS, PPPoE, ARP, IPv4, IPv6 with extension headers, UDP, TCP, SCTP with a
/// DATA chunk, ICMP, IGMP, GRE, and in UDP VXLAN, Geneve, GTP-U and MPLS by their own ports. A later fragment has no
/// start: its headers are in the first one.
pub fn payload_start(frame: &[u8]) -> Option<usize> {
    let (mut at, mut next) = (0, Next::Ethernet);
    for _ in 0..MOST_HEADERS {
        if let Next::Payload = next {
            return (at <= frame.len()).then_some(at);
        }
        (at, next) = step(frame, at, next)?;
    }
    None
}

/// UDP ports of tunnels, each at the place that its lowest bits say, so that one comparison knows them all. Port
/// 0 is none: a tunnel's port has its place.
const TUNNELS: [u16; 8] = {
    let ports = [PORT_VXLAN, PORT_GENEVE, PORT_GTPU, PORT_MPLS];
    let (mut table, mut at) = ([0; 8], 0);
    while at < ports.len() {
        let place = &mut table[(ports[at] % 8) as usize];
        assert!(*place == 0, "two ports in one place");
        *place = ports[at];
        at += 1;
    }
    table
};

/// Whether packets of tunnels have this UDP port.
#[inline(always)]
pub(crate) fn is_tunnel(port: u16) -> bool {
    TUNNELS[usize::from(port % 8)] == port
}

/// Whether a packet whose IP header is at `at` carries SCTP, itself or in a tunnel.
pub(crate) fn carries_sctp(frame: &[u8], at: usize) -> bool {
    let (mut at, mut next) = (at, Next::Ip);
    for _ in 0..MOST_HEADERS {
        if let Next::Protocol(PROTOCOL_SCTP) = next {
            return true;
        }
        match step(frame, at, next) {
            Some(behind) => (at, next) = behind,
            None => return false,
        }
    }
    false
}

/// Walks over one header, and returns place and kind of the next.
#[inline]
fn step(frame: &[u8], at: usize, next: Next) -> Option<(usize, Next)> {
    match next {
        Next::Ethernet => Some((at + eth::HEADER_LEN, Next::Type(be16(frame, at + 12)?))),
        Next::Type(ethertype) => behind_type(frame, at, ethertype),
        Next::Ip => behind_ip(frame, at),
        Next::Protocol(protocol) => behind_protocol(frame, at, protocol),
        Next::Payload => None,
    }
}

fn behind_type(frame: &[u8], at: usize, ethertype: u16) -> Option<(usize, Next)> {
    match ethertype {
        eth::TYPE_IPV4 | eth::TYPE_IPV6 => Some((at, Next::Ip)),
        eth::TYPE_CTAG | eth::TYPE_STAG => Some((at + eth::TAG_LEN, Next::Type(be16(frame, at + 2)?))),
        TYPE_MPLS | TYPE_MPLS_UPSTREAM => {
            let last = frame.get(at + 2)? & 1 == 1;
            Some((at + 4, if last { Next::Ip } else { Next::Type(TYPE_MPLS) }))
        }
        TYPE_PPPOE => match be16(frame, at + 6)? {
            PPP_IPV4 | PPP_IPV6 => Some((at + 8, Next::Ip)),
            PPP_MPLS => Some((at + 8, Next::Type(TYPE_MPLS))),
            _ => None,
        },
        TYPE_ETHERNET => Some((at, Next::Ethernet)),
        eth::TYPE_ARP => {
            let addresses = usize::from(*frame.get(at + 4)?) + usize::from(*frame.get(at + 5)?);
            Some((at + 8 + 2 * addresses, Next::Payload))
        }
        _ => None,
    }
}

fn behind_ip(frame: &[u8], at: usize) -> Option<(usize, Next)> {
    let first = *frame.get(at)?;
    match first >> 4 {
        4 => {
            let len = usize::from(first & 0xf) * 4;
            let later = be16(frame, at + 6)? & 0x1fff != 0;
            let next = Next::Protocol(*frame.get(at + 9)?);
            (len >= ipv4::MIN_HEADER_LEN && !later).then_some((at + len, next))
        }
        6 => {
            let mut chain = Chain::new(at + ipv6::HEADER_LEN, *frame.get(at + 6)?);
            loop {
                let kind = chain.protocol;
                match chain.step(frame).ok()? {
                    None => return Some((chain.at, Next::Protocol(kind))),
                    // RFC 8200, section 4.5: the offset is in the upper 13 bits.
                    Some(head) if kind == extensions::FRAGMENT && (head[2] != 0 || head[3] & 0xf8 != 0) => return None,
                    Some(_) => {}
                }
            }
        }
        _ => None,
    }
}

fn behind_protocol(frame: &[u8], at: usize, protocol: u8) -> Option<(usize, Next)> {
    match protocol {
        ipv4::PROTOCOL_UDP => behind_udp(frame, at),
        PROTOCOL_TCP => {
            let len = usize::from(frame.get(at + 12)? >> 4) * 4;
            (len >= 20).then_some((at + len, Next::Payload))
        }
        // Common header, and the header of a DATA chunk (RFC 9260, section 3.3.1).
        PROTOCOL_SCTP => (*frame.get(at + 12)? == 0).then_some((at + 12 + 16, Next::Payload)),
        ipv4::PROTOCOL_ICMP | ipv6::NEXT_ICMPV6 | PROTOCOL_IGMP => Some((at + 8, Next::Payload)),
        PROTOCOL_IPV4 | PROTOCOL_IPV6 => Some((at, Next::Ip)),
        PROTOCOL_GRE => behind_gre(frame, at),
        PROTOCOL_MPLS => Some((at, Next::Type(TYPE_MPLS))),
        PROTOCOL_ETHERNET => Some((at, Next::Ethernet)),
        _ => None,
    }
}

fn behind_udp(frame: &[u8], at: usize) -> Option<(usize, Next)> {
    let behind = at + udp::HEADER_LEN;
    // The ports of a packet that was returned are exchanged.
    for port in [be16(frame, at + 2)?, be16(frame, at)?] {
        match port {
            PORT_VXLAN => return Some((behind + 8, Next::Ethernet)),
            PORT_GENEVE => return behind_geneve(frame, behind),
            PORT_GTPU => return behind_gtpu(frame, behind),
            PORT_MPLS => return Some((behind, Next::Type(TYPE_MPLS))),
            _ => {}
        }
    }
    Some((behind, Next::Payload))
}

/// RFC 8926, section 3.4.
fn behind_geneve(frame: &[u8], at: usize) -> Option<(usize, Next)> {
    let options = usize::from(*frame.get(at)? & 0x3f) * 4;
    Some((at + 8 + options, Next::Type(be16(frame, at + 2)?)))
}

/// 3GPP TS 29.281, section 5.
fn behind_gtpu(frame: &[u8], at: usize) -> Option<(usize, Next)> {
    const G_PDU: u8 = 255;
    /// Most extension headers that are walked over.
    const MOST: usize = 8;
    if *frame.get(at + 1)? != G_PDU {
        return None;
    }
    let flags = *frame.get(at)?;
    if flags & 7 == 0 {
        return Some((at + 8, Next::Ip));
    }
    let mut behind = at + 12;
    if flags & 4 == 0 {
        return Some((behind, Next::Ip));
    }
    for _ in 0..MOST {
        // The byte before is the type of this header: 0 if there is none.
        if *frame.get(behind - 1)? == 0 {
            return Some((behind, Next::Ip));
        }
        match usize::from(*frame.get(behind)?) {
            0 => return None,
            words => behind += words * 4,
        }
    }
    None
}

/// RFC 2784, section 2, and RFC 2890.
fn behind_gre(frame: &[u8], at: usize) -> Option<(usize, Next)> {
    let flags = be16(frame, at)?;
    if flags & 7 != 0 {
        return None;
    }
    // Checksum, key and sequence number.
    let optional = (flags & 0xb000).count_ones() as usize * 4;
    Some((at + 4 + optional, Next::Type(be16(frame, at + 2)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns an IPv4 header of a packet of this protocol.
    fn ipv4_header(protocol: u8) -> Vec<u8> {
        let mut header = vec![0; 20];
        (header[0], header[9]) = (0x45, protocol);
        header
    }

    /// Returns a UDP header with these ports.
    fn udp_header(src: u16, dst: u16) -> Vec<u8> {
        [src, dst, 0, 0].map(u16::to_be_bytes).concat()
    }

    fn eth_header(ethertype: u16) -> Vec<u8> {
        [&[2; 12][..], &ethertype.to_be_bytes()].concat()
    }

    #[test]
    fn a_payload_begins_behind_the_last_of_its_headers() {
        let ip = |protocol| [eth_header(eth::TYPE_IPV4), ipv4_header(protocol)].concat();
        let inner = [ipv4_header(PROTOCOL_TCP), vec![0; 12], vec![0x60; 1], vec![0; 11]].concat();
        let vxlan = [vec![8, 0, 0, 0, 0, 0, 0, 0], eth_header(eth::TYPE_IPV4), inner.clone()].concat();
        let udp = |src, dst, behind: &[u8]| [ip(17), udp_header(src, dst), behind.to_vec()].concat();
        let gtpu = |head: &[u8]| udp(1, PORT_GTPU, &[head, &inner].concat());
        let cases = [
            udp(1, 2, &[]),
            [ip(6), vec![0; 12], vec![0x50; 1], vec![0; 7]].concat(),
            [ip(1), vec![8; 8]].concat(),
            [ip(132), vec![0; 28]].concat(),
            udp(1, PORT_VXLAN, &vxlan),
            udp(PORT_VXLAN, 1, &vxlan),
            gtpu(&[0x30, 255, 0, 0, 0, 0, 0, 1]),
            gtpu(&[0x32, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]),
            gtpu(&[0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 5, 0]),
            udp(
                1,
                PORT_GENEVE,
                &[&[1, 0, 8, 0, 0, 0, 0, 0, 1, 2, 3, 4], &inner[..]].concat(),
            ),
            [ip(47), vec![0xb0, 0, 8, 0], vec![0; 12], inner.clone()].concat(),
            [ip(4), inner.clone()].concat(),
            [eth_header(eth::TYPE_ARP), vec![0, 1, 8, 0, 6, 4, 0, 1], vec![0; 20]].concat(),
        ];
        for (case, headers) in cases.iter().enumerate() {
            let frame = [&headers[..], &[0xee; 9]].concat();
            assert_eq!(payload_start(&frame), Some(headers.len()), "case {case}");
            assert_eq!(payload_start(&headers[..headers.len() - 1]), None, "case {case}, cut");
        }
    }

    #[test]
    fn headers_that_are_not_known_have_no_payload_behind_them() {
        for headers in [
            eth_header(0x88b5),
            eth_header(46),
            [eth_header(eth::TYPE_IPV4), ipv4_header(50)].concat(),
            [eth_header(eth::TYPE_IPV4), ipv4_header(47), vec![0, 1, 0x88, 0x0b]].concat(),
        ] {
            let frame = [&headers[..], &[0; 100]].concat();
            assert_eq!(payload_start(&frame), None, "{headers:x?}");
        }
        let mut later = [eth_header(eth::TYPE_IPV4), ipv4_header(17), vec![0; 100]].concat();
        later[14 + 7] = 1;
        assert_eq!(payload_start(&later), None);
    }

    #[test]
    fn sctp_is_found_in_a_tunnel() {
        let tunnel = |protocol| [ipv4_header(4), ipv4_header(protocol), vec![0; 60]].concat();
        assert!(carries_sctp(&tunnel(PROTOCOL_SCTP), 0));
        assert!(!carries_sctp(&tunnel(PROTOCOL_TCP), 0));
        assert!(!carries_sctp(&[], 0));
    }

    proptest! {
        /// Bytes whose types, protocols and ports are often those of headers that are known.
        #[test]
        fn no_bytes_are_too_odd(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            places in prop::collection::vec((0usize..200, 0usize..18), 0..20),
            ethertype in 0usize..7,
        ) {
            let kinds: [&[u8]; 18] = [
                &[0x08, 0], &[0x86, 0xdd], &[0x81, 0], &[0x88, 0x47], &[0x88, 0x64], &[0x65, 0x58], &[0x08, 0x06],
                &[0x45], &[0x60], &[17], &[47], &[4], &[41], &[132], &[0x12, 0xb5], &[0x17, 0xc1], &[0x08, 0x68],
                &[0, 0],
            ];
            for (at, kind) in places.into_iter().chain([(12, ethertype)]) {
                let kind = kinds[kind];
                if let Some(place) = bytes.get_mut(at..at + kind.len()) {
                    place.copy_from_slice(kind);
                }
            }
            prop_assert!(payload_start(&bytes).is_none_or(|start| start <= bytes.len()));
            carries_sctp(&bytes, 14);
        }
    }
}
