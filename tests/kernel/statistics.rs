//! What the report says is what happened: the loop path injects faults and counts them itself, and the two must agree
//! to the packet, whatever the interval, the number of lanes, the payload and the address family.

use mpps_tests::{Report, Scratch, mpps, skip_disturbed};

/// How many departures a paced run of these tests has.
const PACKETS: u64 = 12_000;

fn measure(port: &str, more: &str) -> Report {
    let words = format!("sendrecv {port} --rate 30kpps --duration 400ms --settle 300ms --quiet {more}");
    let report = Scratch::new().measure(mpps(&words));
    report.assert_accounted();
    report.assert_departures(PACKETS);
    report
}

/// Loss, duplicates, reordering and corruption are each reported as the path injected them.
fn assert_as_injected(report: &Report) {
    let injected = |name| report.path_counter(name);
    // A corrupt packet can't be told from a lost one by its number, so its original counts as lost.
    assert_eq!(
        report.count("lost"),
        injected("lost") + injected("corrupted"),
        "{:#}",
        report.json
    );
    assert_eq!(report.count("corrupt"), injected("corrupted"), "{:#}", report.json);
    assert_eq!(report.count("duplicates"), injected("duplicated"), "{:#}", report.json);
    assert_eq!(report.count("reordered"), injected("reordered"), "{:#}", report.json);
    assert_eq!(report.count("foreign") + report.count("late"), 0, "{:#}", report.json);
}

#[test]
fn the_report_equals_what_was_injected_at_any_interval_and_with_any_packets() {
    let v6 = "--dest [fd99::2]:9000";
    for (delay, more) in [
        (
            "200us",
            "--interval 100us --lanes 1 --payload-size 16 --flows 1".to_owned(),
        ),
        (
            "1ms",
            "--interval 100us --lanes 2 --payload-size 1472 --src-port-range 10000-10999".to_owned(),
        ),
        ("0", format!("--interval 1ms --lanes 1 --payload-size 17 {v6}")),
        (
            "500us",
            format!("--interval 1ms --lanes 2 --payload-size 1452 --src-port-range 10000-10999 {v6}"),
        ),
        (
            "3ms",
            "--interval 100ms --lanes 1 --frame-size 512 --src-port-range 10000-10999".to_owned(),
        ),
        (
            "200us",
            format!("--interval 100ms --lanes 2 --payload-size 256 --flows 2 {v6}"),
        ),
        ("20ms", "--interval 1s --lanes 1 --frame-size 64".to_owned()),
        ("1ms", "--interval 1s --lanes 2 --vlan 7 --payload-size 100".to_owned()),
    ] {
        let faults = "loss=0.02,duplicate=0.02,reorder=0.02,corrupt=0.01";
        let report = measure(&format!("loop:delay={delay},{faults}"), &more);
        println!("{more}: {}", report.json["invalid_reasons"]);
        assert_as_injected(&report);
        // Of a thousand flows each is too slow for its packets to overtake each other.
        let overtaking = if more.contains("10999") {
            None
        } else {
            Some("reordered")
        };
        for fault in ["lost", "duplicated", "corrupted"].into_iter().chain(overtaking) {
            assert!(report.path_counter(fault) > 0, "{fault} was never injected: {more}");
        }
    }
}

#[test]
fn nothing_is_reported_where_nothing_was_injected() {
    for more in ["", "--lanes 2 --interval 1ms", "--payload-size 1472 --pacing poisson"] {
        let words = format!("sendrecv loop:delay=100us --rate 30kpps --duration 400ms --quiet {more}");
        let report = Scratch::new().measure(mpps(&words));
        report.assert_accounted();
        assert_as_injected(&report);
        for count in ["lost", "late", "duplicates", "reordered", "corrupt", "foreign"] {
            assert_eq!(report.count(count), 0, "{count}: {:#}", report.json);
        }
    }
}

