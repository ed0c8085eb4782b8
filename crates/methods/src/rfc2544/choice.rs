//! Selection of the tests, their durations and counts: the times of RFC 2544 and RFC 9004 behind them.

use crate::search::{Goal, Limits, Ratio, Search};
use serde_json::{Map, Value, json};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// Ethernet's sizes (RFC 2544, 9.1).
const SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
const QUICK_SIZES: [usize; 3] = [64, 512, 1518];

/// Closeness to the RFC's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Times of the RFC.
    Strict,
    /// Shorter trials and searches.
    Usual,
    /// An estimate within minutes.
    Quick,
}

/// One of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Highest rate without loss (26.1).
    Throughput,
    /// Latency at that rate (26.2).
    Latency,
    /// Loss by load (26.3).
    Loss,
    /// Longest burst at the highest rate without loss (26.4, RFC 9004).
    BackToBack,
    /// Time until nothing is lost after an overload (26.5).
    Recovery,
    /// Time without traffic at a reset of the device (26.6, RFC 6201).
    Reset,
}

/// All choices.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Closeness to the RFC's times.
    pub manner: Manner,
    /// Tests in the order in which they are run.
    pub tests: Vec<Test>,
    /// Frame sizes with FCS, bytes, ascending.
    pub sizes: Vec<usize>,
    /// Goal of the search for the throughput.
    pub goal: Goal,
    /// Halves the interval between 0 and the highest rate; otherwise MLRsearch.
    pub binary: bool,
    /// Frames back to back for which the throughput is searched for as well.
    pub bursts: Vec<u32>,
    /// Time that the trials of one search may take together, ns.
    pub search_ns: u64,
    /// Length of a latency trial, ns.
    pub latency_ns: u64,
    /// Number of latency trials.
    pub latency_runs: u32,
    /// Share of the throughput at which latency is measured.
    pub at: f64,
    /// Length of a trial of the loss test, ns.
    pub loss_ns: u64,
    /// Distance of two loads of the loss test, as a share of the highest.
    pub step: f64,
    /// Number of searches for the longest burst.
    pub burst_searches: u32,
    /// Longest burst, as the time that sending it takes, ns.
    pub longest_burst_ns: u64,
    /// Length of the overload, ns.
    pub recovery_ns: u64,
    /// Length of a reset trial, ns.
    pub reset_ns: u64,
    /// Number of runs of the recovery and reset tests.
    pub runs: u32,
    /// Command that resets the device; `None`: the user does it.
    pub reset_cmd: Option<String>,
    /// Time that a packet may take to come back, unless it is given.
    pub settle: Duration,
    /// Pause between two trials, unless it is given.
    pub pause: Duration,
    /// Frames for the device to learn from, before each trial.
    pub learning: Option<Duration>,
}

impl Choice {
    /// Creates the choices of a manner for these tests.
    pub fn new(manner: Manner, tests: Vec<Test>) -> Self {
        let usual = Self {
            manner,
            tests,
            sizes: SIZES.to_vec(),
            goal: Goal {
                stream: None,
                loss: Ratio::ZERO,
                exceed: Ratio::ZERO,
                initial_ns: 5 * SECOND,
                final_ns: 60 * SECOND,
                sum_ns: 60 * SECOND,
                width: 0.005,
            },
            binary: false,
            bursts: Vec::new(),
            search_ns: 7200 * SECOND,
            latency_ns: 10 * SECOND,
            latency_runs: 20,
            at: 1.0,
            loss_ns: 10 * SECOND,
            step: 0.1,
            burst_searches: 20,
            longest_burst_ns: 30 * SECOND,
            recovery_ns: 60 * SECOND,
            reset_ns: 30 * SECOND,
            runs: 3,
            reset_cmd: None,
            settle: Duration::from_secs(2),
            pause: Duration::from_secs(1),
            learning: None,
        };
        match manner {
            Manner::Usual => usual,
            Manner::Strict => Self {
                goal: Goal {
                    initial_ns: 60 * SECOND,
                    width: 0.001,
                    ..usual.goal
                },
                latency_ns: 120 * SECOND,
                loss_ns: 60 * SECOND,
                burst_searches: 50,
                pause: Duration::from_secs(5),
                learning: Some(Duration::from_secs(2)),
                ..usual
            },
            Manner::Quick => Self {
                sizes: QUICK_SIZES.to_vec(),
                goal: Goal {
                    initial_ns: SECOND,
                    final_ns: 2 * SECOND,
                    sum_ns: 2 * SECOND,
                    width: 0.01,
                    ..usual.goal
                },
                latency_ns: 2 * SECOND,
                latency_runs: 3,
                loss_ns: SECOND,
                burst_searches: 3,
                recovery_ns: 2 * SECOND,
                reset_ns: 10 * SECOND,
                runs: 1,
                settle: Duration::from_millis(200),
                pause: Duration::ZERO,
                ..usual
            },
        }
    }

    /// Sets the length of full trials, ns. The first trials of a search are no longer than that.
    pub fn set_trial(&mut self, ns: u64) {
        (self.goal.final_ns, self.goal.sum_ns) = (ns, ns);
        self.goal.initial_ns = self.goal.initial_ns.min(ns);
        (self.latency_ns, self.loss_ns, self.recovery_ns, self.reset_ns) = (ns, ns, ns, ns);
    }

    /// Sets how often latency, back-to-back, recovery and reset are measured.
    pub fn set_repeats(&mut self, n: u32) {
        (self.latency_runs, self.burst_searches, self.runs) = (n, n, n);
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
                    true => Search::binary(vec![self.goal.clone()], limits, self.search_ns),
                    false => Search::new(vec![self.goal.clone()], limits, self.search_ns),
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
