//! What a run says of its surroundings: links, addresses, routes, MTUs, queues of this host, and what routers report.
//! Each test brings one thing about and asks for that one, and for no other.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Net, Report, Scratch, inside, listen, missing, mpps, net_of, returning, run_command, silent, skip,
    wait_for_more, wait_until,
};
use rustix::process::Signal;

/// Sentences of a kind in what is known.
fn known(report: &Report, kind: &str) -> Vec<String> {
    let all = report.json["known"].as_array().expect("a list");
    let of = all.iter().filter(|known| known["kind"] == kind);
    of.map(|known| known["sentence"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// All kinds in what is known.
fn kinds(report: &Report) -> Vec<&str> {
    let all = report.json["known"].as_array().expect("a list");
    all.iter().filter_map(|known| known["kind"].as_str()).collect()
}

/// Packets that evidence of a kind accounts for.
fn packets(report: &Report, kind: &str) -> u64 {
    let all = report.json["known"].as_array().expect("a list");
    let of = all.iter().filter(|known| known["kind"] == kind);
    of.filter_map(|known| known["packets"].as_u64()).sum()
}

/// Rows that nothing was sent in, after the first that something was.
fn idle_rows(scratch: &Scratch) -> usize {
    let text = std::fs::read_to_string(scratch.file("run.csv")).unwrap_or_default();
    let whole = &text[..text.rfind('\n').unwrap_or(0)];
    let sent = whole.lines().skip(1).map(|row| row.split(',').nth(1) != Some("0"));
    sent.skip_while(|sent| !sent).filter(|sent| !sent).count()
}

/// A sender on host a that is under way.
fn sending(net: &Net, scratch: &Scratch, words: &str) -> Background {
    let words = format!("{words} --rate 2kpps --duration 1h --settle 50ms --interval 20ms --quiet");
    let sender = Background::start(scratch.results(net.a(&words)));
    wait_for_more("rows with packets", || scratch.busy_rows());
    sender
}

/// Runs such a sender, has `begin` done, and once it sends no more, `end`, until it sends again.
fn interrupted(net: &Net, words: &str, begin: impl FnOnce(), end: impl FnOnce()) -> Report {
    let scratch = Scratch::new();
    let sender = sending(net, &scratch, words);
    begin();
    let before = idle_rows(&scratch);
    wait_until("rows without a packet", || idle_rows(&scratch) >= before + 10);
    end();
    wait_for_more("rows with packets again", || scratch.busy_rows());
    let report = scratch.read(sender.end(Signal::INT));
    report.assert_accounted();
    assert!(report.count("missed") > 0, "{words}: {:#}", report.json);
    let missed = report.json["invalid_reasons"].to_string();
    assert!(missed.contains("departures missed"), "{words}: {missed}");
    report
}

#[test]
fn a_sender_without_a_carrier_waits_for_it_and_names_the_interface_and_the_time() {
    let Some(net) = net_of(1) else { return };
    for words in [
        "send udp:10.99.0.1 --dest 10.99.0.2:9000",
        "send io_uring:10.99.0.1 --dest 10.99.0.2:9000",
        "send af_packet:eth1,qdisc=kernel --src 10.99.0.1 --dest 10.99.0.2:9000",
        "send af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000",
        "sendrecv udp:fd99::1 --dest [fd99::2]:9000",
    ] {
        let report = interrupted(
            &net,
            words,
            || drop(net.on(Host::B, "ip link set eth1 down")),
            || {
                net.on(Host::B, "ip link set eth1 up");
                // Its other end loses its IPv6 address with the link.
                net.on(Host::B, "ip address replace fd99::2/64 dev eth1 nodad");
            },
        );
        let reasons = report.json["invalid_reasons"].to_string();
        assert!(reasons.contains("the link was down for"), "{words}: {reasons}");
        let told = known(&report, "no_carrier");
        assert!(
            told.len() == 1 && told[0].starts_with("eth1 had no carrier for"),
            "{words}: {told:?}"
        );
        let named = report.json["known"].as_array().expect("a list");
        let outage = named.iter().find(|known| known["kind"] == "no_carrier").expect("told");
        assert!(outage["from_s"].as_f64() > Some(0.0), "{outage}");
        assert!(outage["to_s"].as_f64() > outage["from_s"].as_f64(), "{outage}");
        for other in ["address_missing", "no_way", "link_off"] {
            assert!(!kinds(&report).contains(&other), "{words}: {:#}", report.json["known"]);
        }
        assert!(!reasons.contains("generator could not keep up"), "{words}: {reasons}");
        let notes = report.json["warnings"].as_array().expect("a list");
        let notes: Vec<&str> = notes.iter().filter_map(|note| note.as_str()).collect();
        let named = |note: &&str| note.contains("the interface has no carrier") && note.contains("eth1");
        assert!(notes.iter().any(named), "{words}: {notes:#?}");
    }
}

#[test]
fn a_run_whose_link_stays_down_ends_when_it_was_to_end() {
    let Some(net) = net_of(1) else { return };
    for words in [
        "send udp:10.99.0.1 --dest 10.99.0.2:9000",
        "sendrecv io_uring:10.99.0.1 --dest 10.99.0.2:9000",
        "send udp:fd99::1 --dest [fd99::2]:9000",
    ] {
        let scratch = Scratch::new();
        let words = format!("{words} --rate 2kpps --duration 2s --settle 50ms --interval 20ms --quiet");
        let sender = Background::start(scratch.results(net.a(&words)));
        wait_for_more("rows with packets", || scratch.busy_rows());
        net.on(Host::B, "ip link set eth1 down");
        let report = scratch.read(sender.finish());
        report.assert_accounted();
        report.assert_departures(4000);
        net.on(Host::B, "ip link set eth1 up");
        net.on(Host::B, "ip address replace fd99::2/64 dev eth1 nodad");
        assert!(
            known(&report, "no_carrier").join(" ").contains("to the end"),
            "{:#}",
            report.json["known"]
        );
    }
}

#[test]
fn an_address_that_went_with_the_link_is_told_apart_from_the_link() {
    let Some(net) = net_of(1) else { return };
    for words in [
        "send udp:fd99::1 --dest [fd99::2]:9000",
        "send io_uring:fd99::1 --dest [fd99::2]:9000",
    ] {
        let report = interrupted(
            &net,
            words,
            || {
                net.on(Host::A, "ip link set eth1 down");
                net.on(Host::A, "ip link set eth1 up");
            },
            || drop(net.on(Host::A, "ip address replace fd99::1/64 dev eth1 nodad")),
        );
        let reasons = report.json["invalid_reasons"].to_string();
        let missing = known(&report, "address_missing");
        assert!(
            missing.len() == 1 && missing[0].starts_with("eth1 was without its address fd99::1 for"),
            "{words}: {missing:?}"
        );
        assert!(reasons.contains(&missing[0]), "{words}: {reasons}");
        let no_way = known(&report, "no_way").join(" ");
        assert!(
            no_way.contains("this host did not have the source address for"),
            "{words}: {no_way}"
        );
        let off = known(&report, "link_off");
        assert_eq!(off.len(), 1, "{words}: {:#}", report.json["known"]);
    }
}

#[test]
fn addresses_that_the_run_does_not_use_are_none_of_its_causes() {
    let Some(net) = net_of(1) else { return };
    // The IPv6 addresses go with the link, that of the run stays; another one goes for good.
    net.on(Host::A, "ip address add 10.98.0.7/24 dev eth1");
    let report = interrupted(
        &net,
        "send udp:10.99.0.1 --dest 10.99.0.2:9000",
        || {
            net.on(Host::A, "ip address del 10.98.0.7/24 dev eth1");
            net.on(Host::A, "ip link set eth1 down");
        },
        || drop(net.on(Host::A, "ip link set eth1 up")),
    );
    assert!(
        !kinds(&report).contains(&"address_missing"),
        "{:#}",
        report.json["known"]
    );
    assert!(!report.said().contains("fd99::1"), "{}", report.said());
}

#[test]
fn a_route_that_leads_nowhere_is_waited_for_and_named_by_its_type() {
    let Some(net) = net_of(1) else { return };
    let cases = [
        ("udp:10.99.0.1", "10.77.0.2", "blackhole"),
        ("udp:10.99.0.1", "10.77.0.3", "prohibit"),
        ("io_uring:10.99.0.1", "10.77.0.4", "blackhole"),
        ("io_uring:10.99.0.1", "10.77.0.5", "unreachable"),
        ("udp:fd99::1", "fd77::2", "prohibit"),
        ("udp:fd99::1", "fd77::3", "blackhole"),
        ("io_uring:fd99::1", "fd77::4", "prohibit"),
    ];
    for (port, to, kind) in cases {
        let v6 = to.contains(':');
        let (family, gateway, prefix) = match v6 {
            true => ("-6", "fd99::2", 128),
            false => ("-4", "10.99.0.2", 32),
        };
        let dest = if v6 {
            format!("[{to}]:9000")
        } else {
            format!("{to}:9000")
        };
        net.on(
            Host::A,
            &format!("ip {family} route add {to}/{prefix} via {gateway} metric 50"),
        );
        let route = format!("{kind} {to}/{prefix} metric 10");
        let report = interrupted(
            &net,
            &format!("send {port} --dest {dest}"),
            || drop(net.on(Host::A, &format!("ip {family} route add {route}"))),
            || drop(net.on(Host::A, &format!("ip {family} route del {route}"))),
        );
        let told = known(&report, "no_way");
        let expected = format!("this host's route to the destination was of type {kind} for");
        assert!(
            told.len() == 1 && told[0].starts_with(&expected),
            "{port} {kind}: {told:?}"
        );
        let reasons = report.json["invalid_reasons"].to_string();
        assert!(reasons.contains(&told[0]), "{port} {kind}: {reasons}");
        for wrong in ["the link was down", "gso", "failed or vanished"] {
            assert!(!report.said().contains(wrong), "{port} {kind}: {}", report.said());
        }
    }
}

#[test]
fn a_route_that_is_missing_is_no_link_that_is_down() {
    let Some(net) = net_of(1) else { return };
    net.on(Host::A, "ip route add 10.78.0.0/24 via 10.99.0.2");
    let report = interrupted(
        &net,
        "send udp:10.99.0.1 --dest 10.78.0.9:9000",
        || drop(net.on(Host::A, "ip route del 10.78.0.0/24")),
        || drop(net.on(Host::A, "ip route add 10.78.0.0/24 via 10.99.0.2")),
    );
    let told = known(&report, "no_way");
    assert!(
        told.len() == 1 && told[0].starts_with("this host had no route to the destination for"),
        "{told:?}"
    );
    assert!(!report.said().contains("the link was down"), "{}", report.said());
}

#[test]
fn an_mtu_that_is_lowered_under_a_run_is_waited_for_and_named() {
    let Some(net) = net_of(1) else { return };
    for words in [
        "send udp:10.99.0.1 --dest 10.99.0.2:9000 --payload-size 1400",
        "send io_uring:10.99.0.1 --dest 10.99.0.2:9000 --payload-size 1300",
        "send udp:fd99::1 --dest [fd99::2]:9000 --payload-size 1400",
    ] {
        let report = interrupted(
            &net,
            words,
            || drop(net.on(Host::A, "ip link set eth1 mtu 1290")),
            || drop(net.on(Host::A, "ip link set eth1 mtu 1500")),
        );
        let no_way = known(&report, "no_way").join(" ");
        assert!(
            no_way.starts_with("packets were longer than the MTU of the interface or route for"),
            "{words}: {no_way}"
        );
        let changes = known(&report, "mtu_changed");
        assert_eq!(changes.len(), 2, "{words}: {changes:?}");
        assert!(changes[0].starts_with("the MTU of eth1 was changed from 1500 to 1290 bytes at"));
        let said = report.said();
        assert!(said.contains("the MTU of eth1 is 1290 bytes now"), "{words}: {said}");
        assert!(
            !said.contains("gso=off") && !said.contains("vanished"),
            "{words}: {said}"
        );
    }
}

#[test]
fn an_mtu_gets_no_remedy_for_a_full_queue_and_is_not_denied() {
    let Some(net) = net_of(1) else { return };
    // The other end takes no packets of this length: the path is told of each.
    for words in [
        "send af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --payload-size 1400",
        "send af_packet:eth1 --src fd99::1 --dest [fd99::2]:9000 --payload-size 1350",
    ] {
        let report = interrupted(
            &net,
            words,
            || drop(net.on(Host::B, "ip link set eth1 mtu 1300")),
            || drop(net.on(Host::B, "ip link set eth1 mtu 1500")),
        );
        let (said, why) = (report.said(), report.json["why"].to_string());
        assert!(kinds(&report).contains(&"device_dropped"), "{:#}", report.json["known"]);
        for text in [said, why] {
            assert!(!text.contains("a ring, buffer or queue was full"), "{words}: {text}");
            assert!(!text.contains("nothing was sent"), "{words}: {text}");
        }
    }
    // This end takes none that come back: packets are sent, and lost.
    for (port, src, dest) in [
        ("af_packet", "10.99.0.1", "10.99.0.2:9000"),
        ("af_xdp", "fd99::1", "[fd99::2]:9000"),
    ] {
        let (here, there) = (Scratch::new(), Scratch::new());
        let reflector = listen(&net, &there, &format!("reflect udp:{dest}"));
        let words = format!("sendrecv {port}:eth1 --src {src} --dest {dest} --payload-size 1350");
        let sender = sending(&net, &here, &words);
        wait_for_more("rows that came back", || returning(&here));
        net.on(Host::A, "ip link set eth1 mtu 1300");
        let before = silent(&here);
        wait_until("rows that are lost", || silent(&here) > before + 10);
        net.on(Host::A, "ip link set eth1 mtu 1500");
        wait_for_more("rows that come back again", || returning(&here));
        let report = here.read(sender.end(Signal::INT));
        there.read(reflector.end(Signal::INT));
        let (said, why) = (report.said(), report.json["why"].to_string());
        assert!(
            said.contains("to 1300 bytes") && !said.contains("none of the"),
            "{words}: {said}"
        );
        assert!(
            why.contains("to 1300 bytes") && !why.contains("on the path or beyond"),
            "{words}: {why}"
        );
    }
}

#[test]
fn drops_of_the_senders_own_queue_are_counted_named_and_void_the_run() {
    if missing("tc", "iproute2") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    // A tenth of what is sent leaves: the queue holds two packets.
    net.on(
        Host::A,
        "tc qdisc replace dev eth1 root tbf rate 1mbit burst 3000 limit 3000",
    );
    let reflect = [
        ("reflect udp:10.99.0.2:9000", "udp:10.99.0.1", "10.99.0.2:9000"),
        ("reflect udp:10.99.0.2:9000", "io_uring:10.99.0.1", "10.99.0.2:9000"),
        ("reflect udp:[fd99::2]:9000", "udp:fd99::1", "[fd99::2]:9000"),
    ];
    for (reflect, port, dest) in reflect {
        let (here, there) = (Scratch::new(), Scratch::new());
        let reflector = listen(&net, &there, reflect);
        let words = format!(
            "sendrecv {port} --dest {dest} --rate 20kpps --payload-size 200 --duration 500ms --settle 200ms --quiet"
        );
        let sent = here.measure(net.a(&words));
        let reflected = there.read(reflector.end(Signal::INT));
        let lost = sent.count("lost");
        assert!(lost > 0, "{words}: {:#}", sent.json);
        assert_eq!(
            lost,
            sent.count("tx_packets") - reflected.count("rx_packets"),
            "{words}"
        );
        // As many as the queue itself says; others of this host may be among them.
        let dropped = packets(&sent, "queue_dropped");
        assert!(
            dropped >= lost && dropped < lost + 50,
            "{words}: {dropped} dropped, {lost} lost"
        );
        let reasons = sent.json["invalid_reasons"].to_string();
        assert!(
            reasons.contains("the queue tbf ") && reasons.contains("of eth1 dropped") && reasons.contains("of others"),
            "{words}: {reasons}"
        );
        let said = sent.said();
        assert!(!said.contains("none of the"), "{words}: {said}");
        let why = sent.json["why"].to_string();
        assert!(why.contains("the queue tbf "), "{words}: {why}");
        assert!(!why.contains("on the path or beyond it"), "{words}: {why}");
    }
    // A packet socket is told of each drop, and tries again: nothing is lost that was counted as sent.
    let words = "send af_packet:eth1,qdisc=kernel --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps \
                 --payload-size 200 --duration 300ms --quiet";
    let sent = Scratch::new().measure(net.a(words));
    let reasons = sent.json["invalid_reasons"].to_string();
    assert!(!reasons.contains("of others"), "{reasons}");
    // It is why the path took nothing.
    let full = reasons.contains("a ring, buffer or queue was full");
    assert_eq!(full, reasons.contains("the queue tbf"), "{reasons}");
    assert!(!full || reasons.contains("were tried again"), "{reasons}");
}

#[test]
fn a_reflectors_own_queue_is_named_by_the_reflector_and_a_queue_that_imitates_a_path_voids_nothing() {
    if missing("tc", "iproute2") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    net.on(
        Host::B,
        "tc qdisc replace dev eth1 root tbf rate 1mbit burst 3000 limit 3000",
    );
    let (here, there) = (Scratch::new(), Scratch::new());
    let reflector = listen(&net, &there, "reflect udp:10.99.0.2:9000");
    let words = "sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --payload-size 200 --duration 500ms \
                 --settle 200ms --quiet";
    let sent = here.measure(net.a(words));
    let reflected = there.read(reflector.end(Signal::INT));
    assert!(sent.count("lost") > 0 && known(&sent, "queue_dropped").is_empty());
    let warnings = reflected.json["warnings"].to_string();
    assert!(
        warnings.contains("the queue tbf ") && warnings.contains("are lost to their sender"),
        "{warnings}"
    );
    net.on(Host::B, "tc qdisc del dev eth1 root");
    let netem = inside(&net.lab, Host::A, "tc qdisc replace dev eth1 root netem loss 20%");
    if run_command(netem).code != Some(0) {
        return skip("this kernel has no netem: that half of the test is left out");
    }
    let (here, there) = (Scratch::new(), Scratch::new());
    let reflector = listen(&net, &there, "reflect udp:10.99.0.2:9000");
    let sent = here.measure(net.a(words));
    reflector.end(Signal::INT);
    assert!(packets(&sent, "path_imitated") >= sent.count("lost"), "{:#}", sent.json);
    let reasons = sent.json["invalid_reasons"].to_string();
    assert!(!reasons.contains("netem"), "{reasons}");
    assert!(!sent.said().contains("none of the"), "{}", sent.said());
}

/// Host b routes to a network of its own, 10.N.0.0/24 and fdN::/64, whose link has this MTU.
fn far_network(net: &Net, n: &str, mtu: u32) {
    for words in [
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1".to_owned(),
        format!("ip link add far{n} mtu {mtu} type veth peer name near{n}"),
        format!("ip link set near{n} up"),
        format!("ip link set far{n} up"),
        format!("ip address add 10.{n}.0.1/24 dev far{n}"),
        format!("ip address add fd{n}::1/64 dev far{n} nodad"),
        format!("ip neighbour add 10.{n}.0.9 lladdr 02:00:00:00:00:09 dev far{n}"),
        format!("ip neighbour add 10.{n}.0.10 lladdr 02:00:00:00:00:09 dev far{n}"),
        format!("ip neighbour add fd{n}::9 lladdr 02:00:00:00:00:09 dev far{n}"),
    ] {
        net.on(Host::B, &words);
    }
    net.on(Host::A, &format!("ip route add 10.{n}.0.0/24 via 10.99.0.2"));
    net.on(Host::A, &format!("ip -6 route add fd{n}::/64 via fd99::2"));
}

#[test]
fn routers_reports_on_the_tests_packets_are_read_on_raw_paths_as_on_sockets() {
    let Some(net) = net_of(1) else { return };
    // Host b is a router to two networks: one of no route, and one where nobody is.
    far_network(&net, "67", 1500);
    // As many reports as there are reasons for.
    net.on(
        Host::B,
        "sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv4.icmp_msgs_per_sec=100000 net.ipv6.icmp.ratelimit=0",
    );
    net.on(
        Host::B,
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
    );
    net.on(Host::B, "ip route add unreachable 10.66.0.0/24");
    net.on(Host::B, "ip -6 route add unreachable fd66::/64");
    net.on(Host::A, "ip route add 10.66.0.0/24 via 10.99.0.2");
    net.on(Host::A, "ip -6 route add fd66::/64 via fd99::2");
    let sent = |words: &str| {
        // A number of packets: a busy host may miss every departure of a short time.
        let words = format!("sendrecv {words} --rate 500pps --count 150 --settle 200ms --quiet");
        let report = Scratch::new().measure(net.a(&words));
        assert!(report.count("tx_packets") > 0, "{words}: {:#}", report.json);
        assert_eq!(report.count("rx_packets"), 0, "{words}: {:#}", report.json);
        (words, report)
    };
    let raw = [
        (
            "icmp_time_exceeded",
            "time_exceeded",
            "--src 10.99.0.SRC --dest 10.67.0.9:9000 --gateway 10.99.0.2 --ttl 1",
        ),
        (
            "icmp_time_exceeded",
            "time_exceeded",
            "--src fd99::SRC --dest [fd67::9]:9000 --gateway fd99::2 --ttl 1",
        ),
        (
            "icmp_unreachable",
            "unreachable",
            "--src 10.99.0.SRC --dest 10.66.0.9:9000 --gateway 10.99.0.2",
        ),
        (
            "icmp_unreachable",
            "unreachable",
            "--src fd99::SRC --dest [fd66::9]:9000 --gateway fd99::2",
        ),
        // Addresses that the kernel of a does not have, on ports where nobody listens.
        (
            "icmp_port_unreachable",
            "nobody_listens",
            "--src 10.99.0.SRC --dest 10.99.0.2:9",
        ),
    ];
    for (reason, kind, words) in raw {
        // The kernel limits its reports by the address that they go to: each of these has its own.
        for (path, src) in [("af_packet:eth1", "77"), ("af_packet:eth1,qdisc=kernel", "78")] {
            let (words, report) = sent(&format!("{path} {}", words.replace("SRC", src)));
            assert!(report.reason(reason) > 0, "{words}: {:#}", report.json["reasons"]);
            // The hosts' own stacks talk, too.
            assert!(
                report.reason("foreign_not_udp") < 10,
                "{words}: {:#}",
                report.json["reasons"]
            );
            assert_eq!(kinds(&report), [kind], "{words}: {:#}", report.json["known"]);
            let said = report.said();
            assert!(!said.contains("is a reflector running"), "{words}: {said}");
            assert!(said.contains("nothing came back: "), "{words}: {said}");
        }
    }
    for (words, kind) in [
        (
            "af_xdp:eth1 --src 10.99.0.1 --dest 10.67.0.9:9000 --gateway 10.99.0.2 --ttl 1",
            "time_exceeded",
        ),
        (
            "xdp:eth1 --src 10.99.0.1 --dest 10.67.0.9:9000 --gateway 10.99.0.2 --ttl 1",
            "time_exceeded",
        ),
        ("udp:10.99.0.1 --dest 10.67.0.9:9000", "time_exceeded"),
        ("io_uring:10.99.0.1 --dest 10.67.0.9:9000", "time_exceeded"),
        ("udp:fd99::1 --dest [fd67::9]:9000", "time_exceeded"),
        ("udp:10.99.0.1 --dest 10.66.0.9:9000", "unreachable"),
        ("udp:10.99.0.1 --dest 10.99.0.2:9", "nobody_listens"),
    ] {
        let hops = if kind == "time_exceeded" { 1 } else { 64 };
        let of_v6 = format!("net.ipv6.conf.all.hop_limit={hops} net.ipv6.conf.eth1.hop_limit={hops}");
        net.on(Host::A, &format!("sysctl -qw net.ipv4.ip_default_ttl={hops} {of_v6}"));
        let (words, report) = sent(words);
        assert!(kinds(&report).contains(&kind), "{words}: {:#}", report.json["known"]);
        let said = report.said();
        // What may be about packets of others answers no question, but comes before it.
        let of_others = known(&report, kind)[0].contains("of the test or of others");
        match said.find("is a reflector running") {
            Some(question) => {
                assert!(of_others, "{words}: {said}");
                let evidence = said.find(&known(&report, kind)[0]);
                assert!(evidence.is_some_and(|at| at < question), "{words}: {said}");
            }
            None => assert!(said.contains("nothing came back: "), "{words}: {said}"),
        }
        assert!(said.contains("--expect 'loss<1%' makes it fail"), "{words}: {said}");
        let why = report.json["why"].to_string();
        assert!(why.contains(&known(&report, kind)[0]), "{words}: {why}");
    }
}

#[test]
fn a_narrower_link_behind_a_router_is_named_and_the_next_start_says_whose_mtu_it_is() {
    let Some(net) = net_of(1) else { return };
    far_network(&net, "55", 1280);
    for (port, to) in [("udp", "10.55.0.9"), ("io_uring", "10.55.0.10")] {
        let words = format!(
            "sendrecv {port}:10.99.0.1 --dest {to}:9000 --payload-size 1400 --rate 500pps --duration 500ms --quiet"
        );
        let report = Scratch::new().measure(net.a(&words));
        report.assert_accounted();
        let told = known(&report, "too_long").join(" ");
        assert!(
            told.contains(&format!("a router on the way to {to}"))
                && told.contains("no packets longer than 1280 bytes"),
            "{words}: {:#}",
            report.json["known"]
        );
        let said = report.said();
        assert!(
            !said.contains("is a reflector running") && !said.contains("gso"),
            "{words}: {said}"
        );
        let again = run_command(net.a(&words));
        assert_eq!(again.code, Some(2), "{}", again.stderr);
        for word in ["--payload-size 1400", "1280", "learned"] {
            assert!(again.stderr.contains(word), "{words}: {word}: {}", again.stderr);
        }
    }
}

#[test]
fn a_device_that_drops_everything_has_sent_nothing() {
    let Some(net) = net_of(1) else { return };
    let made = run_command(inside(&net.lab, Host::A, "ip link add void type ifb"));
    if made.code != Some(0) {
        return skip(&format!("this kernel has no ifb: {}", made.stderr));
    }
    net.on(Host::A, "ip link set void up");
    net.on(Host::A, "ip address add 10.44.0.1/24 dev void");
    net.on(Host::A, "ip neighbour add 10.44.0.2 lladdr 02:00:00:00:00:02 dev void");
    for words in [
        "af_packet:void --src 10.44.0.1 --dest-mac 02:00:00:00:00:02",
        "af_packet:void,qdisc=kernel --src 10.44.0.1 --dest-mac 02:00:00:00:00:02",
        "udp:10.44.0.1",
        "io_uring:10.44.0.1",
    ] {
        let words = format!("send {words} --dest 10.44.0.2:9000 --rate 1kpps --duration 300ms --quiet");
        let report = Scratch::new().measure(net.a(&words));
        let reasons = report.json["invalid_reasons"].to_string();
        assert!(
            reasons.contains("the device void dropped") && reasons.contains("nothing was sent"),
            "{words}: {reasons}"
        );
    }
}

#[test]
fn a_link_that_is_down_at_the_start_is_named_and_nobody_is_blamed_for_not_answering() {
    let Some(net) = net_of(1) else { return };
    let ports = [
        "sendrecv af_packet:eth1 --src 10.99.0.77 --dest 10.99.0.2:9000",
        "sendrecv af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000",
        "sendrecv af_packet:eth1,qdisc=kernel --src fd99::77 --dest [fd99::2]:9000",
        "sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000",
        "send udp:10.99.0.1 --dest 10.99.0.2:9000",
        "send io_uring:10.99.0.1 --dest 10.99.0.2:9000",
    ];
    let cases = [(Host::B, "no carrier"), (Host::A, "switched off")];
    for (host, word) in cases {
        net.on(host, "ip link set eth1 down");
        for words in ports {
            let finished = run_command(net.a(&format!("{words} --rate 1kpps --duration 200ms --quiet")));
            let said = &finished.stderr;
            assert_ne!(finished.code, Some(0), "{words}: {said}");
            assert!(!said.contains("nobody answered"), "{words}: {said}");
            let named = said.contains(word) || word == "switched off" && said.contains("is down");
            assert!(named, "{words}, {word}: {said}");
        }
        net.on(host, "ip link set eth1 up");
    }
}

#[test]
fn a_lane_that_was_moved_off_its_core_says_so_and_names_no_core() {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    if cores < 2 {
        return skip("one core: nowhere to move a lane to");
    }
    if missing("taskset", "util-linux") {
        return;
    }
    let scratch = Scratch::new();
    let words = "sendrecv loop:delay=100us --rate 1kpps --duration 1h --settle 20ms --interval 20ms --cores 1 --quiet";
    let sender = Background::start(scratch.results(mpps(words)));
    wait_for_more("rows with packets", || scratch.busy_rows());
    let mut taskset = std::process::Command::new("taskset");
    taskset.args(["-a", "-p", "-c", "0", &sender.id().to_string()]);
    assert_eq!(run_command(taskset).code, Some(0));
    wait_for_more("rows on the other core", || scratch.busy_rows());
    let report = scratch.read(sender.end(Signal::INT));
    let said = report.said();
    assert!(
        said.contains("lane 0 was moved off core 1 during the run") && said.contains("core 0"),
        "{said}"
    );
    assert!(
        report.json["lanes"][0]["core"].is_null(),
        "{:#}",
        report.json["lanes"][0]
    );
}

#[test]
fn a_quiet_run_knows_of_nothing() {
    let Some(net) = net_of(1) else { return };
    let (here, there) = (Scratch::new(), Scratch::new());
    let reflector = listen(&net, &there, "reflect udp:10.99.0.2:9000");
    let words = "sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 1kpps --duration 300ms --quiet";
    let sent = here.measure(net.a(words));
    assert!(returning(&here) > 0);
    let reflected = there.read(reflector.end(Signal::INT));
    for report in [&sent, &reflected] {
        assert_eq!(kinds(report), [""; 0], "{:#}", report.json["known"]);
    }
}

#[test]
fn a_next_host_that_answers_nobody_is_named_and_what_the_kernel_took_is_not_valid() {
    let Some(net) = net_of(1) else { return };
    far_network(&net, "68", 1500);
    for (words, ip) in [
        ("send udp: --dest 10.99.0.180:9600", "10.99.0.180"),
        ("send io_uring: --dest [fd99::178]:9600", "fd99::178"),
        ("sendrecv udp:10.99.0.1 --dest 10.99.0.181:9600", "10.99.0.181"),
        ("sendrecv udp:fd99::1 --dest [fd99::179]:9600", "fd99::179"),
        // Behind a router that is not there.
        ("sendrecv io_uring:10.99.0.1 --dest 10.69.0.9:9600", "10.99.0.182"),
    ] {
        net.on(Host::A, "ip route replace 10.69.0.0/24 via 10.99.0.182");
        let words = format!("{words} --rate 500pps --duration 2s --quiet");
        let report = Scratch::new().measure(net.a(&words));
        let known = known(&report, "no_neighbor");
        assert_eq!(known.len(), 1, "{words}: {:#}", report.json["known"]);
        assert!(
            known[0].contains(&format!("no neighbour answered for {ip} on eth1 for ")),
            "{words}: {known:?}"
        );
        assert_eq!(report.json["valid"], false, "{words}: {:#}", report.json);
        let said = report.said();
        assert!(!said.contains("is a reflector running"), "{words}: {said}");
        assert!(!said.contains("destination unreachable"), "{words}: {said}");
    }
    // Hosts that answer, and a device that asks nobody.
    let _reflector = Background::ready(net.b("reflect udp:10.99.0.2:9000"));
    for words in [
        "sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000",
        "send udp:127.0.0.1 --dest 127.0.0.1:9000",
    ] {
        let words = format!("{words} --rate 500pps --duration 1s --settle 1s --quiet");
        let report = Scratch::new().measure(net.a(&words));
        assert!(
            !kinds(&report).contains(&"no_neighbor"),
            "{words}: {:#}",
            report.json["known"]
        );
    }
}

#[test]
fn a_second_destination_that_does_not_answer_is_named_and_the_path_is_not_blamed() {
    let Some(net) = net_of(1) else { return };
    let _reflector = Background::ready(net.b("reflect udp:10.99.0.2:9000"));
    let words = "sendrecv udp: --dest 10.99.0.2-10.99.0.3:9000 --rate 500pps --duration 2s --settle 1s --quiet";
    let report = Scratch::new().measure(net.a(words));
    let known = known(&report, "no_neighbor");
    assert!(
        known.len() == 1 && known[0].starts_with("no neighbour answered for 10.99.0.3 on eth1 as the run ended"),
        "{:#}",
        report.json
    );
    assert!(!report.said().contains("lost on the way"), "{:#}", report.json);
}

#[test]
fn a_next_host_whose_entry_goes_during_the_run_and_that_answers_no_more_is_named() {
    let Some(net) = net_of(1) else { return };
    for (ip, dest) in [("10.99.0.2", "10.99.0.2:9000"), ("fd99::2", "[fd99::2]:9000")] {
        let scratch = Scratch::new();
        let words = format!("send udp: --dest {dest} --rate 2kpps --duration 3s --interval 20ms --quiet");
        let sender = Background::start(scratch.results(net.a(&words)));
        wait_for_more("rows with packets", || scratch.busy_rows());
        // With the carrier the kernel loses its neighbours, and says so of none that it asks for anew.
        net.on(Host::B, "ip link set eth1 arp off");
        net.on(Host::B, "ip link set eth1 down");
        // A link that comes back at once is not noticed.
        let show = format!("ip neighbour show {ip} dev eth1");
        wait_until("the entry to go", || !net.on(Host::A, &show).stdout.contains("lladdr"));
        net.on(Host::B, "ip link set eth1 up");
        let report = scratch.read(sender.finish());
        net.on(Host::B, "ip link set eth1 arp on");
        net.on(Host::B, "ip address replace fd99::2/64 dev eth1 nodad");
        let known = known(&report, "no_neighbor").join(" ");
        assert!(
            known.contains(&format!("no neighbour answered for {ip} on eth1 for ")),
            "{dest}: {:#}",
            report.json
        );
        assert_eq!(report.json["valid"], false, "{dest}: {:#}", report.json);
    }
}

#[test]
fn a_receiver_says_that_the_reverse_path_filter_took_packets() {
    let Some(net) = net_of(1) else { return };
    net.on(Host::A, "ip address add 10.98.1.1/32 dev lo");
    // Its question for the MAC address would be refused as well.
    net.on(
        Host::A,
        &format!("ip neighbour replace 10.99.0.2 lladdr {} dev eth1", Host::B.mac()),
    );
    net.on(
        Host::B,
        "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth1.rp_filter=1",
    );
    for receiver in ["drop udp:10.99.0.2:9071", "reflect io_uring:10.99.0.2:9071"] {
        let scratch = Scratch::new();
        let run = Background::ready(scratch.results(net.b(receiver)));
        let sent = run_command(net.a("send udp:10.98.1.1 --dest 10.99.0.2:9071 --rate 1kpps --count 200 --quiet"));
        assert!(matches!(sent.code, Some(0 | 3)), "{}", sent.stderr);
        let report = scratch.read(run.end(Signal::INT));
        assert!(
            report.said().contains("the reverse path filter of this host dropped"),
            "{receiver}: {:#}",
            report.json
        );
    }
}

#[test]
fn an_own_interface_that_is_off_is_named_where_no_source_address_can_be_had() {
    let Some(net) = net_of(1) else { return };
    net.on(Host::A, "ip link set eth1 down");
    for words in [
        "sendrecv udp: --dest 10.99.0.2:9500",
        "send io_uring: --dest [fd99::2]:9500",
        "send af_packet:eth1 --dest [fd99::2]:9500",
    ] {
        let finished = run_command(net.a(&format!("{words} --duration 100ms --quiet")));
        assert_eq!(finished.code, Some(2), "{words}: {}", finished.stderr);
        for part in ["eth1 is switched off", "ip link set eth1 up"] {
            assert!(finished.stderr.contains(part), "{words}: {}", finished.stderr);
        }
    }
    let finished = run_command(net.a("send udp: --dest 10.77.0.2:9500 --duration 100ms --quiet"));
    assert!(!finished.stderr.contains("switched off"), "{}", finished.stderr);
}
