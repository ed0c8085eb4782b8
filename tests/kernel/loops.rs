//! One packet with a made-up source never goes round for ever: between two reflectors, with a reflector itself, or
//! between one and an echo server; on any path. A sender of equal packets is answered.

use mpps_host::lab::Host;
use mpps_tests::{Background, Net, Report, Scratch, cases, inside, listen_by, missing, net_of, no_dpdk, wait_until};
use rustix::process::Signal;

/// No packet may go round more often.
const MOST: u64 = 255;

/// Sends UDP packets over IPv4 with any source: source, its port, destination, its port, packets, payload: "same",
/// "stamped" or "empty"; time to live.
const FORGE: &str = r#"
import socket, struct, sys
src, sport, dst, dport, n, kind, ttl = sys.argv[1:8]
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for i in range(int(n)):
    data = {"same": b"U" * 18, "stamped": struct.pack("<QQ", i, 10**9 + i) + b"ab", "empty": b""}[kind]
    udp = struct.pack("!HHHH", int(sport), int(dport), 8 + len(data), 0) + data
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 0, 0, int(ttl), 17, 0, socket.inet_aton(src), socket.inet_aton(dst))
    s.sendto(head + udp, (dst, 0))
"#;

/// Returns what it gets, on an address and port, and writes how much to a file.
const ECHO_SERVER: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
print("ready", file=sys.stderr, flush=True)
n = 0
while True:
    data, peer = s.recvfrom(2048)
    s.sendto(data, peer)
    n += 1
    print(n, file=sys.stderr, flush=True)
"#;

/// Sends the same bytes again and again, and waits for an answer to each when so many are on their way: source port,
/// destination, its port, packets, window, bytes. Fails unless all come back but for a few, which are other bytes.
const REPEAT: &str = r#"
import socket, sys
sport, dst, dport, n, window, size, lost_too = sys.argv[1:8]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", int(sport)))
s.connect((dst, int(dport)))
s.settimeout(2.0)
data, n = b"U" * int(size), int(n)
sent = back = odd = lost = 0
while back + lost < n:
    while sent < n and sent - back - lost < int(window):
        s.send(data)
        sent += 1
    try:
        odd += s.recv(2048) != data
        back += 1
    except TimeoutError:
        lost += sent - back - lost
print(sent, back, odd, lost)
assert odd + lost <= int(lost_too), (sent, back, odd, lost)
"#;

/// A reflector on a host of the lab, and the address that it answers for.
fn port(path: &str, host: Host) -> (String, &'static str) {
    let (own, other) = match host {
        Host::A => ("10.99.0.1", "10.99.0.77"),
        Host::B => ("10.99.0.2", "10.99.0.88"),
    };
    match path {
        "udp" | "io_uring" => (format!("reflect {path}:{own}:9000"), own),
        "dpdk" => (
            format!("reflect dpdk:net_af_packet0,iface=eth1 --ip {other} --port 9000"),
            other,
        ),
        _ => (format!("reflect {path}:eth1 --ip {other} --port 9000"), other),
    }
}

fn reflector(net: &Net, host: Host, path: &str, scratch: &Scratch) -> (Background, &'static str) {
    let (words, ip) = port(path, host);
    let command = match host {
        Host::A => net.a(&words),
        Host::B => net.b(&words),
    };
    (listen_by(scratch, command), ip)
}

/// Packets received in the rows so far, and how many rows there are.
fn received(scratch: &Scratch) -> (u64, usize) {
    let text = std::fs::read_to_string(scratch.file("run.csv")).unwrap_or_default();
    let rows = text
        .lines()
        .skip(1)
        .filter_map(|row| row.split(',').nth(2)?.parse::<u64>().ok());
    rows.fold((0, 0), |(packets, rows), rx| (packets + rx, rows + 1))
}

/// Waits until a reflector has received something, and then nothing in twenty rows.
fn quiet(scratch: &Scratch) {
    let (mut last, mut since) = (0, 0);
    wait_until("packets, and then no more", || {
        let (packets, rows) = received(scratch);
        if packets != last {
            (last, since) = (packets, rows);
        }
        packets > 0 && rows >= since + 20
    });
}

