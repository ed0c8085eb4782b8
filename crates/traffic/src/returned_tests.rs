//! Packets of all headers as a reflector returns them: what is exchanged, and that every checksum is right.

use super::*;
use crate::grammar::Packet;
use mpps_wire::tagged::{payload_start, tag_of};
use mpps_wire::{Left, ReflectFilter, Reflector, reflect_closing_in_place, reflect_in_place, verify_back};
use proptest::prelude::*;

const SEED: u64 = 11;

/// Returns the form of a packet of `size` bytes or some more, as its headers need.
fn form(text: &str, size: u64) -> Form {
    let mut stream = Stream::of(Packet::parse(text).unwrap_or_else(|wrong| panic!("{text}: {}", wrong.line)));
    let forms = (size..size + 4).map(|size| {
        stream.size = Some(Size::one(size));
        Form::of(&stream, SEED, 0).map_err(|wrong| wrong.line)
    });
    let all: Vec<_> = forms.collect();
    let found = all.iter().find_map(|form| form.as_ref().ok());
    found
        .unwrap_or_else(|| panic!("{text}: {:?}", all[0].as_ref().err()))
        .clone()
}

fn filter() -> ReflectFilter {
    ReflectFilter {
        tagged: Some(SEED),
        ..ReflectFilter::default()
    }
}

fn packet(form: &Form, n: u64) -> Vec<u8> {
    form.packet(n, Moment { run: 9, time_ns: 123 })
}

/// Exchanges the `len` bytes at `at` with the bytes behind them.
fn exchange(frame: &mut [u8], at: usize, len: usize) {
    frame[at..at + 2 * len].rotate_left(len);
}

/// Returns the place of the outermost IP header among the headers.
fn outer(form: &Form) -> Option<usize> {
    use HeaderKind::{Eth, Ipv4, Ipv6, Mpls, Pppoe, Qinq, Vlan};
    let shim = |kind| matches!(kind, Vlan | Qinq | Mpls | Pppoe);
    let before = |(at, laid): &(usize, &Laid)| *at == 0 && laid.kind == Eth || shim(laid.kind);
    let first = form.headers.iter().enumerate().find(|header| !before(header))?;
    matches!(first.1.kind, Ipv4 | Ipv6).then_some(first.0)
}

/// Returns the kind of header that the outermost IP header carries, extension headers passed over, and its place.
fn upper(form: &Form, ip: usize) -> Option<&Laid> {
    use HeaderKind::{DstOpts, HopOpts, Srh};
    let extension = |laid: &&Laid| matches!(laid.kind, HopOpts | DstOpts | Srh);
    form.headers[ip + 1..].iter().find(|laid| !extension(laid))
}

/// Whether the outermost IP header is an IPv4 fragment's.
fn is_fragment(form: &Form, ip: usize) -> bool {
    let at = form.headers[ip].bytes.start;
    form.headers[ip].kind == HeaderKind::Ipv4 && form.image[at + 6] & 0x3f | form.image[at + 7] != 0
}

/// Whether the returned packet is marked: not if it has a CRC32c that is not the outermost IP header's own.
fn is_marked(form: &Form) -> bool {
    let own = |ip| upper(form, ip).filter(|_| !is_fragment(form, ip));
    let is_sctp = |laid: &Laid| laid.kind == HeaderKind::Sctp;
    !form.headers.iter().any(is_sctp) || outer(form).and_then(own).is_some_and(is_sctp)
}

/// Returns a packet as it must come back, byte by byte, with all of its checksums computed again.
fn returned(form: &Form, frame: &[u8]) -> Vec<u8> {
    use HeaderKind::{Ipv6, Tcp, Udp};
    let mut back = frame.to_vec();
    exchange(&mut back, 0, 6);
    if let Some(ip) = outer(form) {
        let (v6, at) = (form.headers[ip].kind == Ipv6, form.headers[ip].bytes.start);
        back[at + if v6 { 7 } else { 8 }] -= 1;
        match v6 {
            true => exchange(&mut back, at + 8, 16),
            false => exchange(&mut back, at + 12, 4),
        }
        match upper(form, ip) {
            Some(laid) if matches!(laid.kind, Udp | Tcp) && !is_fragment(form, ip) => {
                exchange(&mut back, laid.bytes.start, 2)
            }
            _ => {}
        }
    }
    if is_marked(form) {
        let tag = back.len() - TAG_LEN;
        back[tag + 4] ^= 0x80;
        back[tag + 6] ^= 0x80;
    }
    for check in &form.checks {
        check.write(&mut back, form.image.len());
    }
    back
}

/// Compares bytes, and names the first that differs.
fn assert_same(got: &[u8], want: &[u8], text: &str) {
    let differs = got.iter().zip(want).position(|(got, want)| got != want);
    assert!(
        differs.is_none() && got.len() == want.len(),
        "byte {differs:?} of {text}:\n{got:x?}\n{want:x?}"
    );
}

