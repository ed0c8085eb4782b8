//! Ethernet addresses.

use core::fmt;
use core::str::FromStr;

/// An Ethernet (EUI-48) address in the order of transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// `00:00:00:00:00:00`, never the address of a station.
    pub const ZERO: Self = Self([0; 6]);

    /// True for group addresses: multicast and broadcast (IEEE 802, the I/G bit).
    #[inline]
    pub const fn is_multicast(&self) -> bool {
        self.0[0] & 1 != 0
    }

    /// True for an address that one station can have: neither a group nor all zero.
    #[inline]
    pub const fn is_unicast(&self) -> bool {
        !self.is_multicast() && !matches!(self.0, [0, 0, 0, 0, 0, 0])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Text that is not a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("want six bytes in hexadecimal, such as 02:00:00:00:00:01 or 02-00-00-00-00-01")]
pub struct MacParseError;

impl FromStr for MacAddr {
    type Err = MacParseError;

    /// Reads six groups of two hexadecimal digits, all separated by `:` or all by `-`.
    fn from_str(text: &str) -> Result<Self, MacParseError> {
        let text: &[u8; 17] = text.as_bytes().try_into().map_err(|_| MacParseError)?;
        let separator = text[2];
        if separator != b':' && separator != b'-' {
            return Err(MacParseError);
        }
        let digit = |d: u8| char::from(d).to_digit(16).map(|v| v as u8).ok_or(MacParseError);
        let mut mac = [0; 6];
        for (i, byte) in mac.iter_mut().enumerate() {
            if i > 0 && text[3 * i - 1] != separator {
                return Err(MacParseError);
            }
            *byte = digit(text[3 * i])? << 4 | digit(text[3 * i + 1])?;
        }
        Ok(Self(mac))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_and_address_are_each_others_inverse(mac: [u8; 6]) {
            let text = MacAddr(mac).to_string();
            prop_assert_eq!(text.parse(), Ok(MacAddr(mac)));
            prop_assert_eq!(text.to_uppercase().replace(':', "-").parse(), Ok(MacAddr(mac)));
        }

        #[test]
        fn arbitrary_text_is_refused_or_read_without_panic(text in "\\PC{0,20}") {
            let _ = text.parse::<MacAddr>();
        }
    }

    #[test]
    fn malformed_addresses_are_refused() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:0",
            "02:00:00:00:00:001",
            "02:00:00-00:00:00",
            "02.00.00.00.00.00",
            "020000000000",
            "+2:00:00:00:00:00",
            "0g:00:00:00:00:00",
            "02:00:00:00:00:00:00",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(MacParseError), "{text}");
        }
    }

    #[test]
    fn group_bit_tells_multicast() {
        assert!(MacAddr::BROADCAST.is_multicast());
        assert!(MacAddr([0x33, 0x33, 0, 0, 0, 1]).is_multicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast());
        assert!(!MacAddr::ZERO.is_unicast());
    }
}
