//! `mpps traffic`: what it says of a file, and what Wireshark says of the packets that it writes; `--traffic` of a run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mpps_tests::{Scratch, assert_refused, missing, mpps, run_command};
use serde_json::Value;

/// Streams of traffic files, drawn at random: `make test-all` makes more (`MPPS_TRAFFIC_FILES`).
const FILES: usize = 200;
/// Streams of one file of those: their flows are no more than a file may have.
const TOGETHER: usize = 100;
/// Packets of each stream.
const EACH: usize = 3;

fn written(scratch: &Scratch, name: &str, text: &str) -> PathBuf {
    let path = scratch.file(name);
    std::fs::write(&path, text).expect("writable");
    path
}

fn traffic(action: &str, file: &Path) -> Command {
    let mut command = mpps(&format!("traffic {action}"));
    command.arg(file);
    command
}

const MIX: &str = r#"
[vars]
users = 3

[[stream]]
name = "tagged"
packet = "eth / vlan vid=10..12 / ipv4 src=198.18.0.1 dst=10.0.0.0/24 / udp dst=9000"
size = "imix"
rate = "2kpps"

[[stream]]
name = "web"
packet = "eth / ipv6 dst=2001:db8::1*$users / tcp dst={80*7, 443*3} flags=syn"
rate = "1kpps"
"#;

#[test]
fn a_file_is_checked_and_its_packets_are_shown_in_the_order_in_which_they_are_due() {
    let scratch = Scratch::new();
    let file = written(&scratch, "mix.toml", MIX);
    let checked = run_command(traffic("check", &file));
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(
        checked.stdout.contains("tagged: 762 flows, 68 to 1522 bytes"),
        "{}",
        checked.stdout
    );
    assert!(checked.stdout.contains("web: 30 flows, 94 bytes"), "{}", checked.stdout);
    let memory = checked.stdout.lines().last().expect("a line");
    assert!(memory.starts_with("memory of sendrecv with one lane: "), "{memory}");
    assert!(memory.ends_with(" MB for the flows"), "{memory}");

    let shown = run_command(traffic("show -n 6 --set users=2", &file));
    let names: Vec<&str> = shown.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        names,
        ["tagged", "web", "tagged", "tagged", "web", "tagged"],
        "{}",
        shown.stdout
    );
    let first = shown.stdout.lines().next().expect("a packet");
    assert!(
        first.contains("vlan vid=10 / ipv4 src=198.18.0.1 dst=10.0.0.1 / udp src=10000 dst=9000"),
        "{first}"
    );
}

#[test]
fn one_packet_needs_no_file() {
    let shown = run_command({
        let mut command = mpps("traffic show -n 2 --frame-size 128");
        command.args(["--packet", "eth / ipv4 / icmp type=8"]);
        command
    });
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(
        shown
            .stdout
            .lines()
            .all(|line| line.contains("size 128 payload 82: eth"))
    );
}