fn forge(net: &Net, host: Host, from: (&str, u16), to: &str, n: u64, kind: &str, ttl: u8) {
    let words = [
        from.0,
        &from.1.to_string(),
        to,
        "9000",
        &n.to_string(),
        kind,
        &ttl.to_string(),
    ];
    assert!(net.python(host, FORGE, &words));
}

fn end(reflector: Background, scratch: &Scratch) -> Report {
    let report = scratch.read(reflector.end(Signal::INT));
    report.assert_rows_add_up();
    report
}

fn warned(report: &Report, words: &str) -> bool {
    report.json["warnings"].to_string().contains(words)
}

fn two_reflectors_pass_a_packet_to_and_fro_until_its_time_to_live_is_used_up((a, b): (&str, &str)) {
    if missing("python3", "python3") {
        return;
    }
    if a == "dpdk" && no_dpdk() {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let (here, there) = (Scratch::new(), Scratch::new());
    let (near, own) = reflector(&net, Host::A, a, &here);
    let (far, to) = reflector(&net, Host::B, b, &there);
    for (n, kind) in [(1, "same"), (30, "stamped")] {
        // A host forges its own address: the far end turns it first. So few turns that it is no suspect before.
        forge(&net, Host::A, (own, 9000), to, n, kind, 20);
        quiet(&there);
    }
    let (near, far) = (end(near, &here), end(far, &there));
    let context = format!("{a} and {b}: {:#} {:#}", near.json, far.json);
    let rounds = far.count("rx_packets").max(near.count("rx_packets"));
    assert!(rounds > 1 && rounds <= 31 * 10, "{rounds} of {context}");
    let count = |reason| near.reason(reason) + far.reason(reason);
    assert_eq!(count("ttl_expired") + count("returned"), 31, "{context}");
    assert!(
        warned(&near, "time to live") || warned(&far, "time to live"),
        "{context}"
    );
}

cases!(
    two_reflectors_pass_a_packet_to_and_fro_until_its_time_to_live_is_used_up:
    udp = ("udp", "udp"),
    io_uring = ("io_uring", "io_uring"),
    af_packet = ("af_packet", "af_packet"),
    af_xdp = ("af_xdp", "af_xdp"),
    xdp = ("xdp", "xdp"),
    dpdk = ("dpdk", "dpdk"),
    udp_xdp = ("udp", "xdp"),
    af_packet_udp = ("af_packet", "udp"),
    xdp_af_xdp = ("xdp", "af_xdp"),
    io_uring_xdp = ("io_uring", "xdp"),
    udp_io_uring = ("udp", "io_uring"),
);

fn what_an_echo_server_returns_is_stopped(path: &str) {
    if missing("python3", "python3") {
        return;
    }
    if path == "dpdk" && no_dpdk() {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let scratch = Scratch::new();
    let (reflector, to) = reflector(&net, Host::B, path, &scratch);
    let mut all = 0;
    for (i, (n, kind)) in [
        (1, "same"),
        (1, "stamped"),
        (40, "same"),
        (40, "stamped"),
        (1, "empty"),
        (40, "empty"),
    ]
    .into_iter()
    .enumerate()
    {
        // Another port each time, since the reflector knows each then.
        let port = 7 + i as u16;
        let mut command = inside(&net.lab, Host::A, "python3 -c");
        command.args([ECHO_SERVER, "10.99.0.1", &port.to_string()]);
        let echo = Background::start(command).wait_to_hear("ready");
        let before = received(&scratch).0;
        forge(&net, Host::A, ("10.99.0.1", port), to, n, kind, 64);
        wait_until("packets that come back", || received(&scratch).0 > before);
        quiet(&scratch);
        let rounds = received(&scratch).0 - before;
        assert!(rounds <= MOST * n, "{path}: {n} {kind}: {rounds}");
        // The server has nothing more to return, and did not stop by itself.
        let returned: u64 = echo.stderr().lines().last().and_then(|n| n.parse().ok()).unwrap_or(0);
        assert!(returned > 10 && returned <= MOST * n, "{path}: {n} {kind}: {returned}");
        let mut echo = echo;
        assert!(echo.running(), "{path}: {}", echo.stderr());
        all += n;
    }
    let report = end(reflector, &scratch);
    let (returned, probed) = (report.reason("returned"), report.reason("probed"));
    assert!(returned + probed >= all, "{path}: {:#}", report.json);
    assert!(warned(&report, "returns what it is sent"), "{path}: {:#}", report.json);
}

cases!(
    what_an_echo_server_returns_is_stopped:
    udp = "udp",
    io_uring = "io_uring",
    af_packet = "af_packet",
    af_xdp = "af_xdp",
    xdp = "xdp",
    dpdk = "dpdk",
);

fn who_repeats_himself_is_answered_from_the_reflectors_own_port_too(path: &str) {
    if missing("python3", "python3") {
        return;
    }
    if path == "dpdk" && no_dpdk() {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let scratch = Scratch::new();
    let (reflector, to) = reflector(&net, Host::B, path, &scratch);
    let mut all = 0;
    // One sender with many packets on their way, then two that wait for each answer. Each probe takes twice as many
    // packets as the one before.
    for (port, n, window, size, odd) in [
        (9000, 20_000, 32, 18, 11),
        (9000, 5_000, 1, 18, 9),
        (4444, 300, 1, 0, 8),
    ] {
        let words = [port, 0, 9000, n, window, size, odd].map(|n: u64| n.to_string());
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words[1] = to;
        assert!(net.python(Host::A, REPEAT, &words), "{path}");
        all += n;
    }
    let report = end(reflector, &scratch);
    assert!(report.count("rx_packets") >= all - 30, "{path}: {:#}", report.json);
    assert_eq!(report.reason("returned"), 0, "{path}: {:#}", report.json);
    assert!(report.reason("probed") <= 30, "{path}: {:#}", report.json);
    assert!(warned(&report, "got a probe"), "{path}: {:#}", report.json);
}

cases!(
    who_repeats_himself_is_answered_from_the_reflectors_own_port_too:
    udp = "udp",
    io_uring = "io_uring",
    af_packet = "af_packet",
    af_xdp = "af_xdp",
    xdp = "xdp",
    dpdk = "dpdk",
);

fn a_reflector_does_not_answer_itself_nor_everybody(path: &str) {
    if missing("python3", "python3") {
        return;
    }
    if path == "dpdk" && no_dpdk() {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let scratch = Scratch::new();
    let (reflector, to) = reflector(&net, Host::B, path, &scratch);
    // On its own host nothing but a raw socket can pretend to be the reflector.
    let from = if ["udp", "io_uring"].contains(&path) {
        Host::B
    } else {
        Host::A
    };
    // The broadcast address of the reflector's subnet is known where the device has an address.
    let broadcast = if path == "dpdk" {
        "255.255.255.255"
    } else {
        "10.99.0.255"
    };
    forge(&net, from, (to, 9000), to, 3, "same", 64);
    forge(&net, Host::A, (broadcast, 7), to, 3, "same", 64);
    // The host's stack drops these itself, and for DPDK the device's subnet is unknown.
    let nobodys: &[&str] = match path {
        "udp" | "io_uring" => &[],
        "dpdk" => &["0.1.2.3", "240.0.0.1"],
        _ => &["0.1.2.3", "240.0.0.1", "10.99.0.0"],
    };
    for nobody in nobodys {
        forge(&net, Host::A, (nobody, 7), to, 1, "same", 64);
    }
    forge(&net, Host::A, ("10.99.0.1", 7), to, 2, "same", 1);
    // The last that is sent is the first that is turned.
    forge(&net, Host::A, ("10.99.0.1", 7777), to, 1, "same", 64);
    wait_until("the packet that is turned", || received(&scratch).0 >= 1);
    let report = end(reflector, &scratch);
    let context = format!("{path}: {:#}", report.json);
    assert_eq!(report.count("rx_packets"), 1, "{context}");
    assert_eq!(
        report.reason("own_source") + report.reason("bad_source"),
        6 + nobodys.len() as u64,
        "{context}"
    );
    assert_eq!(report.reason("ttl_expired"), 2, "{context}");
    assert!(warned(&report, "time to live"), "{context}");
}

cases!(
    a_reflector_does_not_answer_itself_nor_everybody:
    udp = "udp",
    io_uring = "io_uring",
    af_packet = "af_packet",
    af_xdp = "af_xdp",
    xdp = "xdp",
    dpdk = "dpdk",
);

fn a_reflector_with_a_range_behind_a_router_answers_none_of_its_own_addresses(port: &str) {
    if missing("python3", "python3") {
        return;
    }
    if port.starts_with("dpdk") && no_dpdk() {
        return;
    }
    let Some(net) = net_of(1) else { return };
    // Host a routes the whole range to host b, from any source.
    net.on(
        Host::A,
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.eth1.rp_filter=0",
    );
    net.on(
        Host::A,
        "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth1.send_redirects=0",
    );
    net.on(Host::A, "ip route add 198.18.2.0/24 dev eth1");
    let scratch = Scratch::new();
    let words = format!("reflect {port} --ip 198.18.2.1-198.18.2.9 --port 9000");
    let reflector = listen_by(&scratch, net.b(&words));
    for (from, to) in [("198.18.2.3", "198.18.2.5"), ("198.18.2.9", "198.18.2.1")] {
        forge(&net, Host::A, (from, 9000), to, 3, "same", 64);
    }
    // The last that is sent is the first that is turned, and the one behind the range is anybody's.
    forge(&net, Host::A, ("198.18.2.10", 7777), "198.18.2.5", 1, "same", 64);
    wait_until("the packet that is turned", || received(&scratch).0 >= 1);
    let report = end(reflector, &scratch);
    assert_eq!(report.reason("own_source"), 6, "{port}: {:#}", report.json);
    assert_eq!(report.count("rx_packets"), 1, "{port}: {:#}", report.json);
    assert_eq!(report.count("tx_packets"), 1, "{port}: {:#}", report.json);
}

cases!(
    a_reflector_with_a_range_behind_a_router_answers_none_of_its_own_addresses:
    af_packet = "af_packet:eth1",
    af_xdp = "af_xdp:eth1",
    xdp = "xdp:eth1",
    dpdk = "dpdk:net_af_packet0,iface=eth1",
);

fn a_reflector_on_loopback_does_not_answer_itself_but_all_others(listen: &str) {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let scratch = Scratch::new();
    let reflector = listen_by(&scratch, net.b(&format!("reflect {listen}")));
    forge(&net, Host::B, ("127.0.0.1", 9000), "127.0.0.1", 3, "same", 64);
    forge(&net, Host::B, ("127.0.0.1", 9001), "127.0.0.1", 1, "same", 64);
    wait_until("the packet that is turned", || received(&scratch).0 >= 1);
    let report = end(reflector, &scratch);
    assert_eq!(report.count("rx_packets"), 1, "{listen}: {:#}", report.json);
    assert_eq!(report.reason("own_source"), 3, "{listen}: {:#}", report.json);
}

cases!(
    a_reflector_on_loopback_does_not_answer_itself_but_all_others:
    udp = "udp:127.0.0.1:9000",
    udp_any = "udp:0.0.0.0:9000",
    io_uring = "io_uring:127.0.0.1:9000",
    io_uring_any = "io_uring:0.0.0.0:9000",
);

#[test]
fn what_was_sent_to_everybody_gets_no_answer() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let scratch = Scratch::new();
    let reflector = listen_by(&scratch, net.b("reflect udp:0.0.0.0:9000"));
    const SHOUT: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
for to in ["10.99.0.255", "255.255.255.255", "10.99.0.2"]:
    s.sendto(b"hello", (to, 9000))
"#;
    net.on(Host::A, "ip route add 255.255.255.255 dev eth1");
    assert!(net.python(Host::A, SHOUT, &[]));
    wait_until("the packet that is turned", || received(&scratch).0 >= 1);
    let report = end(reflector, &scratch);
    assert_eq!(report.count("rx_packets"), 1, "{:#}", report.json);
    assert_eq!(report.reason("multicast"), 2, "{:#}", report.json);
}
