//! RFC 9971's own numbers.

use mpps_methods::search::{Class, Goal, Input, Ratio, Trial, Verdict};

const SECOND: u64 = 1_000_000_000;

fn ratio(share: f64) -> Ratio {
    Ratio::of_share(share).expect("a share")
}

fn goal(final_s: u64, sum_s: u64, loss: f64, exceed: f64) -> Goal {
    Goal {
        stream: None,
        loss: ratio(loss),
        exceed: ratio(exceed),
        final_ns: final_s * SECOND,
        initial_ns: SECOND,
        sum_ns: sum_s * SECOND,
        width: 0.005,
    }
}

/// So many trials at 1 Mpps.
fn trials(number: usize, seconds: u64, loss: f64) -> Vec<Trial> {
    let due = 1_000_000 * seconds;
    let trial = Trial {
        input: Input {
            load: 1_000_000,
            duration_ns: seconds * SECOND,
        },
        effective_ns: seconds * SECOND,
        verdict: Verdict::Counted {
            due,
            missing: (due as f64 * loss).round() as u64,
        },
        streams: Vec::new(),
    };
    vec![trial; number]
}

/// Appendix C, with the two cells put right that contradict its own exceed ratios of 42.857 % and 27.273 %.
#[test]
fn the_examples_of_rfc_9971() {
    use Class::{Lower as L, Undecided as U, Upper as H};
    let steps = [
        trials(59, 1, 0.0),
        trials(1, 1, 0.01),
        trials(59, 1, 0.01),
        trials(1, 1, 0.0),
        trials(1, 60, 0.001),
        trials(1, 60, 0.0),
    ];
    let cases = [
        (goal(60, 60, 0.0, 0.0), [U, H, H, H, H, H], 999_000.0),
        (goal(60, 120, 0.0, 0.5), [U, U, U, U, U, L], 1_000_000.0),
        (goal(60, 60, 0.005, 0.2), [U, U, H, H, H, H], 999_000.0),
        (goal(1, 120, 0.005, 0.5), [U, U, U, L, L, L], 1_000_000.0),
    ];
    for (goal, classes, throughput) in cases {
        let mut all = Vec::new();
        for (place, (step, class)) in steps.iter().zip(classes).enumerate() {
            all.extend_from_slice(step);
            assert_eq!(goal.class(1_000_000, &all), class, "{goal:?}, point {}", place + 1);
        }
        // At a load that is no lower bound it is not reported, but can be reckoned all the same.
        assert_eq!(
            goal.conditional_throughput(1_000_000, &all),
            Some(throughput),
            "{goal:?}"
        );
    }
}
