//! `--count`: a number of packets, exactly, by any path, over any number of lanes, with and without a rate.

use mpps_tests::{Background, Report, Scratch, assert_refused, joined_twice, listen, mpps, net_of, run, run_command};
use rustix::process::Signal;
use serde_json::Value;

/// Nothing is missed on a busy host.
const LOOP: &str = "sendrecv loop: --settle 300ms --catch-up 5s --quiet --src-port-range 10000-10099";

fn measured(words: &str) -> Report {
    let report = Scratch::new().measure(mpps(words));
    report.assert_accounted();
    assert_eq!(report.json["interrupted"], false, "{words}: {:#}", report.json);
    report
}

#[test]
fn so_many_packets_are_due_at_a_rate_whatever_the_lanes_and_the_pacing() {
    for (count, more) in [
        (1, "--rate 1kpps"),
        (7, "--rate 3kpps --lanes 3"),
        (1_001, "--rate 20kpps --lanes 2"),
        (1_000, "--rate 10kpps --pacing poisson --lanes 2"),
        (995, "--rate 20kpps --pacing burst=10 --lanes 3"),
        (3_000, "--rate 20kpps --then 5kpps@100ms"),
        (2_000, "--rate 33.3Mbps"),
    ] {
        let report = measured(&format!("{LOOP} --count {count} {more}"));
        report.assert_departures(count);
        assert_eq!(report.json["plan"]["traffic"]["count"], count, "{more}");
        assert_eq!(report.json["plan"]["times"]["duration"], "0", "{more}");
    }
}

#[test]
fn so_many_packets_are_sent_as_fast_as_they_go_and_then_the_run_ends() {
    for (count, more) in [
        (1, ""),
        (2, "--lanes 3"),
        (100_003, "--lanes 2"),
        (12_345, "--flows 1 --burst 64"),
        (50_000, "--lanes 3 --duration 1h"),
    ] {
        let report = measured(&format!("{LOOP} --count {count} {more}"));
        assert_eq!(report.count("tx_packets"), count, "{more}: {:#}", report.json);
        // Each lane has its share: they differ by one at the most.
        let lanes = report.json["lanes"].as_array().expect("lanes");
        let sent: Vec<_> = lanes.iter().filter_map(|lane| lane["tx_packets"].as_u64()).collect();
        let (least, most) = (sent.iter().min().unwrap_or(&0), sent.iter().max().unwrap_or(&0));
        assert!(most - least <= 1, "{more}: {sent:?}");
    }
}

#[test]
fn the_duration_ends_a_run_whose_packets_take_longer() {
    let report = measured(&format!("{LOOP} --count 1000000 --rate 10kpps --duration 200ms"));
    report.assert_departures(2_000);
    let report = measured(&format!("{LOOP} --count 100 --rate 10kpps --duration 10s"));
    report.assert_departures(100);
    let fast = measured(&format!("{LOOP} --count 1000000000000 --duration 200ms"));
    assert!(fast.count("tx_packets") > 0);
}

#[test]
fn each_of_two_ways_sends_so_many() {
    let Some(net) = joined_twice() else { return };
    let forwarder = Background::ready(net.b("forward af_xdp:eth1 af_xdp:eth2"));
    for ports in [
        "af_packet:eth1 af_packet:eth2",
        "af_xdp:eth1 af_xdp:eth2",
        "xdp:eth1 xdp:eth2",
    ] {
        for (count, more) in [(5_001, ""), (2_000, "--rate 10kpps")] {
            let words =
                format!("sendrecv {ports} --both-ways --count {count} {more} --settle 300ms --catch-up 5s --quiet");
            let report = Scratch::new().measure(net.a(&words));
            report.assert_departures(2 * count);
            for way in report.json["directions"].as_array().expect("two ways") {
                let of = |key: &str| way[key].as_u64().unwrap_or(0);
                assert_eq!(of("tx_packets") + of("missed"), count, "{words}: {way:#}");
            }
        }
    }
    drop(forwarder);
}

