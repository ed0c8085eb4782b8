//! `forward` on xdp: every mode between two links and on one, frames of every size that arrive bit for bit as they
//! must, and what happens when a port goes.

use std::time::Duration;

use mpps_host::lab::Host;
use mpps_tests::{
    Background, NOBODY, Net, Passed, Report, STRANGER, Scratch, Way, all_back, all_there, arrived, assert_refused,
    exchange, listen, mac_of, macs, missing, net_of, programs_of, still_loaded, wait_until, way,
};
use rustix::process::Signal;

/// Frames each way.
const SOME: u64 = 10_000;
/// Frames under way at once: fewer than the rings hold.
const WINDOW: u64 = 192;
/// How long frames are sent at the most.
const LIMIT: Duration = Duration::from_secs(20);

/// Two hosts with two links between them, eth1 and eth2, and no chatter of their own on either.
fn bare_links() -> Option<Net> {
    let net = net_of(1)?;
    for host in Host::ALL {
        let quiet = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 net.ipv4.ip_forward=0";
        net.on(host, &format!("sysctl -qw {quiet}"));
    }
    let b = net.lab.namespace(Host::B);
    net.on(Host::A, &format!("ip link add eth2 type veth peer name eth2 netns {b}"));
    for host in Host::ALL {
        net.on(host, "ip link set eth2 up");
    }
    Some(net)
}

/// The same, and each end takes what programs at the other one send, though it may have none itself.
fn two_links() -> Option<Net> {
    let net = bare_links()?;
    if missing("ethtool", "ethtool") {
        return None;
    }
    for host in Host::ALL {
        net.on(host, "ethtool -K eth2 gro on");
    }
    Some(net)
}

fn both_ways() -> Vec<Way> {
    vec![way("eth1", "eth2", 0), way("eth2", "eth1", 0)]
}

/// Frames over a forwarder on host b from sockets on host a, and what it reports.
fn forwarded(net: &Net, words: &str, ways: Vec<Way>) -> (Vec<Passed>, Report) {
    let scratch = Scratch::new();
    let forwarder = listen(net, &scratch, words);
    let passed = exchange(net.lab.namespace(Host::A), ways, SOME, WINDOW, LIMIT);
    let report = scratch.read(forwarder.end(Signal::INT));
    report.assert_rows_add_up();
    let context = format!("{words}: {passed:?} {:#}", report.json);
    for way in &passed {
        assert_eq!((way.sent, way.received), (SOME, SOME), "{context}");
    }
    let all = SOME * passed.len() as u64;
    assert_eq!(
        (report.count("rx_packets"), report.count("tx_packets")),
        (all, all),
        "{context}"
    );
    assert_eq!(report.lanes("tx_failed"), 0, "{context}");
    (passed, report)
}

#[test]
fn on_one_link_frames_come_back_untouched_or_with_their_addresses_swapped() {
    let Some(net) = two_links() else { return };
    for (words, swapped) in [("", true), (" --mode io", false), (" --mode macswap --take all", true)] {
        let mut back = way("eth1", "eth1", 0);
        if swapped {
            back.arrives = macs(STRANGER, NOBODY);
        }
        forwarded(&net, &format!("forward xdp:eth1{words}"), vec![back]);
    }
}

