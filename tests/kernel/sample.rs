//! `--sample-pcap`: one of every so many frames that a lane receives and sends is in the file, on every path, and what
//! is not there is counted.

use std::io::Read;
use std::path::Path;
use std::process::Command;

use mpps_tests::{
    Memif, Report, Scratch, all_back_by, assert_refused, joined_twice, listen_by, missing, mpps, net_of, no_dpdk,
    one_way, program, run_command, wait_until,
};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, pcapng};
use rustix::process::Signal;

/// `epb_flags` of a frame that arrived, and of one that left.
const IN: u32 = 1;
const OUT: u32 = 2;

/// A frame of a file.
#[derive(Clone, Debug)]
struct Sampled {
    interface: String,
    way: u32,
    time: u128,
    wire_len: u32,
    /// Without what stands in front of a payload that has no headers.
    bytes: Vec<u8>,
}

impl Sampled {
    /// Number of the test packet in its flow: the first 8 bytes of the UDP payload (`docs/wire-format.md`). `None` for
    /// another frame.
    fn seq(&self, payload: bool) -> Option<u64> {
        let at = if payload { 0 } else { 14 + 20 + 8 };
        let udp = payload || self.bytes.get(12..14) == Some(&[8, 0]) && self.bytes.get(23) == Some(&17);
        let number = self.bytes.get(at..at + 8).filter(|_| udp)?;
        Some(u64::from_le_bytes(number.try_into().expect("eight")))
    }
}

fn parse(bytes: &[u8]) -> Vec<Sampled> {
    let mut reader = PcapNgReader::new(bytes).expect("a section header");
    let (mut names, mut frames) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.expect("a whole block") {
            Block::InterfaceDescription(one) => {
                let name = one.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                });
                names.push((name.expect("a name"), one.linktype));
            }
            Block::EnhancedPacket(packet) => frames.push(frame(&packet, &names)),
            _ => {}
        }
    }
    assert!(frames.is_sorted_by_key(|frame| frame.time), "not in order of time");
    frames
}

fn frame(packet: &pcapng::blocks::enhanced_packet::EnhancedPacketBlock<'_>, names: &[(String, DataLink)]) -> Sampled {
    let way = packet.options.iter().find_map(|option| match option {
        EnhancedPacketOption::Flags(flags) => Some(*flags),
        _ => None,
    });
    let (interface, link) = &names[packet.interface_id as usize];
    let tags = if *link == DataLink::ETHERNET { 0 } else { 12 };
    Sampled {
        interface: interface.clone(),
        way: way.expect("a direction"),
        time: packet.timestamp.as_nanos(),
        wire_len: packet.original_len - tags,
        bytes: packet.data[tags as usize..].to_vec(),
    }
}

fn read(path: &Path) -> Vec<Sampled> {
    parse(&std::fs::read(path).expect("a file"))
}

fn of(frames: &[Sampled], way: u32) -> Vec<Sampled> {
    frames.iter().filter(|frame| frame.way == way).cloned().collect()
}

/// Every frame is in exactly one count, and one of `every` is kept. Returns the frames.
fn assert_sampled(report: &Report, file: &Path, every: u64) -> Vec<Sampled> {
    let json = &report.json;
    let count = |key: &str| report.count(&format!("/sample/{key}"));
    assert_eq!(report.count("/sample/every"), every);
    assert_eq!(json["sample"]["file"], file.to_str().expect("a plain path"));
    let dropped = count("dropped/ring_full") + count("dropped/write_error");
    assert_eq!(
        count("received") + count("sent"),
        count("written") + dropped,
        "{json:#}"
    );
    let lanes = json["lanes"].as_array().expect("lanes");
    let kept = |key: &str| {
        lanes
            .iter()
            .map(|lane| lane[key].as_u64().expect("a count").div_ceil(every))
            .sum::<u64>()
    };
    assert_eq!(count("received"), kept("rx_packets"), "{json:#}");
    // Answers to neighbours are sent, and are no test packets.
    let sent = kept("tx_packets");
    assert!((sent..sent + 5).contains(&count("sent")), "{sent}: {json:#}");
    let frames = read(file);
    assert_eq!(frames.len() as u64, count("written"));
    assert_eq!(std::fs::metadata(file).expect("a file").len(), count("written_bytes"));
    if dropped == 0 {
        assert_eq!(of(&frames, IN).len() as u64, count("received"));
        assert_eq!(of(&frames, OUT).len() as u64, count("sent"));
    }
    frames
}

