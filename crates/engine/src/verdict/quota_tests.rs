//! Causes of runs whose CPU quota kept lanes off their cores, and of such that had a quota and another cause.

use super::*;
use crate::lane::away::Standstills;
use crate::verdict::meanwhile::LaneTime;
use mpps_stats::{Stretch, Stretches, WithheldTime, sentences};
use mpps_sys::cgroup::RealTimeLimit;
use mpps_sys::evidence::Rival;

const MS: u64 = 1_000_000;

/// A quota that withheld so much in each 100 ms of the first second.
fn quota(ms: u64) -> Option<Withheld> {
    let times = (0..10).map(|n| WithheldTime {
        from_ns: n * 100 * MS,
        to_ns: (n + 1) * 100 * MS,
        ns: ms * MS,
    });
    (ms > 0).then(|| Withheld {
        group: "/jobs/7".to_owned(),
        granted_us: Some((20_000, 100_000)),
        periods: 10,
        throttled: 9,
        ns: 10 * ms * MS,
        cores: Some(1),
        times: times.collect(),
    })
}

/// A lane that was off its core for so long of 1 s: it waited for the core, or only its clock shows the time.
fn off(ms: u64, waits_are_told: bool) -> LaneTime {
    LaneTime {
        ns: 1_000 * MS,
        loop_ns: 1_000 * MS,
        busy_ns: 100 * MS,
        waited_ns: waits_are_told.then_some(ms * MS),
        away: 10,
        away_ns: ms * MS,
        taken: 2_000,
        dropped: 8_000,
        ..LaneTime::default()
    }
}

fn evidence(lane: LaneTime, withheld: Option<Withheld>) -> Evidence {
    Evidence {
        tx: 20_000,
        missed: 80_000,
        duration_ns: 1_000 * MS,
        looked_ns: 1_000 * MS,
        cores: 1,
        sending: vec![lane],
        dropping: vec![lane],
        withheld,
        rivals: vec![Rival {
            process: 88,
            program: "cc1".to_owned(),
            thread: 88,
            name: "cc1".to_owned(),
            core: 1,
            bound: true,
            ran_ns: 700 * MS,
        }],
        ..Evidence::default()
    }
}

fn lanes(ms: u64) -> [LaneSummary; 1] {
    [LaneSummary {
        run_delay_ns: Some(ms * MS),
        measured_ns: 1_000 * MS,
        ..LaneSummary::default()
    }]
}

const NAME: &str = "the CPU quota of control group /jobs/7 (20 ms of CPU time per 100 ms) kept the lanes from running";

#[test]
fn a_quota_is_named_by_the_time_that_it_withheld_and_who_ran_meanwhile_is_not() {
    for (withheld_ms, named) in [(80, true), (41, true), (39, false), (0, false)] {
        let e = evidence(off(800, true), quota(withheld_ms));
        let lanes = lanes(800);
        let (cause, text) = Causes::new(Workload::Send, &e, &lanes).of_missing(100_000);
        assert_eq!(text.contains(NAME), named, "{withheld_ms}: {text}");
        assert_eq!(
            cause == Cause::KeptOff(KeptOffBy::CpuQuota),
            named,
            "{withheld_ms}: {cause:?}"
        );
        assert_eq!(text.contains("cc1"), !named, "{withheld_ms}: {text}");
        // A quota that was not most of the cause is named all the same.
        let as_well = text.contains("withheld 390.0 ms as well");
        assert_eq!(as_well, withheld_ms == 39, "{withheld_ms}: {text}");
        if named {
            assert!(text.contains("in 9 of the run's 10 periods"), "{text}");
        }
        let note = sentences(&Causes::new(Workload::Reflect, &e, &lanes).notes()).join(" ");
        assert_eq!((note.contains(NAME), note.contains("cc1")), (named, !named), "{note}");
    }
}

#[test]
fn a_limit_of_real_time_threads_is_named_if_it_can_have_kept_the_lanes_off_and_who_ran_meanwhile_is_not() {
    for (granted_us, named) in [(200_000, true), (950_000, false), (10_000, false)] {
        let e = Evidence {
            real_time: Some(RealTimeLimit {
                group: "/jobs/7".to_owned(),
                granted_us,
                period_us: 1_000_000,
            }),
            ..evidence(off(450, true), None)
        };
        let lanes = lanes(450);
        let causes = Causes::new(Workload::Reflect, &e, &lanes);
        let note = sentences(&causes.notes()).join(" ");
        let limit = "control group /jobs/7 grants them 200.0 ms of each 1.000 s";
        assert_eq!((note.contains(limit), note.contains("cc1")), (named, !named), "{note}");
        let by = causes.kept_off().expect("lanes were kept off").by;
        assert_eq!(by == KeptOffBy::RealTime, named, "{by:?}");
    }
}

