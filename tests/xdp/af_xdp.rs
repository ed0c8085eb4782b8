//! The af_xdp path between two hosts: with every path at the other end, in each mode, over queues and lanes of several
//! shapes; and beside it the host's own traffic, which goes on.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, ECHO, Net, Scratch, TALK, all_there, arrived, assert_refused, each_back, listen, missing, net_of,
    wait_until,
};
use rustix::process::Signal;

fn has_program(net: &Net, host: Host, device: &str) -> bool {
    let shown = net.on(host, &format!("ip -d link show {device}")).stdout;
    shown.contains("xdp")
}

#[test]
fn every_pair_with_another_path_brings_every_packet_back_over_both_families() {
    let Some(net) = net_of(1) else { return };
    for (a, b, packet) in [("10.99.0.1", "10.99.0.2", true), ("[fd99::1]", "[fd99::2]", false)] {
        let src = a.trim_matches(['[', ']']);
        let xdp = format!("af_xdp:eth1 --src {src}");
        let mut pairs = vec![
            (xdp.clone(), "af_xdp:eth1".to_owned()),
            (xdp.clone(), format!("udp:{b}:9000")),
            (format!("udp:{a}"), "af_xdp:eth1,mode=skb".to_owned()),
        ];
        if packet {
            pairs.push((format!("udp:{a}"), "af_xdp:eth1".to_owned()));
            pairs.push((xdp, "af_packet:eth1".to_owned()));
            pairs.push((format!("af_packet:eth1 --src {src}"), "af_xdp:eth1".to_owned()));
        }
        for (here, there) in pairs {
            each_back(
                &net,
                &format!("reflect {there}"),
                &format!("sendrecv {here} --dest {b}:9000"),
            );
        }
    }
}

#[test]
fn each_mode_and_option_is_what_was_asked_for_and_loses_nothing() {
    let Some(net) = net_of(1) else { return };
    for (options, fact, value) in [
        (",rx_time=on", "mode", "copy"),
        (",mode=copy", "xdp_program", "native"),
        (",mode=skb", "xdp_program", "skb"),
        (",ring=256,fill=128,frames=2048", "fill_ring_entries", "128"),
        (",chunk=2176,unaligned=on", "unaligned_chunks", "true"),
        (",headroom=64,chunk=4096,need_wakeup=off", "chunk_bytes", "4096"),
        (",busy_budget=64,tx_budget=64", "tx_budget", "64"),
    ] {
        let (sent, reflected) = each_back(
            &net,
            &format!("reflect af_xdp:eth1{options}"),
            // 128 buffers are those of 64 ms: a lane may be kept from its core for so long.
            &format!("sendrecv af_xdp:eth1{options} --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 2kpps"),
        );
        for report in [&sent, &reflected] {
            assert_eq!(report.json["host"][fact], value, "{options}: {:#}", report.json["host"]);
        }
        let latency = sent.count("/latency_ns/min");
        assert!(
            latency > 0 && latency < 10_000_000_000,
            "{options}: {:#}",
            sent.json["latency_ns"]
        );
    }
}

#[test]
fn addresses_that_no_interface_has_are_resolved_and_answered_by_mpps_itself() {
    let Some(net) = net_of(1) else { return };
    for (src, ip, dest, stack) in [
        ("10.99.0.77", "10.99.0.88", "10.99.0.88", "10.99.0.1"),
        ("fd99::77", "fd99::88", "[fd99::88]", "[fd99::1]"),
    ] {
        let reflect = format!("reflect af_xdp:eth1 --ip {ip}");
        let (sent, _) = each_back(
            &net,
            &reflect,
            &format!("sendrecv af_xdp:eth1 --src {src} --dest {dest}:9000 --payload-size 200"),
        );
        assert_eq!(
            sent.json["host"]["source_address"], "answered by mpps",
            "{:#}",
            sent.json
        );
        // The host's own stack resolves the address that mpps answers for, and its packets come back too.
        each_back(&net, &reflect, &format!("sendrecv udp:{stack} --dest {dest}:9000"));
    }
}

#[test]
fn a_lane_that_only_receives_answers_for_its_address_through_the_lane_that_sends() {
    let Some(net) = net_of(1) else { return };
    for (src, dest) in [("10.99.0.77", "10.99.0.2"), ("fd99::77", "[fd99::2]")] {
        // The other host's stack asks who has the source address, and only the receiving lane hears it.
        each_back(
            &net,
            &format!("reflect udp:{dest}:9000"),
            &format!("sendrecv af_xdp:eth1 --src {src} --dest {dest}:9000 --tx-lanes 1 --rx-lanes 1"),
        );
    }
}

