//! `forward` between two links and on one: every frame arrives, rewritten as asked and bit for bit the same otherwise,
//! and each is accounted for at the port where it came in or should have left.

use mpps_host::lab::Host;
use mpps_tests::{Background, Net, Report, Scratch, arrived, net_of, run, run_command, wait_until};
use rustix::process::Signal;

/// Sends frames of random kinds and sizes from interfaces of host a, receives what comes back, and compares hashes with
/// what should. `sys.argv`: mode, frames each way, interfaces sent from, interfaces received on, whether order matters,
/// destination MAC addresses of l2fwd by interface received on, largest frame.
const EXCHANGE: &str = r#"
import hashlib, random, select, socket, struct, sys, time
mode, n, ordered = sys.argv[1], int(sys.argv[2]), sys.argv[5] == "ordered"
froms, tos = sys.argv[3].split(","), sys.argv[4].split(",")
macs = [bytes.fromhex(m.replace(":", "")) for m in sys.argv[6].split(",") if m]
largest = int(sys.argv[7])
random.seed(11)
links = {}
for name in set(froms + tos):
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    link.setsockopt(263, 23, 1)                             # SOL_PACKET, PACKET_IGNORE_OUTGOING
    link.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)        # SO_RCVBUFFORCE
    link.setsockopt(263, 1, struct.pack("=iHH8s", socket.if_nametoindex(name), 1, 0, b""))  # PACKET_MR_PROMISC
    link.bind((name, 3))
    link.setblocking(False)
    links[name] = link
def mac(): return bytes([2]) + random.randbytes(5)
def frame():
    size, kind = random.randint(60, largest), random.randrange(6)
    ends = mac() + mac()
    ip4 = bytes([198, 18, 0, random.randrange(1, 255), 198, 19, 0, random.randrange(1, 255)])
    ip6 = bytes.fromhex("20010db8") + random.randbytes(12) + bytes.fromhex("20010db8") + random.randbytes(12)
    rest = random.randbytes(size)
    if kind == 0: head = b"\x88\xb5"
    elif kind == 1: head = b"\x08\x06" + bytes([0, 1, 8, 0, 6, 4, 0, 1]) + mac() + ip4[:4] + bytes(6) + ip4[4:]
    elif kind in (2, 3):
        head = struct.pack("!HBBHHHBBH", 0x0800, 0x45, 0, size - 14, 7, 0, 64, (17, 6)[kind - 2], 0x1234) + ip4
    else:
        head = struct.pack("!HIHBB", 0x86dd, 6 << 28, size - 54, (17, 6)[kind - 4], 64) + ip6
    return kind, (ends + head + rest)[:size]
def expected(kind, f, out):
    if mode == "io": return f
    if mode == "l2fwd": return macs[out] + own[out] + f[12:]
    f = f[6:12] + f[:6] + f[12:]
    if mode == "5tswap" and kind in (2, 3):
        f = f[:26] + f[30:34] + f[26:30] + f[36:38] + f[34:36] + f[38:]
    elif mode == "5tswap" and kind in (4, 5):
        f = f[:22] + f[38:54] + f[22:38] + f[56:58] + f[54:56] + f[58:]
    return f
own = [bytes.fromhex(m.replace(":", "")) for m in sys.argv[8].split(",") if m] if len(sys.argv) > 8 else []
want, got = [[] for _ in froms], [[] for _ in froms]
deadline = time.monotonic() + 40
def collect(until):
    while any(len(g) < until for g in got):
        ready, _, _ = select.select([links[t] for t in tos], [], [], max(0, deadline - time.monotonic()))
        if not ready: sys.exit("received %s of %d" % ([len(g) for g in got], until))
        for i, t in enumerate(tos):
            while True:
                try: got[i].append(links[t].recv(65536))
                except BlockingIOError: break
sent = 0
while sent < n:
    batch = min(64, n - sent)
    for _ in range(batch):
        for i, f in enumerate(froms):
            kind, data = frame()
            want[i].append(expected(kind, data, i))
            links[f].send(data)
    sent += batch
    collect(sent)
def digest(frames):
    frames = frames if ordered else sorted(frames)
    return hashlib.sha256(b"".join(struct.pack("!I", len(f)) + f for f in frames)).hexdigest()
for i in range(len(froms)):
    if digest(want[i]) != digest(got[i]):
        first = next(k for k, (w, g) in enumerate(zip(want[i], got[i])) if w != g)
        sys.exit("way %d frame %d: want %s got %s" % (i, first, want[i][first][:70].hex(), got[i][first][:70].hex()))
"#;

const EACH_WAY: u64 = 3000;

