//! Ends of a stream's packets on the link: MAC addresses, VLAN tags, and the addresses of the outermost IP header.

use super::layout::named;
use super::{Form, get_bits, set_bits};
use crate::headers::{Field, HeaderKind, Kind, Role};
use crate::value::{Source, ones};
use mpps_wire::MacAddr;
use mpps_wire::changes::{FieldAt, FieldKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Most ranges of addresses that one field may have.
const MOST_RANGES: usize = 4096;

/// Addresses of one end, lowest and highest of each range.
pub type Ranges = Vec<RangeInclusive<IpAddr>>;

/// Outermost IP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OuterIp {
    /// IPv6, else IPv4.
    pub v6: bool,
    /// Source addresses; `None`: the packet's text has none.
    pub src: Option<Ranges>,
    /// Destination addresses; `None`: the packet's text has none.
    pub dst: Option<Ranges>,
}

/// Tag of a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// Service tag (802.1ad), else customer tag (802.1Q).
    pub service: bool,
    /// Identifier in the first packet.
    pub vid: u16,
    /// Whether the identifier varies.
    pub varies: bool,
}

impl Form {
    /// Returns the first destination and source MAC address, if the packet's text has them.
    pub fn macs(&self) -> [Option<MacAddr>; 2] {
        ["dst", "src"].map(|name| {
            let (bit, width) = self.written(0, name)?;
            let mut bytes = [0; 6];
            bytes.copy_from_slice(&self.first_value(bit, width).to_be_bytes()[10..]);
            (width == 48).then_some(MacAddr(bytes))
        })
    }

    /// Returns the VLAN tags in front of all other headers.
    pub fn vlans(&self) -> Vec<VlanTag> {
        let tags = self.headers.iter().enumerate().skip(1);
        let tags = tags.take_while(|(_, laid)| matches!(laid.kind, HeaderKind::Vlan | HeaderKind::Qinq));
        let tag = |(at, laid): (usize, &super::Laid)| {
            let bit = laid.bytes.start * 8 + 4;
            let varies =
                |vary: &super::Vary| vary.header == at && vary.bit < bit + 12 && bit < vary.bit + vary.width as usize;
            VlanTag {
                service: laid.kind == HeaderKind::Qinq,
                vid: self.first_value(bit, 12) as u16,
                varies: self.varies.iter().any(varies),
            }
        };
        tags.map(tag).collect()
    }

    /// Returns the outermost IP header, if only VLAN tags, MPLS labels and PPPoE precede it.
    ///
    /// # Errors
    /// Names addresses that are too many ranges.
    pub fn outer_ip(&self) -> Result<Option<OuterIp>, String> {
        let Some((at, v6)) = self.outer() else {
            return Ok(None);
        };
        let ranges = |name: &str| match self.written(at, name) {
            None => Ok(None),
            Some((bit, width)) => self.ranges(bit, width, v6).map(Some).map_err(|why| {
                let kind = if v6 { "ipv6" } else { "ipv4" };
                format!("{kind} {name}: {why}")
            }),
        };
        Ok(Some(OuterIp {
            v6,
            src: ranges("src")?,
            dst: ranges("dst")?,
        }))
    }

    /// Sets source and destination address of the outermost IP header where the packet's text has none.
    pub fn set_addresses(&mut self, src: IpAddr, dst: IpAddr) {
        let Some((at, v6)) = self.outer() else { return };
        let start = self.headers[at].bytes.start * 8;
        for (place, (name, ip)) in [("src", src), ("dst", dst)].into_iter().enumerate() {
            if self.written(at, name).is_some() {
                continue;
            }
            match (ip, v6) {
                (IpAddr::V4(ip), false) => set_bits(&mut self.image, start + 96 + 32 * place, 32, ip.to_bits().into()),
                (IpAddr::V6(ip), true) => set_bits(&mut self.image, start + 64 + 128 * place, 128, ip.to_bits()),
                _ => {}
            }
        }
    }

    /// Returns the bytes of Ethernet header and VLAN tags.
    pub fn link_len(&self) -> usize {
        14 + self.tags as usize
    }

