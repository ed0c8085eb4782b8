//! `capture`: what is on the wire is in the file, as other programs read it, and what is not there is counted.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Finished, Net, Report, Scratch, missing, mpps, net_of, program, run_command, skip, wait_until,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::process::Signal;
use serde_json::Value;

/// Sends frames of random length and content from eth1, a few at a time, and writes them to a file, each behind its
/// length. Each is IPv4 with UDP from port 4242 to a MAC address that nobody has; after every tenth come one of TCP
/// with the same ports and one of UDP with others.
const SENDER: &str = r"
import random, socket, struct, sys, time
out, count, seed = open(sys.argv[1], 'wb'), int(sys.argv[2]), int(sys.argv[3])
random.seed(seed)
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(('eth1', 0))
def frame(protocol, source, length):
    ends = bytes([10, 99, 0, 1]), bytes([10, 99, 0, 9])
    ip = struct.pack('>BBHHHBBH4s4s', 0x45, 0, length - 14, 0, 0, 64, protocol, 0, *ends)
    head = bytes.fromhex('0200000000990200000000770800') + ip + struct.pack('>HHHH', source, 9000, length - 34, 0)
    return head + random.randbytes(length - len(head))
for i in range(count):
    f = frame(17, 4242, random.choice([60, 1514, random.randint(60, 1514)]))
    s.send(f)
    out.write(struct.pack('>H', len(f)) + f)
    if i % 10 == 0:
        s.send(frame(6, 4242, 60))
        s.send(frame(17, 4243, 60))
        time.sleep(0.001)
";

/// Sends `count` frames from host a; the frames.
fn send(net: &Net, scratch: &Scratch, count: usize, seed: u64) -> Vec<Vec<u8>> {
    let file = scratch.file("sent");
    let words = [
        file.to_str().expect("a plain path"),
        &count.to_string(),
        &seed.to_string(),
    ];
    assert!(net.python(Host::A, SENDER, &words));
    let bytes = std::fs::read(file).expect("what was sent");
    let (mut frames, mut rest) = (Vec::new(), &bytes[..]);
    while let [high, low, after @ ..] = rest {
        let (frame, next) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        frames.push(frame.to_vec());
        rest = next;
    }
    assert_eq!(frames.len(), count);
    frames
}

/// A packet of a file.
#[derive(Debug)]
struct Packet {
    time: Duration,
    wire_len: u32,
    bytes: Vec<u8>,
}

/// The packets of a file, every block of which must be whole, and whether its counts stand at its end.
fn read(path: &Path) -> (Vec<Packet>, bool) {
    parse(&std::fs::read(path).expect("a file"))
}

fn parse(bytes: &[u8]) -> (Vec<Packet>, bool) {
    let mut reader = PcapNgReader::new(bytes).expect("a section header");
    let (mut packets, mut counted) = (Vec::new(), false);
    while let Some(block) = reader.next_block() {
        match block.expect("a whole block") {
            Block::EnhancedPacket(packet) => packets.push(Packet {
                time: packet.timestamp,
                wire_len: packet.original_len,
                bytes: packet.data.to_vec(),
            }),
            Block::InterfaceStatistics(_) => counted = true,
            _ => {}
        }
    }
    (packets, counted)
}

/// Waits until a file that is being written holds so many packets whole. Its size tells less: blocks are padded, and
/// others come before the first packet.
fn written(path: &Path, packets: usize) {
    let whole = || {
        let bytes = std::fs::read(path).unwrap_or_default();
        let Ok(mut reader) = PcapNgReader::new(&bytes[..]) else {
            return 0;
        };
        let mut count = 0;
        while let Some(Ok(block)) = reader.next_block() {
            count += usize::from(matches!(block, Block::EnhancedPacket(_)));
        }
        count
    };
    wait_until("the packets in the file", || whole() >= packets);
}

/// Starts a capture on host b and waits until it runs.
fn start(net: &Net, scratch: &Scratch, words: &str) -> Background {
    let mut command = scratch.results(net.b(&format!("capture af_packet:eth1 --quiet {words}")));
    command.arg("-o").arg(scratch.file("a.pcapng"));
    let capture = Background::start(command);
    wait_until("a row of the capture", || scratch.rows_so_far() > 0);
    capture
}

/// Ends it once the file holds so many packets.
fn end_with(capture: Background, scratch: &Scratch, packets: usize) -> Report {
    written(&scratch.file("a.pcapng"), packets);
    let report = scratch.read(capture.end(Signal::TERM));
    assert_counts(&report);
    report
}