#[test]
fn a_path_that_loses_everything_or_doubles_everything_is_reported_as_such() {
    let report = measure("loop:loss=1", "");
    assert_eq!(
        (report.count("rx_packets"), report.count("lost")),
        (0, report.count("tx_packets"))
    );
    assert_eq!(report.json["loss_ratio"], 1.0);
    assert!(report.json["latency_ns"]["p50"].is_null(), "{:#}", report.json);

    let report = measure("loop:duplicate=1", "--lanes 2");
    assert_eq!(report.count("duplicates"), report.count("tx_packets"));
    assert_eq!(report.count("rx_packets"), report.count("tx_packets"));

    let report = measure("loop:corrupt=1", "--payload-size 64");
    assert_eq!(report.count("corrupt"), report.count("tx_packets"));
    assert_eq!(report.count("rx_packets"), 0);
}

#[test]
fn the_distance_of_reordered_packets_is_the_one_injected() {
    // Sixty of the packets: none at all is one run of 10^26.
    let report = measure("loop:reorder=0.005,reorder_distance=5,delay=200us", "--flows 1");
    assert_as_injected(&report);
    assert!(report.count("reordered") > 0);
    // Packets held back at the same time overtake each other, too: seldom more than asked. Less only where none follows
    // for too long, as on a lane that lacks its core.
    assert!(report.count("/reorder_distance/max") >= 5, "{:#}", report.json);
    assert!(
        report.json["reorder_distance"]["mean"].as_f64() > Some(4.0),
        "{:#}",
        report.json
    );
}

#[test]
fn latency_is_the_injected_delay_up_to_the_highest_percentiles_and_never_less() {
    for (delay_ns, lanes) in [(200_000_u64, 1), (1_000_000, 1), (500_000, 2)] {
        let words = format!(
            "sendrecv loop:delay={}us --lanes {lanes} --rate 50kpps --burst 1 --duration 100ms --settle 200ms --quiet",
            delay_ns / 1000
        );
        let near = |report: &Report, name: &str| {
            report.count(&format!("/latency_ns/{name}")).abs_diff(delay_ns) <= 1000 + delay_ns / 2000
        };
        // A lane that loses its core between the stamp and the path's own clock adds that time truly. On a busy machine
        // no run is free of it, and then only this is known: no latency is shorter than the delay, and no percentile
        // than a lower one. What percentiles are made of is held by the tests of the histogram.
        let mut least_near = false;
        let clean = (0..20).any(|_| {
            let report = Scratch::new().measure(mpps(&words));
            report.assert_accounted();
            println!("{}", report.json["latency_ns"]);
            let names = ["min", "p50", "p90", "p99", "p999", "max"];
            let values = names.map(|name| report.count(&format!("/latency_ns/{name}")));
            // A percentile is known to a part in 2000 of itself.
            let least = delay_ns - delay_ns / 2000;
            assert!(values[0] >= least && values.is_sorted(), "{delay_ns}: {values:?}");
            least_near |= near(&report, "min");
            names[..5].iter().all(|percentile| near(&report, percentile))
        });
        assert!(
            least_near,
            "of all packets of 20 runs, none came back {delay_ns} ns after it was sent"
        );
        if !clean {
            skip_disturbed(&format!("p99.9 was never within 1 µs of {delay_ns} ns"));
        }
    }
}

#[test]
fn packets_that_come_back_after_the_settle_time_are_late_and_counted_once() {
    let scratch = Scratch::new();
    let words = "sendrecv loop:delay=200ms --rate 30kpps --duration 400ms --settle 50ms --interval 10ms --quiet";
    let report = scratch.measure(mpps(words));
    report.assert_accounted();
    assert_eq!(report.count("rx_packets"), 0, "{:#}", report.json);
    assert!(report.count("late") > 0, "{:#}", report.json);
    assert_eq!(report.count("tx_packets"), report.count("late") + report.count("lost"));
    assert!(
        report.said().contains("later than the settle time"),
        "{}",
        report.said()
    );
}

#[test]
fn every_pacing_and_number_of_lanes_has_exactly_rate_times_duration_departures() {
    for more in [
        "--pacing constant --lanes 1",
        "--pacing constant --lanes 3 --src-port-range 10000-10099",
        "--pacing burst=50 --lanes 1",
        "--pacing burst=7 --lanes 2",
        "--pacing burst=100000 --lanes 1",
        "--pacing poisson --lanes 1",
        "--pacing poisson --lanes 2 --seed 9",
    ] {
        let words = format!("send null: --rate 30011pps --duration 300ms --quiet {more}");
        let report = Scratch::new().measure(mpps(&words));
        report.assert_accounted();
        let all = report.count("tx_packets") + report.count("missed");
        println!("{more}: {all}, of which {} were missed", report.count("missed"));
        if !more.contains("poisson") {
            // The first departs at once, the last before the end.
            assert_eq!(all, 9004, "{more}: {:#}", report.json);
        }
    }
}

