use super::*;
use mpps_stats::{AwaySummary, Stretch};

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
fn each_fault_invalidates_and_names_its_cause() {
    let cases: Vec<(Evidence, LaneSummary, &str)> = vec![
        (
            Evidence {
                scheduled: Some(100_200),
                missed: 200,
                ..good()
            },
            lane(),
            "off the intended",
        ),
        (
            good(),
            LaneSummary {
                rx_dropped: 1,
                ..lane()
            },
            "this host itself dropped 1 ",
        ),
        (
            good(),
            LaneSummary {
                tx_failed: 500,
                ..lane()
            },
            "refused",
        ),
        (
            good(),
            LaneSummary {
                path_counters: vec![("no_socket".to_owned(), 7)],
                ..lane()
            },
            "7 packets of the test went to the host",
        ),
        (
            Evidence {
                device_gone: true,
                ..good()
            },
            lane(),
            "vanished",
        ),
        (Evidence { tx: 0, ..good() }, LaneSummary::default(), "nothing was sent"),
        (
            good(),
            LaneSummary {
                tx_packets: 5,
                ..lane()
            },
            "internal",
        ),
        (
            Evidence {
                beyond_window: 3,
                ..good()
            },
            lane(),
            "out of order",
        ),
        (
            Evidence {
                flow_contended: 3,
                ..good()
            },
            lane(),
            "3 times a flow moved",
        ),
    ];
    for (e, lane, needle) in cases {
        let (reasons, _) = judge(Workload::SendRecv, &e, &[lane]);
        assert_eq!(reasons.len(), 1, "{needle}: {reasons:?}");
        assert!(reasons[0].contains(needle), "{needle}: {reasons:?}");
    }
}

