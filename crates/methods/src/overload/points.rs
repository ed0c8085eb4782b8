//! Loads, and what the trials of each say together.

use super::Done;
use crate::measure::Measured;

/// Shares of the reference, percent.
const FIRST: u32 = 10;
const LAST: u32 = 200;
const STEP: u32 = 10;
/// Below this the forwarding rate at the highest load is a collapse, by the highest forwarding rate.
const COLLAPSE: f64 = 0.95;

/// A load of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Intended load as a percentage of the reference.
    pub(super) percent: u32,
    /// Packets per second; with both ways of each.
    pub(super) pps: u64,
    /// No more can be sent, so this stands for all that would be higher.
    pub(super) capped: bool,
}

/// 10, 20 … 200 % of the reference, no more than can be sent.
pub(super) fn loads(reference: f64, max: u64) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    for percent in (FIRST..=LAST).step_by(STEP as usize) {
        let pps = ((reference * f64::from(percent) / 100.0).round() as u64).max(1);
        let capped = pps > max;
        // The highest load is there once.
        if let Some(last) = loads.last_mut().filter(|last| capped && last.pps == max) {
            last.capped = true;
            break;
        }
        let pps = pps.min(max);
        loads.push(Load { percent, pps, capped });
        if capped {
            break;
        }
    }
    loads
}

/// The loads of one round: rising, then falling.
pub(super) fn order(loads: usize) -> impl Iterator<Item = (usize, bool)> {
    let falling = (0..loads).rev().map(|load| (load, true));
    (0..loads).map(|load| (load, false)).chain(falling)
}

/// Trials of one load together.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub(super) trials: usize,
    ns: u64,
    pub(super) due: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) missing: u64,
    pub(super) refused: u64,
    pub(super) late: u64,
    /// Latency percentiles of each trial, ns: 50th, 99th and 99.9th.
    latencies: [Vec<u64>; 3],
}

impl Sum {
    /// Adds up the trials that are not void.
    pub(super) fn of<'t>(trials: impl Iterator<Item = &'t Measured>) -> Self {
        let mut sum = Self::default();
        for trial in trials.filter(|trial| trial.counts()) {
            let (due, missing) = trial.loss();
            sum.trials += 1;
            sum.ns += trial.ask.duration_ns;
            sum.due += due;
            sum.missing += missing;
            sum.sent += trial.sent;
            sum.received += trial.received;
            sum.refused += trial.refused;
            sum.late += trial.late;
            if let Some(delay) = &trial.latency {
                for (all, ns) in sum.latencies.iter_mut().zip([delay.p50, delay.p99, delay.p999]) {
                    all.push(ns);
                }
            }
        }
        sum.latencies.iter_mut().for_each(|all| all.sort_unstable());
        sum
    }

    fn per_second(&self, packets: u64) -> Option<f64> {
        (self.ns > 0).then(|| packets as f64 * 1e9 / self.ns as f64)
    }

    /// Offered load: what left, packets per second.
    pub(super) fn oload(&self) -> Option<f64> {
        self.per_second(self.sent)
    }

    /// Forwarding rate: what came in time, packets per second.
    pub(super) fn fr(&self) -> Option<f64> {
        self.per_second(self.received)
    }

    /// Returns the share of the due packets that is missing.
    pub(super) fn loss(&self) -> Option<f64> {
        (self.due > 0).then(|| self.missing as f64 / self.due as f64)
    }

    /// Median over the trials of a percentile of each: the 50th, 99th or 99.9th, by place.
    pub(super) fn latency(&self, place: usize) -> Option<u64> {
        let all = &self.latencies[place];
        (!all.is_empty()).then(|| all[(all.len() - 1) / 2])
    }
}

/// Results at one load.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) load: Load,
    pub(super) all: Sum,
    pub(super) rising: Sum,
    pub(super) falling: Sum,
}

/// Returns the results by load.
pub(super) fn points(loads: &[Load], done: &[Done], trials: &[Measured]) -> Vec<Point> {
    let point = |(at, load): (usize, &Load)| {
        let of = |falling: Option<bool>| {
            let wanted = done
                .iter()
                .filter(move |done| done.load == at && falling.is_none_or(|falling| falling == done.falling));
            Sum::of(wanted.map(|done| &trials[done.trial]))
        };
        Point {
            load: *load,
            all: of(None),
            rising: of(Some(false)),
            falling: of(Some(true)),
        }
    };
    loads.iter().enumerate().map(point).collect()
}

/// The forwarding rates that RFC 2889 names, each with the load that it is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Result {
    /// Maximum offered load.
    pub(super) mol: f64,
    /// Forwarding rate at it.
    pub(super) frmol: f64,
    /// Maximum forwarding rate.
    pub(super) mfr: f64,
    /// The offered load that it is of.
    pub(super) mfr_oload: f64,
}

impl Result {
    pub(super) fn of(points: &[Point]) -> Option<Self> {
        let known = || {
            points
                .iter()
                .filter_map(|point| Some((point.all.oload()?, point.all.fr()?)))
        };
        let (mol, frmol) = known().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let (mfr_oload, mfr) = known().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Self {
            mol,
            frmol,
            mfr,
            mfr_oload,
        })
    }

    /// FRMOL by MFR.
    pub(super) fn ratio(&self) -> f64 {
        if self.mfr > 0.0 { self.frmol / self.mfr } else { 0.0 }
    }

    /// Whether the device forwards clearly less at the highest load than it can.
    pub(super) fn collapses(&self) -> bool {
        self.ratio() < COLLAPSE
    }
}

