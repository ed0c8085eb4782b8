//! Garbage, truncated and hostile frames on the wire: counted by reason, answered by nothing, survived by both ends.

use mpps_host::lab::Host;
use mpps_tests::{Background, Net, Scratch, arrived, missing, net_of, run_command, wait_until};
use rustix::process::Signal;

/// Sends frames of each kind from `eth1` through a raw socket; `sys.argv`: MAC address and last byte of the IPv4
/// address of the target, number of frames of each kind.
const SENDER: &str = r#"
import random, socket, struct, sys
mac, last, n = bytes.fromhex(sys.argv[1].replace(":", "")), int(sys.argv[2]), int(sys.argv[3])
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(("eth1", 0))
me = link.getsockname()[4]
random.seed(7)
def checksum(b):
    s = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    while s >> 16: s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff
def ip(payload, proto=17, flags=0, options=b"", length=None, version=4):
    words = 5 + len(options) // 4
    length = len(payload) + words * 4 if length is None else length
    head = struct.pack("!BBHHHBBH4s4s", version << 4 | words, 0, length, 1, flags, 64, proto, 0,
                       bytes([10, 99, 0, 1]), bytes([10, 99, 0, last])) + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload
def udp(data, port=9000, length=None):
    return struct.pack("!HHHH", 4444, port, len(data) + 8 if length is None else length, 0) + data
def send(packet, kind=0x0800, dest=mac):
    link.send(dest + me + struct.pack("!H", kind) + packet)
data = bytes(40)
for _ in range(n):
    send(ip(udp(data), flags=0x2000))                       # first fragment
    send(ip(udp(data), flags=0x0010))                       # later fragment
    send(bytes(60), kind=0x88cc)                            # not IP
    send(ip(udp(data))[:30])                                # shorter than its own length
    send(ip(udp(data), length=1400))                        # longer than the frame
    send(b"\x4f" + bytes(10))                               # a header that promises options and ends
    send(ip(udp(data, length=4)))                           # UDP length below its header
    send(ip(udp(data, length=9000)))                        # UDP length beyond the packet
    send(ip(bytes(40), proto=6))                            # not UDP
    send(ip(udp(data), version=7))                          # neither version
    send(ip(udp(data, port=9999)))                          # another port
    send(ip(udp(data, port=9000), options=b"\x83\x07\x04\x0a\x63\x00\x09\x00"))  # source route
    send(b"\x60" + bytes(50), kind=0x86dd)                  # an IPv6 header cut short or senseless
    send(struct.pack("!HHBBH", 1, 0x0800, 6, 4, 7) + bytes(20), kind=0x0806)     # an ARP that is neither
    send(bytes.fromhex("8100") * 20, kind=0x8100)           # tags upon tags
for size in list(range(14, 120)) + [1000, 1514]:
    link.send((mac + me + bytes(random.getrandbits(8) for _ in range(1500)))[:size])
    link.send((mac + me + b"\x08\x00\x45" + bytes(random.getrandbits(8) for _ in range(1500)))[:size])
    link.send((mac + me + b"\x86\xdd\x60" + bytes(random.getrandbits(8) for _ in range(1500)))[:size])
"#;

const EACH: u64 = 20;

/// Sends every kind of frame from host a to the given address on host b.
fn assault(net: &Net, last_byte: &str) {
    net.python(Host::A, SENDER, &[Host::B.mac(), last_byte, &EACH.to_string()]);
}

fn listen(net: &Net, scratch: &Scratch, words: &str) -> Background {
    let listener = Background::start(scratch.results(net.b(&format!("{words} --quiet"))));
    wait_until("a row of the listener", || scratch.rows_so_far() > 0);
    listener
}

#[test]
fn a_reflector_counts_what_it_leaves_by_reason_and_goes_on_reflecting() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let (here, there) = (Scratch::new(), Scratch::new());
    let reflector = listen(&net, &there, "reflect af_packet:eth1 --ip 10.99.0.88 --port 9000");
    assault(&net, "88");
    let words = "sendrecv af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.88:9000 --rate 10kpps --duration 300ms \
                 --settle 500ms --quiet";
    let sent = here.measure(net.a(words));
    // Host a's own stack, which owns no port 9000, did not see what came back.
    let reflected = there.read(reflector.end(Signal::INT));
    sent.assert_accounted();
    reflected.assert_rows_add_up();
    assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{:#}", sent.json);
    assert_eq!(
        reflected.count("rx_packets"),
        sent.count("tx_packets"),
        "{:#}",
        reflected.json
    );
    for (reason, least) in [
        ("fragment", 2 * EACH),
        ("not_ip", EACH),
        ("too_short", 2 * EACH),
        ("bad_udp_length", 2 * EACH),
        ("not_udp", EACH),
        ("wrong_port", EACH),
        ("source_routed", EACH),
        ("bad_ip_header", EACH),
    ] {
        assert!(reflected.reason(reason) >= least, "{reason}: {:#}", reflected.json);
    }
}

