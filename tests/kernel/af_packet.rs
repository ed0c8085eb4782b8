//! The af_packet path between two hosts: with either path at the other end, with addresses of mpps's own and of the
//! host's, with VLAN tags and several lanes.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Net, Scratch, all_there, arrived, assert_refused, each_back, inside, listen, missing, net_of,
    round_trips, skip, wait_until,
};
use rustix::process::Signal;

/// A program that has UDP port 9001 open until it is ended.
const HOLDER: &str = "import signal, socket, sys
held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
held.bind(('', 9001))
print('9001 is open', file=sys.stderr, flush=True)
signal.pause()";

#[test]
fn every_pair_of_paths_brings_every_packet_back_over_both_families() {
    let Some(net) = net_of(1) else { return };
    for (a, b) in [("10.99.0.1", "10.99.0.2"), ("[fd99::1]", "[fd99::2]")] {
        let src = a.trim_matches(['[', ']']);
        for (here, there) in [
            (format!("af_packet:eth1 --src {src}"), "af_packet:eth1".to_owned()),
            (format!("af_packet:eth1 --src {src}"), format!("udp:{b}:9000")),
            (format!("udp:{a}"), "af_packet:eth1".to_owned()),
            (format!("udp:{a}"), format!("udp:{b}:9000")),
        ] {
            let sendrecv = format!("sendrecv {here} --dest {b}:9000");
            each_back(&net, &format!("reflect {there}"), &sendrecv);
        }
    }
}

#[test]
fn addresses_that_no_interface_has_are_resolved_and_answered_by_mpps_itself() {
    let Some(net) = net_of(1) else { return };
    for (src, ip, dest) in [
        ("10.99.0.77", "10.99.0.88", "10.99.0.88"),
        ("fd99::77", "fd99::88", "[fd99::88]"),
    ] {
        let (sent, _) = each_back(
            &net,
            &format!("reflect af_packet:eth1 --ip {ip}"),
            &format!("sendrecv af_packet:eth1 --src {src} --dest {dest}:9000 --payload-size 200"),
        );
        assert_eq!(
            sent.json["host"]["source_address"], "answered by mpps",
            "{:#}",
            sent.json
        );
        // The host's own stack resolves the address that mpps answers for, and its packets come back too.
        each_back(
            &net,
            &format!("reflect af_packet:eth1 --ip {ip}"),
            &format!(
                "sendrecv udp:{} --dest {dest}:9000",
                if src.contains(':') { "[fd99::1]" } else { "10.99.0.1" }
            ),
        );
    }
}

#[test]
fn the_hosts_own_stack_answers_no_test_packet_though_it_owns_the_addresses() {
    let Some(net) = net_of(1) else { return };
    let before = [Host::A, Host::B].map(|host| net.snmp(host, "Icmp", "OutDestUnreachs"));
    let (sent, reflected) = each_back(
        &net,
        "reflect af_packet:eth1",
        "sendrecv af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000",
    );
    assert_eq!(sent.json["host"]["source_address"], "the host's own", "{:#}", sent.json);
    let after = [Host::A, Host::B].map(|host| net.snmp(host, "Icmp", "OutDestUnreachs"));
    if sent.said().contains("guard") || reflected.said().contains("guard") {
        return skip(&format!("this kernel can't guard the host's stack: {}", sent.said()));
    }
    assert_eq!(after, before, "ICMP destination unreachable was sent");
    // The same without the guard: now they do answer, so what was seen above was the guard's work.
    round_trips(
        &net,
        "reflect af_packet:eth1,guard=off",
        &["sendrecv af_packet:eth1,guard=off --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps"],
    );
    let without = [Host::A, Host::B].map(|host| net.snmp(host, "Icmp", "OutDestUnreachs"));
    assert!(without[0] > after[0] && without[1] > after[1], "{after:?} {without:?}");
}

#[test]
fn a_given_mac_address_needs_no_answer_and_a_missing_one_is_told() {
    let Some(net) = net_of(1) else { return };
    // Nobody answers for this address: mpps on b takes any packet to its MAC address.
    let dest = "sendrecv af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.99:9000";
    let nobody = net.a(&format!("{dest} --duration 100ms"));
    assert_refused(nobody, 1, &["10.99.0.99", "--dest-mac"]);
    let mac = Host::B.mac();
    each_back(&net, "reflect af_packet:eth1", &format!("{dest} --dest-mac {mac}"));
    // A gateway is asked in place of the destination.
    let routed = "sendrecv af_packet:eth1 --src 10.99.0.1 --dest 192.0.2.9:9000 --gateway 10.99.0.2";
    each_back(&net, "reflect af_packet:eth1", routed);
}