#[test]
fn between_two_links_frames_pass_both_ways_untouched_or_with_new_addresses() {
    let Some(net) = two_links() else { return };
    let (passed, report) = forwarded(&net, "forward xdp:eth1 xdp:eth2", both_ways());
    for (port, way) in passed.iter().enumerate() {
        let context = format!("{:#}", report.json);
        assert_eq!(report.count(&format!("/ports/{port}/rx_packets")), SOME, "{context}");
        assert_eq!(report.count(&format!("/ports/{port}/tx_packets")), SOME, "{context}");
        assert_eq!(report.count(&format!("/ports/{port}/rx_bytes")), way.bytes, "{context}");
    }
    let mut swapped = both_ways();
    swapped.iter_mut().for_each(|way| way.arrives = macs(STRANGER, NOBODY));
    forwarded(&net, "forward xdp:eth1 xdp:eth2 --mode macswap", swapped);
    let mut routed = both_ways();
    routed[0].arrives = macs([2, 0, 0, 0, 0, 0xa2], mac_of(&net, Host::B, "eth2"));
    routed[1].arrives = macs([2, 0, 0, 0, 0, 0xa1], mac_of(&net, Host::B, "eth1"));
    let l2fwd = "--mode l2fwd --dest-mac 02:00:00:00:00:a1,02:00:00:00:00:a2";
    forwarded(&net, &format!("forward xdp:eth1 xdp:eth2 {l2fwd}"), routed);
}

#[test]
fn on_socket_buffers_frames_pass_as_in_the_driver() {
    let Some(net) = two_links() else { return };
    let (_, report) = forwarded(&net, "forward xdp:eth1,mode=skb xdp:eth2,mode=skb", both_ways());
    assert_eq!(report.json["host"]["xdp_mode"], "skb", "{:#}", report.json["host"]);
}

#[test]
fn a_forwarder_that_swaps_all_addresses_is_a_reflector() {
    let Some(net) = two_links() else { return };
    let mac = Host::B.mac();
    let ends = format!("--src 10.99.0.1 --dest 10.99.0.99:9000 --dest-mac {mac} --rate 20kpps");
    let words = ["xdp:eth1", "af_xdp:eth1"].map(|port| format!("sendrecv {port} {ends}"));
    let tagged = format!("{} --vlan 7 --payload-size 400 --flows 50", words[0]);
    let forward = "forward xdp:eth1 --mode 5tswap --port 9000";
    all_back(&net, forward, &[&words[0], &words[1], &tagged]);
    let ends = format!("--src fd99::1 --dest [fd99::99]:9000 --dest-mac {mac} --rate 20kpps");
    let words = format!("sendrecv xdp:eth1 {ends}");
    all_back(&net, "forward xdp:eth1 --mode 5tswap --take all", &[&words]);
}

#[test]
fn what_is_sent_by_one_path_arrives_by_another_over_a_forwarder() {
    let Some(net) = two_links() else { return };
    // Listens on the same host that sends, at the other link.
    let mac = net.on(Host::A, "cat /sys/class/net/eth2/address").stdout;
    let mac = mac.trim();
    let scratch = Scratch::new();
    let forwarder = listen(&net, &scratch, "forward xdp:eth1 xdp:eth2 --port 9000");
    let mut sent = 0;
    for (send, drop) in [
        ("xdp:eth1", "xdp:eth2"),
        ("af_xdp:eth1", "xdp:eth2"),
        ("xdp:eth1", "af_xdp:eth2"),
    ] {
        let there = Scratch::new();
        let words = format!("drop {drop} --ip 10.99.0.99 --port 9000 --interval 20ms --quiet");
        let receiver = Background::start(there.results(net.a(&words)));
        wait_until("a row of the receiver", || there.rows_so_far() > 0);
        let ends = format!("--src 10.99.0.77 --dest 10.99.0.99:9000 --dest-mac {mac}");
        let words = format!("send {send} {ends} --rate 20kpps --duration 150ms --catch-up 1s --quiet");
        let report = Scratch::new().measure(net.a(&words));
        report.assert_accounted();
        arrived(&there, report.count("tx_packets"));
        let received = there.read(receiver.end(Signal::INT));
        received.assert_rows_add_up();
        let (tx, context) = (
            report.count("tx_packets"),
            format!("{send} {drop}: {:#}", received.json),
        );
        assert_eq!(
            (received.count("rx_packets"), received.count("lost")),
            (tx, 0),
            "{context}"
        );
        sent += tx;
    }
    let report = scratch.read(forwarder.end(Signal::INT));
    report.assert_rows_add_up();
    assert_eq!(report.count("tx_packets"), sent, "{:#}", report.json);
}

