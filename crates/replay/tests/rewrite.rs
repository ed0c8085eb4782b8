//! Frames that are changed are those that a text with the other values makes, checksums and all; what was wrong is as
//! wrong as before.

use mpps_replay::{NotRewritten, Rewrite};
use mpps_traffic::Vlans;
use mpps_traffic::{Moment, Packet, Traffic};
use proptest::prelude::*;

/// Returns some packets of a text.
fn frames(text: &str) -> Vec<Vec<u8>> {
    sized(text, None)
}

fn sized(text: &str, size: Option<u64>) -> Vec<Vec<u8>> {
    let mut traffic = Traffic::of_packet(Packet::parse(text).expect(text));
    traffic.streams[0].size = size.map(|size| mpps_traffic::Size::parse(&size.to_string()).expect("a size"));
    let forms = traffic.forms(7).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
    (0..20).map(|n| forms[0].packet(n, Moment::default())).collect()
}

fn rewrite(text: &str) -> Rewrite {
    let packet = Packet::parse(text).expect(text);
    Rewrite::of(&packet, 7).unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
}

/// Returns a frame as it is in a lap.
fn changed(rewrite: &Rewrite, frame: &[u8], lap: u64) -> Vec<u8> {
    let mut buffer = frame.to_vec();
    buffer.resize(frame.len() + rewrite.growth(), 0xee);
    let len = rewrite.apply(&mut buffer, frame.len(), lap).expect("a frame");
    buffer.truncate(len);
    buffer
}

