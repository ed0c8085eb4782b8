//! Words of a demand: names, comparison signs and units.

use super::{Compare, Found, Of, Stat, Unit, What};
use crate::units::{bps, count, percent, pps, time};

/// Names of the results of methods.
pub(super) const FOUND: [(&str, Found, &[Unit]); 9] = [
    ("ndr", Found::Ndr, &[Unit::Pps, Unit::Bps]),
    ("pdr", Found::Pdr, &[Unit::Pps, Unit::Bps]),
    ("throughput", Found::Throughput, &[Unit::Pps, Unit::Bps]),
    ("latency", Found::Latency, &[Unit::Time]),
    ("back_to_back", Found::BackToBack, &[Unit::Packets]),
    ("recovery", Found::Recovery, &[Unit::Time]),
    ("reset", Found::Reset, &[Unit::Time]),
    ("mfr", Found::Mfr, &[Unit::Pps, Unit::Bps]),
    ("frmol", Found::Frmol, &[Unit::Pps, Unit::Bps]),
];

/// Names, the quantity of each, and the units that its bound may have.
const NAMES: [(&[&str], What, &[Unit]); 11] = [
    (&["loss", "loss_ratio"], What::Lost, &[Unit::Ratio]),
    (&["lost"], What::Lost, &[Unit::Packets, Unit::Ratio]),
    (&["late"], What::Late, &[Unit::Packets]),
    (&["duplicates"], What::Duplicates, &[Unit::Packets]),
    (&["reordered"], What::Reordered, &[Unit::Packets]),
    (&["corrupt"], What::Corrupt, &[Unit::Packets]),
    (&["foreign"], What::Foreign, &[Unit::Packets]),
    (&["missed"], What::Missed, &[Unit::Packets]),
    (&["host_dropped"], What::HostDropped, &[Unit::Packets]),
    (
        &["sent", "tx_packets", "offered", "offered_pps", "offered_bps"],
        What::Sent,
        &[Unit::Packets, Unit::Pps, Unit::Bps, Unit::Ratio],
    ),
    (
        &["received", "rx_packets", "received_pps", "received_bps"],
        What::Received,
        &[Unit::Packets, Unit::Pps, Unit::Bps, Unit::Ratio],
    ),
];

const STATS: [(&[&str], Stat); 7] = [
    (&["min"], Stat::Min),
    (&["mean", "avg"], Stat::Mean),
    (&["p50"], Stat::P50),
    (&["p90"], Stat::P90),
    (&["p99"], Stat::P99),
    (&["p999", "p99.9"], Stat::P999),
    (&["max"], Stat::Max),
];

/// Prefixes of a [`Stat`].
const TIMES: [(&[&str], Of); 5] = [
    (&["latency.", "latency_ns.", ""], Of::Actual),
    (&["scheduled.", "latency_scheduled_ns."], Of::Scheduled),
    (&["arrival.", "latency_arrival_ns."], Of::Arrival),
    (&["wake_up.", "wake_up_ns."], Of::WakeUp),
    (&["gap.", "departure_gap_ns."], Of::Gap),
];

/// Comparison signs. A sign that is the start of another one comes after it.
pub(super) const SIGNS: [(&str, Compare); 5] = [
    ("<=", Compare::LessOrEqual),
    (">=", Compare::GreaterOrEqual),
    ("==", Compare::Equal),
    ("<", Compare::Less),
    (">", Compare::Greater),
];

/// Suffixes, the unit of each, and its size in the base unit.
const UNITS: [(&str, Unit, f64); 16] = [
    ("%", Unit::Ratio, 0.01),
    ("ns", Unit::Time, 1.0),
    ("us", Unit::Time, 1e3),
    ("µs", Unit::Time, 1e3),
    ("ms", Unit::Time, 1e6),
    ("s", Unit::Time, 1e9),
    ("pps", Unit::Pps, 1.0),
    ("kpps", Unit::Pps, 1e3),
    ("Mpps", Unit::Pps, 1e6),
    ("Gpps", Unit::Pps, 1e9),
    ("bps", Unit::Bps, 1.0),
    ("kbps", Unit::Bps, 1e3),
    ("Mbps", Unit::Bps, 1e6),
    ("Gbps", Unit::Bps, 1e9),
    ("Tbps", Unit::Bps, 1e12),
    ("", Unit::Packets, 1.0),
];

