//! The udp path over the loopback interface: both ends are ours, each end's numbers must agree with the other's.

use mpps_tests::{
    Background, Net, Report, Scratch, all_there_by, arrived, assert_refused, free_port, mpps, net_of, skip,
    source_ports, wait_until,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// A loopback address as it stands in a port or a destination, in front of the UDP port.
const ADDRESSES: [&str; 2] = ["127.0.0.1", "[::1]"];

/// Runs `sendrecv` against `reflect`; both reports.
fn round_trip(address: &str, more: &str, listener: &str) -> (Report, Report) {
    let more = &more.replace("PORTS", &source_ports(if more.contains("sockets") { 50 } else { 8 }));
    let port = free_port();
    let (here, there) = (Scratch::new(), Scratch::new());
    let words = format!("reflect udp:{address}:{port}{listener} --quiet");
    let reflector = Background::start(there.results(mpps(&words)));
    wait_until("a row of the reflector", || there.rows_so_far() > 0);
    let (port_options, more) = more.split_once(' ').unwrap_or((more, ""));
    let words = format!(
        "sendrecv udp:{address}{port_options} --dest {address}:{port} --rate 20kpps --duration 300ms --settle 500ms \
         --quiet {more}"
    );
    let sent = here.measure(mpps(&words));
    let reflected = there.read(reflector.end(Signal::INT));
    sent.assert_accounted();
    reflected.assert_rows_add_up();
    (sent, reflected)
}

#[test]
fn every_packet_of_a_round_trip_is_accounted_for_at_both_ends() {
    for address in ADDRESSES {
        for (more, listener) in [
            (" PORTS --flows 1", ""),
            (" --lanes 2 PORTS", " --lanes 2"),
            (" PORTS --tx-lanes 1 --rx-lanes 1 --payload-size 1400", ""),
            (
                ",gso=on,gro=on PORTS --flows 1 --payload-size 200 --pacing burst=32",
                ",gso=on,gro=on",
            ),
            (",sockets=3 PORTS --interval 1ms", " --interval 1ms"),
        ] {
            let (sent, reflected) = round_trip(address, more, listener);
            let context = format!("{address}{more}: {:#} {:#}", sent.json, reflected.json);
            assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{context}");
            assert_eq!(reflected.count("rx_packets"), sent.count("tx_packets"), "{context}");
            assert_eq!(reflected.count("tx_packets"), sent.count("rx_packets"), "{context}");
            for count in ["duplicates", "corrupt", "foreign", "late", "lost"] {
                assert_eq!(sent.count(count), 0, "{count}: {context}");
            }
        }
    }
}

#[test]
fn a_packet_of_what_a_socket_can_say_makes_a_round_trip() {
    for (path, address, ip) in [
        ("udp", "127.0.0.1", "ipv4"),
        ("udp", "[::1]", "ipv6"),
        ("io_uring", "127.0.0.1", "ipv4"),
    ] {
        let port = free_port();
        let (here, there) = (Scratch::new(), Scratch::new());
        let words = format!("reflect udp:{address}:{port} --quiet");
        let reflector = Background::start(there.results(mpps(&words)));
        wait_until("a row of the reflector", || there.rows_so_far() > 0);
        let mut command = mpps(&format!(
            "sendrecv {path}: --rate 5kpps --duration 300ms --settle 500ms --frame-size 200 --catch-up 10s --quiet"
        ));
        let bare = address.trim_matches(['[', ']']);
        let first = source_ports(4).replace("--src-port-range ", "").replace('-', "..");
        command
            .arg("--packet")
            .arg(format!("eth / {ip} dst={bare} / udp src={first} dst={port}"));
        let sent = here.measure(command);
        let reflected = there.read(reflector.end(Signal::INT));
        let counts = ["tx_packets", "rx_packets", "lost", "foreign"].map(|key| sent.count(key));
        assert_eq!(counts, [1500, 1500, 0, 0], "{path} {ip}: {:#}", sent.json);
        assert_eq!(reflected.count("rx_packets"), 1500, "{path} {ip}");
    }
}

#[test]
fn what_a_socket_cannot_say_is_refused_by_its_name() {
    for (words, needle) in [
        ("--scale 50% --rate 1kpps", "--scale 50%: on port 'udp:': want --rate"),
        ("--ttl 3", "--ttl: beside --packet"),
        ("--vlan 3", "--vlan: beside --packet"),
    ] {
        let mut command = mpps(&format!("sendrecv udp: {words}"));
        command.args(["--packet", "eth / ipv4 dst=127.0.0.1 / udp dst=9"]);
        assert_refused(command, 2, &[needle]);
    }
    let scratch = Scratch::new();
    let file = scratch.file("one.toml");
    for (keys, words, needle) in [
        ("rate = '2kpps'", "--rate 5kpps", "--rate '5kpps': beside --traffic"),
        (
            "step = 'combine'\nflows = 300",
            "",
            "each of 300 flows takes a socket: want 256 at most",
        ),
        ("lanes = [1]\nflows = 9", "", "lanes: 1 does not send: want 0"),
    ] {
        let text = format!("[[stream]]\npacket = 'eth / ipv4 dst=127.0.0.1 / udp src=2000..2999 dst=9'\n{keys}\n");
        std::fs::write(&file, text).expect("a file");
        let mut command = mpps(&format!("sendrecv udp: {words}"));
        command.arg("--traffic").arg(&file);
        assert_refused(command, 2, &[needle]);
    }
    for (packet, needle) in [
        ("eth / vlan / ipv4 dst=127.0.0.1 / udp", "want eth / ipv4 / udp"),
        (
            "eth dst=02:00:00:00:00:01 / ipv4 dst=127.0.0.1 / udp",
            "eth dst: want it left out",
        ),
        ("eth / ipv4 dst=127.0.0.1 id=3 / udp", "ipv4 id: want it left out"),
        (
            "eth / ipv4 dst=127.0.0.1 / udp dst=9 cksum=0",
            "udp cksum: want it left out",
        ),
        (
            "eth / ipv4 dst=127.0.0.1 / udp src=random(1..9)",
            "udp src: its values have no period, and each flow is a socket",
        ),
        ("eth / ipv4 / udp", "want dst= in ip"),
        ("eth / ipv4 dst=127.0.0.1 / udp", "want dst= in ip and in udp"),
    ] {
        let mut command = mpps("sendrecv udp:");
        command.args(["--packet", packet]);
        assert_refused(command, 2, &["--packet: on port 'udp:'", needle]);
    }
    for (port, packet, needle) in [
        (
            "udp:",
            "eth / ipv4 dst=127.0.0.1 ttl={0,1} / udp dst=9",
            "time to live 0: want 1 to 255",
        ),
        (
            "udp:",
            "eth / ipv4 dst=224.0.0.1 ecn=1 / udp dst=9",
            "dst 224.0.0.1:9: want an address of one host",
        ),
        (
            "udp:",
            "eth / ipv4 dst=127.0.0.1 ecn=1 / udp src=9 dst=9",
            "this run sends from there itself",
        ),
        (
            "udp:",
            "eth / ipv6 dst=fe80::7 ecn=2 / udp dst=9",
            "dst fe80::7: a link-local address",
        ),
        (
            "udp:",
            "eth / ipv4 src=192.0.2.1 dst=127.0.0.1 ecn=1 / udp dst=9",
            "this host does not have 192.0.2.1",
        ),
        (
            "udp:127.0.0.2",
            "eth / ipv4 src=127.0.0.1 dst=127.0.0.1 ecn=1 / udp dst=9",
            "ipv4 src 127.0.0.1: the port's address is 127.0.0.2",
        ),
        (
            "udp:127.0.0.1:5000",
            "eth / ipv4 dst=127.0.0.1 ecn=1 / udp src=5001 dst=9",
            "udp src 5001: the port names source port 5000",
        ),
    ] {
        let mut command = mpps(&format!("sendrecv {port}"));
        command.args(["--packet", packet]);
        assert_refused(command, 2, &["--packet", needle]);
    }
    let mut command = mpps("reflect udp:");
    command.args(["--packet", "eth"]);
    assert_refused(
        command,
        2,
        &["--packet: on port 'udp:': a socket returns all that comes to it"],
    );
}

/// Streams of all that sockets can send: sizes, classes, times to live, two with the same ends, and both families.
const STREAMS: &str = r#"
[[stream]]
name = "imix"
group = "load"
packet = "eth / ipv4 dst=127.0.0.1 dscp={0,10,46} / udp dst=PORT"
size = "imix"
rate = "2kpps"

[[stream]]
name = "probe"
packet = "eth / ipv4 dst=127.0.0.1 tos=0xb9 ttl=9 / udp src=SOURCE dst=PORT"
size = "128"
rate = "500pps"
pacing = "poisson"

[[stream]]
name = "same"
group = "load"
packet = "eth / ipv4 dst=127.0.0.1 ttl={60,61} / udp src=SOURCE dst=PORT"
size = "random(100..160)"
burst = { packets = 20, gap = "20ms", count = 10 }

[[stream]]
name = "six"
packet = "eth / ipv6 dst=::1 hop=3..5 / udp dst=PORT"
fill = "text:six"
rate = "1kpps"
packets = 100
start = "100ms"
"#;

/// Packets of each of [`STREAMS`] in a second.
const SENT: [(&str, u64); 4] = [("imix", 2000), ("probe", 500), ("same", 200), ("six", 100)];

/// Adds a file of streams to a command.
fn with_streams(mut command: Command, scratch: &Scratch, text: &str) -> Command {
    let file = scratch.file("streams.toml");
    std::fs::write(&file, text).expect("a file");
    command.arg("--traffic").arg(file);
    command
}

/// Returns the entry of a stream, a group or a size.
fn of<'r>(report: &'r Report, list: &str, name: &str) -> &'r Value {
    let mut all = report.json[list].as_array().expect("a list").iter();
    all.find(|one| one["name"] == name)
        .unwrap_or_else(|| panic!("{list} {name}: {:#}", report.json[list]))
}