#[test]
fn sockets_send_so_many() {
    for path in ["udp", "io_uring"] {
        let scratch = Scratch::new();
        let words = format!("send {path}: --dest 127.0.0.1:9 --quiet --catch-up 5s");
        for (count, more) in [(1_003, ""), (500, "--rate 10kpps"), (777, "--lanes 2")] {
            let finished = run_command({
                let mut command = mpps(&format!("{words} --count {count} {more}"));
                command.arg("--json").arg(scratch.file("run.json"));
                command
            });
            if path == "io_uring" && finished.code == Some(2) {
                break;
            }
            let text = std::fs::read_to_string(scratch.file("run.json")).expect("a summary");
            let json: Value = serde_json::from_str(&text).expect("JSON");
            let of = |key: &str| json[key].as_u64().unwrap_or(0);
            assert_eq!(of("tx_packets") + of("missed"), count, "{path} {more}: {json:#}");
        }
    }
}

#[test]
fn every_path_with_an_interface_sends_so_many() {
    let Some(net) = net_of(2) else { return };
    for (path, src, dest) in [
        ("af_packet:eth1", "10.99.0.1", "10.99.0.2:9000"),
        ("af_xdp:eth1", "fd99::1", "[fd99::2]:9000"),
        ("xdp:eth1", "10.99.0.1", "10.99.0.2:9000"),
        ("xdp:eth1", "fd99::1", "[fd99::2]:9000"),
    ] {
        let there = Scratch::new();
        let receiver = listen(&net, &there, "drop af_packet:eth1");
        let mut all = 0;
        for (count, more) in [
            (1, ""),
            (20_011, ""),
            (1_003, "--rate 20kpps"),
            (999, "--rate 20kpps --pacing poisson"),
            (10_001, "--lanes 2"),
            (2_001, "--rate 20kpps --lanes 2"),
        ] {
            let words = format!("send {path} --src {src} --dest {dest} --catch-up 5s --quiet --count {count} {more}");
            let report = Scratch::new().measure(net.a(&words));
            report.assert_rows_add_up();
            let (sent, missed) = (report.count("tx_packets"), report.count("missed"));
            assert_eq!(sent + missed, count, "{words}: {:#}", report.json);
            assert!(missed == 0 || more.contains("--rate"), "{words}: {:#}", report.json);
            assert_eq!(report.json["interrupted"], false, "{words}");
            all += sent;
        }
        let received = there.read(receiver.end(Signal::INT));
        // Packets that a busy receiver dropped were sent all the same; nothing else came.
        let seen = ["rx_packets", "lost", "host_dropped", "duplicates"].map(|key| received.count(key));
        assert!(seen[0] <= all, "{path}: {seen:?} of {all}");
    }
}

#[test]
fn packets_by_the_kernel_come_back_and_are_counted_to_the_last() {
    let Some(net) = net_of(2) else { return };
    let reflector = Background::ready(net.b("reflect xdp:eth1"));
    let ends = "--src 10.99.0.1 --dest 10.99.0.2:9000 --settle 500ms --catch-up 5s --quiet";
    for (count, more) in [(40_000, ""), (3_333, "--rate 20kpps"), (20_001, "--lanes 2")] {
        let words = format!("sendrecv xdp:eth1 {ends} --count {count} {more}");
        let report = Scratch::new().measure(net.a(&words));
        report.assert_accounted();
        report.assert_departures(count);
    }
    drop(reflector);
}

#[test]
fn a_plan_repeats_the_count_and_what_counts_nothing_refuses_it() {
    let scratch = Scratch::new();
    let plan = run("send null: --count 4321 --print-plan");
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    std::fs::write(scratch.file("plan.json"), &plan.stdout).expect("written");
    let mut again = mpps("run");
    again.arg(scratch.file("plan.json")).args(["--quiet", "--json"]);
    again.arg(scratch.file("run.json"));
    let finished = run_command(again);
    let text = std::fs::read_to_string(scratch.file("run.json")).unwrap_or_else(|_| panic!("{}", finished.stderr));
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["tx_packets"], 4321, "{json:#}");
    for (words, parts) in [
        ("send null: --count 0", &["--count", "0"][..]),
        ("send null: --count -1", &["--count", "-1"]),
        ("send null: --count many", &["--count", "many"]),
        ("ndr loop: --count 5", &["--count", "sendrecv … --count N"]),
        ("overload loop: --count 5", &["--count", "sendrecv … --count N"]),
        ("rfc2544 loss loop: --count 5", &["--count", "sendrecv … --count N"]),
        ("reflect null: --count 5", &["'--count' found"]),
    ] {
        assert_refused(mpps(words), 2, parts);
    }
}
