//! One run that has ended: its figures, and its line of the record.

use super::{Metric, Quantity};
use crate::measure::in_short;
use crate::statistics::{Outcome, Turn};
use mpps_stats::count;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Latencies with their keys in a summary, in this order.
const LATENCY: [(Quantity, &str); 6] = [
    (Quantity::Mean, "mean"),
    (Quantity::P50, "p50"),
    (Quantity::P90, "p90"),
    (Quantity::P99, "p99"),
    (Quantity::P999, "p999"),
    (Quantity::Max, "max"),
];

/// A run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) valid: bool,
    /// Reasons why the run is not valid, or why there was none.
    pub(super) reasons: Vec<String>,
    /// Notes on a run that is not valid.
    pub(super) notes: Vec<String>,
    /// Cause that kept the lanes of an invalid run off their cores, unless a reason names it.
    pub(super) kept_off: Option<String>,
    pub(super) started: Option<String>,
    pub(super) duration_s: Option<f64>,
    pub(super) sent: Option<u64>,
    pub(super) received: Option<u64>,
    pub(super) lost: Option<u64>,
    pub(super) late: Option<u64>,
    pub(super) offered_pps: Option<f64>,
    pub(super) received_pps: Option<f64>,
    /// Latencies in the order of `LATENCY`, ns.
    pub(super) latency: [Option<f64>; 6],
    /// Figures of the streams and groups that metrics name, by name.
    pub(super) streams: BTreeMap<String, Figures>,
    /// Host and software of the run: an object of texts.
    pub(super) host: Value,
}

/// A run in its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    pub(super) turn: Turn,
    pub(super) figures: Figures,
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|n| n.is_finite())
}

/// Texts that are shown to people, and anybody may have written.
fn texts(value: &Value) -> Vec<String> {
    let shown = |text: &str| mpps_sys::text::plain(text, '?');
    let all = value.as_array().into_iter().flatten();
    all.filter_map(|text| text.as_str().map(shown)).collect()
}

fn latency_of(value: &Value) -> [Option<f64>; 6] {
    // Percentiles of nothing are 0.
    let some = value["count"].as_u64() != Some(0);
    LATENCY.map(|(_, key)| number(&value[key]).filter(|_| some))
}

/// Returns the results of a stream, or of a group if no stream has the name.
pub(super) fn stream<'s>(summary: &'s Value, name: &str) -> Option<&'s Value> {
    streams(summary).find(|of| of["name"] == name)
}

/// Returns the results of all streams and groups.
pub(super) fn streams(summary: &Value) -> impl Iterator<Item = &Value> {
    let of = |key: &str| summary[key].as_array().into_iter().flatten();
    of("streams").chain(of("groups"))
}

impl Figures {
    /// Reads the figures from the summary of a run, and those of the streams and groups that `metrics` name.
    pub(super) fn of_run(summary: &Value, metrics: &[Metric]) -> Self {
        let of = |name: &String| Some((name.clone(), Self::of_summary(stream(summary, name)?)));
        let names = metrics.iter().filter_map(|metric| metric.stream.as_ref());
        Self {
            streams: names.filter_map(of).collect(),
            ..Self::of_summary(summary)
        }
    }

    /// Reads the figures of a run, of a stream or of a group.
    fn of_summary(summary: &Value) -> Self {
        Self {
            valid: summary["valid"] == true,
            reasons: texts(&summary["invalid_reasons"]),
            notes: match summary["valid"] == true {
                true => Vec::new(),
                false => texts(&summary["warnings"]),
            },
            kept_off: match summary["valid"] == true || summary["kept_off"]["named"] == true {
                true => None,
                false => texts(&json!([summary["kept_off"]["sentence"]])).pop(),
            },
            started: texts(&json!([summary["started_utc"]])).pop(),
            duration_s: number(&summary["duration_s"]),
            // Of others nobody knows whether they came.
            sent: summary["tx_packets"]
                .as_u64()
                .map(|sent| sent.saturating_sub(summary["untagged_packets"].as_u64().unwrap_or(0))),
            received: summary["rx_packets"].as_u64(),
            lost: summary["lost"].as_u64(),
            late: summary["late"].as_u64(),
            offered_pps: number(&summary["offered_pps"]),
            received_pps: number(&summary["received_pps"]),
            latency: latency_of(&summary["latency_ns"]),
            streams: BTreeMap::new(),
            host: summary["host"].clone(),
        }
    }

    /// Returns the counts, rates and latencies for the record.
    fn counts(&self) -> Map<String, Value> {
        let latency = LATENCY.iter().zip(self.latency);
        let latency = latency.map(|((_, key), ns)| ((*key).to_owned(), json!(ns)));
        let counts = [
            ("sent", json!(self.sent)),
            ("received", json!(self.received)),
            ("lost", json!(self.lost)),
            ("late", json!(self.late)),
            ("offered_pps", json!(self.offered_pps)),
            ("received_pps", json!(self.received_pps)),
            ("latency_ns", latency.collect::<Map<_, _>>().into()),
        ];
        counts.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
    }