#[test]
fn a_schedule_that_ends_long_before_the_run_is_kept_to_its_end() {
    let schedules = [
        ("--rate 4pps --duration 500ms", 2),
        ("--rate 1kpps --pacing burst=400 --duration 300ms", 300),
    ];
    for (words, departures) in schedules {
        for port in ["send null:", "sendrecv loop:delay=1ms --settle 100ms"] {
            let report = Scratch::new().measure(mpps(&format!("{port} {words} --quiet")));
            report.assert_accounted();
            report.assert_departures(departures);
        }
    }
}

#[test]
fn a_schedule_that_can_not_be_kept_is_missed_in_the_report_and_not_valid() {
    // A second's schedule within one tenth of it: no machine keeps that up, and the report must say so.
    let report = Scratch::new().measure(mpps("send null: --rate 1000Mpps --duration 100ms --quiet"));
    report.assert_accounted();
    report.assert_departures(100_000_000);
    assert!(report.count("missed") > 0);
    assert_eq!(report.finished.code, Some(3));
    assert!(report.said().contains("offered rate"), "{}", report.said());
}

#[test]
fn a_rate_that_was_missed_is_a_remark_with_its_numbers() {
    let report = Scratch::new().measure(mpps("send null: --rate 1000Mpps --duration 100ms --quiet"));
    report.assert_accounted();
    let remark = report.remark("missed_departures").expect("a remark");
    assert_eq!(remark["invalid"], true);
    assert_eq!(remark["sentence"], report.json["invalid_reasons"][0]);
    let (values, due) = (&remark["values"], report.count("due_packets"));
    assert_eq!(values["missed_packets"].as_u64(), Some(report.count("missed")));
    assert_eq!(values["due_packets"].as_u64(), Some(due));
    let off = (due - report.count("tx_packets")) as f64 / due as f64;
    for (key, ratio) in [("allowed_ratio", 0.001), ("off_ratio", off)] {
        let is = values[key].as_f64().expect(key);
        assert!((is - ratio).abs() < 1e-9, "{key}: {is} is not {ratio}");
    }
    assert!(values["cause"].is_string(), "{remark:#}");
}

#[test]
fn a_run_that_lost_everything_is_a_remark_and_valid() {
    let words = "sendrecv loop:loss=1 --rate 2kpps --tolerance 100% --duration 100ms --settle 50ms --quiet";
    let report = Scratch::new().measure(mpps(words));
    report.assert_accounted();
    let remark = report.remark("nothing_came_back").expect("a remark");
    assert_eq!(remark["invalid"], false);
    assert_eq!(remark["values"]["packets"].as_u64(), Some(report.count("tx_packets")));
}

#[test]
fn unpaced_runs_add_up_too() {
    for words in [
        "sendrecv loop:loss=0.001 --duration 200ms --settle 100ms --quiet --interval 1ms",
        "sendrecv loop: --lanes 2 --duration 200ms --settle 100ms --quiet",
        "send null: --duration 200ms --quiet --interval 1ms",
    ] {
        let report = Scratch::new().measure(mpps(words));
        report.assert_accounted();
        assert!(report.count("tx_packets") > 0 && report.json["intended_pps"].is_null());
    }
}

#[test]
fn the_payload_paths_of_loop_and_null_add_up_too() {
    let report = measure(
        "loop:layer=payload,loss=0.01,corrupt=0.01,delay=300us",
        "--payload-size 200",
    );
    assert_as_injected(&report);
    let report = Scratch::new().measure(mpps("drop null: --duration 200ms --quiet"));
    report.assert_rows_add_up();
    assert!(report.count("rx_packets") > 0);
    assert_eq!(
        report.count("lost") + report.count("corrupt") + report.count("foreign"),
        0,
        "{:#}",
        report.json
    );
}

/// The device of these tests: 100,000 packets a second, 100 in its queue, so 1 ms.
const DEVICE: &str =
    "sendrecv loop:capacity=100kpps,queue=100 --duration 400ms --settle 300ms --catch-up 200us --quiet";
