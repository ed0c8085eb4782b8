//! JSON Lines: what a program that reads along gets, line by line, of runs that end well and of those that don't.

use mpps_tests::{Background, Finished, Scratch, mpps, program, run_command};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;

/// The lines, each valid against the schema in the repository.
///
/// # Panics
/// When one is not JSON, or not as the schema has it.
fn lines(text: &str) -> Vec<Value> {
    let schema = serde_json::from_str(include_str!("../../docs/lines.schema.json")).expect("JSON");
    assert!(jsonschema::meta::is_valid(&schema));
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(
            schema.is_valid(&value),
            "{:?}: {line}",
            schema.iter_errors(&value).next()
        );
        value
    };
    text.lines().map(line).collect()
}

fn events(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["event"].as_str().expect("its name"))
        .collect()
}

fn error(finished: &Finished, code: i32) -> String {
    assert_eq!(finished.code, Some(code), "{}", finished.stderr);
    let lines = lines(&finished.stdout);
    let last = lines.last().expect("a line");
    assert_eq!(
        (last["event"].as_str(), last["exit_code"].as_i64()),
        (Some("error"), Some(code.into()))
    );
    let message = last["message"].as_str().expect("why").to_owned();
    assert!(finished.stderr.contains(&message), "{message}: {}", finished.stderr);
    message
}

#[test]
fn every_workload_gives_a_start_its_rows_and_one_end_as_its_csv_and_json_have_them() {
    for words in [
        "sendrecv loop:loss=2% --rate 5kpps --duration 400ms --settle 100ms --interval 50ms",
        "send null: --rate 5kpps --duration 300ms --dest 10.0.0.2:9000",
        "drop null: --duration 300ms",
        "reflect null: --duration 300ms",
        "forward null: null: --duration 300ms",
    ] {
        let scratch = Scratch::new();
        let mut command = mpps(words);
        for (option, file) in [
            ("--json-lines", "run.jsonl"),
            ("--csv", "run.csv"),
            ("--json", "run.json"),
        ] {
            command.arg(option).arg(scratch.file(file));
        }
        let finished = run_command(command);
        let read = |name: &str| std::fs::read_to_string(scratch.file(name)).expect("a file");
        let json: Value = serde_json::from_str(&read("run.json")).expect("JSON");
        let valid = json["valid"].as_bool().expect("a verdict");
        assert_eq!(
            finished.code,
            Some(if valid { 0 } else { 3 }),
            "{words}: {}",
            finished.stderr
        );

        let mut lines = lines(&read("run.jsonl"));
        let (start, end) = (lines.remove(0), lines.pop().expect("an end"));
        assert_eq!(start["event"], "start", "{words}");
        assert_eq!(start["plan"], json["plan"], "{words}");
        assert_eq!(start["started_utc"], json["started_utc"], "{words}");
        assert_eq!(end["event"], "end", "{words}");
        for (key, value) in json.as_object().expect("an object") {
            assert_eq!(end.get(key), Some(value), "{words}: {key}");
        }
        let rows: Vec<&Value> = lines.iter().filter(|line| line["event"] == "row").collect();
        let csv = read("run.csv");
        let (head, cells) = csv.split_once('\n').expect("a header");
        assert_eq!(rows.len(), cells.lines().count(), "{words}");
        for (row, cells) in rows.iter().zip(cells.lines()) {
            for (name, cell) in head.split(',').zip(cells.split(',')) {
                let want = cell.parse::<f64>().ok();
                assert_eq!(row[name].as_f64(), want, "{words}: {name}");
            }
        }
    }
}

#[test]
fn the_latencies_of_all_lines_are_those_of_the_run() {
    let finished = run_command(mpps(
        "sendrecv loop:delay=1ms,loss=2% --rate 5kpps --duration 700ms --settle 100ms --interval 50ms --json-lines -",
    ));
    let lines = lines(&finished.stdout);
    let end = lines.last().expect("an end");
    let periods: Vec<&Value> = lines.iter().filter(|line| line["event"] == "latency").collect();
    assert!(periods.len() > 1, "{}", finished.stderr);
    for (pairs, of_run) in [
        ("buckets", "latency_ns"),
        ("scheduled", "latency_scheduled_ns"),
        ("arrival", "latency_arrival_ns"),
        ("wake_up", "wake_up_ns"),
    ] {
        let pairs = periods.iter().flat_map(|line| line[pairs].as_array().expect("pairs"));
        let pairs: Vec<[u64; 2]> = pairs
            .map(|pair| serde_json::from_value(pair.clone()).expect("a pair"))
            .collect();
        let packets: u64 = pairs.iter().map(|[_, packets]| packets).sum();
        assert_eq!(end[of_run]["count"].as_u64(), Some(packets), "{of_run}");
        let least = pairs.iter().map(|[ns, _]| *ns).min().expect("a latency");
        let min = end[of_run]["min"].as_u64().expect("a latency");
        assert!(least.abs_diff(min) <= min / 1024, "{of_run}: {least} for {min}");
    }
    let mut at = 0.0;
    for period in periods {
        let (start, length) = (
            period["time_s"].as_f64().expect("s"),
            period["interval_s"].as_f64().expect("s"),
        );
        assert!(start >= at && length > 0.0, "{period}");
        at = start + length - 1e-9;
    }
}

