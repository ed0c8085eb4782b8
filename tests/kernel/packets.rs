//! Packets of any headers (`--packet`): through each kind of device, back by a reflector, and to `drop`. Each is known
//! by the tag at its end, and accounted for.

use mpps_host::lab::Host;
use mpps_tests::{
    Net, Report, Scratch, Testpmd, all_back_by, all_there_by, assert_refused, bridge, joined_twice, listen_by, mac_of,
    missing, mpps, net_of, no_testpmd, route, run_command, skip,
};
use std::process::Command;

/// Slow and patient, as for UDP between two ports.
const LOAD: &str = "--rate 2kpps --duration 500ms --catch-up 10s --settle 1s --settle-early --quiet";

/// Packets of all kinds of headers. A device in between passes them on by the MAC address alone.
const PACKETS: [&str; 10] = [
    "eth / ipv4 src=198.18.0.1 dst=198.18.0.2 / udp src=1024..1055 dst=9000",
    "eth / ipv4 dst=198.18.0.2 / tcp src=1024..1031 dst=80 flags=syn mss=1460",
    "eth / vlan vid=10..12 / ipv6 src=2001:2::1..2001:2::9 dst=2001:2::100 / udp dst=9000",
    "eth / qinq vid=7 / vlan vid=8 / ipv4 / icmp type=8 ident=5 seq=1..9",
    "eth / ipv4 / udp src=inner-hash dst=4789 / vxlan vni=5..8 / eth / ipv4 src=10.0.0.1*50 dst=10.1.0.1 / tcp dst=80",
    "eth / mpls label=16..20 / ipv4 / udp dst=9000",
    "eth / ipv4 / gre key=1..3 / ipv6 / udp dst=9000",
    "eth / ipv6 / hopopts options=0100 / sctp src=5 dst=6",
    "eth / ipv6 / hopopts options=0100 / udp src=5 dst=9000",
    "eth type=0x88b5 / raw hex=0001020304",
];

fn with_packet(mut command: Command, packet: &str) -> Command {
    command.args(["--packet", packet]);
    command
}

/// Sends packets by one port, and expects each at the other, once and intact.
fn assert_all_arrive(net: &Net, words: &str, packet: &str) -> Report {
    let command = with_packet(net.a(&format!("sendrecv {words} {LOAD}")), packet);
    let report = Scratch::new().measure(command);
    report.assert_accounted();
    report.assert_rows_add_up();
    let tx = report.count("tx_packets");
    let counts = ["rx_packets", "lost", "duplicates", "reordered", "corrupt"].map(|key| report.count(key));
    assert!(tx > 0, "{words} {packet}: {:#}", report.json);
    assert_eq!(counts, [tx, 0, 0, 0, 0], "{words} {packet}: {:#}", report.json);
    report
}

#[test]
fn packets_of_any_headers_arrive_through_a_bridge_by_af_packet() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    for packet in PACKETS {
        assert_all_arrive(&net, "af_packet:eth1 af_packet:eth2", packet);
    }
}

#[test]
fn packets_of_any_headers_arrive_through_a_bridge_by_af_xdp() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    for packet in PACKETS {
        assert_all_arrive(&net, "af_xdp:eth1 af_xdp:eth2", packet);
    }
}

#[test]
fn packets_of_any_headers_arrive_through_a_bridge_by_xdp() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    for packet in PACKETS.into_iter().filter(|packet| !packet.contains("sctp")) {
        let report = assert_all_arrive(&net, "xdp:eth1 xdp:eth2", packet);
        let told = report.json["host"]["changes"].as_str().expect("a fact");
        assert!(told.contains("not compared"), "{told}");
    }
}

#[test]
fn packets_of_any_headers_arrive_through_mpps_forward() {
    let Some(net) = joined_twice() else { return };
    let there = Scratch::new();
    let _forwarder = listen_by(&there, net.b("forward af_packet:eth1 af_packet:eth2 --take all"));
    for packet in PACKETS {
        assert_all_arrive(&net, "af_packet:eth1 af_xdp:eth2", packet);
    }
}

#[test]
fn packets_of_any_headers_arrive_through_testpmd() {
    if no_testpmd() {
        return;
    }
    let Some(net) = joined_twice() else { return };
    let _testpmd = Testpmd::between(&net, "macswap");
    for packet in PACKETS {
        assert_all_arrive(&net, "af_packet:eth1 af_packet:eth2", packet);
    }
}