#[test]
fn what_is_wrong_is_one_line_with_file_line_and_column() {
    let scratch = Scratch::new();
    let file = written(
        &scratch,
        "wrong.toml",
        "[[stream]]\npacket = \"eth / vlan vid=4096 / ipv4 / udp\"\n",
    );
    assert_refused(
        traffic("check", &file),
        2,
        &["wrong.toml:2:22: vlan vid='4096': want 0 to 4095"],
    );
    let file = written(
        &scratch,
        "small.toml",
        "[[stream]]\npacket = 'eth / ipv6 / tcp'\nsize = 64\n",
    );
    assert_refused(
        traffic("pcap -o -", &file),
        2,
        &["small.toml:2:10: size 64", "want sizes of 94 or more"],
    );
    let mut packet = mpps("traffic show");
    packet.args(["--packet", "eth / ipv4 / upd"]);
    assert_refused(packet, 2, &["--packet: column 14", "did you mean 'udp'?"]);
    let file = written(&scratch, "vars.toml", MIX);
    assert_refused(
        traffic("check --set user=3", &file),
        2,
        &["--set user", "did you mean 'users'?"],
    );
    assert_refused(
        traffic("check", &scratch.file("none.toml")),
        2,
        &["none.toml", "No such file"],
    );
    assert_refused(mpps("traffic check"), 2, &["FILE"]);
    let file = written(&scratch, "self.toml", MIX);
    let mut onto_itself = traffic("pcap -n 1", &file);
    onto_itself.arg("-o").arg(&file);
    assert_refused(onto_itself, 2, &["it is the traffic file"]);
    assert_eq!(std::fs::read_to_string(&file).expect("as it was"), MIX);
    assert_refused(
        traffic("pcap -n 9000000 -o -", &file),
        2,
        &["packets of up to 1522 bytes at most"],
    );
    assert_refused(traffic("show --frame-size 99", &file), 2, &["--frame-size"]);
    let file = written(&scratch, "open.toml", "[[stream]");
    assert_refused(traffic("check", &file), 2, &["open.toml:1:10: "]);
    for (text, needle) in [
        (
            "[stream]\npacket = 'eth'\n",
            "own.toml:1:1: stream: want a list of streams, each under [[stream]]",
        ),
        (
            "[[stream]]\npacket = 'eth / ipv4 / tcp'\n[[stream]]\npacket = 'eth'\nrate = '1kpps'\n",
            "own.toml:2:10: stream '1': other streams have a rate",
        ),
        (
            "[[stream]]\npacket = 'eth / ipv4 / udp dst={80:7, 443:3}'\n",
            "want the weight behind '*': 80*7",
        ),
    ] {
        let file = written(&scratch, "own.toml", text);
        assert_refused(traffic("check", &file), 2, &[needle]);
    }
}

