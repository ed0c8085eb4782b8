//! Ranges of source and destination addresses: each flow has the ends that it should, its checksums are right, every
//! packet is accounted for, and the ports take packets for, and answer for, all of a range.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Net, Report, Scratch, all_back, all_there, assert_refused, bridge, free_port, inside, joined_twice,
    listen_by, missing, mpps, net_of, no_dpdk, route, run_command, wait_until,
};

/// Slow and patient: whatever else runs here, all departures are made, and what arrives is in time.
/// A veth keeps 256 packets for a host that has no time for them just now: an eighth of a second's.
const LOAD: &str = "--rate 2kpps --duration 750ms --catch-up 10s --settle 1s --settle-early --quiet";

/// Flows with ports and addresses that all change.
const V4: &str = "--src 198.18.0.250-198.18.1.9 --dest 198.18.2.1-198.18.2.5:9000-9001 --src-port-range 10000-10002";
const V6: &str = "--src 2001:2::fff0-2001:2::1:f --dest [2001:2::2:1-2001:2::2:3]:9000 --src-port-range 10000-10002";

/// All of them were sent, and came back or arrived once and intact.
fn assert_all_passed(report: &Report, flows: u64) {
    report.assert_accounted();
    report.assert_rows_add_up();
    let tx = report.count("tx_packets");
    let counts = ["rx_packets", "lost", "late", "duplicates", "reordered", "corrupt"].map(|key| report.count(key));
    assert_eq!(counts, [tx, 0, 0, 0, 0, 0], "{:#}", report.json);
    assert!(tx > 0, "{:#}", report.json);
    assert_eq!(report.json["host"]["flows"], flows.to_string(), "{:#}", report.json);
}

fn across(net: &Net, words: &str, flows: u64) -> Report {
    let report = Scratch::new().measure(net.a(&format!("sendrecv {words} {LOAD}")));
    assert_all_passed(&report, flows);
    report
}

#[test]
fn a_million_flows_are_one_command_and_their_memory_is_told() {
    let words = "sendrecv loop: --src 10.1.0.1-10.1.63.254 --src-port-range 10000-10063 --flows 1000000 --rate 100kpps \
                 --duration 300ms --catch-up 10s --quiet";
    let report = Scratch::new().measure(mpps(words));
    assert_all_passed(&report, 1_000_000);
    let bytes = report.json["host"]["flow_memory_bytes"]
        .as_str()
        .and_then(|text| text.parse::<u64>().ok());
    assert!(
        (10_000_000..2_000_000_000).contains(&bytes.unwrap_or(0)),
        "{:#}",
        report.json
    );
    // Combined, ports change before addresses: a million flows take 15,625 addresses of the 16,382.
    let source = &report.json["host"]["source"];
    assert_eq!(source, "10.1.0.1-10.1.61.9 ports 10000-10063", "{:#}", report.json);
    let report = Scratch::new().measure(mpps(
        "sendrecv loop: --src fd99::/97 --dest [fd98::1]:9 --flows 100000 --step together --duration 100ms --quiet",
    ));
    report.assert_accounted();
    assert_eq!(
        report.count("corrupt") + report.count("duplicates"),
        0,
        "{:#}",
        report.json
    );
}

/// Who sent how many packets to whom, of what tcpdump has kept; and that it found every checksum right.
fn captured(file: &std::path::Path) -> BTreeMap<String, u32> {
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-nn", "-vv", "-t", "-r"]).arg(file);
    let finished = run_command(tcpdump);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(!finished.stdout.contains("bad "), "{}", finished.stdout);
    let mut all = BTreeMap::new();
    let packets = finished.stdout.lines().filter(|line| line.contains("UDP, length"));
    let right = finished.stdout.matches("[udp sum ok]").count();
    // Both lines of a packet over IPv4, the one over IPv6.
    for line in finished.stdout.lines().filter(|line| line.contains("[udp sum ok]")) {
        let ends = line.split(" [udp sum ok]").next().unwrap_or_default();
        let ends = ends
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .trim()
            .trim_end_matches(':');
        *all.entry(ends.to_owned()).or_insert(0) += 1;
    }
    assert!(right > 0, "{} {}", packets.count(), finished.stdout);
    all
}

