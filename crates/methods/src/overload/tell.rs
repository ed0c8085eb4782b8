//! Output of the test: lines while it goes on, and the results on standard output and as a document.

use super::device::{ByLane, Did, Lanes};
use super::points::{Point, Result as Rates, first_loss, hysteresis, limit_reached, points};
use super::{Test, Times};
use crate::bench::Bench;
use crate::expect::Reached;
use crate::limits::LimitedBy;
use crate::measure::Measured;
use crate::setup::Setup;
use mpps_pages::document::Document;
use mpps_report::{Between, Found};
use mpps_stats::count;
use std::time::Duration;

/// Results of an overload test that a demand can name.
pub(super) const FINDS: [Found; 2] = [Found::Mfr, Found::Frmol];

/// A difference between rising and falling loads that is worth a word, of the larger.
const HYSTERESIS: f64 = 0.05;

/// A trial of the search for the reference.
pub(super) fn searched(bench: &Bench<'_, '_>, last: &Measured) {
    let load = count(last.trial.input.load);
    let (due, missing) = last.loss();
    match last.counts() {
        true => bench.say_trial(&format!("{load} pps: {} of {} lost", count(missing), count(due))),
        false => bench.say_void(),
    }
}

/// Before the first load.
pub(super) fn start(bench: &Bench<'_, '_>, setup: &Setup<'_>, times: Times, test: &Test) {
    bench.say(&format!(
        "100 % is {} pps ({})",
        count(test.reference as u64),
        test.origin
    ));
    if let Some(capped) = test.loads.iter().find(|load| load.capped) {
        bench.say(&format!(
            "loads end at {} pps, {:.0} %: {} allows no more",
            count(capped.pps),
            capped.pps as f64 / test.reference * 100.0,
            test.limited_by.map_or_else(String::new, LimitedBy::subject)
        ));
    }
    let trials = 2 * test.loads.len() as u64 * u64::from(times.rounds);
    let all = (Duration::from_nanos(times.trial_ns) + setup.settle + setup.pause) * trials as u32;
    bench.say(&format!("{trials} trials, about {}", words(all)));
    match bench.left_of_record() {
        0 => {}
        earlier => bench.say(&format!("going on after {earlier} more trials of the record")),
    }
}

/// A time in words.
fn words(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..120 => format!("{s} s"),
        s => format!("{} min", s.div_ceil(60)),
    }
}

/// After a trial.
pub(super) fn trial(bench: &Bench<'_, '_>, times: Times, test: &Test, (round, last): (u32, &Measured)) {
    let Some(done) = test.done.last() else { return };
    if !done.counts {
        return bench.say_void();
    }
    let way = if done.falling { "falling" } else { "rising" };
    let round = match round {
        n if n < times.rounds => format!("round {} of {}", n + 1, times.rounds),
        _ => "once more".to_owned(),
    };
    let (_, missing) = last.loss();
    let fr = last.received as f64 * 1e9 / (last.ask.duration_ns * bench.ways()) as f64;
    let line = format!(
        "{round}, {way}: {} %, {} pps: {} pps came back, {} lost",
        test.loads[done.load].percent,
        count(last.trial.input.load),
        count(fr as u64),
        count(missing)
    );
    let held = test.done.iter().filter(|done| done.counts).count() as u64;
    let all = 2 * test.loads.len() as u64 * u64::from(times.rounds);
    let each = times.trial_ns + bench.between().as_nanos() as u64;
    bench.say_left(&line, all.saturating_sub(held) * each);
}

/// Results of the test, as they are reported.
pub(super) struct Told<'t> {
    pub(super) test: &'t Test,
    pub(super) times: Times,
    pub(super) points: Vec<Point>,
    pub(super) rates: Option<Rates>,
    /// Work of the device's lanes, by load; empty without a device.
    pub(super) lanes: Vec<ByLane>,
    /// Reason why nothing is known of the device that was named.
    no_device: Option<String>,
    /// Ways in which packets went at the same time.
    ways: u64,
}

