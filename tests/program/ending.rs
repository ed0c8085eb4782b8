//! How runs end: by a signal with everything measured so far, and quietly where quiet was asked for.

use mpps_tests::{Background, Scratch, free_port, mpps, run, wait_until};
use rustix::process::Signal;

/// Starts a long run, waits until it is well under way, and ends it by a signal.
fn end_by(signal: Signal, words: &str) -> mpps_tests::Report {
    let scratch = Scratch::new();
    let background = Background::start(scratch.results(mpps(words)));
    wait_until("rows with packets in them", || scratch.busy_rows() >= 3);
    scratch.read(background.end(signal))
}

#[test]
fn ctrl_c_ends_a_run_early_with_everything_measured_so_far() {
    for words in [
        "sendrecv loop:delay=1ms,loss=0.01 --rate 20kpps --duration 1h --settle 100ms --interval 10ms",
        "sendrecv loop:delay=1ms --lanes 2 --duration 0 --rate 20kpps --settle 100ms --interval 10ms --quiet",
        "send null: --rate 20kpps --duration 1m --interval 10ms",
    ] {
        let report = end_by(Signal::INT, words);
        report.assert_accounted();
        assert_eq!(report.json["interrupted"], true, "{:#}", report.json);
        assert!(report.count("tx_packets") > 0);
        if words.contains("sendrecv") {
            assert!(report.count("rx_packets") > 0, "{:#}", report.json);
        }
    }
}

#[test]
fn sigterm_ends_a_run_as_ctrl_c_does() {
    let words = "sendrecv loop:delay=1ms --rate 20kpps --duration 1h --settle 100ms --interval 10ms";
    let report = end_by(Signal::TERM, words);
    report.assert_accounted();
    assert_eq!(report.json["interrupted"], true, "{:#}", report.json);
}

#[test]
fn listeners_run_until_a_signal_and_then_report() {
    for (command, signal) in [
        ("reflect", Signal::INT),
        ("reflect", Signal::TERM),
        ("drop", Signal::INT),
    ] {
        let scratch = Scratch::new();
        let port = free_port();
        let listener = Background::ready(scratch.results(mpps(&format!("{command} udp:127.0.0.1:{port}"))));
        wait_until("a row", || scratch.rows_so_far() > 0);
        let report = scratch.read(listener.end(signal));
        report.assert_rows_add_up();
        assert_eq!(
            (report.count("rx_packets"), report.finished.code),
            (0, Some(0)),
            "{:#}",
            report.json
        );
    }
}

#[test]
fn listeners_end_by_themselves_after_their_duration() {
    let port = free_port();
    for command in ["reflect", "drop"] {
        let finished = run(&format!("{command} udp:127.0.0.1:{port} --duration 200ms"));
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    }
}

#[test]
fn a_quiet_run_prints_nothing_but_what_makes_it_invalid() {
    let finished = run("send null: --duration 200ms --quiet");
    assert_eq!(
        (finished.code, finished.stdout.as_str(), finished.stderr.as_str()),
        (Some(0), "", "")
    );
    let finished = run("send null: --duration 100ms --rate 1000Mpps --quiet");
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(3), ""));
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    let port = free_port();
    let finished = run(&format!("reflect udp:127.0.0.1:{port} --duration 100ms --quiet"));
    assert_eq!(
        (finished.code, finished.stdout.as_str(), finished.stderr.as_str()),
        (Some(0), "", "")
    );
}
