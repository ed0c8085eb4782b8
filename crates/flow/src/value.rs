//! Values in words and back.

use crate::bits::ones;
use crate::fields::{Field, Kind};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A word as messages show it: on one line, and not longer than one.
pub(crate) fn quoted(word: &str) -> String {
    const MOST: usize = 48;
    let shown: String = word.chars().take(MOST).flat_map(char::escape_debug).collect();
    let more = if word.chars().nth(MOST).is_some() { "…" } else { "" };
    format!("'{shown}{more}'")
}

/// A number in decimal or, after `0x`, in hexadecimal. `Err` says what would be right.
pub(crate) fn number(word: &str, most: u128) -> Result<u128, String> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let (digits, radix) = digits.map_or((word, 10), |digits| (digits, 16));
    if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
        return Err("want no zero in front, which testpmd reads as octal".into());
    }
    let range = || {
        if most > 9999 {
            format!("want 0 to {most} or {most:#x}")
        } else {
            format!("want 0 to {most}")
        }
    };
    // The standard library takes a sign, too.
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(range());
    }
    let value = u128::from_str_radix(digits, radix).map_err(|_| range())?;
    Some(value).filter(|value| *value <= most).ok_or_else(range)
}

/// A MAC address, six pairs of hexadecimal digits between colons.
fn mac(word: &str) -> Option<u128> {
    let mut value = 0;
    let mut pairs = 0;
    for pair in word.split(':') {
        let digits = (1..=2).contains(&pair.len()) && pair.bytes().all(|b| b.is_ascii_hexdigit());
        value = value << 8 | u128::from_str_radix(pair, 16).ok().filter(|_| digits && pairs < 6)?;
        pairs += 1;
    }
    (pairs == 6).then_some(value)
}

impl Field {
    /// Reads a value of this field. `Err` says what would be right.
    pub(crate) fn parse(&self, word: &str) -> Result<u128, String> {
        match self.kind {
            Kind::Decimal | Kind::Hex => number(word, ones(self.width)),
            Kind::Mac => mac(word).ok_or_else(|| "want a MAC address, such as 02:00:00:00:00:01".into()),
            Kind::Ipv4 => {
                let address = word.parse().map(Ipv4Addr::to_bits).map(u128::from).ok();
                // Masks are often written as one number.
                let number = || word.starts_with("0x").then(|| number(word, ones(32)).ok()).flatten();
                address
                    .or_else(number)
                    .ok_or_else(|| "want an IPv4 address, such as 10.99.0.2".into())
            }
            Kind::Ipv6 => {
                let address = word.parse().map(Ipv6Addr::to_bits).ok();
                address.ok_or_else(|| "want an IPv6 address, such as fd99::2".into())
            }
        }
    }

    /// The mask of a prefix. `Err` says what would be right.
    pub(crate) fn prefix(&self, word: &str) -> Result<u128, String> {
        let length = number(word, self.width.into())? as u32;
        Ok(ones(self.width) ^ ones(self.width - length))
    }

    /// A value in words.
    pub(crate) fn tell(&self, value: u128) -> String {
        match self.kind {
            Kind::Decimal => value.to_string(),
            Kind::Hex => format!("{value:#x}"),
            Kind::Mac => {
                let pairs = (0..6).rev().map(|i| format!("{:02x}", (value >> (8 * i)) as u8));
                pairs.collect::<Vec<_>>().join(":")
            }
            Kind::Ipv4 => Ipv4Addr::from_bits(value as u32).to_string(),
            Kind::Ipv6 => Ipv6Addr::from_bits(value).to_string(),
        }
    }

    /// A mask in words.
    pub(crate) fn tell_mask(&self, mask: u128) -> String {
        match self.kind {
            Kind::Decimal | Kind::Hex => format!("{mask:#x}"),
            _ => self.tell(mask),
        }
    }
}
