//! Translates a flow rule to an ntuple filter of a NIC, if possible. Rules that such filters can't express are refused
//! with the reason. Only the kernel knows which of them the NIC's driver supports.

use mpps_flow::{Action, Attributes, Bits, EthMatch, Item, Masked, Rule, VlanMatch};
use mpps_netdev::{Above, Bitmatch, Fate, Headers, Ntuple};

/// Result with an error text: the mistake, and a value that would be right.
type Result<T> = std::result::Result<T, String>;

/// Returns the filter that does the same as a rule.
pub(super) fn filter_of(rule: &Rule) -> Result<Ntuple> {
    check_attributes(&rule.attributes)?;
    let fate = fate(&rule.actions)?;
    let (mut eth, mut tag, mut network, mut transport) = (EthMatch::default(), None, None, None);
    for item in &rule.pattern {
        match item {
            Item::Eth(given) => eth = *given,
            Item::Vlan(_) if tag.is_some() => {
                return Err("ntuple filters look at one VLAN tag: want one 'vlan'".into());
            }
            Item::Vlan(given) => tag = Some(*given),
            Item::Ipv4(_) | Item::Ipv6(_) => network = Some(item),
            Item::Udp(_) | Item::Tcp(_) => transport = Some(item),
        }
    }
    let (vlan_type, vlan_tci) = match tag {
        Some(tag) => tag_of(&eth, &tag, network.is_some())?,
        None => (None, None),
    };
    let mut dst_mac = None;
    let headers = match network {
        None => Headers::Ethernet {
            dst: bits("eth dst", eth.dst)?,
            src: bits("eth src", eth.src)?,
            // If there is a tag, the type in front of it is the tag's.
            ethertype: bits("eth type", eth.ethertype.filter(|_| tag.is_none()))?,
        },
        Some(network) => {
            none("eth src", eth.src, "beside IP they look at the destination alone")?;
            dst_mac = given(eth.dst).map(|mac| bits("eth dst", Some(mac))).transpose()?;
            network_of(network, transport)?
        }
    };
    Ok(Ntuple {
        headers,
        dst_mac,
        vlan_type,
        vlan_tci,
        fate,
    })
}

fn check_attributes(attributes: &Attributes) -> Result<()> {
    let wrong = match attributes {
        Attributes { egress: true, .. } => "'egress': ntuple filters are for packets that come in: want ingress alone",
        Attributes { transfer: true, .. } => "'transfer': ntuple filters do not steer a switch: want ingress alone",
        Attributes { group: 1.., .. } => "'group': ntuple filters have none: want it left out",
        Attributes { priority: 1.., .. } => {
            "'priority': the driver chooses the order of ntuple filters: want it left out"
        }
        _ => return Ok(()),
    };
    Err(wrong.into())
}

fn fate(actions: &[Action]) -> Result<Fate> {
    let mut fate = None;
    for action in actions {
        let why = match action {
            Action::Queue(index) => {
                fate = Some(Fate::Queue(*index));
                continue;
            }
            Action::Drop => {
                fate = Some(Fate::Discard);
                continue;
            }
            Action::Count => "they have no counters",
            Action::Mark(_) => "they mark nothing",
            Action::Rss(_) => "they know one queue each",
            Action::Passthru => "they steer a packet or drop it",
        };
        return Err(format!(
            "'{action}': ntuple filters can't do that, {why}: want 'queue index N' or drop, or a dpdk port"
        ));
    }
    // The parser requires an action, and all actions but queue and drop were refused above.
    fate.ok_or_else(|| "no action: want 'queue index N' or drop".into())
}

/// Returns a field only if its mask is not 0.
fn given<T: Bits>(field: Option<Masked<T>>) -> Option<Masked<T>> {
    field.filter(|field| field.mask.to_bits() != 0)
}

/// Returns a field as value and mask.
fn bits<T: Bits + Default>(name: &str, field: Option<Masked<T>>) -> Result<Bitmatch<T>> {
    match field {
        Some(field) if field.is_range() => Err(format!(
            "'{name} last': ntuple filters have masks and no ranges: want 'is', a mask or a prefix"
        )),
        Some(Masked { spec, mask, .. }) => Ok(Bitmatch { value: spec, mask }),
        None => Ok(Bitmatch::default()),
    }
}

