//! Configuration of a program, in two forms: the filter that the user writes, and the filter that the program reads.
//!
//! The program's form is constant data, written before the program is loaded. The verifier knows the values and removes
//! the code that they rule out, so a narrow filter costs no more than a program written for it.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::ProgramMode;
use crate::Error;

/// How a program is attached, and what it takes. There is no default: a filter that takes everything cuts the host off.
#[derive(Clone, Debug)]
pub struct ProgramConfig {
    /// Mode of the program: in the driver, or on socket buffers.
    pub mode: ProgramMode,
    /// Which frames go to the sockets. All others go to the host as ever.
    pub filter: Filter,
    /// Writes the time of arrival (8 bytes, little-endian, ns of `CLOCK_MONOTONIC`) in front of each frame. It is read
    /// when the program runs, which is in the driver's poll loop: a software timestamp, but an early one. (The device's
    /// own timestamps need a kernel function that the loader, aya 0.14, can't call yet.) Frames of a driver without
    /// room for it are left to the host and counted in [`Counters::no_metadata`](super::Counters).
    pub rx_timestamp: bool,
    /// Loads the program for frames of several buffers (Linux 6.6), without which a driver refuses an MTU that exceeds
    /// one buffer.
    pub frags: bool,
}

impl ProgramConfig {
    /// Native if the driver can, with this filter, no timestamps, frames of one buffer.
    pub fn new(filter: Filter) -> ProgramConfig {
        ProgramConfig {
            mode: ProgramMode::Auto,
            filter,
            rx_timestamp: false,
            frags: false,
        }
    }
}

/// Which frames a program takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The frames that are taken as such.
    pub take: Take,
    /// Addresses that the sockets' owner answers for, and that the host does not own: ARP requests and replies,
    /// neighbour solicitations and advertisements and ICMP echo for them are taken as well. At most 8 of IPv4 and 8 of
    /// IPv6.
    pub answer: Vec<IpAddr>,
    /// Further addresses of this kind, from one to another of the same family, at most 2^32 - 1.
    pub answer_within: Option<RangeInclusive<IpAddr>>,
}

/// The frames that are taken as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// None: only what [`Filter::answer`] asks for.
    Nothing,
    /// Every frame. The host receives nothing by this device any more.
    All,
    /// Every frame, except what is for the host itself.
    Foreign {
        /// The host's own addresses: frames to them, ARP with one of them as the target and neighbour solicitations for
        /// them are left to the host. At most 8 of IPv4 and 16 of IPv6, see [`crate::device::addresses`].
        own: Vec<IpAddr>,
    },
    /// By protocol, port and address.
    Match(Match),
    /// Frames that end with a tag of this seed, whatever their headers. A tag is the last 16 bytes of a packet:
    /// `bpf/tagged.h` finds and checks it.
    Tagged {
        /// Key of the tag's check.
        seed: u64,
    },
}

/// Conditions that an IPv4 or IPv6 frame must meet to be taken. Fragments are never taken, as only the first contains
/// the ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The IP protocol's number (17: UDP), or any.
    pub protocol: Option<u8>,
    /// The ports of UDP, TCP or SCTP.
    pub ports: Ports,
    /// The IP addresses.
    pub addresses: Addresses,
    /// Ports and addresses may be the source's as well as the destination's. Otherwise only the destination counts.
    pub either: bool,
}

/// Ports that are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// Every port, and protocols without ports.
    #[default]
    Any,
    /// Ports in one of these ranges.
    In(Vec<RangeInclusive<u16>>),
}

/// Addresses that are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Addresses {
    /// Every address.
    #[default]
    Any,
    /// Every destination that is one host's: neither multicast nor broadcast.
    Unicast,
    /// These; at most 8 of IPv4 and 8 of IPv6.
    Of(Vec<IpAddr>),
    /// Addresses from one to another of the same family, at most 2^32 - 1.
    Within(RangeInclusive<IpAddr>),
}

impl Filter {
    /// Every frame.
    pub fn all() -> Filter {
        Take::All.into()
    }

    /// Every frame, except what is for the host itself, whose addresses are given.
    pub fn foreign(own: impl IntoIterator<Item = IpAddr>) -> Filter {
        Take::Foreign {
            own: own.into_iter().collect(),
        }
        .into()
    }

