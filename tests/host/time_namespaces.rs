//! Time namespaces: the clock of a process in one is ahead of the host's by an offset, and that of the kernel, of its
//! programs and of a process elsewhere is not. Every time is the host's.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Net, Report, Scratch, all_back_by, all_there_by, arrived, assert_refused, listen_by, mpps, net_of,
    program, run_command, skip, wait_until,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// A time that nothing takes here, and that every offset of these tests is far above, ns.
const FAR_NS: u64 = 100_000_000_000;

/// A network, where processes may have a time of their own, too.
fn possible() -> Option<Net> {
    let net = net_of(1)?;
    let mut probe = Command::new("unshare");
    probe.args(["--time", "--fork", "--monotonic", "1000", "true"]);
    if run_command(probe).code != Some(0) {
        skip("unshare can't make time namespaces here (Linux 5.6, util-linux 2.36)");
        return None;
    }
    Some(net)
}

/// The same command in a time namespace: `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME` are ahead by so many seconds.
fn shifted(command: &Command, monotonic: u32, boottime: u32) -> Command {
    let mut there = Command::new("unshare");
    there.args(["--time", "--fork", "--kill-child"]);
    there.args([
        "--monotonic",
        &monotonic.to_string(),
        "--boottime",
        &boottime.to_string(),
        "--",
    ]);
    there.arg(command.get_program()).args(command.get_args());
    there
}

fn assert_latency(report: &Report, context: &str) {
    let latency = |key: &str| report.count(&format!("/latency_ns/{key}"));
    assert!(latency("min") > 0, "{context}: {:#}", report.json);
    assert!(latency("max") < FAR_NS, "{context}: {:#}", report.json);
    let unknown = report.json["reasons"]["latency_not_measurable"].as_u64();
    assert_eq!(unknown.unwrap_or(0), 0, "{context}: {:#}", report.json);
}

#[test]
fn packets_come_back_with_their_latency_on_every_path() {
    let Some(net) = possible() else { return };
    let v4 = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 2kpps";
    let v6 = "--src fd99::1 --dest [fd99::2]:9000 --rate 3kpps --payload-size 100";
    for (port, ends, monotonic, boottime) in [
        ("xdp:eth1", v4, 100_000, 0),
        ("xdp:eth1", v6, 700_000, 9),
        ("af_xdp:eth1,rx_time=on", v4, 100_000, 0),
        ("af_xdp:eth1,rx_time=on", v6, 4_000, 70_000),
        ("af_packet:eth1", v4, 100_000, 100_000),
        ("udp:10.99.0.1", v4, 5_000_000, 0),
        ("udp:10.99.0.1,rx_time=kernel", v4, 5_000_000, 0),
    ] {
        let send = shifted(&net.a(&format!("sendrecv {port} {ends}")), monotonic, boottime);
        let (sent, _) = all_back_by(net.b("reflect af_packet:eth1"), vec![send]);
        assert_latency(&sent[0], port);
        let told = sent[0].json["host"]["time_namespace"].as_str().unwrap_or_default();
        assert!(told.contains(&format!("{monotonic} s ahead")), "{port}: {told:?}");
    }
}

#[test]
fn a_packet_that_comes_from_another_time_namespace_has_its_age() {
    let Some(net) = possible() else { return };
    let send = net.a("send af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 2kpps");
    for (port, seconds) in [
        ("af_packet:eth1", 30),
        ("xdp:eth1", 90_000),
        ("af_xdp:eth1,rx_time=on", 300),
        ("udp:10.99.0.2:9000", 100_000),
    ] {
        let drop = net.b(&format!("drop {port}"));
        let (_, received) = all_there_by(drop, shifted(&send, seconds, 0));
        assert_latency(&received, port);
    }
    // The other way round: the receiver's clock is the one that is ahead, and it ends by itself.
    for (port, seconds) in [("af_packet:eth1", 30), ("af_xdp:eth1,rx_time=on", 100_000)] {
        let there = Scratch::new();
        let drop = shifted(&net.b(&format!("drop {port} --duration 15s")), seconds, 0);
        let receiver = listen_by(&there, drop);
        let sent = Scratch::new().measure(net.a(
            "send af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 2kpps --duration 100ms --catch-up 10s",
        ));
        arrived(&there, sent.count("tx_packets"));
        let received = there.read(receiver.finish());
        assert_eq!(received.count("rx_packets"), sent.count("tx_packets"), "{port}");
        assert_latency(&received, port);
    }
}

