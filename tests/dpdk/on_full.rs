//! `forward --on-full wait|drop` before a peer that takes nothing: each frame was sent or is counted by its reason.

use mpps_tests::{Background, Memif, Report, Scratch, assert_refused, listen_by, mpps, no_dpdk, run, wait_until};
use rustix::process::Signal;
use serde_json::Value;

fn count(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_default()
}

/// What a forwarder of unlimited frames counted before a memif whose other end was stopped; the sums of the CSV of its
/// lanes, by column.
fn before_a_stopped_peer(on_full: &str) -> (Report, impl Fn(&str) -> f64) {
    let (memif, scratch) = (Memif::new(), Scratch::new());
    let lanes = scratch.file("lanes.csv");
    let mut forward = mpps(&format!("forward null: {} --on-full {on_full}", memif.server(0)));
    forward.arg("--lanes-csv").arg(&lanes);
    let forwarder = listen_by(&scratch, forward);
    let peer = Background::start(mpps(&format!("drop {} --no-verify --quiet", memif.client())));
    let sent = || {
        let text = std::fs::read_to_string(&lanes).unwrap_or_default();
        text.lines()
            .skip(1)
            .any(|row| row.split(',').nth(8).is_some_and(|tx| tx != "0"))
    };
    wait_until("frames that the peer takes", sent);
    peer.signal(Signal::STOP);
    let rows = scratch.rows_so_far();
    wait_until("rows with a peer that takes nothing", || {
        scratch.rows_so_far() >= rows + 20
    });
    let report = scratch.read(forwarder.end(Signal::INT));
    peer.signal(Signal::CONT);
    peer.end(Signal::INT);
    let text = std::fs::read_to_string(&lanes).expect("the CSV of lanes");
    let sum = move |column: &str| {
        let mut rows = text.lines().map(|row| row.split(',').collect::<Vec<_>>());
        let header = rows.next().expect("a header");
        let at = header.iter().position(|name| *name == column).expect("the column");
        rows.map(|row| row[at].parse::<f64>().expect("a number")).sum()
    };
    (report, sum)
}

fn assert_accounted(report: &Report, sum: impl Fn(&str) -> f64) {
    report.assert_rows_add_up();
    let json = &report.json;
    let (from, to) = (&json["ports"][0], &json["ports"][1]);
    assert!(count(from, "rx_packets") > 0, "{json:#}");
    let full = count(&to["reasons"], "tx_full");
    let down = count(&to["reasons"], "port_down");
    assert_eq!(
        count(from, "rx_packets"),
        count(to, "tx_packets") + full + down,
        "{json:#}"
    );
    assert_eq!(count(&json["reasons"], "tx_full"), full, "{json:#}");
    let lane = &json["lanes"][0];
    assert_eq!(count(&lane["reasons"], "tx_full"), full, "{json:#}");
    for (column, key) in [
        ("rx_packets", "rx_packets"),
        ("rx_bursts", "rx_bursts"),
        ("empty_polls", "empty_polls"),
        ("tx_packets", "tx_packets"),
        ("tx_bursts", "tx_bursts"),
        ("tx_full", "tx_full"),
        ("waits", "waits"),
    ] {
        assert_eq!(sum(column), count(lane, key) as f64, "{column}: {json:#}");
    }
    assert_eq!(sum("tx_full_packets"), full as f64);
    let polls = (count(lane, "rx_bursts") + count(lane, "empty_polls")) as f64;
    let mean = lane["rx_mean_burst_all_polls"].as_f64().expect("a mean");
    assert!(
        (mean * polls - count(lane, "rx_packets") as f64).abs() < 1e-3 * polls,
        "{lane:#}"
    );
    assert!(sum("busy_us") <= sum("loop_us") && sum("busy_us") > 0.0);
}

#[test]
fn what_a_peer_that_stands_still_does_not_take_is_dropped_at_once_or_after_a_wait_and_counted() {
    if no_dpdk() {
        return;
    }
    let (report, sum) = before_a_stopped_peer("drop");
    let json = &report.json;
    assert!(count(&json["reasons"], "tx_full") > 0, "{json:#}");
    assert_eq!(count(&json["lanes"][0], "blocked_ns"), 0, "{json:#}");
    assert_eq!(json["plan"]["lanes"]["on_full"], "drop");
    assert_eq!(json["host"]["on_full"], "drop");
    assert_accounted(&report, sum);
    let (report, sum) = before_a_stopped_peer("wait");
    let json = &report.json;
    assert!(count(&json["lanes"][0], "blocked_ns") > 0, "{json:#}");
    assert_accounted(&report, sum);
}

#[test]
fn a_wait_that_the_kernel_does_not_know_is_refused_and_its_own_way_is_in_the_plan() {
    for words in ["forward xdp:lo --on-full wait", "reflect xdp:lo --on-full wait"] {
        assert_refused(mpps(words), 2, &["--on-full wait", "xdp:lo", "want drop"]);
    }
    assert_refused(mpps("forward null: --on-full never"), 2, &["--on-full", "wait or drop"]);
    assert_refused(mpps("reflect xdp:lo --lanes-csv x.csv"), 2, &["--lanes-csv", "xdp:lo"]);
    for (words, want) in [
        ("forward null:", "wait"),
        ("forward null: --on-full drop", "drop"),
        ("reflect loop: --on-full drop", "drop"),
        ("reflect loop:", "wait"),
    ] {
        let plan = run(&format!("{words} --print-plan"));
        let plan: Value = serde_json::from_str(&plan.stdout).expect("a plan");
        assert_eq!(plan["lanes"]["on_full"], want, "{words}");
    }
}