/// What it serves while it is sent to.
const SERVED: u64 = 40_000;

#[test]
fn a_device_of_known_rate_loses_and_delays_what_its_rate_and_queue_say() {
    for lanes in [1, 2] {
        let words = format!("{DEVICE} --rate 200kpps --burst 1 --lanes {lanes} --flows {lanes}");
        let mut full = false;
        let clean = (0..10).any(|_| {
            let report = Scratch::new().measure(mpps(&words));
            report.assert_accounted();
            report.assert_departures(2 * SERVED);
            let (tx, rx) = (report.count("tx_packets"), report.count("rx_packets"));
            println!("{tx} {rx} {}", report.json["latency_ns"]);
            assert_eq!(report.path_counter("dropped_queue"), tx - rx, "{:#}", report.json);
            // However the sender was kept from its core: what it sends is at the most twice what is served meanwhile,
            // for it makes up for stalls of a fifth of the queue only; and nobody is served beyond the rate.
            assert!(rx + 200 >= tx / 2 && rx <= SERVED + 200, "{:#}", report.json);
            // One packet's time at the least; a lane has its share of the rate. A value is known to a part in 2000, and
            // the two ends read clocks that are disciplined apart.
            let least = 10_000 * lanes;
            assert!(
                report.count("/latency_ns/min") + 100 >= least - least / 1000,
                "{:#}",
                report.json
            );
            full |= report.count("lost") > 0 && report.count("/latency_ns/p90").abs_diff(1_000_000) <= 20_000;
            // Of a run that missed nothing all is known: half is lost, and a full queue is 1 ms long.
            let clean = tx == 2 * SERVED && report.json["valid"] == true;
            let held = report.count("/latency_ns/p50");
            assert!(!clean || held.abs_diff(1_000_000) <= 100_000, "{:#}", report.json);
            clean
        });
        if !clean {
            skip_disturbed(&format!(
                "no run with {lanes} lanes missed nothing: its wait was not looked at"
            ));
        }
    }
}

#[test]
fn a_device_of_known_rate_loses_nothing_below_it() {
    for more in ["--lanes 1", "--lanes 2 --flows 2"] {
        let report = Scratch::new().measure(mpps(&format!("{DEVICE} --rate 50kpps {more}")));
        report.assert_accounted();
        report.assert_departures(SERVED / 2);
        assert_eq!(
            report.count("lost") + report.count("late"),
            0,
            "{more}: {:#}",
            report.json
        );
        assert_eq!(report.path_counter("dropped_queue"), 0, "{more}: {:#}", report.json);
    }
    // 100 Mbit/s: frames of 512 bytes take 42.56 µs.
    let words = "sendrecv loop:capacity=100Mbps --rate 10kpps --frame-size 512 --duration 200ms --settle 100ms --quiet";
    let report = Scratch::new().measure(mpps(words));
    report.assert_accounted();
    assert_eq!(report.count("lost"), 0, "{:#}", report.json);
    assert!(report.count("/latency_ns/min") >= 42_500, "{:#}", report.json);
}

#[test]
fn bursts_of_loss_and_jitter_are_reported_as_injected() {
    for (options, more) in [
        ("burst_loss=2%:5,jitter=500us:exp,jitter_reorder=on", "--flows 4"),
        (
            "capacity=40kpps,queue=50,jitter=200us,burst_loss=0.05:3,loss=0.02,duplicate=0.02,\
             reorder=0.02,corrupt=0.01",
            "--lanes 2 --flows 2 --interval 1ms",
        ),
        (
            "jitter=1ms,jitter_reorder=on,duplicate=0.05,corrupt=0.05,loss=0.01",
            "--lanes 2 --flows 6",
        ),
    ] {
        let report = measure(&format!("loop:{options}"), more);
        let injected = |name| report.path_counter(name);
        let gone = ["lost", "corrupted", "dropped_burst", "dropped_queue"].map(injected);
        assert_eq!(
            report.count("lost"),
            gone.iter().sum::<u64>(),
            "{options}: {:#}",
            report.json
        );
        for (key, name) in [
            ("corrupt", "corrupted"),
            ("duplicates", "duplicated"),
            ("reordered", "reordered"),
        ] {
            assert_eq!(report.count(key), injected(name), "{options}: {key}: {:#}", report.json);
        }
        assert_eq!(report.count("foreign") + report.count("late"), 0, "{:#}", report.json);
        assert!(
            injected("dropped_burst") > 0 || !options.contains("burst_loss"),
            "{options}"
        );
        assert!(injected("reordered") > 0, "{options}");
    }
}