#[test]
fn the_schema_takes_what_the_program_takes() {
    let printed = run_command(mpps("traffic schema"));
    let schema = serde_json::from_str(&printed.stdout).expect("JSON");
    assert!(jsonschema::meta::is_valid(&schema));
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    for (text, valid) in [
        (
            r#"{"stream": [{"packet": "eth / ipv4 / udp", "size": 64, "lanes": [0]}]}"#,
            true,
        ),
        (
            r#"{"stream": [{"packet": "eth", "burst": {"packets": 2, "gap": "1ms"}, "tag": "none"}]}"#,
            true,
        ),
        (r#"{"stream": [{"packets": 2}]}"#, false),
        (r#"{"stream": [{"packet": "eth", "tag": "head"}]}"#, false),
        (r#"{"streams": []}"#, false),
    ] {
        let value = serde_json::from_str(text).expect("JSON");
        assert_eq!(schema.is_valid(&value), valid, "{text}");
        let scratch = Scratch::new();
        let checked = run_command(traffic("check", &written(&scratch, "t.json", text)));
        assert_eq!(
            checked.code,
            Some(if valid { 0 } else { 2 }),
            "{text}: {}",
            checked.stderr
        );
    }
}

const ONE: &str = "[vars]\nusers = 3\n\n[[stream]]\npacket = \"eth / ipv4 dst=10.0.0.1*$users / udp dst=9000\"\n";

/// `mpps` with the given words and the streams of a file.
fn with_file(words: &str, file: &Path) -> Command {
    let mut command = mpps(words);
    command.arg("--traffic").arg(file);
    command
}

/// The JSON that a command prints.
fn printed(mut command: Command) -> Value {
    command.arg("--print-plan");
    let printed = run_command(command);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    serde_json::from_str(&printed.stdout).expect("JSON")
}

#[test]
fn a_run_has_the_streams_of_a_file_and_is_repeated_without_it() {
    let scratch = Scratch::new();
    let file = written(&scratch, "one.toml", ONE);
    let words = "send null: --set users=7 --scale 50% --rate 1kpps --duration 50ms";
    let plan = printed(with_file(words, &file));
    let streams = &plan["traffic"]["streams"];
    assert_eq!(
        streams.to_string(),
        r#"[{"name":"1","packet":"eth / ipv4 dst=10.0.0.1*7 / udp dst=9000"}]"#
    );
    assert_eq!(plan["load"]["scale"], "50%");
    let text = plan.to_string();
    assert!(!text.contains("one.toml") && !text.contains("users"), "{text}");

    let result = scratch.file("result.json");
    let mut run = with_file(words, &file);
    run.arg("--quiet").arg("--json").arg(&result);
    let ran = run_command(run);
    assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.stderr);
    std::fs::remove_file(&file).expect("there");
    assert_eq!(printed(mpps(&format!("run {}", result.display()))), plan);

    let file = written(&scratch, "one.toml", ONE);
    for words in ["drop null:", "reflect null:"] {
        let plan = printed(with_file(words, &file));
        let packet = &plan["selection"]["streams"][0]["packet"];
        assert_eq!(packet, "eth / ipv4 dst=10.0.0.1*3 / udp dst=9000", "{words}");
    }
    let plan = printed(mpps("send null: --packet eth"));
    assert!(plan["load"].get("scale").is_none(), "{plan:#}");
}

#[test]
fn a_file_of_streams_may_be_standard_input() {
    let scratch = Scratch::new();
    let file = written(&scratch, "one.toml", ONE);
    let mut command = with_file("send null: --print-plan", Path::new("-"));
    command.stdin(Stdio::from(std::fs::File::open(&file).expect("there")));
    let read = command.output().expect("the program starts");
    assert_eq!(read.status.code(), Some(0), "{}", String::from_utf8_lossy(&read.stderr));
    let plan: Value = serde_json::from_slice(&read.stdout).expect("JSON");
    assert_eq!(plan, printed(with_file("send null:", &file)));
    let told = ["--traffic -: ", "it can be read once", "want a file"];
    assert_refused(mpps("sendrecv af_packet --lab --traffic -"), 2, &told);
    let mut compare = mpps("compare");
    compare.args(["send null: --duration 1s --traffic -", "send null: --duration 1s"]);
    assert_refused(compare, 2, &told);
}

#[test]
fn a_run_refuses_a_file_as_check_does() {
    let scratch = Scratch::new();
    for (name, text) in [
        (
            "wrong.toml",
            "[[stream]]\npacket = \"eth / vlan vid=4096 / ipv4 / udp\"\n",
        ),
        ("small.toml", "[[stream]]\npacket = 'eth / ipv6 / tcp'\nsize = 64\n"),
        ("open.toml", "[[stream]"),
        ("table.toml", "[stream]\npacket = 'eth'\n"),
        (
            "rates.toml",
            "[[stream]]\npacket = 'eth / ipv4 / udp'\nrate = '1kpps'\n[[stream]]\npacket = 'eth / ipv4 / tcp'\n",
        ),
        ("key.json", "{\"stream\": [{\"packet\": \"eth\", \"rte\": 1}]}"),
        ("empty.toml", ""),
        ("long.toml", &"#".repeat((4 << 20) + 1)),
    ] {
        let file = written(&scratch, name, text);
        let checked = run_command(traffic("check", &file));
        assert!(checked.stderr.contains(name), "{}", checked.stderr);
        for words in [
            "sendrecv af_packet:nosuch",
            "send null:",
            "drop null:",
            "reflect null:",
            "ndr loop:",
            "rfc2544 throughput loop:",
            "overload loop:",
        ] {
            let refused = run_command(with_file(words, &file));
            assert_eq!(
                (refused.code, refused.stderr),
                (Some(2), checked.stderr.clone()),
                "{words}"
            );
        }
        let compared = run_command({
            let mut command = mpps("compare");
            command.args([&format!("send null: --traffic {}", file.display()), "send null:"]);
            command
        });
        let told = checked.stderr.trim_start_matches("mpps: ");
        assert!(
            compared.code == Some(2) && compared.stderr.contains(told),
            "{}",
            compared.stderr
        );
    }
    let none = scratch.file("none.toml");
    assert_refused(with_file("send null:", &none), 2, &["none.toml", "No such file"]);
    assert_refused(with_file("send null:", scratch.path()), 2, &["Is a directory"]);
}

#[test]
fn options_that_contradict_a_file_of_streams_are_refused() {
    let scratch = Scratch::new();
    let file = written(&scratch, "one.toml", ONE);
    let both = ["--packet", "cannot be used with", "--traffic"];
    assert_refused(with_file("send null: --packet eth", &file), 2, &both);
    for (words, parts) in [
        ("send null: --set users=3", &["--traffic <FILE>"][..]),
        ("send null: --scale 50%", &["--packet <PACKET>|--traffic <FILE>"]),
        (
            "send null: --packet eth --scale 50",
            &["--scale", "1% to 1000%", "the % is missing"],
        ),
        ("send null: --packet eth --scale 1001%", &["--scale", "1% to 1000%"]),
        (
            "ndr loop: --packet eth --scale 50%",
            &["--scale: the method chooses it"],
        ),
        ("forward null: loop: --traffic x", &["--traffic"]),
        (
            "run plan.json --traffic x",
            &["--traffic", "want traffic.streams changed in the file"],
        ),
    ] {
        assert_refused(mpps(words), 2, parts);
    }
    let unknown = [
        "one.toml: --set user: the file has no variable",
        "did you mean 'users'?",
    ];
    assert_refused(with_file("send null: --set user=3", &file), 2, &unknown);
    // A plan has a list, and no name of a file.
    let mut plan = printed(with_file("send null: --rate 10kpps --scale 50%", &file));
    for (section, key, value, part) in [
        (
            "traffic",
            "streams",
            "one.toml",
            "traffic.streams: \"one.toml\": want a list of streams",
        ),
        (
            "traffic",
            "traffic",
            "one.toml",
            "traffic.traffic: a send has no such field",
        ),
        ("load", "scale", "0%", "load.scale (--scale) '0%': want a factor"),
    ] {
        let mut wrong = plan.clone();
        wrong[section][key] = value.into();
        let wrong = written(&scratch, "plan.json", &wrong.to_string());
        assert_refused(mpps(&format!("run {}", wrong.display())), 2, &["plan.json: ", part]);
    }
    plan["traffic"]["streams"] = Value::Null;
    let alone = written(&scratch, "plan.json", &plan.to_string());
    let told = "load.scale (--scale): want traffic.streams (--packet) as well";
    assert_refused(mpps(&format!("run {}", alone.display())), 2, &[told]);
    // Its text is kept.
    let mut onto_itself = with_file("send null:", &file);
    onto_itself.arg("--json").arg(&file);
    assert_refused(onto_itself, 2, &["--json and --traffic: both", "one.toml"]);
    assert_eq!(std::fs::read_to_string(&file).expect("as it was"), ONE);
}

#[test]
fn rows_of_streams_are_for_runs_that_have_streams() {
    let scratch = Scratch::new();
    let file = written(&scratch, "one.toml", ONE);
    let (rows, folder) = (scratch.file("streams.csv"), scratch.file("results"));
    let mut run = with_file("send null: --rate 1kpps --duration 50ms --quiet", &file);
    run.arg("--streams-csv").arg(&rows);
    let mut placed = with_file("send null: --rate 1kpps --duration 50ms --quiet", &file);
    placed.arg("--out").arg(&folder);
    for (command, rows) in [(run, &rows), (placed, &folder.join("streams.csv"))] {
        let ran = run_command(command);
        assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.stderr);
        let text = std::fs::read_to_string(rows).expect("a file");
        assert!(text.starts_with("kind,name,time_s,"), "{text}");
    }
    for words in ["sendrecv loop:", "drop null: --packet eth", "forward null:"] {
        let refused = mpps(&format!("{words} --streams-csv x.csv"));
        assert_refused(refused, 2, &["--streams-csv: the run has no streams"]);
    }
    let of_method = mpps("ndr loop: --packet eth --streams-csv x.csv");
    assert_refused(of_method, 2, &["--streams-csv", "want --out DIR"]);
    let mut onto_itself = with_file("send null:", &file);
    onto_itself.arg("--streams-csv").arg(&file);
    assert_refused(onto_itself, 2, &["--streams-csv and --traffic: both"]);
}

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n as u64) as usize
    }

    fn one<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }
}

