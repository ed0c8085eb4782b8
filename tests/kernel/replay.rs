//! Captures as streams (`--pcap`, `pcap` of a traffic file): every packet is accounted for, by its tag or its content.

use mpps_host::lab::Host;
use mpps_replay::{Capture, Selection};
use mpps_tests::{
    Net, Report, Scratch, assert_refused, bridge, joined_twice, mac_of, missing, mpps, route, run_command, skip,
};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LOAD: &str = "--catch-up 10s --settle 1s --settle-early --quiet";

/// Packets of a capture: some without room for a tag, some with a checksum that no tag can keep.
const CAPTURED: &str = r#"
[[stream]]
packet = """eth src=02:00:00:00:00:01 dst=02:00:00:00:00:02 / ipv4 src=198.18.0.1 dst=198.18.1.2 id=1..999 /
            udp src=1024..1039 dst=53"""
size = "90*3 300 1200"
rate = "4kpps"
packets = 600

[[stream]]
packet = """eth src=02:00:00:00:00:01 dst=02:00:00:00:00:02 / ipv4 src=198.18.0.1 dst=198.18.1.2 id=1000..1499 /
            tcp src=5000..5003 dst=80 flags=ack seq=0..9999"""
size = "64"
rate = "2kpps"
packets = 300

[[stream]]
packet = "eth src=02:00:00:00:00:01 dst=02:00:00:00:00:02 / ipv6 src=2001:2::1 dst=2001:2::2 / sctp tsn=1..100"
size = "202"
rate = "700pps"
packets = 100
"#;
/// Packets of [`CAPTURED`], and those of them with room for a tag.
const PACKETS: u64 = 1000;
const TAGGED: u64 = 600;

/// Writes a capture of so many packets of a traffic text, none of which has a tag.
fn capture(scratch: &Scratch, text: &str, packets: u64) -> PathBuf {
    let (mix, file) = (scratch.file("captured.toml"), scratch.file("captured.pcapng"));
    let text = text.replace("[[stream]]", "[[stream]]\ntag = 'none'\nfill = 'text:abc'");
    std::fs::write(&mix, text).expect("a file");
    let words = format!("traffic pcap {} -n {packets} -o {}", mix.display(), file.display());
    let made = run_command(mpps(&words));
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    file
}

fn with_capture(mut command: Command, file: &Path, set: &[&str]) -> Command {
    command.arg("--pcap").arg(file);
    set.iter().for_each(|pair| {
        command.args(["--set", pair]);
    });
    command
}

fn count(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key}: {of:#}"))
}

/// Checks that all packets of a capture came once, and how many of them have a latency.
fn assert_came(report: &Report, [packets, timed]: [u64; 2]) {
    let counts =
        ["tx_packets", "rx_packets", "lost", "duplicates", "reordered", "corrupt"].map(|key| report.count(key));
    assert_eq!(counts, [packets, packets, 0, 0, 0, 0], "{:#}", report.json["streams"]);
    assert_eq!(
        report.json["latency_ns"]["count"], timed,
        "{:#}",
        report.json["latency_ns"]
    );
    for list in ["streams", "sizes"] {
        let all = report.json[list].as_array().expect("a list");
        for (key, own) in [("tx_packets", packets), ("rx_packets", packets)] {
            assert_eq!(
                all.iter().map(|one| count(one, key)).sum::<u64>(),
                own,
                "{list}: {all:#?}"
            );
        }
    }
}

fn replayed(net: &Net, words: &str, set: &[&str], text: &str, packets: u64) -> Report {
    let scratch = Scratch::new();
    let file = capture(&scratch, text, packets);
    let command = with_capture(net.a(&format!("sendrecv {words} {LOAD}")), &file, set);
    let report = scratch.measure(command);
    report.assert_rows_add_up();
    report
}

