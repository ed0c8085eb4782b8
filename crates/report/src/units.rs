//! Numbers as people read them: SI prefixes, durations, thousands. Never "NaN", never "inf".

pub use mpps_trace::{count, time};

use mpps_trace::four_digits;

/// Returns a rate or any other quantity with SI prefix and four significant digits: `1.234 Mpps`, `999.9 kpps`,
/// `0 pps`. A value that is not a finite number becomes `-`.
pub fn si(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return format!("0 {unit}");
    }
    let mut scaled = magnitude;
    let mut prefix = "";
    for next in ["k", "M", "G", "T"] {
        if scaled < 999.95 {
            break;
        }
        scaled /= 1000.0;
        prefix = next;
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{} {prefix}{unit}", four_digits(scaled))
}

/// Returns a packet rate: `1.234 Mpps`.
pub fn pps(rate: f64) -> String {
    si(rate, "pps")
}

/// Returns a bit rate: `9.876 Gbps`.
pub fn bps(rate: f64) -> String {
    si(rate, "bps")
}

/// Returns a long time given in ns, to 0.1 s below a minute: `12.3 s`, `2 min 03 s`, `1 h 02 min 03 s`.
pub fn elapsed(ns: u64) -> String {
    let tenths = ns.saturating_add(50_000_000) / 100_000_000;
    if tenths < 600 {
        return format!("{}.{} s", tenths / 10, tenths % 10);
    }
    let seconds = ns.saturating_add(500_000_000) / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours == 0 {
        format!("{minutes} min {seconds:02} s")
    } else {
        format!("{hours} h {minutes:02} min {seconds:02} s")
    }
}

/// Returns a ratio in percent: `0 %` only when it is 0, `1.234 %`, `0.0012 %`, `1.2e-7 %`.
pub fn percent(ratio: f64) -> String {
    let value = ratio * 100.0;
    if !value.is_finite() {
        return "-".to_owned();
    }
    match value.abs() {
        0.0 => "0 %".to_owned(),
        v if v >= 99.95 => format!("{value:.1} %"),
        v if v >= 0.01 => format!("{value:.3} %"),
        v if v >= 0.0001 => format!("{value:.5} %"),
        _ => format!("{value:.1e} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounding_carries_into_the_next_prefix() {
        assert_eq!(pps(999_960.0), "1.000 Mpps");
        assert_eq!(pps(999_900.0), "999.9 kpps");
        assert_eq!(pps(0.0), "0 pps");
        assert_eq!(pps(f64::NAN), "-");
        assert_eq!(elapsed(59_960_000_000), "1 min 00 s");
        assert_eq!(elapsed(3_723_000_000_000), "1 h 02 min 03 s");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(1e-9), "1.0e-7 %");
    }

    fn value_of(text: &str, prefixes: &[(&str, f64)]) -> f64 {
        let (number, unit) = text.split_once(' ').unwrap();
        let scale = prefixes.iter().find(|(p, _)| *p == unit).unwrap().1;
        number.parse::<f64>().unwrap() * scale
    }

    proptest! {
        #[test]
        fn si_reads_back_within_its_four_digits(value in prop_oneof![0.01..1e3f64, 1.0..1e12f64]) {
            let text = pps(value);
            let scales = [("pps", 1.0), ("kpps", 1e3), ("Mpps", 1e6), ("Gpps", 1e9), ("Tpps", 1e12)];
            let read = value_of(&text, &scales);
            prop_assert!((read - value).abs() <= value * 0.0006 + 0.0006, "{value} {text}");
            prop_assert!(text.chars().count() <= 11, "{text}");
        }

        #[test]
        fn percent_is_zero_only_for_zero(ratio in 1e-18..1.0f64) {
            prop_assert_ne!(percent(ratio), percent(0.0));
        }
    }
}