#[test]
fn what_does_not_spoil_a_count_is_told_and_leaves_it_valid() {
    let dropped = LaneSummary {
        path_counters: vec![(DROPPED_SENT.to_owned(), 50)],
        ..lane()
    };
    let moved = |reordered| Evidence {
        flow_moved: 3,
        reordered,
        ..good()
    };
    let lost = Evidence { lost: 1, ..good() };
    let untracked = Evidence {
        flows: 10,
        untracked: 7,
        ..good()
    };
    let cases = [
        (Workload::SendRecv, good(), &dropped, ""),
        (
            Workload::SendRecv,
            lost,
            &dropped,
            "dropped 50 packets that it was to send, of whatever origin",
        ),
        (Workload::Send, good(), &dropped, "of whatever origin"),
        (Workload::Drop, good(), &dropped, ""),
        (Workload::SendRecv, moved(0), &lane(), ""),
        (Workload::SendRecv, moved(2), &lane(), "3 times: all are counted"),
        (
            Workload::Drop,
            untracked,
            &lane(),
            "7 packets were of flows beyond the 10",
        ),
    ];
    for (workload, e, lane, needle) in cases {
        let (reasons, warnings) = judge(workload, &e, std::slice::from_ref(lane));
        assert!(reasons.is_empty(), "{reasons:?}");
        assert_eq!(warnings.len(), usize::from(!needle.is_empty()), "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains(needle)), "{warnings:?}");
    }
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
fn interference_of_the_host_is_named_as_the_cause() {
    let e = Evidence {
        tx: 90_000,
        scheduled: Some(100_000),
        missed: 10_000,
        ..good()
    };
    let lane = LaneSummary {
        tx_packets: 90_000,
        run_delay_ns: Some(100_000_000),
        ..LaneSummary::default()
    };
    // A line of the report that no thread stands behind has no time to lose.
    let (reasons, warnings) = judge(Workload::Send, &e, &[lane, LaneSummary::default()]);
    assert!(
        reasons[0].contains("kept the lanes from running for 10.0 %"),
        "{reasons:?}"
    );
    assert!(warnings.is_empty(), "told twice: {warnings:?}");
}

const MS: u64 = 1_000_000;

fn gap(from_ms: u64, to_ms: u64) -> Gap {
    Gap {
        from_ns: from_ms * MS,
        to_ns: to_ms * MS,
    }
}

/// A run of 1 s in which a tenth of the departures is missing.
fn short() -> (Evidence, LaneSummary) {
    let e = Evidence {
        tx: 90_000,
        rx: 90_000,
        scheduled: Some(100_000),
        missed: 10_000,
        ..good()
    };
    let lane = LaneSummary {
        tx_role: true,
        tx_packets: 90_000,
        busy_ratio: Some(0.3),
        run_delay_ns: Some(0),
        away: Some(AwaySummary::default()),
        ..LaneSummary::default()
    };
    (e, lane)
}

/// A receiver of 90,000 packets in 1 s that lost 10,000 to its own host between 400 and 500 ms.
fn dropping() -> (Evidence, LaneSummary) {
    let e = Evidence {
        drops: Stretches {
            largest: vec![Stretch {
                from_ns: 400 * MS,
                to_ns: 500 * MS,
                packets: 10_000,
            }],
            ..Stretches::default()
        },
        ..good()
    };
    let lane = LaneSummary {
        rx_packets: 90_000,
        rx_dropped: 10_000,
        busy_ratio: Some(0.3),
        run_delay_ns: Some(0),
        away: Some(AwaySummary::default()),
        ..LaneSummary::default()
    };
    (e, lane)
}

fn away(times: u64, each_ms: u64) -> Option<AwaySummary> {
    Some(AwaySummary {
        count: times,
        total_ns: times * each_ms * MS,
        longest_ns: each_ms * MS,
        longest_at_ns: 400 * MS,
    })
}

/// The one sentence on what is missing, which must have `named` and nothing of what other causes say.
fn assert_missing(e: &Evidence, lane: &LaneSummary, named: &str) {
    let (reasons, _) = judge(Workload::Send, e, std::slice::from_ref(lane));
    assert_eq!(reasons.len(), 1, "{named}: {reasons:?}");
    assert_named(&reasons[0], named);
}

fn assert_dropped(workload: Workload, e: &Evidence, lane: &LaneSummary, named: &str) {
    let (reasons, warnings) = judge(workload, e, std::slice::from_ref(lane));
    let all = [reasons, warnings].concat();
    let sentence = all.iter().find(|s| s.contains("10000 packets")).expect("told");
    assert_named(sentence, named);
}

fn assert_named(sentence: &str, named: &str) {
    const CAUSES: [&str; 8] = [
        "the link was down",
        "the process was stopped",
        "stood still",
        "other threads kept the lanes",
        "a lane was away",
        "could not keep up",
        "the path took nothing",
        "faster than they could",
    ];
    assert!(sentence.contains(named), "no {named:?}: {sentence}");
    for other in CAUSES.iter().filter(|other| !named.contains(**other)) {
        assert!(!sentence.contains(other), "{other:?} beside {named:?}: {sentence}");
    }
}

#[test]
fn missing_departures_have_the_cause_that_the_evidence_names() {
    let (e, lane) = short();
    assert_missing(
        &e,
        &lane,
        "the cause is not known: the busiest lane worked for 30.0 % of the time; no lane was away",
    );
    let still = |stops, others| Evidence {
        still: Standstills { stops, others },
        ..e.clone()
    };
    let stopped = still(vec![gap(400, 500)], vec![]);
    assert_missing(
        &stopped,
        &lane,
        "the process was stopped for 100.0 ms, from 0.400 to 0.500 s",
    );
    // Busy or not: while it was stopped it could not keep up.
    let busy = LaneSummary {
        busy_ratio: Some(0.95),
        ..lane.clone()
    };
    assert_missing(&stopped, &busy, "the process was stopped");
    assert_missing(&still(vec![], vec![gap(400, 500)]), &lane, "all of mpps stood still");
    // Too short for what is missing: told, but not as the cause.
    let brief = still(vec![gap(400, 410)], vec![]);
    assert_missing(&brief, &lane, "the cause is not known");
    assert!(
        judge(Workload::Send, &brief, std::slice::from_ref(&lane)).1[0].contains("the process was stopped for 10.0 ms")
    );
    assert_missing(
        &e,
        &busy,
        "the generator could not keep up: its lanes were busy for 95.0 % of the time",
    );
    let held = LaneSummary {
        away: away(3, 40),
        ..lane.clone()
    };
    assert_missing(
        &e,
        &held,
        "a lane was away from its clock 3 times, for 120.0 ms in all, 40.0 ms at the longest",
    );
    let refused = LaneSummary {
        tx_full: 7,
        ..lane.clone()
    };
    assert_missing(&e, &refused, "the path took nothing 7 times");
    let kept_off = LaneSummary {
        run_delay_ns: Some(100 * MS),
        ..held
    };
    assert_missing(&e, &kept_off, "other threads kept the lanes");
}

#[test]
fn a_rate_that_no_lane_could_reach_is_not_blamed_on_the_host() {
    let (e, lane) = short();
    let e = Evidence {
        scheduled: Some(100_000_000),
        missed: 99_910_000,
        ..e
    };
    let lane = LaneSummary {
        run_delay_ns: Some(650 * MS),
        busy_ratio: Some(0.97),
        ..lane
    };
    assert_missing(&e, &lane, "could not keep up");
}

#[test]
fn drops_by_this_host_have_the_cause_that_was_there_at_their_time() {
    let (e, lane) = dropping();
    for workload in [
        Workload::Reflect,
        Workload::Forward,
        Workload::Drop,
        Workload::SendRecv,
        Workload::Capture,
    ] {
        let lane = LaneSummary {
            tx_packets: 100_000,
            ..lane.clone()
        };
        assert_dropped(
            workload,
            &e,
            &lane,
            "the cause is not known: the busiest lane worked for 30.0 %",
        );
        let stopped = Evidence {
            still: Standstills {
                stops: vec![gap(390, 495)],
                others: vec![],
            },
            ..e.clone()
        };
        assert_dropped(
            workload,
            &stopped,
            &lane,
            "the process was stopped for 105.0 ms, from 0.390 to 0.495 s",
        );
        let busy = LaneSummary {
            busy_ratio: Some(0.97),
            ..lane.clone()
        };
        assert_dropped(workload, &e, &busy, "faster than they could be");
        // At another time.
        let elsewhere = Evidence {
            still: Standstills {
                stops: vec![gap(700, 900)],
                others: vec![],
            },
            ..e.clone()
        };
        assert_dropped(workload, &elsewhere, &lane, "the cause is not known");
        let held = LaneSummary {
            away: away(1, 90),
            ..lane.clone()
        };
        let at_that_time = Evidence {
            away: vec![gap(400, 490)],
            ..e.clone()
        };
        assert_dropped(workload, &at_that_time, &held, "what held them is not known");
        let waited = LaneSummary {
            run_delay_ns: Some(90 * MS),
            ..held.clone()
        };
        assert_dropped(
            workload,
            &at_that_time,
            &waited,
            "lanes were kept from their cores once, for 90.0 ms at the longest; the host interfered: other threads kept the lanes",
        );
        // 10,000 of 100,000 packets a second take 100 ms to come: 20 ms do not explain them.
        let too_short = LaneSummary {
            away: away(1, 20),
            ..lane.clone()
        };
        assert_dropped(workload, &at_that_time, &too_short, "the cause is not known");
    }
}

#[test]
fn whose_threads_had_the_cores_is_told_where_it_is_known() {
    let (e, lane) = short();
    let lane = LaneSummary {
        core: Some(1),
        run_delay_ns: Some(100 * MS),
        ..lane
    };
    let said = |e: &Evidence, lanes: &[LaneSummary]| judge(Workload::Reflect, e, lanes).1.join(" ");
    let text = said(&e, std::slice::from_ref(&lane));
    assert!(
        text.ends_with("kept the lanes from running for 10.0 % of the time"),
        "{text}"
    );
    let rival = |ran_ms: u64| Evidence {
        rivals: vec![Rival {
            process: 77,
            thread: 78,
            core: 1,
            ran_ns: ran_ms * MS,
        }],
        ..e.clone()
    };
    let text = said(&rival(80), std::slice::from_ref(&lane));
    assert!(
        text.contains("another mpps (process 77) has a lane on core 1, too"),
        "{text}"
    );
    let text = said(&rival(8), std::slice::from_ref(&lane));
    assert!(!text.contains("another mpps"), "it has hardly run: {text}");
    let own = Evidence {
        own_ns: 70 * MS,
        ..e.clone()
    };
    let text = said(&own, std::slice::from_ref(&lane));
    assert!(
        text.contains("mpps's own threads beside the lanes (the collector, files) ran for 70.0 ms"),
        "{text}"
    );
    let text = said(&e, &[lane.clone(), lane]);
    assert!(text.contains("lanes of this run share a core"), "{text}");
}
