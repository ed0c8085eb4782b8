//! When packets arrived, beside when a lane read them.

use mpps_tests::{Report, Scratch, arrived, listen, mpps, net_of};
use rustix::process::Signal;

/// Options of the sender.
const SEND: &str = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 1kpps --duration 400ms --quiet";

fn number(report: &Report, key: &str) -> f64 {
    let found = report.json.pointer(key).and_then(serde_json::Value::as_f64);
    found.unwrap_or_else(|| panic!("{key} in {:#}", report.json))
}

/// A receiver that stands still for a while reads all packets late. That is its own doing, and none of the path's.
#[test]
fn a_receiver_that_stands_still_moves_the_latency_and_not_the_arrival() {
    let Some(net) = net_of(1) else { return };
    for port in [
        "af_xdp:eth1,rx_time=kernel",
        "af_packet:eth1,rx_time=kernel",
        "udp:10.99.0.2:9000,rx_time=kernel",
        "io_uring:10.99.0.2:9000,rx_time=kernel",
    ] {
        let of_ports = if port.contains("10.99") { "" } else { "--port 9000" };
        let (here, there) = (Scratch::new(), Scratch::new());
        let receiver = listen(&net, &there, &format!("drop {port} {of_ports}"));
        receiver.signal(Signal::STOP);
        // All are sent meanwhile: half of them wait for 200 ms and longer.
        let sent = here.measure(net.a(&format!("send af_packet:eth1 {SEND}")));
        receiver.signal(Signal::CONT);
        arrived(&there, sent.count("tx_packets"));
        let received = there.read(receiver.end(Signal::INT));
        let context = format!("{port}: {:#}", received.json);
        let of = |key: &str| number(&received, key);
        let packets = received.count("rx_packets");
        assert_eq!(packets, sent.count("tx_packets"), "{context}");
        for key in ["latency_ns", "latency_arrival_ns", "wake_up_ns"] {
            assert_eq!(received.count(&format!("/{key}/count")), packets, "{key}: {context}");
        }
        let parts = of("/latency_arrival_ns/mean") + of("/wake_up_ns/mean");
        assert!((parts - of("/latency_ns/mean")).abs() < 1.0, "{context}");
        assert!(
            of("/latency_ns/p50") > 100e6 && of("/wake_up_ns/p50") > 100e6,
            "{context}"
        );
        // What the sender itself waited for its core is in both; half of the packets never waited so long.
        assert!(of("/latency_arrival_ns/p50") < of("/wake_up_ns/p50") / 4.0, "{context}");
        assert!(received.json["reasons"]["implausible_rx_time"].is_null(), "{context}");
    }
}

/// The simulated device's own time is found, and what the lane adds to it stands apart.
#[test]
fn a_loop_has_its_delay_as_arrival_and_the_rest_as_wake_up() {
    let scratch = Scratch::new();
    let report = scratch.measure(mpps("sendrecv loop:delay=3ms --rate 1kpps --duration 200ms --quiet"));
    let of = |key: &str| number(&report, key);
    let context = format!("{:#}", report.json);
    assert!(of("/latency_arrival_ns/min") >= 3e6, "{context}");
    // From the stamp to the departure, the simulated device has nothing to do: half of the packets leave at once.
    assert!(of("/latency_arrival_ns/p50") < 3.1e6, "{context}");
    let parts = of("/latency_arrival_ns/mean") + of("/wake_up_ns/mean");
    assert!((parts - of("/latency_ns/mean")).abs() < 1.0, "{context}");
    assert_eq!(
        report.count("/wake_up_ns/count"),
        report.count("rx_packets"),
        "{context}"
    );
    // Nothing is noted where nothing takes time, nor by a path that has no clock of its own.
    for port in ["loop:", "null:"] {
        let workload = if port == "null:" { "drop" } else { "sendrecv" };
        let report = Scratch::new().measure(mpps(&format!("{workload} {port} --duration 50ms --quiet")));
        for key in ["latency_arrival_ns", "wake_up_ns"] {
            assert!(report.json[key].is_null(), "{port}: {:#}", report.json);
        }
    }
}
