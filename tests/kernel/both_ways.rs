//! `sendrecv A B --both-ways`, through each kind of forwarding device: every packet of each way is accounted for, and
//! what happens to one way is told of that one alone.

use std::process::Command;

use mpps_host::lab::Host;
use mpps_tests::{
    Background, COUNTS, Memif, Net, Report, Scratch, Testpmd, accounted_by_way, arrived, assert_refused, bridge, cases,
    joined_twice, listen_by, mpps, no_dpdk, no_testpmd, route, run, run_command, wait_until,
};
use rustix::process::Signal;

/// Slow and patient: whatever else runs here, all departures are made, and what arrives is in time.
/// A veth keeps 256 packets for a host that has no time for them just now: a sixth of a second's.
const LOAD: &str = "--both-ways --rate 1500pps --duration 600ms --catch-up 10s --settle 3s --settle-early --quiet";

/// The report of both ways and those of each, which agree on the verdict and on the rows.
fn accounted(scratch: &Scratch, both: Report) -> [Report; 3] {
    let [both, there, back] = accounted_by_way(scratch, both);
    let valid = |report: &Report| report.json["valid"] == true;
    assert_eq!(valid(&both), valid(&there) && valid(&back), "{:#}", both.json);
    assert_eq!(both.rows.len(), there.rows.len());
    assert_eq!(both.rows.len(), back.rows.len());
    [both, there, back]
}

fn measure(sendrecv: Command) -> [Report; 3] {
    let scratch = Scratch::new();
    let both = scratch.measure(sendrecv);
    accounted(&scratch, both)
}

/// `sendrecv` on host a.
fn on_a(net: &Net, words: &str) -> Command {
    net.a(&format!("sendrecv {words} {LOAD}"))
}

/// Sends both ways, and expects each packet at the other port, once and intact.
fn assert_all_arrive_by(sendrecv: Command) -> [Report; 3] {
    let context = format!("{sendrecv:?}");
    let reports = measure(sendrecv);
    for way in &reports[1..] {
        let tx = way.count("tx_packets");
        let counts = COUNTS[1..7].iter().map(|key| way.count(key)).collect::<Vec<_>>();
        assert!(tx > 0, "{context}: {:#}", way.json);
        assert_eq!(counts, [tx, 0, 0, 0, 0, 0], "{context}: {:#}", reports[0].json);
    }
    reports
}

/// The same from host a.
fn assert_all_arrive(net: &Net, words: &str) -> [Report; 3] {
    assert_all_arrive_by(on_a(net, words))
}

fn through_a_bridge_every_packet_of_both_ways_arrives_on_each_path_and_between_two(ports: &str) {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let [_, there, back] = assert_all_arrive(&net, ports);
    let of = |report: &Report, name: &str| report.json["host"][name].clone();
    assert_eq!(of(&there, "port"), of(&back, "arrives_at"), "{ports}");
    assert_eq!(of(&there, "arrives_at"), of(&back, "port"), "{ports}");
    assert_eq!(of(&there, "source"), of(&back, "destination"), "{ports}");
    assert_eq!(of(&there, "destination"), of(&back, "source"), "{ports}");
}

cases!(
    through_a_bridge_every_packet_of_both_ways_arrives_on_each_path_and_between_two:
    af_packet = "af_packet:eth1 af_packet:eth2",
    af_packet_v6_flows = "af_packet:eth2 af_packet:eth1 --src 2001:2::7 --src-port-range 500-504 \
                          --dest [2001:2::8]:600-602 --flows 13",
    af_xdp = "af_xdp:eth1 af_xdp:eth2",
    af_packet_to_af_xdp = "af_packet:eth1 af_xdp:eth2 --payload-size 1000",
    af_xdp_to_af_packet_vlan = "af_xdp:eth1 af_packet:eth2 --vlan 7",
    af_packet_asked = "af_packet:eth1 af_packet:eth2 --gateway 198.18.0.2 --back-gateway 198.18.0.1",
    af_xdp_asked = "af_xdp:eth1 af_xdp:eth2 --gateway 2001:2::2 --back-gateway 2001:2::1 --src 2001:2::1",
);

