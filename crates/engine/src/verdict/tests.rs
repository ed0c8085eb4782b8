use super::*;

/// Sentences of reasons and warnings.
fn judge(workload: Workload, e: &Evidence, lanes: &[LaneSummary]) -> (Vec<String>, Vec<String>) {
    let Verdict { reasons, warnings, .. } = super::judge(workload, e, lanes);
    let of = |remarks: &[Remark]| sentences(remarks).into_iter().map(str::to_owned).collect();
    (of(&reasons), of(&warnings))
}

/// The only remark: a reason or a warning.
fn only(workload: Workload, e: &Evidence, lanes: &[LaneSummary]) -> Remark {
    let Verdict { reasons, warnings, .. } = super::judge(workload, e, lanes);
    let all = [reasons, warnings].concat();
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().expect("a remark")
}
use mpps_io::around::{KernelCount, MtuChange, Outage, QueueDrops, Surroundings};
use mpps_io::counter;
use mpps_stats::LEAST_NS;
use mpps_stats::{Gap, RemarkName, RemarkValue, Stretch, Stretches, sentences};

fn good() -> Evidence {
    Evidence {
        tx: 100_000,
        rx: 100_000,
        scheduled: Some(100_000),
        tolerance: 0.001,
        duration_ns: 1_000_000_000,
        cores: 2,
        ..Evidence::default()
    }
}

fn lane() -> LaneSummary {
    LaneSummary {
        tx_packets: 100_000,
        ..LaneSummary::default()
    }
}

#[test]
fn a_clean_run_is_valid_without_warnings() {
    let (reasons, warnings) = judge(Workload::SendRecv, &good(), &[lane()]);
    assert!(reasons.is_empty() && warnings.is_empty(), "{reasons:?} {warnings:?}");
}

#[test]
fn loss_on_the_path_is_a_result_not_a_fault() {
    let e = Evidence {
        rx: 50_000,
        lost: 50_000,
        ..good()
    };
    assert!(judge(Workload::SendRecv, &e, &[lane()]).0.is_empty());
}

#[test]
fn a_stream_that_orders_kept_from_sending_is_valid() {
    let silent = Evidence {
        tx: 0,
        rx: 0,
        scheduled: Some(0),
        kept_silent: true,
        ..good()
    };
    let (reasons, _) = judge(Workload::SendRecv, &silent, &[]);
    assert!(reasons.is_empty(), "{reasons:?}");
}

#[test]
fn each_fault_invalidates_and_names_its_cause() {
    let cases: Vec<(Evidence, LaneSummary, &str, RemarkName)> = vec![
        (
            Evidence {
                scheduled: Some(100_200),
                missed: 200,
                ..good()
            },
            lane(),
            "off the intended",
            RemarkName::MissedDepartures,
        ),
        (
            good(),
            LaneSummary {
                rx_dropped: 1,
                ..lane()
            },
            "this host itself dropped 1 ",
            RemarkName::DroppedByHost,
        ),
        (
            good(),
            LaneSummary {
                tx_failed: 500,
                ..lane()
            },
            "refused",
            RemarkName::RefusedAfterwards,
        ),
        (
            good(),
            LaneSummary {
                path_counters: vec![(counter::NO_SOCKET.to_owned(), 7)],
                ..lane()
            },
            "7 packets of the test went to the host",
            RemarkName::WentToHost,
        ),
        (
            Evidence {
                device_gone: true,
                ..good()
            },
            lane(),
            "vanished",
            RemarkName::DeviceGone,
        ),
        (
            Evidence { tx: 0, ..good() },
            LaneSummary::default(),
            "nothing was sent",
            RemarkName::NothingSent,
        ),
        (
            good(),
            LaneSummary {
                tx_packets: 5,
                ..lane()
            },
            "internal",
            RemarkName::RowsAndLanesDiffer,
        ),
        (
            Evidence {
                beyond_window: 3,
                ..good()
            },
            lane(),
            "out of order",
            RemarkName::BeyondWindow,
        ),
        (
            Evidence {
                flow_contended: 3,
                ..good()
            },
            lane(),
            "3 times a flow moved",
            RemarkName::FlowContended,
        ),
    ];
    for (e, lane, needle, name) in cases {
        let remark = only(Workload::SendRecv, &e, &[lane]);
        assert!(remark.sentence.contains(needle), "{needle}: {remark:?}");
        assert_eq!(remark.name, name);
    }
}

