//! What the interface refuses to send is held against a run only where it is the run's own: the host sends by it, too.

use mpps_host::lab::Host;
use mpps_tests::{Background, Net, Report, Scratch, listen, net_of, no_dpdk, wait_until};
use rustix::process::Signal;

/// Packets of the host's own that the interface drops.
const REFUSED: u64 = 50;

/// Has `host` send packets that are longer than the other end of its interface takes, until so many were dropped there.
/// False, and said, without Python.
fn refuse(net: &Net, host: Host) -> bool {
    let (other, to) = match host {
        Host::A => (Host::B, "10.99.0.2"),
        Host::B => (Host::A, "10.99.0.1"),
    };
    net.on(other, "ip link set eth1 mtu 1280");
    let script = "
import socket, sys
name = '/sys/class/net/eth1/statistics/tx_dropped'
dropped = lambda: int(open(name).read())
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
before = dropped()
while dropped() < before + int(sys.argv[2]):
    link.sendto(bytes(1400), (sys.argv[1], 9))
";
    net.python(host, script, &[to, &REFUSED.to_string()])
}

fn assert_valid_with_a_note(report: &Report, words: &str) {
    report.assert_rows_add_up();
    assert_eq!(
        report.json["invalid_reasons"].as_array().map(Vec::len),
        Some(0),
        "{:#}",
        report.json
    );
    assert_eq!(report.finished.code, Some(0), "{:#}", report.json);
    let warnings = report.json["warnings"].to_string();
    assert!(
        warnings.contains("packets that it should have sent, of the test or of others") && warnings.contains(words),
        "{warnings}"
    );
    assert!(!warnings.contains("refused"), "{warnings}");
    assert!(
        report.path_counter("interface_dropped_sent") >= REFUSED,
        "{:#}",
        report.json
    );
}

#[test]
fn packets_of_the_hosts_own_that_were_refused_do_not_spoil_what_drop_counts() {
    for mode in ["", ",mode=skb"] {
        let Some(net) = net_of(1) else { return };
        let (here, there) = (Scratch::new(), Scratch::new());
        let receiver = listen(&net, &there, &format!("drop xdp:eth1{mode} --ip 10.99.0.2 --port 9000"));
        let words = "send af_packet:eth1 --dest 10.99.0.2:9000 --rate 1kpps --duration 100ms --catch-up 10s --quiet";
        let sent = here.measure(net.a(words));
        if !refuse(&net, Host::B) {
            return;
        }
        let tx = sent.count("tx_packets");
        wait_until("all packets in the rows", || there.received_so_far() >= tx);
        let received = there.read(receiver.end(Signal::INT));
        let counts = ["rx_packets", "lost", "duplicates"].map(|key| received.count(key));
        assert_eq!(counts, [tx, 0, 0], "{mode}: {:#}", received.json);
        assert_valid_with_a_note(&received, "none was the test's");
    }
}

#[test]
fn packets_of_the_hosts_own_that_were_refused_do_not_spoil_a_round_trip_by_dpdk() {
    if no_dpdk() {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let (here, there) = (Scratch::new(), Scratch::new());
    let reflector = listen(&net, &there, "reflect af_packet:eth1");
    // Slow and patient: whatever else runs here, all departures are made, and everything comes back in time.
    let words = "sendrecv dpdk:net_af_packet0,iface=eth1 --src 10.99.0.99 --dest 10.99.0.2:9000 --rate 1kpps \
                 --duration 1h --settle 1s --catch-up 10s --interval 20ms --quiet";
    let sender = Background::start(here.results(net.a(words)));
    wait_until("packets that came back", || here.received_so_far() > 0);
    if !refuse(&net, Host::A) {
        return;
    }
    let rows = here.rows_so_far();
    wait_until("further rows", || here.rows_so_far() > rows + 5);
    let sent = here.read(sender.end(Signal::INT));
    reflector.end(Signal::INT);
    sent.assert_accounted();
    assert_eq!(sent.count("lost"), 0, "{:#}", sent.json);
    assert_valid_with_a_note(&sent, "all of the test's came back");
}
