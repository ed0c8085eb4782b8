//! `forward` on dpdk ports: between two, on one, on three, in each mode, beside a port of the kernel's, with frames
//! held or not; every frame is counted at the port where it came in and at the one where it left.

use std::time::Duration;

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Memif, NOBODY, Net, Report, STRANGER, Scratch, Way, exchange, listen_by, mac_of, macs, mpps, net_of,
    no_dpdk, wait_until, way,
};
use rustix::process::Signal;

/// No address is asked for, so nothing passes but the packets. They fit into a memif's ring (1024): on a busy host a
/// lane that catches up sends all of them at once.
const SEND: &str = "--src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:00:00:00:00:02 --rate 5kpps --duration 200ms \
                    --settle 500ms --catch-up 1s --quiet";

/// A port of a forwarder that is the server of a memif.
fn ports(memifs: &[Memif]) -> String {
    let ports: Vec<_> = memifs.iter().enumerate().map(|(i, memif)| memif.server(i)).collect();
    ports.join(" ")
}

/// Sends by one memif and expects every packet back by it.
fn all_back(memif: &Memif, words: &str) -> u64 {
    let report = Scratch::new().measure(mpps(&format!("sendrecv {} {words}", memif.client())));
    report.assert_accounted();
    let tx = report.count("tx_packets");
    let counts = ["rx_packets", "lost", "foreign", "duplicates", "corrupt"].map(|key| report.count(key));
    assert!(tx > 0, "{:#}", report.json);
    assert_eq!(counts, [tx, 0, 0, 0, 0], "{:#}", report.json);
    tx
}

/// What the forwarder counted when all that was sent has passed: at each port, received and sent.
fn ended(forwarder: Background, scratch: &Scratch) -> (Report, Vec<[u64; 2]>) {
    let rows = scratch.rows_so_far();
    wait_until("two more rows", || scratch.rows_so_far() >= rows + 2);
    let report = scratch.read(forwarder.end(Signal::INT));
    report.assert_rows_add_up();
    let count = |port: &serde_json::Value, key: &str| port[key].as_u64().expect("a count");
    let ports = report.json["ports"].as_array().expect("ports");
    let counts = ports
        .iter()
        .map(|port| [count(port, "rx_packets"), count(port, "tx_packets")])
        .collect();
    (report, counts)
}

/// From one memif to the other and back.
fn assert_there_and_back(options: &str, traffic: &str) {
    let memifs = [Memif::new(), Memif::new()];
    let (scratch, there) = (Scratch::new(), Scratch::new());
    let forwarder = listen_by(&scratch, mpps(&format!("forward {} {options}", ports(&memifs))));
    let reflector = listen_by(&there, mpps(&format!("reflect {}", memifs[1].client())));
    let tx = all_back(&memifs[0], &format!("{SEND} {traffic}"));
    let (report, counts) = ended(forwarder, &scratch);
    assert_eq!(counts, [[tx, tx]; 2], "{options}: {:#}", report.json);
    let reflected = there.read(reflector.end(Signal::INT));
    assert_eq!(reflected.count("rx_packets"), tx, "{options}: {:#}", reflected.json);
}

#[test]
fn between_two_memifs_each_mode_brings_every_packet_there_and_back() {
    if no_dpdk() {
        return;
    }
    for (options, traffic) in [
        ("", ""),
        ("--mode macswap", ""),
        ("--mode 5tswap", ""),
        ("--mode l2fwd --dest-mac 02:00:00:00:00:a1,02:00:00:00:00:a2", ""),
        ("--drain 1ms", "--payload-size 1000"),
        ("--drain 100us", "--burst 1"),
    ] {
        assert_there_and_back(options, traffic);
    }
}

#[test]
fn a_lane_for_each_direction_brings_every_packet_there_and_back() {
    if !no_dpdk() {
        assert_there_and_back("--split-directions", "");
    }
}

#[test]
fn one_port_to_itself_is_a_reflector_with_5tswap_and_sends_all_back_with_macswap() {
    if no_dpdk() {
        return;
    }
    for options in ["--mode 5tswap", "--mode 5tswap --drain 500us", ""] {
        let (memif, scratch) = (Memif::new(), Scratch::new());
        let forwarder = listen_by(&scratch, mpps(&format!("forward {} {options}", memif.server(0))));
        let tx = if options.is_empty() {
            let report = Scratch::new().measure(mpps(&format!("sendrecv {} {SEND}", memif.client())));
            report.assert_accounted();
            // From here to there still: nobody's answer.
            let tx = report.count("tx_packets");
            assert!(tx > 0, "{:#}", report.json);
            assert_eq!(
                ["foreign", "lost"].map(|key| report.count(key)),
                [tx; 2],
                "{:#}",
                report.json
            );
            tx
        } else {
            all_back(&memif, SEND)
        };
        let (report, counts) = ended(forwarder, &scratch);
        assert_eq!(counts, [[tx, tx]], "{options}: {:#}", report.json);
    }
}

