//! The stage table: it accounts for all of a lane's time, and its counts are those of the run.

use mpps_tests::{Background, Report, Scratch, free_port, listen_by, mpps, rival, source_ports};
use serde_json::Value;

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// Holds for every run: shares add up to all of the lane's time, counts are the lane's.
fn assert_complete(report: &Report) {
    let json = &report.json;
    let lanes = json["lanes"].as_array().expect("lanes");
    let stages = json["stages"].as_array().expect("stages");
    for (place, lane) in lanes.iter().enumerate() {
        let rows: Vec<&Value> = stages.iter().filter(|row| row["lane"] == place).collect();
        let shares: f64 = rows.iter().map(|row| number(row, "share")).sum();
        assert!(
            (shares - 1.0).abs() < 1e-3,
            "shares of lane {place} add up to {shares}: {stages:?}"
        );
        let total: f64 = rows.iter().map(|row| number(row, "total_ns")).sum();
        for row in &rows {
            let share = number(row, "total_ns") / total;
            assert!((share - number(row, "share")).abs() < 1e-3, "{row}");
            assert!(number(row, "p50_ns") <= number(row, "p99_ns"), "{row}");
            assert!(number(row, "p99_ns") <= number(row, "max_ns"), "{row}");
        }
        let of = |stage: &str, key: &str| {
            let row = rows.iter().find(|row| row["stage"] == stage);
            row.map_or(0, |row| row[key].as_u64().expect("a count"))
        };
        let same = |stage: &str, calls: &str, packets: &str| {
            assert_eq!(
                of(stage, "calls"),
                lane[calls].as_u64().expect(calls),
                "{stage} of {lane}"
            );
            if !packets.is_empty() {
                assert_eq!(
                    of(stage, "packets"),
                    lane[packets].as_u64().expect(packets),
                    "{stage} of {lane}"
                );
            }
        };
        same("receive", "rx_bursts", "rx_packets");
        same("classify", "rx_bursts", "rx_packets");
        same("transmit", "tx_bursts", "tx_packets");
        same("empty_polls", "empty_polls", "");
        let sizes = lane["rx_burst_sizes"].as_array().expect("sizes");
        let sum = |part: fn(u64, u64) -> u64| {
            let number = |pair: &Value, at: usize| pair[at].as_u64().expect("a number");
            sizes
                .iter()
                .map(|pair| part(number(pair, 0), number(pair, 1)))
                .sum::<u64>()
        };
        assert_eq!(
            sum(|_, calls| calls),
            lane["rx_bursts"].as_u64().expect("calls"),
            "{lane}"
        );
        assert_eq!(
            sum(|frames, calls| frames * calls),
            lane["rx_packets"].as_u64().expect("packets"),
            "{lane}"
        );
        // A reflector also sleeps until there is room.
        assert!(Some(of("asleep", "calls")) >= lane["waits"].as_u64(), "{lane}");
        assert!(
            of("write", "packets") >= of("transmit", "packets") || of("receive", "packets") > 0,
            "{lane}"
        );
        // What a lane does is timed somewhere in a run.
        for stage in ["receive", "classify", "transmit"] {
            assert!(of(stage, "timed") >= of(stage, "calls") / 200, "{stage} of {stages:?}");
        }
    }
    let cost = &json["stage_cost"];
    assert!(
        number(cost, "readings") > 0.0 && number(cost, "reading_ns") > 0.0,
        "{cost}"
    );
    assert!((0.0..1.0).contains(&number(cost, "share")), "{cost}");
}

#[test]
fn all_time_of_lanes_that_loop_is_told_by_stage_and_counts_are_those_of_the_run() {
    for words in [
        "sendrecv loop: --duration 500ms --settle 50ms",
        "sendrecv loop:delay=1ms --rate 20kpps --lanes 2 --duration 500ms --settle 50ms",
        "send null: --duration 300ms",
        "drop null: --duration 300ms",
        "forward null: null: --duration 300ms",
    ] {
        let scratch = Scratch::new();
        let report = scratch.measure(mpps(&format!("{words} --plain")));
        assert_complete(&report);
        assert!(
            report.finished.stdout.contains("lane 0: "),
            "{}",
            report.finished.stdout
        );
    }
}

/// Both ends of a run over the loopback device.
fn over_loopback() -> [Report; 2] {
    let (here, there) = (Scratch::new(), Scratch::new());
    let port = free_port();
    let reflector = listen_by(&there, mpps(&format!("reflect udp:127.0.0.1:{port}")));
    let words = format!(
        "sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} --rate 20kpps --duration 700ms --settle 300ms --quiet {}",
        source_ports(1)
    );
    let sender = here.read(Background::start(here.results(mpps(&words))).finish());
    let reflector = there.read(reflector.end(rustix::process::Signal::INT));
    [sender, reflector]
}

#[test]
fn both_ends_over_sockets_account_for_all_of_their_time() {
    for report in over_loopback() {
        assert_complete(&report);
    }
}

#[test]
fn beside_busy_loops_on_every_core_the_table_is_as_complete() {
    let rivals = [rival(), rival()];
    let [sender, reflector] = over_loopback();
    drop(rivals);
    for report in [&sender, &reflector] {
        assert_complete(report);
        // What the lanes waited for their cores is away: all of it, but for what fell between the two looks at it.
        let lanes = report.json["lanes"].as_array().expect("lanes");
        for (place, lane) in lanes.iter().enumerate() {
            let rows = report.json["stages"].as_array().expect("stages").iter();
            let mut away = rows.filter(|row| row["lane"] == place && row["stage"] == "away");
            let away = away.next().map_or(0.0, |row| number(row, "total_ns"));
            let waited = lane["run_delay_ns"].as_f64().unwrap_or(0.0);
            assert!(
                waited < 50e6 || away > waited / 2.0,
                "{away} ns away, {waited} ns waited"
            );
        }
    }
}
