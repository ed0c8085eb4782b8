//! What programs in the kernel count is what user space counts of the same packets: on a way that loses, doubles,
//! changes and reorders them in a known order, and on one that does not.

use mpps_host::lab::Host;
use mpps_tests::{Middlebox, Net, Report, Row, Scratch, Treated, arrived, net_of, round_trips, wait_until};
use rustix::process::Signal;

/// What the middlebox does comes again after so many packets.
const PERIOD: u64 = 20;
const PACKETS: u64 = 50 * PERIOD;
/// After a stall of the host few packets are caught up: the 256 places of a veth's ring hold them.
const PACED: &str = "--rate 5kpps --duration 200ms --settle 500ms --catch-up 20ms --interval 20ms --quiet";

/// What became of the packets, as a run tells it.
#[derive(Debug, PartialEq, Eq)]
struct Fate {
    tx: u64,
    rx: u64,
    lost: u64,
    duplicates: u64,
    reordered: u64,
    distance: u64,
    corrupt: u64,
}

impl Fate {
    fn told(report: &Report) -> Self {
        Self {
            tx: report.count("tx_packets"),
            rx: report.count("rx_packets"),
            lost: report.count("lost"),
            duplicates: report.count("duplicates"),
            reordered: report.count("reordered"),
            distance: report.count("/reorder_distance/max"),
            corrupt: report.count("corrupt"),
        }
    }

    /// What it must be after such a treatment.
    fn after(done: &Treated) -> Self {
        Self {
            tx: done.came,
            rx: done.came - done.dropped - done.corrupted - done.held,
            lost: done.dropped + done.corrupted + done.held,
            duplicates: done.doubled,
            reordered: done.swapped,
            distance: 3,
            corrupt: done.corrupted,
        }
    }

    /// The same for a receiver that sees no sender: behind the last whole packet, for it, there was none.
    fn without_sender(done: &Treated) -> Self {
        let all = Self::after(done);
        Self {
            tx: all.tx - done.tail,
            lost: all.lost - done.tail,
            ..all
        }
    }
}

/// `sendrecv` on host a through a middlebox on host b.
fn through(net: &Net, port: &str, words: &str) -> Option<(Report, Treated)> {
    let middlebox = Middlebox::start(net, Host::B, 9000, false)?;
    let mac = Host::B.mac();
    let ends = format!("--src 10.99.0.1 --dest 10.99.0.99:9000 --dest-mac {mac}");
    let report = Scratch::new().measure(net.a(&format!("sendrecv {port} {ends} {words} {PACED}")));
    let done = middlebox.end();
    report.assert_accounted();
    Some((report, done))
}

#[test]
fn losses_copies_changes_and_reorderings_are_counted_exactly_and_as_af_xdp_counts_them() {
    let Some(net) = net_of(1) else { return };
    for (words, flows) in [
        ("--flows 1 --payload-size 64", 1),
        ("--flows 20 --seed 9 --pacing burst=10 --payload-size 64", 20),
    ] {
        let mut told = Vec::new();
        for port in ["xdp:eth1", "xdp:eth1,mode=skb", "af_xdp:eth1"] {
            let Some((report, done)) = through(&net, port, words) else {
                return;
            };
            let context = format!("{port} {words} {done:?}: {:#}", report.json);
            let mut expected = Fate::after(&done);
            let fate = Fate::told(&report);
            assert_eq!(
                report.count("tx_packets") + report.count("missed"),
                PACKETS,
                "{context}"
            );
            if flows > 1 {
                // One behind another flow's packet is in its own flow's order.
                (expected.reordered, expected.distance) = (0, 0);
            }
            assert_eq!(fate, expected, "{context}");
            // Losses are in the rows in which the lost were sent: each row that holds two periods has some.
            let sent = |row: &Row| row["tx_packets"].parse::<u64>().expect("a count");
            let mut full = report.rows.iter().filter(|row| sent(row) >= 2 * PERIOD);
            assert!(full.all(|row| row["lost_packets"] != "0"), "{context}");
            told.push((port, report.count("missed"), fate));
        }
        let complete: Vec<_> = told.iter().filter(|(_, missed, _)| *missed == 0).collect();
        assert!(complete.windows(2).all(|pair| pair[0].2 == pair[1].2), "{told:?}");
    }
}

#[test]
fn changed_data_is_found_by_its_checksum_and_without_one_by_looking_at_it() {
    let Some(net) = net_of(1) else { return };
    for (check, found_of_two) in [("all", 2), ("headers", 0)] {
        let Some((report, done)) = through(&net, &format!("xdp:eth1,check={check}"), "--flows 1 --payload-size 64")
        else {
            return;
        };
        let context = format!("{check} {done:?}: {:#}", report.json);
        assert_eq!(report.count("corrupt"), done.corrupted * found_of_two / 2, "{context}");
    }
}

/// `send` on host a to itself by way of a middlebox on host b.
fn one_way_through(net: &Net, drop: &str, roams: bool) -> Option<(Report, Report, Treated)> {
    let middlebox = Middlebox::start(net, Host::B, 9000, roams)?;
    let there = Scratch::new();
    let words = "--ip 10.99.0.77 --port 9100 --seed 3 --interval 20ms --quiet";
    let receiver = mpps_tests::Background::start(there.results(net.a(&format!("drop {drop} {words}"))));
    wait_until("a row of the receiver", || there.rows_so_far() > 0);
    let mac = Host::B.mac();
    let ends = format!("--src 10.99.0.77 --src-port-range 9100-9100 --dest 10.99.0.99:9000 --dest-mac {mac} --seed 3");
    let sent = Scratch::new().measure(net.a(&format!("send af_packet:eth1 {ends} --payload-size 64 {PACED}")));
    arrived(&there, sent.count("tx_packets"));
    let received = there.read(receiver.end(Signal::INT));
    let done = middlebox.end();
    received.assert_rows_add_up();
    Some((sent, received, done))
}

