//! The host's stack does not see the test's packets, and sees all others.

mod common;

use common::{BOTH, IP_B, Lab, MAC_B, receive, send, udp};
use mpps_af_packet::{AfPacketPort, GuardFilter, GuardStatus, IpFilter};
use mpps_io::{AddressRange, Frame, Port, addresses};
use mpps_traffic::{Form, Moment, Packet, Stream};
use mpps_wire::{Mark, Tag};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

fn filter() -> GuardFilter {
    let filter = IpFilter {
        excluded_ports: vec![2500],
        ..IpFilter::new(vec![addresses::one(IP_B.into())], 2000..=3000)
    };
    filter.into()
}

/// ICMP "port unreachable" messages that host B has decided to send, rate-limited ones included.
fn no_ports(lab: &Lab) -> u64 {
    lab.b.run(|| {
        let text = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("snmp");
        let mut lines = text.lines().filter(|l| l.starts_with("Udp:"));
        let (names, values) = lines.next().zip(lines.next()).expect("udp counters");
        let column = names.split_whitespace().position(|n| n == "NoPorts").expect("NoPorts");
        values
            .split_whitespace()
            .nth(column)
            .expect("value")
            .parse()
            .expect("number")
    })
}

/// The Internet checksum (RFC 1071) of bytes whose checksum field is zero.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let sum: u32 = bytes
        .chunks_exact(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}

fn guarded(lab: &Lab, filter: impl Into<GuardFilter>) -> Option<AfPacketPort> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("kernel release");
    let mut version = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|part| part.parse::<u32>().ok());
    if (version.next(), version.next()) < (Some(6), Some(6)) {
        println!("SKIPPED: tcx needs Linux 6.6, this is {release}");
        return None;
    }
    let port = lab
        .b
        .open("af_packet:vb,guard=on", &[BOTH], Some(filter.into()))
        .expect("open");
    assert_eq!(*port.guard_status(), GuardStatus::On);
    Some(port)
}

/// Sends one UDP packet from host A; true when host B's stack saw it.
fn stack_sees(lab: &Lab, a: &mut mpps_af_packet::AfPacketQueue<'_>, bytes: Vec<u8>) -> bool {
    let before = no_ports(lab);
    let address = std::net::SocketAddr::from((IP_B, 9));
    let behind = lab.b.run(|| UdpSocket::bind(address)).expect("bind");
    behind.set_read_timeout(Some(common::DEADLINE)).expect("timeout");
    // The second packet goes to a port outside every guard: once it has come, the first one was handled.
    send(a, &[bytes, udp(MAC_B, IP_B, 9, 9, 18, 0)]);
    behind.recv(&mut [0; 64]).expect("the packet behind it");
    no_ports(lab) != before
}

#[test]
fn the_stack_is_blind_to_the_tests_packets_only_and_the_tap_sees_all() {
    let Some(lab) = Lab::new() else { return };
    let a = lab.a.open("af_packet:va", &[BOTH], None).expect("open");
    let pool_a = a.pool(0).expect("pool");
    let mut qa = a.queue(0, &pool_a).expect("queue");
    let packet = |sport, dport| udp(MAC_B, IP_B, sport, dport, 18, 0);
    assert!(
        stack_sees(&lab, &mut qa, packet(1, 2000)),
        "without a guard the host answers"
    );

    let Some(b) = guarded(&lab, filter()) else { return };
    let pool_b = b.pool(0).expect("pool");
    let mut qb = b.queue(0, &pool_b).expect("queue");
    for (dport, seen) in [
        (1999, true),
        (2000, false),
        (2499, false),
        (2500, true),
        (2501, false),
        (3000, false),
        (3001, true),
    ] {
        assert_eq!(stack_sees(&lab, &mut qa, packet(1, dport)), seen, "port {dport}");
    }
    let mut options = packet(1, 2000);
    options[14] = 0x46;
    options[16..18].copy_from_slice(&50u16.to_be_bytes());
    options.splice(34..34, [1, 1, 1, 0]);
    options[24..26].fill(0);
    let sum = checksum(&options[14..38]);
    options[24..26].copy_from_slice(&sum);
    assert!(!stack_sees(&lab, &mut qa, options), "IPv4 options");
    let frames = receive(&mut qb, 0, |f| f.bytes().to_vec());
    let tests = frames
        .iter()
        .filter(|f| f[23] == 17 && u16::from_be_bytes([f[36], f[37]]) != 9)
        .count();
    assert_eq!(tests, 8, "the tap sees every one");

    // An open socket of the host outside the range, TCP's refusal and ping still work.
    let socket = lab.b.run(|| UdpSocket::bind("10.88.0.2:4000")).expect("bind");
    socket.set_read_timeout(Some(common::DEADLINE)).expect("timeout");
    send(&mut qa, &[packet(1, 4000)]);
    assert_eq!(socket.recv(&mut [0; 64]).expect("other ports reach the host"), 18);
    let refused = lab
        .a
        .run(|| std::net::TcpStream::connect_timeout(&"10.88.0.2:2000".parse().expect("address"), common::DEADLINE));
    assert_eq!(
        refused.expect_err("no listener").kind(),
        std::io::ErrorKind::ConnectionRefused,
        "TCP reaches the host"
    );
    let mut echo = packet(0, 0);
    (echo[23], echo[24], echo[25]) = (1, 0, 0);
    let sum = checksum(&echo[14..34]);
    echo[24..26].copy_from_slice(&sum);
    echo[34..42].copy_from_slice(&[8, 0, 0, 0, 0, 1, 0, 1]);
    let sum = checksum(&echo[34..]);
    echo[36..38].copy_from_slice(&sum);
    send(&mut qa, &[echo]);
    let end = Instant::now() + common::DEADLINE;
    let mut is_reply = || receive(&mut qa, 0, |f| (f.bytes()[23], f.bytes()[34])).contains(&(1, 0));
    while !is_reply() {
        assert!(Instant::now() < end, "ping reaches the host");
    }
}

