//! Demands on a run: `--expect 'loss<0.01%'`.

use crate::json::layer1_bps;
use crate::units::{bps, count, percent, pps, time};
use mpps_stats::{Expectation, Latency, Summary, Workload};
use mpps_sys::text::comma_in_number;
use std::fmt;

/// One demand on a result, as the user wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    text: String,
    what: What,
    compare: Compare,
    bound: f64,
    unit: Unit,
}

/// Measured quantity of a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Lost,
    Late,
    Duplicates,
    Reordered,
    Corrupt,
    Foreign,
    Missed,
    HostDropped,
    Sent,
    Received,
    Latency(Of, Stat),
    /// Result of a method.
    Found(Found),
}

/// Result of a method, by the name that a demand has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Highest rate without loss.
    Ndr,
    /// Highest rate within the loss that a goal allows.
    Pdr,
    /// Throughput of RFC 2544, at each frame size.
    Throughput,
    /// Typical latency of RFC 2544 (RFC 8219): the median over the runs of each run's median.
    Latency,
    /// Share of the packets lost at the highest load of RFC 2544's test of loss.
    Loss,
    /// Mean longest burst without loss, frames.
    BackToBack,
    /// Mean time until nothing is lost after an overload.
    Recovery,
    /// Mean time without traffic at a reset.
    Reset,
    /// Highest forwarding rate.
    Mfr,
    /// Forwarding rate at the highest load.
    Frmol,
}

/// Names of the results of methods.
const FOUND: [(&str, Found, &[Unit]); 9] = [
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

impl Found {
    /// Returns the name in a demand.
    pub fn name(self) -> &'static str {
        let found = FOUND.iter().find(|(_, found, _)| *found == self);
        // Only this name also belongs to a result of runs.
        found.map_or("loss", |(name, ..)| name)
    }
}

/// A result of a method, between two bounds. The bounds are the same if the value was measured exactly. The unit is
/// packets per second, packets, or ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Between {
    /// Lower bound: the result is this or more.
    pub lower: Option<f64>,
    /// Upper bound: the result is below this, or equal if both bounds are the same.
    pub upper: Option<f64>,
}

impl Between {
    /// Returns a measured value, if there is one.
    pub fn exactly(value: Option<f64>) -> Self {
        Self {
            lower: value,
            upper: value,
        }
    }
}

/// Kind of time that a statistic is taken of: latency from the actual send time, latency from the scheduled one, or the
/// gap between departures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Actual,
    Scheduled,
    Gap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stat {
    Min,
    Mean,
    P50,
    P90,
    P99,
    P999,
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

/// Unit of a value. The base units are packets, parts of one, ns, packets per second, bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Packets,
    Ratio,
    Time,
    Pps,
    Bps,
}

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
const TIMES: [(&[&str], Of); 3] = [
    (&["latency.", "latency_ns.", ""], Of::Actual),
    (&["scheduled.", "latency_scheduled_ns."], Of::Scheduled),
    (&["gap.", "departure_gap_ns."], Of::Gap),
];