#[test]
fn every_packet_of_a_capture_arrives_through_a_bridge_by_its_tag_or_its_content() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let ports = "af_packet:eth1 af_packet:eth2";
    let report = replayed(&net, ports, &["tag=tail"], CAPTURED, PACKETS);
    assert_came(&report, [PACKETS, TAGGED]);
    let remarks = report.json["remarks"].as_array().expect("remarks");
    let untagged = remarks.iter().find(|of| of["name"] == "untagged").expect("a remark");
    assert_eq!(count(&untagged["values"], "packets"), PACKETS - TAGGED, "{untagged:#}");
    // Untouched, and three times as fast.
    let report = replayed(&net, ports, &["loops=4", "speed=3", "shift=100"], CAPTURED, PACKETS);
    assert_came(&report, [4 * PACKETS, 0]);
}

#[test]
fn packets_of_a_capture_with_tags_arrive_by_af_xdp_and_by_several_lanes() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let only = "only=eth / ipv4 / udp";
    let set = ["tag=tail", only, "loops=2", "rewrite=eth / vlan vid=7 pcp=3"];
    let report = replayed(&net, "af_xdp:eth1 af_xdp:eth2", &set, CAPTURED, PACKETS);
    assert_came(&report, [2 * TAGGED, 2 * TAGGED]);
    let lanes = "af_packet:eth1 af_packet:eth2 --tx-lanes 3 --rx-lanes 1";
    let report = replayed(&net, lanes, &["tag=tail", only, "loops=2"], CAPTURED, PACKETS);
    assert_came(&report, [2 * TAGGED, 2 * TAGGED]);
    assert_eq!(report.json["streams"][0]["flows"], 3, "{:#}", report.json["streams"]);
}

#[test]
fn what_a_bridge_drops_of_a_capture_is_lost_and_nothing_else() {
    if missing("nft", "nftables") {
        return;
    }
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let there = Scratch::new();
    let rules = "table bridge lossy {\n chain forward {\n type filter hook forward priority 0\n udp sport 1026 drop\n \
                 tcp sport 5001 drop\n }\n}\n";
    std::fs::write(there.file("drop.nft"), rules).expect("rules");
    let loaded = net.on(Host::B, &format!("nft -f {}", there.file("drop.nft").display()));
    if loaded.code != Some(0) {
        return skip(&format!("this kernel filters no bridge: {}", loaded.stderr));
    }
    // Of 16 and of 4 ports, one each: 600 packets have the first ones, 300 the others.
    let dropped = 38 + 75;
    for set in [&["tag=tail"][..], &["tag=none"]] {
        let report = replayed(&net, "af_packet:eth1 af_packet:eth2", set, CAPTURED, PACKETS);
        let counts = ["tx_packets", "lost", "duplicates", "reordered", "corrupt"].map(|key| report.count(key));
        assert_eq!(counts, [PACKETS, dropped, 0, 0, 0], "{set:?}");
        assert_eq!(report.json["valid"], true, "{set:?}");
    }
}

#[test]
fn a_capture_is_known_behind_a_router_with_address_translation() {
    if missing("nft", "nftables") {
        return;
    }
    let Some(net) = joined_twice() else { return };
    route(&net);
    let there = Scratch::new();
    let rules = "table ip nat {\n chain post {\n type nat hook postrouting priority 100\n oifname \"eth2\" \
                 meta l4proto udp snat to 198.18.1.254:40000-50000\n }\n}\n";
    std::fs::write(there.file("nat.nft"), rules).expect("rules");
    let loaded = net.on(Host::B, &format!("nft -f {}", there.file("nat.nft").display()));
    if loaded.code != Some(0) {
        return skip(&format!("this kernel translates no addresses: {}", loaded.stderr));
    }
    let router = mac_of(&net, Host::B, "eth1")
        .map(|byte| format!("{byte:02x}"))
        .join(":");
    let rewrite = format!("rewrite=eth dst={router}");
    // Nobody answers for the hosts of a capture.
    let neighbor = "ip neigh add 198.18.1.2 lladdr 02:00:00:00:00:02 dev eth2";
    assert_eq!(net.on(Host::B, neighbor).code, Some(0));
    for tag in ["tag=tail", "tag=none"] {
        let set = [tag, "only=eth / ipv4 / udp", &rewrite];
        let report = replayed(&net, "af_packet:eth1 af_packet:eth2", &set, CAPTURED, PACKETS);
        assert_came(&report, [TAGGED, if tag == "tag=tail" { TAGGED } else { 0 }]);
    }
}

