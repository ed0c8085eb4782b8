//! Several streams and sizes (`--traffic`): every packet of every stream is accounted for, by stream, group and size.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Net, Report, Scratch, Testpmd, all_there_by, assert_refused, bridge, inside, joined_twice, listen_by,
    mac_of, missing, mpps, net_of, no_testpmd, route, run_command, skip,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Slow and patient, as for UDP between two ports.
pub(crate) const LOAD: &str = "--catch-up 10s --settle 1s --settle-early --quiet";

/// Sizes over three VLANs, tenants in tunnels, a probe, bursts, and one that follows another.
const MIX: &str = r#"
[[stream]]
name = "imix"
group = "load"
packet = "eth / vlan vid=10..12 / ipv4 src=198.18.0.1 dst=198.18.0.2 / udp src=1024..1031 dst=9000"
size = "imix"
rate = "3kpps"

[[stream]]
name = "tenants"
group = "load"
packet = """eth / ipv4 src=198.18.0.1 dst=198.18.0.2 / udp src=inner-hash dst=4789 / vxlan vni=5..8 /
            eth / ipv4 src=10.0.0.1*20 dst=10.1.0.1 / tcp dst=80"""
step = "combine"
size = "128..500 step 31"
rate = "1kpps"

[[stream]]
name = "probe"
packet = "eth / ipv4 src=198.18.0.1 dst=198.18.0.2 dscp=46 / udp dst=9001"
size = "128"
rate = "500pps"
pacing = "poisson"

[[stream]]
name = "bursts"
packet = "eth / ipv6 src=2001:2::1 dst=2001:2::2 / tcp dst=80 flags=syn"
size = "random(100..160)"
burst = { packets = 20, gap = "20ms", count = 10 }

[[stream]]
name = "last"
packet = "eth / ipv4 src=198.18.0.1 dst=198.18.0.2 / icmp ident=1..3"
rate = "1kpps"
packets = 100
after = "bursts"
"#;

/// Packets of each stream of [`MIX`] in a second.
const SENT: [(&str, u64); 5] = [
    ("imix", 3000),
    ("tenants", 1000),
    ("probe", 500),
    ("bursts", 200),
    ("last", 100),
];

/// Writes a file of streams.
pub(crate) fn file(scratch: &Scratch, text: &str) -> PathBuf {
    let path = scratch.file("mix.toml");
    std::fs::write(&path, text).expect("a file");
    path
}

pub(crate) fn with_traffic(mut command: Command, file: &Path) -> Command {
    command.arg("--traffic").arg(file);
    command
}

/// Returns the entry of a name in one of the lists `streams`, `groups` and `sizes`.
pub(crate) fn of<'r>(report: &'r Report, list: &str, name: &str) -> &'r Value {
    let all = report.json[list].as_array().expect("a list");
    let found = all.iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("{list} {name}: {:#}", report.json[list]))
}

pub(crate) fn count(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key}: {of:#}"))
}

fn sum(report: &Report, list: &str, key: &str) -> u64 {
    let all = report.json[list].as_array().expect("a list");
    all.iter().map(|one| count(one, key)).sum()
}

/// Checks that streams and sizes add up to the run.
fn assert_adds_up(report: &Report) {
    for list in ["streams", "sizes"] {
        for key in ["tx_packets", "rx_packets", "lost", "duplicates", "reordered"] {
            assert_eq!(
                sum(report, list, key),
                report.count(key),
                "{list} {key}: {:#}",
                report.json[list]
            );
        }
    }
    assert_eq!(sum(report, "streams", "corrupt"), report.count("corrupt"));
}

/// Sends the mix by one port, and expects each packet at the other, once and intact.
fn assert_mix_arrives(net: &Net, words: &str, text: &str, sent: &[(&str, u64)]) -> Report {
    let scratch = Scratch::new();
    let mix = file(&scratch, text);
    let command = with_traffic(net.a(&format!("sendrecv {words} --duration 1s {LOAD}")), &mix);
    let report = scratch.measure(command);
    report.assert_accounted();
    report.assert_rows_add_up();
    assert_adds_up(&report);
    for (name, packets) in sent {
        let of = of(&report, "streams", name);
        let counts =
            ["tx_packets", "rx_packets", "lost", "duplicates", "reordered", "corrupt"].map(|key| count(of, key));
        assert_eq!(counts, [*packets, *packets, 0, 0, 0, 0], "{words}: {of:#}");
        assert_eq!(of["latency_ns"]["count"], *packets, "{words}: {of:#}");
        assert!(of["latency_ns"]["p99"].is_u64(), "{words}: {of:#}");
    }
    report
}

#[test]
fn every_packet_of_every_stream_arrives_through_a_bridge_by_af_packet() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let report = assert_mix_arrives(&net, "af_packet:eth1 af_packet:eth2", MIX, &SENT);
    let load = of(&report, "groups", "load");
    assert_eq!(
        (count(load, "tx_packets"), count(load, "streams")),
        (4000, 2),
        "{load:#}"
    );
    // Seven of twelve have the smallest size, behind the tag.
    let sizes = report.json["sizes"].as_array().expect("sizes");
    assert!(sizes.len() > 4, "{sizes:#?}");
    assert_eq!(
        report.json["changes"],
        serde_json::json!([]),
        "a bridge changes nothing"
    );
}

#[test]
fn every_packet_of_every_stream_arrives_through_a_bridge_by_af_xdp() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    assert_mix_arrives(&net, "af_xdp:eth1 af_xdp:eth2", MIX, &SENT);
}

#[test]
fn every_packet_of_every_stream_arrives_through_mpps_forward() {
    let Some(net) = joined_twice() else { return };
    let there = Scratch::new();
    let _forwarder = listen_by(&there, net.b("forward af_packet:eth1 af_packet:eth2 --take all"));
    assert_mix_arrives(&net, "af_packet:eth1 af_xdp:eth2", MIX, &SENT);
}

#[test]
fn every_packet_of_every_stream_arrives_through_testpmd() {
    if no_testpmd() {
        return;
    }
    let Some(net) = joined_twice() else { return };
    let _testpmd = Testpmd::between(&net, "macswap");
    assert_mix_arrives(&net, "af_packet:eth1 af_packet:eth2", MIX, &SENT);
}

/// Streams that a router with address translation passes on.
const ROUTED: &str = r#"
[[stream]]
name = "web"
packet = "eth / ipv4 src=198.18.0.1..198.18.0.4 dst=198.18.1.2 / tcp src=1024..1031 dst=80"
size = "74*7 594*4 1518*1"
rate = "1kpps"

[[stream]]
name = "tenants"
packet = "eth / ipv4 src=198.18.0.1 dst=198.18.1.2 / udp dst=4789 / vxlan vni=5 / eth / ipv4 / udp dst=9"
size = "200"
rate = "500pps"

[[stream]]
name = "six"
packet = "eth / ipv6 src=2001:2::1 dst=2001:2:0:1::2 / udp src=1024..1031 dst=9000"
size = "100..200 step 50"
rate = "500pps"
"#;

