//! Figures that the demo reads from the runs' summaries, and the sentences made from them.

use crate::fail::{Result, failed};
use mpps_report::units::{percent, pps, time};
use serde_json::Value;

/// Figures of one run, from its JSON.
pub(super) struct Figures {
    pub(super) offered_pps: f64,
    pub(super) received_pps: f64,
    pub(super) loss_ratio: f64,
    pub(super) valid: bool,
    /// Reasons why the run is not valid, in the program's words.
    reasons: Vec<String>,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
}

impl Figures {
    pub(super) fn read(file: &str) -> Result<Self> {
        let text = std::fs::read_to_string(file).map_err(|e| failed(format!("read {file}: {e}")))?;
        let json: Value = serde_json::from_str(&text).map_err(|e| failed(format!("read {file}: {e}")))?;
        let number = |value: &Value| value.as_f64().filter(|n| n.is_finite());
        Ok(Self {
            offered_pps: number(&json["offered_pps"]).unwrap_or(0.0),
            received_pps: number(&json["received_pps"]).unwrap_or(0.0),
            loss_ratio: number(&json["loss_ratio"]).unwrap_or(0.0),
            valid: json["valid"] == true,
            reasons: json["invalid_reasons"]
                .as_array()
                .map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                .unwrap_or_default(),
            p50_ns: number(&json["latency_ns"]["p50"]),
            p99_ns: number(&json["latency_ns"]["p99"]),
        })
    }

    pub(super) fn in_words(&self) -> String {
        format!("sent {}, came back {}", pps(self.offered_pps), pps(self.received_pps))
    }
}

/// Half of what came back, rounded down to two significant digits; `None` when that is less than one packet a second.
pub(super) fn half(received_pps: f64) -> Option<u64> {
    let half = (received_pps / 2.0) as u64;
    let scale = 10u64.pow(half.checked_ilog10()?.saturating_sub(1));
    Some(half / scale * scale)
}

/// A rate of two significant digits as `--rate` takes it.
pub(super) fn rate_text(pps: u64) -> String {
    match pps {
        1_000_000.. => format!("{}Mpps", pps as f64 / 1e6),
        1_000.. => format!("{}kpps", pps as f64 / 1e3),
        _ => format!("{pps}pps"),
    }
}

/// The runs of one path.
pub(super) struct Runs {
    pub(super) path: &'static str,
    pub(super) runs: Vec<Figures>,
}

impl Runs {
    /// None yet.
    pub(super) fn new(path: &'static str) -> Self {
        Self { path, runs: Vec::new() }
    }
}

/// Paths side by side: of each the median of its valid runs, how far these lie apart, and how many of them there are.
/// Latency only where the runs were paced: in a run that fills every queue it is that of the queues.
pub(super) fn table(paths: &[Runs], paced: bool) -> Vec<String> {
    let line = |cells: [&str; 7]| {
        let [path, valid, back, spread, lost, p50, p99] = cells;
        let line = format!("   {path:<9}  {valid:>6}  {back:>11}  {spread:>6}  {lost:>8}");
        match paced {
            true => format!("{line}  {p50:>10}  {p99:>10}"),
            false => line,
        }
    };
    let mut lines = vec![line(["path", "valid", "came back", "spread", "max lost", "p50", "p99"])];
    for Runs { path, runs } in paths {
        let of = |value: fn(&Figures) -> Option<f64>| {
            let mut all: Vec<f64> = runs.iter().filter(|run| run.valid).filter_map(value).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let back = of(|f| Some(f.received_pps));
        let spread = match (back.first(), back.last(), median(&back)) {
            (Some(least), Some(most), Some(middle)) if middle > 0.0 => percent((most - least) / middle),
            _ => "-".to_owned(),
        };
        let latency = |value| median(&of(value)).map_or_else(|| "-".to_owned(), time);
        let valid = runs.iter().filter(|f| f.valid).count();
        lines.push(line([
            path,
            &format!("{valid} of {}", runs.len()),
            &median(&back).map_or_else(|| "-".to_owned(), pps),
            &spread,
            // The worst: one round that loses a quarter is what a reader wants to know of.
            &of(|f| Some(f.loss_ratio))
                .into_iter()
                .reduce(f64::max)
                .map_or_else(|| "-".to_owned(), percent),
            &latency(|f| f.p50_ns),
            &latency(|f| f.p99_ns),
        ]));
    }
    for Runs { path, runs } in paths {
        let mut told: Vec<&String> = runs.iter().flat_map(|f| &f.reasons).collect();
        told.sort();
        // Numbers in it differ from run to run: one is enough.
        told.dedup_by(|a, b| a.split_whitespace().next() == b.split_whitespace().next());
        lines.extend(told.iter().map(|why| format!("   {path} NOT VALID: {why}")));
    }
    lines
}

/// The middle of sorted values, or the mean of the two in the middle.
fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some((sorted[low] + sorted[high]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::RateText;
    use mpps_engine::Rate;

    fn run(received_pps: f64, valid: bool) -> Figures {
        Figures {
            offered_pps: 1e6,
            received_pps,
            loss_ratio: 0.0,
            valid,
            reasons: if valid {
                Vec::new()
            } else {
                vec!["the generator was late".to_owned()]
            },
            p50_ns: Some(received_pps / 100.0),
            p99_ns: None,
        }
    }

    #[test]
    fn a_comparison_shows_the_median_the_spread_and_every_verdict() {
        let mut udp = vec![run(150e3, true), run(900e3, false), run(250e3, true)];
        (udp[0].loss_ratio, udp[1].loss_ratio) = (0.25, 0.5);
        let paths = [
            Runs { path: "udp", runs: udp },
            Runs {
                path: "xdp",
                runs: Vec::new(),
            },
        ];
        let lines = table(&paths, true);
        for part in ["udp", "2 of 3", "200.0 kpps", "50.000 %", "25.000 %", "2.000 µs", "-"] {
            assert!(lines[1].contains(part), "{part}: {lines:#?}");
        }
        assert!(
            lines
                .last()
                .expect("a line")
                .contains("udp NOT VALID: the generator was late"),
            "{lines:#?}"
        );
        assert!(lines[2].contains("0 of 0"), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    }

    #[test]
    fn medians_are_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
    }

    #[test]
    fn the_rate_is_half_rounded_down_to_two_digits_and_reads_back_as_itself() {
        assert_eq!(half(545_473.0).map(rate_text).as_deref(), Some("270kpps"));
        assert_eq!(half(2_499_999.0).map(rate_text).as_deref(), Some("1.2Mpps"));
        assert_eq!((half(0.0), half(1.9), half(f64::NAN)), (None, None, None));
        for received in (2..5_000_000u64).step_by(977) {
            let rate = half(received as f64).expect("above 1");
            assert!(
                rate <= received / 2 && rate * 11 > received / 2 * 10,
                "{received} {rate}"
            );
            assert_eq!(
                RateText::parse(&rate_text(rate)).and_then(|rate| rate.known(64)),
                Ok(Rate::new(rate, 1)),
                "{rate}"
            );
        }
    }
}
