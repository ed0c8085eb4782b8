//! `overload`: what a device does with loads up to twice the one that it forwards without loss, rising and falling.

mod charts;
mod device;
mod document;
mod points;
mod tell;

use crate::bench::Bench;
use crate::expect;
use crate::found::{Found, search_of};
use crate::limits::LimitedBy;
use crate::measure::{Ask, Measured, Phase};
use crate::search::{Goal, Input, Ratio};
use crate::setup::{Ended, Setup, Step, Stop, rates_json};
use crate::{Common, View};
use device::Lanes;
use mpps_plan::Written;
use mpps_plan::values::rate::RateText;
use mpps_run::Host;
use mpps_run::fail::{Result, failed, usage};
use points::Load;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Trials of one load and direction after which it is left for later.
const TRIES: usize = 3;
/// Void trials in a row after which this host is given up.
const MOST_VOID: usize = 9;
/// Time limit of the search for the reference, ns.
const SEARCH_NS: u64 = 600_000_000_000;

/// Settings of `overload`.
#[derive(Clone, Debug)]
pub struct Overload {
    /// Load that 100 % is; `None`: it is searched for.
    pub reference: Option<RateText>,
    /// Short waits and a short search.
    pub quick: bool,
    /// Length of a trial.
    pub trial: Duration,
    /// Number of times that all loads are gone through, rising and falling.
    pub rounds: u32,
    /// File with the rows of the device's lanes, if the device is `mpps` on this host.
    pub device: Option<PathBuf>,
}

impl Overload {
    /// Creates the usual settings, or those of a test that takes a minute or two.
    pub fn new(quick: bool) -> Self {
        let (trial, rounds) = if quick { (1, 1) } else { (30, 3) };
        Self {
            reference: None,
            quick,
            trial: Duration::from_secs(trial),
            rounds,
            device: None,
        }
    }
}

/// Times of a test.
#[derive(Clone, Copy, Debug)]
struct Times {
    trial_ns: u64,
    rounds: u32,
}

/// State of the test so far.
#[derive(Debug, Default)]
struct Test {
    /// The load that 100 % is, packets per second.
    reference: f64,
    /// Origin of the reference, in words.
    origin: String,
    loads: Vec<Load>,
    /// Trials done: load and direction of each trial of the test, and its place among all trials.
    done: Vec<Done>,
    limited_by: Option<LimitedBy>,
}

/// A trial of the test.
#[derive(Clone, Copy, Debug)]
struct Done {
    load: usize,
    falling: bool,
    /// Place among all trials.
    trial: usize,
    counts: bool,
}

/// Runs the test and returns the exit code.
///
/// # Errors
/// If the settings are wrong, or the test could not begin.
pub fn run(common: &Common, overload: &Overload, caller: (&Host<'_>, &dyn View)) -> Result<u8> {
    let trial = overload.trial;
    if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&trial) {
        return Err(usage(format!("--trial {trial:?}: want 100ms to 1h")));
    }
    let times = Times {
        trial_ns: trial.as_nanos() as u64,
        rounds: overload.rounds,
    };
    let (settle, pause) = if overload.quick { (200, 0) } else { (2_000, 1_000) };
    let [settle, pause] = [settle, pause].map(Duration::from_millis);
    let setup = Setup::new(common, None, pause, settle, true)?;
    setup.rates(setup.frame_size(), None)?;
    let given = given(overload, &setup)?;
    expect::check(&common.expect, "overload", &tell::FINDS.map(|what| (what, None)))?;
    let lanes = overload.device.as_deref().map(Lanes::open).transpose()?;
    let params = json!({
        "reference": overload.reference.as_ref().map(ToString::to_string),
        "rates": rates_json(common),
        "trial": Written::ns(times.trial_ns).text(),
        "rounds": times.rounds,
        "quick": overload.quick,
    });
    let began = Instant::now();
    setup.on_bench("overload", params, caller, &mut |bench| {
        let mut test = Test::default();
        let stop = go(overload.quick, &setup, (times, given), bench, &mut test).err();
        let told = tell::Told::new(&setup, times, bench, &test, lanes.as_ref());
        let took = began.elapsed();
        let document = told.document(&setup, bench, took, stop.as_ref());
        Ended {
            reached: told.reached(setup.frame_size()),
            table: told.rows(),
            last: vec![tell::last(&document, took)],
            code: stop.as_ref().map_or(0, Stop::code),
            document,
        }
    })
}

/// The reference that was given, packets per second.
fn given(overload: &Overload, setup: &Setup<'_>) -> Result<Option<f64>> {
    let Some(text) = &overload.reference else {
        return Ok(None);
    };
    match text.resolve(setup.frame_size(), setup.link_bps) {
        Ok(rate) => Ok(Some(rate.pps())),
        Err(want) => Err(usage(format!("--reference {text}: want {want}"))),
    }
}

