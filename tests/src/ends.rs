//! Runs with two ends: a listener on host b and a sender on host a, both of whose results are kept, and what holds for
//! a run in which nothing was lost.

use rustix::process::Signal;

use mpps_host::lab::Host;

use crate::{Background, Net, Report, Scratch, missing, run_command, wait_until};

/// Packets back late are lost for a test that expects all: far longer than what a loaded machine holds one up for.
const SHORT: &str = "--duration 150ms --settle 200ms --catch-up 1s --quiet";

/// Starts a listener on host b with its results in `scratch`, and waits until it runs.
pub fn listen(net: &Net, scratch: &Scratch, words: &str) -> Background {
    let listener = Background::start(scratch.results(net.b(&format!("{words} --interval 20ms --quiet"))));
    wait_until("a row of the listener", || scratch.rows_so_far() > 0);
    listener
}

/// Runs `sendrecv` for a moment on host a, for `reflect` on host b; both reports, each added up.
pub fn round_trip(net: &Net, reflect: &str, sendrecv: &str) -> (Report, Report) {
    let (here, there) = (Scratch::new(), Scratch::new());
    let reflector = listen(net, &there, reflect);
    let sent = here.measure(net.a(&format!("{sendrecv} {SHORT}")));
    let reflected = there.read(reflector.end(Signal::INT));
    sent.assert_accounted();
    reflected.assert_rows_add_up();
    (sent, reflected)
}

/// The same, and every packet came back, once and whole, and the other end says so, too.
///
/// # Panics
/// When one did not.
pub fn all_back(net: &Net, reflect: &str, sendrecv: &str) -> (Report, Report) {
    let (sent, reflected) = round_trip(net, reflect, sendrecv);
    let context = format!("{sendrecv} / {reflect}: {:#} {:#}", sent.json, reflected.json);
    let tx = sent.count("tx_packets");
    assert!(tx > 0, "{context}");
    assert_eq!(sent.count("rx_packets"), tx, "{context}");
    for count in ["lost", "late", "duplicates", "corrupt"] {
        assert_eq!(sent.count(count), 0, "{count}: {context}");
    }
    for count in ["rx_packets", "tx_packets"] {
        assert_eq!(reflected.count(count), tx, "{count}: {context}");
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

impl Net {
    /// Gives both ends of the veth a poll loop, as a device of its own has, so that each takes frames from the other's
    /// XDP programs though it may have none. False, and said, without `ethtool`.
    pub fn poll_loops(&self) -> bool {
        if missing("ethtool", "ethtool") {
            return false;
        }
        for host in Host::ALL {
            self.on(host, "ethtool -K eth1 gro on");
        }
        true
    }
}
