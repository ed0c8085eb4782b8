//! A result with each kind of chart and table, as a test of a small forwarder could have given it.

use mpps_pages::document::{Axis, Chart, Column, Definition, Document, Kind, SCHEMA, Scale, Series, Table, Unit};
use serde_json::{Value, json};

fn axis(label: &str, unit: Unit, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        unit,
        scale,
        ..Axis::default()
    }
}

fn whole(label: &str) -> Axis {
    Axis {
        min: Some(0.0),
        max: Some(1.0),
        ..axis(label, Unit::Ratio, Scale::Linear)
    }
}

fn series(name: &str, kind: Kind, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    Series {
        name: name.to_owned(),
        kind,
        points: points.into_iter().map(|(x, y)| (x, Some(y))).collect(),
    }
}

fn column(key: &str, title: &str, unit: Unit) -> Column {
    Column {
        key: key.to_owned(),
        title: title.to_owned(),
        unit,
    }
}

const SIZES: [f64; 7] = [64.0, 128.0, 256.0, 512.0, 1024.0, 1280.0, 1518.0];

fn line_rate(size: f64) -> f64 {
    10e9 / (8.0 * (size + 20.0))
}

fn reached(size: f64) -> f64 {
    f64::min(4_213_000.0 - 300.0 * size, line_rate(size) * 0.9998)
}

/// A small, repeatable noise, 0 to 1.
fn noise(i: u32) -> f64 {
    f64::from(i.wrapping_mul(2_654_435_761).rotate_left(7) % 1000) / 1000.0
}

fn charts() -> Vec<Chart> {
    let chart = |name: &str, title: &str, x: Axis, y: Axis, series: Vec<Series>| Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        x,
        y,
        series,
    };
    let time = |f: &dyn Fn(u32) -> f64| (0..5000).map(|i| (f64::from(i) * 0.012, f(i))).collect::<Vec<_>>();
    let mut rows = vec![
        series("sent", Kind::Line, time(&|i| 1e6 + 3e3 * noise(i))),
        series(
            "received",
            Kind::Line,
            time(&|i| {
                if (2000..2100).contains(&i) {
                    4e5
                } else {
                    0.99e6 + 2e4 * noise(i)
                }
            }),
        ),
    ];
    for point in &mut rows[1].points[3000..3200] {
        point.1 = None;
    }
    let percentiles = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
    let latency = |scale: f64| {
        percentiles
            .iter()
            .enumerate()
            .map(move |(i, p)| (*p, scale * 12_000.0 * 1.9f64.powi(i as i32)))
    };
    let load = |f: &dyn Fn(f64) -> f64| {
        (1..=20)
            .chain((1..20).rev())
            .map(|i| (f64::from(i) * 4e5, f(f64::from(i) * 4e5)))
            .collect::<Vec<_>>()
    };
    vec![
        chart(
            "throughput",
            "Throughput by frame size",
            axis("Frame size", Unit::Bytes, Scale::Category),
            axis("Frame rate", Unit::Pps, Scale::Linear),
            vec![
                series("theoretical", Kind::Reference, SIZES.map(|s| (s, line_rate(s)))),
                series("measured", Kind::Line, SIZES.map(|s| (s, reached(s)))),
            ],
        ),
        chart(
            "loss",
            "Frame loss rate",
            whole("Input rate, of the theoretical one"),
            whole("Frame loss"),
            [64.0, 512.0, 1518.0]
                .iter()
                .map(|size| {
                    let limit = reached(*size) / line_rate(*size);
                    let at = |i: u32| f64::from(i) / 10.0;
                    let loss = move |x: f64| f64::max(0.0, 1.0 - limit / x);
                    series(
                        &format!("{size} bytes"),
                        Kind::Line,
                        (1..=10).rev().map(|i| (at(i), loss(at(i)))),
                    )
                })
                .collect(),
        ),
        chart(
            "latency",
            "Latency by percentile at half of the throughput",
            axis("Percentile", Unit::Ratio, Scale::Nines),
            axis("Latency", Unit::Ns, Scale::Log),
            vec![
                series("64 bytes", Kind::Line, latency(1.0)),
                series("512 bytes", Kind::Line, latency(1.4)),
                series("1518 bytes", Kind::Line, latency(2.1)),
            ],
        ),
        chart(
            "overload",
            "Forwarding rate by offered load, rising and falling",
            axis("Offered load", Unit::Pps, Scale::Linear),
            axis("Forwarding rate", Unit::Pps, Scale::Linear),
            vec![
                series("y = x", Kind::Reference, [(0.0, 0.0), (8e6, 8e6)]),
                series("throughput", Kind::Reference, [(4.19e6, 0.0), (4.19e6, 8e6)]),
                series(
                    "rising, then falling",
                    Kind::Line,
                    load(&|x| x.min(4.3e6) - f64::max(0.0, x - 5e6) * 0.1),
                ),
            ],
        ),
        chart(
            "search",
            "Loads tried",
            axis("Trial", Unit::Plain, Scale::Linear),
            axis("Load", Unit::Pps, Scale::Log),
            vec![
                series(
                    "lossless",
                    Kind::Points,
                    [(2.0, 1e6), (3.0, 2e6), (5.0, 4e6), (7.0, 4.2e6), (8.0, 4.19e6)],
                ),
                series("lossy", Kind::Points, [(1.0, 14.88e6), (4.0, 8e6), (6.0, 4.5e6)]),
                series("bound", Kind::Reference, [(1.0, 4.19e6), (8.0, 4.19e6)]),
            ],
        ),
        chart(
            "rates-over-time",
            "Rates over time",
            axis("Time since the start", Unit::S, Scale::Linear),
            axis("Rate", Unit::Pps, Scale::Linear),
            rows,
        ),
    ]
}

