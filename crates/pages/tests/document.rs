//! The files of a document: what they hold, what they never hold, and that they are what their formats say.

mod example;

use mpps_pages::document::{self, Document, Found, files, find, redact, report, runs};
use mpps_report::ReportError;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const RUN: &str = include_str!("example/run.json");

fn of_run() -> Document {
    let Ok(Found::Run(summary)) = find(RUN.as_bytes()) else {
        panic!("no run");
    };
    let rows = mpps_pages::rows(&sample("run.csv")).expect("rows");
    runs::document(&[runs::Run::new("run.json", summary).with_rows(rows)])
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/example").join(name)
}

/// All that can be there is in it.
fn closed(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        if fields.contains_key("properties") {
            fields.insert("additionalProperties".to_owned(), false.into());
        }
        fields.values_mut().for_each(closed);
    }
    if let Some(all) = schema.as_array_mut() {
        all.iter_mut().for_each(closed);
    }
}

#[test]
fn a_folder_holds_the_record_and_what_is_made_from_it() {
    let document = example::document();
    // To be looked at.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("example");
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = files(&document).expect("plain names");
    for (name, contents) in &files {
        std::fs::write(folder.join(name), contents).expect("a file");
    }
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..3], ["result.json", "report.html", "report.md"]);
    for name in ["throughput.csv", "trials.csv", "throughput.svg", "rates-over-time.svg"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(files[1].1.len() < 500_000, "{}", files[1].1.len());
    let again = document::read(&files[0].1).expect("what was written");
    assert_eq!(again, document);
    let chart = mpps_pages::chart::png(&document.charts[0]).expect("a picture");
    assert!(chart.starts_with(b"\x89PNG"));
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in [
        "", "../x", "/etc/x", "a/b", "a.b", ".", "..", "-o", "a\0b", "a b", "report", "Result", "é",
    ] {
        let mut document = example::document();
        document.tables[0].name = name.to_owned();
        assert!(
            matches!(files(&document), Err(ReportError::Name { .. })),
            "table {name:?}"
        );
        let mut document = example::document();
        document.charts[0].name = name.to_owned();
        assert!(
            matches!(files(&document), Err(ReportError::Name { .. })),
            "chart {name:?}"
        );
    }
    let mut document = example::document();
    document.tables[1].name = "Throughput".to_owned();
    let error = files(&document).unwrap_err().to_string();
    assert!(error.contains("each name once") && !error.contains('\n'), "{error}");
}

#[test]
fn documents_are_as_their_schema_says_and_have_nothing_else() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test.schema.json");
    let mut schema: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("the schema")).expect("JSON");
    assert!(jsonschema::meta::is_valid(&schema));
    let open = jsonschema::validator_for(&schema).expect("a schema");
    closed(&mut schema);
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let folder = tempfile::tempdir().expect("a folder");
    let written = folder.path().join("x.json");
    report(&[sample("run.json"), sample("run.csv")], &written, true).expect("a report");
    let written = document::read(&std::fs::read(written).expect("a file")).expect("a document");
    for document in [example::document(), of_run(), written, runs::document(&[])] {
        let value = serde_json::from_str(&document.text()).expect("JSON");
        if let Err(error) = schema.validate(&value) {
            panic!("{}: {error} at {}", document.title, error.instance_path());
        }
        let mut wrong: Value = value.clone();
        wrong["schema"] = json!("mpps.test/2");
        assert!(!open.is_valid(&wrong));
        let mut later = value;
        later["more"] = json!(1);
        assert!(open.is_valid(&later));
    }
}

#[test]
fn numbers_that_are_none_leave_a_record_that_can_be_read() {
    let mut document = example::document();
    document.took_s = f64::NAN;
    document.charts[0].series[0].points.push((f64::INFINITY, Some(1.0)));
    document.charts[0].series[0].points.push((9.0, Some(f64::NAN)));
    document.charts[0].x.max = Some(f64::NAN);
    let again = document::read(document.text().as_bytes()).expect("a document");
    assert_eq!(again.charts[0].series[0].points.len(), 8);
    assert_eq!(again.charts[0].series[0].points[7], (9.0, None));
}