#[test]
fn what_a_router_with_address_translation_changes_is_named_and_all_arrive() {
    if missing("nft", "nftables") {
        return;
    }
    let Some(net) = joined_twice() else { return };
    route(&net);
    let there = Scratch::new();
    let rules = "table ip nat {\n chain post {\n type nat hook postrouting priority 100\n oifname \"eth2\" \
                 meta l4proto { tcp, udp } snat to 198.18.1.254:40000-50000\n }\n}\n";
    std::fs::write(there.file("nat.nft"), rules).expect("rules");
    let loaded = net.on(Host::B, &format!("nft -f {}", there.file("nat.nft").display()));
    if loaded.code != Some(0) {
        return skip(&format!("this kernel translates no addresses: {}", loaded.stderr));
    }
    let router = mac_of(&net, Host::B, "eth1")
        .map(|byte| format!("{byte:02x}"))
        .join(":");
    let text = ROUTED.replace("eth / ipv", &format!("eth dst={router} / ipv"));
    let sent = [("web", 1000), ("tenants", 500), ("six", 500)];
    let report = assert_mix_arrives(&net, "af_packet:eth1 af_packet:eth2", &text, &sent);
    let changes = report.json["changes"].as_array().expect("changes");
    let packets = |field: &str| {
        let change = changes.iter().find(|change| change["field"] == field);
        change.map_or(0, |change| count(change, "packets"))
    };
    assert_eq!(packets("ipv4.ttl") + packets("ipv4[1].ttl"), 1500, "{changes:#?}");
    assert_eq!(packets("ipv6.hop"), 500, "{changes:#?}");
    assert!(packets("ipv4.src") > 0 && packets("tcp.src") > 0, "{changes:#?}");
}

#[test]
fn each_next_hop_is_asked_for_in_its_own_vlan_and_a_reflector_returns_all_streams() {
    let Some(net) = net_of(1) else { return };
    let text = r#"
[[stream]]
name = "ten"
packet = "eth / vlan vid=10 / ipv4 src=10.99.0.77 dst=10.99.0.88 / udp src=1024..1027 dst=9000"
size = "imix"
rate = "1kpps"

[[stream]]
name = "twenty"
packet = "eth / vlan vid=20 / ipv4 src=10.99.0.78 dst=10.99.0.89 / tcp src=1024..1027 dst=80"
size = "100"
rate = "500pps"

[[stream]]
name = "six"
packet = "eth / ipv6 src=fd99::77 dst=fd99::2 / udp dst=9000"
rate = "500pps"
"#;
    let there = Scratch::new();
    let mix = file(&there, text);
    let reflect = net.b("reflect af_packet:eth1 --ip 10.99.0.88-10.99.0.89");
    let _reflector = listen_by(&there, with_traffic(reflect, &mix));
    let scratch = Scratch::new();
    let command = with_traffic(net.a(&format!("sendrecv af_packet:eth1 --duration 1s {LOAD}")), &mix);
    let report = scratch.measure(command);
    report.assert_accounted();
    assert_adds_up(&report);
    for (name, packets) in [("ten", 1000), ("twenty", 500), ("six", 500)] {
        let of = of(&report, "streams", name);
        assert_eq!(
            (count(of, "tx_packets"), count(of, "rx_packets")),
            (packets, packets),
            "{of:#}"
        );
    }
}

#[test]
fn drop_counts_each_packet_for_its_stream() {
    let Some(net) = net_of(1) else { return };
    let text = r#"
[[stream]]
name = "imix"
group = "load"
packet = "eth / ipv4 dst=10.99.0.2 / udp src=1024..1031 dst=9000"
size = "imix"
rate = "2kpps"

[[stream]]
name = "web"
group = "load"
packet = "eth / ipv4 dst=10.99.0.2 / tcp src=1..3 dst=80"
size = "random(100..200)"
rate = "1kpps"

[[stream]]
name = "tenants"
packet = "eth / ipv4 dst=10.99.0.2 / udp src=inner-hash dst=4789 / vxlan vni=5..8 / eth / ipv6 / udp"
rate = "500pps"

[[stream]]
name = "six"
packet = "eth / ipv6 dst=fd99::2 / udp dst=9000"
rate = "500pps"
"#;
    let scratch = Scratch::new();
    let mix = file(&scratch, text);
    for there in ["af_packet", "af_xdp", "xdp"] {
        let drop = with_traffic(net.b(&format!("drop {there}:eth1")), &mix);
        let send = with_traffic(net.a("send af_packet:eth1 --catch-up 5ms"), &mix);
        let (sent, received) = all_there_by(drop, send);
        for (list, names) in [
            ("streams", &["imix", "web", "tenants", "six"][..]),
            ("groups", &["load"]),
        ] {
            for name in names {
                let tx = count(of(&sent, list, name), "tx_packets");
                let came = of(&received, list, name);
                let counts = ["tx_packets", "rx_packets", "lost", "duplicates", "reordered", "corrupt"]
                    .map(|key| count(came, key));
                assert_eq!(counts, [tx, tx, 0, 0, 0, 0], "{there}: {came:#}");
                assert!(tx > 0 && came["valid"] == received.json["valid"], "{there}: {came:#}");
                assert!(
                    came["due_packets"].is_null() && came["intended_pps"].is_null(),
                    "{came:#}"
                );
                // Both hosts have one clock.
                assert_eq!(count(&came["latency_ns"], "count"), tx, "{there}: {came:#}");
            }
        }
        assert_eq!(sum(&received, "streams", "rx_packets"), received.count("rx_packets"));
        assert_eq!(received.json["sizes"], serde_json::json!([]));
    }
}

/// Returns the report of streams on a path without a wire.
pub(crate) fn alone(words: &str, text: &str) -> Report {
    let scratch = Scratch::new();
    let mix = file(&scratch, text);
    let report = scratch.measure(with_traffic(mpps(words), &mix));
    report.assert_rows_add_up();
    report
}

#[test]
fn faults_are_counted_exactly_by_stream_and_by_size() {
    let text = MIX.replace("vlan vid=10..12 / ", "");
    let report = alone(
        &format!("sendrecv loop:loss=0.05,duplicate=0.03,reorder=0.02,corrupt=0.02 --duration 1s {LOAD}"),
        &text,
    );
    assert!(
        report.count("lost") > 100 && report.count("corrupt") > 20,
        "{:#}",
        report.json["streams"]
    );
    assert_adds_up(&report);
    for (name, packets) in SENT {
        let of = of(&report, "streams", name);
        assert_eq!(count(of, "tx_packets"), packets, "{of:#}");
        assert_eq!(
            count(of, "tx_packets"),
            count(of, "rx_packets") + count(of, "lost") + count(of, "late"),
            "{of:#}"
        );
    }
}

#[test]
fn rows_of_what_drop_counts_by_stream_add_up_and_one_packet_has_none() {
    let scratch = Scratch::new();
    let text = "[[stream]]\nname = 'a'\ngroup = 'all'\npacket = 'eth / ipv4 / tcp src=1..9'\n\
                [[stream]]\nname = 'b'\ngroup = 'all'\npacket = 'eth / ipv4 / udp'\n";
    let mix = file(&scratch, text);
    let rows = scratch.file("streams.csv");
    let drop = |words: &str| {
        let mut command = mpps(&format!("drop null: --duration 300ms --quiet {words}"));
        command.arg("--streams-csv").arg(&rows);
        command
    };
    // The device delivers packets of the first stream.
    let report = scratch.measure(with_traffic(drop(""), &mix));
    let [a, b] = ["a", "b"].map(|name| count(of(&report, "streams", name), "rx_packets"));
    assert_eq!((a, b), (report.count("rx_packets"), 0), "{:#}", report.json["streams"]);
    assert!(a > 1000, "{:#}", report.json["streams"]);
    let text = std::fs::read_to_string(&rows).expect("rows");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let column = lines[0]
        .iter()
        .position(|name| *name == "rx_packets")
        .expect("a column");
    for (kind, name, want) in [("stream", "a", a), ("stream", "b", 0), ("group", "all", a)] {
        let of_name = lines.iter().filter(|line| line[..2] == [kind, name]);
        let all: u64 = of_name.map(|line| line[column].parse::<u64>().expect("a number")).sum();
        assert_eq!(all, want, "{kind} {name}: {text}");
    }
    let mut packet = drop("");
    packet.args(["--packet", "eth / ipv4 / tcp"]);
    assert_refused(
        packet,
        2,
        &["--streams-csv: the run has no streams", "drop with --traffic"],
    );
    let many = "[[stream]]\npacket = 'eth / ipv4 / udp'\n".repeat(9);
    std::fs::write(&mix, many).expect("a file");
    let in_kernel = with_traffic(mpps("drop xdp:lo"), &mix);
    assert_refused(
        in_kernel,
        2,
        &["--traffic: on port 'xdp:lo'", "8 streams, not 9", "or af_xdp:lo"],
    );
}

