//! What a program takes, and what it leaves to the host.
#![cfg(not(miri))]

mod lab;

use std::process::Stdio;

use lab::{End, Host, Lab, Make, Random, has, ip, over, send_one, udp4, until};
use proptest::prelude::*;
use xsk::{Addresses, Counters, Filter, Match, Ports, ProgramConfig, ProgramMode, Take};

/// Sends frames from a to b, and gives what of them reached b's socket, in order.
struct Probe {
    lab: Lab,
    from: End,
    to: End,
}

impl Probe {
    fn new(filter: Filter, mode: ProgramMode) -> Option<Probe> {
        Probe::with(mode, |program| program.filter = filter)
    }

    fn with(mode: ProgramMode, change: impl FnOnce(&mut ProgramConfig)) -> Option<Probe> {
        let lab = Lab::new(1, 1500)?;
        let from = lab.end(Host::A, "veth0", 0, &Make::default());
        let mut make = Make::default().mode(mode);
        change(&mut make.program);
        let to = lab.end(Host::B, "veth0", 0, &make);
        Some(Probe { lab, from, to })
    }

    fn counters(&self) -> Counters {
        self.to.program.counters().unwrap()
    }

    /// Which of the frames are taken.
    fn taken(&self, frames: &[Vec<u8>]) -> Vec<bool> {
        let pools = [self.from.pool(), self.to.pool()];
        let (_rx, mut tx) = over((&self.from.socket, &pools[0]));
        let (mut rx, _tx) = over((&self.to.socket, &pools[1]));
        let mut answers = Vec::new();
        for bytes in frames {
            let before = self.counters();
            send_one(&mut tx, &pools[0], bytes);
            let mut came = Vec::new();
            // The host may speak as well: only this frame's bytes count.
            until("the frame is taken or passed", || {
                rx.receive(8, |frame| came.push(frame.bytes().to_vec()));
                let now = self.counters();
                came.contains(bytes) || now.taken == before.taken && now.passed > before.passed
            });
            answers.push(came.contains(bytes));
        }
        answers
    }
}

fn mac() -> [u8; 6] {
    [2, 0, 0, 0, 0, 1]
}

fn udp_to(address: [u8; 4], port: u16) -> Vec<u8> {
    udp4(mac(), address, port, 100, &mut Random(1))
}

/// With tags between the addresses and the type.
fn tagged(frame: &[u8], tags: &[u16]) -> Vec<u8> {
    let mut out = frame[..12].to_vec();
    for (n, tag) in tags.iter().enumerate() {
        out.extend(if n + 1 < tags.len() { [0x88, 0xa8] } else { [0x81, 0x00] });
        out.extend(tag.to_be_bytes());
    }
    out.extend(&frame[12..]);
    out
}

/// With the options of a header of 15 words.
fn with_options(frame: &[u8]) -> Vec<u8> {
    let mut out = frame[..34].to_vec();
    out[14] = 0x4f;
    out.extend([1; 40]);
    out.extend(&frame[34..]);
    out
}

fn ipv6(next: u8, destination: &str, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&mac()[..], &[2, 0, 0, 0, 0, 9], &[0x86, 0xdd]].concat();
    frame.extend([0x60, 0, 0, 0]);
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([next, 255]);
    let [std::net::IpAddr::V6(from), std::net::IpAddr::V6(to)] = [ip("fd09::77"), ip(destination)] else {
        panic!("IPv6");
    };
    frame.extend(from.octets());
    frame.extend(to.octets());
    frame.extend(payload);
    frame
}

fn udp6(destination: &str, port: u16) -> Vec<u8> {
    let mut payload = vec![0x27, 0x0f];
    payload.extend(port.to_be_bytes());
    payload.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    ipv6(17, destination, &payload)
}

fn arp(target: [u8; 4]) -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9], &[8, 6], &[0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.extend([2, 0, 0, 0, 0, 9, 10, 9, 0, 77]);
    frame.extend([0; 6]);
    frame.extend(target);
    frame.extend([0; 18]);
    frame
}

