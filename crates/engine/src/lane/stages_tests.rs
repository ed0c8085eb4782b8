use super::*;

const US: u64 = 1_000;

/// A lane that goes through rounds whose times a test makes up.
struct Bench<'r> {
    stages: Stages<'r>,
    counters: &'r LaneCounters,
    now_ns: u64,
    short: bool,
}

impl<'r> Bench<'r> {
    fn new(counters: &'r LaneCounters, waited: Option<Waited<'r>>, flight: Option<Flight<'r>>) -> Self {
        let mut stages = Stages::new(&counters.stages, waited, flight);
        stages.start(US, counters);
        Self {
            stages,
            counters,
            now_ns: US,
            short: false,
        }
    }

    /// A round of these stages; `moved`: it moved something, one packet in and one out.
    fn round(&mut self, stages: &[(Stage, u64)], moved: bool) {
        for &(stage, ns) in stages {
            self.now_ns += ns;
            if stage == Stage::EmptyPolls && !self.stages.is_timed() {
                self.stages.found_none();
            } else if self.stages.is_on() {
                self.stages.note(stage, self.now_ns);
            }
        }
        if moved {
            self.counters.rx_packets.add(1);
            self.counters.tx_packets.add(1);
            self.stages.moved();
        }
    }

    /// Begins the next round.
    fn next(&mut self) {
        self.stages.fresh(self.now_ns, self.short, self.counters);
    }

    fn sleep(&mut self, ns: u64) {
        self.stages.slept(self.now_ns, self.now_ns + ns);
        self.now_ns += ns;
    }

    fn end(self) -> Vec<SlowBurst> {
        self.stages.end(self.now_ns, self.counters)
    }
}

fn times(counters: &LaneCounters) -> impl Fn(Stage) -> f64 {
    let rows = counters.stage_rows(0);
    let shares: f64 = rows.iter().map(|row| row.share).sum();
    assert!((shares - 1.0).abs() < 1e-6, "shares add up to {shares}");
    move |stage| {
        let row = rows.iter().find(|row| row.stage == stage);
        row.map_or(0.0, |row| row.total_ns as f64)
    }
}

#[test]
fn rounds_that_are_long_are_timed_one_by_one_and_idle_time_is_exact() {
    let counters = LaneCounters::default();
    let mut lane = Bench::new(&counters, Some(Box::new(|| Some((0, 0)))), None);
    for _ in 0..1000 {
        lane.round(
            &[
                (Stage::Receive, 6 * US),
                (Stage::Classify, 3 * US),
                (Stage::Transmit, 10 * US),
            ],
            true,
        );
        lane.next();
        for _ in 0..50 {
            lane.round(&[(Stage::EmptyPolls, 300), (Stage::Spinning, 100)], false);
            lane.next();
        }
        lane.sleep(80 * US);
        lane.next();
    }
    let wall_ns = lane.now_ns - US;
    let slowest = lane.end();
    let of = times(&counters);
    assert_eq!(counters.stages.wall_ns(), wall_ns);
    assert_eq!(of(Stage::Asleep), 80.0 * 1e6);
    let near = |stage, ns: f64| {
        assert!(
            (of(stage) / ns - 1.0).abs() < 0.01,
            "{stage:?}: {} of {ns} ns",
            of(stage)
        )
    };
    near(Stage::Receive, 6e6);
    near(Stage::Classify, 3e6);
    near(Stage::Transmit, 10e6);
    assert!((of(Stage::EmptyPolls) + of(Stage::Spinning) - 20e6).abs() < 1.0);
    near(Stage::EmptyPolls, 15e6);
    assert_eq!(slowest.len(), 100);
    assert!(
        slowest
            .iter()
            .map(|burst| burst.round)
            .all(|round| round.took_ns() == 19 * US && (round.rx, round.tx) == (1, 1))
    );
}

#[test]
fn rounds_that_are_short_are_sampled_and_scaled() {
    let counters = LaneCounters::default();
    let mut lane = Bench::new(&counters, None, None);
    lane.short = true;
    for _ in 0..40_000 {
        lane.round(
            &[(Stage::Receive, 100), (Stage::Classify, 200), (Stage::Transmit, 100)],
            true,
        );
        lane.next();
    }
    lane.end();
    let of = times(&counters);
    assert!(
        (of(Stage::Classify) / 8e6 - 1.0).abs() < 0.01,
        "{} ns",
        of(Stage::Classify)
    );
    let rows = counters.stage_rows(0);
    let row = rows.iter().find(|row| row.stage == Stage::Classify).expect("a row");
    // One in sixteen.
    assert!(
        row.timed.abs_diff(2_500) < 50,
        "{} of 40,000 rounds are timed",
        row.timed
    );
    assert!(row.p50_ns.abs_diff(200) < 8, "{} ns", row.p50_ns);
}