/// Eight streams that programs in the kernel make: ranges, tables, random values, tunnels, bursts, a chain.
const EIGHT: &str = r#"
[[stream]]
name = "range"
group = "load"
packet = "eth / ipv4 src=198.18.0.1 dst=198.18.0.2 / udp src=1024..1279 dst=9000"
size = "imix"
rate = "3kpps"

[[stream]]
name = "poisson"
group = "load"
packet = "eth / ipv4 src=198.18.0.1 dst=198.18.0.2 / tcp src=1..99 dst=80"
size = "300"
rate = "1kpps"
pacing = "poisson"

[[stream]]
name = "tenants"
packet = """eth / ipv4 src=198.18.0.1 dst=198.18.0.2 / udp src=inner-hash dst=4789 / vxlan vni=5..8 /
            eth / ipv4 src=10.0.0.1*20 dst=10.1.0.1 / tcp dst=80"""
step = "combine"
rate = "500pps"

[[stream]]
name = "random"
packet = "eth / ipv4 src=198.18.0.1 dst=198.18.0.2 id=random(0..65535) ttl=random(10..200) / udp dst=9001"
rate = "1kpps"
packets = 300

[[stream]]
name = "bursts"
packet = "eth / ipv6 src=2001:2::1 dst=2001:2::2 / tcp dst=80 flags=syn"
size = "random(100..107)"
start = "300ms"
burst = { packets = 20, gap = "20ms", count = 5 }

[[stream]]
name = "list"
packet = "eth / vlan vid=10..12 / ipv4 src=198.18.0.1 dst=198.18.0.2 / udp src={5*3, 6*1} dst=443"
size = "1000"
rate = "500pps"

[[stream]]
name = "shuffled"
packet = "eth / ipv4 src=198.18.0.1 dst=198.18.0.2 dscp=46 / udp src=shuffle(1..100) dst=9"
rate = "500pps"

[[stream]]
name = "last"
packet = "eth / ipv4 src=198.18.0.1 dst=198.18.0.2 / icmp ident=1..3"
size = "1514"
rate = "1kpps"
packets = 100
after = "random"
"#;

/// Packets of each stream of [`EIGHT`] in a second.
const SENT_BY_EIGHT: [(&str, u64); 8] = [
    ("range", 3000),
    ("poisson", 1000),
    ("tenants", 500),
    ("random", 300),
    ("bursts", 100),
    ("list", 500),
    ("shuffled", 500),
    ("last", 100),
];

#[test]
fn every_packet_of_eight_streams_arrives_through_a_bridge_by_xdp() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let report = assert_mix_arrives(&net, "xdp:eth1 xdp:eth2", EIGHT, &SENT_BY_EIGHT);
    // Of twelve frames of the mix seven have the smallest size.
    let smallest = of(&report, "sizes", "64");
    assert!(count(smallest, "rx_packets") >= 1750, "{smallest:#}");
    let load = of(&report, "groups", "load");
    assert_eq!(
        (count(load, "tx_packets"), count(load, "streams")),
        (4000, 2),
        "{load:#}"
    );
}

#[test]
fn streams_of_xdp_come_back_from_a_reflector_and_are_dropped_each_counted_by_itself() {
    let Some(net) = net_of(1) else { return };
    let text = r#"
[[stream]]
name = "a"
packet = "eth / ipv4 dst=10.99.0.2 / udp src=1024..1031 dst=9000"
rate = "2kpps"

[[stream]]
name = "b"
packet = "eth / ipv4 dst=10.99.0.2 / tcp src=1..3 dst=80"
size = "200"
rate = "1kpps"
"#;
    let there = Scratch::new();
    let mix = file(&there, text);
    {
        let _reflector = listen_by(&there, with_traffic(net.b("reflect xdp:eth1"), &mix));
        let scratch = Scratch::new();
        let command = with_traffic(net.a(&format!("sendrecv xdp:eth1 --duration 1s {LOAD}")), &mix);
        let report = scratch.measure(command);
        report.assert_accounted();
        report.assert_rows_add_up();
        assert_adds_up(&report);
        for (name, packets) in [("a", 2000), ("b", 1000)] {
            let of = of(&report, "streams", name);
            let counts = ["tx_packets", "rx_packets", "lost", "missed"].map(|key| count(of, key));
            assert_eq!(counts, [packets, packets, 0, 0], "{of:#}");
            assert_eq!(of["latency_scheduled_ns"]["count"], packets, "{of:#}");
        }
    }
    let drop = with_traffic(net.b("drop xdp:eth1"), &mix);
    let send = with_traffic(net.a("send xdp:eth1 --catch-up 10s"), &mix);
    let (sent, received) = all_there_by(drop, send);
    for name in ["a", "b"] {
        let tx = count(of(&sent, "streams", name), "tx_packets");
        let came = of(&received, "streams", name);
        let counts = ["tx_packets", "rx_packets", "lost"].map(|key| count(came, key));
        assert_eq!(counts, [tx, tx, 0], "{came:#}");
        assert_eq!(count(&came["latency_ns"], "count"), tx, "{came:#}");
    }
}

#[test]
fn streams_of_xdp_without_a_rate_take_turns_by_their_weights_and_end_with_their_packets() {
    let Some(net) = net_of(1) else { return };
    let text = r#"
[[stream]]
name = "three"
packet = "eth / ipv4 dst=10.99.0.2 / udp src=1..8"
weight = 3

[[stream]]
name = "two"
packet = "eth / ipv4 dst=10.99.0.2 / tcp"
size = "100"
weight = 2
"#;
    let there = Scratch::new();
    let _drop = listen_by(&there, net.b("drop xdp:eth1 --packet eth"));
    let scratch = Scratch::new();
    let mix = file(&scratch, text);
    let report = scratch.measure(with_traffic(net.a("send xdp:eth1 --duration 300ms --quiet"), &mix));
    let [three, two] = ["three", "two"].map(|name| count(of(&report, "streams", name), "tx_packets"));
    assert!(three > 100, "{:#}", report.json["streams"]);
    // The run may end within a cycle of five packets.
    assert!((three * 2).abs_diff(two * 3) <= 6, "{three} {two}");
    let finite = text
        .replace("weight = 3", "packets = 200\nstart = \"20ms\"")
        .replace("weight = 2", "packets = 100");
    std::fs::write(&mix, finite).expect("a file");
    let report = scratch.measure(with_traffic(net.a("send xdp:eth1 --quiet"), &mix));
    let counts = ["three", "two"].map(|name| count(of(&report, "streams", name), "tx_packets"));
    assert_eq!(counts, [200, 100]);
}