#[test]
fn a_run_tells_its_numbers_and_why_it_is_not_valid() {
    let document = of_run();
    assert!(
        !document.complete
            && document
                .incomplete
                .as_deref()
                .unwrap_or_default()
                .starts_with("not valid: ")
    );
    assert!(
        document.verdict[0].starts_with("Sent 499,313 packets at 99.86 kpps"),
        "{:?}",
        document.verdict
    );
    assert!(document.verdict[1].contains("p50 300.4 µs"), "{:?}", document.verdict);
    let charts: Vec<_> = document.charts.iter().map(|chart| chart.name.as_str()).collect();
    assert_eq!(
        charts,
        ["latency", "rates-over-time", "loss-over-time", "latency-over-time"]
    );
}

#[test]
fn headers_that_a_device_changed_are_a_table_of_their_values() {
    let Ok(Found::Run(mut summary)) = find(RUN.as_bytes()) else {
        panic!("no run");
    };
    let pair = json!({ "sent": "64", "received": "63", "packets": 7 });
    summary["changes"] = json!([{ "field": "ipv4.ttl", "packets": 9, "pairs": [pair] }]);
    let document = runs::document(&[runs::Run::new("run.json", summary)]);
    let table = document.tables.iter().find(|table| table.name == "changes");
    assert_eq!(
        table.expect("a table").rows,
        [
            ["run.json".into(), json!("ipv4.ttl"), json!("64"), json!("63"), json!(7)],
            [
                "run.json".into(),
                json!("ipv4.ttl"),
                json!("others"),
                Value::Null,
                json!(2)
            ],
        ]
    );
    assert!(of_run().tables.iter().all(|table| table.name != "changes"));
}

#[test]
fn a_run_that_is_valid_says_so_first() {
    let mut summary: Value = serde_json::from_str(RUN).expect("JSON");
    summary["valid"] = json!(true);
    summary["invalid_reasons"] = json!([]);
    let document = mpps_pages::document::runs::document(&[mpps_pages::document::runs::Run::new("run", summary)]);
    assert!(
        document.verdict[0].starts_with("Valid: sent 499,313 packets"),
        "{:?}",
        document.verdict
    );
}

#[test]
fn nothing_that_is_hidden_is_left_in_any_file() {
    let mut document = example::document();
    document.device = Some("router at fe80::5eff:fe10:1%eth0, lab-7, asked ada@lab-7.example.net".to_owned());
    document
        .command
        .extend(["--log".to_owned(), "/home/ada/lab-7.txt".to_owned()]);
    let hidden = redact::document(&document);
    for (name, contents) in files(&hidden).expect("plain names") {
        let text = String::from_utf8_lossy(&contents).into_owned();
        for word in ["lab-7", "198.18.0", "02:00:5e", "fe80::", "fd99::", "/home/ada"] {
            assert!(!text.contains(word), "{word} in {name}");
        }
    }
    let text = hidden.text();
    assert!(
        text.contains("[\"mpps\", \"rfc2544\"") && text.contains("ip-2:9000") && text.contains("host-1"),
        "{text}"
    );
}

/// A test of two frame sizes, as `rfc2544` and `overload` write theirs.
fn of_test(test: &str, throughput: [u64; 2], received: u64) -> Document {
    let column = |key: &str, unit| document::Column {
        key: key.to_owned(),
        title: key.to_owned(),
        unit,
    };
    let series = |name: &str, kind, points| document::Series {
        name: name.to_owned(),
        kind,
        points,
    };
    let of_size = |at: usize| (64.0 + at as f64, Some(throughput[at] as f64));
    Document {
        schema: document::SCHEMA.to_owned(),
        test: test.to_owned(),
        complete: true,
        verdict: vec!["64 bytes: some".to_owned(), format!("received {received}")],
        deviations: vec!["short".to_owned(), format!("at {received}")],
        params: json!({ "trial_s": 1, "reference_pps": throughput[0] }),
        results: vec![json!({ "frame_size_bytes": 64 })],
        tables: vec![document::Table {
            name: "throughput".to_owned(),
            columns: vec![
                column("frame_size_bytes", document::Unit::Bytes),
                column("throughput_pps", document::Unit::Pps),
                column("received", document::Unit::Count),
            ],
            rows: vec![
                vec![json!(64), json!(throughput[0]), json!(received)],
                vec![json!(65), json!(throughput[1]), json!(received + 5)],
            ],
            ..document::Table::default()
        }],
        charts: vec![
            document::Chart {
                name: "throughput".to_owned(),
                series: vec![
                    series("measured", document::Kind::Line, vec![of_size(0), of_size(1)]),
                    series("theoretical", document::Kind::Reference, vec![(64.0, Some(9.0))]),
                ],
                ..document::Chart::default()
            },
            document::Chart {
                name: "search-64".to_owned(),
                ..document::Chart::default()
            },
        ],
        ..Document::default()
    }
}