#[test]
fn each_flow_has_its_ends_and_right_checksums_as_tcpdump_sees_them() {
    if missing("tcpdump", "tcpdump") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let end = |first: [u8; 4], place: u32| Ipv4Addr::from_bits(Ipv4Addr::from(first).to_bits() + place);
    for port in ["af_packet:eth1", "xdp:eth1"] {
        let there = Scratch::new();
        let file = there.file("all.pcap");
        let mut tcpdump = inside(&net.lab, Host::B, "tcpdump -U -i eth1 -w");
        tcpdump.arg(&file).args(["udp", "and", "portrange", "9000-9001"]);
        let tcpdump = Background::start(tcpdump);
        let begun = || std::fs::metadata(&file).is_ok_and(|file| file.len() >= 24);
        wait_until("tcpdump", begun);
        // A receiver in the driver, which this device needs to take frames of the kernel's making.
        net.on(Host::B, "ethtool -K eth1 gro on");
        let words = format!("send {port} {V4} --dest-mac 02:00:00:00:00:09 {LOAD}");
        let sent = Scratch::new().measure(net.a(&words));
        let tx = sent.count("tx_packets");
        assert!(tx >= 600, "{:#}", sent.json);
        wait_until("all packets in the file", || {
            let size = std::fs::metadata(&file).map_or(0, |file| file.len());
            size >= 24 + tx * (16 + 60)
        });
        drop(tcpdump);
        let all = captured(&file);
        assert_eq!(u64::from(all.values().sum::<u32>()), tx, "{port}");
        let expected: Vec<String> = (0..480u32)
            .map(|flow| {
                let (src, dst) = (flow / 6 % 16, flow / 96);
                let (from, to) = (10_000 + flow % 3, 9000 + flow / 3 % 2);
                format!(
                    "{}.{from} > {}.{to}",
                    end([198, 18, 0, 250], src),
                    end([198, 18, 2, 1], dst)
                )
            })
            .collect();
        let mut sorted = expected.clone();
        sorted.sort();
        assert_eq!(all.keys().cloned().collect::<Vec<_>>(), sorted, "{port}");
        // Flows are sent in turn.
        let counts: Vec<u32> = expected.iter().map(|ends| all[ends]).collect();
        assert!(
            counts
                .windows(2)
                .all(|two| two[0] >= two[1] && two[0] - counts[479] <= 1),
            "{port}: {counts:?}"
        );
    }
}

#[test]
fn through_a_bridge_every_packet_of_every_flow_arrives() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    for ports in [
        "af_packet:eth1 af_packet:eth2",
        "af_xdp:eth1 af_xdp:eth2",
        "af_packet:eth1 af_xdp:eth2 --vlan 7",
    ] {
        let report = across(&net, &format!("{ports} {V4}"), 480);
        let ends =
            ["source", "destination"].map(|end| report.json["host"][end].as_str().unwrap_or_default().to_owned());
        assert_eq!(ends[0], "198.18.0.250-198.18.1.9 ports 10000-10002");
        assert_eq!(ends[1], "198.18.2.1-198.18.2.5 ports 9000-9001");
        across(&net, &format!("{ports} {V6}"), 288);
        across(&net, &format!("{ports} {V4} --step together"), 16);
    }
    if !no_dpdk() {
        let ports = "dpdk:net_af_packet0,iface=eth1 dpdk:net_af_packet1,iface=eth2";
        across(&net, &format!("{ports} {V4}"), 480);
        across(&net, &format!("{ports} {V6} --step together"), 32);
    }
    // Two lanes that send and two that receive: each flow has one of either.
    across(&net, &format!("af_packet:eth1 af_packet:eth2 {V4} --lanes 2"), 480);
}