#[test]
fn of_three_ports_the_third_sends_back_to_where_it_came_from() {
    if no_dpdk() {
        return;
    }
    let memifs = [Memif::new(), Memif::new(), Memif::new()];
    let (scratch, there) = (Scratch::new(), Scratch::new());
    let forwarder = listen_by(&scratch, mpps(&format!("forward {} --mode 5tswap", ports(&memifs))));
    let _reflector = listen_by(&there, mpps(&format!("reflect {}", memifs[1].client())));
    let pair = all_back(&memifs[0], SEND);
    let odd = all_back(&memifs[2], SEND);
    let (report, counts) = ended(forwarder, &scratch);
    assert_eq!(counts, [[pair; 2], [pair; 2], [odd; 2]], "{:#}", report.json);
}

/// Frames each way of those that are compared byte by byte, and how many are under way at once.
const FRAMES: u64 = 5_000;
const WINDOW: u64 = 128;
const LIMIT: Duration = Duration::from_secs(30);

/// Two hosts with two links between them, eth1 and eth2, and no chatter of their own on either.
fn two_links() -> Option<Net> {
    if no_dpdk() {
        return None;
    }
    let net = net_of(1)?;
    for host in [Host::A, Host::B] {
        let quiet = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 net.ipv4.ip_forward=0";
        net.on(host, &format!("sysctl -qw {quiet}"));
    }
    let b = net.lab.namespace(Host::B);
    net.on(Host::A, &format!("ip link add eth2 type veth peer name eth2 netns {b}"));
    for host in [Host::A, Host::B] {
        net.on(host, "ip link set eth2 up");
    }
    Some(net)
}

/// Forwards on host b, and checks that every frame came through as it must and was counted at its port.
fn assert_forwarded(net: &Net, words: &str, ways: Vec<Way>) {
    let scratch = Scratch::new();
    let forwarder = listen_by(&scratch, net.b(&format!("forward {words}")));
    let count = ways.len();
    let passed = exchange(net.lab.namespace(Host::A), ways, FRAMES, WINDOW, LIMIT);
    let (report, counts) = ended(forwarder, &scratch);
    for way in &passed {
        let got = (way.sent, way.received);
        assert_eq!(got, (FRAMES, FRAMES), "{words}: {passed:?} {:#}", report.json);
    }
    assert_eq!(counts, vec![[FRAMES; 2]; count], "{words}: {:#}", report.json);
}

fn dpdk(number: u32, options: &str) -> String {
    format!("dpdk:net_af_packet{number},iface=eth{}{options}", number + 1)
}

fn both_ways() -> Vec<Way> {
    vec![way("eth1", "eth2", 0), way("eth2", "eth1", 0)]
}

#[test]
fn frames_of_every_size_pass_between_dpdk_ports_bit_for_bit() {
    let Some(net) = two_links() else { return };
    let pair = format!("{} {}", dpdk(0, ""), dpdk(1, ""));
    for options in ["", "--drain 500us"] {
        assert_forwarded(&net, &format!("{pair} {options}"), both_ways());
    }
    let mut swapped = both_ways();
    swapped.iter_mut().for_each(|way| way.arrives = macs(STRANGER, NOBODY));
    assert_forwarded(&net, &format!("{pair} --mode macswap"), swapped.clone());
    // No IP, so nothing but MAC addresses to swap.
    assert_forwarded(&net, &format!("{pair} --mode 5tswap"), swapped);
    let mut rewritten = both_ways();
    rewritten[0].arrives = macs([2, 0, 0, 0, 0, 0xa2], mac_of(&net, Host::B, "eth2"));
    rewritten[1].arrives = macs([2, 0, 0, 0, 0, 0xa1], mac_of(&net, Host::B, "eth1"));
    let l2fwd = "--mode l2fwd --dest-mac 02:00:00:00:00:a1,02:00:00:00:00:a2 --drain 100us";
    assert_forwarded(&net, &format!("{pair} {l2fwd}"), rewritten);
}

#[test]
fn a_lane_for_each_direction_needs_no_second_queue() {
    let Some(net) = two_links() else { return };
    let pair = format!("{} {}", dpdk(0, ""), dpdk(1, ""));
    assert_forwarded(&net, &format!("{pair} --split-directions --burst 8"), both_ways());
}

#[test]
fn frames_pass_between_a_dpdk_port_and_one_of_the_kernels_with_the_same_bytes() {
    let Some(net) = two_links() else { return };
    for words in [
        format!("{} af_packet:eth2", dpdk(0, "")),
        format!("af_packet:eth1 {}", dpdk(1, "")),
        format!("{} af_xdp:eth2 --drain 500us", dpdk(0, "")),
        format!("af_xdp:eth1 {}", dpdk(1, ",framecnt=1024")),
    ] {
        assert_forwarded(&net, &words, both_ways());
    }
}

#[test]
fn one_dpdk_port_swaps_mac_addresses_and_nothing_else() {
    let Some(net) = two_links() else { return };
    let mut back = way("eth1", "eth1", 0);
    back.arrives = macs(STRANGER, NOBODY);
    for options in ["", "--drain 500us"] {
        assert_forwarded(&net, &format!("{} {options}", dpdk(0, "")), vec![back.clone()]);
    }
}
