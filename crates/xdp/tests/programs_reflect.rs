//! The `reflect` program does to every frame what mpps-wire's reflector does, and counts the same reasons.

#[path = "programs/mod.rs"]
mod programs;
#[allow(dead_code, unreachable_pub, reason = "a part is used")]
#[path = "../src/sys.rs"]
mod sys;

use mpps_wire::{
    Left, MacAddr, ReflectFilter, SlowPath, answer_echo_in_place, build_arp_reply, build_neighbor_advert,
    complete_udp_checksum, parse_slow_path, parse_udp, reflect_closing_in_place, reflect_in_place, udp_checksum_open,
};
use programs::abi::flag;
use programs::{Constant, OWN_MAC, Object, PASS, Program, TX, bytes_of, frames};
use std::net::IpAddr;
use std::sync::atomic::Ordering;

static REFLECT: Object<{ include_bytes!("../bpf/reflect.bpf.o").len() }> =
    Object(*include_bytes!("../bpf/reflect.bpf.o"));

const NEIGHBOR_SERVICE: usize = 13;
const MUTATIONS: usize = 20_000;

/// Loads the program with the same filter.
fn load(filter: &ReflectFilter, flags: u32, answer: &[IpAddr], hop: Option<IpAddr>) -> Program {
    let mut plan = programs::plan();
    plan.flags = flags;
    if let Some(mac) = filter.mac {
        plan.flags |= flag::OWN_MAC;
        plan.mac = mac.0;
    }
    let listed: Vec<_> = filter.ip.into_iter().collect();
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
    let constants = [
        Constant("PORTS", bytes_of(&ports)),
        Constant("HOST_PORTS", bytes_of(&host_ports)),
    ];
    programs::load(&REFLECT.0, &plan, &constants, "reflect")
}

fn same(program: &Program, frame: &[u8], turn: impl Fn(&mut [u8]) -> Result<(), Left>) {
    let mut wanted = frame.to_vec();
    let result = turn(&mut wanted);
    let verdict = if result.is_ok() { TX } else { PASS };
    let (got, bytes) = program.run(frame);
    let reason = program.reason();
    assert_eq!(
        (got, reason),
        (verdict, result.err().map(Left::index)),
        "{result:?} {frame:02x?}"
    );
    assert_eq!(bytes, wanted, "{frame:02x?}");
}

fn filters() -> Vec<ReflectFilter> {
    vec![
        ReflectFilter::default(),
        ReflectFilter {
            ip: Some(frames::DST_V4.into()),
            ports: Some(8_000..=9_000),
            mac: Some(MacAddr(OWN_MAC)),
            excluded_ports: Box::new([8_999]),
        },
        ReflectFilter {
            ip: Some(frames::DST_V6.into()),
            excluded_ports: Box::new([9_000]),
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
        if reflect_in_place(&mut frame.to_vec(), &ReflectFilter::default(), false).is_ok() {
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
                ..
            }) if ours.contains(&target.into()) => {
                let to = src_ip.map(|ip| (src_mac, ip));
                build_neighbor_advert(&mut out, mac, target, to, None);
                (1, out.to_vec(), 86)
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
                    build_neighbor_advert(&mut out, MacAddr(from), ip.into(), to, None)
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
