//! What must hold for any bytes at all: called by the fuzz targets, the corpus replay and the mutation loop.

use mpps_wire::*;

/// The parser stays within the frame, and all that uses its result works on it.
pub fn parse_udp_holds(frame: &[u8]) {
    let p = match (parse_udp(frame), check_udp(frame, 1, true)) {
        (Err(reject), checked) => return assert_eq!(checked, Err(reject)),
        (Ok(p), checked) => {
            let stamp = Stamp::read(p.payload(frame));
            let data_ok = stamp.is_some_and(|stamp| verify_data(1, stamp.seq, &p.payload(frame)[STAMP_LEN..]));
            let want = Checked {
                packet: p,
                stamp,
                checksum_ok: udp_checksum_ok(frame, &p),
                data_ok,
            };
            assert_eq!(checked, Ok(want));
            assert_eq!(
                check_udp(frame, 1, false),
                Ok(Checked {
                    checksum_ok: true,
                    ..want
                })
            );
            p
        }
    };
    let (l3, l4, payload) = (usize::from(p.l3), usize::from(p.l4), usize::from(p.payload));
    let end = payload + usize::from(p.payload_len);
    assert!(l3 == 14 + 4 * usize::from(p.vlans) && l4 >= l3 + if p.v6 { 40 } else { 20 });
    assert!(payload == l4 + 8 && end <= frame.len());
    assert_eq!(p.payload(frame), &frame[payload..end]);
    assert!(p.dst_ip_eq(frame, &p.dst_ip(frame)) && p.src_ip(frame).is_ipv6() == p.v6);
    let mut completed = frame.to_vec();
    complete_udp_checksum(&mut completed, &p);
    assert!(udp_checksum_ok(&completed, &p) && parse_udp(&completed) == Ok(p));
}

/// A frame is turned round whole or left as it was; its checksums are as good or bad as before.
pub fn reflect_holds(frame: &[u8]) {
    let filters = [
        ReflectFilter::default(),
        ReflectFilter {
            ip: Some(super::frames::DST_V4.into()..=super::frames::DST_V4.into()),
            ports: Some(1..=20_000),
            mac: Some(MacAddr(super::frames::DST_MAC)),
            excluded_ports: Box::new([53, 5353]),
            own: Box::new([super::frames::DST_V4.into(), super::frames::DST_V6.into()]),
            broadcasts: Box::new([[10, 99, 0, 255].into()]),
            loopback: false,
            keep_ttl: false,
            tagged: None,
            untagged: Box::default(),
        },
    ];
    for filter in &filters {
        // With the headers of another packet kept, and with this one's.
        let mut reflector = Reflector::new(filter, [1, 2]);
        for frame in [&super::frames::udp_v4(&[], &[], &[0; 18]), frame, frame] {
            let (mut mine, mut want) = (frame.to_vec(), frame.to_vec());
            let result = reflect_in_place(&mut want, filter, false);
            assert_eq!((reflector.turn(&mut mine, false), mine), (result, want));
        }

        let mut reflected = frame.to_vec();
        if reflect_in_place(&mut reflected, filter, false).is_err() {
            assert_eq!(reflected, frame, "left, but changed");
            continue;
        }
        let before = parse_udp(frame).expect("reflected, but not parsed");
        let after = parse_udp(&reflected).expect("reflection made it unreadable");
        assert_eq!(
            UdpPacket {
                src_port: before.dst_port,
                dst_port: before.src_port,
                ..before
            },
            after
        );
        assert_eq!(
            (before.src_ip(frame), before.dst_ip(frame)),
            (after.dst_ip(&reflected), after.src_ip(&reflected))
        );
        assert_eq!(before.payload(frame), after.payload(&reflected));
        assert_eq!(udp_checksum_ok(frame, &before), udp_checksum_ok(&reflected, &after));
        assert!(!eth::source(&reflected).is_multicast() && !after.src_ip(&reflected).is_multicast());

        let mut completed = frame.to_vec();
        assert_eq!(reflect_in_place(&mut completed, filter, true), Ok(()));
        assert!(udp_checksum_ok(&completed, &after));

        // A checksum that looks left open is finished, any other stays.
        let mut closed = frame.to_vec();
        assert_eq!(reflect_closing_in_place(&mut closed, filter), Ok(()));
        let open = udp_checksum_open(frame, &before);
        assert_eq!(&closed, if open { &completed } else { &reflected });

        if before.dst_port != 0 && reflect_in_place(&mut reflected, &ReflectFilter::default(), false).is_ok() {
            let twice = super::frames::with_ttl_of(&reflected, frame);
            assert_eq!(twice, frame, "reflected twice, but not the same");
        }
    }
}

/// Whether the destination of an IPv6 packet is a group.
fn to_group(frame: &[u8]) -> bool {
    eth::parse(frame).is_some_and(|ethernet| frame.get(ethernet.l3 + 24) == Some(&0xff))
}

