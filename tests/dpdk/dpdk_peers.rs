//! DPDK's own testpmd as the other half of a dpdk port, in each of its modes: what it says it received and sent is what
//! mpps says, to the packet.

use std::process::Command;
use std::time::{Duration, Instant};

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Memif, Report, Scratch, TESTPMD, Testpmd, inside, listen_by, mpps, net_of, no_testpmd, wait_until,
};
use rustix::process::Signal;

const SEND: &str = "--src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:00:00:00:00:02 --rate 20kpps";

/// testpmd at one end of a memif.
fn testpmd(memif: &Memif, role: &str, mode: &str) -> Testpmd {
    let command = || {
        let mut words = TESTPMD.split_whitespace();
        let mut command = Command::new(words.next().expect("a program"));
        command
            .args(words)
            .arg(format!("--vdev=net_memif0,role={role},socket={}", memif.name()));
        command
    };
    match role {
        "client" => Testpmd::connected(command, mode),
        _ => Testpmd::start(command(), mode),
    }
}

/// Sends for a moment, and waits for so long for what comes back.
fn measure(words: &str, settle: &str) -> Report {
    let words = format!("{words} --duration 200ms --settle {settle} --quiet");
    let report = Scratch::new().measure(mpps(&words));
    report.assert_accounted();
    report
}

/// What testpmd has received and sent when it is all that will come: the same for many looks.
fn settled(testpmd: &mut Testpmd) -> (u64, u64) {
    let (mut last, mut same) = ((0, 0), 0);
    wait_until("packets at testpmd, and then no more", || {
        let now = testpmd.counts();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same == 40 && now.0 > 0
    });
    last
}

/// Ends a listener when so many packets that were sent to it have been counted, each as received or left out, or when
/// none has come for long: its report then shows what is missing.
fn ended(mut listener: Background, scratch: &Scratch, sent: u64) -> Report {
    let mut seen = (0, Instant::now());
    wait_until("what was sent", || {
        let received = scratch.received_so_far();
        if received > seen.0 {
            seen = (received, Instant::now());
        }
        received >= sent || seen.1.elapsed() > Duration::from_secs(10) || !listener.running()
    });
    // Two rows more, in which there must be nothing.
    let rows = scratch.rows_so_far();
    wait_until("two more rows", || scratch.rows_so_far() >= rows + 2);
    let report = scratch.read(listener.end(Signal::INT));
    report.assert_rows_add_up();
    report
}

/// Neither host says a word of its own on the link.
fn silence(net: &mpps_tests::Net) {
    for host in [Host::A, Host::B] {
        net.on(
            host,
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
        );
    }
}

#[test]
fn testpmds_5tswap_brings_every_packet_back() {
    if no_testpmd() {
        return;
    }
    for traffic in [
        SEND,
        "--src fd99::1 --dest [fd99::2]:9000 --dest-mac 02:00:00:00:00:02 --rate 20kpps --payload-size 300",
    ] {
        // One for each: DPDK 22.11's server may end with a client that leaves.
        let memif = Memif::new();
        let _testpmd = testpmd(&memif, "server", "5tswap");
        // testpmd may have no core for a while.
        let report = measure(&format!("sendrecv {} {traffic}", memif.client()), "20s --settle-early");
        let tx = report.count("tx_packets");
        let counts = ["rx_packets", "lost", "late", "duplicates", "corrupt"].map(|key| report.count(key));
        assert!(tx > 0, "{:#}", report.json);
        assert_eq!(counts, [tx, 0, 0, 0, 0], "{:#}", report.json);
    }
}

#[test]
fn testpmd_as_the_end_that_connects_is_a_reflector_too_and_counts_the_same() {
    if no_testpmd() {
        return;
    }
    let (memif, scratch) = (Memif::new(), Scratch::new());
    // The sender waits for its link, so for testpmd, which takes packets a while after it has connected.
    let words = format!(
        "sendrecv {},link_wait=60 {SEND} --duration 2s --settle 5s --quiet",
        memif.server(0)
    );
    let mut sender = Background::start(scratch.results(mpps(&words)));
    wait_until("a server's socket", || {
        let names = std::fs::read_to_string("/proc/net/unix").expect("the names of sockets");
        names.contains(&memif.name()) || !sender.running()
    });
    assert!(sender.running(), "{}", sender.stderr());
    let mut testpmd = testpmd(&memif, "client", "5tswap");
    // While the sender waits for more its link stays up, which is what testpmd's counters live by.
    let (received, sent) = settled(&mut testpmd);
    let report = scratch.read(sender.finish());
    report.assert_accounted();
    let tx = report.count("tx_packets");
    assert_eq!(
        [received, sent, report.count("rx_packets")],
        [tx; 3],
        "{:#}",
        report.json
    );
}

#[test]
fn what_testpmds_macswap_sends_back_is_nobodys_answer_and_all_of_it_is_counted() {
    if no_testpmd() {
        return;
    }
    let memif = Memif::new();
    let _testpmd = testpmd(&memif, "server", "macswap");
    // IP addresses stay: the packets are still from here to there.
    let report = measure(&format!("sendrecv {} {SEND}", memif.client()), "5s");
    let tx = report.count("tx_packets");
    let counts = ["rx_packets", "lost", "foreign", "duplicates", "corrupt"].map(|key| report.count(key));
    assert!(tx > 0, "{:#}", report.json);
    assert_eq!(counts, [0, tx, tx, 0, 0], "{:#}", report.json);
}

