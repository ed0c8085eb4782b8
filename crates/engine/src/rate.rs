//! Rates as exact fractions, so that the total over all lanes is exact.

use std::fmt;

/// Bytes on the wire beside the frame (with FCS): preamble, start delimiter and inter-frame gap.
pub(crate) const L1_OVERHEAD: u64 = 20;

/// Units of a rate: name, scale, and whether it counts bits on layer 1.
const UNITS: [(&str, u64, bool); 8] = [
    ("pps", 1, false),
    ("kpps", 1_000, false),
    ("Mpps", 1_000_000, false),
    ("Gpps", 1_000_000_000, false),
    ("bps", 1, true),
    ("kbps", 1_000, true),
    ("Mbps", 1_000_000, true),
    ("Gbps", 1_000_000_000, true),
];

/// A rate in packets a second, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    num: u64,
    den: u64,
}

impl Rate {
    /// `num / den` packets a second; `None` unless both are above zero and the rate is between one packet in 1000 s
    /// and 10^10 a second.
    pub fn new(num: u64, den: u64) -> Option<Self> {
        if num == 0 || den == 0 || num > den.saturating_mul(10_000_000_000) || den > num.saturating_mul(1000) {
            return None;
        }
        let divisor = gcd(num, den);
        Some(Self {
            num: num / divisor,
            den: den / divisor,
        })
    }

    /// The rate as written: `1.5Mpps`, `250 kbps` or `10%` (of `link_bps`). Bit rates count what one frame takes on
    /// layer 1: `frame_size` bytes with FCS, and 20 bytes of preamble and gap.
    ///
    /// # Errors
    /// One line on what would be right.
    pub fn parse(text: &str, frame_size: u64, link_bps: Option<u64>) -> Result<Self, String> {
        const WANT: &str = "a number above 0 with pps, kpps, Mpps, Gpps, bps, kbps, Mbps, Gbps or %, such as 3.5Mpps";
        let text = text.trim();
        let split = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim());
        if let Some(rest) = text
            .strip_prefix('-')
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        {
            return Err(format!("{WANT}: did you mean {rest}?"));
        }
        let (num, den) = decimal(number).ok_or_else(|| WANT.to_owned())?;
        if num == 0 {
            return Err(format!("{WANT}; without --rate as fast as the path takes packets"));
        }
        let frame_bits = (frame_size + L1_OVERHEAD) * 8;
        let (scale, per) = match (UNITS.iter().find(|(name, ..)| *name == unit), unit) {
            (Some((_, scale, bits)), _) => (*scale, if *bits { frame_bits } else { 1 }),
            (None, "%") => {
                let link = link_bps.ok_or("a rate in pps or bps: the device does not tell its link speed")?;
                if num > 100 * den {
                    return Err("at most 100%".to_owned());
                }
                (link, 100 * frame_bits)
            }
            (None, "") => return Err(format!("{WANT} (the unit is missing)")),
            (None, _) => {
                // `m` is milli: nobody means that, but a unit in another case is a slip to be asked about.
                let like = UNITS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(unit));
                let why = match like {
                    Some((name, ..)) => format!("unknown unit '{unit}': did you mean {number}{name}?"),
                    None => format!("unknown unit '{unit}'"),
                };
                return Err(format!("{WANT} ({why})"));
            }
        };
        let top = u128::from(num) * u128::from(scale);
        let bottom = u128::from(den) * u128::from(per);
        let divisor = gcd128(top, bottom).max(1);
        let (top, bottom) = (top / divisor, bottom / divisor);
        match (u64::try_from(top), u64::try_from(bottom)) {
            (Ok(n), Ok(d)) => Self::new(n, d).ok_or_else(|| format!("{WANT}, from 0.001 pps to 10 Gpps")),
            _ => Err(format!("{WANT}, with fewer digits")),
        }
    }

    /// Packets a second.
    pub fn pps(&self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// Departures due in the first `duration_ns` of a schedule whose first is at 0.
    pub fn packets_in(&self, duration_ns: u64) -> u64 {
        let n = u128::from(duration_ns) * u128::from(self.num);
        u64::try_from(n.div_ceil(u128::from(self.den) * 1_000_000_000)).unwrap_or(u64::MAX)
    }

    /// Time for `packets` packets, ns, with 64 bits of fraction.
    pub(crate) fn time_of(&self, packets: u64) -> u128 {
        let ns = u128::from(packets) * u128::from(self.den) * 1_000_000_000;
        let whole = ns / u128::from(self.num);
        let rest = ns % u128::from(self.num);
        (whole << 64) + (rest << 64) / u128::from(self.num)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pps", self.pps())
    }
}

/// A decimal number as a fraction; `None` when it is none or has over 18 digits.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() + fraction.len() > 18 || fraction.contains('.') {
        return None;
    }
    let digits: u64 = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, 10u64.pow(fraction.len() as u32)))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn gcd128(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd128(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_in_every_unit() {
        let pps = |t: &str| Rate::parse(t, 64, Some(10_000_000_000)).map(|r| r.pps());
        assert_eq!(pps("3.5Mpps"), Ok(3_500_000.0));
        assert_eq!(pps("250 kpps"), Ok(250_000.0));
        assert_eq!(pps("0.5pps"), Ok(0.5));
        assert_eq!(pps("672Mbps"), Ok(1_000_000.0));
        assert_eq!(pps("100%").unwrap().round(), 14_880_952.0);
        assert_eq!(pps("10%").unwrap().round(), 1_488_095.0);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for bad in [
            "", "0pps", "-1pps", "NaNpps", "infpps", "1", "1.2.3pps", "1e6pps", "pps", "5 mpps", "101%", "99Gpps",
            "1Mb",
        ] {
            assert!(Rate::parse(bad, 64, Some(1)).is_err(), "{bad}");
        }
        assert!(Rate::parse("10%", 64, None).is_err());
    }

    #[test]
    fn a_unit_in_another_case_is_asked_about() {
        for (written, meant) in [
            ("5Kpps", "5kpps"),
            ("2.5 mpps", "2.5Mpps"),
            ("1GBPS", "1Gbps"),
            ("7PPS", "7pps"),
            ("10KBps", "10kbps"),
        ] {
            let error = Rate::parse(written, 64, None).expect_err(written);
            assert!(error.contains(&format!("did you mean {meant}?")), "{written}: {error}");
        }
        assert!(
            !Rate::parse("5qps", 64, None)
                .expect_err("no unit")
                .contains("did you mean")
        );
    }

    proptest! {
        #[test]
        fn packets_and_time_agree(num in 1u64..20_000_000, den in 1u64..1000, k in 0u64..1_000_000) {
            let Some(rate) = Rate::new(num, den) else { return Ok(()) };
            // Departure k is within the first `t` ns exactly when its time is before t.
            let at = (rate.time_of(k) >> 64) as u64;
            prop_assert!(rate.packets_in(at + 1) > k);
            prop_assert!(rate.packets_in(at) <= k + 1);
        }
    }
}
