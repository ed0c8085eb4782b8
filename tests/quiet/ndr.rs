//! `ndr`: searches on a device of known rate, what becomes of them when they are broken off, and what they refuse.

use mpps_tests::{
    Background, Finished, Scratch, assert_refused, mpps, mpps_first, run_command, skip_disturbed, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;

/// What the device forwards, packets per second.
const TRUTH: f64 = 20_000.0;
/// A search of some seconds. The queue has room for what a lane on a busy host makes up for at once: 5 ms at 40 kpps.
const SEARCH: &str = "ndr loop:capacity=20kpps,queue=200 --max-rate 40kpps --catch-up 5ms --settle 300ms \
                      --goal loss=0,initial=100ms,final=100ms,sum=500ms,width=2%";
/// What a trial of 100 ms can be above the limit without loss, as the queue takes it: 200 packets.
const QUEUED: f64 = 2_000.0;

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Runs a search to its end, with its results in `out`.
fn search(out: &Path, more: &str) -> Finished {
    let mut done = run_command(mpps_first(&format!("{SEARCH} --out {} {more}", out.display())));
    // A host that others use may void three trials in a row: it is asked again.
    for _ in 0..20 {
        if done.code != Some(3) || !done.stdout.contains("this host could not") {
            break;
        }
        done = run_command(mpps_first(&format!("{SEARCH} --out {} --resume", out.display())));
    }
    done
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// The record's trials.
fn trials(out: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(out.join("trials.jsonl")).expect("a record");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    lines.filter(|line: &Value| line.get("trial").is_some()).collect()
}

/// A trial without its number, which in the record is that of its line.
fn unnumbered(trial: &Value) -> Value {
    let mut trial = trial.clone();
    trial.as_object_mut().expect("an object").remove("trial");
    trial
}

/// The result says where the device's limit is, and its trials bear it out.
fn assert_found(out: &Path, done: &Finished) {
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let result = json(&out.join("result.json"));
    assert_eq!(mpps_tests::unheaded(&result), Vec::<String>::new());
    assert_eq!(result["schema"], "mpps.test/1");
    assert_eq!(result["complete"], true, "{result:#}");
    let found = &result["results"][0];
    let (lower, upper) = (number(&found["lower_pps"]), number(&found["upper_pps"]));
    assert!(
        lower <= TRUTH + QUEUED && TRUTH <= upper,
        "{lower} to {upper}: {result:#}"
    );
    assert!((upper - lower) / upper <= 0.0201, "{lower} to {upper}");
    assert_eq!(found["regular"], true);
    let recorded = trials(out);
    let told = result["trials"].as_array().expect("trials");
    if told.len() == recorded.len() {
        assert_eq!(told, &recorded, "the record and the result");
    }
    // Where a busy host ended the command before, the search began again above what that one had gone down to: the
    // record has trials that were not asked for again.
    let mut record: Vec<Value> = recorded.iter().map(unnumbered).collect();
    for trial in told.iter().map(unnumbered) {
        let place = record.iter().position(|there| *there == trial);
        record.swap_remove(place.unwrap_or_else(|| panic!("not in the record: {trial:#}")));
    }
    for trial in &recorded {
        let of = |key: &str| trial[key].as_u64().unwrap_or_else(|| panic!("{key}: {trial:#}"));
        assert_eq!(of("sent"), of("received") + of("lost") + of("late"), "{trial:#}");
        if trial["outcome"] == "counted" {
            assert_eq!(of("due"), of("sent") + of("refused"), "{trial:#}");
            assert_eq!(of("missing"), of("lost") + of("late") + of("refused"), "{trial:#}");
        }
    }
    let lossless = |load: f64| {
        let there = told
            .iter()
            .filter(|trial| trial["outcome"] == "counted" && number(&trial["load_pps"]) == load);
        let (all, good) = there.fold((0, 0), |(all, good), trial| {
            (all + 1, good + i32::from(trial["missing"] == 0))
        });
        (all, good)
    };
    // Of five trials three decide.
    let (_, good) = lossless(lower);
    assert!(good >= 3, "{good} good trials at {lower}");
    let (all, good) = lossless(upper);
    assert!(all - good >= 3, "{all} trials at {upper}, {good} of them good");
    let report = std::fs::read_to_string(out.join("report.md")).expect("a report");
    for part in ["RFC 9971", "## Deviations", "trials.csv"] {
        assert!(report.contains(part), "{part}: {report}");
    }
}

#[test]
fn the_limit_of_a_device_lies_between_the_bounds_and_its_trials_are_recorded() {
    let scratch = Scratch::new();
    let out = scratch.file("results");
    let done = search(&out, "");
    assert_found(&out, &done);
    assert!(done.stdout.contains("loss   0 %"), "{}", done.stdout);
    assert!(done.stderr.contains("bytes: between"), "{}", done.stderr);
}

#[test]
fn a_search_that_was_killed_goes_on_after_its_last_trial() {
    let scratch = Scratch::new();
    let out = scratch.file("results");
    let running = Background::start(mpps_first(&format!("{SEARCH} --out {}", out.display())));
    let record = out.join("trials.jsonl");
    let lines = || std::fs::read_to_string(&record).map_or(0, |text| text.lines().count());
    wait_until("four trials", || lines() >= 6);
    running.end(Signal::KILL);
    // A line that was cut off is left out.
    let before = lines() - 2;
    let text = std::fs::read_to_string(&record).expect("a record");
    std::fs::write(&record, format!("{text}{{\"trial\":")).expect("writable");
    let again = search(&out, "");
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert!(again.stderr.contains("--resume to go on"), "{}", again.stderr);
    let other = run_command(mpps_first(&format!(
        "{SEARCH} --seed 9 --resume --out {}",
        out.display()
    )));
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("its plan.seed is another"), "{}", other.stderr);
    let done = run_command(mpps_first(&format!("{SEARCH} --out {} --resume", out.display())));
    assert!(
        done.stderr.contains(&format!("going on after {before} trials")),
        "{}",
        done.stderr
    );
    assert_found(&out, &search(&out, "--resume"));
}

#[test]
fn a_search_that_is_interrupted_says_what_it_knows() {
    let scratch = Scratch::new();
    let out = scratch.file("results");
    let running = Background::start(mpps_first(&format!("{SEARCH} --out {}", out.display())));
    wait_until("a trial", || {
        std::fs::read_to_string(out.join("trials.jsonl")).is_ok_and(|t| t.lines().count() > 2)
    });
    let done = running.end(Signal::INT);
    assert_eq!(done.code, Some(3), "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout.contains("not complete: it was interrupted"),
        "{}",
        done.stdout
    );
    assert_eq!(json(&out.join("result.json"))["complete"], false);
}

#[test]
fn a_device_faster_than_the_highest_rate_is_at_least_that_fast() {
    let scratch = Scratch::new();
    let out = scratch.file("results");
    let line = SEARCH.replace("40kpps", "10kpps");
    let done = run_command(mpps_first(&format!("{line} --out {}", out.display())));
    if done.code == Some(3) && done.stdout.contains("this host could not") {
        return skip_disturbed("10 kpps did not leave at their times");
    }
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    // A busy host finds that it can send less than that at given times.
    assert!(done.stdout.contains(" pps or more"), "{}", done.stdout);
    let result = json(&out.join("result.json"));
    assert_eq!(result["results"][0]["at_max"], true, "{result:#}");
    // A busy host may be disturbed at the highest rate only.
    let limited_by = result["results"][0]["limited_by"].as_str();
    assert!(
        matches!(limited_by, Some("max_rate" | "generator" | "host")),
        "{result:#}"
    );
    assert_eq!(
        result["results"][0]["lower_pps"], result["results"][0]["max_load_pps"],
        "{result:#}"
    );
}

#[test]
fn what_a_search_chooses_itself_or_cannot_do_is_refused() {
    let loop_line = "ndr loop:";
    for (words, parts) in [
        ("--rate 1kpps", &["--rate", "the method chooses it"][..]),
        ("--duration 1s", &["--duration", "see its --help"]),
        ("--csv x.csv", &["--csv", "--out DIR"]),
        ("--json x.json", &["--json", "--out DIR"]),
        ("--junit -", &["--junit", "want a file"]),
        (
            "--junit /nonexistent/x.xml",
            &["--junit", "/nonexistent/x.xml", "want a file that can be written"],
        ),
        ("--print-plan", &["--print-plan", "sendrecv"]),
        ("--search-time 0", &["--search-time", "above 0"]),
        ("--goal loss=2", &["--goal", "loss=2"]),
        ("--goal speed=1", &["--goal", "speed=: want loss"]),
        (
            "--max-rate 1kpps --min-rate 2kpps",
            &["--min-rate", "2000 pps is not below --max-rate, 1000 pps"],
        ),
        ("--max-rate 50%", &["--max-rate 50%", "does not tell its link speed"]),
        ("--resume", &["--resume", "--out"]),
        ("--expect loss<1%", &["--expect 'loss<1%'", "a demand on ndr, pdr"]),
        (
            "--goal loss=0 --expect pdr>1kpps",
            &["--expect 'pdr>1kpps'", "loss=0.5%"],
        ),
        ("--goal loss=1% --expect ndr>1kpps", &["--expect 'ndr>1kpps'", "loss=0"]),
        ("--expect ndr>5", &["--expect", "a rate such as 1Mpps"]),
        (
            "--expect throughput>5kpps",
            &["--expect 'throughput>5kpps'", "ndr, pdr"],
        ),
        ("--goal loss=0.5", &["--goal", "want its unit: 0.5%, or 50%"]),
        ("--goal loss=0.1,width=1%", &["--goal", "want its unit: 0.1%, or 10%"]),
        (
            "--goal csit,exceed=0.25",
            &["--goal", "exceed=0.25: want its unit: 0.25%"],
        ),
        ("--min-rate 2", &["--min-rate '2'", "the unit is missing"]),
        ("--resume --out /nonexistent/x", &["--resume", "holds no trials.jsonl"]),
    ] {
        assert_refused(mpps(&format!("{loop_line} {words}")), 2, parts);
    }
}

#[test]
fn a_search_that_the_host_bounds_says_so_first_and_names_who_had_the_core() {
    if !rustix::process::geteuid().is_root() {
        return mpps_tests::skip("only root can have a program that a lane does not displace");
    }
    let spinner = mpps_tests::spinner(0);
    let scratch = Scratch::new();
    let out = scratch.file("results");
    // The disturbance is there at lower rates as well: it does not depend on the rate, which stays what it was.
    let goal = "--goal loss=0,initial=200ms,final=200ms,sum=800ms,width=20%";
    let words = format!("ndr loop: --cores 0 --busy-poll --max-rate 100kpps --settle 50ms {goal}");
    let done = run_command(mpps(&format!("{words} --out {}", out.display())));
    drop(spinner);
    assert_eq!(done.code, Some(3), "{}{}", done.stdout, done.stderr);
    let first = done.stdout.lines().next().unwrap_or_default();
    assert!(first.starts_with("this host could "), "{}", done.stdout);
    // Another test's shell may be told with it: threads of one name are one.
    let named = |text: &str| text.contains("sh (") && text.contains(" ran for ");
    assert!(named(first), "{}", done.stdout);
    // No rate of the device's.
    assert!(!done.stdout.contains(" pps or more"), "{}", done.stdout);
    let void = done.stderr.lines().find(|line| line.contains(": void: "));
    assert!(void.is_some_and(named), "{}", done.stderr);
    let result = json(&out.join("result.json"));
    assert_eq!(result["complete"], false, "{result:#}");
    let lowest = trials(&out)
        .iter()
        .map(|trial| number(&trial["load_pps"]))
        .fold(f64::INFINITY, f64::min);
    assert!(lowest >= 50_000.0, "{lowest}");
    assert_eq!(result["results"][0]["max_load_pps"], 100_000, "{result:#}");
    // The counts of void trials are kept.
    let csv = std::fs::read_to_string(out.join("trials.csv")).expect("a table");
    let mut lines = csv.lines();
    let head: Vec<_> = lines.next().expect("a head").split(',').collect();
    let of = |line: &str, key: &str| {
        let at = head
            .iter()
            .position(|name| *name == key)
            .unwrap_or_else(|| panic!("{key}: {head:?}"));
        line.split(',').nth(at).and_then(|cell| cell.parse::<u64>().ok())
    };
    let void: Vec<_> = lines.filter(|line| line.contains("void: ")).collect();
    assert!(!void.is_empty(), "{csv}");
    for line in void {
        let [sent, received, lost, missed] = ["sent", "received", "lost", "missed"].map(|key| of(line, key));
        let [sent, received, lost, missed] = [sent, received, lost, missed].map(|n| n.expect("a count"));
        assert_eq!(
            Some(sent),
            Some(received + lost + of(line, "late").unwrap_or(0)),
            "{line}"
        );
        assert!(missed > 0, "{line}");
    }
}

#[test]
fn a_search_on_a_disturbed_host_ends_when_its_time_is_up() {
    if !rustix::process::geteuid().is_root() {
        return mpps_tests::skip("only root can have a program that a lane does not displace");
    }
    let spinner = mpps_tests::spinner(0);
    let scratch = Scratch::new();
    let out = scratch.file("results");
    // Three void trials and the waits after them are longer.
    let goal = "--goal loss=0,initial=500ms,final=500ms,sum=2s,width=5% --search-time 1s";
    let words = format!("ndr loop: --cores 0 --busy-poll --max-rate 100kpps --settle 50ms {goal}");
    let done = run_command(mpps(&format!("{words} --out {}", out.display())));
    drop(spinner);
    assert_eq!(done.code, Some(3), "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("its time was up"), "{}", done.stdout);
    let searched = trials(&out).iter().filter(|trial| trial["phase"] == "search").count();
    assert!(searched <= 3, "{searched} trials of 500 ms in 1 s");
}

#[test]
fn a_gate_on_what_a_search_finds_is_exit_code_4_where_it_is_not_met() {
    for (expect, code, told) in [
        ("ndr>1kpps", 0, "expected, met: ndr>1kpps: "),
        ("ndr>1Mpps", 4, "expected, NOT met: ndr>1Mpps: "),
        // Layer 1: 20 kpps of 64 bytes are 13.4 Mbps.
        ("ndr>=5Mbps", 0, "expected, met: ndr>=5Mbps: "),
    ] {
        let scratch = Scratch::new();
        let out = scratch.file("results");
        let junit = scratch.file("junit.xml");
        let done = search(&out, &format!("--quiet --expect {expect} --junit {}", junit.display()));
        let junit = std::fs::read_to_string(&junit).expect("a file of --junit");
        assert_eq!(std::fs::read_to_string(out.join("junit.xml")).expect("the same"), junit);
        let counts = match code {
            _ if done.code == Some(3) => "failures=\"0\" errors=\"1\" skipped=\"1\"",
            0 => "failures=\"0\" errors=\"0\" skipped=\"0\"",
            _ => "failures=\"1\" errors=\"0\" skipped=\"0\"",
        };
        assert!(junit.contains(&format!("tests=\"2\" {counts}")), "{junit}");
        if done.code == Some(3) {
            assert!(done.stdout.contains("expected, "), "{}", done.stdout);
            skip_disturbed(&format!("a search was not valid: {expect}"));
            continue;
        }
        assert_eq!(done.code, Some(code), "{expect}: {}{}", done.stdout, done.stderr);
        assert!(done.stdout.contains(told), "{expect}: {}", done.stdout);
        let first = done.stdout.lines().next().unwrap_or_default();
        assert!(first.starts_with("highest rate without loss: "), "{first}");
        let report = std::fs::read_to_string(out.join("report.md")).expect("a report");
        assert!(report.contains("**Highest rate without loss: "), "{report}");
        assert!(report.contains("must reach (--expect)"), "{report}");
    }
}

#[test]
fn a_record_of_another_host_or_with_numbers_that_contradict_each_other_is_not_gone_on_with() {
    let scratch = Scratch::new();
    let out = scratch.file("results");
    let running = Background::start(mpps_first(&format!("{SEARCH} --out {}", out.display())));
    let record = out.join("trials.jsonl");
    wait_until("a trial", || {
        std::fs::read_to_string(&record)
            .is_ok_and(|text| text.lines().filter(|line| line.contains("\"trial\"")).count() > 1)
    });
    running.end(Signal::KILL);
    let whole = std::fs::read_to_string(&record).expect("a record");
    let whole = whole[..=whole.rfind('\n').expect("a line")].to_owned();
    let mut first: Value = serde_json::from_str(whole.lines().next().expect("a line")).expect("JSON");
    let resumed = |text: &str| {
        std::fs::write(&record, text).expect("writable");
        run_command(mpps_first(&format!("{SEARCH} --resume --out {}", out.display())))
    };
    let rest = whole.split_once('\n').expect("lines").1;
    for (key, name) in [("host", "host"), ("kernel", "kernel"), ("version", "mpps")] {
        let mut other = first.clone();
        other["measured_on"][key] = "elsewhere".into();
        let refused = resumed(&format!("{other}\n{rest}"));
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        let told = format!("it was begun on another {name}, elsewhere");
        assert!(refused.stderr.contains(&told), "{}", refused.stderr);
    }
    first.as_object_mut().expect("an object").remove("measured_on");
    assert!(
        resumed(&format!("{first}\n{rest}"))
            .stderr
            .contains("did not note where it was")
    );
    let line = rest.lines().find(|line| line.contains("\"phase\"")).expect("a trial");
    let mut trial: Value = serde_json::from_str(line).expect("JSON");
    (trial["sent"], trial["received"], trial["lost"]) = (0.into(), 0.into(), 4001.into());
    let refused = resumed(&whole.replace(line, &trial.to_string()));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    for part in ["contradict each other", "4,001 lost", "of 0 sent"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}
