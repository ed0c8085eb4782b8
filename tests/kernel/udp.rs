//! The udp path over the loopback interface: both ends are ours, each end's numbers must agree with the other's.

use mpps_tests::{
    Background, Report, Scratch, arrived, assert_refused, free_port, mpps, skip, source_ports, wait_until,
};
use rustix::process::Signal;

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
    ] {
        let mut command = mpps(&format!("sendrecv udp: {words}"));
        command.args(["--packet", "eth / ipv4 dst=127.0.0.1 / udp dst=9"]);
        assert_refused(command, 2, &[needle]);
    }
    let scratch = Scratch::new();
    let file = scratch.file("one.toml");
    for (keys, words, needle) in [
        (
            "rate = '2kpps'",
            "--rate 5kpps",
            "--rate: --traffic has 2kpps: want one of the two",
        ),
        ("track = true", "", "track: want it left out"),
        ("weight = 2", "--rate 5kpps", "weight: want it left out"),
    ] {
        let text = format!("[[stream]]\npacket = 'eth / ipv4 dst=127.0.0.1 / udp dst=9'\n{keys}\n");
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
        ("eth / ipv4 dst=127.0.0.1 ttl=3 / udp", "ipv4 ttl: want it left out"),
        (
            "eth / ipv4 dst=127.0.0.1 / udp src=random(1..9)",
            "udp src: want it left out",
        ),
        ("eth / ipv4 / udp", "want dst= in ip"),
        ("eth / ipv4 dst=127.0.0.1 / udp", "want dst= in ip and in udp"),
    ] {
        let mut command = mpps("sendrecv udp:");
        command.args(["--packet", packet]);
        assert_refused(command, 2, &["--packet: on port 'udp:'", needle]);
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