/// What is parsed can be answered, and the answer is understood.
pub fn slow_path_holds(frame: &[u8]) {
    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
    let parsed = parse_slow_path(frame);
    let mut answer = frame.to_vec();
    let echoed = answer_echo_in_place(&mut answer);
    assert_eq!(echoed.is_some(), matches!(parsed, Some(SlowPath::EchoRequest { .. })));
    if echoed.is_none() {
        assert_eq!(answer, frame, "not answered, but changed");
    }
    let mut out = [0; MAX_SLOW_PATH_LEN];
    match parsed {
        Some(SlowPath::ArpRequest {
            sender_mac,
            sender_ip,
            target_ip,
            vlan,
        }) => {
            assert!(sender_mac.is_unicast());
            let len = build_arp_reply(&mut out, OWN, target_ip, sender_mac, sender_ip, vlan);
            let reply = parse_slow_path(&out[..len]);
            if !target_ip.is_multicast() && !target_ip.is_broadcast() && !target_ip.is_unspecified() {
                assert_eq!(
                    reply,
                    Some(SlowPath::ArpReply {
                        sender_ip: target_ip,
                        sender_mac: OWN,
                        vlan
                    })
                );
            }
        }
        Some(SlowPath::NeighborSolicit {
            src_mac,
            src_ip,
            target,
            named,
            vlan,
        }) => {
            let reply_to = src_ip.map(|ip| (src_mac, ip));
            let len = build_neighbor_advert(&mut out, OWN, target, reply_to, named, vlan);
            // To one host it is no longer than the question.
            assert!(len <= frame.len() || eth::destination(frame).is_multicast() || to_group(frame));
            let want = SlowPath::NeighborAdvert { target, mac: OWN, vlan };
            assert_eq!(parse_slow_path(&out[..len]), named.then_some(want));
        }
        Some(SlowPath::ArpReply { sender_mac: mac, .. } | SlowPath::NeighborAdvert { mac, .. }) => {
            assert!(mac.is_unicast());
        }
        Some(SlowPath::EchoRequest { src_ip, dst_ip, .. }) => {
            assert_eq!(echoed, Some(frame.len()));
            assert_eq!(
                (eth::source(&answer), eth::destination(&answer)),
                (eth::destination(frame), eth::source(frame))
            );
            assert!(src_ip.is_ipv4() == dst_ip.is_ipv4() && parse_slow_path(&answer).is_none());
        }
        None => {}
    }
}

/// A filter takes a frame exactly when each of its conditions alone does.
pub fn capture_filter_holds(frame: &[u8], filter: &CaptureFilter) {
    let parts = [
        CaptureFilter {
            ip: filter.ip,
            ..CaptureFilter::default()
        },
        CaptureFilter {
            ports: filter.ports.clone(),
            ..CaptureFilter::default()
        },
        CaptureFilter {
            protocol: filter.protocol,
            ..CaptureFilter::default()
        },
    ];
    assert_eq!(filter.takes(frame), parts.iter().all(|part| part.takes(frame)));
    assert!(CaptureFilter::default().takes(frame));
}

/// A frame keeps its length and type whatever is rewritten, and a swap undone is as if it had never been.
pub fn forward_holds(frame: &[u8]) {
    let l2 = Rewrite::L2Forward {
        source: MacAddr(super::frames::SRC_MAC),
        destination: MacAddr(super::frames::DST_MAC),
    };
    for rewrite in [Rewrite::Io, Rewrite::MacSwap, Rewrite::FiveTupleSwap, l2] {
        let mut copy = frame.to_vec();
        let done = rewrite.apply(&mut copy);
        assert_eq!(done.is_err(), frame.len() < eth::HEADER_LEN);
        assert_eq!((copy.len(), copy.get(12..14)), (frame.len(), frame.get(12..14)));
        if done.is_err() || rewrite == Rewrite::Io {
            assert_eq!(copy, frame);
        } else if rewrite == l2 {
            assert_eq!(copy[12..], frame[12..]);
        } else {
            assert_eq!(rewrite.apply(&mut copy), Ok(()));
            assert_eq!(copy, frame, "swapped twice, but not the same");
        }
    }
    let mut completed = frame.to_vec();
    if !complete_checksum(&mut completed) {
        assert_eq!(completed, frame, "not completed, but changed");
    } else if let Ok(packet) = parse_udp(&completed) {
        assert!(udp_checksum_ok(&completed, &packet));
    }
    let own: [std::net::IpAddr; 2] = [super::frames::DST_V4.into(), super::frames::DST_V6.into()];
    for ip in own {
        let for_it = |frame: &[u8]| !TakeFilter::Foreign(Box::new([ip])).takes(frame);
        assert!(!for_it(frame) || !TakeFilter::Foreign(own.into()).takes(frame));
        if let Ok(packet) = parse_udp(frame) {
            assert_eq!(for_it(frame), packet.dst_ip_eq(frame, &ip));
        }
    }
    let udp = |ip| TakeFilter::Udp { ip, ports: None }.takes(frame);
    assert!(udp(None) || !udp(Some(own[0])));
}