    /// Frames that end with a tag of this seed.
    pub fn tagged(seed: u64) -> Filter {
        Take::Tagged { seed }.into()
    }

    /// UDP to one of the ports of a range, at one of these addresses, or at any that is one host's when none is given.
    pub fn udp(ports: RangeInclusive<u16>, addresses: impl IntoIterator<Item = IpAddr>) -> Filter {
        let addresses: Vec<IpAddr> = addresses.into_iter().collect();
        Take::Match(Match {
            protocol: Some(libc::IPPROTO_UDP as u8),
            ports: Ports::In(vec![ports]),
            addresses: if addresses.is_empty() {
                Addresses::Unicast
            } else {
                Addresses::Of(addresses)
            },
            either: false,
        })
        .into()
    }

    /// The same, and what resolves or pings these addresses.
    pub fn answering(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Filter {
        self.answer.extend(addresses);
        self
    }
}

impl From<Take> for Filter {
    fn from(take: Take) -> Filter {
        Filter {
            take,
            answer: Vec::new(),
            answer_within: None,
        }
    }
}

/// Filter as the program reads it: `struct take_filter` in `xdp/take.h`. The tests compare every field.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Config {
    take: u32,
    flags: u32,
    protocol: u32,
    own4_count: u32,
    own6_count: u32,
    match4_count: u32,
    match6_count: u32,
    answer4_count: u32,
    answer6_count: u32,
    own4: [u32; 8],
    match4: [u32; 8],
    answer4: [u32; 8],
    own6: [[u32; 4]; 16],
    match6: [[u32; 4]; 8],
    answer6: [[u32; 4]; 8],
    reserved: u32,
    match_within: Within,
    answer_within: Within,
}

const _: () = assert!(size_of::<Config>() == 696);

/// Address range as the program reads it: `struct within` in `xdp/within.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Within {
    high: u64,
    low: u64,
    count: u32,
    v6: u32,
}

impl Within {
    /// # Errors
    /// For a range of none, of two families, or of more than there is a number for.
    fn of(what: &'static str, range: &RangeInclusive<IpAddr>) -> Result<Self, Error> {
        let (first, last, v6) = match (*range.start(), *range.end()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => (first.to_bits().into(), last.to_bits().into(), 0),
            (IpAddr::V6(first), IpAddr::V6(last)) => (first.to_bits(), last.to_bits(), 1),
            _ => (1u128, 0, 0),
        };
        let count = last
            .checked_sub(first)
            .and_then(|more| more.checked_add(1))
            .unwrap_or(0);
        let fits = u32::try_from(count).ok().filter(|count| *count > 0);
        Ok(Self {
            high: (first >> 64) as u64,
            low: first as u64,
            count: fits.ok_or_else(|| Error::Invalid {
                what,
                value: u64::try_from(count).unwrap_or(u64::MAX),
                want: format!("1 to {} of one family", u32::MAX),
            })?,
            v6,
        })
    }
}

const TAKE_NOTHING: u32 = 0;
const TAKE_ALL: u32 = 1;
const TAKE_FOREIGN: u32 = 2;
const TAKE_MATCH: u32 = 3;
const PORTS_ANY: u32 = 1 << 0;
const ADDRESSES_ANY: u32 = 1 << 1;
const ADDRESSES_UNICAST: u32 = 1 << 2;
const EITHER: u32 = 1 << 3;
const RX_TIMESTAMP: u32 = 1 << 4;
const PROTOCOL_ANY: u32 = 256;

/// One bit per port: `PORTS` in `redirect.bpf.c`.
pub(super) type PortBits = [u64; 1024];

