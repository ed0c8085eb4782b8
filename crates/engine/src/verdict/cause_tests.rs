use super::*;
use crate::lane::away::Standstills;
use crate::verdict::meanwhile::LaneTime;
use mpps_stats::{AwaySummary, Stretch, Stretches, sentences};
use mpps_sys::evidence::Rival;

const MS: u64 = 1_000_000;

fn gap(from_ms: u64, to_ms: u64) -> Gap {
    Gap {
        from_ns: from_ms * MS,
        to_ns: to_ms * MS,
    }
}

/// Returns the sentence on a cause, once it agrees with the cause's name.
fn in_words((cause, sentence): (Cause, String)) -> String {
    let words: &[&str] = match cause {
        Cause::Stopped => &["the process was stopped"],
        Cause::StoodStill => &["stood still"],
        Cause::LinkDown => &["the link was down"],
        Cause::NoWay => &[],
        Cause::KeptOff(KeptOffBy::CpuQuota) => &["the CPU quota of control group"],
        Cause::KeptOff(KeptOffBy::Hypervisor) => &["the hypervisor took"],
        Cause::KeptOff(_) => &["kept the lanes from running"],
        Cause::AwayFromClock => &["without waiting for a core", "the reason is not known"],
        Cause::PathTookNothing => &["the path took nothing", "a ring, buffer or queue was full"],
        Cause::DeviceDropped => &["the path took nothing", "the device"],
        Cause::QueueDropped => &["the queue"],
        Cause::NoRoomToSend => &["waited for room to send"],
        Cause::LanesBusy => &["busy for"],
        Cause::NotKnown => &["the cause is not known"],
    };
    let agrees = words.iter().all(|words| sentence.contains(words));
    assert!(agrees, "{cause:?}: {sentence}");
    sentence
}

/// Checks the sentence on a cause: it has these words, and none of the words of other causes.
fn assert_named(name: &str, sentence: &str, words: &str) {
    const CAUSES: [&str; 11] = [
        "the link was down",
        "the process was stopped",
        "stood still",
        "other threads kept the lanes",
        "the hypervisor took",
        "without waiting for a core",
        "could not keep up",
        "the path took nothing",
        "waited for room to send for",
        "faster than they could",
        "the cause is not known",
    ];
    assert!(sentence.contains(words), "{name}: no {words:?} in: {sentence}");
    for other in CAUSES.iter().filter(|other| !words.contains(**other)) {
        // The evidence, where no cause is named, has the time for which lanes waited for room.
        let evidence = *other == "waited for room to send for" && words.contains("not known");
        assert!(
            evidence || !sentence.contains(other),
            "{name}: {other:?} in: {sentence}"
        );
    }
}

/// A run of 1 s, and of 200 ms settle time, in which `missing` of 100,000 departures are missing.
fn short(missing: u64, lane: LaneTime, change: impl FnOnce(&mut Evidence)) -> String {
    let mut e = Evidence {
        tx: 100_000 - missing,
        missed: missing,
        duration_ns: 1_000 * MS,
        looked_ns: 1_200 * MS,
        cores: 2,
        sending: vec![lane],
        ..Evidence::default()
    };
    change(&mut e);
    in_words(Causes::new(Workload::Send, &e, &[]).of_missing(100_000))
}

/// A lane that had time to spare, and was never held up.
fn calm(ms: u64) -> LaneTime {
    LaneTime {
        ns: ms * MS,
        loop_ns: ms * MS,
        busy_ns: ms * MS * 3 / 10,
        waited_ns: Some(0),
        ..LaneTime::default()
    }
}

