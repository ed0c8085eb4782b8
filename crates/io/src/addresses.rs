//! Ranges of addresses, first and last included, as places in them.

use std::net::IpAddr;
use std::ops::RangeInclusive;

/// The addresses from one to another of its family.
pub type AddressRange = RangeInclusive<IpAddr>;

/// The range of one address.
pub fn one(ip: IpAddr) -> AddressRange {
    ip..=ip
}

/// The address `places` behind another; beyond the last of its family it goes on with the first.
#[inline]
pub fn at(first: IpAddr, places: u32) -> IpAddr {
    match first {
        IpAddr::V4(ip) => IpAddr::V4(ip.to_bits().wrapping_add(places).into()),
        IpAddr::V6(ip) => IpAddr::V6(ip.to_bits().wrapping_add(places.into()).into()),
    }
}

/// How many places behind `first` an address of its family lies; `None`: before it, or too far.
#[inline]
pub fn place(first: IpAddr, ip: IpAddr) -> Option<u32> {
    match (first, ip) {
        (IpAddr::V4(first), IpAddr::V4(ip)) => ip.to_bits().checked_sub(first.to_bits()),
        (IpAddr::V6(first), IpAddr::V6(ip)) => {
            let places = ip.to_bits().checked_sub(first.to_bits())?;
            u32::try_from(places).ok()
        }
        _ => None,
    }
}

/// `count` addresses, 1 or more, from `first` on.
pub fn from(first: IpAddr, count: u32) -> AddressRange {
    first..=at(first, count - 1)
}

/// How many addresses there are; [`u32::MAX`] if it is that many or more.
pub fn count(range: &AddressRange) -> u32 {
    place(*range.start(), *range.end()).map_or(u32::MAX, |last| last.saturating_add(1))
}

/// The one address of a range that has no more.
pub fn only(range: &AddressRange) -> Option<IpAddr> {
    (range.start() == range.end()).then_some(*range.start())
}

/// Returns the range as text: one address, or first and last, as a user writes it.
pub fn text(range: &AddressRange) -> String {
    match only(range) {
        Some(ip) => ip.to_string(),
        None => format!("{}-{}", range.start(), range.end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn places_are_counted_across_bytes_and_only_within_a_family() {
        assert_eq!(at(ip("10.0.0.250"), 10), ip("10.0.1.4"));
        assert_eq!(place(ip("10.0.0.250"), ip("10.0.1.4")), Some(10));
        assert_eq!(at(ip("fd00::ffff:ffff:ffff:ffff"), 1), ip("fd00:0:0:1::"));
        assert_eq!(place(ip("fd00::ffff:ffff:ffff:ffff"), ip("fd00:0:0:1::")), Some(1));
        assert_eq!(place(ip("10.0.0.2"), ip("10.0.0.1")), None);
        assert_eq!(place(ip("fd00::"), ip("fd01::")), None);
        assert_eq!(place(ip("::"), ip("0.0.0.0")), None);
    }

    #[test]
    fn ranges_know_their_length_and_are_written_as_they_were_given() {
        assert_eq!(count(&from(ip("10.1.0.1"), 16_382)), 16_382);
        assert_eq!(text(&from(ip("10.1.0.1"), 16_382)), "10.1.0.1-10.1.63.254");
        assert_eq!(text(&one(ip("fd00::1"))), "fd00::1");
        assert_eq!(count(&(ip("::")..=ip("ffff::"))), u32::MAX);
    }
}