#[test]
fn each_trial_of_a_search_in_the_kernel_has_all_streams_and_what_is_not_to_be_scaled() {
    let Some(net) = net_of(1) else { return };
    let text = r#"
[[stream]]
name = "a"
packet = "eth / ipv4 dst=10.99.0.2 / udp src=1..8 dst=1"
rate = "20kpps"

[[stream]]
name = "b"
packet = "eth / ipv4 dst=10.99.0.2 / udp src=1..8 dst=2"
size = "128"
rate = "10kpps"

[[stream]]
name = "probe"
packet = "eth / ipv4 dst=10.99.0.2 / udp dst=3"
rate = "100pps"
scale = false
"#;
    let (scratch, there) = (Scratch::new(), Scratch::new());
    let mix = file(&scratch, text);
    let _reflector = listen_by(&there, with_traffic(net.b("reflect xdp:eth1"), &mix));
    let words = format!(
        "ndr xdp:eth1 --min-rate 1kpps --max-rate 5kpps --catch-up 10s --goal \
         loss=50%,initial=100ms,final=100ms,sum=200ms --out {} --quiet",
        scratch.file("out").display()
    );
    let finished = run_command(with_traffic(net.a(&words), &mix));
    let record = std::fs::read_to_string(scratch.file("out").join("trials.jsonl")).unwrap_or_default();
    let trials: Vec<Value> = record
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|trial| trial["sent"].is_u64())
        .collect();
    assert!(trials.len() > 1, "{}: {record}", finished.stderr);
    // The probe's packets come on top of the rate that is searched.
    let sent: Vec<u64> = trials.iter().filter_map(|trial| trial["sent"].as_u64()).collect();
    assert!(sent.contains(&510) || sent.contains(&5101), "{sent:?}: {record}");
    assert!(
        trials.iter().all(|trial| trial["received"].as_u64() > Some(0)),
        "{record}"
    );
}

#[test]
fn streams_without_a_rate_take_turns_by_their_weights() {
    let text = r#"
[[stream]]
name = "three"
packet = "eth / ipv4 / udp src=1..8"
weight = 3

[[stream]]
name = "two"
packet = "eth / ipv4 / tcp"
size = "74..202 step 8"
weight = 2
"#;
    let report = alone("send null: --duration 300ms --quiet", text);
    let [three, two] = ["three", "two"].map(|name| count(of(&report, "streams", name), "tx_packets"));
    assert!(three + two > 1000, "{:#}", report.json["streams"]);
    // A cycle has five packets, and the run may end within one, in a burst that is given back.
    assert!((three * 2).abs_diff(two * 3) <= 6 * 64, "{three} {two}");
    // Over all, the rate is the total of the weights.
    let report = alone(&format!("sendrecv loop: --rate 5kpps --duration 400ms {LOAD}"), text);
    let counts = ["three", "two"].map(|name| count(of(&report, "streams", name), "tx_packets"));
    assert_eq!(counts, [1200, 800]);
    assert_adds_up(&report);
}

#[test]
fn a_run_ends_with_its_last_packet_where_all_streams_do() {
    let text = r#"
[[stream]]
name = "a"
packet = "eth / ipv4 / udp dst=1"
rate = "1kpps"
packets = 200

[[stream]]
name = "b"
packet = "eth / ipv4 / udp dst=2"
after = "a"
start = "100ms"
burst = { packets = 10, gap = "10ms", count = 5 }
repeat = 2
"#;
    let report = alone(&format!("sendrecv loop: --lanes 2 {LOAD}"), text);
    let counts = ["a", "b"].map(|name| count(of(&report, "streams", name), "tx_packets"));
    assert_eq!(counts, [200, 100]);
    let seconds = report.json["duration_s"].as_f64().expect("a time");
    assert!(
        (seconds - 0.4).abs() < 1e-9,
        "200 ms, 100 ms, ten bursts of 10 ms: {seconds}"
    );
    // As many without a schedule.
    let text = text
        .replace("rate = \"1kpps\"\n", "")
        .replace("after = \"a\"\nstart = \"100ms\"\n", "");
    let text = text.replace(
        "burst = { packets = 10, gap = \"10ms\", count = 5 }\nrepeat = 2",
        "packets = 100",
    );
    let report = alone(&format!("sendrecv loop: --lanes 2 {LOAD}"), &text);
    let counts = ["a", "b"].map(|name| count(of(&report, "streams", name), "tx_packets"));
    assert_eq!(counts, [200, 100]);
}

#[test]
fn a_thousand_streams_run_beside_each_other_and_only_groups_have_percentiles() {
    let stream = |i: usize| {
        format!(
            "[[stream]]\nname = 's{i}'\ngroup = 'g{}'\npacket = 'eth / ipv4 dst=10.0.0.{} / udp src={} dst=9'\n\
             rate = '5pps'\n{}\n",
            i % 4,
            i % 200 + 1,
            i + 1,
            if i == 7 { "track = true\n" } else { "" }
        )
    };
    let text: String = (0..1000).map(stream).collect();
    let report = alone(&format!("sendrecv loop: --duration 1s {LOAD}"), &text);
    assert_eq!(report.json["streams"].as_array().map(Vec::len), Some(1000));
    assert_eq!(sum(&report, "streams", "tx_packets"), 5000);
    assert_eq!(sum(&report, "groups", "rx_packets"), 5000);
    let percentile = |list: &str, name: &str| of(&report, list, name)["latency_ns"]["p99"].is_u64();
    assert!(percentile("groups", "g0") && percentile("streams", "s7"));
    assert!(!percentile("streams", "s8"), "{:#}", of(&report, "streams", "s8"));
}

#[test]
fn a_search_keeps_the_mix_and_leaves_what_is_not_to_be_scaled() {
    let text = r#"
[[stream]]
name = "a"
packet = "eth / ipv4 / udp dst=1"
rate = "20kpps"

[[stream]]
name = "b"
packet = "eth / ipv4 / udp dst=2"
size = "64*3 128*1"
rate = "10kpps"

[[stream]]
name = "probe"
packet = "eth / ipv4 / udp dst=3"
rate = "100pps"
scale = false
"#;
    let scratch = Scratch::new();
    let mix = file(&scratch, text);
    let words = format!(
        "ndr loop: --min-rate 1kpps --max-rate 5kpps --catch-up 10s --goal \
         loss=50%,initial=100ms,final=100ms,sum=200ms --out {} --quiet",
        scratch.file("out").display()
    );
    let finished = run_command(with_traffic(mpps(&words), &mix));
    let record = std::fs::read_to_string(scratch.file("out").join("trials.jsonl")).unwrap_or_default();
    let sent: Vec<u64> = record
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["sent"].as_u64())
        .collect();
    // The probe's 100 pps come on top of the rate that is searched, and each stream is whole packets.
    assert!(sent.len() > 1, "{}: {record}", finished.stderr);
    assert!(sent.contains(&5101), "5 kpps for a second: {sent:?}: {record}");
}