#[test]
fn missing_departures_have_the_cause_that_explains_half_of_them() {
    let lane = calm(1_000);
    let waited = |ms: u64| LaneTime {
        waited_ns: Some(ms * MS),
        away: 3,
        away_ns: ms * MS,
        ..lane
    };
    let held = |ms: u64| LaneTime {
        away: 3,
        away_ns: ms * MS,
        ..lane
    };
    let blocked = |ms: u64| LaneTime {
        blocked_ns: ms * MS,
        ..lane
    };
    let busy = |ms: u64| LaneTime {
        busy_ns: ms * MS,
        ..lane
    };
    let stop = |to: u64| move |e: &mut Evidence| e.still.stops = vec![gap(400, to)];
    let froze = |to: u64| move |e: &mut Evidence| e.still.others = vec![gap(400, to)];
    let down = |ms: u64| move |e: &mut Evidence| e.link_down_ns = ms * MS;
    let steal = |ms: u64| move |e: &mut Evidence| e.steal_ns = ms * MS;
    let none = |_: &mut Evidence| {};
    let unknown = "the cause is not known: of the sending time the lanes worked for 30.0 %";
    for (name, sentence, words) in [
        ("nothing is known", short(10_000, lane, none), unknown),
        (
            "a stop of a tenth",
            short(10_000, lane, stop(500)),
            "the process was stopped for 100.0 ms, from 0.400 to 0.500 s",
        ),
        (
            "a stop while busy",
            short(10_000, busy(950), stop(500)),
            "the process was stopped",
        ),
        ("a stop of 5 ms", short(10_000, lane, stop(405)), unknown),
        (
            "a stop of half the run on a host that is slow",
            short(70_000, waited(200), |e| e.still.stops = vec![gap(400, 900)]),
            "the process was stopped for 500.0 ms",
        ),
        (
            "a stop in the settle time",
            short(10_000, lane, |e| e.still.stops = vec![gap(1_000, 1_200)]),
            unknown,
        ),
        (
            "a standstill of a tenth",
            short(10_000, lane, froze(500)),
            "all of mpps stood still for 100.0 ms",
        ),
        ("a standstill of 5 ms", short(10_000, lane, froze(405)), unknown),
        (
            "a link down for a tenth",
            short(10_000, lane, down(100)),
            "the link was down for 100.0 ms",
        ),
        ("a link down for an instant", short(10_000, lane, down(1)), unknown),
        (
            "lanes that waited for a tenth",
            short(10_000, waited(100), none),
            "other threads kept the lanes from running for 10.0 % of the sending time",
        ),
        (
            "lanes that waited for most of the time, and caught up with little of it",
            short(85_000, waited(690), none),
            "other threads kept the lanes from running for 69.0 % of the sending time",
        ),
        (
            "lanes that waited for 1 %",
            short(10_000, waited(10), none),
            "waited for their cores for 1.0 %",
        ),
        (
            "lanes that were held for a tenth",
            short(10_000, held(100), none),
            "3 times, for 10.0 % of the sending time, without waiting for a core",
        ),
        ("lanes that were held for 1 %", short(10_000, held(10), none), unknown),
        (
            "a hypervisor that took a fifth",
            short(10_000, lane, steal(500)),
            "the hypervisor took 20.8 %",
        ),
        ("a hypervisor that took 1 %", short(10_000, lane, steal(24)), unknown),
        (
            "a path that took nothing for a tenth",
            short(10_000, blocked(100), none),
            "the path took nothing for 10.0 % of the sending time",
        ),
        (
            "a path that refused once",
            short(
                10_000,
                LaneTime {
                    blocked_ns: 1_000,
                    ..lane
                },
                none,
            ),
            unknown,
        ),
        (
            "a lane that never rested",
            short(10_000, busy(950), none),
            "could not keep up: its lanes were busy for 95.0 % of the sending time",
        ),
        (
            "a rate that no lane reaches, on a host that waits",
            short(
                99_900,
                LaneTime {
                    busy_ns: 970 * MS,
                    ..waited(650)
                },
                none,
            ),
            "could not keep up",
        ),
        (
            "a path far below the rate",
            short(
                99_900,
                LaneTime {
                    busy_ns: 200 * MS,
                    ..blocked(750)
                },
                none,
            ),
            "the path took nothing for 75.0 %",
        ),
    ] {
        // What was given as evidence is no cause.
        let words = if name == "lanes that waited for 1 %" {
            unknown
        } else {
            words
        };
        assert_named(name, &sentence, words);
    }
}

