//! What is told of the test: lines while it goes on, and what was found, on standard output and as a document.

use super::device::{ByLane, Did, Lanes};
use super::points::{Point, Result as Rates, first_loss, hysteresis, points};
use super::{Test, Times};
use crate::commands::method::bench::Bench;
use crate::commands::method::measure::Measured;
use crate::commands::method::report::{column, document as of_all, params};
use crate::commands::method::{Setup, Stop};
use crate::fail::{Result, print};
use mpps_report::document::{Column, Definition, Document, Table, Unit};
use mpps_stats::count;
use serde_json::{Value, json};
use std::time::Duration;

/// A difference between rising and falling loads that is worth a word, of the larger.
const HYSTERESIS: f64 = 0.05;

/// What the columns of this test mean.
const WORDS: [(&str, &str); 6] = [
    (
        "Iload",
        "Intended load: packets that were to be sent in a second (RFC 2285, 3.5.1).",
    ),
    (
        "Oload",
        "Offered load: packets that left the tester in a second (RFC 2285, 3.5.2).",
    ),
    (
        "FR",
        "Forwarding rate: packets that the device brought back intact and in time, by the length of the trial, \
         whatever was offered (RFC 2285, 3.6.1). What a queue held at the end of a trial is in it.",
    ),
    (
        "FRMOL, MOL",
        "Forwarding rate at the maximum offered load (RFC 2285, 3.6.2).",
    ),
    (
        "MFR",
        "Maximum forwarding rate: the highest of all loads, told with its offered load (RFC 2285, 3.6.3).",
    ),
    (
        "mean burst",
        "Packets a receive call of the device's lane that brought any; over all polls: a receive call, those that \
         brought nothing included.",
    ),
];

