//! The `reflect` program does to every frame what mpps-wire's reflector does, and counts the same reasons.

#[path = "programs/mod.rs"]
mod programs;
#[allow(dead_code, unreachable_pub, reason = "a part is used")]
#[path = "../src/sys.rs"]
mod sys;

use mpps_wire::tagged::packet_end;
use mpps_wire::{
    Left, MacAddr, Mark, ReflectFilter, SlowPath, TAG_LEN, Tag, answer_echo_in_place, build_arp_reply,
    build_neighbor_advert, complete_udp_checksum, parse_slow_path, parse_udp, reflect_closing_in_place,
    reflect_in_place, udp_checksum_ok, udp_checksum_open,
};
use programs::abi::{Loops, OWN, Within, flag};
use programs::{Constant, DROP, OWN_MAC, Object, PASS, Program, TX, bytes_of, frames};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

static REFLECT: Object<{ include_bytes!("../bpf/reflect.bpf.o").len() }> =
    Object(*include_bytes!("../bpf/reflect.bpf.o"));

const NEIGHBOR_SERVICE: usize = 13;
const MUTATIONS: usize = 20_000;

/// Where the program counts a reason.
fn place(left: Left) -> usize {
    // Behind the first ones come the programs' own.
    match left.index() {
        _ if left == Left::NotTagged => 14,
        index if index <= Left::HostPort.index() => index,
        index => index + 15,
    }
}

/// Loads the program with the same filter, and no probes.
fn load(filter: &ReflectFilter, flags: u32, answer: &[IpAddr], hop: Option<IpAddr>) -> Program {
    load_with([0; 2], filter, flags, answer, hop)
}

fn load_with(secret: [u64; 2], filter: &ReflectFilter, flags: u32, answer: &[IpAddr], hop: Option<IpAddr>) -> Program {
    let mut plan = programs::plan();
    plan.flags = flags;
    if let Some(mac) = filter.mac {
        plan.flags |= flag::OWN_MAC;
        plan.mac = mac.0;
    }
    let one = filter.ip.as_ref().filter(|ips| ips.start() == ips.end());
    let listed: Vec<_> = one.map(|ips| *ips.start()).into_iter().collect();
    if let Some(ips) = filter
        .ip
        .as_ref()
        .filter(|ips| ips.start() != ips.end() || filter.tagged.is_some())
    {
        plan.own = within(ips);
    }
    let name = match filter.tagged {
        Some(seed) => {
            (plan.seed, plan.flags) = (seed, plan.flags | flag::TAGGED);
            "reflect_tagged"
        }
        None => "reflect",
    };
    (
        (plan.addresses4, plan.addresses4_count),
        (plan.addresses6, plan.addresses6_count),
    ) = programs::by_family(&listed);
    ((plan.answer4, plan.answer4_count), (plan.answer6, plan.answer6_count)) = programs::by_family(answer);
    let hop: Vec<_> = hop.into_iter().collect();
    let ((hop4, _), (hop6, _)) = programs::by_family::<1, 1>(&hop);
    (plan.hop4, plan.hop6) = (hop4[0], hop6[0]);
    let host = |port| filter.excluded_ports.contains(&port);
    let wanted = |port| filter.ports.as_ref().is_none_or(|ports| ports.contains(&port));
    let ports = programs::port_bits(|port| wanted(port) && !host(port));
    let host_ports = programs::port_bits(|port| wanted(port) && host(port));
    let mut loops = Loops {
        secret,
        loopback: filter.loopback.into(),
        ..Loops::default()
    };
    ((loops.own4, loops.own4_count), (loops.own6, loops.own6_count)) = programs::by_family(&filter.own);
    let broadcasts: Vec<_> = filter.broadcasts.iter().map(|ip| IpAddr::from(*ip)).collect();
    (loops.broadcasts, loops.broadcasts_count) = programs::by_family::<OWN, 1>(&broadcasts).0;
    let loops = programs::abi::bytes_of(&loops);
    let constants = [
        Constant("PORTS", bytes_of(&ports)),
        Constant("HOST_PORTS", bytes_of(&host_ports)),
        Constant("LOOPS", &loops),
    ];
    programs::load(&REFLECT.0, &plan, &constants, name)
}

fn same(program: &Program, frame: &[u8], turn: impl Fn(&mut [u8]) -> Result<(), Left>) {
    let mut wanted = frame.to_vec();
    let result = turn(&mut wanted);
    let verdict = match result {
        Ok(()) => TX,
        Err(Left::OwnSource | Left::TtlExpired | Left::Returned | Left::Probed) => DROP,
        Err(_) => PASS,
    };
    compare(program, frame, (verdict, result, wanted));
}

