//! The dpdk path between two ends: over each virtual device that reaches another process, with every path at the other
//! end, and the host's own questions answered.

use std::path::Path;

use mpps_host::lab::Host;
use mpps_tests::{
    Bridge, Memif, Net, Report, Scratch, all_back, all_back_by, all_there, all_there_by, inside, listen_by, missing,
    mpps, net_of, no_dpdk, run_command, skip, wait_until,
};
use rustix::process::Signal;

const SEND: &str = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps";

/// Receive and send rings that hold what comes while a lane is kept from its core.
const AF_PACKET: &str = "dpdk:net_af_packet0,iface=eth1,framecnt=2048";

/// A lab whose hosts let their stacks do nothing on the way that DPDK's drivers can't make good: checksums that are
/// left open, and frames that no poll loop takes from a peer's XDP program.
fn lab() -> Option<Net> {
    if no_dpdk() || missing("ethtool", "ethtool") {
        return None;
    }
    let net = net_of(1)?;
    for host in [Host::A, Host::B] {
        net.on(host, "ethtool -K eth1 tx off gro on");
    }
    Some(net)
}

fn fact(report: &Report, name: &str, value: &str) {
    assert_eq!(report.json["host"][name], value, "{:#}", report.json["host"]);
}

#[test]
fn two_processes_joined_by_shared_memory_lose_no_packet() {
    if no_dpdk() {
        return;
    }
    for (reflect, send) in [
        ("--ip 10.99.0.2", SEND),
        (
            "--ip fd99::2",
            "--src fd99::1 --dest [fd99::2]:9000 --rate 20kpps --payload-size 300",
        ),
        (
            "--ip 10.99.0.2 --lanes 2",
            "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps --lanes 2",
        ),
        (
            "--burst 1",
            &format!("{SEND} --dest-mac 02:00:00:00:00:02 --burst 1 --vlan 7"),
        ),
    ] {
        let memif = Memif::new();
        let reflect = mpps(&format!("reflect {} {reflect}", memif.server(0)));
        // One sender after the other for the same reflector.
        let sendrecv = || mpps(&format!("sendrecv {} {send}", memif.client()));
        let (sent, reflected) = all_back_by(reflect, vec![sendrecv(), sendrecv()]);
        for report in sent.iter().chain([&reflected]) {
            fact(report, "path", "dpdk");
            fact(report, "driver", "net_memif");
            assert_eq!(report.count("foreign"), 0, "{:#}", report.json);
        }
        fact(&sent[0], "source_address", "answered by mpps");
        assert!(sent[0].count("/latency_ns/min") > 0, "{:#}", sent[0].json);
        let lanes = send.contains("--lanes 2");
        for lane in reflected.json["lanes"].as_array().expect("lanes") {
            assert!(lane["rx_packets"].as_u64() > Some(0), "{lane:#}");
            assert!(lane["empty_polls"].as_u64() > Some(0), "{lane:#}");
            assert!(lane["rx_mean_burst"].as_f64() >= Some(1.0), "{lane:#}");
            let busy = lane["busy_ratio"].as_f64().expect("a ratio");
            assert!(busy > 0.0 && busy < 1.0, "{lane:#}");
        }
        if lanes {
            let spread = reflected.json["host"]["rx_spread_percent"].as_str().expect("a spread");
            let shares: Vec<f64> = spread.split(' ').map(|n| n.parse().expect("a number")).collect();
            assert_eq!(shares.len(), 2, "{spread}");
            assert!((shares.iter().sum::<f64>() - 100.0).abs() < 0.2, "{spread}");
        }
    }
}

/// One reflector and one sender over a memif, with lanes of different number.
fn assert_all_back(reflect: &str, sendrecv: &str) {
    if no_dpdk() {
        return;
    }
    let memif = Memif::new();
    let there = mpps(&format!("reflect {} --ip 10.99.0.2 {reflect}", memif.server(0)));
    let here = mpps(&format!("sendrecv {} {SEND} {sendrecv}", memif.client()));
    all_back_by(there, vec![here]);
}

#[test]
fn a_lane_that_sends_and_one_that_receives_are_one_queue_to_the_other_end() {
    assert_all_back("--lanes 1", "--tx-lanes 1 --rx-lanes 1");
}