#[test]
fn what_does_not_spoil_a_count_is_told_and_leaves_it_valid() {
    let dropped = LaneSummary {
        path_counters: vec![(counter::DROPPED_SENT.to_owned(), 50)],
        ..lane()
    };
    let moved = |reordered| Evidence {
        flow_moved: 3,
        reordered,
        ..good()
    };
    let missed = Evidence {
        tx: 99_950,
        missed: 50,
        ..good()
    };
    let missed_some = LaneSummary {
        tx_packets: 99_950,
        ..lane()
    };
    let refused = LaneSummary {
        tx_failed: 100,
        ..lane()
    };
    let untracked = Evidence {
        flows: 10,
        untracked: 7,
        ..good()
    };
    let cases = [
        (
            Workload::SendRecv,
            good(),
            &dropped,
            "dropped 50 packets that it should have sent, of the test or of others: all of the test's came back",
            RemarkName::InterfaceDropped,
        ),
        (
            Workload::Send,
            good(),
            &dropped,
            "packets of the test may be among them",
            RemarkName::InterfaceDropped,
        ),
        (
            Workload::Reflect,
            good(),
            &dropped,
            "packets of the test may be among them",
            RemarkName::InterfaceDropped,
        ),
        (
            Workload::Drop,
            good(),
            &dropped,
            "none was the test's",
            RemarkName::InterfaceDropped,
        ),
        (
            Workload::SendRecv,
            missed,
            &missed_some,
            "50 of 100,000 departures were missed (0.0500 %; 0.100 % are allowed)",
            RemarkName::MissedDepartures,
        ),
        (
            Workload::SendRecv,
            good(),
            &refused,
            "100 packets counted as sent were refused by the kernel or device afterwards: no more than",
            RemarkName::RefusedAfterwards,
        ),
        (
            Workload::SendRecv,
            moved(2),
            &lane(),
            "3 times: all are counted",
            RemarkName::FlowMoved,
        ),
        (
            Workload::Drop,
            untracked,
            &lane(),
            "7 packets were of flows beyond the 10",
            RemarkName::Untracked,
        ),
    ];
    for (workload, e, lane, needle, name) in cases {
        let lane = std::slice::from_ref(lane);
        let (reasons, warnings) = judge(workload, &e, lane);
        assert!(reasons.is_empty(), "{reasons:?}");
        assert!(warnings.iter().all(|warning| warning.contains(needle)), "{warnings:?}");
        assert_eq!(only(workload, &e, lane).name, name);
    }
    let (reasons, warnings) = judge(Workload::SendRecv, &moved(0), &[lane()]);
    assert!(reasons.is_empty() && warnings.is_empty(), "{reasons:?} {warnings:?}");
}

#[test]
fn a_remark_has_the_numbers_of_its_sentence() {
    let beyond = Evidence {
        tx: 90_000,
        missed: 10_000,
        ..good()
    };
    let lane = LaneSummary {
        tx_packets: 90_000,
        ..lane()
    };
    let missed = only(Workload::Send, &beyond, std::slice::from_ref(&lane));
    let values = [
        ("missed_packets", RemarkValue::Count(10_000)),
        ("due_packets", RemarkValue::Count(100_000)),
        ("allowed_ratio", RemarkValue::Ratio(0.001)),
        ("off_ratio", RemarkValue::Ratio(0.1)),
        ("cause", "not_known".into()),
    ];
    assert_eq!(missed.values, values);
    let stopped = Evidence {
        still: Standstills {
            stops: vec![Gap {
                from_ns: 0,
                to_ns: 100 * MS,
            }],
            others: vec![],
        },
        ..beyond
    };
    let missed = only(Workload::Send, &stopped, &[lane]);
    assert_eq!(missed.value("cause"), Some(&"stopped".into()));
}

