//! Capture file in place of a packet: what of it is sent, when, and what is changed.

use crate::grammar::Packet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Packets of a capture file, in place of one packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Pcap {
    /// Path of the file, from the current folder.
    pub path: String,
    /// Size of the file, bytes, if it must have that one.
    pub size: Option<u64>,
    /// SHA-256 of the file as 64 hexadecimal digits, if it must have that one.
    pub sha256: Option<String>,
    /// Speed, as a multiple of that of the capture.
    pub speed: Speed,
    /// Packets leave as fast as the path takes them.
    pub flat_out: bool,
    /// Times that the packets are sent; `None`: without end.
    pub loops: Option<u64>,
    /// Time from the last packet of a loop to the first of the next, before the speed; `None`: the mean interval.
    pub gap: Option<Duration>,
    /// Number of the first packet, from 1.
    pub first: u64,
    /// Number of the last packet; `None`: that of the file.
    pub last: Option<u64>,
    /// Packets that are sent; `None`: all.
    pub only: Option<Packet>,
    /// Headers that are changed.
    pub rewrite: Option<Packet>,
    /// Treatment of the VLAN tags in [`Pcap::rewrite`].
    pub vlans: Vlans,
    /// Difference of ports from loop to loop.
    pub shift: u16,
    /// Packets that were not captured whole are filled up with zeros; else they are refused.
    pub pad: bool,
    /// The file is read while it is sent; else it is in memory, unless that is too small.
    pub ahead: bool,
}

impl Default for Pcap {
    fn default() -> Self {
        Self {
            path: String::new(),
            size: None,
            sha256: None,
            speed: Speed::ONE,
            flat_out: false,
            loops: Some(1),
            gap: None,
            first: 1,
            last: None,
            only: None,
            rewrite: None,
            vlans: Vlans::Set,
            shift: 0,
            pad: false,
            ahead: false,
        }
    }
}

/// Treatment of the VLAN tags of a text that changes headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vlans {
    /// Frames have the text's tags then, outermost: one that is there is kept, and its written fields are set; one that
    /// is not is put on. Tags behind them are kept.
    #[default]
    Set,
    /// All tags of the text are put on in front of those that a frame has.
    Push,
    /// All tags of a frame are taken off, and those of the text are put on, if it has any.
    Replace,
}

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

    /// Returns numerator and denominator.
    pub const fn parts(self) -> (u32, u32) {
        (self.numerator, self.denominator)
    }
}

impl Default for Speed {
    fn default() -> Self {
        Self::ONE
    }
}

impl FromStr for Speed {
    type Err = SpeedError;

    /// Reads a decimal number, or a fraction: `3/2`.
    fn from_str(text: &str) -> Result<Self, SpeedError> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (numerator, denominator) = match text.split_once('/') {
            Some((numerator, denominator)) if digits(numerator) && digits(denominator) => {
                let number = |text: &str| text.parse::<u64>().map_err(|_| SpeedError);
                (number(numerator)?, number(denominator)?)
            }
            Some(_) => return Err(SpeedError),
            None => {
                let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
                if !digits(whole) || !digits(part) || part.len() > 9 || whole.len() > 10 {
                    return Err(SpeedError);
                }
                let number = |text: &str| text.parse::<u64>().map_err(|_| SpeedError);
                let denominator = 10u64.pow(part.len() as u32);
                (number(whole)? * denominator + number(part)?, denominator)
            }
        };
        let common = greatest_common_divisor(numerator, denominator).max(1);
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
