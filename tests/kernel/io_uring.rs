//! The io_uring path over the loopback interface and in a lab: both ends are ours, each end's numbers must agree with
//! the other's, whatever way the ring is driven and whatever path is at the other end.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Report, Scratch, arrived, free_port, inside, mpps, net_of, run, run_command, skip, source_ports,
    wait_until,
};
use rustix::process::Signal;
use std::net::UdpSocket;
use std::time::Duration;

/// Whether this host has io_uring at all; said where not.
fn possible() -> bool {
    let found = run("doctor io_uring").code == Some(0);
    if !found {
        skip("io_uring is forbidden here, or not in this kernel");
    }
    found
}

/// Runs `sendrecv` against `reflect` on these paths with these options; both reports.
fn round_trip(sender: (&str, &str), reflector: (&str, &str), more: &str) -> (Report, Report) {
    let port = free_port();
    let (here, there) = (Scratch::new(), Scratch::new());
    let words = format!("reflect {}:127.0.0.1:{port}{} --quiet", reflector.0, reflector.1);
    let reflector = Background::start(there.results(mpps(&words)));
    wait_until("a row of the reflector", || there.rows_so_far() > 0);
    let words = format!(
        "sendrecv {}:127.0.0.1{} --dest 127.0.0.1:{port} --rate 20kpps --duration 300ms --settle 500ms --quiet {}",
        sender.0,
        sender.1,
        more.replace("PORTS", &source_ports(if more.contains("50 flows") { 50 } else { 8 }))
            .replace("50 flows", "")
    );
    let sent = here.measure(mpps(&words));
    let reflected = there.read(reflector.end(Signal::INT));
    sent.assert_accounted();
    reflected.assert_rows_add_up();
    (sent, reflected)
}

fn assert_all_came_back(sent: &Report, reflected: &Report, context: &str) {
    let context = format!("{context}: {:#} {:#}", sent.json, reflected.json);
    assert!(sent.count("tx_packets") > 0, "{context}");
    assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{context}");
    assert_eq!(reflected.count("rx_packets"), sent.count("tx_packets"), "{context}");
    assert_eq!(reflected.count("tx_packets"), sent.count("rx_packets"), "{context}");
    for count in ["duplicates", "corrupt", "foreign", "late", "lost"] {
        assert_eq!(sent.count(count), 0, "{count}: {context}");
    }
}

#[test]
fn every_packet_of_a_round_trip_is_accounted_for_whatever_way_the_ring_is_driven() {
    if !possible() {
        return;
    }
    for (options, listener, more) in [
        ("", "", "PORTS"),
        ("", "", "--lanes 2 PORTS"),
        (
            ",direct=off",
            ",direct=off",
            "PORTS --tx-lanes 1 --rx-lanes 1 --payload-size 1400",
        ),
        (
            ",gso=on,gro=on",
            ",gso=on,gro=on",
            "PORTS --flows 1 --payload-size 200 --pacing burst=32",
        ),
        (",zerocopy=1000", ",zerocopy=1", "PORTS --payload-size 1400"),
        (",multishot=off", ",multishot=off,buffers=64", "PORTS"),
        (",taskrun=coop,sends=8", ",taskrun=interrupt", "PORTS --interval 1ms"),
        (",sockets=50", "", "PORTS 50 flows"),
    ] {
        let (sent, reflected) = round_trip(("io_uring", options), ("io_uring", listener), more);
        assert_all_came_back(&sent, &reflected, &format!("{options} {listener} {more}"));
        assert_eq!(
            sent.path_counter("completions_lost") + sent.path_counter("tx_overtaken"),
            0
        );
        assert!(sent.path_counter("system_calls") > 0, "{:#}", sent.json);
    }
}

#[test]
fn a_submission_thread_carries_every_packet() {
    if !possible() {
        return;
    }
    let (sent, reflected) = round_trip(
        ("io_uring", ",sqpoll=100"),
        ("io_uring", ",sqpoll=100"),
        "PORTS --flows 1",
    );
    // The kernel's threads have no cores of their own here: where they got none for long, the reflector gave packets
    // up, and says so, or packets came too late. None is missing in the counts.
    let given_up = reflected.reason("tx_full");
    let context = format!("{:#} {:#}", sent.json, reflected.json);
    assert!(sent.count("rx_packets") > 0, "{context}");
    assert_eq!(
        reflected.count("tx_packets") + given_up,
        reflected.count("rx_packets"),
        "{context}"
    );
    assert!(
        sent.count("rx_packets") + sent.count("late") <= reflected.count("tx_packets"),
        "{context}"
    );
}

