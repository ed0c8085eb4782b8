//! Flows that a run uses, as the name of an abstract Unix socket: written, read, and compared with another run's.
//!
//! A name has room for 107 bytes. It begins with [`PREFIX`]. The rest is the fields as bytes in base 64, which
//! `/proc/net/unix` shows unchanged. A name of another version has another prefix and is ignored.

use crate::draft::traffic::dashed;
use mpps_io::{AddressRange, addresses as ranges};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Start of each name. The number is the version of the layout.
pub(super) const PREFIX: &str = "mpps1.";
/// Bytes of the fields.
const FIELDS: usize = 75;
/// Value in place of an interface for sockets of the kernel, which receive packets of every interface and VLAN. A raw
/// path takes these packets first.
pub(crate) const ANY_INTERFACE: u32 = u32::MAX;
/// Value in place of a VLAN for frames without a tag. VLAN identifiers end at 4094.
const UNTAGGED: u16 = u16::MAX;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Flows that a run uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// Time when the run asked for its flows, ns since 1970.
    pub(super) since_ns: u64,
    pub(super) run_id: u64,
    /// Index of the interface that packets leave by (0: none of this host's; or [`ANY_INTERFACE`]), and of the one that
    /// they arrive at if that is another.
    pub(super) near: u32,
    pub(super) far: Option<u32>,
    pub(super) vlan: Option<u16>,
    pub(super) srcs: AddressRange,
    pub(super) dests: AddressRange,
    pub(super) src_ports: RangeInclusive<u16>,
    pub(super) dst_ports: RangeInclusive<u16>,
}

/// One end of the flows: addresses and ports.
type End<'c> = (&'c AddressRange, &'c RangeInclusive<u16>);

fn overlap<T: PartialOrd>(a: &RangeInclusive<T>, b: &RangeInclusive<T>) -> bool {
    a.start() <= b.end() && b.start() <= a.end()
}