#[test]
fn through_the_kernels_router_every_address_of_both_ends_is_answered_for() {
    let Some(net) = joined_twice() else { return };
    route(&net);
    for ports in ["af_packet:eth1 af_packet:eth2", "af_xdp:eth1 af_xdp:eth2"] {
        let v4 = "--src 198.18.0.1-198.18.0.100 --dest 198.18.1.1-198.18.1.70:9000 --gateway 198.18.0.254";
        across(&net, &format!("{ports} {v4} --step together"), 100);
        let v6 = "--src 2001:2::1:0/120 --dest [2001:2:0:1::2:0/122]:9000 --gateway 2001:2::fe";
        across(&net, &format!("{ports} {v6} --step together"), 255);
        // Both ends of the second range answer to whoever asks, and the address behind it does not.
        let mut asked =
            Background::start(net.a(&format!("sendrecv {ports} {v4} --rate 100pps --duration 20s --quiet")));
        wait_until("an answer", || {
            let ping = run_command(inside(&net.lab, Host::B, "ping -c 1 -W 1 198.18.1.70"));
            ping.code == Some(0) || !asked.running()
        });
        assert!(asked.running(), "{}", asked.stderr());
        for (ip, code) in [("198.18.1.1", 0), ("198.18.0.100", 0), ("198.18.1.71", 1)] {
            let ping = run_command(inside(&net.lab, Host::B, &format!("ping -c 1 -W 1 {ip}")));
            assert_eq!(ping.code, Some(code), "{ports}: {ip}: {}", ping.stdout);
        }
    }
}

#[test]
fn a_reflector_takes_and_answers_for_a_range_on_each_path() {
    let Some(net) = net_of(1) else { return };
    let (to4, to6) = ("--ip 198.18.2.1-198.18.2.5", "--ip 2001:2::2:0/126");
    let mut pairs = vec![
        ("af_packet:eth1", "af_packet:eth1"),
        ("af_xdp:eth1", "af_xdp:eth1"),
        ("xdp:eth1", "xdp:eth1"),
        ("af_packet:eth1", "xdp:eth1"),
    ];
    if !no_dpdk() {
        pairs.push(("dpdk:net_af_packet0,iface=eth1", "dpdk:net_af_packet0,iface=eth1"));
    }
    for (near, far) in pairs {
        let together = format!("sendrecv {near} {V4} --step together --rate 2kpps");
        let combined = format!("sendrecv {near} {V4} --rate 2kpps");
        let (sent, _) = all_back(&net, &format!("reflect {far} {to4}"), &[&combined, &together]);
        assert_eq!(sent[0].json["host"]["flows"], "480", "{near}");
        assert_eq!(sent[1].json["host"]["flows"], "16", "{near}");
        let v6 = format!("sendrecv {near} {V6} --rate 2kpps");
        all_back(&net, &format!("reflect {far} {to6}"), &[&v6]);
    }
    for (near, far) in [
        ("af_packet:eth1", "af_packet:eth1"),
        ("xdp:eth1", "xdp:eth1"),
        ("af_xdp:eth1", "af_xdp:eth1"),
    ] {
        let drop = format!("drop {far} {to4}");
        all_there(&net, &drop, &format!("send {near} {V4} --rate 2kpps"));
    }
}

/// Asks for addresses from host a as those do who want one for themselves (RFC 5227, RFC 4862) or tell of theirs, and
/// last as neighbours do; one address, of IPv4 or of IPv6. Prints which questions were answered, up to the last.
const CLAIMS: &str = r#"
import socket, struct, sys
want4, want6 = sys.argv[1:3]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(("eth1", 0))
s.settimeout(30)
mac = s.getsockname()[4]
def arp(sender, target):
    ends = mac + socket.inet_aton(sender) + bytes(6) + socket.inet_aton(target)
    return b"\xff" * 6 + mac + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + ends