/// Runs both ends with a sample of one of ten each, and looks at both files.
fn round_trip(mut reflect: Command, mut sendrecv: Command, payload: bool) {
    let scratch = Scratch::new();
    let (here, there) = (scratch.file("here.pcapng"), scratch.file("there.pcapng"));
    reflect.arg("--sample-pcap").arg(format!("{},n=10", there.display()));
    sendrecv.args([
        "--src-port-range",
        "10000",
        "--flows",
        "1",
        "--lanes",
        "1",
        "--rate",
        "10kpps",
    ]);
    sendrecv.arg("--sample-pcap").arg(format!("{},n=10", here.display()));
    let (what, (mut sent, reflected)) = (format!("{sendrecv:?}"), all_back_by(reflect, vec![sendrecv]));
    let sent = sent.remove(0);
    let all = assert_sampled(&sent, &here, 10);
    let left = of(&all, OUT);
    assert!(left.len() >= 10, "{what}: {} frames", left.len());
    // One lane, one flow: each tenth packet, whatever bursts they left in. A few answers to neighbours may be between.
    let numbers: Vec<_> = left.iter().filter_map(|frame| frame.seq(payload)).collect();
    let others = numbers.windows(2).filter(|two| two[1] - two[0] != 10).count();
    assert!(numbers.len() >= 10 && others < 5, "{what}: {numbers:?}");
    // Frames that came back have left as they came, with addresses exchanged; payloads are the same.
    let came = of(&all, IN);
    assert!(came.len() >= 10, "{what}: {} frames", came.len());
    for sent in &left {
        let same = |back: &&Sampled| back.seq(payload).is_some() && back.seq(payload) == sent.seq(payload);
        let Some(back) = came.iter().find(same) else { continue };
        assert_eq!(back.wire_len, sent.wire_len);
        let from = if payload { 0 } else { 42 };
        assert_eq!(back.bytes[from..], sent.bytes[from..], "{what}");
        if !payload {
            assert_eq!(back.bytes[..6], sent.bytes[6..12], "{what}: MAC addresses exchanged");
        }
        assert!(back.time > sent.time, "{what}: {back:?} {sent:?}");
    }
    let all = assert_sampled(&reflected, &there, 10);
    assert!(
        of(&all, IN).len() >= 10 && of(&all, OUT).len() >= 10,
        "{what}: {}",
        all.len()
    );
}

#[test]
fn every_nth_frame_of_both_ends_is_in_the_file_on_every_path() {
    let Some(net) = net_of(1) else { return };
    for path in ["af_packet", "af_xdp"] {
        let sendrecv = format!("sendrecv {path}:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000");
        round_trip(net.b(&format!("reflect {path}:eth1")), net.a(&sendrecv), false);
    }
    for path in ["udp", "io_uring"] {
        let sendrecv = format!("sendrecv {path}:10.99.0.1 --dest 10.99.0.2:9000");
        round_trip(net.b(&format!("reflect {path}:10.99.0.2:9000")), net.a(&sendrecv), true);
    }
}

#[test]
fn every_nth_frame_of_both_ends_is_in_the_file_over_dpdk() {
    if no_dpdk() {
        return;
    }
    let memif = Memif::new();
    round_trip(
        mpps(&format!("reflect {} --ip 10.99.0.2", memif.server(0))),
        mpps(&format!(
            "sendrecv {} --src 10.99.0.1 --dest 10.99.0.2:9000",
            memif.client()
        )),
        false,
    );
}

#[test]
fn one_way_the_sender_keeps_what_it_sends_and_the_receiver_what_it_receives() {
    let Some(net) = net_of(1) else { return };
    let scratch = Scratch::new();
    let (here, there) = (scratch.file("here.pcapng"), scratch.file("there.pcapng"));
    let (sent, received) = one_way(
        &net,
        &format!(
            "drop af_packet:eth1 --ip 10.99.0.2 --sample-pcap {},n=7",
            there.display()
        ),
        &format!(
            "send af_packet:eth1 --dest 10.99.0.2:9000 --rate 5kpps --frame-size 512 --sample-pcap {},n=7,snap=64",
            here.display()
        ),
    );
    let left = of(&assert_sampled(&sent, &here, 7), OUT);
    assert!(!left.is_empty());
    assert!(
        left.iter()
            .all(|frame| frame.bytes.len() <= 64 && frame.interface == "eth1")
    );
    assert!(
        left.iter()
            .any(|frame| frame.wire_len == 508 && frame.bytes.len() == 64)
    );
    let came = assert_sampled(&received, &there, 7);
    assert!(
        came.iter()
            .any(|frame| frame.wire_len == 508 && frame.bytes.len() == 508)
    );
    if !missing("tshark", "tshark") {
        let mut command = Command::new("tshark");
        command
            .arg("-r")
            .arg(&here)
            .args(["-T", "fields", "-e", "frame.len", "-e", "frame.interface_name"]);
        let finished = run_command(command);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        assert_eq!(
            finished.stdout.lines().filter(|line| *line == "508\teth1").count(),
            left.iter().filter(|frame| frame.wire_len == 508).count()
        );
    }
}

