//! `compare`: runs in turns, results of earlier runs, settings; what is said of them, and what is refused.

use mpps_tests::{Background, Finished, Scratch, assert_refused, free_port, mpps, run_command, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Short runs that a busy host does not void, and after which nothing is missing that was due.
const RUN: &str = "--rate 10kpps --duration 200ms --settle 100ms --tolerance 100% --catch-up 100ms";

/// A run of a device that loses this share of packets, whatever else the host does.
fn device(loss: &str) -> String {
    format!("sendrecv loop:loss={loss} {RUN}")
}

/// A run of a device that forwards so much of 4 kpps, and holds what is late by 30 ms.
fn limited(capacity: &str) -> String {
    let times = "--duration 500ms --settle 200ms --tolerance 100% --catch-up 100ms";
    format!("sendrecv loop:capacity={capacity},queue=100 --rate 4kpps {times}")
}

/// `compare` of these runs.
fn compare(operands: &[&str], more: &str) -> Command {
    let mut command = mpps("compare");
    command.args(operands).args(more.split_whitespace());
    command
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// Lines of a record behind the first.
fn runs(out: &Path) -> usize {
    let text = std::fs::read_to_string(out.join("trials.jsonl")).unwrap_or_default();
    text.lines().count().saturating_sub(1)
}

fn assert_done(done: &Finished) {
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
}

#[test]
fn the_faster_of_two_devices_is_better_by_as_much_as_it_is() {
    let scratch = Scratch::new();
    let out = scratch.file("results");
    let (a, b) = (limited("2kpps"), limited("3kpps"));
    let more = format!("--metric received_pps --pause 0 --out {}", out.display());
    let mut done = run_command(compare(&[&a, &b], &more));
    // A host that others use may leave it undecided: more rounds are asked for.
    for rounds in [16, 24, 32, 40] {
        if !done.stdout.contains("undecided") && !done.stdout.contains("a little") {
            break;
        }
        done = run_command(compare(&[&a, &b], &format!("{more} --resume --rounds {rounds}")));
    }
    assert_done(&done);
    let said = done
        .stdout
        .lines()
        .find(|line| line.starts_with("B is "))
        .expect("a verdict");
    assert!(said.ends_with("times A in received_pps: better"), "{}", done.stdout);
    assert!(
        done.stdout
            .contains("They differ in ports (loop:capacity=2kpps,queue=100, loop:"),
        "{}",
        done.stdout
    );
    assert!(done.stdout.lines().count() <= 15, "{}", done.stdout);
    let result = json(&out.join("result.json"));
    assert_eq!(mpps_tests::unheaded(&result), Vec::<String>::new());
    assert_eq!(
        (&result["schema"], &result["test"]),
        (&"mpps.test/1".into(), &"compare".into())
    );
    assert_eq!(result["complete"], true, "{result:#}");
    let row = &result["results"][0];
    // Nobody vouches for a busy host; the interval does.
    let (low, ratio, high) = (number(&row["low"]), number(&row["ratio"]), number(&row["high"]));
    assert!(
        (1.25..1.75).contains(&ratio) && low <= 1.52 && 1.4 <= high,
        "{low} {ratio} {high}"
    );
    assert_eq!(row["verdict"], "better");
    // ABBA, and the record is what the result says.
    let order: String = result["trials"]
        .as_array()
        .expect("runs")
        .iter()
        .filter_map(|t| t["variant"].as_str())
        .collect();
    assert!(order.starts_with("ABBAABBA"), "{order}");
    assert_eq!(runs(&out), result["trials"].as_array().map_or(0, Vec::len));
    for name in [
        "verdicts",
        "variants",
        "spread-received-pps",
        "values-received-pps",
        "trials",
    ] {
        let tables = result["tables"].as_array().expect("tables");
        let table = tables
            .iter()
            .find(|table| table["name"] == name)
            .unwrap_or_else(|| panic!("{name}"));
        let columns = table["columns"].as_array().map(Vec::len);
        let rows = table["rows"].as_array().expect("rows");
        assert!(
            !rows.is_empty() && rows.iter().all(|row| row.as_array().map(Vec::len) == columns),
            "{table:#}"
        );
    }
}

#[test]
fn a_run_is_not_better_than_itself() {
    let port = free_port();
    let _reflector = Background::ready(mpps(&format!("reflect udp:127.0.0.1:{port}")));
    let run = format!("sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} {RUN}").replace("10kpps", "2kpps");
    let done = run_command(compare(&[&run, &run], "--pause 0 --metric received_pps"));
    assert_done(&done);
    let said = done
        .stdout
        .lines()
        .find(|line| line.starts_with("B is "))
        .expect("a verdict");
    assert!(
        said.contains(": same") || said.contains(": undecided"),
        "{}",
        done.stdout
    );
    assert!(!done.stdout.contains("They differ"), "{}", done.stdout);
}

#[test]
fn a_setting_that_helps_is_named() {
    let base = "sendrecv loop:capacity=20kpps,queue=4 --rate 40kpps --duration 200ms --settle 100ms --tolerance 100%";
    // The queue holds what arrives late on a busy host, and a fifth of all packets.
    let more = "--pause 0 --settings seed=1|2 --settings queue=4|2000 --quiet";
    let done = run_command(compare(&[base], more));
    assert_done(&done);
    assert!(
        done.stdout
            .contains("option --seed (1, 2) and option queue of the port (4, 2000)"),
        "{}",
        done.stdout
    );
    assert!(done.stdout.contains("queue=2000 is "), "{}", done.stdout);
    let queue = done
        .stdout
        .lines()
        .find(|line| line.starts_with("queue=2000 is "))
        .expect("its effect");
    assert!(
        queue.contains("times queue=4 in received_pps: better (Holm, two comparisons): it helps"),
        "{}",
        done.stdout
    );
    let best = done
        .stdout
        .lines()
        .find(|line| line.starts_with("Best: "))
        .expect("the best");
    assert!(best.contains("queue=2000"), "{}", done.stdout);
    assert!(done.stderr.is_empty(), "{}", done.stderr);
    // Alone it needs no line that says the same again.
    let done = run_command(compare(&[base], "--pause 0 --settings queue=4|2000 --quiet"));
    let told = done.stdout.lines().filter(|line| line.contains("queue=2000 is "));
    assert_eq!(told.count(), 1, "{}", done.stdout);
}

#[test]
fn results_of_earlier_runs_are_compared_and_unlike_ones_refused() {
    let scratch = Scratch::new();
    for (side, capacity) in [("a", "50%"), ("b", "25%")] {
        std::fs::create_dir(scratch.file(side)).expect("a folder");
        for number in 0..6 {
            let file = scratch.file(side).join(format!("{number}.json"));
            let done = run_command(mpps(&format!("{} --quiet --json {}", device(capacity), file.display())));
            assert!(matches!(done.code, Some(0 | 3)), "{}", done.stderr);
            // A busy host's runs are none the worse for this test.
            let text = std::fs::read_to_string(&file).expect("a result");
            std::fs::write(&file, text.replace("\"valid\": false", "\"valid\": true")).expect("writable");
        }
    }
    let (a, b) = (
        scratch.file("a").display().to_string(),
        scratch.file("b").display().to_string(),
    );
    let refused = run_command(compare(&[&a, &b], ""));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("A, B differ in ports (") && refused.stderr.contains("--force"),
        "{}",
        refused.stderr
    );
    let out = scratch.file("results");
    let done = run_command(compare(
        &[&a, &b],
        &format!("--metric received_pps --force --out {}", out.display()),
    ));
    assert_done(&done);
    assert!(
        done.stdout.contains("Not alternated: drift of the host is in it."),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout.contains("times A in received_pps: better"),
        "{}",
        done.stdout
    );
    let result = json(&out.join("result.json"));
    assert!(
        result["title"]
            .as_str()
            .is_some_and(|title| title.contains("not alternated")),
        "{}",
        result["title"]
    );
    // Of few there are values alone.
    let one = |side: &str| scratch.file(side).join("0.json").display().to_string();
    let several = format!("{},{}", one("a"), scratch.file("a").join("1.json").display());
    let done = run_command(compare(&[&several, &one("b")], "--force"));
    assert_done(&done);
    assert!(
        done.stdout.contains("No verdict: 1 result on a side gives values"),
        "{}",
        done.stdout
    );
    assert_refused(
        compare(&[&one("a"), &device("50%")], ""),
        2,
        &["a result of earlier runs beside a run"],
    );
}

#[test]
fn an_interrupted_comparison_tells_what_it_has_and_goes_on() {
    let scratch = Scratch::new();
    let out = scratch.file("results");
    let (a, b) = (device("50%"), device("25%"));
    let more = format!("--pause 0 --metric received_pps --out {}", out.display());
    let running = Background::start(compare(&[&a, &b], &format!("{more} --rounds 100")));
    wait_until("three runs", || runs(&out) >= 3);
    let done = running.end(Signal::INT);
    assert_eq!(done.code, Some(3), "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout.contains("not complete: it was interrupted"),
        "{}",
        done.stdout
    );
    assert_eq!(json(&out.join("result.json"))["incomplete"], "it was interrupted");
    let before = runs(&out);
    let other = run_command(compare(&[&a, &b], &more));
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("--resume to go on"), "{}", other.stderr);
    let other = run_command(compare(&[&b, &a], &format!("{more} --resume")));
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("it is of another comparison"), "{}", other.stderr);
    let done = run_command(compare(&[&a, &b], &format!("{more} --resume --rounds 6")));
    assert!(matches!(done.code, Some(0)), "{}{}", done.stdout, done.stderr);
    assert!(runs(&out) >= 12 && runs(&out) > before);
    assert_eq!(json(&out.join("result.json"))["complete"], true);
}