#[test]
fn tagged_packets_come_back_with_their_tag() {
    let Some(net) = net_of(1) else { return };
    for (src, dest) in [("10.99.0.1", "10.99.0.2"), ("fd99::1", "[fd99::2]")] {
        let mac = Host::B.mac();
        let words = format!(
            "sendrecv af_packet:eth1 --src {src} --dest {dest}:9000 --vlan 5 --dest-mac {mac} --payload-size 99"
        );
        each_back(&net, "reflect af_packet:eth1", &words);
    }
}

#[test]
fn the_largest_and_the_smallest_packet_of_the_link_come_back() {
    let Some(net) = net_of(1) else { return };
    for (src, dest, sizes) in [
        ("10.99.0.1", "10.99.0.2", [16, 1472]),
        ("fd99::1", "[fd99::2]", [16, 1452]),
    ] {
        for size in sizes {
            let words = format!("sendrecv af_packet:eth1 --src {src} --dest {dest}:9000 --payload-size {size}");
            each_back(&net, "reflect af_packet:eth1", &words);
        }
        let words = format!(
            "sendrecv af_packet:eth1 --src {src} --dest {dest}:9000 --payload-size {}",
            sizes[1] + 1
        );
        assert_refused(net.a(&words), 2, &["--payload-size", "MTU"]);
    }
}

#[test]
fn several_lanes_share_the_packets_and_lose_none() {
    let Some(net) = net_of(2) else { return };
    for (port, lanes) in [
        ("af_packet:eth1", "--lanes 2"),
        ("af_packet:eth1", "--tx-lanes 1 --rx-lanes 2"),
    ] {
        let reflect = format!("reflect {port} --lanes 2");
        let sendrecv = format!("sendrecv {port} --src 10.99.0.1 --dest 10.99.0.2:9000 {lanes}");
        let (_, reflected) = each_back(&net, &reflect, &sendrecv);
        let busy = reflected.json["lanes"].as_array().expect("lanes").iter();
        let busy = busy.filter(|lane| lane["rx_packets"].as_u64() > Some(0)).count();
        assert_eq!(
            busy, 2,
            "the packets of 64 flows all went to one lane: {:#}",
            reflected.json
        );
    }
}

#[test]
fn a_fanout_that_splits_flows_between_lanes_is_refused_where_sequences_are_counted() {
    let Some(net) = net_of(2) else { return };
    let port = "af_packet:eth1,fanout=lb --lanes 2 --duration 50ms";
    for words in [
        format!("sendrecv {port} --src 10.99.0.1 --dest 10.99.0.2:9000"),
        format!("drop {port}"),
    ] {
        assert_refused(net.a(&words), 2, &["fanout=lb", "fanout=hash"]);
    }
    // A reflector counts no sequences.
    let (sent, reflected) = round_trips(
        &net,
        "reflect af_packet:eth1,fanout=lb --lanes 2",
        &["sendrecv af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps"],
    );
    let (tx, rx) = (sent[0].count("tx_packets"), sent[0].count("rx_packets"));
    assert_eq!(rx, tx, "{:#}", sent[0].json);
    assert_eq!(reflected.count("rx_packets"), tx, "{:#}", reflected.json);
}

#[test]
fn more_lanes_than_queues_of_the_device_share_them_without_losing_packets() {
    let Some(net) = net_of(1) else { return };
    // On this path a lane is a socket of a fanout group: the kernel spreads one device queue over any number of them.
    each_back(
        &net,
        "reflect af_packet:eth1 --lanes 2",
        "sendrecv af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --lanes 3",
    );
}