#[test]
fn every_packet_of_every_stream_of_sockets_comes_back() {
    for (path, lanes) in [("udp", 1), ("udp", 2), ("io_uring", 1), ("io_uring", 2)] {
        let port = free_port();
        let (here, there, file) = (Scratch::new(), Scratch::new(), Scratch::new());
        let reflector = Background::start(there.results(mpps(&format!("reflect udp:[::]:{port} --quiet"))));
        wait_until("a row of the reflector", || there.rows_so_far() > 0);
        let text = STREAMS.replace("PORT", &port.to_string());
        let text = text.replace("SOURCE", &free_port().to_string());
        let words =
            format!("sendrecv {path}: --lanes {lanes} --duration 1s --settle 1s --settle-early --catch-up 10s --quiet");
        let sent = here.measure(with_streams(mpps(&words), &file, &text));
        let reflected = there.read(reflector.end(Signal::INT));
        sent.assert_accounted();
        sent.assert_rows_add_up();
        for (name, packets) in SENT {
            let of = of(&sent, "streams", name);
            let counts = ["tx_packets", "rx_packets", "lost", "duplicates", "reordered", "corrupt"].map(|key| &of[key]);
            assert_eq!(
                counts,
                [packets, packets, 0, 0, 0, 0].map(Value::from).each_ref(),
                "{path} {lanes}: {of:#}"
            );
            assert_eq!(of["latency_ns"]["count"], packets, "{path} {lanes}: {of:#}");
        }
        assert_eq!(of(&sent, "groups", "load")["rx_packets"], 2200, "{path} {lanes}");
        let sizes = sent.json["sizes"].as_array().expect("a list").iter();
        let sum: u64 = sizes.filter_map(|size| size["rx_packets"].as_u64()).sum();
        assert_eq!(
            sum,
            sent.count("rx_packets"),
            "{path} {lanes}: {:#}",
            sent.json["sizes"]
        );
        assert_eq!(
            reflected.count("tx_packets"),
            sent.count("rx_packets"),
            "{path} {lanes}"
        );
    }
}

