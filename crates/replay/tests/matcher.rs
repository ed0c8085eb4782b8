//! Frames that packets' texts make are found by texts, and no others are.

mod common;

use common::checks::read;
use common::files::{NANOS, Order, Pcap};
use mpps_replay::{Matcher, Selection};
use mpps_traffic::{HeaderKind, Moment, Packet, Traffic};
use proptest::prelude::*;

/// Texts with all headers, fields of every kind, and values of every kind.
const TEXTS: [&str; 44] = [
    "eth",
    "eth dst=02:00:00:00:00:07..02:00:00:00:00:09",
    "eth type=0x1234 / raw hex=0001 @1:1=1..3",
    "eth / arp op=2 spa=10.0.0.1 tpa=10.0.0.0/29",
    "eth / ipv4",
    "eth / ipv4 src=10.0.0.1*5 dst=random(10.0.0.0/8) dscp=46 ttl=random(3..9) / udp src=1..9 step 2 dst={80*2,443}",
    "eth / ipv4 proto=200 / raw hex=cafe / payload @3:2=7..9",
    "eth / ipv4 dst=10.1.2.3 dst&0.0.255.0=1..5 / tcp flags=syn mss=1460 wscale=7 sackok",
    "eth / ipv4 options=9404 / tcp options=01010101 win=1..3",
    "eth / ipv4 src=shuffle(10.0.0.0/28) / icmp type=8 code=0 ident=7 seq=1..4",
    "eth / ipv4 / icmp type=3 / ipv4 src=10.0.0.1 / udp dst=9",
    "eth / ipv4 / icmp type=11 / ipv4",
    "eth / ipv4 mf=1 / udp",
    "eth / ipv4 frag=8 / payload",
    "eth / ipv4 / igmp type=0x16 group=239.0.0.1*3",
    "eth / ipv4 / sctp src=7 chunk=0 tsn=1..9",
    "eth / ipv4 / gre / ipv4 / udp",
    "eth / ipv4 / gre key=1..8 seq=5 / ipv6 / udp",
    "eth / ipv4 / gre cksum=0 key=9 / eth / vlan vid=3 / ipv4",
    "eth / ipv4 / ipv4 src=10.0.0.1 / ipv6",
    "eth / ipv4 / ipv6 / tcp",
    "eth / ipv4 / esp spi=1..5",
    "eth / ipv4 / udp src=inner-hash dst=4789 / vxlan vni=5..8 / eth / ipv4 src=10.0.0.1*9 / udp",
    "eth / ipv4 / udp dst=4790 / vxlan vni=5 / eth / arp",
    "eth / ipv4 / udp / geneve vni=1..4 options=0102800100000000 / eth / ipv4",
    "eth / ipv4 / udp / geneve / ipv4 / udp dst=53",
    "eth / ipv4 / udp / gtpu teid=1..9 / ipv4 / udp",
    "eth / ipv4 / udp / gtpu teid=7 qfi=1..5 / ipv6 / tcp",
    "eth / ipv6 src=random(2001:db8::/32) dst=2001:db8::1*5 flow=1..7 hop=9 / udp",
    "eth / ipv6 / hopopts options=05020000 / udp dst=7",
    "eth / ipv6 / hopopts / dstopts / frag id=7 / tcp",
    "eth / ipv6 / frag offset=0 m=1 / udp",
    "eth / ipv6 / srh segs={2001:db8::7,2001:db8::8} left=1 / udp",
    "eth / ipv6 / icmp6 type=128 seq=1..5",
    "eth / ipv6 / icmp6 type=1 / ipv6 / udp",
    "eth / ipv6 / ipv4 / udp dst=9000",
    "eth / vlan vid=10..12 pcp=5 / ipv4 / udp dst=src src=7..9",
    "eth / qinq vid=100 / vlan vid=1..100 / ipv6",
    "eth / vlan / vlan / vlan / arp",
    "eth / mpls label=100..103 / mpls label=7 / ipv4 / udp",
    "eth / mpls / ipv6",
    "eth / mpls tc=3 / eth / ipv4",
    "eth / pppoe seid=1..5 / ipv4 / udp dst=src+1",
    "eth / llc / snap / ipv4 / udp",
];

/// Returns some packets of a text.
fn frames(text: &str, from: u64) -> Vec<Vec<u8>> {
    let packet = Packet::parse(text).expect(text);
    let forms = Traffic::of_packet(packet)
        .forms(7)
        .unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
    (from..from + 40)
        .map(|n| forms[0].packet(n, Moment::default()))
        .collect()
}

fn matcher(text: &str) -> Matcher {
    let packet = Packet::parse(text).expect(text);
    Matcher::of(&packet).unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
}

/// Headers in front of a payload.
fn kinds(text: &str) -> Vec<HeaderKind> {
    let packet = Packet::parse(text).expect(text);
    let kinds = packet.headers.iter().map(|header| header.kind);
    kinds.filter(|kind| *kind != HeaderKind::Payload).collect()
}

