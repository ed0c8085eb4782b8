//! How full receive rings and socket buffers are, as a run tells it.

use std::process::Command;

use mpps_tests::{
    Background, Report, Scratch, free_port, listen_by, mpps, net_of, round_trips_by, source_ports, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

/// Packets; more than any ring or buffer of these tests holds.
const BEYOND_ANY_RING: u64 = 1_000;

/// A receiver that is stopped while packets come, for longer than its ring lasts, and then goes on.
fn stopped_while_packets_come(receive: Command, send: Command) -> Report {
    let (there, here) = (Scratch::new(), Scratch::new());
    let receiver = listen_by(&there, receive);
    let mut send = here.results(send);
    send.args(["--interval", "20ms", "--quiet"]);
    let sender = Background::start(send);
    wait_until("packets", || there.received_so_far() > 0);
    receiver.signal(Signal::STOP);
    let before = here.rows_so_far();
    wait_until("more packets than a ring holds", || here.rows_so_far() > before + 25);
    receiver.signal(Signal::CONT);
    // Those of before the loss lie in its ring still: the loss is seen by the number of a packet behind them.
    let before = there.received_so_far();
    wait_until("packets after the stop", || {
        there.received_so_far() > before + BEYOND_ANY_RING
    });
    sender.end(Signal::INT);
    there.read(receiver.end(Signal::INT))
}

fn ring(report: &Report) -> &Value {
    let rings = report.json["lanes"][0]["rx_rings"].as_array().expect("rx_rings");
    assert_eq!(rings.len(), 1, "{rings:?}");
    &rings[0]
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// The ring was seen to be full: in the summary, in a row, and in the sentence about what was lost.
fn assert_seen_full(report: &Report, unit: &str) {
    let ring = ring(report);
    assert_eq!(ring["unit"], unit, "{ring}");
    // A lane that comes back may have taken some before it looks.
    assert!(number(ring, "highest_ratio") > 0.25, "{ring}");
    assert!(number(ring, "mean_ratio") < number(ring, "highest_ratio"), "{ring}");
    let ratio = |row: &mpps_tests::Row, column: &str| row[column].parse::<f64>().ok();
    let highest = report.rows.iter().filter_map(|row| ratio(row, "rx_fill_highest_ratio"));
    let highest = highest.fold(0.0, f64::max);
    assert!(
        (highest - number(ring, "highest_ratio")).abs() < 1e-5,
        "{highest} in a row, {ring}"
    );
    for row in &report.rows {
        assert!(
            ratio(row, "rx_fill_mean_ratio") <= ratio(row, "rx_fill_highest_ratio"),
            "{row:?}"
        );
    }
    assert!(report.count("host_dropped") > 0);
    let why = report.json["why"].as_array().expect("why");
    let says = |cause: &Value| {
        let sentence = cause["sentence"].as_str().expect("a sentence");
        // Where the path's counters of a row told of no drops, the time away is all that is known.
        sentence.contains("a receive ring was up to") || sentence.contains("longer than its ring lasts")
    };
    assert!(why.iter().any(says), "{why:#?}");
}

#[test]
fn a_socket_buffer_that_overflowed_was_seen_to_be_full() {
    let port = free_port();
    let to = format!(
        "send udp:127.0.0.1 --dest 127.0.0.1:{port} {} --rate 20kpps --duration 1h",
        source_ports(1)
    );
    let report = stopped_while_packets_come(mpps(&format!("drop udp:127.0.0.1:{port},rcvbuf=128K")), mpps(&to));
    assert_seen_full(&report, "bytes");
}

#[test]
fn rings_of_devices_that_overflowed_were_seen_to_be_full() {
    let Some(net) = net_of(1) else { return };
    for path in ["af_packet:eth1,ring=256", "af_xdp:eth1,ring=256"] {
        let send = "send af_packet:eth1 --dest 10.99.0.2:9000 --rate 20kpps --duration 1h";
        let report = stopped_while_packets_come(net.b(&format!("drop {path}")), net.a(send));
        assert_seen_full(&report, "packets");
        let ring = ring(&report);
        assert_eq!(ring["packet_takes"], 1.0, "{path}: {ring}");
        // So many packets, at this rate.
        let came = report.lanes("rx_packets") + report.lanes("rx_dropped");
        let lasts = number(ring, "size") / came as f64 * number(&report.json, "duration_s");
        let told = number(ring, "lasts_ns") / 1e9;
        assert!((told / lasts - 1.0).abs() < 0.01, "{path}: {told} s, not {lasts} s");
    }
}

#[test]
fn what_a_datagram_takes_of_its_buffer_is_seen_and_so_how_long_that_lasts() {
    let port = free_port();
    let send = format!(
        "sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} {} --rate 20kpps",
        source_ports(1)
    );
    let (sent, reflected) = round_trips_by(mpps(&format!("reflect udp:127.0.0.1:{port}")), [mpps(&send)]);
    for report in sent.iter().chain([&reflected]) {
        let ring = ring(report);
        assert!(number(ring, "looks") > 0.0, "{ring}");
        // Known where a look found something, and the next call took all of it.
        if ring["packet_takes"].is_null() {
            assert!(ring["lasts_ns"].is_null(), "{ring}");
            continue;
        }
        // The kernel's own overhead is several hundred bytes.
        let takes = number(ring, "packet_takes");
        assert!((200.0..10_000.0).contains(&takes), "{ring}");
        assert!(number(ring, "lasts_ns") > 0.0, "{ring}");
    }
}

#[test]
fn rows_of_lanes_have_it_and_where_nothing_can_be_seen_nothing_is_told() {
    let scratch = Scratch::new();
    let run = |port: &str| {
        let lanes = scratch.file("lanes.csv");
        let words = format!("sendrecv {port} --rate 20kpps --duration 300ms --settle 100ms --quiet");
        let mut command = mpps(&words);
        command.arg("--lanes-csv").arg(&lanes);
        let report = scratch.measure(command);
        let text = std::fs::read_to_string(&lanes).expect("rows of lanes");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<mpps_tests::Row> = reader.deserialize().map(|row| row.expect("a row")).collect();
        (report, rows)
    };
    let (report, rows) = run("loop:");
    assert!(
        report.json["lanes"][0]["rx_rings"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
    assert!(
        rows.iter()
            .all(|row| row["rx_fill_highest_ratio"].is_empty() && row["rx_fill_looks"] == "0")
    );
    assert!(report.rows.iter().all(|row| row["rx_fill_highest_ratio"].is_empty()));
    let port = free_port();
    let there = Scratch::new();
    let reflector = listen_by(&there, mpps(&format!("reflect udp:127.0.0.1:{port}")));
    let (report, rows) = run(&format!("udp:127.0.0.1 --dest 127.0.0.1:{port} {}", source_ports(1)));
    drop(reflector);
    let looks: u64 = rows
        .iter()
        .map(|row| row["rx_fill_looks"].parse::<u64>().expect("looks"))
        .sum();
    assert_eq!(Some(looks), ring(&report)["looks"].as_u64());
    let highest = rows
        .iter()
        .filter_map(|row| row["rx_fill_highest_ratio"].parse::<f64>().ok());
    let highest = highest.fold(0.0, f64::max);
    assert!(
        (highest - number(ring(&report), "highest_ratio")).abs() < 1e-5,
        "{highest}"
    );
}

#[test]
fn the_summary_in_full_has_a_table_of_rings() {
    let port = free_port();
    let there = Scratch::new();
    let reflector = listen_by(&there, mpps(&format!("reflect udp:127.0.0.1:{port}")));
    let words = format!(
        "sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} {} --rate 20kpps --duration 300ms --verbose",
        source_ports(1)
    );
    let done = mpps_tests::run_command(mpps(&words));
    drop(reflector);
    for part in ["receive ring", "highest fill", "bytes", "lasts:"] {
        assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
    }
}