#[test]
fn a_router_is_asked_for_and_passes_on_tunnels() {
    let Some(net) = joined_twice() else { return };
    route(&net);
    for packet in [
        "eth / ipv4 src=198.18.0.1..198.18.0.9 dst=198.18.1.2..198.18.1.5 / tcp src=1024..1031 dst=80",
        "eth / ipv4 src=198.18.0.1 dst=198.18.1.2 / udp dst=4789 / vxlan vni=5 / eth / ipv6 / tcp dst=80 flags=syn",
    ] {
        assert_all_arrive(&net, "af_packet:eth1 af_packet:eth2 --gateway 198.18.0.254", packet);
    }
    let packet = "eth / ipv6 src=2001:2::1 dst=2001:2:0:1::2..2001:2:0:1::9 / udp src=1024..1031 dst=9000";
    assert_all_arrive(&net, "af_xdp:eth1 af_xdp:eth2 --gateway 2001:2::fe", packet);
}

/// Returns the changes of a field: packets, and the first pair of values.
fn changed(report: &Report, field: &str) -> Option<(u64, String, String)> {
    let changes = report.json["changes"].as_array().expect("changes");
    let change = changes.iter().find(|change| change["field"] == field)?;
    let pair = &change["pairs"][0];
    let text = |key: &str| pair[key].as_str().expect("a value").to_owned();
    Some((change["packets"].as_u64()?, text("sent"), text("received")))
}

#[test]
fn what_a_router_changes_is_named_and_nothing_else() {
    let Some(net) = joined_twice() else { return };
    route(&net);
    let words = "af_packet:eth1 af_xdp:eth2 --gateway 198.18.0.254";
    let packet = "eth / ipv4 src=198.18.0.1 dst=198.18.1.2 / tcp src=1024..1031 dst=80 flags=syn";
    let report = assert_all_arrive(&net, words, packet);
    let all = report.count("rx_packets");
    assert_eq!(changed(&report, "ipv4.ttl"), Some((all, "64".into(), "63".into())));
    let (packets, sent, _) = changed(&report, "eth.dst").expect("another station");
    let router = mac_of(&net, Host::B, "eth1")
        .map(|byte| format!("{byte:02x}"))
        .join(":");
    assert_eq!((packets, sent), (all, router));
    assert_eq!(
        report.json["changes"].as_array().map(Vec::len),
        Some(3),
        "{:#}",
        report.json["changes"]
    );
}

#[test]
fn what_address_translation_changes_is_named() {
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
    let words = "af_packet:eth1 af_packet:eth2 --gateway 198.18.0.254";
    for protocol in ["udp", "tcp"] {
        let packet = format!("eth / ipv4 src=198.18.0.1 dst=198.18.1.2 / {protocol} src=1024..1031 dst=9000");
        let report = assert_all_arrive(&net, words, &packet);
        let all = report.count("rx_packets");
        let src = changed(&report, "ipv4.src");
        assert_eq!(
            src,
            Some((all, "198.18.0.1".into(), "198.18.1.254".into())),
            "{protocol}"
        );
        let ports = changed(&report, &format!("{protocol}.src")).map(|(packets, ..)| packets);
        assert_eq!(ports, Some(all), "{protocol}: {:#}", report.json["changes"]);
        assert_eq!(changed(&report, "ipv4.dst"), None, "{:#}", report.json["changes"]);
    }
}

#[test]
fn what_a_bridge_passes_on_and_a_reflector_returns_is_not_changed() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    for (packet, at) in PACKETS.iter().zip(["af_packet", "af_xdp"].into_iter().cycle()) {
        let report = assert_all_arrive(&net, &format!("{at}:eth1 {at}:eth2"), packet);
        assert_eq!(report.json["changes"], serde_json::json!([]), "{packet}");
        let command = with_packet(
            mpps("sendrecv loop: --rate 2kpps --duration 100ms --quiet --catch-up 10s"),
            packet,
        );
        assert_eq!(
            Scratch::new().measure(command).json["changes"],
            serde_json::json!([]),
            "{packet}"
        );
    }
}