#[test]
fn two_guards_on_one_interface_coexist_and_each_goes_with_its_port() {
    let Some(lab) = Lab::new() else { return };
    let a = lab.a.open("af_packet:va", &[BOTH], None).expect("open");
    let pool_a = a.pool(0).expect("pool");
    let mut qa = a.queue(0, &pool_a).expect("queue");
    let ip = || vec![addresses::one(IP_B.into())];
    let Some(first) = guarded(&lab, IpFilter::new(ip(), 2000..=2000)) else {
        return;
    };
    let Some(second) = guarded(&lab, IpFilter::new(ip(), 3000..=3000)) else {
        return;
    };
    let mut seen = |port| stack_sees(&lab, &mut qa, udp(MAC_B, IP_B, 1, port, 18, 0));
    assert_eq!([2000, 3000].map(&mut seen), [false, false]);
    drop(first);
    assert_eq!([2000, 3000].map(&mut seen), [true, false]);
    drop(second);
    assert_eq!([2000, 3000].map(&mut seen), [true, true]);
}

#[test]
fn a_range_of_addresses_is_guarded_from_its_first_to_its_last() {
    let Some(lab) = Lab::new() else { return };
    let a = lab.a.open("af_packet:va", &[BOTH], None).expect("open");
    let pool_a = a.pool(0).expect("pool");
    let mut qa = a.queue(0, &pool_a).expect("queue");
    // One address of the host is tried with ranges around it.
    let bits = std::net::Ipv4Addr::from(IP_B).to_bits();
    let at = |places: i64| std::net::Ipv4Addr::from_bits((i64::from(bits) + places) as u32).into();
    for (first, last, hidden) in [
        (0, 9, true),
        (-9, 0, true),
        (-300, 300, true),
        (1, 9, false),
        (-9, -1, false),
    ] {
        let filter = IpFilter::new(vec![at(first)..=at(last)], 2000..=2000);
        let Some(_guard) = guarded(&lab, filter) else { return };
        let seen = stack_sees(&lab, &mut qa, udp(MAC_B, IP_B, 1, 2000, 18, 0));
        assert_eq!(seen, !hidden, "{first} to {last}");
    }
}

