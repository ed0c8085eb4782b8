//! Stamped packets that no sender of the run has sent: whatever number they bear, they make no loss, and are told.

use mpps_host::lab::Host;
use mpps_tests::{Background, Net, Report, Scratch, free_port, mpps, net_of, wait_until};
use rustix::process::Signal;
use std::net::UdpSocket;
use std::time::Duration;

/// Packets of the stream.
const STREAM: u64 = 900;

/// Packets, and how many of them are received at the least.
struct Case {
    packets: Vec<(u64, u64)>,
    rx: u64,
}

/// The stream with others before number `at`: number and send time, ns.
fn among(forged: impl IntoIterator<Item = (u64, u64)>, at: u64, rx: u64) -> Case {
    let time = |n| 1_000_000_000 + n * 1000;
    let mut packets: Vec<_> = (0..STREAM).map(|n| (n, time(n))).collect();
    let forged = forged.into_iter().map(|(seq, ns)| (seq, time(0) + ns));
    packets.splice(at as usize..at as usize, forged);
    Case { packets, rx }
}

/// The stream with one packet more.
fn stream(forged: (u64, u64), at: u64) -> Case {
    among([forged], at, STREAM - 1)
}

/// Forged packets: a restart, numbers ahead within a window's reach and beyond it, one behind, and as the first of all;
/// then one and many that are each a little ahead, with a time between the sender's, or after all of them.
fn cases() -> Vec<Case> {
    let chain = |ns| (1..=20).map(move |i| (599 + 63 * i, ns + i));
    vec![
        stream((300, 10_000_000), 600),
        stream((1199, 900_000), 898),
        stream((899_999_999, 600_500), 600),
        stream((0, u64::MAX / 2), 700),
        stream((50_000, 0), 0),
        among([(900, 599_500)], 600, STREAM + 1),
        among([(662, 599_500)], 600, STREAM + 1),
        among(chain(599_500), 600, STREAM + 20),
        among(chain(10_000_000), 600, STREAM + 16),
    ]
}

/// A datagram of 16 bytes: the stamp alone.
fn datagram((seq, time): (u64, u64)) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seq.to_le_bytes());
    bytes[8..].copy_from_slice(&time.to_le_bytes());
    bytes
}

/// Packets received so far, by the rows.
fn received(scratch: &Scratch) -> u64 {
    let text = std::fs::read_to_string(scratch.file("run.csv")).unwrap_or_default();
    let whole = &text[..text.rfind('\n').unwrap_or(0)];
    let cells = whole.lines().skip(1).filter_map(|row| row.split(',').nth(2));
    cells.filter_map(|cell| cell.parse::<u64>().ok()).sum()
}

/// The report says that nothing was lost, and that a packet was not believed.
fn assert_told(report: &Report, case: &Case, context: &str) {
    let context = format!("{context}: {:#}", report.json);
    assert_eq!(report.count("lost"), 0, "{context}");
    let rx = report.count("rx_packets");
    assert!((case.rx..=case.packets.len() as u64).contains(&rx), "{context}");
    assert_eq!(report.json["valid"], true, "{context}");
    let doubts = report.reason("implausible_sequence") + report.reason("sender_restarts");
    let warnings = report.json["warnings"].to_string();
    assert!(doubts > 0 && warnings.contains("forged"), "{context}");
}

#[test]
fn a_forged_packet_among_datagrams_makes_no_loss_and_is_told() {
    for (case, path) in cases().into_iter().zip(["udp", "io_uring"].into_iter().cycle()) {
        let (scratch, port) = (Scratch::new(), free_port());
        let words = format!("drop {path}:127.0.0.1:{port},rcvbuf=4M --quiet");
        let drop = Background::start(scratch.results(mpps(&words)));
        wait_until("a row", || scratch.rows_so_far() > 0);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for burst in case.packets.chunks(50) {
            for packet in burst {
                socket.send_to(&datagram(*packet), ("127.0.0.1", port)).expect("sent");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        wait_until("the stream", || received(&scratch) >= case.rx);
        assert_told(&scratch.read(drop.end(Signal::INT)), &case, path);
    }
}

/// Sends what stands in the file `sys.argv[1]`, a number and a time a line, from a port of its own.
const SENDER: &str = r#"
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i, line in enumerate(open(sys.argv[1])):
    s.sendto(struct.pack("<QQ", *map(int, line.split())), ("10.99.0.2", 9000))
    if i % 50 == 49: time.sleep(0.001)
"#;

/// The report of a receiver on host b; `None`, and said, without Python.
fn counted(net: &Net, port: &str, case: &Case) -> Option<Report> {
    let scratch = Scratch::new();
    let drop = Background::start(scratch.results(net.b(&format!("drop {port} --port 9000 --interval 20ms --quiet"))));
    wait_until("a row", || scratch.rows_so_far() > 0);
    let list = scratch.file("packets");
    let lines: String = case
        .packets
        .iter()
        .map(|(seq, time)| format!("{seq} {time}\n"))
        .collect();
    std::fs::write(&list, lines).expect("a list");
    if !net.python(Host::A, SENDER, &[&list.display().to_string()]) {
        return None;
    }
    wait_until("the stream", || received(&scratch) >= case.rx);
    Some(scratch.read(drop.end(Signal::INT)))
}

/// What a receiver told of one case: counts, and reasons.
type Told = ([u64; 3], [u64; 4]);

/// What was told of each case on a path; `None`, and said, where that can't be tried.
fn told_on(port: &str) -> Option<Vec<Told>> {
    let net = net_of(1)?;
    let told = |case: &Case| {
        let report = counted(&net, port, case)?;
        assert_told(&report, case, port);
        let reasons = [
            "implausible_sequence",
            "unconfirmed_gap",
            "contested_gap",
            "sender_restarts",
        ];
        let counts = ["rx_packets", "duplicates", "reordered"].map(|name| report.count(name));
        Some((counts, reasons.map(|name| report.reason(name))))
    };
    cases().iter().map(told).collect()
}

#[test]
fn a_forged_packet_among_frames_makes_no_loss_and_is_told_alike_on_each_path() {
    // Side by side, each in a lab of its own: most of the time they wait for a program to be loaded, and for rows.
    let told: Option<Vec<_>> = std::thread::scope(|scope| {
        let paths = PORTS.map(|port| scope.spawn(move || told_on(port)));
        let told = paths.map(|path| path.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        told.into_iter().collect()
    });
    let Some(told) = told else { return };
    for case in 0..cases().len() {
        let of_case: Vec<_> = told.iter().map(|path| path[case]).collect();
        assert!(
            of_case.windows(2).all(|pair| pair[0] == pair[1]),
            "case {case}: {of_case:?}"
        );
    }
}

/// Every path that counts by sequence number.
const PORTS: [&str; 4] = ["af_packet:eth1", "af_xdp:eth1", "xdp:eth1", "xdp:eth1,mode=skb"];