/// Comparison signs. A sign that is the start of another one comes after it.
const SIGNS: [(&str, Compare); 5] = [
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

const WANT_NAME: &str = "loss, lost, late, duplicates, reordered, corrupt, foreign, missed, host_dropped, sent, \
    received, or min, mean, p50, p90, p99, p999, max, also as scheduled.p99 and gap.p99; of a method ndr, pdr, \
    throughput, latency, back_to_back, recovery, reset, mfr, frmol";

/// Note of a demand that the result of a method neither meets nor refutes.
pub const NOT_DECIDED: &str = "not decided";

impl Expect {
    /// Reads `loss<0.01%`, `scheduled.p99 <= 200us`, `received>=1Mpps`.
    ///
    /// # Errors
    /// One line that shows a right form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let split = text
            .find(['<', '>', '='])
            .ok_or("want NAME, one of < <= == >= >, and a value, such as 'loss<0.01%'")?;
        let (name, rest) = (text[..split].trim(), &text[split..]);
        let (sign, compare) = SIGNS
            .into_iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or_else(|| format!("'{text}': want one of < <= == >= >"))?;
        let value = rest[sign.len()..].trim();
        let (what, units) = named(name).ok_or_else(|| format!("'{name}' is not measured: want {WANT_NAME}"))?;
        let (bound, unit) = quantity(value, units).ok_or_else(|| {
            let comma = comma_in_number(value);
            format!("'{name}{sign}{value}': {}{comma}", wants(name, sign, value, units))
        })?;
        Ok(Self {
            text: format!("{name}{sign}{value}"),
            what,
            compare,
            bound,
            unit,
        })
    }

    /// Judges the demand. A value that was not measured does not meet it.
    pub fn judge(&self, s: &Summary) -> Expectation {
        let measured = self.measured(s).filter(|value| value.is_finite());
        let met = measured.is_some_and(|value| match self.compare {
            Compare::Less => value < self.bound,
            Compare::LessOrEqual => value <= self.bound,
            Compare::Equal => value == self.bound,
            Compare::GreaterOrEqual => value >= self.bound,
            Compare::Greater => value > self.bound,
        });
        Expectation {
            expected: self.text.clone(),
            measured,
            told: measured.map_or_else(|| "not measured".to_owned(), |value| self.unit.told(value)),
            met,
            note: met.then(|| self.too_short(s)).flatten(),
        }
    }

    /// Returns the result of a method that the demand is about; `None` if it is about a run.
    pub fn found(&self) -> Option<Found> {
        match self.what {
            What::Found(found) => Some(found),
            _ => None,
        }
    }

    /// Returns the result that the demand names in a method. The name `loss` exists for runs and for a method.
    pub fn in_method(&self) -> Option<Found> {
        let loss = self.what == What::Lost && self.unit == Unit::Ratio;
        self.found().or(loss.then_some(Found::Loss))
    }

    /// Judges a demand on the result of a method, at a frame size in bytes with FCS. An unknown bound meets nothing: a
    /// rate that is "this or more" is not below any other. The note is [`NOT_DECIDED`] if the bounds neither refute nor
    /// meet the demand.
    pub fn judge_found(&self, found: Between, frame_size: usize) -> Expectation {
        let in_unit = |value: Option<f64>| match self.unit {
            Unit::Bps => layer1_bps(value?, frame_size),
            _ => value,
        };
        let finite = |value: Option<f64>| in_unit(value).filter(|value| value.is_finite());
        let (lower, upper) = (finite(found.lower), finite(found.upper));
        let exact = lower.is_some() && lower == upper;
        let met = match self.compare {
            Compare::Greater => lower.is_some_and(|lower| lower > self.bound),
            Compare::GreaterOrEqual => lower.is_some_and(|lower| lower >= self.bound),
            Compare::Equal => exact && lower == Some(self.bound),
            Compare::LessOrEqual => upper.is_some_and(|upper| upper <= self.bound),
            // The result is below its upper bound, unless it is exact.
            Compare::Less if exact => upper.is_some_and(|upper| upper < self.bound),
            Compare::Less => upper.is_some_and(|upper| upper <= self.bound),
        };
        // The result lies at or above its lower bound, and below its upper one unless it is exact.
        let below = |value: f64| match exact {
            true => upper.is_some_and(|upper| upper < value),
            false => upper.is_some_and(|upper| upper <= value),
        };
        let above = |value: f64| lower.is_some_and(|lower| lower > value);
        let refuted = match self.compare {
            Compare::Greater => below(self.bound) || exact && lower == Some(self.bound),
            Compare::GreaterOrEqual => below(self.bound),
            Compare::Equal => below(self.bound) || above(self.bound),
            Compare::LessOrEqual => above(self.bound),
            Compare::Less => above(self.bound) || lower == Some(self.bound),
        };
        let told = |value: f64| self.unit.told(value);
        Expectation {
            expected: self.text.clone(),
            measured: lower.or(upper),
            told: match (lower, upper) {
                (Some(lower), Some(_)) if exact => told(lower),
                (Some(lower), Some(upper)) => format!("{}, and less than {}", told(lower), told(upper)),
                (Some(lower), None) => format!("{} or more", told(lower)),
                (None, Some(upper)) => format!("less than {}", told(upper)),
                (None, None) => "not found".to_owned(),
            },
            met,
            note: (!met && !refuted).then(|| NOT_DECIDED.to_owned()),
        }
    }

    fn measured(&self, s: &Summary) -> Option<f64> {
        // Other workloads send without receiving, or pass on the packets that they get.
        let judges = matches!(s.workload, Workload::SendRecv | Workload::Drop) && s.tx + s.rx > 0 && verifies(s);
        let judged = |n: u64| judges.then_some(n as f64);
        // Only a packet that arrived can be a copy, late, damaged or out of order: without any arrival nothing is
        // known.
        let came = s.rx + s.late + s.duplicates + s.corrupt + s.foreign;
        let of_those_that_came = |n: u64, least: u64| judged(n).filter(|_| came >= least);
        // A receiver knows from the sequence numbers how many packets were sent.
        let sent = if s.tx > 0 { s.tx } else { s.rx + s.lost };
        let amount = |n: u64, rate: f64, all: Option<u64>| match self.unit {
            Unit::Packets => Some(n as f64),
            Unit::Ratio => all.filter(|all| *all > 0).map(|all| n as f64 / all as f64),
            Unit::Pps => s.tells_rate().then_some(rate),
            _ => layer1_bps(rate, s.frame_size).filter(|_| s.tells_rate()),
        };
        match self.what {
            What::Lost if self.unit == Unit::Ratio => judged(s.lost).map(|lost| lost / sent.max(1) as f64),
            What::Lost => judged(s.lost),
            What::Late if s.workload == Workload::Drop => None,
            What::Late => of_those_that_came(s.late, 1),
            What::Duplicates => of_those_that_came(s.duplicates, 1),
            // A single packet has no order.
            What::Reordered => of_those_that_came(s.reordered, 2),
            What::Corrupt => of_those_that_came(s.corrupt, 1),
            What::Foreign => of_those_that_came(s.foreign, 1),
            What::Missed => (s.tx > 0).then_some(s.missed as f64),
            What::HostDropped => s.host_dropped.map(|n| n as f64),
            What::Sent => {
                let due = s.due;
                (s.tx > 0).then(|| amount(s.tx, s.offered_pps, due)).flatten()
            }
            What::Received if s.workload == Workload::Send => None,
            What::Received => amount(s.rx, s.received_pps, judges.then_some(sent)),
            What::Latency(of, stat) => stat.of(of.latency(s)?),
            // A run has no results of methods.
            What::Found(_) => None,
        }
    }

    /// Returns the reason why a met demand proves less than it seems to.
    fn too_short(&self, s: &Summary) -> Option<String> {
        let upper = matches!(self.compare, Compare::Less | Compare::LessOrEqual);
        match self.what {
            // With no event in n independent trials its share is below 3 / n with a confidence of 95 %.
            What::Lost if self.unit == Unit::Ratio && upper && s.lost == 0 && s.tx > 0 => {
                let shown = 3.0 / s.tx as f64;
                (self.bound > 0.0 && shown > self.bound).then(|| {
                    format!(
                        "none lost of {} packets only shows less than {} (95 % confidence): want {} for that bound",
                        count(s.tx),
                        percent(shown),
                        count((3.0 / self.bound).ceil() as u64)
                    )
                })
            }
            What::Latency(of, stat) => {
                let beyond = stat.beyond()?;
                let packets = of.latency(s)?.count;
                (packets < beyond).then(|| {
                    format!(
                        "of {} packets that percentile is the largest: want {} at least",
                        count(packets),
                        count(beyond)
                    )
                })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Of {
    fn latency(self, s: &Summary) -> Option<&Latency> {
        let latency = match self {
            Self::Actual => Some(&s.latency),
            Self::Scheduled => s.latency_scheduled.as_ref(),
            Self::Gap => s.gaps.as_ref().map(|gaps| &gaps.measured),
        };
        latency.filter(|latency| latency.count > 0)
    }
}

impl Stat {
    fn of(self, latency: &Latency) -> Option<f64> {
        let percentile = |of: fn(&mpps_stats::Percentiles) -> u64| Some(of(latency.percentiles.as_ref()?) as f64);
        match self {
            Self::Min => Some(latency.min as f64),
            Self::Mean => Some(latency.mean),
            Self::P50 => percentile(|p| p.p50),
            Self::P90 => percentile(|p| p.p90),
            Self::P99 => percentile(|p| p.p99),
            Self::P999 => percentile(|p| p.p999),
            Self::Max => Some(latency.max as f64),
        }
    }

    /// Returns the number of packets at which one of them lies beyond the statistic.
    fn beyond(self) -> Option<u64> {
        match self {
            Self::P50 => Some(2),
            Self::P90 => Some(10),
            Self::P99 => Some(100),
            Self::P999 => Some(1000),
            Self::Min | Self::Mean | Self::Max => None,
        }
    }
}

impl Unit {
    fn told(self, value: f64) -> String {
        match self {
            Self::Packets => count(value as u64),
            Self::Ratio => percent(value),
            Self::Time => time(value),
            Self::Pps => pps(value),
            Self::Bps => bps(value),
        }
    }

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

fn named(name: &str) -> Option<(What, &'static [Unit])> {
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

/// Returns whether packets were verified: a receiver with `--no-verify` only counts them.
fn verifies(s: &Summary) -> bool {
    let plan = s.plan.as_deref().map(serde_json::from_str::<serde_json::Value>);
    !matches!(plan, Some(Ok(plan)) if plan["checks"]["no_verify"] == true)
}

/// Returns a number in the base unit, and its unit.
fn quantity(text: &str, units: &[Unit]) -> Option<(f64, Unit)> {
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
fn wants(name: &str, sign: &str, value: &str, units: &[Unit]) -> String {
    let bare = value.starts_with(|c: char| c.is_ascii_digit());
    if let ([Unit::Ratio], Some(ratio)) = (units, value.parse::<f64>().ok().filter(|n| bare && *n <= 1.0)) {
        // Rounded: a hundred times 0.07 is 7, not 7.000000000000001.
        let share = (ratio * 1e11).round() / 1e9;
        return format!("want its unit: {name}{sign}{value}%, or {name}{sign}{share}% where {value} is a part of one");
    }
    let examples: Vec<&str> = units.iter().map(|unit| unit.example()).collect();
    format!("want {}", examples.join(", or "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::Percentiles;
    use proptest::prelude::*;

    fn run(tx: u64, lost: u64) -> Summary {
        Summary {
            tx,
            rx: tx - lost,
            lost,
            loss_ratio: lost as f64 / tx.max(1) as f64,
            duration_ns: 1_000_000_000,
            offered_pps: tx as f64,
            received_pps: tx as f64 - lost as f64,
            frame_size: 64,
            latency: Latency {
                count: tx,
                min: 1_000,
                mean: 2_500.0,
                percentiles: Some(Percentiles {
                    p50: 2_000,
                    p90: 3_000,
                    p99: 4_000,
                    p999: 5_000,
                }),
                max: 6_000,
            },
            ..Summary::default()
        }
    }

    fn met(text: &str, of: &Summary) -> bool {
        Expect::parse(text)
            .unwrap_or_else(|why| panic!("{text}: {why}"))
            .judge(of)
            .met
    }

    #[test]
    fn bounds_are_met_or_not_in_the_units_that_they_are_written_in() {
        let run = run(10_000, 10);
        for good in [
            "loss<0.11%",
            "loss<=0.1%",
            "loss_ratio==0.1%",
            "lost==10",
            "lost<1%",
            "p50<=2us",
            "p99 < 4.1us",
            "p99.9>=5us",
            "latency_ns.max<1ms",
            "mean>2.4us",
            "sent==10000",
            "received>=9.9kpps",
            "received>99%",
            "offered<6.73Mbps",
            "late==0",
            "missed<1",
            "min>0",
        ] {
            assert!(met(good, &run), "{good}");
        }
        for bad in [
            "loss<0.1%",
            "lost<10",
            "p99<4us",
            "received>1Mpps",
            "received==100%",
            "max<=5.9us",
        ] {
            assert!(!met(bad, &run), "{bad}");
        }
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let run = run(10_000, 0);
        for text in ["scheduled.p99<1s", "gap.max<1s", "host_dropped==0"] {
            let told = Expect::parse(text).unwrap().judge(&run);
            assert_eq!(
                (told.measured, told.met, told.told.as_str()),
                (None, false, "not measured"),
                "{text}"
            );
        }
        for text in ["loss<100%", "lost==0", "p99<1s", "late==0"] {
            assert!(!met(text, &Summary::default()), "{text}");
        }
    }

    #[test]
    fn what_a_method_finds_lies_between_bounds_and_only_a_known_one_meets_a_demand() {
        let of = |text: &str, lower, upper| {
            let told = Expect::parse(text).unwrap().judge_found(Between { lower, upper }, 64);
            (told.met, told.told)
        };
        let (low, high) = (Some(600_000.0), Some(640_000.0));
        for (text, lower, upper, met) in [
            ("ndr>1kpps", low, high, true),
            ("ndr>600kpps", low, high, false),
            ("ndr>=600kpps", low, high, true),
            ("ndr>=620kpps", low, high, false),
            ("ndr<640kpps", low, high, true),
            ("ndr<630kpps", low, high, false),
            ("ndr<1Gpps", low, None, false),
            ("ndr>1pps", None, high, false),
            ("pdr>1pps", None, None, false),
            ("ndr>400Mbps", low, high, true),
            ("throughput>410Mbps", low, high, false),
            ("recovery<=2ms", Some(2e6), Some(2e6), true),
            ("recovery<2ms", Some(2e6), Some(2e6), false),
            ("back_to_back==64", Some(64.0), Some(64.0), true),
            ("mfr==600kpps", low, high, false),
        ] {
            let (is, told) = of(text, lower, upper);
            assert_eq!(is, met, "{text}: {told}");
        }
        assert_eq!(of("ndr>1kpps", low, None).1, "600.0 kpps or more");
        let undecided = |text: &str, lower, upper| {
            let told = Expect::parse(text).unwrap().judge_found(Between { lower, upper }, 64);
            told.note.as_deref() == Some(NOT_DECIDED)
        };
        for (text, lower, upper, open) in [
            ("ndr>1Mpps", low, None, true),
            ("ndr>1Mpps", low, high, false),
            ("ndr>620kpps", low, high, true),
            ("ndr>1kpps", None, high, true),
            ("ndr>640kpps", None, high, false),
            ("ndr<1kpps", low, None, false),
            ("ndr<1Mpps", low, None, true),
            ("pdr>1pps", None, None, true),
            ("recovery<2ms", Some(2e6), Some(2e6), false),
            ("mfr==500kpps", low, high, false),
            ("mfr==620kpps", low, high, true),
        ] {
            assert_eq!(undecided(text, lower, upper), open, "{text}");
        }
        assert_eq!(of("ndr>1kpps", low, high).1, "600.0 kpps, and less than 640.0 kpps");
        assert_eq!(of("ndr>1kpps", None, None).1, "not found");
        // A run finds none of them, a method none of a run's.
        assert!(!met("ndr>1pps", &run(10_000, 0)));
        assert_eq!(Expect::parse("ndr>1pps").unwrap().found().map(Found::name), Some("ndr"));
        assert_eq!(Expect::parse("loss<1%").unwrap().found(), None);
        assert!(
            Expect::parse("ndr>1")
                .unwrap_err()
                .contains("want a rate such as 1Mpps")
        );
    }

    #[test]
    fn a_run_too_short_for_its_bound_is_told() {
        let note = |text: &str, tx| Expect::parse(text).unwrap().judge(&run(tx, 0)).note;
        let told = note("loss<0.0001%", 10_000).expect("too short");
        assert!(told.contains("0.030 %") && told.contains("3,000,000"), "{told}");
        assert_eq!(note("loss<0.0001%", 3_000_001), None);
        assert_eq!(note("loss==0", 100), None);
        assert!(met("loss<=0.0", &run(100, 0)) && !met("loss==0", &run(100, 1)));
        assert!(note("p999<1s", 999).is_some() && note("p999<1s", 1000).is_none());
    }

    #[test]
    fn what_can_not_be_measured_so_is_refused_with_what_would_be_right() {
        for (text, why) in [
            ("", "such as 'loss<0.01%'"),
            ("loss", "such as 'loss<0.01%'"),
            ("loss=0", "want one of"),
            ("speed<1", "'speed' is not measured: want loss"),
            ("loss<1ms", "want a ratio"),
            (
                "loss<0.1",
                "want its unit: loss<0.1%, or loss<10% where 0.1 is a part of one",
            ),
            ("loss_ratio <= 0.001", "loss_ratio<=0.001%, or loss_ratio<=0.1% where"),
            ("loss<1", "want its unit: loss<1%, or loss<100% where"),
            ("loss<0.0001", "loss<0.01% where"),
            ("loss<5", "want a ratio"),
            ("p99<5", "want a time"),
            ("p99<5MS", "want a time"),
            ("p99<-5us", "want a time"),
            ("lost<1.5", "want a number of packets"),
            ("received<1mpps", "want a number of packets, or a rate"),
            ("<1", "'' is not measured"),
            ("loss<", "want a ratio"),
            ("loss<NaN", "want a ratio"),
        ] {
            let told = Expect::parse(text).expect_err(text);
            assert!(told.contains(why), "{text}: {told}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = Expect::parse(&text);
        }

        #[test]
        fn a_demand_and_its_opposite_are_never_both_met(bound in 0u64..20, lost in 0u64..20) {
            let run = run(100, lost);
            for (sign, opposite) in [("<", ">="), ("<=", ">")] {
                prop_assert_ne!(met(&format!("lost{sign}{bound}"), &run), met(&format!("lost{opposite}{bound}"), &run));
            }
        }
    }
}