#[test]
fn a_search_finds_rates_by_the_loss_of_a_stream_or_a_group() {
    let text = r#"
[[stream]]
name = "gold"
packet = "eth / ipv4 / udp dst=1"
rate = "1kpps"

[[stream]]
name = "other"
group = "rest"
packet = "eth / ipv4 / udp dst=2"
rate = "3kpps"
"#;
    let scratch = Scratch::new();
    let mix = file(&scratch, text);
    // A tenth is lost at each rate: one goal passes at the highest, and the other fails at the lowest.
    let trials = "initial=100ms,final=100ms,sum=200ms,width=50%";
    let words = format!(
        "ndr loop:loss=10% --min-rate 1kpps --max-rate 4kpps --catch-up 10s --goal loss(gold)=50%,{trials} --goal \
         loss(rest)=0,{trials} --expect pdr(gold)>=4kpps --expect ndr(rest)<4kpps --out {} --quiet",
        scratch.file("out").display()
    );
    let finished = run_command(with_traffic(mpps(&words), &mix));
    let result = std::fs::read_to_string(scratch.file("out").join("result.json")).unwrap_or_default();
    let result: Value = serde_json::from_str(&result).unwrap_or_else(|e| panic!("{e}: {finished:?}"));
    let goals = result["params"]["goals"].as_array().expect("goals");
    let streams: Vec<_> = goals.iter().map(|goal| goal["stream"].as_str()).collect();
    assert_eq!(streams, [Some("gold"), Some("rest")]);
    let counted: Vec<&Value> = result["trials"].as_array().expect("trials").iter().collect();
    let counted: Vec<&Value> = counted
        .into_iter()
        .filter(|trial| trial["outcome"] == "counted")
        .collect();
    assert!(!counted.is_empty(), "{result:#}");
    for trial in &counted {
        let streams = trial["streams"].as_array().expect("streams");
        let sum = |key: &str| streams.iter().filter_map(|of| of[key].as_u64()).sum::<u64>();
        assert_eq!(Some(sum("due")), trial["due"].as_u64(), "{trial:#}");
        assert_eq!(Some(sum("missing")), trial["missing"].as_u64(), "{trial:#}");
    }
    // A host that others use may void three trials in a row.
    if finished.code != Some(3) {
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert_eq!(result["results"][0]["at_max"], true, "{result:#}");
        assert_eq!(result["results"][1]["none_passes"], true, "{result:#}");
    }
}

#[test]
fn a_stream_that_a_run_will_not_have_is_refused_before_it_begins() {
    let scratch = Scratch::new();
    let mix = file(&scratch, MIX);
    // The port is missing, which the run would find out when it opens it.
    for (words, want) in [
        (
            "sendrecv af_packet:nonesuch9 --expect loss(probes)==0",
            "no stream or group 'probes': did you mean 'probe'?",
        ),
        (
            "send null: --expect sent(x)>1",
            "no stream or group 'x': want imix, tenants, probe, bursts, last, load",
        ),
        ("drop null: --expect lost(laod)==0", "'laod': did you mean 'load'?"),
        ("sendrecv loop: --expect mfr>1Mpps", "a run finds no mfr"),
        (
            "ndr af_packet:nonesuch9 --goal loss(laod)=0",
            "no stream or group 'laod': did you mean 'load'?",
        ),
        (
            "ndr loop: --goal loss(load)=0 --expect ndr>1Mpps",
            "want a demand on ndr(load), or a --goal with loss=0",
        ),
    ] {
        assert_refused(with_traffic(mpps(words), &mix), 2, &[want]);
    }
    for words in [
        "sendrecv loop: --expect loss(gold)==0",
        "sendrecv loop: --expect loss(packet)==0 --packet",
        "ndr loop: --goal loss(gold)=0",
    ] {
        let mut command = mpps(words);
        if words.ends_with("--packet") {
            command.arg("eth / ipv4 / udp");
        }
        assert_refused(command, 2, &["the run has none: want --traffic FILE"]);
    }
    let many: String = (0..65)
        .map(|n| format!("[[stream]]\nname = 's{n}'\ngroup = 'all'\npacket = 'eth / ipv4 / udp dst={n}'\n"))
        .collect();
    let many = file(&scratch, &many);
    let command = with_traffic(mpps("sendrecv loop: --expect p99(s1)<1s"), &many);
    assert_refused(command, 2, &["want track = true in the stream, or its group"]);
}

#[test]
fn runs_are_compared_by_the_results_of_a_stream() {
    let scratch = Scratch::new();
    let stream = |name: &str, more: &str| format!("[[stream]]\nname = '{name}'\npacket = 'eth / ipv4 / udp'\n{more}\n");
    let text = stream("probe", "rate = '500pps'") + &stream("bulk", "rate = '4kpps'\ngroup = 'load'");
    let mix = file(&scratch, &text);
    let compare = |metric: &str, out: &str| {
        let run = |port: &str| format!("sendrecv {port} --duration 300ms {LOAD} --traffic {}", mix.display());
        let mut command = mpps("compare --rounds 1 --pause 0 --metric");
        command.args([metric, "--out"]).arg(scratch.file(out));
        command.args([run("loop:delay=1ms"), run("loop:delay=20ms,loss=10%")]);
        command
    };
    assert_refused(
        compare("p99(probes)", "refused"),
        2,
        &["'p99(probes)'", "did you mean 'probe'?"],
    );
    let done = run_command(compare("max(probe),loss(load)", "out"));
    let record = std::fs::read_to_string(scratch.file("out").join("trials.jsonl")).unwrap_or_default();
    let lines = record
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let runs: Vec<Value> = lines.filter(|line| line["outcome"] == "counted").collect();
    let of = |variant: &str| {
        runs.iter()
            .find(|run| run["variant"] == variant)
            .map(|run| &run["streams"])
    };
    let (Some(a), Some(b)) = (of("A"), of("B")) else {
        panic!("{done:?}");
    };
    assert!(b["probe"]["latency_ns"]["max"].as_f64() >= Some(20e6), "{b:#}");
    assert_eq!(a["load"]["lost"], 0);
    assert!(
        b["load"]["lost"].as_u64() > Some(0) && b["load"]["sent"] == 1200,
        "{b:#}"
    );
    assert!(
        done.stdout.contains("max(probe)") && done.stdout.contains("loss(load)"),
        "{done:?}"
    );
}

#[test]
fn a_file_is_one_row_of_rfc2544() {
    let scratch = Scratch::new();
    let stream = |name: &str, more: &str| format!("[[stream]]\nname = '{name}'\npacket = 'eth / ipv4 / udp'\n{more}\n");
    let text = stream("small", "rate = '3kpps'") + &stream("large", "rate = '1kpps'\nsize = 464");
    let mix = file(&scratch, &text);
    let words = format!(
        "rfc2544 throughput loop: --quick --min-rate 1kpps --max-rate 2kpps --trial 100ms --first-trial 100ms \
         --resolution 10% --catch-up 10s --out {} --quiet",
        scratch.file("out").display()
    );
    let finished = run_command(with_traffic(mpps(&words), &mix));
    let result = std::fs::read_to_string(scratch.file("out").join("result.json")).unwrap_or_default();
    let result: Value = serde_json::from_str(&result).unwrap_or_else(|e| panic!("{e}: {finished:?}"));
    let rows = result["results"].as_array().expect("rows");
    // Three frames of 64 bytes and one of 464.
    let sizes: Vec<_> = rows.iter().map(|row| &row["frame_size_bytes"]).collect();
    assert_eq!(sizes, [164], "{result:#}");
    assert_eq!(result["params"]["protocol"], "2 streams: small, large");
    let tried = result["trials"].as_array().expect("trials");
    assert!(tried.iter().all(|trial| trial["frame_size_bytes"] == 164), "{result:#}");
    // A host that others use may void three trials in a row.
    if finished.code != Some(3) {
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert_eq!(rows[0]["throughput"]["lower_pps"], 2000, "{result:#}");
    }
    for (words, want) in [
        (
            "rfc2544 throughput loop: --frame-sizes 64",
            "--frame-sizes: beside --traffic: want size in the streams",
        ),
        ("rfc2544 reset loop: --reset-cmd true", "reset: beside --traffic"),
    ] {
        assert_refused(with_traffic(mpps(words), &mix), 2, &[want]);
    }
}