fn solicitation(target: &str) -> Vec<u8> {
    let std::net::IpAddr::V6(address) = ip(target) else {
        panic!("IPv6")
    };
    let mut payload = vec![135, 0, 0, 0, 0, 0, 0, 0];
    payload.extend(address.octets());
    let mut frame = ipv6(58, "ff02::1:ff00:9", &payload);
    frame[0..6].copy_from_slice(&[0x33, 0x33, 0xff, 0, 0, 9]);
    frame
}

fn echo(address: [u8; 4]) -> Vec<u8> {
    let mut frame = udp_to(address, 0);
    frame[23] = 1;
    frame[34] = 8;
    frame
}

#[test]
fn udp_to_a_port_range_is_taken_and_all_else_passes() {
    for mode in [ProgramMode::Native, ProgramMode::Skb] {
        let filter = Filter::udp(9000..=9100, []);
        let Some(probe) = Probe::new(filter, mode) else { return };
        let (inside, outside) = (udp_to([10, 9, 0, 2], 9050), udp_to([10, 9, 0, 2], 8999));
        let mut fragment = inside.clone();
        fragment[20] = 0x20;
        let mut tcp = inside.clone();
        tcp[23] = 6;
        let mut short = inside.clone();
        short.truncate(36);
        let mut broken = inside.clone();
        broken[14] = 0x44;
        let mut broadcast = inside.clone();
        broadcast[..6].fill(0xff);
        let mut extension = udp6("fd09::2", 9000);
        extension[20] = 0;
        let frames = [
            (inside.clone(), true),
            (udp_to([10, 9, 0, 2], 9000), true),
            (udp_to([10, 9, 0, 2], 9100), true),
            (with_options(&inside), true),
            (udp6("fd09::2", 9000), true),
            (outside.clone(), false),
            (udp_to([10, 9, 0, 2], 9101), false),
            (fragment, false),
            (tcp, false),
            (short, false),
            (broken, false),
            (broadcast, false),
            (udp_to([224, 0, 0, 5], 9000), false),
            (extension, false),
            (udp6("fd09::2", 9101), false),
            (udp6("ff02::5", 9000), false),
            (arp([10, 9, 0, 9]), false),
        ];
        let (frames, expected): (Vec<_>, Vec<_>) = frames.into_iter().unzip();
        assert_eq!(probe.taken(&frames), expected, "{mode:?}");
    }
}

#[test]
fn up_to_two_vlan_tags_are_looked_through() {
    let Some(probe) = Probe::new(Filter::udp(9000..=9100, []), ProgramMode::Native) else {
        return;
    };
    let frame = udp_to([10, 9, 0, 2], 9000);
    // In a namespace without VLAN devices tags stay in the frame, unless the kernel takes the outermost out of it.
    let frames = [tagged(&frame, &[5, 6]), tagged(&frame, &[5, 6, 7, 8])];
    let taken = probe.taken(&frames);
    assert_eq!(taken, [true, false]);
}

#[test]
fn addresses_are_matched_where_they_are_given() {
    let filter = Filter::udp(9000..=9100, [ip("10.9.0.2"), ip("10.9.0.3"), ip("fd09::2")]);
    let Some(probe) = Probe::new(filter, ProgramMode::Native) else {
        return;
    };
    let frames = [
        udp_to([10, 9, 0, 2], 9000),
        udp_to([10, 9, 0, 3], 9000),
        udp_to([10, 9, 0, 4], 9000),
        udp6("fd09::2", 9000),
        udp6("fd09::3", 9000),
    ];
    assert_eq!(probe.taken(&frames), [true, true, false, true, false]);
}

