//! Selection of the tests, their durations and counts: the options, and the times of RFC 2544 and RFC 9004 behind them.

use crate::cli::{Rfc2544, Rfc2544Test, SearchBy};
use crate::commands::method::no_tolerance;
use crate::fail::{Result, usage};
use mpps_engine::Pacing;
use mpps_methods::search::{Goal, Limits, Ratio, Search};
use serde_json::{Map, Value, json};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// Ethernet's sizes (RFC 2544, 9.1).
const SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
const QUICK_SIZES: [usize; 3] = [64, 512, 1518];

/// Closeness to the RFC's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Strict,
    Usual,
    Quick,
}

/// One of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Throughput,
    Latency,
    Loss,
    BackToBack,
    Recovery,
    Reset,
}

/// Times that depend on the manner, ns, and numbers of runs.
struct Times {
    full: u64,
    first: u64,
    resolution: f64,
    latency: u64,
    loss: u64,
    recovery: u64,
    reset: u64,
    repeats: u32,
    bursts: u32,
    few: u32,
    settle: Duration,
    pause: Duration,
    learning: Option<Duration>,
}

impl Manner {
    fn times(self) -> Times {
        let usual = Times {
            full: 60 * SECOND,
            first: 5 * SECOND,
            resolution: 0.005,
            latency: 10 * SECOND,
            loss: 10 * SECOND,
            recovery: 60 * SECOND,
            reset: 30 * SECOND,
            repeats: 20,
            bursts: 20,
            few: 3,
            settle: Duration::from_secs(2),
            pause: Duration::from_secs(1),
            learning: None,
        };
        match self {
            Self::Usual => usual,
            Self::Strict => Times {
                first: 60 * SECOND,
                resolution: 0.001,
                latency: 120 * SECOND,
                loss: 60 * SECOND,
                bursts: 50,
                pause: Duration::from_secs(5),
                learning: Some(Duration::from_secs(2)),
                ..usual
            },
            Self::Quick => Times {
                full: 2 * SECOND,
                first: SECOND,
                resolution: 0.01,
                latency: 2 * SECOND,
                loss: SECOND,
                recovery: 2 * SECOND,
                reset: 10 * SECOND,
                repeats: 3,
                bursts: 3,
                few: 1,
                settle: Duration::from_millis(200),
                pause: Duration::ZERO,
                ..usual
            },
        }
    }
}

/// All choices, with the defaults.
pub(super) struct Choice {
    pub(super) manner: Manner,
    pub(super) tests: Vec<Test>,
    pub(super) sizes: Vec<usize>,
    /// Goal of the search for the throughput.
    pub(super) goal: Goal,
    pub(super) binary: bool,
    /// Frames back to back for which the throughput is searched for as well.
    pub(super) bursts: Vec<u32>,
    pub(super) search_ns: u64,
    pub(super) latency_ns: u64,
    pub(super) latency_runs: u32,
    /// Share of the throughput at which latency is measured.
    pub(super) at: f64,
    pub(super) loss_ns: u64,
    pub(super) step: f64,
    pub(super) burst_searches: u32,
    pub(super) longest_burst_ns: u64,
    pub(super) recovery_ns: u64,
    pub(super) reset_ns: u64,
    /// Number of runs of the recovery and reset tests.
    pub(super) runs: u32,
    /// Command that resets the device; `None`: the user does it.
    pub(super) reset_cmd: Option<String>,
    pub(super) settle: Duration,
    pub(super) pause: Duration,
    /// Frames for the device to learn from, before each trial.
    pub(super) learning: Option<Duration>,
}