/// Refuses a field that filters can't match.
fn none<T: Bits>(name: &str, field: Option<Masked<T>>, why: &str) -> Result<()> {
    match given(field) {
        Some(_) => Err(format!(
            "'{name}': ntuple filters can't match it, {why}: want it left out"
        )),
        None => Ok(()),
    }
}

/// Type and control information of a VLAN tag.
type Tag = (Option<Bitmatch<u16>>, Option<Bitmatch<u16>>);

fn tag_of(eth: &EthMatch, tag: &VlanMatch, above: bool) -> Result<Tag> {
    // If an IP header follows, the inner type adds no information.
    if !above {
        none("vlan inner_type", tag.inner_type, "they look at the tag alone")?;
    }
    let kind = given(eth.ethertype)
        .map(|kind| bits("eth type", Some(kind)))
        .transpose()?;
    let tci = given(tag.tci).map(|tci| bits("vlan vid", Some(tci))).transpose()?;
    if kind.is_none() && tci.is_none() {
        return Err("'vlan': ntuple filters match the bits of a tag: want 'vlan vid is N', or it left out".into());
    }
    Ok((kind, tci))
}

fn network_of(network: &Item, transport: Option<&Item>) -> Result<Headers> {
    Ok(match network {
        Item::Ipv4(ip) => {
            none("ipv4 ttl", ip.ttl, "they look at addresses, tos and proto")?;
            Headers::Ipv4 {
                src: bits("ipv4 src", ip.src)?,
                dst: bits("ipv4 dst", ip.dst)?,
                tos: bits("ipv4 tos", ip.tos)?,
                above: above(ip.proto, transport)?,
            }
        }
        Item::Ipv6(ip) => {
            none("ipv6 hop", ip.hop, "they look at addresses, tc and proto")?;
            Headers::Ipv6 {
                src: bits("ipv6 src", ip.src)?,
                dst: bits("ipv6 dst", ip.dst)?,
                class: bits("ipv6 tc", ip.tc)?,
                above: above(ip.proto, transport)?,
            }
        }
        other => return Err(format!("'{}': want ipv4 or ipv6", other.name())),
    })
}