#[test]
fn through_a_bridge_every_packet_of_both_ways_arrives_on_dpdk() {
    let Some(net) = joined_twice() else { return };
    if no_dpdk() {
        return;
    }
    bridge(&net);
    let eal = "net_af_packet0,iface=eth1 dpdk:net_af_packet1,iface=eth2";
    assert_all_arrive(&net, &format!("dpdk:{eal}"));
    assert_all_arrive(&net, "dpdk:net_af_packet0,iface=eth1 af_packet:eth2");
}

/// Between the kernel's router's two subnets.
const V4: &str = "--src 198.18.0.1 --dest 198.18.1.2:9000-9003 --gateway 198.18.0.254 --back-gateway 198.18.1.254";
const V6: &str = "--src 2001:2::1 --dest [2001:2:0:1::2]:9000 --gateway 2001:2::fe --back-gateway 2001:2:0:1::fe";

#[test]
fn through_the_kernels_router_every_packet_of_both_ways_arrives_in_ipv4_and_ipv6() {
    let Some(net) = joined_twice() else { return };
    route(&net);
    for ports in ["af_packet:eth1 af_packet:eth2", "af_xdp:eth1 af_packet:eth2"] {
        for ends in [V4, V6] {
            assert_all_arrive(&net, &format!("{ports} {ends}"));
        }
    }
}

#[test]
fn what_is_lost_on_one_way_is_that_way_s_loss_alone() {
    let Some(net) = joined_twice() else { return };
    route(&net);
    // The answers of one port of the four.
    net.on(Host::B, "ip rule add from 198.18.1.2 ipproto udp sport 9001 blackhole");
    let [both, there, back] = measure(on_a(&net, &format!("af_packet:eth1 af_packet:eth2 {V4}")));
    let tx = there.count("tx_packets");
    assert_eq!(
        (there.count("rx_packets"), there.count("lost")),
        (tx, 0),
        "{:#}",
        both.json
    );
    let (tx, lost) = (back.count("tx_packets"), back.count("lost"));
    assert!(
        0 < lost && lost < tx && back.count("rx_packets") == tx - lost,
        "{:#}",
        both.json
    );
    assert_eq!(there.json["loss_stretches"], serde_json::json!([]));
    assert_eq!(there.json["loss_ratio"], 0.0);
    assert!(back.json["loss_ratio"].as_f64() > both.json["loss_ratio"].as_f64());
    let warnings = both.json["warnings"].to_string();
    assert!(
        warnings.contains("B to A: ") && !warnings.contains("A to B: none of"),
        "{warnings}"
    );
    // All of one way: the other stands.
    net.on(Host::B, "ip rule add from 198.18.1.2 blackhole");
    let [both, there, back] = measure(on_a(&net, &format!("af_packet:eth1 af_packet:eth2 {V4}")));
    assert_eq!(there.count("rx_packets"), there.count("tx_packets"), "{:#}", both.json);
    assert_eq!(back.count("rx_packets"), 0, "{:#}", both.json);
    let warnings = both.json["warnings"].to_string();
    assert!(
        warnings.contains("B to A: nothing arrived at the other port"),
        "{warnings}"
    );
    let remark = both.remark("nothing_came_back").expect("a remark");
    assert_eq!(remark["values"]["track"], "B to A", "{remark:#}");
}

fn through_mpps_forward_every_packet_of_both_ways_arrives(words: &str) {
    let Some(net) = joined_twice() else { return };
    let there = Scratch::new();
    let words = format!("forward af_packet:eth1 af_packet:eth2 --take all {words}");
    let _forwarder = listen_by(&there, net.b(&words));
    assert_all_arrive(&net, "af_packet:eth1 af_packet:eth2");
}

cases!(
    through_mpps_forward_every_packet_of_both_ways_arrives:
    io = "--mode io",
    macswap = "--mode macswap",
    two_lanes = "--mode io --split-directions --lanes 2",
);