#[test]
fn streams_of_sockets_share_a_rate_by_their_weights() {
    let port = free_port();
    let (here, there, file) = (Scratch::new(), Scratch::new(), Scratch::new());
    let reflector = Background::start(there.results(mpps(&format!("reflect udp:127.0.0.1:{port} --quiet"))));
    wait_until("a row of the reflector", || there.rows_so_far() > 0);
    let stream = |weight: u32, size: u32| {
        format!("[[stream]]\npacket = 'eth / ipv4 dst=127.0.0.1 / udp dst={port}'\nweight = {weight}\nsize = {size}\n")
    };
    let text = format!("{}{}", stream(1, 1518), stream(3, 64));
    let words = "sendrecv udp:,gso=on,gro=on --rate 4kpps --duration 500ms --settle-early --catch-up 10s --quiet";
    let sent = here.measure(with_streams(mpps(words), &file, &text));
    reflector.end(Signal::INT);
    sent.assert_accounted();
    for (list, name, packets) in [
        ("streams", "1", 500),
        ("streams", "2", 1500),
        ("sizes", "64", 1500),
        ("sizes", "1518", 500),
    ] {
        assert_eq!(
            of(&sent, list, name)["rx_packets"],
            packets,
            "{list} {name}: {:#}",
            sent.json
        );
    }
}