#[test]
fn source_addresses_and_ports_narrow_the_guard() {
    let Some(lab) = Lab::new() else { return };
    let a = lab.a.open("af_packet:va", &[BOTH], None).expect("open");
    let pool_a = a.pool(0).expect("pool");
    let mut qa = a.queue(0, &pool_a).expect("queue");
    let narrow = IpFilter {
        source_ports: 100..=200,
        source_ips: vec![addresses::one(common::IP_A.into())],
        ..IpFilter::new(Vec::new(), 2000..=2000)
    };
    let Some(_guard) = guarded(&lab, narrow) else { return };
    assert_eq!(
        [99, 100, 200, 201].map(|sport| stack_sees(&lab, &mut qa, udp(MAC_B, IP_B, sport, 2000, 18, 0))),
        [true, false, false, true]
    );
    drop(_guard);
    let elsewhere = IpFilter {
        source_ips: vec![addresses::one([10, 88, 0, 77].into())],
        ..IpFilter::new(Vec::new(), 2000..=2000)
    };
    let Some(_guard) = guarded(&lab, elsewhere) else { return };
    assert!(stack_sees(&lab, &mut qa, udp(MAC_B, IP_B, 1, 2000, 18, 0)));
}

#[test]
fn ipv6_is_guarded_by_address_and_port() {
    let Some(lab) = Lab::new() else { return };
    for (host, name, ip) in [(&lab.a, "va", "fd88::1"), (&lab.b, "vb", "fd88::2")] {
        host.ip(&format!("-6 address add {ip}/64 dev {name} nodad"));
    }
    lab.a.ip("neigh add fd88::2 lladdr 02:00:00:00:00:0b dev va");
    lab.b.ip("neigh add fd88::1 lladdr 02:00:00:00:00:0a dev vb");
    let Some(guard) = guarded(
        &lab,
        IpFilter::new(vec![addresses::one("fd88::2".parse().expect("ip"))], 2000..=2000),
    ) else {
        return;
    };
    let server = |port| lab.b.run(|| UdpSocket::bind(("fd88::2", port))).expect("bind");
    let (inside, outside) = (server(2000), server(2001));
    let client = lab.a.run(|| UdpSocket::bind("[fd88::1]:0")).expect("bind");
    let end = Instant::now() + common::DEADLINE;
    client.send_to(b"x", "[fd88::2]:2000").expect("send");
    client.send_to(b"x", "[fd88::2]:2001").expect("send");
    outside.set_read_timeout(Some(common::DEADLINE)).expect("timeout");
    outside.recv(&mut [0; 8]).expect("the other port reaches the host");
    inside.set_nonblocking(true).expect("nonblocking");
    assert!(inside.recv(&mut [0; 8]).is_err(), "the guarded port does not");
    drop(guard);
    // Detaching a link waits for nobody: packets may still meet the program for a moment.
    while inside.recv(&mut [0; 8]).is_err() {
        client.send_to(b"x", "[fd88::2]:2000").expect("send");
        assert!(Instant::now() < end, "the guard did not go");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_process_leaves_no_guard_behind() {
    const CHILD: &str = "MPPS_TEST_GUARD_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let config = mpps_af_packet::check(&"af_packet:vb,guard=on".parse().expect("spec")).expect("config");
        let _port = AfPacketPort::open(&config, &[BOTH], &[filter()]).expect("open");
        println!("guard stands");
        loop {
            std::thread::park();
        }
    }
    let Some(lab) = Lab::new() else { return };
    let a = lab.a.open("af_packet:va", &[BOTH], None).expect("open");
    let pool_a = a.pool(0).expect("pool");
    let mut qa = a.queue(0, &pool_a).expect("queue");
    if guarded(&lab, filter()).is_none() {
        return;
    }
    let mut child = lab.b.run(|| {
        Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", "a_killed_process_leaves_no_guard_behind", "--nocapture"])
            .env(CHILD, "1")
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("child")
    });
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("stdout")));
    assert!(lines.any(|l| l.expect("line").contains("guard stands")));
    let mut seen = || stack_sees(&lab, &mut qa, udp(MAC_B, IP_B, 1, 2000, 18, 0));
    assert!(!seen());
    child.kill().expect("kill -9");
    child.wait().expect("reap");
    let end = Instant::now() + common::DEADLINE;
    while !seen() {
        assert!(Instant::now() < end, "the guard outlived its process");
    }
}

const SEED: u64 = 0xfeed;

/// Makes a test packet of these headers, tagged by `seed`.
fn made(headers: &str, seed: u64) -> Vec<u8> {
    let text = format!("eth src=02:00:00:00:00:0a dst=02:00:00:00:00:0b / {headers}");
    let stream = Stream::of(Packet::parse(&text).unwrap_or_else(|wrong| panic!("{text}: {}", wrong.line)));
    let form = Form::of(&stream, seed, 0).unwrap_or_else(|wrong| panic!("{text}: {}", wrong.line));
    let moment = Moment {
        run: 9,
        time_ns: 1 << 35,
    };
    form.packet(3, moment)
}