#[test]
fn the_tolerance_is_the_limit() {
    let at = Evidence {
        tx: 99_900,
        scheduled: Some(100_000),
        ..good()
    };
    let lane = LaneSummary {
        tx_packets: 99_900,
        ..LaneSummary::default()
    };
    assert!(judge(Workload::Send, &at, std::slice::from_ref(&lane)).0.is_empty());
    let beyond = Evidence { tx: 99_800, ..at };
    let lane = LaneSummary {
        tx_packets: 99_800,
        ..lane
    };
    assert_eq!(judge(Workload::Send, &beyond, &[lane]).0.len(), 1);
}

#[test]
fn a_senders_loss_is_put_on_its_own_host_only_as_far_as_its_counters_go() {
    let lost = |known| Evidence {
        rx: 99_000,
        lost: 1_000,
        host_drops_known: known,
        ..good()
    };
    let dropped = |n| LaneSummary {
        rx_dropped: n,
        ..lane()
    };
    for (known, n, needle, place, counted) in [
        (
            true,
            0,
            "none of the 1,000 lost packets shows on this host's counters",
            "on_the_way",
            None,
        ),
        (
            false,
            0,
            "where the 1,000 lost packets were lost is not known",
            "not_known",
            None,
        ),
        (
            true,
            400,
            "account for 400 of the 1,000 lost packets at the most: the others",
            "host_counters",
            Some(400u64),
        ),
        (
            true,
            1_200,
            "account for all of the 1,000 lost packets",
            "host_counters",
            Some(1_000),
        ),
    ] {
        let Verdict { warnings, .. } = super::judge(Workload::SendRecv, &lost(known), &[dropped(n)]);
        assert!(
            warnings.len() == 1 && warnings[0].sentence.contains(needle),
            "{needle}: {warnings:?}"
        );
        let (remark, counted) = (&warnings[0], counted.map(RemarkValue::from));
        assert_eq!(remark.value("where"), Some(&place.into()), "{needle}");
        assert_eq!(remark.value("counted_packets"), counted.as_ref(), "{needle}");
        assert_eq!(remark.value("packets"), Some(&1_000u64.into()));
    }
}

#[test]
fn what_the_path_itself_lost_is_one_sentence_by_the_meaning_of_its_counters() {
    let lost = Evidence {
        rx: 99_000,
        lost: 1_000,
        host_drops_known: true,
        ..good()
    };
    for (queue, needle) in [
        (
            990,
            "all 1,000 lost packets were lost by the path itself: 10 at random, 990 from a queue that was full",
        ),
        (
            90,
            "100 of the 1,000 lost packets were lost by the path itself: 10 at random, 90 from a queue that was full",
        ),
    ] {
        let lane = LaneSummary {
            path_counters: vec![
                ("dropped_queue".into(), queue),
                ("lost".into(), 10),
                ("other".into(), 7),
            ],
            ..lane()
        };
        let remark = only(Workload::SendRecv, &lost, &[lane]);
        assert_eq!(remark.sentence, needle);
        let counted = RemarkValue::from(queue + 10);
        assert_eq!(
            (remark.value("where"), remark.value("counted_packets")),
            (Some(&"path".into()), Some(&counted))
        );
    }
    for (packets, sentence) in [
        (86, "all 86 lost packets were lost by the path itself, at random"),
        (1, "the lost packet was lost by the path itself, at random"),
    ] {
        let lane = LaneSummary {
            path_counters: vec![("lost".into(), packets)],
            ..lane()
        };
        let lost = Evidence {
            lost: packets.cast_signed(),
            ..lost.clone()
        };
        let (_, warnings) = judge(Workload::SendRecv, &lost, &[lane]);
        assert_eq!(warnings, [sentence]);
    }
}

#[test]
fn a_link_that_was_down_for_an_instant_does_not_spoil_a_mean() {
    let down = |ns| Evidence {
        scheduled: None,
        link_down_ns: ns,
        ..good()
    };
    let (reasons, warnings) = judge(Workload::Send, &down(500_000), &[lane()]);
    assert!(
        reasons.is_empty() && warnings[0].contains("was down for 0.5 ms"),
        "{reasons:?} {warnings:?}"
    );
    let (reasons, _) = judge(Workload::Send, &down(200_000_000), &[lane()]);
    assert!(reasons[0].contains("was down for 200.0 ms"), "{reasons:?}");
    let remark = only(Workload::Send, &down(200_000_000), &[lane()]);
    assert_eq!(remark.name, RemarkName::CouldNotLeave);
    assert_eq!(remark.value("cause"), Some(&"link_down".into()));
    assert_eq!(remark.value("down_ns"), Some(&200_000_000u64.into()));
}

