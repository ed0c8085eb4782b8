//! `sendrecv` from one port to another, through each kind of forwarding device: every packet is accounted for, and none
//! is taken for one of another's.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Net, Report, Scratch, Testpmd, assert_refused, bridge, joined_twice, listen_by, no_dpdk, no_testpmd,
    route, silent, wait_for_more, wait_until,
};
use rustix::process::Signal;

/// Slow and patient: whatever else runs here, all departures are made, and what arrives is in time.
/// A veth keeps 256 packets for a host that has no time for them just now: an eighth of a second's.
const LOAD: &str = "--rate 2kpps --duration 750ms --catch-up 10s --settle 1s --settle-early --quiet";

/// Sends by one port, and expects each packet at the other, once and intact.
fn assert_all_arrive(net: &Net, words: &str) -> Report {
    let report = Scratch::new().measure(net.a(&format!("sendrecv {words} {LOAD}")));
    report.assert_accounted();
    report.assert_rows_add_up();
    let tx = report.count("tx_packets");
    let counts = ["rx_packets", "lost", "duplicates", "reordered", "corrupt"].map(|key| report.count(key));
    assert!(tx > 0, "{words}: {:#}", report.json);
    assert_eq!(counts, [tx, 0, 0, 0, 0], "{words}: {:#}", report.json);
    assert!(report.json["latency_ns"]["min"].as_u64() > Some(0), "{:#}", report.json);
    report
}

#[test]
fn through_a_bridge_every_packet_arrives_on_each_path_and_between_two() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    for ports in [
        "af_packet:eth1 af_packet:eth2",
        "af_packet:eth2 af_packet:eth1 --src 2001:2::7",
        "af_xdp:eth1 af_xdp:eth2",
        "af_packet:eth1 af_xdp:eth2 --payload-size 1000",
        "af_xdp:eth1 af_packet:eth2 --lanes 1 --vlan 7",
    ] {
        let report = assert_all_arrive(&net, ports);
        let far = ports.split_whitespace().nth(1).expect("two ports");
        assert_eq!(report.json["host"]["arrives_at"], far, "{:#}", report.json);
    }
    // Somebody who asks for the address that packets are for is answered at the port where they arrive.
    assert_all_arrive(&net, "af_packet:eth1 af_packet:eth2 --gateway 198.18.0.2");
    assert_all_arrive(&net, "af_xdp:eth1 af_xdp:eth2 --gateway 2001:2::2 --src 2001:2::1");
    if !no_dpdk() {
        let eal = "net_af_packet0,iface=eth1 dpdk:net_af_packet1,iface=eth2";
        assert_all_arrive(&net, &format!("dpdk:{eal}"));
        assert_all_arrive(&net, "dpdk:net_af_packet0,iface=eth1 af_packet:eth2");
    }
}

#[test]
fn through_the_kernels_router_every_packet_arrives_and_both_ends_answer_for_their_addresses() {
    let Some(net) = joined_twice() else { return };
    route(&net);
    for ports in ["af_packet:eth1 af_packet:eth2", "af_xdp:eth1 af_xdp:eth2"] {
        let v4 = "--src 198.18.0.1 --dest 198.18.1.2:9000-9003 --gateway 198.18.0.254";
        assert_all_arrive(&net, &format!("{ports} {v4}"));
        let v6 = "--src 2001:2::1 --dest [2001:2:0:1::2]:9000 --gateway 2001:2::fe";
        assert_all_arrive(&net, &format!("{ports} {v6}"));
    }
}

#[test]
fn through_mpps_forward_every_packet_arrives_in_each_of_its_modes() {
    let Some(net) = joined_twice() else { return };
    for mode in ["io", "macswap", "l2fwd --dest-mac 02:00:00:00:00:09"] {
        let there = Scratch::new();
        let words = format!("forward af_packet:eth1 af_packet:eth2 --take all --mode {mode}");
        let _forwarder = listen_by(&there, net.b(&words));
        assert_all_arrive(&net, "af_packet:eth1 af_packet:eth2");
    }
}