#[test]
fn a_stalled_round_counts_as_away_and_not_as_the_stage_in_which_it_stalled() {
    let counters = LaneCounters::default();
    let waited = Cell::new(0);
    let mut lane = Bench::new(&counters, Some(Box::new(|| Some((waited.get(), waited.get())))), None);
    for number in 0..1000 {
        // Another thread had the core for 4 ms.
        let stall = if number % 100 == 50 { 4_000 * US } else { 0 };
        waited.set(waited.get() + stall);
        lane.round(&[(Stage::Receive, 10 * US), (Stage::Transmit, 20 * US + stall)], true);
        lane.next();
    }
    // Visits too short to be seen, and one while it slept.
    lane.sleep(10_000 * US);
    waited.set(waited.get() + 7_000 * US);
    lane.next();
    lane.round(&[(Stage::EmptyPolls, 100 * US)], false);
    waited.set(waited.get() + 50 * US);
    let slowest = lane.end();
    let of = times(&counters);
    assert_eq!(of(Stage::Away), 47e6 + 50e3);
    assert!(
        (of(Stage::Transmit) / 20e6 - 1.0).abs() < 0.01,
        "{}",
        of(Stage::Transmit)
    );
    let rows = counters.stage_rows(0);
    let row = |stage| rows.iter().find(|row| row.stage == stage).expect("a row");
    assert_eq!(row(Stage::Transmit).max_ns, 20 * US);
    assert_eq!((row(Stage::Away).calls, row(Stage::Away).max_ns), (11, 7_000 * US));
    // The record contains when it happened, and all that it took.
    assert_eq!(slowest[0].round.took_ns(), 4_030 * US);
    // And for how long of which part the lane did not have its core.
    let transmit = Round::STAGES.iter().position(|stage| *stage == Stage::Transmit);
    let mut away = [0; Round::STAGES.len()];
    away[transmit.expect("a part")] = 4_000 * US as u32;
    assert_eq!(slowest[0].away, away);
}

#[test]
fn a_lane_that_was_stopped_was_away_though_it_did_not_wait() {
    let (counters, stretches) = (LaneCounters::default(), Cell::new(0));
    let mut lane = Bench::new(&counters, Some(Box::new(|| Some((0, stretches.get())))), None);
    for number in 0..100 {
        let stop = if number == 50 { 3_000 * US } else { 0 };
        stretches.set(stretches.get() + u64::from(number == 50));
        lane.round(&[(Stage::Receive, 20 * US + stop)], true);
        lane.next();
    }
    lane.end();
    assert_eq!(times(&counters)(Stage::Away), 3_020e3);
}

#[test]
fn without_a_kernel_that_tells_long_stretches_are_guessed_to_be_away() {
    let counters = LaneCounters::default();
    let mut lane = Bench::new(&counters, None, None);
    lane.round(&[(Stage::Transmit, 20 * US)], true);
    lane.next();
    lane.round(&[(Stage::Transmit, 5_000 * US)], true);
    lane.next();
    lane.sleep(5_000 * US);
    lane.next();
    lane.end();
    assert_eq!(times(&counters)(Stage::Away), 4e6);
}