#[test]
fn a_socket_without_a_sender_counts_each_packet_for_its_stream() {
    let port = free_port();
    for (path, there) in [("udp", "udp"), ("io_uring", "io_uring"), ("udp", "udp")] {
        let file = Scratch::new();
        let text = STREAMS.replace("PORT", &port.to_string());
        let text = text
            .replace("SOURCE", &free_port().to_string())
            .replace("fill = \"text:six\"", "");
        // The run may end before.
        let text = text.replace("start = \"100ms\"", "");
        let drop = with_streams(mpps(&format!("drop {there}:[::]:{port}")), &file, &text);
        let send = with_streams(mpps(&format!("send {path}: --catch-up 10s")), &file, &text);
        let (sent, received) = all_there_by(drop, send);
        for (name, _) in SENT {
            let tx = &of(&sent, "streams", name)["tx_packets"];
            let came = of(&received, "streams", name);
            assert_eq!((&came["rx_packets"], &came["tx_packets"]), (tx, tx), "{path}: {came:#}");
            assert_eq!(
                (&came["lost"], &came["corrupt"]),
                (&0.into(), &0.into()),
                "{path}: {came:#}"
            );
        }
    }
}

/// Sends by sockets of host a to host b; the headers of the first packets that host b captured, as class, time to live
/// and flow label (0 over IPv4).
fn marks(net: &Net, packets: usize, send: Command) -> BTreeSet<(u8, u8, u32)> {
    let scratch = Scratch::new();
    let file = scratch.file("a.pcapng");
    let words = format!("capture af_packet:eth1 --port 9000 --count {packets} --quiet");
    let mut command = scratch.results(net.b(&words));
    command.arg("-o").arg(&file);
    let capture = Background::start(command);
    wait_until("a row of the capture", || scratch.rows_so_far() > 0);
    let sent = mpps_tests::run_command(send);
    assert!(matches!(sent.code, Some(0 | 3)), "{}", sent.stderr);
    assert_eq!(capture.finish().code, Some(0));
    let bytes = std::fs::read(file).expect("a file");
    let mut reader = PcapNgReader::new(&bytes[..]).expect("a section header");
    let mut marks = BTreeSet::new();
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.expect("a whole block") else {
            continue;
        };
        let frame = &packet.data;
        let word = u32::from_be_bytes([frame[14], frame[15], frame[16], frame[17]]);
        marks.insert(match word >> 28 {
            4 => (frame[15], frame[22], 0),
            _ => ((word >> 20) as u8, frame[21], word & 0xf_ffff),
        });
    }
    marks
}

#[test]
fn each_flow_of_a_socket_has_the_marks_of_its_packet() {
    let Some(net) = net_of(1) else { return };
    for path in ["udp", "io_uring"] {
        for (packet, want) in [
            (
                "eth / ipv4 dst=10.99.0.2 dscp={10,46} ecn=1 ttl={9,200} / udp dst=9000",
                vec![(41, 9, 0), (185, 200, 0)],
            ),
            // One pair of ends.
            (
                "eth / ipv4 dst=10.99.0.2 tos=0..3 / udp src=5000 dst=9000",
                (0..4).map(|tos| (tos, 64, 0)).collect(),
            ),
            (
                "eth / ipv6 dst=fd99::2 dscp=8 ecn=2 hop=7..9 flow=0x12345..0x12347 / udp dst=9000",
                (0..3).map(|n| (34, 7 + n, 0x12345 + u32::from(n))).collect(),
            ),
            ("eth / ipv6 dst=fd99::2 tc=5 flow=0 / udp dst=9000", vec![(5, 64, 0)]),
        ] {
            let mut send = net.a(&format!("send {path}: --count 24 --rate 1kpps --catch-up 10s -q"));
            send.args(["--packet", packet]);
            assert_eq!(marks(&net, 24, send), want.into_iter().collect(), "{path}: {packet}");
        }
        let mut large = net.a(&format!("send {path}: --frame-size 1520"));
        large.args(["--packet", "eth / ipv6 dst=fd99::2 tc=5 / udp dst=9000"]);
        assert_refused(large, 2, &["--frame-size 1520: above the MTU", "want 1518 at the most"]);
        // What the options say, and a packet of what they can say.
        let mut packet = net.a(&format!("send {path}: --count 24 --rate 1kpps --catch-up 10s -q"));
        packet.args(["--packet", "eth / ipv4 dst=10.99.0.2 ttl=7 dscp=46 / udp dst=9000"]);
        let words =
            format!("send {path}: --dest 10.99.0.2:9000 --dscp EF --ttl 7 --count 24 --rate 1kpps --catch-up 10s -q");
        for send in [net.a(&words), packet] {
            assert_eq!(marks(&net, 24, send), [(184, 7, 0)].into(), "{path}");
        }
        let words =
            format!("send {path}: --dest [fd99::2]:9000 --dscp 1 --ttl 8 --count 24 --rate 1kpps --catch-up 10s -q");
        let of_v6 = marks(&net, 24, net.a(&words));
        assert!(
            of_v6.iter().all(|(class, ttl, _)| (*class, *ttl) == (4, 8)),
            "{of_v6:?}"
        );
    }
}