impl<'t> Told<'t> {
    pub(super) fn new(
        setup: &Setup<'_>,
        times: Times,
        bench: &Bench<'_, '_>,
        test: &'t Test,
        device: Option<&Lanes>,
    ) -> Self {
        let points = points(&test.loads, &test.done, &bench.trials);
        let mut told = Self {
            rates: Rates::of(&points),
            points,
            test,
            times,
            lanes: Vec::new(),
            no_device: None,
            ways: if setup.common.run.plan.traffic.goes_back() {
                2
            } else {
                1
            },
        };
        if let Some(device) = device {
            told.ask(device, bench);
        }
        told
    }

    /// Finds what the device's lanes did in each trial that holds.
    fn ask(&mut self, device: &Lanes, bench: &Bench<'_, '_>) {
        let held: Vec<_> = self.test.done.iter().filter(|done| done.counts).collect();
        let time = |trial: &Measured| (trial.started_unix_ns, trial.started_unix_ns + trial.ask.duration_ns);
        let times: Vec<_> = held.iter().map(|done| time(&bench.trials[done.trial])).collect();
        self.lanes = vec![ByLane::new(); self.points.len()];
        match device.during(&times) {
            Ok(found) => {
                for (done, lanes) in held.iter().zip(found) {
                    for (lane, did) in lanes {
                        self.lanes[done.load].entry(lane).or_default().add_time(&did);
                    }
                }
                if self.lanes.iter().all(ByLane::is_empty) && !held.is_empty() {
                    self.no_device = Some("no row of --device lies in a trial".to_owned());
                }
            }
            Err(e) => self.no_device = Some(format!("--device: {e}")),
        }
    }

    /// All lanes together at a load.
    pub(super) fn device(&self, at: usize) -> Option<Did> {
        let lanes = self.lanes.get(at).filter(|lanes| !lanes.is_empty())?;
        let mut all = Did::default();
        lanes.values().for_each(|did| all.add_lane(did));
        Some(all)
    }

    /// Packets per second that a load was to be, of all ways.
    pub(super) fn iload(&self, point: &Point) -> u64 {
        point.load.pps * self.ways
    }

    /// The reference, of all ways.
    pub(super) fn reference(&self) -> f64 {
        self.test.reference * self.ways as f64
    }

    /// Highest load that was offered.
    pub(super) fn mol(&self) -> Option<f64> {
        self.rates.map(|rates| rates.mol)
    }

    /// Values of the results that a demand can name.
    pub(super) fn reached(&self, frame_size: usize) -> Vec<Reached> {
        let between = |rate: Option<f64>, known: bool| match limit_reached(&self.points) {
            true => Between::exactly(rate),
            // The device may forward more.
            false => Between {
                lower: rate.filter(|_| known),
                upper: None,
            },
        };
        let reached = |what, between| Reached {
            what,
            stream: None,
            frame_size,
            between,
        };
        vec![
            reached(Found::Mfr, between(self.rates.map(|rates| rates.mfr), true)),
            reached(Found::Frmol, between(self.rates.map(|rates| rates.frmol), false)),
        ]
    }

