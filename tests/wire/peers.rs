//! Other people's programs at the other end: a reflector not ours, a sender not ours.

use mpps_host::lab::Host;
use mpps_tests::{Background, Net, Report, Scratch, inside, missing, net_of, skip, wait_until};
use rustix::process::Signal;

/// Runs `sendrecv` at a low rate on host a.
fn measure(net: &Net, words: &str) -> Report {
    let words = format!("{words} --rate 5kpps --duration 500ms --settle 500ms --quiet");
    let report = Scratch::new().measure(net.a(&words));
    report.assert_accounted();
    report
}

/// Starts a listener on host b with its results in `scratch`, and waits until it runs.
fn listen(net: &Net, scratch: &Scratch, words: &str) -> Background {
    let listener = Background::start(scratch.results(net.b(&format!("{words} --quiet"))));
    wait_until("a row of the listener", || scratch.rows_so_far() > 0);
    listener
}

#[test]
fn socats_udp_echo_is_a_reflector() {
    if missing("socat", "socat") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    for (listen, port, dest) in [
        (
            "UDP4-LISTEN:9000,bind=10.99.0.2,reuseaddr",
            "udp:10.99.0.1",
            "10.99.0.2:9000",
        ),
        (
            "UDP6-LISTEN:9000,bind=[fd99::2],reuseaddr",
            "udp:[fd99::1]",
            "[fd99::2]:9000",
        ),
        (
            "UDP4-LISTEN:9000,bind=10.99.0.2,reuseaddr",
            "af_packet:eth1 --flows 1 --src 10.99.0.1",
            "10.99.0.2:9000",
        ),
    ] {
        let socat = Background::start(inside(&net.lab, Host::B, &format!("socat {listen} PIPE")));
        wait_until("socat's socket", || {
            let sockets = net.on(Host::B, "cat /proc/net/udp /proc/net/udp6").stdout;
            sockets.contains(":2328 ")
        });
        let report = measure(&net, &format!("sendrecv {port} --dest {dest}"));
        drop(socat);
        let context = format!("{port}: {:#}", report.json);
        // A pipe of bytes may join two datagrams that come together: those are not ours any more. Most come back.
        assert!(
            report.count("rx_packets") > report.count("tx_packets") / 10,
            "{context}"
        );
        assert_eq!(report.count("duplicates"), 0, "{context}");
    }
}

#[test]
fn testpmds_5tswap_is_a_reflector() {
    if missing("dpdk-testpmd", "dpdk-dev or dpdk") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let words = "dpdk-testpmd --no-pci --no-huge -m 256 --iova-mode=va --no-shconf --no-telemetry -l 0-1 \
                 --vdev=net_af_packet0,iface=eth1 -- --forward-mode=5tswap --auto-start --no-mlockall \
                 --total-num-mbufs=4096 --stats-period=1";
    let testpmd = Background::start(inside(&net.lab, Host::B, words));
    // It says nothing on standard error when it forwards: its socket on the interface does.
    let mut testpmd = testpmd;
    let forwarding = |testpmd: &mut Background| {
        let sockets = net.on(Host::B, "cat /proc/net/packet").stdout.lines().count() > 1;
        sockets || !testpmd.running()
    };
    wait_until("testpmd's socket", || forwarding(&mut testpmd));
    if !testpmd.running() {
        return skip(&format!("dpdk-testpmd does not run here: {}", testpmd.finish().stderr));
    }
    // testpmd is no host: the host's own stack answers for its address.
    let mut warm = 0;
    wait_until("testpmd reflects", || {
        let report = measure(
            &net,
            "sendrecv af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --payload-size 64",
        );
        warm = report.count("rx_packets");
        warm > 0
    });
    for (port, dest) in [
        ("af_packet:eth1 --src 10.99.0.1", "10.99.0.2:9000"),
        ("af_packet:eth1 --src fd99::1", "[fd99::2]:9000"),
    ] {
        let report = measure(&net, &format!("sendrecv {port} --dest {dest} --payload-size 200"));
        let context = format!("{port}: {:#}", report.json);
        assert!(report.count("rx_packets") > report.count("tx_packets") / 2, "{context}");
        assert_eq!(report.count("corrupt") + report.count("duplicates"), 0, "{context}");
    }
}