/// Processes whose parent is this one.
fn children(id: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

#[test]
fn a_run_ends_with_the_comparison_that_was_killed() {
    let run = "sendrecv loop: --rate 1kpps --duration 10m";
    let running = Background::start(compare(&[run, run], "--quiet"));
    let id = running.id();
    let mut child = 0;
    wait_until("a run", || {
        child = children(id).first().copied().unwrap_or(0);
        // Its ports are open once it has more threads than one.
        child > 0 && std::fs::read_dir(format!("/proc/{child}/task")).is_ok_and(|all| all.count() > 1)
    });
    running.end(Signal::KILL);
    let gone = || {
        let status = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        status.is_empty() || status.contains(") Z ")
    };
    wait_until("the end of its run", gone);
}

#[test]
fn what_can_t_be_compared_is_refused_by_name() {
    let scratch = Scratch::new();
    let text = scratch.file("notes.json");
    std::fs::write(&text, "{}").expect("writable");
    let (text, run) = (text.display().to_string(), device("50%"));
    let unlike = format!("{run} --frame-size 128");
    let open = "sendrecv loop: --duration 0";
    for (operands, more, parts) in [
        (vec![run.as_str()], "", vec!["one run alone", "--settings"]),
        (vec![&run, "nonesuch"], "", vec!["'nonesuch'", "no such file"]),
        (
            vec![&run, &text],
            "",
            vec!["notes.json", "neither a plan nor the result"],
        ),
        (
            vec![&run, &unlike],
            "",
            vec!["frame size (64 bytes, 128 bytes)", "--force"],
        ),
        (vec![&run, "send loop:"], "", vec!["workload (sendrecv, send)"]),
        (vec![&run, open], "", vec!["a run without an end", "--duration"]),
        (vec![&run, "sendrecv loop: --csv x"], "", vec!["--csv", "--out DIR"]),
        (vec![&run, &run], "--metric speed", vec!["'speed'", "received_pps"]),
        (vec![&run, &run], "--margin 2", vec!["'2'", "2%"]),
        (vec![&run, &run], "--rounds 0", vec!["'0'", "1 to 200"]),
        (
            vec![&run, &run],
            "--settings queue=1|2",
            vec!["--settings", "2 are given"],
        ),
        (vec![&run], "--settings nonesuch=1|2", vec!["nonesuch=1"]),
        (
            vec![&run],
            "--settings queue=1",
            vec!["'queue=1'", "two or more values"],
        ),
        (vec![&run, &run], "--resume", vec!["--resume", "--out DIR"]),
    ] {
        assert_refused(compare(&operands, more), 2, &parts);
    }
}

#[test]
fn plans_are_run_and_one_that_can_t_be_opened_ends_it() {
    let scratch = Scratch::new();
    let plan = scratch.file("plan.json");
    let printed = run_command(mpps(&format!("{} --print-plan", device("50%"))));
    std::fs::write(&plan, printed.stdout).expect("writable");
    let plan = plan.display().to_string();
    let done = run_command(compare(
        &[&plan, &device("25%")],
        "--pause 0 --rounds 2 --metric received_pps",
    ));
    assert_done(&done);
    assert!(
        done.stdout.contains("2 rounds, too few for a verdict"),
        "{}",
        done.stdout
    );
    let held = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = held.local_addr().expect("an address");
    let busy = format!("drop udp:{address} --duration 1s");
    let done = run_command(compare(&[&busy, &busy], "--quiet"));
    assert_eq!(done.code, Some(1), "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr.contains("A: ") && done.stderr.contains("is held by another program"),
        "{}",
        done.stderr
    );
}

/// The result of a search, as far as it is read.
fn search(path: &Path, test: &str, lower: u64) {
    let found = serde_json::json!({
        "goal": 0, "frame_size_bytes": 64, "lower_pps": lower, "upper_pps": lower + lower / 100, "regular": true,
        "conditional_throughput_pps": lower,
    });
    let mut result = found.clone();
    result["throughput"] = found;
    let result = serde_json::json!({
        "schema": "mpps.test/1", "test": test, "plan": { "ports": ["loop:"] }, "tester": { "kernel": "6" },
        "params": { "goals": [{ "loss_ratio": 0.0 }], "loss_ratio": 0.0 }, "results": [result],
    });
    std::fs::write(path, result.to_string()).expect("a file");
}

#[test]
fn rates_that_were_searched_for_are_compared_as_intervals() {
    let scratch = Scratch::new();
    let (a, b, run) = (scratch.file("a.json"), scratch.file("b.json"), scratch.file("run.json"));
    let out = scratch.file("results");
    for test in ["ndr", "rfc2544"] {
        search(&a, test, 100_000);
        search(&b, test, 150_000);
        let operands = [a.display().to_string(), b.display().to_string()];
        let operands = operands.each_ref().map(String::as_str);
        let out = out.join(test);
        let done = run_command(compare(&operands, &format!("--out {}", out.display())));
        assert_done(&done);
        let better = "loss 0 %, frames of 64 bytes: B is 1.4851 to 1.5150 times A: better";
        assert!(done.stdout.contains(better), "{}", done.stdout);
        let result = json(&out.join("result.json"));
        assert_eq!(result["results"][0]["verdict"], "better", "{result:#}");
        assert_eq!(number(&result["results"][0]["conditional_throughput_ratio"]), 1.5);
        assert!(out.join("report.html").exists());
    }
    // A rate that was measured is none that was searched for.
    std::fs::write(
        &run,
        r#"{"workload": "sendrecv", "valid": true, "plan": {}, "host": {}}"#,
    )
    .expect("a file");
    let operands = [a.display().to_string(), run.display().to_string()];
    let parts = ["run.json", "the result of a run beside that of a search"];
    assert_refused(compare(&operands.each_ref().map(String::as_str), ""), 2, &parts);
    // Searches of two kinds ask for different things.
    search(&a, "ndr", 100_000);
    let operands = [a.display().to_string(), b.display().to_string()];
    let parts = ["workload (ndr, rfc2544)", "--force"];
    assert_refused(compare(&operands.each_ref().map(String::as_str), ""), 2, &parts);
}
