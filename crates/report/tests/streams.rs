//! Results of streams, groups and sizes, in each form in which a run writes them.

use mpps_report::{Colour, CsvSink, Detail, JsonLines, StreamsCsvSink, json_value, print_summary, streams_csv_header};
use mpps_stats::{
    Event, Latency, Percentiles, Remark, RemarkName, ReorderDistance, Row, Sink, Start, Started, StreamKind,
    StreamRows, StreamSummary, Stretch, Stretches, Summary,
};
use serde_json::{Map, Value, json};
use std::path::Path;

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
            "latency_arrival_ns": null,
            "wake_up_ns": null,
            "delay_variation_ns": 40000,
            "valid": true,
            "invalid_reasons": [],
            "untagged_packets": 0,
            "untagged_came": 0,
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

fn shown(s: &Summary, columns: usize) -> String {
    let mut out = Vec::new();
    print_summary(s, Detail::Brief, Colour::Never, columns, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the part of a summary that is about streams.
fn part(s: &Summary) -> String {
    let with = shown(s, 80);
    let mut bare = s.clone();
    (bare.streams, bare.groups, bare.sizes) = Default::default();
    let without = shown(&bare, 80);
    let before = with.lines().zip(without.lines()).take_while(|(a, b)| a == b).count();
    let (with, without): (Vec<_>, Vec<_>) = (with.lines().collect(), without.lines().collect());
    let added = with.len() - without.len();
    assert_eq!(with[before + added..], without[before..]);
    with[before..before + added].join("\n")
}

#[test]
fn the_summary_has_a_table_of_streams_one_of_groups_and_one_of_sizes() {
    const WANT: &str = "
   stream  group   size    offered   received          lost       p50       p99
   gold    users  361.5  100.0 pps  100.0 pps             0  20.00 µs  40.00 µs
   bronze  users  361.5  100.0 pps  99.00 pps  10 (1.000 %)         -         -
!  probe          361.5  100.0 pps  100.0 pps             0  20.00 µs  40.00 µs

group  streams   size    offered   received          lost       p50       p99
users        2  361.5  100.0 pps  99.00 pps  10 (1.000 %)  20.00 µs  40.00 µs

size        offered   received          lost       p50       p99
64        100.0 pps  100.0 pps             0  20.00 µs  40.00 µs
512-1023  100.0 pps  99.00 pps  10 (1.000 %)  20.00 µs  40.00 µs

! probe: 1.000 % fewer packets sent than were due (0.100 % are allowed)
";
    assert_eq!(part(&run()), WANT.trim_start_matches('\n'));
}

#[test]
fn what_is_of_one_stream_alone_stands_once() {
    let mut s = run();
    s.streams.truncate(1);
    s.groups.clear();
    assert!(part(&s).starts_with("size  "), "{}", part(&s));
    s.sizes.clear();
    assert_eq!(part(&s), "");
}

#[test]
fn of_many_streams_those_with_most_loss_are_shown_and_how_many_others_there_are() {
    let mut s = run();
    (s.groups, s.sizes) = Default::default();
    s.streams = (0..1_000)
        .map(|n| stream(&format!("s{n}"), None, n % 10 / 9 * n))
        .collect();
    let names = |text: &str| {
        let table = text.lines().skip(1).take(16);
        table
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let told = part(&s);
    let worst: Vec<_> = (0..16).map(|n| format!("s{}", 999 - 10 * n)).collect();
    assert_eq!(names(&told), worst);
    let rest = told.lines().nth(17).unwrap();
    assert_eq!(
        rest,
        "984 more streams, of which 84 lost packets: streams in the JSON (--json FILE)"
    );
    // Without loss those that are not valid come first, with their reasons.
    s.streams = (0..1_000).map(|n| stream(&format!("s{n}"), None, 0)).collect();
    for of in &mut s.streams[500..510] {
        of.valid = false;
        of.invalid_reasons = vec![Remark::new(RemarkName::MissedDepartures, "it was late")];
    }
    let told = part(&s);
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[1].starts_with("!  s500 ") && lines[10].starts_with("!  s509 ") && lines[11].starts_with("   s0 "));
    assert!(
        lines[17].starts_with("984 more streams, none of which lost packets: "),
        "{told}"
    );
    assert_eq!(
        lines[19..22],
        ["! s500: it was late", "! s501: it was late", "! s502: it was late"]
    );
    assert_eq!(lines[26..], ["! s507: it was late", "and 2 more"]);
}

#[test]
fn tables_of_streams_fit_their_terminal_and_long_names_are_cut() {
    let mut s = run();
    s.streams[1].name = "n".repeat(64);
    s.streams[1].group = Some("g".repeat(64));
    assert!(part(&s).lines().all(|line| line.chars().count() < 120), "{}", part(&s));
    assert!(part(&s).contains(&format!("{}…", "n".repeat(39))), "{}", part(&s));
    // A group that the table has no room for is left out.
    let mut s = run();
    s.streams[1].group = Some("users-of-the-network".to_owned());
    assert!(part(&s).lines().all(|line| line.chars().count() <= 80), "{}", part(&s));
    for columns in [30, 60] {
        let text = shown(&run(), columns);
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        assert!(text.contains("stream bronze"), "{text}");
    }
}

#[test]
fn a_sender_tells_of_its_streams_what_it_sent() {
    let mut s = run();
    s.workload = mpps_stats::Workload::Send;
    let told = part(&s);
    assert!(told.starts_with("   stream  group   size    offered\n"), "{told}");
    assert!(!told.contains("received") && !told.contains("p99"), "{told}");
}

/// Names of a run's rows.
fn names() -> Vec<(StreamKind, String)> {
    let kinds = [
        (StreamKind::Stream, "gold"),
        (StreamKind::Group, "users"),
        (StreamKind::Size, "512-1023"),
    ];
    kinds.map(|(kind, name)| (kind, name.to_owned())).into()
}

fn rows(at: u64) -> [Row; 3] {
    let row = |tx: u64| Row {
        index: at,
        start_ns: at * 100_000_000,
        length_ns: 100_000_000,
        tx,
        rx: tx - 2,
        lost: 1,
        late: 1,
        ..Row::default()
    };
    let mut gold = row(8);
    gold.latency = Latency {
        percentiles: None,
        ..latency(1_000)
    };
    gold.latency_scheduled = Some(gold.latency);
    gold.rx_by_arrival = Some(5);
    (gold.duplicates, gold.reordered, gold.corrupt, gold.missed) = (2, 3, 4, 5);
    [gold, row(16), row(32)]
}

/// Gives a sink the events of a run of two intervals.
fn play(sink: &mut impl Sink) {
    let started = Started {
        monotonic_ns: 7,
        utc_ns: 1_790_000_000_123_456_789,
    };
    sink.event(&Event::Start(Start {
        started,
        ..Start::default()
    }));
    for at in 0..2 {
        sink.event(&Event::Row(&rows(at)[2]));
        let rows = StreamRows {
            of: &names(),
            rows: &rows(at),
        };
        sink.event(&Event::Streams(rows));
    }
}

#[test]
fn the_csv_of_streams_has_a_row_for_each_of_them_in_each_interval() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("streams.csv");
    let mut sink = StreamsCsvSink::create(&path).unwrap();
    let wants = sink.wants();
    assert!(wants.streams && !wants.rows && !wants.percentiles);
    play(&mut sink);
    assert_eq!(sink.finish(), Vec::<String>::new());
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0], streams_csv_header());
    assert_eq!(
        lines[0],
        "kind,name,time_s,interval_s,tx_packets,rx_packets,rx_by_arrival_packets,lost_packets,loss_ratio,late_packets,\
         duplicate_packets,reordered_packets,corrupt_packets,missed_packets,latency_packets,latency_min_us,\
         latency_avg_us,latency_max_us,latency_scheduled_avg_us,untagged_packets,latency_arrival_min_us,\
         latency_arrival_avg_us,latency_arrival_max_us,wake_up_min_us,wake_up_avg_us,wake_up_max_us"
    );
    assert_eq!(
        lines[1],
        "stream,gold,0.000000,0.100000000,8,6,5,1,0.125000000,1,2,3,4,5,900,1.000,2.500,6.000,2.500,0,,,,,,"
    );
    assert_eq!(
        lines[2],
        "group,users,0.000000,0.100000000,16,14,,1,0.062500000,1,0,0,0,0,0,,,,,0,,,,,,"
    );
    assert!(
        lines[6].starts_with("size,512-1023,0.100000,0.100000000,32,30,,1,"),
        "{text}"
    );
}