/// A packet of any of the headers with a checksum; `bad` stands where the innermost checksum is written.
fn any_packet(dice: &mut Dice, bad: &str) -> String {
    let link = dice.one(&[
        "eth",
        "eth / vlan vid=1..9 pcp=3",
        "eth / qinq vid=7 / vlan vid=8",
        "eth / mpls label=16..40 / mpls label=99",
        "eth / pppoe seid=5",
    ]);
    let outer = dice.one(&[
        "",
        "ipv4 dst=10.0.0.1*9 / udp src=inner-hash / vxlan vni=1..5 / eth / ",
        "ipv6 / udp / vxlan vni=7 / eth / vlan vid=4 / ",
        "ipv4 ttl=9 / gre / ",
        "ipv6 / gre key=1..3 seq=7 cksum=0 / ",
        "ipv4 / udp / geneve vni=9 options=0001020304050607 / eth / ",
        "ipv4 / udp / gtpu teid=1..99 qfi=5 / ",
        "ipv6 / ",
        "ipv4 options=01010100 / ",
    ]);
    let v6 = dice.below(2) == 1;
    let inner = match v6 {
        true => dice.one(&[
            "ipv6 src=2001:db8::1*7 flow=random(0..1048575)",
            "ipv6 / hopopts options=0100",
            "ipv6 / dstopts",
            "ipv6 dst=2001:db8::9 / srh segs={2001:db8::9,2001:db8::5}",
        ]),
        false => dice.one(&[
            "ipv4 src=10.0.0.1..10.0.0.96 dst=random(172.16.0.0/12) id=random(0..65535)",
            "ipv4 options=9404000001010100 tos=0xb8",
            "ipv4 dst=10.1.2.3 dst&0.0.255.0=0..255 ttl=1..64",
        ]),
    };
    let last = match (dice.below(5), v6) {
        (0, _) => format!("udp src=1024..1055 dst=random(20000..20999){bad}"),
        (1, _) => format!("tcp src=1024..1055 dst=20000 flags=syn mss=1460 sackok wscale=7 seq=random(0..99){bad}"),
        (2, true) => format!("icmp6 type=128 ident=5 seq=1..9{bad}"),
        (2, false) => format!("icmp type=8 ident=5 seq=1..9{bad}"),
        (3, false) if outer.is_empty() => format!("igmp{bad}"),
        (4, _) => format!("sctp src=5 dst=20000 tsn=1..9{bad}"),
        _ => format!("tcp src=7 dst=20001 flags=psh+ack{bad}"),
    };
    format!("{link} / {outer}{inner} / {last}")
}