#[test]
fn a_receiver_without_a_sender_counts_what_the_numbers_say_as_af_xdp_does() {
    let Some(net) = net_of(1) else { return };
    for port in ["xdp:eth1", "xdp:eth1,mode=skb", "af_xdp:eth1"] {
        let Some((sent, received, done)) = one_way_through(&net, port, false) else {
            return;
        };
        let context = format!("{port} {done:?}: {:#} {:#}", sent.json, received.json);
        assert_eq!(sent.count("tx_packets"), done.came, "{context}");
        assert_eq!(Fate::told(&received), Fate::without_sender(&done), "{context}");
    }
}

#[test]
fn a_flow_that_roams_over_processors_is_counted_exactly_and_the_run_is_valid() {
    let Some(net) = net_of(1) else { return };
    for port in ["xdp:eth1", "xdp:eth1,mode=skb"] {
        let Some((sent, received, done)) = one_way_through(&net, port, true) else {
            return;
        };
        let context = format!("{port} {done:?}: {:#} {:#}", sent.json, received.json);
        assert_exact(&received, &Fate::without_sender(&done), &context);
    }
}

/// Everything is as expected but the order, which the host's processors may have changed; and the run is valid.
fn assert_exact(received: &Report, expected: &Fate, context: &str) {
    let fate = Fate::told(received);
    assert_eq!(
        (fate.tx, fate.rx, fate.lost, fate.corrupt, fate.duplicates),
        (
            expected.tx,
            expected.rx,
            expected.lost,
            expected.corrupt,
            expected.duplicates
        ),
        "{context}"
    );
    assert_eq!(received.json["valid"], true, "{context}");
    assert_eq!(received.reason("flow_contended"), 0, "{context}");
}

/// Sends packets of one flow, 200 at a time (a veth's ring has room for 256) and each time from another processor, once
/// the rows in the file `sys.argv[1]` have all that was sent before.
const MOVING: &str = r#"
import os, socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.99.0.1", 7000))
processors = sorted(os.sched_getaffinity(0))
def received():
    rows = open(sys.argv[1]).read().rpartition("\n")[0].split("\n")[1:]
    return sum(int(row.split(",")[2]) for row in rows)
deadline = time.monotonic() + 60
for n in range(int(sys.argv[2])):
    if n % 200 == 0:
        while received() < n:
            if time.monotonic() > deadline: sys.exit(f"{received()} of {n} have come")
            time.sleep(0.005)
        os.sched_setaffinity(0, [processors[n // 200 % len(processors)]])
    s.sendto(struct.pack("<QQ", n, time.monotonic_ns()), ("10.99.0.2", 9000))
"#;

#[test]
fn a_flow_whose_sender_moves_between_processors_is_counted_exactly_with_threaded_polling_too() {
    const ALL: u64 = 4000;
    let Some(net) = net_of(2) else { return };
    for threaded in ["0", "1"] {
        let set = format!("open('/sys/class/net/eth1/threaded', 'w').write('{threaded}')");
        if !net.python(Host::B, &set, &[]) {
            return;
        }
        for port in ["xdp:eth1", "xdp:eth1,mode=skb"] {
            let there = Scratch::new();
            let words = "--port 9000 --interval 20ms --quiet";
            let receiver = mpps_tests::Background::start(there.results(net.b(&format!("drop {port} {words}"))));
            wait_until("a row of the receiver", || there.rows_so_far() > 0);
            let rows = there.file("run.csv").display().to_string();
            assert!(net.python(Host::A, MOVING, &[&rows, &ALL.to_string()]));
            wait_until("all of it", || there.received_so_far() >= ALL);
            let received = there.read(receiver.end(Signal::INT));
            let context = format!("{port} threaded={threaded}: {:#}", received.json);
            let expected = Fate {
                tx: ALL,
                rx: ALL,
                lost: 0,
                duplicates: 0,
                reordered: 0,
                distance: 0,
                corrupt: 0,
            };
            assert_eq!(Fate::told(&received), expected, "{context}");
            assert_exact(&received, &expected, &context);
        }
    }
}

#[test]
fn the_same_paced_traffic_is_counted_the_same_by_both_paths_at_both_ends() {
    let Some(net) = net_of(1) else { return };
    let words = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 40kpps --seed 4 --flows 30 --payload-size 200";
    let mut told = Vec::new();
    for path in ["xdp", "af_xdp"] {
        let sendrecv = format!("sendrecv {path}:eth1 {words}");
        let (sent, reflected) = round_trips(&net, &format!("reflect {path}:eth1"), &[&sendrecv]);
        let sent = &sent[0];
        let context = format!("{path}: {:#} {:#}", sent.json, reflected.json);
        sent.assert_departures(4000);
        for key in ["latency_ns", "latency_scheduled_ns"] {
            let values = ["min", "p50", "p99", "max"].map(|p| sent.count(&format!("/{key}/{p}")));
            assert!(values[0] > 0 && values.is_sorted(), "{key} {values:?}: {context}");
        }
        if sent.count("missed") == 0 {
            assert_eq!(reflected.count("rx_packets"), sent.count("rx_packets"), "{context}");
            told.push((
                Fate::told(sent),
                sent.json["frame_size_bytes"].clone(),
                sent.json["flows"].clone(),
            ));
        }
    }
    assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{told:?}");
}
