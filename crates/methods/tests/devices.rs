//! Searches on devices whose truth is known.

#[path = "../examples/simulate/device.rs"]
mod device;

use device::{DEVICES, Device, Random, TRUTH, measure};
use mpps_methods::search::{
    Bounds, Class, End, Goal, Input, Limits, Next, Outcome, Ratio, Search, StreamLoss, Trial, Verdict,
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
fn run(search: &Search, mut trial: impl FnMut(Input) -> Trial) -> (Vec<Trial>, End) {
    let mut trials = Vec::new();
    loop {
        match search.next(&trials) {
            Next::Trial(input) => {
                let Limits { min, max } = search.limits();
                assert!((min..=max).contains(&input.load), "{input:?} of {min} to {max}");
                trials.push(trial(input));
            }
            Next::Done(end) => return (trials, end),
        }
        assert!(
            trials.len() < 2_000,
            "a search without an end: {:?}",
            &trials[trials.len() - 8..]
        );
    }
}

fn csit() -> Vec<Goal> {
    vec![
        Goal::csit(Ratio::ZERO),
        Goal::csit(Ratio::of_share(0.005).expect("a share")),
    ]
}

const LIMITS: Limits = Limits {
    min: 1_000,
    max: 10_000_000,
};

fn search(goals: Vec<Goal>) -> Search {
    Search::new(goals, LIMITS, u64::MAX).expect("a search")
}

/// The bounds of a goal as Appendix A of RFC 9971 has them, with divisions: a second opinion.
fn bounds_again(goal: &Goal, trials: &[Trial]) -> Bounds {
    let exceed = goal.exceed.share();
    let mut loads: Vec<u64> = trials.iter().map(|t| t.input.load).collect();
    loads.sort_unstable();
    loads.dedup();
    let class = |load: u64| {
        let (mut fh, mut fl, mut sh, mut sl) = (0.0, 0.0, 0.0, 0.0);
        for t in trials.iter().filter(|t| t.input.load == load) {
            let ns = t.effective_ns as f64;
            match (t.input.duration_ns >= goal.final_ns, t.is_high_loss(goal)) {
                (true, Some(true)) => fh += ns,
                (true, Some(false)) => fl += ns,
                (false, Some(true)) => sh += ns,
                (false, Some(false)) => sl += ns,
                (_, None) => {}
            }
        }
        let against = f64::max(0.0, sh - sl * exceed / (1.0 - exceed));
        let high = fh + against;
        let whole = f64::max(fl + high, goal.sum_ns as f64);
        match (high / whole <= exceed, (whole - fl) / whole <= exceed) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        }
    };
    let upper = loads.iter().copied().find(|load| class(*load) == Class::Upper);
    let below = |load: &&u64| upper.is_none_or(|upper| **load < upper) && class(**load) == Class::Lower;
    Bounds {
        lower: loads.iter().rev().find(below).copied(),
        upper,
    }
}

/// What holds of every search that has found its goals.
fn check(search: &Search, trials: &[Trial]) -> Vec<Outcome> {
    let outcomes = search.results(trials);
    for (goal, outcome) in search.goals().iter().zip(&outcomes) {
        assert_eq!(outcome.bounds, bounds_again(goal, trials), "{goal:?}");
        let Bounds { lower, upper } = outcome.bounds;
        if let (Some(lower), Some(upper)) = (lower, upper) {
            assert!(lower < upper);
            assert!(goal.is_within(lower, upper), "{lower} to {upper} of {goal:?}");
        }
        assert!(outcome.regular || outcome.at_max || outcome.none_passes, "{outcome:?}");
    }
    outcomes
}

#[test]
fn the_limit_of_a_hard_device_is_between_the_bounds() {
    let search = search(csit());
    let (trials, end) = run(&search, |input| measure(Device::Hard, input, &mut Random(1)));
    assert_eq!(end, End::Found);
    let outcomes = check(&search, &trials);
    let [none, half] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    let (lower, upper) = (none.bounds.lower.expect("a bound"), none.bounds.upper.expect("a bound"));
    assert!(lower as f64 <= TRUTH && TRUTH < upper as f64, "{lower} to {upper}");
    assert_eq!(none.conditional_throughput, Some(lower as f64));
    // 0.5 % is lost at 1.005 times the limit, of which the limit comes through.
    let (lower, upper) = (half.bounds.lower.expect("a bound"), half.bounds.upper.expect("a bound"));
    let truth = TRUTH / 0.995;
    assert!(lower as f64 <= truth && truth < upper as f64, "{lower} to {upper}");
    println!("{} trials", trials.len());
}