/// A trial of the search for the reference.
pub(super) fn searched(bench: &Bench<'_, '_>, last: &Measured) {
    let load = count(last.trial.input.load);
    let (due, missing) = last.loss();
    match last.counts() {
        true => bench.say(&format!("{load} pps: {} of {} lost", count(missing), count(due))),
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
            test.limited_by
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
    let fr = last.received as f64 * 1e9 / last.ask.duration_ns as f64;
    bench.say(&format!(
        "{round}, {way}: {} %, {} pps: {} pps came back, {} lost",
        test.loads[done.load].percent,
        count(last.trial.input.load),
        count(fr as u64),
        count(missing)
    ));
}

/// What was found.
pub(super) struct Told<'t> {
    test: &'t Test,
    times: Times,
    pub(super) points: Vec<Point>,
    rates: Option<Rates>,
    /// What the device's lanes did, by load; empty without a device.
    pub(super) lanes: Vec<ByLane>,
    /// Why nothing is known of the device that was named.
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
            ways: if setup.args.traffic.both_ways { 2 } else { 1 },
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
    fn device(&self, at: usize) -> Option<Did> {
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

    /// What was found, a sentence each.
    fn lines(&self) -> Vec<String> {
        let Some(rates) = self.rates else {
            return vec!["no load was tried to its end".to_owned()];
        };
        let pps = |pps: f64| format!("{} pps", count(pps.round() as u64));
        let collapse = match rates.collapses() {
            true => "it collapses under overload",
            false => "no collapse",
        };
        let mut lines = vec![
            format!("FRMOL {} at MOL {}", pps(rates.frmol), pps(rates.mol)),
            format!(
                "MFR {} at an Oload of {}; FRMOL ÷ MFR {:.3}: {collapse}",
                pps(rates.mfr),
                pps(rates.mfr_oload),
                rates.ratio()
            ),
        ];
        let loss = match first_loss(&self.points) {
            None => "nothing lost at any load".to_owned(),
            Some(point) => format!(
                "first loss at {} % ({}): {:.4} %",
                point.load.percent,
                pps(self.iload(point) as f64),
                point.all.loss().unwrap_or_default() * 100.0
            ),
        };
        let hysteresis = match hysteresis(&self.points) {
            Some((point, gap)) if gap.abs() > HYSTERESIS => format!(
                "; hysteresis: at {} % rising {}, falling {} ({:+.1} %)",
                point.load.percent,
                pps(point.rising.fr().unwrap_or_default()),
                pps(point.falling.fr().unwrap_or_default()),
                gap * 100.0
            ),
            Some(_) => "; rising and falling loads alike".to_owned(),
            None => String::new(),
        };
        lines.push(loss + &hysteresis);
        if let Some(why) = &self.no_device {
            lines.push(format!("nothing is known of the device's lanes: {why}"));
        }
        lines
    }

    /// Tells it on standard output: 25 lines at the most, but for what went wrong.
    pub(super) fn print(&self, bench: &Bench<'_, '_>, took: Duration, stop: Option<&Stop>) -> Result<()> {
        let device = !self.lanes.is_empty() && self.no_device.is_none();
        print(|out| {
            write!(
                out,
                "{:>5} {:>12} {:>12} {:>10} {:>12} {:>8} {:>8} {:>9} {:>9}",
                "load", "Iload", "Oload", "refused", "FR", "lost", "late", "p50", "p99"
            )?;
            match device {
                true => writeln!(
                    out,
                    " {:>12} {:>12} {:>10} {:>10} {:>5} {:>6}",
                    "device rx", "tx", "rx drop", "tx full", "busy", "burst"
                )?,
                false => writeln!(out)?,
            }
            for (at, point) in self.points.iter().enumerate() {
                let sum = &point.all;
                let whole = |pps: Option<f64>| pps.map_or_else(|| "-".to_owned(), |pps| count(pps.round() as u64));
                let share = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), |of| format!("{:.2}%", of * 100.0));
                let us = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), micro);
                let cap = if point.load.capped { "<" } else { " " };
                write!(
                    out,
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
                )?;
                match self.device(at) {
                    Some(did) => writeln!(
                        out,
                        " {:>12} {:>12} {:>10} {:>10} {:>5} {:>6}",
                        whole(did.rx_pps()),
                        whole(did.tx_pps()),
                        whole(did.rx_dropped_pps()),
                        whole(did.tx_full_pps()),
                        did.busy_ratio()
                            .map_or_else(|| "-".to_owned(), |busy| format!("{busy:.2}")),
                        did.mean_burst_all_polls()
                            .map_or_else(|| "-".to_owned(), |burst| format!("{burst:.2}")),
                    )?,
                    None => writeln!(out)?,
                }
            }
            for line in self.lines() {
                writeln!(out, "{line}")?;
            }
            match stop {
                Some(stop) => writeln!(out, "not complete: {}", stop.why()),
                None => writeln!(out, "{} trials in {}", bench.trials.len(), words(took)),
            }
        })
    }

    /// The result, whole.
    pub(super) fn document(
        &self,
        setup: &Setup<'_>,
        bench: &Bench<'_, '_>,
        took: Duration,
        stop: Option<&Stop>,
    ) -> Document {
        let title = format!("Overload: frames of {} bytes", setup.frame_size());
        let mut document = of_all(setup, bench, ("overload", title), took, stop);
        let mut params = params(setup);
        for (key, value) in [
            ("reference_pps", json!(self.test.reference)),
            ("reference_origin", json!(self.test.origin)),
            ("trial_s", json!(self.times.trial_ns as f64 / 1e9)),
            ("rounds", json!(self.times.rounds)),
            ("limited_by", json!(self.test.limited_by)),
            ("frame_size_bytes", json!(setup.frame_size())),
        ] {
            params.insert(key.to_owned(), value);
        }
        document.params = params.into();
        let words = "the words of RFC 2285 and RFC 2889; a device between two ports, not a switch with many";
        document.compliance = Some(words.to_owned());
        if self.times.trial_ns < 30_000_000_000 {
            let seconds = self.times.trial_ns as f64 / 1e9;
            document
                .deviations
                .insert(0, format!("trials of {seconds} s, not 30 s (RFC 2889, 5.1)"));
        }
        document.verdict = self.lines();
        document.results = vec![self.result()];
        document.tables.insert(0, self.table());
        if self.lanes.iter().any(|lanes| !lanes.is_empty()) {
            document.tables.insert(1, self.lane_table());
        }
        document.charts = self.charts();
        document
            .definitions
            .extend(WORDS.into_iter().map(|(term, text)| Definition {
                term: term.to_owned(),
                text: text.to_owned(),
            }));
        document
    }

    /// For programs.
    fn result(&self) -> Value {
        let loss = first_loss(&self.points);
        let hysteresis = hysteresis(&self.points);
        json!({
            "reference_pps": self.reference(),
            "mol_pps": self.rates.map(|rates| rates.mol),
            "frmol_pps": self.rates.map(|rates| rates.frmol),
            "mfr_pps": self.rates.map(|rates| rates.mfr),
            "mfr_oload_pps": self.rates.map(|rates| rates.mfr_oload),
            "frmol_by_mfr": self.rates.map(|rates| rates.ratio()),
            "collapses": self.rates.map(|rates| rates.collapses()),
            "first_loss_iload_pps": loss.map(|point| self.iload(point)),
            "first_loss_ratio": loss.and_then(|point| point.all.loss()),
            "hysteresis_iload_pps": hysteresis.map(|(point, _)| self.iload(point)),
            "hysteresis": hysteresis.map(|(_, gap)| gap),
            "capped": self.points.iter().any(|point| point.load.capped),
        })
    }

    /// A row per load.
    fn table(&self) -> Table {
        let device = self.lanes.iter().any(|lanes| !lanes.is_empty());
        let mut columns = vec![
            column("load_ratio", "load", Unit::Ratio),
            column("iload_pps", "Iload", Unit::Pps),
            column("oload_pps", "Oload", Unit::Pps),
            column("refused", "refused", Unit::Count),
            column("fr_pps", "FR", Unit::Pps),
            column("fr_rising_pps", "FR, rising", Unit::Pps),
            column("fr_falling_pps", "FR, falling", Unit::Pps),
            column("loss_ratio", "lost", Unit::Ratio),
            column("late", "late", Unit::Count),
            column("latency_p50_ns", "p50", Unit::Ns),
            column("latency_p99_ns", "p99", Unit::Ns),
            column("latency_p999_ns", "p99.9", Unit::Ns),
            column("trials", "trials", Unit::Count),
        ];
        if device {
            columns.extend(of_device());
        }
        columns.push(column("mark", "", Unit::Plain));
        let row = |(at, point): (usize, &Point)| {
            let sum = &point.all;
            let mut row: Vec<Value> = vec![
                (f64::from(point.load.percent) / 100.0).into(),
                self.iload(point).into(),
                sum.oload().into(),
                sum.refused.into(),
                sum.fr().into(),
                point.rising.fr().into(),
                point.falling.fr().into(),
                sum.loss().into(),
                sum.late.into(),
                sum.latency(0).into(),
                sum.latency(1).into(),
                sum.latency(2).into(),
                sum.trials.into(),
            ];
            if device {
                row.extend(cells(self.device(at).as_ref()));
            }
            row.push(match (point.load.capped, sum.trials) {
                (true, _) => format!("capped: {}", self.test.limited_by).into(),
                (_, 0) => "no trial holds".into(),
                _ => "".into(),
            });
            row
        };
        Table {
            name: "overload".to_owned(),
            caption: "What comes through, by load; latencies are medians over the trials".to_owned(),
            columns,
            rows: self.points.iter().enumerate().map(row).collect(),
        }
    }

    /// A row per load and lane of the device.
    fn lane_table(&self) -> Table {
        let mut columns = vec![
            column("load_ratio", "load", Unit::Ratio),
            column("iload_pps", "Iload", Unit::Pps),
            column("lane", "lane", Unit::Count),
        ];
        columns.extend(of_device());
        let mut rows = Vec::new();
        for (point, lanes) in self.points.iter().zip(&self.lanes) {
            for (lane, did) in lanes {
                let mut row: Vec<Value> = vec![
                    (f64::from(point.load.percent) / 100.0).into(),
                    self.iload(point).into(),
                    (*lane).into(),
                ];
                row.extend(cells(Some(did)));
                rows.push(row);
            }
        }
        Table {
            name: "overload-lanes".to_owned(),
            caption: "What each lane of the device did, by load".to_owned(),
            columns,
            rows,
        }
    }
}