/// The lowest load of which anything was lost.
pub(super) fn first_loss(points: &[Point]) -> Option<&Point> {
    points.iter().find(|point| point.all.missing > 0)
}

/// Whether something was lost at the highest load that was offered. If not, the device may forward more: losses at
/// lower loads are others than its limit's.
pub(super) fn limit_reached(points: &[Point]) -> bool {
    let offered = points.iter().filter_map(|point| Some((point.all.oload()?, point)));
    let highest = offered.max_by(|a, b| a.0.total_cmp(&b.0));
    highest.is_some_and(|(_, point)| point.all.missing > 0)
}

/// The load at which the forwarding rates of rising and falling loads differ most, and by how much: falling less
/// rising, of the larger.
pub(super) fn hysteresis(points: &[Point]) -> Option<(&Point, f64)> {
    let gap = |point: &Point| {
        let (rising, falling) = (point.rising.fr()?, point.falling.fr()?);
        let larger = rising.max(falling);
        (larger > 0.0).then(|| (falling - rising) / larger)
    };
    let gaps = points.iter().filter_map(|point| Some((point, gap(point)?)));
    gaps.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Ask, Phase};
    use crate::search::{Input, Trial, Verdict};

    /// A trial of a second of which so many packets come back.
    fn trial(load: u64, received: u64) -> Measured {
        let input = Input {
            load,
            duration_ns: 1_000_000_000,
        };
        Measured {
            ask: Ask::of(Phase::Overload, 64, input),
            trial: Trial {
                streams: Vec::new(),
                input,
                effective_ns: input.duration_ns,
                verdict: Verdict::Counted {
                    due: load,
                    missing: load - received,
                },
            },
            sent: load,
            received,
            lost: load - received,
            late: 0,
            refused: 0,
            missed: 0,
            sending_ns: input.duration_ns,
            offered_pps: load as f64,
            received_pps: received as f64,
            latency: None,
            lost_between_ns: None,
            outage_ns: None,
            down: false,
            outpaced: false,
            started_unix_ns: 0,
            reasons: Vec::new(),
            kept_off: None,
            notes: Vec::new(),
        }
    }

    /// Points of a device: what it forwards of a load when loads rise and when they fall.
    fn of(reference: f64, max: u64, forwards: fn(u64, bool) -> u64) -> Vec<Point> {
        let loads = loads(reference, max);
        let (mut done, mut trials) = (Vec::new(), Vec::new());
        for (load, falling) in order(loads.len()) {
            let pps = loads[load].pps;
            done.push(Done {
                load,
                falling,
                trial: trials.len(),
                counts: true,
            });
            trials.push(trial(pps, forwards(pps, falling)));
        }
        points(&loads, &done, &trials)
    }

    #[test]
    fn loads_end_at_what_can_be_sent_and_the_cap_is_marked() {
        let all = loads(1000.0, 10_000);
        assert_eq!(all.len(), 20);
        assert!(all.iter().all(|load| !load.capped));
        assert_eq!((all[0].pps, all[19].pps), (100, 2000));
        let capped = loads(1000.0, 1450);
        assert_eq!(capped.len(), 15);
        assert_eq!(
            capped[14],
            Load {
                percent: 150,
                pps: 1450,
                capped: true
            }
        );
        assert!(!capped[13].capped);
        let whole = loads(1000.0, 1400);
        let highest = Load {
            percent: 140,
            pps: 1400,
            capped: true,
        };
        assert_eq!((whole.len(), whole[13]), (14, highest), "the highest load once");
        assert_eq!(loads(0.1, 100)[0].pps, 1, "never none");
    }

    #[test]
    fn a_device_that_forwards_less_under_overload_collapses() {
        let hard = of(1000.0, 10_000, |load, _| load.min(1000));
        let result = Result::of(&hard).unwrap();
        assert_eq!((result.mol, result.frmol, result.mfr), (2000.0, 1000.0, 1000.0));
        assert!(!result.collapses() && result.ratio() == 1.0);
        assert_eq!(first_loss(&hard).map(|point| point.load.percent), Some(110));
        assert_eq!(hysteresis(&hard).map(|(_, gap)| gap), Some(0.0));
        assert!(limit_reached(&hard));
        // A few lost at a lower load are not its limit.
        let unsteady = of(1000.0, 10_000, |load, _| if load == 1600 { 1590 } else { load });
        assert!(first_loss(&unsteady).is_some() && !limit_reached(&unsteady));
        let collapsing = of(1000.0, 10_000, |load, _| load.min(2000_u64.saturating_sub(load)));
        let result = Result::of(&collapsing).unwrap();
        assert_eq!((result.mfr, result.mfr_oload, result.frmol), (1000.0, 1000.0, 0.0));
        assert!(result.collapses());
    }

    #[test]
    fn what_a_device_forwards_less_after_an_overload_is_its_hysteresis() {
        let tired = of(1000.0, 10_000, |load, falling| {
            load.min(if falling { 800 } else { 1000 })
        });
        let (point, gap) = hysteresis(&tired).unwrap();
        assert!(point.load.percent >= 100 && (gap + 0.2).abs() < 1e-9, "{gap}");
        assert_eq!(first_loss(&tired).map(|point| point.load.percent), Some(90));
    }

    #[test]
    fn void_trials_are_in_no_sum() {
        let mut void = trial(100, 50);
        void.trial.verdict = Verdict::Void;
        let sum = Sum::of([trial(100, 100), void].iter());
        assert_eq!((sum.trials, sum.fr(), sum.loss()), (1, Some(100.0), Some(0.0)));
        assert_eq!(Sum::of([].iter()).oload(), None);
    }
}
