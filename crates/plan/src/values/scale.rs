//! Parses `--scale`.

use super::Parsed;
use mpps_io::Rate;
use mpps_sys::text::comma_in_number;

/// Largest factor.
const MOST: u64 = 10;
/// One divided by the smallest factor.
const LEAST: u64 = 100;
/// Most digits of a factor.
const DIGITS: usize = 9;

/// Exact factor of rates, 0.01 to 10, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    num: u64,
    den: u64,
}

impl Factor {
    /// Numerator, below 10^9.
    pub fn num(self) -> u64 {
        self.num
    }

    /// Denominator, up to 10^11.
    pub fn den(self) -> u64 {
        self.den
    }

    /// Returns a rate multiplied by the factor ([`Rate::times`]); `None` if no [`Rate`] is that.
    pub fn of(self, rate: Rate) -> Option<Rate> {
        rate.times(self.num, self.den)
    }
}

/// Parses a factor of rates: 50%.
pub fn scale(text: &str) -> Parsed<Factor> {
    let want = |why: &str| format!("want a factor from 1% to 1000%, such as 50%{why}");
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let factor = percent(number).ok_or_else(|| want(comma_in_number(text)))?;
    match text.ends_with('%') {
        true => Ok(factor),
        // 0.5 may be meant as half of it.
        false => Err(want(" (the % is missing)")),
    }
}

/// Reads a number of hundredths; `None` if it is no number, has too many digits, or is out of range.
fn percent(text: &str) -> Option<Factor> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    if !(1..=DIGITS).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let num = digits.parse().ok()?;
    let den = 100 * 10u64.pow(u32::try_from(fraction.len()).ok()?);
    (num * LEAST >= den && num <= MOST * den).then_some(Factor { num, den })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_factor_is_exact_and_multiplies_a_rate() {
        for (text, num, den) in [
            ("50%", 50, 100),
            ("1%", 1, 100),
            ("1000%", 1000, 100),
            ("12.5%", 125, 1000),
            ("50 %", 50, 100),
            ("1.00000000%", 100_000_000, 10_000_000_000),
        ] {
            assert_eq!(scale(text), Ok(Factor { num, den }), "{text}");
        }
        let thousand = Rate::new(1000, 3).unwrap();
        assert_eq!(scale("12.5%").unwrap().of(thousand), Rate::new(125, 3));
        // One packet in 1000 s is the slowest rate.
        assert_eq!(scale("1%").unwrap().of(Rate::new(1, 100).unwrap()), None);
    }

    #[test]
    fn what_is_no_factor_is_refused() {
        for text in [
            "",
            "%",
            "0%",
            ".99%",
            "0.5",
            "0.999%",
            "1000.1%",
            "-50%",
            "+50%",
            "5e1%",
            "half",
            "50 %%",
            "1.2.3%",
            "1.000000000%",
        ] {
            assert!(
                scale(text).unwrap_err().starts_with("want a factor from 1% to 1000%"),
                "{text}"
            );
        }
        assert!(scale("50").unwrap_err().ends_with("(the % is missing)"));
        assert!(scale("1,5%").unwrap_err().contains("a comma in a number"));
    }

    proptest! {
        #[test]
        fn a_rate_is_multiplied_exactly(
            pps in 1u64..100_000_000, den in 1u64..1000, percent in 1u64..=1000, tenths in 0u64..10,
        ) {
            let Some(rate) = Rate::new(pps, den) else { return Ok(()) };
            let Ok(factor) = scale(&format!("{percent}.{tenths}%")) else { return Ok(()) };
            let Some(scaled) = factor.of(rate) else { return Ok(()) };
            let whole = Rate::new(pps * (10 * percent + tenths), den * 1000);
            prop_assert_eq!(Some(scaled), whole);
        }
    }
}
