//! Results of streams, groups and sizes, in each form in which a run writes them.

use mpps_report::json_value;
use mpps_stats::{
    Latency, Percentiles, Remark, RemarkName, ReorderDistance, StreamSummary, Stretch, Stretches, Summary,
};
use serde_json::{Value, json};

fn latency(least: u64) -> Latency {
    Latency {
        count: 900,
        min: least,
        mean: 2.5 * least as f64,
        percentiles: Some(Percentiles {
            p50: 2 * least,
            p90: 3 * least,
            p99: 4 * least,
            p999: 5 * least,
        }),
        max: 6 * least,
    }
}

fn stream(name: &str, group: Option<&str>, lost: u64) -> StreamSummary {
    StreamSummary {
        name: name.to_owned(),
        group: group.map(str::to_owned),
        streams: 1,
        flows: 4,
        lanes: 2,
        frame_size: 361.5,
        tx: 1_000,
        rx: 1_000 - lost,
        lost,
        duplicates: 1,
        reordered: 2,
        reorder_distance: ReorderDistance { max: 4, mean: 2.5 },
        due: Some(1_000),
        intended_pps: Some(100.0),
        offered_pps: 100.0,
        received_pps: 100.0 - lost as f64 / 10.0,
        loss_ratio: lost as f64 / 1_000.0,
        latency: latency(10_000),
        latency_scheduled: Some(latency(11_000)),
        valid: true,
        ..StreamSummary::default()
    }
}

/// A run of three streams, two of them in a group, with frames of two sizes.
fn run() -> Summary {
    let mut late = stream("probe", None, 0);
    late.valid = false;
    late.invalid_reasons = vec![Remark::new(
        RemarkName::MissedDepartures,
        "1.000 % fewer packets sent than were due (0.100 % are allowed)",
    )];
    let mut group = stream("users", None, 10);
    (group.streams, group.flows, group.tx, group.rx) = (2, 8, 2_000, 1_990);
    let size = |name: &str, frame_size: f64, lost| StreamSummary {
        flows: 0,
        lanes: 0,
        frame_size,
        streams: 3,
        ..stream(name, None, lost)
    };
    let mut bronze = stream("bronze", Some("users"), 10);
    bronze.latency.percentiles = None;
    bronze.loss_stretches = Stretches {
        largest: vec![Stretch {
            from_ns: 200_000_000,
            to_ns: 300_000_000,
            packets: 10,
        }],
        ..Stretches::default()
    };
    Summary {
        tx: 3_000,
        rx: 2_990,
        lost: 10,
        duration_ns: 10_000_000_000,
        offered_pps: 300.0,
        received_pps: 299.0,
        latency: latency(10_000),
        valid: true,
        streams: vec![stream("gold", Some("users"), 0), bronze, late],
        groups: vec![group],
        sizes: vec![size("64", 64.0, 0), size("512-1023", 659.0, 10)],
        ..Summary::default()
    }
}

#[test]
fn the_json_has_streams_groups_and_sizes_with_the_keys_of_a_run() {
    let json = json_value(&run());
    let names = |key: &str| {
        json[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].clone())
            .collect::<Value>()
    };
    assert_eq!(names("streams"), json!(["gold", "bronze", "probe"]));
    assert_eq!(names("groups"), json!(["users"]));
    assert_eq!(names("sizes"), json!(["64", "512-1023"]));
    assert_eq!(json["groups"][0]["streams"], 2);
    let [gold, bronze, probe] = [0, 1, 2].map(|at| &json["streams"][at]);
    assert_eq!(
        *gold,
        json!({
            "name": "gold",
            "group": "users",
            "streams": 1,
            "flows": 4,
            "lanes": 2,
            "frame_size_bytes": 361.5,
            "tx_packets": 1000,
            "rx_packets": 1000,
            "lost": 0,
            "loss_ratio": 0.0,
            "loss_stretches": [],
            "loss_outside_stretches": { "stretches": 0, "lost": 0, "found_later": 0 },
            "late": 0,
            "duplicates": 1,
            "reordered": 2,
            "reorder_distance": { "max": 4, "mean": 2.5 },
            "corrupt": 0,
            "missed": 0,
            "due_packets": 1000,
            "intended_pps": 100.0,
            "offered_pps": 100.0,
            "received_pps": 100.0,
            "latency_ns": {
                "min": 10000, "mean": 25000.0, "p50": 20000, "p90": 30000, "p99": 40000, "p999": 50000, "max": 60000,
                "count": 900,
            },
            "latency_scheduled_ns": {
                "min": 11000, "mean": 27500.0, "p50": 22000, "p90": 33000, "p99": 44000, "p999": 55000, "max": 66000,
                "count": 900,
            },
            "delay_variation_ns": 40000,
            "valid": true,
            "invalid_reasons": [],
        })
    );
    // Percentiles of its own only if they were kept.
    assert_eq!(bronze["latency_ns"]["max"], 60_000);
    assert_eq!(bronze["latency_ns"]["p99"], Value::Null);
    assert_eq!(bronze["delay_variation_ns"], Value::Null);
    assert_eq!(
        bronze["loss_stretches"],
        json!([{ "from_s": 0.2, "to_s": 0.3, "lost": 10 }])
    );
    assert_eq!(probe["group"], Value::Null);
    assert_eq!(
        probe["invalid_reasons"],
        json!(["1.000 % fewer packets sent than were due (0.100 % are allowed)"])
    );
    let without = json_value(&Summary::default());
    for key in ["streams", "groups", "sizes"] {
        assert_eq!(without[key], json!([]), "{key}");
    }
}
