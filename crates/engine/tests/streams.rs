//! Streams that are started, paused and stopped while a trial runs, and ports that run beside each other.

#[path = "session/setup.rs"]
mod setup;

use mpps_engine::{At, Do, Pacing, Rate, RunError, StreamCounts, StreamId, Streams, TrafficPlan, run_traffic, session};
use mpps_io::Port;
use mpps_io::loopback::LoopConfig;
use mpps_stats::{Row, Summary};
use setup::{Kept, MS, loop_port, traffic};
use std::sync::Mutex;
use std::time::Duration;

fn after(ms: u32) -> At {
    At::AfterStart(ms * MS)
}

/// Streams with these orders, each so many ms after the start.
fn streams(orders: &[(usize, Do, u32)]) -> Streams {
    let streams = Streams::new();
    for &(stream, what, ms) in orders {
        streams.order(&[(StreamId(stream), what)], after(ms)).expect("an order");
    }
    streams
}

fn pps(pps: u64) -> Rate {
    Rate::new(pps, 1).expect("a rate")
}

/// Runs a plan with these orders on a loop; returns its rows as well.
fn ordered(mut plan: TrafficPlan, orders: &[(usize, Do, u32)]) -> (Summary, Vec<Row>) {
    plan.common.streams = Some(streams(orders));
    let (port, kept) = (
        loop_port(LoopConfig::default(), plan.common.lanes.len()),
        Kept::default(),
    );
    let summary = run_traffic(&[&port], &plan, &mut [Box::new(kept.clone())], &|| 0).expect("a run");
    let rows = kept.0.lock().unwrap().clone();
    (summary, rows)
}

/// Plan of 10,000 packets/s for a long time.
fn long(lanes: usize, pacing: Pacing) -> TrafficPlan {
    let mut plan = traffic(lanes, 64, 18);
    plan.common.duration = Some(Duration::from_secs(60));
    plan.pacing = pacing;
    plan
}

/// Orders that let packets leave in four stretches: 30 ms and 20 ms at the plan's rate, 20 ms at half of it, 10 ms.
const ORDERS: [(usize, Do, u32); 7] = [
    (0, Do::Pause, 0),
    (0, Do::Start, 20),
    (0, Do::Pause, 50),
    (0, Do::Start, 70),
    (0, Do::Pause, 110),
    (0, Do::Start, 120),
    (0, Do::Stop, 130),
];

fn with_half_the_rate() -> Vec<(usize, Do, u32)> {
    let rate = Rate::new(5_000, 1).expect("a rate");
    let others = [(0, Do::Rate(rate), 90), (0, Do::Rate(pps(10_000)), 115)];
    ORDERS.into_iter().chain(others).collect()
}

/// Checks a run with those orders: packets of the stretches, in their rows alone, with numbers that have no gap.
fn sends_in_its_stretches(plan: TrafficPlan) {
    let (summary, rows) = ordered(plan, &with_half_the_rate());
    assert_eq!(summary.tx + summary.missed, 300 + 200 + 100 + 100);
    assert_eq!(summary.due, Some(700));
    assert_eq!(
        (summary.rx + summary.lost + summary.late, summary.reordered),
        (summary.tx, 0)
    );
    assert_eq!(
        (summary.corrupt, summary.foreign, summary.duplicates),
        (0, 0, 0),
        "{:?}",
        summary.reasons
    );
    // It ends with the stop of its only stream, or with the last packet that was due before.
    assert!(summary.duration_ns >= 130_000_000, "{}", summary.duration_ns);
    assert!(summary.duration_ns < 30_000_000_000, "{}", summary.duration_ns);
    assert!(!summary.interrupted && summary.valid, "{:?}", summary.invalid_reasons);
    // The packets' departures may come late, but none is due in a pause: what left or was missed by its end is due
    // before.
    let by = |ms: usize| rows[..ms].iter().map(|row| row.tx + row.missed).sum::<u64>();
    assert_eq!(by(20), 0);
    assert!(by(70) <= 300 && by(120) <= 600, "{} {}", by(70), by(120));
}