/// A device with two queues: one of its streams keeps its packets for longer than the other.
#[test]
fn a_goal_of_a_stream_is_found_by_the_loss_of_that_stream() {
    let goal = |stream: Option<&str>| Goal {
        stream: stream.map(str::to_owned),
        ..Goal::csit(Ratio::ZERO)
    };
    let search = search(vec![goal(Some("gold")), goal(Some("rest")), goal(None)]);
    let (trials, end) = run(&search, |input| {
        let due = input.load * input.duration_ns / SECOND;
        // Each stream is half of the load.
        let of = |name: &str, most: u64| StreamLoss {
            name: name.to_owned(),
            due: due / 2,
            missing: (due / 2).saturating_sub(most * input.duration_ns / SECOND),
        };
        let streams = vec![of("gold", 1_000_000), of("rest", 300_000)];
        Trial {
            input,
            effective_ns: input.duration_ns,
            verdict: Verdict::Counted {
                due,
                missing: streams.iter().map(|of| of.missing).sum(),
            },
            streams,
        }
    });
    assert_eq!(end, End::Found);
    let outcomes = check(&search, &trials);
    let within = |outcome: &Outcome, rate: u64| {
        let Bounds { lower, upper } = outcome.bounds;
        lower.is_some_and(|lower| lower <= rate + 1) && upper.is_some_and(|upper| rate <= upper)
    };
    assert!(within(&outcomes[0], 2_000_000), "{:?}", outcomes[0]);
    assert!(
        within(&outcomes[1], 600_000) && within(&outcomes[2], 600_000),
        "{outcomes:?}"
    );
}

/// A queue hides overload in short trials, so that full ones fail where these have passed: the answer is near.
#[test]
fn a_full_trial_that_fails_where_a_short_one_passed_sends_the_search_neither_far_down_nor_up_in_small_steps() {
    const RATE: f64 = 4400.0;
    let goal = Goal {
        initial_ns: SECOND,
        final_ns: 2 * SECOND,
        sum_ns: 2 * SECOND,
        width: 0.05,
        ..Goal::RFC2544
    };
    let search = Search::new(vec![goal], Limits { min: 8, max: 8000 }, u64::MAX).expect("a search");
    let (trials, end) = run(&search, |input| {
        let seconds = input.duration_ns as f64 / SECOND as f64;
        let due = (input.load as f64 * seconds) as u64;
        let forwarded = (RATE * seconds) as u64 + 250;
        Trial {
            input,
            effective_ns: input.duration_ns,
            verdict: Verdict::Counted {
                due,
                missing: due.saturating_sub(forwarded),
            },
            streams: Vec::new(),
        }
    });
    assert_eq!(end, End::Found);
    check(&search, &trials);
    let loads: Vec<u64> = trials.iter().map(|trial| trial.input.load).collect();
    assert!(loads.iter().all(|load| *load as f64 >= 0.8 * RATE), "{loads:?}");
    assert!(loads.len() <= 12, "{loads:?}");
}

#[test]
fn what_the_highest_load_meets_is_told_apart_from_what_no_load_meets() {
    let (all, nothing) = (TRUTH as u64 / 2, TRUTH as u64 * 2);
    for (limits, at_max, none) in [
        (Limits { min: 1_000, max: all }, true, false),
        (
            Limits {
                min: nothing,
                max: 10_000_000,
            },
            false,
            true,
        ),
    ] {
        let search = Search::new(vec![Goal::csit(Ratio::ZERO)], limits, u64::MAX).expect("a search");
        let (trials, end) = run(&search, |input| measure(Device::Hard, input, &mut Random(1)));
        assert_eq!(end, End::Found);
        let outcome = search.results(&trials)[0];
        assert_eq!(
            (outcome.at_max, outcome.none_passes, outcome.regular),
            (at_max, none, false)
        );
    }
}