/// Packets with a tag that are not turned are no packets of the host's.
fn same_by_tag(program: &Program, frame: &[u8], turn: impl Fn(&mut [u8]) -> Result<(), Left>) -> Result<(), Left> {
    let mut wanted = frame.to_vec();
    let result = turn(&mut wanted);
    let verdict = match result {
        Ok(()) => TX,
        Err(Left::NotTagged) => PASS,
        Err(_) => DROP,
    };
    compare(program, frame, (verdict, result, wanted));
    result
}

fn compare(program: &Program, frame: &[u8], (verdict, result, wanted): (u32, Result<(), Left>, Vec<u8>)) {
    let (got, bytes) = program.run(frame);
    let reason = program.reason();
    assert_eq!(
        (got, reason),
        (verdict, result.err().map(place)),
        "{result:?} {frame:02x?}"
    );
    assert_eq!(bytes, wanted, "{frame:02x?}");
}

/// An address, and some behind it.
fn around(ip: IpAddr) -> RangeInclusive<IpAddr> {
    match ip {
        IpAddr::V4(ip) => (IpAddr::from(ip))..=Ipv4Addr::from_bits(ip.to_bits() + 300).into(),
        IpAddr::V6(ip) => (IpAddr::from(ip))..=Ipv6Addr::from_bits(ip.to_bits() + 300).into(),
    }
}

/// A range as the programs have it.
fn within(ips: &RangeInclusive<IpAddr>) -> Within {
    let bits = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let first: u128 = bits(ips.start());
    Within {
        high: (first >> 64) as u64,
        low: first as u64,
        count: (bits(ips.end()) - first + 1) as u32,
        v6: ips.start().is_ipv6().into(),
    }
}

fn filters() -> Vec<ReflectFilter> {
    vec![
        ReflectFilter::default(),
        ReflectFilter {
            ip: Some(frames::DST_V4.into()..=frames::DST_V4.into()),
            ports: Some(8_000..=9_000),
            mac: Some(MacAddr(OWN_MAC)),
            excluded_ports: Box::new([8_999]),
            own: Box::new([frames::DST_V4.into(), frames::DST_V6.into(), [10, 99, 0, 3].into()]),
            broadcasts: Box::new([[10, 99, 0, 255].into(), [10, 99, 0, 0].into()]),
            ..ReflectFilter::default()
        },
        ReflectFilter {
            own: Box::new([frames::SRC_V4.into(), frames::SRC_V6.into()]),
            ..ReflectFilter::default()
        },
        ReflectFilter {
            loopback: true,
            ..ReflectFilter::default()
        },
        ReflectFilter {
            ip: Some(frames::DST_V6.into()..=frames::DST_V6.into()),
            excluded_ports: Box::new([9_000]),
            ..ReflectFilter::default()
        },
        ReflectFilter {
            ip: Some(around(frames::DST_V4.into())),
            ..ReflectFilter::default()
        },
        ReflectFilter {
            ip: Some(around(frames::DST_V6.into())),
            ..ReflectFilter::default()
        },
    ]
}

#[test]
fn frames_are_turned_or_left_as_by_the_reflector_in_user_space() {
    if !programs::can_load() {
        return;
    }
    for filter in filters() {
        let program = load(&filter, 0, &[], None);
        let mut turned = 0;
        programs::for_all(MUTATIONS, |frame| {
            same(&program, frame, |frame| reflect_in_place(frame, &filter, false));
            turned += u64::from(reflect_in_place(&mut frame.to_vec(), &filter, false).is_ok());
        });
        let (source, row) = (program.source(), program.row());
        for counter in [&source.test, &row.rx] {
            assert_eq!(counter.load(Ordering::Relaxed), turned);
        }
    }
}

#[test]
fn open_checksums_are_completed_and_no_others() {
    if !programs::can_load() {
        return;
    }
    let filter = ReflectFilter::default();
    let program = load(&filter, flag::OPEN_CHECKSUMS, &[], None);
    let mut open = 0;
    programs::for_all(MUTATIONS, |frame| {
        let mut left = frame.to_vec();
        // Left open as the kernel does it: the field holds the pseudo-header's sum.
        if let Ok(p) = parse_udp(&left) {
            let field = usize::from(p.l4) + 6;
            let l3 = usize::from(p.l3);
            let addresses = if p.v6 { l3 + 8..l3 + 40 } else { l3 + 12..l3 + 20 };
            let length = (p.payload_len + 8).to_be_bytes();
            let sum = !frames::naive_checksum(&[&left[addresses], &[0, 17], &length]);
            left[field..field + 2].copy_from_slice(&sum.to_be_bytes());
            assert!(udp_checksum_open(&left, &p));
            open += 1;
            let mut completed = left.clone();
            complete_udp_checksum(&mut completed, &p);
            same(&program, &completed, |frame| reflect_closing_in_place(frame, &filter));
        }
        same(&program, frame, |frame| reflect_closing_in_place(frame, &filter));
        same(&program, &left, |frame| reflect_closing_in_place(frame, &filter));
    });
    assert!(open > 1000);
}