/// Makes a SYN to a port where nobody listens. A VLAN tag has number 0, so that a host without VLANs answers, too.
fn syn(port: u16, vlan: bool, seed: u64) -> Vec<u8> {
    let tag = if vlan { "vlan vid=0 / " } else { "" };
    made(
        &format!("{tag}ipv4 src=10.88.0.1 dst=10.88.0.2 / tcp src=1000 dst={port} flags=syn"),
        seed,
    )
}

const TAG: Tag = Tag {
    number: 1,
    run: 2,
    flow: 3,
    time_ns: 4,
    mark: Mark::Returned,
};

/// Makes the smallest datagram with a tag, padded to the smallest frame.
fn padded(seed: u64) -> Vec<u8> {
    let mut frame = udp(MAC_B, IP_B, 1, 2000, 16, 0);
    frame[42..].copy_from_slice(&TAG.bytes(seed));
    frame.resize(60, 0);
    frame
}

/// Returns the port that a TCP reset is from, if a frame is one.
fn reset_from(frame: &[u8]) -> Option<u16> {
    let is_reset = frame[12..15] == [8, 0, 0x45] && frame[23] == 6 && frame[47] & 4 != 0;
    is_reset.then(|| u16::from_be_bytes([frame[34], frame[35]]))
}

#[test]
fn frames_with_a_tag_reach_the_socket_and_not_the_stack() {
    let Some(lab) = Lab::new() else { return };
    lab.b.ip("neigh replace 10.88.0.1 lladdr 02:00:00:00:00:0a dev vb");
    let a = lab.a.open("af_packet:va", &[BOTH], None).expect("open");
    let pool_a = a.pool(0).expect("pool");
    let mut qa = a.queue(0, &pool_a).expect("queue");
    let mut untagged = syn(2005, false, SEED);
    let last = untagged.len() - 1;
    untagged[last] ^= 1;
    untagged[50..52].fill(0); // the checksum
    let body = &untagged[34..];
    let length = (body.len() as u16).to_be_bytes();
    let sum = checksum(&[&untagged[26..34], &[0, 6], &length, body].concat());
    untagged[50..52].copy_from_slice(&sum);
    let syns = [
        syn(2001, false, SEED),
        syn(2002, true, SEED),
        syn(2003, false, SEED + 1),
        syn(2004, true, SEED + 1),
        untagged,
    ];
    // The host handles frames in order: once it has answered the last one, it has handled all.
    let reset = |qa: &mut mpps_af_packet::AfPacketQueue<'_>| {
        send(qa, &syns);
        let end = Instant::now() + common::DEADLINE;
        let mut from = Vec::new();
        while !from.contains(&2005) {
            assert!(
                Instant::now() < end,
                "the host answers an untagged SYN, not only {from:?}"
            );
            from.extend(receive(qa, 0, |f| reset_from(f.bytes())).into_iter().flatten());
        }
        from
    };
    assert_eq!(reset(&mut qa), [2001, 2002, 2003, 2004, 2005], "without a guard");
    let vxlan = |seed| {
        made(
            "ipv4 src=10.88.0.1 dst=10.88.0.2 / udp src=7 / vxlan / eth / ipv4 / tcp",
            seed,
        )
    };
    assert!(stack_sees(&lab, &mut qa, vxlan(SEED)), "without a guard");
    assert!(stack_sees(&lab, &mut qa, padded(SEED)), "without a guard");

    let filter = GuardFilter::Tagged { seed: SEED };
    let Some(b) = guarded(&lab, filter) else { return };
    let pool_b = b.pool(0).expect("pool");
    let mut qb = b.queue(0, &pool_b).expect("queue");
    assert_eq!(reset(&mut qa), [2003, 2004, 2005]);
    for (name, make) in [("VXLAN", &vxlan as &dyn Fn(u64) -> Vec<u8>), ("padded", &padded)] {
        assert!(!stack_sees(&lab, &mut qa, make(SEED)), "{name}");
        assert!(stack_sees(&lab, &mut qa, make(SEED + 1)), "{name} of another seed");
    }
    let came = receive(&mut qb, 0, |f| f.bytes().to_vec());
    for frame in syns.iter().chain(&[vxlan(SEED), padded(SEED)]) {
        assert!(came.contains(frame), "the tap sees every one: {frame:02x?}");
    }
    drop(qb);
    drop(pool_b);
    drop(b);
    let end = Instant::now() + common::DEADLINE;
    while reset(&mut qa).len() < syns.len() {
        assert!(Instant::now() < end, "the guard did not go");
    }
}

