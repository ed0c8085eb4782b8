//! Properties of reflected frames.

use mpps_wire::*;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

mod common;
use common::frames::*;

fn one(ip: IpAddr) -> RangeInclusive<IpAddr> {
    ip..=ip
}

fn reflect(frame: &[u8], filter: &ReflectFilter) -> Result<Vec<u8>, Left> {
    let mut frame = frame.to_vec();
    reflect_in_place(&mut frame, filter, false).map(|()| frame)
}

proptest! {
    #[test]
    fn reflection_swaps_and_keeps_checksums(payload in prop::collection::vec(any::<u8>(), 0..300), pad in 0usize..10) {
        for (name, mut frame) in all_udp(&payload) {
            frame.resize(frame.len() + pad, 0xaa);
            let there = reflect(&frame, &ReflectFilter::default()).unwrap();
            let (before, after) = (parse_udp(&frame).unwrap(), parse_udp(&there).unwrap());
            prop_assert!(udp_checksum_ok(&frame, &before) && udp_checksum_ok(&there, &after), "{}", name);
            prop_assert_eq!((after.src_port, after.dst_port), (DST_PORT, SRC_PORT));
            prop_assert_eq!(after.src_ip(&there), before.dst_ip(&frame));
            prop_assert_eq!(after.dst_ip(&there), before.src_ip(&frame));
            prop_assert_eq!((eth::destination(&there).0, eth::source(&there).0), (SRC_MAC, DST_MAC));
            // Tags, options, extension headers, payload and padding are as they were.
            let (l3, l4) = (usize::from(before.l3), usize::from(before.l4));
            let addresses = if before.v6 { 8..40 } else { 12..20 };
            let ttl = l3 + if before.v6 { 7 } else { 8 };
            prop_assert_eq!(there[ttl], frame[ttl] - 1);
            prop_assert_eq!(&there[12..ttl], &frame[12..ttl]);
            prop_assert_eq!(&there[l3 + addresses.end..l4], &frame[l3 + addresses.end..l4]);
            if !before.v6 {
                prop_assert_eq!(there[l3 + 9], frame[l3 + 9]);
            }
            prop_assert_eq!(&there[l4 + 4..], &frame[l4 + 4..]);
            prop_assert_eq!(with_ttl_of(&reflect(&there, &ReflectFilter::default()).unwrap(), &frame), frame);
        }
    }

    #[test]
    fn partial_checksum_is_completed(payload in prop::collection::vec(any::<u8>(), 0..300), junk: u16) {
        for (_, frame) in all_udp(&payload) {
            let l4 = usize::from(parse_udp(&frame).unwrap().l4);
            let want = reflect(&frame, &ReflectFilter::default()).unwrap();
            let mut partial = frame;
            partial[l4 + 6..l4 + 8].copy_from_slice(&junk.to_be_bytes());
            prop_assert_eq!(reflect_in_place(&mut partial, &ReflectFilter::default(), true), Ok(()));
            prop_assert_eq!(partial, want);
        }
    }
}

