//! Each refusal is one line that names the word and what would be right.

use mpps_flow::Rule;

fn assert_refused(text: &str, parts: &[&str]) {
    let refused = text.parse::<Rule>().expect_err(text).to_string();
    assert_eq!(refused.lines().count(), 1, "{text}: {refused}");
    for part in parts {
        assert!(refused.contains(part), "not told {part:?}: {text}: {refused}");
    }
}

#[test]
fn attributes_that_are_missing_or_unknown_are_told() {
    for (text, parts) in [
        ("", &["no words", "ingress pattern"][..]),
        ("ingress", &["ingress", "'pattern'"]),
        ("pattern eth / end actions drop / end", &["want ingress"]),
        ("group 1 pattern eth / end actions drop / end", &["want ingress"]),
        (
            "ingres pattern eth / end actions drop / end",
            &["'ingres'", "ingress, egress"],
        ),
        ("ingress ingress pattern", &["ingress", "twice"]),
        ("ingress group pattern", &["group 'pattern'", "4294967295"]),
        (
            "ingress priority 4294967296 pattern",
            &["priority '4294967296'", "4294967295"],
        ),
        ("ingress group 010 pattern", &["'010'", "octal"]),
        ("flow create 0 ingress pattern", &["'flow'", "left out"]),
    ] {
        assert_refused(text, parts);
    }
}

#[test]
fn headers_out_of_place_are_told() {
    for (pattern, parts) in [
        ("any / end", &["'any'", "eth, vlan, ipv4, ipv6, udp, tcp"][..]),
        ("void / end", &["'void'", "eth, vlan"]),
        ("eth/ipv4 / end", &["'eth/ipv4'", "eth, vlan"]),
        ("eth end", &["'end'", "field of eth", "'/'"]),
        ("eth /", &["'actions' is no header", "'end'"]),
        ("eth / udp / end", &["'udp' after 'eth'", "ipv4 or ipv6"]),
        ("udp / end", &["'udp' as the first", "ipv4 or ipv6"]),
        ("ipv6 / ipv4 / end", &["'ipv4' after 'ipv6'"]),
        ("ipv4 / eth / end", &["'eth' after 'ipv4'"]),
        ("ipv4 / udp / tcp / end", &["'tcp' after 'udp'"]),
        ("vlan / end", &["'vlan' as the first", "eth or vlan"]),
        ("eth / vlan / vlan / vlan / end", &["'vlan'", "two tags"]),
        ("eth type is 0x86dd / ipv4 / end", &["eth type", "ipv4", "0x0800"]),
        ("eth type is 0x800 / vlan / end", &["eth type", "0x8100"]),
        ("ipv6 proto is 6 / udp / end", &["ipv6 proto", "udp", "want 17"]),
        (
            "eth / vlan inner_type is 0x800 / ipv6 / end",
            &["vlan inner_type", "0x86dd"],
        ),
    ] {
        assert_refused(&format!("ingress pattern {pattern} actions drop / end"), parts);
    }
}

