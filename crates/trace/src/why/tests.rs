use super::loss::AFTER_NS;
use super::*;
use crate::{Drop, Event, KernelEvent, LatePacket};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn lane(rounds: Vec<Round>) -> LaneTrace {
    LaneTrace {
        lane: 0,
        name: "lane 0".to_owned(),
        tid: 77,
        cpu: Some(1),
        rounds,
    }
}

fn burst(at_ns: u64, parts: [u32; 7]) -> Round {
    Round {
        at_ns,
        parts,
        tx: 32,
        ..Round::default()
    }
}

fn nobody(_: &LaneTrace, _: u64, _: u64) -> Vec<Part> {
    Vec::new()
}

/// Another thread had the core from 10 to 13 ms.
fn rustc(_: &LaneTrace, from: u64, to: u64) -> Vec<Part> {
    let (from, to) = (from.max(10 * MS), to.min(13 * MS));
    let part = Part {
        what: "rustc (99) had core 1".to_owned(),
        amount: to.saturating_sub(from),
    };
    if part.amount > 0 { vec![part] } else { vec![] }
}

#[test]
fn time_without_a_record_is_anothers_as_far_as_it_is_known() {
    let parts = spent(&lane(Vec::new()), 9 * MS, 14 * MS, &rustc);
    let told: Vec<_> = parts.iter().map(|part| (part.what.as_str(), part.amount)).collect();
    assert_eq!(told, [("rustc (99) had core 1", 3 * MS), (UNRECORDED, 2 * MS)]);
}

#[test]
fn a_verdict_cites_what_was_missed_where_that_is_more_than_was_lost() {
    let cause = |subject, packets| Cause {
        subject,
        at_ns: 0,
        took_ns: 0,
        lane: None,
        packets,
        sentence: String::new(),
        parts: Vec::new(),
    };
    let (lost, slow) = (cause(Subject::Loss, 5), cause(Subject::Slow, 99));
    for (missed, cited) in [(4, Subject::Loss), (5, Subject::Loss), (6, Subject::Missed)] {
        let causes = [lost.clone(), slow.clone(), cause(Subject::Missed, missed)];
        assert_eq!(first(&causes).map(|cause| cause.subject), Some(cited));
    }
    assert_eq!(first(&[slow]).map(|cause| cause.subject), Some(Subject::Slow));
}

fn total(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.amount).sum()
}

#[test]
fn a_slow_burst_names_who_had_the_core_and_its_parts_add_up() {
    let round = burst(9_990_000, [1_000, 500, 0, 2_000, 3_040_000, 0, 100]);
    let cause = slow(&lane(vec![]), &round, 14_000, 0, &rustc);
    assert_eq!(total(&cause.parts), cause.took_ns);
    assert_eq!(
        cause.sentence,
        "A burst of 32 packets on lane 0 at 0.009990 s took 3.044 ms (half of them take no more than 14.00 µs): \
         3.000 ms rustc (99) had core 1."
    );
}

#[test]
fn a_late_packet_is_told_by_the_part_of_its_way_that_took_longest() {
    let lanes = [lane(vec![
        burst(9_999_000, [0, 0, 0, 0, 3_001_000, 0, 0]),
        burst(13_000_500, [0, 0, 0, 500, 900, 0, 0]),
    ])];
    let packet = LatePacket {
        seq: 4711,
        scheduled_ns: Some(10 * MS),
        sent_ns: 13_001_000,
        arrived_ns: 13_040_000,
        classified_ns: 13_040_100,
        ..LatePacket::default()
    };
    let cause = late(&packet, Some(0), &lanes, (45_000, 0), (&rustc, &|_, _, _| None));
    assert_eq!(total(&cause.parts), cause.took_ns);
    assert!(
        cause
            .sentence
            .contains("3.000 ms before it was sent: rustc (99) had core 1"),
        "{}",
        cause.sentence
    );
}

#[test]
fn loss_is_told_by_the_kernel_s_own_reasons_and_the_rest_by_the_path() {
    let drop = |at_ns, ours| KernelEvent {
        at_ns,
        cpu: 0,
        event: Event::Drop(Drop {
            reason: "SOCKET_RCVBUFF".to_owned(),
            ours,
            ..Drop::default()
        }),
    };
    let kernel = [drop(5, true), drop(6, true), drop(7, false), drop(90 + AFTER_NS, true)];
    let lost = Loss {
        from_ns: 0,
        to_ns: 50,
        packets: 5,
        ..Loss::default()
    };
    let cause = loss(&lost, &[], &kernel, 0, &nobody);
    assert_eq!(
        cause.sentence,
        "5 packets were lost between 0.000000 s and 0.000000 s: 2 dropped by this host's kernel: SOCKET_RCVBUFF (a \
         socket's receive buffer was full); 3 on the path or beyond it, as far as this run's own counters tell."
    );
    // The last stretch has what left after it, too.
    let last = Loss {
        last: true,
        ..lost.clone()
    };
    let cause = loss(&last, &[], &kernel, 0, &nobody);
    assert!(
        cause.sentence.contains(": 3 dropped by this host's kernel"),
        "{}",
        cause.sentence
    );
    // The socket's own count has the same two, and another.
    let counted = Loss {
        host_drops: vec![("dropped by this host".to_owned(), 3)],
        ..lost
    };
    let cause = loss(&counted, &[], &kernel, 0, &nobody);
    let amounts: Vec<u64> = cause.parts.iter().map(|part| part.amount).collect();
    assert_eq!(amounts, [2, 1, 2], "{}", cause.sentence);
    let away = lane(vec![burst(9 * MS, [4_100_000, 0, 0, 0, 0, 0, 0])]);
    let lost = Loss {
        from_ns: 9 * MS,
        to_ns: 13 * MS,
        packets: 5,
        ring_lasts_ns: MS,
        ..Loss::default()
    };
    let cause = loss(&lost, &[away], &[], 0, &rustc);
    assert!(
        cause
            .sentence
            .contains("5 while lane 0 was away for 4.100 ms (rustc (99) had core 1)"),
        "{}",
        cause.sentence
    );
    // What the host dropped, by its own counters, had no room because the lane was away.
    let lost = Loss {
        host_drops: vec![("dropped by this host".to_owned(), 9)],
        away: vec![Gap {
            from_ns: 8 * MS,
            to_ns: 12 * MS,
            ..Gap::default()
        }],
        ..lost
    };
    let cause = loss(&lost, &[lane(Vec::new())], &[], 0, &nobody);
    assert!(
        cause.sentence.ends_with(
            "5 dropped by this host; while lane 0 was away for 4.000 ms (nobody saw why), longer than its ring \
             lasts (1.000 ms)."
        ),
        "{}",
        cause.sentence
    );
    assert_eq!(total(&cause.parts), 5);
}

