//! Merged frames (GSO, TSO, GRO) on `af_packet`: datagrams that a sender's kernel put into one frame, which no device
//! has split. Each is counted, sent back or forwarded as the packet that it is, and a capture keeps frames whole.

use std::process::Command;

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Net, Report, Scratch, all_back, all_there, arrived, listen, mac_of, missing, net_of, one_way,
    wait_until,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::process::Signal;

/// Runs of datagrams that the kernel takes as one, at a rate that a busy host keeps up with.
const RUNS: &str = "--pacing burst=32 --rate 10kpps --duration 300ms --catch-up 10s";

/// The receiver has seen merged frames, or the test shows nothing.
fn assert_merged(report: &Report) {
    assert!(report.path_counter("rx_merged") > 0, "{:#}", report.json);
    assert_eq!(report.path_counter("rx_unsplit"), 0, "{:#}", report.json);
    assert_eq!(report.path_counter("rx_cut"), 0, "{:#}", report.json);
}

fn on(net: &Net, host: Host, words: &str) {
    let finished = net.on(host, words);
    assert_eq!(finished.code, Some(0), "{words}: {}", finished.stderr);
}

#[test]
fn a_receiver_counts_each_datagram_of_merged_frames() {
    let Some(net) = net_of(1) else { return };
    for (path, dest) in [
        ("udp", "10.99.0.2:9000"),
        ("udp", "[fd99::2]:9000"),
        ("io_uring", "10.99.0.2:9000"),
    ] {
        // In a slot of the ring, longer than one, and of datagrams that are few.
        for size in [18, 400, 1400] {
            let send = format!("send {path}:,gso=on --dest {dest} --payload-size {size} {RUNS}").replace(":,", ":");
            let (_, received) = all_there(&net, "drop af_packet:eth1", &send);
            assert_merged(&received);
            assert!(received.count("foreign") < 10, "{send}: {:#}", received.json);
        }
    }
}

#[test]
fn a_reflector_sends_each_datagram_of_merged_frames_back() {
    let Some(net) = net_of(1) else { return };
    for (src, dest) in [("10.99.0.1", "10.99.0.2:9000"), ("[fd99::1]", "[fd99::2]:9000")] {
        let send = |size: u32| format!("sendrecv udp:{src},gso=on --dest {dest} --payload-size {size} {RUNS}");
        let (_, reflected) = all_back(&net, "reflect af_packet:eth1", &[&send(18), &send(1000)]);
        assert_merged(&reflected);
    }
}

#[test]
fn a_sender_counts_each_answer_that_comes_merged() {
    let Some(net) = net_of(1) else { return };
    for (reflector, dest) in [
        ("udp:10.99.0.2:9000", "10.99.0.2:9000"),
        ("udp:[fd99::2]:9000", "[fd99::2]:9000"),
    ] {
        let reflect = format!("reflect {reflector},gso=on,gro=on");
        let send = |size: u32| format!("sendrecv af_packet:eth1 --flows 1 --dest {dest} --payload-size {size} {RUNS}");
        let (sent, _) = all_back(&net, &reflect, &[&send(30), &send(1100)]);
        let merged: u64 = sent.iter().map(|report| report.path_counter("rx_merged")).sum();
        assert!(merged > 0, "no answer was merged: {:#}", sent[0].json);
    }
}

