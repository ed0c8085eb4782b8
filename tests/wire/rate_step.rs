//! A step of the rate within one run, and when packets were lost: what recovery and reset are measured from.

use mpps_tests::{Report, Row, Scratch, assert_refused, mpps};
use serde_json::Value;

fn ns(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a time: {value}"))
}

/// What a device did that lost all packets from 200 to 350 ms of a run of 600 ms.
fn outage(more: &str) -> Report {
    let words = "sendrecv loop:delay=300us,outage=200ms-350ms --duration 600ms --settle 300ms --quiet --catch-up 1s";
    let report = Scratch::new().measure(mpps(&format!("{words} {more}")));
    report.assert_accounted();
    report
}

#[test]
fn a_step_of_the_rate_sends_what_each_part_asks_for() {
    for more in [
        "",
        "--lanes 2 --src-port-range 10000-10099",
        "--pacing poisson",
        "--pacing burst=7 --lanes 3",
        "--flows 1 --interval 1ms",
    ] {
        let words = "sendrecv loop: --rate 40kpps --then 10kpps@150ms --duration 400ms --settle 300ms --quiet \
                     --catch-up 1s";
        let report = Scratch::new().measure(mpps(&format!("{words} {more}")));
        report.assert_accounted();
        // 6000 in 150 ms, 2500 in the 250 ms that follow.
        report.assert_departures(8_500);
        assert_eq!(report.json["intended_pps"], 21_250.0, "{more}");
        assert_eq!(report.json["plan"]["load"]["then"], "10kpps@150ms");
    }
}

#[test]
fn the_rows_show_the_step_where_it_was_asked_for() {
    let words = "sendrecv loop: --rate 20kpps --then 60kpps@200ms --duration 400ms --interval 100ms --settle 300ms \
                 --quiet --catch-up 1s";
    let report = Scratch::new().measure(mpps(words));
    report.assert_departures(4_000 + 12_000);
    let sent = |row: &Row| row["tx_packets"].parse::<u64>().expect("a number");
    let sent: Vec<u64> = report.rows.iter().map(sent).collect();
    // A host that others use may send some of it a row later.
    assert!(
        sent[0] + sent[1] <= 4_000 && sent.iter().sum::<u64>() == 16_000,
        "{sent:?}"
    );
}

#[test]
fn the_time_of_each_end_of_a_loss_is_known_to_the_packet() {
    for (more, flows, lanes) in [
        ("--rate 20kpps --flows 1", 1, 1),
        ("--rate 20kpps --src-port-range 10000-10063", 64, 1),
        ("--rate 20kpps --lanes 2 --src-port-range 10000-10099", 100, 2),
        ("--rate 40kpps --then 20kpps@280ms", 64, 1),
    ] {
        let report = outage(more);
        let lost = report.count("lost");
        assert_eq!(lost, report.path_counter("lost_outage"), "{more}");
        let times = &report.json["loss_times"];
        let (first, last) = (ns(&times["first_lost_ns"]), ns(&times["last_lost_ns"]));
        // The device counts from the first departure on, by the same clock; a burst is let through or lost as one, so
        // the stamps before and after it bound the times. Nothing here asks how soon the host ran the lane.
        let gap = report.json["departure_gap_ns"]["max"].as_f64().expect("gaps") as u64;
        let slack = 2_000_000 + gap;
        assert!(
            (200_000_000 - slack.min(200_000_000)..350_000_000 + slack).contains(&first),
            "{more}: {first}"
        );
        assert!(last >= first && last < 350_000_000 + slack, "{more}: {last}");
        let after = ns(&times["received_after_ns"]);
        assert!(after > last, "{more}: {after} {last}");
        let outage = &report.json["longest_outage"];
        let (from, to) = (ns(&outage["from_ns"]), ns(&outage["to_ns"]));
        assert_eq!(ns(&outage["length_ns"]), to - from, "{more}");
        // A lane that the host keeps from its core for longer afterwards has a longer one.
        let later = from > last;
        assert!(
            from < to && (later || to <= after + gap + flows * 100_000),
            "{more}: {outage} {times}"
        );
        if lanes == 1 && !later && to - from > 100_000_000 {
            assert_eq!(outage["lost"], lost, "{more}: {outage} {times}");
            assert!(
                first >= from.saturating_sub(slack) && last < to,
                "{more}: {outage} {times}"
            );
        }
    }
}

#[test]
fn without_loss_there_are_no_times_of_it_and_loss_at_the_end_has_nothing_after_it() {
    let words = "--rate 20kpps --duration 300ms --settle 300ms --quiet --catch-up 1s";
    let report = Scratch::new().measure(mpps(&format!("sendrecv loop: {words}")));
    assert_eq!((report.count("lost"), &report.json["loss_times"]), (0, &Value::Null));
    assert_eq!(report.json["longest_outage"]["lost"], 0);
    let report = Scratch::new().measure(mpps(&format!("sendrecv loop:outage=100ms-60s {words}")));
    let times = &report.json["loss_times"];
    assert_eq!(times["received_after_ns"], Value::Null, "{times}");
    assert!(ns(&times["first_lost_ns"]) >= 100_000_000, "{times}");
    assert!(ns(&times["last_lost_ns"]) >= ns(&times["first_lost_ns"]), "{times}");
    // Reordering is no loss.
    let report = Scratch::new().measure(mpps(&format!("sendrecv loop:reorder=5%,reorder_distance=3 {words}")));
    assert_eq!((report.count("lost"), &report.json["loss_times"]), (0, &Value::Null));
}

#[test]
fn a_step_that_means_nothing_is_refused() {
    for (more, named, want) in [
        ("--then 1kpps@1s", "--then 1kpps@1s", "--rate RATE as well"),
        (
            "--rate 1kpps --then 2kpps@5s --duration 5s",
            "--then 2kpps@5s",
            "an earlier time",
        ),
        ("--rate 1kpps --then 2kpps", "--then <RATE@TIME>", "want RATE@TIME,"),
        ("--rate 1kpps --then 2kpps@1", "'2kpps@1'", "its unit"),
        ("--rate 1kpps --then 2xpps@1s", "'2xpps@1s'", "unknown unit"),
    ] {
        assert_refused(mpps(&format!("sendrecv loop: {more}")), 2, &[named, want]);
    }
    assert_refused(
        mpps("ndr loop:capacity=20kpps --then 2kpps@1s"),
        2,
        &["--then", "the method chooses it"],
    );
}