#[test]
fn a_forwarder_takes_what_it_was_told_to_and_leaves_the_rest_to_the_host() {
    let Some(net) = two_links() else { return };
    // The host's own addresses are the host's: a listener of its own gets what is sent to them.
    let scratch = Scratch::new();
    let forwarder = listen(&net, &scratch, "forward xdp:eth1 xdp:eth2");
    let send = "send xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps";
    let (sent, _) = all_there(&net, "drop udp:10.99.0.2:9000", send);
    let report = scratch.read(forwarder.end(Signal::INT));
    report.assert_rows_add_up();
    let left: u64 = (0..2)
        .map(|port| report.count(&format!("/ports/{port}/path_counters/left_to_host")))
        .sum();
    assert!(left >= sent.count("tx_packets"), "{:#}", report.json);
}

#[test]
fn a_forwarder_that_is_killed_or_loses_a_port_leaves_no_program() {
    for how in ["kill", "delete eth1", "delete eth2"] {
        let Some(net) = two_links() else { return };
        let scratch = Scratch::new();
        let mut forwarder = listen(&net, &scratch, "forward xdp:eth1 xdp:eth2 --take all");
        let programs = programs_of(&forwarder);
        assert!(programs.len() >= 2, "{programs:?}");
        for device in ["eth1", "eth2"] {
            assert!(net.xdp_program(Host::B, device).is_some(), "{device}");
        }
        let _receiver = Background::ready(net.a("drop xdp:eth2 --port 1"));
        let ends = format!("--src 10.99.0.77 --dest 10.99.0.99:9000 --dest-mac {}", Host::B.mac());
        let _sender = Background::start(net.a(&format!("send xdp:eth1 {ends} --rate 10kpps --duration 1h --quiet")));
        wait_until("packets", || scratch.busy_rows() >= 2);
        if how == "kill" {
            forwarder.end(Signal::KILL);
            wait_until("no XDP program", || {
                ["eth1", "eth2"]
                    .iter()
                    .all(|device| net.xdp_program(Host::B, device).is_none())
            });
        } else {
            net.on(Host::B, &format!("ip link {how}"));
            wait_until("the end of the forwarder", || !forwarder.running());
            let report = scratch.read(forwarder.finish());
            report.assert_rows_add_up();
            assert_eq!(report.finished.code, Some(3), "{}", report.said());
            assert!(
                report.count("rx_packets") > 0 && report.said().contains("vanished"),
                "{}",
                report.said()
            );
        }
        wait_until("no program in the kernel", || still_loaded(&programs).is_empty());
    }
}

#[test]
fn ports_that_frames_can_not_go_between_are_refused_in_one_line() {
    let Some(net) = bare_links() else { return };
    for (words, code, parts) in [
        ("xdp:eth1 af_packet:eth2", 2, &["af_packet:eth2", "xdp:eth2"][..]),
        ("null: xdp:eth2", 2, &["null:", "devmap"]),
        ("xdp:eth1 xdp:eth2 --lanes 2", 2, &["--lanes 2", "left out"]),
        (
            "xdp:eth1 xdp:eth2 --split-directions",
            2,
            &["--split-directions", "left out"],
        ),
        ("xdp:eth1 xdp:eth9", 2, &["xdp:eth9", "eth1"]),
        ("xdp:eth1 xdp:eth1", 2, &["xdp:eth1"]),
        // Nobody at the other end of eth2 takes frames from programs.
        ("xdp:eth1 xdp:eth2", 1, &["eth2", "gro on"]),
    ] {
        assert_refused(net.b(&format!("forward {words} --duration 50ms")), code, parts);
    }
    for device in ["eth1", "eth2"] {
        assert_eq!(net.xdp_program(Host::B, device), None);
    }
}
