//! A rate as the user wrote it. The number of packets depends on their size. For a share it also depends on the
//! link's speed, which is known only once the port is open.

use mpps_io::Rate;
use mpps_sys::text::comma_in_number;
use mpps_wire::FrameSize;
use std::fmt;

const WANT: &str = "a number above 0 with pps, kpps, Mpps, Gpps, bps, kbps, Mbps, Gbps or %, such as 3.5Mpps";

/// Name, scale, and constructor of the amount (packets or bits).
type Unit = (&'static str, u64, fn(Fraction) -> Amount);

const UNITS: [Unit; 8] = [
    ("pps", 1, Amount::Packets),
    ("kpps", 1_000, Amount::Packets),
    ("Mpps", 1_000_000, Amount::Packets),
    ("Gpps", 1_000_000_000, Amount::Packets),
    ("bps", 1, Amount::Bits),
    ("kbps", 1_000, Amount::Bits),
    ("Mbps", 1_000_000, Amount::Bits),
    ("Gbps", 1_000_000_000, Amount::Bits),
];

/// Exact number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fraction {
    num: u128,
    den: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    /// Packets per second.
    Packets(Fraction),
    /// Bits per second on layer 1: preamble and inter-frame gap count.
    Bits(Fraction),
    /// Share of the link's speed on layer 1: 0 to 1.
    Share(Fraction),
}

/// Rate as the user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateText {
    written: String,
    amount: Amount,
}

impl RateText {
    /// Returns a rate of `packets` per second, 1 or more.
    pub fn pps(packets: u64) -> Self {
        Self {
            written: format!("{packets}pps"),
            amount: Amount::Packets(Fraction {
                num: packets.into(),
                den: 1,
            }),
        }
    }

    /// Reads `1.5Mpps`, `250 kbps` or `10%`.
    ///
    /// # Errors
    /// One line on what would be right.
    pub fn parse(written: &str) -> Result<Self, String> {
        let text = written.trim();
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
        let comma = comma_in_number(text);
        if !comma.is_empty() {
            return Err(format!("{WANT}{comma}"));
        }
        let Fraction { num, den } = decimal(number).ok_or_else(|| WANT.to_owned())?;
        if num == 0 {
            return Err(format!("{WANT}; without --rate as fast as the path takes packets"));
        }
        let amount = match (UNITS.iter().find(|(name, ..)| *name == unit), unit) {
            (Some((_, scale, of)), _) => {
                let num = num * u128::from(*scale);
                of(Fraction { num, den })
            }
            (None, "%") if num > 100 * den => return Err("at most 100%".to_owned()),
            (None, "%") => Amount::Share(Fraction { num, den: 100 * den }),
            (None, "") => return Err(format!("{WANT} (the unit is missing)")),
            (None, _) => {
                // `m` is milli, which nobody means. A unit in another case is a slip: ask whether the right one was
                // meant.
                let like = UNITS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(unit));
                let why = match like {
                    Some((name, ..)) => format!("unknown unit '{unit}': did you mean {number}{name}?"),
                    None => format!("unknown unit '{unit}'"),
                };
                return Err(format!("{WANT} ({why})"));
            }
        };
        let written = written.to_owned();
        Ok(Self { written, amount })
    }

    /// Returns the rate in packets per second, for packets of `frame_size` bytes (with FCS) on a link of `link_bps`.
    ///
    /// # Errors
    /// One line on what would be right: the rate can't be kept, or it needs the link's speed, which is not known.
    pub fn resolve(&self, frame_size: usize, link_bps: Option<u64>) -> Result<Rate, String> {
        self.resolve_mix((frame_size as u64, 1), link_bps)
    }

    /// Returns the rate as [`RateText::resolve`] does, for frames of several sizes: the sum of their bytes (with FCS),
    /// and their number.
    ///
    /// # Errors
    /// Returns the errors of [`RateText::resolve`].
    pub fn resolve_mix(&self, (bytes, frames): (u64, u64), link_bps: Option<u64>) -> Result<Rate, String> {
        let overhead = FrameSize::L1_OVERHEAD as u128 * 8;
        let (bits, frames) = (
            u128::from(bytes) * 8 + overhead * u128::from(frames),
            u128::from(frames),
        );
        let (num, den) = match self.amount {
            Amount::Packets(Fraction { num, den }) => (num, den),
            Amount::Bits(Fraction { num, den }) => (num * frames, den * bits),
            Amount::Share(Fraction { num, den }) => {
                let link = link_bps.ok_or("a rate in pps or bps: the device does not tell its link speed")?;
                (num * u128::from(link) * frames, den * bits)
            }
        };
        let divisor = gcd(num, den).max(1);
        match (u64::try_from(num / divisor), u64::try_from(den / divisor)) {
            (Ok(num), Ok(den)) => Rate::new(num, den).ok_or_else(|| format!("{WANT}, from 0.001 pps to 10 Gpps")),
            _ => Err(format!("{WANT}, with fewer digits")),
        }
    }

    /// Returns whether the rate is a share of the link's speed.
    pub fn is_share(&self) -> bool {
        matches!(self.amount, Amount::Share(_))
    }

    /// Returns the rate in packets per second, for packets of so many bytes on layer 1; `None` for a share of the
    /// link's speed.
    pub fn packets_per_second(&self, layer1_bytes: f64) -> Option<f64> {
        match self.amount {
            Amount::Packets(Fraction { num, den }) => Some(num as f64 / den as f64),
            Amount::Bits(Fraction { num, den }) => Some(num as f64 / den as f64 / (layer1_bytes * 8.0)),
            Amount::Share(_) => None,
        }
    }

    /// Returns the rate while the link's speed is not known; `None` for a share of that speed.
    ///
    /// # Errors
    /// Like [`RateText::resolve`].
    pub fn known(&self, frame_size: usize) -> Result<Option<Rate>, String> {
        match self.amount {
            Amount::Share(_) => Ok(None),
            _ => self.resolve(frame_size, None).map(Some),
        }
    }
}