#[test]
fn either_end_may_be_on_the_path_udp() {
    if !possible() {
        return;
    }
    for (sender, reflector) in [("udp", "io_uring"), ("io_uring", "udp")] {
        let (sent, reflected) = round_trip((sender, ""), (reflector, ""), "PORTS --lanes 2");
        assert_all_came_back(&sent, &reflected, &format!("{sender} to {reflector}"));
    }
}

#[test]
fn the_ends_may_be_on_any_other_path() {
    let Some(net) = net_of(1) else { return };
    if !possible() {
        return;
    }
    for (here, there) in [
        ("io_uring:10.99.0.1", "af_packet:eth1"),
        ("io_uring:10.99.0.1", "xdp:eth1"),
        ("af_packet:eth1 --src 10.99.0.1", "io_uring:10.99.0.2:9000"),
        ("af_xdp:eth1 --src 10.99.0.1", "io_uring:0.0.0.0:9000"),
    ] {
        let (near, far) = (Scratch::new(), Scratch::new());
        let reflector = Background::start(far.results(net.b(&format!("reflect {there} --quiet"))));
        wait_until("a row of the reflector", || far.rows_so_far() > 0);
        let words =
            format!("sendrecv {here} --dest 10.99.0.2:9000 --rate 5kpps --duration 300ms --settle 500ms --quiet");
        let sent = near.measure(net.a(&words));
        let reflected = far.read(reflector.end(Signal::INT));
        sent.assert_accounted();
        let context = format!("{here} to {there}: {:#} {:#}", sent.json, reflected.json);
        assert!(sent.count("tx_packets") > 0, "{context}");
        assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{context}");
    }
}

#[test]
fn the_receiving_end_of_a_one_way_run_expects_what_was_sent() {
    if !possible() {
        return;
    }
    for (address, sender, receiver) in [
        ("127.0.0.1", " PORTS", ""),
        ("[::1]", ",gso=on,zerocopy=2000 PORTS", ",gro=on"),
        ("127.0.0.1", " PORTS --lanes 2", " --lanes 2 --interval 10ms"),
    ] {
        let port = free_port();
        let (here, there) = (Scratch::new(), Scratch::new());
        let words = format!("drop io_uring:{address}:{port}{receiver} --quiet");
        let background = Background::start(there.results(mpps(&words)));
        wait_until("a row of the receiver", || there.rows_so_far() > 0);
        let (port_options, more) = sender.split_once(' ').unwrap_or((sender, ""));
        let words = format!(
            "send io_uring:{address}{port_options} --dest {address}:{port} --rate 20kpps --duration 400ms --quiet \
             --payload-size 300 {}",
            more.replace("PORTS", &source_ports(4))
        );
        let sent = here.measure(mpps(&words));
        sent.assert_accounted();
        arrived(&there, sent.count("tx_packets"));
        let received = there.read(background.end(Signal::INT));
        received.assert_rows_add_up();
        let context = format!("{:#} {:#}", sent.json, received.json);
        assert_eq!(received.count("rx_packets"), sent.count("tx_packets"), "{context}");
        for count in ["duplicates", "corrupt", "foreign", "late", "lost"] {
            assert_eq!(received.count(count), 0, "{count}: {context}");
        }
    }
}

#[test]
fn packets_that_the_kernel_drops_for_want_of_buffer_are_told_and_make_the_run_invalid() {
    if !possible() {
        return;
    }
    let port = free_port();
    let (here, there) = (Scratch::new(), Scratch::new());
    let words = format!("drop io_uring:127.0.0.1:{port},rcvbuf=2K --interval 20ms --quiet");
    let receiver = Background::start(there.results(mpps(&words)));
    wait_until("a row of the receiver", || there.rows_so_far() > 0);
    // Stopped, it takes nothing, and the buffer overflows whatever the machine's speed.
    receiver.signal(Signal::STOP);
    let words = format!("send io_uring:127.0.0.1 --dest 127.0.0.1:{port} --rate 20kpps --duration 300ms --quiet");
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
}