#[test]
fn numbers_in_sentences_have_their_thousands_set_apart() {
    let e = Evidence {
        tx: 1_000_000,
        rx: 745_516,
        lost: 254_484,
        late: 12_345,
        missed: 1_000_000,
        scheduled: Some(2_000_000),
        beyond_window: 4_321,
        ..good()
    };
    let lane = LaneSummary {
        tx_packets: 1_000_000,
        rx_dropped: 254_484,
        tx_failed: 20_000,
        path_counters: vec![
            (counter::DROPPED_SENT.to_owned(), 50_000),
            (counter::NO_SOCKET.to_owned(), 7_777),
        ],
        ..lane()
    };
    let (reasons, warnings) = judge(Workload::SendRecv, &e, &[lane]);
    for sentence in reasons.iter().chain(&warnings) {
        let long = sentence
            .split(|c: char| !c.is_ascii_digit())
            .find(|digits| digits.len() > 3);
        let after_point = |digits: &str| sentence.contains(&format!(".{digits}"));
        assert!(long.is_none_or(after_point), "{sentence}");
    }
}

#[test]
fn what_is_named_as_a_cause_is_not_told_again_and_what_is_none_is_a_note() {
    let e = Evidence {
        tx: 90_000,
        rx: 90_000,
        missed: 10_000,
        ..good()
    };
    let lane = LaneSummary {
        tx_packets: 90_000,
        ..lane()
    };
    let stopped = |to_ms: u64| Evidence {
        still: Standstills {
            stops: vec![Gap {
                from_ns: 400_000_000,
                to_ns: to_ms * 1_000_000,
            }],
            others: vec![],
        },
        ..e.clone()
    };
    let (reasons, warnings) = judge(Workload::Send, &stopped(500), std::slice::from_ref(&lane));
    assert!(
        reasons[0].contains("stopped for 100.0 ms") && warnings.is_empty(),
        "{reasons:?} {warnings:?}"
    );
    let (reasons, warnings) = judge(Workload::Send, &stopped(405), std::slice::from_ref(&lane));
    assert!(
        reasons[0].contains("not known") && warnings[0].contains("stopped for 5.0 ms"),
        "{reasons:?} {warnings:?}"
    );
    let Verdict { warnings, .. } = super::judge(Workload::Send, &stopped(405), std::slice::from_ref(&lane));
    assert_eq!(
        (warnings[0].name, warnings[0].value("stopped_ns")),
        (RemarkName::Stopped, Some(&(5 * MS).into()))
    );
}

#[test]
fn a_sender_that_is_interrupted_at_once_tells_no_rate_and_is_not_valid() {
    let e = |workload, interrupted, duration_ns| {
        let e = Evidence {
            interrupted,
            duration_ns,
            scheduled: None,
            ..good()
        };
        let lane = LaneSummary {
            tx_role: true,
            tx_packets: e.tx,
            ..LaneSummary::default()
        };
        judge(workload, &e, &[lane]).0
    };
    for workload in [Workload::Send, Workload::SendRecv] {
        let reasons = e(workload, true, 1);
        assert!(
            reasons.iter().any(|r| r.contains("too short to tell a rate")),
            "{reasons:?}"
        );
        assert_eq!(e(workload, true, LEAST_NS), Vec::<String>::new());
        // As long as the user had asked for.
        assert_eq!(e(workload, false, 1), Vec::<String>::new());
    }
    assert_eq!(e(Workload::Reflect, true, 1), Vec::<String>::new());
}

fn around(seen: Surroundings) -> Vec<Surroundings> {
    vec![Surroundings {
        interface: "eth7".to_owned(),
        ..seen
    }]
}

fn no_carrier(from_ns: u64, to_ns: u64) -> Surroundings {
    Surroundings {
        no_carrier: vec![Outage {
            from_ns,
            to_ns,
            from_start: false,
            to_end: false,
        }],
        ..Surroundings::default()
    }
}

fn counted(count: KernelCount, n: u64) -> Surroundings {
    Surroundings {
        kernel: vec![(count, n)],
        ..Surroundings::default()
    }
}

