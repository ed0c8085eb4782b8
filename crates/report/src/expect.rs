//! Demands on a run, or on one of its streams: `--expect 'loss<0.01%'`, `--expect 'p99(gold)<200us'`.

mod streams;
#[cfg(test)]
mod tests;
mod words;

use crate::json::{layer1_bps, layer1_of};
use crate::units::{count, percent};
use mpps_stats::{Expectation, Latency, Summary, Workload};
use mpps_sys::text::comma_in_number;
use std::fmt;
use streams::as_run;
pub use streams::{name_of_stream, no_stream, stream_named};
use words::{FOUND, SIGNS, WANT_NAME, WANT_OF_STREAM, named, quantity, wants};

/// One demand on a result, as the user wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    text: String,
    what: What,
    /// Name of the stream or the group of streams that it is about; `None`: the run.
    of: Option<String>,
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

/// Kind of time that a statistic is taken of: latency from the actual send time or from the scheduled one, that to the
/// arrival, what follows until the lane's reading, or the gap between departures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Actual,
    Scheduled,
    Arrival,
    WakeUp,
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

/// Note of a demand that the result of a method neither meets nor refutes.
pub const NOT_DECIDED: &str = "not decided";

impl Expect {
    /// Reads `loss<0.01%`, `scheduled.p99 <= 200us`, `received>=1Mpps`, `p99(gold)<200us`.
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
        let (base, of) = name_of_stream(name)?;
        let (what, units) = named(base).ok_or_else(|| format!("'{base}' is not measured: want {WANT_NAME}"))?;
        if of.is_some() && !what.is_of_streams() {
            return Err(format!(
                "'{name}': {base} is not measured by stream: want {WANT_OF_STREAM}"
            ));
        }
        let (bound, unit) = quantity(value, units).ok_or_else(|| {
            let comma = comma_in_number(value);
            format!("'{name}{sign}{value}': {}{comma}", wants(name, sign, value, units))
        })?;
        Ok(Self {
            text: format!("{name}{sign}{value}"),
            what,
            of: of.map(str::to_owned),
            compare,
            bound,
            unit,
        })
    }

    /// Returns the name of the stream or group that the demand is about; `None` if it is about all packets.
    pub fn stream(&self) -> Option<&str> {
        self.of.as_deref()
    }

    /// Judges the demand. A value that was not measured does not meet it, nor does one of a stream that there is not.
    pub fn judge(&self, run: &Summary) -> Expectation {
        let Some(name) = &self.of else {
            return self.judged(run, run.frame_size as f64);
        };
        match stream_named(run, name) {
            Err(why) => Expectation {
                expected: self.text.clone(),
                told: why,
                ..Expectation::default()
            },
            Ok(of) => {
                let mut judged = self.judged(&as_run(of, run), of.frame_size);
                if judged.measured.is_none() && self.is_on_percentile() && of.latency.percentiles.is_none() {
                    judged.told += ": want track = true in the stream, or its group";
                }
                if judged.met && !of.valid {
                    judged.note = Some(format!("{name} is not valid"));
                }
                judged
            }
        }
    }

    /// Returns whether the demand is on a percentile of a latency.
    pub fn is_on_percentile(&self) -> bool {
        matches!(self.what, What::Latency(_, stat) if stat.beyond().is_some())
    }

    /// Judges the demand on results of frames with this length, bytes with FCS (0: unknown).
    fn judged(&self, s: &Summary, frame_size: f64) -> Expectation {
        let measured = self.measured(s, frame_size).filter(|value| value.is_finite());
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
        let loss = self.what == What::Lost && self.unit == Unit::Ratio && self.of.is_none();
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

    fn measured(&self, s: &Summary, frame_size: f64) -> Option<f64> {
        // Other workloads send without receiving, or pass on the packets that they get.
        // Nobody knows whether packets without a tag came.
        let known = s.tx.saturating_sub(s.untagged);
        let judges = matches!(s.workload, Workload::SendRecv | Workload::Drop) && known + s.rx > 0 && verifies(s);
        let judged = |n: u64| judges.then_some(n as f64);
        // Only a packet that arrived can be a copy, late, damaged or out of order: without any arrival nothing is
        // known.
        let came = s.rx + s.late + s.duplicates + s.corrupt + s.foreign;
        let of_those_that_came = |n: u64, least: u64| judged(n).filter(|_| came >= least);
        // A receiver knows from the sequence numbers how many packets were sent.
        let sent = if s.tx > 0 { known } else { s.rx + s.lost };
        let amount = |n: u64, rate: f64, all: Option<u64>| match self.unit {
            Unit::Packets => Some(n as f64),
            Unit::Ratio => all.filter(|all| *all > 0).map(|all| n as f64 / all as f64),
            Unit::Pps => s.tells_rate().then_some(rate),
            _ => layer1_of(rate, frame_size).filter(|_| s.tells_rate()),
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

impl What {
    /// Returns whether each stream has one of its own.
    fn is_of_streams(self) -> bool {
        match self {
            Self::Foreign | Self::HostDropped | Self::Latency(Of::Gap, _) => false,
            // Goals of a search may be about a stream.
            Self::Found(found) => matches!(found, Found::Ndr | Found::Pdr),
            _ => true,
        }
    }
}

impl Of {
    fn latency(self, s: &Summary) -> Option<&Latency> {
        let latency = match self {
            Self::Actual => Some(&s.latency),
            Self::Scheduled => s.latency_scheduled.as_ref(),
            Self::Arrival => s.latency_arrival.as_ref(),
            Self::WakeUp => s.wake_up.as_ref(),
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

/// Returns whether packets were verified: a receiver with `--no-verify` only counts them.
fn verifies(s: &Summary) -> bool {
    let plan = s.plan.as_deref().map(serde_json::from_str::<serde_json::Value>);
    !matches!(plan, Some(Ok(plan)) if plan["checks"]["no_verify"] == true)
}