#[test]
fn on_standard_output_there_are_lines_and_nothing_else() {
    let finished = run_command(mpps(
        "sendrecv loop: --rate 2kpps --duration 200ms --settle 50ms --json-lines -",
    ));
    let lines = lines(&finished.stdout);
    let events = events(&lines);
    assert_eq!(
        (events.first(), events.last()),
        (Some(&"start"), Some(&"end")),
        "{}",
        finished.stderr
    );
    assert_eq!(
        events.iter().filter(|event| ["end", "error"].contains(event)).count(),
        1
    );
    assert!(finished.stderr.contains("sendrecv"), "the summary: {}", finished.stderr);
}

#[test]
fn a_run_that_never_began_is_one_error_as_a_line() {
    let not_there = run_command(mpps("sendrecv af_packet:mpps-none --dest 10.0.0.2:9000 --json-lines -"));
    assert!(error(&not_there, 2).contains("mpps-none"));
    let no_such_option = run_command(mpps("sendrecv loop: --speed 3 --json-lines=-"));
    assert!(error(&no_such_option, 2).contains("--speed"));
    let scratch = Scratch::new();
    let file = scratch.file("lines");
    let finished = run_command({
        let mut command = mpps("sendrecv loop: --rate fast --json-lines");
        command.arg(&file);
        command
    });
    assert_eq!(finished.code, Some(2));
    let lines = lines(&std::fs::read_to_string(file).expect("the file"));
    assert_eq!(events(&lines), ["error"]);
    // Help is no failure, and what lies behind -- is another's.
    assert_eq!(run_command(mpps("sendrecv --help --json-lines -")).code, Some(0));
}

#[test]
fn lines_that_can_not_be_written_are_told_of_once() {
    let scratch = Scratch::new();
    let mut command = mpps("sendrecv loop: --duration 20ms --json-lines");
    command.arg(scratch.file("none/lines"));
    let finished = run_command(command);
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
}

#[test]
fn an_interrupted_run_ends_with_its_end() {
    let scratch = Scratch::new();
    let mut command = mpps("sendrecv loop: --rate 2kpps --duration 1h --settle 50ms --interval 20ms --json-lines");
    command.arg(scratch.file("lines"));
    let run = Background::start(command);
    let read = || std::fs::read_to_string(scratch.file("lines")).unwrap_or_default();
    mpps_tests::wait_until("rows", || read().matches("\"event\":\"row\"").count() > 10);
    let finished = run.end(Signal::INT);
    let lines = lines(&read());
    let end = lines.last().expect("an end");
    assert_eq!(
        (end["event"].as_str(), end["interrupted"].as_bool()),
        (Some("end"), Some(true)),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_reader_that_goes_ends_the_program_with_what_it_lacks_told() {
    let script = r#""$1" sendrecv loop: --rate 2kpps --duration 300ms --settle 50ms --json-lines - | head -n 1 >&2
        exit "${PIPESTATUS[0]}""#;
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(program());
    let finished = run_command(command);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(finished.stderr.contains("json-lines: "), "{}", finished.stderr);
    // The run was measured to its end all the same.
    assert!(finished.stderr.contains("sendrecv, "), "{}", finished.stderr);
}

#[test]
fn a_slow_reader_of_a_fifo_gets_every_line() {
    let scratch = Scratch::new();
    let fifo = scratch.file("lines");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("a FIFO");
    let path = fifo.clone();
    let reader = std::thread::spawn(move || {
        let mut file = std::fs::File::open(path).expect("our FIFO");
        let (mut text, mut block) = (Vec::new(), [0; 8192]);
        // Slower than rows come: about a thousand a second of some 700 bytes each.
        while let Ok(read @ 1..) = std::io::Read::read(&mut file, &mut block) {
            text.extend_from_slice(&block[..read]);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        String::from_utf8(text).expect("text")
    });
    let mut command =
        mpps("sendrecv loop: --rate 5kpps --duration 1s --settle 50ms --interval 1ms --quiet --json-lines");
    command.arg(&fifo);
    let finished = run_command(command);
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    let lines = lines(&reader.join().expect("a reader"));
    let events = events(&lines);
    assert_eq!((events.first(), events.last()), (Some(&"start"), Some(&"end")));
    assert_eq!(events.iter().filter(|event| **event == "row").count(), 1000);
}
