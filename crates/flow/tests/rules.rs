//! What is read is what was written, in testpmd's words.

use mpps_flow::{Action, Attributes, EthMatch, Ipv4Match, Ipv6Match, Item, Masked, PortMatch, Rule, VlanMatch};

fn rule(text: &str) -> Rule {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// The pattern of a rule that receives.
fn pattern(items: &str) -> Vec<Item> {
    rule(&format!("ingress pattern {items} end actions drop / end")).pattern
}

fn ports(dst: Masked<u16>) -> Item {
    Item::Udp(PortMatch {
        src: None,
        dst: Some(dst),
    })
}

#[test]
fn the_issues_example_is_read() {
    let rule = rule("ingress pattern eth / ipv4 / udp / end actions queue index 0 / end");
    assert!(rule.attributes.ingress && !rule.attributes.egress && !rule.attributes.transfer);
    let expected = [
        Item::Eth(EthMatch::default()),
        Item::Ipv4(Ipv4Match::default()),
        Item::Udp(PortMatch::default()),
    ];
    assert_eq!(rule.pattern, expected);
    assert_eq!(rule.actions, [Action::Queue(0)]);
}

#[test]
fn attributes_come_in_any_order() {
    let rule = rule("priority 7 transfer group 0x10 ingress pattern end actions count / passthru / end");
    let expected = Attributes {
        ingress: true,
        egress: false,
        transfer: true,
        group: 16,
        priority: 7,
    };
    assert_eq!(rule.attributes, expected);
    assert_eq!(rule.actions, [Action::Count, Action::Passthru]);
    assert!(rule.pattern.is_empty());
}

#[test]
fn each_field_lands_in_its_place() {
    assert_eq!(
        pattern("eth src is 02:00:00:00:00:01 dst is 2:0:0:0:0:a type is 0x8100 / vlan vid is 5 inner_type is 0x800 /"),
        [
            Item::Eth(EthMatch {
                src: Some(Masked::exact([2, 0, 0, 0, 0, 1])),
                dst: Some(Masked::exact([2, 0, 0, 0, 0, 10])),
                ethertype: Some(Masked::exact(0x8100)),
            }),
            Item::Vlan(VlanMatch {
                tci: Some(Masked {
                    spec: 5,
                    last: 5,
                    mask: 0xfff
                }),
                inner_type: Some(Masked::exact(0x0800)),
            }),
        ]
    );
    assert_eq!(
        pattern("ipv4 src is 10.0.0.1 dst is 10.0.0.2 tos is 0xb8 ttl is 64 proto is 6 / tcp src is 80 dst is 443 /"),
        [
            Item::Ipv4(Ipv4Match {
                src: Some(Masked::exact([10, 0, 0, 1])),
                dst: Some(Masked::exact([10, 0, 0, 2])),
                tos: Some(Masked::exact(0xb8)),
                ttl: Some(Masked::exact(64)),
                proto: Some(Masked::exact(6)),
            }),
            Item::Tcp(PortMatch {
                src: Some(Masked::exact(80)),
                dst: Some(Masked::exact(443)),
            }),
        ]
    );
    let mut v6 = [0; 16];
    v6[15] = 1;
    assert_eq!(
        pattern("ipv6 src is ::1 tc is 3 proto is 58 hop is 255 /"),
        [Item::Ipv6(Ipv6Match {
            src: Some(Masked::exact(v6)),
            dst: None,
            tc: Some(Masked::exact(3)),
            proto: Some(Masked::exact(58)),
            hop: Some(Masked::exact(255)),
        })]
    );
}

#[test]
fn masks_prefixes_and_ranges_count_the_bits_they_say() {
    let network = Item::Ipv4(Ipv4Match {
        dst: Some(Masked {
            spec: [10, 1, 0, 0],
            last: [10, 1, 0, 0],
            mask: [255, 255, 0, 0],
        }),
        ..Ipv4Match::default()
    });
    for text in ["prefix 16", "mask 255.255.0.0", "mask 0xffff0000"] {
        assert_eq!(
            pattern(&format!("ipv4 dst spec 10.1.0.0 dst {text} /")),
            [network],
            "{text}"
        );
    }
    let range = Masked {
        spec: 1000,
        last: 2000,
        mask: 0xffff,
    };
    for text in [
        "dst spec 1000 dst last 2000",
        "dst is 1000 dst last 2000",
        "dst last 2000 dst mask 0xffff dst spec 1000",
    ] {
        assert_eq!(pattern(&format!("ipv4 / udp {text} /"))[1], ports(range), "{text}");
    }
    let none = Masked {
        spec: 5,
        last: 5,
        mask: 0,
    };
    assert_eq!(pattern("ipv4 / udp dst spec 5 dst prefix 0 /")[1], ports(none));
}

#[test]
fn a_value_without_a_mask_counts_the_bits_of_rte_flows_default() {
    assert_eq!(pattern("ipv4 / udp dst spec 9000 /")[1], ports(Masked::exact(9000)));
    assert_eq!(
        pattern("eth / vlan tci spec 0x2005 /"),
        pattern("eth / vlan tci spec 0x2005 tci mask 0xfff /")
    );
}

#[test]
fn a_tags_parts_make_its_control_information() {
    let tci = |text: &str| match pattern(&format!("eth / vlan {text} /"))[1] {
        Item::Vlan(VlanMatch { tci: Some(tci), .. }) => tci,
        other => panic!("{text}: {other:?}"),
    };
    let parts = tci("vid is 5 pcp is 3 dei is 1");
    assert_eq!(parts, Masked::exact(0x7005));
    let range = tci("pcp is 3 vid is 5 vid last 9");
    assert_eq!((range.spec, range.last, range.mask), (0x6005, 0x6009, 0xefff));
    let priorities = tci("pcp is 3 pcp last 5");
    assert_eq!(
        (priorities.spec, priorities.last, priorities.mask),
        (0x6000, 0xa000, 0xe000)
    );
}

#[test]
fn rss_names_queues_or_means_all() {
    let actions = |text: &str| rule(&format!("ingress pattern eth / end actions {text} / end")).actions;
    assert_eq!(actions("rss"), [Action::Rss(vec![])]);
    assert_eq!(actions("rss queues 0 2 1 end"), [Action::Rss(vec![0, 2, 1])]);
    assert_eq!(
        actions("mark id 0xfffffffe / queue index 65535"),
        [Action::Mark(0xffff_fffe), Action::Queue(65535)]
    );
    let rule = rule("ingress pattern eth / end actions count / rss queues 3 1 end / end");
    assert_eq!(rule.queues().collect::<Vec<_>>(), [3, 1]);
}