/// Returns a frame by each function there is, and expects of all what is right.
fn assert_returned(form: &Form, n: u64, text: &str) {
    let sent = packet(form, n);
    let (want, filter) = (returned(form, &sent), filter());
    let mut frame = sent.clone();
    assert_eq!(reflect_in_place(&mut frame, &filter, false), Ok(()), "{text}");
    assert_same(&frame, &want, text);
    let mut other = sent.clone();
    assert_eq!(reflect_closing_in_place(&mut other, &filter), Ok(()), "{text}");
    assert_same(&other, &want, text);
    let mut reflector = Reflector::new(&filter, [1, 2]);
    let mut other = sent.clone();
    assert_eq!(reflector.turn(&mut other, false), Ok(()), "{text}");
    assert_same(&other, &want, text);
    let (was, _) = tag_of(&sent, SEED).expect("a tag");
    let mark = if is_marked(form) { Mark::Returned } else { Mark::Sent };
    assert_eq!(
        tag_of(&want, SEED),
        Some((TagBytes { mark, ..was }, want.len())),
        "{text}"
    );
    if mark == Mark::Returned {
        let again = reflector.turn(&mut frame, false);
        assert_eq!(again, Err(Left::Returned), "{text}");
        assert_same(&frame, &want, text);
    }
}

/// Headers of which the payload's start is known.
fn has_known_payload(form: &Form) -> bool {
    use HeaderKind::{Esp, Llc, Raw, Snap};
    !form
        .headers
        .iter()
        .any(|laid| matches!(laid.kind, Esp | Llc | Raw | Snap))
}

/// Finds the data in a packet, as it was sent and as it comes back, and verifies them.
fn assert_data(form: &Form, n: u64, text: &str) {
    let sent = packet(form, n);
    for frame in [returned(form, &sent), sent] {
        let start = payload_start(&frame);
        if !has_known_payload(form) {
            assert_eq!(start, None, "{text}");
            continue;
        }
        assert_eq!(start, Some(form.header_len()), "{text}");
        let (tag, end) = tag_of(&frame, SEED).expect("a tag");
        let before = &frame[..end - TAG_LEN];
        let number = u64::from(tag.flow) << 32 | u64::from(tag.number);
        assert!(
            verify_back(SEED, number, before, before.len() - form.header_len()),
            "{text}"
        );
    }
}

#[test]
fn a_packet_of_each_header_comes_back_with_right_checksums() {
    for text in [
        "eth / ipv4 / udp",
        "eth / ipv6 / udp",
        "eth / ipv4 / tcp flags=syn mss=1460",
        "eth / ipv6 / tcp",
        "eth / ipv4 / sctp",
        "eth / ipv6 / dstopts / sctp",
        "eth / ipv4 / icmp",
        "eth / ipv6 / icmp6",
        "eth / ipv4 ttl=9 / igmp",
        "eth / ipv4 / esp",
        "eth / ipv4 options=94040000 / udp",
        "eth / ipv4 mf=1 / udp",
        "eth / ipv6 / hopopts / dstopts / tcp",
        "eth / ipv6 / frag / udp",
        "eth / vlan vid=5 / ipv4 / udp",
        "eth / qinq vid=3 / vlan vid=4 / mpls label=5 / mpls label=6 / ipv6 / tcp",
        "eth / pppoe / ipv4 / udp",
        "eth / pppoe / ipv6 / tcp",
        "eth / ipv4 / udp src=inner-hash / vxlan vni=3 / eth / ipv4 / tcp",
        "eth / ipv4 / udp / vxlan / eth / ipv6 / sctp",
        "eth / ipv6 / udp / geneve options=01020304 / eth / vlan / ipv4 / icmp",
        "eth / ipv4 / udp / gtpu teid=7 qfi=5 / ipv6 / udp",
        "eth / ipv4 / gre key=7 seq=1 cksum=0 / ipv6 / udp",
        "eth / ipv4 / gre / eth / ipv4 / sctp",
        "eth / ipv4 / ipv6 / ipv4 / tcp",
        "eth / ipv6 / udp / mpls label=9 / ipv4 / udp",
        "eth / arp",
        "eth type=0x1234 / raw hex=01020304",
        "eth / llc / snap / ipv4 / udp",
    ] {
        for size in [200, 201, 1500] {
            let form = form(text, size);
            assert_returned(&form, 3, text);
            if !text.contains("frag=") {
                assert_data(&form, 3, text);
            }
        }
    }
}

