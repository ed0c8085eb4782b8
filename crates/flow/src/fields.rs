//! The headers' fields by testpmd's names, one table per header, and their conversion to and from the rule.

use crate::bits::{Bits, ones};
use crate::{EthMatch, Ipv4Match, Ipv6Match, Item, Masked, PortMatch, VlanMatch};

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A number, printed in decimal.
    Decimal,
    /// A number, printed in hexadecimal.
    Hex,
    Mac,
    Ipv4,
    Ipv6,
}

/// A field that the pattern may name.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Bits, 1 to 128.
    pub(crate) width: u32,
    /// Bits that count if `spec` comes without `mask`, as rte_flow's default masks have it; 0: none do.
    pub(crate) default_mask: u128,
}

const fn field(name: &'static str, kind: Kind, width: u32) -> Field {
    Field {
        name,
        kind,
        width,
        default_mask: ones(width),
    }
}

/// A field that rte_flow leaves out of its header's default mask.
const fn unmasked(name: &'static str, kind: Kind, width: u32) -> Field {
    Field {
        default_mask: 0,
        ..field(name, kind, width)
    }
}

static ETH: [Field; 3] = [
    field("dst", Kind::Mac, 48),
    field("src", Kind::Mac, 48),
    unmasked("type", Kind::Hex, 16),
];
static VLAN: [Field; 5] = [
    Field {
        default_mask: VID,
        ..field("tci", Kind::Hex, 16)
    },
    field("vid", Kind::Decimal, 12),
    unmasked("pcp", Kind::Decimal, 3),
    unmasked("dei", Kind::Decimal, 1),
    unmasked("inner_type", Kind::Hex, 16),
];
static IPV4: [Field; 5] = [
    field("src", Kind::Ipv4, 32),
    field("dst", Kind::Ipv4, 32),
    unmasked("tos", Kind::Hex, 8),
    unmasked("ttl", Kind::Decimal, 8),
    unmasked("proto", Kind::Decimal, 8),
];
static IPV6: [Field; 5] = [
    field("src", Kind::Ipv6, 128),
    field("dst", Kind::Ipv6, 128),
    unmasked("tc", Kind::Hex, 8),
    unmasked("proto", Kind::Decimal, 8),
    unmasked("hop", Kind::Decimal, 8),
];
static PORTS: [Field; 2] = [field("src", Kind::Decimal, 16), field("dst", Kind::Decimal, 16)];

/// Bits of the VLAN identifier in the tag control information, and the places of priority and drop eligibility.
const VID: u128 = 0xfff;
const PCP_SHIFT: u32 = 13;
const DEI_SHIFT: u32 = 12;

/// The headers there are.
pub(crate) const HEADERS: [&str; 6] = ["eth", "vlan", "ipv4", "ipv6", "udp", "tcp"];

/// The fields of a header; `None` if there is no such header.
pub(crate) fn fields_of(header: &str) -> Option<&'static [Field]> {
    Some(match header {
        "eth" => &ETH,
        "vlan" => &VLAN,
        "ipv4" => &IPV4,
        "ipv6" => &IPV6,
        "udp" | "tcp" => &PORTS,
        _ => return None,
    })
}

/// A value for each field of a header's table.
pub(crate) type Values = [Option<Masked<u128>>; 5];

/// The header `name` with these values, in the table's order.
///
/// # Errors
/// If values contradict each other: the message, without the header's name.
pub(crate) fn item_of(name: &str, values: Values) -> Result<Item, String> {
    fn narrow<T: Bits>(value: Option<Masked<u128>>) -> Option<Masked<T>> {
        value.map(Masked::narrow)
    }
    let [a, b, c, d, e] = values;
    let ports = PortMatch {
        src: narrow(a),
        dst: narrow(b),
    };
    Ok(match name {
        "eth" => Item::Eth(EthMatch {
            dst: narrow(a),
            src: narrow(b),
            ethertype: narrow(c),
        }),
        "vlan" => Item::Vlan(VlanMatch {
            tci: tag_control(
                a,
                [d.map(|v| shifted(v, DEI_SHIFT)), c.map(|v| shifted(v, PCP_SHIFT))],
                b,
            )?
            .map(Masked::narrow),
            inner_type: narrow(e),
        }),
        "ipv4" => Item::Ipv4(Ipv4Match {
            src: narrow(a),
            dst: narrow(b),
            tos: narrow(c),
            ttl: narrow(d),
            proto: narrow(e),
        }),
        "ipv6" => Item::Ipv6(Ipv6Match {
            src: narrow(a),
            dst: narrow(b),
            tc: narrow(c),
            proto: narrow(d),
            hop: narrow(e),
        }),
        "udp" => Item::Udp(ports),
        _ => Item::Tcp(ports),
    })
}

fn shifted(value: Masked<u128>, by: u32) -> Masked<u128> {
    Masked {
        spec: value.spec << by,
        last: value.last << by,
        mask: value.mask << by,
    }
}

/// The tag control information as a whole, from itself or from its parts.
fn tag_control(
    whole: Option<Masked<u128>>,
    [dei, pcp]: [Option<Masked<u128>>; 2],
    vid: Option<Masked<u128>>,
) -> Result<Option<Masked<u128>>, String> {
    let parts: Vec<_> = [vid, dei, pcp].into_iter().flatten().collect();
    if parts.is_empty() {
        return Ok(whole);
    }
    if whole.is_some() {
        return Err("'tci' beside its parts 'vid', 'pcp' and 'dei': want the one or the others".into());
    }
    // One range over the whole is that of its lowest part, if all above have one value.
    if parts.iter().skip(1).any(Masked::is_wide_range) {
        return Err("'last' of a part above another: want a range of the lowest part only, such as 'vid'".into());
    }
    let all = parts.into_iter().reduce(|a, b| Masked {
        spec: a.spec | b.spec,
        last: a.last | b.last,
        mask: a.mask | b.mask,
    });
    Ok(all)
}

impl Masked<u128> {
    fn is_wide_range(&self) -> bool {
        self.spec & self.mask != self.last & self.mask
    }
}

impl Item {
    /// The header's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Eth(_) => "eth",
            Self::Vlan(_) => "vlan",
            Self::Ipv4(_) => "ipv4",
            Self::Ipv6(_) => "ipv6",
            Self::Udp(_) => "udp",
            Self::Tcp(_) => "tcp",
        }
    }

    /// The values of the header's table, each if it was given.
    pub(crate) fn values(&self) -> Values {
        fn widen<T: Bits>(value: Option<Masked<T>>) -> Option<Masked<u128>> {
            value.map(Masked::widen)
        }
        match self {
            Self::Eth(m) => [widen(m.dst), widen(m.src), widen(m.ethertype), None, None],
            Self::Vlan(m) => {
                // A match on the identifier alone is printed by the name `vid`.
                let tci = widen(m.tci);
                let vid = tci.filter(|t| t.mask == VID && (t.spec | t.last) & !VID == 0);
                let whole = if vid.is_some() { None } else { tci };
                [whole, vid, None, None, widen(m.inner_type)]
            }
            Self::Ipv4(m) => [widen(m.src), widen(m.dst), widen(m.tos), widen(m.ttl), widen(m.proto)],
            Self::Ipv6(m) => [widen(m.src), widen(m.dst), widen(m.tc), widen(m.proto), widen(m.hop)],
            Self::Udp(m) | Self::Tcp(m) => [widen(m.src), widen(m.dst), None, None, None],
        }
    }
}
