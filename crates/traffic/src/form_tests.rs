//! Packets of each header, checked by other readers, and what is refused.

use super::*;
use crate::file::Traffic;
use crate::grammar::Packet;
use crate::stream::Step;
use mpps_wire::{Tag as TagRead, parse_udp, udp_checksum_ok};
use proptest::prelude::*;

const SEED: u64 = 11;

fn form(text: &str) -> Form {
    with(text, |_| ())
}

fn with(text: &str, change: impl FnOnce(&mut Stream)) -> Form {
    try_with(text, change).unwrap_or_else(|line| panic!("{text}: {line}"))
}

fn try_with(text: &str, change: impl FnOnce(&mut Stream)) -> Result<Form, String> {
    let mut stream = Stream::of(Packet::parse(text).map_err(|wrong| wrong.line)?);
    change(&mut stream);
    Form::of(&stream, SEED, 0).map_err(|wrong| wrong.line)
}

fn sized(text: &str, size: &str) -> Result<Form, String> {
    try_with(text, |stream| stream.size = Some(Size::parse(size).expect(size)))
}

fn bytes(form: &Form, n: u64) -> Vec<u8> {
    form.packet(n, Moment::default())
}

/// Byte `at` and those behind it, of packet `n`, as a number.
fn number(form: &Form, n: u64, at: usize, len: usize) -> u64 {
    bytes(form, n)[at..at + len]
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[test]
fn a_udp_packet_is_right_by_the_reader_of_the_packet_path() {
    for text in [
        "eth / ipv4 / udp",
        "eth / ipv6 / udp",
        "eth / vlan vid=7 / ipv4 options=01010100 / udp src=1..9",
    ] {
        for size in ["64", "96", "1517", "1518"] {
            let Ok(form) = sized(text, size) else { continue };
            for n in 0..12 {
                let frame = bytes(&form, n);
                assert_eq!(frame.len() as u64 + 4, size.parse::<u64>().unwrap());
                let packet = parse_udp(&frame).unwrap_or_else(|reject| panic!("{text} {size}: {reject:?}"));
                assert!(udp_checksum_ok(&frame, &packet), "{text} {size}");
            }
        }
    }
}

#[test]
fn types_and_protocols_name_the_next_header() {
    let frame = bytes(
        &form("eth / qinq vid=3 / vlan vid=4 / mpls label=5 / mpls label=6 / ipv6 / gre / eth / ipv4 / tcp"),
        0,
    );
    assert_eq!(frame[12..14], [0x88, 0xa8]);
    assert_eq!(frame[16..18], [0x81, 0x00]);
    assert_eq!(frame[20..22], [0x88, 0x47]);
    assert_eq!((frame[24] & 1, frame[28] & 1), (0, 1), "bottom of the stack");
    assert_eq!(frame[30] >> 4, 6);
    assert_eq!(frame[36], 47);
    assert_eq!(frame[72..74], [0x65, 0x58]);
}

#[test]
fn lengths_are_those_of_the_frame() {
    let form = sized(
        "eth / ipv4 / udp / vxlan vni=77 / eth / ipv6 / udp / gtpu teid=9 qfi=5 / ipv6 / esp",
        "300",
    )
    .unwrap();
    let frame = bytes(&form, 0);
    assert_eq!(frame.len(), 296);
    let at = |at: usize| usize::from(frame[at]) << 8 | usize::from(frame[at + 1]);
    assert_eq!(at(16), 296 - 14);
    assert_eq!(at(38), 296 - 34);
    assert_eq!(at(36), 4789);
    assert_eq!(at(50 + 14 + 4), 296 - 50 - 14 - 40, "payload of IPv6");
    let gtpu = 50 + 14 + 40 + 8;
    assert_eq!((frame[gtpu], at(gtpu + 2)), (0x34, 296 - gtpu - 8));
    assert_eq!(frame[gtpu + 8..gtpu + 16], [0, 0, 0, 0x85, 1, 0, 5, 0]);
}

#[test]
fn fields_go_on_together_or_in_each_combination() {
    const TEXT: &str = "eth / ipv4 dst=10.0.0.1*2 / udp src=5..7";
    let together = form(TEXT);
    assert_eq!(together.flows(), 6);
    let of = |form: &Form, n| (number(form, n, 33, 1), number(form, n, 34, 2));
    let all: Vec<_> = (0..7).map(|n| of(&together, n)).collect();
    assert_eq!(all, [(1, 5), (2, 6), (1, 7), (2, 5), (1, 6), (2, 7), (1, 5)]);
    let combined = with(TEXT, |stream| stream.step = Step::Combine);
    let all: Vec<_> = (0..7).map(|n| of(&combined, n)).collect();
    assert_eq!(all, [(1, 5), (1, 6), (1, 7), (2, 5), (2, 6), (2, 7), (1, 5)]);
    let first = with(TEXT, |stream| stream.flows = Some(4));
    assert_eq!(of(&first, 4), of(&first, 0));
}

#[test]
fn a_field_takes_its_value_from_another() {
    let form = form("eth / ipv4 src=10.0.0.1..10.0.0.9 dst=src+256 / udp src=1000..1003 dst=src+1");
    for n in 0..40 {
        assert_eq!(number(&form, n, 30, 4), number(&form, n, 26, 4) + 256);
        assert_eq!(number(&form, n, 36, 2), number(&form, n, 34, 2) + 1);
    }
}

#[test]
fn the_outer_port_of_a_tunnel_is_that_of_its_inner_flow() {
    let form =
        form("eth / ipv4 / udp src=inner-hash / vxlan / eth / ipv4 src=10.0.0.1*50 / udp src=random(1..65535)*7");
    let port = |n| number(&form, n, 34, 2);
    let mut ports: Vec<u64> = (0..350).map(port).collect();
    assert!((0..350).all(|n| port(n) == port(n + 350)), "the same in each round");
    assert!(ports.iter().all(|port| *port >= 0xc000));
    ports.sort_unstable();
    ports.dedup();
    assert!(ports.len() > 300, "{}", ports.len());
}

#[test]
fn flags_named_like_fields_are_flags() {
    assert_eq!(number(&form("eth / ipv4 / tcp flags=ack"), 0, 47, 1), 0x10);
    assert_eq!(number(&form("eth / ipv4 / tcp flags=urg"), 0, 47, 1), 0x20);
}

#[test]
fn each_flow_has_the_whole_mix_of_sizes() {
    let form = sized("eth / ipv4 dst=10.0.0.1*4 / udp", "64*1 594*2 1518*1").unwrap();
    let mut each = [[0; 3]; 4];
    for n in 0..16 {
        let size = [60, 590, 1514]
            .iter()
            .position(|len| *len == bytes(&form, n).len())
            .expect("a size");
        each[form.flow_of(n).0 as usize][size] += 1;
    }
    assert_eq!(each, [[1, 2, 1]; 4]);
}

#[test]
fn sizes_by_name_count_outer_tags_alone() {
    let form = |text: &str| sized(text, "genome:g").unwrap();
    assert_eq!(form("eth / vlan / ipv4 / udp").sizes(), (1522, 1522));
    assert_eq!(
        form("eth / ipv4 / udp / vxlan / eth / vlan / ipv4 / udp").sizes(),
        (1518, 1518)
    );
}

#[test]
fn fields_that_are_not_written_are_as_the_headers_around_them_ask() {
    let frame = bytes(&form("eth / ipv6 / srh segs={2001:db8::7,2001:db8::9} / udp"), 0);
    assert_eq!(frame[38 + 15], 7, "on its way to the first segment");
    let frame = bytes(&form("eth / ipv4 dst=239.129.2.3 / igmp"), 0);
    assert_eq!((&frame[..6], frame[22]), (&[1, 0, 0x5e, 1, 2, 3][..], 1));
    let frame = bytes(&form("eth / ipv6 dst=ff02::1:2 / udp"), 0);
    assert_eq!(frame[..6], [0x33, 0x33, 0, 1, 0, 2]);
    let frame = bytes(&form("eth / ipv4 mf=1 / udp"), 0);
    assert_eq!(frame[20], 0x20, "more fragments, and not \"don't fragment\"");
}

#[test]
fn a_port_that_a_tunnel_gave_is_taken_by_another_field() {
    assert_eq!(
        number(&form("eth / ipv4 / udp src=dst / vxlan / eth / ipv4 / udp"), 0, 34, 2),
        4789
    );
}

#[test]
fn random_fields_of_the_inner_packet_change_no_outer_port() {
    let text = "eth / ipv4 / udp src=inner-hash / vxlan / eth / ipv4 id=random(0..65535) src=10.0.0.1*2 / udp";
    let form = form(text);
    let port = |n| number(&form, n, 34, 2);
    assert!((0..50).all(|n| port(n) == port(n % 2)) && port(0) != port(1));
}

#[test]
fn bits_under_a_mask_vary_alone() {
    let form = form("eth / ipv4 dst=10.1.2.3 dst&0.0.255.0=7..9 / udp");
    let all: Vec<u64> = (0..4).map(|n| number(&form, n, 30, 4)).collect();
    assert_eq!(all, [0x0a01_0703, 0x0a01_0803, 0x0a01_0903, 0x0a01_0703]);
}

#[test]
fn bytes_of_payload_and_raw_headers_vary_by_packet() {
    let form = sized(
        "eth type=0x1234 / raw hex=00000000 @1:2=256..258 / payload @3:1=5..6",
        "64",
    )
    .unwrap();
    assert_eq!(form.flows(), 3, "bytes of the payload make no flows");
    let all: Vec<u64> = (0..4).map(|n| number(&form, n, 14, 4)).collect();
    assert_eq!(all, [0x01_0000, 0x01_0100, 0x01_0200, 0x01_0000]);
    let all: Vec<u64> = (0..3).map(|n| number(&form, n, 18 + 3, 1)).collect();
    assert_eq!(all, [5, 6, 5]);
}

#[test]
fn a_tag_says_flow_and_number_and_ends_the_packet() {
    let form = sized("eth / ipv4 dst=10.0.0.1*3 / icmp", "99").unwrap();
    for n in 0..10 {
        let frame = form.packet(n, Moment { run: 9, time_ns: 123 });
        let tag = TagRead::read(&frame, form.seed).expect("a tag");
        assert_eq!(
            (tag.flow, tag.number, tag.run, tag.time_ns),
            ((n % 3) as u32, (n / 3) as u32, 9, 123)
        );
    }
}

#[test]
fn flows_of_several_streams_have_numbers_of_their_own() {
    let text = "[[stream]]\npacket = 'eth / ipv4 / udp src=1..3'\n[[stream]]\npacket = 'eth / ipv4 / udp src=1..3'\n";
    let forms = Traffic::parse(text, &[]).unwrap().forms(SEED).unwrap();
    let flow = |form: &Form, n| TagRead::read(&bytes(form, n), SEED).expect("a tag").flow;
    assert_eq!([0, 1, 2, 3].map(|n| flow(&forms[1], n)), [3, 4, 5, 3]);
    let most = "packet = 'eth / ipv4 / udp src=shuffle(0..65535) dst=1..64'\nstep = 'combine'\n";
    let wrong = Traffic::parse(&format!("[[stream]]\n{most}[[stream]]\n{most}"), &[])
        .unwrap()
        .forms(1)
        .unwrap_err();
    assert!(wrong.line.contains("8388608 flows with those before"), "{}", wrong.line);
}

#[test]
fn checksums_are_wrong_only_where_it_is_written() {
    let right = bytes(&form("eth / ipv4 / tcp"), 0);
    let bad = bytes(&form("eth / ipv4 cksum=bad / tcp cksum=bad"), 0);
    let written = bytes(&form("eth / ipv4 cksum=7 / tcp cksum=0xabcd"), 0);
    for at in [24, 50] {
        assert_ne!(right[at..at + 2], bad[at..at + 2]);
    }
    assert_eq!((&written[24..26], &written[50..52]), (&[0, 7][..], &[0xab, 0xcd][..]));
}

#[test]
fn segments_lie_from_the_last_to_the_first_and_the_last_is_summed() {
    let text = "eth / ipv6 dst=2001:db8::1 / srh segs={2001:db8::1,2001:db8::2} / udp";
    let frame = bytes(&form(text), 0);
    assert_eq!(frame[20], 43);
    let srh = &frame[54..94];
    assert_eq!((srh[1], srh[2], srh[3], srh[4]), (4, 4, 1, 1));
    assert_eq!((srh[8 + 15], srh[24 + 15]), (2, 1));
    // The receiver of the last segment has it as the destination.
    let mut arrived = frame.clone();
    arrived.copy_within(62..78, 38);
    let pieces = [&arrived[22..54], &[0, 0, 0, 24, 0, 0, 0, 17], &arrived[94..118]];
    assert_eq!(arrived.len(), 118);
    assert_eq!(oracle::internet(&pieces), 0);
}

#[test]
fn what_can_not_be_a_packet_is_refused_with_what_would_be_right() {
    for (text, size, needle) in [
        ("ipv4 / udp", "64", "want eth as the first header"),
        ("eth / udp", "64", "eth has no number for udp"),
        ("eth / ipv4 / vxlan", "128", "want it behind udp"),
        ("eth / ipv4 / udp / tcp", "128", "udp does not carry it"),
        ("eth / ipv4 / tcp / payload / udp", "128", "want payload as the last"),
        ("eth type=5 / raw hex=00 / udp", "128", "needs ipv4 or ipv6"),
        ("eth / ipv4 / icmp6", "64", "icmp6 behind ipv4"),
        ("eth / ipv4 / icmp6", "64", ", or icmp"),
        (
            "eth / ipv6 / icmp",
            "64",
            "icmp behind ipv6: want it behind ipv4, or icmp6",
        ),
        ("eth / ipv4 / frag / udp", "64", "frag behind ipv4"),
        ("eth / ipv6 / srh / udp", "128", "want segs"),
        ("eth / llc / snap / ipv4 / udp", "1600", "goes to frames of 1518 bytes"),
        (
            "eth / ipv4 dst=10.0.0.1*5 dst&0.0.255.0=1..9 / udp",
            "64",
            "its bits are those of dst",
        ),
        ("eth / ipv4 tos=8 dscp&3=1..2 / udp", "64", "its bits are those of tos"),
        (
            "eth / ipv4 length&0xff=3 / udp",
            "64",
            "its bits have no values of their own",
        ),
        ("eth / ipv4 id=inner-hash / udp", "64", "a value of a UDP port alone"),
        ("eth / ipv4 id=length / udp", "64", "it is worked out last"),
        ("eth / ipv4 dscp=1..3 id=tos / udp", "64", "as a whole"),
        ("eth / ipv4 / udp src=65535 dst=src+1", "64", "it leaves the field"),
        ("eth / ipv6 / udp", "64", "want sizes of 82 or more"),
        ("eth / ipv4 tos=3 dscp=4 / udp", "64", "its bits are those of tos"),
        ("eth / ipv4 / udp src=tcp.src", "64", "want one header of that name"),
        ("eth / ipv4 / udp src=dst+1 dst=src", "64", "with values of its own"),
        ("eth / ipv4 src=10.0.0.0/8 / udp", "64", "want 4194304 at most"),
        ("eth / ipv4 / sctp", "99", "multiple of 4"),
        ("eth / ipv4 / udp / payload @9:9=1..3", "64", "want sizes of 80 or more"),
        ("eth / raw hex=00", "64", "want type=NUMBER"),
        ("raw hex=0102 / ipv4 / udp", "128", "want eth as the first header"),
    ] {
        let line = sized(text, size).err().unwrap_or_else(|| panic!("{text} was taken"));
        assert!(line.contains(needle), "{text}: {line}");
    }
}

#[test]
fn a_file_is_refused_at_the_place_that_is_wrong() {
    for (text, position, needle) in [
        (
            "[[stream]]\npacket = \"eth / ipv4 ttl=300 / udp\"\n",
            (2, 22),
            "want 0 to 255",
        ),
        ("[[stream]]\npackets = 5\n", (1, 1), "want packet or pcap"),
        (
            "[[stream]]\npacket = 'eth / ipv4 / udp'\nrat = '1kpps'\n",
            (3, 1),
            "did you mean 'rate'?",
        ),
        (
            "[[stream]]\npacket = 'eth / ipv4 / udp'\nrate = '1kpps'\nweight = 3\n",
            (4, 10),
            "one of the two",
        ),
        (
            "[[stream]]\npacket = 'eth / ipv4 / udp'\nsize = '10'\n",
            (3, 8),
            "64 to",
        ),
        (
            "{\"stream\": [{\"packet\": \"eth / ipv4 / udp dst=x\"}]}",
            (1, 42),
            "udp dst='x'",
        ),
        (
            "{\"stream\": [{\"packet\": \"eth\", \"packet\": \"eth\"}]}",
            (1, 31),
            "given twice",
        ),
        ("[[stream]\n", (1, 10), ""),
        ("{\"stream\": [", (1, 12), ""),
    ] {
        let wrong = Traffic::parse(text, &[]).expect_err(text);
        assert!(wrong.line.contains(needle), "{text}: {}", wrong.line);
        assert_eq!(wrong.position(text), position, "{text}: {}", wrong.line);
    }
}

#[test]
fn streams_that_would_never_begin_are_refused() {
    let stream = |name: &str, more: &str| format!("[[stream]]\nname = '{name}'\npacket = 'eth / ipv4 / udp'\n{more}\n");
    let ends = "packets = 3\nrate = '1kpps'";
    for (text, needle) in [
        (stream("a", &format!("{ends}\nafter = 'a'")), "a circle"),
        (
            stream("a", &format!("{ends}\nafter = 'b'")) + &stream("b", &format!("{ends}\nafter = 'a'")),
            "a circle",
        ),
        (
            stream("a", "after = 'b'") + &stream("b", "rate = '1kpps'"),
            "that end it",
        ),
        (
            stream("a", "after = 'b'") + &stream("b", "packets = 3"),
            "want a rate there",
        ),
        (stream("a", "after = 'c'") + &stream("b", ends), "no such stream"),
        ("stream = []".into(), "want one at least"),
        (stream("a", "rate = '0.0000001pps'"), "want"),
    ] {
        let wrong = Traffic::parse(&text, &[]).expect_err(&text);
        assert!(wrong.line.contains(needle), "{text}: {}", wrong.line);
    }
    let chain = stream("c", "after = 'b'") + &stream("b", &format!("{ends}\nafter = 'a'")) + &stream("a", ends);
    let traffic = Traffic::parse(&chain, &[]).unwrap();
    let forms = traffic.forms(1).unwrap();
    let order: Vec<usize> = crate::in_order(&traffic, &forms)
        .take(7)
        .map(|due| due.stream)
        .collect();
    assert_eq!(order, [2, 2, 2, 1, 1, 1, 0]);
}

#[test]
fn what_a_plan_holds_of_a_file_is_the_same_traffic() {
    let text = "[vars]\nusers = 5\n\
                [[stream]]\nname = 'a'\npacket = 'eth / ipv4 dst=10.0.0.1*$users / udp'\nsize = 'imix'\n\
                rate = '1Mpps'\ntag = 'none'\nstep = 'combine'\nfill = 'zeros'\nrepeat = 3\npackets = 7\n\
                start = '2ms'\n\
                [[stream]]\npacket = 'eth / ipv6 / tcp flags=syn'\nafter = 'a'\ngroup = 'gold'\nlanes = [0, 2]\n\
                burst = { packets = 9, gap = '1ms', count = 2 }\n";
    let traffic = Traffic::parse(text, &[("users".into(), "6".into())]).unwrap();
    assert!(traffic.streams[0].packet.text.contains("10.0.0.1*6"));
    let again = serde_json::json!({ "stream": traffic.json() }).to_string();
    let again = Traffic::parse(&again, &[]).unwrap();
    assert_eq!(again.json(), traffic.json());
    assert_eq!(again.streams[1].burst, traffic.streams[1].burst);
}

/// A stack of headers that can be sent.
fn any_packet() -> impl Strategy<Value = String> {
    let link = prop_oneof![
        Just("eth"),
        Just("eth / vlan vid=1..4"),
        Just("eth / qinq vid=3 / vlan vid=5 pcp=2")
    ];
    let net = prop_oneof![
        Just("ipv4 src=10.0.0.1*3 ttl=1..9 id=random(0..65535)"),
        Just("ipv4 options=94040000 dscp=46"),
        Just("ipv6 dst=2001:db8::1..2001:db8::7 flow=random(0..1048575)"),
        Just("ipv6 / hopopts options=050200000100 / dstopts"),
        Just("mpls label=16..99 / ipv4"),
    ];
    let tunnel = prop_oneof![
        Just(""),
        Just(" / udp / vxlan vni=1..3 / eth / ipv4 dst=10.9.0.1*4"),
        Just(" / gre key=7..9 seq=1 cksum=0 / ipv6"),
        Just(" / udp src=inner-hash / geneve vni=5 options=01020304 / eth / ipv6 src=random(2001:db8::/64)"),
        Just(" / udp / gtpu teid=1..50 qfi=9 / ipv4"),
        Just(" / ipv4"),
        Just(" / ipv6 / frag id=random(0..4294967295)"),
    ];
    let last = prop_oneof![
        Just("udp src=shuffle(1..99) dst={53*2,443}"),
        Just("tcp flags=syn mss=1460 wscale=7 sackok seq=random(0..4294967295)"),
        Just("udp cksum=0"),
    ];
    (link, net, tunnel, last).prop_map(|(link, net, tunnel, last)| format!("{link} / {net}{tunnel} / {last}"))
}

proptest! {
    #[test]
    fn any_packet_is_made_again_and_changes_only_where_it_varies(text in any_packet(), n: u32, size in 204u32..1518) {
        let form = sized(&text, &size.to_string()).unwrap();
        let (one, other) = (bytes(&form, n.into()), bytes(&form, u64::from(n) + 1));
        prop_assert_eq!((one.len(), other.len()), (size as usize - 4, size as usize - 4));
        prop_assert!(TagRead::read(&one, form.seed).is_some());
        let varies = |byte: usize| {
            let of = form.varies.iter().any(|vary| vary.bit / 8 <= byte && byte * 8 < vary.bit + vary.width as usize);
            of || form.checks.iter().any(|check| (check.at..check.at + 4).contains(&byte))
        };
        let fixed = (0..form.image.len()).filter(|byte| !varies(*byte));
        for byte in fixed {
            prop_assert_eq!(one[byte], other[byte], "byte {} of {}", byte, text);
        }
    }

    #[test]
    fn a_line_is_a_packet_with_the_same_headers(text in any_packet(), n: u32) {
        let plain = |text: &str| {
            with(text, |stream| {
                stream.tag = Tag::None;
                stream.fill = Fill::Pattern(vec![0]);
                stream.size = Some(Size::one(400));
            })
        };
        let form = plain(&text);
        let line = form.line(n.into());
        let again = plain(line.split_once(": ").expect("a packet").1);
        prop_assert_eq!(bytes(&again, 0), bytes(&form, n.into()), "{}", line);
    }

    #[test]
    fn an_image_writes_what_the_form_makes(
        text in any_packet(), n: u32, size in 224u32..1518, combine: bool, (tag, payload) in (0..2, 0usize..5),
        zeros: bool, bad: bool,
    ) {
        let text = if bad { text.replacen("ipv4 ", "ipv4 cksum=bad ", 1) } else { text };
        let payloads = [
            "",
            " / payload @4:2=1..1000",
            " / payload @0:1={3*2,4} @3:8=random(0..999999999)",
            " / payload @1:16=random(1..9)*100 @17:1=shuffle(1..9) @18:1=7",
            "",
        ];
        let text = format!("{text}{}", payloads[payload]);
        let form = with(&text, |stream| {
            stream.size = Some(Size::parse(&size.to_string()).unwrap());
            stream.step = if combine { Step::Combine } else { Step::Together };
            stream.flows = combine.then_some(1);
            stream.tag = if tag == 0 { Tag::Tail } else { Tag::None };
            stream.fill = if zeros { Fill::Pattern(vec![1, 2, 3]) } else { Fill::Data };
        });
        let image = form.image(size.into(), 7).expect("an image");
        let (flow, number) = form.flow_of(n.into());
        let mut frame = vec![0xee; image.frame_len()];
        image.write(&mut frame, image::Place { flow, number }, 123_456);
        let made = form.packet(n.into(), Moment { run: 7, time_ns: 123_456 });
        let differs = frame.iter().zip(&made).position(|(one, other)| one != other);
        prop_assert!(differs.is_none() && frame.len() == made.len(), "byte {differs:?} of {text}");
        // A receiver finds each byte of the payload that is another.
        let end = frame.len() - if tag == 0 { TAG_LEN } else { 0 };
        let is_right = |bytes: &[u8]| image.verify_payload(bytes, form.first_flow + flow, number as u32);
        prop_assert!(is_right(&frame[..end]), "{}", text);
        for byte in form.image.len()..end {
            frame[byte] ^= 1 << (byte % 8);
            prop_assert!(!is_right(&frame[..end]), "byte {} of {}", byte, text);
            frame[byte] ^= 1 << (byte % 8);
        }
    }

    #[test]
    fn any_file_is_read_or_refused_within_it(text in "\\PC{0,200}") {
        if let Err(wrong) = Traffic::parse(&text, &[]) {
            prop_assert!(wrong.at.start <= text.len());
            wrong.position(&text);
        }
    }
}

#[test]
fn a_receiver_knows_the_size_of_each_packet_by_its_flow_and_number() {
    for size in [
        "imix",
        "300",
        "100..400 step 100",
        "random(100..120)",
        "64*7 594*4 1518*1",
        "genome:abg",
    ] {
        let text = format!(
            "[[stream]]\npacket = 'eth / vlan vid=1..3 / ipv4 / udp src=1..5'\nstep = 'combine'\nsize = '{size}'\n"
        );
        let text = text.replace("64*7", "68*7");
        let traffic = crate::Traffic::parse(&text, &[]).expect(size);
        let form = traffic.forms(7).expect(size).remove(0);
        let (sizes, order) = form.size_order();
        assert!(sizes.is_sorted(), "{size}");
        let (mut bytes, n) = (0, 12_000);
        for n in 0..n {
            let (flow, number) = form.flow_of(n);
            let place = order.at(flow, number as u32, form.flows());
            let len = form.packet(n, Moment::default()).len() as u64 + 4;
            assert_eq!(sizes.get(place), Some(&len), "{size}: packet {n}");
            bytes += len;
        }
        let (sum, frames) = form.size_sum();
        let mean = sum as f64 / frames as f64;
        assert!((bytes as f64 / n as f64 - mean).abs() < 0.02 * mean, "{size}: {mean}");
        assert!(
            (mean - form.mean_size()).abs() < 1e-9,
            "{size}: {mean} {}",
            form.mean_size()
        );
    }
}

#[test]
fn a_capture_keeps_its_keys_and_has_no_tag_unless_asked() {
    let text = "[[stream]]\nspeed = 2.50\npcap = 'a.pcap'\nloops = 0\ngap = '1ms'\nfirst = 2\nlast = 9\n\
                only = 'eth / ipv4'\nrewrite = 'eth / vlan vid=7'\nvlans = 'push'\nshift = 3\npad = true\n\
                ahead = true\nbytes = 99\n\
                [[stream]]\npcap = 'b.pcap'\ntag = 'tail'\nrate = '1kpps'\npacing = 'captured'\n\
                [[stream]]\npacket = 'eth / ipv4 / udp'\n";
    let traffic = Traffic::parse(text, &[]).expect(text);
    let again = Traffic::parse(&serde_json::json!({ "stream": traffic.json() }).to_string(), &[]).expect("again");
    let mut streams = again.streams.clone();
    for (stream, own) in streams.iter_mut().zip(&traffic.streams) {
        (stream.at, stream.text_at) = (own.at.clone(), own.text_at);
    }
    assert_eq!(traffic.json(), again.json());
    let [first, second, third] = &streams[..] else {
        panic!("three streams")
    };
    let pcap = first.pcap.as_ref().expect("a capture");
    assert_eq!((pcap.speed.parts(), pcap.loops, pcap.shift), ((5, 2), None, 3));
    assert_eq!([first.tag, second.tag, third.tag], [Tag::None, Tag::Tail, Tag::Tail]);
    assert_eq!(
        [first.is_timed(), second.is_timed(), third.is_timed()],
        [true, true, false]
    );
    assert_eq!(again.forms(1).map(|forms| forms.len()), Ok(1));
    assert_eq!(again.without_captures().streams.len(), 1);
    let one = Traffic::of_capture(
        "c.pcap",
        &[("speed".into(), "max".into()), ("pad".into(), "true".into())],
    );
    let one = one.expect("a capture");
    assert!(one.is_one_capture() && !one.streams[0].is_timed());
}

#[test]
fn keys_that_a_capture_has_not_are_refused() {
    for (keys, needle) in [
        ("loops = 2\npacket = 'eth'", "loops: want pcap, of whose packets it is"),
        ("pcap = ''", "pcap: want the name of a file"),
        ("pcap = 'a'\npacket = 'eth'", "packet: beside pcap: want one of the two"),
        ("pcap = 'a'\nrepeat = 3", "repeat: beside pcap: want loops"),
        ("pcap = 'a'\nspeed = 0", "speed '0': want a number over 0"),
        ("pcap = 'a'\nspeed = 'fast'", "or max"),
        (
            "pcap = 'a'\nspeed = 2\nrate = '1kpps'",
            "speed: beside rate, weight or pacing",
        ),
        ("pcap = 'a'\ntag = 'tcp'", "tag tcp: beside pcap: want tail, or none"),
        ("pcap = 'a'\nfirst = 9\nlast = 8", "last: it is before first"),
        ("pcap = 'a'\nonly = 'eth / ipv5'", "ipv5"),
        ("pcap = 'a'\nsha256 = 'abc'", "want 64 hexadecimal digits"),
        ("pcap = 'a'\nvlans = 'pop'", "want set, push, replace"),
        ("packet = 'eth'\npacing = 'captured'", "pacing captured: want pcap"),
    ] {
        let wrong = Traffic::parse(&format!("[[stream]]\n{keys}\n"), &[]).expect_err(keys);
        assert!(wrong.line.contains(needle), "{keys}: {}", wrong.line);
    }
    for (key, value, needle) in [
        ("speed", "0", "want a number"),
        ("pcap", "x", "given by --pcap"),
        ("sped", "2", "speed"),
    ] {
        let wrong = Traffic::of_capture("c.pcap", &[(key.into(), value.into())]).expect_err(key);
        assert!(wrong.line.contains(needle), "{key}: {}", wrong.line);
    }
}