impl Choice {
    pub(super) fn of(args: &Rfc2544) -> Result<Self> {
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
        unused(args)?;
        let manner = match (args.strict, args.quick) {
            (true, _) => Manner::Strict,
            (_, true) => Manner::Quick,
            _ => Manner::Usual,
        };
        let times = manner.times();
        let ns = |time: Option<Duration>, usual: u64| time.map_or(usual, |time| time.as_nanos() as u64);
        let full = ns(args.trial, times.full);
        let first = ns(args.first_trial, times.first.min(full));
        if first > full {
            return Err(usage(format!(
                "--first-trial: longer than a full one: want {} s at the most",
                full as f64 / 1e9
            )));
        }
        let mut sizes = match (args.sizes.is_empty(), manner) {
            (false, _) => args.sizes.clone(),
            (true, Manner::Quick) => QUICK_SIZES.to_vec(),
            (true, _) => SIZES.to_vec(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Self {
            manner,
            tests: tests(args),
            sizes,
            goal: Goal {
                loss: args.loss,
                exceed: Ratio::ZERO,
                initial_ns: first,
                final_ns: full,
                sum_ns: full,
                width: args.resolution.unwrap_or(times.resolution),
            },
            binary: args.search == SearchBy::Binary,
            bursts: args.bursts.clone(),
            search_ns: args.search_time.as_nanos() as u64,
            latency_ns: ns(args.trial, times.latency),
            latency_runs: args.repeats.unwrap_or(times.repeats),
            at: args.at,
            loss_ns: ns(args.trial, times.loss),
            step: args.step_by,
            burst_searches: args.repeats.unwrap_or(times.bursts),
            longest_burst_ns: args.longest_burst.as_nanos() as u64,
            recovery_ns: ns(args.trial, times.recovery),
            reset_ns: ns(args.trial, times.reset),
            runs: args.repeats.unwrap_or(times.few),
            reset_cmd: args.reset_cmd.clone(),
            settle: times.settle,
            pause: times.pause,
            learning: times.learning,
        })
    }

    pub(super) fn has(&self, test: Test) -> bool {
        self.tests.contains(&test)
    }

    /// Returns in words how closely the test follows the standard.
    pub(super) fn compliance(&self) -> String {
        match self.manner {
            _ if self.goal.loss.share() > 0.0 && self.has(Test::Throughput) => {
                format!("not RFC 2544: up to {} of the packets may be lost", self.goal.loss)
            }
            Manner::Quick => "not RFC 2544: an estimate with short trials (--quick)".to_owned(),
            Manner::Usual => "RFC 2544 but for the deviations below, so not unconditionally compliant".to_owned(),
            Manner::Strict => {
                "RFC 2544 with its own times, but for the deviations below, so not unconditionally compliant".to_owned()
            }
        }
    }

    /// Returns the deviations of these tests from the RFCs.
    pub(super) fn deviations(&self) -> Vec<String> {
        let mut all = Vec::new();
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut shorter = |what: &str, ns: u64, want: u64, section: &str| {
            if ns < want {
                let (is, want) = (seconds(ns), seconds(want));
                all.push(format!("{what} of {is} s, not {want} s ({section})"));
            }
        };
        shorter("full trials", self.goal.final_ns, 60 * SECOND, "RFC 2544, 24");
        if self.has(Test::Latency) {
            shorter("latency trials", self.latency_ns, 120 * SECOND, "RFC 2544, 26.2");
        }
        if self.has(Test::Loss) {
            shorter("loss trials", self.loss_ns, 60 * SECOND, "RFC 2544, 24");
        }
        if self.has(Test::Recovery) {
            shorter("overload", self.recovery_ns, 60 * SECOND, "RFC 2544, 26.5");
        }
        if self.has(Test::BackToBack) {
            shorter("longest burst", self.longest_burst_ns, 30 * SECOND, "RFC 9004, 5.4");
        }
        if self.has(Test::BackToBack) {
            if self.burst_searches < 50 {
                let searches = if self.burst_searches == 1 { "search" } else { "searches" };
                all.push(format!(
                    "{} {searches} for the burst, not 50 (RFC 2544, 26.4)",
                    self.burst_searches
                ));
            }
            all.push(
                "buffers are reckoned with the rate at which bursts were sent, not with the theoretical maximum (RFC \
                 9004, 5.5)"
                    .to_owned(),
            );
        }
        if self.sizes.len() < 5 {
            let sizes = if self.sizes.len() == 1 { "size" } else { "sizes" };
            all.push(format!(
                "{} frame {sizes}, not 5 or more (RFC 2544, 9)",
                self.sizes.len()
            ));
        }
        if self.learning.is_none() {
            all.push("no learning frames before each trial (RFC 2544, 23)".to_owned());
        }
        if self.goal.loss.share() > 0.0 {
            all.push("a rate with loss is no throughput (RFC 1242, 3.17)".to_owned());
        }
        if self.has(Test::Latency) {
            all.push("latency of all frames, not of one after 60 s (RFC 2544, 26.2)".to_owned());
            if self.latency_runs < 20 {
                let trials = if self.latency_runs == 1 { "trial" } else { "trials" };
                all.push(format!(
                    "{} latency {trials}, not 20 (RFC 2544, 26.2)",
                    self.latency_runs
                ));
            }
            if self.at < 1.0 {
                all.push("latency below the throughput (RFC 2544, 26.2)".to_owned());
            }
        }
        all
    }

    /// For the record and the result.
    pub(super) fn params(&self) -> Map<String, Value> {
        let names: Vec<_> = self.tests.iter().map(|test| test.name()).collect();
        let of = json!({
            "manner": match self.manner {
                Manner::Strict => "strict",
                Manner::Usual => "usual",
                Manner::Quick => "quick",
            },
            "tests": names,
            "frame_sizes_bytes": self.sizes,
            "search": if self.binary { "binary" } else { "MLRsearch (RFC 9971)" },
            "loss_ratio": self.goal.loss.share(),
            "resolution_ratio": self.goal.width,
            "bursts_frames": self.bursts,
            "first_trial_s": self.goal.initial_ns as f64 / 1e9,
            "full_trial_s": self.goal.final_ns as f64 / 1e9,
            "search_time_s": self.search_ns as f64 / 1e9,
            "latency_trial_s": self.latency_ns as f64 / 1e9,
            "latency_trials": self.latency_runs,
            "latency_at_ratio": self.at,
            "loss_trial_s": self.loss_ns as f64 / 1e9,
            "loss_step_ratio": self.step,
            "burst_searches": self.burst_searches,
            "longest_burst_s": self.longest_burst_ns as f64 / 1e9,
            "recovery_trial_s": self.recovery_ns as f64 / 1e9,
            "reset_trial_s": self.reset_ns as f64 / 1e9,
            "recovery_and_reset_trials": self.runs,
            "reset_command": self.reset_cmd,
            "learning_s": self.learning.map_or(0.0, |time| time.as_secs_f64()),
        });
        match of {
            Value::Object(of) => of,
            _ => Map::new(),
        }
    }

    /// About how long all of it takes, on a steady device, ns.
    pub(super) fn estimate(&self, between: Duration) -> u64 {
        let of_all = self.of_size(&self.tests, between) * self.sizes.len() as u64;
        of_all + self.reset(between)
    }

    /// Estimates the time as [`Self::estimate`] does, for what follows a test at a size: `tests` are the tests left at
    /// that size, `sizes` the number of sizes left.
    pub(super) fn later(&self, tests: &[Test], sizes: usize, between: Duration) -> u64 {
        let here: u64 = tests.iter().map(|test| self.one(*test, between)).sum();
        here + self.of_size(&self.tests, between) * sizes as u64 + self.reset(between)
    }

    /// Finding out what this host can send, and tests, at one size.
    fn of_size(&self, tests: &[Test], between: Duration) -> u64 {
        let all: u64 = tests.iter().map(|test| self.one(*test, between)).sum();
        2 * (SECOND + between.as_nanos() as u64) + all
    }

    /// All resets, which are of one size.
    fn reset(&self, between: Duration) -> u64 {
        match self.has(Test::Reset) {
            true => u64::from(self.runs) * (self.reset_ns + between.as_nanos() as u64),
            false => 0,
        }
    }

    /// A search for a burst.
    pub(super) fn burst_ns(&self, between: Duration) -> u64 {
        15 * (SECOND / 10 + between.as_nanos() as u64)
    }

    /// A test at one size.
    fn one(&self, test: Test, between: Duration) -> u64 {
        let of = |trials: u64, ns: u64| trials * (ns + between.as_nanos() as u64);
        match test {
            Test::Throughput => {
                let limits = Limits {
                    min: 1_000,
                    max: 1_000_000,
                };
                let search = match self.binary {
                    true => Search::binary(vec![self.goal], limits, self.search_ns),
                    false => Search::new(vec![self.goal], limits, self.search_ns),
                };
                let (trials, ns) = search.map_or((0, 0), |search| search.estimate(&[]));
                (ns + of(trials.into(), 0)) * (1 + self.bursts.len() as u64)
            }
            Test::Latency => of(self.latency_runs.into(), self.latency_ns),
            Test::Loss => of((0.5 / self.step) as u64 + 2, self.loss_ns),
            Test::BackToBack => u64::from(self.burst_searches) * self.burst_ns(between),
            Test::Recovery => of(self.runs.into(), 2 * self.recovery_ns),
            // Run for the smallest size alone, at the end.
            Test::Reset => 0,
        }
    }
}

/// Refuses options of tests that are not run.
fn unused(args: &Rfc2544) -> Result<()> {
    let tests = tests(args);
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

impl Test {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Loss => "loss",
            Self::BackToBack => "back-to-back",
            Self::Recovery => "recovery",
            Self::Reset => "reset",
        }
    }
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