/// Sends merged frames to a MAC address as a packet socket can: FRAMES of COUNT datagrams of SIZE bytes, the last half
/// as long, behind so many VLAN tags.
const SENDER: &str = r"
import socket, struct, sys
SOL_PACKET, PACKET_VNET_HDR, GSO_UDP_L4, NEEDS_CSUM = 263, 15, 5, 1
to = bytes.fromhex(sys.argv[1].replace(':', ''))
tags, size, count, frames = map(int, sys.argv[2:])
def folded(sum):
    while sum >> 16: sum = (sum & 0xffff) + (sum >> 16)
    return sum
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
s.bind(('eth1', 0))
l3, udp = 14 + 4 * tags, 8 + size * count - size // 2
ends = bytes([10, 99, 0, 1, 10, 99, 0, 2])
ip = struct.pack('>BBHHHBBH', 0x45, 0, 20 + udp, 7, 0, 64, 17, 0) + ends
ip = ip[:10] + struct.pack('>H', ~folded(sum(struct.unpack('>10H', ip))) & 0xffff) + ends
pseudo = folded(sum(struct.unpack('>4H', ends)) + 17 + udp)
frame = to + bytes([2, 0, 0, 0, 0, 9]) + b'\x81\x00\x00\x05' * tags + b'\x08\x00' + ip
frame += struct.pack('>HHHH', 4000, 9000, udp, pseudo) + bytes(udp - 8)
for i in range(frames):
    s.send(struct.pack('=BBHHHH', NEEDS_CSUM, GSO_UDP_L4, l3 + 28, size, l3 + 20, 6) + frame)
";

#[test]
fn merged_frames_are_split_behind_a_vlan_tag_and_with_a_last_datagram_that_is_shorter() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let mac = mac_of(&net, Host::B, "eth1")
        .map(|byte| format!("{byte:02x}"))
        .join(":");
    for tags in ["0", "1"] {
        for size in ["20", "500", "1400"] {
            let there = Scratch::new();
            let receiver = listen(&net, &there, "drop af_packet:eth1 --no-verify");
            assert!(net.python(Host::A, SENDER, &[&mac, tags, size, "9", "50"]));
            arrived(&there, 450);
            let report = there.read(receiver.end(Signal::INT));
            let context = format!("{tags} tags, {size} bytes: {:#}", report.json);
            let counts = ["rx_packets", "corrupt", "lost"].map(|key| report.count(key));
            assert_eq!(counts, [450, 0, 0], "{context}");
            assert_eq!(report.path_counter("rx_merged"), 50, "{context}");
        }
    }
}

#[test]
fn merged_frames_that_can_not_be_split_are_counted_as_dropped_and_named() {
    let Some(net) = net_of(1) else { return };
    // The receiver's buffers are for its own MTU.
    on(&net, Host::A, "ip link set eth1 mtu 9000");
    let send = format!("send udp:10.99.0.1,gso=on --dest 10.99.0.2:9000 --payload-size 4000 {RUNS}");
    let (sent, received) = one_way(&net, "drop af_packet:eth1", &send);
    let context = format!("{:#} {:#}", sent.json, received.json);
    let (unsplit, dropped) = (received.path_counter("rx_unsplit"), received.lanes("rx_dropped"));
    assert!(
        unsplit > 0 && dropped >= unsplit && dropped <= sent.count("tx_packets"),
        "{context}"
    );
    assert_eq!(
        [received.count("rx_packets"), received.count("corrupt")],
        [0, 0],
        "{context}"
    );
    let warnings = received.json["warnings"].to_string();
    assert!(
        warnings.contains("merged frames") && warnings.contains("ethtool -K"),
        "{context}"
    );
}

/// Length of each packet in the file, and on the wire.
fn lengths(scratch: &Scratch) -> Vec<(usize, usize)> {
    let bytes = std::fs::read(scratch.file("a.pcapng")).unwrap_or_default();
    let Ok(mut reader) = PcapNgReader::new(&bytes[..]) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    while let Some(Ok(block)) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block {
            all.push((packet.data.len(), packet.original_len as usize));
        }
    }
    all
}

