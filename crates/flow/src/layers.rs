//! Which header may follow which: a pattern goes from the link up, as rte_flow expects it.

use crate::parse::{RuleError, wrong};
use crate::{Item, Masked};

type Result = std::result::Result<(), RuleError>;

/// Checks that header `name` may come behind `before`.
pub(crate) fn check_place(before: &[Item], name: &str) -> Result {
    let last = before.last();
    let tags = before.iter().filter(|item| matches!(item, Item::Vlan(_))).count();
    let (fits, want) = match name {
        "eth" => (last.is_none(), "it as the first header"),
        "vlan" if tags == 2 => (false, "two tags at the most"),
        "vlan" => (
            matches!(last, Some(Item::Eth(_) | Item::Vlan(_))),
            "eth or vlan before it",
        ),
        "ipv4" | "ipv6" => (
            matches!(last, None | Some(Item::Eth(_) | Item::Vlan(_))),
            "it first, or eth or vlan before it",
        ),
        _ => (
            matches!(last, Some(Item::Ipv4(_) | Item::Ipv6(_))),
            "ipv4 or ipv6 before it",
        ),
    };
    if fits {
        return Ok(());
    }
    let place = last.map_or_else(
        || "as the first header".to_owned(),
        |item| format!("after '{}'", item.name()),
    );
    wrong(format!("'{name}' {place}: want {want}"))
}

/// The only values that a type field can have with header `next` behind it, and their names.
fn types_of(next: &Item) -> &'static [u16] {
    match next {
        Item::Vlan(_) => &[0x8100, 0x88a8, 0x9100, 0x9200],
        Item::Ipv4(_) => &[0x0800],
        Item::Ipv6(_) => &[0x86dd],
        Item::Udp(_) => &[17],
        Item::Tcp(_) => &[6],
        Item::Eth(_) => &[],
    }
}

fn allows(given: Option<Masked<u16>>, types: &[u16]) -> bool {
    given.is_none_or(|given| {
        let range = given.spec & given.mask..=given.last & given.mask;
        types.iter().any(|kind| range.contains(&(kind & given.mask)))
    })
}

/// Refuses a type or protocol that the header behind it contradicts: no packet could match.
pub(crate) fn check_types(pattern: &[Item]) -> Result {
    for pair in pattern.windows(2) {
        let wide = |value: Masked<u8>| Masked {
            spec: value.spec.into(),
            last: value.last.into(),
            mask: value.mask.into(),
        };
        let (field, given) = match &pair[0] {
            Item::Eth(m) => ("type", m.ethertype),
            Item::Vlan(m) => ("inner_type", m.inner_type),
            Item::Ipv4(m) => ("proto", m.proto.map(wide)),
            Item::Ipv6(m) => ("proto", m.proto.map(wide)),
            Item::Udp(_) | Item::Tcp(_) => continue,
        };
        let types = types_of(&pair[1]);
        if !allows(given, types) {
            let want = match types {
                [one] if *one < 256 => one.to_string(),
                _ => types
                    .iter()
                    .map(|t| format!("{t:#06x}"))
                    .collect::<Vec<_>>()
                    .join(" or "),
            };
            let (header, next) = (pair[0].name(), pair[1].name());
            return wrong(format!(
                "'{header} {field}' is another than {next}, which follows: want {want}, or it left out"
            ));
        }
    }
    Ok(())
}