#[test]
fn fields_and_values_that_do_not_fit_are_told() {
    for (item, parts) in [
        ("udp port is 9", &["'port'", "udp", "src, dst"][..]),
        ("udp dst 9", &["udp dst '9'", "is, spec, last, mask or prefix"]),
        ("udp dst is", &["udp dst is '/'", "65535"]),
        ("udp dst is 65536", &["udp dst is '65536'", "0 to 65535"]),
        ("udp dst is -1", &["'-1'", "0 to 65535"]),
        ("udp dst is +1", &["'+1'", "0 to 65535"]),
        ("udp dst is 0x", &["'0x'", "0 to 65535"]),
        ("udp dst spec 9 dst mask 0x1ffff", &["udp dst mask '0x1ffff'", "0xffff"]),
        ("udp dst spec 9 dst prefix 17", &["udp dst prefix '17'", "0 to 16"]),
        ("udp dst mask 0xff", &["udp dst", "dst spec VALUE"]),
        ("udp dst last 10", &["udp dst", "dst spec VALUE"]),
        ("udp dst is 9 dst is 10", &["udp dst is", "already"]),
        ("udp dst is 9 dst mask 0xff", &["udp dst", "'dst spec'"]),
        ("udp dst spec 9 dst mask 1 dst prefix 1", &["udp dst prefix", "already"]),
        ("udp dst is 9 dst last 8", &["udp dst last 8", "below 9"]),
    ] {
        assert_refused(
            &format!("ingress pattern ipv4 / {item} / end actions drop / end"),
            parts,
        );
    }
    for (item, parts) in [
        ("ipv4 src is 10.0.0", &["ipv4 src is '10.0.0'", "10.99.0.2"][..]),
        ("ipv4 src is fd99::1", &["'fd99::1'", "IPv4 address"]),
        (
            "ipv4 src spec 10.0.0.0 src prefix 33",
            &["ipv4 src prefix '33'", "0 to 32"],
        ),
        ("ipv4 ttl spec 64", &["ipv4 ttl spec", "'ttl is 64'"]),
        ("ipv4 proto is 256", &["ipv4 proto is '256'", "255"]),
        ("ipv6 dst is 10.0.0.1", &["'10.0.0.1'", "IPv6 address"]),
        ("ipv6 dst spec :: dst prefix 129", &["'129'", "128"]),
        ("eth src is 02:00:00:00:00", &["eth src", "MAC"]),
        ("eth src is 02:00:00:00:00:01:02", &["eth src", "MAC"]),
        ("eth src is 002:00:00:00:00:01", &["eth src", "MAC"]),
        ("eth type spec 0x800", &["eth type", "'type is 0x800'"]),
        ("eth / vlan vid is 4096", &["vlan vid is '4096'", "4095"]),
        ("eth / vlan pcp is 8", &["vlan pcp is '8'", "0 to 7"]),
        (
            "eth / vlan tci is 5 vid is 5",
            &["vlan", "'tci'", "the one or the others"],
        ),
        ("eth / vlan vid is 5 pcp is 1 pcp last 2", &["vlan", "'last'", "'vid'"]),
    ] {
        assert_refused(&format!("ingress pattern {item} / end actions drop / end"), parts);
    }
}

#[test]
fn actions_that_are_unknown_or_contradict_each_other_are_told() {
    for (actions, parts) in [
        ("", &["ends after 'actions'"][..]),
        ("end", &["no action", "queue"]),
        ("drop", &["ends after 'drop'", "'/'"]),
        ("drop end", &["'end' after 'drop'", "'/'"]),
        (
            "jump group 1 / end",
            &["'jump'", "queue, rss, drop, mark, count or passthru"],
        ),
        ("queue 1 / end", &["'1' after 'queue'", "'queue index N'"]),
        ("queue index 65536 / end", &["queue index '65536'", "65535"]),
        ("mark / end", &["'/' after 'mark'", "'mark id N'"]),
        (
            "queue index 1 / drop / end",
            &["'drop' beside 'queue index 1'", "one of them"],
        ),
        ("rss / passthru / end", &["'passthru' beside 'rss'"]),
        ("count / count / end", &["'count' beside 'count'"]),
        ("mark id 1 / mark id 2 / end", &["'mark id 2' beside 'mark id 1'"]),
        ("rss queues end / end", &["rss queues", "none"]),
        ("rss queues 0 1 / end", &["rss queues '/'", "'end'"]),
        ("rss types udp end / end", &["'rss types'", "rss queues 0 1 end"]),
        ("drop / end drop", &["'drop' after the last 'end'"]),
    ] {
        assert_refused(&format!("ingress pattern eth / end actions {actions}"), parts);
    }
    assert_refused(
        "egress pattern eth / end actions queue index 0 / end",
        &["queue index 0", "egress", "want ingress"],
    );
    assert_refused("ingress pattern eth / end", &["actions"]);
    assert_refused(
        "ingress pattern eth / end action drop / end",
        &["'action'", "'actions'"],
    );
    let many = "7 ".repeat(129);
    let text = format!("ingress pattern eth / end actions rss queues {many} end / end");
    assert_refused(&text, &["128"]);
}

#[test]
fn a_word_of_any_length_or_making_leaves_the_line_short_and_plain() {
    for word in ["x".repeat(5000), "\u{1b}[31m".to_owned(), "'\\\u{7f}".to_owned()] {
        let line = format!("ingress pattern {word}")
            .parse::<Rule>()
            .expect_err(&word)
            .to_string();
        assert!(line.len() < 400 && !line.chars().any(char::is_control), "{line:?}");
    }
}