#[test]
fn a_changed_frame_is_the_one_that_is_made_with_the_other_values() {
    for (made, text, want) in [
        (
            "eth / ipv4 / udp",
            "eth dst=02:00:00:00:00:07 src=02:00:00:00:00:08",
            "eth dst=02:00:00:00:00:07 src=02:00:00:00:00:08 / ipv4 / udp",
        ),
        (
            "eth / ipv4 src=10.0.0.1*9 / udp dst=1..9",
            "eth / ipv4 dst=192.0.2.1 ttl=7 dscp=46 / udp src=7",
            "eth / ipv4 src=10.0.0.1*9 dst=192.0.2.1 ttl=7 dscp=46 / udp dst=1..9 src=7",
        ),
        (
            "eth / ipv4 / tcp flags=syn mss=1460",
            "eth / ipv4 src=192.0.2.1 / tcp dst=443",
            "eth / ipv4 src=192.0.2.1 / tcp flags=syn mss=1460 dst=443",
        ),
        // No checksum: none.
        (
            "eth / ipv4 / udp cksum=0",
            "eth / ipv4 src=192.0.2.1 / udp dst=443",
            "eth / ipv4 src=192.0.2.1 / udp dst=443 cksum=0",
        ),
        // A network takes the place of the first bits.
        (
            "eth / ipv4 src=10.1.2.3..10.1.2.9 dst=10.9.8.7 / udp",
            "eth / ipv4 src=172.16.0.0/16 dst=192.0.2.0/24",
            "eth / ipv4 src=172.16.2.3..172.16.2.9 dst=192.0.2.7 / udp",
        ),
        (
            "eth / ipv6 src=2001:db8::7..2001:db8::9 / udp",
            "eth / ipv6 src=fd00::/64 dst=random(::/0) flow=7",
            "eth / ipv6 src=fd00::7..fd00::9 flow=7 / udp",
        ),
        // Bits, and one of them all.
        (
            "eth / ipv4 dst=10.1.2.3 / udp",
            "eth / ipv4 dst&0.0.255.0=77",
            "eth / ipv4 dst=10.1.77.3 / udp",
        ),
        (
            "eth / ipv4 / udp",
            "eth / ipv4 dst&0.0.255.0=77 dst=10.1.2.3",
            "eth / ipv4 dst=10.1.77.3 / udp",
        ),
        // Values of other fields, as they were.
        (
            "eth dst=02:00:00:00:00:07 / ipv4 src=10.0.0.1 dst=10.0.0.2 / udp src=7 dst=9",
            "eth dst=src src=dst / ipv4 src=dst dst=src / udp src=dst dst=src+1",
            "eth dst=02:00:00:00:00:01 src=02:00:00:00:00:07 / ipv4 src=10.0.0.2 dst=10.0.0.1 / udp src=9 dst=8",
        ),
        // Behind tags, labels and sessions that the text does not name.
        (
            "eth / qinq vid=7 / vlan vid=8 / vlan vid=9 / ipv4 / udp",
            "eth / ipv4 ttl=7 dst=192.0.2.1 / udp dst=7",
            "eth / qinq vid=7 / vlan vid=8 / vlan vid=9 / ipv4 ttl=7 dst=192.0.2.1 / udp dst=7",
        ),
        (
            "eth / mpls label=7 / ipv6 / tcp",
            "eth / ipv6 dst=2001:db8::7 flow=7 hop=9",
            "eth / mpls label=7 / ipv6 dst=2001:db8::7 flow=7 hop=9 / tcp",
        ),
        (
            "eth / pppoe seid=7 / ipv4 / udp",
            "eth / ipv4 ttl=7",
            "eth / pppoe seid=7 / ipv4 ttl=7 / udp",
        ),
        // Extension headers; with segments left the sum is for the last one.
        (
            "eth / ipv6 / hopopts options=05020000 / dstopts / udp",
            "eth / ipv6 src=2001:db8::7 dst=2001:db8::8 / udp dst=7",
            "eth / ipv6 src=2001:db8::7 dst=2001:db8::8 / hopopts options=05020000 / dstopts / udp dst=7",
        ),
        (
            "eth / ipv6 dst=2001:db8::5 / srh segs={2001:db8::5,2001:db8::6} left=1 / udp",
            "eth / ipv6 src=2001:db8::7 dst=2001:db8::8",
            "eth / ipv6 src=2001:db8::7 dst=2001:db8::8 / srh segs={2001:db8::5,2001:db8::6} left=1 / udp",
        ),
        (
            "eth / ipv6 dst=2001:db8::5 / srh segs={2001:db8::5,2001:db8::6} left=0 / udp",
            "eth / ipv6 src=2001:db8::7 dst=2001:db8::8",
            "eth / ipv6 src=2001:db8::7 dst=2001:db8::8 / srh segs={2001:db8::5,2001:db8::6} left=0 / udp",
        ),
        // Fragments.
        (
            "eth / ipv4 mf=1 / udp",
            "eth / ipv4 src=192.0.2.1 / udp dst=7",
            "eth / ipv4 src=192.0.2.1 mf=1 / udp dst=7",
        ),
        (
            "eth / ipv4 proto=17 frag=9",
            "eth / ipv4 src=192.0.2.1 / udp dst=7",
            "eth / ipv4 src=192.0.2.1 proto=17 frag=9",
        ),
        // Sums of other protocols.
        (
            "eth / ipv6 / icmp6 type=128",
            "eth / ipv6 src=2001:db8::7",
            "eth / ipv6 src=2001:db8::7 / icmp6 type=128",
        ),
        (
            "eth / ipv4 / icmp type=8",
            "eth / ipv4 src=192.0.2.1",
            "eth / ipv4 src=192.0.2.1 / icmp type=8",
        ),
        (
            "eth / ipv4 / sctp",
            "eth / ipv4 src=192.0.2.1",
            "eth / ipv4 src=192.0.2.1 / sctp",
        ),
        (
            "eth / ipv4 / udp dst=4789 / vxlan / eth / ipv4 / udp",
            "eth / ipv4 src=192.0.2.1 / udp src=7",
            "eth / ipv4 src=192.0.2.1 / udp src=7 dst=4789 / vxlan / eth / ipv4 / udp",
        ),
        // Headers that are not there.
        ("eth / arp", "eth / ipv4 ttl=7 / udp dst=7", "eth / arp"),
        (
            "eth / ipv4 / tcp",
            "eth / ipv4 ttl=7 / udp dst=7",
            "eth / ipv4 ttl=7 / tcp",
        ),
        ("eth / ipv4 / udp", "eth / ipv6 hop=7 / udp dst=7", "eth / ipv4 / udp"),
    ] {
        let rewrite = rewrite(text);
        for (frame, want) in frames(made).iter().zip(frames(want)) {
            assert_eq!(changed(&rewrite, frame, 0), want, "'{made}' by '{text}'");
        }
    }
}