#[test]
fn a_sleep_that_a_lane_chose_is_not_laid_to_the_kernel() {
    let asleep = |_: &LaneTrace, from: u64, to: u64| {
        vec![Part {
            what: Explained::ASLEEP.to_owned(),
            amount: to - from,
        }]
    };
    let slept = Round {
        did: Did::Slept,
        ..burst(1_000, [500, 0, 0, 0, 0, 0, 0])
    };
    // In the transmit call it is the kernel that sleeps.
    let lane = lane(vec![slept, burst(1_500, [0, 0, 0, 0, 200, 0, 0])]);
    let parts = spent(&lane, 1_000, 1_700, &asleep);
    let parts: Vec<_> = parts.iter().map(|part| (part.what.as_str(), part.amount)).collect();
    assert_eq!(parts, [(Stage::Asleep.name(), 500), (Explained::ASLEEP, 200)]);
}

#[test]
fn what_is_known_of_this_host_is_not_put_on_the_path() {
    let lost = Loss {
        packets: 5,
        here: vec!["the queue dropped 4 packets".to_owned()],
        known: vec!["a router reported".to_owned()],
        ..Loss::default()
    };
    let cause = loss(&lost, &[], &[], 0, &|_, _, _| Vec::new());
    assert!(
        cause
            .sentence
            .ends_with(": 5 not attributed to a place; what is known: the queue dropped 4 packets; a router reported."),
        "{}",
        cause.sentence
    );
}

#[test]
fn a_drop_without_a_reason_is_told_by_its_place_and_a_closed_port_by_what_came_before() {
    let lost = Loss {
        to_ns: 50,
        packets: 5,
        kernel_drops: Some(vec![("NOT_SPECIFIED".to_owned(), 3), ("NO_SOCKET".to_owned(), 2)]),
        answered: true,
        ..Loss::default()
    };
    let kernel = [KernelEvent {
        at_ns: 5,
        cpu: 0,
        event: Event::Drop(Drop {
            reason: "NOT_SPECIFIED".to_owned(),
            place: "br_forward".to_owned(),
            ours: true,
            ..Drop::default()
        }),
    }];
    let cause = loss(&lost, &[], &kernel, 0, &nobody);
    for part in [
        "3 dropped by this host's kernel: NOT_SPECIFIED in br_forward (a bridge)",
        "2 dropped by this host's kernel: NO_SOCKET (nobody listens on that port any more).",
    ] {
        assert!(cause.sentence.contains(part), "{}", cause.sentence);
    }
}

proptest! {
    #[test]
    fn whatever_a_lane_did_the_parts_of_a_stretch_add_up(
        gaps in proptest::collection::vec((0..3_000_u64, any::<[u16; 7]>()), 0..20),
        from in 0..40_000_u64,
        length in 0..60_000_u64,
    ) {
        let mut at = 0;
        let rounds = gaps.iter().map(|(gap, parts)| {
            let round = burst(at + gap, parts.map(u32::from));
            at = round.end_ns();
            round
        });
        let lane = lane(rounds.collect());
        let half = |_: &LaneTrace, from: u64, to: u64| vec![Part { what: "x".to_owned(), amount: (to - from) / 2 }];
        for explain in [&half as &Explain<'_>, &nobody] {
            prop_assert_eq!(total(&spent(&lane, from, from + length, explain)), length);
        }
    }

    #[test]
    fn the_parts_of_a_late_packet_add_up_whatever_its_times(times in any::<[u32; 4]>()) {
        let [a, b, d, e] = times.map(u64::from);
        let packet = LatePacket {
            scheduled_ns: Some(a.min(e)),
            sent_ns: b,
            arrived_ns: d,
            classified_ns: e,
            ..LatePacket::default()
        };
        let lanes = [lane(vec![burst(1_000_000_000, [500_000_000; 7])])];
        let cause = late(&packet, Some(0), &lanes, (1, 0), (&nobody, &|_, _, _| None));
        prop_assert_eq!(total(&cause.parts), cause.took_ns);
    }
}
