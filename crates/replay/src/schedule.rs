//! Times at which the packets of a replay are due: those of the capture, at another speed, lap after lap.
//!
//! Each time is worked out by itself from the place in the capture and the number of the lap, as a fraction that is
//! rounded once: no error of one packet is carried to the next, nor from lap to lap.

use crate::reader::Facts;
use std::fmt;
use std::str::FromStr;

/// Speed of a replay, as a fraction of that of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    numerator: u32,
    denominator: u32,
}

/// Text that is no speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("want a number over 0, up to 4294967295 and with 9 digits behind the point at most, such as 2 or 0.5")]
pub struct SpeedError;

impl Speed {
    /// Speed of the capture.
    pub const ONE: Self = Self {
        numerator: 1,
        denominator: 1,
    };

    /// Returns `numerator / denominator`; `None` if one of them is 0.
    pub const fn new(numerator: u32, denominator: u32) -> Option<Self> {
        match numerator == 0 || denominator == 0 {
            true => None,
            false => Some(Self { numerator, denominator }),
        }
    }

    /// Returns the time that `ns` of the capture take, rounded down; `u64::MAX` for all that is longer.
    #[inline]
    fn apply(self, ns: Option<u128>) -> u64 {
        // What overflows here is beyond 2^96 ns at any speed.
        let scaled = ns.and_then(|ns| ns.checked_mul(self.denominator.into()));
        scaled.map_or(u64::MAX, |scaled| {
            u64::try_from(scaled / u128::from(self.numerator)).unwrap_or(u64::MAX)
        })
    }
}

impl Default for Speed {
    fn default() -> Self {
        Self::ONE
    }
}

impl FromStr for Speed {
    type Err = SpeedError;

    /// Reads a decimal number.
    fn from_str(text: &str) -> Result<Self, SpeedError> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > 9 || whole.len() > 10 {
            return Err(SpeedError);
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| SpeedError);
        let denominator = 10u64.pow(part.len() as u32);
        let numerator = number(whole)? * denominator + number(part)?;
        let common = greatest_common_divisor(numerator, denominator);
        let half = |number: u64| u32::try_from(number / common).map_err(|_| SpeedError);
        Self::new(half(numerator)?, half(denominator)?).ok_or(SpeedError)
    }
}

impl fmt::Display for Speed {
    /// Writes a whole number, or a fraction: `3/2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            denominator => write!(f, "{}/{denominator}", self.numerator),
        }
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Schedule of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Packets of a lap.
    packets: u64,
    /// Time from the first packet to the last, ns.
    span_ns: u64,
    /// Time from the last packet of a lap to the first of the next, ns.
    gap_ns: u64,
    /// Number of laps; `None`: without end.
    laps: Option<u64>,
    speed: Speed,
}

impl Schedule {
    /// Schedules so many laps of a capture's packets. From the last packet of a lap to the first of the next it is the
    /// mean interval of the capture, or 0 if that is one packet.
    pub fn new(facts: &Facts, laps: Option<u64>, speed: Speed) -> Self {
        Self {
            packets: facts.packets,
            span_ns: facts.span_ns,
            gap_ns: facts.span_ns / facts.packets.saturating_sub(1).max(1),
            laps,
            speed,
        }
    }

    /// Returns when a packet of a lap (from 0) is due that is due `offset_ns` after the first in the capture: ns after
    /// the start of the replay, rounded down; `u64::MAX` for all that is later.
    #[inline]
    pub fn due_ns(&self, lap: u64, offset_ns: u64) -> u64 {
        let period = u128::from(self.span_ns) + u128::from(self.gap_ns);
        let lap = u128::from(lap).checked_mul(period);
        self.speed.apply(lap.and_then(|lap| lap.checked_add(offset_ns.into())))
    }

    /// Returns the lap of packet `n` of the replay, and its place in the capture, all from 0; `None` behind the last.
    #[inline]
    pub fn place(&self, n: u64) -> Option<(u64, u64)> {
        let lap = n.checked_div(self.packets)?;
        (self.laps.is_none_or(|laps| lap < laps)).then(|| (lap, n % self.packets))
    }

    /// Returns the number of packets of all laps, `u64::MAX` if it is larger; `None`: they have no end.
    pub fn packets(&self) -> Option<u64> {
        match self.packets {
            0 => Some(0),
            packets => self.laps.map(|laps| packets.saturating_mul(laps)),
        }
    }

    /// Returns when the last packet is due, ns after the start; `None`: there is none, or no end.
    pub fn last_ns(&self) -> Option<u64> {
        let lap = self.laps?.checked_sub(1).filter(|_| self.packets > 0)?;
        Some(self.due_ns(lap, self.span_ns))
    }
}