/// Loss of so many packets in a stretch of the run.
fn losing(lost: u64, (from_ns, to_ns): (u64, u64), seen: Surroundings) -> Evidence {
    Evidence {
        rx: 100_000 - lost,
        lost: lost.cast_signed(),
        losses: Stretches {
            largest: vec![Stretch {
                from_ns,
                to_ns,
                packets: lost,
            }],
            ..Stretches::default()
        },
        host_drops_known: true,
        around: around(seen),
        ..good()
    }
}

const MS: u64 = 1_000_000;

#[test]
fn packets_that_no_counter_has_are_put_on_the_way_only_if_nothing_else_is_known_of_them() {
    let on_the_way = "at the most: the others were lost on the way, or at the other end";
    let dropped = LaneSummary {
        rx_dropped: 40,
        ..lane()
    };
    let of = |seen| {
        let (_, warnings) = judge(
            Workload::SendRecv,
            &losing(1_000, (400 * MS, 600 * MS), seen),
            std::slice::from_ref(&dropped),
        );
        warnings.join("; ")
    };
    let note = of(Surroundings::default());
    assert!(note.contains("account for 40 of the 1,000 lost packets") && note.contains(on_the_way));
    let blind = Evidence {
        kernel_drops: Some(Vec::new()),
        kernel_unseen: vec!["XDP programs".to_owned()],
        ..losing(1_000, (400 * MS, 600 * MS), Surroundings::default())
    };
    for (lane, known) in [(&dropped, "account for 40"), (&lane(), "lost is not known")] {
        let (_, warnings) = judge(Workload::SendRecv, &blind, std::slice::from_ref(lane));
        let note = warnings.join("; ");
        assert!(note.contains(known) && !note.contains("lost on the way"), "{note}");
        assert!(
            note.contains("in XDP programs of this host, whose drops were not seen"),
            "{note}"
        );
    }
    let note = of(no_carrier(450 * MS, 500 * MS));
    assert!(!note.contains(on_the_way), "{note}");
    assert!(note.contains("known of the others: eth7 had no carrier"), "{note}");
    // At another time.
    let note = of(no_carrier(700 * MS, 750 * MS));
    assert!(note.contains(on_the_way), "{note}");
}

#[test]
fn what_explains_little_stands_beside_the_question_about_the_reflector() {
    let question = "is a reflector running";
    for (seen, told, asks) in [
        (counted(KernelCount::ReversePathFilter, 1), "dropped 1 packet", true),
        (
            counted(KernelCount::ReversePathFilter, 60_000),
            "dropped 60,000 packets",
            false,
        ),
        (counted(KernelCount::Unreachable, 1), "1 ICMP message", true),
        (counted(KernelCount::TimeExceeded, 6), "6 ICMP messages", true),
        (no_carrier(400 * MS, 403 * MS), "eth7 had no carrier for 3.0 ms", true),
        (
            no_carrier(100 * MS, 900 * MS),
            "eth7 had no carrier for 800.0 ms",
            false,
        ),
        (Surroundings::default(), "", true),
    ] {
        let e = losing(100_000, (0, 1_000 * MS), seen);
        let Verdict { warnings, .. } = super::judge(Workload::SendRecv, &e, &[lane()]);
        let remark = warnings.iter().find(|of| of.name == RemarkName::NothingCameBack);
        let remark = remark.expect("told");
        let note = &remark.sentence;
        assert!(
            note.starts_with("nothing came back") && note.contains(told),
            "{told}: {note}"
        );
        assert_eq!(note.contains(question), asks, "{told}: {note}");
        let place = if asks { "not_known" } else { "surroundings" };
        assert_eq!(remark.value("where"), Some(&place.into()), "{told}");
    }
    let quoted = Evidence {
        icmp: Icmp {
            port_unreachable: 1,
            ..Icmp::default()
        },
        ..losing(100_000, (0, 1_000 * MS), Surroundings::default())
    };
    let (_, warnings) = judge(Workload::SendRecv, &quoted, &[lane()]);
    assert!(!warnings.join(" ").contains(question), "{warnings:?}");
}