#[test]
fn a_reflector_that_knows_of_tags_returns_packets_of_any_headers() {
    let Some(net) = net_of(1) else { return };
    let words = "--rate 5kpps --catch-up 5ms";
    for (there, here) in [
        ("af_packet", "af_xdp"),
        ("af_xdp", "af_packet"),
        ("xdp", "af_packet"),
        ("xdp:eth1,mode=skb", "af_packet"),
        ("af_packet", "xdp"),
        ("xdp", "xdp"),
    ] {
        let there = if there.contains(':') {
            there.to_owned()
        } else {
            format!("{there}:eth1")
        };
        let reflect = with_packet(net.b(&format!("reflect {there} --ip 10.99.0.88")), PACKETS[0]);
        let send = |packet| with_packet(net.a(&format!("sendrecv {here}:eth1 {words}")), packet);
        let packets = [
            // The peer's own address, and one that only mpps answers for.
            "eth / ipv4 dst=10.99.0.2 / tcp src=1024..1031 dst=80 flags=syn",
            "eth / ipv4 src=10.99.0.77..10.99.0.79 dst=10.99.0.88 / udp src=1024..1055 dst=9000",
            "eth / ipv4 dst=10.99.0.2 / udp dst=4789 / vxlan vni=5..8 / eth / ipv4 / icmp",
            "eth / ipv6 src=fd99::77 dst=fd99::2 / icmp6 type=128",
        ];
        all_back_by(reflect, packets.into_iter().map(send).collect());
    }
}

#[test]
fn a_reflector_of_udp_returns_udp_with_a_tag() {
    let Some(net) = net_of(1) else { return };
    let send = with_packet(
        net.a("sendrecv af_packet:eth1 --rate 5kpps --catch-up 5ms"),
        "eth / ipv4 dst=10.99.0.2 / udp src=1024..1055 dst=9000",
    );
    all_back_by(net.b("reflect af_packet:eth1"), vec![send]);
}

#[test]
fn the_hosts_own_stack_answers_no_packet_with_a_tag() {
    let Some(net) = net_of(1) else { return };
    let before = [Host::A, Host::B].map(|host| net.snmp(host, "Tcp", "OutRsts"));
    let send = with_packet(
        net.a("sendrecv af_packet:eth1 --rate 5kpps --catch-up 5ms"),
        "eth / ipv4 src=10.99.0.1 dst=10.99.0.2 / tcp src=1024..1055 dst=80 flags=syn",
    );
    all_back_by(with_packet(net.b("reflect af_packet:eth1"), PACKETS[1]), vec![send]);
    let after = [Host::A, Host::B].map(|host| net.snmp(host, "Tcp", "OutRsts"));
    assert_eq!(after, before, "RST was sent");
}

#[test]
fn drop_knows_packets_by_their_tags() {
    let Some(net) = net_of(1) else { return };
    for (there, packet) in [
        ("af_packet", "eth / ipv4 dst=10.99.0.2 / tcp src=1024..1031 dst=80"),
        (
            "af_xdp",
            "eth / ipv4 dst=10.99.0.2 / udp dst=4789 / vxlan vni=5..8 / eth / ipv6 / udp",
        ),
        ("xdp", "eth / ipv4 dst=10.99.0.2 / tcp src=1024..1031 dst=80"),
        ("xdp", "eth / ipv6 dst=fd99::2 / udp dst=9000..9009"),
    ] {
        let drop = with_packet(net.b(&format!("drop {there}:eth1")), packet);
        let send = with_packet(net.a("send af_packet:eth1 --rate 5kpps --catch-up 5ms"), packet);
        all_there_by(drop, send);
    }
}

#[test]
fn faults_of_a_loop_are_counted_exactly_whatever_the_headers() {
    let faults = "loop:loss=0.01,duplicate=0.02,reorder=0.03,seed=7";
    for packet in PACKETS {
        let command = with_packet(
            mpps(&format!(
                "sendrecv {faults} --rate 20kpps --duration 500ms --settle 100ms --quiet --catch-up 10s"
            )),
            packet,
        );
        let report = Scratch::new().measure(command);
        report.assert_accounted();
        report.assert_rows_add_up();
        let (tx, rx, lost) = (
            report.count("tx_packets"),
            report.count("rx_packets"),
            report.count("lost"),
        );
        assert_eq!(tx, rx + lost, "{packet}: {:#}", report.json);
        let [duplicates, reordered, corrupt] = ["duplicates", "reordered", "corrupt"].map(|key| report.count(key));
        assert!(
            lost > 0 && duplicates > 0 && reordered > 0 && corrupt == 0,
            "{packet}: {:#}",
            report.json
        );
    }
}