#[test]
fn either_takes_sources_as_well_and_protocols_are_told_apart() {
    let take = Take::Match(Match {
        protocol: None,
        ports: Ports::In(vec![9999..=9999]),
        addresses: Addresses::Of(vec![ip("10.9.0.77"), ip("fd09::77")]),
        either: true,
    });
    let Some(probe) = Probe::new(take.into(), ProgramMode::Native) else {
        return;
    };
    let mut tcp = udp_to([10, 9, 0, 2], 1);
    tcp[23] = 6;
    let mut other = tcp.clone();
    other[35] = 1;
    let frames = [
        udp_to([10, 9, 0, 2], 1),
        tcp,
        other,
        udp6("fd09::2", 1),
        arp([10, 9, 0, 77]),
    ];
    assert_eq!(probe.taken(&frames), [true, true, false, true, false]);
}

#[test]
fn answered_addresses_bring_their_arp_solicitations_and_echoes() {
    let filter = Filter::udp(9000..=9100, []).answering([ip("10.9.0.9"), ip("fd09::9")]);
    let Some(probe) = Probe::new(filter, ProgramMode::Native) else {
        return;
    };
    let mut echo6 = ipv6(58, "fd09::9", &[128, 0, 0, 0, 0, 1, 0, 1]);
    let own6 = ipv6(58, "fd09::2", &[128, 0, 0, 0, 0, 1, 0, 1]);
    echo6.extend([0; 8]);
    let frames = [
        arp([10, 9, 0, 9]),
        arp([10, 9, 0, 2]),
        solicitation("fd09::9"),
        solicitation("fd09::2"),
        echo([10, 9, 0, 9]),
        echo([10, 9, 0, 2]),
        echo6,
        own6,
    ];
    let expected = [true, false, true, false, true, false, true, false];
    assert_eq!(probe.taken(&frames), expected);
}

#[test]
fn foreign_takes_all_but_the_hosts_own() {
    let own = ["10.9.0.2", "fd09::2"].map(ip);
    let Some(probe) = Probe::new(Filter::foreign(own), ProgramMode::Native) else {
        return;
    };
    let mut unknown = udp_to([10, 9, 0, 2], 1);
    unknown[12..14].copy_from_slice(&[0x88, 0xb5]);
    let frames = [
        udp_to([10, 9, 0, 2], 9000),
        udp_to([10, 9, 0, 8], 22),
        arp([10, 9, 0, 2]),
        arp([10, 9, 0, 8]),
        udp6("fd09::2", 1),
        udp6("fd09::8", 1),
        solicitation("fd09::2"),
        solicitation("fd09::8"),
        unknown,
    ];
    let expected = [false, true, false, true, false, true, false, true, true];
    assert_eq!(probe.taken(&frames), expected);
}

/// Puts a tag of this seed at the end: mpps's `docs/wire-format.md`.
fn with_tag(frame: &[u8], seed: u64) -> Vec<u8> {
    let (number, run, flow, time) = (77_u64, 5_u64, 0x2f_fffe_u64, 0x0c_dead_beef_u64);
    let both = run << 22 | flow;
    let z = seed.wrapping_add(
        (flow << 32 | number)
            .wrapping_add(1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15),
    );
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let first = number << 32 | both >> 15 << 16 | both & 0x7fff | 0x8000;
    let check = (z ^ z >> 31 ^ (run << 36 | time)).wrapping_mul(0xd134_2543_de82_ef95);
    let last = time << 28 | check >> 32 & 0xfff_ffff;
    [&frame[..frame.len() - 16], &first.to_be_bytes(), &last.to_be_bytes()].concat()
}

/// A TCP segment with SYN; a datagram of VXLAN with a frame in it.
fn tcp_and_vxlan(seed: u64) -> [Vec<u8>; 2] {
    let inner = with_tag(&udp_to([192, 168, 0, 1], 7), seed);
    let mut vxlan = udp4(mac(), [10, 9, 0, 2], 4789, 50 + inner.len(), &mut Random(1));
    vxlan[42..50].copy_from_slice(&[8, 0, 0, 0, 0, 0, 9, 0]);
    vxlan[50..].copy_from_slice(&inner);
    let mut tcp = udp_to([10, 9, 0, 2], 80);
    tcp[23] = 6;
    tcp[46..48].copy_from_slice(&[0x50, 2]);
    [with_tag(&tcp, seed), vxlan]
}