#[test]
fn frames_between_two_ports_say_which_port_and_which_way() {
    let Some(net) = joined_twice() else { return };
    let scratch = Scratch::new();
    let (here, there) = (scratch.file("here.pcapng"), scratch.file("there.pcapng"));
    let listening = Scratch::new();
    let words = format!(
        "forward af_packet:eth1 af_packet:eth2 --take all --sample-pcap {},n=5",
        there.display()
    );
    let forwarder = listen_by(&listening, net.b(&words));
    let report = Scratch::new().measure(net.a(&format!(
        "sendrecv af_packet:eth1 af_packet:eth2 --both-ways --rate 2kpps --duration 500ms --catch-up 10s --settle 1s \
         --quiet --sample-pcap {},n=5",
        here.display()
    )));
    let ends = listening.read(forwarder.end(Signal::INT));
    for (frames, what) in [
        (assert_sampled(&report, &here, 5), "sendrecv"),
        (assert_sampled(&ends, &there, 5), "forward"),
    ] {
        for interface in ["eth1", "eth2"] {
            for way in [IN, OUT] {
                let some = frames
                    .iter()
                    .filter(|frame| frame.interface == interface && frame.way == way)
                    .count();
                assert!(some >= 10, "{what}: {some} frames of {interface}, way {way}");
            }
        }
    }
}

#[test]
fn a_file_that_is_written_more_slowly_than_frames_come_costs_frames_that_are_counted_and_no_packet() {
    if missing("mkfifo", "coreutils") {
        return;
    }
    let scratch = Scratch::new();
    let fifo = scratch.file("fifo");
    let made = run_command({
        let mut command = Command::new("mkfifo");
        command.arg(&fifo);
        command
    });
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let mut command = mpps("drop null: --no-verify");
    command.arg("--sample-pcap").arg(format!("{},n=1", fifo.display()));
    // Nobody reads the FIFO: 4 MiB of the ring hold some 50,000 frames.
    let run = listen_by(&scratch, command);
    wait_until("more frames than the ring holds", || {
        scratch.received_so_far() > 200_000
    });
    let (begun, begins) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; 4];
        let mut file = std::fs::File::open(fifo).expect("a writer");
        file.read_exact(&mut bytes).expect("a file's first bytes");
        begun.send(()).expect("somebody waits");
        file.read_to_end(&mut bytes).expect("the rest");
        bytes
    });
    begins.recv().expect("a reader");
    let report = scratch.read(run.end(Signal::INT));
    let frames = parse(&reader.join().expect("a reader"));
    let count = |key: &str| report.count(&format!("/sample/{key}"));
    assert_eq!(frames.len() as u64, count("written"), "{:#}", report.json);
    assert!(count("dropped/ring_full") > 0, "{:#}", report.json);
    assert_eq!(
        count("received"),
        count("written") + count("dropped/ring_full"),
        "{:#}",
        report.json
    );
    assert_eq!(report.finished.code, Some(0), "{:#}", report.json);
    let warnings = report.json["warnings"].to_string();
    assert!(
        warnings.contains("--sample-pcap") && warnings.contains("larger n="),
        "{warnings}"
    );
}

#[test]
fn a_pipe_is_read_while_the_run_goes_on_and_a_reader_that_has_seen_enough_ends_nothing() {
    if missing("tcpdump", "tcpdump") {
        return;
    }
    let script = "\"$0\" sendrecv loop: --rate 2kpps --duration 500ms --catch-up 10s --sample-pcap -,n=10 2>\"$1\" | \
                  tcpdump -n -r - -c 5 2>&1; cat \"$1\"";
    let scratch = Scratch::new();
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(program()).arg(scratch.file("told"));
    let finished = run_command(command);
    let context = format!("{}{}", finished.stdout, finished.stderr);
    assert_eq!(finished.stdout.matches(" UDP, ").count(), 5, "{context}");
    assert!(finished.stdout.contains("VALID  sendrecv"), "{context}");
    assert!(!finished.stdout.contains("mpps: sample-pcap"), "{context}");
}

#[test]
fn where_there_are_no_frames_or_no_place_for_them_it_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.file("x.pcapng");
    let with = |words: &str, value: &str| {
        let mut command = mpps(words);
        command.arg("--sample-pcap").arg(value);
        command
    };
    let plain = file.to_str().expect("a plain path");
    for words in [
        "send xdp:lo --dest 127.0.0.1:9 --dest-mac 02:00:00:00:00:01",
        "drop xdp:lo",
        "reflect xdp:lo",
        "forward xdp:lo",
    ] {
        assert_refused(
            with(words, plain),
            2,
            &["--sample-pcap", "xdp:lo", "frames stay in the kernel"],
        );
    }
    let capture = format!("capture null: -o {plain}2");
    assert_refused(with(&capture, plain), 2, &["--sample-pcap", "want it left out"]);
    assert_refused(with("ndr loop:", plain), 2, &["--sample-pcap", "sendrecv"]);
    assert_refused(
        with("send null:", &format!("{plain},n=0")),
        2,
        &["--sample-pcap", "FILE,n=N"],
    );
    assert_refused(
        with("send null:", "/nonexistent/x"),
        2,
        &["--sample-pcap", "/nonexistent/x"],
    );
    let twice = format!("send null: --csv {plain}");
    assert_refused(with(&twice, plain), 2, &["--csv and --sample-pcap", plain]);
    assert!(!file.exists(), "a run that did not begin leaves no file");
    // The folder is right.
    let ran = run_command(with(
        "send null: --duration 100ms --quiet",
        &format!("{plain},n=100000"),
    ));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!read(&file).is_empty());
}