/// Two hosts with two links between them, eth1 and eth2, and no chatter of their own on either.
fn two_links(queues: u32) -> Option<Net> {
    let net = net_of(queues)?;
    let b = net.lab.namespace(Host::B);
    let peer = format!("ip link add eth2 numrxqueues {queues} numtxqueues {queues} type veth");
    let peer = format!("{peer} peer name eth2 netns {b} numrxqueues {queues} numtxqueues {queues}");
    for host in [Host::A, Host::B] {
        net.on(
            host,
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
        );
    }
    net.on(Host::A, &peer);
    for host in [Host::A, Host::B] {
        net.on(host, "ip link set eth2 up");
        // A host that sees a packet for another host must not forward it as well.
        net.on(host, "sysctl -qw net.ipv4.ip_forward=0");
    }
    Some(net)
}

/// Starts a forwarder on host b with its results in `scratch`, and waits until it runs.
fn forward(net: &Net, scratch: &Scratch, words: &str) -> Background {
    let forwarder = Background::start(scratch.results(net.b(&format!("forward {words} --quiet"))));
    wait_until("a row of the forwarder", || scratch.rows_so_far() > 0);
    forwarder
}

fn mac_of(net: &Net, host: Host, device: &str) -> String {
    net.on(host, &format!("cat /sys/class/net/{device}/address"))
        .stdout
        .trim()
        .to_owned()
}

/// Ends the forwarder; what it counted at its ports, each of which accounts for every frame taken.
fn accounted(forwarder: Background, scratch: &Scratch) -> Report {
    let report = scratch.read(forwarder.end(Signal::INT));
    assert_balanced(&report);
    report
}

fn assert_balanced(report: &Report) {
    report.assert_rows_add_up();
    let ports = report.json["ports"].as_array().expect("ports");
    let sum = |key: &str| ports.iter().map(|p| p[key].as_u64().expect("a count")).sum::<u64>();
    assert_eq!(sum("rx_packets"), report.count("rx_packets"), "{:#}", report.json);
    assert_eq!(sum("tx_packets"), report.count("tx_packets"), "{:#}", report.json);
    let reasons = report.json["reasons"].as_object().expect("reasons");
    let dropped = reasons.iter().filter(|(why, _)| *why != "not_taken");
    let dropped: u64 = dropped.map(|(_, n)| n.as_u64().expect("a count")).sum();
    assert_eq!(
        report.count("rx_packets"),
        report.count("tx_packets") + dropped,
        "{:#}",
        report.json
    );
    assert_eq!(
        report.lanes("tx_packets"),
        report.count("tx_packets"),
        "{:#}",
        report.json
    );
    for lane in report.json["lanes"].as_array().expect("lanes") {
        let busy = lane["busy_ratio"].as_f64().expect("a ratio");
        assert!((0.0..=1.0).contains(&busy), "{lane:#}");
        let full = &lane["at_full_load"];
        assert!(
            full["rx_pps"].as_f64() > Some(0.0) && full["not_known"].is_null(),
            "{lane:#}"
        );
    }
}

fn port(report: &Report, place: usize, key: &str) -> u64 {
    report.count(&format!("/ports/{place}/{key}"))
}

/// Exchanges frames between eth1 and eth2 of host a, both ways at once.
fn exchange(net: &Net, mode: &str, order: &str, macs: &str, own: &str, largest: &str) -> bool {
    let n = EACH_WAY.to_string();
    let words = [mode, &n, "eth1,eth2", "eth2,eth1", order, macs, largest, own];
    net.python(Host::A, EXCHANGE, &words)
}

#[test]
fn frames_of_any_kind_and_size_arrive_rewritten_as_asked_both_ways_at_once() {
    let Some(net) = two_links(1) else { return };
    let out = "02:00:00:00:00:a1,02:00:00:00:00:a2";
    let own = [mac_of(&net, Host::B, "eth1"), mac_of(&net, Host::B, "eth2")];
    for mode in ["io", "macswap", "5tswap", "l2fwd"] {
        let scratch = Scratch::new();
        let macs = if mode == "l2fwd" {
            format!("--dest-mac {out}")
        } else {
            String::new()
        };
        let words = format!("af_packet:eth1 af_packet:eth2 --mode {mode} {macs}");
        let forwarder = forward(&net, &scratch, &words);
        // What is received on eth2 has left by the second port.
        let (macs, own) = ("02:00:00:00:00:a2,02:00:00:00:00:a1", format!("{},{}", own[1], own[0]));
        if !exchange(&net, mode, "ordered", macs, &own, "1514") {
            return;
        }
        let report = accounted(forwarder, &scratch);
        assert_eq!(report.finished.code, Some(0), "{mode}: {}", report.said());
        for place in 0..2 {
            assert_eq!(
                port(&report, place, "rx_packets"),
                EACH_WAY,
                "{mode}: {:#}",
                report.json
            );
            assert_eq!(
                port(&report, place, "tx_packets"),
                EACH_WAY,
                "{mode}: {:#}",
                report.json
            );
            assert!(
                port(&report, place, "rx_bytes") >= 60 * EACH_WAY,
                "{mode}: {:#}",
                report.json
            );
        }
    }
}