/// The program's constant data.
pub(super) fn encode(config: &ProgramConfig) -> Result<(Config, Box<PortBits>), Error> {
    let mut out = Config::default();
    let mut bits = Box::new([0; 1024]);
    if config.rx_timestamp {
        out.flags |= RX_TIMESTAMP;
    }
    let answer = &config.filter.answer;
    (out.answer4_count, out.answer6_count) = split(
        "number of answered addresses",
        answer,
        &mut out.answer4,
        &mut out.answer6,
    )?;
    if let Some(range) = &config.filter.answer_within {
        out.answer_within = Within::of("number of answered addresses", range)?;
    }
    match &config.filter.take {
        // The programs for tags ask this filter for what `answer` names only.
        Take::Nothing | Take::Tagged { .. } => out.take = TAKE_NOTHING,
        Take::All => out.take = TAKE_ALL,
        Take::Foreign { own } => {
            out.take = TAKE_FOREIGN;
            (out.own4_count, out.own6_count) = split("number of own addresses", own, &mut out.own4, &mut out.own6)?;
        }
        Take::Match(wanted) => {
            out.take = TAKE_MATCH;
            out.protocol = wanted.protocol.map_or(PROTOCOL_ANY, u32::from);
            match &wanted.ports {
                Ports::Any => out.flags |= PORTS_ANY,
                Ports::In(ranges) => {
                    for port in ranges.iter().cloned().flatten() {
                        bits[usize::from(port / 64)] |= 1 << (port % 64);
                    }
                }
            }
            match &wanted.addresses {
                Addresses::Any => out.flags |= ADDRESSES_ANY,
                Addresses::Unicast => out.flags |= ADDRESSES_UNICAST,
                Addresses::Of(list) => {
                    (out.match4_count, out.match6_count) =
                        split("number of taken addresses", list, &mut out.match4, &mut out.match6)?;
                }
                Addresses::Within(range) => out.match_within = Within::of("number of taken addresses", range)?,
            }
            if wanted.either {
                out.flags |= EITHER;
            }
        }
    }
    Ok((out, bits))
}

impl Filter {
    /// The seed of the tags, if frames are taken by them.
    pub(super) fn seed(&self) -> Option<u64> {
        match self.take {
            Take::Tagged { seed } => Some(seed),
            _ => None,
        }
    }

    /// The filter as constant data of programs in C that include `xdp/take.h`: a `struct take_filter`, and one bit a
    /// port, least significant first.
    ///
    /// # Errors
    /// When there are more addresses than the program has room for, and for [`Take::Tagged`], which is not a filter of
    /// `take.h`.
    pub fn constants(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        if self.seed().is_some() {
            return Err(Error::Unsupported {
                what: "take frames by their tags",
                object: "constants of a filter".into(),
                why: "only the program of this crate finds tags".into(),
            });
        }
        let (config, bits) = encode(&ProgramConfig::new(self.clone()))?;
        let bytes = super::bytes_of(&config);
        Ok((bytes, bits.iter().flat_map(|word| word.to_ne_bytes()).collect()))
    }
}

