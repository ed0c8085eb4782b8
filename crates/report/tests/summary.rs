//! The JSON keeps its contract; the printed summary says what an engineer looks for.

use mpps_report::{Colour, Detail, JsonTarget, json_value, print_summary, write_json};
use mpps_stats::{
    CaptureSummary, Gaps, HostFact, LaneSummary, Latency, LossTimes, Outage, Percentiles, Remark, RemarkName,
    RemarkValue, ReorderDistance, Stretch, Stretches, Summary, TRACK, Workload,
};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn stretch(from_ms: u64, to_ms: u64, packets: u64) -> Stretch {
    Stretch {
        from_ns: from_ms * 1_000_000,
        to_ns: to_ms * 1_000_000,
        packets,
    }
}

fn reason(sentence: &str) -> Remark {
    Remark::new(RemarkName::MissedDepartures, sentence)
}

fn note(sentence: &str) -> Remark {
    Remark::new(RemarkName::Output, sentence)
}

fn summary() -> Summary {
    let latency = Latency {
        count: 2_999_990,
        min: 8_312,
        mean: 14_400.25,
        percentiles: Some(Percentiles {
            p50: 13_000,
            p90: 19_000,
            p99: 45_000,
            p999: 180_000,
        }),
        max: 1_250_000,
    };
    let lane = |lane: usize, tx: u64| LaneSummary {
        lane,
        queue: lane,
        core: Some(lane),
        rx_role: true,
        tx_role: true,
        rx_packets: tx - 5,
        rx_bursts: tx / 8,
        rx_empty_polls: 12_000,
        tx_packets: tx,
        tx_bursts: tx / 16,
        run_delay_ns: Some(3_200_000),
        preempted: Some(12),
        path_counters: vec![("gro_segments".into(), 4)],
        ..LaneSummary::default()
    };
    Summary {
        workload: Workload::SendRecv,
        started: mpps_stats::Started {
            monotonic_ns: 7_000_000_001,
            utc_ns: 1_790_000_000_123_456_789,
        },
        plan: Some(r#"{"mpps_plan": 1}"#.into()),
        command: ["mpps", "sendrecv", "loop:"].map(str::to_owned).into(),
        duration_ns: 10_000_000_000,
        tx: 3_000_000,
        rx: 2_999_990,
        lost: 8,
        loss_times: Some(LossTimes {
            first_ns: 2_600_000_000,
            last_ns: 2_900_000_000,
            received_after_ns: None,
        }),
        longest_outage: Some(Outage {
            from_ns: 2_600_100_000,
            to_ns: 2_900_100_000,
            lost: Some(7),
        }),
        loss_stretches: Stretches {
            largest: vec![stretch(2_600, 3_000, 6), stretch(5_000, 5_010, 2)],
            ..Stretches::default()
        },
        host_dropped: Some(0),
        host_drop_stretches: Stretches::default(),
        late: 2,
        duplicates: 1,
        reordered: 3,
        reorder_distance: ReorderDistance { max: 4, mean: 2.0 },
        corrupt: 0,
        foreign: 6,
        missed: 0,
        frame_size: 64,
        intended_pps: Some(300_000.0),
        due: Some(3_000_000),
        offered_pps: 300_000.0,
        received_pps: 299_999.0,
        loss_ratio: 8.0 / 3_000_000.0,
        latency,
        latency_scheduled: Some(latency),
        latency_note: "Taken in user space.".into(),
        gaps: Some(Gaps {
            intended_mean: 6_666.7,
            measured: latency,
        }),
        reasons: vec![("too_short".into(), 3)],
        valid: true,
        shortfall: None,
        invalid_reasons: vec![],
        kept_off: None,
        warnings: vec![note("csv: /x/run.csv: No space left on device")],
        interrupted: false,
        open_ended: false,
        housekeeping: None,
        capture: None,
        ports: vec![],
        directions: Vec::new(),
        lanes: vec![lane(0, 1_600_000), lane(1, 1_400_000)],
        host: vec![
            HostFact::shown("kernel", "6.1"),
            HostFact::shown("rcvbuf_bytes", "425984"),
        ],
        ..Summary::default()
    }
}

#[test]
fn the_documentation_has_every_key_and_every_column() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/use/files.md");
    let page = std::fs::read_to_string(file).unwrap();
    let json = json_value(&summary());
    let keys = json.as_object().unwrap().keys().map(String::as_str);
    for name in keys.chain(mpps_report::csv_header().split(',')) {
        // Percentiles stand there by their endings, rates by their unit.
        let ending = ["_p50_us", "_p90_us", "_p99_us", "_p999_us", "_max_us"];
        let short = ending
            .iter()
            .find(|end| name.ends_with(**end))
            .map(|end| format!("…{end}"));
        let told = |name: &str| page.contains(&format!("`{name}`")) || page.contains(&format!("`{name} "));
        let word = |name: &str| page.contains(&format!(" {name} ")) || page.contains(&format!(" {name}`"));
        assert!(
            told(name) || word(name) || short.is_some_and(|s| told(&s)),
            "{name} is not in docs/use/files.md"
        );
    }
}