impl Claim {
    /// Returns the flows on each interface, this host's end first. Packets that arrive at a second interface look like
    /// answers to flows that leave by it with the ends exchanged.
    fn flows(&self) -> impl Iterator<Item = (u32, [End<'_>; 2])> {
        let (src, dst) = ((&self.srcs, &self.src_ports), (&self.dests, &self.dst_ports));
        let far = self.far.map(|far| (far, [dst, src]));
        [(self.near, [src, dst])]
            .into_iter()
            .chain(far)
            .filter(|(on, _)| *on != 0)
    }

    /// Returns whether packets of one run could be mistaken for packets of the other.
    pub(super) fn collides(&self, other: &Self) -> bool {
        let ends = |a: End<'_>, b: End<'_>| overlap(a.0, b.0) && overlap(a.1, b.1);
        let meet = |on, other_on| {
            on == ANY_INTERFACE || other_on == ANY_INTERFACE || on == other_on && self.vlan == other.vlan
        };
        // The kernel binds a socket to its own end, regardless of the other end.
        let bound = |on, other_on| on == ANY_INTERFACE && other_on == ANY_INTERFACE;
        let mut pairs = self.flows().flat_map(|a| other.flows().map(move |b| (a, b)));
        self.srcs.start().is_ipv4() == other.srcs.start().is_ipv4()
            && pairs.any(|((on, a), (other_on, b))| {
                meet(on, other_on) && ends(a[0], b[0]) && (bound(on, other_on) || ends(a[1], b[1]))
            })
    }

    /// Returns whether this run came later. If both came at the same instant, the run's number decides.
    pub(super) fn is_later_than(&self, other: &Self) -> bool {
        (self.since_ns, self.run_id) > (other.since_ns, other.run_id)
    }

    /// Returns the name, at most 107 bytes.
    pub(super) fn name(&self) -> String {
        let mut bytes = Vec::with_capacity(FIELDS);
        bytes.extend(self.since_ns.to_be_bytes());
        bytes.extend(self.run_id.to_be_bytes());
        bytes.extend(self.near.to_be_bytes());
        bytes.extend(self.far.unwrap_or(0).to_be_bytes());
        bytes.extend(self.vlan.unwrap_or(UNTAGGED).to_be_bytes());
        bytes.push(if self.srcs.start().is_ipv4() { 4 } else { 6 });
        for ips in [&self.srcs, &self.dests] {
            let first = match ips.start() {
                IpAddr::V4(ip) => u128::from(ip.to_bits()),
                IpAddr::V6(ip) => ip.to_bits(),
            };
            bytes.extend(first.to_be_bytes());
            bytes.extend((ranges::count(ips) - 1).to_be_bytes());
        }
        for ports in [&self.src_ports, &self.dst_ports] {
            bytes.extend(ports.start().to_be_bytes());
            bytes.extend(ports.end().to_be_bytes());
        }
        format!("{PREFIX}{}", to_base64(&bytes))
    }

    /// Reads a name; `None` if it is not of this version.
    pub(super) fn of_name(name: &[u8]) -> Option<Self> {
        let bytes: [u8; FIELDS] = from_base64(name.strip_prefix(PREFIX.as_bytes())?)?.try_into().ok()?;
        let mut fields = Fields(&bytes);
        let (since_ns, run_id) = (fields.next(8) as u64, fields.next(8) as u64);
        let (near, far) = (fields.next(4) as u32, fields.next(4) as u32);
        let vlan = fields.next(2) as u16;
        let family = fields.next(1);
        let mut ips = || -> Option<AddressRange> {
            let (first, more) = (fields.next(16), fields.next(4) as u32);
            let first: IpAddr = match family {
                4 => IpAddr::V4(u32::try_from(first).ok()?.into()),
                6 => IpAddr::V6(first.into()),
                _ => return None,
            };
            let last = ranges::at(first, more);
            (last >= first).then_some(first..=last)
        };
        let (srcs, dests) = (ips()?, ips()?);
        let mut ports = || {
            let (first, last) = (fields.next(2) as u16, fields.next(2) as u16);
            (first <= last).then_some(first..=last)
        };
        Some(Self {
            since_ns,
            run_id,
            near,
            far: (far != 0).then_some(far),
            vlan: (vlan != UNTAGGED).then_some(vlan),
            srcs,
            dests,
            src_ports: ports()?,
            dst_ports: ports()?,
        })
    }

    /// Returns the flows in words.
    pub(super) fn told(&self) -> String {
        let end = |ips, ports| format!("{} ports {}", ranges::text(ips), dashed(ports));
        format!(
            "{} to {}",
            end(&self.srcs, &self.src_ports),
            end(&self.dests, &self.dst_ports)
        )
    }
}

/// Reader of numbers, most significant byte first.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn next(&mut self, len: usize) -> u128 {
        let (field, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        field.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }
}