/// The test, which is in `test` however it ends.
fn go(
    quick: bool,
    setup: &Setup<'_>,
    (times, given): (Times, Option<f64>),
    bench: &mut Bench<'_, '_>,
    test: &mut Test,
) -> Step<()> {
    let frame_size = setup.frame_size();
    let (limits, limited_by) = bench.limits(frame_size)?;
    let (mut max, mut limit) = (limits.max, limited_by);
    (test.reference, test.origin) = match given {
        Some(pps) => (pps, "as given".to_owned()),
        None => {
            let mut found = Found::new(
                frame_size,
                search_of(vec![goal(quick)], limits, SEARCH_NS, false)?,
                limited_by,
            );
            bench.say("searching for the highest rate without loss, which 100 % is");
            let done = found.go(bench, &mut |bench, found| {
                if let Some(last) = found.trials.last() {
                    tell::searched(bench, last);
                }
            });
            // A rate that passes is a reference, even if others were in the way of higher ones.
            match done {
                Err(Stop::Void(_)) if found.outcomes()[0].bounds.lower.is_some() => {}
                done => done?,
            }
            (max, limit) = (found.limits().max, found.limited_by);
            reference(&found)?
        }
    };
    test.limited_by = Some(limit);
    test.loads = points::loads(test.reference, max);
    tell::start(bench, setup, times, test);
    for round in 0..times.rounds {
        for (load, falling) in points::order(test.loads.len()) {
            bench_load(bench, (frame_size, times, round), test, load, falling)?;
        }
    }
    // Void trials are repeated once, after those that an earlier command has repeated.
    loop {
        let missing = missing(test);
        if missing.is_empty() {
            return Ok(());
        }
        let earlier = bench.left_of_record() > 0;
        for (load, falling) in missing {
            bench_load(bench, (frame_size, times, times.rounds), test, load, falling)?;
        }
        if !earlier && !self::missing(test).is_empty() {
            let last = bench.trials.iter().rfind(|trial| !trial.counts());
            let why = last.map(|last| last.reasons.join("; "));
            return Err(Stop::Void(why.unwrap_or_default()));
        }
    }
}

/// The goal by which the reference is searched for.
fn goal(quick: bool) -> Goal {
    let (trial, sum) = if quick { (500, 2_500) } else { (1_000, 5_000) };
    Goal {
        initial_ns: trial * 1_000_000,
        final_ns: trial * 1_000_000,
        sum_ns: sum * 1_000_000,
        width: 0.02,
        ..Goal::csit(Ratio::ZERO)
    }
}

/// The reference that was found.
fn reference(found: &Found) -> Step<(f64, String)> {
    let outcomes = found.outcomes();
    let outcome = outcomes.first();
    let Some(lower) = outcome.and_then(|outcome| outcome.bounds.lower) else {
        return Err(Stop::Failed(failed(
            "no rate without loss was found, so there is nothing that 100 % is: want --reference RATE",
        )));
    };
    let origin = match outcome.is_some_and(|outcome| outcome.at_max) {
        true if found.limited_by == LimitedBy::Host => {
            "the most that this host could offer undisturbed for as long as a bound takes, of which nothing was lost"
                .to_owned()
        }
        true => format!("no load was lost up to {}", found.limited_by.words()),
        false => "highest rate without loss, as searched for".to_owned(),
    };
    Ok((lower as f64, origin))
}

/// Loads and directions of which no trial holds.
fn missing(test: &Test) -> Vec<(usize, bool)> {
    let held = |load, falling| {
        test.done
            .iter()
            .any(|done| done.counts && (done.load, done.falling) == (load, falling))
    };
    let order = points::order(test.loads.len());
    order.filter(|(load, falling)| !held(*load, *falling)).collect()
}

/// Runs trials of one load until one holds, a few at the most. Which trials these are depends on the trials before
/// alone, so that a record can be gone through again.
fn bench_load(
    bench: &mut Bench<'_, '_>,
    (frame_size, times, round): (usize, Times, u32),
    test: &mut Test,
    load: usize,
    falling: bool,
) -> Step<()> {
    let input = Input {
        load: test.loads[load].pps,
        duration_ns: times.trial_ns,
    };
    for _ in 0..TRIES {
        let measured: Measured = bench.trial(&Ask::of(Phase::Overload, frame_size, input))?.clone();
        let counts = measured.counts();
        test.done.push(Done {
            load,
            falling,
            trial: bench.trials.len() - 1,
            counts,
        });
        tell::trial(bench, times, test, (round, &measured));
        if counts {
            return bench.check_answers();
        }
        // A disturbance of an earlier command's host is no reason to give up now.
        if bench.void_here() >= MOST_VOID {
            return Err(Stop::Void(measured.reasons.join("; ")));
        }
    }
    Ok(())
}