#[test]
fn a_stream_sends_exactly_what_its_starts_and_pauses_leave_it_time_for() {
    sends_in_its_stretches(long(1, Pacing::Constant));
}

#[test]
fn lanes_of_a_stream_follow_its_orders_together() {
    sends_in_its_stretches(long(3, Pacing::Constant));
}

#[test]
fn bursts_of_a_stream_are_cut_at_its_pauses() {
    sends_in_its_stretches(long(2, Pacing::Bursts(10)));
}

#[test]
fn random_departures_are_none_in_a_pause() {
    let (summary, rows) = ordered(long(2, Pacing::Poisson), &ORDERS);
    assert_eq!(summary.due, Some(summary.tx + summary.missed));
    assert_eq!(rows[..20].iter().map(|row| row.tx + row.missed).sum::<u64>(), 0);
    // 80 ms at the plan's rate are 800 packets on average; ten times the deviation from it.
    assert!(summary.tx.abs_diff(800) < 300, "{}", summary.tx);
}

#[test]
fn a_stream_without_a_rate_sends_nothing_while_it_pauses() {
    let plan = TrafficPlan {
        rate: None,
        ..long(2, Pacing::Constant)
    };
    let (summary, rows) = ordered(plan, &ORDERS);
    let sent = |from: usize, to: usize| rows[from..to].iter().map(|row| row.tx).sum::<u64>();
    assert_eq!((sent(0, 20), summary.rx + summary.lost + summary.late), (0, summary.tx));
    assert!(
        sent(20, 50) > 0 && sent(70, 110) > 0,
        "{} {}",
        sent(20, 50),
        sent(70, 110)
    );
    // A burst of each lane that the path did not take before.
    assert!(
        sent(50, 70) <= 64 && sent(110, 120) <= 64,
        "{} {}",
        sent(50, 70),
        sent(110, 120)
    );
    assert_eq!(summary.due, None);
}

#[test]
fn an_order_given_before_the_trial_that_it_cannot_follow_ends_it_before_the_first_packet() {
    for (orders, part) in [
        (vec![(1, Do::Pause, 0)], "stream 1: the trial has none of this number"),
        (vec![(0, Do::Rate(pps(10_001)), 5)], "want 10000 pps or less"),
        (vec![(0, Do::Stop, 3), (0, Do::Start, 5)], "stopped by then"),
    ] {
        let mut plan = long(1, Pacing::Constant);
        plan.common.streams = Some(streams(&orders));
        let port = loop_port(LoopConfig::default(), 1);
        let refused = run_traffic(&[&port], &plan, &mut [], &|| 0);
        assert!(
            matches!(&refused, Err(RunError::Order(why)) if why.to_string().contains(part)),
            "{refused:?}"
        );
        assert_eq!(port.counters(0).tx_failed, 0);
    }
}

/// Four loops: the second loses a third of its packets.
fn four() -> Vec<impl Port> {
    let lossy = LoopConfig {
        loss: 0.33,
        ..LoopConfig::default()
    };
    [
        LoopConfig::default(),
        lossy,
        LoopConfig::default(),
        LoopConfig::default(),
    ]
    .into_iter()
    .map(|config| loop_port(config, 1))
    .collect()
}

/// Plans of four ports that run beside each other, with rates, sizes and seeds of their own.
fn beside() -> TrafficPlan {
    let plan = |port: u64| {
        let mut plan = long(1, Pacing::Constant);
        plan.rate = Rate::new(1_000 * (port + 1), 1);
        (plan.payload_len, plan.frame_size) = (18 + 100 * port as usize, 64 + 100 * port as usize);
        plan.common.seed = port;
        plan.common.duration = Some(100 * MS);
        plan
    };
    TrafficPlan::with_beside((0..4).map(plan).collect())
}

