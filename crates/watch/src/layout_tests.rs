//! The Rust half of what is shared with the programs against the C half.

use crate::abi::*;
use crate::c_side::{enumeration, layout_of, line_info, structs};
use crate::load::object;
use crate::record::field;

const WATCH_H: &str = include_str!("../bpf/watch.h");

#[test]
fn both_halves_have_every_field_at_the_same_place() {
    let theirs = structs(object());
    let ours = [
        (
            "plan",
            layout_of!(Plan {
                namespace,
                devices,
                device,
                ranges,
                from,
                to,
                records,
                tells_state,
                tells_reason,
                lanes,
                filtered
            }),
        ),
        (
            "settings",
            layout_of!(Settings {
                process,
                level,
                space,
                unused,
                drops,
                lost
            }),
        ),
        (
            "core",
            layout_of!(Core {
                watched,
                busy,
                waiting,
                wanted,
                since,
                nested,
                holder,
                soft,
                soft_at,
                soft_nested,
                irq_at,
                vector_at,
                over_at,
                soft_called,
                soft_others,
                nameless
            }),
        ),
        (
            "lane",
            layout_of!(LanePlace {
                tid,
                number,
                waits,
                unused,
                stopped,
                resumed
            }),
        ),
        (
            "row",
            layout_of!(Row {
                key,
                count,
                total,
                longest,
                longest_at,
                name
            }),
        ),
        ("drops", layout_of!(Drops { ours, others })),
    ];
    for (name, layout) in ours {
        assert_eq!(theirs[name], layout, "{name}");
    }
    // The compiler leaves these out of the object: the source asserts where their fields lie.
    for (of, name, at) in [
        ("record", "at", field::AT),
        ("record", "cpu", field::CPU),
        ("record", "what", field::WHAT),
        ("record", "flags", field::FLAGS),
        ("record", "id", field::ID),
        ("record", "took", field::TOOK),
        ("record", "a", field::A),
        ("record", "b", field::B),
        ("named", "record", 0),
        ("named", "name", field::NAME),
        ("exchange", "at", field::AT),
        ("exchange", "cpu", field::CPU),
        ("exchange", "what", field::WHAT),
        ("exchange", "prev", field::ID),
        ("exchange", "next", field::NEXT),
        ("exchange", "prev_prio", field::PREV_PRIO),
        ("exchange", "next_prio", field::NEXT_PRIO),
        ("exchange", "prev_state", field::PREV_STATE),
        ("exchange", "prev_name", field::PREV_NAME),
        ("exchange", "next_name", field::NEXT_NAME),
    ] {
        let line = format!("PLACE({of}, {name}, {at});");
        assert!(WATCH_H.contains(&line), "{line}");
    }
}

#[test]
fn the_object_has_no_places_in_the_source_but_those_of_calls() {
    let bytes = line_info(object());
    assert!(bytes < 8192, "{bytes} bytes: scripts/xdp.sh leaves calls alone");
}

#[test]
fn both_halves_have_the_same_numbers() {
    let numbers = |member: &str, ours: &[(&str, u64)]| {
        let theirs = enumeration(WATCH_H, member);
        for &(name, number) in ours {
            assert_eq!(theirs.get(&number).map(String::as_str), Some(name));
        }
    };
    let of = |number: u8| u64::from(number);
    numbers(
        "STOPPED",
        &[
            ("THREAD", of(kind::THREAD)),
            ("OWN", of(kind::OWN)),
            ("IRQ", of(kind::IRQ)),
            ("SOFTIRQ", of(kind::SOFTIRQ)),
            ("VECTOR", of(kind::VECTOR)),
            ("STOPPED", of(kind::STOPPED)),
            ("POLL", of(kind::POLL)),
            ("UNSEEN", of(kind::UNSEEN)),
        ],
    );
    numbers(
        "POLLED",
        &[
            ("SWITCH", of(what::SWITCH)),
            ("WAKING", of(what::WAKING)),
            ("INTERRUPT", of(what::INTERRUPT)),
            ("SOFT", of(what::SOFT)),
            ("PROCESSOR", of(what::PROCESSOR)),
            ("SIGNAL", of(what::SIGNAL)),
            ("DROP", of(what::DROP)),
            ("POLLED", of(what::POLLED)),
        ],
    );
    let constant = |name: &str, value: usize| {
        let line = WATCH_H
            .lines()
            .find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix('='));
        let found = line.and_then(|line| line.trim().trim_end_matches(',').parse().ok());
        assert_eq!(found, Some(value), "{name}");
    };
    for (name, value) in [
        ("CPUS", CPUS),
        ("LANES", LANES),
        ("SLOTS", SLOTS),
        ("PROBES", PROBES),
        ("ROWS", ROWS),
        ("DEVICES", DEVICES),
        ("RANGES", RANGES),
        ("REASONS", REASONS),
        ("SOCKET_FULL", SOCKET_FULL),
        ("REDIRECT", REDIRECT),
        ("SOCKET_COPY", SOCKET_COPY),
        ("NAME", NAME),
        ("STAMPS", STAMPS),
        ("STAMPS_AT", STAMPS_AT),
        ("OF_HOST", mpps_trace::OF_HOST as usize),
    ] {
        constant(name, value);
    }
}
