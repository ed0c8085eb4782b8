//! Traces contain what was recorded, and as many events as reported.

use super::events::{ALL_EMPTY_POLLS, EMPTY_POLLS, room};
use super::*;
use crate::own::tests::example;
use crate::{Did, Round};

fn round(at_ns: u64) -> Round {
    Round {
        at_ns,
        parts: [100, 200, 0, 50, 300, 0, 7],
        rx: 3,
        tx: 32,
        ..Round::default()
    }
}

#[test]
fn a_stage_is_an_entry_and_an_exit_and_each_switch_an_event() {
    let slept = Round {
        at_ns: 1_020_000,
        parts: [5_000, 0, 0, 0, 0, 0, 0],
        did: Did::Slept,
        ..Round::default()
    };
    let polled = Round {
        at_ns: 1_040_000,
        polls: 7,
        did: Did::Polled,
        ..slept
    };
    let recording = example(vec![round(1_010_000), slept, round(1_030_000), polled]);
    let (files, counts) = files(&recording);
    // Two bursts of four stages, a sleep and a stretch of polls; seven polls, two received, two sent.
    let expected = Counts {
        ust: 2 * (2 + 8) + 2 + 2,
        kernel: 2,
        dpdk: 7 + 2 + 2,
    };
    assert_eq!(counts, expected);
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let streams = [
        "ust/metadata",
        "ust/lane_0",
        "kernel/metadata",
        "kernel/core_1",
        "dpdk/metadata",
        "dpdk/lane_0",
    ];
    assert_eq!(paths, [&streams[..], &["functions.nm"]].concat());
    // Each stream says how long it is.
    for file in files.iter().filter(|file| file.path.contains("_0")) {
        let bits = u64::from_le_bytes(file.bytes[40..48].try_into().expect("eight bytes"));
        assert_eq!(bits as usize, file.bytes.len() * 8, "{}", file.path);
    }
}

#[test]
fn empty_polls_beyond_the_cap_are_told_as_discarded() {
    let polled = Round {
        at_ns: 5,
        parts: [9; 7],
        polls: u32::MAX,
        did: Did::Polled,
        ..Round::default()
    };
    let (files, counts) = files(&example(vec![polled]));
    assert_eq!(counts.dpdk, EMPTY_POLLS);
    let stream = files.iter().find(|file| file.path == "dpdk/lane_0").expect("a stream");
    let lost = u64::from_le_bytes(stream.bytes[56..64].try_into().expect("eight bytes"));
    assert_eq!(lost, u64::from(u32::MAX) - EMPTY_POLLS);
}

#[test]
fn however_many_lanes_poll_in_vain_the_trace_stays_within_its_cap() {
    assert_eq!(room(1), EMPTY_POLLS);
    assert!((1..5000).all(|lanes| (1..=ALL_EMPTY_POLLS / lanes as u64).contains(&room(lanes))));
}

#[test]
fn a_lane_that_spins_before_a_departure_polls_nothing() {
    let spun = Round {
        polls: 9,
        did: Did::Spun,
        ..Round::default()
    };
    let (_, counts) = files(&example(vec![spun]));
    assert_eq!((counts.dpdk, counts.ust), (0, 2));
}

#[test]
fn times_at_the_end_of_the_clock_are_no_panic() {
    let round = Round {
        at_ns: u64::MAX - 150,
        ..round(0)
    };
    let polled = Round {
        polls: 3,
        did: Did::Polled,
        ..round
    };
    let (_, counts) = files(&example(vec![round, polled]));
    assert_eq!(counts.dpdk, 2 + 3);
}
