//! Times as the user wrote them.

use mpps_sys::text::comma_in_number;

/// Units of a time, in ns.
const TIME_UNITS: [(&str, u64); 7] = [
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Returns the error for a time. If only the case of its unit is wrong, asks whether the right one was meant.
pub fn no_time(text: &str, want: &str) -> String {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
    let (number, unit) = text.split_at(split);
    let like = TIME_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    match like.filter(|(name, _)| *name != unit && !number.is_empty()) {
        Some((name, _)) => format!("want {want}: did you mean {number}{name}?"),
        None => format!("want {want}{}", comma_in_number(text)),
    }
}

/// Parses a time to ns: a decimal number and a unit.
pub fn time_ns(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let (_, scale) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
    if number.is_empty() || number.starts_with('.') {
        return None;
    }
    let value: f64 = number.parse().ok()?;
    let ns = value * *scale as f64;
    (ns <= 1e17).then_some(ns.round() as u64)
}