#[test]
fn a_share_is_of_the_time_looked_at() {
    // Two lanes waited through most of a run, and of a settle time that is much longer.
    let lane = LaneSummary {
        tx_role: true,
        run_delay_ns: Some(8_940 * MS),
        measured_ns: 11_000 * MS,
        ..LaneSummary::default()
    };
    let e = Evidence {
        duration_ns: 1_000 * MS,
        looked_ns: 11_000 * MS,
        steal_ns: 440 * MS,
        cores: 2,
        ..Evidence::default()
    };
    let notes = Causes::new(Workload::SendRecv, &e, &[lane.clone(), lane]).notes();
    let note = &notes[0].sentence;
    assert!(
        note.contains("from running for 81.3 % of the time") && note.contains("took 2.0 % of the time"),
        "{notes:?}"
    );
    assert_eq!(notes[0].name, RemarkName::HostInterfered);
    assert_eq!(notes[0].value("cause"), Some(&"other_threads".into()));
    assert_eq!(notes[0].value("stolen_ratio"), Some(&RemarkValue::Ratio(0.02)));
}

/// Drops of 1,000 of 10,000 packets in 100 ms, from 400 to 500 ms, of what `lane` was to take; 10 ms explain them.
fn dropped(workload: Workload, lane: LaneTime, change: impl FnOnce(&mut Evidence)) -> String {
    let mut e = Evidence {
        duration_ns: 10_000 * MS,
        looked_ns: 10_000 * MS,
        cores: 2,
        dropping: vec![LaneTime {
            taken: 9_000,
            dropped: 1_000,
            ..lane
        }],
        drops: Stretches {
            largest: vec![Stretch {
                from_ns: 400 * MS,
                to_ns: 500 * MS,
                packets: 1_000,
            }],
            ..Stretches::default()
        },
        ..Evidence::default()
    };
    change(&mut e);
    in_words(Causes::new(workload, &e, &[]).of_drops())
}

#[test]
fn drops_have_the_cause_that_was_at_work_at_their_time_for_long_enough() {
    let lane = calm(100);
    let stops = |stops: Vec<Gap>| move |e: &mut Evidence| e.still = Standstills { stops, others: vec![] };
    let froze = |others: Vec<Gap>| move |e: &mut Evidence| e.still = Standstills { stops: vec![], others };
    let none = |_: &mut Evidence| {};
    let waited = |ms: u64| LaneTime {
        waited_ns: Some(ms * MS),
        away: 2,
        away_ns: ms * MS,
        ..lane
    };
    let held = |ms: u64| LaneTime {
        away: 2,
        away_ns: ms * MS,
        ..lane
    };
    let blocked = |ms: u64| LaneTime {
        blocked_ns: ms * MS,
        ..lane
    };
    let busy = LaneTime {
        busy_ns: 97 * MS,
        ..lane
    };
    // Drops all along the run, of which a stop is a small part.
    let all_along = |e: &mut Evidence| {
        e.still.stops = vec![gap(450, 455)];
        e.dropping[0].ns = 10_000 * MS;
        e.dropping[0].taken = 900_000;
        e.dropping[0].dropped = 100_000;
        e.drops.largest = vec![Stretch {
            from_ns: 0,
            to_ns: 10_000 * MS,
            packets: 100_000,
        }];
    };
    let unknown = "the cause is not known: of the 100.0 ms in which it happened the lanes concerned worked for 30.0 %";
    for workload in [
        Workload::Reflect,
        Workload::Forward,
        Workload::Drop,
        Workload::SendRecv,
        Workload::Capture,
    ] {
        let dropped = |lane, change: &dyn Fn(&mut Evidence)| dropped(workload, lane, change);
        let at = |gaps: Vec<Gap>| move |e: &mut Evidence| stops(gaps.clone())(e);
        let frozen = |gaps: Vec<Gap>| move |e: &mut Evidence| froze(gaps.clone())(e);
        for (name, sentence, words) in [
            ("nothing is known", dropped(lane, &none), unknown),
            (
                "a stop then",
                dropped(lane, &at(vec![gap(390, 495)])),
                "the process was stopped for 105.0 ms, from 0.390 to 0.495 s",
            ),
            (
                "a stop at another time",
                dropped(lane, &at(vec![gap(700, 900)])),
                unknown,
            ),
            (
                "a stop then that is too short",
                dropped(lane, &at(vec![gap(450, 454)])),
                unknown,
            ),
            (
                "a stop of 5 ms in 10 s of drops",
                dropped(lane, &all_along),
                "the cause is not known: of the 10.000 s",
            ),
            (
                "a standstill then",
                dropped(lane, &frozen(vec![gap(390, 495)])),
                "all of mpps stood still",
            ),
            (
                "a standstill at another time",
                dropped(lane, &frozen(vec![gap(501, 900)])),
                unknown,
            ),
            (
                "lanes that waited for room",
                dropped(blocked(60), &none),
                "waited for room to send for 60.0 % of the 100.0 ms in which it happened",
            ),
            ("lanes that hardly waited for room", dropped(blocked(4), &none), unknown),
            (
                "lanes busy waiting for room",
                dropped(
                    LaneTime {
                        busy_ns: 99 * MS,
                        ..blocked(60)
                    },
                    &none,
                ),
                "waited for room to send for 60.0 %",
            ),
            (
                "lanes kept from their cores",
                dropped(waited(9), &none),
                "lanes were kept from their cores: other threads kept the lanes from running for 9.0 % of the 100.0 ms",
            ),
            ("lanes hardly kept from their cores", dropped(waited(3), &none), unknown),
            (
                "lanes held by something",
                dropped(held(90), &none),
                "for 90.0 % of the 100.0 ms in which it happened, without waiting for a core: the reason is not known",
            ),
            ("lanes hardly held", dropped(held(4), &none), unknown),
            (
                "lanes that never rested",
                dropped(busy, &none),
                "faster than they could be",
            ),
            (
                "lanes that never rested, and a stop elsewhere",
                dropped(busy, &at(vec![gap(700, 900)])),
                "faster than they could be",
            ),
        ] {
            assert_named(name, &sentence, words);
        }
    }
}

