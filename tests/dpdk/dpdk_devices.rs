//! The dpdk path over devices that lead into files, to nobody, or to a process each of many.

use std::path::Path;
use std::process::Command;

use mpps_tests::{
    Background, Memif, Report, Scratch, arrived, listen_by, missing, mpps, no_dpdk, program, run_command, skip,
    wait_until,
};
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::process::Signal;

const SEND: &str = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps";

fn fact(report: &Report, name: &str, value: &str) {
    assert_eq!(report.json["host"][name], value, "{:#}", report.json["host"]);
}

/// Packets in a capture file that are from port 10000 on to port 9000.
fn ours_in(path: &Path) -> usize {
    let bytes = std::fs::read(path).expect("a file");
    let ours = |frame: &[u8]| frame.len() >= 42 && frame[12..14] == [8, 0] && frame[36..38] == 9000_u16.to_be_bytes();
    if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
        let mut reader = PcapNgReader::new(&bytes[..]).expect("a pcapng file");
        let mut count = 0;
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.expect("a whole block") {
                count += usize::from(ours(&packet.data));
            }
        }
        return count;
    }
    let mut reader = PcapReader::new(&bytes[..]).expect("a pcap file");
    let mut count = 0;
    while let Some(packet) = reader.next_packet() {
        count += usize::from(ours(&packet.expect("a whole packet").data));
    }
    count
}

#[test]
fn packets_sent_into_a_file_are_all_in_it_and_come_out_of_it_whole() {
    if no_dpdk() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("sent.pcap");
    let words = format!("send dpdk:net_pcap0,tx_pcap={} {SEND}", file.display());
    let sent = Scratch::new().measure(mpps(&format!(
        "{words} --dest-mac 02:00:00:00:00:02 --duration 100ms --quiet"
    )));
    sent.assert_accounted();
    let tx = sent.count("tx_packets");
    assert_eq!(ours_in(&file) as u64, tx, "{:#}", sent.json);
    if !missing("tshark", "tshark") {
        let mut tshark = Command::new("tshark");
        // It wants to read its settings.
        tshark.env("HOME", scratch.path()).arg("-r").arg(&file).args([
            "-o",
            "udp.check_checksum:TRUE",
            "-o",
            "ip.check_checksum:TRUE",
        ]);
        tshark.args([
            "-Y",
            "udp.checksum.status == 1 && ip.checksum.status == 1",
            "-T",
            "fields",
            "-e",
            "frame.len",
        ]);
        assert_eq!(run_command(tshark).stdout.lines().count() as u64, tx);
    }

    let port = format!("dpdk:net_pcap0,rx_pcap={}", file.display());
    let read = |words: &str, options: &str| {
        let there = Scratch::new();
        let listener = listen_by(&there, mpps(&format!("{words} {port}{options}")));
        wait_until("the packets of the file", || there.busy_rows() > 0);
        arrived(&there, tx);
        there.read(listener.end(Signal::INT))
    };
    let received = read("drop", "");
    received.assert_rows_add_up();
    let counts = ["rx_packets", "tx_packets", "lost", "corrupt"].map(|key| received.count(key));
    assert_eq!(counts, [tx, tx, 0, 0], "{:#}", received.json);
    let copy = scratch.file("copy.pcapng");
    let captured = read(&format!("capture -o {}", copy.display()), "");
    assert_eq!(captured.count("/capture/written"), tx, "{:#}", captured.json);
    assert_eq!(ours_in(&copy) as u64, tx);
    let turned = scratch.file("turned.pcap");
    let forwarded = read("forward", &format!(",tx_pcap={}", turned.display()));
    let counts = ["rx_packets", "tx_packets"].map(|key| forwarded.count(key));
    assert_eq!(counts, [tx, tx], "{:#}", forwarded.json);
    assert_eq!(ours_in(&turned) as u64, tx);
}

#[test]
fn what_comes_by_shared_memory_is_captured_to_the_last_packet() {
    if no_dpdk() {
        return;
    }
    let (memif, there) = (Memif::new(), Scratch::new());
    let file = there.file("all.pcapng");
    let capture = listen_by(
        &there,
        mpps(&format!("capture {} -o {}", memif.server(0), file.display())),
    );
    let words = format!("send {} {SEND} --dest-mac 02:00:00:00:00:02", memif.client());
    let sent = Scratch::new().measure(mpps(&format!("{words} --duration 100ms --quiet")));
    arrived(&there, sent.count("tx_packets"));
    let captured = there.read(capture.end(Signal::INT));
    let tx = sent.count("tx_packets");
    assert_eq!(captured.count("/capture/written"), tx, "{:#}", captured.json);
    assert_eq!(ours_in(&file) as u64, tx);
}