#[test]
fn each_trial_of_a_search_has_its_packets_back() {
    let scratch = Scratch::new();
    let words = format!(
        "ndr loop: --min-rate 1kpps --max-rate 5kpps --catch-up 10s --goal \
         loss=50%,initial=100ms,final=100ms,sum=200ms --out {} --quiet",
        scratch.file("out").display()
    );
    let finished = run_command(with_packet(mpps(&words), PACKETS[1]));
    let record = std::fs::read_to_string(scratch.file("out").join("trials.jsonl")).unwrap_or_default();
    let trials = record.lines().filter(|line| line.contains("\"sent\":")).count();
    let empty = record.lines().filter(|line| line.contains("\"received\":0,")).count();
    assert!(
        trials > 1 && empty == 0,
        "{trials} {empty}: {} {record}",
        finished.stderr
    );
}

#[test]
fn each_trial_of_a_search_in_the_kernel_has_its_packets_back() {
    let Some(net) = net_of(1) else { return };
    let (scratch, there) = (Scratch::new(), Scratch::new());
    let packet = "eth / ipv4 dst=10.99.0.2 / tcp src=1024..1031 dst=80 flags=syn";
    let _reflector = listen_by(&there, with_packet(net.b("reflect xdp:eth1"), packet));
    let words = format!(
        "ndr xdp:eth1 --min-rate 1kpps --max-rate 5kpps --catch-up 10s --goal \
         loss=50%,initial=100ms,final=100ms,sum=200ms --out {} --quiet",
        scratch.file("out").display()
    );
    let finished = run_command(with_packet(net.a(&words), packet));
    let record = std::fs::read_to_string(scratch.file("out").join("trials.jsonl")).unwrap_or_default();
    let trials = record.lines().filter(|line| line.contains("\"sent\":")).count();
    let empty = record.lines().filter(|line| line.contains("\"received\":0,")).count();
    assert!(
        trials > 1 && empty == 0,
        "{trials} {empty}: {} {record}",
        finished.stderr
    );
}

#[test]
fn reports_of_lost_packets_are_no_test_packets() {
    let Some(net) = joined_twice() else { return };
    route(&net);
    net.on(Host::A, "ip addr add 198.18.0.1/24 dev eth1");
    net.on(Host::B, "sysctl -qw net.ipv4.icmp_ratelimit=0");
    let packet = "eth / ipv4 src=198.18.0.1 dst=198.18.1.2 ttl=1 / udp src=1024..1031 dst=9000";
    let command = net.a(&format!("sendrecv af_packet:eth1 --gateway 198.18.0.254 {LOAD}"));
    let report = Scratch::new().measure(with_packet(command, packet));
    let tx = report.count("tx_packets");
    assert_eq!(
        [report.count("rx_packets"), report.count("lost")],
        [0, tx],
        "{:#}",
        report.json
    );
    let reports = report.json["reasons"]["icmp_time_exceeded"].as_u64();
    assert!(reports > Some(0), "{:#}", report.json["reasons"]);
}

#[test]
fn packets_that_come_back_as_they_were_sent_are_no_answers() {
    let words = "sendrecv loop:reflect=off --rate 2kpps --duration 100ms --quiet --catch-up 10s";
    let report = Scratch::new().measure(with_packet(mpps(words), PACKETS[0]));
    assert_eq!(report.count("rx_packets"), 0, "{:#}", report.json);
    let looped = report.json["reasons"]["foreign_looped"].as_u64();
    assert_eq!(looped, Some(report.count("tx_packets")), "{:#}", report.json);
}

#[test]
fn packets_that_the_kernel_gets_back_as_they_were_sent_are_no_answers() {
    let Some(net) = net_of(1) else { return };
    let there = Scratch::new();
    let _forwarder = listen_by(&there, net.b("forward xdp:eth1 --take all --mode io"));
    let words = "sendrecv xdp:eth1,promisc=on --rate 2kpps --duration 300ms --settle 300ms --quiet --catch-up 10s";
    let packet = "eth dst=02:00:00:00:00:09 / ipv4 dst=10.99.0.2 / udp src=1024..1055 dst=9000";
    let report = Scratch::new().measure(with_packet(net.a(words), packet));
    assert_eq!(report.count("rx_packets"), 0, "{:#}", report.json);
    let looped = report.json["reasons"]["foreign_looped"].as_u64();
    assert_eq!(looped, Some(report.count("tx_packets")), "{:#}", report.json);
}