/// Encodes bytes in base 64 by RFC 4648, section 5, without padding.
fn to_base64(bytes: &[u8]) -> String {
    let group = |three: &[u8]| {
        let number = three.iter().fold(0usize, |n, byte| n << 8 | usize::from(*byte)) << (8 * (3 - three.len()));
        let digit = move |i: usize| char::from(DIGITS[number >> (18 - 6 * i) & 63]);
        (0..=three.len()).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: &u8| DIGITS.iter().position(|d| d == digit);
    let mut bytes = Vec::new();
    for four in text.chunks(4) {
        let number = four.iter().try_fold(0, |n, digit| Some(n << 6 | value(digit)?))? << (6 * (4 - four.len()));
        bytes.extend((0..four.len() - 1).map(|i| (number >> (16 - 8 * i)) as u8));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(text: &str) -> AddressRange {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        first.parse().expect("an address")..=last.parse().expect("an address")
    }

    fn claim(near: u32, far: Option<u32>, srcs: &str, dests: &str) -> Claim {
        Claim {
            since_ns: 1_700_000_000_000_000_000,
            run_id: u64::MAX,
            near,
            far,
            vlan: None,
            srcs: range(srcs),
            dests: range(dests),
            src_ports: 10_000..=10_063,
            dst_ports: 9000..=9000,
        }
    }

    #[test]
    fn a_name_is_read_as_it_was_written_and_has_room() {
        let six = "fd99:ffff:ffff:ffff:ffff:ffff:ffff:1-fd99:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        for mut claim in [
            claim(2, None, "10.99.0.1", "10.99.0.2"),
            claim(u32::MAX, Some(7), "10.0.0.0-10.255.255.255", "11.0.0.1"),
            claim(3, None, six, "fd99::2"),
        ] {
            for vlan in [None, Some(0), Some(4094)] {
                claim.vlan = vlan;
                let name = claim.name();
                assert!(name.len() <= 107, "{name}");
                assert_eq!(Claim::of_name(name.as_bytes()), Some(claim.clone()), "{name}");
            }
        }
    }

    #[test]
    fn two_collide_only_if_interface_vlan_addresses_and_ports_all_overlap() {
        let first = claim(2, None, "10.99.0.1", "10.99.0.2");
        assert!(first.collides(&first));
        let others: [fn(&mut Claim); 7] = [
            |c| c.near = 3,
            |c| c.vlan = Some(5),
            |c| c.srcs = range("10.99.0.3-10.99.0.9"),
            |c| c.dests = range("10.99.0.1"),
            |c| c.src_ports = 10_064..=10_127,
            |c| c.dst_ports = 9001..=9005,
            |c| (c.srcs, c.dests) = (range("fd99::1"), range("fd99::2")),
        ];
        for change in others {
            let mut other = first.clone();
            change(&mut other);
            assert!(!first.collides(&other) && !other.collides(&first), "{other:?}");
        }
        let mut part = claim(2, None, "10.99.0.0-10.99.0.1", "10.99.0.2-10.99.0.3");
        (part.src_ports, part.dst_ports) = (9_000..=10_000, 8_000..=9_000);
        assert!(first.collides(&part) && part.collides(&first));
    }

    #[test]
    fn two_sockets_collide_by_their_own_ends_as_the_kernel_binds_them() {
        let first = claim(ANY_INTERFACE, None, "10.99.0.1", "10.99.0.2");
        let elsewhere = claim(ANY_INTERFACE, None, "10.99.0.1", "10.99.0.7");
        assert!(first.collides(&elsewhere));
        // A raw path takes only packets that answer its own flows.
        assert!(!claim(2, None, "10.99.0.1", "10.99.0.7").collides(&first));
        let mut others = elsewhere.clone();
        others.src_ports = 10_064..=10_127;
        assert!(!first.collides(&others));
    }

    #[test]
    fn what_arrives_at_a_second_interface_is_held_against_the_answers_that_arrive_there() {
        let across = claim(2, Some(3), "10.99.0.1", "10.99.0.2");
        let mut back = claim(3, None, "10.99.0.2", "10.99.0.1");
        (back.src_ports, back.dst_ports) = (9000..=9000, 10_000..=10_063);
        assert!(across.collides(&back) && back.collides(&across));
        assert!(!across.collides(&claim(3, None, "10.99.0.1", "10.99.0.2")));
        assert!(across.collides(&claim(2, None, "10.99.0.1", "10.99.0.2")));
    }

    #[test]
    fn sockets_collide_with_the_same_flows_on_any_interface_and_vlan() {
        let sockets = claim(ANY_INTERFACE, None, "10.99.0.1", "10.99.0.2");
        let mut tagged = claim(7, None, "10.99.0.1", "10.99.0.2");
        tagged.vlan = Some(5);
        for other in [&claim(2, None, "10.99.0.1", "10.99.0.2"), &tagged, &sockets] {
            assert!(sockets.collides(other) && other.collides(&sockets), "{other:?}");
        }
        assert!(!sockets.collides(&claim(2, None, "10.99.0.3", "10.99.0.2")));
    }

    proptest! {
        #[test]
        fn any_name_is_survived(name in prop::collection::vec(any::<u8>(), 0..120), digits in "[A-Za-z0-9_-]{0,101}") {
            let _ = Claim::of_name(&name);
            let _ = Claim::of_name(format!("{PREFIX}{digits}").as_bytes()).map(|claim| claim.told());
        }

        #[test]
        fn bytes_come_back_from_their_digits(bytes in prop::collection::vec(any::<u8>(), 0..90)) {
            prop_assert_eq!(from_base64(to_base64(&bytes).as_bytes()), Some(bytes));
        }
    }
}