#[test]
fn through_testpmd_every_packet_arrives() {
    if no_testpmd() {
        return;
    }
    let Some(net) = joined_twice() else { return };
    for mode in ["io", "macswap"] {
        let _testpmd = Testpmd::between(&net, mode);
        assert_all_arrive(&net, "af_packet:eth1 af_packet:eth2");
    }
}

#[test]
fn what_lies_between_and_drops_everything_is_named_in_place_of_a_reflector() {
    let Some(net) = joined_twice() else { return };
    let report = Scratch::new().measure(net.a(&format!("sendrecv af_packet:eth1 af_packet:eth2 {LOAD}")));
    assert_eq!(report.count("rx_packets"), 0, "{:#}", report.json);
    assert_eq!(report.count("lost"), report.count("tx_packets"), "{:#}", report.json);
    let said = report.json["warnings"].to_string();
    assert!(said.contains("nothing arrived at the other port"), "{said}");
    assert!(!told_of_a_port_that_was_down(&report), "{:#}", report.json);
}

fn told_of_a_port_that_was_down(report: &Report) -> bool {
    let reasons = report.json["invalid_reasons"].to_string();
    reasons.contains("a port of this host was down") && reasons.contains("not lost by what lies between")
}

#[test]
fn loss_while_the_receiving_port_is_down_is_told_as_this_host_s_and_the_run_is_not_valid() {
    for path in ["af_packet", "af_xdp"] {
        let Some(net) = joined_twice() else { return };
        bridge(&net);
        let scratch = Scratch::new();
        let words = format!(
            "sendrecv {path}:eth1 {path}:eth2 --rate 3kpps --catch-up 10s --settle 300ms --interval 20ms --quiet \
             --duration 1h"
        );
        let running = Background::start(scratch.results(net.a(&words)));
        wait_until("packets that arrive", || scratch.received_so_far() > 100);
        net.on(Host::A, "ip link set eth2 down");
        wait_for_more("rows in which everything is lost", || silent(&scratch));
        net.on(Host::A, "ip link set eth2 up");
        let received = scratch.received_so_far();
        wait_until("packets that arrive again", || {
            scratch.received_so_far() > received + 100
        });
        let report = scratch.read(running.end(Signal::INT));
        report.assert_accounted();
        assert!(report.count("lost") > 0, "{:#}", report.json);
        assert!(told_of_a_port_that_was_down(&report), "{path}: {:#}", report.json);
        assert_eq!(report.json["valid"], false, "{path}: {:#}", report.json);
        assert_eq!(report.finished.code, Some(3), "{path}: {}", report.said());
        // It is the port that receives: the other one sent all the time.
        let down = |lane: &serde_json::Value| lane["link_down_ns"].as_u64().expect("a time") > 0;
        for lane in report.json["lanes"].as_array().expect("lanes") {
            assert_eq!(down(lane), lane["rx"] == true, "{path}: {lane:#}");
        }
    }
}

#[test]
fn ports_that_nothing_can_lie_between_are_refused() {
    for (words, parts) in [
        ("sendrecv af_packet:lo null:", ["null:", "nothing can lie between"]),
        (
            "sendrecv af_packet:lo udp:127.0.0.1:9000",
            ["udp:127.0.0.1:9000", "Ethernet path"],
        ),
        (
            "sendrecv af_packet:lo af_packet:lo",
            ["packets leave by it, too", "want another"],
        ),
        ("sendrecv xdp:lo af_packet:lo", ["xdp:lo", "af_xdp:lo"]),
        (
            "send af_packet:lo af_packet:nosuch",
            ["send receives nothing", "sendrecv"],
        ),
    ] {
        assert_refused(mpps_tests::mpps(words), 2, &parts);
    }
}