#[test]
fn what_testpmd_sends_is_received_and_counted_to_the_packet() {
    if no_testpmd() {
        return;
    }
    for mode in ["txonly", "flowgen"] {
        for words in ["drop --no-verify", "capture -o /dev/null"] {
            let (memif, there) = (Memif::new(), Scratch::new());
            let (command, options) = words.split_once(' ').expect("two words");
            let listener = listen_by(&there, mpps(&format!("{command} {} {options}", memif.server(0))));
            let mut testpmd = testpmd(&memif, "client", mode);
            wait_until("packets", || there.busy_rows() >= 3);
            let (_, sent) = testpmd.stop();
            let report = ended(listener, &there, sent);
            let context = format!("{mode} {words}: {:#}", report.json);
            assert!(sent > 0, "{context}");
            if command != "capture" {
                assert_eq!(report.count("rx_packets"), sent, "{context}");
                continue;
            }
            // A writer that can't keep up leaves packets out, and says how many.
            let [received, written, left_out] =
                ["/capture/received", "/capture/written", "/capture/dropped/ring_full"].map(|key| report.count(key));
            assert_eq!([received, written + left_out], [sent; 2], "{context}");
        }
    }
}

#[test]
fn what_testpmd_sends_is_sent_back_or_counted_as_given_up() {
    if no_testpmd() {
        return;
    }
    for (mode, command) in [
        ("flowgen", "reflect"),
        ("flowgen", "forward"),
        // It takes nothing back: its ring fills, and the rest has to be given up.
        ("txonly", "reflect"),
        ("txonly", "forward"),
    ] {
        let (memif, there) = (Memif::new(), Scratch::new());
        let mut words = format!("{command} {}", memif.server(0));
        if command == "forward" {
            words += " --take all";
        }
        let listener = listen_by(&there, mpps(&words));
        let mut testpmd = testpmd(&memif, "client", mode);
        wait_until("packets", || there.busy_rows() >= 3);
        let (received, sent) = testpmd.stop();
        let report = ended(listener, &there, sent);
        let context = format!("{mode} {command}: testpmd {received} {sent}: {:#}", report.json);
        let (rx, tx) = (report.count("rx_packets"), report.count("tx_packets"));
        // In place of a few answers, since packets of one payload look like one that goes round, a probe went: it is
        // sent, too.
        let reasons = report.json["reasons"].as_object().expect("reasons").iter();
        let given_up = reasons.filter(|(name, _)| *name != "probed");
        let given_up: u64 = given_up.map(|(_, n)| n.as_u64().expect("a count")).sum();
        assert_eq!([rx, tx + given_up], [sent; 2], "{context}");
        // What it did not take before it stopped lies in the ring still.
        assert!(received <= tx, "{context}");
        assert!(mode == "txonly" || tx > 0, "{context}");
    }
}

#[test]
fn testpmds_rxonly_receives_what_mpps_says_it_sent() {
    if no_testpmd() {
        return;
    }
    // Over shared memory, whose counters live as long as the link: a sender that still waits for answers keeps it.
    let memif = Memif::new();
    let mut testpmd_there = testpmd(&memif, "server", "rxonly");
    let scratch = Scratch::new();
    let words = format!(
        "sendrecv {} {SEND} --duration 200ms --settle 5s --quiet",
        memif.client()
    );
    let sender = Background::start(scratch.results(mpps(&words)));
    let (received, _) = settled(&mut testpmd_there);
    let report = scratch.read(sender.finish());
    report.assert_accounted();
    let tx = report.count("tx_packets");
    assert_eq!([received, report.count("lost")], [tx; 2], "{:#}", report.json);
    drop(testpmd_there);

    // Over packet sockets, on a link where nobody else says a word.
    let Some(net) = net_of(1) else { return };
    silence(&net);
    let mut command = inside(&net.lab, Host::B, TESTPMD);
    command.arg("--vdev=net_af_packet0,iface=eth1,framecnt=2048");
    let mut testpmd = Testpmd::start(command, "rxonly");
    let words = "--src 10.99.0.101 --dest 10.99.0.102:9000 --dest-mac 02:00:00:00:00:02 --rate 10kpps";
    let words = format!("send dpdk:net_af_packet0,iface=eth1 {words} --duration 200ms --quiet");
    let report = Scratch::new().measure(net.a(&words));
    report.assert_accounted();
    let tx = report.count("tx_packets");
    assert_eq!(settled(&mut testpmd).0, tx, "{:#}", report.json);
}

#[test]
fn testpmd_on_a_packet_socket_reflects_every_packet() {
    if no_testpmd() {
        return;
    }
    let Some(net) = net_of(1) else { return };
    silence(&net);
    let mut command = inside(&net.lab, Host::B, TESTPMD);
    command.arg("--vdev=net_af_packet0,iface=eth1,framecnt=2048");
    let _testpmd = Testpmd::start(command, "5tswap");
    let words = "--src 10.99.0.101 --dest 10.99.0.102:9000 --dest-mac 02:00:00:00:00:02 --rate 5kpps";
    for port in ["dpdk:net_af_packet0,iface=eth1,framecnt=2048", "af_packet:eth1"] {
        let words = format!("sendrecv {port} {words} --duration 200ms --settle 500ms --quiet");
        let report = Scratch::new().measure(net.a(&words));
        report.assert_accounted();
        let tx = report.count("tx_packets");
        let counts = ["rx_packets", "lost", "duplicates", "corrupt"].map(|key| report.count(key));
        assert!(tx > 0, "{:#}", report.json);
        assert_eq!(counts, [tx, 0, 0, 0], "{port}: {:#}", report.json);
    }
}