proptest! {
    /// Whatever came before, and whatever bytes or length are changed of a packet that was turned before.
    #[test]
    fn a_reflector_with_a_memory_does_to_each_frame_what_one_without_does(
        payload in prop::collection::vec(any::<u8>(), 0..60),
        changes in prop::collection::vec((0usize..60, any::<u8>(), 0usize..8, any::<bool>()), 1..40),
        which in 0usize..3,
    ) {
        let filter = match which {
            0 => ReflectFilter::default(),
            1 => ReflectFilter { ports: Some(DST_PORT..=DST_PORT), ..ReflectFilter::default() },
            _ => ReflectFilter { excluded_ports: vec![SRC_PORT, SRC_PORT + 1].into(), ..ReflectFilter::default() },
        };
        let mut reflector = Reflector::new(&filter, [1, 2]);
        for (at, byte, cut, partial) in changes {
            for (_, frame) in all_udp(&payload) {
                let mut changed = frame.clone();
                changed.truncate(frame.len() - cut);
                if let Some(place) = changed.get_mut(at) {
                    *place = byte;
                }
                // Right once more before the next change, so that there is something to remember.
                for mut mine in [changed, frame] {
                    let mut want = mine.clone();
                    let result = reflect_in_place(&mut want, &filter, partial);
                    prop_assert_eq!(reflector.turn(&mut mine, partial), result);
                    prop_assert_eq!(&mine, &want);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Right headers of all kinds, one after the other: what is kept of one must not let another through.
    #[test]
    fn a_reflector_takes_of_plain_packets_what_the_filter_does(
        packets in prop::collection::vec((
            (0usize..16, 0usize..16),
            (0u8..2, 0usize..8, 0usize..8, 0usize..8),
            (26u16..48, 6u16..24, 40usize..70),
            (0u16..8, 0u16..4),
            (0usize..8, 0usize..8),
        ), 1..60),
        which in (0usize..4, 0usize..5, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        // Most of them right, so that a packet is taken now and then.
        let ips = [[224, 0, 0, 5], [239, 255, 255, 255], [255; 4], [0; 4], [240, 0, 0, 1], [10, 0, 0, 1], [10, 0, 0, 2],
            [10, 0, 0, 3], [127, 0, 0, 1]];
        let ip = |at: usize| ips.get(at).copied().unwrap_or(ips[6 - at % 2]);
        let mac = |at: usize| [1, 3, 0, 2][at.min(3)];
        let filter = ReflectFilter {
            ip: [
                None,
                Some(ip(5).into()..=ip(6).into()),
                Some(one(ip(6).into())),
                Some(one("fd00::1".parse().unwrap())),
            ][which.0]
            .clone(),
            // The last takes nothing.
            ports: [None, None, None, Some(1..=2), Some(RangeInclusive::new(3, 1))][which.1].clone(),
            mac: which.2.then_some(MacAddr([2, 0, 0, 0, 0, 7])),
            excluded_ports: if which.3 { [2, 3].into() } else { [].into() },
            own: if which.4 { [ip(5).into()].into() } else { [].into() },
            broadcasts: if which.4 { [[10, 0, 0, 3].into()].into() } else { [].into() },
            loopback: which.5,
            keep_ttl: false,
            tagged: None,
            untagged: Box::default(),
        };
        let mut reflector = Reflector::new(&filter, [1, 2]);
        for (addresses, kind, lengths, ports, macs) in packets {
            let mut frame = vec![0; lengths.2];
            frame[..12].copy_from_slice(&[mac(macs.0), 0, 0, 0, 0, 7, mac(macs.1), 0, 0, 0, 0, 8]);
            frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
            frame[16..18].copy_from_slice(&lengths.0.to_be_bytes());
            frame[19] = kind.0;
            frame[20..22].copy_from_slice(&[0x2000u16, 1, 0x4000, 0][kind.1.min(3)].to_be_bytes());
            frame[22..24].copy_from_slice(&[[1, 64][kind.3.min(1)], [6, 17][kind.2.min(1)]]);
            frame[26..30].copy_from_slice(&ip(addresses.0));
            frame[30..34].copy_from_slice(&ip(addresses.1));
            let sum = naive_checksum(&[&frame[14..34]]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            if let Some(udp) = frame.get_mut(34..40) {
                udp[..2].copy_from_slice(&ports.0.to_be_bytes());
                udp[2..4].copy_from_slice(&ports.1.to_be_bytes());
                udp[4..].copy_from_slice(&lengths.1.to_be_bytes());
            }
            let mut want = frame.clone();
            let result = reflect_in_place(&mut want, &filter, false);
            // As it came, and shorter: of a packet that may be known by then.
            let mut mine = frame.clone();
            prop_assert_eq!(reflector.turn(&mut mine, false), result);
            prop_assert_eq!(&mine, &want);
            frame.pop();
            let mut want = frame.clone();
            let result = reflect_in_place(&mut want, &filter, false);
            prop_assert_eq!(reflector.turn(&mut frame, false), result);
            prop_assert_eq!(&frame, &want);
        }
    }
}

#[test]
fn packets_without_a_tag_are_taken_by_both_their_ends_and_fragments_without_ports_are_left() {
    let frame = udp_v4(&[], &[], &[0; 18]);
    let udp = parse_udp(&frame).unwrap();
    let (src, dst) = (udp.src_ip(&frame), udp.dst_ip(&frame));
    let filter = |ips: [Vec<RangeInclusive<IpAddr>>; 2], ports| ReflectFilter {
        tagged: Some(7),
        untagged: [Untagged {
            protocol: 17,
            ips,
            ports,
        }]
        .into(),
        ..ReflectFilter::default()
    };
    let (from, to) = (SRC_PORT..=SRC_PORT, DST_PORT..=DST_PORT);
    let both = filter([vec![one(src)], vec![one(dst)]], [from.clone(), to.clone()]);
    assert!(reflect(&frame, &both).is_ok());
    assert!(reflect(&frame, &filter([vec![], vec![]], [0..=u16::MAX, to.clone()])).is_ok());
    for other in [
        filter([vec![one(dst)], vec![one(dst)]], [from.clone(), to.clone()]),
        filter([vec![one(src)], vec![one(src)]], [from.clone(), to.clone()]),
        filter([vec![one(src)], vec![one(dst)]], [SRC_PORT + 1..=u16::MAX, to.clone()]),
        filter([vec![one(src)], vec![one(dst)]], [from, DST_PORT + 1..=u16::MAX]),
    ] {
        assert_eq!(reflect(&frame, &other), Err(Left::NotTagged));
    }
    // The second of two fragments, whose data lie where ports would.
    let mut fragment = frame;
    fragment[20..22].copy_from_slice(&[0, 1]);
    assert_eq!(reflect(&fragment, &both), Err(Left::NotTagged));
}

#[test]
fn a_reflector_keeps_the_headers_of_the_first_packet_and_of_others_now_and_then() {
    let filter = ReflectFilter::default();
    let mut reflector = Reflector::new(&filter, [1, 2]);
    let near = udp_v4(&[], &[], &[0; 18]);
    let mut far = near.clone();
    far[11] ^= 0x40;
    let known = |reflector: &Reflector<'_>, frame: &[u8]| reflector.turn_alike(&mut frame.to_vec());
    let turn =
        |reflector: &mut Reflector<'_>, frame: &[u8]| assert_eq!(reflector.turn(&mut frame.to_vec(), false), Ok(()));
    assert!(!known(&reflector, &near));
    turn(&mut reflector, &near);
    // Known after one look, and with other ports and data, too.
    let mut other = near.clone();
    other[35] ^= 1;
    other[50] ^= 1;
    assert!(known(&reflector, &near) && known(&reflector, &other) && !known(&reflector, &far));
    // Another sender's are kept when there are more of them, and the first one's are at hand soon after they come back.
    (0..70).for_each(|_| turn(&mut reflector, &far));
    assert!(known(&reflector, &far) && !known(&reflector, &near));
    (0..4).for_each(|_| turn(&mut reflector, &near));
    assert!(known(&reflector, &near));
    (0..4).for_each(|_| turn(&mut reflector, &far));
    assert!(known(&reflector, &far));
    // What is not plain never is.
    let tagged = udp_v4(&[0x8100], &[], &[0; 18]);
    (0..200).for_each(|_| turn(&mut reflector, &tagged));
    assert!(known(&reflector, &far) && !known(&reflector, &tagged));
}

fn left(frame: &[u8], filter: &ReflectFilter) -> Left {
    let mut copy = frame.to_vec();
    let reason = reflect_in_place(&mut copy, filter, true).unwrap_err();
    assert_eq!(copy, frame);
    reason
}

/// A frame with bytes changed and the IPv4 header checksum made right again.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = udp_v4(&[], &[], &[0; 18]);
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame[24..26].fill(0);
    let sum = naive_checksum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn each_unusable_frame_is_left_for_its_reason() {
    let any = ReflectFilter::default();
    let good = udp_v4(&[], &[], &[0; 18]);
    assert_eq!(left(&good[..20], &any), Left::TooShort);
    assert_eq!(left(&good[..good.len() - 1], &any), Left::TooShort);
    assert_eq!(left(&ethernet(&[], 0x0806), &any), Left::NotIp);
    assert_eq!(left(&ethernet(&[0x8100, 0x8100, 0x8100], 0x0800), &any), Left::NotIp);
    assert_eq!(left(&changed(14, &[0x55]), &any), Left::BadIpHeader);
    assert_eq!(left(&changed(16, &[0, 19]), &any), Left::BadIpHeader);
    assert_eq!(left(&changed(20, &[0x20, 0]), &any), Left::Fragment);
    assert_eq!(left(&changed(20, &[0, 1]), &any), Left::Fragment);
    assert_eq!(
        left(&ipv6(&[], &[(44, &[0; 7])], 17, 64, &[0; 26]), &any),
        Left::Fragment
    );
    assert_eq!(
        left(&ipv4(&[], &[137, 7, 4, 10, 0, 0, 9, 0], 17, &[0; 26]), &any),
        Left::SourceRouted
    );
    assert_eq!(
        left(&ipv6(&[], &[(43, &[0, 0, 1, 0, 0, 0, 0])], 17, 64, &[0; 26]), &any),
        Left::SourceRouted
    );
    assert_eq!(left(&ipv4(&[], &[], 6, &[0; 20]), &any), Left::NotUdp);
    assert_eq!(left(&ipv6(&[], &[], 59, 64, &[]), &any), Left::NotUdp);
    assert_eq!(left(&ipv4(&[], &[], 17, &[0; 7]), &any), Left::BadUdpLength);
    for len in [0, 7, 27] {
        assert_eq!(left(&changed(38, &[0, len]), &any), Left::BadUdpLength);
    }
    assert_eq!(left(&changed(0, &[0xff; 6]), &any), Left::Multicast);
    assert_eq!(left(&changed(30, &[239, 0, 0, 1]), &any), Left::Multicast);
    assert_eq!(left(&changed(30, &[255; 4]), &any), Left::Multicast);
    assert_eq!(left(&changed(6, &[1, 0, 0, 0, 0, 1]), &any), Left::BadSource);
    assert_eq!(left(&changed(34, &[0, 0]), &any), Left::BadSource);
    for src in [[0; 4], [224, 0, 0, 1], [255; 4]] {
        assert_eq!(left(&changed(26, &src), &any), Left::BadSource);
    }
    let v6 = |at: usize, bytes: &[u8]| {
        let mut frame = udp_v6(&[], &[], &[0; 18]);
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        left(&frame, &any)
    };
    assert_eq!(v6(22, &[0xff, 2]), Left::BadSource);
    assert_eq!(v6(22, &[0; 16]), Left::BadSource);
    assert_eq!(v6(38, &[0xff, 2]), Left::Multicast);
}

#[test]
fn filter_takes_what_it_names_and_leaves_the_rest() {
    let frame = udp_v4(&[], &[], &[0; 18]);
    let filter = ReflectFilter {
        ip: Some(one(DST_V4.into())),
        ports: Some(DST_PORT..=DST_PORT),
        mac: Some(MacAddr(DST_MAC)),
        ..ReflectFilter::default()
    };
    assert!(reflect(&frame, &filter).is_ok());
    let other = |change: fn(&mut ReflectFilter)| {
        let mut filter = filter.clone();
        change(&mut filter);
        left(&frame, &filter)
    };
    assert_eq!(other(|f| f.mac = Some(MacAddr(SRC_MAC))), Left::WrongMac);
    let [first, last] = [[10, 99, 0, 2], [10, 255, 255, 255]].map(|ip| IpAddr::from(Ipv4Addr::from(ip)));
    let around = |ips| ReflectFilter {
        ip: Some(ips),
        ..filter.clone()
    };
    assert!(reflect(&frame, &around(first..=last)).is_ok());
    assert_eq!(left(&frame, &around(last..=last)), Left::WrongAddress);
    assert_eq!(
        left(&frame, &around("::".parse().unwrap()..="ffff::".parse().unwrap())),
        Left::WrongAddress
    );
    assert_eq!(other(|f| f.ip = Some(one(SRC_V4.into()))), Left::WrongAddress);
    assert_eq!(other(|f| f.ip = Some(one(DST_V6.into()))), Left::WrongAddress);
    assert_eq!(other(|f| f.ports = Some(1..=DST_PORT - 1)), Left::WrongPort);
    assert_eq!(other(|f| f.excluded_ports = Box::new([1, DST_PORT])), Left::HostPort);
}

/// Some address of a few in a row, so that two of them are often in one range.
fn near(v6: bool, at: u8) -> IpAddr {
    match v6 {
        false => [10, 99, 0, at].into(),
        true => [0xfd00, 0x99, 0, 0, 0, 0, 0, u16::from(at)].into(),
    }
}

proptest! {
    #[test]
    fn whose_source_is_one_that_packets_are_taken_for_is_not_answered(
        v6: bool,
        (src, dst) in (1u8..40, 1u8..40),
        (first, more) in (1u8..40, 0u8..20),
        same_port: bool,
        loopback: bool,
    ) {
        let mut frame = match v6 {
            false => udp_v4(&[], &[], &[7; 18]),
            true => udp_v6(&[], &[], &[7; 18]),
        };
        let (at, len) = if v6 { (22, 16) } else { (26, 4) };
        for (place, ip) in [(at, near(v6, src)), (at + len, near(v6, dst))] {
            match ip {
                IpAddr::V4(ip) => frame[place..place + len].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => frame[place..place + len].copy_from_slice(&ip.octets()),
            }
        }
        if !v6 {
            frame[24..26].fill(0);
            let sum = naive_checksum(&[&frame[14..34]]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let ports = at + 2 * len;
        if same_port {
            frame.copy_within(ports + 2..ports + 4, ports);
        }
        let ips = near(v6, first)..=near(v6, first + more);
        let filter = ReflectFilter {
            ip: Some(ips.clone()),
            loopback,
            ..ReflectFilter::default()
        };
        let result = reflect(&frame, &filter).map(|_| ());
        // A host's way to itself has senders with each address of the host's, but for the reflector's own port.
        let own = ips.contains(&near(v6, src)) && (!loopback || same_port);
        let wanted = match (ips.contains(&near(v6, dst)), own) {
            (false, _) => Err(Left::WrongAddress),
            (true, true) => Err(Left::OwnSource),
            (true, false) => Ok(()),
        };
        prop_assert_eq!(result, wanted);
        prop_assert_eq!(Reflector::new(&filter, [1, 2]).turn(&mut frame.clone(), false), wanted);
    }
}

/// What is kept of earlier packets says nothing of a port that is the reflector's own.
#[test]
fn packets_of_others_at_an_address_of_the_range_do_not_let_its_own_through() {
    let own = |last| std::net::Ipv4Addr::new(127, 0, 0, last);
    let filter = ReflectFilter {
        ip: Some(own(1).into()..=own(9).into()),
        loopback: true,
        ..ReflectFilter::default()
    };
    let frame = |src_port: u16| {
        let mut frame = udp_v4(&[], &[], &[7; 18]);
        frame[26..30].copy_from_slice(&own(3).octets());
        frame[30..34].copy_from_slice(&own(5).octets());
        frame[24..26].fill(0);
        let sum = naive_checksum(&[&frame[14..34]]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame[34..36].copy_from_slice(&src_port.to_be_bytes());
        frame[36..38].copy_from_slice(&9000u16.to_be_bytes());
        frame[40..42].fill(0);
        frame
    };
    let mut reflector = Reflector::new(&filter, [1, 2]);
    for _ in 0..10_000 {
        assert_eq!(reflector.turn(&mut frame(5555), false), Ok(()));
        assert_eq!(reflector.turn(&mut frame(9000), false), Err(Left::OwnSource));
    }
}

#[test]
fn padding_is_not_taken_for_payload() {
    let mut frame = udp_v4(&[], &[], &[1, 2, 3]);
    frame.resize(60, 0xaa);
    let p = parse_udp(&frame).unwrap();
    assert_eq!(p.payload(&frame), [1, 2, 3]);
    assert!(udp_checksum_ok(&frame, &p));
}

#[test]
fn reasons_have_one_name_and_one_place_each() {
    let mut names: Vec<_> = Left::ALL.iter().map(|left| left.as_str()).collect();
    assert!(Left::ALL.iter().enumerate().all(|(i, left)| left.index() == i));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Left::COUNT);
    for reject in [
        Reject::TooShort,
        Reject::NotIp,
        Reject::BadIpHeader,
        Reject::Fragment,
        Reject::SourceRouted,
        Reject::NotUdp,
        Reject::BadUdpLength,
    ] {
        assert_eq!(reject.as_str(), Left::from(reject).as_str());
    }
}