#[test]
fn advice_beside_a_file_names_its_fields() {
    let Some(net) = net_of(1) else { return };
    let scratch = Scratch::new();
    let refused = |packet: &str, port: &str, code, want: &str| {
        let mix = file(&scratch, &format!("[[stream]]\npacket = '{packet}'\n"));
        let command = with_traffic(net.a(&format!("sendrecv {port} --quiet --duration 100ms")), &mix);
        assert_refused(command, code, &[want]);
    };
    refused(
        "eth / ipv4 dst=10.99.0.1 / udp",
        "af_packet:eth1",
        2,
        "dst 10.99.0.1: 10.99.0.1 is the address of eth1",
    );
    refused(
        "eth / ipv4 dst=10.99.0.9 / udp",
        "af_packet:lo",
        2,
        "or dst=MAC in eth to send frames all the same",
    );
    refused(
        "eth / ipv4 dst=10.99.0.9 / udp",
        "af_packet:eth1",
        1,
        "(dst=MAC in eth skips the question",
    );
}

#[test]
fn what_streams_can_not_have_is_refused_in_one_line() {
    let stream = "[[stream]]\npacket = 'eth / ipv4 / udp'\n";
    let rated = |rate: &str| format!("{stream}rate = '{rate}'\n");
    for (text, words, want) in [
        (format!("{}{stream}", rated("1kpps")), "", "want a rate in each stream"),
        (rated("1kpps"), "--rate 5kpps", "--rate '5kpps': beside --traffic"),
        (rated("10%"), "", "does not tell its link speed"),
        (format!("{stream}size = '9000'\n"), "", "above the MTU"),
        (format!("{stream}lanes = [3]\n"), "", "lanes: 3 does not send: want 0"),
        (
            format!("{stream}lanes = [3]\n").replace("eth /", "eth dst=02:00:00:00:00:01 /"),
            "--print-plan",
            "lanes: 3 does not send: want 0",
        ),
        (rated("1kpps"), "--frame-size 100", "--frame-size: beside --traffic"),
        (stream.to_owned(), "--scale 50%", "there is no rate"),
        (
            format!("{stream}pacing = 'burst'\nrate = '1kpps'\n"),
            "",
            "want burst = {",
        ),
    ] {
        let scratch = Scratch::new();
        let mix = file(&scratch, &text);
        let command = with_traffic(mpps(&format!("sendrecv loop: --quiet {words}")), &mix);
        assert_refused(command, 2, &[want]);
    }
}

#[test]
fn a_sender_alone_sends_packets_without_a_tag_and_tcp_that_is_numbered() {
    let text = r#"
[[stream]]
name = "flood"
packet = "eth / ipv4 src=random(10.0.0.0/8) dst=198.18.0.2 / tcp dst=80 flags=syn"
tag = "none"
fill = "zeros"
size = 64
rate = "1kpps"
packets = 50

[[stream]]
name = "numbered"
packet = "eth / ipv4 dst=198.18.0.2 / tcp dst=81"
tag = "tcp"
size = 64
rate = "1kpps"
packets = 50
"#;
    let scratch = Scratch::new();
    let sample = scratch.file("sample.pcapng");
    let report = alone(
        &format!("send null: --sample-pcap {},n=1 {LOAD}", sample.display()),
        text,
    );
    assert_eq!(
        ["flood", "numbered"].map(|name| count(of(&report, "streams", name), "tx_packets")),
        [50, 50]
    );
    let mut file = std::fs::File::open(&sample).expect("a sample");
    let frames = mpps_replay::Capture::read(&mut file, &mpps_replay::Selection::default(), 1 << 20).expect("frames");
    let of_port = |port: u16| {
        let own = frames
            .packets()
            .filter(move |packet| packet.bytes[36..38] == port.to_be_bytes());
        own.map(|packet| packet.bytes.to_vec()).collect::<Vec<_>>()
    };
    assert!(
        of_port(80)
            .iter()
            .all(|frame| frame.len() == 60 && frame[54..] == [0; 6]),
        "zeros to the end"
    );
    let numbers: Vec<u32> = of_port(81)
        .iter()
        .map(|frame| u32::from_be_bytes([frame[38], frame[39], frame[40], frame[41]]))
        .collect();
    assert_eq!(numbers, (0..50).collect::<Vec<u32>>());
}

/// Two streams of TCP that are numbered, one of them with a tag, and one without either.
const NUMBERED: &str = r#"
[[stream]]
name = "syn"
group = "known"
packet = "eth / ipv4 src=198.18.0.7 dst=198.18.0.2 / tcp src=1024..1087 dst=80 flags=syn"
tag = "tcp"
rate = "1kpps"

[[stream]]
name = "long"
group = "known"
packet = "eth / ipv6 src=2001:2::1 dst=2001:2::2 / tcp src=random(1024..65535) dst=81 flags=ack"
tag = "tcp"
size = "90*3 400*2"
rate = "500pps"

[[stream]]
name = "flood"
packet = "eth / ipv4 src=random(10.0.0.0/16) dst=198.18.0.2 / udp dst=9"
tag = "none"
rate = "700pps"

[[stream]]
name = "tagged"
packet = "eth / ipv4 src=198.18.0.1 dst=198.18.0.2 / tcp src=1024..1087 dst=80 flags=syn"
rate = "300pps"
"#;

/// Checks the counts of the streams of [`NUMBERED`], a second of them, all of which came back.
fn assert_numbered(report: &Report) {
    report.assert_accounted();
    for (name, packets) in [("syn", 1000), ("long", 500), ("tagged", 300)] {
        let of = of(report, "streams", name);
        let counted = [
            "tx_packets",
            "rx_packets",
            "lost",
            "duplicates",
            "reordered",
            "untagged_came",
        ];
        assert_eq!(
            counted.map(|key| count(of, key)),
            [packets, packets, 0, 0, 0, 0],
            "{of:#}"
        );
        assert_eq!(of["latency_ns"]["count"].as_u64(), Some(packets), "{of:#}");
    }
    let flood = of(report, "streams", "flood");
    for key in ["rx_packets", "lost", "loss_ratio", "late", "received_pps"] {
        assert!(flood[key].is_null(), "{key}: {flood:#}");
    }
    let counted = ["tx_packets", "untagged_packets", "untagged_came"];
    assert_eq!(counted.map(|key| count(flood, key)), [700; 3], "{flood:#}");
    assert_eq!(
        ["tx_packets", "rx_packets", "lost", "untagged_packets", "corrupt"].map(|key| report.count(key)),
        [2500, 1800, 0, 700, 0]
    );
    // Hosts and bridges look for neighbours.
    assert!(report.count("foreign") < 50, "{:#}", report.json["reasons"]);
    assert_eq!(report.json["valid"], true, "{:#}", report.json["invalid_reasons"]);
}

#[test]
fn tcp_that_is_numbered_is_counted_as_if_it_were_tagged_and_what_has_no_tag_is_no_loss() {
    let report = alone(&format!("sendrecv loop: --duration 1s {LOAD}"), NUMBERED);
    assert_numbered(&report);
    let warnings = report.json["warnings"].to_string();
    assert!(
        warnings.contains("stream flood: its packets have no tag: whether they come is not known"),
        "{warnings}"
    );
}

