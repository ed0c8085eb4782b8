//! ARP, neighbour discovery and echo: what is built is understood, what is malformed is not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mpps_wire::*;
use proptest::prelude::*;

mod common;
use common::frames::*;

const OWN: MacAddr = MacAddr(SRC_MAC);
const PEER: MacAddr = MacAddr(DST_MAC);

fn built(build: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let mut out = [0xee; 128];
    let len = build(&mut out);
    assert!(out[len..].iter().all(|b| *b == 0xee));
    out[..len].to_vec()
}

/// Makes the ICMPv6 checksum right again; `l3` is the offset of the IPv6 header.
fn repaired(mut frame: Vec<u8>, l3: usize) -> Vec<u8> {
    frame[l3 + 42..l3 + 44].fill(0);
    let packet = &frame[l3..];
    let len = (packet.len() - 40) as u32;
    let sum = naive_checksum(&[&packet[8..40], &len.to_be_bytes(), &[0, 0, 0, 58], &packet[40..]]);
    frame[l3 + 42..l3 + 44].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn solicit() -> Vec<u8> {
    built(|out| build_neighbor_solicit(out, OWN, SRC_V6, DST_V6, None))
}

proptest! {
    #[test]
    fn arp_is_read_back(src: [u8; 4], dst: [u8; 4], vlan in prop::option::of(0u16..4095)) {
        let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
        prop_assume!(!src.is_multicast() && !src.is_broadcast() && !src.is_unspecified());
        let request = built(|out| build_arp_request(out, OWN, src, dst, vlan));
        let want = SlowPath::ArpRequest { sender_mac: OWN, sender_ip: src, target_ip: dst, vlan };
        prop_assert_eq!((request.len(), parse_slow_path(&request)), (60, Some(want)));
        let reply = built(|out| build_arp_reply(out, OWN, src, PEER, dst, vlan));
        let want = SlowPath::ArpReply { sender_ip: src, sender_mac: OWN, vlan };
        prop_assert_eq!((reply.len(), parse_slow_path(&reply)), (60, Some(want)));
        prop_assert_eq!(eth::destination(&reply), PEER);
    }

    #[test]
    fn neighbor_discovery_is_read_back(src: [u8; 16], target: [u8; 16], vlan in prop::option::of(0u16..4095)) {
        let (src, target) = (Ipv6Addr::from(src), Ipv6Addr::from(target));
        prop_assume!(!src.is_multicast() && !src.is_unspecified());
        prop_assume!(!target.is_multicast() && !target.is_unspecified());
        let frame = built(|out| build_neighbor_solicit(out, OWN, src, target, vlan));
        let want = SlowPath::NeighborSolicit { src_mac: OWN, src_ip: Some(src), target, named: true, vlan };
        prop_assert_eq!(parse_slow_path(&frame), Some(want));
        prop_assert_eq!(eth::destination(&frame), solicited_node_multicast(target).1);
        for reply_to in [Some((PEER, src)), None] {
            let frame = built(|out| build_neighbor_advert(out, OWN, target, reply_to, true, vlan));
            prop_assert_eq!(parse_slow_path(&frame), Some(SlowPath::NeighborAdvert { target, mac: OWN, vlan }));
            prop_assert_eq!(eth::destination(&frame), reply_to.map_or(MacAddr([0x33, 0x33, 0, 0, 0, 1]), |to| to.0));
        }
    }

    #[test]
    fn echo_is_answered_with_right_checksums(data in prop::collection::vec(any::<u8>(), 0..100), pad in 0usize..8) {
        for tags in TAGS {
            let requests = OPTIONS.iter().map(|o| echo_v4(tags, o, &data));
            for request in requests.chain(EXTENSIONS.iter().map(|e| echo_v6(tags, e, &data))) {
                let mut reply = request.clone();
                reply.resize(request.len() + pad, 0);
                prop_assert_eq!(answer_echo_in_place(&mut reply), Some(request.len() + pad));
                let l3 = 14 + 4 * tags.len();
                let (reply, l4) = (&reply[..request.len()], request.len() - 8 - data.len());
                let v6 = request[l3] >> 4 == 6;
                if v6 {
                    let len = ((8 + data.len()) as u32).to_be_bytes();
                    prop_assert_eq!(naive_checksum(&[&reply[l3 + 8..l3 + 40], &len, &[0, 0, 0, 58], &reply[l4..]]), 0);
                } else {
                    prop_assert_eq!(naive_checksum(&[&reply[l4..]]), 0);
                    prop_assert_eq!(naive_checksum(&[&reply[l3..l4]]), 0);
                }
                prop_assert_eq!(reply[l4], if v6 { 129 } else { 0 });
                prop_assert_eq!(&reply[l4 + 4..], &request[l4 + 4..]);
                prop_assert_eq!((&reply[..6], &reply[6..12]), (&SRC_MAC[..], &DST_MAC[..]));
            }
        }
    }

    #[test]
    fn any_flipped_bit_of_a_neighbor_message_is_noticed(at in 40usize..72, bit in 0u8..8) {
        let mut frame = solicit();
        frame[14 + at] ^= 1 << bit;
        prop_assert_eq!(parse_slow_path(&frame), None);
    }
}

#[test]
fn solicited_node_group_is_that_of_rfc_4291() {
    // The example of RFC 4291, section 2.7.1.
    let (group, mac) = solicited_node_multicast("4037::01:800:200e:8c6c".parse().unwrap());
    assert_eq!(group, "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
    assert_eq!(mac.to_string(), "33:33:ff:0e:8c:6c");
}

#[test]
fn solicitation_that_looks_for_duplicates_has_no_source() {
    // As the kernel sends it: unspecified source, no option.
    let mut frame = solicit();
    frame.truncate(14 + 64);
    frame[18..20].copy_from_slice(&24u16.to_be_bytes());
    frame[22..38].fill(0);
    let frame = repaired(frame, 14);
    let want = SlowPath::NeighborSolicit {
        src_mac: OWN,
        src_ip: None,
        target: DST_V6,
        named: true,
        vlan: None,
    };
    assert_eq!(parse_slow_path(&frame), Some(want));
    // To another group, or with a link-layer option, it is invalid (RFC 4861, section 7.1.1).
    let mut other = frame.clone();
    other[53] ^= 1;
    assert_eq!(parse_slow_path(&repaired(other, 14)), None);
    let mut with_option = solicit();
    with_option[22..38].fill(0);
    assert_eq!(parse_slow_path(&repaired(with_option, 14)), None);
}

#[test]
fn who_asks_one_host_and_names_no_link_layer_address_gets_an_answer_as_long_as_the_question() {
    let mut frame = solicit();
    frame.truncate(14 + 64);
    frame[18..20].copy_from_slice(&24u16.to_be_bytes());
    frame[38..54].copy_from_slice(&DST_V6.octets());
    let frame = repaired(frame, 14);
    let Some(SlowPath::NeighborSolicit {
        src_ip: Some(ip),
        src_mac,
        named,
        ..
    }) = parse_slow_path(&frame)
    else {
        panic!("no solicitation");
    };
    assert!(!named);
    let answer = built(|out| build_neighbor_advert(out, PEER, DST_V6, Some((src_mac, ip)), named, None));
    assert_eq!((frame.len(), answer.len()), (78, 78));
    let sum = naive_checksum(&[&answer[22..54], &[0, 0, 0, 24], &[0, 0, 0, 58], &answer[54..]]);
    assert_eq!(sum, 0);
}

#[test]
fn invalid_neighbor_messages_are_refused() {
    let refused = |at: usize, bytes: &[u8]| {
        let mut frame = solicit();
        frame[14 + at..14 + at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(parse_slow_path(&repaired(frame, 14)), None, "byte {at}");
    };
    refused(7, &[254]); // crossed a router
    refused(41, &[1]); // code
    refused(48, &[0xff, 2]); // group as target
    refused(65, &[0]); // option of length zero
    refused(65, &[2]); // option beyond the packet
    refused(66, &[1]); // group as link-layer address
    refused(8, &[0xff]); // group as source
    assert_eq!(parse_slow_path(&repaired(solicit(), 14)), parse_slow_path(&solicit()));
    // A solicited advertisement to a group.
    let mut advert = built(|out| build_neighbor_advert(out, OWN, SRC_V6, None, true, None));
    advert[14 + 44] |= 0x40;
    assert_eq!(parse_slow_path(&repaired(advert, 14)), None);
}

#[test]
fn invalid_arp_is_refused() {
    let good = built(|out| build_arp_request(out, OWN, SRC_V4, DST_V4, None));
    for (at, byte) in [(14, 1), (16, 9), (18, 8), (19, 16), (21, 3), (22, 1), (28, 224)] {
        let mut frame = good.clone();
        frame[at] = byte;
        assert_eq!(parse_slow_path(&frame), None, "byte {at}");
    }
    assert_eq!(parse_slow_path(&good[..41]), None);
}

#[test]
fn echo_to_or_from_a_group_or_with_a_wrong_checksum_is_not_answered() {
    let unanswered = |frame: &[u8]| {
        let mut copy = frame.to_vec();
        assert_eq!((answer_echo_in_place(&mut copy), parse_slow_path(frame)), (None, None));
        assert_eq!(copy, frame);
    };
    for good in [echo_v4(&[], &[], b"data"), echo_v6(&[], &[], b"data")] {
        let (src_ip, dst_ip): (IpAddr, IpAddr) = if good[12] == 8 {
            (SRC_V4.into(), DST_V4.into())
        } else {
            (SRC_V6.into(), DST_V6.into())
        };
        assert_eq!(
            parse_slow_path(&good),
            Some(SlowPath::EchoRequest {
                src_ip,
                dst_ip,
                vlan: None
            })
        );
        for (at, flip) in [(0, 1), (6, 1), (good.len() - 1, 1)] {
            let mut frame = good.clone();
            frame[at] ^= flip;
            unanswered(&frame);
        }
    }
}

#[test]
fn nothing_is_written_where_there_is_no_room() {
    for len in 0..59 {
        let mut out = vec![0xee; len];
        assert_eq!(build_arp_request(&mut out, OWN, SRC_V4, DST_V4, None), 0);
        assert_eq!(build_neighbor_solicit(&mut out, OWN, SRC_V6, DST_V6, Some(1)), 0);
        assert!(out.iter().all(|b| *b == 0xee));
    }
}