#[test]
fn a_lane_answers_only_for_what_it_was_to_take() {
    // One direction is busy and drops nothing; the other, at rest, drops.
    let rest = dropped(Workload::Forward, calm(100), |_| {});
    assert_named("the busy direction dropped nothing", &rest, "the cause is not known");
    // Two lanes drop: the one that drops most is the one to explain.
    let lanes = |busy_dropped: u64, calm_dropped: u64| {
        dropped(Workload::Forward, calm(100), |e| {
            let busy = LaneTime {
                busy_ns: 98 * MS,
                dropped: busy_dropped,
                ..e.dropping[0]
            };
            e.dropping[0].dropped = calm_dropped;
            e.dropping.push(busy);
        })
    };
    assert_named(
        "the busy lane drops most",
        &lanes(900, 100),
        "faster than they could be forwarded",
    );
    assert_named(
        "the lane at rest drops most",
        &lanes(100, 900),
        "the cause is not known",
    );
}

#[test]
fn a_hypervisor_is_named_for_lanes_that_were_held_where_it_took_as_much() {
    let held = LaneTime {
        away: 1,
        away_ns: 50 * MS,
        ..calm(100)
    };
    let mut e = Evidence {
        looked_ns: 1_000 * MS,
        cores: 1,
        dropping: vec![LaneTime {
            taken: 500,
            dropped: 500,
            ..held
        }],
        steal_ns: 40 * MS,
        ..Evidence::default()
    };
    let lane = LaneSummary {
        away: Some(AwaySummary {
            count: 1,
            total_ns: 50 * MS,
            ..AwaySummary::default()
        }),
        ..LaneSummary::default()
    };
    let said = |e: &Evidence| in_words(Causes::new(Workload::Drop, e, std::slice::from_ref(&lane)).of_drops());
    assert!(
        said(&e).contains("without waiting for a core: the hypervisor took 4.0 %"),
        "{}",
        said(&e)
    );
    e.steal_ns = 12 * MS;
    assert!(said(&e).contains("the reason is not known"), "{}", said(&e));
}