/// A search with a row for each of these losses.
fn of_goals(losses: &[f64]) -> Document {
    let column = |key: &str| document::Column {
        key: key.to_owned(),
        ..document::Column::default()
    };
    Document {
        tables: (!losses.is_empty())
            .then(|| document::Table {
                name: "bounds".to_owned(),
                columns: ["loss_ratio", "lower_pps"].map(column).into(),
                rows: losses.iter().map(|loss| vec![json!(loss), json!(1000)]).collect(),
                ..document::Table::default()
            })
            .into_iter()
            .collect(),
        ..of_test("ndr", [1, 2], 3)
    }
}

#[test]
fn rows_are_compared_with_those_of_the_first_result_and_the_same_goal_or_with_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = |name: &str, losses: &[f64]| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).expect("a folder");
        std::fs::write(path.join("result.json"), of_goals(losses).text()).expect("a file");
        path
    };
    let (a, b, none) = (
        written("a", &[0.0, 0.001]),
        written("b", &[0.0001, 0.001]),
        written("none", &[]),
    );
    let table = |results: &[std::path::PathBuf], out: &str| {
        let out = folder.path().join(out);
        report(results, &out, false).expect("a folder");
        std::fs::read_to_string(out.join("bounds.csv")).expect("a table")
    };
    assert_eq!(
        table(&[a.clone(), b.clone()], "ab").lines().collect::<Vec<_>>(),
        [
            "loss_ratio,result,lower_pps,lower_pps_by_first",
            "0.0,a,1000,",
            "0.001,a,1000,",
            "0.001,b,1000,1.0",
            "0.0001,b,1000,",
        ]
    );
    let without = table(&[none, a, b], "without");
    assert_eq!(without.lines().next(), Some("loss_ratio,result,lower_pps"));
    let mut many = of_goals(&[0.0]);
    many.tables[0].rows = vec![vec![json!(0), json!(1)]; 100_001];
    let path = folder.path().join("many.json");
    std::fs::write(&path, many.text()).expect("a file");
    let refused = report(&[path.clone(), path], &folder.path().join("x"), false).expect_err("too many");
    assert!(
        refused
            .to_string()
            .contains("it has 100001 rows in a table: want 100000"),
        "{refused}"
    );
}