#[test]
fn streams_without_a_tag_arrive_at_another_port_by_their_headers() {
    let Some(net) = joined_twice() else { return };
    let scratch = Scratch::new();
    let mix = file(&scratch, NUMBERED);
    bridge(&net);
    let command = with_traffic(
        net.a(&format!("sendrecv af_packet:eth1 af_packet:eth2 --duration 1s {LOAD}")),
        &mix,
    );
    assert_numbered(&scratch.measure(command));
}

#[test]
fn faults_of_numbered_tcp_are_counted_exactly() {
    let report = alone(
        &format!("sendrecv loop:loss=0.05,duplicate=0.03,reorder=0.02 --duration 1s {LOAD}"),
        NUMBERED,
    );
    report.assert_accounted();
    for (name, packets) in [("syn", 1000), ("long", 500)] {
        let of = of(&report, "streams", name);
        let [tx, rx, lost, late, copies] =
            ["tx_packets", "rx_packets", "lost", "late", "duplicates"].map(|key| count(of, key));
        assert_eq!(tx, packets);
        assert_eq!(rx + lost + late, packets, "{of:#}");
        assert!(lost > 0 && lost < packets / 5 && copies > 0, "{of:#}");
    }
    let flood = of(&report, "streams", "flood");
    assert_eq!(count(flood, "untagged_packets"), 700, "{flood:#}");
    assert_eq!(report.count("foreign"), 0);
}

#[test]
fn a_reflector_returns_streams_without_a_tag_by_their_headers() {
    let Some(net) = net_of(1) else { return };
    let text = NUMBERED
        .replace("198.18.0.2", "10.99.0.2")
        .replace("2001:2::2", "fd99::2");
    let text = text.replace("198.18.0.7", "10.99.0.7").replace("2001:2::1", "fd99::7");
    let text = text
        .replace("198.18.0.1", "10.99.0.8")
        .replace("random(10.0.0.0/16)", "10.99.0.9");
    let there = Scratch::new();
    let mix = file(&there, &text);
    let _reflector = listen_by(&there, with_traffic(net.b("reflect af_packet:eth1"), &mix));
    let scratch = Scratch::new();
    let command = with_traffic(net.a(&format!("sendrecv af_packet:eth1 --duration 1s {LOAD}")), &mix);
    assert_numbered(&scratch.measure(command));
}

#[test]
fn each_answer_of_a_host_to_a_syn_is_known_and_the_sender_s_host_does_not_answer() {
    let Some(net) = net_of(1) else { return };
    if missing("python3", "python3") {
        return;
    }
    let script = "
import socket, sys, time
listener = socket.create_server(('10.99.0.2', 80), backlog=4096)
print('listening', file=sys.stderr, flush=True)
time.sleep(600)
";
    // Else it repeats its answers when the run, and with it the guard, is over.
    net.on(Host::B, "sysctl -qw net.ipv4.tcp_synack_retries=0");
    let mut python = inside(&net.lab, Host::B, "python3 -c");
    python.arg(script);
    let _listener = Background::start(python).wait_to_hear("listening");
    // The host's own address, from open and from closed ports.
    let text = r#"
[[stream]]
name = "open"
packet = "eth / ipv4 dst=10.99.0.2 / tcp src=2000..2999 dst=80 flags=syn"
tag = "tcp"
rate = "1kpps"

[[stream]]
name = "closed"
packet = "eth / ipv4 dst=10.99.0.2 / tcp src=2000..2009 dst=81 flags=syn"
tag = "tcp"
size = 90
rate = "500pps"

[[stream]]
name = "flood"
packet = "eth / ipv4 dst=10.99.0.2 / tcp src=random(20000..30000) dst=82 flags=syn"
tag = "none"
rate = "300pps"
"#;
    let scratch = Scratch::new();
    let mix = file(&scratch, text);
    let command = with_traffic(net.a(&format!("sendrecv af_packet:eth1 --duration 1s {LOAD}")), &mix);
    let report = scratch.measure(command);
    report.assert_accounted();
    for (name, packets) in [("open", 1000), ("closed", 500)] {
        let of = of(&report, "streams", name);
        assert_eq!(
            ["tx_packets", "rx_packets", "lost"].map(|key| count(of, key)),
            [packets, packets, 0],
            "{of:#}"
        );
    }
    let flood = of(&report, "streams", "flood");
    assert_eq!(count(flood, "untagged_came"), 300, "{flood:#}");
    assert!(
        report.count("foreign") < 50 && report.count("corrupt") == 0,
        "{:#}",
        report.json
    );
    assert_eq!(
        net.snmp(Host::A, "Tcp", "OutRsts"),
        0,
        "the guard keeps answers from the host"
    );
}

#[test]
fn streams_without_a_tag_that_can_not_be_told_apart_are_refused() {
    let stream = |packet: &str, tag: &str| format!("[[stream]]\npacket = 'eth / ipv4 / {packet}'\ntag = '{tag}'\n");
    let two = |one: &str, other: &str| stream(one, "tcp") + &stream(other, "tcp");
    for (text, words, want) in [
        (
            two("tcp src=1..9 dst=80", "tcp src=9 dst=80"),
            "sendrecv loop:",
            "stream 2: tag tcp: its packets can have the addresses and ports of stream 1",
        ),
        (
            two("tcp src=random(1..9) dst=80", "tcp src=4 dst=80"),
            "sendrecv loop:",
            "can have the addresses and ports of stream 1",
        ),
        (
            stream("tcp dst=80 win=1..2", "tcp"),
            "sendrecv loop:",
            "flows 0 and 1 have the same addresses and ports",
        ),
        (
            stream("udp dst=4789 / vxlan / eth / ipv4 / tcp", "tcp"),
            "sendrecv loop:",
            "right behind the outermost IP header",
        ),
        (stream("udp", "none"), "drop null:", "tag: want tail"),
        (stream("udp", "none"), "ndr loop:", "no stream has a tag"),
        (
            stream("udp", "none") + &stream("udp", "tail"),
            "ndr loop: --goal loss(1)=0",
            "1: its packets have no tag",
        ),
    ] {
        let scratch = Scratch::new();
        let mix = file(&scratch, &text);
        assert_refused(with_traffic(mpps(&format!("{words} --quiet")), &mix), 2, &[want]);
    }
    let scratch = Scratch::new();
    let mix = file(&scratch, &two("tcp src=1..9 dst=80", "tcp src=10 dst=80"));
    let report = scratch.measure(with_traffic(
        mpps(&format!("sendrecv loop: --rate 1kpps --duration 100ms {LOAD}")),
        &mix,
    ));
    report.assert_accounted();
}

