//! One run that has ended: its figures, and its line of the record.

use super::Metric;
use crate::measure::in_short;
use crate::statistics::{Outcome, Turn};
use mpps_stats::count;
use serde_json::{Value, json};

/// Latency metrics with their keys in a summary, in this order.
const LATENCY: [(Metric, &str); 6] = [
    (Metric::Mean, "mean"),
    (Metric::P50, "p50"),
    (Metric::P90, "p90"),
    (Metric::P99, "p99"),
    (Metric::P999, "p999"),
    (Metric::Max, "max"),
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

impl Figures {
    /// Reads the figures from the summary of a run.
    pub(super) fn of_summary(summary: &Value) -> Self {
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
            sent: summary["tx_packets"].as_u64(),
            received: summary["rx_packets"].as_u64(),
            lost: summary["lost"].as_u64(),
            late: summary["late"].as_u64(),
            offered_pps: number(&summary["offered_pps"]),
            received_pps: number(&summary["received_pps"]),
            latency: latency_of(&summary["latency_ns"]),
            host: summary["host"].clone(),
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
    pub(super) fn value(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::ReceivedPps => self.received_pps,
            Metric::OfferedPps => self.offered_pps,
            Metric::Loss => {
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
                let at = LATENCY.iter().position(|(of, _)| *of == metric)?;
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
        let latency = LATENCY
            .iter()
            .zip(figures.latency)
            .map(|((_, key), ns)| ((*key).to_owned(), json!(ns)));
        let mut line = json!({
            "trial": number,
            "round": self.turn.round + 1,
            "variant": names.get(self.turn.variant),
            "attempt": self.turn.attempt + 1,
            "outcome": if figures.valid { "counted" } else { "void" },
            "started_utc": figures.started,
            "duration_s": figures.duration_s,
            "sent": figures.sent,
            "received": figures.received,
            "lost": figures.lost,
            "late": figures.late,
            "offered_pps": figures.offered_pps,
            "received_pps": figures.received_pps,
            "latency_ns": latency.collect::<serde_json::Map<_, _>>(),
            "reasons": figures.reasons,
            "notes": figures.notes,
            "kept_off": figures.kept_off,
        });
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
                sent: line["sent"].as_u64(),
                received: line["received"].as_u64(),
                lost: line["lost"].as_u64(),
                late: line["late"].as_u64(),
                offered_pps: number(&line["offered_pps"]),
                received_pps: number(&line["received_pps"]),
                latency: latency_of(&line["latency_ns"]),
                host: line["host"].clone(),
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
    fn a_run_is_its_line_again() {
        let names = ["A".to_owned(), "B".to_owned()];
        let turn = Turn {
            round: 0,
            variant: 1,
            attempt: 2,
        };
        let trial = Trial {
            turn,
            figures: Figures::of_summary(&summary()),
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
        assert_eq!(figures.value(Metric::ReceivedPps), Some(990.0));
        assert_eq!(figures.value(Metric::P99), Some(7.0));
        assert_eq!(figures.value(Metric::Loss), Some(10.5 / 1000.0));
        let mut nothing = summary();
        nothing["latency_ns"]["count"] = json!(0);
        assert_eq!(Figures::of_summary(&nothing).value(Metric::P50), None);
        assert_eq!(Figures::failed(String::new()).value(Metric::Loss), None);
    }
}
