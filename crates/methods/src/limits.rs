//! Loads between which a device is tested.

use crate::search::Limits;
use crate::setup::Setup;
use mpps_plan::values::rate::RateText;
use mpps_run::fail::{Result, usage};
use mpps_wire::FrameSize;

/// Share of the link's rate that is offered at most: the clocks of two ends differ (RFC 8239).
const OF_LINK: f64 = 0.9998;
/// Share of the rate that this host can send that is offered at most: at its very limit it misses departures.
pub(crate) const OF_CEILING: f64 = 0.99;
/// Ratio of the highest rate to the lowest, unless the lowest is given.
const SPAN: u64 = 1000;

/// Limit that sets the highest rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitedBy {
    MaxRate,
    Link,
    Generator,
    /// Other programs disturbed this host at higher rates, and less so at this one.
    Host,
}

impl LimitedBy {
    /// Returns the name used in the result.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MaxRate => "max_rate",
            Self::Link => "link",
            Self::Generator => "generator",
            Self::Host => "host",
        }
    }

    /// Returns the words for people, at the end of a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::MaxRate => "--max-rate",
            Self::Link => "what the link carries",
            Self::Generator => "what this host can send",
            Self::Host => "this host, disturbed at higher rates",
        }
    }

    /// Returns the same words for the middle of a sentence.
    pub(crate) fn subject(self) -> String {
        match self {
            Self::Host => format!("{},", self.words()),
            other => other.words().to_owned(),
        }
    }

    /// Name of the highest rate, as a chart has it.
    pub(crate) fn ceiling(self) -> &'static str {
        match self {
            Self::MaxRate => "highest rate tried (--max-rate)",
            Self::Link => "highest rate that the link carries",
            Self::Generator => "highest rate that this host can send",
            Self::Host => "highest undisturbed rate",
        }
    }
}

impl Setup<'_> {
    /// Returns how many such frames a link carries per second; `None` if it has no rate of its own.
    pub(crate) fn theoretical(&self, frame_size: usize) -> Option<f64> {
        let bits = FrameSize::from_fcs(frame_size).l1_bits() as f64;
        Some(self.link_bps? as f64 / bits)
    }

    /// Returns the lowest and the highest rate to test, given `ceiling`, the packets per second that this host can
    /// send. Without `ceiling`, checks the rates that are given.
    ///
    /// # Errors
    /// When there is no rate between them.
    pub(crate) fn rates(&self, frame_size: usize, ceiling: Option<f64>) -> Result<(Limits, LimitedBy)> {
        let rate = |option: &str, text: &Option<RateText>| match text {
            Some(text) => match text.resolve(frame_size, self.link_bps) {
                Ok(rate) => Ok(Some(rate.pps())),
                Err(want) => Err(usage(format!("{option} {text}: want {want}"))),
            },
            None => Ok(None),
        };
        let (lowest, highest) = (
            rate("--min-rate", &self.common.min_rate)?,
            rate("--max-rate", &self.common.max_rate)?,
        );
        let most = [
            (highest, LimitedBy::MaxRate),
            (self.theoretical(frame_size).map(|pps| pps * OF_LINK), LimitedBy::Link),
            (ceiling.map(|pps| pps * OF_CEILING), LimitedBy::Generator),
        ];
        let known = most.into_iter().filter_map(|(pps, limit)| Some((pps?, limit)));
        let (max, limited_by) = known
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or((f64::MAX, LimitedBy::Generator));
        let max = max as u64;
        let limits = Limits {
            min: lowest.map_or(max / SPAN, |pps| pps as u64).max(1),
            max,
        };
        if limits.min >= limits.max {
            return Err(usage(format!(
                "--min-rate: {} pps is not below {}, {} pps: want a lower one",
                limits.min,
                limited_by.words(),
                limits.max
            )));
        }
        Ok((limits, limited_by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_ends_a_sentence_without_a_comma() {
        for limit in [
            LimitedBy::MaxRate,
            LimitedBy::Link,
            LimitedBy::Generator,
            LimitedBy::Host,
        ] {
            assert!(!limit.words().ends_with(','), "{limit:?}");
            let commas = limit.subject().matches(',').count();
            assert_eq!(commas % 2, 0, "what stands between commas is closed: {limit:?}");
        }
    }
}