/// Packets in rows up to each, by the name of a column.
fn so_far(report: &Report, column: &str) -> Vec<u64> {
    let cell = |row: &mpps_tests::Row| row[column].parse::<u64>().expect("a count");
    let cells = report.rows.iter().map(cell);
    cells
        .scan(0, |sum, packets| {
            *sum += packets;
            Some(*sum)
        })
        .collect()
}

#[test]
fn rows_by_arrival_are_those_by_sending_later_by_the_delay_of_the_path() {
    for (delay, lanes) in [(3, 1), (2, 2), (0, 1)] {
        let words = format!(
            "sendrecv loop:delay={}ms,loss=0.02 --rate 20kpps --duration 1s --settle 500ms --interval 100ms --quiet \
             --lanes {lanes}",
            delay * 100
        );
        let report = Scratch::new().measure(mpps(&words));
        report.assert_accounted();
        let (sent, arrived) = (so_far(&report, "rx_packets"), so_far(&report, "rx_by_arrival_packets"));
        assert_eq!((sent.len(), sent.last()), (10, arrived.last()), "{sent:?} {arrived:?}");
        // Between stamp and departure lies less than a burst of each lane; the last row has all that came later.
        for (row, arrived) in arrived.iter().enumerate().take(9) {
            let left = row.checked_sub(delay).map_or(0, |row| sent[row]);
            assert!(
                left.abs_diff(*arrived) <= 256 * lanes,
                "row {row}: {left} {arrived}, {delay} rows later"
            );
        }
    }
}

#[test]
fn rows_of_a_receiver_are_by_arrival_and_those_of_a_sender_have_none() {
    let column = |words: &str| {
        let report = Scratch::new().measure(mpps(words));
        report.assert_rows_add_up();
        let pairs = report
            .rows
            .iter()
            .map(|row| (row["rx_packets"].clone(), row["rx_by_arrival_packets"].clone()));
        (report.count("rx_packets"), pairs.collect::<Vec<_>>())
    };
    let (received, rows) = column("drop null: --duration 300ms --interval 100ms --quiet");
    assert!(
        received > 0 && rows.iter().all(|(all, arrived)| all == arrived),
        "{rows:?}"
    );
    let (_, rows) = column("send null: --rate 10kpps --duration 300ms --interval 100ms --quiet");
    assert!(
        rows.len() == 3 && rows.iter().all(|(_, arrived)| arrived.is_empty()),
        "{rows:?}"
    );
}

/// A run that ends early where it may, and how long its lane was watched, ns: the settle time is part of it.
fn settled_early(port: &str, settle: &str) -> (Report, u64) {
    let words = format!("sendrecv {port} --rate 10kpps --count 1000 --catch-up 1s --lanes 1 --settle {settle}");
    let report = Scratch::new().measure(mpps(&format!("{words} --settle-early --interval 1s --quiet")));
    report.assert_accounted();
    let measured = report.json["lanes"][0]["measured_ns"].as_u64().expect("a time");
    (report, measured)
}

#[test]
fn with_settle_early_a_copy_20_ms_behind_the_last_packet_is_counted_and_the_rest_of_the_time_is_not_waited_for() {
    let (report, measured) = settled_early("loop:duplicate=1,jitter=20ms", "60s");
    assert_eq!(report.count("rx_packets"), 1000, "{:#}", report.json);
    assert_eq!(report.count("duplicates"), 1000, "{:#}", report.json);
    assert!(measured < 60_000_000_000, "{measured}");
}

#[test]
fn with_settle_early_the_whole_settle_time_is_waited_for_a_packet_that_is_missing() {
    let (report, measured) = settled_early("loop:loss=1%", "700ms");
    assert!(report.count("lost") > 0, "{:#}", report.json);
    assert!(measured >= 700_000_000, "{measured}");
}