    /// Returns the fields of all headers, without those that are worked out of all others' bytes, and without those
    /// that are names for several others.
    pub fn fields_at(&self) -> Vec<FieldAt> {
        let mut all = Vec::new();
        let kinds: Vec<_> = self.headers.iter().map(|laid| laid.kind).collect();
        for (at, laid) in self.headers.iter().enumerate() {
            let fields = laid.kind.info().fields;
            let name = named(&kinds, at);
            for field in fields {
                let bits = |field: &Field| field.bit..field.bit + field.width as usize;
                let own = bits(field);
                let stands_for = |other: &Field| {
                    let of = bits(other);
                    let fixed = !matches!(other.role, Role::Optional | Role::Option);
                    fixed && other.width < field.width && own.start <= of.start && of.end <= own.end
                };
                let left = matches!(field.role, Role::Sum(_) | Role::Optional | Role::Option);
                if left || fields.iter().any(stands_for) || own.end > laid.bytes.len() * 8 {
                    continue;
                }
                all.push(FieldAt {
                    name: format!("{name}.{}", field.name),
                    bit: laid.bytes.start * 8 + field.bit,
                    width: field.width,
                    kind: match field.kind {
                        Kind::Mac => FieldKind::Mac,
                        Kind::Ipv4 => FieldKind::Ipv4,
                        Kind::Ipv6 => FieldKind::Ipv6,
                        Kind::Hex | Kind::Flags => FieldKind::Hex,
                        _ => FieldKind::Decimal,
                    },
                });
            }
        }
        all
    }

    fn outer(&self) -> Option<(usize, bool)> {
        let shim = |laid: &super::Laid| {
            matches!(
                laid.kind,
                HeaderKind::Eth | HeaderKind::Vlan | HeaderKind::Qinq | HeaderKind::Mpls | HeaderKind::Pppoe
            )
        };
        let at = self.headers.iter().position(|laid| !shim(laid))?;
        match self.headers[at].kind {
            HeaderKind::Ipv4 => Some((at, false)),
            HeaderKind::Ipv6 => Some((at, true)),
            _ => None,
        }
    }

    /// Returns the place of a field of a header, if the packet's text has a value for it: first bit, and bits.
    fn written(&self, header: usize, name: &str) -> Option<(usize, u32)> {
        let laid = self.headers.get(header)?;
        let field = laid.kind.info().fields.iter().find(|field| field.name == name)?;
        let bit = laid.bytes.start * 8 + field.bit;
        let bits = bit..bit + field.width as usize;
        let shown = laid
            .given
            .iter()
            .any(|given| matches!(given, super::Shown::Bits(_, at, ..) if bits.contains(at)));
        let varies = self
            .varies
            .iter()
            .any(|vary| !vary.in_payload && bits.contains(&vary.bit));
        (shown || varies).then_some((bit, field.width))
    }

    /// Returns the value that a field has in the first packet.
    fn first_value(&self, bit: usize, width: u32) -> u128 {
        let mut first = self.image.clone();
        self.write_fields(&mut first, 0, 0);
        get_bits(&first, bit, width)
    }