impl fmt::Display for RateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// Parses a decimal number as a fraction; `None` if it is not a number or has over 18 digits.
fn decimal(text: &str) -> Option<Fraction> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() + fraction.len() > 18 || fraction.contains('.') {
        return None;
    }
    Some(Fraction {
        num: format!("{whole}{fraction}").parse().ok()?,
        den: 10u128.pow(fraction.len() as u32),
    })
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str, frame_size: usize, link_bps: Option<u64>) -> Result<Rate, String> {
        RateText::parse(text)?.resolve(frame_size, link_bps)
    }

    #[test]
    fn rates_are_read_in_every_unit() {
        let pps = |text: &str| rate(text, 64, Some(10_000_000_000)).map(|rate| rate.pps());
        assert_eq!(pps("3.5Mpps"), Ok(3_500_000.0));
        assert_eq!(pps("250 kpps"), Ok(250_000.0));
        assert_eq!(pps("0.5pps"), Ok(0.5));
        assert_eq!(pps("672Mbps"), Ok(1_000_000.0));
        assert_eq!(pps("100%").unwrap().round(), 14_880_952.0);
        assert_eq!(pps("10%").unwrap().round(), 1_488_095.0);
        assert_eq!(RateText::parse("250 kpps").unwrap().to_string(), "250 kpps");
    }

    #[test]
    fn what_is_no_rate_is_refused_before_frame_and_link_are_known() {
        for bad in [
            "", "0pps", "-1pps", "NaNpps", "infpps", "1", "1.2.3pps", "1e6pps", "pps", "5 mpps", "1Mb", "101%", "x%",
            "%", "0%", "-1%", "1.2.3%", "1e1%", "10%%",
        ] {
            assert!(RateText::parse(bad).is_err(), "{bad}");
        }
        assert!(rate("99Gpps", 64, None).is_err());
        assert!(rate("0.00001bps", 64, None).is_err());
        assert!(
            rate("10%", 64, None)
                .unwrap_err()
                .contains("does not tell its link speed")
        );
        assert!(rate("0.00000000000000001Mpps", 64, None).is_err());
    }

    #[test]
    fn a_share_is_known_once_the_link_is() {
        let known = |text: &str| RateText::parse(text).unwrap().known(64);
        assert_eq!(known("10%"), Ok(None));
        assert_eq!(known("672Mbps"), Ok(Rate::new(1_000_000, 1)));
        assert_eq!(known("1kpps"), Ok(Rate::new(1000, 1)));
        assert!(known("99Gpps").is_err());
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
            let error = RateText::parse(written).expect_err(written);
            assert!(error.contains(&format!("did you mean {meant}?")), "{written}: {error}");
        }
        assert!(!RateText::parse("5qps").expect_err("no unit").contains("did you mean"));
    }
}