/// A latency for a narrow column.
fn micro(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:.1}us", ns as f64 / 1e3),
        _ => format!("{:.1}ms", ns as f64 / 1e6),
    }
}

/// Columns of what lanes did.
fn of_device() -> [Column; 9] {
    [
        column("device_rx_pps", "device rx", Unit::Pps),
        column("device_tx_pps", "device tx", Unit::Pps),
        column("device_rx_dropped_pps", "dropped before it", Unit::Pps),
        column("device_tx_full_pps", "dropped: port full", Unit::Pps),
        column("busy_ratio", "busy", Unit::Ratio),
        column("blocked_ratio", "waiting for room", Unit::Ratio),
        column("empty_poll_share", "empty polls", Unit::Ratio),
        column("mean_burst", "mean burst", Unit::Plain),
        column("mean_burst_all_polls", "over all polls", Unit::Plain),
    ]
}

/// Cells of [`of_device`].
fn cells(did: Option<&Did>) -> [Value; 9] {
    let of = |what: fn(&Did) -> Option<f64>| Value::from(did.and_then(what));
    let rounded = |what: fn(&Did) -> Option<f64>| Value::from(did.and_then(what).map(|n| (n * 100.0).round() / 100.0));
    [
        of(Did::rx_pps),
        of(Did::tx_pps),
        of(Did::rx_dropped_pps),
        of(Did::tx_full_pps),
        of(Did::busy_ratio),
        of(Did::blocked_ratio),
        of(Did::empty_poll_share),
        rounded(Did::mean_burst),
        rounded(Did::mean_burst_all_polls),
    ]
}