#[test]
fn a_tag_in_pages_behind_the_socket_buffer_is_found() {
    let Some(lab) = Lab::new() else { return };
    let Some(_guard) = guarded(&lab, GuardFilter::Tagged { seed: SEED }) else {
        return;
    };
    lab.a.ip("link set va mtu 40000");
    lab.b.ip("link set vb mtu 40000");
    let socket = lab.a.run(|| UdpSocket::bind("10.88.0.1:0")).expect("bind");
    let behind = lab.b.run(|| UdpSocket::bind("10.88.0.2:9")).expect("bind");
    behind.set_read_timeout(Some(common::DEADLINE)).expect("timeout");
    // From 16 KiB on the kernel puts most of a datagram into pages.
    for len in [1000, 20_000, 36_000] {
        for (seed, seen) in [(SEED, false), (SEED + 1, true)] {
            let before = no_ports(&lab);
            let mut payload = vec![7; len];
            payload.extend(TAG.bytes(seed));
            socket.send_to(&payload, "10.88.0.2:2000").expect("send");
            socket.send_to(b"x", "10.88.0.2:9").expect("send");
            behind.recv(&mut [0; 8]).expect("the packet behind it");
            assert_eq!(no_ports(&lab) != before, seen, "{len} bytes");
        }
    }
}

#[test]
fn a_guard_needs_no_more_than_the_capabilities_that_are_documented() {
    let Some(lab) = Lab::new() else { return };
    for filter in [filter(), GuardFilter::Tagged { seed: SEED }] {
        if guarded(&lab, filter.clone()).is_none() {
            return;
        }
        // A thread begins in the namespace of the one that starts it.
        let thread = lab.b.run(|| {
            std::thread::spawn(move || {
                let few = CapabilitySet::NET_RAW | CapabilitySet::NET_ADMIN | CapabilitySet::BPF;
                let sets = CapabilitySets {
                    effective: few,
                    permitted: few,
                    inheritable: CapabilitySet::empty(),
                };
                set_capabilities(None, sets).expect("less is always granted");
                let config = mpps_af_packet::check(&"af_packet:vb,guard=on".parse().expect("spec")).expect("config");
                AfPacketPort::open(&config, &[BOTH], &[filter]).map(drop)
            })
        });
        thread.join().expect("the thread").expect("open");
    }
}

#[test]
fn guard_off_says_why() {
    let Some(lab) = Lab::new() else { return };
    let open = |spec, guard| {
        lab.b
            .open(spec, &[BOTH], guard)
            .expect("open")
            .guard_status()
            .to_string()
    };
    assert_eq!(open("af_packet:vb,guard=off", Some(filter())), "off (guard=off)");
    assert_eq!(open("af_packet:vb", None), "off (no test addresses given)");
}

#[test]
fn the_kernel_takes_the_program_of_every_shape_of_filter() {
    let Some(lab) = Lab::new() else { return };
    let (v4, v6) = (
        addresses::one(IP_B.into()),
        addresses::one("fd88::2".parse().expect("ip")),
    );
    let (many4, many6) = (
        addresses::from(*v4.start(), 300),
        addresses::from(*v6.start(), u32::MAX),
    );
    let mixed = [&v6, &v4, &many4, &v4, &v6, &many6].map(AddressRange::clone).to_vec();
    let lists = [vec![], vec![v4], vec![v6], vec![many4], vec![many6], mixed];
    for ips in &lists {
        for source_ips in &lists {
            for excluded_ports in [vec![], (0..200).collect()] {
                let rest = IpFilter::new(ips.clone(), 0..=u16::MAX);
                let filter = IpFilter {
                    source_ips: source_ips.clone(),
                    excluded_ports,
                    ..rest
                };
                if guarded(&lab, filter).is_none() {
                    return;
                }
            }
        }
    }
    let endless = IpFilter {
        excluded_ports: (0..5000).collect(),
        ..IpFilter::new(vec![], 0..=u16::MAX)
    };
    assert!(
        lab.b
            .open("af_packet:vb,guard=on", &[BOTH], Some(endless.into()))
            .is_err()
    );
}