#[test]
fn lanes_for_each_direction_lose_mix_up_and_change_nothing() {
    let Some(net) = two_links(2) else { return };
    for (words, order) in [
        ("--split-directions", "ordered"),
        ("--split-directions --lanes 2", "any order"),
        ("--lanes 2", "any order"),
    ] {
        let scratch = Scratch::new();
        let forwarder = forward(&net, &scratch, &format!("af_packet:eth1 af_packet:eth2 {words}"));
        if !exchange(&net, "io", order, "", "", "1514") {
            return;
        }
        let report = accounted(forwarder, &scratch);
        assert_eq!(report.count("tx_packets"), 2 * EACH_WAY, "{words}: {:#}", report.json);
    }
}

#[test]
fn one_link_gets_its_frames_back_and_a_loop_behind_it_copies_them_whole() {
    let Some(net) = two_links(1) else { return };
    for (words, mode) in [
        ("af_packet:eth1", "macswap"),
        ("af_packet:eth1 --mode 5tswap", "5tswap"),
        ("af_packet:eth1 loop:", "io"),
    ] {
        let scratch = Scratch::new();
        let forwarder = forward(&net, &scratch, words);
        let n = EACH_WAY.to_string();
        if !net.python(Host::A, EXCHANGE, &[mode, &n, "eth1", "eth1", "ordered", "", "1514"]) {
            return;
        }
        let report = accounted(forwarder, &scratch);
        assert_eq!(port(&report, 0, "rx_packets"), EACH_WAY, "{words}: {:#}", report.json);
        assert_eq!(port(&report, 0, "tx_packets"), EACH_WAY, "{words}: {:#}", report.json);
    }
}

/// Sends datagrams to a port of host b that is closed, one by one: each is answered by b's own stack.
const REFUSED: &str = r#"
import socket
for _ in range(3):
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.settimeout(20)
    udp.connect(("10.99.0.2", 9))
    udp.send(b"anybody?")
    try: udp.recv(1)
    except ConnectionRefusedError: continue
    raise SystemExit("answered?")
"#;

#[test]
fn what_is_for_the_hosts_own_addresses_is_left_to_it() {
    let Some(net) = two_links(1) else { return };
    let scratch = Scratch::new();
    let forwarder = forward(&net, &scratch, "af_packet:eth1 af_packet:eth2");
    if !net.python(Host::A, REFUSED, &[]) {
        return;
    }
    // What is not taken is in no row: the lane has had its turn when some more have closed.
    let rows = scratch.rows_so_far();
    wait_until("more rows", || scratch.rows_so_far() >= rows + 3);
    let report = accounted(forwarder, &scratch);
    assert!(report.reason("not_taken") >= 3, "{:#}", report.json);
    assert_eq!(report.count("tx_packets"), 0, "{:#}", report.json);
    // The same, all taken: the host answers its copy, and the frames go on as well.
    let scratch = Scratch::new();
    let forwarder = forward(&net, &scratch, "af_packet:eth1 af_packet:eth2 --take all");
    net.python(Host::A, REFUSED, &[]);
    wait_until("the datagrams", || scratch.received_so_far() >= 3);
    let report = accounted(forwarder, &scratch);
    assert!(
        report.count("tx_packets") >= 3 && report.reason("not_taken") == 0,
        "{:#}",
        report.json
    );
}

