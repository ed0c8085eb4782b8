//! `sendrecv xdp:A xdp:B`, one way and both, through each kind of forwarding device: every packet is accounted for at
//! the port where it arrives.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, COUNTS, Net, Report, Scratch, accounted_by_way, assert_refused, bridge, cases, joined_twice, listen_by,
    missing, mpps, route, run, skip, wait_until,
};
use rustix::process::Signal;

const PORTS: &str = "xdp:eth1 xdp:eth2";

/// Slow and patient: whatever else runs here, all departures are made, and what arrives is in time.
const LOAD: &str = "--rate 3kpps --duration 300ms --catch-up 10s --settle 2s --settle-early --quiet";

/// Two links whose ends take what programs at the other ends send, though they may have no program themselves.
fn joined() -> Option<Net> {
    if missing("ethtool", "ethtool") {
        return None;
    }
    let net = joined_twice()?;
    for host in Host::ALL {
        for device in ["eth1", "eth2"] {
            net.on(host, &format!("ethtool -K {device} gro on"));
        }
    }
    Some(net)
}

/// Each lane that sends keeps a core busy.
fn one_core() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        skip("both ways takes two cores");
    }
    cores < 2
}

/// All that was sent arrived, once and intact.
fn assert_all_arrived(report: &Report, words: &str) {
    report.assert_accounted();
    report.assert_rows_add_up();
    let tx = report.count("tx_packets");
    let counts = COUNTS[1..7].iter().map(|key| report.count(key)).collect::<Vec<_>>();
    assert!(tx > 0, "{words}: {:#}", report.json);
    assert_eq!(counts, [tx, 0, 0, 0, 0, 0], "{words}: {:#}", report.json);
    assert!(report.json["latency_ns"]["min"].as_u64() > Some(0), "{:#}", report.json);
}

fn one_way(net: &Net, words: &str) -> Report {
    let report = Scratch::new().measure(net.a(&format!("sendrecv {PORTS} {words} {LOAD}")));
    assert_all_arrived(&report, words);
    report
}

fn both_ways(net: &Net, words: &str) -> [Report; 3] {
    let scratch = Scratch::new();
    let both = scratch.measure(net.a(&format!("sendrecv {PORTS} --both-ways {words} {LOAD}")));
    let reports = accounted_by_way(&scratch, both);
    reports.iter().for_each(|report| assert_all_arrived(report, words));
    reports
}

/// More flows than one axis has, in a range of addresses, of which not all are used.
const RANGES: &str = "--src 198.18.0.1-198.18.0.5 --dest 198.18.1.1-198.18.1.3:9000-9002 --src-port-range 500-504 \
                      --flows 100";

fn through_a_bridge_every_packet_arrives_and_each_end_is_answered_for(words: &str) {
    let Some(net) = joined() else { return };
    bridge(&net);
    let report = one_way(&net, words);
    assert_eq!(report.json["host"]["port"], "xdp:eth1", "{:#}", report.json);
    assert_eq!(report.json["host"]["arrives_at"], "xdp:eth2", "{:#}", report.json);
    let note = report.json["latency_note"].as_str().unwrap_or_default();
    assert!(
        note.starts_with("one way") && note.contains("no clocks differ"),
        "{note}"
    );
}

cases!(
    through_a_bridge_every_packet_arrives_and_each_end_is_answered_for:
    plain = "",
    large = "--payload-size 1000",
    v6_flows = "--src 2001:2::7 --src-port-range 500-504 --dest [2001:2::8]:600-602 --flows 13",
    vlan_poisson = "--vlan 7 --pacing poisson",
    ranges = super::RANGES,
    asked = "--gateway 198.18.0.2",
    asked_v6 = "--gateway 2001:2::2 --src 2001:2::1",
);

