//! `forward`, `drop` and `capture` on af_xdp: each use that other AF_XDP programs ship as a sample, and millions of
//! frames of every size that arrive bit for bit as they must.

use std::io::Write;
use std::time::{Duration, Instant};

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Frames, NOBODY, Net, Passed, Report, STRANGER, Scratch, Way, arrived, exchange, mac_of, macs, missing,
    net_of, run_command, wait_until, way,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::process::Signal;

/// Frames each way of the tests that look for the right behaviour, not for the rare fault.
const SOME: u64 = 20_000;
/// Frames under way at once: fewer than the rings hold.
const WINDOW: u64 = 192;
/// How long frames are sent at the most.
const LIMIT: Duration = Duration::from_secs(20);

/// Two hosts with two links between them, eth1 and eth2, and no chatter of their own on either.
fn two_links(queues: u32) -> Option<Net> {
    let net = net_of(queues)?;
    for host in [Host::A, Host::B] {
        let quiet = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 net.ipv4.ip_forward=0";
        net.on(host, &format!("sysctl -qw {quiet}"));
    }
    let (b, shape) = (
        net.lab.namespace(Host::B),
        format!("numrxqueues {queues} numtxqueues {queues}"),
    );
    net.on(
        Host::A,
        &format!("ip link add eth2 {shape} type veth peer name eth2 netns {b} {shape}"),
    );
    for host in [Host::A, Host::B] {
        net.on(host, "ip link set eth2 up");
    }
    Some(net)
}

/// Starts a listener on host b with its results in `scratch`, and waits until it runs.
fn start(net: &Net, scratch: &Scratch, words: &str) -> Background {
    let listener = Background::start(scratch.results(net.b(&format!("{words} --quiet"))));
    wait_until("a row of the listener", || scratch.rows_so_far() > 0);
    listener
}

/// Both ways between eth1 and eth2, on so many queues.
fn both_ways(queues: u32) -> Vec<Way> {
    (0..queues)
        .flat_map(|queue| [way("eth1", "eth2", queue), way("eth2", "eth1", queue)])
        .collect()
}

/// What passed, and how many frames the links themselves had no room for.
struct Ran {
    passed: Vec<Passed>,
    dropped_by_links: u64,
}

fn run(net: &Net, ways: Vec<Way>, frames: u64) -> Ran {
    run_for(net, ways, frames, WINDOW, LIMIT)
}

fn run_for(net: &Net, ways: Vec<Way>, frames: u64, window: u64, limit: Duration) -> Ran {
    let before = dropped_by_links(net);
    let passed = exchange(net.lab.namespace(Host::A), ways, frames, window, limit);
    let dropped_by_links = dropped_by_links(net) - before;
    Ran {
        passed,
        dropped_by_links,
    }
}

/// Frames that the links themselves had no room for, by all four devices' counters.
fn dropped_by_links(net: &Net) -> u64 {
    let count = |host, device: &str| {
        let text = net
            .on(host, &format!("cat /sys/class/net/{device}/statistics/tx_dropped"))
            .stdout;
        text.trim().parse::<u64>().expect("a number")
    };
    [
        (Host::A, "eth1"),
        (Host::A, "eth2"),
        (Host::B, "eth1"),
        (Host::B, "eth2"),
    ]
    .map(|(host, device)| count(host, device))
    .iter()
    .sum()
}

/// Ends the forwarder, which accounts for every frame: those that passed, and those that were lost on the way.
fn accounted(forwarder: Background, scratch: &Scratch, ran: &Ran) -> Report {
    let Ran {
        passed,
        dropped_by_links: links,
    } = ran;
    let report = scratch.read(forwarder.end(Signal::INT));
    report.assert_rows_add_up();
    let context = format!("{passed:?} {:#}", report.json);
    let sum = |of: fn(&Passed) -> u64| passed.iter().map(of).sum::<u64>();
    assert!(passed.iter().all(|p| p.received > 0), "{context}");
    let reasons = report.json["reasons"].as_object().expect("reasons").values();
    let given_up: u64 = reasons.map(|n| n.as_u64().expect("a count")).sum();
    assert_eq!(
        report.count("rx_packets"),
        report.count("tx_packets") + given_up,
        "{context}"
    );
    let counted = given_up + report.lanes("rx_dropped") + sum(|p| p.dropped) + links;
    assert_eq!(
        sum(|p| p.lost),
        counted,
        "lost, and not counted ({links} by the links): {context}"
    );
    assert_eq!(sum(|p| p.sent), sum(|p| p.received) + sum(|p| p.lost), "{context}");
    report
}