/// The text without values, but for those that say what follows.
fn bare(text: &str) -> Option<String> {
    let needed = |word: &&str| !word.contains('=') && !["sackok", "step", "2"].contains(word);
    let bare = text.split(' ').filter(needed).collect::<Vec<_>>().join(" ");
    let same = !["raw", "payload", "srh", "icmp", "4790"]
        .iter()
        .any(|word| text.contains(word));
    same.then_some(bare)
}

#[test]
fn a_text_finds_the_packets_that_are_made_of_it() {
    for text in TEXTS {
        // What a hash or a list of segments makes is not looked for, or is.
        let looked = text.replace(" src=inner-hash", "");
        let matcher = matcher(&looked);
        for frame in frames(text, 0).iter().chain(&frames(text, 1 << 40)) {
            assert!(matcher.matches(frame), "{text}: {frame:02x?}");
            let headers = 14.min(frame.len());
            assert!(!matcher.matches(&frame[..headers - 1]));
        }
    }
}

#[test]
fn a_text_without_values_finds_what_begins_with_its_headers_and_no_more() {
    for wanted in TEXTS.iter().filter_map(|text| bare(text)) {
        let matcher = matcher(&wanted);
        for text in TEXTS.iter().filter(|text| bare(text).is_some()) {
            let begins = kinds(text).starts_with(&kinds(&wanted));
            // A fragment that is not the first has no header behind IP's.
            for frame in frames(text, 3) {
                assert_eq!(matcher.matches(&frame), begins, "'{wanted}' in '{text}': {frame:02x?}");
            }
        }
    }
}

/// Number of the first 254 packets of one text that another one finds.
fn found(made: &str, wanted: &str) -> usize {
    let matcher = matcher(wanted);
    let frames: Vec<_> = (0..7).flat_map(|part| frames(made, part * 40)).take(254).collect();
    frames.iter().filter(|frame| matcher.matches(frame)).count()
}

#[test]
fn each_kind_of_value_finds_its_own() {
    let made = "eth / ipv4 src=10.0.0.5 dst=10.0.0.0/24 ttl=1..254 / udp src=1001..1254 dst=1..254";
    let all = 254;
    for (wanted, want) in [
        ("eth / ipv4 dst=10.0.0.0/24", all),
        ("eth / ipv4 dst=10.0.0.0/25", 127),
        ("eth / ipv4 dst=10.0.0.1..10.0.0.9", 9),
        ("eth / ipv4 dst=random(10.0.0.128/25)", 127),
        ("eth / ipv4 dst&0.0.0.15=7", 16),
        ("eth / ipv4 dst&0.0.0.15=0..1", 31),
        ("eth / ipv4 dst&255.0.0.0=10 dst&0.0.0.15=7", 16),
        ("eth / ipv4 dst=10.0.0.0 dst&0.0.0.15=7", 1),
        ("eth / ipv4 src=10.0.0.5 dst=10.0.0.7", 1),
        ("eth / ipv4 src=10.0.0.6", 0),
        ("eth / ipv4 ttl=10..20 step 5 / udp", 3),
        ("eth / ipv4 ttl={10,20,10*5}", 2),
        ("eth / ipv4 ttl=shuffle(10..19)", 10),
        ("eth / ipv4 / udp src=dst+1000", all),
        ("eth / ipv4 / udp dst=src", 0),
        ("eth / ipv4 / udp dst=ipv4.ttl", all),
        ("eth / ipv4 dst=src", 1),
        ("eth / ipv4 / udp src=1254..1250", 5),
        ("eth / ipv4 / tcp src=1001", 0),
        ("eth / ipv6", 0),
        ("eth type=0x0800 / ipv4 proto=17 / udp", all),
        ("eth type=0x0800 / ipv4 proto=16 / udp", 0),
    ] {
        assert_eq!(found(made, wanted), want, "{wanted}");
    }
    let made = "eth / ipv4 / tcp flags=syn mss=1460 wscale=7 options=01010101 win=1..254";
    for (wanted, want) in [
        ("eth / ipv4 / tcp mss=1460", all),
        ("eth / ipv4 / tcp mss=1461", 0),
        ("eth / ipv4 / tcp wscale=7 win=3", 1),
        ("eth / ipv4 / tcp sackok", 0),
        ("eth / ipv4 / tcp options=0101", all),
        ("eth / ipv4 / tcp options=02", 0),
        ("eth / ipv4 / tcp flags=syn", all),
        ("eth / ipv4 / tcp flags=syn+ack", 0),
    ] {
        assert_eq!(found(made, wanted), want, "{wanted}");
    }
    let made = "eth / ipv4 / gre key=1..254 / ipv4 / udp";
    for (wanted, want) in [
        ("eth / ipv4 / gre key=7", 1),
        ("eth / ipv4 / gre seq=0..4294967295", 0),
        ("eth / ipv4 / gre cksum=0", 0),
        ("eth / ipv4 / gre key=1..9 / ipv4 / udp", 9),
        ("eth / ipv4 / gre / ipv6", 0),
    ] {
        assert_eq!(found(made, wanted), want, "{wanted}");
    }
    assert_eq!(found("eth / ipv4 / gre cksum=0", "eth / ipv4 / gre cksum=0"), all);
    assert_eq!(
        found(
            "eth / ipv4 / udp / gtpu qfi=1..63 / ipv4",
            "eth / ipv4 / udp / gtpu qfi=9"
        ),
        4
    );
    assert_eq!(
        found("eth / ipv4 / udp / gtpu / ipv4", "eth / ipv4 / udp / gtpu qfi=0..63"),
        0
    );
}