#[test]
fn whose_threads_had_the_cores_is_told_where_they_had_them_for_half_of_the_wait() {
    let lane = LaneSummary {
        core: Some(1),
        run_delay_ns: Some(100 * MS),
        measured_ns: 1_000 * MS,
        ..LaneSummary::default()
    };
    let rival = |process: u32, ran_ms: u64| Rival {
        process,
        program: "mpps".to_owned(),
        thread: process + 1,
        name: "lane0".to_owned(),
        core: 1,
        bound: true,
        ran_ns: ran_ms * MS,
    };
    let other_s = |name: &str, ran_ms: u64| Rival {
        program: "cc1".to_owned(),
        name: name.to_owned(),
        ..rival(87, ran_ms)
    };
    let said = |rivals: Vec<Rival>, own_ms: u64, lanes: &[LaneSummary]| {
        let e = Evidence {
            duration_ns: 1_000 * MS,
            looked_ns: 1_000 * MS,
            cores: 2,
            rivals,
            own_ns: own_ms * MS,
            ..Evidence::default()
        };
        sentences(&Causes::new(Workload::Reflect, &e, lanes).notes()).join(" ")
    };
    let one = std::slice::from_ref(&lane);
    let alone = LaneSummary {
        core: Some(0),
        run_delay_ns: Some(0),
        ..lane.clone()
    };
    let other = "another mpps (process 77) has a lane on core 1, too, which ran for";
    let remedy = "give each end cores of its own";
    let whose = "other threads kept the lanes from running for 10.0 % of the time (";
    for (name, text, words) in [
        (
            "another process for 80 ms of 100",
            said(vec![rival(77, 80)], 0, one),
            Some(other),
        ),
        (
            "another process for 3 ms of 100",
            said(vec![rival(77, 3)], 0, one),
            None,
        ),
        (
            "another process for 40 ms of 100",
            said(vec![rival(77, 40)], 0, one),
            Some(other),
        ),
        (
            "two processes for 40 ms each",
            said(vec![rival(77, 40), rival(99, 40)], 0, one),
            Some(other),
        ),
        (
            "two lanes of one process for 40 ms each",
            said(vec![rival(77, 40), rival(77, 40)], 0, one),
            Some("another mpps (process 77) has 2 lanes on core 1, too, which ran for 80.0 ms in all"),
        ),
        (
            "lanes of one process on two cores",
            said(
                vec![
                    Rival {
                        core: 3,
                        ..rival(77, 40)
                    },
                    rival(77, 40),
                ],
                0,
                one,
            ),
            Some("another mpps (process 77) has 2 lanes on cores 1, 3, too"),
        ),
        (
            "a thread of another program for 40 ms of 100",
            said(vec![other_s("cc1", 40)], 0, one),
            Some("cc1 (thread 88) ran for 40.0 ms meanwhile, last on core 1"),
        ),
        (
            "a thread of another program for 3 ms of 100",
            said(vec![other_s("cc1", 3)], 0, one),
            None,
        ),
        (
            "a program that is called as a lane is, and one that is called mpps",
            said(vec![other_s("lane0", 80)], 0, one),
            Some("lane0 (thread 88) ran for 80.0 ms"),
        ),
        (
            "threads of one program on two cores",
            said(
                vec![
                    other_s("cc1", 40),
                    Rival {
                        core: 0,
                        ..other_s("cc1", 20)
                    },
                ],
                0,
                one,
            ),
            Some("cc1 (2 threads) ran for 60.0 ms meanwhile, last on cores 0, 1"),
        ),
        (
            "five programs, of which the shortest is a lane of another mpps",
            said(
                vec![
                    rival(77, 11),
                    other_s("ld", 12),
                    other_s("cc1", 30),
                    other_s("as", 20),
                    other_s("sh", 2),
                ],
                0,
                one,
            ),
            Some(
                "(cc1 (thread 88) ran for 30.0 ms meanwhile, last on core 1; as (thread 88) ran for 20.0 ms meanwhile, \
                 last on core 1; ld (thread 88) ran for 12.0 ms meanwhile, last on core 1; 2 more threads ran for 13.0 \
                 ms in all; ",
            ),
        ),
        (
            "many threads of which each ran a little",
            said((0..9).map(|n| other_s(&format!("t{n}"), 3)).collect(), 0, one),
            Some("9 threads ran for 27.0 ms in all"),
        ),
        (
            "own threads for 70 ms",
            said(vec![], 70, one),
            Some("mpps's own threads beside the lanes (the collector, files) ran for 70.0 ms"),
        ),
        ("own threads for 7 ms", said(vec![], 7, one), None),
        (
            "two lanes on one core",
            said(vec![], 0, &[lane.clone(), lane.clone()]),
            Some("lanes of this run share a core"),
        ),
        ("two lanes on two cores", said(vec![], 0, &[lane.clone(), alone]), None),
    ] {
        match words {
            Some(words) => {
                assert!(text.contains(whose) && text.contains(words), "{name}: {text}");
                assert!(text.matches("process 77").count() < 2, "{name}: {text}");
                let half = !name.contains("for 40 ms of 100") && !name.contains("five programs");
                assert_eq!(
                    text.contains(remedy),
                    text.contains("another mpps") && half,
                    "{name}: {text}"
                );
            }
            None => assert!(!text.contains("ran for"), "{name}: {text}"),
        }
        // Of 100 ms that each lane waited.
        let accounted = match name {
            "another process for 3 ms of 100" | "a thread of another program for 3 ms of 100" => Some("3.0 ms"),
            "another process for 40 ms of 100" | "a thread of another program for 40 ms of 100" => Some("40.0 ms"),
            "lanes of one process on two cores" | "threads of one program on two cores" => Some("40.0 ms"),
            "many threads of which each ran a little" => Some("27.0 ms"),
            "own threads for 70 ms" => Some("70.0 ms"),
            "own threads for 7 ms" => Some("7.0 ms"),
            "five programs, of which the shortest is a lane of another mpps" => Some("75.0 ms"),
            "two lanes on two cores" => Some("0.0 ms"),
            _ => None,
        };
        let said = accounted.map(|ms| format!("{ms} of the 100.0 ms that lanes waited is accounted for at most"));
        match said {
            Some(said) => assert!(text.contains(&said) && text.contains("--trace FILE"), "{name}: {text}"),
            None => assert!(!text.contains("is accounted for"), "{name}: {text}"),
        }
    }
}

