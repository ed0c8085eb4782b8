//! Result of the test, as a document.

use super::device::Did;
use super::points::{Point, first_loss, hysteresis, limit_reached};
use super::tell::Told;
use crate::bench::Bench;
use crate::document::{column, document as of_all, params};
use crate::limits::LimitedBy;
use crate::setup::{Setup, Stop};
use mpps_pages::document::{Column, Definition, Document, Table, Unit};
use serde_json::{Value, json};
use std::time::Duration;

/// Meaning of the columns of this test.
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

impl Told<'_> {
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
            ("limited_by", json!(self.test.limited_by.map(LimitedBy::words))),
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
        let (loss, reached) = (first_loss(&self.points), limit_reached(&self.points));
        let hysteresis = hysteresis(&self.points);
        json!({
            "reference_pps": self.reference(),
            "mol_pps": self.rates.map(|rates| rates.mol),
            "frmol_pps": self.rates.map(|rates| rates.frmol),
            "mfr_pps": self.rates.map(|rates| rates.mfr),
            "mfr_oload_pps": self.rates.map(|rates| rates.mfr_oload),
            "frmol_by_mfr": self.rates.filter(|_| reached).map(|rates| rates.ratio()),
            // Without loss at the highest load the rates are what was offered, and the device's are those or more.
            "limit_reached": self.rates.map(|_| reached),
            "collapses": self.rates.filter(|_| reached).map(|rates| rates.collapses()),
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
        columns.push(column("mark", "remark", Unit::Plain));
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
                (true, _) => format!("capped: {}", self.test.limited_by.map_or("", LimitedBy::words)).into(),
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
