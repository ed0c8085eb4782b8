//! Properties of forwarded frames: what is rewritten, what stays, which frames are taken.

use std::net::IpAddr;

use mpps_wire::*;
use proptest::prelude::*;

mod common;
use common::frames::*;

const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 77]);
const L2: Rewrite = Rewrite::L2Forward {
    source: MacAddr(SRC_MAC),
    destination: OTHER,
};
const ALL: [Rewrite; 4] = [Rewrite::Io, Rewrite::MacSwap, Rewrite::FiveTupleSwap, L2];

fn rewritten(rewrite: Rewrite, frame: &[u8]) -> Vec<u8> {
    let mut copy = frame.to_vec();
    assert_eq!(rewrite.apply(&mut copy), Ok(()));
    copy
}

fn tcp(v6: bool, payload: &[u8]) -> Vec<u8> {
    let mut segment = [SRC_PORT, DST_PORT].map(u16::to_be_bytes).concat();
    segment.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    segment.extend(payload);
    let len = (segment.len() as u32).to_be_bytes();
    let addresses = if v6 {
        [SRC_V6.octets(), DST_V6.octets()].concat()
    } else {
        [SRC_V4.octets(), DST_V4.octets()].concat()
    };
    let sum = naive_checksum(&[&addresses, &len, &[0, 0, 0, 6], &segment]);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    if v6 {
        ipv6(&[], &[], 6, 64, &segment)
    } else {
        ipv4(&[], &[], 6, &segment)
    }
}

proptest! {
    #[test]
    fn arbitrary_frames_keep_their_length_and_swapping_twice_is_nothing(
        frame in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        for rewrite in ALL {
            let mut copy = frame.clone();
            if frame.len() < 14 {
                prop_assert_eq!(rewrite.apply(&mut copy), Err(ShortFrame));
                prop_assert_eq!(&copy, &frame);
                continue;
            }
            prop_assert_eq!(rewrite.apply(&mut copy), Ok(()));
            prop_assert_eq!(copy.len(), frame.len());
            prop_assert_eq!(&copy[12..14], &frame[12..14]);
            match rewrite {
                Rewrite::Io => prop_assert_eq!(&copy, &frame),
                Rewrite::L2Forward { .. } => {
                    prop_assert_eq!((eth::source(&copy), eth::destination(&copy)), (MacAddr(SRC_MAC), OTHER));
                    prop_assert_eq!(&copy[12..], &frame[12..]);
                }
                Rewrite::MacSwap => prop_assert_eq!(&copy[12..], &frame[12..]),
                Rewrite::FiveTupleSwap => {}
            }
            if !matches!(rewrite, Rewrite::L2Forward { .. }) {
                prop_assert_eq!(rewrite.apply(&mut copy), Ok(()));
                prop_assert_eq!(&copy, &frame);
            }
        }
        let mut copy = frame.clone();
        if !complete_checksum(&mut copy) {
            prop_assert_eq!(&copy, &frame);
        }
        let own: Box<[IpAddr]> = Box::new([SRC_V4.into(), DST_V6.into()]);
        let udp = TakeFilter::Udp { ip: None, ports: Some(1..=100) };
        prop_assert!(TakeFilter::All.takes(&frame));
        let _ = (TakeFilter::Foreign(own).takes(&frame), udp.takes(&frame));
    }

    #[test]
    fn a_cut_frame_is_rewritten_as_far_as_it_goes(cut in 14usize..120, v6: bool) {
        let mut frame = if v6 { udp_v6(&[0x8100], &[], &[7; 60]) } else { udp_v4(&[0x8100], &[1; 8], &[7; 60]) };
        frame.truncate(cut);
        let once = rewritten(Rewrite::FiveTupleSwap, &frame);
        prop_assert_eq!(rewritten(Rewrite::FiveTupleSwap, &once), frame);
    }

    #[test]
    fn five_tuple_swap_does_to_udp_what_reflect_does(payload in prop::collection::vec(any::<u8>(), 0..200)) {
        for (name, frame) in all_udp(&payload) {
            let mut reflected = frame.clone();
            prop_assert_eq!(reflect_in_place(&mut reflected, &ReflectFilter::default(), false), Ok(()));
            let swapped = rewritten(Rewrite::FiveTupleSwap, &frame);
            // But for the time to live, which a forwarder leaves.
            prop_assert_eq!(&swapped, &with_ttl_of(&reflected, &frame), "{}", name);
        }
    }

    #[test]
    fn an_open_checksum_is_completed_over_udp_and_tcp(
        payload in prop::collection::vec(any::<u8>(), 0..200),
        junk: u16,
        pad in 0usize..9,
    ) {
        let frames = all_udp(&payload).into_iter();
        let mut frames: Vec<_> = frames.map(|(_, f)| (parse_udp(&f).unwrap().l4 + 6, f)).collect();
        frames.extend([(34 + 16, tcp(false, &payload)), (54 + 16, tcp(true, &payload))]);
        for (field, mut frame) in frames {
            frame.resize(frame.len() + pad, 0xaa);
            let field = usize::from(field);
            let mut open = frame.clone();
            open[field..field + 2].copy_from_slice(&junk.to_be_bytes());
            prop_assert!(complete_checksum(&mut open));
            prop_assert_eq!(open, frame);
        }
    }

    #[test]
    fn what_looks_open_is_completed_and_what_does_not_is_left(
        payload in prop::collection::vec(any::<u8>(), 0..200),
        junk: u16,
    ) {
        for (v6, frame) in [(false, tcp(false, &payload)), (true, tcp(true, &payload))] {
            let (l4, addresses) = if v6 { (54, 22..54) } else { (34, 26..34) };
            let len = ((frame.len() - l4) as u32).to_be_bytes();
            let open_field = !naive_checksum(&[&frame[addresses], &len, &[0, 0, 0, 6]]);
            for field in [open_field, junk] {
                let mut left = frame.clone();
                left[l4 + 16..l4 + 18].copy_from_slice(&field.to_be_bytes());
                let before = left.clone();
                complete_open_checksum(&mut left);
                prop_assert_eq!(&left, if field == open_field { &frame } else { &before });
            }
            let mut finished = frame.clone();
            complete_open_checksum(&mut finished);
            prop_assert_eq!(&finished, &frame);
        }
    }
}