fn tables() -> Vec<Table> {
    let throughput = Table {
        name: "throughput".to_owned(),
        caption: "Throughput (RFC 2544 section 26.1), IPv4 UDP, 10 Gbit/s Ethernet".to_owned(),
        columns: vec![
            column("frame_size_bytes", "Frame size", Unit::Bytes),
            column("lower_pps", "Lower bound", Unit::Pps),
            column("upper_pps", "Upper bound", Unit::Pps),
            column("theoretical_pps", "Theoretical", Unit::Pps),
            column("throughput_bps", "Throughput", Unit::Bps),
            column("share_ratio", "Of theoretical", Unit::Ratio),
            column("limited_by", "Limited by", Unit::Plain),
        ],
        rows: SIZES
            .iter()
            .map(|s| {
                let rate = reached(*s);
                vec![
                    json!(*s as u64),
                    json!(rate),
                    json!(rate * 1.005),
                    json!(line_rate(*s)),
                    json!(rate * 8.0 * (s + 20.0)),
                    json!(rate / line_rate(*s)),
                    if *s > 256.0 { json!("link") } else { Value::Null },
                ]
            })
            .collect(),
    };
    let trials = Table {
        name: "trials".to_owned(),
        caption: "Every trial, in the order of time".to_owned(),
        columns: vec![
            column("trial", "Trial", Unit::Plain),
            column("frame_size_bytes", "Size", Unit::Bytes),
            column("load_pps", "Intended", Unit::Pps),
            column("offered_pps", "Offered", Unit::Pps),
            column("received_pps", "Received", Unit::Pps),
            column("duration_s", "Duration", Unit::S),
            column("sent", "Sent", Unit::Count),
            column("lost", "Lost", Unit::Count),
            column("loss_ratio", "Loss", Unit::Ratio),
            column("p99_ns", "p99", Unit::Ns),
            column("outcome", "Outcome", Unit::Plain),
            column("notes", "Notes", Unit::Plain),
        ],
        rows: (1..=60u32)
            .map(|i| {
                let (load, void) = (1e6 + 5e4 * f64::from(i), i % 17 == 0);
                let lost = if i > 40 { u64::from(i) * 1000 } else { 0 };
                vec![
                    json!(i),
                    json!(64),
                    json!(load),
                    json!(load * 0.9999),
                    json!(load * 0.9999 - lost as f64),
                    json!(5.0),
                    json!((load * 5.0) as u64),
                    json!(lost),
                    json!(lost as f64 / (load * 5.0)),
                    json!(20_000.0 + 500.0 * noise(i)),
                    json!(match (void, lost) {
                        (true, _) => "void",
                        (_, 0) => "pass",
                        _ => "fail",
                    }),
                    if void {
                        json!("other threads kept the lanes from running for 14.7 % of the time")
                    } else {
                        json!(null)
                    },
                ]
            })
            .collect(),
    };
    vec![throughput, trials]
}