#[test]
fn loss_is_put_down_to_what_is_the_tests_or_was_at_its_time() {
    let at = (500 * MS, 600 * MS);
    for (seen, needle) in [
        (counted(KernelCount::Unreachable, 1), "none of the 24,379 lost packets"),
        (no_carrier(100 * MS, 400 * MS), "none of the 24,379 lost packets"),
        (
            no_carrier(550 * MS, 560 * MS),
            "of the 24,379 lost packets: eth7 had no carrier",
        ),
    ] {
        let (_, warnings) = judge(Workload::SendRecv, &losing(24_379, at, seen), &[lane()]);
        assert!(
            warnings.iter().any(|of| of.starts_with(needle)),
            "{needle}: {warnings:?}"
        );
    }
    // Without a route nothing was counted as sent.
    let mut e = losing(10, at, Surroundings::default());
    e.no_way_ns[mpps_io::Obstacle::NoRoute as usize] = 1_000 * MS;
    let (_, warnings) = judge(Workload::SendRecv, &e, &[lane()]);
    let needle = "none of the 10 lost packets";
    assert!(warnings.iter().any(|of| of.starts_with(needle)), "{warnings:?}");
}

#[test]
fn an_mtu_is_no_reason_for_a_link_that_is_down_and_is_told_all_the_same() {
    let told = |too_long: u64| {
        let mut e = Evidence {
            link_down_ns: 200 * MS,
            scheduled: None,
            around: around(Surroundings {
                mtu: vec![MtuChange {
                    at_ns: 5,
                    from: 1500,
                    to: 9000,
                }],
                ..no_carrier(300 * MS, 500 * MS)
            }),
            ..good()
        };
        e.no_way_ns[mpps_io::Obstacle::TooLong as usize] = too_long;
        judge(Workload::Send, &e, &[lane()])
    };
    let (reasons, warnings) = told(0);
    assert!(
        reasons.len() == 1 && reasons[0].contains("eth7 had no carrier"),
        "{reasons:?}"
    );
    assert!(!reasons[0].contains("MTU"), "{reasons:?}");
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("the MTU of eth7"),
        "{warnings:?}"
    );
    let (reasons, warnings) = told(5);
    assert!(
        reasons[0].contains("the MTU of eth7") && warnings.is_empty(),
        "{reasons:?} {warnings:?}"
    );
}

#[test]
fn drops_of_a_queue_that_others_use_too_are_not_said_to_be_the_tests() {
    let queues = Some(vec![QueueDrops {
        name: "fq_codel 1:".to_owned(),
        packets: 5_000,
        imitates: false,
    }]);
    let seen = Surroundings {
        queues,
        ..Surroundings::default()
    };
    let (reasons, _) = judge(Workload::SendRecv, &losing(500, (0, MS), seen.clone()), &[lane()]);
    let Verdict { reasons: remarks, .. } = super::judge(Workload::SendRecv, &losing(500, (0, MS), seen), &[lane()]);
    assert_eq!(remarks[0].name, RemarkName::OwnQueuesDropped);
    assert_eq!(remarks[0].value("test_packets"), Some(&500u64.into()));
    assert_eq!(
        reasons,
        [
            "the queue fq_codel 1: of eth7 dropped 5,000 packets, of the test or of others: up to 500 that were \
             counted as sent may be among them and not have left this host, so loss may not be the path's alone"
        ]
    );
}

#[test]
fn departures_are_not_put_down_to_a_link_that_was_down_at_another_time() {
    for (missed_at, named) in [((500 * MS, 600 * MS), true), ((50 * MS, 150 * MS), false)] {
        let e = Evidence {
            tx: 95_000,
            missed: 5_000,
            misses: Stretches {
                largest: vec![Stretch {
                    from_ns: missed_at.0,
                    to_ns: missed_at.1,
                    packets: 5_000,
                }],
                ..Stretches::default()
            },
            scheduled: Some(100_000),
            link_down_ns: 150 * MS,
            around: around(no_carrier(450 * MS, 600 * MS)),
            ..good()
        };
        let (reasons, _) = judge(Workload::Send, &e, &[lane()]);
        let reason = reasons.join(" ");
        assert!(reason.contains("off the intended one"), "{reason}");
        assert_eq!(reason.contains("the link was down for 150.0 ms"), named, "{reason}");
    }
}