    /// Reads what [`Figures::counts`] has made.
    fn of_counts(line: &Value) -> Self {
        Self {
            sent: line["sent"].as_u64(),
            received: line["received"].as_u64(),
            lost: line["lost"].as_u64(),
            late: line["late"].as_u64(),
            offered_pps: number(&line["offered_pps"]),
            received_pps: number(&line["received_pps"]),
            latency: latency_of(&line["latency_ns"]),
            ..Self::default()
        }
    }

    /// Returns the figures of a run that did not take place.
    pub(super) fn failed(why: String) -> Self {
        Self {
            reasons: vec![why],
            ..Self::default()
        }
    }

    /// Returns the reason why the numbers of a run can't all be right; `None` if they can. Lost packets were sent, by
    /// this host or, as a receiver alone knows it, by another.
    pub(super) fn contradiction(&self) -> Option<String> {
        let [sent, received, lost, late] = [self.sent, self.received, self.lost, self.late].map(|n| n.unwrap_or(0));
        let gone = lost.saturating_add(late);
        let too_many = match sent {
            0 => received == 0,
            sent => gone.saturating_add(received) > sent,
        };
        (gone > 0 && too_many).then(|| {
            let [sent, received, lost, late] = [sent, received, lost, late].map(count);
            format!("{received} received, {lost} lost and {late} late of {sent} sent")
        })
    }

    /// Returns the first reason why the run is not valid, in short, and the cause that kept its lanes off their cores.
    pub(super) fn why_invalid(&self) -> String {
        let first = in_short(self.reasons.first().map_or("", String::as_str));
        match &self.kept_off {
            Some(host) => format!("{first}; {host}"),
            None => first,
        }
    }

    /// The value that is compared; `None` where the run has none.
    pub(super) fn value(&self, metric: &Metric) -> Option<f64> {
        match &metric.stream {
            Some(name) => self.streams.get(name)?.of(metric.quantity),
            None => self.of(metric.quantity),
        }
    }

    fn of(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::ReceivedPps => self.received_pps,
            Quantity::OfferedPps => self.offered_pps,
            Quantity::Loss => {
                // `drop` knows what it missed, not what was sent.
                let missing = self.lost? + self.late.unwrap_or(0);
                let due = self
                    .sent
                    .filter(|sent| *sent > 0)
                    .unwrap_or(self.received? + self.lost?);
                // Half a packet more: none lost in one run and one in the next are no infinite ratio.
                (due > 0).then(|| (missing as f64 + 0.5) / due as f64)
            }
            _ => {
                let at = LATENCY.iter().position(|(of, _)| *of == quantity)?;
                self.latency[at]
            }
        }
    }
}

impl Trial {
    pub(super) fn outcome(&self) -> Outcome {
        Outcome {
            turn: self.turn,
            valid: self.figures.valid,
        }
    }

    /// Returns the trial's line of the record.
    pub(super) fn json(&self, number: usize, names: &[String]) -> Value {
        let figures = &self.figures;
        let mut line = json!({
            "trial": number,
            "round": self.turn.round + 1,
            "variant": names.get(self.turn.variant),
            "attempt": self.turn.attempt + 1,
            "outcome": if figures.valid { "counted" } else { "void" },
            "started_utc": figures.started,
            "duration_s": figures.duration_s,
            "reasons": figures.reasons,
            "notes": figures.notes,
            "kept_off": figures.kept_off,
        });
        let counts = line.as_object_mut().map(|line| line.extend(figures.counts()));
        debug_assert!(counts.is_some());
        if !figures.streams.is_empty() {
            let of = |(name, of): (&String, &Figures)| (name.clone(), Value::from(of.counts()));
            line["streams"] = figures.streams.iter().map(of).collect::<Map<_, _>>().into();
        }
        // The host is the same in each round.
        if self.turn.round == 0 {
            line["host"] = figures.host.clone();
        }
        line
    }

