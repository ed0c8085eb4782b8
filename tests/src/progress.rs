//! How far a run is, by the rows that it has written.

use rustix::process::Signal;

use crate::{Background, Net, Row, Scratch, wait_until};

/// A run from host a that is under way, with a reflector on host b: sender and reflector.
pub fn under_way(net: &Net, scratch: &Scratch, sendrecv: &str, reflect: &str) -> (Background, Background) {
    let reflector = Background::ready(net.b(reflect));
    let sender = Background::start(scratch.results(net.a(&format!("{sendrecv} --duration 1h"))));
    wait_until("packets that come back", || returning(scratch) >= 3);
    (sender, reflector)
}

/// A reflector that is killed under a run and started again costs the packets of that time, and no others.
///
/// # Panics
/// When it does not, or costs more.
pub fn assert_only_the_gap_is_lost(net: &Net, sendrecv: &str, reflect: &str) {
    let scratch = Scratch::new();
    let (sender, reflector) = under_way(net, &scratch, sendrecv, reflect);
    reflector.end(Signal::KILL);
    wait_for_more("rows in which everything is lost", || silent(&scratch));
    let reflector = Background::ready(net.b(reflect));
    wait_for_more("packets that come back again", || returning(&scratch));
    let report = scratch.read(sender.end(Signal::INT));
    drop(reflector);
    report.assert_accounted();
    let context = format!("{sendrecv} {reflect}: {:#}", report.json);
    assert!(report.count("lost") > 0 && report.count("rx_packets") > 0, "{context}");
    // Loss is booked to the time of sending: rows before the kill have none, rows in the gap nothing else.
    let lossless = |row: &&Row| row["lost_packets"] == "0" && row["rx_packets"] != "0";
    assert!(report.rows.iter().filter(lossless).count() >= 3, "{context}");
}

/// Rows so far in which packets came back.
pub fn returning(scratch: &Scratch) -> usize {
    let text = std::fs::read_to_string(scratch.file("run.csv")).unwrap_or_default();
    let came_back = |row: &&str| row.split(',').nth(2).is_some_and(|rx| rx != "0");
    text.lines().skip(1).filter(came_back).count()
}

/// Rows in which every packet sent was lost.
pub fn silent(scratch: &Scratch) -> usize {
    let text = std::fs::read_to_string(scratch.file("run.csv")).unwrap_or_default();
    let lost = |row: &&str| row.split(',').nth(3).is_some_and(|ratio| ratio == "1.000000000");
    text.lines().skip(1).filter(lost).count()
}

/// Waits for a row of packets that were sent from now on and all of which were lost. Rows close later than what they
/// are of: those that come next are older.
///
/// # Panics
/// When it does not come in time.
pub fn wait_for_silence(scratch: &Scratch) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ns = now.expect("a time after 1970").as_nanos();
    let after = |row: &str| {
        let cells: Vec<_> = row.split(',').collect();
        let began_ns = cells.get(29).and_then(|cell| cell.parse::<u128>().ok());
        cells.get(3) == Some(&"1.000000000") && began_ns.is_some_and(|ns| ns >= now_ns)
    };
    wait_until("a row in which everything is lost", || {
        let text = std::fs::read_to_string(scratch.file("run.csv")).unwrap_or_default();
        text.lines().skip(1).any(after)
    });
}

/// Waits until there are three more than now.
///
/// # Panics
/// When they do not come in time.
pub fn wait_for_more(what: &str, count: impl Fn() -> usize) {
    let before = count();
    wait_until(what, || count() >= before + 3);
}