/// Two ways and their sum, with as much to tell of each as there may be.
fn both_ways() -> Summary {
    let way = |name, valid: bool| mpps_stats::Direction {
        name,
        summary: Summary { valid, ..summary() },
    };
    let mut all = summary();
    all.directions = vec![way("A to B", true), way("B to A", false)];
    (all.valid, all.missed, all.corrupt) = (false, 1, 1);
    all.invalid_reasons = vec![reason("B to A: the offered rate is off").with(TRACK, "B to A")];
    all.warnings.clear();
    all
}

#[test]
fn two_ways_and_their_sum_stand_side_by_side_and_fit_a_terminal_with_the_verdict_last() {
    let text = shown(&both_ways(), Detail::Brief, Colour::Never);
    println!("{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.ends_with("NOT VALID  sendrecv, 10.0 s\n- B to A: the offered rate is off\n"),
        "{text}"
    );
    let words: Vec<_> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(words, ["A", "to", "B", "B", "to", "A", "sum"]);
    let verdicts = text.lines().find(|line| line.starts_with("verdict")).unwrap();
    let verdicts: Vec<_> = verdicts.split_whitespace().collect();
    assert_eq!(verdicts, ["verdict", "VALID", "NOT", "VALID", "NOT", "VALID"]);
    for part in [
        "packets sent",
        "3,000,000",
        "latency p99",
        "45.00 µs",
        "B to A: 6 lost between 2.6 and 3.0 s",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    // With nothing amiss there is room for a prompt, too.
    let mut calm = both_ways();
    let calm_tracks = calm.directions.iter_mut().map(|way| &mut way.summary);
    let clean = |s: &mut Summary| {
        (
            s.lost,
            s.late,
            s.duplicates,
            s.reordered,
            s.corrupt,
            s.foreign,
            s.missed,
        ) = (0, 0, 0, 0, 0, 0, 0);
        (s.loss_stretches, s.valid) = (Stretches::default(), true);
        s.reasons.clear();
    };
    calm_tracks.for_each(clean);
    clean(&mut calm);
    calm.invalid_reasons.clear();
    // Where both ways are alike one verdict is said of all, and nothing twice.
    let even = |s: &mut Summary| (s.rx, s.offered_pps) = (s.tx, s.intended_pps.unwrap());
    calm.directions.iter_mut().for_each(|way| even(&mut way.summary));
    even(&mut calm);
    let text = shown(&calm, Detail::Brief, Colour::Never);
    assert!(text.lines().count() < 21, "{text}");
    for row in ["verdict", "packets received", "of the intended"] {
        assert!(!text.lines().any(|line| line.starts_with(row)), "{row}: {text}");
    }
    assert!(
        shown(&calm, Detail::Full, Colour::Never).contains("\npackets received"),
        "{text}"
    );
    assert!(
        text.contains("none late, duplicate, reordered, corrupt, foreign, missed"),
        "{text}"
    );
}

#[test]
fn json_has_each_way_whole_but_for_what_is_the_run_s() {
    let json = json_value(&both_ways());
    assert_eq!(json_value(&summary())["directions"], serde_json::json!([]));
    let way = json["directions"][1].as_object().unwrap();
    let own = ["name"].into_iter().map(str::to_owned);
    let keys = json.as_object().unwrap().keys().cloned();
    let of_run = ["command", "plan", "directions"];
    let mut wanted: Vec<_> = keys.filter(|key| !of_run.contains(&key.as_str())).chain(own).collect();
    wanted.sort_unstable();
    let mut keys: Vec<_> = way.keys().cloned().collect();
    keys.sort_unstable();
    assert_eq!(keys, wanted);
    assert_eq!((&way["name"], &way["valid"]), (&"B to A".into(), &false.into()));
}

#[test]
fn json_has_the_contracts_keys_and_finite_numbers() {
    let json = json_value(&summary());
    for key in [
        "tx_packets",
        "rx_packets",
        "lost",
        "late",
        "duplicates",
        "reordered",
        "corrupt",
        "due_packets",
        "intended_pps",
        "offered_pps",
        "received_pps",
        "loss_ratio",
        "duration_s",
        "latency_ns",
        "valid",
        "invalid_reasons",
        "lanes",
        "host",
        "foreign",
        "missed",
        "workload",
        "latency_scheduled_ns",
        "reorder_distance",
        "departure_gap_ns",
        "reasons",
        "warnings",
        "interrupted",
        "latency_note",
        "frame_size_bytes",
        "offered_bps",
        "host_dropped",
        "loss_outside_stretches",
        "host_drop_stretches",
        "host_dropped_outside_stretches",
    ] {
        assert!(json.get(key).is_some_and(|v| !v.is_null()), "{key}");
    }
    for key in ["min", "mean", "p50", "p90", "p99", "p999", "max"] {
        assert!(json["latency_ns"][key].is_number(), "{key}");
    }
    for key in [
        "lane",
        "queue",
        "packets",
        "bursts",
        "empty_polls",
        "mean_burst",
        "share",
    ] {
        assert!(json["lanes"][1][key].is_number(), "{key}");
    }
    assert_eq!(json["offered_bps"], 300_000.0 * 84.0 * 8.0);
    assert_eq!(json["loss_times"]["last_lost_ns"], 2_900_000_000u64);
    assert_eq!(json["loss_times"]["received_after_ns"], serde_json::Value::Null);
    assert_eq!(json["longest_outage"]["length_ns"], 300_000_000);
    let when = &json["loss_stretches"][0];
    assert_eq!(
        (&when["from_s"], &when["to_s"], &when["lost"]),
        (&2.6.into(), &3.0.into(), &6.into())
    );
    assert_eq!(json["lanes"][0]["tx_share"], 1_600_000.0 / 3_000_000.0);
    assert_eq!(json["tx_packets"].as_u64(), Some(3_000_000));
}

#[test]
fn remarks_are_the_reasons_and_then_the_warnings_with_names_and_values() {
    let mut s = both_ways();
    let missed = reason("A to B: missed")
        .with("off_ratio", 0.25)
        .with("missed_packets", 7u64);
    s.invalid_reasons
        .push(missed.with("cause", "stopped").with(TRACK, "A to B"));
    let cores: RemarkValue = [2usize, 3].into_iter().collect();
    s.warnings = vec![Remark::new(RemarkName::CoresUnused, "no lane runs on 2,3").with("cores", cores)];
    let json = json_value(&s);
    assert_eq!(
        json["remarks"],
        serde_json::json!([
            {
                "name": "missed_departures",
                "invalid": true,
                "sentence": "B to A: the offered rate is off",
                "values": { "track": "B to A" },
            },
            {
                "name": "missed_departures",
                "invalid": true,
                "sentence": "A to B: missed",
                "values": { "off_ratio": 0.25, "missed_packets": 7, "cause": "stopped", "track": "A to B" },
            },
            {
                "name": "cores_unused",
                "invalid": false,
                "sentence": "no lane runs on 2,3",
                "values": { "cores": [2, 3] },
            },
        ])
    );
    let reasons = ["B to A: the offered rate is off", "A to B: missed"];
    assert_eq!(json["invalid_reasons"], serde_json::json!(reasons));
    assert_eq!(json["warnings"], serde_json::json!(["no lane runs on 2,3"]));
}

#[test]
fn what_was_not_measured_is_null() {
    let mut s = summary();
    s.intended_pps = None;
    s.latency = Latency::default();
    s.latency_scheduled = None;
    s.gaps = None;
    s.frame_size = 0;
    s.offered_pps = f64::NAN;
    s.received_pps = f64::INFINITY;
    s.lanes.clear();
    let json = json_value(&s);
    for key in [
        "intended_pps",
        "latency_scheduled_ns",
        "departure_gap_ns",
        "frame_size_bytes",
        "offered_bps",
        "offered_pps",
        "received_pps",
    ] {
        assert!(json[key].is_null(), "{key}: {}", json[key]);
    }
    for key in ["min", "mean", "p50", "p90", "p99", "p999", "max"] {
        assert!(json["latency_ns"][key].is_null(), "{key}");
    }
}

#[test]
fn an_earlier_file_stays_until_the_end_and_is_then_replaced_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    std::fs::write(&path, "earlier").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = dir.path().join("link.json");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let target = JsonTarget::prepare(&link).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "earlier");
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        2,
        "nothing is left beside it"
    );
    target.write(&summary()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, format!("{:#}\n", json_value(&summary())));
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let new = dir.path().join("new.json");
    write_json(&new, &summary()).unwrap();
    assert_ne!(std::fs::metadata(&new).unwrap().permissions().mode() & 0o077, 0o077);
    write_json(Path::new("/dev/null"), &summary()).unwrap();
    let error = write_json(Path::new("/dev/full"), &summary()).unwrap_err().to_string();
    assert_eq!(error, "write /dev/full: No space left on device");
}