/// Writes files of random traffic to one capture, and returns what tshark finds wrong: a line for each packet.
fn dissected(packets: &[String], filter: &str) -> Option<Vec<String>> {
    if missing("tshark", "tshark") {
        return None;
    }
    let scratch = Scratch::new();
    let mut found = Vec::new();
    for (at, some) in packets.chunks(TOGETHER).enumerate() {
        let mut text = String::new();
        for packet in some {
            // RFC 2236 has the whole payload summed up, Wireshark the first 8 bytes: zeros are in both sums.
            let (fill, tag) = match packet.contains("igmp") {
                true => ("zeros", "none"),
                false => ("data", "tail"),
            };
            let _ = writeln!(
                text,
                "[[stream]]\npacket = \"{packet}\"\ntag = \"{tag}\"\nfill = \"{fill}\"\nsize = \"SIZE\""
            );
        }
        let file = written(&scratch, "any.toml", &sizes(&text));
        let capture = scratch.file(&format!("{at}.pcapng"));
        let mut command = traffic(&format!("pcap -n {} --seed {at}", some.len() * EACH), &file);
        command.arg("-o").arg(&capture);
        let done = run_command(command);
        assert_eq!(done.code, Some(0), "{}: {text}", done.stderr);
        let mut tshark = Command::new("tshark");
        tshark.env("HOME", scratch.path()).arg("-r").arg(&capture);
        for preference in [
            "ip.check_checksum:TRUE",
            "udp.check_checksum:TRUE",
            "tcp.check_checksum:TRUE",
            "tcp.desegment_tcp_streams:FALSE",
            "sctp.checksum:CRC 32c",
            "ip.defragment:FALSE",
        ] {
            tshark.args(["-o", preference]);
        }
        // No protocol that happens to have the port.
        for ports in ["udp.port==20000-20999", "tcp.port==20000-20001"] {
            tshark.arg("-d").arg(format!("{ports},data"));
        }
        tshark.args([
            "-Y",
            filter,
            "-T",
            "fields",
            "-e",
            "frame.number",
            "-e",
            "frame.protocols",
            "-e",
            "_ws.expert.message",
        ]);
        let lines = run_command(tshark);
        assert_eq!(lines.code, Some(0), "{}", lines.stderr);
        let describe = |line: &str| {
            let number: usize = line
                .split('\t')
                .next()
                .and_then(|number| number.parse().ok())
                .unwrap_or(1);
            format!("{} <- {}", line, some[(number - 1) % some.len()])
        };
        found.extend(lines.stdout.lines().map(describe));
    }
    Some(found)
}