#[test]
fn where_the_kernel_tells_no_waits_the_quota_is_named_all_the_same() {
    let text = |withheld| {
        let e = evidence(off(800, false), withheld);
        Causes::new(Workload::Send, &e, &[]).of_missing(100_000).1
    };
    assert!(text(quota(80)).contains(NAME), "{}", text(quota(80)));
    assert!(text(None).contains("the reason is not known"), "{}", text(None));
}

#[test]
fn a_quota_that_stops_all_threads_is_no_frozen_process() {
    let still = Standstills {
        others: vec![Gap {
            from_ns: 100 * MS,
            to_ns: 900 * MS,
        }],
        ..Standstills::default()
    };
    let text = |withheld| {
        let e = Evidence {
            still: still.clone(),
            ..evidence(off(800, false), withheld)
        };
        Causes::new(Workload::Send, &e, &[]).of_missing(100_000).1
    };
    assert!(text(quota(80)).contains(NAME), "{}", text(quota(80)));
    assert!(text(quota(9)).contains("was frozen"), "{}", text(quota(9)));
}

#[test]
fn drops_are_the_quotas_only_if_it_withheld_time_while_they_happened() {
    let dropped = |from_ms: u64| Stretches {
        largest: vec![Stretch {
            from_ns: from_ms * MS,
            to_ns: (from_ms + 1_000) * MS,
            packets: 8_000,
        }],
        ..Stretches::default()
    };
    let text = |from_ms| {
        let e = Evidence {
            drops: dropped(from_ms),
            ..evidence(off(800, true), quota(80))
        };
        Causes::new(Workload::Drop, &e, &lanes(800)).of_drops().1
    };
    assert!(text(0).contains(NAME), "{}", text(0));
    // After the first second nothing was withheld.
    assert!(!text(2_000).contains(NAME), "{}", text(2_000));
}

/// A quota of 15 of 16 cores' time that withheld 1 s in each second from a job of 16 threads in the group.
fn of_sixteen_cores() -> Withheld {
    Withheld {
        granted_us: Some((1_500_000, 100_000)),
        throttled: 10,
        cores: Some(16),
        ..quota(100).expect("withheld")
    }
}

const WIDE: &str = "the CPU quota of control group /jobs/7 (1500 ms of CPU time per 100 ms)";

#[test]
fn what_a_quota_withheld_on_other_cores_is_not_the_lanes() {
    // Of each period at most 6.25 ms can be the lane's: 62.5 ms of the second.
    for (off_ms, named) in [(600, false), (500, false), (126, false), (120, true)] {
        let e = evidence(off(off_ms, true), Some(of_sixteen_cores()));
        let lanes = lanes(off_ms);
        let texts = [
            Causes::new(
                Workload::Send,
                &Evidence {
                    tx: 92_000,
                    missed: 8_000,
                    ..e.clone()
                },
                &lanes,
            )
            .of_missing(100_000)
            .1,
            sentences(&Causes::new(Workload::Reflect, &e, &lanes).notes()).join(" "),
        ];
        for text in texts {
            let kept = text.contains(&format!("{WIDE} kept the lanes from running"));
            assert_eq!((kept, text.contains("cc1")), (named, !named), "{off_ms}: {text}");
        }
    }
    // Named beside the thread that ran only if it can be a tenth of the lane's time.
    for (off_ms, as_well) in [(620, true), (640, false)] {
        let e = evidence(off(off_ms, true), Some(of_sixteen_cores()));
        let note = sentences(&Causes::new(Workload::Reflect, &e, &lanes(off_ms)).notes()).join(" ");
        assert!(note.contains("cc1"), "{note}");
        assert_eq!(note.contains(WIDE), as_well, "{off_ms}: {note}");
    }
}

#[test]
fn drops_and_frozen_processes_are_not_explained_by_what_a_quota_withheld_on_other_cores() {
    let e = Evidence {
        drops: Stretches {
            largest: vec![Stretch {
                from_ns: 0,
                to_ns: 1_000 * MS,
                packets: 8_000,
            }],
            ..Stretches::default()
        },
        ..evidence(off(800, true), Some(of_sixteen_cores()))
    };
    let (_, text) = Causes::new(Workload::Drop, &e, &lanes(800)).of_drops();
    assert!(
        text.contains("cc1") && !text.contains(&format!("{WIDE} kept")),
        "{text}"
    );
    let mut e = evidence(off(800, false), Some(of_sixteen_cores()));
    e.still.others.push(Gap {
        from_ns: 100 * MS,
        to_ns: 900 * MS,
    });
    let (cause, text) = Causes::new(Workload::Send, &e, &[]).of_missing(100_000);
    assert!(text.contains("was frozen"), "{text}");
    assert_eq!(cause, Cause::StoodStill);
}
