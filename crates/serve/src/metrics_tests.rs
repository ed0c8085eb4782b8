use super::*;
use crate::state::{About, Counts, Goal, LaneState};
use mpps_stats::{Row, StreamKind, StreamRows};
use std::sync::Arc;

#[test]
fn every_metric_has_its_type_once_and_names_are_as_prometheus_wants_them() {
    let mut latency = Buckets::default();
    latency.add(&[(1_500, 2)]);
    let mut streams = crate::streams::StreamSums::default();
    let row = |tx, lost| Row {
        tx,
        rx: tx,
        lost,
        ..Row::default()
    };
    streams.add(&StreamRows {
        of: &[
            (StreamKind::Stream, "a\"b".to_owned()),
            (StreamKind::Group, "users".to_owned()),
        ],
        rows: &[row(7, -1), row(9, 2)],
    });
    let state = State {
        about: Arc::new(About {
            device: "a\"b\\c\nd".to_owned(),
            ..About::default()
        }),
        trial: 1,
        phase: Phase::Ended,
        valid: Some(true),
        expectations: vec![("loss<1%".to_owned(), false)],
        start: mpps_stats::Start {
            intended_pps: Some(1e6),
            ..Default::default()
        },
        counts: Counts {
            settled_lost: -3,
            host_dropped: Some(1),
            ..Counts::default()
        },
        lanes: vec![LaneState {
            dropped: Some(1),
            not_running_ns: Some(1),
            busy: Some(0.5),
            ..LaneState::default()
        }],
        latency,
        scheduled: latency,
        arrival: latency,
        wake_up: latency,
        recent: Some(Latency {
            percentiles: Some(Default::default()),
            ..Latency::default()
        }),
        streams,
        goals: vec![Goal {
            lower: Some(1),
            upper: Some(2),
            ..Goal::default()
        }],
        ..State::default()
    };
    let text = text(&state);
    for (name, kind, help) in metrics() {
        assert!(!help.contains(['[', '`', '#']), "{name}: no Markdown: {help}");
        assert_eq!(
            text.matches(&format!("# TYPE {name} {kind}\n")).count(),
            1,
            "{name}: {text}"
        );
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        let sample = |line: &str| line.starts_with(&format!("{name} ")) || line.starts_with(&format!("{name}{{"));
        assert!(text.lines().any(sample) || kind == "histogram", "{name}: no sample");
    }
    assert!(text.contains(r#"device="a\"b\\c\nd""#), "{text}");
    assert!(text.contains("mpps_settled_lost_packets -3\n"));
    assert!(
        text.contains("mpps_stream_settled_transmitted_packets_total{stream=\"a\\\"b\"} 7\n"),
        "{text}"
    );
    assert!(
        text.contains("mpps_stream_settled_lost_packets{stream=\"a\\\"b\"} -1\n"),
        "{text}"
    );
    assert!(
        text.contains("mpps_group_settled_received_packets_total{group=\"users\"} 9\n"),
        "{text}"
    );
    assert!(text.contains("mpps_latency_seconds_bucket{le=\"0.000002\"} 2\n"));
    assert!(text.contains("mpps_latency_seconds_bucket{le=\"+Inf\"} 2\n"));
    assert!(text.ends_with('\n') && !text.contains("NaN"));
}

#[test]
fn the_page_about_metrics_has_all_of_them() {
    let page = include_str!("../../../docs/use/live.md");
    for (name, ..) in metrics() {
        assert!(
            page.contains(&format!("`{name}`")) || page.contains(&format!("`{name}{{")),
            "{name}"
        );
    }
}

#[test]
fn a_run_that_has_not_begun_has_no_numbers_that_it_can_not_have() {
    let text = text(&State::default());
    for absent in [
        "mpps_run_valid",
        "mpps_latency_seconds",
        "mpps_run_start_time",
        "mpps_link_up",
        "mpps_intended",
        "mpps_stream",
        "mpps_group",
    ] {
        assert!(!text.contains(absent), "{absent}");
    }
    assert!(text.contains("mpps_run_state{state=\"waiting\"} 1\n"));
}
