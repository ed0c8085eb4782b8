//! Runs with two ends: a listener on host b and a sender on host a, both of whose results are kept, and what holds for
//! a run in which nothing was lost.

use std::process::Command;

use rustix::process::Signal;

use crate::{Background, Net, Report, Scratch, run_command, wait_until};

/// For a moment, and patient: a machine that is loaded holds packets up and misses departures.
const SHORT: [[&str; 2]; 3] = [["--duration", "100ms"], ["--settle", "500ms"], ["--catch-up", "10s"]];

/// Adds what is in [`SHORT`] and was not said otherwise.
fn short(command: &mut Command) {
    if !command.get_args().any(|word| word == "--settle") {
        command.arg("--settle-early");
    }
    for [option, value] in SHORT {
        if !command.get_args().any(|word| word == option) {
            command.args([option, value]);
        }
    }
    command.arg("--quiet");
}

/// Rows of 20 ms of a listener in which nothing came: nothing more will.
const QUIET_ROWS: usize = 75;

/// Starts a listener on host b with its results in `scratch`, and waits until it runs.
pub fn listen(net: &Net, scratch: &Scratch, words: &str) -> Background {
    listen_by(scratch, net.b(words))
}

/// The same for a listener that runs anywhere.
///
/// # Panics
/// When it ends instead, or takes too long.
pub fn listen_by(scratch: &Scratch, mut command: Command) -> Background {
    command.args(["--interval", "20ms", "--quiet"]);
    let mut listener = Background::start(scratch.results(command));
    let mut running = true;
    wait_until("a row of the listener", || {
        running = listener.running();
        scratch.rows_so_far() > 0 || !running
    });
    assert!(running, "the listener has ended: {}", listener.stderr());
    listener
}

/// Runs each sender for a moment, one after the other, for one listener, wherever they run; all reports, each added up.
pub fn round_trips_by(reflect: Command, sendrecv: impl IntoIterator<Item = Command>) -> (Vec<Report>, Report) {
    let there = Scratch::new();
    let reflector = listen_by(&there, reflect);
    let measured = |mut command: Command| {
        short(&mut command);
        let report = Scratch::new().measure(command);
        report.assert_accounted();
        report
    };
    let sent = sendrecv.into_iter().map(measured).collect();
    let reflected = there.read(reflector.end(Signal::INT));
    reflected.assert_rows_add_up();
    (sent, reflected)
}

/// Runs each `sendrecv` for a moment on host a, one after the other, for one `reflect` on host b; all reports, each
/// added up.
pub fn round_trips(net: &Net, reflect: &str, sendrecv: &[&str]) -> (Vec<Report>, Report) {
    round_trips_by(net.b(reflect), sendrecv.iter().map(|words| net.a(words)))
}

/// The same, and every packet came back, once and whole, and the other end says so, too.
///
/// # Panics
/// When one did not.
pub fn all_back(net: &Net, reflect: &str, sendrecv: &[&str]) -> (Vec<Report>, Report) {
    all_back_by(net.b(reflect), sendrecv.iter().map(|words| net.a(words)).collect())
}

/// The same for ends that run anywhere.
///
/// # Panics
/// When one did not.
pub fn all_back_by(reflect: Command, sendrecv: Vec<Command>) -> (Vec<Report>, Report) {
    let names = format!("{sendrecv:?} / {reflect:?}");
    let (sent, reflected) = round_trips_by(reflect, sendrecv);
    let mut all = 0;
    for report in &sent {
        let context = format!("{names}: {:#} {:#}", report.json, reflected.json);
        let tx = report.count("tx_packets");
        assert!(tx > 0, "{context}");
        assert_eq!(report.count("rx_packets"), tx, "{context}");
        for count in ["lost", "late", "duplicates", "corrupt"] {
            assert_eq!(report.count(count), 0, "{count}: {context}");
        }
        all += tx;
    }
    for count in ["rx_packets", "tx_packets"] {
        assert_eq!(reflected.count(count), all, "{count}: {names}: {:#}", reflected.json);
    }
    (sent, reflected)
}

/// The same for one `sendrecv`, on hosts whose stacks say little of their own.
///
/// # Panics
/// When a packet did not come back.
pub fn each_back(net: &Net, reflect: &str, sendrecv: &str) -> (Report, Report) {
    let rate = if sendrecv.contains("--rate") {
        ""
    } else {
        " --rate 10kpps"
    };
    // A sender that is late sends no more at once than small rings hold.
    let words = format!("{sendrecv}{rate} --catch-up 5ms");
    let (mut sent, reflected) = all_back(net, reflect, &[&words]);
    let sent = sent.remove(0);
    // The hosts' own stacks talk, too: neighbour discovery, multicast reports.
    assert!(sent.count("foreign") < 10, "{sendrecv} / {reflect}: {:#}", sent.json);
    (sent, reflected)
}

/// Runs `send` for a moment on host a, for `drop` on host b; both reports, each added up.
pub fn one_way(net: &Net, drop: &str, send: &str) -> (Report, Report) {
    one_way_by(net.b(drop), net.a(send))
}

/// The same for ends that run anywhere.
pub fn one_way_by(drop: Command, mut send: Command) -> (Report, Report) {
    let (here, there) = (Scratch::new(), Scratch::new());
    let receiver = listen_by(&there, drop);
    short(&mut send);
    let sent = here.measure(send);
    arrived(&there, sent.count("tx_packets"));
    let received = there.read(receiver.end(Signal::INT));
    sent.assert_accounted();
    received.assert_rows_add_up();
    (sent, received)
}

/// Waits until a receiver whose results are in `there` has counted so many packets, or no more come: the sender has
/// ended, but what it sent may lie in a ring until a receiver that is kept from its core takes it. Then two rows more.
pub fn arrived(there: &Scratch, sent: u64) {
    let (mut last, mut since) = (0, there.rows_so_far());
    wait_until("what was sent, or the end of it", || {
        let (rows, now) = (there.rows_so_far(), there.received_so_far());
        if now != last {
            (last, since) = (now, rows);
        }
        now >= sent || rows >= since + QUIET_ROWS
    });
    let rows = there.rows_so_far();
    wait_until("two more rows of the receiver", || there.rows_so_far() >= rows + 2);
}

/// The same, and every packet arrived, once and whole.
///
/// # Panics
/// When one did not.
pub fn all_there(net: &Net, drop: &str, send: &str) -> (Report, Report) {
    all_there_by(net.b(drop), net.a(send))
}

/// The same for ends that run anywhere.
///
/// # Panics
/// When one did not.
pub fn all_there_by(drop: Command, send: Command) -> (Report, Report) {
    let names = format!("{send:?} / {drop:?}");
    let (sent, received) = one_way_by(drop, send);
    let context = format!("{names}: {:#} {:#}", sent.json, received.json);
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
pub fn assert_refused(command: Command, code: i32, parts: &[&str]) {
    let name = format!("{command:?}");
    let finished = run_command(command);
    let context = format!("{name}: {:?} {}", finished.code, finished.stderr);
    assert_eq!(finished.code, Some(code), "{context}");
    // Others may have made it wait for a lock, and it said so.
    let lines = finished.stderr.trim_end().lines();
    let lines = lines.filter(|line| !line.starts_with("mpps: waiting for process "));
    assert_eq!(lines.count(), 1, "not one line: {context}");
    for part in parts {
        assert!(finished.stderr.contains(part), "not told {part:?}: {context}");
    }
}