#[test]
fn a_packet_that_is_no_ones_to_answer_is_left_unchanged() {
    for (text, why) in [
        ("eth dst=01:00:5e:00:00:01 / ipv4 / udp", Left::Multicast),
        ("eth dst=ff:ff:ff:ff:ff:ff / arp", Left::Multicast),
        ("eth dst=02:00:00:00:00:09 / ipv4 dst=239.1.1.1 / igmp", Left::Multicast),
        ("eth dst=02:00:00:00:00:09 / ipv6 dst=ff02::1 / icmp6", Left::Multicast),
        ("eth / ipv4 dst=10.9.255.255 / tcp", Left::Multicast),
        ("eth src=03:00:00:00:00:01 / ipv4 / udp", Left::BadSource),
        ("eth / ipv4 src=0.0.0.0 / icmp", Left::BadSource),
        ("eth / ipv6 src=:: / icmp6", Left::BadSource),
        ("eth / ipv4 src=127.0.0.1 / tcp", Left::BadSource),
        ("eth / ipv4 / tcp src=0", Left::BadSource),
        ("eth / ipv4 src=10.9.0.1 / icmp", Left::OwnSource),
        ("eth / ipv4 src=198.18.0.2 / tcp", Left::OwnSource),
        ("eth src=02:00:00:00:00:02 / arp", Left::OwnSource),
        ("eth / ipv4 ttl=1 / tcp", Left::TtlExpired),
        ("eth / ipv6 hop=0 / icmp6", Left::TtlExpired),
        ("eth / ipv4 cksum=bad / tcp", Left::BadIpHeader),
        (
            "eth / ipv6 dst=2001:db8::1 / srh segs={2001:db8::1,2001:db8::2} / udp",
            Left::SourceRouted,
        ),
    ] {
        let filter = ReflectFilter {
            mac: Some(mpps_wire::MacAddr([2, 0, 0, 0, 0, 2])),
            own: Box::new([[10, 9, 0, 1].into()]),
            broadcasts: Box::new([[10, 9, 255, 255].into()]),
            ..filter()
        };
        let mut frame = packet(&form(text, 200), 0);
        let sent = frame.clone();
        assert_eq!(reflect_in_place(&mut frame, &filter, false), Err(why), "{text}");
        assert_same(&frame, &sent, text);
    }
}

#[test]
fn a_packet_without_the_tag_is_left() {
    let mut frame = packet(&form("eth / ipv4 / udp", 100), 0);
    let other = ReflectFilter {
        tagged: Some(SEED + 1),
        ..ReflectFilter::default()
    };
    assert_eq!(reflect_in_place(&mut frame, &other, false), Err(Left::NotTagged));
    assert_eq!(
        Reflector::new(&other, [1, 2]).turn(&mut frame, true),
        Err(Left::NotTagged)
    );
    // Without a seed a tagged packet is one like any other, and so is its tag.
    let tag = tag_of(&frame, SEED);
    assert_eq!(reflect_in_place(&mut frame, &ReflectFilter::default(), false), Ok(()));
    assert_eq!(tag_of(&frame, SEED), tag);
}

#[test]
fn addresses_and_ports_that_packets_go_to_select_nothing() {
    let filter = ReflectFilter {
        ip: Some([10, 0, 0, 1].into()..=[10, 0, 0, 1].into()),
        ports: Some(7..=7),
        mac: Some(mpps_wire::MacAddr([2, 0, 0, 0, 0, 77])),
        excluded_ports: Box::new([9000]),
        ..filter()
    };
    let mut frame = packet(&form("eth / ipv4 / udp dst=9000", 100), 0);
    assert_eq!(reflect_in_place(&mut frame, &filter, false), Ok(()));
}

#[test]
fn on_a_device_that_gives_the_same_packet_again_nothing_is_used_up() {
    let filter = ReflectFilter {
        keep_ttl: true,
        ..filter()
    };
    for text in ["eth / ipv4 / tcp", "eth / arp"] {
        let sent = packet(&form(text, 100), 0);
        let mut frame = sent.clone();
        for _ in 0..2 {
            assert_eq!(reflect_in_place(&mut frame, &filter, false), Ok(()));
        }
        assert_same(&frame, &sent, text);
    }
}

#[test]
fn padding_behind_the_packet_stays() {
    let form = form("eth / ipv4 / tcp", 100);
    let sent = packet(&form, 0);
    let mut frame = [&sent[..], &[0xaa; 7]].concat();
    assert_eq!(reflect_in_place(&mut frame, &filter(), false), Ok(()));
    assert_same(&frame, &[returned(&form, &sent), vec![0xaa; 7]].concat(), "padded");
}

/// A stack of headers that a reflector returns.
fn any_packet() -> impl Strategy<Value = String> {
    let link = prop_oneof![
        Just("eth"),
        Just("eth / vlan vid=1..4"),
        Just("eth / qinq vid=3 / vlan vid=5 pcp=2"),
        Just("eth / mpls label=16..99"),
        Just("eth / pppoe"),
    ];
    let net = prop_oneof![
        Just("ipv4 src=10.0.0.1*3 ttl=2..9 id=random(0..65535)"),
        Just("ipv4 options=94040000 dscp=46"),
        Just("ipv4 mf=1"),
        Just("ipv6 dst=2001:db8::1..2001:db8::7 flow=random(0..1048575)"),
        Just("ipv6 / hopopts options=050200000100 / dstopts"),
    ];
    let tunnel = prop_oneof![
        Just(""),
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
        Just("sctp tsn=random(0..4294967295)"),
    ];
    (link, net, tunnel, last).prop_map(|(link, net, tunnel, last)| format!("{link} / {net}{tunnel} / {last}"))
}

proptest! {
    #[test]
    fn any_packet_comes_back_right_and_its_data_are_found(text in any_packet(), n: u32, size in 200u64..1518) {
        let form = form(&text, size);
        assert_returned(&form, n.into(), &text);
        assert_data(&form, n.into(), &text);
    }
}