#[test]
fn the_time_to_live_is_lowered_and_the_last_one_stops_the_packet() {
    if !programs::can_load() {
        return;
    }
    let filter = ReflectFilter::default();
    let program = load(&filter, 0, &[], None);
    let mut stopped = 0;
    for (_, mut frame) in frames::all_udp(&[7; 20]) {
        let p = parse_udp(&frame).expect("a packet");
        let (l3, l4) = (usize::from(p.l3), usize::from(p.l4));
        // Every value of the checksum's last bits comes by.
        for id in 0..600u16 {
            let ttl = (id * 7) as u8;
            if p.v6 {
                frame[l3 + 7] = ttl;
            } else {
                frame[l3 + 4..l3 + 6].copy_from_slice(&id.wrapping_mul(771).to_be_bytes());
                frame[l3 + 8] = ttl;
                frame[l3 + 10..l3 + 12].fill(0);
                let sum = frames::naive_checksum(&[&frame[l3..l4]]);
                frame[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
            }
            stopped += usize::from(reflect_in_place(&mut frame.clone(), &filter, false) == Err(Left::TtlExpired));
            same(&program, &frame, |frame| reflect_in_place(frame, &filter, false));
        }
    }
    assert!(stopped > 10);
}

#[test]
fn a_packet_whose_headers_are_those_of_the_one_before_is_turned_as_any_other() {
    if !programs::can_load() {
        return;
    }
    let turn = |filter: &ReflectFilter, flags, frame: &mut [u8]| match flags {
        flag::OPEN_CHECKSUMS => reflect_closing_in_place(frame, filter),
        _ => reflect_in_place(frame, filter, false),
    };
    for (filter, flags) in filters()
        .iter()
        .flat_map(|filter| [(filter, 0), (filter, flag::OPEN_CHECKSUMS)])
    {
        for plain in [
            frames::udp_v4(&[], &[], &[0x55; 18]),
            frames::udp_v6(&[], &[], &[0x33; 40]),
            frames::udp_v4(&[], &[], &[]),
        ] {
            let program = load(filter, flags, &[], None);
            let check = |frame: &[u8]| same(&program, frame, |frame| turn(filter, flags, frame));
            // Headers of zeros are known to be of no packet.
            let mut zeros = [0; 64];
            (zeros[34..44]).fill(1);
            check(&zeros);
            zeros[54..64].fill(1);
            check(&zeros);
            let header = plain.len().min(64);
            for at in 0..header {
                for bits in [0x01, 0x80, 0xff] {
                    let mut other = plain.clone();
                    other[at] ^= bits;
                    check(&plain);
                    check(&other);
                    // A checksum that is right again, so that the other headers are good ones.
                    if let Ok(p) = parse_udp(&other) {
                        complete_udp_checksum(&mut other, &p);
                        check(&other);
                        check(&other);
                    }
                }
                check(&plain);
                // The kernel runs a program over a whole Ethernet header at the least.
                check(&plain[..at.max(14)]);
            }
            let padded = [&plain[..], &[9; 20]].concat();
            for frame in [&padded, &plain, &padded] {
                check(frame);
            }
        }
    }
}

/// Nobody's packets repeat themselves, so few are looked at: then one goes round all the same.
#[test]
fn a_packet_that_goes_round_is_found_after_many_that_did_not() {
    if !programs::can_load() {
        return;
    }
    let program = load_with([5, 3], &ReflectFilter::default(), 0, &[], None);
    let send = |port: u16, payload: &[u8]| {
        let mut frame = frames::udp_v4(&[], &[], payload);
        let p = parse_udp(&frame).expect("a packet");
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        complete_udp_checksum(&mut frame, &p);
        program.run(&frame)
    };
    let unique = |n: u64| [n.to_le_bytes(), (!n).to_le_bytes()].concat();
    for n in 0..20_000 {
        assert_eq!(send(7, &unique(n)).0, TX, "{n}");
    }
    // One of ten packets is always the same, and an echo server returns what it gets for it.
    let mut payload = unique(u64::MAX);
    let mut rounds = 0;
    loop {
        let (verdict, mut bytes) = send(9, &payload);
        if verdict != TX {
            break;
        }
        echo(&mut bytes);
        let p = parse_udp(&bytes).expect("a packet");
        payload = bytes[usize::from(p.payload)..][..usize::from(p.payload_len)].to_vec();
        rounds += 1;
        assert!(rounds < 10_000, "found");
        for n in 0..9 {
            assert_eq!(send(7, &unique(100_000 + rounds * 9 + n)).0, TX);
        }
    }
    let returned = program.source().reasons[place(Left::Returned)].load(Ordering::Relaxed);
    assert_eq!(returned, 1, "after {rounds} rounds");
    // All others are still answered, and that one never again.
    for n in 0..1000 {
        assert_eq!(send(7, &unique(500_000 + n)).0, TX);
    }
    assert_eq!(send(9, &unique(1)).0, DROP);
}

#[test]
fn what_comes_from_ourselves_from_everybody_or_from_within_a_host_is_left_as_in_user_space() {
    if !programs::can_load() {
        return;
    }
    // The first packet of a program is from nobody to nobody: the pair that it has answered last is none yet.
    let v4 = [
        [0, 0, 0, 0],
        [10, 99, 0, 1],
        [10, 99, 0, 2],
        [10, 99, 0, 77],
        [10, 99, 0, 255],
        [127, 0, 0, 1],
        [127, 9, 9, 9],
        [10, 99, 0, 0],
        [0, 1, 2, 3],
        [240, 0, 0, 1],
    ];
    let v6 = ["fd00:99::1", "fd00:99::2", "fd00::77", "::1"].map(|ip| ip.parse::<std::net::Ipv6Addr>().unwrap());
    let from_to = |from: &str, to: &str| Some(from.parse().unwrap()..=to.parse().unwrap());
    let ranges = [
        None,
        from_to("10.99.0.2", "10.99.0.90"),
        from_to("fd00:99::2", "fd00:99::ffff"),
        from_to("10.99.0.1", "10.99.0.2"),
        from_to("fd00:99::1", "fd00:99::2"),
    ];
    for (loopback, ip) in [false, true].into_iter().flat_map(|l| ranges.clone().map(|ip| (l, ip))) {
        let filter = ReflectFilter {
            ip,
            own: Box::new([v4[3].into(), v6[2].into()]),
            broadcasts: Box::new([v4[4].into(), v4[7].into()]),
            loopback,
            ..ReflectFilter::default()
        };
        let program = load(&filter, 0, &[], None);
        let check = |frame: &[u8]| same(&program, frame, |frame| reflect_in_place(frame, &filter, false));
        // The ports decide between equal addresses, whatever became of the packet before.
        let ports = [1u16, frames::DST_PORT];
        for tags in frames::TAGS {
            for (from, to, port) in (0..200).map(|i| (i / 20, i / 2 % 10, ports[i % 2])) {
                let mut frame = frames::udp_v4(tags, &[], &[0; 18]);
                let l3 = 14 + 4 * tags.len();
                frame[l3 + 12..l3 + 16].copy_from_slice(&v4[from]);
                frame[l3 + 16..l3 + 20].copy_from_slice(&v4[to]);
                frame[l3 + 20..l3 + 22].copy_from_slice(&port.to_be_bytes());
                frame[l3 + 10..l3 + 12].fill(0);
                let sum = frames::naive_checksum(&[&frame[l3..l3 + 20]]);
                frame[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
                check(&frame);
            }
            for (from, to, port) in (0..32).map(|i| (i / 8, i / 2 % 4, ports[i % 2])) {
                let mut frame = frames::udp_v6(tags, &[], &[0; 18]);
                let l3 = 14 + 4 * tags.len();
                frame[l3 + 8..l3 + 24].copy_from_slice(&v6[from].octets());
                frame[l3 + 24..l3 + 40].copy_from_slice(&v6[to].octets());
                frame[l3 + 40..l3 + 42].copy_from_slice(&port.to_be_bytes());
                check(&frame);
            }
        }
    }
}

/// What an echo server over a socket makes of a frame: turned, with a fresh time to live.
fn echo(frame: &mut [u8]) {
    reflect_in_place(frame, &ReflectFilter::default(), false).expect("a packet");
    let p = parse_udp(frame).expect("a packet");
    assert!(udp_checksum_ok(frame, &p), "{frame:02x?}");
    let (l3, l4) = (usize::from(p.l3), usize::from(p.l4));
    if p.v6 {
        frame[l3 + 7] = 64;
    } else {
        frame[l3 + 8] = 64;
        frame[l3 + 10..l3 + 12].fill(0);
        let sum = frames::naive_checksum(&[&frame[l3..l4]]);
        frame[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A frame of each kind that the program has a way for, with this payload.
fn some_udp(payload: &[u8]) -> [Vec<u8>; 4] {
    let extension: frames::Extension = (60, &[0, 1, 4, 0, 0, 0, 0]);
    [
        frames::udp_v4(&[], &[], payload),
        frames::udp_v6(&[], &[], payload),
        frames::udp_v4(&[0x8100], &[148, 4, 0, 0], payload),
        frames::udp_v6(&[0x88a8, 0x8100], &[extension], payload),
    ]
}

#[test]
fn what_an_echo_server_returns_stops() {
    if !programs::can_load() {
        return;
    }
    let counted = |program: &Program, left: Left| program.source().reasons[place(left)].load(Ordering::Relaxed);
    for frame in [&[0x55; 30][..], &[1, 2, 3], &[]].into_iter().flat_map(some_udp) {
        let program = load_with([7, 9], &ReflectFilter::default(), 0, &[], None);
        for (case, (n, alike)) in [(1, true), (36, true), (36, false), (300, true)]
            .into_iter()
            .enumerate()
        {
            let before = counted(&program, Left::Returned) + counted(&program, Left::Probed);
            let packet = |i: usize| {
                let mut frame = frame.clone();
                let p = parse_udp(&frame).expect("a packet");
                let (l4, at) = (usize::from(p.l4), usize::from(p.payload));
                // Another echo server each time.
                frame[l4..l4 + 2].copy_from_slice(&(case as u16 + 7).to_be_bytes());
                if !alike && p.payload_len >= 2 {
                    frame[at..at + 2].copy_from_slice(&(i as u16).to_le_bytes());
                }
                complete_udp_checksum(&mut frame, &p);
                (0, frame)
            };
            let mut way: std::collections::VecDeque<_> = (0..n).map(packet).collect();
            while let Some((rounds, frame)) = way.pop_front() {
                assert!(rounds <= 255, "{n}, alike {alike}: {frame:02x?}");
                let (verdict, mut bytes) = program.run(&frame);
                if verdict == TX {
                    assert!(bytes.len() <= frame.len().max(60) || parse_udp(&frame).unwrap().payload_len < 12);
                    echo(&mut bytes);
                    way.push_back((rounds + 1, bytes));
                } else {
                    assert_eq!(verdict, DROP);
                }
            }
            // Where a probe would be longer than the answer, the first packet ends as one that is withheld.
            let ended = counted(&program, Left::Returned) + counted(&program, Left::Probed) - before;
            assert!(ended >= n as u64, "{n}, alike {alike}: {ended}");
        }
    }
}

#[test]
fn one_that_repeats_itself_is_answered_but_for_a_few() {
    if !programs::can_load() {
        return;
    }
    let program = load_with([7, 9], &ReflectFilter::default(), 0, &[], None);
    let frame = frames::udp_v4(&[], &[], &[0x55; 18]);
    let mut want = frame.clone();
    reflect_in_place(&mut want, &ReflectFilter::default(), false).expect("a packet");
    let odd = (0..100_000)
        .filter(|_| program.run(&frame) != (TX, want.clone()))
        .count();
    let probed = program.source().reasons[place(Left::Probed)].load(Ordering::Relaxed);
    assert!((3..=16).contains(&odd) && probed == odd as u64, "{odd}, {probed}");
}

/// What of the answer matters: an ARP reply's padding, and the VLAN tags, are the question's.
fn parts(frame: &[u8], tags: usize, len: usize) -> (Vec<u8>, Vec<u8>) {
    (frame[..12].to_vec(), frame[12 + tags * 4..len + tags * 4].to_vec())
}

#[test]
fn questions_for_the_tests_addresses_are_answered_as_in_user_space() {
    if !programs::can_load() {
        return;
    }
    let ours: [IpAddr; 2] = [frames::DST_V4.into(), frames::DST_V6.into()];
    let program = load(&ReflectFilter::default(), 0, &ours, None);
    let mut answered = [0; 3];
    let mut check = |frame: &[u8]| {
        use Left::{OwnSource, TtlExpired};
        let turned = reflect_in_place(&mut frame.to_vec(), &ReflectFilter::default(), false);
        if matches!(turned, Ok(()) | Err(OwnSource | TtlExpired)) {
            return;
        }
        let (verdict, bytes) = program.run(frame);
        let reason = program.reason();
        let mut out = [0; mpps_wire::MAX_SLOW_PATH_LEN];
        let tags = programs::tags(frame);
        let mac = MacAddr(OWN_MAC);
        let (kind, wanted, len) = match parse_slow_path(frame) {
            Some(SlowPath::ArpRequest {
                sender_mac,
                sender_ip,
                target_ip,
                ..
            }) if ours.contains(&target_ip.into()) => {
                build_arp_reply(&mut out, mac, target_ip, sender_mac, sender_ip, None);
                (0, out.to_vec(), 42)
            }
            Some(SlowPath::NeighborSolicit {
                src_mac,
                src_ip,
                target,
                named,
                ..
            }) if ours.contains(&target.into()) => {
                let to = src_ip.map(|ip| (src_mac, ip));
                let len = build_neighbor_advert(&mut out, mac, target, to, named, None);
                (1, out.to_vec(), len)
            }
            Some(SlowPath::EchoRequest { dst_ip, .. }) if ours.contains(&dst_ip) => {
                let mut echo = frame.to_vec();
                answer_echo_in_place(&mut echo).expect("a question");
                assert_eq!((verdict, &bytes), (TX, &echo), "{frame:02x?}");
                (2, Vec::new(), 0)
            }
            _ => {
                // Two tags are answered here, as nothing is built anew.
                if tags < 2 {
                    assert_eq!((verdict, &bytes[..]), (PASS, frame), "{frame:02x?}");
                    assert_ne!(reason, Some(NEIGHBOR_SERVICE));
                }
                return;
            }
        };
        answered[kind] += 1;
        assert_eq!((verdict, reason), (TX, Some(NEIGHBOR_SERVICE)), "{frame:02x?}");
        if kind < 2 {
            assert_eq!(parts(&bytes, tags, len), parts(&wanted, 0, len), "{frame:02x?}");
        }
    };
    programs::for_all(MUTATIONS, &mut check);
    for frame in questions() {
        check(&frame);
    }
    assert!(answered.iter().all(|n| *n > 10), "{answered:?}");
}

/// Questions of every kind, for addresses that are answered and others.
fn questions() -> Vec<Vec<u8>> {
    let asker = (MacAddr(frames::SRC_MAC), frames::SRC_V4, frames::SRC_V6);
    let mut all = Vec::new();
    for vlan in [None, Some(7)] {
        for last in 1..8 {
            let mut out = [0; mpps_wire::MAX_SLOW_PATH_LEN];
            let len = mpps_wire::build_arp_request(&mut out, asker.0, asker.1, [10, 99, 0, last].into(), vlan);
            all.push(out[..len].to_vec());
            let mut ip = frames::DST_V6.octets();
            ip[15] = last;
            let len = mpps_wire::build_neighbor_solicit(&mut out, asker.0, asker.2, ip.into(), vlan);
            all.push(out[..len].to_vec());
        }
    }
    for tags in frames::TAGS {
        for data in [0, 1, 56, 1400] {
            let data = vec![0xa5; data];
            all.push(frames::echo_v4(tags, &[], &data));
            all.push(frames::echo_v4(tags, &[148, 4, 0, 0], &data));
            all.push(frames::echo_v6(tags, &[], &data));
        }
    }
    // Each often enough to be counted.
    (0..12).flat_map(|_| all.clone()).collect()
}

#[test]
fn a_ping_from_ourselves_or_from_a_whole_subnet_is_not_answered() {
    if !programs::can_load() {
        return;
    }
    let filter = ReflectFilter {
        own: Box::new([[10, 99, 0, 3].into(), "fd00:99::3".parse().unwrap()]),
        broadcasts: Box::new([[10, 99, 0, 255].into(), [10, 99, 0, 0].into()]),
        ..ReflectFilter::default()
    };
    let program = load(&filter, 0, &[frames::DST_V4.into(), frames::DST_V6.into()], None);
    let v4 = |ip: [u8; 4]| {
        let mut frame = frames::echo_v4(&[], &[], b"ping");
        frame[26..30].copy_from_slice(&ip);
        frame[24..26].fill(0);
        let sum = frames::naive_checksum(&[&frame[14..34]]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    let v6 = |ip: &str| {
        let mut frame = frames::echo_v6(&[], &[], b"ping");
        frame[22..38].copy_from_slice(&ip.parse::<std::net::Ipv6Addr>().unwrap().octets());
        frame[56..58].fill(0);
        let (length, end) = ((frame.len() - 54) as u16, frame.len());
        let sum = frames::naive_checksum(&[&frame[22..54], &length.to_be_bytes(), &[0, 58], &frame[54..end]]);
        frame[56..58].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    let own = frames::DST_V4.octets();
    let unanswered = [
        [10, 99, 0, 255],
        [10, 99, 0, 0],
        [10, 99, 0, 3],
        [0, 1, 2, 3],
        [240, 0, 0, 1],
        own,
    ];
    let own = frames::DST_V6.to_string();
    for frame in unanswered.map(v4).into_iter().chain(["fd00:99::3", &own].map(v6)) {
        assert_eq!(program.run(&frame), (PASS, frame.clone()), "{frame:02x?}");
    }
    for frame in [v4([10, 99, 0, 4]), v6("fd00:99::4")] {
        assert_eq!(program.run(&frame).0, TX, "{frame:02x?}");
    }
}

#[test]
fn the_next_hops_first_answer_is_noted() {
    if !programs::can_load() {
        return;
    }
    for hop in [IpAddr::from(frames::SRC_V4), frames::SRC_V6.into()] {
        let program = load(&ReflectFilter::default(), 0, &[], Some(hop));
        let tell = |from: [u8; 6], last: u8| {
            let mut out = [0; mpps_wire::MAX_SLOW_PATH_LEN];
            let len = match hop {
                IpAddr::V4(ip) => {
                    let [a, b, c, _] = ip.octets();
                    let (mac, to) = (MacAddr(OWN_MAC), frames::DST_V4);
                    build_arp_reply(&mut out, MacAddr(from), [a, b, c, last].into(), mac, to, None)
                }
                IpAddr::V6(ip) => {
                    let mut ip = ip.octets();
                    ip[15] = last;
                    let to = Some((MacAddr(OWN_MAC), frames::DST_V6));
                    build_neighbor_advert(&mut out, MacAddr(from), ip.into(), to, true, None)
                }
            };
            assert_eq!(program.run(&out[..len]).0, PASS);
            program.reason() == Some(NEIGHBOR_SERVICE)
        };
        assert!(!tell([2, 0, 0, 0, 0, 5], 77));
        assert_eq!(program.heard(), None);
        assert!(tell([2, 0, 0, 0, 0, 6], 1));
        assert_eq!(program.heard(), Some([2, 0, 0, 0, 0, 6]));
        assert!(tell([2, 0, 0, 0, 0, 7], 1));
        assert_eq!(program.heard(), Some([2, 0, 0, 0, 0, 6]));
    }
}

const SEED: u64 = 0x0123_4567_89ab_cdef;

/// Puts a tag at the end of the packet in a frame, if there is room.
fn put_tag(frame: &mut [u8], random: &mut programs::Random) {
    let tag = Tag {
        number: random.next() as u32,
        run: random.next() as u8,
        flow: random.next() as u32 & 0x3f_ffff,
        time_ns: random.next() & 0xf_ffff_ffff,
        mark: if random.below(8) == 0 {
            Mark::Returned
        } else {
            Mark::Sent
        },
    };
    let end = packet_end(frame);
    if let Some(at) = end.checked_sub(TAG_LEN) {
        frame[at..end].copy_from_slice(&tag.bytes(SEED));
    }
}

/// Returns a packet from its IP header or EtherType on, with tunnels in it, and that type.
fn stack(random: &mut programs::Random, depth: usize) -> (u16, Vec<u8>) {
    let tail = |random: &mut programs::Random| vec![random.next() as u8; 16 + random.below(60)];
    let (protocol, behind) = match random.below(if depth < 3 { 10 } else { 5 }) {
        0 | 5 => (17, udp(random, 9000, tail)),
        1 => (6, [&[1; 12][..], &[0x50; 8], &tail(random)].concat()),
        2 => (132, [&[7; 12][..], &[0, 3, 0, 44], &[0; 12], &tail(random)].concat()),
        3 => (
            [1, 58][random.below(2)],
            [&[random.below(12) as u8][..], &[0; 7], &tail(random)].concat(),
        ),
        4 => (random.next() as u8, tail(random)),
        6 => {
            let port = [4789, 6081, 2152, 6635][random.below(4)];
            let (kind, inner) = stack(random, depth + 1);
            let head = match port {
                4789 => [&[8, 0, 0, 0, 0, 0, 0, 0][..], &[2; 12], &kind.to_be_bytes()].concat(),
                6081 => [&[1, 0][..], &kind.to_be_bytes(), &[0; 8]].concat(),
                2152 => vec![0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 5, 0],
                _ => vec![0, 0, 0x11, 9],
            };
            (17, udp(random, port, |_| [&head[..], &inner].concat()))
        }
        7 => {
            let (kind, inner) = stack(random, depth + 1);
            (47, [&[0x20, 0][..], &kind.to_be_bytes(), &[0; 4], &inner].concat())
        }
        8 => (143, [&[2; 12][..], &[8, 0], &stack(random, depth + 1).1].concat()),
        _ => (137, [&[0, 0, 0x11, 9][..], &stack(random, depth + 1).1].concat()),
    };
    if random.below(3) == 0 {
        let extension: &[u8] = match random.below(5) {
            0 => &[60, 0, 1, 4, 0, 0, 0, 0],
            1 => &[44, 0, 0, 1, 0, 0, 0, 0],
            _ => &[],
        };
        let mut ip = vec![0; 40];
        (ip[0], ip[6], ip[7]) = (0x60, protocol, 1 + random.below(80) as u8);
        (ip[8], ip[23], ip[24], ip[39]) = (0xfd, random.below(3) as u8, 0xfd, random.below(3) as u8);
        let behind = match extension {
            [kind, rest @ ..] => {
                ip[6] = *kind;
                [&[protocol][..], rest, &behind].concat()
            }
            [] => behind,
        };
        ip[4..6].copy_from_slice(&(behind.len() as u16).to_be_bytes());
        return (0x86dd, [ip, behind].concat());
    }
    let mut ip = vec![0; 20];
    (ip[0], ip[8], ip[9]) = (0x45, random.below(80) as u8, protocol);
    ip[2..4].copy_from_slice(&(20 + behind.len() as u16).to_be_bytes());
    ip[7] = u8::from(random.below(12) == 0);
    ip[12..16].copy_from_slice(&[10, 99, 0, random.below(4) as u8]);
    ip[16..20].copy_from_slice(&[
        [10, 224][usize::from(random.below(20) == 0)],
        99,
        0,
        random.below(4) as u8,
    ]);
    let sum = frames::naive_checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    (0x0800, [ip, behind].concat())
}

fn udp(random: &mut programs::Random, port: u16, behind: impl Fn(&mut programs::Random) -> Vec<u8>) -> Vec<u8> {
    let mut ports = [random.below(3) as u16 * 4500, port];
    if random.below(2) == 0 {
        ports.reverse();
    }
    let behind = behind(random);
    let length = (8 + behind.len() as u16).to_be_bytes();
    [
        &ports[0].to_be_bytes()[..],
        &ports[1].to_be_bytes(),
        &length,
        &[0; 2],
        &behind,
    ]
    .concat()
}

#[test]
fn tagged_packets_of_any_headers_are_turned_as_in_user_space() {
    if !programs::can_load() {
        return;
    }
    for (filter, flags) in filters()
        .into_iter()
        .flat_map(|filter| [(filter.clone(), 0), (filter, flag::OPEN_CHECKSUMS)])
    {
        let filter = ReflectFilter {
            mac: Some(MacAddr(OWN_MAC)),
            tagged: Some(SEED),
            ..filter
        };
        let program = load(&filter, flags, &[], None);
        let (mut random, mut seen) = (programs::Random(flags.into()), std::collections::BTreeMap::new());
        let mut check = |frame: &[u8]| {
            let result = same_by_tag(&program, frame, |frame| match flags {
                0 => reflect_in_place(frame, &filter, false),
                _ => reflect_closing_in_place(frame, &filter),
            });
            *seen.entry(result.err().map_or("turned", Left::as_str)).or_insert(0) += 1;
        };
        programs::for_all(MUTATIONS / 4, |frame| {
            check(frame);
            let mut tagged = frame.to_vec();
            put_tag(&mut tagged, &mut random);
            check(&tagged);
        });
        for _ in 0..MUTATIONS / 2 {
            let (kind, packet) = stack(&mut random, 0);
            let shims: &[u8] = match random.below(5) {
                0 => &[0x81, 0, 0, 5],
                1 => &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6],
                2 => &[0x88, 0x47, 0, 0, 0x10, 9, 0, 0, 0x11, 9],
                _ => &[],
            };
            let kind = if shims.first() == Some(&0x88) && shims[1] == 0x47 {
                vec![]
            } else {
                kind.to_be_bytes().to_vec()
            };
            let macs = [OWN_MAC, [2, 0, 0, 0, 9, 9]].concat();
            let mut frame = [&macs[..], shims, &kind, &packet, &vec![0; random.below(6)]].concat();
            if random.below(3) == 0 {
                let at = random.below(frame.len().min(110));
                frame[at] ^= 1 << random.below(8);
            }
            put_tag(&mut frame, &mut random);
            check(&frame);
        }
        println!("{seen:?}");
        for (reason, least) in [
            ("turned", 1000),
            ("returned", 100),
            ("not_tagged", 1000),
            ("ttl_expired", 10),
        ] {
            assert!(
                seen.get(reason).is_some_and(|count| *count > least),
                "{reason}: {seen:?}"
            );
        }
    }
}