fn through_a_bridge_every_packet_of_both_ways_arrives(words: &str) {
    let Some(net) = joined() else { return };
    if one_core() {
        return;
    }
    bridge(&net);
    let [_, there, back] = both_ways(&net, words);
    let of = |report: &Report, name: &str| report.json["host"][name].clone();
    assert_eq!(of(&there, "port"), of(&back, "arrives_at"), "{words}");
    assert_eq!(of(&there, "arrives_at"), of(&back, "port"), "{words}");
    assert_eq!(of(&there, "source"), of(&back, "destination"), "{words}");
    assert_eq!(of(&there, "destination"), of(&back, "source"), "{words}");
}

cases!(
    through_a_bridge_every_packet_of_both_ways_arrives:
    plain = "",
    v6_flows = "--src 2001:2::7 --src-port-range 500-504 --dest [2001:2::8]:600-602 --flows 13 --payload-size 500",
    ranges = super::RANGES,
    vlan_together = "--vlan 7 --src 2001:2::1:0/125 --dest [2001:2::2:0/126]:9000 --step together",
    asked = "--gateway 198.18.0.2 --back-gateway 198.18.0.1",
    asked_v6 = "--gateway 2001:2::2 --back-gateway 2001:2::1 --src 2001:2::1",
);

/// Between the kernel's router's two subnets.
const V4: &str = "--src 198.18.0.1 --dest 198.18.1.2:9000-9003 --gateway 198.18.0.254";
const V6: &str = "--src 2001:2::1 --dest [2001:2:0:1::2]:9000 --gateway 2001:2::fe";

#[test]
fn through_the_kernels_router_every_packet_arrives_in_ipv4_and_ipv6() {
    let Some(net) = joined() else { return };
    route(&net);
    for words in [V4, V6] {
        one_way(&net, words);
    }
    one_way(
        &net,
        "--src 198.18.0.1-198.18.0.100 --dest 198.18.1.1-198.18.1.70:9000 --gateway 198.18.0.254 --step together",
    );
    if !one_core() {
        both_ways(&net, &format!("{V4} --back-gateway 198.18.1.254"));
        both_ways(&net, &format!("{V6} --back-gateway 2001:2:0:1::fe"));
    }
}

fn through_mpps_forward_every_packet_arrives(words: &str) {
    let Some(net) = joined() else { return };
    let there = Scratch::new();
    let _forwarder = listen_by(&there, net.b(&format!("forward {words} --take all")));
    one_way(&net, "");
    if !one_core() {
        both_ways(&net, "");
    }
}

cases!(
    through_mpps_forward_every_packet_arrives:
    af_packet_io = "af_packet:eth1 af_packet:eth2 --mode io",
    af_packet_macswap = "af_packet:eth1 af_packet:eth2 --mode macswap",
    xdp_io = "xdp:eth1 xdp:eth2 --mode io",
    xdp_macswap = "xdp:eth1 xdp:eth2 --mode macswap",
);

#[test]
fn what_is_lost_on_one_way_is_that_way_s_loss_alone() {
    let Some(net) = joined() else { return };
    if one_core() {
        return;
    }
    route(&net);
    // The answers of one port of the four.
    net.on(Host::B, "ip rule add from 198.18.1.2 ipproto udp sport 9001 blackhole");
    let scratch = Scratch::new();
    let words = format!("sendrecv {PORTS} --both-ways {V4} --back-gateway 198.18.1.254 {LOAD}");
    let both = scratch.measure(net.a(&words));
    let [both, there, back] = accounted_by_way(&scratch, both);
    assert_all_arrived(&there, "there");
    let (tx, lost) = (back.count("tx_packets"), back.count("lost"));
    assert!(
        0 < lost && lost < tx && back.count("rx_packets") == tx - lost,
        "{:#}",
        both.json
    );
    assert_eq!(there.json["loss_stretches"], serde_json::json!([]));
}

