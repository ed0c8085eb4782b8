//! Tables of streams, groups and sizes of frames on pages of runs.

use mpps_pages::document::{Document, Found, files, find, runs};
use serde_json::{Value, json};
use std::path::Path;

const RUN: &str = include_str!("example/run.json");

/// Returns a stream as a run's JSON has it.
fn stream(name: &str, lost: u64) -> Value {
    json!({
        "name": name, "group": null, "frame_size_bytes": 361.5, "tx_packets": 1000, "rx_packets": 1000 - lost,
        "lost": lost, "loss_ratio": lost as f64 / 1000.0, "late": 0, "duplicates": 0, "reordered": 0, "corrupt": 0,
        "missed": 0, "offered_pps": 100.0, "received_pps": 99.0,
        "latency_ns": { "p50": 20_000, "p99": null, "max": 60_000 }, "valid": true, "invalid_reasons": [],
    })
}

fn with_streams(streams: Vec<Value>) -> Value {
    let Ok(Found::Run(mut summary)) = find(RUN.as_bytes()) else {
        panic!("no run");
    };
    summary["streams"] = streams.into();
    summary
}

#[test]
fn streams_groups_and_sizes_are_a_table_each_of_what_is_known_of_them() {
    let (mut gold, mut probe) = (stream("gold", 10), stream("probe", 0));
    (gold["group"], gold["reordered"]) = (json!("users"), json!(3));
    (probe["valid"], probe["invalid_reasons"]) = (json!(false), json!(["it was late"]));
    let mut summary = with_streams(vec![gold, probe]);
    summary["groups"] = json!([stream("users", 10)]);
    summary["sizes"] = json!([stream("64", 0), stream("512-1023", 10)]);
    let document = runs::document(&[runs::Run::new("run.json", summary.clone())]);
    // To be looked at.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("streams");
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = files(&document).expect("plain names");
    for (name, contents) in &files {
        std::fs::write(folder.join(name), contents).expect("a file");
    }
    let named = |document: &Document, name: &str| document.tables.iter().find(|table| table.name == name).cloned();
    let csv = |name: &str| {
        let name = format!("{name}.csv");
        let (_, text) = files.iter().find(|(file, _)| *file == name).expect("a file");
        String::from_utf8_lossy(text).into_owned()
    };
    assert_eq!(
        csv("streams"),
        "name,group,frame_size_bytes,tx_packets,rx_packets,lost,loss_ratio,offered_pps,received_pps,reordered,\
         latency_p50_ns,latency_max_ns,verdict\n\
         gold,users,361.5,1000,990,10,0.01,100.0,99.0,3,20000,60000,valid\n\
         probe,,361.5,1000,1000,0,0.0,100.0,99.0,0,20000,60000,not valid: it was late\n"
    );
    assert!(csv("groups").starts_with("name,frame_size_bytes,"), "{}", csv("groups"));
    assert!(csv("sizes").starts_with("name,tx_packets,"), "{}", csv("sizes"));
    assert!(csv("sizes").contains("\n512-1023,1000,990,"), "{}", csv("sizes"));
    // Of several runs each row says of which, and results of one stream are those of its run.
    let both = [
        runs::Run::new("a", summary),
        runs::Run::new("b", with_streams(vec![stream("one", 5)])),
    ];
    let both = runs::document(&both);
    let rows = named(&both, "streams").expect("streams").rows;
    let names: Vec<_> = rows.iter().map(|row| [&row[0], &row[1]]).collect();
    assert_eq!(names, [[&json!("a"), &json!("gold")], [&json!("a"), &json!("probe")]]);
    let of_one = runs::document(&[runs::Run::new("run", with_streams(Vec::new()))]);
    for name in ["streams", "groups", "sizes"] {
        assert!(named(&of_one, name).is_none(), "{name}");
    }
}

#[test]
fn of_many_streams_those_with_most_loss_come_first() {
    let summary = with_streams((0..200).map(|n| stream(&format!("s{n}"), n % 10)).collect());
    let document = runs::document(&[runs::Run::new("run.json", summary)]);
    let table = document
        .tables
        .iter()
        .find(|table| table.name == "streams")
        .expect("streams");
    assert_eq!(table.caption, "Streams: those with most loss first");
    assert_eq!(
        (&table.rows[0][0], &table.rows[19][0], &table.rows[20][0]),
        (&json!("s9"), &json!("s199"), &json!("s8"))
    );
    assert_eq!(table.rows.len(), 200);
}