#[test]
fn what_the_kernel_can_not_have_is_refused_in_one_line_that_names_the_option() {
    if !possible() {
        return;
    }
    let refused = run("send io_uring:127.0.0.1,zerocopy_rx=on --dest 127.0.0.1:9 --duration 50ms");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("zerocopy_rx=on") && refused.stderr.contains("TCP"),
        "{}",
        refused.stderr
    );
    assert_eq!(refused.stderr.trim_end().lines().count(), 1, "{}", refused.stderr);
    let refused = run("drop io_uring:127.0.0.1,sqpoll=10,taskrun=defer --duration 50ms");
    assert!(
        refused.stderr.contains("taskrun=defer") && refused.stderr.contains("sqpoll="),
        "{}",
        refused.stderr
    );
    assert_eq!(refused.stderr.trim_end().lines().count(), 1, "{}", refused.stderr);
}

#[test]
fn datagrams_of_no_bytes_are_sent_back_and_end_nothing() {
    if !possible() {
        return;
    }
    for (address, ip) in [("127.0.0.1", "127.0.0.1"), ("[::1]", "::1"), ("0.0.0.0", "127.0.0.7")] {
        for options in [",multishot=off", ",multishot=off,gro=on,buffers=16", ""] {
            let (port, there) = (free_port(), Scratch::new());
            let words = format!("reflect io_uring:{address}:{port}{options} --quiet");
            let reflector = Background::start(there.results(mpps(&words)));
            wait_until("a row of the reflector", || there.rows_so_far() > 0);
            let peer = UdpSocket::bind((if ip == "::1" { "::1" } else { "0.0.0.0" }, 0)).expect("a socket");
            peer.connect((ip, port)).expect("an address");
            peer.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
            let mut buffer = [0; 64];
            for payload in [&b""[..], b"", b"hello", b"", b"x", b""] {
                peer.send(payload).expect("sent");
                let came = peer
                    .recv(&mut buffer)
                    .unwrap_or_else(|e| panic!("{words}: {payload:?}: {e}"));
                assert_eq!(&buffer[..came], payload, "{words}");
            }
            let report = there.read(reflector.end(Signal::INT));
            let counts = ["rx_packets", "tx_packets", "lost"].map(|key| report.count(key));
            assert_eq!(counts, [6, 6, 0], "{words}: {:#}", report.json);
        }
    }
}

#[test]
fn a_sender_whose_link_is_slow_loses_and_reorders_nothing() {
    let Some(net) = net_of(1) else { return };
    if !possible() {
        return;
    }
    // A shaper that holds packets back fills the socket, so that sends come back and are tried again.
    let words = "tc qdisc add dev eth1 root tbf rate 20mbit burst 10kb latency 400ms";
    if run_command(inside(&net.lab, Host::A, words)).code != Some(0) {
        return skip("no tbf in this kernel");
    }
    let (here, there) = (Scratch::new(), Scratch::new());
    let receiver = Background::start(there.results(net.b("drop io_uring:10.99.0.2:9000 --quiet")));
    wait_until("a row of the receiver", || there.rows_so_far() > 0);
    let words = "send io_uring:10.99.0.1,sndbuf=32K --dest 10.99.0.2:9000 --duration 1s --payload-size 1000 --quiet";
    let sent = here.measure(net.a(words));
    sent.assert_accounted();
    arrived(&there, sent.count("tx_packets") - sent.lanes("tx_failed"));
    let received = there.read(receiver.end(Signal::INT));
    let context = format!("{:#} {:#}", sent.json, received.json);
    assert!(sent.path_counter("tx_again") > 0, "{context}");
    assert_eq!(
        received.count("rx_packets") + sent.lanes("tx_failed"),
        sent.count("tx_packets"),
        "{context}"
    );
    assert!(
        received.count("reordered") <= sent.path_counter("tx_overtaken") * 64,
        "{context}"
    );
}