/// Returns the frames of a capture file.
fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let mut file = File::open(path).expect("a capture");
    let capture = Capture::read(&mut file, &Selection::default(), 1 << 30).expect("a capture");
    capture.packets().map(|packet| packet.bytes.to_vec()).collect()
}

#[test]
fn frames_of_a_capture_leave_in_order_and_as_they_are() {
    let scratch = Scratch::new();
    let (file, sample) = (capture(&scratch, CAPTURED, PACKETS), scratch.file("sample.pcapng"));
    let own = frames_of(&file);
    assert_eq!(own.len() as u64, PACKETS);
    for set in [
        &["loops=2"][..],
        &["loops=2", "speed=max"],
        &["loops=2", "ahead=true"],
        &["loops=2", "ahead=true", "speed=max"],
        &["loops=2", "ahead=true", "rate=20kpps"],
    ] {
        let words = format!("send null: --sample-pcap {},n=1 {LOAD}", sample.display());
        let sent = run_command(with_capture(mpps(&words), &file, set));
        assert_eq!(sent.code, Some(0), "{set:?} {}", sent.stderr);
        let sampled = frames_of(&sample);
        assert_eq!(sampled.len(), 2 * own.len(), "{set:?}");
        assert_eq!(sampled[..own.len()], own, "{set:?}");
        assert_eq!(sampled[own.len()..], own, "{set:?}");
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_ahead_ends_the_run_with_its_results() {
    let scratch = Scratch::new();
    let file = capture(&scratch, CAPTURED, PACKETS);
    let whole = std::fs::read(&file).expect("a capture");
    let command = mpps("send null: --duration 1h --csv -");
    let mut command = with_capture(command, &file, &["loops=0", "speed=max", "ahead=true"]);
    let json = scratch.file("result.json");
    command
        .arg("--json")
        .arg(&json)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = command.spawn().expect("mpps");
    // The first row: packets leave.
    let mut rows = BufReader::new(running.stdout.take().expect("rows"));
    for _ in 0..2 {
        rows.read_line(&mut String::new()).expect("a row");
    }
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("a file");
    std::io::copy(&mut rows, &mut std::io::sink()).expect("rows");
    let ended = running.wait_with_output().expect("an end");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(stderr.contains("captured.pcapng: "), "{stderr}");
    assert!(stderr.contains("the run ended early"), "{stderr}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).expect("a result")).expect("JSON");
    assert!(count(&report, "tx_packets") > PACKETS, "{report:#}");
}

#[test]
fn a_capture_beside_a_probe_has_results_of_its_own() {
    let scratch = Scratch::new();
    let file = capture(&scratch, CAPTURED, PACKETS);
    let mix = scratch.file("mix.toml");
    let text = format!(
        "[[stream]]\nname = 'office'\npcap = '{}'\ntag = 'tail'\nonly = 'eth / ipv4 / udp'\nloops = 0\n\
         [[stream]]\nname = 'probe'\npacket = 'eth / ipv4 src=198.18.0.1 dst=198.18.0.2 / udp'\nrate = '500pps'\n",
        file.display()
    );
    std::fs::write(&mix, text).expect("a file");
    let words = "sendrecv loop:,loss=0.01,corrupt=0.01,seed=3 --duration 1s";
    let mut command = mpps(&format!("{words} {LOAD}"));
    command.arg("--traffic").arg(&mix);
    let report = scratch.measure(command);
    let streams = report.json["streams"].as_array().expect("streams");
    let sum = |key: &str| streams.iter().map(|one| count(one, key)).sum::<u64>();
    for key in ["tx_packets", "rx_packets", "lost", "corrupt"] {
        assert_eq!(sum(key), report.count(key), "{key}: {streams:#?}");
    }
    let [office, probe] = &streams[..] else {
        panic!("{streams:#?}")
    };
    assert_eq!((&office["name"], &probe["name"]), (&"office".into(), &"probe".into()));
    assert_eq!(count(probe, "tx_packets"), 500);
    assert!(
        count(office, "tx_packets") > 3000 && count(office, "lost") > 0,
        "{office:#}"
    );
}

/// Sends a capture of frames at these times, ns, and returns the report.
fn timed(times: &[u64], words: &str, set: &[&str]) -> Report {
    let scratch = Scratch::new();
    let file = scratch.file("timed.pcap");
    let mut bytes = vec![
        0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0,
    ];
    for (number, time) in times.iter().enumerate() {
        for word in [time / 1_000_000_000, time % 1_000_000_000, 60, 60] {
            bytes.extend((word as u32).to_le_bytes());
        }
        let mut frame = [0; 60];
        frame[12..16].copy_from_slice(&[0x12, 0x34, 0, number as u8]);
        bytes.extend(frame);
    }
    std::fs::write(&file, bytes).expect("a file");
    let report = scratch.measure(with_capture(mpps(&format!("send null: {words} {LOAD}")), &file, set));
    report.assert_rows_add_up();
    report
}

#[test]
fn each_packet_leaves_at_its_time_up_to_the_last() {
    let even: Vec<u64> = (0..10).map(|n| n * 1_000_000).collect();
    let late = [0, 100_000_000, 101_000_000, 102_000_000];
    for (times, words, set, packets) in [
        (&even[..], "", &["gap=0us"][..], 10),
        (&even, "", &["gap=0us", "loops=2"], 20),
        (&even, "", &["gap=0us", "loops=2", "ahead=true"], 20),
        (&late, "--count 2", &[], 2),
        (&late, "", &["packets=2"], 2),
        // All at once: there is no time between them.
        (&[5; 30], "", &[], 30),
        (&[5; 30], "", &["ahead=true"], 30),
        (&[5], "", &[], 1),
    ] {
        let report = timed(times, words, set);
        let counts = ["tx_packets", "due_packets"].map(|key| report.json[key].as_u64());
        assert_eq!(
            counts[0],
            Some(packets),
            "{words} {set:?}: {:#}",
            report.json["streams"]
        );
        assert!(counts[1].is_none_or(|due| due == packets), "{words} {set:?}");
    }
}

#[test]
fn a_schedule_far_above_what_leaves_is_given_up_in_time() {
    let fast: Vec<u64> = (0..200).map(|n| n * 1_000).collect();
    let report = timed(&fast, "--duration 300ms", &["loops=0", "speed=1000"]);
    assert!(report.count("missed") > 1_000_000, "{:#}", report.json["streams"]);
    assert_eq!(report.json["valid"], false);
}

#[test]
fn streams_of_one_capture_share_what_comes_back() {
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let scratch = Scratch::new();
    let (file, mix) = (capture(&scratch, CAPTURED, PACKETS), scratch.file("mix.toml"));
    let stream = format!("[[stream]]\npcap = '{}'\n", file.display());
    let text = format!("{stream}{stream}rewrite = 'eth / ipv4 dst=198.18.9.0/24'\n");
    std::fs::write(&mix, text).expect("a file");
    let mut command = net.a(&format!("sendrecv af_packet:eth1 af_packet:eth2 {LOAD}"));
    command.arg("--traffic").arg(&mix);
    let report = scratch.measure(command);
    assert_came(&report, [2 * PACKETS, 0]);
    for stream in report.json["streams"].as_array().expect("streams") {
        assert_eq!(count(stream, "lost"), 0, "{stream:#}");
    }
}

#[test]
fn a_search_keeps_the_spacing_of_a_capture_at_each_rate() {
    let scratch = Scratch::new();
    let file = capture(&scratch, CAPTURED, PACKETS);
    let set = ["loops=0", "tag=tail", "only=eth / ipv4 / udp"];
    let words = "ndr loop: --max-rate 2kpps --goal loss=0,initial=100ms,final=200ms,sum=200ms,width=30% \
                 --catch-up 10s";
    let found = run_command(with_capture(mpps(words), &file, &set));
    assert!(!found.stderr.contains("not complete"), "{}", found.stderr);
    assert!(
        found.stdout.contains("highest rate"),
        "{} {}",
        found.stdout,
        found.stderr
    );
    assert_refused(with_capture(mpps(words), &file, &set[1..]), 2, &["want loops = 0"]);
}

#[test]
fn captures_that_cannot_be_sent_are_refused_before_anything_is_opened() {
    let scratch = Scratch::new();
    let file = capture(&scratch, CAPTURED, PACKETS);
    let cut = scratch.file("cut.pcapng");
    let whole = std::fs::read(&file).expect("a capture");
    std::fs::write(&cut, &whole[..whole.len() / 2]).expect("a file");
    let other = scratch.file("other.pcapng");
    std::fs::write(&other, b"nothing of the kind").expect("a file");
    let zeros = "0".repeat(64);
    for (words, file, set, needle) in [
        ("send null:", &scratch.file("none"), "speed=1", "No such file"),
        ("send null:", &scratch.file(""), "speed=1", "want a file"),
        ("send null:", &cut, "speed=1", "want last = "),
        ("send null:", &other, "speed=1", "no capture file"),
        ("send null:", &file, "first=2000", "none of its"),
        (
            "send null:",
            &file,
            "only=eth / ipv4 / udp dst=9",
            "none of its 1000 packets is sent",
        ),
        ("send null:", &file, "speed=0", "want a number over 0"),
        ("send null:", &file, "sped=2", "did you mean 'speed'"),
        ("send null:", &file, "rewrite=eth / arp", "no other header is changed"),
        (
            "send null:",
            &file,
            "rewrite=eth dst=02:00:00:00:00:09 / ipv6 hop=9 / tcp dst=7",
            "rewrite: none of its 1000 packets has tcp dst: want fields that they have",
        ),
        (
            "send null:",
            &file,
            &format!("sha256={zeros}"),
            "another file than it was",
        ),
        (
            "sendrecv loop:",
            &file,
            "tag=none",
            "the far end returns packets by their tags",
        ),
        ("sendrecv loop:", &file, "tag=tail", "have no room for a tag"),
        (
            "sendrecv loop: --lanes 2",
            &file,
            "tag=tail",
            "counted in its order, by one lane",
        ),
        ("sendrecv loop:", &file, "ahead=true", "want send, or it left out"),
        ("send null: --count 5", &file, "ahead=true", "whole loops are"),
        ("send null: --ttl 3", &file, "tag=tail", "--ttl: beside --pcap"),
        ("send null: --rate 1kpps", &file, "speed=2", "speed: beside --rate"),
        ("send null:", &file, "pacing=poisson", "want a rate as well"),
        (
            "send null: --dest 10.0.0.1:9",
            &file,
            "speed=2",
            "--dest: beside --pcap: want --set rewrite=PACKET",
        ),
        ("sendrecv af_packet --lab", &file, "tag=none", "want tag = tail"),
        ("send xdp:eth0", &file, "tag=tail", "or af_xdp:eth0"),
        ("send udp:", &file, "tag=tail", "the kernel writes the headers"),
    ] {
        assert_refused(with_capture(mpps(words), file, &[set]), 2, &[needle]);
    }
}