#[test]
fn captured_packets_have_the_time_of_day() {
    let Some(net) = possible() else { return };
    for (port, seconds) in [
        ("af_packet:eth1", 100_000),
        ("af_xdp:eth1,rx_time=on --take all", 40_000),
    ] {
        let scratch = Scratch::new();
        let file = scratch.file("x.pcapng");
        let before = since_epoch();
        let words = format!("capture {port} --count 20 --quiet -o {}", file.display());
        let capture = Background::start(shifted(&net.b(&words), seconds, seconds));
        let send = net.a("send af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:6d:70:70:73:02");
        let mut send = send;
        send.args(["--rate", "1kpps", "--duration", "1h", "--quiet"]);
        let sender = Background::start(send);
        let captured = capture.finish();
        sender.end(Signal::INT);
        assert_eq!(captured.code, Some(0), "{port}: {}", captured.stderr);
        let bytes = std::fs::read(&file).expect("a capture");
        let mut reader = PcapNgReader::new(&bytes[..]).expect("pcapng");
        let (mut packets, after) = (0, since_epoch());
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.expect("a block") {
                let range = before.saturating_sub(Duration::from_secs(1))..=after + Duration::from_secs(1);
                assert!(range.contains(&packet.timestamp), "{port}: {:?}", packet.timestamp);
                packets += 1;
            }
        }
        assert_eq!(packets, 20, "{port}");
    }
}

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970")
}

#[test]
fn an_offset_that_can_not_be_read_is_refused_by_name_where_the_kernels_clock_is_used() {
    let Some(net) = possible() else { return };
    let hidden = "mount -t tmpfs none /proc || exit 77; exec \"$@\"";
    let without_proc = |words: &str, seconds: u32| {
        let mut command = Command::new("unshare");
        command.args(["--time", "--fork", "--monotonic", &seconds.to_string(), "--"]);
        command.args(["ip", "netns", "exec", &net.lab.namespace(Host::A)]);
        command.args(["unshare", "--mount", "sh", "-c", hidden, "sh"]);
        command.arg(program()).args(words.split(' '));
        command
    };
    let ends = "--src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:6d:70:70:73:02 --rate 1kpps --duration 100ms \
                --settle 10ms --quiet";
    for (port, parts) in [
        ("xdp:eth1", ["a time namespace", "mount /proc"]),
        ("af_xdp:eth1,rx_time=kernel", ["a time namespace", "rx_time=kernel"]),
    ] {
        let words = format!("sendrecv {port} {ends}");
        assert_refused(without_proc(&words, 5_000), 2, &parts);
        // Without an offset nothing is in the way: the clocks were compared.
        let finished = run_command(without_proc(&words, 0));
        assert!(matches!(finished.code, Some(0 | 3)), "{port}: {}", finished.stderr);
    }
}

#[test]
fn a_lab_stays_while_its_owner_lives_whatever_time_namespace_looks_at_it() {
    let Some(net) = possible() else { return };
    let left = |lab: &str| {
        let there = |host: &str| Path::new(&format!("/run/netns/{lab}-{host}")).exists();
        ["a", "b"].into_iter().filter(|host| there(host)).count()
    };
    let down = mpps("lab down --name mpps-none-such");
    for (monotonic, boottime) in [(0, 100_000), (5, 77)] {
        let finished = run_command(shifted(&down, monotonic, boottime));
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert_eq!(left(net.lab.name()), 2, "{finished:?}");
    }
    // The other way round: a lab made there is seen from here, while its owner lives and once that is killed.
    let words = "sendrecv udp --lab --rate 1kpps --duration 1h --plain";
    let run = Background::start(shifted(&mpps(words), 0, 90_000)).wait_to_hear("removed at the end");
    let said = run.stderr();
    let lab = said.split("mpps: lab ").nth(1).and_then(|rest| rest.split(',').next());
    let lab = lab.unwrap_or_else(|| panic!("no lab: {said}"));
    let finished = run_command(mpps("lab down --name mpps-none-such"));
    assert_eq!((finished.code, left(lab)), (Some(0), 2), "{finished:?}");
    run.end(Signal::KILL);
    wait_until("the removal of the lab", || {
        run_command(shifted(&down, 0, 5)).code == Some(0) && left(lab) == 0
    });
}