#[test]
fn the_receiving_end_of_a_one_way_run_expects_what_was_sent() {
    let Some(net) = net_of(2) else { return };
    for (drop_words, dest) in [
        ("drop af_packet:eth1 --port 9000", "10.99.0.2"),
        ("drop af_packet:eth1 --ip 10.99.0.88 --lanes 2", "10.99.0.88"),
        ("drop udp:10.99.0.2:9000", "10.99.0.2"),
    ] {
        let send = format!("send af_packet:eth1 --src 10.99.0.1 --dest {dest}:9000 --rate 20kpps --seed 1");
        let (_, received) = all_there(&net, drop_words, &send);
        let (samples, rx) = (received.count("/latency_ns/count"), received.count("rx_packets"));
        assert_eq!(samples, rx, "{drop_words}: {:#}", received.json);
    }
}

/// Two hosts, and on host b a program that has port 9001 open.
fn net_with_a_held_port() -> Option<(Net, Background)> {
    if missing("python3", "python3") {
        return None;
    }
    let net = net_of(1)?;
    let mut holder = inside(&net.lab, Host::B, "python3 -c");
    holder.arg(HOLDER);
    let holder = Background::start(holder).wait_to_hear("9001 is open");
    Some((net, holder))
}

#[test]
fn a_receiver_leaves_the_ports_that_programs_of_its_host_have_open_to_them() {
    let Some((net, _holder)) = net_with_a_held_port() else {
        return;
    };
    for verify in ["", " --no-verify"] {
        let (here, there) = (Scratch::new(), Scratch::new());
        let receiver = listen(&net, &there, &format!("drop af_packet:eth1{verify}"));
        // Flows to 9000, 9001 and 9002 in turn, as many packets to each.
        let words = "send af_packet:eth1 --src 10.99.0.1 --src-port-range 10000-10000 --dest 10.99.0.2:9000-9002 \
                     --rate 10kpps --duration 300ms --catch-up 10s --quiet";
        let sent = here.measure(net.a(words));
        sent.assert_accounted();
        let tx = sent.count("tx_packets");
        assert!(tx > 2, "{:#}", sent.json);
        arrived(&there, tx - tx.div_ceil(3));
        let received = there.read(receiver.end(Signal::INT));
        received.assert_rows_add_up();
        let context = format!("{:#}", received.json);
        let (rx, left) = (received.count("rx_packets"), received.reason("host_port"));
        assert_eq!(rx + left, tx, "{context}");
        assert!(left.abs_diff(tx / 3) <= 1, "{context}");
        assert_eq!(received.count("lost"), 0, "{context}");
    }
}

#[test]
fn a_reflector_names_the_program_that_holds_a_port_and_says_how_to_take_it() {
    let Some((net, _holder)) = net_with_a_held_port() else {
        return;
    };
    let (here, there) = (Scratch::new(), Scratch::new());
    let reflector = Background::ready(there.results(net.b("reflect af_packet:eth1")));
    let said = reflector.stderr();
    assert!(said.contains("9001 (python3, pid "), "{said}");
    let words = "sendrecv af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9001 --rate 10kpps --duration 100ms --settle \
                 100ms --catch-up 10s --quiet";
    let sent = here.measure(net.a(words));
    let tx = sent.count("tx_packets");
    assert_eq!(
        (sent.count("rx_packets"), sent.count("lost")),
        (0, tx),
        "{:#}",
        sent.json
    );
    let reflected = there.read(reflector.end(Signal::INT));
    assert_eq!(reflected.reason("host_port"), tx, "{:#}", reflected.json);
    let warnings = reflected.json["warnings"].to_string();
    assert!(
        warnings.contains("for UDP port 9001 ") && warnings.contains("--port"),
        "{warnings}"
    );
}

#[test]
fn a_ring_that_overflows_is_told() {
    let Some(net) = net_of(1) else { return };
    let (here, there) = (Scratch::new(), Scratch::new());
    let receiver = listen(&net, &there, "drop af_packet:eth1,ring=64");
    receiver.signal(Signal::STOP);
    let words = "send af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps --duration 200ms --quiet";
    let sent = here.measure(net.a(words));
    receiver.signal(Signal::CONT);
    wait_until("rows with packets", || there.busy_rows() > 0);
    let received = there.read(receiver.end(Signal::INT));
    received.assert_rows_add_up();
    let dropped = received.lanes("rx_dropped");
    assert!(
        dropped > 0 && dropped <= sent.count("tx_packets"),
        "{:#}",
        received.json
    );
    assert!(received.said().contains("dropped"), "{}", received.said());
    assert_eq!(received.finished.code, Some(3), "{}", received.said());
}
