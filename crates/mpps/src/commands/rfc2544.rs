//! `rfc2544`: its settings from the arguments.

use super::method::{self, no_tolerance};
use crate::cli::{Rfc2544, Rfc2544Test, SearchBy};
use crate::fail::{Result, usage};
use mpps_engine::Pacing;
use mpps_methods::rfc2544::{self, Choice, Manner, Test};
use mpps_methods::search::Ratio;
use std::process::ExitCode;
use std::time::Duration;

pub(super) fn run(args: &Rfc2544) -> Result<ExitCode> {
    let choice = choice(args)?;
    method::run(&args.method, |common, caller| rfc2544::run(common, choice, caller))
}

/// Returns the settings, with the defaults for what is not given.
fn choice(args: &Rfc2544) -> Result<Choice> {
    let traffic = &args.method.traffic;
    let given = [
        ("--frame-size", traffic.args.run.plan.traffic.frame_size.is_some()),
        ("--payload-size", traffic.args.run.plan.traffic.payload_size.is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
        return Err(usage(format!("{option}: want --frame-sizes BYTES,…, frames with FCS")));
    }
    for (option, zero) in [
        ("--search-time", args.search_time.is_zero()),
        ("--longest-burst", args.longest_burst.is_zero()),
        ("--trial", args.trial.is_some_and(|time| time.is_zero())),
        ("--first-trial", args.first_trial.is_some_and(|time| time.is_zero())),
    ] {
        if zero {
            return Err(usage(format!("{option}: 0: want a time above 0")));
        }
    }
    if args.resolution.is_some_and(|width| !(0.00001..=0.5).contains(&width)) {
        return Err(usage("--resolution: want a share from 0.001% to 50%"));
    }
    if args.test != Rfc2544Test::Reset && args.test != Rfc2544Test::All && args.reset_cmd.is_some() {
        return Err(usage("--reset-cmd: want the test reset or all"));
    }
    if !args.bursts.is_empty() && *args.method.traffic.args.run.plan.load.pacing != Pacing::Constant {
        return Err(usage(
            "--pacing: --bursts sends trials in bursts of its own: want one of the two",
        ));
    }
    no_tolerance(&args.method)?;
    if args.strict && traffic.args.run.plan.times.settle_early {
        return Err(usage(
            "--settle-early: --strict waits for the whole settle time: want one of the two",
        ));
    }
    let tests = tests(args);
    unused(args, &tests)?;
    let manner = match (args.strict, args.quick) {
        (true, _) => Manner::Strict,
        (_, true) => Manner::Quick,
        _ => Manner::Usual,
    };
    let ns = |time: Duration| time.as_nanos() as u64;
    let mut choice = Choice::new(manner, tests);
    if let Some(trial) = args.trial {
        choice.set_trial(ns(trial));
    }
    let full = choice.goal.final_ns;
    choice.goal.initial_ns = args.first_trial.map_or(choice.goal.initial_ns, ns);
    if choice.goal.initial_ns > full {
        return Err(usage(format!(
            "--first-trial: longer than a full one: want {} s at the most",
            full as f64 / 1e9
        )));
    }
    choice.goal.loss = args.loss;
    choice.goal.width = args.resolution.unwrap_or(choice.goal.width);
    if !args.sizes.is_empty() {
        choice.sizes = args.sizes.clone();
        choice.sizes.sort_unstable();
        choice.sizes.dedup();
    }
    if let Some(n) = args.repeats {
        choice.set_repeats(n);
    }
    Ok(Choice {
        binary: args.search == SearchBy::Binary,
        bursts: args.bursts.clone(),
        search_ns: ns(args.search_time),
        at: args.at,
        step: args.step_by,
        longest_burst_ns: ns(args.longest_burst),
        reset_cmd: args.reset_cmd.clone(),
        ..choice
    })
}

/// Refuses options of tests that are not run.
fn unused(args: &Rfc2544, tests: &[Test]) -> Result<()> {
    let has = |of: &[Test]| of.iter().any(|test| tests.contains(test));
    let repeated = [Test::Latency, Test::BackToBack, Test::Recovery, Test::Reset];
    for (option, given, of, want) in [
        ("--at", args.at < 1.0, &[Test::Latency][..], "latency"),
        ("--step-by", args.step_by < 0.1, &[Test::Loss], "loss"),
        (
            "--longest-burst",
            args.longest_burst != Duration::from_secs(30),
            &[Test::BackToBack],
            "back-to-back",
        ),
        (
            "--repeats",
            args.repeats.is_some(),
            &repeated,
            "latency, back-to-back, recovery or reset",
        ),
        (
            "--loss",
            args.loss != Ratio::ZERO,
            &[Test::Throughput],
            "any test but loss",
        ),
        (
            "--resolution",
            args.resolution.is_some(),
            &[Test::Throughput],
            "any test but loss",
        ),
        (
            "--bursts",
            !args.bursts.is_empty(),
            &[Test::Throughput],
            "any test but loss",
        ),
        (
            "--first-trial",
            args.first_trial.is_some(),
            &[Test::Throughput],
            "any test but loss",
        ),
        (
            "--search",
            args.search != SearchBy::Mlrsearch,
            &[Test::Throughput],
            "any test but loss",
        ),
    ] {
        if given && !has(of) {
            return Err(usage(format!(
                "{option}: this test does not use it: want {want}, or it left out"
            )));
        }
    }
    let by_hand = tests.contains(&Test::Reset) && args.reset_cmd.is_none();
    if by_hand && args.method.traffic.args.tell.quiet {
        return Err(usage(
            "--quiet: nobody is told when to reset the device: want --reset-cmd COMMAND, or no --quiet",
        ));
    }
    Ok(())
}

/// The tests that are run: all but loss go by the throughput.
fn tests(args: &Rfc2544) -> Vec<Test> {
    let with_throughput = |test: Test| vec![Test::Throughput, test];
    match args.test {
        Rfc2544Test::Throughput => vec![Test::Throughput],
        Rfc2544Test::Latency => with_throughput(Test::Latency),
        Rfc2544Test::Loss => vec![Test::Loss],
        Rfc2544Test::BackToBack => with_throughput(Test::BackToBack),
        Rfc2544Test::Recovery => with_throughput(Test::Recovery),
        Rfc2544Test::Reset => with_throughput(Test::Reset),
        Rfc2544Test::All => {
            let mut all = vec![
                Test::Throughput,
                Test::Latency,
                Test::Loss,
                Test::BackToBack,
                Test::Recovery,
            ];
            all.extend(args.reset_cmd.is_some().then_some(Test::Reset));
            all
        }
    }
}