/// The result.
pub(crate) fn document() -> Document {
    let texts = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    Document {
        schema: SCHEMA.to_owned(),
        test: "rfc2544".to_owned(),
        title: "RFC 2544 suite of af_xdp:eth1 (quick: not RFC 2544)".to_owned(),
        version: "0.1.0".to_owned(),
        command: texts(&[
            "/home/ada/bin/mpps",
            "rfc2544",
            "all",
            "af_xdp:eth1",
            "--src",
            "198.18.0.1",
            "--dest",
            "198.18.0.2:9000",
            "--dest-mac",
            "02:00:5e:10:00:01",
            "--quick",
            "--out",
            "it's here",
        ]),
        started: "2026-11-23T10:20:30.123456789Z".to_owned(),
        took_s: 734.2,
        complete: false,
        incomplete: Some("the latency trials of 1518 bytes were void: the host interfered".to_owned()),
        compliance: Some("Not RFC 2544: trials of 2 s where section 24 asks for 60 s or more.".to_owned()),
        verdict: texts(&[
            "Throughput at 64 bytes: 4.194 Mpps (4.194 to 4.215 Mpps), 28.2 % of the link's 14.88 Mpps.",
            "From 512 bytes on the link is the limit: 99.98 % of its rate without loss.",
            "Latency at half of the throughput, 64 bytes: median 22.8 µs, p99.9 156 µs, round trip.",
        ]),
        deviations: texts(&[
            "Trials of 2 s, not 60 s (RFC 2544 section 24)",
            "3 frame sizes in the latency test, not 5 (RFC 2544 section 9)",
            "No description of the device's configuration (RFC 2544 section 7)",
        ]),
        params: json!({
            "sizes_bytes": [64, 128, 256, 512, 1024, 1280, 1518], "final_s": 2, "search_s": 1, "settle_s": 0.2,
            "goals": { "loss_ratio": 0, "exceed_ratio": 0, "width_ratio": 0.01 }, "seed": 1, "both_ways": false,
        }),
        results: vec![json!({ "frame_size_bytes": 64, "lower_pps": 4_193_800.0, "upper_pps": 4_214_769.0 })],
        tables: tables(),
        charts: charts(),
        definitions: vec![
            Definition {
                term: "Throughput".to_owned(),
                text: "The highest rate at which every frame that was sent came back (RFC 1242 section 3.17)."
                    .to_owned(),
            },
            Definition {
                term: "Latency".to_owned(),
                text:
                    "From just before a packet is handed to the path to just after it was taken from it, round trip; \
                       neither of the two definitions of RFC 1242."
                        .to_owned(),
            },
        ],
        device: None,
        tester: json!({
            "host": "lab-7.example.net", "kernel": "6.18.44", "cpu": "Intel(R) Xeon(R) Processor", "cores": 2,
            "path": "af_xdp", "port": "af_xdp:eth1", "mac": "02:00:5e:10:00:7f", "driver": "veth", "clock": "tsc",
            "address": "fd99::1", "mpps_version": "0.1.0",
        }),
        plan: json!({
            "mpps_plan": 1, "workload": "sendrecv", "ports": ["af_xdp:eth1"],
            "traffic": { "src": "198.18.0.1", "dest": "198.18.0.2:9000" },
        }),
        trials: (1..=3)
            .map(|i| json!({ "trial": i, "load_pps": 1_000_000 * i, "outcome": "counted" }))
            .collect(),
    }
}