    /// Returns the results, a sentence each.
    pub(super) fn lines(&self) -> Vec<String> {
        let Some(rates) = self.rates else {
            return vec!["no load was tried to its end".to_owned()];
        };
        let pps = |pps: f64| format!("{} pps", count(pps.round() as u64));
        let first = first_loss(&self.points);
        let mut lines = match limit_reached(&self.points) {
            true => vec![
                format!("FRMOL {} at MOL {}", pps(rates.frmol), pps(rates.mol)),
                format!(
                    "MFR {} at an Oload of {}; FRMOL ÷ MFR {:.3}: {}",
                    pps(rates.mfr),
                    pps(rates.mfr_oload),
                    rates.ratio(),
                    match rates.collapses() {
                        true => "it collapses under overload",
                        false => "no collapse",
                    }
                ),
            ],
            // The device's highest rate lies above all that was offered.
            false => vec![
                format!(
                    "MFR {} or more: nothing was lost at {} load",
                    pps(rates.mfr),
                    if first.is_some() { "the highest" } else { "any" }
                ),
                format!(
                    "FRMOL is not known: the highest load, {}, did not reach the device's limit{}",
                    pps(rates.mol),
                    match self
                        .test
                        .limited_by
                        .filter(|_| self.points.iter().any(|point| point.load.capped))
                    {
                        Some(limit) => format!(", and {} allows no more", limit.subject()),
                        None => String::new(),
                    }
                ),
            ],
        };
        let loss = first.map(|point| {
            format!(
                "first loss at {} % ({}): {:.4} %",
                point.load.percent,
                pps(self.iload(point) as f64),
                point.all.loss().unwrap_or_default() * 100.0
            )
        });
        let hysteresis = hysteresis(&self.points).map(|(point, gap)| match gap.abs() > HYSTERESIS {
            true => format!(
                "hysteresis: at {} % rising {}, falling {} ({:+.1} %)",
                point.load.percent,
                pps(point.rising.fr().unwrap_or_default()),
                pps(point.falling.fr().unwrap_or_default()),
                gap * 100.0
            ),
            false => "rising and falling loads alike".to_owned(),
        });
        let parts: Vec<_> = loss.into_iter().chain(hysteresis).collect();
        lines.extend((!parts.is_empty()).then(|| parts.join("; ")));
        if let Some(why) = &self.no_device {
            lines.push(format!("nothing is known of the device's lanes: {why}"));
        }
        lines
    }

    /// Returns the table that is printed, a line per load.
    pub(super) fn rows(&self) -> Vec<String> {
        let device = !self.lanes.is_empty() && self.no_device.is_none();
        let mut head = format!(
            "{:>5} {:>12} {:>12} {:>10} {:>12} {:>8} {:>8} {:>9} {:>9}",
            "load", "Iload", "Oload", "refused", "FR", "lost", "late", "p50", "p99"
        );
        if device {
            head += &format!(
                " {:>12} {:>12} {:>10} {:>10} {:>5} {:>6}",
                "device rx", "tx", "rx drop", "tx full", "busy", "burst"
            );
        }
        let rows = self.points.iter().enumerate().map(|(at, point)| self.row(at, point));
        std::iter::once(head).chain(rows).collect()
    }

    fn row(&self, at: usize, point: &Point) -> String {
        let sum = &point.all;
        let whole = |pps: Option<f64>| pps.map_or_else(|| "-".to_owned(), |pps| count(pps.round() as u64));
        let share = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), |of| format!("{:.2}%", of * 100.0));
        let number = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), |of| format!("{of:.2}"));
        let us = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), micro);
        let cap = if point.load.capped { "<" } else { " " };
        let mut row = format!(
            "{cap}{:>3}% {:>12} {:>12} {:>10} {:>12} {:>8} {:>8} {:>9} {:>9}",
            point.load.percent,
            count(self.iload(point)),
            whole(sum.oload()),
            count(sum.refused),
            whole(sum.fr()),
            share(sum.loss()),
            count(sum.late),
            us(sum.latency(0)),
            us(sum.latency(1)),
        );
        if let Some(did) = self.device(at) {
            row += &format!(
                " {:>12} {:>12} {:>10} {:>10} {:>5} {:>6}",
                whole(did.rx_pps()),
                whole(did.tx_pps()),
                whole(did.rx_dropped_pps()),
                whole(did.tx_full_pps()),
                number(did.busy_ratio()),
                number(did.mean_burst_all_polls()),
            );
        }
        row
    }
}

/// Returns the line that is printed last: how long the test took.
pub(super) fn last(document: &Document, took: Duration) -> String {
    match &document.incomplete {
        Some(why) => format!("not complete: {why}"),
        None => format!("{} trials in {}", document.trials.len(), words(took)),
    }
}

/// A latency for a narrow column.
fn micro(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:.1}us", ns as f64 / 1e3),
        _ => format!("{:.1}ms", ns as f64 / 1e6),
    }
}
