//! Gates: `--expect`, its exit code, and the forms that CI systems and tickets take.

use mpps_tests::{Scratch, assert_refused, mpps, run_command};
use serde_json::Value;

/// A run over `loop:`, and what it was to reach. Departures are never missed, so that it is valid on a busy host.
const RUN: &str = "sendrecv loop:loss=10% --rate 5kpps --duration 400ms --settle 100ms --catch-up 5s";

fn json(scratch: &Scratch) -> Value {
    let text = std::fs::read_to_string(scratch.file("run.json")).expect("the summary");
    serde_json::from_str(&text).expect("JSON")
}

fn run(scratch: &Scratch, words: &[&str]) -> mpps_tests::Finished {
    let mut command = mpps(RUN);
    command.arg("--json").arg(scratch.file("run.json"));
    command.arg("--junit").arg(scratch.file("run.xml"));
    command.arg("--markdown").arg(scratch.file("run.md"));
    words.iter().for_each(|word| {
        command.args(["--expect", word]);
    });
    run_command(command)
}

#[test]
fn what_is_reached_is_exit_code_0_and_what_is_not_is_4_with_the_files_written_before() {
    for (words, code, met) in [
        (["loss<50%", "received>1000"], 0, [true, true]),
        (["loss<0.1%", "received>1000"], 4, [false, true]),
        (["p50>1s", "loss<50%"], 4, [false, true]),
    ] {
        let scratch = Scratch::new();
        let finished = run(&scratch, &words);
        let json = json(&scratch);
        assert_eq!(json["valid"], true, "{json:#}");
        assert_eq!(finished.code, Some(code), "{words:?}: {}", finished.stderr);
        let expectations = json["expectations"].as_array().expect("a list");
        let found: Vec<bool> = expectations.iter().map(|of| of["met"] == true).collect();
        assert_eq!(found, met, "{expectations:?}");
        let xml = std::fs::read_to_string(scratch.file("run.xml")).expect("JUnit");
        let failures = met.iter().filter(|met| !**met).count();
        assert!(xml.contains(&format!("tests=\"3\" failures=\"{failures}\"")), "{xml}");
        let markdown = std::fs::read_to_string(scratch.file("run.md")).expect("Markdown");
        let demand = words[0].replace('<', "\\<");
        assert!(markdown.contains(words[0]) || markdown.contains(&demand), "{markdown}");
        let not_met = finished.stdout.contains("NOT met");
        assert_eq!(not_met, code == 4, "{}", finished.stdout);
    }
}

#[test]
fn a_run_that_is_not_valid_is_3_whatever_it_was_to_reach() {
    let scratch = Scratch::new();
    // No host sends as fast.
    let mut command = mpps("sendrecv loop: --rate 1Gpps --duration 200ms --settle 50ms");
    command.args(["--expect", "loss<0.1%", "--expect", "sent>1Gpps"]);
    command.arg("--junit").arg(scratch.file("run.xml"));
    let finished = run_command(command);
    let xml = std::fs::read_to_string(scratch.file("run.xml")).expect("JUnit");
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert!(xml.contains("errors=\"1\" skipped=\"2\""), "{xml}");
}

#[test]
fn a_run_too_short_for_its_bound_says_so() {
    let words = "sendrecv loop: --rate 1kpps --duration 200ms --settle 50ms --catch-up 5s --expect loss<0.001%";
    let finished = run_command(mpps(words));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let told = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("none lost of 200 packets only shows less than 1.500 %"),
        "{told}"
    );
}

#[test]
fn demands_that_nothing_measures_are_refused_before_anything_is_opened() {
    for (demand, part) in [
        ("speed>1", "'speed' is not measured"),
        ("loss<1ms", "want a ratio"),
        ("loss<0.1", "loss<0.1%, or loss<10% where 0.1 is a part of one"),
        ("loss", "want NAME"),
    ] {
        let mut command = mpps("sendrecv af_packet:mpps-none --dest 10.0.0.2:9000");
        command.args(["--expect", demand]);
        assert_refused(command, 2, &["--expect", part]);
    }
    assert_refused(mpps("ndr loop: --expect loss<1%"), 2, &["--expect", "--goal"]);
}