/// Addresses by family, in network byte order; how many there are of each.
fn split(what: &'static str, list: &[IpAddr], v4: &mut [u32], v6: &mut [[u32; 4]]) -> Result<(u32, u32), Error> {
    let (mut count4, mut count6) = (0, 0);
    for address in list {
        match address {
            IpAddr::V4(a) => {
                if let Some(slot) = v4.get_mut(count4) {
                    *slot = u32::from_ne_bytes(a.octets());
                }
                count4 += 1;
            }
            IpAddr::V6(a) => {
                if let Some(slot) = v6.get_mut(count6) {
                    for (word, bytes) in slot.iter_mut().zip(a.octets().as_chunks::<4>().0) {
                        *word = u32::from_ne_bytes(*bytes);
                    }
                }
                count6 += 1;
            }
        }
    }
    for (have, room, family) in [(count4, v4.len(), "IPv4"), (count6, v6.len(), "IPv6")] {
        if have > room {
            return Err(Error::Invalid {
                what,
                value: have as u64,
                want: format!("at most {room} of {family}"),
            });
        }
    }
    Ok((count4 as u32, count6 as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c_side::{self, layout_of};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_field_lies_where_the_program_has_it() {
        let ours = layout_of!(Config {
            take,
            flags,
            protocol,
            own4_count,
            own6_count,
            match4_count,
            match6_count,
            answer4_count,
            answer6_count,
            own4,
            match4,
            answer4,
            own6,
            match6,
            answer6,
            reserved,
            match_within,
            answer_within
        });
        let theirs = c_side::structs(&super::super::OBJECT.0);
        assert_eq!(ours, theirs["take_filter"]);
        assert_eq!(layout_of!(Within { high, low, count, v6 }), theirs["within"]);
    }

    #[test]
    fn the_object_does_not_carry_its_source() {
        let bytes = c_side::line_info(&super::super::OBJECT.0);
        assert!(bytes < 8192, "{bytes} bytes: scripts/xdp.sh leaves calls alone");
    }

    #[test]
    fn numbers_mean_what_they_mean_to_the_program() {
        let source = include_str!("../../bpf/take.h");
        let named = |list: &[(u32, &str)]| list.iter().map(|&(n, name)| (n.into(), name.to_owned())).collect();
        let take: BTreeMap<u64, String> = named(&[
            (TAKE_NOTHING, "TAKE_NOTHING"),
            (TAKE_ALL, "TAKE_ALL"),
            (TAKE_FOREIGN, "TAKE_FOREIGN"),
            (TAKE_MATCH, "TAKE_MATCH"),
        ]);
        assert_eq!(take, c_side::enumeration(source, "TAKE_ALL"));
        let flags: BTreeMap<u64, String> = named(&[
            (PORTS_ANY, "PORTS_ANY"),
            (ADDRESSES_ANY, "ADDRESSES_ANY"),
            (ADDRESSES_UNICAST, "ADDRESSES_UNICAST"),
            (EITHER, "EITHER"),
            (RX_TIMESTAMP, "RX_TIMESTAMP"),
        ]);
        assert_eq!(flags, c_side::enumeration(source, "EITHER"));
        let any: BTreeMap<u64, String> = named(&[(PROTOCOL_ANY, "PROTOCOL_ANY")]);
        assert_eq!(any, c_side::enumeration(source, "PROTOCOL_ANY"));
    }

    #[test]
    fn addresses_are_kept_in_network_byte_order() {
        let filter = Filter::udp(1..=1, ["10.1.2.3".parse().unwrap(), "fd00::1".parse().unwrap()]);
        let (config, _) = encode(&ProgramConfig::new(filter)).unwrap();
        assert_eq!((config.match4_count, config.match6_count), (1, 1));
        assert_eq!(config.match4[0].to_ne_bytes(), [10, 1, 2, 3]);
        assert_eq!(config.match6[0][0].to_ne_bytes(), [0xfd, 0, 0, 0]);
        assert_eq!(config.match6[0][3].to_ne_bytes(), [0, 0, 0, 1]);
    }

    #[test]
    fn a_range_is_its_first_address_and_how_many_there_are() {
        let range = |first: &str, last: &str| first.parse().unwrap()..=last.parse().unwrap();
        let of = |first, last| Within::of("addresses", &range(first, last));
        let v4 = of("10.1.0.1", "10.1.63.254").unwrap();
        assert_eq!((v4.high, v4.low, v4.count, v4.v6), (0, 0x0a01_0001, 16_382, 0));
        let v6 = of("fd00::ffff:ffff:ffff:ffff", "fd00:0:0:1::").unwrap();
        assert_eq!((v6.high, v6.low, v6.count, v6.v6), (0xfd00 << 48, u64::MAX, 2, 1));
        for (first, last) in [("10.0.0.2", "10.0.0.1"), ("10.0.0.1", "fd00::1"), ("fd00::", "fd01::")] {
            assert!(of(first, last).is_err(), "{first} {last}");
        }
    }

    #[test]
    fn more_addresses_than_the_program_holds_are_refused() {
        let own: Vec<IpAddr> = (0..9).map(|i| IpAddr::from([10, 0, 0, i])).collect();
        let message = encode(&ProgramConfig::new(Filter::foreign(own)))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains('9') && message.contains('8') && message.contains("IPv4"),
            "{message}"
        );
    }

    #[test]
    fn tags_are_no_filter_for_programs_of_others() {
        let error = Filter::tagged(7).constants().unwrap_err().to_string();
        assert!(error.contains("only the program of this crate"), "{error}");
        assert!(Filter::all().constants().is_ok());
    }

    proptest! {
        #[test]
        fn a_port_has_its_bit_when_it_is_in_a_range(
            ranges in prop::collection::vec((any::<u16>(), any::<u16>()), 0..4),
            port: u16,
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(a, b)| a..=b).collect();
            let take = Take::Match(Match { ports: Ports::In(ranges.clone()), ..Match::default() });
            let (_, bits) = encode(&ProgramConfig::new(take.into())).unwrap();
            let set = bits[usize::from(port / 64)] >> (port % 64) & 1 == 1;
            prop_assert_eq!(set, ranges.iter().any(|r| r.contains(&port)));
        }
    }
}