#[test]
fn stamped_packets_pass_verified_and_others_than_those_asked_for_do_not() {
    let Some(net) = two_links(1) else { return };
    let (scratch, there, here) = (Scratch::new(), Scratch::new(), Scratch::new());
    let forwarder = forward(
        &net,
        &scratch,
        "af_packet:eth1 af_packet:eth2 --ip 10.99.0.99 --port 9000",
    );
    let words = "drop af_packet:eth2,promisc=on --ip 10.99.0.99 --port 9000-9001 --quiet";
    let receiver = Background::start(there.results(net.a(words)));
    wait_until("a row of the receiver", || there.rows_so_far() > 0);
    let send = "send af_packet:eth1 --src 10.99.0.1 --dest-mac 02:00:00:00:00:99 --rate 5kpps --duration 500ms --quiet";
    let sent = here
        .measure(net.a(&format!("{send} --dest 10.99.0.99:9000")))
        .count("tx_packets");
    let others = Scratch::new();
    let others = others
        .measure(net.a(&format!("{send} --dest 10.99.0.99:9001")))
        .count("tx_packets");
    // What was sent may lie in the rings of either until it is given a core.
    arrived(&there, sent);
    let forwarded = accounted(forwarder, &scratch);
    let received = there.read(receiver.end(Signal::INT));
    assert_eq!(forwarded.count("tx_packets"), sent, "{:#}", forwarded.json);
    assert!(forwarded.reason("not_taken") >= others, "{:#}", forwarded.json);
    assert_eq!(received.count("rx_packets"), sent, "{:#}", received.json);
    assert_eq!(
        (received.count("lost"), received.count("corrupt")),
        (0, 0),
        "{:#}",
        received.json
    );
}

/// Sends a UDP datagram and a TCP segment through the host's own stack, which leaves their checksums to the device, and
/// verifies what arrives on eth2; then a tagged frame of the largest size.
const STACK: &str = r#"
import socket, struct, sys, time
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.setsockopt(263, 23, 1)
link.bind(("eth2", 3))
link.settimeout(20)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.sendto(b"odd", ("10.99.0.77", 9000))
tcp = socket.socket()
tcp.setblocking(False)
tcp.connect_ex(("10.99.0.77", 9001))
def total(b):
    b += bytes(len(b) % 2)
    s = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    while s >> 16: s = (s & 0xffff) + (s >> 16)
    return s
seen = set()
while seen != {6, 17}:
    f = link.recv(65536)
    if f[12:14] != b"\x08\x00" or f[30:34] != bytes([10, 99, 0, 77]): continue
    segment = f[34:14 + struct.unpack("!H", f[16:18])[0]]
    pseudo = f[26:34] + bytes([0, f[23]]) + struct.pack("!H", len(segment))
    assert total(pseudo + segment) == 0xffff, f.hex()
    seen.add(f[23])
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind(("eth1", 0))
tagged = bytes.fromhex("020000000007") + bytes.fromhex("020000000008") + bytes.fromhex("8100606488b5") + bytes(1500)
raw.send(tagged)
while True:
    data, notes, _, _ = link.recvmsg(65536)
    # The kernel takes the tag out of what it shows: what is left is the length without it.
    if data[12:14] in (b"\x88\xb5", b"\x81\x00") and len(data) in (1514, 1518): break
"#;

#[test]
fn checksums_that_a_host_left_to_its_device_are_completed_and_a_tag_is_no_reason_to_drop() {
    let Some(net) = two_links(1) else { return };
    net.on(Host::A, "ip neigh replace 10.99.0.77 lladdr 02:00:00:00:00:77 dev eth1");
    let scratch = Scratch::new();
    let forwarder = forward(&net, &scratch, "af_packet:eth1 af_packet:eth2");
    if !net.python(Host::A, STACK, &[]) {
        return;
    }
    let report = accounted(forwarder, &scratch);
    assert!(report.count("tx_packets") >= 3, "{:#}", report.json);
    assert_eq!(
        report.reason("open_checksum") + report.reason("too_long"),
        0,
        "{:#}",
        report.json
    );
}

/// Sends so many frames of so many bytes from an interface.
const BURST: &str = r#"
import socket, sys
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind((sys.argv[1], 0))
for _ in range(int(sys.argv[2])):
    raw.send((bytes.fromhex("020000000007020000000008") + b"\x88\xb5" + bytes(1600))[:int(sys.argv[3])])
"#;

#[test]
fn frames_too_long_for_the_second_port_are_dropped_and_counted_there() {
    let Some(net) = two_links(1) else { return };
    net.on(Host::B, "ip link set eth2 mtu 1000");
    for words in ["af_packet:eth1 af_packet:eth2", "af_packet:eth1 loop:mtu=1000"] {
        let scratch = Scratch::new();
        let forwarder = forward(&net, &scratch, words);
        for size in ["1014", "1015", "1514"] {
            if !net.python(Host::A, BURST, &["eth1", "7", size]) {
                return;
            }
        }
        wait_until("the frames", || scratch.received_so_far() >= 21);
        let report = accounted(forwarder, &scratch);
        assert_eq!(port(&report, 0, "rx_packets"), 21, "{words}: {:#}", report.json);
        assert_eq!(port(&report, 1, "tx_packets"), 7, "{words}: {:#}", report.json);
        assert_eq!(port(&report, 1, "reasons/too_long"), 14, "{words}: {:#}", report.json);
    }
}