#[test]
fn frames_that_are_not_ip_get_their_mac_addresses_swapped_only() {
    let mut arp = ethernet(&[], 0x0806);
    arp.extend([7; 46]);
    assert_eq!(
        rewritten(Rewrite::FiveTupleSwap, &arp),
        rewritten(Rewrite::MacSwap, &arp)
    );
    let three_tags = ethernet(&[0x8100, 0x8100, 0x8100], 0x0800);
    assert_eq!(
        rewritten(Rewrite::FiveTupleSwap, &three_tags),
        rewritten(Rewrite::MacSwap, &three_tags)
    );
}

#[test]
fn ports_of_tcp_are_swapped_those_of_a_later_fragment_are_data() {
    let there = rewritten(Rewrite::FiveTupleSwap, &tcp(false, b"x"));
    assert_eq!(there[34..38], [DST_PORT, SRC_PORT].map(u16::to_be_bytes).concat());
    assert_eq!(there[26..30], DST_V4.octets());
    let mut later = udp_v4(&[], &[], &[3; 20]);
    later[21] = 1;
    let there = rewritten(Rewrite::FiveTupleSwap, &later);
    assert_eq!((&there[26..30], &there[34..]), (&DST_V4.octets()[..], &later[34..]));
    let first = ipv6(&[], &[(44, &[0, 0, 1, 0, 0, 0, 9])], 17, 64, &[1, 2, 3, 4, 0, 0, 0, 0]);
    assert_eq!(rewritten(Rewrite::FiveTupleSwap, &first)[62..66], [3, 4, 1, 2]);
    let second = ipv6(&[], &[(44, &[0, 0, 9, 0, 0, 0, 9])], 17, 64, &[1, 2, 3, 4, 0, 0, 0, 0]);
    assert_eq!(rewritten(Rewrite::FiveTupleSwap, &second)[62..66], [1, 2, 3, 4]);
    let mut copy = first;
    assert!(
        !complete_checksum(&mut copy),
        "a part of a packet has no sum of its own"
    );
}

#[test]
fn foreign_is_all_but_what_is_for_the_hosts_own_addresses() {
    let own: Vec<IpAddr> = vec![DST_V4.into(), DST_V6.into()];
    let foreign = TakeFilter::Foreign(own.into());
    let others = TakeFilter::Foreign(Box::new([SRC_V4.into(), SRC_V6.into()]));
    let mut for_host: Vec<_> = all_udp(&[0; 18]).into_iter().map(|(_, frame)| frame).collect();
    for_host.extend([
        echo_v4(&[], &[], b"ping"),
        echo_v6(&[], &[], b"ping"),
        tcp(false, b""),
        tcp(true, b""),
    ]);
    let mut request = [0; 64];
    let len = build_arp_request(&mut request, MacAddr(SRC_MAC), SRC_V4, DST_V4, None);
    for_host.push(request[..len].to_vec());
    let mut ask = [0; 128];
    let len = build_neighbor_solicit(&mut ask, MacAddr(SRC_MAC), SRC_V6, DST_V6, None);
    for_host.push(ask[..len].to_vec());
    for frame in for_host {
        assert!(!foreign.takes(&frame) && others.takes(&frame), "{frame:?}");
        assert!(TakeFilter::Foreign(Box::new([])).takes(&frame));
    }
    assert!(foreign.takes(&[0; 5]) && foreign.takes(&ethernet(&[], 0x88b5)));
}

#[test]
fn udp_is_taken_by_address_and_port_on_either_side() {
    let frame = udp_v4(&[0x8100], &[], &[0; 18]);
    let take = |ip: Option<IpAddr>, ports: Option<std::ops::RangeInclusive<u16>>| TakeFilter::Udp { ip, ports };
    let back = rewritten(Rewrite::FiveTupleSwap, &frame);
    for frame in [&frame, &back] {
        assert!(take(None, None).takes(frame));
        assert!(take(Some(DST_V4.into()), Some(DST_PORT..=DST_PORT)).takes(frame));
        assert!(take(Some(SRC_V4.into()), Some(SRC_PORT..=SRC_PORT)).takes(frame));
        assert!(!take(Some([10, 99, 0, 9].into()), None).takes(frame));
        assert!(!take(None, Some(1..=100)).takes(frame));
    }
    let mut fragment = udp_v4(&[], &[], &[0; 18]);
    fragment[20] = 0x20;
    assert!(!take(None, None).takes(&fragment) && !take(None, None).takes(&tcp(true, b"")));
    assert!(take(Some(SRC_V6.into()), None).takes(&udp_v6(&[], &[], &[0; 9])));
}