#[test]
fn a_thread_that_may_run_elsewhere_is_not_said_to_have_had_the_lanes_core_for_sure() {
    let lane = LaneSummary {
        core: Some(1),
        run_delay_ns: Some(600 * MS),
        measured_ns: 1_000 * MS,
        ..LaneSummary::default()
    };
    let said = |bound: bool, traced: bool| {
        let e = Evidence {
            duration_ns: 1_000 * MS,
            looked_ns: 1_000 * MS,
            cores: 2,
            traced,
            rivals: vec![Rival {
                process: 87,
                program: "rustc".to_owned(),
                thread: 88,
                name: "opt".to_owned(),
                core: 1,
                bound,
                ran_ns: 900 * MS,
            }],
            ..Evidence::default()
        };
        sentences(&Causes::new(Workload::Reflect, &e, std::slice::from_ref(&lane)).notes()).join(" ")
    };
    let (named, unsure) = (
        "opt (thread 88) ran for",
        "may have been there: a run with --trace FILE names",
    );
    for traced in [false, true] {
        let text = said(true, traced);
        assert!(
            text.contains(named) && !text.contains(unsure) && !text.contains("see the trace"),
            "{text}"
        );
    }
    let text = said(false, false);
    assert!(text.contains(named) && text.contains(unsure), "{text}");
    let text = said(false, true);
    assert!(!text.contains(named) && text.contains("see the trace"), "{text}");
}

#[test]
fn a_quota_that_can_t_be_read_leaves_the_cause_open_unless_threads_were_seen_for_half_of_the_wait() {
    let lanes = [LaneSummary {
        core: Some(1),
        run_delay_ns: Some(100 * MS),
        measured_ns: 1_000 * MS,
        ..LaneSummary::default()
    }];
    let said = |ran_ms: u64, unread_quota: Option<&str>| {
        let e = Evidence {
            duration_ns: 1_000 * MS,
            looked_ns: 1_000 * MS,
            cores: 2,
            rivals: vec![Rival {
                process: 87,
                program: "cc1".to_owned(),
                thread: 88,
                name: "cc1".to_owned(),
                core: 1,
                bound: true,
                ran_ns: ran_ms * MS,
            }],
            unread_quota: unread_quota.map(str::to_owned),
            ..Evidence::default()
        };
        let causes = Causes::new(Workload::Reflect, &e, &lanes);
        let notes = sentences(&causes.notes()).join(" ");
        let by = causes.kept_off().expect("lanes waited").by;
        assert_eq!(
            notes.contains("a CPU quota of control group /a can't be read"),
            unread_quota.is_some()
        );
        (
            by,
            notes.contains("other threads or a CPU quota kept the lanes from running for 10.0 %"),
        )
    };
    assert_eq!(said(20, Some("/a")), (KeptOffBy::NotKnown, true));
    assert_eq!(said(60, Some("/a")), (KeptOffBy::OtherThreads, false));
    assert_eq!(said(20, None), (KeptOffBy::OtherThreads, false));
}