/// Names that a demand may have, for errors.
pub(super) const WANT_NAME: &str = "loss, lost, late, duplicates, reordered, corrupt, foreign, missed, host_dropped, \
    sent, received, or min, mean, p50, p90, p99, p999, max, also as scheduled.p99 and gap.p99; of a method ndr, pdr, \
    throughput, latency, back_to_back, recovery, reset, mfr, frmol";

/// Names that a demand on a stream may have, for errors.
pub(super) const WANT_OF_STREAM: &str = "loss, lost, late, duplicates, reordered, corrupt, missed, sent, received, or \
    min, mean, p50, p90, p99, p999, max, also as scheduled.p99; of a method ndr, pdr";

/// Returns the quantity that a demand names, and the units that its bound may have.
pub(super) fn named(name: &str) -> Option<(What, &'static [Unit])> {
    if let Some((_, what, units)) = NAMES.into_iter().find(|(names, ..)| names.contains(&name)) {
        return Some((what, units));
    }
    if let Some((_, found, units)) = FOUND.into_iter().find(|(known, ..)| *known == name) {
        return Some((What::Found(found), units));
    }
    TIMES.into_iter().find_map(|(prefixes, of)| {
        prefixes.iter().find_map(|prefix| {
            let stat = name.strip_prefix(prefix)?;
            let (_, stat) = STATS.into_iter().find(|(names, _)| names.contains(&stat))?;
            Some((What::Latency(of, stat), [Unit::Time].as_slice()))
        })
    })
}

/// Returns a number in the base unit, and its unit.
pub(super) fn quantity(text: &str, units: &[Unit]) -> Option<(f64, Unit)> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = (&text[..split], text[split..].trim());
    let (_, unit, scale) = UNITS.into_iter().find(|(name, ..)| *name == suffix)?;
    let digits = number.starts_with(|c: char| c.is_ascii_digit());
    let number = number.parse::<f64>().ok().filter(|n| digits && n.is_finite())?;
    // Only 0 is the same in every unit: 0.1 may be meant as 10 % or as 0.1 %.
    let unit = match unit {
        Unit::Packets if !units.contains(&unit) => {
            units.first().copied().filter(|_| units.len() == 1 && number == 0.0)?
        }
        _ => unit,
    };
    let whole = unit != Unit::Packets || number.fract() == 0.0;
    (units.contains(&unit) && whole).then_some((number * scale, unit))
}

/// Returns a right form in place of a value.
pub(super) fn wants(name: &str, sign: &str, value: &str, units: &[Unit]) -> String {
    let bare = value.starts_with(|c: char| c.is_ascii_digit());
    if let ([Unit::Ratio], Some(ratio)) = (units, value.parse::<f64>().ok().filter(|n| bare && *n <= 1.0)) {
        // Rounded: a hundred times 0.07 is 7, not 7.000000000000001.
        let share = (ratio * 1e11).round() / 1e9;
        return format!("want its unit: {name}{sign}{value}%, or {name}{sign}{share}% where {value} is a part of one");
    }
    let examples: Vec<&str> = units.iter().map(|unit| unit.example()).collect();
    format!("want {}", examples.join(", or "))
}

impl Unit {
    /// Returns a value as text.
    pub(super) fn told(self, value: f64) -> String {
        match self {
            Self::Packets => count(value as u64),
            Self::Ratio => percent(value),
            Self::Time => time(value),
            Self::Pps => pps(value),
            Self::Bps => bps(value),
        }
    }

    /// Returns words on a value with an example.
    fn example(self) -> &'static str {
        match self {
            Self::Packets => "a number of packets",
            Self::Ratio => "a ratio such as 0.01%",
            Self::Time => "a time such as 200us",
            Self::Pps => "a rate such as 1Mpps",
            Self::Bps => "a bit rate such as 1Gbps",
        }
    }
}