#[test]
fn tags_are_set_put_on_and_taken_off() {
    const SET: Vlans = Vlans::Set;
    const PUSH: Vlans = Vlans::Push;
    const REPLACE: Vlans = Vlans::Replace;
    for (made, text, tagging, want) in [
        ("", "vlan vid=7", SET, "vlan vid=7"),
        ("", "qinq vid=7 pcp=5 / vlan", SET, "qinq vid=7 pcp=5 / vlan"),
        ("vlan vid=3 pcp=5", "vlan vid=7", SET, "vlan vid=7 pcp=5"),
        ("vlan vid=3", "vlan pcp=5", SET, "vlan vid=3 pcp=5"),
        ("vlan vid=3", "qinq vid=7", SET, "qinq vid=7 / vlan vid=3"),
        ("vlan vid=3", "qinq vid=7 / vlan vid=8", SET, "qinq vid=7 / vlan vid=8"),
        ("qinq vid=3", "vlan vid=7 / qinq vid=8", SET, "vlan vid=7 / qinq vid=8"),
        ("vlan vid=3", "vlan vid=7 / vlan vid=8", SET, "vlan vid=7 / vlan vid=8"),
        ("vlan vid=3 / vlan vid=4", "vlan vid=7", SET, "vlan vid=7 / vlan vid=4"),
        ("vlan vid=3", "", SET, "vlan vid=3"),
        ("", "vlan vid=7", PUSH, "vlan vid=7"),
        ("vlan vid=3", "vlan vid=7", PUSH, "vlan vid=7 / vlan vid=3"),
        (
            "vlan vid=3",
            "qinq vid=7 / vlan vid=8",
            PUSH,
            "qinq vid=7 / vlan vid=8 / vlan vid=3",
        ),
        ("vlan vid=3", "", PUSH, "vlan vid=3"),
        ("vlan vid=3", "", REPLACE, ""),
        ("qinq vid=3 / vlan vid=4 / vlan vid=5", "", REPLACE, ""),
        ("qinq vid=3 / vlan vid=4", "vlan vid=7", REPLACE, "vlan vid=7"),
        (
            "",
            "vlan tci=0x2007 / vlan vid=8",
            REPLACE,
            "vlan tci=0x2007 / vlan vid=8",
        ),
        ("vlan pcp=5", "vlan vid=7", REPLACE, "vlan vid=7"),
    ] {
        let between = |tags: &str| {
            if tags.is_empty() {
                String::new()
            } else {
                format!(" / {tags}")
            }
        };
        let rewrite = rewrite(&format!("eth{}", between(text))).tagging(tagging);
        // As many bytes of payload, whatever the tags.
        let tags = |text: &str| text.split(" / ").filter(|tag| !tag.is_empty()).count() as u64;
        let of = |text: &str| sized(&format!("eth{} / ipv4 / udp", between(text)), Some(80 + 4 * tags(text)));
        for (frame, want) in of(made).iter().zip(of(want)) {
            assert_eq!(changed(&rewrite, frame, 0), want, "'{made}' by {tagging:?} '{text}'");
        }
    }
}

#[test]
fn frames_without_room_or_header_are_left_as_they_were() {
    let rewrite = rewrite("eth dst=02:00:00:00:00:07 / vlan vid=7 / ipv4 ttl=3");
    assert_eq!(rewrite.growth(), 4);
    let frame = frames("eth / ipv4 / udp").swap_remove(0);
    for room in 0..4 {
        let mut buffer = frame.clone();
        buffer.resize(frame.len() + room, 0);
        let before = buffer.clone();
        let refused = rewrite.apply(&mut buffer, frame.len(), 0);
        assert_eq!(refused, Err(NotRewritten::NoRoom(frame.len() + 4)));
        assert_eq!(buffer, before);
    }
    let mut short = [1; 13];
    assert_eq!(rewrite.apply(&mut short, 13, 0), Err(NotRewritten::Short));
    assert_eq!(rewrite.apply(&mut short, 20, 0), Err(NotRewritten::Short));
    assert_eq!(short, [1; 13]);
    // What is cut off is left out.
    let whole = changed(&rewrite, &frame, 0);
    for len in 14..frame.len() {
        let cut = changed(&rewrite, &frame[..len], 0);
        assert_eq!(cut.len(), len + 4);
        assert_eq!(cut[..18], whole[..18]);
        if len >= 34 {
            assert_eq!(cut, whole[..len + 4]);
        }
    }
}