    /// Returns the values of an address as ranges.
    fn ranges(&self, bit: usize, width: u32, v6: bool) -> Result<Ranges, String> {
        let ip = |value: u128| match v6 {
            true => IpAddr::V6(Ipv6Addr::from_bits(value)),
            false => IpAddr::V4(Ipv4Addr::from_bits(value as u32)),
        };
        let within = |vary: &&super::Vary| !vary.in_payload && vary.bit >= bit && vary.bit < bit + width as usize;
        let varies: Vec<_> = self.varies.iter().filter(within).collect();
        let fixed = get_bits(&self.image, bit, width);
        let [vary] = varies[..] else {
            return match varies.is_empty() {
                true => Ok(vec![ip(fixed)..=ip(fixed)]),
                false => Err("several parts vary: want one".to_owned()),
            };
        };
        let shift = bit as u32 + width - vary.bit as u32 - vary.width;
        let around = fixed & !(ones(vary.width) << shift);
        let whole = vary.width == width || shift == 0;
        let at = |value: u128| around | value << shift;
        let (low, high) = vary
            .source
            .bounds()
            .ok_or_else(|| "it takes its value from another field: want values of its own".to_owned())?;
        let dense = match &vary.source {
            Source::Counter { step, count, .. } => step.unsigned_abs() == 1 || *count == 1,
            Source::Table(_) => false,
            _ => true,
        };
        if dense && whole {
            return Ok(vec![ip(at(low))..=ip(at(high))]);
        }
        let values: Vec<u128> = match &vary.source {
            Source::Counter { .. } | Source::Table(_) => {
                let count = vary.source.period().unwrap_or(1);
                let values = (0..count.min(MOST_RANGES as u64 + 1)).filter_map(|i| vary.source.at(i, vary.seed));
                values.collect()
            }
            _ => (low..=high.min(low + MOST_RANGES as u128)).collect(),
        };
        let mut values: Vec<u128> = values.into_iter().map(|value| at(value & ones(vary.width))).collect();
        values.sort_unstable();
        values.dedup();
        match values.len() > MOST_RANGES {
            true => Err(format!(
                "more than {MOST_RANGES} addresses that are not beside each other: want fewer"
            )),
            false => Ok(values.into_iter().map(|value| ip(value)..=ip(value)).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Packet, Stream};

    fn form(text: &str) -> Form {
        Form::of(&Stream::of(Packet::parse(text).expect("a packet")), 1, 0).expect("a form")
    }

    fn outer(text: &str) -> OuterIp {
        form(text).outer_ip().expect("few ranges").expect("IP")
    }

    fn one(ip: &str) -> RangeInclusive<IpAddr> {
        let ip = ip.parse().expect("an address");
        ip..=ip
    }

    #[test]
    fn addresses_are_ranges() {
        let of = outer("eth / vlan vid=5 / ipv4 src=10.0.0.1..10.0.0.9 dst=10.0.1.7 / udp");
        let range = "10.0.0.1".parse().expect("one")..="10.0.0.9".parse().expect("one");
        assert_eq!(
            (of.v6, of.src, of.dst),
            (false, Some(vec![range]), Some(vec![one("10.0.1.7")]))
        );
        let of = outer("eth / ipv6 dst={2001:db8::1,2001:db8::9} / udp");
        assert_eq!((of.v6, of.src), (true, None));
        assert_eq!(of.dst, Some(vec![one("2001:db8::1"), one("2001:db8::9")]));
    }

    #[test]
    fn the_outermost_header_counts() {
        let of = outer("eth / mpls label=16 / ipv4 dst=10.9.9.9 / udp / vxlan vni=1 / eth / ipv6 / tcp");
        assert_eq!((of.v6, of.dst), (false, Some(vec![one("10.9.9.9")])));
        assert_eq!(form("eth type=0x88b5 / raw hex=00").outer_ip(), Ok(None));
    }

    #[test]
    fn some_bits_of_an_address_vary() {
        let of = outer("eth / ipv4 dst=10.1.2.3 dst&0.0.255.0=1..2 / udp");
        assert_eq!(of.dst, Some(vec![one("10.1.1.3"), one("10.1.2.3")]));
    }

    #[test]
    fn too_many_addresses_apart_are_refused() {
        let form = form("eth / ipv4 src=10.0.0.0..10.1.255.255 step 2 / udp");
        assert!(form.outer_ip().is_err_and(|why| why.contains("ipv4 src")));
    }

    #[test]
    fn addresses_are_set_where_none_was_written() {
        let [one, other] = [1, 9].map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        let mut form = form("eth / ipv4 dst=10.0.0.2 / udp");
        form.set_addresses(one, other);
        assert_eq!(form.packet(0, Default::default())[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
    }

    #[test]
    fn fields_are_named_once_each() {
        let form = form("eth / vlan vid=5 / ipv4 / udp / vxlan vni=1 / eth / ipv4 / tcp");
        let names: Vec<_> = form.fields_at().into_iter().map(|field| field.name).collect();
        for name in [
            "eth[1].dst",
            "vlan.vid",
            "ipv4[1].dscp",
            "ipv4[2].src",
            "udp.dst",
            "tcp.flags",
            "tcp.src",
            "vxlan.vni",
        ] {
            assert!(names.iter().any(|own| own == name), "{name}: {names:?}");
        }
        for name in ["vlan.tci", "ipv4[1].tos", "ipv4[1].cksum", "tcp.cksum", "tcp.mss"] {
            assert!(!names.iter().any(|own| own == name), "{name}: {names:?}");
        }
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len(), "{names:?}");
    }

    #[test]
    fn macs_and_tags_are_those_written() {
        let form = form("eth dst=02:00:00:00:00:05..02:00:00:00:00:09 / qinq vid=7 / vlan vid=1..3 / ipv4 / udp");
        assert_eq!(form.macs(), [Some(MacAddr([2, 0, 0, 0, 0, 5])), None]);
        let tags = form.vlans();
        assert_eq!(
            tags.iter()
                .map(|tag| (tag.service, tag.vid, tag.varies))
                .collect::<Vec<_>>(),
            [(true, 7, false), (false, 1, true)]
        );
        assert_eq!(form.link_len(), 22);
    }
}