#[test]
fn the_hosts_own_addresses_are_resolved_by_the_host_and_answered_by_nobody_else() {
    let Some(net) = net_of(1) else { return };
    let before = [Host::A, Host::B].map(|host| net.snmp(host, "Icmp", "OutDestUnreachs"));
    let (sent, _) = each_back(
        &net,
        "reflect af_xdp:eth1",
        "sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000",
    );
    assert_eq!(sent.json["host"]["source_address"], "the host's own", "{:#}", sent.json);
    let after = [Host::A, Host::B].map(|host| net.snmp(host, "Icmp", "OutDestUnreachs"));
    assert_eq!(after, before, "ICMP destination unreachable was sent");
    // Nobody has this address: that is told, and a MAC address or a gateway given goes round it.
    let dest = "sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.99:9000";
    let nobody = net.a(&format!("{dest} --duration 100ms"));
    assert_refused(nobody, 1, &["10.99.0.99", "--dest-mac"]);
    let mac = Host::B.mac();
    each_back(
        &net,
        "reflect af_xdp:eth1 --ip 10.99.0.99",
        &format!("{dest} --dest-mac {mac}"),
    );
    let routed = "sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 192.0.2.9:9000 --gateway 10.99.0.2";
    each_back(&net, "reflect af_xdp:eth1 --ip 192.0.2.9", routed);
}

#[test]
fn tagged_packets_and_the_largest_and_smallest_come_back() {
    let Some(net) = net_of(1) else { return };
    let mac = Host::B.mac();
    for (src, dest, largest) in [("10.99.0.1", "10.99.0.2", 1472), ("fd99::1", "[fd99::2]", 1452)] {
        let sendrecv = format!("sendrecv af_xdp:eth1 --src {src} --dest {dest}:9000");
        for words in [
            "--payload-size 16".to_owned(),
            format!("--payload-size {largest} --vlan 5 --dest-mac {mac}"),
        ] {
            each_back(&net, "reflect af_xdp:eth1", &format!("{sendrecv} {words}"));
        }
        let words = format!("{sendrecv} --payload-size {}", largest + 1);
        assert_refused(net.a(&words), 2, &["--payload-size", "MTU"]);
    }
}

#[test]
fn lanes_and_queues_in_every_proportion_lose_none() {
    let Some(net) = net_of(2) else { return };
    for (reflect, sendrecv, lanes) in [
        ("--lanes 2", "--lanes 2", 2),
        ("--lanes 1", "--lanes 1", 1),
        ("--lanes 2", "--tx-lanes 1 --rx-lanes 1", 2),
        ("--lanes 1", "--tx-lanes 2 --rx-lanes 2", 1),
        ("--lanes 1", "--tx-lanes 1 --rx-lanes 2", 1),
    ] {
        let reflect = format!("reflect af_xdp:eth1 {reflect}");
        let sendrecv = format!("sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 {sendrecv}");
        let (_, reflected) = each_back(&net, &reflect, &sendrecv);
        assert_eq!(reflected.json["host"]["queues"], "2", "{:#}", reflected.json);
        let all = reflected.json["lanes"].as_array().expect("lanes").iter();
        let busy = all.filter(|lane| lane["rx_packets"].as_u64() > Some(0)).count();
        assert!(busy <= lanes && busy > 0, "{sendrecv}: {:#}", reflected.json);
    }
    let one = net_of(1).expect("as before");
    each_back(
        &one,
        "reflect af_xdp:eth1",
        "sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --tx-lanes 1 --rx-lanes 1",
    );
}

#[test]
fn what_can_not_be_had_is_refused_in_one_line_before_the_first_packet() {
    let Some(net) = net_of(2) else { return };
    for (words, code, parts) in [
        (
            "reflect af_xdp:eth1 --lanes 3",
            2,
            &["3 lanes", "2 queues", "--lanes 2"][..],
        ),
        ("reflect af_xdp:eth1,queues=1 --lanes 2", 2, &["2 lanes", "1 queue"]),
        ("reflect af_xdp:eth1,queues=3", 2, &["queues=3", "2 queues", "ethtool"]),
        ("reflect af_xdp:eth1,first=2", 2, &["first=2", "2 queues"]),
        ("reflect af_xdp:eth1,frames=512", 2, &["frames=512", "fill"]),
        ("reflect af_xdp:eth1,frames=12", 2, &["frames=12", "128"]),
        ("reflect af_xdp:eth1,ring=1000", 2, &["ring=1000", "power of two"]),
        ("reflect af_xdp:eth1,mode=fast", 2, &["mode=fast", "zerocopy"]),
        ("reflect af_xdp:eth1,fanout=hash", 2, &["fanout", "mode"]),
        ("reflect af_xdp:eth9", 2, &["af_xdp:eth9", "eth1"]),
        ("reflect af_xdp:", 2, &["af_xdp:eth1"]),
        ("reflect af_xdp:eth1,mode=zerocopy", 2, &["eth1", "zero-copy"]),
    ] {
        assert_refused(net.a(&format!("{words} --duration 50ms")), code, parts);
    }
    assert!(!has_program(&net, Host::A, "eth1"));
}

