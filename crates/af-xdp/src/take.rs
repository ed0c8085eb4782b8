//! Which packets the XDP program takes from the host.

use std::net::IpAddr;
use std::ops::RangeInclusive;

/// What the XDP program takes; everything else goes to the host as ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// Nothing: the port only sends (and answers for [`Taken::answer`]).
    Nothing,
    /// UDP to one of these addresses (none given: to any one host) and ports.
    Udp {
        /// Destination addresses, at most 8 of a family; empty: any that is one host's.
        addresses: Vec<IpAddr>,
        /// Destination ports.
        ports: RangeInclusive<u16>,
        /// Ports within `ports` that the host keeps.
        excluded: Vec<u16>,
    },
    /// What has one of these addresses and ports as source or as destination.
    Either {
        /// IP protocol; `None`: any.
        protocol: Option<u8>,
        /// Addresses, at most 8 of a family; empty: any.
        addresses: Vec<IpAddr>,
        /// Ports of UDP or TCP; `None`: any, and packets without one.
        ports: Option<RangeInclusive<u16>>,
    },
    /// Every frame but those for the host's own addresses.
    Foreign,
    /// Every frame.
    All,
}

/// What the XDP program takes, and what the lanes answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The test's packets.
    pub take: Take,
    /// Addresses that the host does not have: ARP, neighbour discovery and ping for them are taken as well.
    pub answer: Vec<IpAddr>,
}

impl Taken {
    /// Whether any packet may be taken at all.
    pub(crate) fn anything(&self) -> bool {
        self.take != Take::Nothing || !self.answer.is_empty()
    }
}

/// Addresses that the XDP program can leave to the host, IPv4 and IPv6.
const MOST_OWN: [usize; 2] = [8, 16];

/// The first addresses of each family that the program has room for, `certain` of them in any case, and how many there
/// were more.
pub(crate) fn own(all: Vec<IpAddr>, certain: usize) -> (Vec<IpAddr>, usize) {
    let (mut count, mut place, total) = ([0; 2], 0, all.len());
    let mut left = all;
    left.retain(|ip| {
        let family = usize::from(ip.is_ipv6());
        count[family] += 1;
        place += 1;
        place <= certain || count[family] <= MOST_OWN[family]
    });
    let more = total - left.len();
    (left, more)
}

/// Ports `range` without those of `excluded`, as ranges.
pub(crate) fn without(range: &RangeInclusive<u16>, excluded: &[u16]) -> Vec<RangeInclusive<u16>> {
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
    use super::{own, without};
    use std::net::IpAddr;

    #[test]
    fn addresses_are_left_out_for_want_of_room_but_never_those_that_are_certain() {
        let all: Vec<IpAddr> = (0..12)
            .map(|i| [10, 0, 0, i].into())
            .chain(["fd00::1".parse().expect("IPv6")])
            .collect();
        let (left, more) = own(all.clone(), 2);
        assert_eq!((left.len(), more), (9, 4));
        assert_eq!(left.last(), all.last());
        assert_eq!(own(all.clone(), 10), ([&all[..10], &all[12..]].concat(), 2));
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
