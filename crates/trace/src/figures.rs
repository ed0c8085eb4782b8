//! Numbers in sentences for people: one way of writing them, for the report's tables and for the verdict's reasons.

/// Returns a count with thousands separated: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a short time given in ns, with four significant digits: `873 ns`, `12.35 µs`, `1.234 ms`, `2.500 s`.
pub fn time(ns: f64) -> String {
    if !ns.is_finite() {
        return "-".to_owned();
    }
    let sign = if ns < 0.0 { "-" } else { "" };
    let magnitude = ns.abs();
    if magnitude < 999.5 {
        let decimals = usize::from(magnitude.fract() != 0.0 && magnitude < 99.95);
        return format!("{sign}{magnitude:.decimals$} ns");
    }
    let mut scaled = magnitude / 1000.0;
    let mut unit = "µs";
    for next in ["ms", "s"] {
        if scaled < 999.95 {
            break;
        }
        scaled /= 1000.0;
        unit = next;
    }
    format!("{sign}{} {unit}", four_digits(scaled))
}

/// Returns four significant digits of a value below 1000, and all digits of a larger one.
pub fn four_digits(value: f64) -> String {
    match value {
        v if v < 9.9995 => format!("{v:.3}"),
        v if v < 99.995 => format!("{v:.2}"),
        v if v < 999.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{count, time};
    use proptest::prelude::*;

    #[test]
    fn times_are_rounded_into_the_next_unit() {
        assert_eq!(time(999.4), "999 ns");
        assert_eq!(time(999.6), "1.000 µs");
        assert_eq!(time(12_345.0), "12.35 µs");
        assert_eq!(time(0.0), "0 ns");
    }

    fn value_of(text: &str, prefixes: &[(&str, f64)]) -> f64 {
        let (number, unit) = text.split_once(' ').unwrap();
        let scale = prefixes.iter().find(|(p, _)| *p == unit).unwrap().1;
        number.parse::<f64>().unwrap() * scale
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    proptest! {
        #[test]
        fn time_reads_back_within_its_four_digits(ns in 1.0..1e11f64) {
            let read = value_of(&time(ns), &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)]);
            prop_assert!((read - ns).abs() <= ns * 0.006, "{ns} {}", time(ns));
        }

        #[test]
        fn a_count_is_the_number_without_its_commas(n: u64) {
            prop_assert_eq!(count(n).replace(',', "").parse::<u64>().unwrap(), n);
        }
    }
}
