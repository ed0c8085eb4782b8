//! Faults of one stream of several: the streams that suffer are named, and the others stay valid. And most flows and
//! fields.

use crate::streams::{LOAD, alone, count, file, of, with_traffic};
use mpps_host::lab::Host;
use mpps_tests::{Background, Report, Scratch, assert_refused, listen, mpps, net_of, wait_for_more, wait_until};
use rustix::process::Signal;
use std::process::Command;
use std::time::{Duration, Instant};

/// One stream that is over when the fault comes, and one that goes on.
const EARLY_AND_STEADY: &str = r#"
[[stream]]
name = "early"
packet = "eth / ipv4 src=10.99.0.77 dst=10.99.0.2 / udp src=1..4 dst=9000"
rate = "2kpps"
packets = 100

[[stream]]
name = "steady"
packet = "eth / ipv4 src=10.99.0.77 dst=10.99.0.2 / udp src=1..4 dst=9001"
rate = "2kpps"
"#;

/// Runs [`EARLY_AND_STEADY`], and has a fault come once its first stream is over.
fn disturbed(command: impl FnOnce(&str) -> Command, fault: impl FnOnce(&Background, &Scratch)) -> Report {
    let scratch = Scratch::new();
    let mix = file(&scratch, EARLY_AND_STEADY);
    // What a busy host is late with by itself is caught up with, and so disturbs neither stream.
    let words = "--duration 1h --settle 50ms --interval 20ms --catch-up 300ms --quiet";
    let sender = Background::start(scratch.results(with_traffic(command(words), &mix)));
    wait_until("rows after the first stream", || scratch.busy_rows() > 10);
    fault(&sender, &scratch);
    wait_for_more("rows with packets again", || scratch.busy_rows());
    let report = scratch.read(sender.end(Signal::INT));
    report.assert_accounted();
    assert_eq!(
        of(&report, "streams", "early")["valid"],
        true,
        "{:#}",
        report.json["streams"]
    );
    let steady = of(&report, "streams", "steady");
    assert_eq!(
        (&steady["valid"], count(steady, "missed") > 0),
        (&false.into(), true),
        "{steady:#}"
    );
    let reasons = report.json["invalid_reasons"].to_string();
    assert!(reasons.contains("steady") && !reasons.contains("early"), "{reasons}");
    report
}

#[test]
fn a_lane_that_stalls_is_named_with_the_stream_that_it_kept_from_sending() {
    disturbed(
        |words| mpps(&format!("sendrecv loop: {words}")),
        |sender, _| {
            sender.signal(Signal::STOP);
            let since = Instant::now();
            wait_until("the end of the stall", || since.elapsed() > Duration::from_millis(900));
            sender.signal(Signal::CONT);
        },
    );
}

#[test]
fn a_link_that_goes_down_and_comes_back_is_named_with_the_stream_that_sent_meanwhile() {
    let Some(net) = net_of(1) else { return };
    let there = Scratch::new();
    let _reflector = listen(&net, &there, "reflect af_packet:eth1 --packet eth");
    let report = disturbed(
        |words| net.a(&format!("sendrecv af_packet:eth1 {words}")),
        |_, scratch| {
            net.on(Host::A, "ip link set eth1 down");
            let rows = scratch.rows_so_far();
            wait_until("rows while the link is down", || scratch.rows_so_far() >= rows + 40);
            net.on(Host::A, "ip link set eth1 up");
        },
    );
    let known = report.json["known"].to_string();
    assert!(known.contains("link_off"), "{known}");
}

#[test]
fn a_stream_whose_next_hop_has_no_mac_address_is_named_before_anything_is_sent() {
    let Some(net) = net_of(1) else { return };
    let there = Scratch::new();
    let _reflector = listen(&net, &there, "reflect af_packet:eth1 --packet eth");
    let text = r#"
[[stream]]
name = "four"
packet = "eth / ipv4 dst=10.99.0.2 / udp dst=9000"

[[stream]]
name = "six"
packet = "eth / ipv6 dst=fd99::99 / udp dst=9000"
"#;
    let scratch = Scratch::new();
    let mix = file(&scratch, text);
    let command = with_traffic(
        net.a("sendrecv af_packet:eth1 --rate 1kpps --duration 100ms --quiet"),
        &mix,
    );
    assert_refused(
        command,
        1,
        &["nobody answered for fd99::99", "dst=MAC in eth of stream six"],
    );
}

#[test]
fn a_million_flows_and_sixteen_fields_run_at_once() {
    let text = r#"
[[stream]]
name = "fields"
packet = """eth src=02:00:00:00:00:01*7 dst=02:00:00:00:01:00*5 / vlan vid=1..10 /
            ipv4 src=10.0.0.1*1000 dst=10.1.0.1*100 ttl=10..20 dscp=0..7 id=random(0..65535) /
            udp src=1..9 dst=1..11 / vxlan vni=1..13 /
            eth src=02:00:00:00:02:00*3 / ipv4 src=10.2.0.1*17 dst=10.3.0.1*19 /
            tcp src=1..23 seq=random(1..99999)"""
rate = "5kpps"
flows = 1000000

[[stream]]
name = "flows"
packet = "eth / ipv4 src=10.0.0.1*1000 dst=10.1.0.1*1000 / udp dst=9000"
step = "combine"
rate = "5kpps"
"#;
    let report = alone(&format!("sendrecv loop: --duration 1s {LOAD}"), text);
    for name in ["fields", "flows"] {
        let of = of(&report, "streams", name);
        let counts = ["tx_packets", "rx_packets", "flows"].map(|key| count(of, key));
        assert_eq!(counts, [5000, 5000, 1_000_000], "{of:#}");
    }
}
