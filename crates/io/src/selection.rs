//! Which packets are the test's: one type, from which the guard, the XDP filters, the constants of the programs in the
//! kernel and the lanes' own filters are all made.

use crate::{AddressRange, addresses};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Which packets are the test's. All others are the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// None: the port only sends.
    Nothing,
    /// UDP to an end of the test.
    Udp {
        /// Destination addresses.
        to: To,
        /// Destination ports; `None`: any.
        ports: Option<RangeInclusive<u16>>,
        /// Ports within `ports` that programs of the host have open, ascending: packets to them are the host's.
        excluded: Vec<u16>,
        /// Source of the packets, if it is known.
        from: Option<From>,
    },
    /// Packets that have this address and one of these ports as source or as destination.
    Either {
        /// IP protocol; `None`: any.
        protocol: Option<u8>,
        /// `None`: any.
        ip: Option<IpAddr>,
        /// Ports of UDP or TCP; `None`: any, and packets without one.
        ports: Option<RangeInclusive<u16>>,
    },
    /// Frames that end with a tag of this seed, whatever their headers.
    Tagged {
        /// Seed of the run, which keys the tag's check.
        seed: u64,
        /// Packets of streams without a tag, which are the test's as well.
        headers: Vec<Headers>,
    },
    /// Every frame but those for the host's own addresses.
    Foreign,
    /// Every frame.
    All,
}

/// Packets of a stream without a tag, by what follows Ethernet and VLAN tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Protocol of IP.
    pub protocol: u8,
    /// Source addresses. Empty: any.
    pub from: Vec<AddressRange>,
    /// Source ports; of other protocols than UDP and TCP all.
    pub from_ports: RangeInclusive<u16>,
    /// Destination addresses. Empty: any.
    pub to: Vec<AddressRange>,
    /// Destination ports.
    pub to_ports: RangeInclusive<u16>,
}

impl Headers {
    /// Returns the same with the ends exchanged.
    pub fn turned(self) -> Self {
        Self {
            protocol: self.protocol,
            from: self.to,
            from_ports: self.to_ports,
            to: self.from,
            to_ports: self.from_ports,
        }
    }
}

/// Destination addresses of a [`Selection`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// Any address that is one host's.
    Any,
    /// The interface's own addresses. The filter between host and lanes looks them up; the lanes take whatever comes.
    Own(Vec<IpAddr>),
    /// The addresses that were named: no others, in any filter.
    Only(AddressRange),
}

impl To {
    /// The addresses, none for any.
    pub fn addresses(&self) -> Vec<AddressRange> {
        match self {
            Self::Any => Vec::new(),
            Self::Own(all) => all.iter().copied().map(addresses::one).collect(),
            Self::Only(range) => vec![range.clone()],
        }
    }

    /// The addresses that an XDP program looks for: none if they are more than it has room for
    /// ([`MOST_ADDRESSES`] of a family), which means any.
    pub fn with_room(&self) -> Listed {
        let listed = Listed::of(&self.addresses());
        let v4 = listed.single.iter().filter(|ip| ip.is_ipv4()).count();
        match v4.max(listed.single.len() - v4) > MOST_ADDRESSES {
            true => Listed::default(),
            false => listed,
        }
    }
}

/// Addresses as an XDP program has them: some one by one, and a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// One by one.
    pub single: Vec<IpAddr>,
    /// From one to another.
    pub range: Option<AddressRange>,
}

impl Listed {
    /// Splits `ranges` into single addresses and the first longer range: a port of a test has no second one.
    pub fn of(ranges: &[AddressRange]) -> Self {
        Self {
            single: ranges.iter().filter_map(addresses::only).collect(),
            range: ranges.iter().find(|range| addresses::only(range).is_none()).cloned(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.single.is_empty() && self.range.is_none()
    }
}

/// Source of a test's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct From {
    /// The peer's addresses.
    pub ips: AddressRange,
    /// The peer's UDP ports.
    pub ports: RangeInclusive<u16>,
}

impl Selection {
    /// Whether any packet is the test's.
    pub fn is_empty(&self) -> bool {
        *self == Self::Nothing
    }
}

/// Destination addresses of each family that an XDP program has room for.
pub const MOST_ADDRESSES: usize = 8;

/// Addresses that an XDP program which takes [`Selection::Foreign`] can leave to the host: IPv4, IPv6.
pub const MOST_LEFT: [usize; 2] = [8, 16];

/// The first addresses of each family that a program has room for ([`MOST_LEFT`]), the first `certain` of all in any
/// case, and how many there were more.
pub fn left_to_host(all: Vec<IpAddr>, certain: usize) -> (Vec<IpAddr>, usize) {
    let (mut count, mut place, total) = ([0; 2], 0, all.len());
    let mut left = all;
    left.retain(|ip| {
        let family = usize::from(ip.is_ipv6());
        count[family] += 1;
        place += 1;
        place <= certain || count[family] <= MOST_LEFT[family]
    });
    let more = total - left.len();
    (left, more)
}

/// Ports `range` without those of `excluded`, as ranges.
pub fn without(range: &RangeInclusive<u16>, excluded: &[u16]) -> Vec<RangeInclusive<u16>> {
    let mut left = Vec::new();
    let mut excluded: Vec<u16> = excluded.iter().copied().filter(|port| range.contains(port)).collect();
    excluded.sort_unstable();
    excluded.dedup();
    let mut from = u32::from(*range.start());
    for port in excluded.into_iter().map(u32::from) {
        if port > from {
            left.push(from as u16..=(port - 1) as u16);
        }
        from = port + 1;
    }
    if from <= u32::from(*range.end()) {
        left.push(from as u16..=*range.end());
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_left_out_for_want_of_room_but_never_those_that_are_certain() {
        let all: Vec<IpAddr> = (0..12)
            .map(|i| [10, 0, 0, i].into())
            .chain(["fd00::1".parse().expect("IPv6")])
            .collect();
        let (left, more) = left_to_host(all.clone(), 2);
        assert_eq!((left.len(), more), (9, 4));
        assert_eq!(left.last(), all.last());
        assert_eq!(left_to_host(all.clone(), 10), ([&all[..10], &all[12..]].concat(), 2));
    }

    #[test]
    fn more_addresses_than_a_program_has_room_for_mean_any() {
        let all = |n| To::Own((0..n).map(|i| [10, 0, 0, i].into()).collect());
        assert_eq!(all(8).with_room().single.len(), 8);
        assert!(all(9).with_room().is_empty());
        assert_eq!(all(9).addresses().len(), 9);
    }

    #[test]
    fn a_range_takes_one_place_however_long_it_is() {
        let named = |count| To::Only(addresses::from([10, 0, 0, 1].into(), count)).with_room();
        assert_eq!(
            named(16_382).range,
            Some([10, 0, 0, 1].into()..=[10, 0, 63, 254].into())
        );
        assert_eq!((named(1).single, named(1).range), (vec![[10, 0, 0, 1].into()], None));
    }

    #[test]
    fn excluded_ports_are_left_out_of_the_range_and_nothing_else() {
        let excluded = [5, 1, 9, 9, 40, 7];
        let left = without(&(1..=9), &excluded);
        let ports: Vec<u16> = left.into_iter().flatten().collect();
        assert_eq!(ports, [2, 3, 4, 6, 8]);
        assert_eq!(without(&(65535..=65535), &[65535]), []);
        assert_eq!(without(&(1..=u16::MAX), &[]), [1..=u16::MAX]);
    }
}
