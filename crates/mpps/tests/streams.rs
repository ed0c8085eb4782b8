//! The example `streams` does what it says.

#[allow(dead_code, reason = "the example has a main function")]
#[path = "../examples/streams.rs"]
mod streams;

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
    }
    let plans: serde_json::Value = serde_json::from_str(&summary.plan.expect("plans")).expect("JSON");
    assert_eq!(plans.as_array().map(Vec::len), Some(4));
}
