//! Values and settings that runs are compared by.

use crate::statistics::Sense;
use mpps_plan::values::Parsed;
use mpps_report::name_of_stream;

/// Most settings combined.
const MOST_VALUES: usize = 64;

/// A value of each run that is compared: `p99`, or of a stream or group `p99(gold)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Quantity.
    pub quantity: Quantity,
    /// Stream or group that it is of; `None`: all packets.
    pub stream: Option<String>,
}

impl From<Quantity> for Metric {
    fn from(quantity: Quantity) -> Self {
        Self { quantity, stream: None }
    }
}

impl Metric {
    /// Returns the name.
    pub fn name(&self) -> String {
        self.quantity.name().to_owned() + &self.of()
    }

    /// Returns the stream or group in parentheses; empty for all packets.
    pub(super) fn of(&self) -> String {
        self.stream
            .as_ref()
            .map_or_else(String::new, |name| format!("({name})"))
    }

    /// Reads a name.
    ///
    /// # Errors
    /// The names, if this is none.
    pub fn parse(text: &str) -> Parsed<Self> {
        let (name, stream) = name_of_stream(text)?;
        let found = Quantity::ALL.into_iter().find(|quantity| quantity.name() == name);
        let quantity = found.ok_or_else(|| {
            let names = Quantity::ALL.map(Quantity::name).join(", ");
            format!("want one of {names}, also of a stream or group, such as p99(gold)")
        })?;
        Ok(Self {
            quantity,
            stream: stream.map(str::to_owned),
        })
    }
}

/// Quantity of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Rate at which packets came back or arrived, packets per second.
    ReceivedPps,
    /// Rate at which packets left, packets per second.
    OfferedPps,
    /// Share of the packets that were lost or late.
    Loss,
    /// Mean latency.
    Mean,
    /// Median latency.
    P50,
    /// 90th percentile of the latency.
    P90,
    /// 99th percentile of the latency.
    P99,
    /// 99.9th percentile of the latency.
    P999,
    /// Highest latency.
    Max,
}

impl Quantity {
    /// All quantities.
    pub const ALL: [Self; 9] = [
        Self::ReceivedPps,
        Self::OfferedPps,
        Self::Loss,
        Self::Mean,
        Self::P50,
        Self::P90,
        Self::P99,
        Self::P999,
        Self::Max,
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReceivedPps => "received_pps",
            Self::OfferedPps => "offered_pps",
            Self::Loss => "loss",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p999",
            Self::Max => "max",
        }
    }

    /// Returns whether the quantity is a percentile.
    pub(super) fn is_percentile(self) -> bool {
        self.is_latency() && !matches!(self, Self::Mean | Self::Max)
    }

    /// Returns whether the quantity is a latency.
    pub fn is_latency(self) -> bool {
        !matches!(self, Self::ReceivedPps | Self::OfferedPps | Self::Loss)
    }

    /// Returns whether more or less of it is better.
    pub fn sense(self) -> Sense {
        match self {
            Self::ReceivedPps | Self::OfferedPps => Sense::More,
            _ => Sense::Less,
        }
    }

    /// Returns whether runs of this workload measure it.
    pub fn is_of(self, workload: &str) -> bool {
        match self {
            Self::ReceivedPps => workload != "send",
            Self::OfferedPps => !matches!(workload, "drop" | "capture"),
            Self::Loss => matches!(workload, "sendrecv" | "drop"),
            _ => workload == "sendrecv",
        }
    }
}

/// An option and the values to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Option of the command or of its port.
    pub key: String,
    /// Values to try; the others are compared with the first.
    pub values: Vec<String>,
}

impl Setting {
    /// Reads `KEY=VALUE|VALUE`.
    ///
    /// # Errors
    /// Names the form that is wanted.
    pub fn parse(text: &str) -> Parsed<Self> {
        const WANT: &str = "want an option and two or more values, KEY=VALUE|VALUE, quoted, such as 'burst=32|64'";
        let (key, values) = text.split_once('=').ok_or(WANT)?;
        let key = key.strip_prefix("--").unwrap_or(key).trim();
        let values: Vec<String> = values.split('|').map(|value| value.trim().to_owned()).collect();
        let twice = values
            .iter()
            .enumerate()
            .find(|(at, value)| values[..*at].contains(value));
        if let Some((_, value)) = twice.filter(|(_, value)| !value.is_empty()) {
            return Err(format!("{value} is there twice: want each value once"));
        }
        let empty = key.is_empty() || values.iter().any(String::is_empty);
        if empty || values.len() < 2 || values.len() > MOST_VALUES {
            return Err(WANT.to_owned());
        }
        Ok(Self {
            key: key.to_owned(),
            values,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_an_option_and_its_values() {
        let setting = Setting::parse("burst=32|64").unwrap();
        assert_eq!((setting.key.as_str(), setting.values.len()), ("burst", 2));
        assert_eq!(Setting::parse("--burst=32 | 64").unwrap(), setting);
        for text in ["burst", "burst=", "burst=32", "burst=32|", "=1|2", "burst=32|32"] {
            assert!(Setting::parse(text).unwrap_err().contains("want"), "{text}");
        }
    }

    #[test]
    fn metrics_have_their_own_names() {
        for quantity in Quantity::ALL {
            assert_eq!(Metric::parse(quantity.name()), Ok(quantity.into()));
        }
        let gold = Metric::parse("p99(gold)").unwrap();
        assert_eq!((gold.quantity, gold.stream.as_deref()), (Quantity::P99, Some("gold")));
        assert_eq!(gold.name(), "p99(gold)");
        assert!(Metric::parse("p99()").unwrap_err().contains("such as p99(gold)"));
        assert!(Metric::parse("pps").unwrap_err().contains("received_pps, offered_pps"));
    }
}