#[test]
fn fragments_and_padding_have_no_headers() {
    let text = "eth / ipv4 frag=1..100 / udp dst=9";
    assert_eq!(found(text, "eth / ipv4 / udp"), 0);
    assert_eq!(found(text, "eth / ipv4"), 254);
    assert_eq!(found(text, text), 254);
    assert_eq!(found("eth / ipv6 / frag offset=5 / udp", "eth / ipv6 / frag / udp"), 0);
    assert_eq!(
        found("eth / ipv6 / frag offset=0 / udp", "eth / ipv6 / frag / udp"),
        254
    );
    // A packet that ends before the header that its padding looks like.
    assert_eq!(found("eth / ipv4 proto=17 length=20", "eth / ipv4 / udp"), 0);
    assert_eq!(
        found("eth / ipv4 proto=17 length=20", "eth / ipv4 length=20 / udp"),
        254
    );
    assert_eq!(found("eth / ipv4 proto=17 length=0", "eth / ipv4 / udp"), 254);
}

#[test]
fn what_no_frame_can_be_tested_for_is_refused_at_its_place() {
    for (text, column, line) in [
        ("ipv4 / udp", 1, "want eth as the first header"),
        (
            "eth / udp",
            7,
            "udp behind eth: eth does not carry it: want type=NUMBER in eth",
        ),
        (
            "eth / ipv4 / tcp / vxlan",
            20,
            "vxlan behind tcp: tcp does not carry it",
        ),
        (
            "eth / ipv6 / icmp",
            14,
            "icmp behind ipv6: ipv6 does not carry it: want proto=NUMBER in ipv6",
        ),
        ("eth / ipv4 / udp src=inner-hash", 18, "src: it is worked out"),
        ("eth / ipv4 / udp cksum=bad", 18, "cksum: it is worked out"),
        (
            "eth / ipv4 dst=ipv6.src",
            12,
            "dst: ipv6.src: want one field of that name",
        ),
    ] {
        let wrong = Matcher::of(&Packet::parse(text).unwrap()).unwrap_err();
        assert_eq!(wrong.position(text), (1, column), "{text}");
        assert!(wrong.line.starts_with(line), "{}", wrong.line);
    }
}

#[test]
fn a_reader_takes_what_matches_and_counts_packets_of_the_file() {
    let mut file = Pcap::new(Order::Little, NANOS);
    for (i, frame) in frames("eth / ipv4 ttl=1..10", 0).iter().enumerate() {
        file.packet(1, i as u32 * 10, frame, frame.len() as u32);
    }
    let only = Some(matcher("eth / ipv4 ttl=3"));
    let some = Selection { numbers: 10..=35, only };
    let (kept, facts, _) = read(&file.bytes[..], &some);
    let dues: Vec<u64> = kept.iter().map(|packet| packet.2).collect();
    assert_eq!(dues, [0, 100, 200]);
    assert_eq!((facts.packets, facts.read), (3, 35));
}

proptest! {
    #[test]
    fn no_frame_is_too_odd(
        which in 0..TEXTS.len(), cut: u16, changes in prop::collection::vec((any::<u16>(), any::<u8>()), 0..6),
        other in 0..TEXTS.len(),
    ) {
        let mut frame = frames(TEXTS[which], 0).swap_remove(0);
        for (at, byte) in changes {
            let at = usize::from(at) % frame.len();
            frame[at] = byte;
        }
        frame.truncate(usize::from(cut) % (frame.len() + 1));
        for text in [TEXTS[which], TEXTS[other]] {
            matcher(&text.replace(" src=inner-hash", "")).matches(&frame);
        }
    }

    #[test]
    fn any_text_is_taken_or_refused_within_it(
        text in "(eth|ipv4|gre)( / (vlan|ipv4( dst&0.0.[01248]{1,2}.255=1){0,2}|ipv6|raw hex=00|srh|llc|snap)){0,4}",
    ) {
        if let Ok(packet) = Packet::parse(&text) {
            match Matcher::of(&packet) {
                Ok(matcher) => _ = matcher.matches(&[0; 60]),
                Err(wrong) => prop_assert!(wrong.at.end <= text.len() && !wrong.line.contains('\n')),
            }
        }
    }
}