#[test]
fn a_server_with_more_lanes_than_its_client_has_each_packet_once() {
    // DPDK's driver gives packets of the first queue to the others, too; it is not asked.
    assert_all_back("--lanes 2", "--lanes 1");
}

#[test]
fn a_memif_by_a_file_works_and_the_file_goes_with_the_run() {
    if no_dpdk() {
        return;
    }
    let memif = Memif::new();
    let file = |port: String| format!("{port},socket-abstract=no,rsize=8");
    let reflect = mpps(&format!("reflect {} --ip 10.99.0.2", file(memif.server(0))));
    let sendrecv = mpps(&format!("sendrecv {} {SEND}", file(memif.client())));
    all_back_by(reflect, vec![sendrecv]);
    assert!(!Path::new(&memif.name()).exists(), "the socket is still there");
}

#[test]
fn what_is_sent_one_way_over_shared_memory_is_received_whole() {
    if no_dpdk() {
        return;
    }
    for (lanes, payload) in [("", 18), ("--lanes 2", 1400)] {
        let memif = Memif::new();
        let drop = mpps(&format!("drop {} --ip 10.99.0.2 {lanes}", memif.server(0)));
        let send = mpps(&format!(
            "send {} {SEND} {lanes} --payload-size {payload}",
            memif.client()
        ));
        let (sent, received) = all_there_by(drop, send);
        assert_eq!(
            received.count("/latency_ns/count"),
            sent.count("tx_packets"),
            "{:#}",
            received.json
        );
    }
}

#[test]
fn packet_sockets_and_af_xdp_sockets_of_dpdk_bring_every_packet_back_over_both_families() {
    let Some(net) = lab() else { return };
    for (port, lanes) in [
        (AF_PACKET.to_owned(), ""),
        (format!("{AF_PACKET},qpairs=2"), "--lanes 2"),
        ("dpdk:net_af_xdp0,iface=eth1".to_owned(), ""),
    ] {
        for (src, ip, dest) in [
            ("10.99.0.101", "10.99.0.102", "10.99.0.102"),
            ("fd99::101", "fd99::102", "[fd99::102]"),
        ] {
            let there = format!("reflect {port} --ip {ip} {lanes}");
            if port.contains("af_xdp") && refused_here(&net, &there) {
                continue;
            }
            let here = format!("sendrecv {port} --src {src} --dest {dest}:9000 --rate 10kpps {lanes}");
            let (sent, reflected) = all_back(&net, &there, &[&here]);
            let name = port.trim_start_matches("dpdk:").split('0').next().expect("a name");
            fact(&sent[0], "driver", name);
            fact(&reflected, "driver", name);
            // Packets and what else passed: the neighbours' questions.
            assert!(sent[0].path_counter("dpdk_opackets") >= sent[0].count("tx_packets"));
        }
    }
}

/// True, and said, where the kernel or the driver can't do this here.
fn refused_here(net: &Net, words: &str) -> bool {
    let finished = run_command(net.b(&format!("{words} --duration 1ms --quiet")));
    let refused = matches!(finished.code, Some(1 | 2));
    if refused {
        skip(&finished.stderr);
    }
    refused
}

#[test]
fn two_taps_on_a_bridge_bring_every_packet_back_over_both_families() {
    if no_dpdk() {
        return;
    }
    for (src, ip, dest) in [
        ("10.99.1.1", "10.99.1.2", "10.99.1.2"),
        ("fd98::1", "fd98::2", "[fd98::2]"),
    ] {
        let Some(net) = net_of(1) else { return };
        if !Path::new("/dev/net/tun").exists() {
            return skip("there is no /dev/net/tun");
        }
        let bridge = Bridge::new(&net);
        let (here, there) = (Scratch::new(), Scratch::new());
        let reflect = net.b(&format!("reflect dpdk:net_tap0,iface=tap0 --ip {ip} --quiet"));
        let reflector = bridge.join("tap0", "02:00:00:00:00:a0", there.results(reflect));
        wait_until("a row of the reflector", || there.rows_so_far() > 0);
        // No more packets than a tap holds (500): a reflector that a busy host keeps from its core loses none.
        let words = format!("sendrecv dpdk:net_tap0,iface=tap1 --src {src} --dest {dest}:9000 --rate 2kpps");
        let sendrecv = net.b(&format!("{words} --duration 200ms --settle 10s --settle-early --quiet"));
        let sender = bridge.join("tap1", "02:00:00:00:00:a1", here.results(sendrecv));
        let sent = here.read(sender.finish());
        let reflected = there.read(reflector.end(Signal::INT));
        sent.assert_accounted();
        reflected.assert_rows_add_up();
        let context = format!("{:#} {:#}", sent.json, reflected.json);
        assert!(sent.count("tx_packets") > 0, "{context}");
        assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{context}");
        for count in ["rx_packets", "tx_packets"] {
            assert_eq!(reflected.count(count), sent.count("tx_packets"), "{context}");
        }
        let left = run_command(inside(&net.lab, Host::B, "ip -br link"));
        assert!(!left.stdout.contains("tap"), "{}", left.stdout);
    }
}