fn over_two_memifs_through_mpps_forward_every_packet_of_both_ways_arrives_with_one_lane_and_with_two(lanes: usize) {
    if no_dpdk() {
        return;
    }
    let (memifs, there) = ([Memif::new(), Memif::new()], Scratch::new());
    let ports = |role| format!("{} {}", memifs[0].port(0, role), memifs[1].port(1, role));
    let forwarder = listen_by(&there, mpps(&format!("forward {} --lanes {lanes}", ports("server"))));
    let words = format!("sendrecv {} --lanes {lanes} --flows 16 {LOAD}", ports("client"));
    let [both, ways @ ..] = assert_all_arrive_by(mpps(&words));
    // Every lane of each port sends and receives, and what the lanes count is all that was counted.
    let of_lanes = both.json["lanes"].as_array().expect("lanes");
    assert_eq!(of_lanes.len(), 2 * lanes, "{:#}", both.json);
    for key in ["tx_packets", "rx_packets"] {
        let counts: Vec<_> = of_lanes
            .iter()
            .map(|lane| lane[key].as_u64().expect("a count"))
            .collect();
        assert!(counts.iter().all(|n| *n > 0), "{key} {counts:?}: {:#}", both.json);
        assert_eq!(counts.iter().sum::<u64>(), both.count(key), "{key}: {:#}", both.json);
    }
    arrived(&there, both.count("tx_packets"));
    let forwarded = there.read(forwarder.end(Signal::INT));
    forwarded.assert_rows_add_up();
    // In at one port and out at the other.
    for (port, way) in [0, 1].into_iter().zip(&ways) {
        let count = |port: usize, key: &str| forwarded.count(&format!("/ports/{port}/{key}"));
        let passed = [count(port, "rx_packets"), count(1 - port, "tx_packets")];
        assert_eq!(passed, [way.count("tx_packets"); 2], "{:#}", forwarded.json);
    }
}

cases!(
    over_two_memifs_through_mpps_forward_every_packet_of_both_ways_arrives_with_one_lane_and_with_two:
    one = 1,
    two = 2,
);

fn through_testpmd_every_packet_of_both_ways_arrives(mode: &str) {
    if no_testpmd() {
        return;
    }
    let Some(net) = joined_twice() else { return };
    let _testpmd = Testpmd::between(&net, mode);
    assert_all_arrive(&net, "af_packet:eth1 af_packet:eth2");
}

cases!(
    through_testpmd_every_packet_of_both_ways_arrives:
    io = "io",
    macswap = "macswap",
);

/// A run that goes on until something ends it, with rows in which packets arrived.
fn under_way(net: &Net, scratch: &Scratch) -> Background {
    let words = "sendrecv af_packet:eth1 af_packet:eth2 --both-ways --rate 3kpps --settle 300ms --interval 20ms \
                 --quiet --catch-up 10s --duration 1h";
    let running = Background::start(scratch.results(net.a(words)));
    wait_until("packets that arrive", || scratch.received_so_far() > 100);
    running
}

#[test]
fn a_run_that_is_interrupted_reports_both_ways() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let scratch = Scratch::new();
    let running = under_way(&net, &scratch);
    let both = scratch.read(running.end(Signal::INT));
    for report in accounted(&scratch, both) {
        assert_eq!(report.json["interrupted"], true);
        assert!(report.count("rx_packets") > 0, "{:#}", report.json);
    }
}

#[test]
fn a_cable_that_is_cut_and_joined_again_costs_both_ways_what_was_sent_meanwhile() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let scratch = Scratch::new();
    let running = under_way(&net, &scratch);
    net.on(Host::B, "ip link set eth2 down");
    let rows = scratch.rows_so_far();
    wait_until("rows while the link is down", || scratch.rows_so_far() >= rows + 5);
    net.on(Host::B, "ip link set eth2 up");
    let received = scratch.received_so_far();
    wait_until("packets that arrive again", || {
        scratch.received_so_far() > received + 200
    });
    let both = scratch.read(running.end(Signal::INT));
    for report in accounted(&scratch, both) {
        let gone = report.count("lost") + report.json["lanes"][0]["link_down_ns"].as_u64().unwrap_or(0);
        assert!(gone > 0, "{:#}", report.json);
    }
}