#[test]
fn void_trials_decide_nothing_and_three_in_a_row_end_the_search() {
    let search = search(csit());
    let void = |input: Input| Trial {
        input,
        effective_ns: input.duration_ns,
        verdict: Verdict::Void,
        streams: Vec::new(),
    };
    // Every second trial is void: the others are those of a search without any.
    let (clean, _) = run(&search, |input| measure(Device::Hard, input, &mut Random(1)));
    let mut turn = 0;
    let (spoilt, end) = run(&search, |input| {
        turn += 1;
        match turn % 2 {
            1 => void(input),
            _ => measure(Device::Hard, input, &mut Random(1)),
        }
    });
    assert_eq!(end, End::Found);
    let counted: Vec<_> = spoilt.iter().filter(|t| t.verdict != Verdict::Void).cloned().collect();
    assert_eq!(counted, clean);
    let (trials, end) = run(&search, void);
    assert_eq!((trials.len(), end), (3, End::Void));
}

#[test]
fn a_search_ends_when_its_time_is_up_and_tells_what_it_knows() {
    let search = Search::new(csit(), LIMITS, 10 * SECOND).expect("a search");
    let (trials, end) = run(&search, |input| measure(Device::Hard, input, &mut Random(1)));
    assert_eq!(end, End::OutOfTime);
    assert!(trials.iter().map(|t| t.effective_ns).sum::<u64>() <= 11 * SECOND);
    assert!(search.results(&trials).iter().any(|outcome| !outcome.regular));
}

/// Trials that a search takes on each device, over seeds: for comparison with other searches (`--nocapture`).
#[test]
fn searches_on_unsteady_devices_end_with_bounds() {
    for (name, device) in DEVICES {
        let (mut numbers, mut times) = (Vec::new(), Vec::new());
        for seed in 0..100 {
            let search = search(csit());
            let mut random = Random(seed);
            let (trials, end) = run(&search, |input| measure(device, input, &mut random));
            assert_eq!(end, End::Found);
            let outcomes = check(&search, &trials);
            let lower = outcomes[0].bounds.lower.expect("a bound") as f64;
            assert!(
                (0.9..=1.02).contains(&(lower / TRUTH)),
                "{device:?}, seed {seed}: {lower}"
            );
            numbers.push(trials.len());
            times.push(trials.iter().map(|t| t.effective_ns).sum::<u64>() as f64 / 1e9);
        }
        numbers.sort_unstable();
        times.sort_by(f64::total_cmp);
        println!("{name}: median of {} trials, {:.0} s", numbers[50], times[50]);
    }
}

fn any_goal() -> impl Strategy<Value = Goal> {
    (
        0u32..20_000_000,
        prop_oneof![Just(0u32), Just(500_000_000), 0..900_000_000u32],
        1u64..5,
        0u64..40,
        1u32..100,
    )
        .prop_map(|(loss, exceed, final_s, more, width)| Goal {
            stream: None,
            loss: Ratio::of_billionths(loss).expect("a share"),
            exceed: Ratio::of_billionths(exceed).expect("a share"),
            final_ns: final_s * SECOND,
            initial_ns: SECOND,
            sum_ns: (final_s + more) * SECOND,
            width: f64::from(width) / 1000.0,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_search_on_any_device_ends_with_what_its_trials_say(
        goals in prop::collection::vec(any_goal(), 1..4),
        seed: u64,
        kind in 0..4,
        min in 1u64..100_000,
        span in 1u64..10_000_000,
    ) {
        let device = DEVICES[kind as usize].1;
        let limits = Limits { min, max: min + span };
        let search = Search::new(goals, limits, u64::MAX).expect("a search");
        let mut random = Random(seed);
        let (trials, end) = run(&search, |input| measure(device, input, &mut random));
        prop_assert_eq!(end, End::Found);
        check(&search, &trials);
        // The same trials again, handed in one by one as after an interruption.
        let mut random = Random(seed);
        for at in 0..trials.len() {
            let next = search.next(&trials[..at]);
            let Next::Trial(input) = next else { panic!("{next:?} after {at}") };
            prop_assert_eq!(measure(device, input, &mut random), trials[at].clone());
        }
    }
}
