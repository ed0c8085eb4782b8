//! `forward` on more than two ports: they form pairs in their order, an odd last one sends back, and each frame arrives
//! where it must, bit for bit, held for a while or not.

use std::time::Duration;

use mpps_host::lab::Host;
use mpps_tests::{
    Background, NOBODY, Net, STRANGER, Scratch, Way, exchange, mac_of, macs, net_of, run, wait_until, way,
};
use rustix::process::Signal;

/// Frames each way.
const FRAMES: u64 = 5_000;
/// Frames under way at once: fewer than any ring holds.
const WINDOW: u64 = 128;
/// How long frames are sent at the most.
const LIMIT: Duration = Duration::from_secs(30);
const DEVICES: [&str; 4] = ["eth1", "eth2", "eth3", "eth4"];

/// Two hosts with so many links between them, and no chatter of their own on any.
fn links(count: usize) -> Option<Net> {
    let net = net_of(1)?;
    for host in [Host::A, Host::B] {
        let quiet = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 net.ipv4.ip_forward=0";
        net.on(host, &format!("sysctl -qw {quiet}"));
    }
    let b = net.lab.namespace(Host::B);
    for device in &DEVICES[1..count] {
        let add = format!("ip link add {device} type veth peer name {device} netns {b}");
        net.on(Host::A, &add);
        for host in [Host::A, Host::B] {
            net.on(host, &format!("ip link set {device} up"));
        }
    }
    Some(net)
}

/// The ways of the first so many links: between the two of each pair, and back on an odd one.
fn ways(count: usize) -> Vec<Way> {
    let to = |i: usize| if i ^ 1 < count { i ^ 1 } else { i };
    (0..count).map(|i| way(DEVICES[i], DEVICES[to(i)], 0)).collect()
}

/// Forwards on host b as these words say, and checks that all came through and was counted at its port.
fn assert_forwarded(net: &Net, path: &str, options: &str, ways: Vec<Way>) {
    let ports: Vec<_> = ways.iter().map(|way| format!("{path}:{}", way.from.device)).collect();
    let words = format!("forward {} {options} --quiet", ports.join(" "));
    let scratch = Scratch::new();
    let forwarder = Background::start(scratch.results(net.b(&words)));
    wait_until("a row of the forwarder", || scratch.rows_so_far() > 0);
    let count = ways.len();
    let passed = exchange(net.lab.namespace(Host::A), ways, FRAMES, WINDOW, LIMIT);
    let report = scratch.read(forwarder.end(Signal::INT));
    report.assert_rows_add_up();
    for way in &passed {
        let got = (way.sent, way.received);
        assert_eq!(got, (FRAMES, FRAMES), "{words}: {passed:?} {:#}", report.json);
    }
    for (place, name) in ports.iter().enumerate() {
        let port = &report.json["ports"][place];
        assert_eq!(port["port"].as_str(), Some(name.as_str()), "{words}");
        for key in ["rx_packets", "tx_packets"] {
            assert_eq!(
                port[key].as_u64(),
                Some(FRAMES),
                "{words}: port {place} {key}: {port:#}"
            );
        }
    }
    let lanes = report.json["lanes"].as_array().expect("lanes");
    let by_lane: Vec<_> = lanes.iter().map(|lane| lane["rx_packets"].as_u64()).collect();
    // A lane each, for the pairs and the odd port.
    let want: Vec<_> = (0..count)
        .step_by(2)
        .map(|place| Some(FRAMES * (count - place).min(2) as u64))
        .collect();
    assert_eq!(by_lane, want, "{words}");
    assert_eq!(report.count("rx_packets"), report.count("tx_packets"), "{words}");
}

#[test]
fn of_three_ports_two_are_a_wire_and_the_third_swaps_and_sends_back() {
    let Some(net) = links(3) else { return };
    let mut ways = ways(3);
    ways[2].arrives = macs(STRANGER, NOBODY);
    for (path, options) in [
        ("af_packet", ""),
        ("af_packet", "--drain 1ms"),
        ("af_xdp", ""),
        ("af_xdp", "--drain 500us"),
    ] {
        assert_forwarded(&net, path, options, ways.clone());
    }
}

#[test]
fn four_ports_are_two_pairs_and_each_sends_to_a_destination_of_its_own() {
    let Some(net) = links(4) else { return };
    let mut ways = ways(4);
    for (i, way) in ways.iter_mut().enumerate() {
        let out = i ^ 1;
        way.arrives = macs([2, 0, 0, 0, 0, 0xa1 + out as u8], mac_of(&net, Host::B, DEVICES[out]));
    }
    let to: Vec<_> = (1..=4).map(|n| format!("02:00:00:00:00:a{n}")).collect();
    let options = format!("--mode l2fwd --dest-mac {}", to.join(","));
    for path in ["af_packet", "af_xdp"] {
        assert_forwarded(&net, path, &options, ways.clone());
    }
}

#[test]
fn ports_lanes_and_times_that_can_not_be_are_refused_in_one_line() {
    let nulls = |n: usize| "null: ".repeat(n);
    let mac = "02:00:00:00:00:01";
    let table: [(String, &[&str]); 11] = [
        (
            nulls(2) + "af_packet:lo",
            &["af_packet:lo", "one path", "on null", "two ports"],
        ),
        (
            "xdp:none0 xdp:none1 xdp:none2".to_owned(),
            &["xdp:none2", "two ports at the most", "af_xdp"],
        ),
        (
            "af_packet:lo af_packet:none1 af_packet:lo".to_owned(),
            &["af_packet:lo", "port 1 and port 3", "once"],
        ),
        (nulls(17), &["null:", "port number 17", "16 ports"]),
        (
            nulls(3) + &format!("--mode l2fwd --dest-mac {mac},{mac}"),
            &["--dest-mac", "2 addresses", "one for all, or 3"],
        ),
        (nulls(5) + "--lanes 128", &["--lanes 128", "384", "85"]),
        (nulls(2) + "--drain 11ms", &["--drain", "11ms", "10ms"]),
        (nulls(2) + "--drain 100", &["--drain", "'100'", "100us"]),
        (
            "xdp:none0 xdp:none1 --drain 100us".to_owned(),
            &["--drain 100µs", "xdp:none0", "left out"],
        ),
        (nulls(2) + "--work 200", &["--work", "'200'", "200ns"]),
        (
            "xdp:none0 xdp:none1 --work 1us".to_owned(),
            &["--work", "xdp:none0", "left out"],
        ),
    ];
    for (words, parts) in &table {
        let finished = run(&format!("forward {words} --duration 50ms"));
        let context = format!("{words}: {:?} {}", finished.code, finished.stderr);
        assert_eq!(finished.code, Some(2), "{context}");
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{context}");
        for part in *parts {
            assert!(finished.stderr.contains(part), "not told {part:?}: {context}");
        }
    }
}