#[test]
fn what_lies_between_and_drops_everything_is_named() {
    let Some(net) = joined() else { return };
    let report = Scratch::new().measure(net.a(&format!("sendrecv {PORTS} {LOAD}")));
    report.assert_accounted();
    assert_eq!(report.count("rx_packets"), 0, "{:#}", report.json);
    assert_eq!(report.count("lost"), report.count("tx_packets"), "{:#}", report.json);
    let said = report.json["warnings"].to_string();
    assert!(said.contains("nothing arrived at the other port"), "{said}");
}

#[test]
fn as_fast_as_it_goes_every_packet_is_accounted_for_and_none_twice() {
    let Some(net) = joined() else { return };
    let there = Scratch::new();
    let _forwarder = listen_by(&there, net.b("forward xdp:eth1 xdp:eth2 --mode io --take all"));
    let scratch = Scratch::new();
    let report = scratch.measure(net.a(&format!(
        "sendrecv {PORTS} --duration 300ms --settle 2s --settle-early --quiet"
    )));
    report.assert_accounted();
    let counts = ["duplicates", "corrupt", "foreign"].map(|key| report.count(key));
    assert_eq!(counts, [0; 3], "{:#}", report.json);
    assert!(report.count("rx_packets") > 0, "{:#}", report.json);
}

#[test]
fn a_run_that_is_interrupted_reports_both_ways() {
    let Some(net) = joined() else { return };
    if one_core() {
        return;
    }
    bridge(&net);
    let scratch = Scratch::new();
    let words = format!(
        "sendrecv {PORTS} --both-ways --rate 3kpps --settle 1s --interval 20ms --quiet --catch-up 10s --duration 1h"
    );
    let running = Background::start(scratch.results(net.a(&words)));
    wait_until("packets that arrive", || scratch.received_so_far() > 100);
    let both = scratch.read(running.end(Signal::INT));
    for report in accounted_by_way(&scratch, both) {
        assert_eq!(report.json["interrupted"], true);
        report.assert_rows_add_up();
        assert!(report.count("rx_packets") > 0, "{:#}", report.json);
    }
}

#[test]
fn a_port_that_is_removed_ends_the_run_whichever_it_is() {
    for device in ["eth1", "eth2"] {
        let Some(net) = joined() else { return };
        bridge(&net);
        let scratch = Scratch::new();
        let words = format!("sendrecv {PORTS} --rate 3kpps --interval 20ms --quiet --catch-up 10s --duration 1h");
        let running = Background::start(scratch.results(net.a(&words)));
        wait_until("packets that arrive", || scratch.received_so_far() > 100);
        net.on(Host::A, &format!("ip link del {device}"));
        let report = scratch.read(running.finish());
        report.assert_accounted();
        assert_eq!(report.json["valid"], false, "{:#}", report.json);
        let said = report.json["invalid_reasons"].to_string() + &report.json["warnings"].to_string();
        assert!(said.contains(device), "{said}");
    }
}

#[test]
fn a_pair_with_another_path_and_options_of_lanes_are_refused() {
    for (words, parts) in [
        (
            "sendrecv xdp:lo af_packet:eth9",
            &["port 'xdp:lo'", "af_packet:eth9", "xdp:eth9", "af_xdp:lo"][..],
        ),
        (
            "sendrecv af_packet:eth9 xdp:lo --both-ways",
            &["port 'xdp:lo'", "af_packet:eth9", "xdp:eth9", "af_xdp:lo"],
        ),
        ("sendrecv xdp:lo xdp:lo", &["xdp:lo", "packets leave by it, too"]),
        (
            "sendrecv xdp:lo xdp:eth9 --tx-lanes 1 --rx-lanes 1",
            &["--rx-lanes 1", "--tx-lanes or --lanes N"],
        ),
        ("send xdp:lo xdp:eth9", &["send receives nothing", "sendrecv"]),
    ] {
        assert_refused(mpps(words), 2, parts);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = run(&format!(
        "sendrecv xdp:lo xdp:eth9 --both-ways --lanes {cores} --print-plan"
    ));
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
}