/// Everything came through.
fn assert_whole(ran: &Ran, frames: u64) {
    for way in &ran.passed {
        assert_eq!((way.sent, way.received), (frames, frames), "{:?}", ran.passed);
    }
}

#[test]
fn l2fwd_on_one_link_sends_frames_back_with_their_addresses_swapped() {
    let Some(net) = two_links(1) else { return };
    for words in ["", "--mode io", "--split-directions"] {
        if words == "--split-directions" {
            // Makes sense between two ports only.
            let finished = run_command(net.b(&format!("forward af_xdp:eth1 {words}")));
            assert_eq!(finished.code, Some(2), "{}", finished.stderr);
            continue;
        }
        let scratch = Scratch::new();
        let forwarder = start(&net, &scratch, &format!("forward af_xdp:eth1 {words}"));
        let mut back = way("eth1", "eth1", 0);
        if words.is_empty() {
            back.arrives = macs(STRANGER, NOBODY);
        }
        let passed = run(&net, vec![back], SOME);
        accounted(forwarder, &scratch, &passed);
        assert_whole(&passed, SOME);
    }
}

#[test]
fn l2fwd_on_two_links_forwards_both_ways_untouched_or_with_new_addresses() {
    let Some(net) = two_links(1) else { return };
    let scratch = Scratch::new();
    let forwarder = start(&net, &scratch, "forward af_xdp:eth1 af_xdp:eth2");
    let passed = run(&net, both_ways(1), SOME);
    let report = accounted(forwarder, &scratch, &passed);
    assert_whole(&passed, SOME);
    for port in 0..2 {
        assert_eq!(
            report.count(&format!("/ports/{port}/rx_packets")),
            SOME,
            "{:#}",
            report.json
        );
        assert_eq!(
            report.count(&format!("/ports/{port}/tx_packets")),
            SOME,
            "{:#}",
            report.json
        );
    }

    let scratch = Scratch::new();
    let words = "--mode l2fwd --dest-mac 02:00:00:00:00:a1,02:00:00:00:00:a2";
    let forwarder = start(&net, &scratch, &format!("forward af_xdp:eth1 af_xdp:eth2 {words}"));
    let mut ways = both_ways(1);
    ways[0].arrives = macs([2, 0, 0, 0, 0, 0xa2], mac_of(&net, Host::B, "eth2"));
    ways[1].arrives = macs([2, 0, 0, 0, 0, 0xa1], mac_of(&net, Host::B, "eth1"));
    let passed = run(&net, ways, SOME);
    accounted(forwarder, &scratch, &passed);
    assert_whole(&passed, SOME);
}

#[test]
fn l2fwd_on_several_cores_keeps_every_queue_and_direction_in_order() {
    let Some(net) = two_links(2) else { return };
    for words in [
        "",
        "--lanes 2",
        "--split-directions",
        "--split-directions --lanes 2",
        "--mode macswap --lanes 2",
    ] {
        let scratch = Scratch::new();
        let forwarder = start(&net, &scratch, &format!("forward af_xdp:eth1 af_xdp:eth2 {words}"));
        let mut ways = both_ways(2);
        if words.contains("macswap") {
            ways.iter_mut().for_each(|way| way.arrives = macs(STRANGER, NOBODY));
        }
        let passed = run(&net, ways, SOME / 2);
        let report = accounted(forwarder, &scratch, &passed);
        assert_whole(&passed, SOME / 2);
        let lanes = report.json["lanes"].as_array().expect("lanes");
        let busy = lanes
            .iter()
            .filter(|lane| lane["rx_packets"].as_u64() > Some(0))
            .count();
        assert_eq!(busy, lanes.len(), "{words}: {:#}", report.json);
        let ratio = |lane: &serde_json::Value| lane["busy_ratio"].as_f64().expect("a ratio");
        assert!(
            lanes.iter().all(|lane| ratio(lane) > 0.0 && ratio(lane) <= 1.0),
            "{:#}",
            report.json
        );
    }
}