    /// Reads a line of the record.
    pub(super) fn of_line(line: &Value, names: &[String]) -> Option<Self> {
        let count = |key: &str| usize::try_from(line[key].as_u64()?).ok()?.checked_sub(1);
        let name = line["variant"].as_str()?;
        Some(Self {
            turn: Turn {
                round: count("round")?,
                variant: names.iter().position(|known| known == name)?,
                attempt: count("attempt")?,
            },
            figures: Figures {
                valid: match line["outcome"].as_str()? {
                    "counted" => true,
                    "void" => false,
                    _ => return None,
                },
                reasons: texts(&line["reasons"]),
                notes: texts(&line["notes"]),
                kept_off: texts(&json!([line["kept_off"]])).pop(),
                started: texts(&json!([line["started_utc"]])).pop(),
                duration_s: number(&line["duration_s"]),
                streams: line["streams"].as_object().map_or_else(BTreeMap::new, |streams| {
                    let of = |(name, of): (&String, &Value)| (name.clone(), Figures::of_counts(of));
                    streams.iter().map(of).collect()
                }),
                host: line["host"].clone(),
                ..Figures::of_counts(line)
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Value {
        json!({
            "valid": true, "invalid_reasons": [], "started_utc": "2026-01-01T00:00:00Z", "duration_s": 1.5,
            "warnings": [],
            "tx_packets": 1000, "rx_packets": 990, "lost": 9, "late": 1, "offered_pps": 1000.0, "received_pps": 990.0,
            "latency_ns": { "count": 990, "mean": 5.5, "p50": 5, "p90": 6, "p99": 7, "p999": 8, "max": 9 },
            "host": { "kernel": "6" }
        })
    }

    #[test]
    fn figures_of_a_stream_or_a_group_are_its_own() {
        let mut run = summary();
        let of = |name: &str, lost: u64| {
            json!({
                "name": name, "tx_packets": 100, "rx_packets": 100 - lost, "lost": lost, "late": 0,
                "offered_pps": 100.0, "received_pps": 90.0, "latency_ns": { "count": 9, "p50": null, "max": lost },
            })
        };
        run["streams"] = json!([of("gold", 1), of("rest", 2)]);
        run["groups"] = json!([of("users", 3), of("gold", 4)]);
        let metric = |text: &str| Metric::parse(text).unwrap();
        let metrics = ["loss(gold)", "max(users)", "p50(users)", "max", "max(none)"].map(metric);
        let trial = Trial {
            turn: Turn {
                round: 0,
                variant: 0,
                attempt: 0,
            },
            figures: Figures::of_run(&run, &metrics),
        };
        let values: Vec<_> = metrics.iter().map(|metric| trial.figures.value(metric)).collect();
        assert_eq!(values, [Some(1.5 / 100.0), Some(3.0), None, Some(9.0), None]);
        let names = ["A".to_owned()];
        let line = trial.json(1, &names);
        assert_eq!(line["streams"].as_object().map(Map::len), Some(2));
        assert_eq!(Trial::of_line(&line, &names), Some(trial));
    }

    #[test]
    fn a_run_is_its_line_again() {
        let names = ["A".to_owned(), "B".to_owned()];
        let turn = Turn {
            round: 0,
            variant: 1,
            attempt: 2,
        };
        let trial = Trial {
            turn,
            figures: Figures::of_run(&summary(), &[]),
        };
        let line = trial.json(7, &names);
        assert_eq!(
            (&line["variant"], &line["round"], &line["attempt"]),
            (&json!("B"), &json!(1), &json!(3))
        );
        assert_eq!(Trial::of_line(&line, &names), Some(trial.clone()));
        assert_eq!(Trial::of_line(&json!({ "trial": 1 }), &names), None);
        assert_eq!(Trial::of_line(&json!(null), &names), None);
        let void = Trial {
            figures: Figures::failed("gone".to_owned()),
            ..trial
        };
        assert_eq!(Trial::of_line(&void.json(1, &names), &names), Some(void));
    }

    #[test]
    fn who_had_the_cores_is_told_of_a_run_that_is_not_valid_for_another_reason() {
        let host = "other threads kept the lanes from running for 9.0 % of the time (cc1 (thread \
                    7) ran for 90.0 ms meanwhile, last on core 0)";
        let mut told = summary();
        told["valid"] = json!(false);
        told["kept_off"] = json!({ "by": "other_threads", "sentence": host, "named": false });
        told["invalid_reasons"] = json!(["this host itself dropped 5 packets: the cause is not known"]);
        let figures = Figures::of_summary(&told);
        let why = format!("this host itself dropped 5 packets: the cause is not known; {host}");
        assert_eq!(figures.why_invalid(), why);
        // Once is enough.
        let missed = format!("the rate is 9 % off (9 of 99 departures missed): {host}");
        told["kept_off"]["named"] = json!(true);
        told["invalid_reasons"] = json!([missed]);
        assert_eq!(
            Figures::of_summary(&told).why_invalid(),
            format!("the rate is 9 % off: {host}")
        );
    }

    #[test]
    fn values_are_the_runs_own() {
        let figures = Figures::of_summary(&summary());
        assert_eq!(figures.value(&Quantity::ReceivedPps.into()), Some(990.0));
        assert_eq!(figures.value(&Quantity::P99.into()), Some(7.0));
        assert_eq!(figures.value(&Quantity::Loss.into()), Some(10.5 / 1000.0));
        let mut nothing = summary();
        nothing["latency_ns"]["count"] = json!(0);
        assert_eq!(Figures::of_summary(&nothing).value(&Quantity::P50.into()), None);
        assert_eq!(Figures::failed(String::new()).value(&Quantity::Loss.into()), None);
    }
}