/// Puts sizes of their own in the places of SIZE: multiples of 4 with all that comes before them, or any.
fn sizes(text: &str) -> String {
    let mut dice = Dice(5);
    let mut out = String::new();
    for stream in text.split_inclusive("SIZE") {
        let Some(before) = stream.strip_suffix("SIZE") else {
            out.push_str(stream);
            continue;
        };
        out.push_str(before);
        match before.contains("sctp") {
            // The size that fits is the one that is not given.
            true => {
                let key = out.rfind("size").expect("a size");
                out.truncate(key);
                out.push_str("comment = \"as small as it goes");
            }
            false => match dice.below(3) {
                0 => out.push_str(&(300 + dice.below(900)).to_string()),
                1 => out.push_str("300*7 594*4 1518*1"),
                _ => out.push_str("random(300..1518)"),
            },
        }
    }
    out
}

const CHECKSUM: &str = "_ws.expert.group == \"Checksum\"";
const MALFORMED: &str = "_ws.malformed or _ws.expert.group == \"Malformed\"";

fn any_packets(bad: &str) -> Vec<String> {
    let files = std::env::var("MPPS_TRAFFIC_FILES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(FILES);
    let mut dice = Dice(20_261_130);
    (0..files).map(|_| any_packet(&mut dice, bad)).collect()
}

#[test]
fn wireshark_finds_no_wrong_checksum_in_packets_of_random_traffic() {
    if let Some(found) = dissected(&any_packets(""), CHECKSUM) {
        assert!(
            found.is_empty(),
            "{} wrong: {:#?}",
            found.len(),
            &found[..found.len().min(8)]
        );
    }
}

#[test]
fn wireshark_finds_no_malformed_packet_in_random_traffic() {
    if let Some(found) = dissected(&any_packets(""), MALFORMED) {
        assert!(
            found.is_empty(),
            "{} wrong: {:#?}",
            found.len(),
            &found[..found.len().min(8)]
        );
    }
}

#[test]
fn wireshark_finds_each_wrong_checksum_of_a_header_of_ip() {
    let packets = any_packets("").into_iter().filter(|packet| packet.contains("ipv4"));
    let packets: Vec<String> = packets
        .map(|packet| packet.replacen("ipv4", "ipv4 cksum=bad", 1))
        .collect();
    if let Some(found) = dissected(&packets, CHECKSUM) {
        assert_eq!(found.len(), packets.len() * EACH, "{:#?}", &found[..found.len().min(8)]);
    }
}

#[test]
fn wireshark_finds_each_checksum_that_was_made_wrong() {
    let packets = any_packets(" cksum=bad");
    if let Some(found) = dissected(&packets, CHECKSUM) {
        assert_eq!(found.len(), packets.len() * EACH, "{:#?}", &found[..found.len().min(8)]);
    }
}