#[test]
fn frames_pass_between_paths_with_the_same_bytes() {
    let Some(net) = two_links(1) else { return };
    for words in [
        "af_xdp:eth1 af_packet:eth2",
        "af_packet:eth1 af_xdp:eth2",
        "af_xdp:eth1,mode=skb af_xdp:eth2,mode=copy",
    ] {
        let scratch = Scratch::new();
        let forwarder = start(&net, &scratch, &format!("forward {words}"));
        let passed = run(&net, both_ways(1), SOME / 4);
        accounted(forwarder, &scratch, &passed);
        assert_whole(&passed, SOME / 4);
    }
}

#[test]
fn a_forwarder_that_swaps_all_addresses_is_a_reflector() {
    let Some(net) = two_links(1) else { return };
    let scratch = Scratch::new();
    let forwarder = start(&net, &scratch, "forward af_xdp:eth1 --mode 5tswap --port 9000");
    let mac = Host::B.mac();
    let words = "sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.99:9000 --rate 10kpps --duration 300ms --quiet";
    let sent = Scratch::new().measure(net.a(&format!("{words} --dest-mac {mac}")));
    sent.assert_accounted();
    assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{:#}", sent.json);
    let report = scratch.read(forwarder.end(Signal::INT));
    assert_eq!(
        report.count("tx_packets"),
        sent.count("tx_packets"),
        "{:#}",
        report.json
    );
}

#[test]
fn rxdrop_counts_every_frame_though_it_looks_at_none() {
    let Some(net) = two_links(1) else { return };
    let scratch = Scratch::new();
    let receiver = start(&net, &scratch, "drop af_xdp:eth1 --port 9000 --no-verify");
    let words = "send af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 50kpps --duration 400ms --quiet";
    let sent = Scratch::new().measure(net.a(words)).count("tx_packets");
    arrived(&scratch, sent);
    let report = scratch.read(receiver.end(Signal::INT));
    report.assert_rows_add_up();
    let received = report.count("rx_packets");
    assert_eq!(received + report.lanes("rx_dropped"), sent, "{:#}", report.json);
    assert!(received > 0, "{:#}", report.json);
}

#[test]
fn dump_writes_every_frame_whole_to_a_file_that_other_programs_read() {
    let Some(net) = two_links(1) else { return };
    let scratch = Scratch::new();
    let path = scratch.file("a.pcapng");
    let capture = start(
        &net,
        &scratch,
        &format!("capture af_xdp:eth1,rx_time=on -o {}", path.display()),
    );
    const FRAMES: u64 = 1000;
    let one_way = Way {
        to: None,
        ..way("eth1", "eth1", 0)
    };
    let passed = run(&net, vec![one_way.clone()], FRAMES);
    assert_eq!(passed.passed[0].sent, FRAMES);
    let size = || std::fs::metadata(&path).map_or(0, |m| m.len());
    wait_until("the frames in the file", || size() >= FRAMES * 64);
    let mut last = 0;
    wait_until("the end of its growth", || {
        std::mem::replace(&mut last, size()) == size()
    });
    let report = scratch.read(capture.end(Signal::TERM));
    assert_eq!(report.count("/capture/written"), FRAMES, "{:#}", report.json);
    assert_eq!(report.finished.code, Some(0), "{}", report.said());
    let file = std::fs::read(&path).expect("a file");
    let mut reader = PcapNgReader::new(&file[..]).expect("a pcapng file");
    let (frames, mut next, mut time) = (Frames::default(), 0, Duration::ZERO);
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a whole block") {
            assert_eq!(
                frames.number(&packet.data, &one_way.sent, 0),
                Some(next),
                "a frame of ours, in order"
            );
            assert!(packet.timestamp >= time);
            (next, time) = (next + 1, packet.timestamp);
        }
    }
    assert_eq!(next, FRAMES);
    if !missing("tshark", "tshark") {
        let mut command = std::process::Command::new("tshark");
        command.arg("-r").arg(&path).args(["-T", "fields", "-e", "frame.len"]);
        assert_eq!(run_command(command).stdout.lines().count() as u64, FRAMES);
    }
}