#[test]
fn ports_that_run_beside_each_other_have_counts_and_a_verdict_each() {
    let four = four();
    let ports: Vec<&dyn mpps_engine::AnyPort> = four.iter().map(|port| port as _).collect();
    let trials = session(&ports, &beside(), &|| 0, |session| {
        (0..3)
            .map(|trial| {
                let mut plan = beside();
                plan.common.seed += 10 * trial;
                plan.beside.iter_mut().for_each(|plan| plan.common.seed += 10 * trial);
                session.trial(plan, &mut [], &|| 0).expect("a trial")
            })
            .collect::<Vec<_>>()
    });
    for all in trials.expect("a session") {
        let names: Vec<_> = all.directions.iter().map(|of| of.name).collect();
        assert_eq!(names, ["stream 0", "stream 1", "stream 2", "stream 3"]);
        for (of, pps) in all.directions.iter().zip([1_000, 2_000, 3_000, 4_000]) {
            let of = &of.summary;
            assert_eq!(of.tx + of.missed, pps / 10);
            assert_eq!(of.intended_pps, Some(pps as f64));
            assert_eq!(of.rx + of.lost + of.late, of.tx);
            assert_eq!(of.frame_size as u64, pps / 10 - 36);
            assert_eq!((of.foreign, of.corrupt, of.duplicates), (0, 0, 0), "{:?}", of.reasons);
        }
        let lost: Vec<_> = all.directions.iter().map(|of| of.summary.lost).collect();
        assert!(lost[1] > 20, "{lost:?}");
        assert_eq!(all.lost, lost.iter().sum::<u64>());
        assert_eq!((all.due, all.intended_pps), (Some(1_000), Some(10_000.0)));
    }
}

#[test]
fn counts_of_a_stream_that_was_stopped_are_final_while_others_go_on() {
    let four = four();
    let ports: Vec<&dyn mpps_engine::AnyPort> = four.iter().map(|port| port as _).collect();
    let mut plan = beside();
    let (directed, ends) = (streams(&[(1, Do::Stop, 20), (2, Do::Pause, 0)]), Mutex::new(0));
    plan.common.duration = None;
    plan.common.streams = Some(directed.clone());
    let (early, summary) = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            // The second is stopped, and all its packets are back or lost.
            let settled = loop {
                match directed.counts(StreamId(1)) {
                    Some(counts) if counts.is_final => break counts,
                    _ => std::thread::sleep(MS),
                }
            };
            let others: Vec<_> = [0, 3].map(|stream| directed.counts(StreamId(stream))).into();
            let stop = [0, 2, 3].map(|stream| (StreamId(stream), Do::Stop));
            directed.order(&stop, At::Soonest).expect("an order");
            *ends.lock().unwrap() += 1;
            (settled, others)
        });
        let summary = run_traffic(&ports, &plan, &mut [], &|| 0).expect("a run");
        (waits.join().expect("orders"), summary)
    });
    let (settled, others) = early;
    let of = &summary.directions[1].summary;
    assert_eq!((settled.sent, settled.lost), (of.tx, of.lost as i64));
    assert_eq!(of.tx + of.missed, 40);
    assert_eq!(
        directed.counts(StreamId(1)).map(|counts| (counts.sent, counts.lost)),
        Some((of.tx, of.lost as i64))
    );
    // The third was never started, which is no fault, and the others sent on.
    let third = &summary.directions[2].summary;
    assert_eq!((third.tx, third.valid), (0, true), "{:?}", third.invalid_reasons);
    for (then, stream) in others.into_iter().zip([0, 3]) {
        let now = &summary.directions[stream].summary;
        assert!(
            then.is_none_or(|then: StreamCounts| then.sent < now.tx),
            "{then:?} {}",
            now.tx
        );
    }
    assert!(summary.duration_ns > 20_000_000 && !summary.interrupted);
}
