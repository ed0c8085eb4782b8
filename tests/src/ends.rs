//! Runs with two ends: a listener on host b and a sender on host a, both of whose results are kept, and what holds for
//! a run in which nothing was lost.

use rustix::process::Signal;

use crate::{Background, Net, Report, Scratch, run_command, wait_until};

/// For a moment, and patient: a machine that is loaded holds packets up and misses departures.
const SHORT: &str = "--duration 100ms --settle 200ms --catch-up 1s --quiet";

/// Starts a listener on host b with its results in `scratch`, and waits until it runs.
pub fn listen(net: &Net, scratch: &Scratch, words: &str) -> Background {
    let listener = Background::start(scratch.results(net.b(&format!("{words} --interval 20ms --quiet"))));
    wait_until("a row of the listener", || scratch.rows_so_far() > 0);
    listener
}

/// Runs each `sendrecv` for a moment on host a, one after the other, for one `reflect` on host b; all reports, each added
/// up.
pub fn round_trips(net: &Net, reflect: &str, sendrecv: &[&str]) -> (Vec<Report>, Report) {
    let there = Scratch::new();
    let reflector = listen(net, &there, reflect);
    let measured = |words: &&str| {
        let report = Scratch::new().measure(net.a(&format!("{words} {SHORT}")));
        report.assert_accounted();
        report
    };
    let sent = sendrecv.iter().map(measured).collect();
    let reflected = there.read(reflector.end(Signal::INT));
    reflected.assert_rows_add_up();
    (sent, reflected)
}

/// The same, and every packet came back, once and whole, and the other end says so, too.
///
/// # Panics
/// When one did not.
pub fn all_back(net: &Net, reflect: &str, sendrecv: &[&str]) -> (Vec<Report>, Report) {
    let (sent, reflected) = round_trips(net, reflect, sendrecv);
    let mut all = 0;
    for (report, words) in sent.iter().zip(sendrecv) {
        let context = format!("{words} / {reflect}: {:#} {:#}", report.json, reflected.json);
        let tx = report.count("tx_packets");
        assert!(tx > 0, "{context}");
        assert_eq!(report.count("rx_packets"), tx, "{context}");
        for count in ["lost", "late", "duplicates", "corrupt"] {
            assert_eq!(report.count(count), 0, "{count}: {context}");
        }
        all += tx;
    }
    for count in ["rx_packets", "tx_packets"] {
        assert_eq!(reflected.count(count), all, "{count}: {reflect}: {:#}", reflected.json);
    }
    (sent, reflected)
}

/// Runs `send` for a moment on host a, for `drop` on host b; both reports, each added up.
pub fn one_way(net: &Net, drop: &str, send: &str) -> (Report, Report) {
    let (here, there) = (Scratch::new(), Scratch::new());
    let receiver = listen(net, &there, drop);
    let sent = here.measure(net.a(&format!("{send} {SHORT}")));
    // The last packets have left by now: two rows later they are counted.
    let rows = there.rows_so_far();
    wait_until("two more rows of the receiver", || there.rows_so_far() >= rows + 2);
    let received = there.read(receiver.end(Signal::INT));
    sent.assert_accounted();
    received.assert_rows_add_up();
    (sent, received)
}

/// The same, and every packet arrived, once and whole.
///
/// # Panics
/// When one did not.
pub fn all_there(net: &Net, drop: &str, send: &str) -> (Report, Report) {
    let (sent, received) = one_way(net, drop, send);
    let context = format!("{send} / {drop}: {:#} {:#}", sent.json, received.json);
    let tx = sent.count("tx_packets");
    assert!(tx > 0, "{context}");
    assert_eq!(received.count("tx_packets"), tx, "expected: {context}");
    assert_eq!(received.count("rx_packets"), tx, "{context}");
    let bad = ["lost", "corrupt", "duplicates"].map(|key| received.count(key));
    assert_eq!(bad, [0; 3], "{context}");
    (sent, received)
}

/// One line that names every part, and this exit code.
///
/// # Panics
/// When it ends otherwise.
pub fn assert_refused(command: std::process::Command, code: i32, parts: &[&str]) {
    let name = format!("{command:?}");
    let finished = run_command(command);
    let context = format!("{name}: {:?} {}", finished.code, finished.stderr);
    assert_eq!(finished.code, Some(code), "{context}");
    assert_eq!(finished.stderr.trim_end().lines().count(), 1, "not one line: {context}");
    for part in parts {
        assert!(finished.stderr.contains(part), "not told {part:?}: {context}");
    }
}