#[test]
fn each_lap_has_the_next_value() {
    let rewrite = rewrite("eth / ipv4 src=10.0.0.1..10.0.0.3 dst=random(10.0.0.0..10.255.255.255) / udp src={7,9}");
    let frame = frames("eth / ipv4 / udp").swap_remove(0);
    let of = |lap| changed(&rewrite, &frame, lap);
    let sources: Vec<u8> = (0..5).map(|lap| of(lap)[29]).collect();
    assert_eq!(sources, [1, 2, 3, 1, 2]);
    let ports: Vec<u8> = (0..4).map(|lap| of(lap)[35]).collect();
    assert_eq!(ports, [7, 9, 7, 9]);
    assert_ne!(of(0)[30..34], of(1)[30..34]);
    assert_eq!(of(u64::MAX), of(u64::MAX));
}

#[test]
fn ports_of_the_client_are_shifted_in_both_directions() {
    let shift = Rewrite::default().shift_ports(100);
    for (ports, lap, want) in [
        ("src=40000 dst=80", 0, "src=40000 dst=80"),
        ("src=40000 dst=80", 3, "src=40300 dst=80"),
        ("src=80 dst=40000", 3, "src=80 dst=40300"),
        ("src=5000 dst=5000", 2, "src=5200 dst=5200"),
        ("src=65500 dst=80", 1, "src=65 dst=80"),
        ("src=65435 dst=80", 1, "src=65535 dst=80"),
        ("src=0 dst=0", 1, "src=0 dst=0"),
        ("src=40000 dst=80", 65_535, "src=40000 dst=80"),
    ] {
        for protocol in ["ipv4 / udp", "ipv6 / tcp", "ipv6 / hopopts / udp"] {
            let made = frames(&format!("eth / {protocol} {ports}"));
            let want = frames(&format!("eth / {protocol} {want}"));
            for (frame, want) in made.iter().zip(want) {
                assert_eq!(changed(&shift, frame, lap), want, "{protocol} {ports} in lap {lap}");
            }
        }
    }
    let ping = frames("eth / ipv4 / icmp").swap_remove(0);
    assert_eq!(changed(&shift, &ping, 9), ping);
}

#[test]
fn no_two_ports_become_one() {
    let shift = Rewrite::default().shift_ports(777);
    let mut frame = frames("eth / ipv4 / udp src=1 dst=0").swap_remove(0);
    let mut seen = vec![false; 65_536];
    for port in 1..=u16::MAX {
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        let shifted = changed(&shift, &frame, 12_345);
        let now = usize::from(u16::from_be_bytes([shifted[34], shifted[35]]));
        assert!(now > 0 && !std::mem::replace(&mut seen[now], true), "{port}");
    }
}

#[test]
fn what_is_not_changed_is_refused_at_its_place() {
    for (text, column, line) in [
        ("ipv4 ttl=7", 1, "ipv4: want eth first, then vlan"),
        ("eth / ipv4 / gre", 14, "gre: want eth first"),
        ("eth / ipv4 / vlan", 14, "vlan: want eth first"),
        ("eth / udp dst=7", 7, "udp: want eth first"),
        ("eth / ipv4 / udp / payload", 20, "payload: want eth first"),
        (
            "eth / ipv4 length=7",
            12,
            "ipv4 length: it is not changed: want src, dst, ttl, dscp, ecn, tos",
        ),
        ("eth / ipv4 options=01", 12, "ipv4 options: it is not changed"),
        ("eth type=7", 5, "eth type: it is not changed: want src, dst"),
        (
            "eth / ipv4 / tcp seq=7",
            18,
            "tcp seq: it is not changed: want src, dst",
        ),
        ("eth / ipv4 / udp src=inner-hash", 18, "udp src: it is worked out"),
        (
            "eth / ipv4 / udp src=tcp.src",
            18,
            "udp src: tcp.src: want one field of that name",
        ),
    ] {
        let wrong = Rewrite::of(&Packet::parse(text).unwrap(), 7).unwrap_err();
        assert_eq!(wrong.position(text), (1, column), "{text}");
        assert!(wrong.line.starts_with(line), "{}", wrong.line);
    }
}

/// One's complement sum of pieces (RFC 1071), each of an even length but the last. 0 stands for 0xffff as well.
fn sum(pieces: &[&[u8]]) -> u64 {
    let pairs = pieces.iter().flat_map(|piece| piece.chunks(2));
    let all: u64 = pairs
        .map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u64::from(*byte)))
        .sum();
    all % 0xffff
}