/// Every packet is in exactly one count.
fn assert_counts(report: &Report) {
    report.assert_rows_add_up();
    assert_summary(&report.json);
}

fn assert_summary(json: &Value) {
    let count = |pointer: &str| json.pointer(pointer).and_then(Value::as_u64).unwrap_or(u64::MAX);
    let dropped = count("/capture/dropped/ring_full") + count("/capture/dropped/write_error");
    assert_eq!(count("/capture/taken"), count("/capture/written") + dropped, "{json:#}");
    assert_eq!(
        count("/capture/received"),
        count("/capture/taken") + count("/foreign"),
        "{json:#}"
    );
    assert_eq!(count("/lost"), count("/capture/dropped/ring_full"), "{json:#}");
}

fn run_to_json(scratch: &Scratch, mut command: Command) -> (Finished, Value) {
    command.arg("--json").arg(scratch.file("run.json"));
    let finished = run_command(command);
    let text = std::fs::read_to_string(scratch.file("run.json"))
        .unwrap_or_else(|e| panic!("no JSON ({e}): {}", finished.stderr));
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_summary(&json);
    assert_eq!(
        finished.code,
        Some(if json["valid"] == true { 0 } else { 3 }),
        "{json:#}"
    );
    (finished, json)
}

/// The lines that tshark prints of a file: its length, its captured length, and its time.
fn tshark(path: &Path) -> Option<Vec<Vec<String>>> {
    if missing("tshark", "tshark") {
        return None;
    }
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-T", "fields"]);
    command.args(["-e", "frame.len", "-e", "frame.cap_len", "-e", "frame.time_epoch"]);
    let finished = run_command(command);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let cells = |line: &str| line.split('\t').map(str::to_owned).collect();
    Some(finished.stdout.lines().map(cells).collect())
}

#[test]
fn every_frame_on_the_wire_is_in_the_file_whole_and_in_order_of_time() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let scratch = Scratch::new();
    let began = SystemTime::UNIX_EPOCH.elapsed().expect("a clock that is set");
    let capture = start(&net, &scratch, "--port 4242 --proto udp --ip 10.99.0.1");
    let sent = send(&net, &scratch, 2000, 1);
    let report = end_with(capture, &scratch, sent.len());
    let ended = SystemTime::UNIX_EPOCH.elapsed().expect("a clock that is set");
    assert_eq!(report.finished.code, Some(0), "{:#}", report.json);

    let (packets, counted) = read(&scratch.file("a.pcapng"));
    assert!(counted);
    assert_eq!(packets.len(), sent.len());
    for (packet, frame) in packets.iter().zip(&sent) {
        assert_eq!(&packet.bytes, frame);
        assert_eq!(packet.wire_len as usize, frame.len());
    }
    assert!(packets.is_sorted_by_key(|p| p.time));
    assert!(packets.iter().all(|p| (began..=ended).contains(&p.time)));
    // The frames of TCP and of other ports were seen, and left out.
    assert_eq!(report.count("/capture/written"), 2000);
    assert!(report.reason("not_taken") >= 400, "{:#}", report.json);

    if let Some(lines) = tshark(&scratch.file("a.pcapng")) {
        let lengths: Vec<_> = lines.iter().map(|l| (l[0].clone(), l[1].clone())).collect();
        let want: Vec<_> = sent
            .iter()
            .map(|f| (f.len().to_string(), f.len().to_string()))
            .collect();
        assert_eq!(lengths, want);
        let first = format!("{}.{:09}", packets[0].time.as_secs(), packets[0].time.subsec_nanos());
        assert!(lines[0][2].starts_with(&first), "{} is not {first}", lines[0][2]);
    }
    if !missing("tcpdump", "tcpdump") {
        let mut command = Command::new("tcpdump");
        command.args(["-n", "--count", "-r"]).arg(scratch.file("a.pcapng"));
        let finished = run_command(command);
        assert!(finished.stdout.starts_with("2000 packets"), "{finished:?}");
    }
}

#[test]
fn packets_are_cut_to_the_snap_length_and_tell_their_own() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let scratch = Scratch::new();
    let capture = start(&net, &scratch, "--port 4242 --proto udp --snap-len 101");
    let sent = send(&net, &scratch, 300, 2);
    end_with(capture, &scratch, sent.len());
    let (packets, _) = read(&scratch.file("a.pcapng"));
    assert_eq!(packets.len(), 300);
    for (packet, frame) in packets.iter().zip(&sent) {
        assert_eq!(packet.bytes, frame[..frame.len().min(101)]);
        assert_eq!(packet.wire_len as usize, frame.len());
    }
    if let Some(lines) = tshark(&scratch.file("a.pcapng")) {
        assert!(
            lines
                .iter()
                .zip(&sent)
                .all(|(line, frame)| line[0] == frame.len().to_string())
        );
        assert!(
            lines
                .iter()
                .all(|line| line[1].parse::<usize>().is_ok_and(|n| n <= 101))
        );
    }
}