#[test]
fn results_of_one_test_stand_beside_each_other_and_others_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = |name: &str, document: &Document| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).expect("a folder");
        std::fs::write(path.join("result.json"), document.text()).expect("a file");
        path
    };
    let a = written("a", &of_test("rfc2544", [1000, 2000], 900));
    let b = written("b", &of_test("rfc2544", [1500, 1000], 800));
    let out = folder.path().join("both");
    // A folder and the file in it are named alike.
    report(&[a.clone(), b.join("result.json")], &out, false).expect("a folder");
    let both = document::read(&std::fs::read(out.join("result.json")).expect("a file")).expect("a result");
    let table = std::fs::read_to_string(out.join("throughput.csv")).expect("a table");
    assert_eq!(
        table.lines().collect::<Vec<_>>(),
        [
            "frame_size_bytes,result,throughput_pps,throughput_pps_by_first,received,received_less_first",
            "64,a,1000,,900,",
            "64,b,1500,1.5,800,-100",
            "65,a,2000,,905,",
            "65,b,1000,0.5,805,-100",
        ]
    );
    let names: Vec<_> = both.charts.iter().map(|chart| chart.name.as_str()).collect();
    assert_eq!(names, ["throughput", "received-difference"]);
    let lines: Vec<_> = both.charts[0].series.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        lines,
        ["a", "b", "theoretical"],
        "what is the same in both is drawn once"
    );
    assert_eq!(
        both.charts[1].series[1].points,
        [(64.0, Some(-100.0)), (65.0, Some(-100.0))]
    );
    assert_eq!(
        both.verdict[0],
        "throughput_pps: b is 1.000 times a in the median of 2 rows (0.500 to 1.500)"
    );
    assert_eq!(
        both.verdict[1..]
            .iter()
            .filter(|line| *line == "64 bytes: some")
            .count(),
        1
    );
    assert!(
        !both.verdict.iter().any(|line| line.contains("900")),
        "{:?}",
        both.verdict
    );
    assert_eq!(
        std::fs::read_to_string(out.join("answers.csv")).expect("a table"),
        "result,answer\na,received 900\nb,received 800\n"
    );
    assert_eq!(both.deviations, ["short", "'a': at 900", "'b': at 800"]);
    assert_eq!(both.params, json!({ "trial_s": 1 }));
    assert_eq!(both.results[1]["result"], "b");
    for name in [
        "report.html",
        "report.md",
        "throughput.svg",
        "received-difference.svg",
        "differences.csv",
    ] {
        assert!(out.join(name).is_file(), "{name}");
    }
    let on = |name: &str, host: &str| {
        let tester = json!({ "hostname": host });
        written(
            name,
            &Document {
                tester,
                ..of_test("rfc2544", [1, 2], 3)
            },
        )
    };
    let hidden = folder.path().join("hidden.html");
    report(&[on("c", "edge-seven"), on("d", "edge-eight")], &hidden, true).expect("a page");
    let page = std::fs::read_to_string(&hidden).expect("a page");
    assert!(!page.contains("edge-") && page.contains("host-1") && page.contains("host-2"));

    let picture = folder.path().join("both.svg");
    mpps_pages::plot_all(&[a.clone(), b], &picture).expect("a picture");
    assert!(
        std::fs::read_to_string(&picture)
            .expect("a picture")
            .contains("rfc2544: a, b")
    );

    let other = written("other", &of_test("overload", [1, 2], 3));
    let rows = sample("run.csv");
    let compared = written("compared", &of_test("compare", [1, 2], 3));
    for (files, out, part) in [
        (
            vec![compared, a.clone()],
            folder.path().join("x.md"),
            "it is of compare: want results of ndr, rfc2544, overload",
        ),
        (
            vec![a.clone(), other],
            folder.path().join("x.md"),
            "it is of overload, the first one of rfc2544",
        ),
        (
            vec![a.clone(), out.clone()],
            folder.path().join("x.md"),
            "several results already",
        ),
        (vec![a.clone()], out.clone(), "it is there already"),
    ] {
        let error = report(&files, &out, false).expect_err(part).to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
    for (files, part) in [
        (vec![a, rows], "rows of a run"),
        (vec![sample("run.json")], "want a CSV written by --csv"),
    ] {
        let error = mpps_pages::plot_all(&files, &picture).expect_err(part).to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn reports_of_the_wrong_files_are_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let (run, rows) = (sample("run.json"), sample("run.csv"));
    let test = file("result.json", &example::document().text());
    let other = file("other.json", &RUN.replace("2026-11-23T", "2026-11-24T"));
    let out = folder.path().join("x.html");
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    for (files, out, part) in [
        (
            vec![run.clone()],
            folder.path().join("x.pdf"),
            "want a name that ends in .html, .md or .json",
        ),
        (vec![file("a.json", "{")], out.clone(), "no JSON"),
        (vec![file("b.json", "{}")], out.clone(), "no result: want result.json"),
        (
            vec![test.clone(), run.clone()],
            out.clone(),
            "it is the result of a test: want such results alone",
        ),
        (
            vec![other, rows.clone()],
            out.clone(),
            "no JSON summary of the same run",
        ),
        (vec![rows.clone()], out.clone(), "no JSON summary of the same run"),
        (
            vec![run.clone(), file("c.csv", "a,b\n")],
            out.clone(),
            "no column time_s",
        ),
        (vec![empty], out.clone(), "no result.json is in this folder"),
        (vec![folder.path().join("none.json")], out.clone(), "No such file"),
    ] {
        let error = report(&files, &out, false).expect_err(part).to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
        assert!(!out.exists());
    }
    report(&[test], &out, false).expect("a page");
    let page = std::fs::read_to_string(&out).expect("a page");
    assert!(page.contains("<h1>RFC 2544 suite") && page.contains("SHA-256 of result.json"));
    report(&[run, rows], &folder.path().join("x.md"), false).expect("a text");
}