#[test]
fn each_packet_that_was_damaged_is_corrupt() {
    for packet in PACKETS {
        let words = "sendrecv loop:corrupt=0.1 --rate 20kpps --duration 300ms --quiet --catch-up 10s";
        let report = Scratch::new().measure(with_packet(mpps(words), packet));
        report.assert_accounted();
        let (tx, lost, corrupt) = (
            report.count("tx_packets"),
            report.count("lost"),
            report.count("corrupt"),
        );
        assert!(corrupt * 12 > tx && corrupt * 8 < tx, "{packet}: {:#}", report.json);
        assert_eq!(lost, corrupt, "{packet}: {:#}", report.json);
    }
}

#[test]
fn what_a_packet_can_not_have_is_refused_in_one_line() {
    let packet = "eth / ipv4 dst=10.99.0.2 / udp dst=9000";
    for (words, packet, parts) in [
        ("send null:", "eth / ipv4 / upd", &["--packet", "column 14", "udp"][..]),
        ("send null: --vlan 7", packet, &["--vlan", "vid"]),
        ("send null: --dest 10.0.0.1:9", packet, &["--dest", "dst="]),
        (
            "send null: --payload-size 100",
            packet,
            &["--payload-size", "--frame-size"],
        ),
        ("send null: --frame-size 32", packet, &["--frame-size"]),
        ("send null: --frame-size 64", "eth / ipv6 / tcp", &["94"]),
        (
            "send udp:",
            "eth / vlan / ipv4 / udp",
            &["--packet", "udp:", "af_packet"],
        ),
        ("reflect udp:", packet, &["--packet", "udp:"]),
        ("reflect null: --port 9", packet, &["--port", "tags"]),
        (
            "send null: --frame-size 1526",
            "eth / qinq vid=7 / vlan vid=8 / ipv4 / udp",
            &["--frame-size", "1518"],
        ),
        (
            "send null: --gateway 10.0.0.1",
            "eth dst=02:00:00:00:00:09 / ipv4 / udp",
            &["--gateway", "eth"],
        ),
        (
            "send null:",
            "eth / ipv4 dst=224.1.1.1..224.1.1.3 / udp",
            &["groups", "dst=MAC"],
        ),
        (
            "drop null:",
            "eth / ipv4 / udp / payload @0:2=7",
            &["payload", "--no-verify"],
        ),
    ] {
        assert_refused(with_packet(mpps(words), packet), 2, parts);
    }
    let Some(net) = net_of(1) else { return };
    for (packet, parts) in [
        ("eth / ipv4 / udp", &["ipv4", "dst="][..]),
        ("eth type=0x88b5 / raw hex=00", &["dst=MAC"]),
        (
            "eth / qinq vid=5 / vlan vid=6 / ipv4 dst=10.99.0.2 / udp",
            &["802.1Q", "dst=MAC"],
        ),
        ("eth / ipv4 dst=10.99.0.1 / udp", &["10.99.0.1"]),
    ] {
        let command = with_packet(net.a("sendrecv af_packet:eth1"), packet);
        assert_refused(command, 2, parts);
    }
    let many = "eth / ipv4 dst=10.99.0.2 ttl=1..9 id=1..9 / tcp src=1..9 dst=1..9 seq=1..9 ack=1..9 win=1..9 \
                flags=1..9 urg=1..9";
    for (words, packet, parts) in [
        (
            "xdp:eth1",
            "eth / ipv4 dst=10.99.0.2 / sctp",
            &["CRC32c", "af_xdp:eth1"][..],
        ),
        (
            "xdp:eth1",
            "eth / ipv4 dst=10.99.0.2 / udp cksum=bad",
            &["wrong checksum", "af_xdp:eth1"],
        ),
        (
            "xdp:eth1",
            "eth / ipv4 dst=10.99.0.2 / icmp type=11",
            &["report of ICMP", "af_xdp:eth1"],
        ),
        ("xdp:eth1", many, &["8 fields", "not 9", "af_xdp:eth1"]),
        (
            "xdp:eth1 --lanes 2",
            "eth / ipv4 dst=10.99.0.2 / udp",
            &["--lanes", "2 lanes", "flows: 1"],
        ),
    ] {
        assert_refused(with_packet(net.a(&format!("sendrecv {words}")), packet), 2, parts);
    }
}
