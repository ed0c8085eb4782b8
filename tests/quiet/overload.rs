//! `overload`: a device of known rate under up to twice that, what a forwarder on this host says of itself meanwhile,
//! and what is refused.

use mpps_tests::{
    Background, Finished, Scratch, assert_refused, joined_twice, mpps, mpps_first, run_command, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What the device forwards, packets per second, and what its queue adds to that in a trial of 300 ms.
const TRUTH: f64 = 20_000.0;
const QUEUED: f64 = 1_000.0 / 0.3;
/// A busy host's lanes may catch up what they missed.
const TEST: &str = "overload loop:capacity=20kpps,queue=1000 --reference 20kpps --max-rate 60kpps --quick \
                    --trial 300ms --settle 300ms --catch-up 60ms";

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Runs a test to its end; a host that others use may void many trials in a row, and is asked again.
fn to_its_end(command: impl Fn(&str) -> Command) -> Finished {
    let mut done = run_command(command(""));
    for _ in 0..20 {
        if done.code != Some(3) || !done.stdout.contains("this host could not") {
            break;
        }
        done = run_command(command("--resume"));
    }
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    done
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// The cells of a column of a table of the result.
fn cells(result: &Value, table: &str, column: &str) -> Vec<Value> {
    let tables = result["tables"].as_array().expect("tables");
    let table = tables.iter().find(|t| t["name"] == table).expect("the table");
    let columns = table["columns"].as_array().expect("columns");
    let at = columns.iter().position(|c| c["key"] == column).expect("the column");
    let rows = table["rows"].as_array().expect("rows");
    rows.iter().map(|row| row[at].clone()).collect()
}

/// Each trial accounts for each packet that was due.
fn assert_accounted(out: &Path, result: &Value) {
    let text = std::fs::read_to_string(out.join("trials.jsonl")).expect("a record");
    let recorded: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line"))
        .filter(|line| line["trial"].is_u64())
        .collect();
    assert_eq!(result["trials"], Value::from(recorded.clone()));
    for trial in recorded {
        let of = |key: &str| trial[key].as_u64().unwrap_or_else(|| panic!("{key}: {trial:#}"));
        assert_eq!(of("sent"), of("received") + of("lost") + of("late"), "{trial:#}");
        if trial["outcome"] == "counted" {
            assert_eq!(of("due"), of("sent") + of("refused"), "{trial:#}");
            assert_eq!(of("missing"), of("lost") + of("late") + of("refused"), "{trial:#}");
        }
    }
}

#[test]
fn a_device_of_known_rate_forwards_that_much_under_twice_the_load() {
    let scratch = Scratch::new();
    let out = scratch.file("results");
    let done = to_its_end(|more| mpps_first(&format!("{TEST} --quiet --out {} {more}", out.display())));
    assert!(done.stdout.lines().count() <= 25, "{}", done.stdout);
    let result = json(&out.join("result.json"));
    assert_eq!(mpps_tests::unheaded(&result), Vec::<String>::new());
    assert_eq!(
        (&result["test"], &result["complete"]),
        (&"overload".into(), &true.into())
    );
    assert_accounted(&out, &result);
    let found = &result["results"][0];
    for key in ["frmol_pps", "mfr_pps"] {
        let rate = number(&found[key]);
        assert!(
            (0.8 * TRUTH..=1.05 * (TRUTH + QUEUED)).contains(&rate),
            "{key}: {found:#}"
        );
    }
    assert_eq!(number(&found["reference_pps"]), TRUTH);
    assert!(number(&found["mol_pps"]) > 1.9 * TRUTH, "{found:#}");
    assert!(number(&found["mfr_pps"]) >= number(&found["frmol_pps"]), "{found:#}");
    assert!(number(&found["first_loss_ratio"]) > 0.0, "{found:#}");
    let loads = cells(&result, "overload", "load_ratio");
    assert_eq!(loads.len(), 20);
    let loss = cells(&result, "overload", "loss_ratio");
    assert!(loss.iter().all(|ratio| (0.0..1.0).contains(&number(ratio))), "{loss:?}");
    assert!(number(&loss[19]) > 0.3, "twice the rate: {loss:?}");
    for name in [
        "overload.csv",
        "overload.svg",
        "overload-loss.svg",
        "report.html",
        "report.md",
    ] {
        assert!(out.join(name).is_file(), "{name}");
    }
}

#[test]
fn a_test_that_was_killed_goes_on_and_a_cap_is_marked() {
    let scratch = Scratch::new();
    let out = scratch.file("results");
    let capped = TEST.replace("60kpps", "25kpps");
    let running = Background::start(mpps_first(&format!("{capped} --quiet --out {}", out.display())));
    let record = out.join("trials.jsonl");
    let lines = || std::fs::read_to_string(&record).map_or(0, |text| text.lines().count());
    wait_until("five trials", || lines() >= 6);
    running.end(Signal::KILL);
    let before = lines();
    let done = to_its_end(|_| mpps_first(&format!("{capped} --out {} --resume", out.display())));
    assert!(done.stderr.contains("more trials of the record"), "{}", done.stderr);
    assert!(lines() > before);
    let result = json(&out.join("result.json"));
    assert_accounted(&out, &result);
    assert_eq!(result["results"][0]["capped"], true);
    let marks = cells(&result, "overload", "mark");
    // 10, 20 … 120 %, and 130 % that would be too much. A busy host may find that it can send less.
    assert!(marks.len() <= 13, "{marks:?}");
    let last = marks.last().and_then(Value::as_str).unwrap_or_default();
    assert!(last.starts_with("capped: "), "{marks:?}");
}

#[test]
fn a_forwarder_s_rows_are_joined_by_time() {
    let Some(net) = joined_twice() else { return };
    let (scratch, out) = (Scratch::new(), Scratch::new());
    let (lanes, out) = (scratch.file("lanes.csv"), out.file("results"));
    let forwarder = Background::ready(net.b(&format!(
        "forward af_packet:eth1 af_packet:eth2 --on-full drop --lanes-csv {}",
        lanes.display()
    )));
    let rows = || std::fs::read_to_string(&lanes).map_or(0, |text| text.lines().count());
    wait_until("a row of the device", || rows() > 2);
    let test = |more: &str| {
        net.a(&format!(
            "overload af_packet:eth1 af_packet:eth2 --reference 5kpps --max-rate 20kpps --quick --trial 500ms \
             --catch-up 100ms --tolerance 5% --quiet --device {} --out {} {more}",
            lanes.display(),
            out.display()
        ))
    };
    let done = to_its_end(test);
    assert!(done.stdout.contains("device rx"), "{}", done.stdout);
    forwarder.end(Signal::INT);
    let result = json(&out.join("result.json"));
    assert_accounted(&out, &result);
    let of = |table: &str, column: &str| -> Vec<f64> { cells(&result, table, column).iter().map(number).collect() };
    let (oload, rx, tx) = (
        of("overload", "oload_pps"),
        of("overload", "device_rx_pps"),
        of("overload", "device_tx_pps"),
    );
    assert_eq!(oload.len(), 20);
    for ((oload, rx), tx) in oload.iter().zip(&rx).zip(&tx) {
        // Rows of 100 ms lie in the trial where packets do; a busy host's come in bunches.
        assert!((0.3 * oload..3.0 * oload).contains(rx), "{oload} offered, {rx} seen");
        // What came at the end of a row may leave in the next.
        assert!(*tx <= 1.2 * rx, "{tx} of {rx}");
    }
    for column in ["busy_ratio", "empty_poll_share"] {
        assert!(
            of("overload-lanes", column)
                .iter()
                .all(|share| (0.0..=1.0).contains(share)),
            "{column}"
        );
    }
    let (all, some) = (of("overload", "mean_burst_all_polls"), of("overload", "mean_burst"));
    assert!(
        all.iter().zip(&some).all(|(all, some)| all <= some && *some >= 1.0),
        "{all:?} {some:?}"
    );
    for name in [
        "overload-lanes.csv",
        "overload-device.svg",
        "overload-lanes.svg",
        "overload-burst.svg",
    ] {
        assert!(out.join(name).is_file(), "{name}");
    }
}

#[test]
fn what_can_not_be_is_refused_before_anything_is_opened() {
    let scratch = Scratch::new();
    let (rows, none) = (scratch.file("rows.csv"), scratch.file("none.csv"));
    std::fs::write(&rows, "time_s,tx_packets\n").expect("a file");
    std::fs::write(&none, "a,b\n").expect("a file");
    for (words, parts) in [
        ("--trial 10ms".to_owned(), &["--trial 10ms", "want 100ms to 1h"][..]),
        ("--reference 10%".to_owned(), &["--reference 10%", "want"]),
        ("--rounds 0".to_owned(), &["--rounds"]),
        ("--rate 1kpps".to_owned(), &["--rate", "--max-rate"]),
        ("--lanes-csv x.csv".to_owned(), &["--lanes-csv", "--out DIR"]),
        ("--resume".to_owned(), &["--resume", "--out"]),
        (
            "--device /nonexistent/x".to_owned(),
            &["--device /nonexistent/x", "--lanes-csv"],
        ),
        ("--device /".to_owned(), &["--device /", "no regular file"]),
        (
            format!("--device {}", rows.display()),
            &["--device", "(--csv)", "--lanes-csv"],
        ),
        (
            format!("--device {}", none.display()),
            &["--device", "no column start_utc_ns"],
        ),
    ] {
        assert_refused(mpps(&format!("overload loop: {words}")), 2, parts);
    }
}

#[test]
fn a_device_that_loses_nothing_forwards_that_much_or_more() {
    for (more, capped) in [("--max-rate 60kpps", false), ("--max-rate 3kpps", true)] {
        let scratch = Scratch::new();
        let out = scratch.file("results");
        let line = format!(
            "overload loop: --reference 2kpps {more} --quick --trial 100ms --settle 300ms --catch-up 60ms --quiet \
             --expect mfr>1kpps --expect frmol>1kpps"
        );
        let mut done = run_command(mpps_first(&format!("{line} --out {}", out.display())));
        for _ in 0..20 {
            if done.code != Some(3) {
                break;
            }
            done = run_command(mpps_first(&format!("{line} --out {} --resume", out.display())));
        }
        // FRMOL is not known, and meets nothing.
        assert_eq!(done.code, Some(4), "{}{}", done.stdout, done.stderr);
        for part in [
            "pps or more: nothing was lost at any load",
            "FRMOL is not known: the highest load, ",
            "expected, met: mfr>1kpps: ",
            "expected, NOT met: frmol>1kpps: not found",
        ] {
            assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
        }
        assert_eq!(
            done.stdout.contains("--max-rate allows no more"),
            capped,
            "{}",
            done.stdout
        );
        let found = &json(&out.join("result.json"))["results"][0];
        assert_eq!(found["limit_reached"], false, "{found:#}");
        assert!(
            found["collapses"].is_null() && found["frmol_by_mfr"].is_null(),
            "{found:#}"
        );
    }
}
