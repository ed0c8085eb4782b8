//! `--start-at`: runs that start at an instant, on several hosts at the same one.

use mpps_sys::clock::{ClockTime, realtime_ns};
use mpps_tests::{Background, Report, Scratch, assert_refused, free_port, mpps};
use rustix::process::Signal;

/// Returns an instant some seconds ahead, ns since 1970, and the same as a reading of the monotonic clock.
fn soon() -> (u64, u64) {
    let at_ns = realtime_ns() + 3_000_000_000;
    (at_ns, ClockTime::Utc(at_ns).monotonic().0)
}

/// Holds the start of a run to the instant, as closely as the run says that it kept it.
fn assert_started(report: &Report, at_ns: u64) {
    let started_ns = report.count("start_monotonic_ns");
    let within_ns = report.count("start_error_ns");
    // The time of day may be adjusted by as much between two readings of it.
    let drift_ns = 1_000_000;
    assert!(started_ns + drift_ns >= at_ns, "{} ns early", at_ns - started_ns);
    assert!(
        started_ns <= at_ns + within_ns + drift_ns,
        "{} ns late, and {within_ns} ns were said",
        started_ns - at_ns
    );
}

#[test]
fn a_run_starts_at_the_instant_and_says_how_far_from_it() {
    let (at_ns, monotonic_ns) = soon();
    let words = format!(
        "sendrecv loop: --rate 10kpps --catch-up 10s --duration 100ms --settle 10ms --lanes 2 --start-at @{at_ns}"
    );
    let report = Scratch::new().measure(mpps(&words));
    report.assert_accounted();
    assert_started(&report, monotonic_ns);
    assert_eq!(report.count("tx_packets"), 1000, "{:#}", report.json);
    let plain = Scratch::new().measure(mpps("sendrecv loop: --duration 10ms --settle 10ms --quiet"));
    assert!(plain.json["start_error_ns"].is_null(), "{:#}", plain.json);
}

#[test]
fn two_ends_start_at_one_instant_and_a_listener_counts_its_duration_from_it() {
    let (at_ns, monotonic_ns) = soon();
    let port = free_port();
    let (ours, theirs) = (Scratch::new(), Scratch::new());
    let reflect = format!("reflect udp:127.0.0.1:{port} --start-at @{at_ns} --duration 700ms");
    let reflector = Background::start(theirs.results(mpps(&reflect)));
    let send =
        format!("sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} --rate 1kpps --duration 200ms --start-at @{at_ns}");
    let report = ours.measure(mpps(&send));
    let reflected = theirs.read(reflector.finish());
    for report in [&report, &reflected] {
        assert_started(report, monotonic_ns);
    }
    report.assert_accounted();
    assert!(reflected.count("rx_packets") > 0, "{:#}", reflected.json);
}

#[test]
fn an_instant_that_is_past_is_refused_before_anything_is_opened() {
    for start in ["@1", "2001-01-01T00:00:00Z"] {
        assert_refused(
            mpps(&format!("sendrecv loop: --start-at {start}")),
            2,
            &["--start-at", start, "ago"],
        );
    }
    assert_refused(
        mpps("reflect xdp:lo --start-at +5s"),
        2,
        &["--start-at +5s", "xdp:lo", "from when it is loaded on"],
    );
    assert_refused(
        mpps("send null: --duration 1ms --start-at +5s --trace t.mpps"),
        2,
        &["--start-at +5s", "--trace"],
    );
    assert_refused(
        mpps("reflect udp:127.0.0.1 --start-at noon"),
        2,
        &["--start-at", "noon", "+5s"],
    );
}

#[test]
fn a_start_that_is_too_near_when_all_is_ready_sends_nothing() {
    let parts = ["--start-at", "nothing was sent", "at least"];
    assert_refused(
        mpps("sendrecv loop: --duration 10ms --start-at +1us --quiet"),
        1,
        &parts,
    );
}

#[test]
fn ctrl_c_ends_the_wait_for_the_start() {
    let waits =
        Background::start(mpps("sendrecv loop: --duration 10ms --start-at +1h")).wait_to_hear("the run starts in 1h");
    let ended = waits.end(Signal::INT);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("interrupted before the first packet"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_result_of_a_start_is_repeated_without_it() {
    let scratch = Scratch::new();
    let (at_ns, _) = soon();
    let words = format!("send null: --rate 1kpps --catch-up 10s --duration 20ms --start-at @{at_ns} --quiet");
    let first = scratch.measure(mpps(&words));
    let result = scratch.file("result.json");
    std::fs::write(&result, first.json.to_string()).expect("writable");
    let again = Scratch::new().measure(mpps(&format!("run {} --quiet", result.display())));
    assert_eq!(again.count("tx_packets"), 20, "{:#}", again.json);
    assert!(again.json["start_error_ns"].is_null(), "{:#}", again.json);
}