def solicit(source, target, option):
    source, target = (socket.inet_pton(socket.AF_INET6, ip) for ip in (source, target))
    group = socket.inet_pton(socket.AF_INET6, "ff02::1:ff00:0")[:13] + target[13:]
    body = bytes([135, 0, 0, 0, 0, 0, 0, 0]) + target + option
    whole = source + group + struct.pack("!II", len(body), 58) + body
    total = sum(struct.unpack("!%dH" % (len(whole) // 2), whole))
    total = (total & 0xffff) + (total >> 16)
    total = (total & 0xffff) + (total >> 16)
    body = body[:2] + struct.pack("!H", ~total & 0xffff) + body[4:]
    head = struct.pack("!IHBB", 0x60000000, len(body), 58, 255) + source + group
    return b"\x33\x33" + group[12:] + mac + b"\x86\xdd" + head + body
for sender in ["0.0.0.0", want4, "10.99.0.1"] if want4 else []:
    s.send(arp(sender, want4))
for source, option in [("::", b""), ("fd00:99::5", b"\x01\x01" + mac)] if want6 else []:
    s.send(solicit(source, want6, option))
told = []
while "last" not in told:
    data, who = s.recvfrom(2048)
    if who[2] == socket.PACKET_OUTGOING: continue
    if want4 and data[12:14] == b"\x08\x06" and data[20:22] == b"\x00\x02" and data[28:32] == socket.inet_aton(want4):
        told.append({"0.0.0.0": "probe", want4: "claim"}.get(socket.inet_ntoa(data[38:42]), "last"))
    if want6 and data[12:14] == b"\x86\xdd" and data[20] == 58 and data[54] == 136:
        if data[62:78] == socket.inet_pton(socket.AF_INET6, want6):
            told.append("probe6" if data[38] == 0xff else "last")
print(*told)
"#;

#[test]
fn who_wants_an_address_of_a_range_for_himself_is_not_contradicted() {
    if missing("python3", "python3") {
        return;
    }
    for path in ["af_packet", "xdp"] {
        for (ip4, ip6, told) in [
            ("198.18.2.1-198.18.2.9", "2001:2::2:0/125", "last last"),
            // Whoever names one address has it.
            ("198.18.2.5", "2001:2::2:5", "probe claim last probe6 last"),
        ] {
            let mut heard = Vec::new();
            for (ip, want4, want6) in [(ip4, "198.18.2.5", ""), (ip6, "", "2001:2::2:5")] {
                let Some(net) = net_of(1) else { return };
                let there = Scratch::new();
                let _reflector = listen_by(&there, net.b(&format!("reflect {path}:eth1 --ip {ip}")));
                let mut python = inside(&net.lab, Host::A, "python3");
                python.args(["-c", CLAIMS, want4, want6]);
                let finished = run_command(python);
                assert_eq!(finished.code, Some(0), "{path} {ip}: {}", finished.stderr);
                heard.extend(finished.stdout.split_whitespace().map(str::to_owned));
            }
            assert_eq!(heard.join(" "), told, "{path}");
        }
    }
}

#[test]
fn on_sockets_each_address_that_the_host_has_is_bound_and_connected_to() {
    let port = free_port();
    let there = Scratch::new();
    let _reflector = listen_by(&there, mpps(&format!("reflect udp:0.0.0.0:{port}")));
    let ends = format!("--src 127.0.0.2-127.0.0.9 --dest 127.0.1.1-127.0.1.4:{port}");
    for (step, flows) in [("combine", 32), ("together", 8)] {
        let report = Scratch::new().measure(mpps(&format!("sendrecv udp: {ends} --step {step} {LOAD}")));
        assert_all_passed(&report, flows);
    }
}

#[test]
fn ranges_that_can_not_be_are_refused_with_what_would_be_right() {
    let study = "--src 10.1.0.1-10.1.63.254 --dest 10.2.0.1-10.2.63.254:9000-9999 --src-port-range 10000-10999";
    let many = format!("send null: {study}");
    for (words, parts) in [
        ("send null: --src 10.0.0.9-10.0.0.1", ["--src", "reversed"]),
        ("send null: --src 10.0.0.1-fd99::1", ["--src", "one family"]),
        ("send null: --src 223.255.255.1-224.0.0.9", ["--src", "multicast"]),
        ("send null: --src 10.0.0.1/24", ["--src", "10.0.0.0/24"]),
        ("send null: --src fd99::/64", ["--src", "4294967295"]),
        ("send null: --dest 10.0.0.9-10.0.0.1:9", ["--dest", "reversed"]),
        (
            "send null: --src 10.0.0.1-10.0.0.9 --dest 10.0.0.5:9",
            ["--dest 10.0.0.5", "10.0.0.5 is among the source"],
        ),
        (
            "send null: --src 10.0.0.1-10.0.0.9 --dest [fd99::1]:9",
            ["--dest fd99::1", "one family"],
        ),
        ("send null: --step both", ["--step", "combine or together"]),
        (&many, ["at the most", "--step together"]),
        (
            "send null: --src 11.0.0.0/8 --src-port-range 1-255",
            ["--src 11.0.0.1-11.255.255.254", "of memory"],
        ),
        (
            "sendrecv udp: --src 198.18.0.1-198.18.0.9 --dest 127.0.0.1:9",
            ["--src 198.18.0.1-198.18.0.9", "does not have 198.18.0.1"],
        ),
        (
            "sendrecv udp:127.0.0.1 --src 127.0.0.1-127.0.0.9 --dest 127.0.0.1:9",
            ["--src 127.0.0.1-127.0.0.9", "the port's address"],
        ),
        ("reflect af_packet:lo --ip 10.0.0.9-10.0.0.1", ["--ip", "reversed"]),
        (
            "send null: --src 198.18.0.1 --dest 198.18.1.2:9 --gateway 2001:2::fe",
            ["--gateway 2001:2::fe", "between addresses that are IPv4"],
        ),
        (
            "send null: --src 2001:2::1 --dest [2001:2:0:1::2]:9 --gateway 198.18.0.254",
            ["--gateway 198.18.0.254", "between addresses that are IPv6"],
        ),
        (
            "send null: --src 198.18.0.1-198.18.0.254 --dest 198.18.1.2:9 --gateway 198.18.0.254",
            ["--gateway 198.18.0.254", "--src (198.18.0.1-198.18.0.254)"],
        ),
        (
            "sendrecv af_packet:lo af_packet:nosuch --both-ways --src 198.18.0.1 --dest 198.18.1.1-198.18.1.9:9 \
             --gateway 198.18.0.254 --back-gateway 198.18.1.9",
            ["--back-gateway 198.18.1.9", "--dest (198.18.1.1-198.18.1.9)"],
        ),
        (
            "sendrecv af_packet:lo af_packet:nosuch --both-ways --src 198.18.0.1 --dest 198.18.1.2:9 \
             --gateway 198.18.0.254 --back-gateway 2001:2:0:1::fe",
            ["--back-gateway 2001:2:0:1::fe", "between addresses that are IPv4"],
        ),
    ] {
        assert_refused(mpps(words), 2, &parts);
    }
}

#[test]
fn a_plan_holds_ranges_and_how_they_step() {
    let words = "send null: --src 10.1.0.0/18 --dest 10.2.0.1-10.2.0.9:9000 --step together --print-plan";
    let plan = run_command(mpps(words));
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).expect("JSON");
    let traffic = &plan["traffic"];
    assert_eq!(
        [&traffic["src"], &traffic["dest"], &traffic["step"]],
        ["10.1.0.0/18", "10.2.0.1-10.2.0.9:9000", "together"]
    );
    assert_eq!(traffic["flows"], 16_382);
    let here = Scratch::new();
    std::fs::write(here.file("plan.json"), plan.to_string()).expect("a file");
    let mut again = mpps("run --print-plan");
    again.arg(here.file("plan.json"));
    let again = run_command(again);
    let again: serde_json::Value =
        serde_json::from_str(&again.stdout).unwrap_or_else(|e| panic!("{e}: {}", again.stderr));
    assert_eq!(again, plan);
}