#[test]
fn json_that_cannot_be_written_is_refused_before_the_run() {
    for path in ["/nonexistent/run.json", "/tmp", "/proc/run.json"] {
        let error = JsonTarget::prepare(Path::new(path)).unwrap_err().to_string();
        assert!(error.contains(path), "{error}");
    }
}

fn shown(s: &Summary, detail: Detail, colour: Colour) -> String {
    let mut out = Vec::new();
    print_summary(s, detail, colour, 80, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn printed(s: &Summary, colour: Colour) -> String {
    shown(s, Detail::Full, colour)
}

#[test]
fn the_verdict_comes_last_and_every_figure_is_there() {
    let text = printed(&summary(), Colour::Never);
    println!("{text}");
    assert!(text.ends_with("\n\nVALID  sendrecv, 10.0 s\n"));
    for part in [
        "300.0 kpps",
        "201.6 Mbps L1",
        "lost 8 (0.00027 %)",
        "late 2",
        "reordered 3 (by 2.0 on average, 4 at most)",
        "13.00 µs",
        "1.250 ms",
        "53.3 %",
        "not running",
        "3.200 ms",
        "too_short 3: frames cut short",
        "rcvbuf_bytes",
        "gro_segments 4",
        "note: csv: /x/run.csv: No space left on device",
        "gap: time between departures; intended 6.667 µs on average",
        "latency: Taken in user space.",
        "\n  6 lost between 2.6 and 3.0 s, 2 between 5.00 and 5.01 s,\n  7 of them in the longest outage: 300.0 ms \
         from 2.6001 to 2.9001 s\n",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    assert!(!text.contains('\x1b') && !text.lines().any(|l| l.ends_with(' ')));
    let mut s = summary();
    s.valid = false;
    s.interrupted = true;
    s.invalid_reasons = vec![reason("offered rate is off by 3 %"), reason("ring full")];
    let text = printed(&s, Colour::Never);
    assert!(
        text.ends_with("\n\nNOT VALID  sendrecv, 10.0 s, ended early\n- offered rate is off by 3 %\n- ring full\n")
    );
    assert!(printed(&s, Colour::Always).contains("\n\x1b[1;31mNOT VALID\x1b[0m  "));
}

#[test]
fn the_verdict_of_a_receiver_says_what_its_span_is() {
    for (workload, rx, is_said) in [
        (Workload::Drop, 5, true),
        (Workload::Reflect, 5, true),
        (Workload::Capture, 5, true),
        // Without a packet it is the time for which it listened, and of a sender that of sending.
        (Workload::Drop, 0, false),
        (Workload::Send, 0, false),
        (Workload::SendRecv, 5, false),
    ] {
        let s = Summary {
            workload,
            rx,
            ..summary()
        };
        let text = printed(&s, Colour::Never);
        let said = text.contains(", 10.0 s from the first packet to the last");
        assert_eq!(said, is_said, "{workload:?}: {text}");
    }
}

#[test]
fn in_brief_it_fits_a_terminal_of_24_lines_however_many_lanes_there_are() {
    let mut s = summary();
    s.valid = false;
    s.invalid_reasons = vec![reason("offered rate is off by 3 %")];
    s.lanes = (0..32)
        .map(|lane| LaneSummary {
            lane,
            ..s.lanes[0].clone()
        })
        .collect();
    s.host = (0..40).map(|n| HostFact::shown(format!("fact_{n}"), "x")).collect();
    s.lost = 33_144;
    s.loss_stretches.largest = (0..5)
        .map(|n| stretch(n * 1_000, n * 1_000 + 100, 6_000 + n % 2))
        .collect();
    (
        s.loss_stretches.more,
        s.loss_stretches.more_packets,
        s.loss_stretches.found_later,
    ) = (3, 3_150, 6);
    s.host_drop_stretches.largest = vec![stretch(2_604, 3_021, 33_144)];
    let text = shown(&s, Detail::Brief, Colour::Never);
    println!("{text}");
    // A prompt comes below.
    assert!(text.lines().count() < 24, "{} lines", text.lines().count());
    for part in [
        "  6,000 lost between 0.0 and 0.1 s, 6,001 between 1.0 and 1.1 s,",
        "15,150 in 5 other stretches of time,",
        "of which 6 came after all",
        "  33,144 dropped by this host before mpps took them between 2.604 and 3.021 s",
        "lanes 32",
        "not running 102.4 ms",
        "p99.9",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    assert!(
        !text.contains("fact_") && !text.contains("empty polls") && !text.contains("Taken in user space"),
        "{text}"
    );
    assert!(text.ends_with("NOT VALID  sendrecv, 10.0 s\n- offered rate is off by 3 %\n"));
}

#[test]
fn nothing_is_wider_than_a_terminal_of_80_columns() {
    let most = 999_999_999_999;
    let mut s = summary();
    let long =
        "the host interfered: other threads kept the lanes from running for 51.4 % of the time, and more ".repeat(4);
    (s.invalid_reasons, s.warnings, s.latency_note) = (vec![reason(&long)], vec![note(&long)], long);
    s.valid = false;
    (s.tx, s.rx, s.lost, s.late, s.duplicates, s.reordered, s.corrupt) = (most, most, most, most, most, most, most);
    s.reasons = (0..20).map(|n| (format!("reason_{n}"), most)).collect();
    let latency = Latency {
        min: 99_990_000,
        mean: 1e10 / 3.0,
        max: 99_990_000_000,
        ..s.latency
    };
    (s.latency, s.latency_scheduled) = (latency, Some(latency));
    for lane in &mut s.lanes {
        (lane.rx_packets, lane.tx_packets, lane.rx_empty_polls, lane.waits) = (most, most, most, 99_999_999);
        (lane.rx_bursts, lane.tx_bursts) = (most / 100, most / 100);
        lane.path_counters = (0..9).map(|n| (format!("counter_{n}"), most)).collect();
    }
    let text = printed(&s, Colour::Never);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn every_workload_prints_without_what_it_does_not_have() {
    for workload in [Workload::Send, Workload::Drop, Workload::Reflect, Workload::Forward] {
        let s = Summary {
            workload,
            gaps: None,
            latency: Latency::default(),
            latency_scheduled: None,
            ..summary()
        };
        let text = printed(&s, Colour::Never);
        let brief = shown(&s, Detail::Brief, Colour::Never);
        assert_eq!(brief.contains("lost"), workload == Workload::Drop, "{brief}");
        assert!(!text.contains("NaN") && !text.contains("p99"), "{text}");
        assert_eq!(text.contains("lost"), workload == Workload::Drop, "{text}");
    }
}

#[test]
fn a_capture_tells_what_became_of_its_packets_on_the_screen_and_in_json() {
    let capture = CaptureSummary {
        snap_len: 96,
        received: 1_010,
        taken: 1_000,
        written: 980,
        dropped_ring: 15,
        dropped_write: 5,
        bytes: 123_456,
        files: vec!["a.pcapng".into(), "a.1.pcapng".into()],
        files_removed: 1,
        failure: Some("a.1.pcapng: no space".into()),
    };
    let s = Summary {
        workload: Workload::Capture,
        gaps: None,
        latency: Latency::default(),
        latency_scheduled: None,
        capture: Some(capture),
        ..summary()
    };
    let text = printed(&s, Colour::Never);
    for part in [
        "captured",
        "taken 1,000",
        "written 980",
        "(ring full) 15",
        "(write error) 5",
        "3 files",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = &json_value(&s)["capture"];
    assert_eq!(json["dropped"]["ring_full"], 15);
    assert_eq!(json["dropped"]["write_error"], 5);
    assert_eq!(json["files"].as_array().map(Vec::len), Some(2));
    assert_eq!(json_value(&summary())["capture"], serde_json::Value::Null);
}

#[test]
fn counts_that_do_not_apply_to_a_sender_are_numbers() {
    let s = Summary {
        workload: Workload::Send,
        tx: 5,
        ..Summary::default()
    };
    let json = json_value(&s);
    for key in [
        "rx_packets",
        "lost",
        "late",
        "duplicates",
        "reordered",
        "corrupt",
        "foreign",
        "missed",
    ] {
        assert_eq!(json[key].as_u64(), Some(0), "{key}");
    }
    for key in ["received_pps", "loss_ratio"] {
        assert_eq!(json[key].as_f64(), Some(0.0), "{key}");
    }
}

#[test]
fn a_narrow_terminal_gets_no_line_that_is_wider() {
    for columns in [30, 40, 60, 80] {
        for detail in [Detail::Brief, Detail::Full] {
            let mut s = summary();
            s.warnings = vec![note(
                "a note with thousands set apart, 254,484 of them, and more words than a line has room for",
            )];
            let mut out = Vec::new();
            print_summary(&s, detail, Colour::Never, columns, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let wide = text.lines().find(|line| line.chars().count() > columns);
            assert_eq!(wide, None, "{columns}: {text}");
        }
    }
}