/// What a capture on host b has of UDP that host a sends meanwhile: its report, and the lengths of the packets.
fn captured(net: &Net, meanwhile: impl FnOnce(), send: Command, bytes: usize) -> (Report, Report, Vec<(usize, usize)>) {
    let there = Scratch::new();
    let mut capture = there.results(net.b("capture af_packet:eth1 --quiet --proto udp --interval 20ms"));
    capture.arg("-o").arg(there.file("a.pcapng"));
    let capture = Background::start(capture);
    wait_until("a row of the capture", || there.rows_so_far() > 0);
    meanwhile();
    let sent = Scratch::new().measure(send);
    let all = sent.count("tx_packets") as usize;
    wait_until("what was sent in the file", || {
        let payload: usize = lengths(&there).iter().map(|(_, wire)| wire - 42).sum();
        payload >= all * bytes
    });
    let report = there.read(capture.end(Signal::INT));
    (sent, report, lengths(&there))
}

#[test]
fn a_capture_keeps_merged_frames_whole() {
    let Some(net) = net_of(1) else { return };
    for bytes in [200, 1400] {
        let words = format!("send udp:10.99.0.1,gso=on --dest 10.99.0.2:9000 --payload-size {bytes} {RUNS} --quiet");
        let (sent, report, packets) = captured(&net, || (), net.a(&words), bytes);
        let context = format!("{packets:?} {:#}", report.json);
        assert!(
            packets.iter().any(|(_, wire)| *wire > 1514),
            "none was merged: {context}"
        );
        assert!(packets.iter().all(|(kept, wire)| kept == wire), "{context}");
        let payload: usize = packets.iter().map(|(kept, _)| kept - 42).sum();
        assert_eq!(payload, sent.count("tx_packets") as usize * bytes, "{context}");
        assert_eq!(report.path_counter("rx_cut"), 0, "{context}");
        assert_eq!(report.json["valid"], true, "{context}");
    }
}

#[test]
fn a_capture_keeps_frames_whole_when_the_mtu_is_raised_meanwhile() {
    let Some(net) = net_of(1) else { return };
    let raise = || {
        on(&net, Host::A, "ip link set eth1 mtu 9000");
        on(&net, Host::B, "ip link set eth1 mtu 9000");
    };
    let words = "send udp:10.99.0.1 --dest 10.99.0.2:9000 --payload-size 8000 --rate 500pps --duration 200ms --quiet";
    // The sender starts when the MTU is raised: its command is only made here.
    let (sent, report, packets) = captured(&net, raise, net.a(words), 8000);
    let context = format!("{packets:?} {:#}", report.json);
    let long = packets.iter().filter(|packet| **packet == (8042, 8042)).count();
    assert_eq!(long as u64, sent.count("tx_packets"), "{context}");
    assert_eq!(report.json["valid"], true, "{context}");
}

#[test]
fn a_long_frame_that_finds_no_memory_is_cut_and_said() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let there = Scratch::new();
    let mut capture = there.results(net.b("capture af_packet:eth1 --quiet --interval 20ms --count 100000"));
    capture.arg("-o").arg(there.file("a.pcapng"));
    let capture = Background::start(capture);
    wait_until("a row of the capture", || there.rows_so_far() > 0);
    // A lane that does not run takes nothing out of the queue.
    capture.signal(Signal::STOP);
    let mac = mac_of(&net, Host::B, "eth1")
        .map(|byte| format!("{byte:02x}"))
        .join(":");
    assert!(net.python(Host::A, SENDER, &[&mac, "0", "1400", "46", "3000"]));
    capture.signal(Signal::CONT);
    wait_until("packets in the file", || lengths(&there).len() > 400);
    let report = there.read(capture.end(Signal::INT));
    let (cut, context) = (report.path_counter("rx_cut"), format!("{:#}", report.json));
    let of_file = lengths(&there).iter().filter(|(kept, wire)| kept < wire).count();
    // What the writer had no room for is counted by itself.
    assert!(of_file > 0 && of_file as u64 <= cut, "{of_file} {context}");
    assert_eq!(report.json["valid"], false, "{context}");
    let reasons = report.json["invalid_reasons"].to_string();
    assert!(
        reasons.contains("without their ends") && reasons.contains("ethtool -K eth1 gro off"),
        "{context}"
    );
}