#[test]
fn a_run_both_ways_is_repeated_from_its_plan() {
    let line =
        "sendrecv af_packet:lo af_packet:eth9 --both-ways --lanes 2 --gateway 198.18.0.2 --back-gateway 198.18.0.1";
    let scratch = Scratch::new();
    let plan = run(&format!("{line} --print-plan"));
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    let json: serde_json::Value = serde_json::from_str(&plan.stdout).expect("JSON");
    assert_eq!(json["traffic"]["both_ways"], true, "{json:#}");
    assert_eq!(json["traffic"]["back_gateway"], "198.18.0.1", "{json:#}");
    assert_eq!(json["lanes"]["lanes"], 2, "{json:#}");
    std::fs::write(scratch.file("plan.json"), &plan.stdout).expect("a file");
    let mut again = mpps("run --print-plan");
    again.arg(scratch.file("plan.json"));
    assert_eq!(run_command(again).stdout, plan.stdout);
}

#[test]
fn what_can_t_go_both_ways_is_refused() {
    for (words, parts) in [
        ("send null: --both-ways", &["--both-ways", "send receives nothing"][..]),
        (
            "sendrecv loop: --both-ways",
            &["--both-ways", "one port", "second port"],
        ),
        (
            "sendrecv loop: --back-gateway 198.18.0.1",
            &["--back-gateway", "--both-ways"],
        ),
        (
            "sendrecv af_packet:lo af_packet:nosuch --both-ways --tx-lanes 1 --rx-lanes 1",
            &["--tx-lanes 1", "--lanes N"],
        ),
        (
            "sendrecv af_packet:lo af_packet:nosuch --both-ways --gateway 198.18.0.254",
            &["--back-gateway: missing"],
        ),
        (
            "sendrecv af_packet:lo af_packet:nosuch --both-ways --back-dest-mac 02:00:00:00:00:09",
            &["--dest-mac: missing"],
        ),
        (
            "sendrecv xdp:lo af_packet:lo --both-ways",
            &["port 'xdp:lo'", "af_xdp:lo"],
        ),
        (
            "sendrecv af_packet:lo xdp:lo --both-ways",
            &["port 'xdp:lo'", "af_xdp:lo"],
        ),
        (
            "sendrecv af_packet:lo udp:127.0.0.1:9000 --both-ways",
            &["udp:127.0.0.1:9000", "Ethernet path"],
        ),
    ] {
        assert_refused(mpps(words), 2, parts);
    }
}

#[test]
fn rows_of_each_way_have_a_file_beside_a_file_alone_and_none_where_another_is() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let (scratch, line) = (Scratch::new(), format!("sendrecv af_packet:eth1 af_packet:eth2 {LOAD}"));
    let file = |name: &str| scratch.file(name).display().to_string();
    let words = format!("{line} --csv {} --json {}", file("x.csv"), file("x.a-to-b.csv"));
    assert_refused(
        net.a(&words),
        2,
        &["--json and --csv", "x.a-to-b.csv", "a file of its own"],
    );
    let finished = run_command(net.a(&format!("{line} --csv -")));
    assert!(finished.stdout.starts_with("time_s,tx_packets"), "{}", finished.stdout);
    assert_eq!(finished.stdout.matches("time_s").count(), 1, "{}", finished.stdout);
}

#[test]
fn send_s_help_shows_nothing_that_only_a_run_which_receives_has() {
    let help = run("send --help").stdout;
    for word in ["--settle", "--rx-lanes", "--both-ways", "--back-gateway", "[PORT]"] {
        assert!(!help.contains(word), "{word}: {help}");
        assert!(run("sendrecv --help").stdout.contains(word), "{word}");
    }
    // What was accepted is: on a busy host it may not be valid, but it is no wrong argument.
    let code = run("send null: --settle 1s --duration 10ms --quiet").code;
    assert!(matches!(code, Some(0 | 3)), "{code:?}");
}