#[test]
fn a_receiver_counts_strangers_as_foreign_and_loses_nothing_of_its_own() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let (here, there) = (Scratch::new(), Scratch::new());
    let receiver = listen(&net, &there, "drop af_packet:eth1 --ip 10.99.0.88 --port 9000");
    let words = "send af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.88:9000 --rate 10kpps --duration 500ms --quiet";
    let sender = Background::start(here.results(net.a(words)));
    wait_until("packets", || there.busy_rows() > 0);
    assault(&net, "88");
    let sent = here.read(sender.finish());
    sent.assert_accounted();
    arrived(&there, sent.count("tx_packets"));
    let received = there.read(receiver.end(Signal::INT));
    received.assert_rows_add_up();
    assert_eq!(
        received.count("rx_packets"),
        sent.count("tx_packets"),
        "{:#} {:#}",
        sent.json,
        received.json
    );
    assert_eq!(
        received.count("lost") + received.count("duplicates"),
        0,
        "{:#}",
        received.json
    );
    assert!(received.count("foreign") >= 2 * EACH, "{:#}", received.json);
    assert!(received.reason("foreign_wrong_port") >= EACH, "{:#}", received.json);
}

/// Sends datagrams to the test's own source ports, as any stranger can; `sys.argv`: target address.
const STRANGER: &str = r#"
import os, socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.99.0.2", 9000))
for port in range(10000, 10064):
    for data in [b"", b"x", bytes(15), bytes(16), bytes(18), os.urandom(18),
                 struct.pack("<QQ", 2**64 - 1, 1) + bytes(2),
                 struct.pack("<QQ", 5, 2**64 - 1) + bytes(2), os.urandom(1400)]:
        s.sendto(data, (sys.argv[1], port))
"#;

#[test]
fn forged_answers_are_no_packets_of_the_test() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    for (sendrecv, ports) in [("udp:10.99.0.1", 1_u64), ("af_packet:eth1 --src 10.99.0.1", 64)] {
        let here = Scratch::new();
        // The reflector does not own port 9000 as a socket, so the stranger can pose as it.
        let reflector = Background::ready(net.b("reflect af_packet:eth1 --port 9000"));
        let words =
            format!("sendrecv {sendrecv} --dest 10.99.0.2:9000 --rate 10kpps --duration 1h --settle 2s --quiet");
        let sender = Background::start(here.results(net.a(&words)));
        wait_until("packets", || here.busy_rows() > 0);
        net.python(Host::B, STRANGER, &["10.99.0.1"]);
        let rows = here.busy_rows();
        wait_until("more rows", || here.busy_rows() >= rows + 2);
        let sent = here.read(sender.end(Signal::INT));
        drop(reflector);
        sent.assert_accounted();
        let context = format!("{sendrecv}: {:#}", sent.json);
        assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{context}");
        assert_eq!(sent.count("duplicates") + sent.count("lost"), 0, "{context}");
        assert!(sent.count("foreign") + sent.count("corrupt") >= 5 * ports, "{context}");
    }
}

#[test]
fn a_name_that_turns_the_direction_of_writing_is_escaped_wherever_it_is_shown() {
    let Some(net) = net_of(1) else { return };
    for (name, hidden) in [
        ("ev\u{202e}il", '\u{202e}'),
        ("a\u{2066}b\u{2069}", '\u{2066}'),
        ("r\u{200f}l", '\u{200f}'),
        ("w\u{202d}x\u{202c}", '\u{202d}'),
    ] {
        net.on(Host::A, &format!("ip link add {name} type veth peer name away"));
        net.on(Host::A, "ip link set away up");
        net.on(Host::A, &format!("ip link set {name} up"));
        let scratch = Scratch::new();
        let mut send = net.a(&format!(
            "send af_packet:{name} --src 192.0.2.1 --dest 192.0.2.2:9 --dest-mac 02:00:00:00:00:09 --rate 100pps \
             --duration 200ms --settle 10ms --catch-up 5s --plain --verbose"
        ));
        for kind in ["json", "json-lines", "junit", "markdown", "prom", "csv"] {
            send.arg(format!("--{kind}")).arg(scratch.file(kind));
        }
        let sent = run_command(send);
        assert!(matches!(sent.code, Some(0 | 3)), "{name:?}: {}", sent.stderr);
        let json: serde_json::Value = {
            let text = std::fs::read_to_string(scratch.file("json")).expect("a summary");
            serde_json::from_str(&text).expect("JSON")
        };
        assert_eq!(json["plan"]["ports"][0], format!("af_packet:{name}"), "the name itself");
        let mut texts: Vec<(String, String)> = std::fs::read_dir(scratch.path())
            .expect("our folder")
            .flatten()
            .map(|entry| {
                (
                    format!("{entry:?}"),
                    std::fs::read_to_string(entry.path()).expect("text"),
                )
            })
            .collect();
        assert!(texts.len() >= 6, "{texts:?}");
        texts.push(("send".to_owned(), format!("{}{}", sent.stdout, sent.stderr)));
        let wrong = format!("{name}q");
        for words in [
            format!("doctor {name}"),
            "doctor --json".to_owned(),
            format!("send af_packet:{wrong} --src 192.0.2.1 --dest 192.0.2.2:9"),
            format!("send af_packet:{name},nonesuch=1 --src 192.0.2.1 --dest 192.0.2.2:9"),
            format!("reflect af_packet:{name} --duration 100ms --plain"),
            format!("send af_packet:{name} --src 192.0.2.1 --dest 192.0.2.2:9 --print-plan"),
        ] {
            let finished = run_command(net.a(&words));
            texts.push((words, format!("{}{}", finished.stdout, finished.stderr)));
        }
        for (what, text) in &texts {
            assert!(!text.contains(hidden), "{what}: {text:?}");
        }
        let shown = |of: &str| {
            texts
                .iter()
                .any(|(what, text)| what.contains(of) && text.contains("\\u"))
        };
        assert!(shown("doctor --json") && shown("nonesuch"), "{texts:?}");
        net.on(Host::A, "ip link delete away");
    }
}
