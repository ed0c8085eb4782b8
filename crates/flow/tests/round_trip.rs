//! A rule is told in words that read back as the same rule, and no text whatever makes the parser panic.

use mpps_flow::{Action, Attributes, Bits, EthMatch, Ipv4Match, Ipv6Match, Item, Masked, PortMatch, Rule, VlanMatch};
use proptest::prelude::*;
use proptest::{option, sample, strategy::Union};

/// A value with a mask and, sometimes, a range.
fn masked<T: Bits + Arbitrary + std::fmt::Debug + 'static>() -> impl Strategy<Value = Option<Masked<T>>> {
    let masks = prop_oneof![Just(T::of_bits(u128::MAX)), any::<T>()];
    let value = (any::<T>(), any::<T>(), masks, any::<bool>()).prop_map(|(spec, last, mask, range)| {
        let grows = last.to_bits() & mask.to_bits() >= spec.to_bits() & mask.to_bits();
        Masked {
            spec,
            last: if range && grows { last } else { spec },
            mask,
        }
    });
    option::of(value)
}

fn ports() -> impl Strategy<Value = PortMatch> {
    (masked(), masked()).prop_map(|(src, dst)| PortMatch { src, dst })
}

/// Headers that may stand together; what one says of the next is left out.
fn patterns() -> impl Strategy<Value = Vec<Item>> {
    let eth = (masked(), masked()).prop_map(|(dst, src)| {
        Item::Eth(EthMatch {
            dst,
            src,
            ethertype: None,
        })
    });
    let tags = prop_oneof![
        masked::<u16>(),
        (0..4096_u16).prop_map(|vid| Some(Masked {
            spec: vid,
            last: vid,
            mask: 0xfff
        }))
    ];
    let tags = tags.prop_map(|tci| Item::Vlan(VlanMatch { tci, inner_type: None }));
    let v4 = (masked(), masked(), masked(), masked()).prop_map(|(src, dst, tos, ttl)| {
        Item::Ipv4(Ipv4Match {
            src,
            dst,
            tos,
            ttl,
            proto: None,
        })
    });
    let v6 = (masked(), masked(), masked(), masked()).prop_map(|(src, dst, tc, hop)| {
        Item::Ipv6(Ipv6Match {
            src,
            dst,
            tc,
            proto: None,
            hop,
        })
    });
    let transport = prop_oneof![ports().prop_map(Item::Udp), ports().prop_map(Item::Tcp)];
    let link = option::of((eth, prop::collection::vec(tags, 0..3)));
    let network = option::of((prop_oneof![v4, v6], option::of(transport)));
    (link, network).prop_map(|(link, network)| {
        let link = link
            .into_iter()
            .flat_map(|(eth, tags)| std::iter::once(eth).chain(tags));
        let network = network.into_iter().flat_map(|(ip, l4)| std::iter::once(ip).chain(l4));
        link.chain(network).collect()
    })
}

/// A header's type in the last place, where nothing contradicts it.
fn typed_ends() -> impl Strategy<Value = Vec<Item>> {
    let eth = masked().prop_map(|ethertype| {
        vec![Item::Eth(EthMatch {
            ethertype,
            ..EthMatch::default()
        })]
    });
    let v4 = masked().prop_map(|proto| {
        vec![Item::Ipv4(Ipv4Match {
            proto,
            ..Ipv4Match::default()
        })]
    });
    let v6 = masked().prop_map(|proto| {
        vec![Item::Ipv6(Ipv6Match {
            proto,
            ..Ipv6Match::default()
        })]
    });
    let tag = masked().prop_map(|inner_type| {
        let tag = VlanMatch { tci: None, inner_type };
        vec![Item::Eth(EthMatch::default()), Item::Vlan(tag)]
    });
    Union::new([eth.boxed(), v4.boxed(), v6.boxed(), tag.boxed()])
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let queues = prop::collection::vec(any::<u16>(), 0..9);
    let fate = prop_oneof![
        any::<u16>().prop_map(Action::Queue),
        queues.prop_map(Action::Rss),
        Just(Action::Drop),
        Just(Action::Passthru),
    ];
    (fate, option::of(any::<u32>()), any::<bool>()).prop_map(|(fate, mark, count)| {
        let mark = mark.map(Action::Mark);
        mark.into_iter()
            .chain(count.then_some(Action::Count))
            .chain([fate])
            .collect()
    })
}

fn rules() -> impl Strategy<Value = Rule> {
    let pattern = prop_oneof![4 => patterns(), 1 => typed_ends()];
    (any::<(bool, u32, u32)>(), pattern, actions()).prop_map(|((transfer, group, priority), pattern, actions)| Rule {
        attributes: Attributes {
            ingress: true,
            egress: false,
            transfer,
            group,
            priority,
        },
        pattern,
        actions,
    })
}

/// Words of the grammar in no order, and others.
fn babble() -> impl Strategy<Value = String> {
    const WORDS: [&str; 54] = [
        "ingress",
        "egress",
        "transfer",
        "group",
        "priority",
        "pattern",
        "actions",
        "/",
        "end",
        "eth",
        "vlan",
        "ipv4",
        "ipv6",
        "udp",
        "tcp",
        "src",
        "dst",
        "type",
        "tci",
        "vid",
        "pcp",
        "dei",
        "inner_type",
        "tos",
        "ttl",
        "proto",
        "tc",
        "hop",
        "is",
        "spec",
        "last",
        "mask",
        "prefix",
        "queue",
        "index",
        "rss",
        "queues",
        "drop",
        "mark",
        "id",
        "count",
        "passthru",
        "0",
        "9000",
        "0x800",
        "99999999999999999999999999999999999999999",
        "-1",
        "10.0.0.1",
        "fd99::2",
        "02:00:00:00:00:01",
        "::",
        "128",
        "0x",
        "é\u{1b}[0m",
    ];
    prop::collection::vec(sample::select(&WORDS[..]), 0..40).prop_map(|words| words.join(" "))
}

/// Nothing panics; a refusal is one line, and what is taken is told and taken again.
fn holds(text: &str) -> Result<(), TestCaseError> {
    match text.parse::<Rule>() {
        Ok(rule) => prop_assert_eq!(rule.to_string().parse(), Ok(rule)),
        Err(error) => {
            let line = error.to_string();
            prop_assert!(!line.is_empty() && !line.chars().any(char::is_control), "{line:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_told_reads_back_as_the_same_rule(rule in rules()) {
        let text = rule.to_string();
        prop_assert_eq!(text.parse(), Ok(rule), "{}", text);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        holds(&text)?;
    }

    #[test]
    fn no_order_of_words_makes_the_parser_panic(text in babble()) {
        holds(&text)?;
        holds(&format!("ingress pattern {text}"))?;
        holds(&format!("ingress pattern eth / ipv4 / udp / end actions {text}"))?;
    }
}