#[test]
fn devices_that_lead_nowhere_run_without_huge_pages_and_show_what_lanes_did() {
    if no_dpdk() {
        return;
    }
    for words in [
        format!("send dpdk:net_null0,no-rx=1 {SEND} --duration 100ms"),
        "reflect dpdk:net_null0,size=60 --duration 100ms --lanes 2".to_owned(),
        "drop dpdk:net_null0,size=60 --duration 100ms --lanes 2".to_owned(),
        "forward dpdk:net_null0,size=60 dpdk:net_null1 --duration 100ms".to_owned(),
        "send dpdk:net_ring0 --src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:00:00:00:00:02 --duration 100ms \
         --lanes 2"
            .to_owned(),
    ] {
        let mut command = mpps(&words);
        command.args(["--eal=--no-huge", "--quiet"]);
        let report = Scratch::new().measure(command);
        report.assert_rows_add_up();
        fact(&report, "path", "dpdk");
        let receives = !words.starts_with("send");
        if !words.starts_with("forward") {
            let driver = if words.contains("ring") { "net_ring" } else { "net_null" };
            fact(&report, "driver", driver);
        }
        for lane in report.json["lanes"].as_array().expect("lanes") {
            let busy = lane["busy_ratio"].as_f64().expect("a ratio");
            assert!(busy > 0.0 && busy <= 1.0, "{words}: {lane:#}");
            assert!(lane["bursts"].as_u64() > Some(0), "{words}: {lane:#}");
            assert!(lane["empty_polls"].is_u64(), "{words}: {lane:#}");
            if receives {
                assert!(lane["rx_mean_burst"].as_f64() > Some(1.0), "{words}: {lane:#}");
            }
        }
        let moved = report.count("rx_packets") + report.count("tx_packets");
        assert!(moved > 0, "{words}: {:#}", report.json);
        if words.starts_with("reflect") || words.starts_with("drop") {
            assert!(
                report.json["host"]["rx_spread_percent"].is_string(),
                "{words}: {:#}",
                report.json["host"]
            );
        }
    }
}

#[test]
fn several_runs_at_once_do_not_know_of_each_other() {
    if no_dpdk() {
        return;
    }
    let memifs: Vec<_> = (0..3).map(|_| Memif::new()).collect();
    let there: Vec<_> = memifs.iter().map(|_| Scratch::new()).collect();
    let listeners: Vec<_> = memifs
        .iter()
        .zip(&there)
        .map(|(memif, scratch)| listen_by(scratch, mpps(&format!("reflect {}", memif.server(0)))))
        .collect();
    let here: Vec<_> = memifs.iter().map(|_| Scratch::new()).collect();
    let words =
        "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 2kpps --dest-mac 02:00:00:00:00:02 --duration 200ms --quiet";
    let senders: Vec<_> = memifs
        .iter()
        .zip(&here)
        .map(|(memif, scratch)| {
            Background::start(scratch.results(mpps(&format!("sendrecv {} {words}", memif.client()))))
        })
        .collect();
    let sent: Vec<_> = senders
        .into_iter()
        .zip(&here)
        .map(|(run, scratch)| scratch.read(run.finish()))
        .collect();
    for ((listener, scratch), sent) in listeners.into_iter().zip(&there).zip(&sent) {
        sent.assert_accounted();
        let reflected = scratch.read(listener.end(Signal::INT));
        let tx = sent.count("tx_packets");
        assert!(tx > 0 && sent.count("rx_packets") == tx, "{:#}", sent.json);
        assert_eq!(reflected.count("rx_packets"), tx, "{:#}", reflected.json);
    }
}

#[test]
fn somebody_without_any_privilege_runs_devices_that_need_none() {
    if no_dpdk() || missing("setpriv", "util-linux") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip("only root can become nobody");
    }
    let folder = Scratch::new();
    let copy = folder.file("mpps");
    std::fs::copy(program(), &copy).expect("a copy of the program");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("our folder");
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ]);
    command.arg(copy).args([
        "send",
        "dpdk:net_null0,no-rx=1",
        "--eal=--no-huge",
        "--json",
        "-",
        "--quiet",
    ]);
    // On a busy host its lane has no core for the first tenth of a second.
    command.args(SEND.split_whitespace()).args(["--duration", "1s"]);
    let finished = run_command(command);
    assert!(
        matches!(finished.code, Some(0 | 3)),
        "{:?} {}",
        finished.code,
        finished.stderr
    );
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON and nothing else");
    assert!(json["tx_packets"].as_u64() > Some(0), "{json:#}");
}

#[test]
fn a_share_of_the_link_is_of_the_speed_that_the_device_tells() {
    if no_dpdk() {
        return;
    }
    // net_null tells 10 Gbit/s; a frame of 64 bytes takes 84 on the wire.
    let words = "send dpdk:net_null0,no-rx=1 --src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:00:00:00:00:02";
    let sent = Scratch::new().measure(mpps(&format!("{words} --rate 1% --duration 100ms --quiet")));
    fact(&sent, "link_bps", "10000000000");
    let intended = sent.json["intended_pps"].as_f64().expect("a rate");
    assert!((intended - 1e8 / 672.0).abs() < 1e-3, "{intended}");
    let none = mpps_tests::run("send null: --rate 10% --duration 100ms");
    assert_eq!(none.code, Some(2), "{}", none.stderr);
    assert!(
        none.stderr.contains("--rate '10%': want a rate in pps or bps"),
        "{}",
        none.stderr
    );
}