#[test]
fn frames_with_a_tag_of_the_seed_are_taken_whatever_their_headers() {
    const SEED: u64 = 0x8000_0000_1234_5678;
    for (mode, frags) in [
        (ProgramMode::Native, false),
        (ProgramMode::Native, true),
        (ProgramMode::Skb, false),
    ] {
        let filter = Filter::tagged(SEED).answering([ip("10.9.0.9")]);
        let Some(probe) = Probe::with(mode, |program| {
            program.filter = filter;
            program.frags = frags;
        }) else {
            return;
        };
        let [tcp, vxlan] = tcp_and_vxlan(SEED);
        let [other_tcp, other_vxlan] = tcp_and_vxlan(SEED + 1);
        let small = with_tag(&udp4(mac(), [10, 9, 0, 2], 9000, 58, &mut Random(2)), SEED);
        let padded = [&small[..], &[0; 2]].concat();
        let mut in_padding = udp4(mac(), [10, 9, 0, 2], 9000, 42, &mut Random(2));
        in_padding.extend(&padded[40..58]);
        let mut raw = tcp.clone();
        raw[12..14].copy_from_slice(&[0x88, 0xb5]);
        let vlan = tagged(&tcp, &[5]);
        let mut v6 = udp6("ff02::5", 53);
        v6.splice(58..58, [0; 16]);
        v6[18..20].copy_from_slice(&28_u16.to_be_bytes());
        let frames = [
            (tcp.clone(), true),
            (vxlan, true),
            (padded, true),
            (vlan.clone(), true),
            (tagged(&vlan, &[6, 7]), true),
            (with_tag(&v6, SEED), true),
            (raw, true),
            (arp([10, 9, 0, 9]), true),
            (echo([10, 9, 0, 9]), true),
            (other_tcp, false),
            (other_vxlan, false),
            (in_padding, false),
            (tcp[..tcp.len() - 1].to_vec(), false),
            (v6, false),
            (udp_to([10, 9, 0, 2], 9000), false),
            (arp([10, 9, 0, 2]), false),
            (echo([10, 9, 0, 2]), false),
        ];
        let (frames, expected): (Vec<_>, Vec<_>) = frames.into_iter().unzip();
        assert_eq!(probe.taken(&frames), expected, "{mode:?} {frags}");
    }
}

#[test]
fn any_bytes_are_taken_or_passed_as_told() {
    let Some(all) = Probe::new(Filter::all(), ProgramMode::Native) else {
        return;
    };
    let Some(foreign) = Probe::new(Filter::foreign([ip("10.9.0.2")]), ProgramMode::Native) else {
        return;
    };
    // Through each way in the program, with lengths that end within every header.
    let base = [udp_to([10, 9, 0, 2], 9000), udp6("fd09::2", 9000), arp([10, 9, 0, 8])];
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for frame in &base {
        frames.extend((15..60).map(|len| frame[..len.min(frame.len())].to_vec()));
    }
    assert!(all.taken(&frames).into_iter().all(|taken| taken));
    let taken = foreign.taken(&frames);
    // Too short for an IPv4 header, so nobody's own; long enough, and the host's.
    assert!(taken[0] && !taken[44]);
}

