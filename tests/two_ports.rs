//! `sendrecv` from one port to another, through each kind of forwarding device: every packet is accounted for, and none
//! is taken for one of another's.

use mpps_host::lab::Host;
use mpps_tests::{
    Net, Report, Scratch, TESTPMD, Testpmd, assert_refused, bridge, inside, joined_twice, listen_by, missing, no_dpdk,
    route,
};

/// Slow and patient: whatever else runs here, all departures are made, and what arrives is in time.
const LOAD: &str = "--rate 5kpps --duration 300ms --catch-up 10s --settle 1s --quiet";

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
    if no_dpdk() || missing("dpdk-testpmd", "dpdk-dev or dpdk") || missing("stdbuf", "coreutils") {
        return;
    }
    let Some(net) = joined_twice() else { return };
    for mode in ["io", "macswap"] {
        let mut command = inside(&net.lab, Host::B, TESTPMD);
        // Rings that hold all packets of the run: on a busy host it is kept from them for long.
        let vdev = |n, device| format!("--vdev=net_af_packet{n},iface={device},framecnt=4096");
        command.args([vdev(0, "eth1"), vdev(1, "eth2")]);
        let _testpmd = Testpmd::start(command, mode);
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
