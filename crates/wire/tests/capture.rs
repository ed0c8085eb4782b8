//! Properties of the capture's filter.

use mpps_wire::*;
use proptest::prelude::*;
use std::net::IpAddr;

mod common;
use common::frames::*;

fn filter(ip: Option<IpAddr>, ports: Option<(u16, u16)>, protocol: Option<CaptureProtocol>) -> CaptureFilter {
    CaptureFilter {
        ip,
        ports: ports.map(|(a, b)| a..=b),
        protocol,
    }
}

fn takes_ip(frame: &[u8], ip: impl Into<IpAddr>) -> bool {
    filter(Some(ip.into()), None, None).takes(frame)
}

fn takes_port(frame: &[u8], first: u16, last: u16) -> bool {
    filter(None, Some((first, last)), None).takes(frame)
}

fn takes_protocol(frame: &[u8], protocol: CaptureProtocol) -> bool {
    filter(None, None, Some(protocol)).takes(frame)
}

const UDP: CaptureProtocol = CaptureProtocol::Ip(17);
const TCP: CaptureProtocol = CaptureProtocol::Ip(6);
const ICMP: CaptureProtocol = CaptureProtocol::Icmp;

#[test]
fn either_side_matches_behind_tags_options_and_extension_headers() {
    for (name, frame) in all_udp(&[7; 20]) {
        let v6 = name.starts_with("v6");
        let (source, destination): (IpAddr, IpAddr) = if v6 {
            (SRC_V6.into(), DST_V6.into())
        } else {
            (SRC_V4.into(), DST_V4.into())
        };
        assert!(takes_ip(&frame, source) && takes_ip(&frame, destination), "{name}");
        assert!(!takes_ip(&frame, [10, 99, 0, 3]), "{name}");
        assert!(
            takes_port(&frame, SRC_PORT, SRC_PORT) && takes_port(&frame, 1, DST_PORT),
            "{name}"
        );
        assert!(!takes_port(&frame, DST_PORT + 1, SRC_PORT - 1), "{name}");
        assert!(takes_protocol(&frame, UDP), "{name}");
        assert!(!takes_protocol(&frame, TCP) && !takes_protocol(&frame, ICMP), "{name}");
        assert!(!takes_protocol(&frame, CaptureProtocol::Arp), "{name}");
        let all = filter(Some(source), Some((DST_PORT, DST_PORT)), Some(UDP));
        assert!(all.takes(&frame), "{name}");
    }
}

#[test]
fn ports_are_those_of_udp_and_tcp_only() {
    let ports = [0x1f, 0x90, 0x23, 0x28, 0, 0, 0, 0, 0, 0, 0, 0];
    for (protocol, want) in [(6, true), (17, true), (1, false), (132, false)] {
        assert_eq!(
            takes_port(&ipv4(&[], &[], protocol, &ports), 8080, 8080),
            want,
            "{protocol}"
        );
        assert_eq!(
            takes_port(&ipv6(&[], &[], protocol, 64, &ports), 9000, 9000),
            want,
            "{protocol}"
        );
    }
}

#[test]
fn icmp_is_that_of_the_packets_own_family() {
    assert!(takes_protocol(&echo_v4(&[], &[], b"x"), ICMP));
    assert!(takes_protocol(&echo_v6(&[0x8100], &[], b"x"), ICMP));
    assert!(!takes_protocol(&ipv4(&[], &[], 58, b"x"), ICMP));
    assert!(takes_protocol(&ipv4(&[], &[], 58, b"x"), CaptureProtocol::Ip(58)));
}

#[test]
fn arp_matches_by_protocol_and_by_either_address_but_never_by_port() {
    let mut frame = [0; 60];
    let len = build_arp_request(&mut frame, MacAddr(SRC_MAC), SRC_V4, DST_V4, None);
    let frame = &frame[..len.max(42)];
    assert!(takes_protocol(frame, CaptureProtocol::Arp) && !takes_protocol(frame, UDP));
    assert!(takes_ip(frame, SRC_V4) && takes_ip(frame, DST_V4) && !takes_ip(frame, [10, 99, 0, 9]));
    assert!(!takes_port(frame, 1, 65_535));
}

#[test]
fn a_later_fragment_has_an_address_and_a_protocol_but_no_port() {
    let mut later = udp_v4(&[], &[], &[0; 20]);
    later[20..22].copy_from_slice(&0x2001u16.to_be_bytes());
    let v6_offset_8 = [(44, &[0u8, 0, 8, 0, 0, 0, 1][..])];
    let body = [0x27, 0x10, 0x23, 0x28, 0, 8, 0, 0];
    for frame in [later, ipv6(&[], &v6_offset_8, 17, 64, &body)] {
        assert!(takes_protocol(&frame, UDP) && !takes_port(&frame, 1, 65_535));
    }
    let v6_first = [(44, &[0u8, 0, 1, 0, 0, 0, 1][..])];
    assert!(takes_port(&ipv6(&[], &v6_first, 17, 64, &body), 9000, 9000));
}

#[test]
fn wrong_checksums_and_lengths_are_no_reason_to_leave_a_frame_out() {
    let mut frame = udp_v4(&[], &[], &[0; 20]);
    frame[16..18].fill(0xff);
    frame[24..26].fill(0);
    assert!(takes_ip(&frame, SRC_V4) && takes_port(&frame, DST_PORT, DST_PORT));
}

fn any_filter() -> impl Strategy<Value = CaptureFilter> {
    let ip = prop_oneof![
        Just(IpAddr::from(SRC_V4)),
        Just(IpAddr::from(DST_V6)),
        any::<[u8; 4]>().prop_map(IpAddr::from)
    ];
    let protocol = prop_oneof![
        Just(CaptureProtocol::Arp),
        Just(ICMP),
        any::<u8>().prop_map(CaptureProtocol::Ip)
    ];
    let ports = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| a.min(b)..=a.max(b));
    (
        proptest::option::of(ip),
        proptest::option::of(ports),
        proptest::option::of(protocol),
    )
        .prop_map(|(ip, ports, protocol)| CaptureFilter { ip, ports, protocol })
}

proptest! {
    #[test]
    fn any_bytes_are_judged_without_a_panic_and_more_conditions_match_less(
        frame in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            // An EtherType that leads deeper, then noise.
            (prop::sample::select(vec![0x0800u16, 0x0806, 0x86dd, 0x8100]), prop::collection::vec(any::<u8>(), 0..120))
                .prop_map(|(kind, rest)| [&[0; 12][..], &kind.to_be_bytes(), &rest].concat()),
        ],
        filter in any_filter(),
    ) {
        common::checks::capture_filter_holds(&frame, &filter);
    }

    #[test]
    fn a_cut_or_flipped_frame_is_judged_without_a_panic(
        which in 0usize..21, cut in 0usize..150, at in 0usize..150, bits: u8, filter in any_filter(),
    ) {
        let all = all_udp(&[1; 40]);
        let mut frame = all[which % all.len()].1.clone();
        let at = at % frame.len();
        frame[at] ^= bits;
        frame.truncate(cut.max(1));
        common::checks::capture_filter_holds(&frame, &filter);
    }
}