#[test]
fn a_csv_of_streams_without_streams_has_a_header_and_a_full_disk_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("streams.csv");
    let mut sink = StreamsCsvSink::create(&path).unwrap();
    sink.event(&Event::Start(Start::default()));
    sink.event(&Event::Row(&rows(0)[0]));
    assert_eq!(sink.finish(), Vec::<String>::new());
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, format!("{}\n", streams_csv_header()));
    let mut sink = StreamsCsvSink::create(Path::new("/dev/full")).unwrap();
    let notes = sink.notes();
    play(&mut sink);
    let told = sink.finish();
    assert!(
        told.len() == 1 && told[0].starts_with("csv of streams: /dev/full: "),
        "{told:?}"
    );
    assert!(told[0].contains("6 rows are not in the file"), "{told:?}");
    assert_eq!(notes.unwritten().len(), 1);
}

#[test]
fn json_lines_have_one_line_for_the_streams_of_an_interval_and_other_files_are_as_without() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.jsonl");
    let lines = JsonLines::create(&path, Map::new()).unwrap();
    let mut sink = lines.sink();
    assert!(sink.wants().streams);
    play(&mut sink);
    lines.end(&run());
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["start", "row", "streams", "row", "streams", "end"]);
    assert_eq!(
        lines[2],
        json!({
            "event": "streams",
            "time_s": 0.0,
            "interval_s": 0.1,
            "start_utc_ns": 1_790_000_000_123_456_789_u64,
            "start_utc": "2026-09-21T14:13:20.123456789Z",
            "rows": [
                of_line("stream", "gold", 8, json!({
                    "rx_by_arrival_packets": 5, "duplicate_packets": 2, "reordered_packets": 3, "corrupt_packets": 4,
                    "missed_packets": 5, "latency_packets": 900, "latency_min_us": 1.0, "latency_avg_us": 2.5,
                    "latency_max_us": 6.0, "latency_scheduled_avg_us": 2.5, "untagged_packets": 0,
                })),
                of_line("group", "users", 16, json!({})),
                of_line("size", "512-1023", 32, json!({})),
            ],
        })
    );
    assert_eq!(lines[4]["time_s"], 0.1);
    let csv = dir.path().join("run.csv");
    let mut sink = CsvSink::create(&csv).unwrap();
    assert!(!sink.wants().streams);
    play(&mut sink);
    sink.finish();
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 3);
}

/// Returns what a line has of a stream. `more` are the values that others have not.
fn of_line(kind: &str, name: &str, tx: u64, more: Value) -> Value {
    let mut all = json!({
        "kind": kind,
        "name": name,
        "tx_packets": tx,
        "rx_packets": tx - 2,
        "rx_by_arrival_packets": null,
        "lost_packets": 1,
        "loss_ratio": 1.0 / tx as f64,
        "late_packets": 1,
        "duplicate_packets": 0,
        "reordered_packets": 0,
        "corrupt_packets": 0,
        "missed_packets": 0,
        "latency_packets": 0,
        "latency_min_us": null,
        "latency_avg_us": null,
        "latency_max_us": null,
        "latency_scheduled_avg_us": null,
        "untagged_packets": 0,
        "latency_arrival_min_us": null,
        "latency_arrival_avg_us": null,
        "latency_arrival_max_us": null,
        "wake_up_min_us": null,
        "wake_up_avg_us": null,
        "wake_up_max_us": null,
    });
    for (key, value) in more.as_object().unwrap() {
        assert!(all.get(key).is_some(), "{key}");
        all[key] = value.clone();
    }
    all
}