/// How wrong the sums of IPv4's header and of what is behind it are.
fn wrongness(frame: &[u8], udp: bool) -> (u64, u64) {
    let len = (frame.len() - 34) as u16;
    let pseudo = [&[0, if udp { 17 } else { 6 }][..], &len.to_be_bytes()].concat();
    (sum(&[&frame[14..34]]), sum(&[&frame[26..34], &pseudo, &frame[34..]]))
}

proptest! {
    #[test]
    fn a_wrong_sum_is_as_wrong_as_it_was(
        udp: bool, src: u32, dst: u32, ports: [u16; 2], new: [u32; 2], new_ports: [u16; 2], ttl: u8, sums: [u16; 2],
        by: u16, lap: u64,
    ) {
        let name = if udp { "udp" } else { "tcp" };
        let ip = |number: u32| std::net::Ipv4Addr::from(number);
        let [src_port, dst_port] = ports;
        let made = format!("eth / ipv4 src={} dst={} / {name} src={src_port} dst={dst_port}", ip(src), ip(dst));
        let mut frame = frames(&made).swap_remove(0);
        let field = if udp { 40 } else { 50 };
        frame[24..26].copy_from_slice(&sums[0].to_be_bytes());
        frame[field..field + 2].copy_from_slice(&sums[1].to_be_bytes());
        let [src_port, dst_port] = new_ports;
        let text = format!(
            "eth / ipv4 src={} dst={} ttl={ttl} / {name} src={src_port} dst={dst_port}", ip(new[0]), ip(new[1]),
        );
        let changed = changed(&rewrite(&text).shift_ports(by), &frame, lap);
        prop_assert_eq!(&changed[26..30], &new[0].to_be_bytes());
        prop_assert_eq!(wrongness(&changed, udp).0, wrongness(&frame, udp).0);
        match (udp, sums[1]) {
            (true, 0) => prop_assert_eq!(&changed[field..field + 2], &[0, 0]),
            _ => prop_assert_eq!(wrongness(&changed, udp).1, wrongness(&frame, udp).1),
        }
        prop_assert!(!udp || sums[1] == 0 || changed[field..field + 2] != [0, 0]);
    }

    #[test]
    fn what_is_set_to_what_it_is_changes_nothing(sums: [u16; 2]) {
        let text = "eth / ipv4 src=10.0.0.1 dst=10.0.0.2 ttl=9 / udp src=7 dst=8";
        let mut frame = frames(text).swap_remove(0);
        frame[24..26].copy_from_slice(&sums[0].to_be_bytes());
        frame[40..42].copy_from_slice(&sums[1].to_be_bytes());
        prop_assert_eq!(&changed(&rewrite(text), &frame, 0), &frame);
    }

    #[test]
    fn no_frame_is_too_odd(
        bytes in prop::collection::vec(any::<u8>(), 0..120), types in prop::collection::vec(0usize..6, 0..5), lap: u64,
        which in 0usize..4, tagging in 0usize..3,
    ) {
        let mut frame = bytes;
        // Bytes at random are hardly ever a packet.
        let known = [&[0x81, 0][..], &[0x88, 0xa8], &[8, 0, 0x45], &[0x86, 0xdd, 0x60], &[0x88, 0x47], &[0x88, 0x64]];
        for (at, kind) in types.iter().enumerate() {
            for (byte, place) in known[*kind].iter().zip(frame.iter_mut().skip(12 + 4 * at)) {
                *place = *byte;
            }
        }
        let text = [
            "eth dst=src",
            "eth / vlan vid=1..9 / qinq / ipv6 src=random(fd00::/8) dst=src / tcp src=dst",
            "eth / qinq / ipv4 src=random(10.0.0.0/8) ttl=ipv4.ttl-1 / udp dst=1..7",
            "eth / ipv6 hop=tc flow=5 / udp src=src+1",
        ][which];
        let tagging = [Vlans::Set, Vlans::Push, Vlans::Replace][tagging];
        let rewrite = rewrite(text).tagging(tagging).shift_ports(9);
        let len = frame.len();
        frame.resize(len + rewrite.growth(), 0xaa);
        match rewrite.apply(&mut frame, len, lap) {
            Ok(new) => prop_assert!(new <= frame.len() && new >= 14),
            Err(refused) => prop_assert_eq!(refused, NotRewritten::Short),
        }
    }
}
