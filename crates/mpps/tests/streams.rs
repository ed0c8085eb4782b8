//! The example `streams` does what it says.

#[allow(dead_code, reason = "the example has a main function")]
#[path = "../examples/streams.rs"]
mod streams;

use mpps::{FromArgs, Plan, Streams, session, session_beside};

#[test]
fn four_ports_are_opened_and_their_streams_started_and_stopped() {
    let summary = streams::run().expect("a run");
    let of: Vec<_> = summary.directions.iter().map(|of| &of.summary).collect();
    let due = |stream: usize| of[stream].tx + of[stream].missed;
    assert_eq!(due(1), 1_000);
    // All others end at one instant; the third began 50 ms later, and the fourth was slowed down then.
    assert_eq!((due(0) - due(2), (due(0) - 500).div_ceil(2)), (500, due(3) - 500));
    assert!(due(0) > 1_000 && !summary.interrupted, "{}", due(0));
    for of in of {
        assert_eq!(of.rx + of.lost + of.late, of.tx);
        assert!(of.plan.is_some());
    }
    assert_eq!(summary.plan, None);
}

/// Refusal of plans that are to run beside each other.
fn refused(lines: &[&str]) -> String {
    let plan = |line: &&str| Plan::from_args(line.split_whitespace()).expect("a plan");
    let plans: Vec<_> = lines.iter().map(plan).collect();
    let refused = session_beside(&plans, &|| 0, |_| Ok(()));
    refused.expect_err("plans that do not fit").to_string()
}

const LOOP: &str = "sendrecv loop: --src 10.0.0.1 --dest 10.0.0.2:9000 --rate 10kpps --duration 1s";

#[test]
fn plans_with_different_times_do_not_run_beside_each_other() {
    let why = refused(&[LOOP, &LOOP.replace("1s", "2s")]);
    assert!(
        why.starts_with("times: ") && why.contains("have it in common: want"),
        "{why}"
    );
}

#[test]
fn a_plan_of_a_number_of_packets_does_not_run_beside_another() {
    let counted = LOOP.replace("--duration 1s", "--count 10");
    let why = refused(&[&counted, &counted]);
    assert!(
        why.starts_with("traffic.count: 10: ") && why.contains("want a duration"),
        "{why}"
    );
}

#[test]
fn a_number_of_packets_leaves_no_room_for_orders() {
    let plan = Plan::from_args(LOOP.replace("--duration 1s", "--count 10").split_whitespace()).expect("a plan");
    let why = session(&plan, |session| {
        session.directed(std::slice::from_ref(&plan), &Streams::new(), &mut [])
    });
    let why = why.expect_err("a number of packets").to_string();
    assert!(
        why.contains("a number of packets") && why.contains("want a duration"),
        "{why}"
    );
}

#[test]
fn a_trial_of_fewer_plans_than_ports_is_refused() {
    let plan = Plan::from_args(LOOP.split_whitespace()).expect("a plan");
    let plans = [plan.clone(), plan];
    let why = session_beside(&plans, &|| 0, |session| session.trial(&plans[0], &mut []));
    let why = why.expect_err("one of two plans").to_string();
    assert!(why.contains("1: the session was opened with 2"), "{why}");
}