#[test]
fn every_path_of_the_kernels_can_be_the_other_end() {
    let Some(net) = lab() else { return };
    let dpdk = format!("{AF_PACKET} --src 10.99.0.101");
    for there in [
        "udp:10.99.0.2:9000",
        "af_packet:eth1",
        "af_xdp:eth1",
        "xdp:eth1",
        "af_packet:eth1 --ip 10.99.0.2 --lanes 2",
    ] {
        let sendrecv = format!("sendrecv {dpdk} --dest 10.99.0.2:9000 --rate 10kpps");
        all_back(&net, &format!("reflect {there}"), &[&sendrecv]);
    }
    let here = [
        "udp:10.99.0.1",
        "af_packet:eth1 --src 10.99.0.1",
        "af_xdp:eth1 --src 10.99.0.1",
        "xdp:eth1 --src 10.99.0.1",
    ];
    let words: Vec<_> = here
        .iter()
        .map(|port| format!("sendrecv {port} --dest 10.99.0.102:9000 --rate 5kpps"))
        .collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    all_back(&net, &format!("reflect {AF_PACKET} --ip 10.99.0.102"), &words);
    let udp6 = "sendrecv udp:[fd99::1] --dest [fd99::102]:9000 --rate 5kpps";
    all_back(&net, &format!("reflect {AF_PACKET} --ip fd99::102"), &[udp6]);
    let send = format!("send {dpdk} --dest 10.99.0.2:9000 --rate 10kpps");
    all_there(&net, "drop af_xdp:eth1 --port 9000", &send);
    let send = "send af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.102:9000 --rate 10kpps";
    all_there(&net, &format!("drop {AF_PACKET} --ip 10.99.0.102"), send);
}

/// Asks `sys.argv[1]` for twenty echoes of different lengths and compares each.
const PING: &str = r#"
import socket, struct, sys
target = sys.argv[1]
six = ":" in target
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_RAW, 58 if six else 1)
s.settimeout(20)
request, reply = (128, 129) if six else (8, 0)
def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff
for i in range(20):
    data = bytes(range(7 * i, 7 * i + 50 + i))
    head = lambda c: struct.pack("!BBHHH", request, 0, c, 0x4242, i)
    s.sendto(head(0 if six else checksum(head(0) + data)) + data, (target, 0))
    while True:
        answer = s.recv(2000)[0 if six else 20:]
        if answer[0] == reply and answer[4:8] == struct.pack("!HH", 0x4242, i): break
    if answer[8:] != data: sys.exit("echo %d: other bytes" % i)
    if not six and checksum(answer): sys.exit("echo %d: wrong checksum" % i)
"#;

#[test]
fn a_host_that_pings_an_address_of_mppss_gets_every_answer() {
    let Some(net) = lab() else { return };
    let addresses = [("10.99.0.102", "10.99.1.2"), ("fd99::102", "fd98::2")];
    for (on_socket, on_tap) in addresses {
        let there = Scratch::new();
        let reflector = listen_by(&there, net.b(&format!("reflect {AF_PACKET} --ip {on_socket}")));
        if !net.python(Host::A, PING, &[on_socket]) {
            return;
        }
        drop(reflector);
        let there = Scratch::new();
        let reflector = listen_by(&there, net.b(&format!("drop dpdk:net_tap0,iface=tap0 --ip {on_tap}")));
        net.on(Host::B, "ip addr add 10.99.1.1/24 dev tap0");
        net.on(Host::B, "ip addr add fd98::1/64 dev tap0 nodad");
        assert!(net.python(Host::B, PING, &[on_tap]));
        drop(reflector);
    }
}