#[test]
fn several_lanes_write_one_file_in_order_of_time() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(2) else { return };
    let scratch = Scratch::new();
    let mut command = scratch.results(net.b("capture af_packet:eth1,fanout=rnd --lanes 2 --port 4242 --proto udp -q"));
    command.arg("-o").arg(scratch.file("a.pcapng"));
    let capture = Background::start(command);
    wait_until("a row of the capture", || scratch.rows_so_far() > 0);
    let mut sent = send(&net, &scratch, 1000, 3);
    let report = end_with(capture, &scratch, sent.len());
    assert!(
        report.json["lanes"]
            .as_array()
            .expect("lanes")
            .iter()
            .all(|l| l["rx_packets"] != 0)
    );
    let (packets, _) = read(&scratch.file("a.pcapng"));
    assert!(packets.is_sorted_by_key(|p| p.time));
    let mut got: Vec<_> = packets.into_iter().map(|p| p.bytes).collect();
    got.sort();
    sent.sort();
    assert_eq!(got, sent);
}

#[test]
fn a_killed_capture_leaves_what_came_before() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let scratch = Scratch::new();
    let capture = start(&net, &scratch, "--port 4242 --proto udp");
    let sent = send(&net, &scratch, 200, 4);
    written(&scratch.file("a.pcapng"), sent.len());
    assert_eq!(capture.end(Signal::KILL).code, None);
    let (packets, counted) = read(&scratch.file("a.pcapng"));
    assert!(packets.iter().map(|p| &p.bytes).eq(&sent) && !counted);
}

#[test]
fn rotated_files_are_complete_and_the_newest_are_kept() {
    for keep in [None, Some(3)] {
        let scratch = Scratch::new();
        let mut command = mpps("capture null: --count 5000 --snap-len 60 --rotate-size 100kB --quiet");
        command.arg("-o").arg(scratch.file("a.pcapng"));
        if let Some(keep) = keep {
            command.arg("--max-files").arg(format!("{keep}"));
        }
        let (finished, json) = run_to_json(&scratch, command);
        assert_eq!(finished.code, Some(0), "{json:#}");
        assert_eq!(json["capture"]["written"], 5000);
        let files: Vec<_> = json["capture"]["files"].as_array().expect("files").iter().collect();
        let removed = json["capture"]["files_removed"].as_u64().expect("a count");
        assert_eq!(files.len() + removed as usize, 5, "{json:#}");
        assert!(keep.is_none_or(|keep| files.len() == keep && !scratch.file("a.pcapng").exists()));
        let (mut total, mut last) = (0, Duration::ZERO);
        for file in files {
            let path = Path::new(file.as_str().expect("a name"));
            let size = std::fs::metadata(path).expect("a file that is there").len();
            let (packets, counted) = read(path);
            assert!(counted && size <= 100_000, "{size} bytes");
            assert!(packets.is_sorted_by_key(|p| p.time) && packets[0].time >= last);
            last = packets[packets.len() - 1].time;
            total += packets.len();
            assert!(tshark(path).is_none_or(|lines| lines.len() == packets.len()));
        }
        assert!(if keep.is_none() { total == 5000 } else { total < 5000 });
    }
}

#[test]
fn a_full_disk_is_told_once_counted_and_leaves_whole_packets() {
    if missing("unshare", "util-linux") {
        return;
    }
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]);
    if run_command(probe).code != Some(0) {
        return skip("a file system that is full is mounted, which needs root");
    }
    let (scratch, small) = (Scratch::new(), Scratch::new());
    let script = r#"
        mount -t tmpfs -o size=256k none "$2" || exit 99
        "$1" capture null: -o "$2/a.pcapng" --duration 300ms --plain --json "$3/run.json"
        code=$?
        cat "$2/a.pcapng" > "$3/a.pcapng"
        exit $code
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(program()).arg(small.path()).arg(scratch.path());
    let finished = run_command(command);
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    let json = std::fs::read_to_string(scratch.file("run.json")).expect("the summary, which had room");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_summary(&json);
    let (packets, _) = read(&scratch.file("a.pcapng"));
    assert!(packets.len() > 1000);
    assert_eq!(json["capture"]["written"], packets.len());
    assert_ne!(json["capture"]["dropped"]["write_error"], 0);
    assert!(json["invalid_reasons"].to_string().contains("space"), "{json:#}");
    let told = finished.stderr.lines().filter(|line| line.contains("space")).count();
    assert!(told <= 1, "told more than once: {}", finished.stderr);
}