#[test]
fn a_port_that_goes_down_costs_what_is_for_it_and_nothing_else() {
    let Some(net) = two_links(1) else { return };
    let scratch = Scratch::new();
    let mut forwarder = forward(&net, &scratch, "af_packet:eth1 af_packet:eth2 --interval 20ms");
    if !exchange(&net, "io", "ordered", "", "", "200") {
        return;
    }
    net.on(Host::B, "ip link set eth2 down");
    net.python(Host::A, BURST, &["eth1", "100", "60"]);
    wait_until("all frames of when the port is down", || {
        scratch.received_so_far() >= 2 * EACH_WAY + 100
    });
    net.on(Host::B, "ip link set eth2 up");
    wait_until("the carrier", || mac_carrier(&net));
    assert!(forwarder.running(), "{}", forwarder.stderr());
    assert!(exchange(&net, "io", "ordered", "", "", "200"));
    let report = accounted(forwarder, &scratch);
    assert_eq!(port(&report, 0, "tx_packets"), 2 * EACH_WAY, "{:#}", report.json);
    assert_eq!(port(&report, 1, "tx_packets"), 2 * EACH_WAY, "{:#}", report.json);
    assert_eq!(port(&report, 0, "rx_packets"), 2 * EACH_WAY + 100, "{:#}", report.json);
    assert!(report.said().contains("down"), "{}", report.said());
}

/// Whether both ends of the second link are up.
fn mac_carrier(net: &Net) -> bool {
    [Host::A, Host::B].iter().all(|host| {
        let mut command = mpps_tests::inside(&net.lab, *host, "cat /sys/class/net/eth2/carrier");
        command.stdin(std::process::Stdio::null());
        run_command(command).stdout.trim() == "1"
    })
}

#[test]
fn a_port_that_vanishes_ends_the_run_with_everything_counted_until_then() {
    let Some(net) = two_links(1) else { return };
    let scratch = Scratch::new();
    let mut forwarder = forward(&net, &scratch, "af_packet:eth1 af_packet:eth2");
    if !exchange(&net, "io", "ordered", "", "", "200") {
        return;
    }
    net.on(Host::B, "ip link delete eth2");
    wait_until("the end of the run", || !forwarder.running());
    let report = scratch.read(forwarder.finish());
    assert_balanced(&report);
    assert_eq!(report.finished.code, Some(3), "{}", report.said());
    assert_eq!(report.count("tx_packets"), 2 * EACH_WAY, "{:#}", report.json);
    assert!(report.said().contains("vanished"), "{}", report.said());
}

#[test]
fn contradictions_are_refused_in_one_line() {
    let mac = "02:00:00:00:00:01";
    let table: [(String, &[&str]); 15] = [
        (String::new(), &["<PORT>"]),
        ("udp:127.0.0.1".into(), &["udp:127.0.0.1", "Ethernet"]),
        ("io_uring:127.0.0.1".into(), &["io_uring:127.0.0.1", "Ethernet"]),
        ("null: udp:127.0.0.1".into(), &["udp:127.0.0.1", "Ethernet"]),
        ("null:layer=payload".into(), &["layer=payload", "Ethernet"]),
        ("af_packet:lo af_packet:lo".into(), &["af_packet:lo", "first port"]),
        ("null: --mode swap".into(), &["swap", "io, macswap, 5tswap, l2fwd"]),
        ("null: --mode l2fwd".into(), &["l2fwd", "--dest-mac"]),
        (format!("null: --dest-mac {mac}"), &["--dest-mac", "l2fwd"]),
        (
            format!("null: --mode l2fwd --dest-mac {mac},{mac}"),
            &["--dest-mac", "one port"],
        ),
        (
            "null: null: --mode l2fwd --dest-mac ff:ff:ff:ff:ff:ff".into(),
            &["ff:ff", "one station"],
        ),
        ("null: --split-directions".into(), &["--split-directions", "two ports"]),
        ("loop: null: --split-directions".into(), &["--split-directions", "loop"]),
        (
            "null: --take foreign --port 9".into(),
            &["--take foreign", "--take udp"],
        ),
        ("af_packet:lo,csum=device null:".into(), &["csum=device"]),
    ];
    for (words, parts) in &table {
        let finished = run(&format!("forward {words} --duration 50ms"));
        let context = format!("{words}: {:?} {}", finished.code, finished.stderr);
        assert_eq!(finished.code, Some(2), "{context}");
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{context}");
        assert!(
            parts.iter().all(|part| finished.stderr.contains(part)),
            "{parts:?}: {context}"
        );
    }
}
