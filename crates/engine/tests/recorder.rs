//! What flight recorders keep of a run is the run: its time without gaps, its packets, and what was worth a window.

mod plans;

use std::time::Duration;

use mpps_engine::{Common, FlowSet, LanePlan, Rate, TraceOptions, TrafficPlan, run_traffic};
use mpps_io::loopback::{LoopConfig, LoopPort};
use mpps_io::null::{NoSource, NullConfig, NullPort};
use mpps_stats::Summary;
use mpps_sys::clock::monotonic_ns;
use mpps_trace::{Did, LaneTrace, Round, Stage};
use mpps_wire::{ReflectFilter, reflect_in_place};
use plans::traffic;

fn plan(lanes: usize, receive: bool, rate: Option<Rate>, trace: TraceOptions) -> TrafficPlan {
    let common = Common {
        lanes: vec![LanePlan::BOTH; lanes],
        duration: Some(Duration::from_millis(200)),
        settle: Duration::from_millis(30),
        trace: Some(trace),
        ..Common::default()
    };
    TrafficPlan {
        receive,
        flows: FlowSet::new(10_000..=10_003, 9000..=9000, None),
        rate,
        catch_up: Duration::from_secs(1),
        ..traffic(common)
    }
}

fn over_loop(plan: &TrafficPlan, config: LoopConfig) -> Summary {
    let filter = ReflectFilter::default();
    let port = LoopPort::new(
        config,
        plan.common.lanes.len(),
        monotonic_ns,
        move |frame: &mut [u8]| reflect_in_place(frame, &filter, false).is_ok(),
    );
    run_traffic(&[&port], plan, &mut [], &|| 0).expect("a run")
}

fn all() -> TraceOptions {
    TraceOptions {
        all: true,
        ring_bytes: 256 << 20,
        memory: 1 << 30,
        ..TraceOptions::default()
    }
}

/// Each record begins where the one before ended.
fn assert_gapless(lane: &LaneTrace) {
    for two in lane.rounds.windows(2) {
        assert_eq!(two[0].end_ns(), two[1].at_ns, "{two:?}");
    }
}

#[test]
fn everything_that_was_recorded_adds_up_to_the_run_and_to_its_packets() {
    let paced = plan(2, true, Rate::new(100_000, 1), all());
    let summary = over_loop(&paced, LoopConfig::default());
    let kept = summary.kept.as_ref().expect("it was asked for");
    assert_eq!((&kept.left_out[..], kept.lanes.len()), (&[][..], 2));
    for (trace, lane) in kept.lanes.iter().zip(&summary.lanes) {
        assert_gapless(trace);
        let sum = |of: fn(&mpps_trace::Round) -> u64| trace.rounds.iter().map(of).sum::<u64>();
        assert_eq!(sum(|r| r.tx.into()), lane.tx_packets);
        assert_eq!(sum(|r| r.rx.into()), lane.rx_packets);
        let bursts = trace.rounds.iter().filter(|round| round.did == Did::Burst);
        assert!(bursts.clone().all(|round| round.polls == 0));
        let mut sent = 0;
        for round in bursts {
            assert_eq!(round.sent_before, sent);
            sent += u64::from(round.tx);
        }
        // The stage table is of the same time.
        let table: u64 = summary
            .stages
            .iter()
            .filter(|row| row.lane == trace.lane)
            .map(|row| row.total_ns)
            .sum();
        let took = trace.rounds.last().expect("rounds").end_ns() - trace.rounds[0].at_ns;
        assert!(table.abs_diff(took) < 1000, "{table} and {took} ns");
        assert!(trace.tid > 0 && trace.name.starts_with("lane "));
    }
    let late = summary.latest.first().expect("packets were measured");
    assert!(late.scheduled_ns.is_some_and(|at| at <= late.sent_ns) && late.arrived_ns <= late.classified_ns);
    // Those that came after the settle time are among them.
    assert!(late.delay_ns() >= summary.latency.max);
    assert_eq!(summary.slowest.len(), 200);
    assert!(summary.slowest[0].round.took_ns() >= summary.slowest[1].round.took_ns());
}

#[test]
fn loss_is_kept_in_windows_and_without_a_cause_nothing_is() {
    let loss = TraceOptions {
        loss: true,
        ..TraceOptions::default()
    };
    let rate = Rate::new(20_000, 1);
    let lossy = LoopConfig {
        loss: 0.01,
        ..LoopConfig::default()
    };
    let summary = over_loop(&plan(1, true, rate, loss.clone()), lossy);
    let rounds = |summary: &Summary| summary.kept.as_ref().map_or(0, |kept| kept.lanes[0].rounds.len());
    assert!(
        summary.lost > 0 && rounds(&summary) > 0,
        "{} lost, {} kept",
        summary.lost,
        rounds(&summary)
    );
    let summary = over_loop(&plan(1, true, rate, loss), LoopConfig::default());
    assert!(summary.lost > 0 || rounds(&summary) == 0, "{} kept", rounds(&summary));
}

#[test]
fn a_ring_that_is_too_small_for_flat_out_says_what_it_lost() {
    let options = TraceOptions {
        ring_bytes: 4096,
        ..all()
    };
    let port = NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 0, 1], NoSource);
    // On a busy host the lane may have run for no longer than its ring lasts.
    let places = options.ring_bytes / size_of::<Round>();
    let runs = std::iter::repeat_with(|| {
        run_traffic(&[&port], &plan(1, false, None, options.clone()), &mut [], &|| 0).expect("a run")
    });
    let summary = runs
        .take(200)
        .find(|summary| summary.lanes[0].tx_bursts > 20 * places as u64)
        .expect("a lane that runs");
    let kept = summary.kept.as_ref().expect("it was asked for");
    let told: u64 = kept.left_out.iter().map(|left| left.count).sum();
    assert!(
        told > 0 && summary.stage_cost.expect("a lane looped").lost == told,
        "{:?}",
        kept.left_out
    );
    let row = summary
        .stages
        .iter()
        .find(|row| row.stage == Stage::Write)
        .expect("it wrote");
    assert!(row.packets >= summary.tx && row.calls > 0 && row.share > 0.0, "{row:?}");
}