#[test]
fn a_sender_without_an_address_sends_from_the_one_that_the_routes_choose() {
    for address in ADDRESSES {
        let port = free_port();
        let (here, there) = (Scratch::new(), Scratch::new());
        let words = format!("reflect udp:{address}:{port} --quiet");
        let reflector = Background::start(there.results(mpps(&words)));
        wait_until("a row of the reflector", || there.rows_so_far() > 0);
        let words = format!("sendrecv udp: --dest {address}:{port} --rate 5kpps --duration 100ms --quiet");
        let sent = here.measure(mpps(&words));
        reflector.end(Signal::INT);
        assert!(sent.count("tx_packets") > 0, "{:#}", sent.json);
        assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{:#}", sent.json);
    }
}

#[test]
fn busy_polling_of_sockets_works_or_names_the_missing_privilege() {
    let port = free_port();
    let finished = mpps_tests::run(&format!("drop udp:127.0.0.1:{port},busy_poll=50 --duration 50ms"));
    if finished.code == Some(1) {
        assert!(
            finished.stderr.contains("busy_poll=") && finished.stderr.contains("CAP_NET_ADMIN"),
            "{finished:?}"
        );
        return skip("SO_BUSY_POLL needs CAP_NET_ADMIN");
    }
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let (sent, reflected) = round_trip("127.0.0.1", ",busy_poll=50 PORTS", ",busy_poll=50");
    assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{:#}", sent.json);
    assert_eq!(
        reflected.count("rx_packets"),
        sent.count("tx_packets"),
        "{:#}",
        reflected.json
    );
}

#[test]
fn the_receiving_end_of_a_one_way_run_expects_what_was_sent() {
    for (address, sender, receiver) in [
        ("127.0.0.1", " PORTS", ""),
        ("[::1]", ",gso=on PORTS", ",gro=on"),
        ("127.0.0.1", " PORTS --lanes 2", " --lanes 2 --interval 10ms"),
    ] {
        let port = free_port();
        let (here, there) = (Scratch::new(), Scratch::new());
        let words = format!("drop udp:{address}:{port}{receiver} --quiet");
        let background = Background::start(there.results(mpps(&words)));
        wait_until("a row of the receiver", || there.rows_so_far() > 0);
        let (port_options, more) = sender.split_once(' ').unwrap_or((sender, ""));
        let words = format!(
            "send udp:{address}{port_options} --dest {address}:{port} --rate 20kpps --duration 400ms --quiet \
             --payload-size 300 {}",
            more.replace("PORTS", &source_ports(4))
        );
        let sent = here.measure(mpps(&words));
        sent.assert_accounted();
        assert!(
            sent.json["latency_ns"]["p50"].is_null(),
            "a sender measures no latency: {:#}",
            sent.json
        );
        arrived(&there, sent.count("tx_packets"));
        let received = there.read(background.end(Signal::INT));
        received.assert_rows_add_up();
        let context = format!("{:#} {:#}", sent.json, received.json);
        assert_eq!(
            received.count("tx_packets"),
            sent.count("tx_packets"),
            "expected: {context}"
        );
        assert_eq!(received.count("rx_packets"), sent.count("tx_packets"), "{context}");
        for count in ["duplicates", "corrupt", "foreign", "late", "lost"] {
            assert_eq!(received.count(count), 0, "{count}: {context}");
        }
        assert_eq!(
            received.count("/latency_ns/count"),
            received.count("rx_packets"),
            "{context}"
        );
        assert!(
            received.count("/latency_ns/min") > 0 && !received.json["latency_note"].is_null(),
            "{context}"
        );
    }
}

#[test]
fn a_seed_that_differs_at_the_two_ends_leaves_no_packet_that_counts_as_received() {
    let port = free_port();
    let (here, there) = (Scratch::new(), Scratch::new());
    let receiver = Background::start(there.results(mpps(&format!("drop udp:127.0.0.1:{port} --seed 2 --quiet"))));
    wait_until("a row of the receiver", || there.rows_so_far() > 0);
    let words = format!("send udp:127.0.0.1 --dest 127.0.0.1:{port} --rate 5kpps --duration 200ms --payload-size 64");
    let sent = here.measure(mpps(&format!("{words} --quiet --seed 1 {}", source_ports(1))));
    wait_until("all that was sent", || there.seen_so_far() >= sent.count("tx_packets"));
    let received = there.read(receiver.end(Signal::INT));
    received.assert_rows_add_up();
    assert_eq!(received.count("rx_packets"), 0, "{:#}", received.json);
    let refused = received.count("corrupt") + received.count("foreign");
    assert_eq!(refused, sent.count("tx_packets"), "{:#}", received.json);
}

#[test]
fn a_reflector_that_comes_late_finds_the_run_still_going() {
    let port = free_port();
    let scratch = Scratch::new();
    let words = format!("sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} --rate 5kpps --duration 1h --settle 100ms -q");
    let words = format!("{words} {}", source_ports(1));
    let sender = Background::start(scratch.results(mpps(&words)));
    wait_until("rows without a reflector", || scratch.busy_rows() >= 2);
    let reflector = Background::ready(mpps(&format!("reflect udp:127.0.0.1:{port}")));
    let returning = || {
        let text = std::fs::read_to_string(scratch.file("run.csv")).unwrap_or_default();
        text.lines()
            .skip(1)
            .filter(|row| row.split(',').nth(2).is_some_and(|rx| rx != "0"))
            .count()
            >= 2
    };
    wait_until("packets that come back", returning);
    let report = scratch.read(sender.end(Signal::INT));
    drop(reflector);
    report.assert_accounted();
    assert!(
        report.count("lost") > 0 && report.count("rx_packets") > 0,
        "{:#}",
        report.json
    );
    assert!(
        report.path_counter("refused") > 0,
        "refusals are counted: {:#}",
        report.json
    );
}

#[test]
fn a_port_in_use_is_named() {
    let port = free_port();
    let held = std::net::UdpSocket::bind(("127.0.0.1", port)).expect("a free port");
    for command in ["reflect", "drop"] {
        let finished = mpps_tests::run(&format!("{command} udp:127.0.0.1:{port} --duration 50ms"));
        assert_eq!(finished.code, Some(1), "{}", finished.stderr);
        assert!(
            finished.stderr.contains(&format!("127.0.0.1:{port}")),
            "{}",
            finished.stderr
        );
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{}", finished.stderr);
    }
    drop(held);
}

#[test]
fn packets_that_the_kernel_drops_for_want_of_buffer_are_told_and_make_the_run_invalid() {
    let port = free_port();
    let (here, there) = (Scratch::new(), Scratch::new());
    let words = format!("drop udp:127.0.0.1:{port},rcvbuf=2K --interval 20ms --quiet");
    let receiver = Background::start(there.results(mpps(&words)));
    wait_until("a row of the receiver", || there.rows_so_far() > 0);
    // Stopped, it takes nothing, and the buffer overflows whatever the machine's speed.
    receiver.signal(Signal::STOP);
    let words = format!("send udp:127.0.0.1 --dest 127.0.0.1:{port} --rate 20kpps --duration 300ms --quiet");
    let sent = here.measure(mpps(&format!("{words} {}", source_ports(1))));
    receiver.signal(Signal::CONT);
    arrived(&there, sent.count("tx_packets"));
    let received = there.read(receiver.end(Signal::INT));
    received.assert_rows_add_up();
    let dropped = received.lanes("rx_dropped");
    assert!(dropped > 0, "{:#}", received.json);
    assert_eq!(
        received.count("rx_packets") + dropped,
        sent.count("tx_packets"),
        "{:#}",
        received.json
    );
    assert_eq!(received.finished.code, Some(3), "{}", received.said());
    assert!(received.said().contains("dropped"), "{}", received.said());
}