/// `MPPS_TEST_FRAMES` frames in all; as many as pass in some seconds where it is not set.
#[test]
fn millions_of_frames_of_every_size_arrive_bit_for_bit_both_ways_at_once() {
    let Some(net) = two_links(1) else { return };
    let wanted = std::env::var("MPPS_TEST_FRAMES")
        .ok()
        .map(|n| n.parse::<u64>().expect("MPPS_TEST_FRAMES: a number"));
    let (frames, limit) = match wanted {
        Some(all) => (all.div_ceil(2), Duration::from_secs(3600)),
        None => (u64::MAX, Duration::from_secs(8)),
    };
    let scratch = Scratch::new();
    let forwarder = start(&net, &scratch, "forward af_xdp:eth1 af_xdp:eth2");
    let began = Instant::now();
    let passed = run_for(&net, both_ways(1), frames, 4 * WINDOW, limit);
    let took = began.elapsed();
    let report = accounted(forwarder, &scratch, &passed);
    let passed = &passed.passed;
    let sum = |of: fn(&Passed) -> u64| passed.iter().map(of).sum::<u64>();
    println!(
        "{} frames ({} MB) sent, {} received and the same, {} lost and counted, in {:.1} s; mean burst {}",
        sum(|p| p.sent),
        sum(|p| p.bytes) / 1_000_000,
        sum(|p| p.received),
        sum(|p| p.lost),
        took.as_secs_f64(),
        report.json["lanes"][0]["mean_burst"],
    );
    if wanted.is_some() {
        assert!(passed.iter().all(|p| p.sent == frames), "{passed:?}");
    }
}

/// Says, should a wait be in vain, what the forwarder, its threads and its links were doing: once, in hundreds of runs,
/// it forwarded nothing after it had been stopped, and it is not known why.
struct Telling<'a> {
    net: &'a Net,
    scratch: &'a Scratch,
    process: u32,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        // Not by `println!`, which a test that ends in the middle of a panic would keep to itself.
        let say = |text: &str| drop(std::io::stderr().write_all(text.as_bytes()));
        say(&read(self.scratch.file("run.csv")));
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.process));
        for thread in threads.into_iter().flatten().flatten() {
            let [status, wchan, syscall] = ["status", "wchan", "syscall"].map(|file| read(thread.path().join(file)));
            say(&format!("{status}{wchan}\n{syscall}"));
        }
        for host in [Host::B, Host::A] {
            // A panic within a panic would end all tests of this file.
            let links = || self.net.on(host, "ip -s -s link show").stdout;
            say(&std::panic::catch_unwind(std::panic::AssertUnwindSafe(links)).unwrap_or_default());
        }
    }
}

#[test]
fn frames_that_are_too_many_are_lost_where_that_is_counted_and_nowhere_else() {
    let Some(net) = two_links(1) else { return };
    let scratch = Scratch::new();
    // Rings so small that bursts of the sender's overflow them.
    let forwarder = start(
        &net,
        &scratch,
        "forward af_xdp:eth1,ring=64,fill=64 af_xdp:eth2,ring=64,fill=64",
    );
    forwarder.signal(Signal::STOP);
    let one_way = Way {
        to: None,
        ..way("eth1", "eth2", 0)
    };
    let sent = run(&net, vec![one_way], 1000).passed[0].sent;
    forwarder.signal(Signal::CONT);
    let telling = Telling {
        net: &net,
        scratch: &scratch,
        process: forwarder.id(),
    };
    wait_until("frames", || scratch.busy_rows() > 0);
    drop(telling);
    let report = scratch.read(forwarder.end(Signal::INT));
    report.assert_rows_add_up();
    let (passed, dropped) = (report.count("tx_packets"), report.lanes("rx_dropped"));
    assert!(passed > 0 && dropped > 0, "{:#}", report.json);
    assert_eq!(passed + dropped, sent, "{:#}", report.json);
    assert!(report.said().contains("dropped"), "{}", report.said());

    // And both ways at once, with so many under way that somebody's ring is full.
    let scratch = Scratch::new();
    let forwarder = start(
        &net,
        &scratch,
        "forward af_xdp:eth1,ring=64,fill=64 af_xdp:eth2,ring=64,fill=64",
    );
    let ran = run_for(&net, both_ways(1), 5 * SOME, 3000, LIMIT);
    accounted(forwarder, &scratch, &ran);
}