/// Returns the match above IP. A protocol number beside a header with ports has been checked to agree with it.
fn above(proto: Option<Masked<u8>>, transport: Option<&Item>) -> Result<Above> {
    Ok(match transport {
        Some(Item::Udp(ports)) => Above::Udp {
            src: bits("udp src", ports.src)?,
            dst: bits("udp dst", ports.dst)?,
        },
        Some(Item::Tcp(ports)) => Above::Tcp {
            src: bits("tcp src", ports.src)?,
            dst: bits("tcp dst", ports.dst)?,
        },
        _ => {
            let any = Bitmatch::default();
            match proto.filter(Masked::is_exact).map(|proto| proto.spec) {
                Some(17) => Above::Udp { src: any, dst: any },
                Some(6) => Above::Tcp { src: any, dst: any },
                _ => Above::Protocol(bits("ip proto", proto)?),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Result<Ntuple> {
        filter_of(&text.parse().unwrap_or_else(|e| panic!("{text}: {e}")))
    }

    fn taken(pattern: &str) -> Ntuple {
        let text = format!("ingress pattern {pattern} end actions queue index 2 / end");
        filter(&text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn port(value: u16) -> Bitmatch<u16> {
        Bitmatch { value, mask: 0xffff }
    }

    #[test]
    fn udp_by_address_and_port_becomes_a_filter_of_both() {
        let filter = taken("eth / ipv4 dst spec 10.99.0.0 dst prefix 16 / udp dst is 9000 /");
        let expected = Headers::Ipv4 {
            src: Bitmatch::default(),
            dst: Bitmatch {
                value: [10, 99, 0, 0],
                mask: [255, 255, 0, 0],
            },
            tos: Bitmatch::default(),
            above: Above::Udp {
                src: Bitmatch::default(),
                dst: port(9000),
            },
        };
        assert_eq!(filter.headers, expected);
        assert_eq!((filter.fate, filter.dst_mac), (Fate::Queue(2), None));
    }

    #[test]
    fn what_a_header_says_of_the_next_needs_no_bits_of_its_own() {
        let plain = taken("eth / ipv6 / tcp /");
        assert_eq!(taken("eth type is 0x86dd / ipv6 proto is 6 / tcp /"), plain);
        assert_eq!(taken("ipv6 proto is 6 /"), plain);
        let tagged = taken("eth / vlan vid is 5 / ipv6 / tcp /");
        assert_eq!(taken("eth / vlan vid is 5 inner_type is 0x86dd / ipv6 / tcp /"), tagged);
    }

    #[test]
    fn a_tags_type_and_identifier_are_looked_at_beside_the_headers() {
        let filter = taken("eth dst is 02:00:00:00:00:01 type is 0x88a8 / vlan vid is 5 / ipv4 / udp /");
        assert_eq!(filter.vlan_type, Some(port(0x88a8)));
        let vid = Bitmatch { value: 5, mask: 0xfff };
        assert_eq!(filter.vlan_tci, Some(vid));
        assert_eq!(filter.dst_mac.map(|mac| mac.value), Some([2, 0, 0, 0, 0, 1]));
        let Headers::Ethernet { ethertype, dst, .. } = taken("eth type is 0x8100 / vlan vid is 5 /").headers else {
            panic!("no IP was asked for");
        };
        assert_eq!((ethertype.mask, dst.mask), (0, [0; 6]));
    }

    #[test]
    fn drop_discards() {
        let filter = filter("ingress pattern eth src is 02:00:00:00:00:01 / end actions drop / end");
        assert_eq!(filter.map(|f| f.fate), Ok(Fate::Discard));
    }

    #[test]
    fn what_filters_cannot_say_is_refused_with_the_reason() {
        for (rule, parts) in [
            (
                "egress pattern eth / end actions drop / end",
                ["'egress'", "want ingress"],
            ),
            (
                "ingress transfer pattern eth / end actions drop / end",
                ["'transfer'", "want ingress"],
            ),
            (
                "ingress group 1 pattern eth / end actions drop / end",
                ["'group'", "left out"],
            ),
            (
                "ingress priority 1 pattern eth / end actions drop / end",
                ["'priority'", "left out"],
            ),
            (
                "ingress pattern eth / end actions count / drop / end",
                ["'count'", "no counters"],
            ),
            (
                "ingress pattern eth / end actions mark id 1 / drop / end",
                ["'mark id 1'", "mark nothing"],
            ),
            (
                "ingress pattern eth / end actions rss queues 0 1 end / end",
                ["'rss queues 0 1 end'", "one queue"],
            ),
            (
                "ingress pattern eth / end actions passthru / end",
                ["'passthru'", "want 'queue index N' or drop"],
            ),
            (
                "ingress pattern ipv4 ttl is 1 / end actions drop / end",
                ["'ipv4 ttl'", "left out"],
            ),
            (
                "ingress pattern ipv6 hop is 1 / end actions drop / end",
                ["'ipv6 hop'", "left out"],
            ),
            (
                "ingress pattern eth src is 2:0:0:0:0:1 / ipv4 / end actions drop / end",
                ["'eth src'", "destination"],
            ),
            (
                "ingress pattern ipv4 / udp dst is 1 dst last 9 / end actions drop / end",
                ["'udp dst last'", "a mask"],
            ),
            (
                "ingress pattern eth / vlan / ipv4 / end actions drop / end",
                ["'vlan'", "'vlan vid is N'"],
            ),
            (
                "ingress pattern eth / vlan vid is 1 / vlan / end actions drop / end",
                ["one VLAN tag", "one 'vlan'"],
            ),
            (
                "ingress pattern eth / vlan vid is 1 inner_type is 0x800 / end actions drop / end",
                ["'vlan inner_type'", "left out"],
            ),
        ] {
            let refused = filter(rule).expect_err(rule);
            assert!(parts.iter().all(|part| refused.contains(part)), "{rule}: {refused}");
        }
    }
}