#[test]
fn the_receiving_end_of_a_one_way_run_expects_what_was_sent() {
    let Some(net) = net_of(2) else { return };
    for (send, drop_words, dest) in [
        ("af_xdp:eth1", "drop af_xdp:eth1 --port 9000", "10.99.0.2"),
        (
            "af_xdp:eth1 --lanes 2",
            "drop af_xdp:eth1 --lanes 2 --ip 10.99.0.88",
            "10.99.0.88",
        ),
        ("af_xdp:eth1", "drop af_packet:eth1 --port 9000", "10.99.0.2"),
        ("af_packet:eth1", "drop af_xdp:eth1,rx_time=on --port 9000", "10.99.0.2"),
        ("af_xdp:eth1", "drop udp:10.99.0.2:9000", "10.99.0.2"),
    ] {
        let send = format!("send {send} --src 10.99.0.1 --dest {dest}:9000 --rate 10kpps --seed 1 --catch-up 5ms");
        let (sent, received) = all_there(&net, drop_words, &send);
        let samples = received.count("/latency_ns/count");
        assert_eq!(
            samples,
            sent.count("tx_packets"),
            "{send} {drop_words}: {:#}",
            received.json
        );
    }
}

#[test]
fn a_ring_that_overflows_is_told_and_every_packet_is_in_one_count() {
    let Some(net) = net_of(1) else { return };
    let (here, there) = (Scratch::new(), Scratch::new());
    let receiver = listen(&net, &there, "drop af_xdp:eth1,ring=64,fill=64 --port 9000");
    receiver.signal(Signal::STOP);
    let words = "send af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --duration 200ms --quiet";
    let sent = here.measure(net.a(words));
    receiver.signal(Signal::CONT);
    arrived(&there, sent.count("tx_packets"));
    let received = there.read(receiver.end(Signal::INT));
    received.assert_rows_add_up();
    let (dropped, context) = (
        received.lanes("rx_dropped"),
        format!("{:#} {:#}", sent.json, received.json),
    );
    assert!(dropped > 0, "{context}");
    assert_eq!(
        received.count("rx_packets") + dropped,
        sent.count("tx_packets"),
        "{context}"
    );
    assert!(received.said().contains("dropped"), "{}", received.said());
    assert_eq!(received.finished.code, Some(3), "{}", received.said());
}

#[test]
fn the_hosts_own_connections_go_on_beside_the_test_and_no_program_stays() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    for mode in ["copy", "skb"] {
        let mut echo = mpps_tests::inside(&net.lab, Host::B, "python3 -c");
        echo.arg(ECHO);
        let echo = Background::start(echo).wait_to_hear("echo is open");
        // All of the host's ports are asked for but those that its programs have open already.
        let (here, there) = (Scratch::new(), Scratch::new());
        let reflector = listen(&net, &there, &format!("reflect af_xdp:eth1,mode={mode}"));
        let words = "sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 5kpps --duration 1h --quiet";
        let sender = Background::start(here.results(net.a(words)));
        wait_until("packets", || here.busy_rows() >= 2);
        assert!(has_program(&net, Host::A, "eth1") && has_program(&net, Host::B, "eth1"));
        assert!(net.python(Host::A, TALK, &[]));
        let sent = here.read(sender.end(Signal::INT));
        drop(echo);
        sent.assert_accounted();
        assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{:#}", sent.json);
        if mode == "copy" {
            let reflected = there.read(reflector.end(Signal::INT));
            assert!(reflected.path_counter("left_to_host") > 50, "{:#}", reflected.json);
            assert_eq!(
                reflected.count("rx_packets"),
                sent.count("tx_packets"),
                "{:#}",
                reflected.json
            );
        } else {
            reflector.end(Signal::KILL);
        }
        // The kernel takes it off when the last descriptor is gone, which a killed process leaves to it.
        wait_until("no XDP program on either side", || {
            !has_program(&net, Host::A, "eth1") && !has_program(&net, Host::B, "eth1")
        });
    }
}
