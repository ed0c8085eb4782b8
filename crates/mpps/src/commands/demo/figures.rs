//! What the demo reads from the runs' summaries, and makes of it.

use crate::fail::{Result, failed};
use mpps_report::units::{percent, pps, time};
use serde_json::Value;

/// Figures of one run, from its JSON.
pub(super) struct Figures {
    pub(super) offered_pps: f64,
    pub(super) received_pps: f64,
    pub(super) loss_ratio: f64,
    pub(super) valid: bool,
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

/// Runs side by side. Latency only where the runs were paced: in a run that fills every queue it is that of the
/// queues.
pub(super) fn table(runs: &[(&str, &Figures)], paced: bool) -> Vec<String> {
    let line = |cells: [&str; 6]| {
        let [path, sent, back, lost, p50, p99] = cells;
        let line = format!("   {path:<9}  {sent:>11}  {back:>11}  {lost:>9}");
        if paced {
            format!("{line}  {p50:>11}  {p99:>11}")
        } else {
            line
        }
    };
    let mut lines = vec![line([
        "path",
        "sent",
        "came back",
        "lost",
        "latency p50",
        "latency p99",
    ])];
    let latency = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), time);
    lines.extend(runs.iter().map(|(path, f)| {
        let (p50, p99) = (latency(f.p50_ns), latency(f.p99_ns));
        line([
            path,
            &pps(f.offered_pps),
            &pps(f.received_pps),
            &percent(f.loss_ratio),
            &p50,
            &p99,
        ])
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_engine::Rate;

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
                Rate::parse(&rate_text(rate), 64, None),
                Ok(Rate::new(rate, 1).expect("in range")),
                "{rate}"
            );
        }
    }
}