#[test]
fn bytes_of_the_payload_that_vary_are_sent_and_verified() {
    let text = r#"
[[stream]]
name = "counted"
packet = "eth / ipv4 dst=198.18.0.2 / udp src=1..3 dst=9 / payload @4:2=1..1000 @8:4=random(1..9999)"
size = "90*2 300"
rate = "1kpps"

[[stream]]
name = "zeros"
packet = "eth / ipv6 / tcp dst=9 / payload @0:1={1,2*3}"
fill = "zeros"
rate = "500pps"

[[stream]]
name = "numbered"
packet = "eth / ipv4 dst=198.18.0.2 / tcp dst=9 / payload @2:4=shuffle(1..100)"
tag = "tcp"
rate = "500pps"
"#;
    let of_all = |report: &Report, key: &str| {
        ["counted", "zeros", "numbered"].map(|name| count(of(report, "streams", name), key))
    };
    let report = alone(&format!("sendrecv loop: --duration 1s {LOAD}"), text);
    report.assert_accounted();
    assert_eq!(of_all(&report, "rx_packets"), [1000, 500, 500], "{:#}", report.json);
    assert_eq!(
        (report.count("corrupt"), report.json["changes"].to_string()),
        (0, "[]".to_owned())
    );
    let first = text.split("[[stream]]").nth(1).expect("a stream");
    let report = alone(
        &format!("sendrecv loop:corrupt=0.1 --duration 1s {LOAD}"),
        &format!("[[stream]]{first}"),
    );
    report.assert_accounted();
    assert!(report.count("corrupt") > 20, "{:#}", report.json);
    let scratch = Scratch::new();
    let mix = file(
        &scratch,
        text.split("[[stream]]\nname = \"numbered\"")
            .next()
            .expect("two streams"),
    );
    assert_refused(
        with_traffic(mpps("drop null: --quiet"), &mix),
        2,
        &["payload: drop verifies the data"],
    );
    let small = file(
        &scratch,
        "[[stream]]\npacket = 'eth / ipv4 / udp / payload @9:9=1..3'\nsize = 64\n",
    );
    assert_refused(
        with_traffic(mpps("sendrecv loop: --quiet"), &small),
        2,
        &["want sizes of 80 or more"],
    );
}

/// Returns the packets that each way sent and received.
fn ways(report: &Report) -> Vec<[u64; 3]> {
    let ways = report.json["directions"].as_array().expect("two ways");
    let of = |way: &Value| ["tx_packets", "rx_packets", "untagged_packets"].map(|key| count(way, key));
    ways.iter().map(of).collect()
}

#[test]
fn each_stream_leaves_by_its_port_and_arrives_at_the_other() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let text = r#"
[[stream]]
name = "there"
packet = "eth / ipv4 dscp=46 / udp src=1024..1031 dst=9000"
size = "90*2 300"
rate = "1kpps"

[[stream]]
name = "back"
packet = "eth / vlan vid=7 / ipv6 / tcp src=80 dst=1024..1027 flags=syn"
tag = "tcp"
from = 1
to = 0
rate = "500pps"

[[stream]]
name = "none"
packet = "eth / ipv4 / icmp type=8"
tag = "none"
from = 1
rate = "300pps"
"#;
    let scratch = Scratch::new();
    let mix = file(&scratch, text);
    let command = net.a(&format!("sendrecv af_packet:eth1 af_packet:eth2 --duration 1s {LOAD}"));
    let report = scratch.measure(with_traffic(command, &mix));
    report.assert_accounted();
    assert_eq!(ways(&report), [[1000, 1000, 0], [800, 500, 300]], "{:#}", report.json);
    for (name, packets, lanes) in [("there", 1000, 1), ("back", 500, 1)] {
        let of = of(&report, "streams", name);
        let counted = ["tx_packets", "rx_packets", "duplicates", "lanes"].map(|key| count(of, key));
        assert_eq!(counted, [packets, packets, 0, lanes], "{of:#}");
    }
    assert_eq!(count(of(&report, "streams", "none"), "untagged_came"), 300);
    assert_eq!(
        (report.json["changes"].to_string(), report.count("corrupt")),
        ("[]".to_owned(), 0)
    );
}

#[test]
fn both_ways_mirror_each_stream() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let text = r#"
[[stream]]
name = "tenants"
group = "load"
packet = """eth / vlan vid=5..6 / ipv4 src=198.18.0.1*3 dst=198.18.0.9 / udp src=inner-hash dst=4789 / vxlan vni=5..8 /
            eth / ipv4 src=10.0.0.1*20 dst=10.1.0.1 / tcp dst=80"""
step = "combine"
size = "150..500 step 31"
rate = "1kpps"

[[stream]]
name = "syn"
group = "load"
packet = "eth / ipv6 src=2001:2::1*4 dst=2001:2::9 / tcp src=random(1024..65535) dst=80 flags=syn"
tag = "tcp"
rate = "500pps"
after = "short"

[[stream]]
name = "short"
packet = "eth / ipv4 / udp src=1..2 dst=9"
rate = "1kpps"
packets = 50
"#;
    let scratch = Scratch::new();
    let mix = file(&scratch, text);
    let words = format!("sendrecv af_packet:eth1 af_packet:eth2 --both-ways --duration 1s {LOAD}");
    let report = scratch.measure(with_traffic(net.a(&words), &mix));
    report.assert_accounted();
    let [[there, there_rx, _], [back, back_rx, _]] = ways(&report)[..] else {
        panic!("two ways")
    };
    assert_eq!((there, back), (there_rx, back_rx), "{:#}", report.json["directions"]);
    assert_eq!((there, back), (1525, 1525));
    for name in ["tenants", "syn", "short", "tenants-back", "syn-back", "short-back"] {
        let of = of(&report, "streams", name);
        let packets = if name.starts_with("tenants") {
            1000
        } else if name.starts_with("syn") {
            475
        } else {
            50
        };
        let counted = ["tx_packets", "rx_packets", "reordered", "duplicates"].map(|key| count(of, key));
        assert_eq!(counted, [packets, packets, 0, 0], "{of:#}");
    }
    assert_eq!(count(of(&report, "groups", "load"), "streams"), 4);
    assert_eq!(
        (report.json["changes"].to_string(), report.count("corrupt")),
        ("[]".to_owned(), 0)
    );
    let again = Scratch::new();
    let words = format!("sendrecv af_packet:eth1 af_packet:eth2 --both-ways --count 100 --rate 1kpps {LOAD} --packet");
    let mut command = net.a(&words);
    command.arg("eth / ipv4 / udp src=1..3 dst=9");
    let report = again.measure(command);
    report.assert_accounted();
    assert_eq!(ways(&report), [[100, 100, 0]; 2]);
}

#[test]
fn ports_that_streams_can_not_have_are_refused() {
    let stream = |name: &str, more: &str| format!("[[stream]]\nname = '{name}'\npacket = 'eth / ipv4 / udp'\n{more}\n");
    for (text, words, want) in [
        (
            stream("a", "from = 1"),
            "loop:",
            "stream a: from = 1: want 0, or a second port",
        ),
        (
            stream("a", "to = 1"),
            "loop:",
            "stream a: to = 1: want 0, or a second port",
        ),
        (
            stream("a", "from = 2"),
            "af_packet:x af_packet:y",
            "stream a: from = 2: want 0 or 1",
        ),
        (
            stream("a", "to = 0"),
            "af_packet:x af_packet:y",
            "would arrive where they leave",
        ),
        (
            stream("a", "from = 1\nto = 0"),
            "af_packet:x af_packet:y",
            "no packet leaves by the first port",
        ),
    ] {
        let scratch = Scratch::new();
        let mix = file(&scratch, &text);
        assert_refused(
            with_traffic(mpps(&format!("sendrecv {words} --quiet")), &mix),
            2,
            &[want],
        );
    }
    let Some(net) = joined_twice() else { return };
    let scratch = Scratch::new();
    let mix = file(&scratch, &(stream("a", "") + &stream("a-back", "")));
    let command = net.a("sendrecv af_packet:eth1 af_packet:eth2 --both-ways --quiet");
    assert_refused(
        with_traffic(command, &mix),
        2,
        &["its way back is stream a-back, and there is one"],
    );
}