#[test]
fn the_hosts_own_traffic_passes_while_the_tests_is_taken() {
    if !has("ping") && !has("socat") {
        return;
    }
    let Some(probe) = Probe::new(Filter::udp(9000..=9100, []), ProgramMode::Native) else {
        return;
    };
    if has("ping") {
        let ping = probe
            .lab
            .command(Host::A, "ping -c 3 -i 0.2 -W 2 10.9.0.2")
            .output()
            .unwrap();
        assert!(ping.status.success(), "{}", String::from_utf8_lossy(&ping.stdout));
    }
    // A TCP connection over the same device, as that of a shell would be.
    probe.lab.enter(Host::B);
    let listener = std::net::TcpListener::bind("10.9.0.2:2222").unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap()
    });
    probe.lab.enter(Host::A);
    let mut client = std::net::TcpStream::connect("10.9.0.2:2222").unwrap();
    let taken = probe.taken(&[udp_to([10, 9, 0, 2], 9000), udp_to([10, 9, 0, 2], 53)]);
    assert_eq!(taken, [true, false]);
    use std::io::{Read, Write};
    client.write_all(&[7; 100_000]).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();
    assert_eq!(back.len(), 100_000);
    assert_eq!(server.join().unwrap(), 100_000);
    assert!(probe.counters().passed > 10);
}

#[test]
fn frames_without_a_socket_go_to_the_host_and_are_counted() {
    let Some(probe) = Probe::new(Filter::udp(9000..=9100, []), ProgramMode::Native) else {
        return;
    };
    probe.to.program.remove(0).unwrap();
    probe.to.program.remove(0).unwrap();
    let pool = probe.from.pool();
    let (_rx, mut tx) = over((&probe.from.socket, &pool));
    let reader = probe.to.program.counter_reader();
    send_one(&mut tx, &pool, &udp_to([10, 9, 0, 2], 9000));
    // From another thread.
    std::thread::spawn(move || until("it is counted", || reader.read().unwrap().no_socket == 1))
        .join()
        .unwrap();
}

#[test]
fn the_objects_in_the_repository_are_what_their_source_gives() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/xdp.sh");
    if !std::path::Path::new(script).exists() {
        return lab::skip("this is the published crate, without the script that rebuilds the programs");
    }
    let output = std::process::Command::new(script)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1))]
    /// The verifier takes the program with every filter that can be written down.
    #[test]
    fn every_shape_of_filter_loads(seed: u64) {
        let Some(lab) = Lab::new(1, 1500) else { return Ok(()) };
        lab.enter(Host::A);
        let mut random = Random(seed | 1);
        for shape in 0..28_u32 {
            let v4: Vec<_> = (0..random.below(9)).map(|i| ip(&format!("10.9.1.{i}"))).collect();
            let v6: Vec<_> = (0..random.below(9)).map(|i| ip(&format!("fd09::{i}"))).collect();
            let list: Vec<_> = v4.into_iter().chain(v6).collect();
            let around = [ip("10.9.0.1")..=ip("10.9.9.9"), ip("fd09::1")..=ip("fd09::ffff")][random.below(2)].clone();
            let take = match shape % 7 {
                0 => Take::Nothing,
                6 => Take::Tagged { seed },
                1 => Take::All,
                2 => Take::Foreign { own: list.clone() },
                n => Take::Match(Match {
                    protocol: [None, Some(17), Some(58)][n as usize % 3],
                    ports: if random.below(2) == 0 { Ports::Any } else { Ports::In(vec![1..=65535]) },
                    addresses: [
                        Addresses::Any,
                        Addresses::Unicast,
                        Addresses::Of(list.clone()),
                        Addresses::Within(around.clone()),
                    ][random.below(4)]
                    .clone(),
                    either: random.below(2) == 0,
                }),
            };
            let answer = if random.below(2) == 0 { list } else { Vec::new() };
            let answer_within = (random.below(2) == 0).then_some(around);
            let mut config = ProgramConfig::new(Filter { take, answer, answer_within });
            config.rx_timestamp = random.below(2) == 0;
            config.frags = random.below(2) == 0;
            config.mode = [ProgramMode::Native, ProgramMode::Skb][random.below(2)];
            if let Err(e) = xsk::Program::attach("veth0", &config) {
                panic!("{config:?}: {e}");
            }
        }
    }
}