#[test]
fn standard_output_is_a_pipe_for_other_programs() {
    let scratch = Scratch::new();
    let mut command = Command::new("sh");
    let script = r#""$1" capture null: -o - --count 700 --quiet > "$2""#;
    command
        .args(["-c", script, "sh"])
        .arg(program())
        .arg(scratch.file("out"));
    assert_eq!(run_command(command).code, Some(0));
    assert_eq!(read(&scratch.file("out")).0.len(), 700);
    if !missing("tshark", "tshark") {
        let mut command = Command::new("sh");
        let script = r#""$1" capture null: -o - --count 700 --quiet | tshark -r - -T fields -e frame.len"#;
        command.args(["-c", script, "sh"]).arg(program());
        let finished = run_command(command);
        assert_eq!(finished.stdout.lines().count(), 700, "{}", finished.stderr);
    }
}

#[test]
fn a_slow_reader_costs_packets_that_are_counted_exactly() {
    let scratch = Scratch::new();
    let fifo = scratch.file("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("a FIFO");
    let path = fifo.clone();
    let reader = std::thread::spawn(move || {
        let mut file = File::open(path).expect("our FIFO");
        let (mut all, mut block) = (Vec::new(), [0; 65_536]);
        loop {
            match file.read(&mut block).expect("the writer is there") {
                0 => return all,
                n => all.extend_from_slice(&block[..n]),
            }
            if all.len() < 2 << 20 {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let mut command = mpps("capture null: --duration 400ms --buffer 1MiB --quiet");
    command.arg("-o").arg(&fifo);
    let (finished, json) = run_to_json(&scratch, command);
    let (packets, counted) = parse(&reader.join().expect("a reader"));
    assert_eq!(json["capture"]["written"], packets.len(), "{json:#}");
    assert!(counted);
    assert_ne!(json["capture"]["dropped"]["ring_full"], 0, "{json:#}");
    assert_eq!(finished.code, Some(3));
    assert!(json["invalid_reasons"].to_string().contains("--buffer"), "{json:#}");
}

#[test]
fn a_reader_that_goes_away_ends_the_capture() {
    let scratch = Scratch::new();
    let script =
        r#"("$1" capture null: -o - --quiet --json "$2/run.json"; echo $? > "$2/code") | head -c 100000 > "$2/out""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(program()).arg(scratch.path());
    run_command(command);
    assert_eq!(std::fs::read_to_string(scratch.file("code")).expect("an end"), "3\n");
    let json = std::fs::read_to_string(scratch.file("run.json")).expect("a summary");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_summary(&json);
    assert!(
        json["invalid_reasons"].to_string().contains("the reader has gone"),
        "{json:#}"
    );
}

#[test]
fn wrong_arguments_are_refused_in_one_line_that_names_them() {
    for (words, names) in [
        ("capture udp:127.0.0.1:9 -o /dev/null", "udp:127.0.0.1:9"),
        ("capture io_uring:127.0.0.1:9 -o /dev/null", "io_uring:127.0.0.1:9"),
        ("capture null:", "--output"),
        ("capture null: -o - --rotate-size 1MB", "--rotate-size"),
        ("capture null: -o /dev/null --rotate-size 1MB", "-o"),
        ("capture null: -o x --max-files 2", "--rotate-size"),
        ("capture null: -o x --rotate-size 1", "--rotate-size"),
        ("capture null: -o x --snap-len 0", "--snap-len"),
        ("capture null: -o x --buffer 1kB", "--buffer"),
        ("capture null: -o x --count 0", "--count"),
        ("capture null: -o x --proto ipx", "--proto"),
        ("capture null: -o x --proto arp --port 5", "--port"),
        ("capture null: -o x --csv x", "--csv"),
        ("capture null: -o - --json -", "--json"),
        ("capture null: -o /nonexistent/x", "/nonexistent/x"),
    ] {
        let finished = mpps_tests::run(words);
        assert_eq!(finished.code, Some(2), "{words}: {}", finished.stderr);
        assert_eq!(
            finished.stderr.trim_end().lines().count(),
            1,
            "{words}: {}",
            finished.stderr
        );
        assert!(finished.stderr.contains(names), "{words}: {}", finished.stderr);
    }
}