/// Sends with a program that is not ours until host b has had packets, and gives both ends' results.
fn sent_by(net: &Net, listener: &str, (sender, count): (&str, u64), config: Option<&str>) -> Report {
    let there = Scratch::new();
    let words = match config {
        Some(text) => {
            std::fs::write(there.file("sender.cfg"), text).expect("a file");
            sender.replace("CONFIG", &there.file("sender.cfg").display().to_string())
        }
        None => sender.to_owned(),
    };
    let background = listen(net, &there, listener);
    let sender = Background::start(inside(&net.lab, Host::A, &words)).finish();
    assert_eq!(sender.code, Some(0), "{words}: {} {}", sender.stdout, sender.stderr);
    // What was sent may lie in a ring until a listener that is kept from its core takes it.
    wait_until("all that was sent", || there.seen_so_far() >= count);
    let report = there.read(background.end(Signal::INT));
    report.assert_rows_add_up();
    report
}

/// 500 UDP packets of one flow for trafgen.
const TRAFGEN: &str = "{ eth(da=DEST, sa=SOURCE), ipv4(saddr=10.99.0.1, daddr=10.99.0.2, ttl=64), \
                       udp(sport=7777, dport=9000), fill(0x5a, 40) }";

#[test]
fn trafgens_packets_are_reflected_and_counted() {
    if missing("trafgen", "netsniff-ng") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let config = TRAFGEN.replace("DEST", Host::B.mac()).replace("SOURCE", Host::A.mac());
    let trafgen = (
        "trafgen --dev eth1 --conf CONFIG --num 500 --cpus 1 --gap 1ms --no-cpu-stats",
        500,
    );
    let reflected = sent_by(&net, "reflect af_packet:eth1 --port 9000", trafgen, Some(&config));
    assert_eq!(reflected.count("rx_packets"), 500, "{:#}", reflected.json);
    assert_eq!(reflected.count("tx_packets"), 500, "{:#}", reflected.json);
    let dropped = sent_by(
        &net,
        "drop af_packet:eth1 --port 9000 --no-verify",
        trafgen,
        Some(&config),
    );
    assert_eq!(dropped.count("rx_packets"), 500, "{:#}", dropped.json);
    let verified = sent_by(&net, "drop af_packet:eth1 --port 9000", trafgen, Some(&config));
    assert_eq!(verified.count("rx_packets"), 0, "without a stamp: {:#}", verified.json);
    assert!(
        verified.count("foreign") + verified.count("corrupt") >= 500,
        "{:#}",
        verified.json
    );
}

#[test]
fn npings_packets_are_reflected_and_counted() {
    if missing("nping", "nmap") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let nping = "nping --udp --dest-port 9000 --source-port 7777 --count 20 --rate 50 --data-length 40 --hide-sent \
                 10.99.0.2";
    let nping = (nping, 20);
    for listener in ["reflect af_packet:eth1 --port 9000", "reflect udp:10.99.0.2:9000"] {
        let reflected = sent_by(&net, listener, nping, None);
        assert_eq!(reflected.count("rx_packets"), 20, "{listener}: {:#}", reflected.json);
        assert_eq!(reflected.count("tx_packets"), 20, "{listener}: {:#}", reflected.json);
    }
    for listener in [
        "drop af_packet:eth1 --port 9000 --no-verify",
        "drop udp:10.99.0.2:9000 --no-verify",
    ] {
        let dropped = sent_by(&net, listener, nping, None);
        assert_eq!(dropped.count("rx_packets"), 20, "{listener}: {:#}", dropped.json);
    }
}

/// Sends fifty datagrams and expects each of them back; `sys.argv`: target address.
const ASKER: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
for i in range(50):
    s.sendto(b"question %d" % i, (sys.argv[1], 9000))
    answer, peer = s.recvfrom(2000)
    assert answer == b"question %d" % i and peer[:2] == (sys.argv[1], 9000), (answer, peer)
"#;

#[test]
fn any_programs_datagrams_come_back_unchanged_from_either_path() {
    let Some(net) = net_of(1) else { return };
    for (reflect, address) in [
        ("reflect udp:10.99.0.2:9000", "10.99.0.2"),
        ("reflect udp:[fd99::2]:9000", "fd99::2"),
        ("reflect af_packet:eth1", "10.99.0.2"),
        ("reflect af_packet:eth1", "fd99::2"),
        ("reflect af_packet:eth1 --ip 10.99.0.88", "10.99.0.88"),
        ("reflect af_packet:eth1 --ip fd99::88", "fd99::88"),
    ] {
        let reflector = Background::ready(net.b(reflect));
        if !net.python(Host::A, ASKER, &[address]) {
            return;
        }
        drop(reflector);
    }
}