#[test]
fn records_add_up_to_the_run_and_to_its_packets() {
    let (counters, ring) = (LaneCounters::default(), LaneRing::new(1 << 20));
    let limits = Limits {
        stall_ns: 1_000 * US,
        late_ns: u64::MAX,
    };
    let mut lane = Bench::new(&counters, None, Some(Flight::new(&ring, limits, true)));
    lane.next();
    for number in 0..500 {
        let stall = if number == 77 { 2_000 * US } else { 0 };
        lane.round(
            &[
                (Stage::Receive, 2 * US),
                (Stage::Classify, US),
                (Stage::Transmit, 3 * US + stall),
            ],
            true,
        );
        lane.next();
        (0..9).for_each(|_| {
            lane.round(&[(Stage::EmptyPolls, 100)], false);
            lane.next();
        });
        lane.round(&[(Stage::EmptyPolls, 100)], false);
        lane.sleep(20 * US);
        lane.next();
    }
    let ends_ns = lane.now_ns;
    lane.end();
    let mut rounds = Vec::new();
    assert_eq!(ring.since(0, usize::MAX, &mut rounds).1, 0);
    let mut at = rounds[0].at_ns;
    for round in &rounds {
        assert_eq!(round.at_ns, at, "a gap before {round:?}");
        at = round.end_ns();
    }
    assert_eq!(at, ends_ns);
    let sum = |of: fn(&Round) -> u32| rounds.iter().map(|round| u64::from(of(round))).sum::<u64>();
    assert_eq!((sum(|r| r.rx.into()), sum(|r| r.tx.into())), (500, 500));
    assert_eq!(sum(|r| r.polls), 5_000);
    assert_eq!(rounds.iter().filter(|round| round.did == Did::Slept).count(), 500);
    let stalled = rounds
        .iter()
        .find(|round| round.took_ns() > 1_000 * US)
        .expect("it is there");
    assert_eq!(stalled.sent_before, 77);
    let mut triggers = Vec::new();
    ring.triggers_from(0, |from, to| triggers.push((from, to)));
    assert_eq!(triggers, [(stalled.at_ns, stalled.end_ns())]);
}

#[test]
fn packets_of_the_last_round_are_recorded_as_well() {
    let (counters, ring) = (LaneCounters::default(), LaneRing::new(1 << 12));
    let limits = Limits {
        stall_ns: u64::MAX,
        late_ns: u64::MAX,
    };
    let mut lane = Bench::new(&counters, None, Some(Flight::new(&ring, limits, true)));
    lane.next();
    // It ends the loop, whether something came or not.
    lane.round(&[(Stage::Receive, 2 * US)], false);
    counters.rx_packets.add(30);
    lane.end();
    let mut rounds = Vec::new();
    ring.since(0, usize::MAX, &mut rounds);
    assert_eq!(rounds.iter().map(|round| round.rx).sum::<u16>(), 30);
}

#[test]
fn rounds_that_take_turns_are_timed_alike() {
    let counters = LaneCounters::default();
    let mut lane = Bench::new(&counters, None, None);
    for number in 0..80_000 {
        // As lanes that share a core have them: busy, asleep, busy, asleep.
        if number % 2 == 0 {
            lane.round(&[(Stage::Receive, 1_500), (Stage::Transmit, 3_000)], true);
        } else {
            lane.round(&[(Stage::EmptyPolls, 500)], false);
            lane.sleep(20 * US);
        }
        lane.next();
    }
    lane.end();
    let of = times(&counters);
    let near = |stage, ns: f64| {
        assert!(
            (of(stage) / ns - 1.0).abs() < 0.05,
            "{stage:?}: {} of {ns} ns",
            of(stage)
        )
    };
    near(Stage::Receive, 60e6);
    near(Stage::Transmit, 120e6);
    assert!(of(Stage::Rest) < 6e6, "rest: {} ns", of(Stage::Rest));
}

#[test]
fn naps_while_the_device_is_down_are_sleep_that_the_lane_chose() {
    let (counters, ring) = (LaneCounters::default(), LaneRing::new(1 << 20));
    let stretches = Cell::new(0);
    let limits = Limits {
        stall_ns: 1_000 * US,
        late_ns: u64::MAX,
    };
    let waited: Waited<'_> = Box::new(|| Some((0, stretches.get())));
    let mut lane = Bench::new(&counters, Some(waited), Some(Flight::new(&ring, limits, true)));
    for _ in 0..500 {
        stretches.set(stretches.get() + 1);
        lane.now_ns += 1_200 * US;
        lane.stages.napped(1_100 * US);
        lane.next();
    }
    let ends_ns = lane.now_ns;
    lane.end();
    let of = times(&counters);
    assert_eq!((of(Stage::Away), of(Stage::Asleep)), (0.0, 550e6));
    let mut rounds = Vec::new();
    ring.since(0, usize::MAX, &mut rounds);
    assert_eq!(rounds.last().expect("records").end_ns(), ends_ns);
    let slept: u64 = rounds
        .iter()
        .filter(|round| round.did == Did::Slept)
        .map(Round::took_ns)
        .sum();
    assert_eq!(slept, 550_000 * US);
    assert_eq!(ring.triggers_from(0, |_, _| ()), 0, "a nap is no stall");
}
