//! `--rate` and `--then` as the user wrote them.

pub use mpps_traffic::RateText;

use crate::values;
use std::fmt;
use std::time::Duration;

/// Change to another rate during the run, as the user wrote it: `5Mpps@60s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepText {
    /// Rate from then on.
    pub rate: RateText,
    /// Time of the change, since the start of the run.
    pub after: Duration,
}

/// Parses `--then`.
///
/// # Errors
/// One line on what would be right.
pub fn step(text: &str) -> Result<StepText, String> {
    let Some((rate, after)) = text.split_once('@') else {
        return Err("want RATE@TIME, the rate from that time on, such as 500kpps@60s".to_owned());
    };
    let after = values::duration(after.trim())?;
    if after.is_zero() {
        return Err("want a time above 0 behind the @: that is when the rate changes".to_owned());
    }
    let rate = RateText::parse(rate).map_err(|want| format!("want {want}"))?;
    Ok(StepText { rate, after })
}

impl fmt::Display for StepText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:?}", self.rate, self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_io::Rate;

    #[test]
    fn a_step_is_a_rate_and_a_time() {
        let read = step("2.5 Mpps@1.5s").unwrap();
        assert_eq!(read.after, Duration::from_millis(1500));
        assert_eq!(read.rate.known(64), Ok(Rate::new(2_500_000, 1)));
        assert_eq!(read.to_string(), "2.5 Mpps@1.5s");
        for (text, wrong) in [
            ("1Mpps", "want RATE@TIME"),
            ("1Mpps@0", "above 0"),
            ("1Mpps@5", "with its unit"),
            ("1M@5s", "want a number above 0 with pps"),
        ] {
            let error = step(text).expect_err(text);
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }
}
